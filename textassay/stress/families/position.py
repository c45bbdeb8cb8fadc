"""Position: a choice does not depend on which text comes first, nor a rating on how the scale is shown.

These tests leave the texts alone: they ask in another way. `swap` is for methods that compare two
texts, the others for methods that rate one.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from textassay.runtime.model import ChatMessage, Wrapper

FAMILY = "position"
SWAP, LETTERS, SCALE_ORDER = "swap", "letters", "scale-order"
TESTS = (SWAP, LETTERS, SCALE_ORDER)
ABOUT = {
    SWAP: "the two texts in the other order",
    LETTERS: "ratings asked for as letters",
    SCALE_ORDER: "the scale shown from high to low",
}

_FENCED = re.compile(r"(<(?P<kind>[a-z-]+-[0-9a-f]{8})>\n.*?\n</(?P=kind)>)", re.DOTALL)
_FROM_TO = re.compile(r"\bfrom (\S+) \(worst\) to (\S+) \(best\)")
_SPAN = re.compile(r"\((\d+)-(\d+)\)")

Q = TypeVar("Q")
A = TypeVar("A")


def reversed_scale(prompt: str) -> str:
    """Return a prompt that shows its scale from high to low.

    What stands between delimiters is left alone.
    """
    pieces = _FENCED.split(prompt)
    # split gives: words, fenced text, its kind, words, ...
    for at in range(0, len(pieces), 3):
        turned = _FROM_TO.sub(r"from \2 (best) to \1 (worst)", pieces[at])
        pieces[at] = _SPAN.sub(r"(\2-\1)", turned)
    return "".join(piece for at, piece in enumerate(pieces) if at % 3 != 2)


class ReversedScale(Wrapper):
    """Shows the scale of every prompt from high to low.

    Attributes:
        changed: Number of requests whose prompt named a scale that it knows.
    """

    changed: int = 0

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Ask with the scale turned around."""
        turned = _turned(request)
        self.changed += turned is not request
        return await call(turned)


def _turned(request: Any) -> Any:
    if request.prompt is not None:
        prompt = reversed_scale(request.prompt)
        return (
            request if prompt == request.prompt else request.model_copy(update={"prompt": prompt})
        )
    messages = tuple(
        ChatMessage(role=one.role, content=reversed_scale(one.content)) for one in request.messages
    )
    if messages == tuple(request.messages):
        return request
    return request.model_copy(update={"messages": messages})
