"""What a check found: its verdict, its numbers and, in words, the texts behind it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from textassay.calibration.compare_runs import GateVerdict
from textassay.runtime.errors import TextassayError


class CheckFailed(AssertionError):
    """The whole interval is on the wrong side of the threshold."""


class Inconclusive(AssertionError):
    """The interval spans the threshold, or there is none: more texts would decide."""


class JudgeError(TextassayError):
    """Too many texts have no score, so nothing can be said of the system; it is not a bad score."""


@dataclass(frozen=True, slots=True)
class Check:
    """One decision on the end of an interval.

    Attributes:
        kind: `at_least`, or `not_worse` for the paired difference to a baseline.
        aspect: What was judged.
        n: Texts with a score.
        groups: Independent sources among them.
        unscored: Texts without a score.
        value: The mean over sources, or the mean difference.
        low: Lower end of its interval; `None` if no interval can be promised.
        high: Upper end, likewise.
        threshold: What `value` must reach.
        confidence: Confidence of the interval.
        verdict: `holds`, `fails` or `inconclusive`.
        texts: The texts with the lowest scores or largest losses, in words.
    """

    kind: str
    aspect: str
    n: int
    groups: int
    unscored: int
    value: float
    low: float | None
    high: float | None
    threshold: float
    confidence: float
    verdict: GateVerdict
    texts: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without texts."""
        return {name: value for name, value in asdict(self).items() if name != "texts"}

    def __str__(self) -> str:
        what = self.aspect if self.kind == "at_least" else f"{self.aspect}, difference to baseline"
        span = (
            "no interval from one source"
            if self.low is None or self.high is None
            else f"{self.confidence:.0%} interval [{self.low:.3f}, {self.high:.3f}]"
        )
        sources = "" if self.groups == self.n else f" from {self.groups} sources"
        return (
            f"{what}: {self.value:.3f}, {span}, of {self.n} texts{sources}; "
            f"at least {self.threshold:g} {self.verdict}"
        )

    def raise_for_verdict(self, *, inconclusive: bool = True) -> None:
        """Raise unless the check holds.

        Args:
            inconclusive: Whether an inconclusive check raises too.

        Raises:
            CheckFailed: It fails.
            Inconclusive: It is inconclusive.
        """
        __tracebackhide__ = True  # pytest's: the test's own line is what to look at
        if self.verdict == "fails":
            raise CheckFailed("\n".join([str(self), *self.texts]))
        if self.verdict == "inconclusive" and inconclusive:
            raise Inconclusive("\n".join([str(self), *self.texts]))


def verdict_of(low: float | None, high: float | None, threshold: float) -> GateVerdict:
    """Return what an interval says of a threshold that the value must reach."""
    # the mean alone decides nothing: with one source it may lie anywhere
    if low is None or high is None:
        return "inconclusive"
    if high < threshold:
        return "fails"
    return "holds" if low >= threshold else "inconclusive"
