"""Position: neither the order of two texts nor that of the scale's ends may change a rating.

These tests leave the texts alone: they ask in another way. `swap` is for methods that compare two
texts, the others for methods that rate one: `letters` asks for letters, `label-order` lists these
from the best to the worst, and `scale-order` shows the scale from high to low.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from textassay.runtime.model import ChatMessage, Model, Wrapper

FAMILY = "position"
SWAP, LETTERS, LABEL_ORDER = "swap", "letters", "label-order"
SCALE_ORDER = "scale-order"
TESTS = (SWAP, LETTERS, LABEL_ORDER, SCALE_ORDER)

_FENCED = re.compile(r"(<(?P<kind>[a-z-]+-[0-9a-f]{8})>\n.*?\n</(?P=kind)>)", re.DOTALL)
_FROM_TO = re.compile(r"\bfrom (\S+) \(worst\) to (\S+) \(best\)")
_SPAN = re.compile(r"\((\d+)-(\d+)\)")
# lines that give the meaning of letters: "A. 1, the lowest rating"
_OPTIONS = re.compile(r"(?m)(?:^[A-Z]\. -?\d.*\n?){2,}")

Q = TypeVar("Q")
A = TypeVar("A")


def reversed_scale(prompt: str) -> str:
    """Return a prompt that shows its scale from high to low.

    What stands between delimiters is left alone.
    """
    return _outside_of_texts(
        prompt,
        lambda words: _SPAN.sub(r"(\2-\1)", _FROM_TO.sub(r"from \2 (best) to \1 (worst)", words)),
    )


def reversed_labels(prompt: str) -> str:
    """Return a prompt that lists its letters, or names their span, from the best to the worst.

    Letters keep their meaning. What stands between delimiters is left alone.
    """

    def turned(words: str) -> str:
        words = _OPTIONS.sub(_reversed_lines, words)
        return _FROM_TO.sub(r"from \2 (best) to \1 (worst)", words)

    return _outside_of_texts(prompt, turned)


def _reversed_lines(match: re.Match[str]) -> str:
    lines = match[0].splitlines()
    return "\n".join(reversed(lines)) + ("\n" if match[0].endswith("\n") else "")


def _outside_of_texts(prompt: str, change: Callable[[str], str]) -> str:
    pieces = _FENCED.split(prompt)
    # split gives: words, fenced text, its kind, words, ...
    pieces[::3] = map(change, pieces[::3])
    return "".join(piece for at, piece in enumerate(pieces) if at % 3 != 2)


class Turned(Wrapper):
    """Shows every prompt in another order.

    Attributes:
        changed: Number of requests whose prompt held something to turn around.
    """

    def __init__(self, wrapped: Model, change: Callable[[str], str]) -> None:
        """Wrap a model.

        Args:
            wrapped: Who is asked.
            change: Turns the words of a prompt around.
        """
        super().__init__(wrapped)
        self._change, self.changed = change, 0

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Ask with the prompt turned around."""
        turned = _turned(request, self._change)
        self.changed += turned is not request
        return await call(turned)


def _turned(request: Any, change: Callable[[str], str]) -> Any:
    if request.prompt is not None:
        prompt = change(request.prompt)
        return (
            request if prompt == request.prompt else request.model_copy(update={"prompt": prompt})
        )
    messages = tuple(
        ChatMessage(role=one.role, content=change(one.content)) for one in request.messages
    )
    if messages == tuple(request.messages):
        return request
    return request.model_copy(update={"messages": messages})
