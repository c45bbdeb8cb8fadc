"""Rubrics: the criteria for one text, and the total of their verdicts.

A criterion has points, which are below zero for a fault (HealthBench, Arora et al. 2025, arXiv
2505.08775, section 3), and may depend on others: it is met only if the others are met (DevAI, Zhuge
et al. 2024, arXiv 2410.10934, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from textassay.runtime.labels import find_pair

MAX_CRITERIA = 200
"""Maximum number of criteria of a rubric."""
CRITERIA = "criteria"
"""Name of the verdicts on criteria of rubrics; verdicts with a tag also have `criteria: TAG`."""

_Points = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Criterion(BaseModel, defer_build=True):
    """One thing that a text should or should not do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    criterion: str = Field(min_length=1)
    """The criterion in words."""
    points: _Points = 1.0
    """Its points in the total if it is met; below zero for a fault."""
    tags: tuple[str, ...] = ()
    """Its tags, such as `axis:accuracy`."""
    id: str = Field(min_length=1)
    """Unique in its rubric; by default the position, from 0."""
    prerequisites: tuple[str, ...] = ()
    """Ids of the criteria whose verdicts must be yes for this one to count as met."""
    human: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """People's verdict: 1 or 0, or the share of raters for whom it is met."""


_NAMES = {
    "criterion": ("criterion", "criteria", "criterion_text", "requirement", "description"),
    "points": ("points", "weight"),
    "tags": ("tags", "category"),
    "id": ("id", "requirement_id"),
    "prerequisites": ("prerequisites",),
    "human": ("human", "satisfied"),
}
"""Keys of a criterion, ours first, then names in published rubrics."""
_FIELDS = {key: field for field, keys in _NAMES.items() for key in keys}


def read_rubric(criteria: Any) -> tuple[Criterion, ...]:
    """Return a rubric from a list of criteria."""
    if not isinstance(criteria, list | tuple):
        raise ValueError(
            'should be a list of criteria: texts, or {"criterion": "...", "points": 1}'
        )
    if len(criteria) > MAX_CRITERIA:
        raise ValueError(f"has {len(criteria)} criteria; at most {MAX_CRITERIA} are allowed")
    rubric = tuple(_criterion(at, criterion) for at, criterion in enumerate(criteria))
    if not rubric:
        return ()
    ids = [criterion.id for criterion in rubric]
    if twice := next((id_ for id_ in ids if ids.count(id_) > 1), None):
        raise ValueError(f"has two criteria with the id {twice!r}")
    for criterion in rubric:
        if unknown := next((need for need in criterion.prerequisites if need not in ids), None):
            raise ValueError(
                f"criterion {criterion.id!r} depends on {unknown!r}, which is not one of the ids"
                f" {', '.join(ids)}"
            )
    if not any(criterion.points > 0 for criterion in rubric):
        raise ValueError("has no criterion with points above 0, so that nothing can be earned")
    return rubric


def _criterion(at: int, item: Any) -> Criterion:
    if isinstance(item, Criterion):
        return item
    if isinstance(item, str):
        item = {"criterion": item}
    if not isinstance(item, Mapping):
        raise ValueError(f"criterion {at}: should be a text or an object, not {item!r:.60}")
    fields: dict[str, Any] = {}
    for key, value in item.items():
        field = _FIELDS.get(key)
        if field is None:
            raise ValueError(f"criterion {at}: unknown key {key!r}; known: {', '.join(_NAMES)}")
        if field in fields:
            raise ValueError(f"criterion {at}: {key!r} means {field!r}, which is there already")
        if value is not None:
            fields[field] = value
    return _check_criterion(at, fields)


def _check_criterion(at: int, fields: dict[str, Any]) -> Criterion:
    """Return a criterion from its fields in a row."""
    if isinstance(text := fields.get("criterion"), str):
        fields["criterion"] = " ".join(text.split())
    tags, needs = fields.get("tags", ()), fields.get("prerequisites", ())
    fields["tags"] = (tags,) if isinstance(tags, str) else tags
    fields["prerequisites"] = (
        tuple(map(_id, needs)) if isinstance(needs, list | tuple) else (_id(needs),)
    )
    fields["id"] = _id(fields.get("id", at))
    if (pair_and_number := find_pair(fields.get("human"))) is not None:
        fields["human"] = float(pair_and_number[1])
    try:
        return Criterion(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ValueError(f"criterion {at}, {key}: {first['msg']}") from None


def _id(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def with_prerequisites(
    rubric: Sequence[Criterion], verdicts: Sequence[float | None]
) -> list[float | None]:
    """Return how far each criterion counts as met, by its own verdict and its prerequisites'.

    A verdict is 1, 0 or a probability. As in DevAI's tables, only direct prerequisites are used,
    not their own prerequisites.
    """
    verdict_of = {c.id: verdict for c, verdict in zip(rubric, verdicts, strict=True)}
    met: list[float | None] = []
    for criterion in rubric:
        all_of = [verdict_of[id_] for id_ in (criterion.id, *criterion.prerequisites)]
        # one that is not met decides, even if other verdicts are missing
        unknown = None in all_of and 0 not in all_of
        met.append(None if unknown else 0.0 if 0 in all_of else math.prod(filter(None, all_of)))
    return met


def circle_of(rubric: Sequence[Criterion]) -> tuple[str, ...]:
    """Return the ids of criteria that depend on each other in a circle; empty without a circle."""
    needs = {c.id: c.prerequisites for c in rubric if c.prerequisites}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return tuple(dict.fromkeys(error.args[1]))
    return ()


def share_of_points(rubric: Sequence[Criterion], met: Sequence[float | None]) -> float | None:
    """Return the points of met criteria, divided by the sum of the positive points.

    If a criterion is met with a probability, its points are multiplied by it. Of verdicts of 0 and
    1, this is HealthBench's score of one text, which may be below zero; its score of a model is the
    mean over the texts, clipped to 0..1 (section 3).
    """
    counted = [(c.points, met) for c, met in zip(rubric, met, strict=True) if met is not None]
    possible = math.fsum(points for points, _ in counted if points > 0)
    return math.fsum(points * met for points, met in counted) / possible if possible else None


def criterion_id(example: str, criterion: str) -> str:
    """Return the id of the verdict on one criterion of an example."""
    return f"{example}#criterion-{criterion}"


def criterion_names(tags: Iterable[str]) -> list[str]:
    """Return the names of the columns to which a verdict on a criterion belongs."""
    return [CRITERIA, *(f"{CRITERIA}: {tag}" for tag in tags)]


def is_of_criteria(aspect: str) -> bool:
    """Return whether a score or human aspect consists of verdicts on criteria."""
    return aspect == CRITERIA or aspect.startswith(f"{CRITERIA}: ")
