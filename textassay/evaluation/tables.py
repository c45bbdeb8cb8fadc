"""Scores joined with what was judged, as rows of a table in the order of the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textassay.runtime.messages import Example, Score, Usage
from textassay.runtime.storage.json_text import encode

_TEXTS = (
    "id", "aspect", "outcome", "how", "explanation", "evidence", "signature", "started", "system",
    "group",
)  # fmt: skip
Rows = tuple[list[str], list[dict[str, Any]]]
"""Names of the columns, and the rows."""


def long_rows(scores: Iterable[Score], examples: Iterable[Example]) -> Rows:
    """Return one row per score.

    Its fields, `system` and `group`, and the `human` rating of its aspect.
    """
    by_id, aspects = _by_id(scores)
    rows = []
    for example in examples:
        of_one = by_id.pop(example.id, {})
        for aspect in (name for name in aspects if name in of_one):
            fields = {"system": example.system, "group": example.group}
            human = example.human.get(aspect)
            rows.append({**of_one[aspect].model_dump(mode="json"), **fields, "human": human})
    # scores whose examples are not in the data are kept at the end: data that were cut must not
    # hide them
    left = [score for of_one in by_id.values() for score in of_one.values()]
    rows += [score.model_dump(mode="json") for score in left]
    return [*Score.model_fields, "system", "group", "human"], rows


def wide_rows(scores: Iterable[Score], examples: Iterable[Example]) -> Rows:
    """Return one row per example.

    Id, system, group, the value of each aspect, and each human rating.
    """
    by_id, aspects = _by_id(scores)
    humans: dict[str, None] = {}
    rows = []
    for example in examples:
        of_one = by_id.pop(example.id, None)
        if of_one is None:
            continue
        human = {f"human.{name}": value for name, value in example.human.items()}
        humans |= dict.fromkeys(human)
        row = {"id": example.id, "system": example.system, "group": example.group}
        rows.append({**row, **_values(of_one), **human})
    rows += [{"id": id_, **_values(of_one)} for id_, of_one in by_id.items()]
    return ["id", "system", "group", *aspects, *humans], rows


def arrow_table(columns: list[str], rows: list[dict[str, Any]]) -> Any:
    """Return rows as a `pyarrow.Table` with the same types whatever is in them; needs pyarrow."""
    import pyarrow as pa

    usage = {name: pa.int64() for name in Usage.model_fields} | {"cost": pa.float64()}
    # fixed types: inferred ones would depend on whether the first rows happen to be unscored
    kinds = {
        "scale": pa.list_(pa.float64()),
        "samples": pa.int64(),
        "outside": pa.bool_(),
        "usage": pa.struct(list(usage.items())),
        "error": pa.struct([("type", pa.string()), ("message", pa.string())]),
    }
    kinds |= dict.fromkeys(_TEXTS, pa.string())
    made = {}
    for name in columns:
        cells: Any = (row.get(name) for row in rows)
        if name == "evidence":
            cells = (None if cell is None else encode(cell).decode() for cell in cells)
        made[name] = pa.array(list(cells), kinds.get(name, pa.float64()))
    return pa.table(made)


def _by_id(scores: Iterable[Score]) -> tuple[dict[str, dict[str, Score]], list[str]]:
    by_id: dict[str, dict[str, Score]] = {}
    aspects: dict[str, None] = {}
    for score in scores:
        by_id.setdefault(score.id, {})[score.aspect] = score
        aspects.setdefault(score.aspect)
    return by_id, list(aspects)


def _values(of_one: dict[str, Score]) -> dict[str, float | None]:
    return {aspect: score.value for aspect, score in of_one.items()}
