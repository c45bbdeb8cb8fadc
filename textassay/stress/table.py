"""Joins the scores of a stress run.

Each edited text with its original, its repeat and its control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from textassay.calibration.intervals import mean_over_groups
from textassay.learning.splits import group_codes
from textassay.meta.correlation import Floats
from textassay.runtime.messages import Aspect, Score
from textassay.stress.edit import Edit, Expects, variant_id
from textassay.stress.families import LABEL_ORDER, LETTERS, SWAP
from textassay.stress.suite import FAMILY_OF, REPEAT
from textassay.stress.verdicts import MARGIN, Measured

ORDER, CHOICE = "order", "choice"
"""Fields of the evidence of a comparison: which text came first, and how much better `output`
is."""


@dataclass
class SessionScores:
    """Values by id and aspect of one session.

    Attributes:
        values: Value of each score, `None` if it has none.
        declined: Ids and aspects that the judge refused to rate.
        orders: Choices by order of comparisons.
        scales: Scale by aspect; `None` if unbounded.
    """

    values: dict[tuple[str, str], float | None] = field(default_factory=dict)
    declined: set[tuple[str, str]] = field(default_factory=set)
    orders: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    scales: dict[str, tuple[float, float] | None] = field(default_factory=dict)

    def add_copies(self, other: SessionScores) -> None:
        """Take over the scores of copies that were judged in a session of their own."""
        self.values |= other.values
        self.declined |= other.declined

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
            orders = {str(e[ORDER]): float(e[CHOICE]) for e in score.evidence if ORDER in e}
            if orders:
                answers.orders[key] = orders
        return answers


@dataclass(frozen=True)
class JoinedSessions:
    """The sessions of a stress run.

    Attributes:
        sources: Source by id of each original, `None` if it is one of its own.
        main: Originals and edited copies.
        repeat: The originals, asked once more.
        others: The originals asked in another way, by test.
    """

    sources: Mapping[str, str | None]
    main: SessionScores
    repeat: SessionScores
    others: Mapping[str, SessionScores] = field(default_factory=dict)

    def measured(
        self,
        edits: Sequence[Edit],
        aspects: Sequence[Aspect],
        expected: Callable[[Edit, Aspect], Expects | None],
    ) -> list[Measured]:
        """Return the scores of each test and aspect of which something is expected."""
        rows = []
        for aspect in aspects:
            one = _OneAspect(self, aspect)
            rows += one.asked_again()
            for edit in edits:
                expects = expected(edit, aspect)
                if expects is not None:
                    rows += one.edited(edit, expects)
        order = list(dict.fromkeys(row.test for row in rows))
        return sorted(rows, key=lambda row: order.index(row.test))


class _OneAspect:
    """Joins the scores of one aspect."""

    def __init__(self, joined: JoinedSessions, aspect: Aspect) -> None:
        self._joined, self._name = joined, aspect.label
        self._better = 1 if aspect.higher_is_better else -1
        self._ids = list(joined.sources)
        self._x = {id_: self._value(joined.main, id_) for id_ in self._ids}
        self._r = {id_: self._value(joined.repeat, id_) for id_ in self._ids}
        self._scale, self._bounded = self._span()
        self._noise = self._noise_floor()

    def asked_again(self) -> list[Measured]:
        """Return the tests that leave the texts alone."""
        rows = [self._plain(REPEAT, self._x, self._r)]
        choices = [(id_, self._joined.main.orders.get((id_, self._name), {})) for id_ in self._ids]
        both = {id_: pair for id_, pair in choices if len(pair) == 2}
        if both:
            # both orders come from the same session, so no further request is needed for the swap
            first = {id_: both[id_]["forth"] if id_ in both else None for id_ in self._ids}
            second = {id_: both[id_]["back"] if id_ in both else None for id_ in self._ids}
            rows.append(self._plain(SWAP, second, first))
        # the mean of two answers is a steadier base than either
        middle = {id_: _mean(self._x[id_], self._r[id_]) for id_ in self._ids}
        sessions = {
            test: {id_: self._value(other, id_) for id_ in self._ids}
            for test, other in self._joined.others.items()
        }
        for test, values in sessions.items():
            if test == LABEL_ORDER and LETTERS in sessions:  # against letters in the usual order
                rows.append(self._plain(test, sessions[LETTERS], values))
            else:
                rows.append(self._plain(test, middle, values, asked_for=self._x))
        return [row for row in rows if len(row.edited) or row.unscored]

    def edited(self, edit: Edit, expects: Expects) -> list[Measured]:
        """Return the scores of one edit; nothing if it changes no text of the data."""
        # without a scale there is no lowest rating to be held against
        if expects == "lowest" and not self._bounded:
            return []
        rows: list[tuple[str, float, float]] = []
        unscored = declined = touched = 0
        for id_ in self._ids:
            key = (variant_id(id_, edit.test), self._name)
            if key not in self._joined.main.values:
                continue
            touched += 1
            y = self._joined.main.values[key]
            # refusing to rate a text without content is right, and no missing score
            if y is None and key in self._joined.main.declined:
                declined += 1
                continue
            base = self._base(id_, edit, expects)
            if base is _NO_ROOM:
                continue
            if y is None or not isinstance(base, float):
                unscored += 1
            else:
                rows.append((id_, base, y))
        if not touched:
            return []
        may_rise_only = edit.gain_only or edit.control is not None
        return [
            self._measured(
                edit.test,
                expects,
                rows,
                unscored,
                declined,
                gain_only=edit.gain_only,
                origin=self._x if expects == "unchanged" and not may_rise_only else None,
            )
        ]

    def _base(self, id_: str, edit: Edit, expects: Expects) -> float | object | None:
        """Return the score that an edited text's is compared with.

        If a score can move one way only, texts at that end are left out. That choice is made by
        the original's score, so the change is read against another: of the repeat or control.
        """
        if expects == "lowest":
            return self._scale[0]
        x, r = self._x[id_], self._r[id_]
        if x is None:
            return None
        up = 0
        if edit.gain_only:
            up = self._better
        elif expects != "unchanged":
            up = -self._better
        low, high = self._scale
        # a score at the end of the scale cannot move further and would count as robust
        room = MARGIN * (high - low)
        if (up > 0 and x > high - room) or (up < 0 and x < low + room):
            return _NO_ROOM
        if edit.control is not None:
            key = variant_id(id_, edit.test, control=True)
            return self._joined.main.values.get((key, self._name))
        # texts were kept by `x`, so `x` is biased away from that end (regression to the mean); `r`
        # is not
        return _mean(x, r) if not up else r

    def _plain(
        self,
        test: str,
        base: Mapping[str, float | None],
        edited: Mapping[str, float | None],
        *,
        asked_for: Mapping[str, float | None] | None = None,
    ) -> Measured:
        rows = [
            (id_, x, y)
            for id_ in self._ids
            if (x := base[id_]) is not None and (y := edited[id_]) is not None
        ]
        missing = len(self._ids) - len(rows)
        origin = (asked_for or base) if test in self._joined.others else None
        return self._measured(test, "unchanged", rows, missing, 0, origin=origin)

    def _measured(
        self,
        test: str,
        expects: Expects,
        rows: Sequence[tuple[str, float, float]],
        unscored: int,
        declined: int,
        *,
        gain_only: bool = False,
        origin: Mapping[str, float | None] | None = None,
    ) -> Measured:
        """Return the scores of one test.

        If they must not move, `origin` has the scores from which a change of each is counted.
        """
        return Measured(
            test=test,
            family=FAMILY_OF[test],
            aspect=self._name,
            expects=expects,
            base=np.array([base for _, base, _ in rows], float),
            edited=np.array([y for *_, y in rows], float),
            groups=group_codes(self._joined.sources[id_] for id_, *_ in rows),
            scale=self._scale,
            better=self._better,
            gain_only=gain_only,
            noise=self._noise,
            excess=None if origin is None else self._excess(rows, origin),
            unscored=unscored,
            declined=declined,
        )

    def _excess(
        self, rows: Sequence[tuple[str, float, float]], origin: Mapping[str, float | None]
    ) -> Floats | None:
        """Return how much more each score moved than when the same was asked again."""
        excess = []
        for id_, _, y in rows:
            x, r, before = self._x[id_], self._r[id_], origin[id_]
            if x is None or r is None or before is None:
                return None
            # movement in both directions cancels in the mean shift; absolute changes beyond the
            # noise do not
            excess.append(abs(y - before) - abs(r - x))
        return np.array(excess, float)

    def _value(self, answered: SessionScores, id_: str) -> float | None:
        return answered.values.get((id_, self._name))

    def _span(self) -> tuple[tuple[float, float], bool]:
        """Return the scale; for unbounded scores the range of the originals."""
        scale = self._joined.main.scales.get(self._name)
        if scale is not None:
            return scale, True
        known = [x for x in self._x.values() if x is not None] or [0.0]
        low, high = min(known), max(known)
        return ((low, high) if low < high else (low - 0.5, high + 0.5)), False

    def _noise_floor(self) -> float | None:
        pairs = [
            (id_, abs(x - r))
            for id_ in self._ids
            if (x := self._x[id_]) is not None and (r := self._r[id_]) is not None
        ]
        if not pairs:
            return None
        codes = group_codes(self._joined.sources[id_] for id_, _ in pairs)
        changes = np.array([change for _, change in pairs])
        return mean_over_groups(changes, codes, int(codes.max()) + 1).value


_NO_ROOM = object()


def _mean(x: float | None, r: float | None) -> float | None:
    if x is None or r is None:
        return x
    return (x + r) / 2
