"""What the demo runs on each of its tasks.

Methods with the options that suit a very small model.
"""

from __future__ import annotations

from typing import Any

from textassay.runtime.messages import Message
from textassay.tools.registry import has_extra

TASKS = ("summarization", "dialogue", "data-to-text")
"""Tasks of the demo; the bundled translations are left out, for its model reads English only."""

TRIVIAL = ("length", "novelty", "rougeL")
"""Tools that look at the surface alone: what a judge must beat to be worth its while."""
LEXICAL = ("rougeL", "chrf", "coverage", "repetition")
"""Tools that Fusion-Eval fuses."""


class Recipe(Message):
    """One method as the demo runs it."""

    name: str
    """What its rows are called, and its folder."""
    method: str
    """The method, as `textassay score --method` takes it."""
    options: dict[str, Any] = {}
    """Its options, as `--set` takes them."""
    tools: tuple[str, ...] = ()
    """Its assistant evaluators."""
    unit: str = ""
    """What its values are."""
    tasks: tuple[str, ...] = TASKS
    """The tasks that it runs on."""
    extra: str = ""
    """Extra of the package that it needs; where it is not installed the recipe is left out."""


BASELINES = Recipe(name="trivial", method="tools", tools=TRIVIAL)
RECIPES = (
    Recipe(name="g-eval", method="g-eval", unit="rating"),
    Recipe(name="gptscore", method="gptscore", options={"pmi": True}, unit="nats/token"),
    Recipe(name="decomp-eval", method="decomp-eval", unit="P(yes)"),
    Recipe(name="checklist", method="checklist", unit="P(yes)"),
    # judges facts only; the bundled ratings of data-to-text have no aspect about facts
    Recipe(name="claims", method="claims", unit="P(yes)", tasks=("summarization", "dialogue")),
    Recipe(name="coascore", method="coascore", unit="rating"),
    Recipe(name="fusion-eval", method="fusion-eval", tools=LEXICAL, unit="0 to 1"),
    Recipe(name="hd-eval", method="hd-eval", unit="rating"),
    Recipe(
        name="embedding",
        method="tools",
        tools=("embedding?engine=static&per=sentence",),
        unit="cosine",
        extra="static",
    ),
)
"""The methods; what else they are given comes from the model's profile."""
NODES = Recipe(name="hd-eval-nodes", method="hd-eval", options={"output": "nodes"})
"""HD-Eval's rating of every criterion for itself: what `fit` learns from."""
FITTED = "hd-eval-fitted"
"""What the rows of the fitted evaluator are called, and its folder."""


def recipes_of(task: str) -> tuple[Recipe, ...]:
    """Return the methods that run on a task, in order; those that can, by what is installed."""
    return tuple(r for r in RECIPES if task in r.tasks and r not in left_out())


def left_out() -> tuple[Recipe, ...]:
    """Return the recipes whose extra is not installed."""
    return tuple(recipe for recipe in RECIPES if not has_extra(recipe.extra))
