"""`textassay jurors`: which judges of a jury are worth what they cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from textassay.cli import flags, syntax
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables
from textassay.cli.rated import RatedInput
from textassay.runtime.errors import UnknownName


@command("jurors", panel=DECIDING)
def jurors(
    scores: Annotated[
        Path,
        syntax.argument(
            "SCORES", "Run of a jury with output=jurors, or scores named ASPECT/JUROR."
        ),
    ],
    data: flags.RatedData = None,
    *,
    aggregator: Annotated[
        str,
        syntax.option("NAME", "Aggregator of the jury (default: nnls, without negative weights)."),
    ] = "nnls",
    confidence: flags.Confidence = 0.95,
    seed: syntax.Seed = 0,
    as_json: syntax.AsJson = False,
    given: Annotated[syntax.Given, flags.RATED],
) -> None:
    """Show what each juror adds to a jury, what it costs, and which ones to leave out.

    Examples:
        textassay score rated.jsonl --method jury -m juror=A -m juror=B -m juror=C --set
            output=jurors -o runs/jury
        textassay jurors runs/jury rated.jsonl
    """
    from textassay.fitting.importance import agreement_of_mean, worth_table, worths
    from textassay.fitting.learn import Fitter, rating_scales, read_table
    from textassay.learning import NAMES
    from textassay.methods.fitted.evaluator import read_files
    from textassay.runtime.data.ratings import LabelReader

    flags.check_confidence(confidence)
    if aggregator not in NAMES:
        raise UnknownName("aggregator", aggregator, list(NAMES))
    source = RatedInput(scores, data, given)
    own = source.source(LabelReader(source.declared))
    files = read_files((own,), level_features=False)
    rated = read_table(source.examples(needs_output=False), scores=files)
    fitter = Fitter(rating_scales(rated, {}), seed, 1)
    costs = _juror_costs(scores, rated.aspects)
    found = worths(rated, fitter, aggregator=aggregator, costs=costs, confidence=confidence)
    mean = agreement_of_mean(rated)
    document = {"rows": [one.as_dict() for one in found], "mean": mean}
    print_tables([worth_table(found, mean)], document, as_json=as_json)


def _juror_costs(scores: Path, aspects: Sequence[str]) -> dict[str, float | None]:
    """Return each juror's dollars per text, from the usage of a run; empty for other files."""
    from textassay.fitting.importance import juror_of
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
