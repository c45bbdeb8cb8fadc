"""Surface metrics: recorded numbers of ROUGE, BLEU, chrF, TER and METEOR, values by hand."""

from __future__ import annotations

import asyncio
import math
import random
import subprocess
import sys
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr

from tests.benchmark_data import benchmark
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import (
    Bleu,
    Chrf,
    Coverage,
    Length,
    Measurement,
    Meteor,
    Novelty,
    Readability,
    Repetition,
    Rouge,
    Ter,
    prepare_tools,
)
from textassay.tools.surface import (
    MAX_WORD_PAIRS,
    extractive_fragments,
    longest_common_subsequence,
    syllables,
)

SUMMEVAL = "summeval/summeval.jsonl.gz"
COLUMNS = {
    **{
        f"computed/{variant}_{measure}": Rouge(variant=variant, measure=measure, refs="first")
        for variant in ("rouge1", "rouge2", "rougeL")
        for measure in ("f", "r")
    },
    **{
        f"computed/{variant}_f_multimax": Rouge(variant=variant)
        for variant in ("rouge1", "rouge2", "rougeL")
    },
    "computed/bleu": Bleu(),
    "computed/chrf": Chrf(),
}
nltk = pytest.importorskip("nltk")
EXAMPLE = Example(
    output="The cats sat on a mat.", references=("A dog ran.", "the cat sat on the mat .")
)


def example(row):
    return Example(
        id=row["id"],
        output=row["output"],
        source=row["source"],
        references=tuple(row["reference"] or ()),
    )


def value(tool, given):
    found = tool.compute(given)
    assert isinstance(found, Measurement), found
    return found.value


@pytest.mark.parametrize("name", [SUMMEVAL, "sfres/sfres.jsonl.gz", "bagel/bagel.jsonl"])
def test_recorded_values_are_reproduced(name):
    """The computed columns of every 17th row, so of each of 16 systems, to the last bits."""
    for row in benchmark(name)[::17]:
        recorded = row["metrics"]
        assert name != SUMMEVAL or COLUMNS.keys() <= recorded.keys()
        for column in COLUMNS.keys() & recorded.keys():
            found = value(COLUMNS[column], example(row))
            assert found == pytest.approx(recorded[column], abs=1e-9), (row["id"], column)


SAME, CHINESE = "the quick brown fox jumps over the lazy dog", "他昨天来了。"
TWO = ("dogs run", "a cat sat")


@pytest.mark.parametrize(
    ("tool", "output", "references", "expected"),
    [
        # rounding does not push a perfect score off the scale
        (Bleu(), SAME, [SAME], 100),
        (Chrf(), CHINESE, [CHINESE], 100),
        (Bleu(tokenize="zh"), CHINESE, [CHINESE], 100),
        # more references can only help, unless just the first is asked for
        (Rouge(), "a cat sat", TWO, 1),
        (Rouge(refs="first"), "a cat sat", TWO, 0),
        # the order of sentences matters to rougeL alone
        (Rouge(variant="rougeLsum"), "The dog ran. A cat sat.", ["A cat sat. The dog ran."], 1),
        (Rouge(variant="rougeL"), "The dog ran. A cat sat.", ["A cat sat. The dog ran."], 0.5),
        (Ter(), "a b c", ["a b c"], 0),
        (Ter(), "a b d", ["a b c"], 100 / 3),
        # rouge-score reads a-z and 0-9 only, and would call a perfect answer 0
        (Rouge(), CHINESE, [CHINESE], "UnsupportedScript"),
        (Rouge(), " \n", ["a text"], "EmptyOutput"),
        *(
            (tool, "a text", [" "], "MissingReferences")
            for tool in (Rouge(), Bleu(), Chrf(), Ter())
        ),
    ],
)
async def test_values_and_abstentions_of_short_texts(tool, output, references, expected):
    score = await tool.score(Example(output=output, references=references))
    if isinstance(expected, str):
        assert (score.outcome, score.value, score.error.type) == ("abstained", None, expected)
        return
    assert score.value == pytest.approx(expected)
    if score.scale:
        assert score.scale[0] <= score.value <= score.scale[1]


def test_settings_are_in_the_signature():
    tools = (Bleu(), Bleu(lowercase=False), Rouge(), Rouge(measure="r"), Rouge(refs="first"))
    assert len({tool.signature for tool in tools}) == 5
    assert "sacrebleu:" in Bleu().signature
    assert not Ter().higher_is_better


async def test_rouge_l_of_very_long_texts_ends_and_leaves_the_loop_alone():
    """40,000 words a side; the loop wakes up while they are counted."""
    words = [f"w{i % 997}" for i in range(40_000)]
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    found = await Rouge().score(
        Example(output=" ".join(words), references=(" ".join(reversed(words)),))
    )
    ticking.cancel()
    assert 0 < found.value < 1
    assert ticks > 3


async def test_rouge_lsum_says_when_texts_are_too_long():
    """Its table cannot be filled in reasonable time; no score is better than a run that hangs."""
    text = "word " * (int(MAX_WORD_PAIRS**0.5) + 1)
    found = await Rouge(variant="rougeLsum").score(Example(output=text, references=(text,)))
    assert (found.outcome, found.error.type) == ("abstained", "TextTooLong")


def test_the_longest_common_subsequence_is_rouge_scores_own():
    """On 200 random pairs, with repeats, empties and words that the other lacks."""
    from rouge_score.rouge_scorer import _lcs_table

    rng = random.Random(4)
    for _ in range(200):
        one, other = ([rng.choice("abcdefg") for _ in range(rng.randrange(30))] for _ in range(2))
        assert longest_common_subsequence(one, other) == _lcs_table(one, other)[-1][-1]


async def test_equal_to_nltk_without_synonyms():
    from nltk.translate.meteor_score import single_meteor_score

    class Nothing:
        def synsets(self, word):
            return []

    output = ["The", "cats", "sat", "on", "a", "mat", "."]
    values = [
        single_meteor_score(reference.split(), output, wordnet=Nothing())
        for reference in ("A dog ran .", "the cat sat on the mat .")
    ]
    tool = Meteor(synonyms=False)
    await prepare_tools([tool])
    found = await tool.score(EXAMPLE)
    assert found.value == pytest.approx(max(values))
    assert values[1] > values[0]
    assert "synonyms:False" in found.signature
    assert (await tool.score(Example(output="A cat."))).error.type == "MissingReferences"


def test_rouge_and_meteor_begin_together_in_a_new_process():
    """Both import NLTK in threads of their own; each found half of what the other had begun."""
    program = (
        "import asyncio\n"
        "from textassay import Example\n"
        "from textassay.tools import ToolScorer, build\n"
        "async def main():\n"
        "    example = Example(output='A cat sat.', references=('The cat sat.',))\n"
        "    async with ToolScorer(build(['rouge', 'meteor?synonyms=false'])) as scorer:\n"
        "        found = await asyncio.gather(*(scorer.score(example) for _ in range(4)))\n"
        "    print({str(score.error) for scores in found for score in scores})\n"
        "asyncio.run(main())\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("{'None'}\n", "")


async def test_wordnet_is_asked_for_by_name(tmp_path, monkeypatch):
    """The error gives the line that fetches it; nothing is downloaded, and no score is made up."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    with pytest.raises(ConfigurationError, match=r"python -m nltk\.downloader wordnet"):
        await prepare_tools([Meteor()])
    with pytest.raises(ConfigurationError, match=r"meteor\?synonyms=false"):
        await Meteor().score(EXAMPLE)


@pytest.mark.parametrize(
    ("column", "tau"),
    [
        ("computed/bleu", (0.217, 0.050, 0.326, 0.350)),
        ("computed/rouge1_f_multimax", (0.350, 0.350, 0.494, 0.583)),
        ("computed/chrf", (0.350, 0.683, 0.611, 0.583)),
    ],
)
def test_system_level_agreement_is_that_of_the_guide(column, tau):
    """Kendall's tau-b over the 16 systems; docs/tools.md shows it beside Fusion-Eval's."""
    rows = benchmark(SUMMEVAL)

    def means(value):
        values = {row["system"]: [] for row in rows}
        for row in rows:
            values[row["system"]].append(value(row))
        return [math.fsum(own) / len(own) for own in values.values()]  # a running sum breaks ties

    ours = means(lambda row: row["metrics"][column])
    for aspect, due in zip(("coherence", "consistency", "fluency", "relevance"), tau, strict=True):
        people = means(lambda row, aspect=aspect: row["human"][aspect])
        assert kendalltau(ours, people).statistic == pytest.approx(due, abs=1e-3), aspect


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
    for row in benchmark(SUMMEVAL):
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


# two texts of one language about different things, which share something in Latin or a number
UNRELATED = {
    "Japanese": ("会社は{}に売上高が減少したと発表した。", "{}の祭りは雨のために中止になった。"),
    "Chinese": ("{}公司的收入下降了,经理辞职了。", "{}球队赢得了冠军。"),
    "Korean": ("{} 회사의 매출이 감소했다고 발표했다.", "{} 축제는 비 때문에 취소되었다."),
    "Arabic": ("في {} انخفضت إيرادات الشركة", "في {} فاز الفريق بالكأس"),
    "Hebrew": ("בשנת {} ירדו הכנסות החברה", "בשנת {} זכתה הקבוצה בגביע"),
    "Russian": ("В {} году выручка компании упала", "В {} команда выиграла кубок"),
    "Greek": ("Το {} τα έσοδα της εταιρείας μειώθηκαν", "Το {} η ομάδα κέρδισε το κύπελλο"),
    "Hindi": ("{} में कंपनी की आय घट गई", "{} में टीम ने कप जीता"),
    "Thai": ("ปี {} รายได้ของบริษัทลดลง", "ปี {} ทีมชนะเลิศถ้วยรางวัล"),
    "Georgian": ("{} წელს კომპანიის შემოსავალი შემცირდა", "{} წელს გუნდმა თასი მოიგო"),
}


@pytest.mark.parametrize("variant", ["rouge1", "rouge2", "rougeL", "rougeLsum"])
@pytest.mark.parametrize(
    "shared",
    [
        *(
            "2024",
            "iPhone 15",
            "Apple iPhone 15 Pro Max",
            "www.my-shop.co.uk",
            "https://example.org/a/b?c=d",
            "",
        ),
        *("info@my-shop.example.org", "github.com/org/some-repo/issues"),
    ],
)
@pytest.mark.parametrize("language", UNRELATED)
async def test_rouge_abstains_on_scripts_that_it_drops_whatever_the_texts_share(
    language, shared, variant
):
    output, reference = (text.format(shared) for text in UNRELATED[language])
    score = await Rouge(variant=variant).score(
        Example(id="x", output=output, references=[reference])
    )
    assert (score.value, score.error.type) == (None, "UnsupportedScript")


@pytest.mark.parametrize(
    "text",
    ["L'élève était déjà très gêné à l'école", "Þórður fór út á götuna og sá þá að það var kalt",
     "Zażółć gęślą jaźń, chrząszcz brzmi w trzcinie", "He met 安倍晋三 in Tokyo in 2019.",
     "Mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
     "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
     "def f(x): return {k: v for k, v in x.items() if v > 0}",
     "À l'été, où il a été à Évian; ô! 1ª e 2º: é ótimo", "Ở đó có ổ kiến.", "Ő és ő az ő öröme",
     "θ lies between α and β, where ω = 2π/T and λ_1 = v/f"],
)  # fmt: skip
async def test_rouge_measures_languages_with_accents_and_names_in_other_scripts(text):
    assert (await Rouge().score(Example(id="x", output=text, references=[text]))).value == 1


@pytest.mark.parametrize("text", ["c0ffee" * 50_000, "a_" * 150_000, "a-" * 150_000])
async def test_rouge_reads_a_long_word_once(text):
    """Read from each of its letters, such a word would take minutes."""
    assert (await Rouge().score(Example(id="x", output=text, references=[text]))).value == 1


async def test_a_reference_in_another_script_is_left_out():
    """The output shares its year with the Chinese one, and nothing else."""
    references = ["2024年球队赢得了冠军。", "In 2024 sales fell."]
    example = Example(id="x", output="In 2024 sales fell.", references=references)
    assert (await Rouge().score(example)).value == 1
    only = example.model_copy(update={"references": tuple(references[:1])})
    assert (await Rouge().score(only)).value is None


@pytest.mark.parametrize("tool", [Bleu(), Ter()])
@pytest.mark.parametrize("language", ["Japanese", "Chinese", "Thai"])
async def test_tools_that_cut_at_spaces_abstain_on_scripts_without_them(tool, language):
    text = UNRELATED[language][0].format("2024")
    score = await tool.score(Example(id="x", output=text, references=[text]))
    assert (score.value, score.error.type) == (None, "UnsupportedScript")


@pytest.mark.parametrize("tool", [Rouge(), Bleu(), Chrf(), Ter(), Coverage(), Novelty(n=1)])
async def test_two_encodings_of_an_accent_are_one_word(tool):
    """The first is composed, the second is a letter and a mark."""
    composed = "La niña comió piñas"
    marked = normalize("NFD", composed)
    same = Example(id="x", output=composed, source=composed, references=[composed])
    mixed = same.model_copy(update={"source": marked, "references": (marked,)})
    assert (await tool.score(mixed)).value == (await tool.score(same)).value


async def test_signs_of_vowels_belong_to_their_word():
    """Cut at them, any two texts in Hindi would be made of the same consonants."""
    output, source = "कंपनी की आय घट गई", "टीम ने कप जीता और गाना गाया"
    example = Example(id="x", output=output, source=source)
    assert (await Coverage().score(example)).value == 0
    assert (await Novelty(n=1).score(example)).value == 1
