"""What is tested in a stress run, and what its manifest keeps of that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textassay.evaluation.spec import RunSpec
from textassay.runtime.errors import ConfigurationError, parameter
from textassay.runtime.settings import Settings
from textassay.stress import paraphrase
from textassay.stress.expectations import read_must_see
from textassay.stress.suite import chosen_tests


@dataclass(frozen=True, kw_only=True)
class StressOrder:
    """What is tested.

    Attributes:
        spec: The run of the judge under test; its `stress` is filled in here.
        settings: How models are asked.
        out: Folder of the result; `None` only for dry runs.
        tests: Names of tests and families; `None` for all.
        must_see: Entries `TEST=ASPECT` for aspects whose names tell nothing.
        seed: Seed of the edits.
        margin: Points that a score may move although it should not; 5 % of the scale if left out.
        confidence: Of the intervals.
        resume: Whether to continue the run in `out`.
    """

    spec: RunSpec
    settings: Settings
    out: Path | None
    tests: tuple[str, ...] | None = None
    must_see: tuple[str, ...] = ()
    seed: int = 0
    margin: float | None = None
    confidence: float = 0.95
    resume: bool = False

    def __post_init__(self) -> None:
        chosen_tests(self.tests)
        read_must_see(self.must_see)
        named = paraphrase.TEST in (self.tests or ())
        if named and paraphrase.WRITER not in self.spec.models:
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
            role: self.spec.models[role] for role in paraphrase.ROLES if role in self.spec.models
        }
        return {
            **({"models": beside} if beside else {}),
            "tests": None if self.tests is None else list(self.tests),
            "must_see": list(self.must_see),
            "seed": self.seed,
            "margin": self.margin,
            "confidence": self.confidence,
            "limit": self.spec.limit,
            "pair": self.spec.pair,
            "unit": self.spec.unit,
            "conversation_chars": self.spec.conversation_chars,
        }

    @classmethod
    def recall(cls, spec: RunSpec, settings: Settings, out: Path) -> StressOrder:
        """Return the order that a manifest's spec records, to be resumed."""
        kept = spec.stress or {}
        return cls(
            spec=spec.model_copy(
                update={
                    "limit": kept.get("limit"),
                    "pair": kept.get("pair"),
                    "unit": kept.get("unit"),
                    "conversation_chars": kept.get("conversation_chars"),
                    "models": {**spec.models, **kept.get("models", {})},
                    "stress": None,
                }
            ),
            settings=settings,
            out=out,
            tests=None if kept.get("tests") is None else tuple(kept["tests"]),
            must_see=tuple(kept.get("must_see") or ()),
            seed=int(kept.get("seed") or 0),
            margin=kept.get("margin"),
            confidence=float(kept.get("confidence") or 0.95),
            resume=True,
        )


def _role(role: str) -> str:
    return parameter("model", f"{{{role!r}: NAME}}", typed=f"{role}=NAME")
