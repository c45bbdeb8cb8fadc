"""Arguments and flags that several commands take one by one, with their help.

Groups of flags that go together are in `flags`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Scores = Annotated[
    Path,
    typer.Argument(
        metavar="SCORES",
        help="Run folder, JSON Lines with id, aspect, value, or a data set with metrics.",
    ),
]
Data = Annotated[Path, typer.Argument(metavar="DATA", help="Examples with human ratings.")]
AspectMap = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SCORE=HUMAN", help="Compare this score with that human rating; may repeat."
    ),
]
ScaleOf = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        metavar="ASPECT=LOW,HIGH",
        help="Scale of the human ratings, if it is not the judge's; may repeat.",
    ),
]
Confidence = Annotated[
    float, typer.Option(metavar="C", help="Confidence of the intervals, such as 0.95.")
]
AllowChange = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="allow_change=true",
        help="Accept scores with another signature, if you know that it does not matter.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Random seed.")]
Weight = Annotated[
    str,
    typer.Option(
        metavar="sources|texts",
        help=(
            "What counts the same in a mean: sources, however many texts each has, or texts. "
            "Intervals are over sources either way."
        ),
    ),
]
Labels = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help=(
            "How the rated rows were picked: random, chosen (by hand; no interval is promised), "
            "or the file of a label plan."
        ),
    ),
]
Human = Annotated[
    Path | None,
    typer.Option(metavar="DATA", help="Texts and human ratings (default: the data of the run)."),
]
ToTable = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="File to write, .toml or .json.")
]
Writers = Annotated[
    list[str],
    typer.Option("--model", "-m", metavar="[ROLE=]MODEL", help="Model to ask; may repeat."),
]
