"""What the process that judged a shard has counted, so that merging need not read each score again.

Merging is what N processes wait for at the end, and reading takes most of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textassay.runtime.errors import StorageError
from textassay.runtime.storage.files import open_regular
from textassay.runtime.storage.journal import count_lines, ends_with_line_break
from textassay.runtime.storage.run_files import SCORES
from textassay.runtime.storage.run_folder import RunFolder

BLOCK = 1 << 20


@dataclass(frozen=True)
class CountedScores:
    """The scores of a run that its writer has counted and written."""

    size: int
    """Bytes of the file."""
    counts: Mapping[str, Any]
    """`RunSummary.counts` of them."""

    @classmethod
    def of(cls, folder: RunFolder) -> CountedScores:
        """Return what is known of a run whose folder was just closed.

        Raises:
            StorageError: Its scores cannot be found.
        """
        path = folder.path / SCORES
        try:
            return cls(path.stat().st_size, folder.tally.counts())
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error}") from error

    def cover(self, folder: Path, expected: int | None) -> bool:
        """Return whether the file is as it was counted: one line for each expected pair."""
        path = folder / SCORES
        return (
            self.counts["pairs"] == expected
            and path.stat().st_size == self.size
            and count_lines(path) == expected
            # a torn line would end up in the middle of the merged file
            and ends_with_line_break(path)
        )


def blocks_of(folder: Path) -> Iterator[bytes]:
    """Iterate over the bytes of a run's scores.

    Raises:
        OSError: They cannot be read.
    """
    with os.fdopen(open_regular(folder / SCORES, os.O_RDONLY), "rb") as file:
        yield from iter(lambda: file.read(BLOCK), b"")
