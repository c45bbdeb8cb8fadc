"""What is tested in a stress run, and what its manifest keeps of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textassay.evaluation.request import RunRequest
from textassay.runtime.errors import ConfigurationError, parameter
from textassay.stress import paraphrase
from textassay.stress.expectations import read_must_see
from textassay.stress.suite import chosen_tests


@dataclass(frozen=True, kw_only=True)
class StressOrder:
    """What is tested.

    Attributes:
        request: The run of the judge under test, in the folder of the result, or in none for dry
            runs; its `stress` is filled in here.
        tests: Names of tests and families; `None` for all.
        must_see: Entries `TEST=ASPECT` for aspects whose names tell nothing.
        seed: Seed of the edits.
        margin: Points that a score may move although it should not; 5 % of the scale if left out.
        confidence: Of the intervals.
    """

    request: RunRequest
    tests: tuple[str, ...] | None = None
    must_see: tuple[str, ...] = ()
    seed: int = 0
    margin: float | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        chosen_tests(self.tests)
        read_must_see(self.must_see)
        named = paraphrase.TEST in (self.tests or ())
        if named and paraphrase.WRITER not in self.request.models:
            raise ConfigurationError(
                f"the test {paraphrase.TEST!r} needs a model that writes paraphrases: "
                f"{_role(paraphrase.WRITER)}, and {_role(paraphrase.VERIFIER)} if another one is "
                "to verify them"
            )
        if self.margin is not None and self.margin < 0:
            raise ConfigurationError(
                f"{parameter('margin')} must be 0 or more, not {self.margin:g}"
            )

    @property
    def recorded(self) -> dict[str, Any]:
        """What the manifest keeps, so that `resume` makes the same tests."""
        beside = {
            role: self.request.models[role]
            for role in paraphrase.ROLES
            if role in self.request.models
        }
        return {
            **({"models": beside} if beside else {}),
            "tests": None if self.tests is None else list(self.tests),
            "must_see": list(self.must_see),
            "seed": self.seed,
            "margin": self.margin,
            "confidence": self.confidence,
            "limit": self.request.limit,
            "pair": self.request.pair,
        }

    @classmethod
    def recall(cls, request: RunRequest) -> StressOrder:
        """Return the order that the request of a resumed run records."""
        kept = request.stress or {}
        return cls(
            request=request.model_copy(
                update={
                    "limit": kept.get("limit"),
                    "pair": kept.get("pair"),
                    "models": {**request.models, **kept.get("models", {})},
                    "stress": None,
                }
            ),
            tests=None if kept.get("tests") is None else tuple(kept["tests"]),
            must_see=tuple(kept.get("must_see") or ()),
            seed=int(kept.get("seed") or 0),
            margin=kept.get("margin"),
            confidence=float(kept.get("confidence") or 0.95),
        )


def _role(role: str) -> str:
    return parameter("model", f"{{{role!r}: NAME}}", typed=f"{role}=NAME")
