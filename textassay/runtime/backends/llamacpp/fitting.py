"""Makes a prompt fit the context: an error with both lengths, or, where asked for, a source cut at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from textassay.runtime.errors import ContextTooLong, RequestRefused
from textassay.runtime.model import Prompted

Truncate = Literal["error", "source"]

Q = TypeVar("Q", bound=Prompted)
P = TypeVar("P")


def fit(
    request: Q, plan: Callable[[Q], P], length: Callable[[P], int], *, limit: int, truncate: Truncate, name: str
) -> tuple[P, int]:
    """Return `plan(request)` that is at most `limit` tokens long, and how many tokens were left out.

    Args:
        request: What is asked; its `shorten` names the text that may be cut.
        plan: Tokenizes a request.
        length: Tokens that a plan needs in the context.
        limit: Most tokens.
        truncate: `"source"` to cut where the request allows it.
        name: The model's name, for error messages.

    Raises:
        ContextTooLong: The request is too long and may not be cut, or not enough.
    """
    whole = plan(request)
    needed = length(whole)
    if needed <= limit:
        return whole, 0
    told = f"the request needs {needed} tokens and the context of {name!r} has {limit}"
    if truncate != "source" or not request.shorten:
        raise ContextTooLong(f"{told}; ask for a larger n_ctx, or allow cutting the source (truncate='source')")
    if not any(request.shorten in text for text in _texts(request)):
        raise RequestRefused(f"{told}, and the text that may be cut does not occur in the prompt as it stands")
    best, low, high = None, 0, len(request.shorten)
    while low < high:
        middle = (low + high) // 2
        candidate = plan(_cut(request, middle))
        if length(candidate) <= limit:
            best, low = candidate, middle + 1
        else:
            high = middle
    if best is None:
        raise ContextTooLong(f"{told}, even without the source")
    return best, needed - length(best)


def _texts(request: Prompted) -> list[str]:
    return [request.prompt] if request.prompt is not None else [message.content for message in request.messages]


def _cut(request: Q, characters: int) -> Q:
    """Return the request with the first occurrence of its source cut, at the end of a word if one is near."""
    source = request.shorten or ""
    kept = source[:characters]
    space = kept.rfind(" ", max(0, len(kept) - 40))
    if characters < len(source) and not source[characters].isspace() and space > 0:
        kept = kept[:space]
    if request.prompt is not None:
        return request.model_copy(update={"prompt": request.prompt.replace(source, kept, 1)})
    messages = list(request.messages)
    place = next(index for index, message in enumerate(messages) if source in message.content)
    content = messages[place].content.replace(source, kept, 1)
    messages[place] = messages[place].model_copy(update={"content": content})
    return request.model_copy(update={"messages": tuple(messages)})
