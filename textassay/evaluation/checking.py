"""Checks what agents return before it is journaled.

Every journaled score must be readable later.

Agents are the user's. `Score` checks what it is made of, but not copies of it (`model_copy`), nor
what evidence holds.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, TypeGuard, get_args

from pydantic import ValidationError

from textassay.runtime.data.json_values import short_repr, to_json_value
from textassay.runtime.messages import (
    CACHED,
    Failure,
    How,
    Message,
    Outcome,
    Score,
    ScoreError,
    Usage,
)
from textassay.runtime.storage.json_text import decode
from textassay.runtime.storage.run_files import score_row

_MAX_DEPTH = 10
_MAX_COUNT = 2**63
_MAX_EXACT = 2**53
"""Up to this, a whole number is the same once it is read as a float."""
_HOWS = frozenset(get_args(How))
_UNSCORED = frozenset(get_args(Outcome)) - {"scored"}
NODE = "scores"
"""What a failure names as the place where it came up."""


def checked(yielded: object, example_id: str, aspect: str) -> Score | Failure:
    """Return the score as it can be journaled, or the failure that stands for it.

    A failure stays what it is, and numbers of numpy become Python's. Anything that JSON cannot
    hold, a value that is not finite, off its scale or missing, a field of another type than
    `Score` gives it, and a score of another example or aspect are failures.

    Args:
        yielded: What an agent yielded.
        example_id: The example it was asked about.
        aspect: What scores call the aspect it was asked about.
    """
    if _is_sound(yielded, example_id, aspect):
        return yielded
    if isinstance(yielded, Failure):
        return yielded
    if not isinstance(yielded, Score):
        return _refused("InvalidScore", f"this is {type(yielded).__name__}, not a Score")
    score: Score = yielded
    # under another id or aspect it would overwrite that score on resuming and in reports
    if (score.id, score.aspect) != (example_id, aspect):
        return _refused(
            "WrongExample",
            f"the agent was asked about {example_id!r} on {aspect!r} and returned a score of "
            f"{score.id!r} on {score.aspect!r}",
        )
    return _read_back(score)


def _read_back(score: Score) -> Score | Failure:
    """Return the score as `resume` will read it, or why it could not.

    Better an error score now than a run folder that cannot be opened.
    """
    try:
        try:
            row = score_row(score)
        except TypeError:  # numpy's numbers, perhaps
            row = score_row(Score.model_validate(to_json_value(_fields(score))))
        # what was read, not what was written: a count given as "1" is readable, but adds to nothing
        return Score.model_validate(decode(row))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "score"
        field = str(first["loc"][0]) if first["loc"] else "value"
        return _refused(
            "InvalidScore",
            f"{place}: {str(first['msg']).removeprefix('Value error, ')} "
            f"({field} {short_repr(vars(score).get(field))})",
        )
    except (TypeError, ValueError, RecursionError) as error:
        return _refused("InvalidScore", f"the score cannot be written as JSON: {error}")


def _is_sound(score: object, example_id: str, aspect: str) -> TypeGuard[Score]:
    """Return whether this is certainly a readable score of that example and aspect.

    Almost every score is, and a look at its fields shows it; writing, reading and validating it
    again takes ten times as long, so that is for those that fail here, which it sorts into sound
    and unsound ones.
    """
    # exact types: a subclass may write itself in another way than it reads
    if type(score) is not Score:
        return False
    if score.id != example_id or score.aspect != aspect:
        return False
    value, usage, samples, scale = score.value, score.usage, score.samples, score.scale
    try:
        if value is None:
            if score.outcome not in _UNSCORED or not _is_sound_error(score.error):
                return False
            if scale is not None and not (type(scale) is tuple and _is_known_range(*scale)):
                return False
        elif score.outcome != "scored" or score.error is not None or not _is_on_scale(value, scale):
            return False
        return (
            score.how in _HOWS
            and (usage is CACHED or _is_sound_usage(usage))
            and (samples is None or _is_count(samples))
            and (score.spread is None or _is_number(score.spread, math.inf))
            and (score.mass is None or _is_number(score.mass, 1))
            and (score.explanation is None or _is_text(score.explanation))
            and _is_known_text(score.signature)
            and (score.evidence == () or _is_sound_evidence(score.evidence))
            # set later, by calibration
            and score.calibrated is None
            and score.low is None
            and score.high is None
            and score.outside is None
        )
    # compared with what is not a number, too large for one, or looked up in what holds nothing
    except (TypeError, ValueError, OverflowError, LookupError):
        return False


def _is_on_scale(value: Any, scale: Any) -> bool:
    if type(value) is not float and (type(value) is not int or abs(value) > _MAX_EXACT):
        return False
    if scale is None:
        return math.isfinite(value)
    return type(scale) is tuple and _is_known_range(*scale) and scale[0] <= value <= scale[1]


@lru_cache(maxsize=64, typed=True)
def _is_known_range(low: Any, high: Any) -> bool:
    """Return whether a scale, which many scores share, has finite and ascending ends."""
    return type(low) is float and type(high) is float and 0.0 < high - low < math.inf


def _is_sound_error(error: Any) -> bool:
    return (
        type(error) is ScoreError
        and error.type != ""
        and _is_text(error.type)
        and _is_text(error.message)
    )


def _is_sound_usage(usage: Any) -> bool:
    return (
        type(usage) is Usage
        and _is_count(usage.calls)
        and _is_count(usage.cached_calls)
        and _is_count(usage.prompt_tokens)
        and _is_count(usage.completion_tokens)
        and _is_count(usage.reasoning_tokens)
        and _is_count(usage.cached_prompt_tokens)
        and _is_count(usage.cache_write_tokens)
        and (usage.cost is None or _is_number(usage.cost, math.inf))
    )


def _is_sound_evidence(evidence: Any) -> bool:
    return (
        type(evidence) is tuple
        and all(type(item) is dict for item in evidence)
        and _is_plain(evidence)
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MAX_COUNT


def _is_number(value: Any, most: float) -> bool:
    return type(value) is float and 0 <= value <= most and value < math.inf


def _is_plain(value: Any) -> bool:
    """Return whether a value is JSON as it stands."""
    # level by level in one loop: evidence has dozens of values, and a call for each took longer
    # than writing them
    level = [value]
    for _ in range(_MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if not (item.isascii() or _is_text(item)):
                    return False
            elif kind is dict:
                if not "".join(item).isascii():  # a TypeError if a name is no text
                    return False
                deeper.extend(item.values())
            elif kind is tuple or kind is list:
                deeper.extend(item)
            elif kind is float:
                if not math.isfinite(item):
                    return False
            elif kind is int:
                if not -(2**63) <= item < 2**64:  # what JSON is written with takes no more
                    return False
            elif kind is not bool and item is not None:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _is_text(value: Any) -> bool:
    """Return whether a value is a text that UTF-8 can hold: half surrogates it cannot."""
    if type(value) is not str:
        return False
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


_is_known_text = lru_cache(maxsize=64, typed=True)(_is_text)
"""The same for texts that many scores share."""


def _fields(score: Score) -> dict[str, Any]:
    """Return the fields of a score, with the messages inside it as dicts."""
    return {
        name: vars(value) if isinstance(value, Message) else value
        for name, value in vars(score).items()
    }


def _refused(kind: str, why: str) -> Failure:
    return Failure(node=NODE, type=kind, message=why)
