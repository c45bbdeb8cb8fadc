"""Labels of ratings: the forms in which ratings are requested, and the expected rating.

A form has labels, a JSON schema, and a well-formed answer for dry runs. The expected rating is the
mean over labels under a judge's own token probabilities (G-Eval, section 2.3): at the place of the
rating in the sampled answer, the probabilities of all spellings of each label are summed and
renormalized by their total mass.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from textassay.agents.reading.json_in_prose import object_schema
from textassay.agents.reading.outcomes import RatingForm
from textassay.runtime.base import Json, ScoreError
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Sample, TokenLogprob
from textassay.runtime.questions import MIN_MASS

MAX_LETTERS = 26
"""Ratings that letters of the alphabet stand for."""
_MAX_POINTS = 101
"""Ratings that are listed, as many as a scale of percentages has."""
_REASON = (
    "The text does well in most respects and fails in some, as an attentive reader would notice."
)


class ScalePoint(NamedTuple):
    """One rating that a judge may give."""

    label: str
    """As the judge writes it: `4`, or `D`."""
    value: float
    """On the aspect's scale."""
    meaning: str
    """What the label stands for, for prompts that list labels."""


@lru_cache(maxsize=256)
def points_of(scale: tuple[float, float], form: RatingForm) -> tuple[ScalePoint, ...]:
    """Return the whole ratings of a scale, lowest first, or its ends if fractional or far apart."""
    low, high = scale
    steps = int(high - low)
    if form != "letters":
        # Beyond a scale of 0 to 100 a prompt would hold more labels than text.
        is_listed = is_whole(scale) and steps < _MAX_POINTS
        values = [low + i for i in range(steps + 1)] if is_listed else [low, high]
        return tuple(ScalePoint(f"{value:g}", value, "") for value in values)
    if not is_whole(scale) or steps >= MAX_LETTERS:
        raise ConfigurationError(
            f"letters stand for whole ratings, at most {MAX_LETTERS}; the scale {low:g} to {high:g}"
            " needs form=number"
        )
    ends = {0: ", the lowest rating", steps: ", the highest rating"}
    return tuple(
        ScalePoint(chr(ord("A") + i), low + i, f"{low + i:g}{ends.get(i, '')}")
        for i in range(steps + 1)
    )


def form_for(aspect: Aspect, form: RatingForm) -> RatingForm:
    """Return how an aspect is asked for: labels by their letters, ratings in the form given."""
    return "letters" if aspect.labels else form


def points_for(aspect: Aspect, form: RatingForm) -> tuple[ScalePoint, ...]:
    """Return the possible answers about an aspect: its labels, or the ratings of its scale."""
    if not aspect.labels:
        return points_of(aspect.scale, form)
    points = points_of(aspect.scale, "letters")
    of_letters = dict(zip((point.label for point in points), aspect.labels, strict=True))
    for name in aspect.labels:
        if of_letters.get(name.upper(), name) != name:
            raise ConfigurationError(
                f"aspect {aspect.name!r}: an answer {name!r} may be this label or the letter of"
                f" {of_letters[name.upper()]!r}, as labels are asked for by letters; rename it,"
                f" for example to 'grade {name}', or use the method decide"
            )
    return tuple(
        point._replace(meaning=f"{name}: {meaning}" if meaning else name)
        for point, (name, meaning) in zip(points, aspect.labels.items(), strict=True)
    )


@lru_cache(maxsize=256)
def is_whole(scale: tuple[float, float]) -> bool:
    """Return whether both ends of a scale are whole numbers, so that judges give whole numbers."""
    return float(scale[0]).is_integer() and float(scale[1]).is_integer()


def schema_of(scale: tuple[float, float], form: RatingForm) -> Json:
    """Return the JSON schema of an answer with a reason and a score."""
    # The reason is written first, so that the rating can follow from it.
    return object_schema(reason={"type": "string"}, score=score_schema(scale, form))


def score_schema(scale: tuple[float, float], form: RatingForm) -> Json:
    """Return the JSON schema of a rating."""
    points = points_of(scale, form)
    if form == "letters":
        return {"type": "string", "enum": [point.label for point in points]}
    if is_whole(scale) and len(points) > 2:
        return {"type": "integer", "enum": [int(point.value) for point in points]}
    return {"type": "integer" if is_whole(scale) else "number"}


@lru_cache(maxsize=256)
def dry_run_answer_of(
    scale: tuple[float, float], form: RatingForm, *, reasoned: bool, as_json: bool = False
) -> str:
    """Return a well-formed answer of usual length, with the rating in the middle of the scale."""
    points = points_of(scale, form)
    label = points[len(points) // 2].label
    if as_json:
        score = f'"{label}"' if form == "letters" else label
        return f'{{"reason": "{_REASON}", "score": {score}}}'
    if not reasoned or form == "letters":
        return label
    return f"{label} stars. {_REASON}" if form == "stars" else f"{_REASON}\nScore: {label}"


_NEGLIGIBLE = 0.01
"""A label below this probability need not be told apart from a longer one that begins like it."""
_ROUNDING = 1e-3
"""How far above 1 servers that compute in half precision may push a probability."""
# What tokens put around a label: white space, SentencePiece's and GPT-2's signs for a space,
# markup.
_AROUND = " \t\r\n▁Ġ*_\"'([`"


class Expectation(NamedTuple):
    """A rating as the mean of a distribution over labels."""

    value: float
    """Mean rating."""
    mass: float
    """Probability of all labels together before renormalizing."""
    probabilities: dict[str, float]
    """Renormalized probability by label, lowest rating first."""


def expectation(
    sample: Sample, start: int, points: Sequence[ScalePoint]
) -> Expectation | ScoreError:
    """Return the mean rating over labels at the token that holds character `start`.

    Otherwise return the error `NoLabelMass`, `NoScorePosition`, `AmbiguousLabels` or
    `MalformedLogprobs`, with a remedy.
    """
    index = _token_at(sample, start)
    if index is None:
        return _error("NoScorePosition", "the tokens that the server sent do not match its text")
    tokens = sample.logprobs or ()
    if (malformed := _find_fault(tokens[index : index + 2])) is not None:
        return malformed
    mass = _split_longer_labels(_mass_by_label(tokens[index], points), tokens, index, points)
    if mass is None:
        return _error(
            "AmbiguousLabels",
            "this model writes some labels in several tokens, so their probabilities cannot be "
            "distinguished; use n=20 or form=letters",
        )
    total = math.fsum(mass.values())
    if total > 1 + _ROUNDING:
        return _error(
            "MalformedLogprobs",
            f"the server's log-probabilities give all labels together probability {total:.4g},"
            " above 1; use n=20",
        )
    if total < MIN_MASS:
        return _error(
            "NoLabelMass",
            f"all labels together have probability {total:.3g}, less than {MIN_MASS:g}; use n=20",
        )
    value = math.fsum(point.value * mass[point.label] for point in points) / total
    # Rounding may put a mean of nothing but the highest label a hair above it.
    value = min(max(value, points[0].value), points[-1].value)
    shares = {point.label: round(mass[point.label] / total, 6) for point in points}
    return Expectation(value, min(1.0, total), shares)


def _error(kind: str, message: str) -> ScoreError:
    return ScoreError(type=kind, message=message)


def _find_fault(tokens: Sequence[TokenLogprob]) -> ScoreError | None:
    """Return why log-probabilities are invalid: one is NaN, or above 0."""
    for token in tokens:
        for text, logprob in ((token.token, token.logprob), *token.top):
            if not logprob <= _ROUNDING:  # NaN is not, either
                return _error(
                    "MalformedLogprobs",
                    f"the server sent the log-probability {logprob:g} for the token {text[:20]!r},"
                    " which must be at most 0; use n=20",
                )
    return None


def _token_at(sample: Sample, start: int) -> int | None:
    """Return the index of the token that holds a character of the text."""
    tokens = [token.token for token in sample.logprobs or ()]
    # Tokens may begin with a space or a mark that the text does not have.
    shift = "".join(tokens).find(sample.text)
    index = bisect_right(list(accumulate(map(len, tokens))), shift + start)
    return index if shift >= 0 and index < len(tokens) else None


def _alternatives(token: TokenLogprob) -> dict[str, float]:
    """Return log-probabilities by text; some servers leave the sampled token out of them."""
    return {token.token: token.logprob} | dict(token.top)


def _mass_by_label(token: TokenLogprob, points: Sequence[ScalePoint]) -> dict[str, float]:
    """Return the probability of each label as one token, over all its spellings."""
    mass = dict.fromkeys((point.label for point in points), 0.0)
    for text, logprob in _alternatives(token).items():
        label = text.lstrip(_AROUND).rstrip()
        if label in mass:
            # "4", " 4" and "▁4" are one label in several spellings.
            mass[label] += math.exp(logprob)
    return mass


def _split_longer_labels(
    mass: dict[str, float], tokens: Sequence[TokenLogprob], index: int, points: Sequence[ScalePoint]
) -> dict[str, float] | None:
    """Divide the mass of `1` between `1` and `10` if digits are tokens; `None` if unknown."""
    labels = [point.label for point in points]
    for short in labels:
        longer = [label for label in labels if len(label) > len(short) and label.startswith(short)]
        if not longer or mass[short] < _NEGLIGIBLE or any(mass[label] for label in longer):
            continue
        # If another label was sampled, nothing is known of what would have followed this one, nor
        # if the server lists no token behind this one, not even that of the end.
        if tokens[index].token.strip(_AROUND) != short or index + 1 == len(tokens):
            return None
        whole, following = mass[short], _alternatives(tokens[index + 1])
        for label in longer:
            mass[label] = whole * math.exp(following.get(label[len(short) :], -math.inf))
        mass[short] = whole - math.fsum(mass[label] for label in longer)
    return mass
