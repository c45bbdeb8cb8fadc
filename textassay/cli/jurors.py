"""`textassay jurors`: each juror's worth and cost as a table."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from textassay.cli.console import print_tables
from textassay.cli.decisions import check_confidence
from textassay.fitting.jurors import worth_table, worths
from textassay.fitting.learn import Fitter
from textassay.fitting.table import Selection, rating_scales, read_table
from textassay.learning import NAMES
from textassay.methods.fitted.features import read_files
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import UnknownName
from textassay.runtime.storage.run_files import MANIFEST, latest_scores


def show(
    scores: Path, data: Path, *, aggregator: str, confidence: float, seed: int, as_json: bool
) -> None:
    """Print what each juror adds."""
    check_confidence(confidence)
    if aggregator not in NAMES:
        raise UnknownName("aggregator", aggregator, list(NAMES))
    rated = read_table(Examples(data), Selection(scores=read_files((str(scores),))))
    fitter = Fitter(rating_scales(rated, {}), seed, 1)
    found = worths(
        rated, fitter, aggregator=aggregator, costs=costs_of(scores), confidence=confidence
    )
    document = {"rows": [one.as_dict() for one in found]}
    print_tables([worth_table(found)], document, as_json=as_json)


def costs_of(scores: Path) -> dict[str, float | None]:
    """Return each juror's dollars per text, from the usage of a run; empty for other files."""
    if not (scores / MANIFEST).is_file():
        return {}
    paid: dict[str, list[float | None]] = defaultdict(list)
    texts: dict[str, set[str]] = defaultdict(set)
    for score in latest_scores(scores):
        juror = score.aspect.partition("/")[2]
        paid[juror].append(score.usage.cost)
        texts[juror].add(score.id)
    return {
        juror: None if None in costs else sum(filter(None, costs)) / len(texts[juror])
        for juror, costs in paid.items()
    }
