"""Evaluated texts in prompts: between delimiters that they cannot forge, in plain spelling.

    <source-3fa9c1d2>
    ...
    </source-3fa9c1d2>

The number is a function of the texts alone: equal examples give equal prompts, so caches and prefix
caches hit, and no text can hold the number that its own content leads to.

`simplify` makes English text plain for models that are too small for case and typography.
Benchmarks hold lower-cased, tokenized outputs beside sources that are neither; a model of a few
million parameters sees two spellings of a word as two words. What the embedded model was trained on
went through here, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import count

_TYPOGRAPHY = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201a": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "`": "'",
    }
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015", "-")
    | {"\u2026": "...", "\u00a0": " ", "\u200b": ""}
)
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]"}
# -lrb- and -rrb-: the Penn Treebank's round brackets
_BRACKET = re.compile("|".join(_BRACKETS))
# ``quoted'' as the Penn Treebank writes it
_QUOTES = re.compile(r"``|''")
# "do n't", "it 's" -> "don't", "it's"
_CLITIC = re.compile(r" (n't|'(?:s|re|ve|ll|d|m))\b")
# "rain ." -> "rain."
_BEFORE = re.compile(r" +(?=[.,;:!?%)\]])")
# "( rain" -> "(rain"   "$ 5" -> "$5"
_AFTER = re.compile(r"(?<=[(\[$#]) +")
_BLANKS = re.compile(r"[^\S\n]+")


def nonce(texts: Iterable[str]) -> str:
    """Return 8 hex digits that follow from the texts and occur in none of them."""
    known = tuple(texts)
    # With their lengths: texts cut differently must not give the same number.
    joined = "\x1f".join([f"{len(text)}:{text}" for text in known])
    # The texts are hashed into the number, so holding it would take a preimage; the loop is for the
    # one chance in four billion per place.
    for attempt in count():
        hashed = f"{attempt}:{joined}".encode("utf-8", "surrogatepass")
        number = hashlib.sha256(hashed).hexdigest()[:8]
        for text in known:
            if number in text:
                break
        else:
            return number
    raise AssertionError("unreachable")


def fence(kind: str, text: str, number: str) -> str:
    """Return `text`, unchanged, between the delimiters of its kind.

    Args:
        kind: What the text is, such as `source`; lower-case letters and hyphens.
        text: The text.
        number: What `nonce` gives for all texts of the example.
    """
    return f"<{kind}-{number}>\n{text}\n</{kind}-{number}>"


def simplify(text: str) -> str:
    """Lower the case, use ASCII quotes and dashes, join Penn Treebank tokens, single the spaces.

    Line breaks stay; blanks at either end of a line do not.
    """
    plain = text.translate(_TYPOGRAPHY).lower()
    plain = _BRACKET.sub(lambda match: _BRACKETS[match[0]], plain)
    plain = _QUOTES.sub('"', plain)
    plain = _CLITIC.sub(r"\1", plain)
    plain = _AFTER.sub("", _BEFORE.sub("", _BLANKS.sub(" ", plain)))
    return "\n".join(line.strip() for line in plain.split("\n")).strip()
