"""`textassay jurors`: what each juror of a jury adds, for its price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables
from textassay.cli.flags import RATED, AsJson, Confidence, Given, RatedData, Seed
from textassay.runtime.errors import UnknownName


@command(
    "jurors",
    panel=DECIDING,
    examples=(
        "textassay score rated.jsonl --method jury -m juror=A -m juror=B -m juror=C --set"
        " output=jurors -o runs/jury",
        "textassay jurors runs/jury rated.jsonl",
    ),
)
def jurors(
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES", help="Run of a jury with output=jurors, or scores named ASPECT/JUROR."
        ),
    ],
    data: RatedData = None,
    *,
    aggregator: Annotated[
        str, typer.Option(metavar="NAME", help="Aggregator of the jury.")
    ] = "ridge",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
    given: Annotated[Given, RATED],
) -> None:
    """Show what each juror adds to a jury, what it costs, and which ones to leave out."""
    from textassay.cli.rated import Rated
    from textassay.fitting.jurors import worth_table, worths
    from textassay.fitting.learn import Fitter
    from textassay.fitting.table import Selection, rating_scales, read_table
    from textassay.learning import NAMES
    from textassay.methods.fitted.features import read_files
    from textassay.runtime.data.label_reader import LabelReader

    arguments.check_confidence(confidence)
    if aggregator not in NAMES:
        raise UnknownName("aggregator", aggregator, list(NAMES))
    source = Rated(scores, data, given)
    files = read_files((source.source(LabelReader(source.declared)),))
    rated = read_table(source.examples(), Selection(scores=files))
    fitter = Fitter(rating_scales(rated, {}), seed, 1)
    costs = _costs(scores, rated.aspects)
    found = worths(rated, fitter, aggregator=aggregator, costs=costs, confidence=confidence)
    document = {"rows": [one.as_dict() for one in found]}
    print_tables([worth_table(found)], document, as_json=as_json)


def _costs(scores: Path, aspects: Sequence[str]) -> dict[str, float | None]:
    """Return each juror's dollars per text, from the usage of a run; empty for other files."""
    from textassay.fitting.jurors import juror_of
    from textassay.runtime.storage.run_files import MANIFEST, latest_scores

    if not (scores / MANIFEST).is_file():
        return {}
    paid: dict[str, list[float | None]] = defaultdict(list)
    texts: dict[str, set[str]] = defaultdict(set)
    for score in latest_scores(scores):
        juror = juror_of(score.aspect, aspects)
        paid[juror].append(score.usage.cost)
        texts[juror].add(score.id)
    return {
        juror: None if None in costs else sum(filter(None, costs)) / len(texts[juror])
        for juror, costs in paid.items()
    }
