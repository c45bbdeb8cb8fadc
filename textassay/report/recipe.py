"""How the method judges.

Its graph drawn, HD-Eval's tree with scores and importance, Fusion-Eval's plan.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from textassay.methods.by_name import build
from textassay.methods.fitted.evaluator import is_evaluator
from textassay.report import svg
from textassay.report.source import RunSource
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import TextassayError
from textassay.runtime.graph import Graph
from textassay.runtime.model import Capabilities, Model

_MAX_SCORES = 50_000
"""Scores whose evidence is read for the means of the criteria."""
_RESULT = "\0result"
_NONE = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A node of HD-Eval's tree."""

    name: str
    depth: int
    """0 at the root."""
    mean: float | None
    """Mean rating; `None` if no score's evidence has it."""
    n: int
    picture: Markup | None
    importance: float | None
    """How much the squared error grows when it is shuffled; `None` unless fitted."""
    weight: Markup | None


@dataclass(frozen=True, slots=True)
class RecipeSection:
    """The section; what does not apply is `None` or empty."""

    method: str
    graph: Markup | None
    """Drawn; if it cannot be, `reason` says why."""
    reason: str | None
    fans_out: bool
    steps: list[tuple[str, str]]
    """The graph in words: a node and what feeds it."""
    trees: list[tuple[str, list[Criterion]]]
    """A root aspect and its criteria, parents first; no root if no criterion has children."""
    fitted: bool
    """Whether importance is known."""
    plan: list[str]
    assistants: list[tuple[str, str]]
    """Aspect and the tools that serve it."""


def recipe(run: RunSource) -> RecipeSection:
    """Return how a run's method works."""
    picture, steps, reason, fans_out = None, [], None, False
    try:
        graph = _graph(run.manifest.get("spec") or {})
        picture, steps = _drawn(graph), _in_words(graph)
        fans_out = any(edge.fans_out for edge in graph.edges)
    except TextassayError as error:
        reason = str(error)
    plan, assistants = _plan(run)
    tree = _tree(run)
    return RecipeSection(
        run.method,
        picture,
        reason,
        fans_out,
        steps,
        _by_root(tree),
        any(node.importance is not None for node in tree),
        plan,
        assistants,
    )


def _graph(spec: Mapping[str, Any]) -> Graph:
    """Build the method again, with a model that never answers."""
    name, options = str(spec.get("method")), dict(spec.get("options") or {})
    if is_evaluator(name):
        # only the graph is drawn, so a change of the judge does not matter here
        options["allow_change"] = True
    models: dict[str, Model] = {"": ScriptedModel([], capabilities=Capabilities())}
    if not spec.get("models"):
        models, options = {}, {**(spec.get("options") or {})}
    return build(
        name, models, task=spec.get("task"), options=options, tools=tuple(spec.get("tools") or ())
    ).graph


def _drawn(graph: Graph) -> Markup:
    names = {"input": "example", _RESULT: "result"}
    edges = [(edge.source, edge.target, edge.fans_out) for edge in graph.edges]
    depth = {"input": 0}
    # longest path by relaxation: after as many rounds as nodes, every edge points to the right
    for _ in graph.nodes:
        for source, target, _each in edges:
            depth[target] = max(depth.get(target, 1), depth.get(source, 0) + 1)
    for node in graph.nodes:
        depth.setdefault(node.name, 1)
    last = max(depth.values()) + 1
    columns: list[list[str]] = [[] for _ in range(last)]
    for name, at in depth.items():
        columns[at].append(name)
    columns.append([_RESULT])
    merged: dict[tuple[str, str], bool] = {}
    for source, target, each in edges:
        # several edges between two nodes are one arrow, which fans out if any of them does
        merged[source, target] = merged.get((source, target), False) or each
    drawn = [(source, target, each) for (source, target), each in merged.items()]
    return svg.flow(
        columns,
        [*drawn, (graph.output, _RESULT, False)],
        names=names,
        label=f"Graph of {graph.name}",
    )


def _in_words(graph: Graph) -> list[tuple[str, str]]:
    inputs: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        path = f"{edge.source}.{edge.path}" if edge.path else edge.source
        inputs[edge.target].append(f"each of {path}" if edge.fans_out else path)
    return [(name, ", ".join(dict.fromkeys(fed)) or "nothing") for name, fed in inputs.items()]


def _tree(run: RunSource) -> list[Criterion]:
    trees = (run.manifest.get("method") or {}).get("trees")
    importance = _importance(run)
    layers = trees.values() if isinstance(trees, Mapping) else [sorted(importance)]
    ids = [str(node) for tree in layers for node in tree]
    if not ids:
        return []
    means = _means(run)
    span = (min(0.0, *importance.values()), max(0.0, *importance.values())) if importance else _NONE
    return [_criterion(id_, means, importance, span) for id_ in ids]


def _by_root(tree: Sequence[Criterion]) -> list[tuple[str, list[Criterion]]]:
    """Return criteria by the root that they stand under."""
    if not any(node.depth for node in tree):
        # features of a fitted evaluator are no tree
        return [("", list(tree))] if tree else []
    roots: list[tuple[str, list[Criterion]]] = []
    for node in tree:
        if node.depth == 0 or not roots:
            roots.append((node.name, []))
        roots[-1][1].append(node)
    return roots


def _criterion(
    id_: str,
    means: Mapping[str, tuple[float, int, tuple[float, float] | None]],
    importance: Mapping[str, float],
    span: svg.Span,
) -> Criterion:
    mean, n, scale = means.get(id_, (None, 0, None))
    weight = importance.get(id_)
    parts = id_.removeprefix("hd-eval/").split("/")
    bar = None
    if weight is not None:
        # from 0, so that length and side show the importance
        bar = svg.interval_plot(
            (weight, min(0.0, weight), max(0.0, weight)), span, mark=0.0, width=110
        )
    return Criterion(
        name=parts[-1].replace("-", " "),
        depth=len(parts) - 1,
        mean=mean,
        n=n,
        picture=svg.interval_plot((mean, None, None), scale, width=110)
        if mean is not None and scale
        else None,
        importance=weight,
        weight=bar,
    )


def _means(run: RunSource) -> dict[str, tuple[float, int, tuple[float, float] | None]]:
    """Return mean, number and scale of what the evidence calls a criterion, by its id."""
    total: dict[str, list[float]] = {}
    scales: dict[str, tuple[float, float]] = {}
    seen: set[tuple[str, str]] = set()
    for score in run.table.scores(list(range(min(len(run.table), _MAX_SCORES)))):
        for piece in score.evidence:
            id_, value = str(piece.get("id", piece.get("text", ""))), piece.get("value")
            if not isinstance(value, int | float) or (score.id, id_) in seen:
                continue  # a criterion that serves several aspects was rated once
            seen.add((score.id, id_))
            total.setdefault(id_, []).append(float(value))
            if scale := piece.get("scale"):
                scales[id_] = (float(scale[0]), float(scale[1]))
    return {
        id_: (sum(values) / len(values), len(values), scales.get(id_))
        for id_, values in total.items()
    }


def _importance(run: RunSource) -> dict[str, float]:
    """Return importance by feature, from the evaluator's own report."""
    folder = str((run.manifest.get("spec") or {}).get("method", ""))
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
        return {}  # a report by an older version, or of nothing held out


def _plan(run: RunSource) -> tuple[list[str], list[tuple[str, str]]]:
    path = run.folder / "plan.toml"
    plan: Any = (run.manifest.get("method") or {}).get("plan")
    if path.is_file():
        try:
            plan = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return [], []  # people may edit the file, and the run does not depend on it
    if not isinstance(plan, Mapping):
        return [], []
    steps: Sequence[Any] = plan.get("steps") or [plan.get("text", "")]
    assistants = plan.get("assistants") or {}
    return (
        [str(step) for step in steps if step],
        [
            (str(aspect), ", ".join(map(str, tools)) or "none")
            for aspect, tools in assistants.items()
        ],
    )
