"""What a run amounts to so far.

How many scores of which outcome, means by aspect, cost, and what is settled.

Knows scores, not files. A later score of the same example and aspect replaces the earlier, but both
were paid for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, get_args

from textassay.runtime.messages import Outcome, Score, Usage, UsageTotal

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_UNIT_BITS = 1074
_Unscored = tuple[Outcome, str]


class ExactSum:
    """A sum of floats without rounding, from which parts can be taken away again.

    Every finite float is a whole multiple of 2**-1074, so the sum is kept as a whole number of
    those.
    """

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units = 0

    def add(self, value: float, times: int = 1) -> None:
        """Add `value`, or with `times=-1` take it away."""
        numerator, denominator = value.as_integer_ratio()
        # Whole numbers, so that a replaced score can be taken away again without a rounding error.
        self._units += times * (numerator << (_UNIT_BITS + 1 - denominator.bit_length()))

    @property
    def units(self) -> str:
        """The exact sum, for `add_units` of another process."""
        return hex(self._units)

    def add_units(self, units: str) -> None:
        """Add another sum, as its `units` are."""
        self._units += int(units, 16)

    @property
    def value(self) -> float:
        """The sum, rounded once; what `math.fsum` gives."""
        return self._units / (1 << _UNIT_BITS)

    def mean(self, n: int) -> float:
        """Return the mean of `n` values.

        Equals `math.fsum(values) / n`, but also works for sums beyond the largest float.
        """
        try:
            return self.value / n
        except OverflowError:
            return self._units / (n << _UNIT_BITS)


class RunSummary:
    """Counts and means over scores as they come; some 150 bytes per score if they are remembered.

    Attributes:
        remember: Whether a later score of the same example and aspect replaces the earlier. A first
            session, in which none can come twice, need not remember any, and its memory stays flat.
    """

    def __init__(self, *, remember: bool = True) -> None:
        self.remember = remember
        self._last: dict[bytes, float | _Unscored] = {}
        self._kinds: dict[_Unscored, _Unscored] = {}
        self._unscored: Counter[Outcome] = Counter()
        self._errors: Counter[str] = Counter()
        self._scored: Counter[str] = Counter()
        self._sums: dict[str, ExactSum] = {}
        self._paid = UsageTotal()
        self._cost: ExactSum | None = ExactSum()

    def add(self, score: Score) -> None:
        """Count a score, in place of an earlier one of the same example and aspect."""
        aspect, value = score.aspect, score.value
        kind: float | _Unscored
        if value is not None:
            kind = value
        else:
            kind = (score.outcome, score.error.type if score.error is not None else "")
            # One tuple for each distinct kind: a million failed scores would otherwise hold a
            # million.
            kind = self._kinds.setdefault(kind, kind)
        if self.remember:
            key = pair_digest(score.id, aspect)
            before = self._last.get(key)
            if before is not None:
                self._count(aspect, before, -1)
            self._last[key] = kind
        self._count(aspect, kind, 1)
        self.pay(score.usage)

    def is_done(self, example_id: str, aspect: str) -> bool:
        """Return whether this example and aspect has a score whose outcome is not `error`."""
        last = self._last.get(pair_digest(example_id, aspect))
        return last is not None and (not isinstance(last, tuple) or last[0] != "error")

    def __len__(self) -> int:
        """Return the number of pairs of example and aspect."""
        return len(self._last)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        """Return whether there is any score of this example and aspect."""
        return pair_digest(*pair) in self._last

    @property
    def usage(self) -> Usage:
        """What all scores cost, the replaced ones included."""
        return self._paid.usage.model_copy(
            update={"cost": None if self._cost is None else self._cost.value}
        )

    def summary(self) -> dict[str, Any]:
        """Return the content of `summary.json`: outcomes, errors, means per aspect, and usage."""
        outcomes = self._unscored + Counter({"scored": self._scored.total()})
        return {
            "outcomes": {outcome: outcomes[outcome] for outcome in OUTCOMES},
            "errors": {error: count for error, count in sorted(self._errors.items()) if count},
            "aspects": {
                aspect: {"n": n, "mean": self._sums[aspect].mean(n) if n else None}
                for aspect, n in self._scored.items()
            },
            "usage": self.usage.model_dump(),
        }

    @property
    def pairs(self) -> int:
        """Pairs of example and aspect that are counted."""
        return self._scored.total() + self._unscored.total()

    def counts(self) -> dict[str, Any]:
        """Return all that is counted, exactly and as JSON values, for `add_counts`."""
        return {
            "pairs": self.pairs,
            "unscored": dict(self._unscored),
            "errors": dict(self._errors),
            "aspects": {name: [n, self._sums[name].units] for name, n in self._scored.items()},
            "usage": self._paid.usage.model_dump(),
            "cost": None if self._cost is None else self._cost.units,
        }

    def add_counts(self, counts: Mapping[str, Any]) -> None:
        """Count what another tally has counted, of other pairs."""
        self._unscored.update(counts["unscored"])
        self._errors.update(counts["errors"])
        for aspect, (n, units) in counts["aspects"].items():
            self._scored[aspect] += n
            self._sums.setdefault(aspect, ExactSum()).add_units(units)
        self._paid.add(Usage(**counts["usage"]))
        if counts["cost"] is None:
            self._cost = None
        elif self._cost is not None:
            self._cost.add_units(counts["cost"])

    def _count(self, aspect: str, kind: float | _Unscored, times: int) -> None:
        if aspect not in self._sums:
            self._sums[aspect], self._scored[aspect] = ExactSum(), 0
        if isinstance(kind, tuple):
            outcome, error = kind
            self._unscored[outcome] += times
            self._errors[error] += times
        else:
            self._scored[aspect] += times
            self._sums[aspect].add(kind, times)

    def pay(self, usage: Usage) -> None:
        """Add to the cost of all scores, also for one that is not counted otherwise."""
        self._paid.add(usage)
        # One unknown cost makes the sum unknown: a partial sum would be taken for the whole.
        cost = usage.cost
        if cost is None:
            self._cost = None
        elif cost and self._cost is not None:
            self._cost.add(cost)


class Completed:
    """Which pairs of example and aspect need no asking, as a tally has it."""

    def __init__(self, tally: RunSummary) -> None:
        """Look at a tally, also as it grows."""
        self._tally = tally

    def has(self, example_id: str, aspect: str) -> bool:
        """Return whether the pair has a score whose outcome is not `error`."""
        return self._tally.is_done(example_id, aspect)

    def __len__(self) -> int:
        """Return the number of pairs that have any score."""
        return len(self._tally)


def pair_digest(example_id: str, aspect: str) -> bytes:
    """Return 16 bytes that stand for an example and an aspect."""
    # With the length before it, no other split of the same characters gives the same text.
    named = f"{len(example_id)}:{example_id}{aspect}"
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=16).digest()
