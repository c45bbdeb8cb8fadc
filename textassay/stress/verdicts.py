"""From scores to verdicts: the shift of each test with an interval over sources, beside the noise.

The scores of each edited text are joined with the scores of its original, repeat and control. A
defect is a shift that is larger than a margin and larger than chance allows; the p-values of all
tests are adjusted together (Holm). If the user names the margin, the ends of the intervals decide.

`StressResult` shows invariance and sensitivity side by side. A judge that always gives the same
score passes every test of invariance, so both counts are needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from textassay.arrays import Codes, Floats
from textassay.estimation.gate_verdict import GateVerdict
from textassay.estimation.means import Linearized, holm, mean_over_groups
from textassay.estimation.paired import NO_SPREAD
from textassay.estimation.stress_table import find_influence, verdict_table
from textassay.learning.splits import group_codes
from textassay.runtime.messages import Aspect, Score
from textassay.stress.edits import (
    FAMILY_OF,
    REPEAT,
    Edit,
    Expects,
    MustSee,
    expectation,
    variant_id,
)
from textassay.table import Displayed, Estimate, Note, Table

MARGIN = 0.05
"""Tolerated shift as a share of the scale's width, unless the user gives one in points."""
MIN_SOURCES = 5
"""Fewest sources for a verdict `holds`: fewer may agree by chance."""


@dataclass(frozen=True, slots=True)
class MeasuredTest:
    """The scores of one test on one aspect, a row for each edited text."""

    test: str
    family: str
    aspect: str
    """The judged aspect."""
    expects: Expects
    """The expected change of the scores."""
    base: Floats
    """Score with which the edited text's score is compared, shape (n,)."""
    edited: Floats
    """Score of the edited text, shape (n,)."""
    groups: Codes
    """Code of each row's source, shape (n,)."""
    scale: tuple[float, float]
    """Ends of the scale."""
    better: int = 1
    """1 if a high score is good, -1 if a low score is good."""
    gain_only: bool = False
    """Whether only a better score is a defect."""
    noise: float | None = None
    """Mean change when the request is repeated, in points; `None` if unknown."""
    excess: Floats = field(default_factory=lambda: np.empty(0))
    """How much more each score moved than in a repeated request, shape (n,); empty if movement is
    not a defect.
    """
    unscored: int = 0
    """Texts that were left out because a score is missing."""
    declined: int = 0
    """Edited texts that the judge refused to rate."""


@dataclass(frozen=True, slots=True)
class StressRow:
    """The verdict of one test on one aspect; shifts are in points of the aspect's scale."""

    test: str
    family: str
    aspect: str
    """The judged aspect."""
    expects: Expects
    """The expected change of the scores."""
    n: int
    """Texts with both scores."""
    groups: int
    """Sources among them."""
    shift: Estimate
    """Mean change over sources."""
    noise: float | None
    """Mean change when the request is repeated."""
    excess: Estimate
    """How much more the scores moved than that, in either direction."""
    moved: float | None
    """Share of texts whose score moved by a point, or by a quarter of a narrower scale."""
    flips: Estimate
    """Share of texts whose score crossed the middle of the scale, with its Wilson interval."""
    margin: float
    """Tolerated shift."""
    p_holm: float | None
    """Adjusted p-value of there being no defect."""
    unscored: int
    """Texts left out because a score is missing."""
    declined: int
    """Edited texts that the judge refused to rate."""
    verdict: GateVerdict
    """`holds`, `fails` or `inconclusive`."""

    def as_dict(self) -> dict[str, Any]:
        ends = {
            "shift": ("shift", "low", "high"),
            "excess": ("excess", "excess_low", "excess_high"),
            "flips": ("flip_rate", "flip_low", "flip_high"),
        }
        values: dict[str, Any] = {}
        for name, value in asdict(self).items():
            keys = ends.get(name)
            values |= dict(zip(keys, value.values(), strict=True)) if keys else {name: value}
        return values


@dataclass
class SessionScores:
    """Values by id and aspect of one session."""

    values: dict[tuple[str, str], float | None] = field(default_factory=dict)
    """Value of each score, `None` if it has none."""
    declined: set[tuple[str, str]] = field(default_factory=set)
    """Ids and aspects that the judge refused to rate."""
    orders: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    """Choices by order of comparisons."""
    scales: dict[str, tuple[float, float] | None] = field(default_factory=dict)
    """Scale by aspect; `None` if unbounded."""

    @classmethod
    def of(cls, scores: Iterable[Score]) -> SessionScores:
        """Collect values, refusals, choices and scales from scores."""
        answers = cls()
        for score in scores:
            key = (score.id, score.aspect)
            answers.values[key] = score.value
            if score.outcome == "abstained":
                answers.declined.add(key)
            if score.value is not None:
                answers.scales.setdefault(score.aspect, score.scale)
            # of a comparison: which text came first, and how much better `output` is
            orders = {str(e["order"]): float(e["choice"]) for e in score.evidence if "order" in e}
            if orders:
                answers.orders[key] = orders
        return answers


@dataclass(frozen=True)
class JoinedSessions:
    """The sessions of a stress run."""

    sources: Mapping[str, str | None]
    """Source by id of each original, `None` if the text is a source of its own."""
    main: SessionScores
    """Originals and edited copies."""
    repeat: SessionScores
    """The originals, judged again."""
    others: Mapping[str, SessionScores] = field(default_factory=dict)
    """The originals judged in another way, by test."""

    def measure(
        self, edits: Sequence[Edit], aspects: Sequence[Aspect], must_see: MustSee
    ) -> list[MeasuredTest]:
        """Return the scores of each test and aspect for which a change is expected."""
        rows = []
        for aspect in aspects:
            by_aspect = _OneAspect(self, aspect)
            rows += by_aspect.measure_unedited()
            for edit in edits:
                expects = expectation(edit, aspect, must_see)
                rows += [] if expects is None else by_aspect.measure_edit(edit, expects)
        order = list(dict.fromkeys(row.test for row in rows))
        return sorted(rows, key=lambda row: order.index(row.test))


class _OneAspect:
    """Joins the scores of one aspect."""

    def __init__(self, joined: JoinedSessions, aspect: Aspect) -> None:
        self._joined, self._name = joined, aspect.label
        self._better = 1 if aspect.higher_is_better else -1
        self._ids = list(joined.sources)
        self._x, self._r = self._originals(joined.main), self._originals(joined.repeat)
        self._scale = self._span()
        self._noise = self._noise_floor()

    def measure_unedited(self) -> list[MeasuredTest]:
        """Return the tests that do not edit the texts."""
        rows = [self._plain(REPEAT, self._x, self._r)]
        choices = [(id_, self._joined.main.orders.get((id_, self._name), {})) for id_ in self._ids]
        both = {id_: pair for id_, pair in choices if len(pair) == 2}
        if both:
            # both orders come from the same session, so no further request is needed for the swap
            first, second = (
                {id_: pair[order] for id_, pair in both.items()} for order in ("forth", "back")
            )
            rows.append(self._plain("swap", second, first))
        middle = {id_: self._middle(id_) for id_ in self._x}
        sessions = {test: self._originals(other) for test, other in self._joined.others.items()}
        for test, values in sessions.items():
            if test == "label-order" and "letters" in sessions:
                # against letters in the usual order
                rows.append(self._plain(test, sessions["letters"], values))
            else:
                rows.append(self._plain(test, middle, values, asked_for=self._x))
        return [row for row in rows if len(row.edited) or row.unscored]

    def measure_edit(self, edit: Edit, expects: Expects) -> list[MeasuredTest]:
        """Return the scores of one edit; nothing if it changes no text of the data."""
        rows: list[tuple[str, float, float]] = []
        unscored = declined = touched = 0
        for id_ in self._ids:
            key = (variant_id(id_, edit.test), self._name)
            if key not in self._joined.main.values:
                continue
            touched += 1
            y = self._joined.main.values[key]
            if y is None and key in self._joined.main.declined:
                declined += 1
                continue
            up = self._direction(edit, expects)
            if id_ in self._x and not self._has_room(self._x[id_], up):
                continue
            base = self._base(id_, edit, up)
            if y is None or base is None:
                unscored += 1
            else:
                rows.append((id_, base, y))
        if not touched:
            return []
        may_rise_only = edit.gain_only or edit.control is not None
        origin = self._x if expects == "unchanged" and not may_rise_only else {}
        return [
            self._measure(edit.test, expects, rows, unscored, declined, gain_only=edit.gain_only,
                           origin=origin)
        ]  # fmt: skip

    def _direction(self, edit: Edit, expects: Expects) -> int:
        """Return 1 if only a rise is a defect, -1 if only a fall is, else 0."""
        if edit.gain_only:
            return self._better
        return 0 if expects == "unchanged" else -self._better

    def _has_room(self, x: float, up: int) -> bool:
        """Return whether a score can still move; at the end of the scale it would look robust."""
        low, high = self._scale
        room = MARGIN * (high - low)
        return not ((up > 0 and x > high - room) or (up < 0 and x < low + room))

    def _base(self, id_: str, edit: Edit, up: int) -> float | None:
        """Return the score with which an edited text's score is compared; `None` if it is missing.

        If a score can move in one direction only, texts at that end are left out. The original's
        score makes that choice, so the change is measured from another score: of the repeat or
        control.
        """
        if id_ not in self._x:
            return None
        if edit.control is not None:
            key = variant_id(id_, edit.test, control=True)
            return self._joined.main.values.get((key, self._name))
        # chosen by `x`, which is therefore biased away from that end (regression to the mean)
        return self._r.get(id_) if up else self._middle(id_)

    def _middle(self, id_: str) -> float:
        """Return the mean of both scores of an original, a more stable base than either."""
        return (self._x[id_] + self._r.get(id_, self._x[id_])) / 2

    def _plain(
        self,
        test: str,
        base: Mapping[str, float],
        edited: Mapping[str, float],
        *,
        asked_for: Mapping[str, float] = {},
    ) -> MeasuredTest:
        rows = [(id_, base[id_], edited[id_]) for id_ in self._ids if id_ in base and id_ in edited]
        missing = len(self._ids) - len(rows)
        origin = (asked_for or base) if test in self._joined.others else {}
        return self._measure(test, "unchanged", rows, missing, 0, origin=origin)

    def _measure(
        self,
        test: str,
        expects: Expects,
        rows: Sequence[tuple[str, float, float]],
        unscored: int,
        declined: int,
        *,
        gain_only: bool = False,
        origin: Mapping[str, float] = {},
    ) -> MeasuredTest:
        """Return the scores of one test; changes are counted from `origin` if none is due."""
        return MeasuredTest(
            test, FAMILY_OF[test], self._name, expects,
            base=np.array([base for _, base, _ in rows], float),
            edited=np.array([y for *_, y in rows], float),
            groups=group_codes(self._joined.sources[id_] for id_, *_ in rows),
            scale=self._scale, better=self._better, gain_only=gain_only, noise=self._noise,
            excess=self._excess(rows, origin),
            unscored=unscored, declined=declined,
        )  # fmt: skip

    def _excess(
        self, rows: Sequence[tuple[str, float, float]], origin: Mapping[str, float]
    ) -> Floats:
        """Return how much more each score moved than in the repeated request.

        Empty if a change from `origin` is expected, or a row lacks one of the answers.
        """
        complete = self._x.keys() & self._r.keys() & origin.keys()
        if not all(id_ in complete for id_, *_ in rows):
            return np.empty(0)
        # movement in both directions cancels in the mean shift, not in absolute changes
        return np.array(
            [abs(y - origin[id_]) - abs(self._r[id_] - self._x[id_]) for id_, _, y in rows], float
        )

    def _originals(self, answered: SessionScores) -> dict[str, float]:
        """Return the scores of the scored originals."""
        scores = ((id_, answered.values.get((id_, self._name))) for id_ in self._ids)
        return {id_: value for id_, value in scores if value is not None}

    def _span(self) -> tuple[float, float]:
        """Return the scale; for unbounded scores the range of the originals."""
        scale = self._joined.main.scales.get(self._name)
        if scale is not None:
            return scale
        scores = list(self._x.values()) or [0.0]
        low, high = min(scores), max(scores)
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _noise_floor(self) -> float | None:
        both = [id_ for id_ in self._ids if id_ in self._x and id_ in self._r]
        if not both:
            return None
        codes = group_codes(self._joined.sources[id_] for id_ in both)
        changes = np.array([abs(self._x[id_] - self._r[id_]) for id_ in both])
        return mean_over_groups(changes, codes).value


def verdicts(
    measured: Sequence[MeasuredTest], *, margin: float | None = None, confidence: float = 0.95
) -> list[StressRow]:
    """Judge all tests together.

    Args:
        measured: The scores of each.
        margin: Points that a score may move although it should not; 5 % of the scale if left out.
            What must be seen has to cost 5 % of the scale in any case.
        confidence: Of the intervals; defects are called at its complement, adjusted by Holm.
    """
    drafts = [_draft(test, margin, confidence) for test in measured]
    level = 1 - confidence
    # with a margin by the user, each interval decides, without a test
    defects = (
        [d.p_defect for d in drafts] if margin is not None else holm([d.p_defect for d in drafts])
    )
    # a separate family: seeing a change is another claim than a defect
    seen = holm([draft.p_seen for draft in drafts])
    return [
        replace(draft.row, p_holm=p, verdict=_verdict(draft, p, q, level))
        for draft, p, q in zip(drafts, defects, seen, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _UnadjustedRow:
    row: StressRow
    p_defect: float | None = None
    p_seen: float | None = None
    within: bool = False


def _draft(test: MeasuredTest, margin: float | None, confidence: float) -> _UnadjustedRow:
    low, high = test.scale
    must_fall = test.expects != "unchanged"
    default = MARGIN * (high - low)
    # the user's margin is the tolerated shift; it does not change how far a score must fall
    limit = default if margin is None or must_fall else margin
    row = _describe(test, limit)
    if not len(test.edited):
        return _UnadjustedRow(row)
    shift = mean_over_groups(test.edited - test.base, test.groups)
    row = replace(row, groups=shift.clusters, shift=shift.estimate(confidence))
    gain, loss = _scale(shift, test.better), _scale(shift, -test.better)
    if must_fall:
        return _UnadjustedRow(row, above(_scale(loss, -1, limit), 0), above(loss, 0))
    sides = [gain] if test.gain_only else [gain, loss]
    if len(test.excess):
        excess = mean_over_groups(test.excess, test.groups)
        row = replace(row, excess=excess.estimate(confidence))
        sides.append(excess)
    p = _p_defect(sides, limit, strict=margin is not None)
    within = all(_within(side, limit, confidence) for side in sides)
    return _UnadjustedRow(row, p, None, within)


def _p_defect(sides: Sequence[Linearized], limit: float, *, strict: bool) -> float | None:
    """Return the p-value of none of these means being a defect, adjusted for their number."""
    p_values: list[float] = []
    for side in sides:
        p = above(side, limit if strict else 0.0)
        if p is None:
            return None
        # with many texts even a shift far below the margin is significant
        p_values.append(p if side.value > limit else 1.0)
    # Bonferroni within a test, Holm over the tests
    return min(1.0, len(p_values) * min(p_values))


def _verdict(
    draft: _UnadjustedRow, p: float | None, seen: float | None, level: float
) -> GateVerdict:
    if p is not None and p < level:
        return "fails"
    if draft.within or (seen is not None and seen < level):
        return "holds"
    return "inconclusive"


def _within(side: Linearized, limit: float, confidence: float) -> bool:
    end = side.estimate(confidence).high
    # `holds` requires that the whole interval lies within the margin, over enough sources
    return end is not None and side.clusters >= MIN_SOURCES and end <= limit


def _describe(test: MeasuredTest, limit: float) -> StressRow:
    """Return the counts of one test; shift, p-value and verdict are filled in later."""
    n, (low, high) = len(test.edited), test.scale
    point = 1.0 if high - low >= 2 else (high - low) / 4
    middle = (low + high) / 2
    flipped = int(((test.base > middle) != (test.edited > middle)).sum())
    moved = float(np.mean(np.abs(test.edited - test.base) >= point - 1e-9)) if n else None
    return StressRow(
        test=test.test, family=test.family, aspect=test.aspect, expects=test.expects, n=n, groups=0,
        shift=Estimate(None), noise=test.noise, excess=Estimate(None), moved=moved,
        flips=wilson(flipped, n), margin=limit, p_holm=None, unscored=test.unscored,
        declined=test.declined, verdict="inconclusive",
    )  # fmt: skip


def _scale(shift: Linearized, factor: float, offset: float = 0.0) -> Linearized:
    return Linearized(factor * shift.value + offset, factor * shift.influence, shift.clusters)


def above(shift: Linearized, limit: float) -> float | None:
    """Return the one-sided p-value of a mean being at most `limit`; `None` if undefined.

    If all sources agree to the last digit, they must be at least `MIN_SOURCES`.
    """
    if shift.clusters < 2:
        return None
    if shift.variance <= NO_SPREAD:
        if shift.clusters < MIN_SOURCES:
            return None
        return 0.0 if shift.value > limit + 1e-12 else 1.0
    t = (shift.value - limit) / math.sqrt(shift.variance)
    return float(stdtr(shift.clusters - 1, -t))


def wilson(count: int, n: int) -> Estimate:
    """Return a share with its 95 % score interval (Wilson, 1927)."""
    if not n:
        return Estimate(None)
    share, z = count / n, 1.959963984540054
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Estimate(share, max(0.0, center - half), min(1.0, center + half))


def gate(rows: Sequence[StressRow], untested: Sequence[str] = ()) -> GateVerdict:
    """Return `fails` if a test fails, `inconclusive` if one is, else `holds`.

    It is also inconclusive if no requested test was possible with the data, so that only the repeat
    was measured.
    """
    verdicts = {row.verdict for row in rows}
    if "fails" in verdicts:
        return "fails"
    is_tested = not untested or any(row.test != REPEAT for row in rows)
    return "holds" if verdicts == {"holds"} and is_tested else "inconclusive"


@dataclass(frozen=True)
class StressResult(Displayed):
    """The verdicts of a stress run."""

    rows: Sequence[StressRow]
    """One per test and aspect."""
    untested: tuple[str, ...] = ()
    """Requested tests that the data or the method do not allow."""
    sources: int = 0
    """Number of sources of the data."""

    @property
    def invariance(self) -> list[StressRow]:
        """Tests in which the score must stay."""
        return [row for row in self.rows if row.expects == "unchanged"]

    @property
    def sensitivity(self) -> list[StressRow]:
        """Tests in which the score must fall."""
        return [row for row in self.rows if row.expects != "unchanged"]

    @property
    def summary(self) -> str:
        """One line with both counts."""
        counts, moved = count_verdicts(self.invariance), count_verdicts(self.sensitivity)
        line = f"invariance: {counts}; sensitivity: {moved}"
        # a judge that ignores the text is perfectly invariant
        if not self.sensitivity:
            return f"{line} (a judge that always says the same passes invariance: test both)"
        if not any(row.verdict == "holds" for row in self.sensitivity):
            return f"{line} (a judge that always says the same is invariant, too)"
        return line

    def tables(self) -> list[Table]:
        table = verdict_table(self.as_dict())
        if self.sources >= MIN_SOURCES:
            return [table]
        text = f"{self.sources} sources are too few: no test can hold with fewer than {MIN_SOURCES}"
        return [replace(table, notes=(*table.notes, Note(text, warning=True)))]

    def as_dict(self) -> dict[str, Any]:
        tests = [row.as_dict() for row in self.rows]
        return {
            "tests": tests,
            "untested": list(self.untested),
            "influence": find_influence(tests),
            "summary": self.summary,
        }


def count_verdicts(rows: Sequence[StressRow]) -> str:
    """Return the numbers of rows that hold, fail and are inconclusive."""
    if not rows:
        return "not tested"
    counts = Counter(row.verdict for row in rows)
    more = {"fail": counts["fails"], "inconclusive": counts["inconclusive"]}
    parts = [f"{count} {verdict}" for verdict, count in more.items() if count]
    return ", ".join([f"{counts['holds']} of {len(rows)} hold", *parts])
