"""What learning from people yields, as a folder.

An aggregator and, if a model judges, tree, prompts and model.

    evaluator.json   everything needed to apply it, with a digest over all of it
    report.json      how it was learned and how well it agrees with people (report.txt: as text)

No pickle: trees are LightGBM's text, the rest is JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from textassay.agents.prompt_template import Task
from textassay.learning.aggregators import Aggregator
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Aspect, AspectTree, Message
from textassay.runtime.storage.files import digest_of, read_sealed, write_sealed
from textassay.table import Column, Displayed, Table

FORMAT = 1
FILE = "evaluator.json"


class Evaluator(Displayed, Message):
    """A fitted evaluator, as `evaluator.json` holds it."""

    kind: Literal["recorded", "hd-eval"]
    """Whether its features are recorded scores, or ratings of a tree's nodes by a model."""
    aspects: tuple[Aspect, ...]
    """What it judges: human aspects under their own names, on the raters' scale."""
    features: tuple[str, ...]
    """Names of the features in order: recorded scores, or ids of the tree's nodes."""
    aggregator: dict[str, Any]
    """`Aggregator.to_dict()`."""
    background: tuple[tuple[float | None, ...], ...] = ()
    """Training rows that stand for "nothing known" if contributions must be sampled."""
    task: Task | None = None
    """The task in the model's prompts; `None` for recorded scores."""
    tree: AspectTree | None = None
    """The tree of criteria; `None` for recorded scores."""
    model: str | None = None
    """Name of the model whose ratings were learned from."""
    prompts: str | None = None
    """Digest of the prompts that it was asked with."""
    options: dict[str, Any] = {}
    """Options that the judge is asked with."""
    made: dict[str, Any] = {}
    """Data digest, split, seed and versions."""

    @property
    def digest(self) -> str:
        """64 hex digits over everything."""
        return digest_of(self.model_dump(mode="json"))

    def tables(self) -> list[Table]:
        """Return what it is, and the features that it reads."""
        named = [
            ("kind", self.kind),
            ("aspects", ", ".join(aspect.label for aspect in self.aspects)),
            ("aggregator", str(self.aggregator.get("name", ""))),
            ("features", f"{len(self.features)}"),
            ("model", self.model),
            ("digest", self.digest[:12]),
        ]
        features = [(name,) for name in self.features]
        return [
            Table((Column("name", ""), Column("value", "value")), named, title="fitted evaluator"),
            Table((Column("feature", "feature"),), features),
        ]


def is_evaluator(path: str | Path) -> bool:
    """Return whether the path is a folder that holds an evaluator."""
    return (Path(path) / FILE).is_file()


def save(evaluator: Evaluator, folder: Path) -> None:
    """Write `evaluator.json` in one step."""
    # JSON, never pickle: an evaluator folder may come from somebody else, and loading it must not
    # run code
    content = evaluator.model_dump(mode="json")
    write_sealed(folder / FILE, content, format=FORMAT)


def load(folder: str | Path) -> Evaluator:
    """Read an evaluator."""
    path = Path(folder) / FILE
    content = read_sealed(
        path,
        format=FORMAT,
        kind="evaluator",
        missing=(
            f"{folder} contains no {FILE}, so it is not an evaluator; make one with textassay fit"
        ),
        repair="fit again",
    )
    try:
        return Evaluator(**content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{path}: {where}: {first['msg']}") from error


def restore_aggregator(evaluator: Evaluator) -> Aggregator:
    """Return the evaluator's aggregator."""
    aggregator = Aggregator.from_dict(evaluator.aggregator)
    # columns in another order would be weighed as each other's without any error
    if aggregator.features_ != evaluator.features or aggregator.targets_ != tuple(
        a.name for a in evaluator.aspects
    ):
        raise DataError(
            "the evaluator's aggregator was fitted on other features or aspects than it names; fit"
            " again"
        )
    return aggregator
