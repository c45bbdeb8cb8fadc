"""When a cheap judge's score may stand, and when a strong judge is asked: the rule and its folder.

Knows numbers and one sealed file; `calibration` learns the rule, `methods.jury` follows it.

    cascade.json   a rule per aspect, bound to the cheap judge, with a digest over all of it
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ConfigDict, StrictFloat, StrictInt, TypeAdapter, ValidationError

from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.storage.files import (
    check_new_folder,
    read_sealed,
    storage_errors,
    write_sealed,
)
from textassay.version import __version__

FORMAT, FILE = 1, "cascade.json"


class CalibratedRating(NamedTuple):
    """What a score of the cheap judge says on the scale of people."""

    value: float  # the expected rating
    low: float  # lower end of its interval
    high: float  # upper end
    stands: bool  # whether it is narrow enough to stand


_Number = StrictInt | StrictFloat  # an int stays one, or the digest of a rule would change


@dataclass(frozen=True, slots=True)
class Rule:
    """When the cheap judge decides on one aspect."""

    aspect: str  # name of the score
    signature: str  # of the cheap judge's scores
    scale: tuple[_Number, _Number]  # of the ratings
    # scores at which the map from scores to ratings is given, increasing
    scores: tuple[_Number, ...]
    ratings: tuple[_Number, ...]  # the map there; between them it is a line
    edges: tuple[_Number, ...]  # lowest score of each range but the first, increasing
    # distance down to the lower end of the interval in each range; `None` if unbounded
    below: tuple[_Number | None, ...]
    above: tuple[_Number | None, ...]  # distance up to the upper end, likewise
    # greatest length of an interval with which the score stands; `None` if none does
    limit: _Number | None
    tolerance: _Number  # distance from people's rating that counts as a disagreement
    risk: _Number  # share of disagreements that was to be kept
    confidence: _Number  # of the bound
    # upper bound of that share in as many new sources as were rated; `None` without one
    bound: _Number | None
    share: _Number  # share of the rated rows on which the cheap judge decides

    def promise(self) -> dict[str, Any]:
        """Return what the rule promises, as JSON values."""
        names = ("share", "tolerance", "risk", "confidence", "bound")
        return {name: getattr(self, name) for name in names}

    def read(self, score: float) -> CalibratedRating:
        """Return how a score is read; one outside the rated range never stands."""
        value = float(np.interp(score, self.scores, self.ratings))
        at = bisect_right(self.edges, score)
        below, above = self.below[at], self.above[at]
        inside = self.scores[0] <= score <= self.scores[-1]
        if below is None or above is None or not inside:
            return CalibratedRating(value, *self.scale, False)
        low, high = max(self.scale[0], value - below), min(self.scale[1], value + above)
        # of the distances, not of what is left of them on the scale: near an end of the scale an
        # interval would look narrow however little is known
        stands = self.limit is not None and below + above <= self.limit
        return CalibratedRating(value, low, high, stands)


_RULES = TypeAdapter(tuple[Rule, ...], config=ConfigDict(extra="forbid"))


@dataclass(frozen=True, slots=True)
class Cascade:
    """What a cascade folder holds."""

    rules: tuple[Rule, ...]  # one per aspect
    digest: str  # 6 hex digits that change with any of them

    def of(self, aspect: str, signature: str) -> Rule:
        """Return the rule of an aspect."""
        rule = next((one for one in self.rules if one.aspect == aspect), None)
        if rule is None:
            known = ", ".join(one.aspect for one in self.rules)
            raise ConfigurationError(f"the cascade has no rule for {aspect!r}; it is for: {known}")
        if rule.signature != signature:
            raise ConfigurationError(
                f"the cascade's rule for {aspect!r} was learned from scores of"
                f" {rule.signature or 'no signature'!r}, but the first juror's are of"
                f" {signature!r}: learn it from a run of the method jury with the cheap juror alone"
            )
        return rule


def save(rules: Sequence[Rule], out: Path) -> None:
    """Write a cascade folder."""
    check_new_folder(out)
    content = {"rules": [asdict(one) for one in rules], "made": {"textassay": __version__}}
    with storage_errors(f"the cascade cannot be written to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        write_sealed(out / FILE, content, format=FORMAT)


def load(folder: str | Path) -> Cascade:
    """Read a cascade folder."""
    path = Path(folder) / FILE
    content = read_sealed(
        path,
        format=FORMAT,
        kind="cascade",
        missing=f"{folder} contains no {FILE}; learn a cascade with textassay cascade",
        repair="learn the cascade again",
    )
    try:
        rules = _RULES.validate_python(content["rules"])
    except (KeyError, ValidationError) as error:
        raise DataError(f"{path} is damaged: {error!r}") from error
    # the seal has checked the whole file; this only tells two cascades apart in signatures
    return Cascade(rules, f"{rules_hash(rules):06x}")


def rules_hash(rules: Sequence[Rule]) -> int:
    """Return 24 bits that stand for rules, the same in every process."""
    from zlib import crc32

    return crc32(repr([asdict(one) for one in rules]).encode()) & 0xFFFFFF
