"""The scores behind a row: recorded in the data, computed by a tool, or judged by a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import textassay
from reproduce.datasets import DataSets
from reproduce.table import Column, Judging, Row, Table
from textassay.evaluation.api import open_evaluation
from textassay.methods.library import tasks
from textassay.runtime.base import Usage
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import slug
from textassay.runtime.messages import Example
from textassay.runtime.settings import Settings
from textassay.tools import ToolScorer, build

Values = dict[str, dict[str, float | None]]
"""Value by name of the score and id of the example."""

WITHOUT_MODEL = ("rouge1", "rouge2", "rougeL", "bleu", "chrf", "meteor")
"""Kinds of tools of the tables that need no model."""


OWN_DATA = "{data}"
"""Value of an option that is the file of the data themselves."""
LEFT_OUT = ""
"""Value of an option that removes the table's, so that the method's default applies."""


class NotHere(Exception):
    """A row cannot be computed without further arguments; names them."""


@dataclass(frozen=True)
class Request:
    """One run of a method over one data set; equal requests are one run."""

    data: str
    judging: Judging
    model: str | None
    aspects: tuple[str, ...]

    @property
    def asked(self) -> str:
        """The run in a few words."""
        options = (f"{key}={value}" for key, value in self.judging.options.items())
        return " ".join(
            (self.judging.method, *options, f"on {self.data}, {self.model or 'no model'}")
        )

    def slug(self) -> str:
        """Return a name for the run's folder."""
        named = ((key, str(value)) for key, value in self.judging.options.items())
        # paths are left out: the folder must have the same name on every machine
        options = "-".join(f"{key}-{value}" for key, value in named if "/" not in value)
        parts = (self.judging.method, self.data, options, self.model or "")
        return slug(" ".join(part for part in parts if part))


@dataclass
class Scorer:
    """Finds the scores of rows, each run and each tool once."""

    table: Table
    """The table."""
    data: DataSets
    """Its data."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Names of models by the paper's model or row; `""` serves the others."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """Specs of tools by name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of methods that override the table's."""
    settings: Settings = field(default_factory=Settings)
    """How models are asked."""
    out: Path | None = None
    """Folder for the runs; without one nothing is kept."""
    _examples: dict[str, list[Example]] = field(default_factory=dict)
    _runs: dict[Request, Values] = field(default_factory=dict)
    _errors: dict[Request, dict[str, int]] = field(default_factory=dict)
    _tools: dict[tuple[str, str], Values] = field(default_factory=dict)
    _unmeasured: dict[tuple[str, str], str] = field(default_factory=dict)

    def examples(self, data: str) -> list[Example]:
        """Return the examples of a data set.

        Raises:
            NotHere: It is not on this machine.
        """
        if data not in self._examples:
            try:
                self._examples[data] = self.data.examples(data)
            except ConfigurationError as error:
                raise NotHere(str(error)) from error
        return self._examples[data]

    def columns(self, data: str) -> list[Column]:
        """Return the table's columns over a data set."""
        return [column for column in self.table.columns if column.data == data]

    def how(self, row: Row, data: str) -> str:
        """Return in a few words where the row's scores come from."""
        if row.judged is not None or row.learned is not None:
            model = self.model_of(row)
            method = "hd-eval" if row.judged is None else row.judged.method
            return method if model is None else f"{method}, {model}"
        if row.decided or (row.recorded is not None and self._is_recorded(row, data)):
            return "recorded"
        return f"tool {row.tool}"

    def model_of(self, row: Row) -> str | None:
        """Return the model that is asked for a row; `None` if none is.

        Raises:
            NotHere: One is needed and none was given.
        """
        if not row.needs_model:
            return None
        # the most specific name wins: a row, then the paper's model, then every row
        for name in (row.name, row.model, ""):
            if name in self.models:
                return self.models[name]
        raise NotHere("needs --model MODEL" + (f" (the paper: {row.model})" if row.model else ""))

    def unscored(self, row: Row, data: str) -> str:
        """Return the missing scores of finished runs with their reasons; may be empty."""
        judging = row.judged or nodes(row)
        if judging is not None:
            return _missing(data, self._errors[self.request(row, judging, data)])
        return self._unmeasured.get((row.tool or "", data), "")

    async def values(self, row: Row, data: str) -> dict[Column, dict[str, float | None]]:
        """Return the row's scores of each column over a data set.

        Raises:
            NotHere: Data, a model or a tool is missing.
            TextassayError: The run was stopped, or something does not fit.
        """
        columns = self.columns(data)
        if row.judged is not None:
            values = await self.judged(self.request(row, row.judged, data))
            names = {column: row.judged.score.format(aspect=column.aspect) for column in columns}
        elif row.recorded is not None and self._is_recorded(row, data):
            names = {column: _recorded_name(row, column) for column in columns}
            values = {
                name: {
                    one.id: one.metrics[name] for one in self.examples(data) if name in one.metrics
                }
                for name in names.values()
            }
        elif row.tool is None:
            raise NotHere(f"{data} holds no recorded score of this row")
        else:
            name = row.tool
            values = await self.measured(name, data)
            # a tool has one score per text, the same for every aspect
            names = dict.fromkeys(columns, name)
        found = {column: values.get(name, {}) for column, name in names.items()}
        return {
            column: _mean_of_others(column, found) if column.averaged and not scores else scores
            for column, scores in found.items()
        }

    def request(self, row: Row, judging: Judging, data: str) -> Request:
        """Return the run that a row needs over a data set.

        Raises:
            NotHere: No model was given, or a tool that the method reads was not.
        """
        for name in judging.tools:
            if name not in self.tools:
                raise NotHere(f"needs --tools {name}=KIND:MODEL (see docs/tools.md)")
        # options on the command line are about the judge, and tools alone would refuse them
        options = {**judging.options, **self.options} if judging.needs_model else judging.options
        kept = {
            key: str(self.data.path(data)) if value == OWN_DATA else value
            for key, value in options.items()
            if value != LEFT_OUT
        }
        return Request(
            data,
            _Hashed(**judging.model_copy(update={"options": kept}).model_dump()),
            self.model_of(row),
            tuple(dict.fromkeys(column.aspect for column in self.columns(data))),
        )

    async def judged(self, request: Request) -> Values:
        """Return the scores of a run, which is resumed if its folder is there."""
        if request not in self._runs:
            out = None if self.out is None else self.out / self.table.name / request.slug()
            run = await textassay.evaluate(
                self.examples(request.data),
                **self._arguments(request),
                out=out,
                resume=out is not None and (out / "manifest.json").exists(),
            )
            values: Values = {}
            for score in run:
                values.setdefault(score.aspect, {})[score.id] = score.value
            # kept by request: several rows read one run, and asking again would cost again
            self._runs[request] = values
            self._errors[request] = run.summary()["errors"]
        return self._runs[request]

    async def estimate(self, request: Request) -> Usage:
        """Return the calls of a run, without asking a model."""
        arguments = self._arguments(request)
        async with (
            open_evaluation(self.examples(request.data), **arguments, dry=True) as session,
            aclosing(session.engine.scores()) as scores,
        ):
            async for _ in scores:
                pass
            return session.usage

    def _arguments(self, request: Request) -> dict[str, Any]:
        judging, task = request.judging, request.judging.task
        if isinstance(task, dict):
            task = task[request.data]
        # a method may add an overall score to aspects of a task that has none
        known = tasks.load(task)
        defined = {one.name for one in (*known.family, *known.optional)}
        return {
            "method": judging.method,
            "task": task,
            "aspects": [name for name in request.aspects if task is None or name in defined],
            "model": request.model,
            "options": judging.options,
            "tools": [self.tools[name] for name in judging.tools],
            # settings without a model have no effect, which `evaluate` refuses
            "settings": self.settings if request.model is not None else None,
        }

    async def measured(self, name: str, data: str) -> Values:
        """Return a tool's score of every example.

        Raises:
            NotHere: The tool needs a model, and none was given.
        """
        if (name, data) not in self._tools:
            if name not in self.tools and name.partition("?")[0] not in WITHOUT_MODEL:
                raise NotHere(f"needs --tools {name}=KIND:MODEL (see docs/tools.md)")
            spec = self.tools.get(name, name)
            async with ToolScorer(build([spec])) as scorer:
                scores = [
                    one for example in self.examples(data) for one in await scorer.score(example)
                ]
            self._tools[name, data] = {name: {one.id: one.value for one in scores}}
            kinds = Counter(one.error.type for one in scores if one.error is not None)
            self._unmeasured[name, data] = _missing(data, kinds)
        return self._tools[name, data]

    def _is_recorded(self, row: Row, data: str) -> bool:
        if row.tool is not None and row.tool in self.tools:
            return False  # a user who names a tool wants its scores
        names = {_recorded_name(row, column) for column in self.columns(data)}
        there = {name for one in self.examples(data) for name in one.metrics}
        return bool(names & there)


class _Hashed(Judging):
    """A judging that can be a part of a key."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


def _missing(data: str, kinds: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{kind} x{count}" for kind, count in kinds.items())
    return f"{sum(kinds.values())} scores of {data} are missing: {reasons}" if kinds else ""


def _mean_of_others(
    column: Column, found: Mapping[Column, Mapping[str, float | None]]
) -> dict[str, float | None]:
    """Return the mean of the other scores of each example that has all of them."""
    others = [scores for other, scores in found.items() if other is not column and scores]
    if not others:
        return {}
    values = {id_: [scores.get(id_) for scores in others] for id_ in others[0]}
    return {
        id_: None if None in given else sum(one for one in given if one is not None) / len(given)
        for id_, given in values.items()
    }


def _recorded_name(row: Row, column: Column) -> str:
    recorded = row.recorded
    name = recorded.get(column.data, "") if isinstance(recorded, dict) else recorded or ""
    return name.format(aspect=column.aspect)


def requests_of(scorer: Scorer, rows: Sequence[Row]) -> list[Request]:
    """Return the runs that the rows need and that can be made, each once."""
    found: dict[Request, None] = {}
    for row in rows:
        judging = row.judged if row.learned is None else nodes(row)
        if judging is None:
            continue
        for data in scorer.table.data:
            try:
                scorer.examples(data)
                found[scorer.request(row, judging, data)] = None
            except NotHere:
                continue
    return list(found)


def nodes(row: Row) -> Judging | None:
    """Return how the nodes of a tree are rated, from which a row learns; `None` if it has none."""
    if row.learned is None or row.learned.recorded:
        return None
    return Judging(method="hd-eval", task=row.learned.task, options={"output": "nodes"})
