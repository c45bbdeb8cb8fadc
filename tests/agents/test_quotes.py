"""Quotations are looked up word for word: none of 500 true ones is refused however it is typed,
every planted fabrication is."""

import random
import re

import pytest
from hypothesis import example as row
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.quotes import find_quote
from textassay.demo import BUNDLED_TASKS, data_file
from textassay.runtime.data.dataset import Examples

TEXT = (
    "The 45-year-old (a baker) didn't sell 3.5 tons \u2014 \u201cnot one loaf\u201d, she said "
    "\u2026 on May 3."
)


@pytest.mark.parametrize(
    "quote",
    [
        TEXT, "didn\u2019t sell 3.5 tons", '"not one loaf", she said', "'not one loaf', she said",
        "NOT ONE  LOAF", "'sell 3.5 tons.'", "didn't sell **3.5 tons**", "\u2026 on May 3",
        "she said ... on May 3",
    ],
)  # fmt: skip
def test_a_quotation_is_found_however_it_is_typed(quote):
    assert find_quote(quote, {"source": "Else.", "output": TEXT}) == "output"


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        # hyphens at the end of a line, and characters without a width
        ("the government resigned", "So the govern-\nment resigned."),
        ("a well-known baker resigned", "A well-\nknown baker resigned."),
        ("the government resigned", "So the govern\u00adment re\u200bsigned."),
        # tokenized text
        ("didn't see that he can't", "He did n't see that he ca n't ."),
        ('"not one loaf", she said', "`` not one loaf '' , she said ."),
        # Markdown in the text or in the quotation
        ("the last loaf is gone", "The **last** _loaf_ is gone"),
        ("> - the __last__ loaf", "the last loaf"),
        # an ellipsis of the text's own, with one word before it
        ("Well... I think so", "Well... I think so."),
        ("won 6-3 on Sunday", "He won 6 -3 on Sunday ."),
        ("the \ufb01ve cafe\u0301s closed", "The five caf\u00e9s closed."),
        # an ellipsis over whole sentences, one of which negates something else
        ("the bakery sold bread ... the mill sold flour",
         "The bakery sold bread. It never sold cakes. The mill sold flour."),
        # scripts without spaces between words, and with marks that combine with letters
        ("市长下台了吗", "昨天市长下台了吗？"),
        ("नदी की धारा", "यह नदी की धारा है"),
        # the mark of a quotation, unless the text compares that number in another way
        ("> 5 cups of flour", "Add 5 cups of flour."),
        ("> $5 cups of flour", "Add $5 cups of flour."),
        ("> -$5 cups of flour", "Add > -$5 cups of flour."),
        ("> 5 cups of flour\n> and an egg", "Add 5 cups of flour and an egg."),
        ("> 5 cups of flour", "Add > 5 cups of flour."),
        ("> < 5 cups of flour", "Add < 5 cups of flour."),
        ("> Add 5 cups of flour", "Add 5 cups of flour."),
        ("> 5 cups of flour", "Add < 2 eggs and 5 cups of flour."),
    ],
)  # fmt: skip
def test_typing_and_typesetting_do_not_matter(quote, text):
    assert find_quote(quote, {"source": text}) is not None


@pytest.mark.parametrize(
    "quote",
    [
        "",
        "...",
        "one loaf",  # too short to be evidence
        "The 45-year-old (a baker) [...] she said",  # as is a part of an ellipsis
        "did sell 3.5 tons",
        "sell 3.5 tons of bread",
        "sell 35 tons",
        "sell 3 tons",
        "ell 3.5 tons",
        "she said not one loaf",
        "on May 3. The 45-year-old",
        "sell 3.5 tons ... The 45-year-old",  # in another order
        "The 45-year-old [...] sell 3.5 tons",  # the ellipsis swallows a negation
    ],
)
def test_a_quotation_that_is_not_in_the_text_is_refused(quote):
    assert find_quote(quote, {"output": TEXT}) is None


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("they said they won", "They said they won't."),
        ("he said he can", "He said he can't."),
        ("he said he can", "He said he cannot."),
        ("is a notable plan", "It is a not able plan."),
        ("he paid about 5", "He paid about 5m."),
        ("he paid about 5", "He paid about 5.2."),
        ("he paid about 1", "He paid about 1/2 of it."),
        ("it grew by 10%", "It grew by 10 million."),
        ("$5 million was paid", "\u20ac5 million was paid."),
        ("-5 degrees at night", "5 degrees at night."),
        ("5 degrees at night", "It was -5 degrees at night."),
        (".5 percent of them", "5 percent of them"),
        ("<5 percent of them", "5 percent of them"),
        ("> 5 cups of flour", "Add < 5 cups of flour."),
        ("> 5 cups of flour", "Add \u2265 5 cups of flour."),
        ("> 5 cups ... of flour", "Add < 5 cups, at most, of flour."),
        ("> $5 cups of flour", "Add < $5 cups of flour."),
        ("> \u20ac.5 cups of flour", "Add \u2264 \u20ac.5 cups of flour."),
        ("> -\u20ac5 cups of flour", "Add < -\u20ac5 cups of flour."),
        ("> $-5 cups of flour", "Add < $-5 cups of flour."),
        ("> \u22125 cups of flour", "Add < \u22125 cups of flour."),
        ("about 102 square miles", "about 10\u00b2 square miles"),
        ("about 51/2 miles away", "about 5\u00bd miles away"),
        ("the plan was approved", "The plan was disapproved."),
        # two sentences joined, with and without an ellipsis
        ("the mayor said the bridge is safe",
         "The mayor said nothing. Experts doubt the bridge is safe."),
        ("yesterday the mayor said ... the bridge is safe",
         "Yesterday the mayor said a word. Nobody thinks the bridge is safe."),
        ("yesterday the mayor said ... the bridge is safe",
         "Yesterday the mayor said never again. In his view the bridge is safe."),
        # the last sign is another: Devanagari with another vowel
        ("यह नदी का", "यह नदी की"),
        ("市长上台了吗", "昨天市长下台了吗？"),
    ],
)  # fmt: skip
def test_a_changed_number_sign_or_negation_is_refused(quote, text):
    assert find_quote(quote, {"source": text}) is None


@given(st.text(), st.text())
def test_any_text_can_be_looked_up_in_any_other(quote, text):
    assert find_quote(quote, {"output": text}) in (None, "output")


@row("Thank you!")  # a short text may be quoted as a whole
@given(st.text(alphabet="ab1.-%'\"*_[] \n\u0301\u0915\u0940\u4e2d\u00bd\u00b2", max_size=40))
def test_a_text_that_can_be_quoted_is_found_in_itself(text):
    match = find_quote(text, {"output": text})
    assert match is not None or not any(char.isalnum() for char in text)


def drawn() -> list[tuple[dict[str, str], str]]:
    """Return 500 passages of the bundled examples, each with the texts it is from."""
    examples = [example for task in BUNDLED_TASKS for example in Examples(data_file(task))]
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


def retyped(quote: str, random_: random.Random) -> list[str]:
    """Return the quotation as models type it: other marks, case, line breaks, emphasis."""
    words = quote.split()
    at = random_.randrange(len(words))
    bold = " ".join([*words[:at], f"**{words[at]}**", *words[at + 1 :]])
    curly = quote.replace("'", "\u2019").replace(" -", " \u2013")
    return [
        quote.upper(), "\n".join(words), bold, curly, f"\u201c{quote}.\u201d", f"... {quote} ...",
        f"> {quote}",
    ]  # fmt: skip


def is_word(word: str) -> bool:
    """Return whether a word is letters only."""
    return re.fullmatch(r"[A-Za-z]{2,}", word) is not None


def fabricated(quote: str, random_: random.Random) -> list[str]:
    """Return the quotation with a word exchanged, put in or left out, two swapped, a number
    changed, or a negation put in."""
    words = quote.split()
    found = [
        quote[: match.start()] + str(int(match[0]) + 1) + quote[match.end() :]
        for match in re.finditer(r"\d+", quote)
    ]
    inner = [at for at in range(1, len(words) - 1) if is_word(words[at])]
    if not inner:
        return found
    at = random_.choice(inner)
    found += [" ".join([*words[:at], more, *words[at:]]) for more in ("allegedly", "not", "never")]
    found.append(" ".join([*words[:at], "zeppelin", *words[at + 1 :]]))
    if words[at - 1] != words[at] != words[at + 1]:
        found.append(" ".join([*words[:at], *words[at + 1 :]]))
    if words[at].lower() != words[at - 1].lower() and is_word(words[at - 1]):
        found.append(" ".join([*words[: at - 1], words[at], words[at - 1], *words[at + 1 :]]))
    return found


def test_none_of_500_true_quotes_is_refused_and_every_planted_fabrication_is():
    quotes, random_ = drawn(), random.Random(1)
    typed = [(texts, way) for texts, quote in quotes for way in (quote, *retyped(quote, random_))]
    assert len(typed) == 4_000
    assert [way for texts, way in typed if find_quote(way, texts) is None] == []
    planted = [(texts, false) for texts, quote in quotes for false in fabricated(quote, random_)]
    assert len(planted) > 2_500
    assert [false for texts, false in planted if find_quote(false, texts) is not None] == []


def test_sentences_that_are_not_neighbors_cannot_be_joined():
    joined = 0
    for task in BUNDLED_TASKS:
        for example in Examples(data_file(task)):
            ends = [part.split() for part in re.split(r"(?<=[.!?]) ", example.source or "")]
            for one, other in zip(ends, ends[2:], strict=False):
                if min(len(one), len(other)) > 4:
                    joined += 1
                    quote = " ".join([*one[-4:], *other[:4]])
                    assert find_quote(quote, {"source": example.source}) is None, quote
    assert joined > 100
