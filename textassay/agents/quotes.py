"""Finds a quotation in the text that it is said to be from: by rules, without a model.

How a passage is typed does not matter (`quote_tokens`), nor does punctuation around it; every word,
every number and every mark inside does, and so does their order. Part of a word or of a number is
not found, and an ellipsis may not swallow a negation of what it joins.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from textassay.agents.quote_tokens import (
    BESIDE_NUMBERS,
    joined,
    plain,
    spellings,
    stripped,
    tokens,
    words_in,
)
from textassay.runtime.conversation import (
    Piece,
    answer_piece,
    conversation_pieces,
    passage_pieces,
    source_beside,
)
from textassay.runtime.messages import Example

MIN_WORDS = 3
"""Words of a quotation; fewer are found in nearly every text by chance, so they are no evidence,
unless they are all that the text says."""

# "..."   "[...]"   "(…)": an ellipsis within a quotation
_GAP = re.compile(r"\s*(?:\[\.{3}\]|\(\.{3}\)|\.{3,})\s*")
# > 5 cups   > -$.5: a number that is compared, or Markdown's mark of a quotation in front of a
# number, with the marks before its digits
_COMPARED = re.compile(r"\s*>[ \t]+(?P<marks>[^\w\s]*)\d")
_SENTENCE_ENDS = frozenset(".!?;\u3002\uff01\uff1f\u0964\u061f")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_NEGATIONS = frozenset(
    ["no", "not", "cannot", "never", "neither", "nor", "none", "nobody", "nothing", "nowhere",
     "without", "hardly", "scarcely"]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuoteMatch:
    """Where a quotation stands."""

    where: str
    """`output`, `source` or `context`, or the part of it, such as `passage 2` or `turn 4, call
    1`."""
    start: int
    """First token of the first part, from 0."""


def find_quote(quote: str, texts: Mapping[str, str]) -> QuoteMatch | None:
    """Return where a quotation stands, or `None` if no text holds it word for word.

    A quotation with an ellipsis is found if all of its parts stand in one text, in order, and
    nothing that the ellipsis leaves out of their sentences negates them.

    Args:
        quote: What is said to be quoted.
        texts: Texts by name; the first that holds the quotation counts.
    """
    shown = plain(quote)
    whole = stripped(tokens(shown))
    parts = [found for part in _GAP.split(shown) if (found := stripped(tokens(part)))]
    if not whole or not parts:
        return None
    # taken for Markdown's mark, unless the text compares that number in another way: then ">" may
    # be what the quotation claims
    other = BESIDE_NUMBERS - {">"} if _compares(quote) else frozenset[str]()
    for where, text in texts.items():
        for spelling in _read(text):
            # as a whole first: an ellipsis may be the text's own
            start = _find([whole], *spelling, other)
            if start is None and len(parts) > 1:
                start = _find(parts, *spelling, other)
            if start is not None:
                return QuoteMatch(where, start)
    return None


def quotable(example: Example, *, question_counts: bool = True) -> dict[str, str]:
    """Return the texts of an example that can be quoted, the output first.

    Of passages and conversations, each by its number. Blank ones are left out.

    Args:
        example: What is judged.
        question_counts: Whether the source, and what was said in the conversation, is evidence
            even where there is a context; else only that is, and what tools answered.
    """
    texts = {"output": example.output}
    for piece in evidence_pieces(example, question_counts=question_counts):
        known = texts.get(piece.name)
        texts[piece.name] = piece.text if known is None else f"{known}\n{piece.text}"
    return {name: text for name, text in texts.items() if text.strip()}


def is_only_asked(example: Example) -> bool:
    """Return whether the source asks, and the context is what may answer.

    That is so of passages and conversations; beside a context that is one text, the source may be
    an article, and is a question if it ends as one.
    """
    if not (example.context or "").strip():
        return False
    if example.passages or example.messages:
        return True
    return (example.source or "").rstrip().endswith(_QUESTION_MARKS)


def evidence_pieces(example: Example, *, question_counts: bool = True) -> list[Piece]:
    """Return what an example was made from as numbered pieces; see `quotable`."""
    context, messages = example.context, example.messages
    leave_out = not question_counts and is_only_asked(example)
    pieces = conversation_pieces(messages)
    answer = answer_piece(pieces, example.output)
    source = source_beside(example.source, messages)
    found = [] if leave_out or not source.strip() else [Piece("source", source, "text")]
    found += [
        piece
        for piece in pieces
        if piece is not answer and (piece.kind in ("result", "passage") or not leave_out)
    ]
    if example.passages:
        found += passage_pieces(example.passages)
    elif context is not None and context.strip():
        found.append(Piece("context", context, "passage"))
    return found


@lru_cache(maxsize=32)  # every question about a text quotes the same few
def _read(text: str) -> tuple[tuple[list[str], list[bool]], ...]:
    """Return the spellings of a text: tokens, and whether each is part of a longer word."""
    return tuple((tokens(shown), joined(shown)) for shown in map(plain, spellings(text)))


def _find(
    parts: Sequence[list[str]], source: list[str], inside: list[bool], not_after: frozenset[str]
) -> int | None:
    """Return where the first part stands if all stand in the text, in order.

    The first part does not count where it stands after a token of `not_after`, or after one with
    signs of a number between them.
    """
    needed = min(MIN_WORDS, words_in(source))
    if any(words_in(part) < needed for part in parts):
        return None
    # every place where the parts so far may end, with the place where the first of them begins
    ends: dict[int, int] | None = None
    for part in parts:
        found = dict[int, int]()
        for start in _positions(part, source):
            end = start + len(part)
            if inside[end - 1] or (start > 0 and inside[start - 1]):
                continue
            if ends is None:
                if not _stands_after(source, start, not_after):
                    found[end] = start
                continue
            before = (at for at in sorted(ends, reverse=True) if at <= start)
            near = next((at for at in before if not _negated(source[at:start])), None)
            if near is not None:
                found[end] = ends[near]
        if not found:
            return None
        ends = found
    return min((ends or {}).values(), default=None)


def _compares(quote: str) -> bool:
    """Return whether a quotation begins with `>` and a number, as in `> $5 cups`."""
    match = _COMPARED.match(quote)
    return match is not None and all(mark in "+." or _is_sign(mark) for mark in match["marks"])


def _is_sign(token: str) -> bool:
    return token in "-\u2212" or unicodedata.category(token) == "Sc"


def _stands_after(source: Sequence[str], at: int, marks: frozenset[str]) -> bool:
    """Return whether one of the marks stands before a token, or before the signs before it."""
    while marks and at > 0:
        at -= 1
        if source[at] in marks:
            return True
        if len(source[at]) > 1 or not _is_sign(source[at]):
            return False
    return False


def _positions(part: Sequence[str], source: Sequence[str]) -> Iterator[int]:
    """Yield where the tokens stand next to each other."""
    for at in range(len(source) - len(part) + 1):
        # Comparing one token first keeps this linear for nearly all texts.
        if source[at] == part[0] and list(source[at : at + len(part)]) == list(part):
            yield at


def _negated(gap: Sequence[str]) -> bool:
    """Return whether what is left out negates what it stands between.

    Only what belongs to the sentences of the two parts counts, not sentences between them.
    """
    ends = [at for at, token in enumerate(gap) if token in _SENTENCE_ENDS]
    beside = [*gap[: ends[0]], *gap[ends[-1] + 1 :]] if ends else gap
    # didn't: the tokens are "didn", "'" and "t"
    shortened = any(pair == ("'", "t") for pair in pairwise(beside))
    return shortened or not _NEGATIONS.isdisjoint(beside)
