"""`textassay rank`: a ranking of systems from comparisons in pairs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.flags import MAPPED, AsJson, Confidence, Given, RatedData, Scores


@command(
    "rank",
    panel=DECIDING,
    examples=(
        "textassay score data.jsonl --method pairwise --pair system -m MODEL -o runs/pairs",
        "textassay rank runs/pairs",
        "textassay rank comparisons.jsonl data.jsonl --pair system --json",
    ),
)
def rank(
    scores: Scores,
    data: RatedData = None,
    *,
    pair: Annotated[
        Literal["system"] | None,
        typer.Option(
            help="The scores are of pairs of the systems of each group (default: as in the run)."
        ),
    ] = None,
    aspects: Annotated[
        list[str] | None,
        typer.Option("--aspects", "-a", metavar="A,B", help="Aspects to rank on; may repeat."),
    ] = None,
    confidence: Confidence = 0.95,
    as_json: AsJson = False,
    given: Annotated[Given, MAPPED],
) -> None:
    """Rank systems by a run of pairwise comparisons: Bradley-Terry, with intervals over sources."""
    from textassay.calibration.ranking import rank_systems
    from textassay.cli.console import print_tables
    from textassay.cli.rated import Rated

    arguments.check_confidence(confidence)
    pairs = Rated(scores, data, given).comparisons(pair)
    names = arguments.typed_names(aspects)
    rankings = rank_systems(scores, pairs, aspects=names, confidence=confidence)
    document = {
        "rows": [row.as_dict() for one in rankings for row in one.rows],
        "differences": [delta.as_dict() for one in rankings for delta in one.differences],
    }
    print_tables((table for one in rankings for table in one.tables()), document, as_json=as_json)
