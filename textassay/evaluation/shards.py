"""Shards: parts of a data set that any scheduler scores separately and that merge into one run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.runtime.storage.run_files import MANIFEST

MAX_SHARDS = 10_000


@dataclass(frozen=True, order=True)
class Shard:
    """The `number`-th of `count` parts, counted from 1; written `number/count`."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `I/N`.

        Raises:
            ConfigurationError: It is not two whole numbers with 1 <= I <= N.
        """
        match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text)
        shard = cls(int(match[1]), int(match[2])) if match else None
        if shard is None or not 1 <= shard.number <= shard.count <= MAX_SHARDS:
            raise ConfigurationError(
                f"a shard must be I/N with I from 1 to N, such as 1/4, and N at most {MAX_SHARDS}; "
                f"not {text!r}"
            )
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def bounds(self, total: int) -> tuple[int, int]:
        """Return the first example of the shard, from 0, and the one after its last.

        A shard is a run of neighbors: texts of one source mostly stand together, and their prompts
        share a prefix that servers keep.
        """
        return (
            # integer arithmetic: the end of one shard is exactly the start of the next, for any
            # count
            total * (self.number - 1) // self.count,
            total * self.number // self.count,
        )


class DataShard:
    """Some neighboring examples of a data set, as often as they are iterated."""

    def __init__(self, examples: Examples, start: int, stop: int) -> None:
        """Take examples from `start`, counted from 0, to before `stop`."""
        self._examples, self._start, self._stop = examples, start, stop

    def __iter__(self) -> Iterator[Example]:
        return self._examples.part(self._start, self._stop)


def part_of(
    examples: Examples, count: int, *, limit: int | None, shard: str | None
) -> tuple[Iterable[Example], int]:
    """Return the examples that a run judges, and how many they are.

    Args:
        examples: All of the data.
        count: Their number.
        limit: Maximum number of examples; `None` for all.
        shard: Of those, only this part; `None` for all.
    """
    start, stop = bounds_of(count, limit=limit, shard=shard)
    return (examples if stop - start == count else DataShard(examples, start, stop)), stop - start


def bounds_of(count: int, *, limit: int | None, shard: str | None) -> tuple[int, int]:
    """Return the first example that a run judges, from 0, and the one after its last."""
    judged = count if limit is None else min(count, limit)
    return (0, judged) if shard is None else Shard.parse(shard).bounds(judged)


def shard_folders(run: Path) -> list[Path]:
    """Return the folders `shard-*` of a run that hold one, in no order."""
    return [manifest.parent for manifest in run.glob(f"shard-*/{MANIFEST}")]


def is_divided(run: Path) -> bool:
    """Return whether a folder holds shards that were not merged yet."""
    return not (run / MANIFEST).exists() and bool(shard_folders(run))
