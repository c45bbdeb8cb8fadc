"""What agents hand over is looked at once more before it is journaled: it must be readable ever after.

Agents are the user's. `Score` checks what it is made of, but not copies of it (`model_copy`), nor
what evidence holds.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from textassay.runtime.data.json_values import plain
from textassay.runtime.messages import Failure, Score
from textassay.runtime.storage.json_text import decode
from textassay.runtime.storage.run_folder import score_row

NODE = "scores"
"""What a failure names as the place where it came up."""


def checked(yielded: object, example_id: str, aspect: str) -> Score | Failure:
    """Return the score as it can be journaled, or the failure that stands for it.

    Numbers of numpy become Python's. Anything that JSON cannot hold, a value that is not finite,
    off its scale or missing, and a score of another example or aspect are failures.

    Args:
        yielded: What an agent yielded.
        example_id: The example it was asked about.
        aspect: What scores call the aspect it was asked about.
    """
    if not isinstance(yielded, Score):
        return _refused("InvalidScore", f"this is {type(yielded).__name__} and no Score")
    score: Score = yielded
    if (score.id, score.aspect) != (example_id, aspect):
        return _refused(
            "WrongExample",
            f"the agent was asked about {example_id!r} on {aspect!r} and returned a score of "
            f"{score.id!r} on {score.aspect!r}",
        )
    try:
        try:
            row = score_row(score)
        except TypeError:  # numpy's numbers, perhaps
            score = Score.model_validate(plain(vars(score) | _dumped(score)))
            row = score_row(score)
        Score.model_validate(decode(row))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "score"
        return _refused(
            "InvalidScore",
            f"{place}: {str(first['msg']).removeprefix('Value error, ')} (value {score.value!r})",
        )
    except (TypeError, ValueError, RecursionError) as error:
        return _refused("InvalidScore", f"the score cannot be written as JSON: {error}")
    return score


def _dumped(score: Score) -> dict[str, Any]:
    """Return the messages inside a score as dicts."""
    return {
        "usage": vars(score.usage),
        "error": None if score.error is None else vars(score.error),
    }


def _refused(kind: str, why: str) -> Failure:
    return Failure(node=NODE, type=kind, message=why)
