"""What was learned for one human aspect, and predictors from their JSON values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from textassay.learning.auto import Blend
from textassay.learning.kernel import KernelSum
from textassay.learning.linear import Linear
from textassay.learning.mlp import Mlp
from textassay.learning.training import Explaining, Predictor
from textassay.learning.trees import Trees
from textassay.runtime.errors import DataError


@dataclass(frozen=True, slots=True)
class LearnedAspect:
    """What was learned for one human aspect.

    A predictor of standardized ratings, and the way back to ratings.
    """

    predictor: Predictor
    mean: float
    sd: float
    limits: tuple[float, float]
    notes: dict[str, Any]
    pooled: Predictor | None = None
    """Over features and the means of the row's system beside them."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "mean": self.mean,
            "sd": self.sd,
            "limits": list(self.limits),
            "notes": self.notes,
            "predictor": self.predictor.to_dict(),
            "pooled": None if self.pooled is None else self.pooled.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LearnedAspect:
        """Build from `to_dict`."""
        low, high = data["limits"]
        pooled = data.get("pooled")
        return cls(
            predictor_from(data["predictor"]),
            data["mean"],
            data["sd"],
            (low, high),
            data["notes"],
            None if pooled is None else predictor_from(pooled),
        )


def predictor_from(data: Mapping[str, Any]) -> Predictor:
    """Build a predictor from its JSON values.

    Raises:
        DataError: There is no such kind of predictor.
    """
    if data["kind"] == "blend":
        # a blend explains itself through its members, so it holds only those that can
        members = [predictor_from(member) for member in data["members"]]
        explaining = tuple(member for member in members if isinstance(member, Explaining))
        return Blend(explaining, tuple(data.get("weights", ())))
    kinds: dict[str, Callable[[Mapping[str, Any]], Predictor]] = {
        "linear": Linear.from_dict,
        "trees": Trees.from_dict,
        "mlp": Mlp.from_dict,
        "kernel": KernelSum.from_dict,
    }
    # an evaluator of a later version may name a kind that this one lacks
    if data["kind"] not in kinds:
        raise DataError(
            f"unknown kind of predictor {data['kind']!r}; known: {', '.join([*kinds, 'blend'])}"
        )
    return kinds[data["kind"]](data)
