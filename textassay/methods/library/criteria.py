"""Criteria in plain sentences, such as "Every statement is supported by the source.", as aspects.

A sentence becomes an aspect: every method can judge it, the manifest records it, and its scores are
compared with people's under its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import PAIRS, in_order, slug
from textassay.runtime.messages import Aspect

Criteria = str | Sequence[str] | Mapping[str, str]
"""A criterion, several, or several by name; `NAME: text` names one as well."""

_NUMBER = r"\s*([+-]?\d+(?:\.\d+)?)\s*"
_FILLERS = frozenset((
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "each", "for", "from", "has", "have",
    "in", "is", "it", "its", "of", "on", "or", "so", "that", "the", "their", "there", "this", "to",
    "was", "were", "which", "will", "with",
))  # fmt: skip
"""Words that names omit; negations are kept, as they reverse a criterion."""


def with_criteria(
    aspects: str | Aspect | Iterable[str | Aspect] | None,
    criteria: Criteria | None,
    scale: str | None,
) -> tuple[str | Aspect, ...] | None:
    """Return the requested aspects and criteria; `None` for all aspects of the task.

    Raises:
        ConfigurationError: A criterion or the scale cannot be read, or there is a scale without
            criteria.
    """
    named = (aspects,) if isinstance(aspects, str | Aspect) else tuple(aspects or ())
    if criteria is not None:
        return (*named, *read_criteria(criteria, scale, beside=named))
    if scale is not None:
        raise ConfigurationError("scale= needs criteria, such as criteria='A sentence.'")
    return None if aspects is None else named


def read_criteria(
    criteria: Criteria, scale: str | None = None, *, beside: Iterable[str | Aspect] = ()
) -> tuple[Aspect, ...]:
    """Return one aspect for each criterion.

    Args:
        criteria: Sentences that a good text fulfills, or questions to which yes is good.
        scale: `1-5` or other ends for ratings (the default), `yes-no`, or labels `A,B,C`.
        beside: Aspects that are judged as well, whose names are not used again.

    Raises:
        ConfigurationError: A criterion or the scale cannot be read.
    """
    fields = _read_scale(scale)
    if isinstance(criteria, Mapping):
        pairs = [(str(name).strip(), text) for name, text in criteria.items()]
    else:
        sentences = (criteria,) if isinstance(criteria, str) else tuple(criteria)
        pairs = [_split_name(sentence) for sentence in sentences]
    if not pairs:
        raise ConfigurationError("criteria= is empty; give at least one sentence")
    used = {(aspect if isinstance(aspect, str) else aspect.name).casefold() for aspect in beside}
    for name, _ in pairs:
        if name and name.casefold() in used:
            raise ConfigurationError(
                f"two aspects are called {name!r}; give the criterion another name"
            )
        used.add(name.casefold())
    aspects = []
    for name, text in pairs:
        if not isinstance(text, str) or not slug(text).strip("x"):
            raise ConfigurationError(f"a criterion must be a sentence, not {text!r}")
        sentence = " ".join(text.split())
        if not name:
            name = _unique(_name_of(sentence), used)
            used.add(name)
        aspects.append(_aspect(name, sentence, fields))
    return tuple(aspects)


def _split_name(criterion: Any) -> tuple[str, Any]:
    # a name of up to three words before a colon and a space; the rest is the criterion
    pattern = r"(?s)\s*(?P<name>[^\s:/.,;?!]+(?: [^\s:/.,;?!]+){0,2})?\s*:\s+(?P<text>\S.*)"
    match = re.fullmatch(pattern, criterion) if isinstance(criterion, str) else None
    return (match["name"] or "", match["text"]) if match else ("", criterion)


def _name_of(sentence: str) -> str:
    words = slug(sentence).split("-")
    telling = [word for word in words if word not in _FILLERS] or words
    # four words distinguish criteria in a table; the limit of 40 characters is for languages
    # without spaces
    return "-".join(telling[:4])[:40].strip("-")


def _unique(name: str, used: set[str]) -> str:
    number, candidate = 1, name
    while candidate in used:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _aspect(name: str, sentence: str, fields: Mapping[str, Any]) -> Aspect:
    labels = tuple(fields.get("labels", ()))
    if labels and not _is_verdict(labels):
        return Aspect(name=name, definition=sentence, **fields)
    if sentence.endswith(("?", "？")):
        definition = question = sentence
        meanings = ("the answer is no", "the answer is yes")
    else:
        definition = f"{'whether' if labels else 'how far'} this is met: {sentence}"
        question = f'Is this met: "{sentence.rstrip(".")}"?'
        meanings = ("it is not met", "it is met")
    labels_or_scale = {"labels": dict(zip(labels, meanings, strict=True))} if labels else fields
    return Aspect(name=name, definition=definition, question=question, **labels_or_scale)


def _is_verdict(labels: tuple[str, ...]) -> bool:
    return tuple(label.casefold() for label in labels) in PAIRS


def _read_scale(scale: str | None) -> dict[str, Any]:
    """Return the field `scale` or `labels` of an aspect; empty for the default."""
    if scale is None:
        return {}
    if re.fullmatch(r"(?i)\s*(?:yes|no)\s*[-/,]\s*(?:yes|no)\s*", scale):
        scale = "no,yes"
    if numbers := re.fullmatch(rf"{_NUMBER}(?:-|–|to|\.\.){_NUMBER}", scale):
        low, high = (float(end) for end in numbers.groups())
        if low >= high:
            raise ConfigurationError(f"scale= must go up, such as 1-5, not {scale!r}")
        return {"scale": (low, high)}
    labels = in_order(part.strip() for part in scale.split(","))
    if len(labels) < 2 or any(not label or re.fullmatch(_NUMBER, label) for label in labels):
        raise ConfigurationError(
            "scale= takes 1-5 (numbers), yes-no, or labels such as friendly,neutral,rude; not"
            f" {scale!r}"
        )
    if len({label.casefold() for label in labels}) < len(labels):
        raise ConfigurationError(f"scale= has one label twice: {scale!r}")
    return {"labels": dict.fromkeys(labels, "")}
