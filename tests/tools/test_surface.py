"""Tools that read the output alone, or look for it in the source."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from tests.benchmark_data import benchmark
from textassay.runtime.messages import Example
from textassay.tools import Coverage, Length, Measurement, Novelty, Readability, Repetition, Ter
from textassay.tools.overlap import Bleu
from textassay.tools.surface import extractive_fragments, syllables


def test_coverage_and_density_by_hand():
    """Fragments `the cat` and `ran home` of five words, as in the definition."""
    found = Coverage().compute(
        Example(output="the cat then ran home", source="ran home with the cat")
    )
    assert found.value == pytest.approx(4 / 5)
    assert "2 fragments, longest 2 words, density 1.6" in found.explanation


def brute_force_fragments(source, output):
    """The definition, without any shortcut."""
    lengths, i = [], 0
    while i < len(output):
        best = 0
        for j in range(len(source)):
            k = 0
            while i + k < len(output) and j + k < len(source) and source[j + k] == output[i + k]:
                k += 1
            best = max(best, k)
        if best:
            lengths.append(best)
        i += max(best, 1)
    return lengths


TEXT, SOURCE = "The cat sat . It's well-off!", "Then a cat sat down."


@pytest.mark.parametrize(
    ("tool", "output", "source", "expected"),
    [
        (Length(), TEXT, None, 5),  # words leave punctuation out, tokens do not
        (Length(unit="tokens"), TEXT, None, 6),
        (Length(unit="characters"), TEXT, None, 28),
        (Length(unit="sentences"), TEXT, None, 2),
        (Length(), "他来了 ok かな", None, 6),  # Han characters and kana stand alone
        (Repetition(n=3), "a b c a b c", None, 0.25),
        (Repetition(n=1), "a b c d", None, 0),
        (Repetition(n=1), "go go go go", None, 0.75),
        (Repetition(n=1), "A a", None, 0.5),
        (Novelty(), "a cat sat", SOURCE, 0),
        (Novelty(), "a dog sat", SOURCE, 1),
        (Novelty(), "a cat ran", SOURCE, 0.5),
        (Novelty(), "the cat", SOURCE, 1),
        # no n-gram, no share of n-grams
        (Repetition(n=3), "two words", SOURCE, "OutputTooShort"),
        (Novelty(n=3), "two words", SOURCE, "OutputTooShort"),
        (Novelty(), "a text of words", None, "MissingSource"),
        (Coverage(), "a text of words", None, "MissingSource"),
        # a number for another language would mean nothing
        (Readability(), "他昨天来了,今天又走了。", None, "UnsupportedLanguage"),
        (Readability(), "Он пришёл вчера и ушёл.", None, "UnsupportedLanguage"),
        (Readability(), "123 456 !", None, "UnsupportedLanguage"),
        # one sentence of eight words with twelve syllables
        (Readability(), "Do you not to restaurant restaurants that are ?", None, 71.815),
    ],
)
async def test_values_by_hand(tool, output, source, expected):
    found = await tool.score(Example(output=output, source=source))
    if isinstance(expected, str):
        assert (found.outcome, found.value, found.error.type) == ("abstained", None, expected)
    else:
        assert found.value == pytest.approx(expected)


async def test_the_premise_of_a_dialogue_is_fact_and_conversation():
    turn = Example(output="jazz is fun", source="shall we go out ?", context="Jazz is fun to hear.")
    assert (await Novelty().score(turn)).value == 0
    assert (await Novelty().score(turn.model_copy(update={"context": None}))).value == 1


@given(
    st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abcd"), max_size=12)
)
def test_fragments_are_those_of_the_definition(source, output):
    assert extractive_fragments(source, output) == brute_force_fragments(source, output)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "the looked cakes don't he's"),
        (2, "table district wanted create houses people didn't nation quiet"),
        (3, "restaurant financial area beautiful idea radio"),
        (4, "information"),
    ],
)
def test_syllables_are_those_of_a_dictionary(count, words):
    assert {word: syllables(word) for word in words.split()} == dict.fromkeys(words.split(), count)
    tokenized, plain = (
        Readability().compute(Example(output=t)).value for t in ("I do n't know .", "I don't know.")
    )
    assert tokenized == plain


def test_length_in_tokens_is_the_recorded_count():
    for row in benchmark("summeval/summeval.jsonl.gz"):
        found = Length(unit="tokens").compute(Example(output=row["output"]))
        assert found.value == row["metrics"]["computed/n_words"]


@pytest.mark.parametrize(
    ("name", "readability", "bleu", "ter"),
    [("sfres/sfres.jsonl.gz", 0.95, 0.89, 0.91), ("bagel/bagel.jsonl", 0.87, 0.97, 0.96)],
)
def test_agreement_with_the_columns_of_novikova_et_al(name, readability, bleu, ter):
    """Flesch, BLEU-4 and TER of 2017, made with other tokenizers and syllables, are followed
    closely."""
    rows = benchmark(name)
    examples = [Example(output=r["output"], references=tuple(r["reference"])) for r in rows]

    def agreement(tool, column):
        found = [
            (tool.compute(e), r["metrics"][column]) for e, r in zip(examples, rows, strict=True)
        ]
        pairs = np.array([(f.value, c) for f, c in found if isinstance(f, Measurement)])
        assert len(pairs) > 0.99 * len(rows)
        return pearsonr(*pairs.T)[0]

    assert agreement(Readability(), "novikova17/sys.read.flesch") > readability
    assert agreement(Bleu(smooth="none"), "novikova17/Bleu_4") > bleu
    assert agreement(Ter(), "novikova17/TER") > ter


@given(st.text(max_size=60))
def test_any_text_is_measured_or_abstained(text):
    for tool in (Length(), Repetition(), Novelty(), Coverage(), Readability()):
        found = tool.compute(Example(output=text or "x", source=text[::-1] or "x"))
        if isinstance(found, Measurement) and tool.scale:
            assert tool.scale[0] <= found.value <= tool.scale[1]
