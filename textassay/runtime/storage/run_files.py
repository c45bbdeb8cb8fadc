"""Reads the files of a run folder: manifest, lines of scores.jsonl, and their summary."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from math import fsum, nan
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from textassay.runtime.base import Outcome, Usage, UsageTotal
from textassay.runtime.data.cells import to_json_value
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError
from textassay.runtime.messages import Example, Score
from textassay.runtime.storage.files import (
    decode,
    encode,
    read_regular,
    storage_errors,
    write_bytes,
)
from textassay.runtime.storage.journal import parse_row, read_lines

FORMAT = 1
MANIFEST, SCORES, SUMMARY, ANSWERS = "manifest.json", "scores.jsonl", "summary.json", "answers"
BATCHES = "batches.jsonl"
ROWS = "rows.jsonl"
"""The judged rows of a run whose data came from memory."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_Unscored = tuple[Outcome, str]


class ScoreLine(NamedTuple):
    """A line of `scores.jsonl`, without the line break, and its content."""

    line: bytes
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, line: bytes) -> ScoreLine:
        """Return a line of `score_row`, whose fields need no check."""
        return cls(line, decode(line))


def score_row(score: Score) -> bytes:
    """Return a score as one line of `scores.jsonl`, without the line break."""
    fields = vars(score).copy()
    usage = fields["usage"]
    if isinstance(usage, Usage):
        fields["usage"] = vars(usage)  # faster than `as_json`
    # only calibrated scores have these
    if fields["outside"] is fields["calibrated"] is fields["low"] is fields["high"] is None:
        del fields["calibrated"], fields["low"], fields["high"], fields["outside"]
    if not fields["text_digest"]:
        del fields["text_digest"]
    return encode(fields, default=as_json)


def as_json(value: Any) -> Any:
    """Return the JSON value of a part of a score, or raise `TypeError`."""
    return (
        value.model_dump(warnings=False) if isinstance(value, BaseModel) else to_json_value(value)
    )


def keep_rows(folder: Path, examples: Iterable[Example]) -> None:
    """Write the examples of a run whose data came from memory into its folder, as a data set.

    Raises:
        StorageError: The file cannot be written.
    """
    rows = (
        {
            name: value
            for name, value in vars(example).items()
            if name in ("id", "output") or value not in (None, (), {})
        }
        for example in examples
    )
    with storage_errors(f"{folder / ROWS} cannot be written"):
        write_bytes(folder / ROWS, b"".join(encode(row, default=as_json) + b"\n" for row in rows))


def kept_rows(folder: Path) -> Path | None:
    """Return a run's file of rows; `None` without one."""
    path = folder / ROWS
    return path if path.is_file() else None


def check_present(path: str | Path, argument: str = "data= or human=") -> None:
    """Raise an error that names the argument for moved data if the run's data are gone."""
    if not Path(path).exists():
        raise ConfigurationError(
            f"the run's data are no longer at {str(path)!r}; give the file that was judged"
            f" ({argument} in the help of the command)"
        )


def read_manifest(folder: str | Path) -> dict[str, Any]:
    return _read_json(Path(folder), MANIFEST)


def lower_is_better(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the aspects of a run on which a low score is good, by its manifest."""
    return frozenset(name for name, rises in higher_is_better(manifest).items() if not rises)


def higher_is_better(manifest: Mapping[str, Any]) -> dict[str, bool]:
    """Return by aspect whether a high score of a run is good, by its manifest."""
    described = manifest.get("method")
    aspects = described.get("aspects") if isinstance(described, Mapping) else None
    return {
        str(aspect.get("name")): bool(aspect.get("higher_is_better", True))
        for aspect in aspects or ()
        if isinstance(aspect, Mapping)
    }


def read_summary(folder: str | Path) -> dict[str, Any]:
    """Return the summary of a run as it was last written."""
    return _read_json(Path(folder), SUMMARY)


def latest_scores(folder: str | Path) -> Iterator[Score]:
    """Iterate over a run's scores, the last one per example and aspect, in the file's order.

    The file is read twice, and may grow meanwhile: lines after the first reading are left out.

    Raises:
        RunFolderError: The folder is not a run.
    """
    if not (Path(folder) / SCORES).exists():  # a run has no such file before its first score
        read_manifest(folder)
    return (score for score, _, is_last in read_journal_lines(folder) if is_last)


def read_journal_lines(folder: str | Path) -> Iterator[tuple[Score, bytes, bool]]:
    """Iterate over a run's scores, each with its line and whether it is the last for its pair."""
    path = Path(folder) / SCORES
    last: dict[bytes, int] = {}
    replaced: set[int] = set()
    end = 0
    for number, line in lines_of(path):
        # read as JSON only; it is validated as a score when it is yielded
        row = parse_row(path, number, line)
        end, key = number, pair_digest(str(row.get("id")), str(row.get("aspect")))
        earlier = last.get(key)
        # Numbers of replaced lines rather than offsets of the last, as most runs have no replaced
        # lines.
        if earlier is not None:
            replaced.add(earlier)
        last[key] = number
    last.clear()
    for number, line in lines_of(path):
        if number > end:
            return
        yield parse_score(path, number, line), line, number not in replaced


def summarize_journal(folder: Path) -> RunSummary:
    """Return the summary of a run's scores."""
    tally, path = RunSummary(), folder / SCORES
    for number, line in lines_of(path):
        tally.add(parse_score(path, number, line))
    return tally


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over a run's lines; a run that was killed before its first score has no lines."""
    return read_lines(path) if path.exists() else iter(())


def parse_score(path: Path, number: int, line: bytes) -> Score:
    """Return the score on a line of `scores.jsonl`."""
    try:
        return Score.model_validate(parse_row(path, number, line))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "the row"
        raise DataError(f"{path}:{number}: {field}: {first['msg']}") from error


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    try:
        value = decode(read_regular(path))
    except FileNotFoundError as error:
        hint = (
            f", but shards of one: `textassay resume {folder}` finishes and merges them, and "
            f"`textassay merge --partial {folder}` merges the existing ones"
        )
        note = hint if any(folder.glob(f"shard-*/{MANIFEST}")) else ""
        raise RunFolderError(f"{folder} contains no run: it has no {name}{note}") from error
    except NotADirectoryError as error:
        raise RunFolderError(f"{folder} is a file; give the folder of a run") from error
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    number = value.get("format") if isinstance(value, dict) else None
    if number != FORMAT:
        raise RunFolderError(
            f"{path} has format {number!r}, and this version of textassay reads {FORMAT}; "
            "a run is read by the version that made it or a later one"
        )
    return dict(value)


def token_details(usage: Mapping[str, Any]) -> str:
    """Return the cached tokens of a summary's usage, in brackets; empty without any."""
    details = {
        "reasoning_tokens": "of thoughts",
        "cached_prompt_tokens": "from the provider's cache",
        "cache_write_tokens": "written to it",
    }
    parts = [f"{usage[name]:,} {words}" for name, words in details.items() if usage[name]]
    return f" ({', '.join(parts)})" if parts else ""


class RunSummary:
    """Counts and means over scores as they come; some 150 bytes per score if they are remembered.

    A later score of the same example and aspect replaces the earlier one, but both count as cost.
    """

    def __init__(self, *, remember: bool = True) -> None:
        self.remember = remember
        """Whether a later score can replace an earlier one. A first session, in which no pair comes
        twice, need not remember any, and its memory stays nearly flat."""
        self._last: dict[bytes, int | _Unscored] = {}
        """Index of each pair's value in `_values`, or the reason why it has no value."""
        self._kinds: dict[_Unscored, _Unscored] = {}
        self._unscored: Counter[_Unscored] = Counter()
        self._scored: Counter[str] = Counter()
        self._values: dict[str, array[float]] = {}
        """Values by aspect; NaN in place of replaced ones."""
        self._paid = UsageTotal()
        self._costs = array("d")

    def add(self, score: Score) -> None:
        """Count a score, in place of an earlier one of the same example and aspect."""
        error = score.error.type if score.error else ""
        self._count(score.id, score.aspect, score.value, (score.outcome, error))
        self.pay(score.usage)

    def add_line(self, fields: Mapping[str, Any]) -> None:
        """Count a score as its line has it."""
        error = fields["error"]
        kind = (fields["outcome"], error["type"] if error else "")
        self._count(fields["id"], fields["aspect"], fields["value"], kind)
        self.pay(UsageTotal.read(fields["usage"]))

    def _count(self, example_id: str, aspect: str, value: float | None, kind: _Unscored) -> None:
        if aspect not in self._values:
            self._values[aspect] = array("d")
        values = self._values[aspect]
        entry: int | _Unscored
        if value is not None:
            entry = len(values)
            values.append(value)
            self._scored[aspect] += 1
        else:
            # one shared tuple for each kind, to save memory with many failed scores
            entry = self._kinds.setdefault(kind, kind)
            self._unscored[entry] += 1
        if self.remember:
            key = pair_digest(example_id, aspect)
            self._take_back(aspect, self._last.get(key))
            self._last[key] = entry

    def pay(self, usage: Usage | UsageTotal) -> None:
        """Add to the cost of all scores, even for a score that is not counted."""
        self._paid.add(usage)
        if usage.cost:
            self._costs.append(usage.cost)

    def has(self, example_id: str, aspect: str) -> bool:
        """Return whether this example and aspect has a score whose outcome is not `error`."""
        last = self._last.get(pair_digest(example_id, aspect))
        return last is not None and (not isinstance(last, tuple) or last[0] != "error")

    def __len__(self) -> int:
        """Return the number of pairs of example and aspect."""
        return len(self._last)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        """Return whether there is any score of this example and aspect."""
        return pair_digest(*pair) in self._last

    @property
    def pairs(self) -> int:
        """Pairs of example and aspect that are counted."""
        return self._scored.total() + self._unscored.total()

    @property
    def usage(self) -> Usage:
        """Cost of all scores, including replaced ones."""
        paid = self._paid.usage
        # one unknown cost makes the sum unknown, since a partial sum would be misread
        return paid if paid.cost is None else paid.model_copy(update={"cost": fsum(self._costs)})

    def summary(self, without_mean: Collection[str] = ()) -> dict[str, Any]:
        """Return the content of `summary.json`: outcomes, errors, means per aspect, and usage."""
        outcomes = Counter({"scored": self._scored.total()})
        errors: Counter[str] = Counter()
        for (outcome, error), count in self._unscored.items():
            outcomes[outcome] += count
            errors[error] += count
        return {
            "outcomes": {outcome: outcomes[outcome] for outcome in OUTCOMES},
            "errors": {error: count for error, count in sorted(errors.items()) if count},
            "aspects": {
                aspect: {
                    "n": self._scored[aspect],
                    "mean": None if aspect in without_mean else self._mean(aspect),
                }
                for aspect in self._values
            },
            "usage": self.usage.model_dump(),
        }

    def _take_back(self, aspect: str, entry: int | _Unscored | None) -> None:
        if isinstance(entry, int):
            self._values[aspect][entry] = nan
            self._scored[aspect] -= 1
        elif entry:
            self._unscored[entry] -= 1

    def _mean(self, aspect: str) -> float | None:
        n = self._scored[aspect]
        if not n:
            return None
        try:
            return fsum(_without_nan(self._values[aspect])) / n
        except OverflowError:
            from statistics import mean  # exact, but slow; its import takes milliseconds

            return mean(_without_nan(self._values[aspect]))


def _without_nan(values: Iterable[float]) -> Iterator[float]:
    return (value for value in values if value == value)  # all but NaN


def pair_digest(example_id: str, aspect: str) -> bytes:
    """Return 16 bytes that identify an example and an aspect."""
    # The length prevents equal texts from other splits of the same characters.
    named = f"{len(example_id)}:{example_id}{aspect}"
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=16).digest()
