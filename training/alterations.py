"""Spoils texts in one respect and leaves the others alone: facts, language or order.

What is altered keeps nearly all words of the original, so that a judge cannot tell by overlap alone
what is wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

Sentences = list[str]
Alteration = Callable[[str, random.Random], str | None]
"""Returns the altered sentence, `None` where it offers nothing to alter."""

_NAME = re.compile(r"\b[A-Z][\w'-]+(?: (?:of |the |de )?[A-Z][\w'-]+)*")
_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d+\b")
_NO_NAME = frozenset(
    [
        "I",
        "The",
        "A",
        "An",
        "It",
        "He",
        "She",
        "This",
        "That",
        "These",
        "Those",
        "We",
        "They",
        "You",
        "But",
        "And",
        "Or",
        "If",
        "In",
        "On",
        "At",
        "For",
        "As",
        "By",
        "To",
        "Of",
        "With",
        "From",
        "When",
        "While",
        "After",
        "Before",
        "His",
        "Her",
        "Its",
        "Our",
        "Their",
        "My",
        "Your",
        "There",
        "Here",
        "What",
        "Who",
        "How",
        "Why",
        "Which",
        "So",
        "Yet",
        "Also",
        "However",
    ]
)
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|will|can|could|would|should|has|have|had|do|does|did|may|must)\b(?! not)"
)
_NOT = re.compile(
    r"\b(is|are|was|were|will|could|would|should|has|have|had|do|does|did) not\b|\b(\w+)n't\b"
)
_OPPOSITES: dict[str, str] = {}
for _pair in [
    "more less",
    "increase decrease",
    "increased decreased",
    "increases decreases",
    "rose fell",
    "rise fall",
    "rises falls",
    "up down",
    "high low",
    "higher lower",
    "highest lowest",
    "before after",
    "first last",
    "best worst",
    "better worse",
    "good bad",
    "large small",
    "larger smaller",
    "largest smallest",
    "big little",
    "early late",
    "earlier later",
    "old new",
    "older younger",
    "young old",
    "won lost",
    "win lose",
    "wins loses",
    "always never",
    "often rarely",
    "many few",
    "most least",
    "all none",
    "everyone nobody",
    "everything nothing",
    "inside outside",
    "north south",
    "east west",
    "northern southern",
    "eastern western",
    "left right",
    "buy sell",
    "bought sold",
    "open close",
    "opened closed",
    "start end",
    "started ended",
    "begin finish",
    "began finished",
    "easy difficult",
    "easier harder",
    "possible impossible",
    "public private",
    "male female",
    "man woman",
    "men women",
    "boy girl",
    "father mother",
    "son daughter",
    "brother sister",
    "husband wife",
    "he she",
    "his her",
    "day night",
    "morning evening",
    "summer winter",
    "monday friday",
    "tuesday thursday",
    "january july",
    "march october",
    "million billion",
    "hundred thousand",
    "two five",
    "three seven",
    "four nine",
    "support oppose",
    "supported opposed",
    "accept reject",
    "accepted rejected",
    "agree disagree",
    "agreed disagreed",
    "love hate",
    "like dislike",
    "loved hated",
    "strong weak",
    "stronger weaker",
    "success failure",
    "successful unsuccessful",
    "safe dangerous",
    "rich poor",
    "happy sad",
    "hot cold",
    "warm cool",
    "light dark",
    "fast slow",
    "near far",
    "add remove",
    "added removed",
    "include exclude",
    "includes excludes",
    "gain loss",
    "gained lost",
    "top bottom",
    "above below",
    "positive negative",
    "minimum maximum",
    "enter leave",
    "entered left",
    "arrive depart",
    "arrived departed",
    "cheap expensive",
]:
    _one, _other = _pair.split()
    _OPPOSITES.setdefault(_one, _other)
    _OPPOSITES.setdefault(_other, _one)
_OPPOSITE = re.compile(r"\b(" + "|".join(_OPPOSITES) + r")\b", re.IGNORECASE)


def names(sentence: str) -> list[str]:
    """Return the names and numbers of a sentence; a single word that opens it is no name."""
    found = []
    for match in _NAME.finditer(sentence):
        words = match[0].split()
        while words and words[0] in _NO_NAME:
            words = words[1:]
        if words and (match.start() > 0 or len(words) > 1):
            found.append(" ".join(words))
    return found + _NUMBER.findall(sentence)


def swap_name(pool: Sequence[str]) -> Alteration:
    """Return what puts another name of the pool, or another number, in the place of one."""

    def alter(sentence: str, rng: random.Random) -> str | None:
        own = names(sentence)
        if not own:
            return None
        old = rng.choice(own)
        is_number = old[0].isdigit()
        others = [
            new for new in pool if new[0].isdigit() == is_number and new.lower() != old.lower()
        ]
        others = [new for new in others if new not in sentence and old not in new]
        if is_number and (not others or rng.random() < 0.3):
            others = [_another_number(old, rng)]
        return sentence.replace(old, rng.choice(others), 1) if others else None

    return alter


def _another_number(old: str, rng: random.Random) -> str:
    digits = [i for i, c in enumerate(old) if c.isdigit()]
    at = rng.choice(digits[:2])
    new = rng.choice([d for d in "123456789" if d != old[at]])
    return old[:at] + new + old[at + 1 :]


def swap_roles(sentence: str, rng: random.Random) -> str | None:
    """Let two names of a sentence change places: the same words, another meaning."""
    own = [name for name in names(sentence) if not name[0].isdigit()]
    pairs = [(a, b) for a in own for b in own if a < b and a not in b and b not in a]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    return sentence.replace(one, "\0", 1).replace(other, one, 1).replace("\0", other, 1)


def negate(sentence: str, rng: random.Random) -> str | None:
    """Put in a `not`, or take one out."""
    if (found := _NOT.search(sentence)) is not None:
        kept = found[1] or {"ca": "can", "wo": "will"}.get(found[2], found[2])
        return sentence[: found.start()] + kept + sentence[found.end() :]
    places = list(_AUXILIARY.finditer(sentence))
    if not places:
        return None
    at = rng.choice(places).end()
    return f"{sentence[:at]} not{sentence[at:]}"


def oppose(sentence: str, rng: random.Random) -> str | None:
    """Put a word's opposite in its place."""
    places = list(_OPPOSITE.finditer(sentence))
    if not places:
        return None
    found = rng.choice(places)
    new = _OPPOSITES[found[0].lower()]
    new = new.capitalize() if found[0][0].isupper() else new
    return sentence[: found.start()] + new + sentence[found.end() :]


def fuse_with(other: str) -> Alteration:
    """Return what joins the first part of a sentence to the last part of another one.

    The two meet at a word that both have, so that the result reads well and is wrong.
    """

    def alter(sentence: str, rng: random.Random) -> str | None:
        head, tail = sentence.rstrip(".!?").split(), other.split()
        if len(head) < 7 or len(tail) < 7 or sentence == other:
            return None
        places = [
            (i, j)
            for i, word in enumerate(head[3:-2], 3)
            for j, same in enumerate(tail[1:-2], 1)
            if word.lower() == same.lower()
        ]
        if not places:
            return None
        i, j = rng.choice(places)
        return " ".join(head[:i] + tail[j:])

    return alter


def transplant(others: Sequence[str], pool: Sequence[str]) -> Alteration:
    """Return what puts a sentence of another text, with names of this one, in a sentence's place.

    Such a sentence shares names with the text and nothing else: it is fluent, on the topic by its
    names, neither copied nor true.

    Args:
        others: Sentences of another text.
        pool: Names and numbers of this one.
    """

    def alter(sentence: str, rng: random.Random) -> str | None:
        new = rng.choice(others)
        replaced = 0
        for old in names(new):
            fitting = [name for name in pool if name[0].isdigit() == old[0].isdigit()]
            if fitting:
                new = new.replace(old, rng.choice(fitting), 1)
                replaced += 1
        return new if replaced else None

    return alter


_ARTICLE = re.compile(r"\b(the|a|an|to|of|in|is|are|was|were|and|that|for|on|with) ", re.IGNORECASE)
_AGREEMENT = {
    "is": "are",
    "are": "is",
    "was": "were",
    "were": "was",
    "has": "have",
    "have": "has",
    "does": "do",
}
_AGREES = re.compile(r"\b(" + "|".join(_AGREEMENT) + r")\b")


def _drop_words(words: list[str], n: int, rng: random.Random) -> list[str]:
    gone = set(rng.sample(range(len(words)), n))
    return [word for i, word in enumerate(words) if i not in gone]


def _repeat_span(words: list[str], n: int, rng: random.Random) -> list[str]:
    at = rng.randrange(len(words) - 1)
    span = words[at : at + rng.randint(1, 4)]
    return words[:at] + span * rng.randint(1, 2) + words[at:]


def _loop(words: list[str], n: int, rng: random.Random) -> list[str]:
    """Say a longer span again and again, as language models do that have lost their way."""
    size = rng.randint(2, min(7, len(words)))
    at = rng.randrange(len(words) - size + 1)
    span = words[at : at + size]
    tail = [] if rng.random() < 0.5 else words[at + size :]
    return words[: at + size] + span * rng.randint(1, 3) + tail


def _swap_neighbours(words: list[str], n: int, rng: random.Random) -> list[str]:
    words = list(words)
    for _ in range(n):
        at = rng.randrange(len(words) - 1)
        words[at], words[at + 1] = words[at + 1], words[at]
    return words


def _shuffle_window(words: list[str], n: int, rng: random.Random) -> list[str]:
    size = min(len(words), 3 + n)
    at = rng.randrange(len(words) - size + 1)
    window = words[at : at + size]
    rng.shuffle(window)
    return words[:at] + window + words[at + size :]


def _cut_off(words: list[str], n: int, rng: random.Random) -> list[str]:
    kept = words[: rng.randint(3, max(3, len(words) - 2))]
    return [*kept[:-1], kept[-1].rstrip(".!?,;")]


def _cut_head(words: list[str], n: int, rng: random.Random) -> list[str]:
    return words[rng.randint(1, max(1, len(words) // 2)) :]


_WORD_GARBLES = (
    _drop_words,
    _repeat_span,
    _loop,
    _swap_neighbours,
    _shuffle_window,
    _cut_off,
    _cut_head,
)


def garble(sentence: str, rng: random.Random, share: float = 0.15) -> str | None:
    """Break a sentence's language.

    Words left out, doubled or out of order, cut off, function words or endings wrong.

    Args:
        sentence: At least five words.
        rng: Source of chance.
        share: Roughly which share of the words is touched.
    """
    words = sentence.split()
    if len(words) < 5:
        return None
    if rng.random() < 0.3:
        pattern, fixed = (_ARTICLE, "") if rng.random() < 0.5 else (_AGREES, None)
        places = list(pattern.finditer(sentence))
        if places:
            chosen = set(
                rng.sample(range(len(places)), max(1, round(len(places) * min(1.0, 3 * share))))
            )
            parts, at = [], 0
            for i, found in enumerate(places):
                new = (
                    found[0]
                    if i not in chosen
                    else fixed
                    if fixed is not None
                    else _AGREEMENT[found[0]]
                )
                parts += [sentence[at : found.start()], new]
                at = found.end()
            broken = "".join(parts) + sentence[at:]
            return broken if broken != sentence else None
    way = rng.choice(_WORD_GARBLES)
    broken = " ".join(way(words, max(1, round(len(words) * share)), rng))
    return broken if broken != sentence else None


def shuffled(sentences: Sentences, rng: random.Random) -> Sentences | None:
    """Return the sentences in another order; of two, the other way round."""
    if len(sentences) < 2:
        return None
    for _ in range(8):
        other = list(sentences)
        rng.shuffle(other)
        if other != sentences:
            return other
    return None
