"""Makes a prompt fit the context.

An error with both lengths, or, if asked for, a source cut at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from textassay.runtime.errors import ContextTooLong, RequestRefused
from textassay.runtime.model import Prompted

Truncate = Literal["error", "source"]

NEAR = 40
"""Characters that are given up for a cut at the end of a word."""
GUESSES = 6
"""Places to cut at that are guessed; prose takes three or four."""

Q = TypeVar("Q", bound=Prompted)
P = TypeVar("P")


def fit_to_context(
    request: Q,
    plan: Callable[[Q], P],
    length: Callable[[P], int],
    *,
    limit: int,
    truncate: Truncate,
    name: str,
) -> tuple[P, int]:
    """Return `plan(request)` with at most `limit` tokens, and how many tokens were left out.

    Args:
        request: What is asked; its `truncatable` names the text that may be cut.
        plan: Tokenizes a request.
        length: Tokens that a plan needs in the context.
        limit: Most tokens.
        truncate: `"source"` to cut if the request allows it.
        name: The model's name, for error messages.

    Raises:
        ContextTooLong: The request is too long and may not be cut, or not enough.
    """
    whole = plan(request)
    needed = length(whole)
    if needed <= limit:
        return whole, 0
    problem = f"the request needs {needed} tokens and the context of {name!r} has {limit}"
    if truncate != "source" or not request.truncatable:
        raise ContextTooLong(
            f"{problem}; ask for a larger n_ctx, or allow cutting the source (truncate='source')"
        )
    # A template may have changed the text (stripped it, say); cutting elsewhere could cut the
    # question.
    if not any(request.truncatable in text for text in _texts(request)):
        raise RequestRefused(
            f"{problem}, and the text that may be cut does not occur in the prompt as it stands"
        )
    best = _longest(request, plan, length, limit=limit, needed=needed)
    if best is None:
        raise ContextTooLong(f"{problem}, even without the source")
    return best, needed - length(best)


def _longest(
    request: Q, plan: Callable[[Q], P], length: Callable[[P], int], *, limit: int, needed: int
) -> P | None:
    """Return the plan with the longest beginning of the source that fits.

    Tokenizing is what costs, so the first places to cut at are guessed from tokens per character,
    and none is tried twice; after that the rest is halved, whatever the text is like.
    """
    source = request.truncatable or ""
    # Characters per token of the whole prompt: close enough for a first guess in any language.
    per_token = sum(map(len, _texts(request))) / needed
    best, low, high = None, 0, len(source)
    place, guesses = high - (needed - limit) * per_token, GUESSES
    while low < high:
        guesses -= 1
        # Guesses first, then halving, which ends even if tokens per character vary wildly.
        kept = _beginning(
            source, min(max(int(place), low), high - 1) if guesses >= 0 else (low + high) // 2
        )
        candidate = plan(_cut(request, kept))
        room = limit - length(candidate)
        if room >= 0:
            best, low = candidate, _next_place(source, len(kept), high)
        else:
            high = len(kept)
        place = len(kept) + room * per_token
    return best


def _texts(request: Prompted) -> list[str]:
    return (
        [request.prompt]
        if request.prompt is not None
        else [message.content for message in request.messages]
    )


def _beginning(source: str, characters: int) -> str:
    """Return the first characters of a longer source, ending with a word if one ends nearby."""
    near = range(characters, max(0, characters - NEAR - 1), -1)
    return source[: next((place for place in near if source[place].isspace()), characters)]


def _next_place(source: str, kept: int, stop: int) -> int:
    """Return the first place after which more than `kept` characters are kept, or `stop`."""
    return next(
        (place for place in range(kept + 1, stop) if len(_beginning(source, place)) > kept), stop
    )


def _cut(request: Q, kept: str) -> Q:
    """Return the request with the first occurrence of its source cut to this beginning."""
    source = request.truncatable or ""
    if request.prompt is not None:
        return request.model_copy(update={"prompt": request.prompt.replace(source, kept, 1)})
    messages = list(request.messages)
    place = next(index for index, message in enumerate(messages) if source in message.content)
    content = messages[place].content.replace(source, kept, 1)
    messages[place] = messages[place].model_copy(update={"content": content})
    return request.model_copy(update={"messages": tuple(messages)})
