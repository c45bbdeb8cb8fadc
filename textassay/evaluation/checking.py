"""Checks what agents return before it is journaled: every journaled score must be readable later.

Agents are the user's. `Score` checks what it is made of, but not copies of it (`model_copy`), nor
what evidence holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from textassay.runtime.data.json_values import short_repr
from textassay.runtime.messages import Failure, Score
from textassay.runtime.storage.json_text import decode, encode
from textassay.runtime.storage.run_files import as_json

NODE = "scores"
"""What a failure names as the place where it came up."""


def checked(
    yielded: object, example_id: str, aspect: str, timing: Mapping[str, Any] = MappingProxyType({})
) -> Score | Failure:
    """Return the score as it can be journaled, or the failure that stands for it.

    A failure stays what it is, and numbers of numpy become Python's. Anything that JSON cannot
    hold, a value that is not finite, off its scale or missing, a field of another type than
    `Score` gives it, and a score of another example or aspect are failures.

    Args:
        yielded: What an agent yielded.
        example_id: The example it was asked about.
        aspect: What scores call the aspect it was asked about.
        timing: When the work began and how long it took, as fields of a score.
    """
    if isinstance(yielded, Failure):
        return yielded
    if not isinstance(yielded, Score):
        return _refused("InvalidScore", f"this is {type(yielded).__name__}, not a Score")
    # under another id or aspect it would overwrite that score on resuming and in reports
    if (yielded.id, yielded.aspect) != (example_id, aspect):
        return _refused(
            "WrongExample",
            f"the agent was asked about {example_id!r} on {aspect!r} and returned a score of "
            f"{yielded.id!r} on {yielded.aspect!r}",
        )
    fields = {**vars(yielded), **timing}
    # what a score is made of may be a copy, too, that was never checked
    for name in ("usage", "error"):
        if isinstance(part := fields.get(name), BaseModel):
            fields[name] = vars(part)
    try:
        if fields.get("evidence"):  # written and read back: what `resume` will read is what is kept
            fields["evidence"] = decode(encode(fields["evidence"], default=as_json))
        return Score.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "score"
        field = str(first["loc"][0]) if first["loc"] else "value"
        return _refused(
            "InvalidScore",
            f"{place}: {str(first['msg']).removeprefix('Value error, ')} "
            f"({field} {short_repr(vars(yielded).get(field))})",
        )
    except (TypeError, ValueError, RecursionError) as error:
        return _refused("InvalidScore", f"the score cannot be written as JSON: {error}")


def _refused(kind: str, why: str) -> Failure:
    return Failure(node=NODE, type=kind, message=why)
