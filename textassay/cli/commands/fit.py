"""`textassay fit`: learn an evaluator from human ratings."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from textassay.cli import arguments
from textassay.cli.flags import (
    CONFIG,
    DRY_RUN,
    JUDGING,
    PROGRESS,
    READING,
    RUNTIME,
    SAMPLING,
    SET,
    AsJson,
    Given,
    Group,
    Models,
    OptionalData,
    Out,
)
from textassay.cli.registry import SCORING, command

_learning = partial(typer.Option, rich_help_panel="Learning")
_growing = partial(typer.Option, rich_help_panel="Criteria tree")

LEARNING = Group(
    features=Annotated[
        list[str] | None,
        _learning(
            metavar="NAME,GLOB*",
            help="Learn from metrics in the data, without calling a model; may repeat.",
        ),
    ],
    scores=Annotated[
        list[str] | None,
        _learning(
            metavar="[NAME=]FILE",
            help="Learn from files of scores or from runs; may repeat.",
        ),
    ],
    aggregator=Annotated[
        list[str] | None,
        _learning(
            metavar="NAME",
            help=(
                "Aggregator: auto (default), avg, corrw, linear, nnls, ridge, kernel, tree,"
                " forest, mlp, lightgbm, or for all aspects at once tree-joint, forest-joint,"
                " mlp-joint; may repeat."
            ),
        ),
    ],
    scale=Annotated[
        list[str] | None,
        _learning(
            metavar="ASPECT=LOW,HIGH",
            help="Scale of the human ratings; may repeat.",
        ),
    ],
    split=Annotated[
        str | None,
        _learning(
            metavar="group|row",
            help="Split by group (default) or by row.",
        ),
    ],
    train_fraction=Annotated[
        float | None,
        _learning(
            metavar="F",
            help="Share of the rows to learn from; others are held out (default: learn from all).",
        ),
    ],
    test_fraction=Annotated[
        float | None,
        _learning(
            metavar="F",
            help="Share of the rows to hold out, whatever --train-fraction is (default: the rest).",
        ),
    ],
    repeats=Annotated[
        int | None,
        _learning(
            metavar="N",
            help="Samples per point of the curves of --report full (default: 3 data, 1 criteria).",
        ),
    ],
    raters=Annotated[
        Literal["mean", "model"] | None,
        _learning(
            help="Learn from mean ratings (default), or model each rater's severity and noise.",
        ),
    ],
    new_systems=Annotated[
        bool | None,
        _learning(
            "--new-systems",
            help="Prepare for texts of systems without ratings: folds leave out systems too.",
        ),
    ],
    report=Annotated[
        Literal["basic", "full"] | None,
        _learning(help="full adds curves and ablations."),
    ],
)

GROWTH = Group(
    layers=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Layers of criteria (default: 3).",
        ),
    ],
    children=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Maximum sub-criteria per criterion, or criteria per round (default: 4).",
        ),
    ],
    keep=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Criteria expanded per layer, from layer 2 on (default: 4; all with --tree).",
        ),
    ],
    tree=Annotated[
        str | None,
        _growing(
            metavar="TREE",
            help="Tree to learn on: a file, published, a published tree, or model (default).",
        ),
    ],
    saliency=Annotated[
        Literal["permutation", "shapley"] | None,
        _growing(
            help="Measure to rank criteria by (default: permutation).",
        ),
    ],
    rounds=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Rounds of proposals of a rubric (default: 3).",
        ),
    ],
    labels=Annotated[
        int | None,
        _growing(
            metavar="N",
            help="Rated rows that a rubric is learned from at most (default: 60).",
        ),
    ],
    noise=Annotated[
        Literal["stop", "prune"] | None,
        _growing(
            help="If no importance differs from 0: stop growing (default), or prune anyway.",
        ),
    ],
)

FLAGS = (
    CONFIG
    | SET
    | DRY_RUN
    | PROGRESS
    | LEARNING
    | GROWTH
    | JUDGING.only("task", "aspects")
    | SAMPLING
    | READING
    | RUNTIME
)


@command(
    "fit",
    panel=SCORING,
    asks_models=True,
    examples=(
        (
            "textassay fit rated.jsonl --method hd-eval -t summarization -m openai/gpt-4.1-mini -o"
            " evaluators/mine"
        ),
        "textassay fit rated.jsonl --scores runs/a --scores runs/b -o evaluators/combined",
        "textassay fit rated.jsonl --features 'rouge*' --aggregator ridge -o evaluators/rouge",
    ),
)
def fit(
    data: OptionalData = None,
    # `--scores A B` is what people type, and without this argument B would be reported as unknown
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    *,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help=(
                "hd-eval: decompose the aspects and let a model rate them; rubric: have criteria"
                " proposed from rated texts."
            ),
        ),
    ] = None,
    model: Models = None,
    out: Out = None,
    as_json: AsJson = False,
    given: Annotated[Given, FLAGS],
) -> int:
    """Learn from human ratings how to judge, and write an evaluator folder."""
    from textassay.cli.fit import execute

    flags = {"data": data, "more": more, "method": method, "model": model, "out": out, **given}
    known = (*FLAGS.flags, "data", "method", "model", "out", "fields")
    return execute(*arguments.with_config(flags, known), as_json=as_json)
