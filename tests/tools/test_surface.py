"""Tools that read the output alone, or look for it in the source."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from tests.benchmark_data import benchmark
from textassay.runtime.messages import Example
from textassay.tools import (
    Abstention,
    Coverage,
    Length,
    Measurement,
    Novelty,
    Readability,
    Repetition,
    Ter,
)
from textassay.tools.overlap import Bleu
from textassay.tools.surface import extractive_fragments, syllables
from textassay.tools.text import words


@pytest.mark.parametrize(
    ("unit", "expected"), [("words", 5), ("tokens", 6), ("characters", 28), ("sentences", 2)]
)
def test_length_in_every_unit(unit, expected):
    """Words leave punctuation out, tokens do not."""
    assert (
        Length(unit=unit).compute(Example(output="The cat sat . It's well-off!")).value == expected
    )


def test_length_in_tokens_is_the_recorded_count():
    """Every row of SummEval."""
    for row in benchmark("summeval/summeval.jsonl.gz"):
        assert (
            Length(unit="tokens").compute(Example(output=row["output"])).value
            == row["metrics"]["computed/n_words"]
        )


def test_scripts_without_spaces_have_words():
    """Han characters and kana stand alone."""
    assert words("他来了 ok かな") == ["他", "来", "了", "ok", "か", "な"]


@pytest.mark.parametrize(
    ("output", "n", "expected"),
    [("a b c a b c", 3, 0.25), ("a b c d", 1, 0.0), ("go go go go", 1, 0.75), ("A a", 1, 0.5)],
)
def test_repetition_is_one_minus_distinct(output, n, expected):
    """Counted by hand."""
    assert Repetition(n=n).compute(Example(output=output)).value == expected


@pytest.mark.parametrize("tool", [Repetition(n=3), Novelty(n=3)])
def test_too_few_words_is_an_abstention(tool):
    """No n-gram, no share of n-grams."""
    found = tool.compute(Example(output="two words", source="a source"))
    assert isinstance(found, Abstention)
    assert found.type == "OutputTooShort"


@pytest.mark.parametrize(
    ("output", "expected"),
    [("a cat sat", 0.0), ("a dog sat", 1.0), ("a cat ran", 0.5), ("the cat", 1.0)],
)
def test_novelty_counts_new_pairs(output, expected):
    """Pairs that the source lacks, by hand."""
    assert (
        Novelty().compute(Example(output=output, source="Then a cat sat down.")).value == expected
    )


@pytest.mark.asyncio
async def test_the_premise_of_a_dialogue_is_fact_and_conversation():
    """Words of the context are not new."""
    turn = Example(output="jazz is fun", source="shall we go out ?", context="Jazz is fun to hear.")
    assert (await Novelty().score(turn)).value == 0
    assert (await Novelty().score(turn.model_copy(update={"context": None}))).value == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("tool", [Novelty(), Coverage()])
async def test_no_source_is_an_abstention(tool):
    """The reason has a type."""
    score = await tool.score(Example(output="a text of words"))
    assert (score.outcome, score.value, score.error.type) == ("abstained", None, "MissingSource")


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


@given(
    st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abcd"), max_size=12)
)
def test_fragments_are_those_of_the_definition(source, output):
    """The shortcuts change nothing."""
    assert extractive_fragments(source, output) == brute_force_fragments(source, output)


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("the", 1), ("table", 2), ("restaurant", 3), ("financial", 3), ("district", 2),
        ("wanted", 2), ("looked", 1),
        ("area", 3), ("create", 2), ("houses", 2), ("cakes", 1), ("information", 4),
        ("beautiful", 3), ("people", 2),
        ("didn't", 2), ("don't", 1), ("he's", 1), ("idea", 3), ("nation", 2), ("radio", 3),
        ("quiet", 2),
    ],
)  # fmt: skip
def test_syllables_of_common_words(word, count):
    """As a dictionary counts them."""
    assert syllables(word) == count


def test_readability_of_known_texts():
    """One sentence of eight words with twelve syllables."""
    found = Readability().compute(Example(output="Do you not to restaurant restaurants that are ?"))
    assert found.value == pytest.approx(71.815)


@pytest.mark.parametrize(
    "output", ["他昨天来了,今天又走了。", "Он пришёл вчера и ушёл.", "123 456 !"]
)
def test_readability_refuses_what_is_not_english(output):
    """A number for another language would mean nothing."""
    found = Readability().compute(Example(output=output))
    assert isinstance(found, Abstention)
    assert found.type == "UnsupportedLanguage"


def test_tokenised_clitics_are_part_of_their_word():
    """`do n't` reads like `don't`."""
    tokenised, plain = (
        Readability().compute(Example(output=t)).value for t in ("I do n't know .", "I don't know.")
    )
    assert tokenised == plain


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
    """No text breaks a tool, and every value is on its scale."""
    for tool in (Length(), Repetition(), Novelty(), Coverage(), Readability()):
        found = tool.compute(Example(output=text or "x", source=text[::-1] or "x"))
        if isinstance(found, Measurement) and tool.scale:
            assert tool.scale[0] <= found.value <= tool.scale[1]
