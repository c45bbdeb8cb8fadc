"""What was learned for one human aspect, and predictors from their JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from textassay.learning.auto import Blend
from textassay.learning.beside import Beside
from textassay.learning.kernel import KernelSum
from textassay.learning.linear import Linear
from textassay.learning.mlp import Mlp
from textassay.learning.splits import Mask
from textassay.learning.training import Explaining, Floats, Predictor
from textassay.learning.trees import Trees
from textassay.runtime.errors import CapabilityError, DataError


class Parts(NamedTuple):
    """What predictions of one aspect add up from, in units of the ratings.

    Attributes:
        features: Shape (n, features).
        baseline: Where they start.
        means: What the means of the row's system and source contribute, shape (n,).
    """

    features: Floats
    baseline: float
    means: Floats


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
    centered: Predictor | None = None
    """Over these, or features alone if `pooled` is absent, and the distances from the means of the
    row's source."""

    def predict(self, rows: Beside) -> Floats:
        """Return predicted ratings, on people's scale but not kept within it, shape (n,)."""
        values = self.predictor.predict(rows.features)
        for chosen, predictor, beside in self._better(rows):
            values[chosen] = predictor.predict(beside)
        return np.asarray(self.mean + self.sd * values, float)

    def contributions(self, rows: Beside) -> Parts:
        """Return how far each feature moved each prediction.

        Raises:
            CapabilityError: The predictor has no exact contributions.
        """
        if not isinstance(self.predictor, Explaining):
            raise CapabilityError("no exact contributions; use sampled_shapley")
        width = rows.features.shape[1]
        own, baseline = self.predictor.contributions(rows.features)
        values, of_means = np.array(own), np.zeros(len(own))
        for chosen, predictor, beside in self._better(rows):
            assert isinstance(predictor, Explaining)  # like `predictor`, of the same learner
            every, start = predictor.contributions(beside)
            values[chosen] = every[:, :width]
            means = every[:, width : 2 * width] if self.pooled is not None else every[:, :0]
            if predictor is self.centered:
                # the distance from the source's mean belongs to the feature that it is taken of
                values[chosen] += every[:, -width:]
            # such rows start elsewhere; the difference is due to their system and source
            of_means[chosen] = means.sum(axis=1) + start - baseline
        scaled = self.mean + self.sd * baseline
        return Parts(self.sd * values, scaled, self.sd * of_means)

    def _better(self, rows: Beside) -> Iterator[tuple[Mask, Predictor, Floats]]:
        """Yield predictors that know more than a row's features, with the rows that they are for.

        The later one knows more.
        """
        system = self.pooled is not None
        for predictor, source in ((self.pooled, False), (self.centered, True)):
            if predictor is None:
                continue
            chosen = rows.known(system=system, source=source)
            if chosen.any():
                yield chosen, predictor, rows.rows(chosen, system=system, source=source)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        centered = {} if self.centered is None else {"centered": self.centered.to_dict()}
        return {
            "mean": self.mean,
            "sd": self.sd,
            "limits": list(self.limits),
            "notes": self.notes,
            "predictor": self.predictor.to_dict(),
            "pooled": None if self.pooled is None else self.pooled.to_dict(),
            **centered,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LearnedAspect:
        """Build from `to_dict`."""
        low, high = data["limits"]
        pooled, centered = data.get("pooled"), data.get("centered")
        return cls(
            predictor_from(data["predictor"]),
            data["mean"],
            data["sd"],
            (low, high),
            data["notes"],
            None if pooled is None else predictor_from(pooled),
            None if centered is None else predictor_from(centered),
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
