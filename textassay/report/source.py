"""What a report is made from: run folders, scores as columns, and the data that was judged.

Knows files; nothing of statistics or HTML.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from textassay.calibration.columns import People
from textassay.meta.correlation import Floats
from textassay.meta.score_files import refuse_other_labels
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError, RunFolderError, StorageError
from textassay.runtime.labels import labels_of
from textassay.runtime.messages import Example, Outcome, Scale, Score
from textassay.runtime.storage.run_files import SCORES, RunSummary, parse_score, read_manifest

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


@dataclass
class RunSource:
    """One run.

    Attributes:
        name: What the page calls it: the folder's name, made unique between the runs.
        folder: The run folder.
        manifest: How it was made.
        table: Its scores.
        stress: Its `stress.json`, empty if it has none.
    """

    name: str
    folder: Path
    manifest: dict[str, Any]
    table: ScoreTable
    stress: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(_at(self.manifest, "method", "name") or "scores")

    @property
    def models(self) -> dict[str, str]:
        """Name of the model by role; the role `""` serves every role that is not named."""
        models = self.manifest.get("models")
        items = models.items() if isinstance(models, Mapping) else ()
        return {str(role): str(_at(model, "name") or model) for role, model in items}

    @cached_property
    def jurors(self) -> tuple[str, ...]:
        """Names of the jurors, if the method is a jury."""
        return tuple(map(str, _at(self.manifest, "method", "jurors") or ()))

    def higher_is_better(self, aspect: str) -> bool:
        """Return whether a high score on an aspect is a good one, as the manifest says."""
        for known in _at(self.manifest, "method", "aspects") or ():
            if isinstance(known, Mapping) and known.get("name") == aspect:
                return bool(known.get("higher_is_better", True))
        return True


@dataclass
class DataSource:
    """The examples that were judged.

    Attributes:
        name: Name of the file, without its folder.
        examples: By id; empty if the data could not be found.
        missing: Why there are none, for readers of the page; `None` if there are.
    """

    name: str
    examples: dict[str, Example]
    missing: str | None = None

    surface: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Trivial measures of the texts by name and id, once somebody has asked for them."""

    def ratings(self, aspect: str) -> Floats:
        """Return all mean ratings of a human aspect, without gaps."""
        ratings = (example.human.get(aspect) for example in self.examples.values())
        return np.array([rating for rating in ratings if rating is not None], float)

    @cached_property
    def people(self) -> People:
        """The ratings as the decisions take them; read once, since a live page asks again."""
        return People(list(self.examples.values()))

    @property
    def systems(self) -> list[str]:
        """Names of the systems."""
        return sorted({one.system for one in self.examples.values() if one.system is not None})


def open_run(folder: str | Path, *, name: str | None = None) -> RunSource:
    """Open a run folder, without its scores.

    Raises:
        RunFolderError: It holds no run, or one of a newer format.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    return RunSource(
        name or folder.resolve().name, folder, manifest, ScoreTable(folder), _stress(folder)
    )


def open_runs(folders: list[str | Path]) -> list[RunSource]:
    """Open runs under names that differ: the last parts of their paths that tell them apart.

    Raises:
        RunFolderError: A folder holds no run, or one of a newer format.
    """
    paths = [Path(folder).resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        raise RunFolderError("the same run is given twice; give two different run folders")
    depth = 1
    # two runs are often called the same in different folders
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    runs = [open_run(path, name="/".join(path.parts[-depth:])) for path in paths]
    own = [labels_of(run.manifest) for run in runs]
    # the ratings are read once, by the labels of the first run
    for name, scale in own[0].items():
        for other in own[1:]:
            if name in other and not scale.multiple:
                refuse_other_labels(name, scale.names, other[name].names)
    return runs


def open_data(run: RunSource, data: str | Path | Examples | None) -> DataSource:
    """Read the examples that a run judged.

    Args:
        run: The run, whose manifest names its data.
        data: The data, opened or by its path, with ratings if there are any; `None` for the file
            that the manifest names, which is read only if it still is what the run judged.

    Raises:
        DataError: `data` is given and cannot be read.
    """
    labels = labels_of(run.manifest)
    if data is not None:
        given = data if isinstance(data, Examples) else Examples(data, labels=labels)
        return DataSource(Path(given.name).name, _by_id(given))
    path, fields = _at(run.manifest, "data", "path"), _at(run.manifest, "spec", "fields") or {}
    if not path:
        return DataSource("", {}, "the run judged data from memory; name the file of data")
    name = Path(path).name
    if not Path(path).is_file():
        return DataSource(name, {}, f"{name} is no longer where the run found it")
    try:
        examples = Examples(
            path,
            fields=fields,
            missing=_at(run.manifest, "spec", "missing") or (),
            unit=_at(run.manifest, "spec", "unit"),
            conversation_chars=_at(run.manifest, "spec", "conversation_chars"),
            labels=labels,
        )
        info = examples.check()
    except DataError:
        return DataSource(name, {}, f"{name} can no longer be read")
    # texts of changed data beside old scores would show evidence for other words
    if info.digest != _at(run.manifest, "data", "digest") and not _at(
        run.manifest, "spec", "limit"
    ):
        return DataSource(name, {}, f"{name} has changed since the run judged it")
    return DataSource(name, _by_id(examples))


def _by_id(examples: Examples) -> dict[str, Example]:
    return {example.id: example for example in examples}


def _stress(folder: Path) -> dict[str, Any]:
    path = folder / "stress.json"
    if not path.exists():
        return {}
    try:
        document = dict(json.loads(path.read_bytes()))
        document["tests"] = [dict(test) for test in document["tests"]]
        return document
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} contains no verdicts of a stress run: {error}") from error


def _at(value: Any, *keys: str) -> Any:
    """Return what lies below these keys in nested objects; `None` if a key is missing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
