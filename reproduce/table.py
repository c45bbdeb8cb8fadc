"""The format of table files: one TOML file per published table, in `tables/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from textassay.agreement import Level
from textassay.methods.library.toml import read_toml, validate_as
from textassay.runtime.base import Message
from textassay.runtime.errors import UnknownName

FOLDER = Path(__file__).parent / "tables"
PAPERS = {
    "coascore": "CoAScore (Gong and Mao 2023)",
    "decomp-eval": "DecompEval (Ke et al. 2023)",
    "fusion-eval": "Fusion-Eval (Shu et al. 2023)",
    "gptscore": "GPTScore (Fu et al. 2023)",
    "hd-eval": "HD-Eval (Liu et al. 2024)",
    "nimble": "Bespoke Nimble's public benchmarks (bespokelabsai/nimble, PUBLIC_BENCHMARKS.md)",
}
"""The papers by the beginning of a table's name."""

Statistic = Literal[
    "pearson", "spearman", "kendall",
    "exact", "constant", "auc", "mae", "ece", "ece-before", "ece-after", "spearman-change",
]  # fmt: skip
"""A coefficient; or of recorded probabilities: the share of right answers and of the most frequent
grade, the area under the ROC curve of yes/no, the mean absolute error, the expected calibration
error of all answers, and the same of items without grades before and after 100 others were graded,
with the change of the coefficient."""
Published = float | Literal["-"]
"""A figure of the paper; `-` where it prints none, or the copy at hand lacks it."""


class Column(Message):
    """One column of a table, or several: one for each statistic."""

    head: str
    """The heading in the paper."""
    data: str = ""
    """The data set; empty for a mean over the columns before."""
    aspect: str = ""
    """The aspect that is judged."""
    human: str = ""
    """The rated aspect it is compared with; the same name if empty."""
    over: str = ""
    """For a mean, the data set whose columns it averages; all columns if empty."""
    averaged: bool = False
    """Whether the mean of a row's other scores replaces a missing score of this aspect."""
    statistics: tuple[Statistic, ...] = Field(min_length=1)
    """The coefficients, in the order of the paper's figures."""

    @property
    def rated(self) -> str:
        """Name of the human ratings."""
        return self.human or self.aspect


class Judging(Message):
    """Scores that a method gives."""

    method: str
    """Name of the method."""
    task: str | dict[str, str] | None = None
    """Its task, or the task by data set."""
    options: dict[str, Any] = {}
    """Its options, as published."""
    tools: tuple[str, ...] = ()
    """Names of the tools that it reads; `--tools NAME=KIND:MODEL` defines them."""
    score: str = "{aspect}"
    """Name of the score that a column takes."""
    needs_model: bool = True
    """Whether a model is asked, and not only tools."""


class Learning(Message):
    """An aggregator that learns from ratings, and the features it learns from."""

    aggregator: str
    """Name of the aggregator."""
    train_fraction: float = Field(gt=0, lt=1)
    """Share of the rows to learn from."""
    test_fraction: float | None = Field(default=None, gt=0, lt=1)
    """Share of the rows to test on, for every training share; all others if absent."""
    layers: int = Field(default=3, ge=1, le=6)
    """Layers of the tree whose nodes are rated; the paper's trees have 3."""
    criteria: int | None = Field(default=None, ge=1)
    """Number of nodes or recorded scores to learn from, the most important ones on training rows;
    all if absent."""
    repeats: int = Field(default=1, ge=1, le=100)
    """Splits, of seeds 0, 1, ..., over which figures are averaged."""
    task: str | dict[str, str] | None = None
    """The task whose published tree is rated, or the task by data set."""
    recorded: tuple[str, ...] = ()
    """Names or globs of recorded scores to learn from in place of a tree; no model is asked."""


class Row(Message):
    """One line of a table; exactly one way to the scores."""

    name: str
    """As in the paper."""
    published: tuple[Published, ...] = ()
    """The paper's figures, column by column and statistic by statistic; empty if it has none."""
    model: str = ""
    """The model of the paper; `--model 'NAME=...'` names one for these rows alone."""
    note: str = ""
    """What differs from the paper."""
    recorded: str | dict[str, str] | None = None
    """Name of a recorded score, in which `{aspect}` stands for the column's, or names by data
    set."""
    tool: str | None = None
    """A tool that computes the score from the texts; used if it is not recorded."""
    judged: Judging | None = None
    learned: Learning | None = None
    decided: bool = False
    """Whether the data are recorded answers of a decision model."""
    raters: tuple[str, str] | None = None
    """Two raters that are compared: `1`, `2`, ..., `crowd` or `mean`."""
    against: str | None = None
    """A tool whose scores `judged` is compared with, in place of ratings."""
    missing: str | None = None
    """Why the row cannot be computed."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        # recorded and tool are one way: the tool computes what the data do not record
        recorded = self.recorded or self.tool
        ways = (self.judged, self.learned, self.raters, self.missing, recorded)
        # two ways to the scores of a row would leave open which one its figures are of
        if sum(way is not None for way in ways) + self.decided != 1:
            raise ValueError(
                f"row {self.name!r} needs one of recorded or tool, judged, learned, decided,"
                " raters, missing"
            )
        return self

    @property
    def needs_model(self) -> bool:
        """Whether a model is asked."""
        if self.learned is not None:
            return not self.learned.recorded
        return self.judged is not None and self.judged.needs_model


class Table(Message):
    """A published table."""

    name: str
    """Name of the file, such as `decomp-eval-table-2`."""
    title: str
    """Title of the table."""
    level: Level = "dataset"
    """Level of the coefficients."""
    percent: bool = False
    """Whether the paper prints hundredfold figures."""
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    """A note for readers."""
    missing: str | None = None
    """Why there is nothing to run."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.missing is None and not (self.columns and self.rows):
            raise ValueError("it needs columns and rows, or `missing` with the reason")
        for row in self.rows:
            # one figure too many or too few would shift all that follow under wrong columns
            if row.published and len(row.published) != self.width:
                raise ValueError(
                    f"row {row.name!r} has {len(row.published)} published figures where the"
                    f" columns need {self.width}"
                )
        return self

    @property
    def width(self) -> int:
        """Number of figures in a row."""
        return sum(len(column.statistics) for column in self.columns)

    @property
    def data(self) -> tuple[str, ...]:
        """The data sets, in order."""
        return tuple(dict.fromkeys(column.data for column in self.columns if column.data))

    @property
    def paper(self) -> str:
        """The paper's name."""
        return PAPERS[self.name.split("-table-")[0].split("-figure-")[0]]


def names() -> list[str]:
    """Return the names of all tables: by paper, then in its order."""
    # the folder is the list: a table is added by its file alone
    found = [path.stem for path in FOLDER.glob("*.toml")]
    return sorted(found, key=_place)


def _place(name: str) -> tuple[str, str, int]:
    paper, _, number = name.rpartition("-")
    return (paper.rpartition("-")[0], paper, int(number))


def load(name: str) -> Table:
    """Return a table.

    Raises:
        UnknownName: There is no such table.
        ConfigurationError: Its file does not fit; names the place.
    """
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        raise UnknownName("table", name, names())
    return validate_as(path, {"name": name, **read_toml(path).content}, Table)
