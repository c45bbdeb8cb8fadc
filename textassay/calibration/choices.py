"""Reads recorded comparisons: which text was chosen, and whether the order decided.

Knows score files and the fields of a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from textassay.meta.score_files import RecordedRow, read_score_lines
from textassay.runtime.data.pairs import OTHER_SYSTEM
from textassay.runtime.errors import ConfigurationError, DataError, parameter
from textassay.runtime.messages import Example


@dataclass(slots=True)
class Choices:
    """The recorded comparisons on one aspect.

    Attributes:
        values: 1 if the first text was chosen, 0.5 for a tie, 0 else, `None` if unscored; by id.
        flipped: Ids of choices that flipped with the order of the texts.
        signatures: Signatures of the scores.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    flipped: set[str] = field(default_factory=set)
    signatures: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Who made the two texts of a comparison, and their source."""

    a: str
    b: str
    group: str | None


def systems_of(pairs: Iterable[Example]) -> dict[str, ComparedPair]:
    """Return the systems of each comparison, by id.

    Raises:
        DataError: A system is missing, or a comparison is of a system with itself.
    """
    pairs_by_id: dict[str, ComparedPair] = {}
    for one in pairs:
        other = one.meta.get(OTHER_SYSTEM)
        if one.system is None or not isinstance(other, str) or not other:
            lacking = "system" if one.system is None else OTHER_SYSTEM
            raise DataError(
                f"the comparison {one.id!r} has no {lacking!r}; a ranking needs 'system' and"
                f" {OTHER_SYSTEM!r} for each pair, or {parameter('pair', 'system')} over texts "
                f"with 'group' and"
                " 'system'"
            )
        if one.system == other:
            raise DataError(f"the comparison {one.id!r} is of {other!r} with itself")
        pairs_by_id[one.id] = ComparedPair(one.system, other, one.group)
    return pairs_by_id


def read_comparisons(scores: str | Path, known: Mapping[str, ComparedPair]) -> dict[str, Choices]:
    """Read a run of comparisons, aspect by aspect; ids that are not known are left out.

    Raises:
        DataError: There are no scores, or none of the known comparisons.
        ConfigurationError: A value is not that of a comparison.
    """
    judged: dict[str, Choices] = {}
    seen = None
    for row in read_score_lines(scores):
        seen = row.id
        if row.id in known:
            _keep(judged.setdefault(row.aspect, Choices()), row, scores)
    if seen is None:
        raise DataError(f"{scores} contains no scores")
    if not judged:
        shown = next(iter(known), "nothing")
        raise DataError(
            f"no id occurs in both scores and data: the scores have {seen!r}, the data {shown!r}; "
            f"a run with {parameter('pair', 'system')} needs it here too unless it is a run folder"
        )
    return judged


def _keep(judged: Choices, row: RecordedRow, scores: str | Path) -> None:
    if row.value is not None and not 0 <= row.value <= 1:
        raise ConfigurationError(
            f"{scores} has the score {row.value:g} at {row.id!r}, but a comparison must be 0, 0.5 "
            f"or 1; rank needs a run of {parameter('method', 'pairwise')}"
        )
    judged.values[row.id] = row.value
    # a later line replaces an earlier one of the same id, with its evidence
    judged.flipped.discard(row.id)
    if row.value is None:
        return
    judged.signatures[str(row.fields.get("signature") or "")] = None
    evidence = row.fields.get("evidence") or ()
    if any(isinstance(one, dict) and one.get("flipped") for one in evidence):
        judged.flipped.add(row.id)
