"""Criteria in plain sentences, such as "Every statement is supported by the source.", as aspects.

A sentence becomes an aspect of the caller's own: judged by every method, recorded in the manifest,
and compared with people under its name.
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

_NAMED = re.compile(
    r"\s*(?P<name>[^\s:/.,;?!]+(?: [^\s:/.,;?!]+){0,2})?\s*:\s+(?P<text>\S.*)", re.DOTALL
)
"""A name of up to three words before a colon and a space; without words before the colon, all that
follows is the criterion."""
_NUMBERS = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(?:-|–|to|\.\.)\s*([+-]?\d+(?:\.\d+)?)\s*")
_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?\s*")
_YES_NO = re.compile(r"\s*(?:yes|no)\s*[-/,]\s*(?:yes|no)\s*", re.IGNORECASE)
_NAME_WORDS = 4
"""Words of a name that is made of a sentence: enough to distinguish criteria in a table."""
_NAME_LENGTH = 40
"""Characters of such a name, for languages without spaces between words."""
_FILLERS = frozenset((
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "each", "for", "from", "has", "have",
    "in", "is", "it", "its", "of", "on", "or", "so", "that", "the", "their", "there", "this", "to",
    "was", "were", "which", "will", "with",
))  # fmt: skip
"""Words that say nothing in a name. Negations stay, as they turn a criterion around."""
_SCALES = "1-5 (numbers), yes-no, or labels such as friendly,neutral,rude"


def with_criteria(
    aspects: str | Aspect | Iterable[str | Aspect] | None,
    criteria: Criteria | None,
    scale: str | None,
) -> tuple[str | Aspect, ...] | None:
    """Return the aspects of a request and of its criteria; `None` for all of the task.

    Raises:
        ConfigurationError: A criterion or the scale cannot be read, or there is a scale alone.
    """
    named = (aspects,) if isinstance(aspects, str | Aspect) else aspects
    named = None if named is None else tuple(named)
    if criteria is None:
        if scale is not None:
            raise ConfigurationError(
                "scale= is of criteria, which are not given: criteria='A sentence.'"
            )
        return named
    return (*(named or ()), *read_criteria(criteria, scale, beside=named or ()))


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
        given = [(str(name).strip(), text) for name, text in criteria.items()]
    else:
        sentences = (criteria,) if isinstance(criteria, str) else tuple(criteria)
        given = [_split_name(sentence) for sentence in sentences]
    if not given:
        raise ConfigurationError("criteria= is empty; give at least one sentence")
    taken = {(one if isinstance(one, str) else one.name).casefold() for one in beside}
    for name, _ in given:
        if name and name.casefold() in taken:
            raise ConfigurationError(
                f"two aspects are called {name!r}; name the criterion otherwise"
            )
        taken.add(name.casefold())
    aspects = []
    for name, text in given:
        if not isinstance(text, str) or not slug(text).strip("x"):
            raise ConfigurationError(f"a criterion must be a sentence, not {text!r}")
        sentence = " ".join(text.split())
        if not name:
            name = _unique(_name_of(sentence), taken)
            taken.add(name)
        aspects.append(_aspect(name, sentence, fields))
    return tuple(aspects)


def _split_name(criterion: Any) -> tuple[str, Any]:
    found = _NAMED.fullmatch(criterion) if isinstance(criterion, str) else None
    return ("", criterion) if found is None else (found["name"] or "", found["text"])


def _name_of(sentence: str) -> str:
    words = slug(sentence).split("-")
    telling = [word for word in words if word not in _FILLERS] or words
    return "-".join(telling[:_NAME_WORDS])[:_NAME_LENGTH].strip("-")


def _unique(name: str, taken: set[str]) -> str:
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{name}-{number}"
    return chosen


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
    own = {"labels": dict(zip(labels, meanings, strict=True))} if labels else fields
    return Aspect(name=name, definition=definition, question=question, **own)


def _is_verdict(labels: tuple[str, ...]) -> bool:
    return tuple(label.casefold() for label in labels) in PAIRS


def _read_scale(scale: str | None) -> dict[str, Any]:
    """Return the fields of an aspect that say which scores there are."""
    if scale is None:
        return {}
    if _YES_NO.fullmatch(scale):
        scale = "no,yes"
    if numbers := _NUMBERS.fullmatch(scale):
        low, high = (float(end) for end in numbers.groups())
        if low >= high:
            raise ConfigurationError(f"scale= must go up, such as 1-5, not {scale!r}")
        return {"scale": (low, high)}
    labels = in_order(part.strip() for part in scale.split(","))
    if len(labels) < 2 or any(not label or _NUMBER.fullmatch(label) for label in labels):
        raise ConfigurationError(f"scale= takes {_SCALES}; not {scale!r}")
    if len({label.casefold() for label in labels}) < len(labels):
        raise ConfigurationError(f"scale= has one label twice: {scale!r}")
    return {"labels": dict.fromkeys(labels, "")}
