"""`textassay jurors`: each juror's worth and cost as a table."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from textassay.cli.console import results, say
from textassay.cli.decisions import check_confidence, number, print_json, table
from textassay.fitting.jurors import Worth, worths
from textassay.fitting.learn import Fitter
from textassay.fitting.scales import scales_of
from textassay.fitting.table import Selection, read_table
from textassay.learning import NAMES
from textassay.methods.fitted.features import read_files
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import UnknownName
from textassay.runtime.storage.run_files import MANIFEST, latest_scores


def show(
    scores: Path, data: Path, *, aggregator: str, confidence: float, seed: int, as_json: bool
) -> None:
    """Print what each juror adds.

    Raises:
        UnknownName: There is no such aggregator.
        ConfigurationError: The scores are of no jury.
        DataError: A file cannot be used.
    """
    check_confidence(confidence)
    if aggregator not in NAMES:
        raise UnknownName("aggregator", aggregator, list(NAMES))
    rated = read_table(Examples(data), Selection(scores=read_files((str(scores),))))
    fitter = Fitter(scales_of(rated, {}), seed, 1)
    found = worths(
        rated, fitter, aggregator=aggregator, costs=costs_of(scores), confidence=confidence
    )
    if as_json:
        print_json({"rows": [one.as_dict() for one in found]})
        return
    lines = table(
        "juror", "gain", "low", "high", "USD per 1,000 texts", "gain per USD", "low", "high",
        "leave out",
    )  # fmt: skip
    for one in found:
        low, high = one.per_dollar_interval or (None, None)
        lines.add_row(
            one.juror, number(one.gain), number(one.low), number(one.high),
            "-" if one.cost is None else f"{1000 * one.cost:.4f}",
            number(one.per_dollar), number(low), number(high), "yes" if one.leave_out else "",
        )  # fmt: skip
    results().print(lines)
    say(_advice(found))


def _advice(found: list[Worth]) -> str:
    kept = [one.juror for one in found if not one.leave_out]
    advice = (
        "gain: increase of the squared error on held-out sources without the juror, in units of "
        "the ratings' variance."
    )
    if len(kept) == len(found):
        return f"{advice} Every juror adds something."
    return f"{advice} A jury of {', '.join(kept)} is no worse, as far as these ratings show."


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
