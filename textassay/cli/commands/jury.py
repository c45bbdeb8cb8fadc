"""`textassay cascade|jurors`: which judges to ask, and when a cheap one may decide alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textassay.cli import flags
from textassay.cli.app import DECIDING, command
from textassay.cli.console import print_tables, say
from textassay.cli.rated import Rated, notes_of
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Usage
from textassay.table import Column, Note, Table

if TYPE_CHECKING:
    from textassay.calibration.calibration import Tried
    from textassay.learning.cascade import Rule


_COLUMNS = (
    Column("score", "score"), Column("share", "cheap decides", "share"),
    Column("disagreement", "disagreements", "number"), Column("bound", "bound", "number"),
    Column("cheap", "r cheap", "number"), Column("strong", "strong", "number"),
    Column("both", "both", "number"),
)  # fmt: skip


@command("cascade", panel=DECIDING)
def cascade(
    scores: flags.ScoresOrMetrics,
    data: flags.RatedData = None,
    *,
    out: flags.Out = None,
    strong: Annotated[
        Path | None, flags.option("RUN", "Run of the strong judge alone, to compare with.")
    ] = None,
    tolerance: Annotated[
        float, flags.option("T", "Distance from the human rating that counts as a disagreement.")
    ] = 1.0,
    risk: Annotated[
        float, flags.option("R", "Accepted share of disagreements where the cheap judge decides.")
    ] = 0.2,
    confidence: flags.Confidence = 0.95,
    aspect_map: flags.AspectMap = None,
    scale: flags.ScaleOf = None,
    seed: flags.Seed = 0,
    as_json: flags.AsJson = False,
    given: Annotated[flags.Given, flags.RATED],
) -> None:
    """Learn from ratings when a cheap judge can decide alone, with a bound on disagreements.

    Examples:
        textassay score rated.jsonl --method jury -m juror=CHEAP -o runs/cheap
        textassay cascade runs/cheap rated.jsonl -o cascades/first
        textassay score new.jsonl --method jury -m juror=CHEAP -m juror=STRONG --escalate
            cascades/first -o runs/new
    """
    from textassay.calibration.calibration import learn_rule
    from textassay.learning.cascade import save
    from textassay.runtime.storage.files import check_new_folder

    flags.check_confidence(confidence)
    if out is None:
        raise ConfigurationError("cascade needs SCORES, DATA with ratings, and --out DIR")
    # before the scores are read, which may take minutes
    check_new_folder(out)
    rated = Rated(scores, data, given, aspect_map, scale=scale)
    tables = rated.columns()
    rules, rows = [], list[dict[str, Any]]()
    for columns in tables:
        rule, tried = learn_rule(
            columns,
            scales=rated.scales_of(columns),
            tolerance=tolerance,
            risk=risk,
            confidence=confidence,
            seed=seed,
        )
        rules.append(rule)
        rows.append(_row(rule, tried))
    save(rules, out)
    costs = _costs(scores, strong, rules)
    others = [] if strong is None else rated.columns(strong)
    if strong is not None:
        _compare(rows, rules, tables, others)
    document = {"rows": rows, "costs": costs, "out": str(out)}
    print_tables(
        [_table(rows, costs, risk, tolerance, confidence)],
        document,
        as_json=as_json,
        notes=notes_of((*tables, *others)),
    )
    if as_json:
        return
    say(
        f"cascade written to {out}; apply it with: textassay score DATA --method jury --model"
        f" juror=CHEAP --model juror=STRONG --escalate {out} --out RUN"
    )


def _row(rule: Rule, tried: Sequence[Tried]) -> dict[str, Any]:
    chosen = next((one for one in tried if one.length == rule.limit), None)
    return {
        "aspect": rule.aspect,
        "share": rule.share,
        "disagreement": None if chosen is None else chosen.disagreement,
        "bound": rule.bound,
        "limit": rule.limit,
        "tried": [
            {"length": one.length, "share": one.share, "disagreement": one.disagreement,
             "bound": None if one.bound == float("inf") else one.bound}
            for one in tried
        ],
    }  # fmt: skip


def _compare(
    rows: Sequence[dict[str, Any]], rules: Sequence[Rule], cheap: Sequence[Any], strong: Any
) -> None:
    """Add the agreement with people of the cheap judge, the strong one and the cascade."""
    from textassay.meta.correlation import pearson

    by_score = {columns.score: columns for columns in strong}
    for row, rule, columns in zip(rows, rules, cheap, strict=True):
        other = by_score.get(columns.score)
        if other is None:
            continue
        theirs = dict(zip(other.ids, other.scores.tolist(), strict=True))
        triples = [
            (score, theirs[id_], rating)
            for id_, score, rating in zip(
                columns.ids, columns.scores.tolist(), columns.ratings.tolist(), strict=True
            )
            # NaN is unequal to itself: rows that both judged and people rated
            if score == score and rating == rating and theirs.get(id_, float("nan")) == theirs[id_]
        ]
        readings = [rule.read(score) for score, _, _ in triples]
        both = [
            reading.value if reading.stands else strong_value
            for reading, (_, strong_value, _) in zip(readings, triples, strict=True)
        ]
        people = [rating for _, _, rating in triples]
        row["pearson"] = {
            "cheap": pearson([score for score, _, _ in triples], people),
            "strong": pearson([strong_value for _, strong_value, _ in triples], people),
            "cascade": pearson(both, people),
        }


def _costs(cheap: Path, strong: Path | None, rules: Sequence[Rule]) -> dict[str, Any] | None:
    """Return the cost of a score by each judge and by the cascade; `None` if runs do not tell."""
    from textassay.runtime.storage.run_files import MANIFEST

    if strong is None or not all((run / MANIFEST).is_file() for run in (cheap, strong)):
        return None
    prices = [_cost(run) for run in (cheap, strong)]
    if prices[0] is None or prices[1] is None:
        return None
    share = sum(rule.share for rule in rules) / len(rules)
    both = prices[0] + (1 - share) * prices[1]
    return {"cheap": prices[0], "strong": prices[1], "cascade": both, "decided_by_cheap": share}


def _cost(run: Path) -> float | None:
    """Return dollars per score, cached answers at the price of tokens; `None` if not known."""
    from textassay.runtime.storage.run_files import latest_scores

    found = list(latest_scores(run))
    total = sum((score.usage for score in found), Usage())
    return None if total.cost is None or not found else total.cost / len(found)


def _table(
    rows: Sequence[dict[str, Any]],
    costs: dict[str, Any] | None,
    risk: float,
    tolerance: float,
    confidence: float,
) -> Table:
    lines = [
        (row["aspect"], row["share"], row["disagreement"], row["bound"],
         *(row.get("pearson", {}).get(name) for name in ("cheap", "strong", "cascade")))
        for row in rows
    ]  # fmt: skip
    notes = [
        Note(
            f"Where the cheap judge decides, people's rating is further than {tolerance:g} from its"
            f" calibrated score on at most {risk:.0%} of the rows of as many new sources, with"
            f" confidence {confidence:.0%} per aspect; elsewhere the strong judge is asked."
        )
    ]
    if not any(row["share"] for row in rows):
        text = "No interval is narrow enough: the strong judge would rate everything."
        notes.append(Note(text, warning=True))
    if costs is not None:
        notes.append(
            Note(
                f"cost per score: cheap {costs['cheap']:.6f}, strong {costs['strong']:.6f}, cascade"
                f" {costs['cascade']:.6f} USD"
            )
        )
    return Table(_COLUMNS, lines, tuple(notes), "what the cheap judge decides")


@command("jurors", panel=DECIDING)
def jurors(
    scores: Annotated[
        Path,
        flags.argument("SCORES", "Run of a jury with output=jurors, or scores named ASPECT/JUROR."),
    ],
    data: flags.RatedData = None,
    *,
    aggregator: Annotated[
        str,
        flags.option("NAME", "Aggregator of the jury (default: nnls, without negative weights)."),
    ] = "nnls",
    confidence: flags.Confidence = 0.95,
    seed: flags.Seed = 0,
    as_json: flags.AsJson = False,
    given: Annotated[flags.Given, flags.RATED],
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
    source = Rated(scores, data, given)
    files = read_files((source.source(LabelReader(source.declared)),))
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
