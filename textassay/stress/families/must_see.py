"""Must-see changes.

Each makes a text worse in one respect, and a judge of that respect has to notice.

The edits of numbers, names and negation are for English text; if they find nothing to change,
the example is left out of the test.
"""

from __future__ import annotations

import re

from textassay.runtime.messages import Example
from textassay.stress.edit import Edit, Surroundings, sentences, with_output

_NUMBER = re.compile(r"(?<![\w.,])\d{1,18}(?![\w]|[.,]\d)")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|has|have|had|will|can|could|should|would|must|did|does)\b"
    r"(?!n't|\s+(?:not|never)\b)"
)
_NOT = re.compile(r"\b(is|are|was|were|has|have|had|will|could|should|would|must|did|does) not\b")
# a capitalized word, or several, that does not begin the sentence
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*\b")


def number(example: Example, around: Surroundings) -> Example | None:
    """Change one number into another with as many digits."""
    matches = list(_NUMBER.finditer(example.output))
    if not matches:
        return None
    match = around.rng.choice(matches)
    return with_output(example, _replaced(example.output, match, _another(match[0], around)))


def negation(example: Example, around: Surroundings) -> Example | None:
    """Negate one statement, or take its negation away."""
    text = example.output
    # taking a "not" away always reverses a statement; inserting one can land in a question or a
    # clause
    if match := _NOT.search(text):
        return with_output(example, _replaced(text, match, match[1]))
    matches = list(_AUXILIARY.finditer(text))
    if not matches:
        return None
    match = around.rng.choice(matches)
    return with_output(example, _replaced(text, match, f"{match[0]} not"))


def entity(example: Example, around: Surroundings) -> Example | None:
    """Replace a name by one from another source."""
    matches = list(_NAME.finditer(example.output))
    known = f"{example.output} {example.source or ''}"
    others = sorted(
        {
            match[0]
            for sentence in around.foreign_sentences(example)
            for match in _NAME.finditer(sentence)
            # a name that occurs in the text or its source could make the sentence true
            if match[0] not in known
        }
    )
    if not matches or not others:
        return None
    name = around.rng.choice(matches)[0]
    return with_output(example, example.output.replace(name, around.rng.choice(others)))


def foreign_sentence(example: Example, around: Surroundings) -> Example | None:
    """Insert a sentence from a text about another source."""
    others = [one for one in around.foreign_sentences(example) if one not in example.output]
    own = sentences(example.output)
    if not others or not own:
        return None
    # in the middle, where it breaks the flow; at the end it could pass for an afterthought
    own.insert((len(own) + 1) // 2, around.rng.choice(others))
    return with_output(example, " ".join(own))


def shuffled(example: Example, around: Surroundings) -> Example | None:
    """Put the sentences into another order; needs three."""
    own = sentences(example.output)
    if len(set(own)) < 3:
        return None
    order = list(own)
    # a random order can be the original one; at least three different sentences make sure that
    # this ends
    while order == own:
        around.rng.shuffle(order)
    return with_output(example, " ".join(order))


def repeated(example: Example, around: Surroundings) -> Example | None:
    """Say one sentence three times."""
    own = sentences(example.output)
    if not own:
        return None
    at = around.rng.randrange(len(own))
    own[at : at + 1] = [own[at]] * 3
    return with_output(example, " ".join(own))


def deleted(example: Example, around: Surroundings) -> Example | None:
    """Leave out the longest sentence; needs two."""
    own = sentences(example.output)
    if len(own) < 2:
        return None
    # the longest sentence most likely holds content that a judge of coverage must miss
    own.remove(max(own, key=len))
    return with_output(example, " ".join(own))


def _replaced(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def _another(digits: str, around: Surroundings) -> str:
    """Return another number with as many digits and no leading zero that the first one lacks."""
    low = 0 if len(digits) == 1 else 10 ** (len(digits) - 1)
    while True:
        drawn = str(around.rng.randrange(low, 10 ** len(digits)))
        if int(drawn) != int(digits):
            return drawn


FAMILY = "must-see"
EDITS = (
    Edit(
        "number", FAMILY, number, "one number changed",
        seen_by=frozenset({"facts", "overall"}), ignored_by=frozenset({"language", "order"}),
    ),
    Edit(
        "negation", FAMILY, negation, "one statement negated",
        seen_by=frozenset({"facts", "overall"}), ignored_by=frozenset({"order"}),
    ),
    Edit(
        "entity", FAMILY, entity, "one name replaced by another",
        seen_by=frozenset({"facts", "overall"}), ignored_by=frozenset({"language", "order"}),
    ),
    Edit(
        "foreign-sentence", FAMILY, foreign_sentence, "a sentence about something else",
        seen_by=frozenset({"facts", "content", "order", "overall"}),
        ignored_by=frozenset({"language"}),
    ),
    Edit(
        "shuffled", FAMILY, shuffled, "the sentences in another order",
        seen_by=frozenset({"order", "overall"}), ignored_by=frozenset({"facts"}),
    ),
    Edit(
        "repeated", FAMILY, repeated, "one sentence said three times",
        seen_by=frozenset({"concision", "overall"}), ignored_by=frozenset({"facts"}),
    ),
    Edit(
        "deleted", FAMILY, deleted, "the longest sentence left out",
        seen_by=frozenset({"content", "overall"}), ignored_by=frozenset({"facts", "language"}),
    ),
)  # fmt: skip
