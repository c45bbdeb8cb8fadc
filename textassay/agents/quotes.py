"""Finds a quotation in the texts of an example: by rules, without a model.

Typography (`tokens`) and punctuation around the quotation do not matter; every word, number and
mark inside it does, and so does their order. A part of a word or number is not found, and an
ellipsis may not omit a negation of the words that it joins.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise

from textassay.runtime.conversation import (
    Piece,
    answer_piece,
    conversation_pieces,
    passage_pieces,
    source_beside,
)
from textassay.runtime.messages import Example

# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0e4f\u0e80-\u0eff\u1000-\u104f\u1780-\u17dd\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff"
)
# -5   +.5   1,000.5   10:30   3/4: a number with its sign, but not the "-" of "3-4" or "3 -4"
_NUMBER = r"(?:(?<!\d\s)(?<![^\s(\[])[-+](?=\.?\d))?(?:(?<![\w.])\.(?=\d))?\d+(?:[.,:/]\d+)*"
_ASCII = re.compile(rf"{_NUMBER}|[a-z]+|[^\w\s]|_")
_UNSPACED_WORD = re.compile(f"[{_UNSPACED}]")

_PLAIN = str.maketrans({
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
    # one mark for all quotations: inside JSON a model writes '...' for "..."
    **dict.fromkeys('"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb', "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    "\u2044": "/",
    # no width at all: soft hyphens, joiners, marks of direction
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", ""),
})  # fmt: skip
_REWRITTEN = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # at the beginning of a line: "# ", "- ", "> "
        (r"(?m)^[ \t]*(?:#{1,6}|[-*+>])[ \t]+", ""),
        # **bold**   _emphasis_
        (r"(?<!\w)\*{1,3}(?=\S)|(?<=\S)\*{1,3}(?!\w)|(?<!\w)__?(?=\w)|(?<=\w)__?(?!\w)", ""),
        (r"'{2,}", "'"),
        # did n't   can not: tokenized text, as in many news corpora
        (r"\s+(?=n't\b)|(?<=\bcan)\s+(?=not\b)", ""),
    )
)
"""Markup and spellings of texts in lower case, and their plain form."""
_SHORT_NOT = re.compile(r"'t\b")
BESIDE_NUMBERS = frozenset("+<>=\u2264\u2265\u2260\u00b1\u2248~")
"""Signs that belong to the number after them."""


def plain(text: str) -> str:
    """Return a text in the form that is compared."""
    text = text.translate(_PLAIN)
    if not text.isascii():
        # NFKC would make 102 of 10\u00b2 and 51/2 of 5\u00bd
        text = re.sub(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u2079])", "^", text)
        text = re.sub(r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e])", " ", text)
        # Translated twice: NFKC itself yields such marks (primes out of a quadruple prime).
        text = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    text = text.casefold()
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return text


def spellings(text: str) -> Iterator[str]:
    """Yield a text, and the same text with words joined that line breaks divide."""
    yield text
    whole = re.sub(r"(?<=[^\W\d_])-[ \t]*\n\s*(?=[^\W\d_])", "", text)
    if whole != text:
        yield whole


def tokens(text: str) -> list[str]:
    """Return words, numbers and marks of a plain text, in order."""
    return _pattern(text).findall(text)


def mark_joined(text: str) -> list[bool]:
    """Return for each token whether it is part of a longer word, where no quotation ends."""
    spans = [match.span() for match in _pattern(text).finditer(text)]
    joined = [False] * len(spans)
    for index, ((start, end), (after, stop)) in enumerate(pairwise(spans)):
        if end != after:
            continue
        if text[after] == "'":
            joined[index] = _SHORT_NOT.match(text, after) is not None
            continue
        pair = text[start:end], text[after:stop]
        # in scripts without spaces, a word may begin anywhere
        joined[index] = all(is_word(token) and not _UNSPACED_WORD.match(token) for token in pair)
    return joined


def words_in(text_tokens: Sequence[str]) -> float:
    """Return the number of words in tokens; a sign of a script without spaces is half a word."""
    return sum(0.5 if _UNSPACED_WORD.match(t) else 1.0 for t in text_tokens if is_word(t))


def is_word(token: str) -> bool:
    """Return whether a token is a word or a number."""
    return any(map(str.isalnum, token))


def strip_punctuation(text_tokens: list[str]) -> list[str]:
    """Return tokens without punctuation around them, except currencies, `%`, comparisons."""
    places = [
        at for at, token in enumerate(text_tokens)
        if is_word(token) or _counts(token, text_tokens[at - 1 : at] + text_tokens[at + 1 : at + 2])
    ]  # fmt: skip
    return text_tokens[places[0] : places[-1] + 1] if any(map(is_word, text_tokens)) else []


def _counts(token: str, beside: list[str]) -> bool:
    numbers = any(char.isdigit() for neighbor in beside for char in neighbor)
    symbol = token in "%\u2030\u00b0" or unicodedata.category(token) == "Sc"
    return numbers and (symbol or token in BESIDE_NUMBERS)


def _pattern(text: str) -> re.Pattern[str]:
    # `re` does not treat combining marks as letters, and listing them is slow
    return _ASCII if text.isascii() else _unicode_pattern()


@cache
def _unicode_pattern() -> re.Pattern[str]:
    marks = "".join(
        re.escape(char) for char in map(chr, range(0x300, 0x10000))
        if unicodedata.category(char).startswith("M")
    )  # fmt: skip
    letter = rf"(?![{_UNSPACED}])[^\W\d_]"
    return re.compile(
        rf"{_NUMBER}[{marks}]*|[{_UNSPACED}][{marks}]*|{letter}(?:{letter}|(?![{_UNSPACED}])[{marks}])*"
        r"|[^\w\s]|_"
    )


# "..."   "[...]"   "(…)": an ellipsis within a quotation
_GAP = re.compile(r"\s*(?:\[\.{3}\]|\(\.{3}\)|\.{3,})\s*")
# > 5 cups   > -$.5: a number that is compared, or Markdown's mark of a quotation in front of a
# number, with the marks before its digits
_COMPARED = re.compile(r"\s*>[ \t]+(?P<marks>[^\w\s]*)\d")
_NEGATIONS = frozenset(
    ["no", "not", "cannot", "never", "neither", "nor", "none", "nobody", "nothing", "nowhere",
     "without", "hardly", "scarcely"]
)  # fmt: skip


def find_quote(quote: str, texts: Mapping[str, str]) -> str | None:
    """Return the name of the text that contains a quotation word for word; `None` if no text does.

    A quotation with an ellipsis is found if one text has all of its parts, in order, and no word
    that the ellipsis omits from their sentences negates them.
    """
    quoted = plain(quote)
    whole = strip_punctuation(tokens(quoted))
    parts = [piece for part in _GAP.split(quoted) if (piece := strip_punctuation(tokens(part)))]
    if not whole or not parts:
        return None
    # ">" is taken for Markdown's mark, unless the text compares that number in another way: then it
    # may be a part of the claim
    other = BESIDE_NUMBERS - {">"} if _compares(quote) else frozenset[str]()
    for where, text in texts.items():
        for spelling in _read(text):
            # first as a whole: the text may contain the ellipsis
            if _holds([whole], *spelling, other) or (
                len(parts) > 1 and _holds(parts, *spelling, other)
            ):
                return where
    return None


def quotable(
    example: Example, *, question_counts: bool = True, references_count: bool = False
) -> dict[str, str]:
    """Return the texts of an example that can be quoted, the output first.

    Passages and turns are separate texts with numbers. Blank texts are left out.
    """
    texts = {"output": example.output}
    for piece in evidence_pieces(example, question_counts=question_counts):
        earlier = texts.get(piece.name)
        texts[piece.name] = f"{earlier}\n{piece.text}" if earlier else piece.text
    if references_count:
        texts["reference"] = "\n".join(example.references)
    # an image is quoted by its mark, as it has no other text
    texts |= {image.label: image.mark for image in example.images}
    return {name: text for name, text in texts.items() if text.strip()}


def is_only_asked(example: Example) -> bool:
    """Return whether the source is only a question about the context.

    With passages and conversations it is. Beside a context that is one text, it is if it ends in a
    question mark; otherwise it may be an article.
    """
    if not (example.context or "").strip():
        return False
    if example.passages or example.messages:
        return True
    return (example.source or "").rstrip().endswith(("?", "\uff1f", "\u061f"))


def evidence_pieces(example: Example, *, question_counts: bool = True) -> list[Piece]:
    """Return source, conversation, passages and context as numbered pieces; see `quotable`."""
    context, messages = example.context or "", example.messages
    leave_out = not question_counts and is_only_asked(example)
    pieces = conversation_pieces(messages)
    answer = answer_piece(pieces, example.output)
    source = source_beside(example.source, messages)
    evidence = [] if leave_out or not source.strip() else [Piece("source", source, "text")]
    evidence += [
        piece
        for piece in pieces
        if piece is not answer and (piece.kind in ("result", "passage") or not leave_out)
    ]
    if example.passages:
        evidence += passage_pieces(example.passages)
    elif context.strip():
        evidence.append(Piece("context", context, "passage"))
    return evidence


@lru_cache(maxsize=32)  # every question about a text quotes the same few
def _read(text: str) -> tuple[tuple[list[str], list[bool]], ...]:
    """Return the spellings of a text: tokens, and whether each is part of a longer word."""
    return tuple((tokens(s), mark_joined(s)) for s in map(plain, spellings(text)))


def _holds(
    parts: Sequence[list[str]], source: list[str], inside: list[bool], not_after: frozenset[str]
) -> bool:
    """Return whether the text has all parts, in order.

    A match of the first part after a token of `not_after` is ignored, even with signs of a number
    between them.
    """
    # nearly every text contains fewer than three given words by chance, unless it is shorter
    needed = min(3, words_in(source))
    if any(words_in(part) < needed for part in parts):
        return False
    ends = list[int]()  # every place where the previous parts may end
    for number, part in enumerate(parts):
        next_ends = list[int]()
        for start in _positions(part, source):
            end = start + len(part)
            if inside[end - 1] or (start > 0 and inside[start - 1]):
                continue
            if (
                any(at <= start and not _negates(source[at:start]) for at in reversed(ends))
                if number
                else not _stands_after(source, start, not_after)
            ):
                next_ends.append(end)
        if not next_ends:
            return False
        ends = next_ends
    return True


def _compares(quote: str) -> bool:
    """Return whether a quotation begins with `>` and a number, as in `> $5 cups`."""
    match = _COMPARED.match(quote)
    return bool(match and all(mark in "+." or _is_sign(mark) for mark in match["marks"]))


def _is_sign(token: str) -> bool:
    return token in "-\u2212" or unicodedata.category(token) == "Sc"


def _stands_after(source: Sequence[str], at: int, marks: frozenset[str]) -> bool:
    """Return whether one of the marks is before a token, or before the signs before it."""
    while marks and at > 0:
        at -= 1
        if source[at] in marks:
            return True
        if len(source[at]) > 1 or not _is_sign(source[at]):
            return False
    return False


def _positions(part: Sequence[str], source: Sequence[str]) -> Iterator[int]:
    """Yield the places where the tokens occur consecutively."""
    for at in range(len(source) - len(part) + 1):
        # comparing one token first keeps this linear for nearly all texts
        if source[at] == part[0] and list(source[at : at + len(part)]) == list(part):
            yield at


def _negates(gap: Sequence[str]) -> bool:
    """Return whether the words omitted from the sentences of two parts negate them."""
    sentence_ends = ".!?;\u3002\uff01\uff1f\u0964\u061f"
    ends = [at for at, token in enumerate(gap) if token in sentence_ends]
    beside = [*gap[: ends[0]], *gap[ends[-1] + 1 :]] if ends else gap
    # didn't: the tokens are "didn", "'" and "t"
    shortened = any(pair == ("'", "t") for pair in pairwise(beside))
    return shortened or not _NEGATIONS.isdisjoint(beside)
