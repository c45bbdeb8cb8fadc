"""The scores of a run as columns, read from a file that may still grow.

A million scores fit in memory because texts, words and evidence stay in the file: the table keeps
where each line begins and reads it again when somebody looks at that score.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np

from textassay.meta.correlation import Floats
from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.messages import Outcome, Scale, Score
from textassay.runtime.storage.run_files import SCORES, RunSummary, parse_score

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_BLOCK = 4 << 20
"""Bytes that one step of `read_more` takes from the file."""


class ScoreTable:
    """Scores in order of first appearance.

    A later line for the same id and aspect replaces the earlier.

    Attributes:
        path: The file, `scores.jsonl` of a run folder.
        ids: Ids of the examples, each once.
        aspects: Names of the aspects, each once.
        scales: Scale by aspect; `None` if unbounded.
        signatures: Signatures of the scores by number of lines.
        summary: What the run amounts to so far.
        example: Position in `ids` of each score.
        aspect: Position in `aspects` of each score.
        outcome: Position in `OUTCOMES` of each score.
        read_to: Bytes of the file that were read.
    """

    def __init__(self, folder: str | Path) -> None:
        """Look at a run folder; nothing is read yet."""
        self.path = Path(folder) / SCORES
        self.ids: list[str] = []
        self.aspects: list[str] = []
        self.scales: list[Scale | None] = []
        self.signatures: dict[str, int] = {}
        self.summary = RunSummary()
        self.example, self.aspect, self.outcome = array("l"), array("l"), array("b")
        # arrays of numbers instead of objects: a million scores take some tens of megabytes
        self._value, self._low, self._high, self._calibrated = (array("d") for _ in range(4))
        self._begins = array("q")
        self._rows: dict[tuple[int, int], int] = {}
        self._id_index: dict[str, int] = {}
        self._aspect_index: dict[str, int] = {}
        self.read_to, self._line = 0, 0

    def __len__(self) -> int:
        return len(self._value)

    def read_more(self) -> list[int]:
        """Read at most one block of complete lines that were appended.

        Return the rows that are new or changed.

        Raises:
            DataError: A line holds no score; names file and line.
            StorageError: The file cannot be read.
        """
        block = self._unread(_BLOCK)
        changed = []
        # a last line without its line break may still be being written
        for line in block[: block.rfind(b"\n") + 1].splitlines(keepends=True):
            self._line += 1
            if not line.isspace():
                changed.append(self._add(parse_score(self.path, self._line, line), self.read_to))
            self.read_to += len(line)
        return list(dict.fromkeys(changed))

    def read_all(self) -> ScoreTable:
        """Read everything that is there, a complete last line without its line break included."""
        before = -1
        while before != self.read_to:
            before = self.read_to
            self.read_more()
        rest = self._unread()
        if rest.strip():
            try:
                score = parse_score(self.path, self._line + 1, rest)
            except DataError:
                return self  # torn: the process that wrote it died
            self._add(score, self.read_to)
            self.read_to += len(rest)
        return self

    def _unread(self, size: int = -1) -> bytes:
        """Return up to `size` bytes that were not read yet; a run without a score has no file."""
        if not self.path.exists():
            return b""
        try:
            with self.path.open("rb") as file:
                file.seek(self.read_to)
                block = file.read(size)
                while size > 0 and b"\n" not in block and (more := file.read(size)):
                    block += more  # a line longer than a block
                return block
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error}") from error

    def score(self, row: int) -> Score:
        """Read one score again, with its words and evidence."""
        return next(self.scores([row]))

    def scores(self, rows: list[int]) -> Iterator[Score]:
        """Read these scores again, in this order."""
        try:
            with self.path.open("rb") as file:
                for row in rows:
                    file.seek(self._begins[row])
                    yield parse_score(self.path, row, file.readline())
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error}") from error

    def row(self, example_id: str, aspect: str) -> int | None:
        """Return the row of an example and aspect, or `None`."""
        key = (self._id_index.get(example_id, -1), self._aspect_index.get(aspect, -1))
        return self._rows.get(key)

    def rows_of(self, example_id: str) -> list[int]:
        """Return the rows of an example, in order of aspects."""
        at = self._id_index.get(example_id, -1)
        rows = (self._rows.get((at, aspect)) for aspect in range(len(self.aspects)))
        return [row for row in rows if row is not None]

    @property
    def values(self) -> Floats:
        """Value of each score, shape (n,); NaN if it is unscored."""
        return np.array(self._value, float)

    @property
    def calibrated(self) -> Floats:
        """Calibrated value, low and high end of each score, shape (n, 3); NaN if there is none."""
        return np.column_stack(
            [np.array(part, float) for part in (self._calibrated, self._low, self._high)]
        )

    def _add(self, score: Score, begins: int) -> int:
        self.summary.add(score)
        self.signatures[score.signature] = self.signatures.get(score.signature, 0) + 1
        example = self._id_index.setdefault(score.id, len(self.ids))
        if example == len(self.ids):
            self.ids.append(score.id)
        aspect = self._aspect_index.setdefault(score.aspect, len(self.aspects))
        if aspect == len(self.aspects):
            self.aspects.append(score.aspect)
            self.scales.append(score.scale)
        row = self._rows.setdefault((example, aspect), len(self._value))
        if row == len(self._value):
            self.example.append(example)
            self.aspect.append(aspect)
            for column in (self.outcome, self._begins):
                column.append(0)
            for numbers in (self._value, self._calibrated, self._low, self._high):
                numbers.append(float("nan"))
        self.outcome[row] = OUTCOMES.index(score.outcome)
        # points to the latest line, which is what `scores` reads again
        self._begins[row] = begins
        self._value[row] = float("nan") if score.value is None else score.value
        for numbers, name in (
            (self._calibrated, "calibrated"),
            (self._low, "low"),
            (self._high, "high"),
        ):
            number = getattr(score, name, None)
            numbers[row] = float("nan") if number is None else number
        return row
