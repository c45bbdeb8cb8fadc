"""Draws the facts about a run, its scores by system, and its method.

Means have intervals over sources. The method is drawn as a graph, with HD-Eval's tree (scores and
importance) and Fusion-Eval's plan.
"""

from __future__ import annotations

import graphlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from textassay.agreement.joined import join_notes
from textassay.arrays import Floats
from textassay.estimation.means import weighted_mean
from textassay.learning.splits import group_codes
from textassay.methods.by_name import build
from textassay.methods.fitted.evaluator import is_evaluator
from textassay.report import svg
from textassay.report.source import DataSource, JoinedPage, RowNumbers, RunSource, without_folders
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import TextassayError
from textassay.runtime.graph import Graph
from textassay.runtime.messages import Scale
from textassay.runtime.model import Capabilities, Model
from textassay.runtime.storage.run_files import OUTCOMES, token_details
from textassay.table import Column, Estimate, Table, any_known, column, table_of

REASONS = {
    "scored": "has a value",
    "abstained": "the judge declined",
    "invalid": "the judge answered, but not usably",
    "error": "the call to the judge failed",
}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run."""

    name: str
    facts: list[tuple[str, str]]
    """Label and value."""
    more: list[tuple[str, str]]
    """Facts that few readers need, which are folded."""
    outcomes: list[tuple[str, int, str]]
    """Outcome, number of scores and meaning of each outcome that occurs."""
    bar: Markup | None
    errors: list[tuple[str, int]]
    """Type of error and number of scores, most frequent first."""
    signatures: list[tuple[str, int]]
    """Signature and number of lines."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All runs."""

    runs: list[RunFacts]
    missing: str
    """Why texts are absent; empty if they are present."""
    left_out: list[str]
    """Sentences about rows of other texts, which are left out of all figures, or sources."""


def overview(runs: Sequence[RunSource], data: Sequence[DataSource]) -> Overview:
    """Return the facts, outcomes and errors of each run."""
    reasons = dict.fromkeys(source.missing for source in data if source.missing)
    left_out = [
        f"{len(source.other_texts):,} rows of {source.name} have other texts than"
        f" {'AB'[at] if len(runs) > 1 else 'the run'} judged under their ids, so they and their"
        " ratings are left out."
        for at, source in enumerate(data)
        if source.other_texts
    ]
    left_out += [
        f"{note.text}."
        for source in data
        for note in join_notes((), source.without_text, other_sources=source.other_sources)
    ]
    return Overview([_run_facts(run) for run in runs], "; ".join(reasons), left_out)


def _run_facts(run: RunSource) -> RunFacts:
    summary = run.table.summary.summary()
    outcomes: list[tuple[str, int, str]] = [
        (name, count, REASONS[name]) for name in OUTCOMES if (count := summary["outcomes"][name])
    ]
    # missing facts are left out, since an empty row would look like a fault
    facts, more = (
        [(label, without_folders(value)) for label, value in part.items() if value]
        for part in _facts(run, summary)
    )
    return RunFacts(
        name=run.name,
        facts=facts,
        more=more,
        outcomes=outcomes,
        bar=svg.shares((name, count) for name, count, _ in outcomes) if outcomes[1:] else None,
        errors=sorted(summary["errors"].items(), key=lambda item: (-item[1], item[0])),
        signatures=[(without_folders(s), count) for s, count in run.table.signatures.items()],
    )


def _facts(run: RunSource, summary: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return facts by label, and the facts that few readers need."""
    usage = summary["usage"]
    tools, count = run.entry("spec", "tools") or (), run.entry("data", "count")
    unseen = run.entry("data", "unseen") or ()
    models = [f"{role}: {name}" if role else name for role, name in run.models.items()]
    cost = "unknown price" if usage["cost"] is None else f"${usage['cost']:,.4f}"
    calls = f"{usage['calls']:,} made, {usage['cached_calls']:,} from the cache"
    tokens = f"{usage['prompt_tokens']:,} prompt, {usage['completion_tokens']:,} completion"
    tokens += token_details(usage)
    names = (run.entry("sent", name, "answered_as") for name in run.entry("sent") or ())
    answering = [", then ".join(answered) for answered in names if answered and len(answered) > 1]
    total = len(run.table)
    lacking = total - run.table.scored
    values = f"{lacking:,} without a value" if lacking else "all with a value"
    return {
        "Method": run.method,
        "Model": ", ".join(models) or "none asked",
        "Answered as": "; ".join(answering),
        "Task": str(run.entry("spec", "task") or ""),
        "Examples": f"{len(run.table.ids):,} judged" + (f" of {count:,}" if count else ""),
        "Not seen by the judge": ", ".join(unseen),
        "Aspects": ", ".join(run.table.aspects),
        "Scores": f"{total:,}, {values}" if total else "none yet",
        "Tools": ", ".join(map(str, tools)),
        "Cost": cost,
    }, {
        "Calls": calls,
        "Tokens": tokens,
        "Began": run.began,
        "Version": f"textassay {run.entry('textassay') or 'unknown'}",
    }


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One system on one aspect."""

    system: str | None = field(
        metadata=column("system", cell=lambda row: row.system or "all texts")
    )
    """Name of the system; `None` for all texts."""
    run: str = field(metadata=column("run", when=lambda cells: len({*cells}) > 1))
    """`A` or `B`."""
    n: int = field(metadata=column("n", "count"))
    """Texts with a score."""
    unscored: int = field(metadata=column("unscored", "count", when=any))
    """Texts without a score."""
    mean: Estimate = field(
        metadata=column(
            "mean, 95 % interval", "interval", cell=lambda row: row.mean if row.n else None
        )
    )
    """The mean of the scores; undefined without a score."""
    picture: Markup
    """The mean on the scale."""
    spread: Markup = field(metadata=column("values", "picture"))
    """A histogram of the scores."""
    people: float | None = field(metadata=column("people", "number", 2, when=any_known))
    """Mean rating over the rated texts; `None` if there are no ratings."""


@dataclass(frozen=True, slots=True)
class AspectScores:
    """All systems on one aspect, best first."""

    name: str
    scale: str
    """Its scale in words."""
    span: tuple[float, float]
    """Ends of the axis that the pictures share."""
    rows: list[SystemRow]
    """All texts first, then each system; with two runs, both in turn."""

    def table(self) -> Table:
        """Return means by system, with people's means if there are ratings."""
        table = table_of(SystemRow, self.rows, title=f"{self.name}, {self.scale}")
        scale = Column("picture", f"{self.span[0]:g} to {self.span[1]:g}", "picture")
        return table.with_column(scale, [row.picture for row in self.rows], after="mean")


def scores(
    runs: Sequence[RunSource], data: Sequence[DataSource], joined: Sequence[JoinedPage]
) -> list[AspectScores]:
    """Return means by aspect and system; empty while there are no scores."""
    # labels without an order have no mean
    left_out = {name for run in runs for name in run.without_mean}
    names = list(dict.fromkeys(name for run in runs for name in run.table.aspects))
    return [_aspect(name, runs, data, joined) for name in names if name not in left_out]


def _aspect(
    name: str, runs: Sequence[RunSource], data: Sequence[DataSource], joined: Sequence[JoinedPage]
) -> AspectScores:
    judged = [
        (letter, run, beside, source)
        for letter, run, beside, source in zip("AB", runs, joined, data, strict=False)
        if name in run.table.aspects
    ]
    first = judged[0][1]
    scales = {run.table.scales[run.table.aspects.index(name)] for _, run, *_ in judged}
    items = np.concatenate([beside.values[run.table.rows_on(name)] for _, run, beside, _ in judged])
    items = items[~np.isnan(items)]
    # two runs on different scales share an axis that covers both
    ends = [end for scale in scales if scale is not None for end in scale]
    if None in scales:
        ends += [float(items.min()), float(items.max())] if len(items) else []
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    lines = [row for judge in judged for row in _of_run(name, *judge, span)]
    # systems in the order of the first run, each beside its row of the second
    order = {row.system: at for at, row in reversed(list(enumerate(lines)))}
    lines.sort(key=lambda row: order[row.system])
    words = [f"{scale[0]:g} to {scale[1]:g}" if scale else "no fixed scale" for scale in scales]
    scale_text = " and ".join(sorted(words))
    if not first.higher_is_better(name):
        scale_text += ", lower is better"
    return AspectScores(name, scale_text, span, lines)


def _of_run(
    name: str,
    letter: str,
    run: RunSource,
    joined: JoinedPage,
    data: DataSource,
    span: tuple[float, float],
) -> list[SystemRow]:
    """Return the row of all texts, then the rows of the systems, best first."""
    table, rows = run.table, run.table.rows_on(name)
    values, human = joined.values[rows], joined.human[rows]
    examples = [data.examples.get(table.ids[table.example[row]]) for row in rows]
    groups = [data.sources.get(table.ids[table.example[row]]) for row in rows]
    systems = [example.system if example else None for example in examples]
    scale = table.scales[table.aspects.index(name)]

    def row(system: str | None, at: RowNumbers) -> SystemRow:
        scored = at[~np.isnan(values[at])]
        mean = _mean(values[scored], [groups[int(row)] for row in scored], scale)
        # clipped, so that values off the axis count in the last bins
        counts, _ = np.histogram(np.clip(values[scored], *span), bins=16, range=span)
        rated = human[at][~np.isnan(human[at])]
        people = float(rated.mean()) if len(rated) else None
        # raters may have used another scale, on which a clipped mark would be wrong
        on_axis = people if people is not None and span[0] <= people <= span[1] else None
        return SystemRow(
            run=letter, system=system, n=len(scored), mean=mean, unscored=len(at) - len(scored),
            people=people, picture=svg.interval_plot(mean, span, mark=on_axis),
            spread=svg.histogram(counts.tolist() if len(scored) else ()),
        )  # fmt: skip

    named = sorted({system for system in systems if system is not None})
    lines = [row(None, np.arange(len(rows)))]
    # a single system would repeat the row of all texts
    if len(named) > 1:
        each = [
            row(author, np.flatnonzero([author == system for system in systems]))
            for author in named
        ]
        up = 1 if run.higher_is_better(name) else -1
        lines += sorted(each, key=lambda row: -up * (row.mean.value or 0) if row.n else np.inf)
    return lines


def _mean(values: Floats, groups: Sequence[str | None], scale: Scale | None) -> Estimate:
    """Return the mean of scores with its interval over sources; no interval with one source."""
    if not len(values):
        return Estimate(None)
    estimate = weighted_mean(values, group_codes(groups)).estimate(0.95)
    if scale is not None:
        estimate = estimate.clip(*scale)
    # rounded once, so that equal runs show equal means
    return Estimate(math.fsum(values) / len(values), estimate.low, estimate.high)


@dataclass(frozen=True, slots=True)
class CriterionRow:
    """A node of HD-Eval's tree."""

    name: str
    depth: int
    """0 at the root."""
    mean: float | None
    """Mean rating; `None` if no score's evidence has it."""
    n: int
    picture: Markup | None
    importance: float | None
    """Growth of the squared error if it is shuffled; `None` unless fitted."""
    weight: Markup | None
    definition: str = ""


@dataclass(frozen=True, slots=True)
class RecipeSection:
    """The section; inapplicable parts are `None` or empty."""

    method: str
    graph: Markup | None
    """The drawing; if there is none, `reason` says why."""
    reason: str | None
    fans_out: bool
    steps: list[tuple[str, str]]
    """The graph in words: each node and its inputs."""
    trees: list[tuple[str, list[CriterionRow]]]
    """A root aspect and its criteria, parents first; no root if no criterion has children."""
    fitted: bool
    """Whether importance is known."""
    plan: list[str]
    assistants: list[tuple[str, str]]
    """Aspect and the tools that serve it."""


def recipe(run: RunSource) -> RecipeSection:
    """Return a description of a run's method."""
    picture, steps, reason, fans_out = None, [], None, False
    try:
        graph = _graph(run.entry("spec") or {})
        picture, steps = _draw(graph), _in_words(graph)
        fans_out = any(edge.fans_out for edge in graph.edges)
    except TextassayError as error:
        reason = without_folders(str(error))
    tree = _tree(run)
    fitted = any(node.importance is not None for node in tree)
    return RecipeSection(
        run.method, picture, reason, fans_out, steps, _by_root(tree), fitted, *_plan(run)
    )


def _graph(spec: Mapping[str, Any]) -> Graph:
    """Build the method again, with a model that never answers."""
    name, options = str(spec.get("method")), dict(spec.get("options") or {})
    models: dict[str, Model] = {}
    if spec.get("models"):
        models = {"": ScriptedModel([], capabilities=Capabilities())}
        if is_evaluator(name):
            # only the graph is drawn, so a change of the judge is irrelevant here
            options["allow_change"] = True
    tools = tuple(spec.get("tools") or ())
    return build(name, models, task=spec.get("task"), options=options, tools=tools).graph


def _draw(graph: Graph) -> Markup:
    fed: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    arrows: dict[tuple[str, str], bool] = {}
    for edge in graph.edges:
        fed[edge.target].append(edge.source)
        # several edges between two nodes become one arrow, which fans out if any of them does
        ends = (edge.source, edge.target)
        arrows[ends] = arrows.get(ends, False) or edge.fans_out
    depth = {"input": 0}
    for name in graphlib.TopologicalSorter(fed).static_order():
        if name != "input":
            depth[name] = 1 + max((depth[source] for source in fed[name]), default=0)
    columns: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in ("input", *fed):
        columns[depth[name]].append(name)
    result = "\0result"  # is not the name of a node
    arrows[graph.output, result] = False
    return svg.flow(
        [*columns, [result]],
        [(*ends, fans_out) for ends, fans_out in arrows.items()],
        names={"input": "example", result: "result"},
        label=f"Graph of {graph.name}",
    )


def _in_words(graph: Graph) -> list[tuple[str, str]]:
    inputs: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        path = f"{edge.source}.{edge.path}" if edge.path else edge.source
        inputs[edge.target].append(f"each of {path}" if edge.fans_out else path)
    return [(name, ", ".join(dict.fromkeys(fed)) or "nothing") for name, fed in inputs.items()]


def _tree(run: RunSource) -> list[CriterionRow]:
    """Return HD-Eval's criteria, or the features of a fitted evaluator."""
    trees = run.entry("method", "trees")
    importance, recorded = _importance(run), run.entry("method", "criteria")
    definitions = recorded if isinstance(recorded, Mapping) else {}
    layers = trees.values() if isinstance(trees, Mapping) else [sorted(importance)]
    ids = [str(node) for tree in layers for node in tree]
    means = _means_of_criteria(run) if ids else {}
    span = (min(0.0, *importance.values()), max(0.0, *importance.values())) if importance else None
    tree = []
    for id_ in ids:
        mean, n, scale = means.get(id_, (None, 0, None))
        weight = importance.get(id_)
        parts = id_.removeprefix("hd-eval/").split("/")
        picture = bar = None
        if mean is not None and scale:
            picture = svg.interval_plot(Estimate(mean), scale, width=110)
        if weight is not None and span is not None:
            # from 0, so that length and direction show the importance
            bar_ends = Estimate(weight, min(0.0, weight), max(0.0, weight))
            bar = svg.interval_plot(bar_ends, span, mark=0.0, width=110)
        name, depth = parts[-1].replace("-", " "), len(parts) - 1
        definition = str(definitions.get(id_) or "")
        tree.append(CriterionRow(name, depth, mean, n, picture, weight, bar, definition))
    return tree


def _by_root(tree: Sequence[CriterionRow]) -> list[tuple[str, list[CriterionRow]]]:
    if not any(node.depth for node in tree):
        # features of a fitted evaluator do not form a tree
        return [("", list(tree))] if tree else []
    roots: list[tuple[str, list[CriterionRow]]] = []
    for node in tree:
        if node.depth == 0 or not roots:
            roots.append((node.name, []))
        roots[-1][1].append(node)
    return roots


def _means_of_criteria(run: RunSource) -> dict[str, tuple[float, int, tuple[float, float] | None]]:
    """Return mean, number and scale of each criterion in the evidence, by its id."""
    total: dict[str, list[float]] = {}
    scales: dict[str, tuple[float, float]] = {}
    seen: set[tuple[str, str]] = set()
    # evidence is read from the file, so large runs show the means of their first scores
    for score in run.table.scores(list(range(min(len(run.table), 50_000)))):
        for piece in score.evidence:
            id_, value = str(piece.get("id", piece.get("text", ""))), piece.get("value")
            if not isinstance(value, int | float) or (score.id, id_) in seen:
                continue  # a criterion that serves several aspects was rated once
            seen.add((score.id, id_))
            total.setdefault(id_, []).append(float(value))
            if scale := piece.get("scale"):
                scales[id_] = (float(scale[0]), float(scale[1]))
    return {
        id_: (sum(items) / len(items), len(items), scales.get(id_)) for id_, items in total.items()
    }


def _importance(run: RunSource) -> dict[str, float]:
    """Return importance by feature, from the evaluator's own report."""
    folder = str(run.entry("spec", "method") or "")
    path = Path(folder) / "report.json"
    if not is_evaluator(folder) or not path.is_file():
        return {}
    try:
        permutation = json.loads(path.read_bytes())["importance"]["permutation"]
        return {
            str(each["feature"]): float(each["mean"])
            for each in permutation
            if each["mean"] is not None
        }
    except (ValueError, KeyError, TypeError):
        return {}  # nothing was held out


def _plan(run: RunSource) -> tuple[list[str], list[tuple[str, str]]]:
    path = run.folder / "plan.toml"
    plan: Any = run.entry("method", "plan")
    if path.is_file():
        try:
            plan = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return [], []  # the file may be edited by hand, and the run does not depend on it
    if not isinstance(plan, Mapping):
        return [], []
    steps: Sequence[Any] = plan.get("steps") or [plan.get("text", "")]
    tools_of = (plan.get("assistants") or {}).items()
    assistants = [(str(aspect), ", ".join(map(str, tools)) or "none") for aspect, tools in tools_of]
    return [str(step) for step in steps if step], assistants
