"""Rates by the probabilities of label tokens, for models that choose better than they write.

The mean over labels is G-Eval's (section 2.3), here over every label, whatever the model would have
written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from textassay.agents.answer_form import ScalePoint, is_whole, points_of
from textassay.agents.ask import Ask, truncation_note
from textassay.agents.prompt_template import Prompt
from textassay.agents.reading.labels import MIN_MASS
from textassay.agents.scorer import MAX_LABELS, Scorer
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, Scale, Score
from textassay.runtime.model import ChoicesResponse, scoring


@dataclass(frozen=True)
class LabelScorer(Scorer):
    """Rates one example on one aspect in one call, on the scale that the profile sets."""

    def _check_reading(self) -> None:
        profile = self.ask.profile
        if self.ask.n > 1:
            raise ConfigurationError(
                f"profile {profile.name!r} reads ratings from probabilities, so n={self.ask.n}"
                " samples add nothing; leave n out, or use another profile "
                "(options={'profile': 'none'})"
            )
        if profile.scale is not None and self.form != "number":
            raise ConfigurationError(
                f"profile {profile.name!r} asks for numbers; leave out form={self.form}, or "
                "options={'profile': 'none'}"
            )
        scoring(self.ask.model, "choices")

    def _asked_scale(self, aspect: Aspect) -> Scale:
        return self.ask.profile.scale or aspect.scale

    def _check_labels(self, aspect: Aspect, points: tuple[ScalePoint, ...]) -> None:
        if not is_whole(self._asked_scale(aspect)) or len(points) > MAX_LABELS:
            low, high = aspect.scale
            raise ConfigurationError(
                f"aspect {aspect.name!r}: profile {self.ask.profile.name!r} reads ratings from"
                f" probabilities of labels, at most {MAX_LABELS} whole numbers, which the scale"
                f" {low:g} to {high:g} does not have; give the profile a scale"
            )

    async def _from_one(self, prompt: Prompt, aspect: Aspect, about: dict[str, Any]) -> Score:
        points = points_of(self._asked_scale(aspect), self.form)
        # With and without a space before it: which one is a token depends on the tokenizer and the
        # prompt.
        choices = {point.label: (f" {point.label}", point.label) for point in points}
        response = await self.ask.choices(prompt, choices)
        about["usage"] = response.usage
        about["evidence"] = truncation_note(response.truncated_tokens)
        return self._from_choices(response, aspect, points, about)

    def _from_choices(
        self,
        response: ChoicesResponse,
        aspect: Aspect,
        points: tuple[ScalePoint, ...],
        about: dict[str, Any],
    ) -> Score:
        logprobs = {point.label: response.logprobs.get(point.label) for point in points}
        known = {label: logprob for label, logprob in logprobs.items() if logprob is not None}
        profile, name = self.ask.profile, self.ask.model.name
        # If a label is not among those reported, the others need enough mass to speak for
        # themselves.
        least = max(profile.least_mass, MIN_MASS if len(known) < len(logprobs) else 0.0)
        if not known or response.mass < least:
            message = (
                f"all labels together have probability {response.mass:.3g} for {name!r}, less than"
                f" {least:g}"
            )
            return Score.unscored("NoLabelMass", message, mass=response.mass, **about)
        shares = _shares(known)
        rating = math.fsum(point.value * shares.get(point.label, 0.0) for point in points)
        about["evidence"] += tuple(
            {"text": label, "probability": round(share, 6)} for label, share in shares.items()
        )
        value = _mapped(rating, (points[0].value, points[-1].value), aspect.scale)
        return Score(value=value, mass=response.mass, **about)


def scorer_for(ask: Ask, **fields: Any) -> Scorer:
    """Return the scorer that reads ratings as the model's profile says.

    Args:
        ask: Model, prompt and profile.
        fields: The other fields of `Scorer`.

    Raises:
        ConfigurationError: Profile, options and aspects do not go together.
        CapabilityError: The model lacks what the reading needs.
    """
    kind = LabelScorer if ask.profile.ratings == "choices" else Scorer
    return kind(ask, **fields)


def _shares(logprobs: Mapping[str, float]) -> dict[str, float]:
    """Return probabilities that add up to 1; labels may be as unlikely as they like."""
    top = max(logprobs.values())
    weights = {label: math.exp(logprob - top) for label, logprob in logprobs.items()}
    total = math.fsum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def _mapped(rating: float, own_scale: Scale, scale: Scale) -> float:
    """Return a rating mapped from the scale in the prompt onto the aspect's."""
    share = (rating - own_scale[0]) / (own_scale[1] - own_scale[0])
    return min(max(scale[0] + share * (scale[1] - scale[0]), scale[0]), scale[1])
