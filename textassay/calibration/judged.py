"""Reads recorded scores, aspect by aspect.

Knows score files, run folders and data sets. A data set whose rows hold `metrics` serves as a file
of scores too.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textassay.meta.score_files import read_score_lines
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError

_TABLES = (".csv", ".tsv", ".parquet")


RatingScale = tuple[float, float]


@dataclass(slots=True)
class Judged:
    """All last scores of one aspect.

    Attributes:
        values: Score by id, `None` if unscored.
        outcomes: Outcome by id, for the unscored.
        signatures: Signatures that occur, `""` for rows without one.
        scales: Scales that occur; empty if rows have none.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, None] = field(default_factory=dict)
    scales: dict[RatingScale | None, None] = field(default_factory=dict)

    @property
    def scale(self) -> RatingScale | None:
        """The scale, if all rows have the same one."""
        return next(iter(self.scales)) if len(self.scales) == 1 else None


def read_judged(path: str | Path) -> dict[str, Judged]:
    """Read a run folder, a JSON Lines file of scores, or the `metrics` of a data set.

    Raises:
        DataError: A line is unusable; names file, line and field.
        RunFolderError: A folder without scores, or of a newer format.
    """
    path = Path(path)
    judged: dict[str, Judged] = {}
    if path.is_file() and _holds_metrics(path):
        for example in Examples(path, needs_output=False):
            for name, value in example.metrics.items():
                _add(judged, name, example.id, value, {})
    else:
        for row in read_score_lines(path):
            _add(judged, row.aspect, row.id, row.value, row.fields)
    if not judged:
        raise DataError(f"{path} contains no scores")
    return judged


def _holds_metrics(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    if name.endswith(_TABLES):
        return True
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            first = json.loads(lines.readline())
    except (OSError, ValueError, EOFError):
        return False  # whoever reads the file next says what is wrong with it
    return isinstance(first, dict) and "metrics" in first and "aspect" not in first


def _add(
    columns: dict[str, Judged], aspect: str, id_: str, value: float | None, row: dict[str, Any]
) -> None:
    judged = columns.setdefault(aspect, Judged())
    # score files are journals: a resumed run appends a new line for an id that failed before, and
    # the last line counts, so its earlier outcome must not be counted among the unscored
    judged.values[id_] = value
    judged.outcomes.pop(id_, None)
    if value is None:
        judged.outcomes[id_] = str(row.get("outcome") or "unscored")
        return
    judged.signatures[str(row.get("signature") or "")] = None
    scale = row.get("scale")
    ends = scale if isinstance(scale, list) and len(scale) == 2 else None
    judged.scales[None if ends is None else (float(ends[0]), float(ends[1]))] = None
