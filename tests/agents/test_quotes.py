"""Quotations are looked up word for word: none of 500 true ones is refused, every planted
fabrication is."""

import random
import re

import pytest

from textassay.agents.quotes import find_quote
from textassay.demo.bundled import TASKS, data_file
from textassay.runtime.data.dataset import Examples

TEXT = (
    "The 45-year-old (a baker) didn't sell 3.5 tons \u2014 \u201cnot one loaf\u201d, she said "
    "\u2026 on May 3."
)


@pytest.mark.parametrize(
    "quote",
    [
        TEXT,
        "didn\u2019t sell 3.5 tons",
        '"not one loaf", she said',
        "NOT ONE  LOAF",
        "'sell 3.5 tons.'",
        "a baker ... she said",
        "The 45-year-old [...] sell 3.5 tons",
    ],
)
def test_what_stands_there_is_found_however_it_is_typed(quote):
    if quote == "a baker ... she said":  # parts of an ellipsis count by themselves
        assert find_quote(quote, {"output": TEXT}) is None
    else:
        assert find_quote(quote, {"source": "Else.", "output": TEXT}).where == "output"


@pytest.mark.parametrize(
    "quote",
    [
        "",
        "...",
        "one loaf",  # too short to be evidence
        "did sell 3.5 tons",
        "sell 3.5 tons of bread",
        "sell 35 tons",
        "sell 3 tons",
        "ell 3.5 tons",
        "she said not one loaf",
        "on May 3. The 45-year-old",
        "sell 3.5 tons ... The 45-year-old",  # in another order
    ],
)
def test_what_does_not_stand_there_is_refused(quote):
    assert find_quote(quote, {"output": TEXT}) is None


def test_a_short_text_may_be_quoted_as_a_whole():
    assert find_quote("Thank you!", {"output": "Thank you."}).where == "output"


def drawn() -> list[tuple[dict[str, str], str]]:
    """Return 500 passages of the bundled examples, each with the texts it is from."""
    examples = [example for task in TASKS for example in Examples(data_file(task))]
    random_ = random.Random(0)
    found = []
    while len(found) < 500:
        example = random_.choice(examples)
        texts = {"output": example.output, "source": example.source or ""}
        words = texts[random_.choice(["output", "source"])].split()
        if len(words) < 8:
            continue
        start = random_.randrange(len(words) - 7)
        found.append((texts, " ".join(words[start : start + random_.randint(5, 20)])))
    return found


def is_word(word: str) -> bool:
    """Return whether a word is letters only."""
    return re.fullmatch(r"[A-Za-z]{2,}", word) is not None


def fabricated(quote: str, random_: random.Random) -> list[str]:
    """Return the quotation with a word exchanged, one put in, and two swapped."""
    words = quote.split()
    inner = [at for at in range(1, len(words) - 1) if is_word(words[at])]
    if not inner:
        return []
    at = random_.choice(inner)
    changed = [*words[:at], "zeppelin", *words[at + 1 :]]
    more = [*words[:at], "allegedly", *words[at:]]
    found = [" ".join(changed), " ".join(more)]
    if words[at].lower() != words[at - 1].lower() and is_word(words[at - 1]):
        found.append(" ".join([*words[: at - 1], words[at], words[at - 1], *words[at + 1 :]]))
    return found


def test_none_of_500_true_quotes_is_refused_and_every_planted_fabrication_is():
    quotes, random_ = drawn(), random.Random(1)
    refused = [quote for texts, quote in quotes if find_quote(quote, texts) is None]
    assert refused == []
    planted = [(texts, false) for texts, quote in quotes for false in fabricated(quote, random_)]
    assert len(planted) > 1_000
    assert [false for texts, false in planted if find_quote(false, texts) is not None] == []
