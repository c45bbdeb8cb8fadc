"""Static vectors and sentence-wise matching: against model2vec's rule by hand, and against people
on SummEval."""

import importlib.util
import json
import math

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from tests.tools import tiny
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import Embedding, build
from textassay.tools.embedding import max_seq_length, sentence_value

OUTPUT = "The cat sat on a mat. The moon was red."
SOURCE = "A small cat was in the park. She sat on the mat. The dog ran home."


@pytest.fixture
def table(tmp_path):
    """A folder as model2vec writes it; every factor and row is its own, so that no mix-up stays
    unseen."""
    tiny.need("tokenizers", "safetensors")
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import BertPreTokenizer

    words = ["[PAD]", "[UNK]", *tiny.WORDS, "."]
    made = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = Lowercase(), BertPreTokenizer()
    made.save(str(tmp_path / "tokenizer.json"))
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(20, 8)).astype(np.float16)
    rows = rng.integers(0, 20, len(words))
    factors = rng.uniform(0.2, 2, len(words)).astype(np.float32)
    save_file(
        {"embeddings": vectors, "mapping": rows, "weights": factors},
        tmp_path / "model.safetensors",
    )
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec"}))

    def embed(text):
        ids = [i for i in made.encode(text, add_special_tokens=False).ids if i != 1]
        vector = (vectors[rows[ids]].astype(np.float64) * factors[ids, None]).mean(0)
        return vector / np.linalg.norm(vector)

    return tmp_path, embed


async def score(tool, example):
    try:
        return await tool.score(example)
    finally:
        await tool.aclose()


@pytest.mark.asyncio
@pytest.mark.parametrize("engine", ["auto", "static"])
async def test_static_vectors_are_averaged_with_their_factors(table, engine):
    """The folder alone tells that it is a table; unknown words are left out."""
    folder, embed = table
    output = OUTPUT + " Zyzzyva!"
    found = await score(
        Embedding(model=str(folder), engine=engine), Example(output=output, source=SOURCE)
    )
    assert found.value == pytest.approx(float(embed(output) @ embed(SOURCE)), abs=1e-6)
    assert "engine:static" in found.signature


@pytest.mark.asyncio
@pytest.mark.parametrize("measure", ["p", "r", "f", "min"])
async def test_sentences_are_matched_with_their_best_counterparts(table, measure):
    folder, embed = table
    ours = [embed(s) for s in ("The cat sat on a mat.", "The moon was red.")]
    theirs = [embed(s) for s in SOURCE.replace(". ", ".|").split("|")]
    forth = [max(float(a @ b) for b in theirs) for a in ours]
    back = [max(float(a @ b) for a in ours) for b in theirs]
    p, r = np.mean(forth), np.mean(back)
    expected = {"p": p, "r": r, "f": 2 * p * r / (p + r), "min": min(forth)}[measure]
    tool = Embedding(model=str(folder), per="sentence", measure=measure)
    found = await score(tool, Example(output=OUTPUT, source=SOURCE))
    assert found.value == pytest.approx(float(expected), abs=1e-6)
    assert [piece["cosine"] for piece in found.evidence] == pytest.approx(forth, abs=1e-6)
    assert found.evidence[0]["closest"] in SOURCE
    assert f"per:sentence|measure:{measure}" in found.signature


@pytest.mark.asyncio
async def test_sentence_wise_matching_works_with_any_encoder(models):
    """The output's own sentences have cosine 1 with themselves, in any order."""
    tool = Embedding(model=str(models / "encoder"), per="sentence", measure="min")
    shuffled = "She sat on the mat. The dog ran home. A small cat was in the park."
    found = await score(tool, Example(output=shuffled, source=SOURCE))
    assert found.value == pytest.approx(1, abs=1e-5)
    assert len(found.evidence) == 3


@pytest.mark.asyncio
async def test_the_context_alone_can_be_compared_with(table):
    """Groundedness is about the fact, not about the conversation before it."""
    folder, embed = table
    tool = Embedding(model=str(folder), against="context")
    example = Example(output=OUTPUT, source="the dog ran", context="a red moon")
    found = await tool.score(example)
    lacking = await tool.score(example.model_copy(update={"context": None}))
    await tool.aclose()
    assert found.value == pytest.approx(float(embed(OUTPUT) @ embed("a red moon")), abs=1e-6)
    assert (lacking.outcome, lacking.error.type) == ("abstained", "MissingContext")


@pytest.mark.asyncio
async def test_a_text_without_known_words_has_no_value(table):
    """Zero vectors would have a cosine of 0, which is not a measurement."""
    for per in ("text", "sentence"):
        tool = Embedding(model=str(table[0]), per=per)
        found = await score(tool, Example(output="qwx zzy", source=SOURCE))
        assert (found.outcome, found.error.type) == ("abstained", "NoTokens")


@pytest.mark.asyncio
async def test_a_table_judges_no_pairs(table):
    tool = build([f"nli:{table[0]}"])[0]
    with pytest.raises(ConfigurationError, match="a table of static vectors"):
        await score(tool, Example(output=OUTPUT, source=SOURCE))


@pytest.mark.asyncio
async def test_a_network_is_no_table(models):
    tool = Embedding(model=str(models / "encoder"), engine="static")
    with pytest.raises(ConfigurationError, match="contains no table of vectors"):
        await score(tool, Example(output=OUTPUT, source=SOURCE))


def test_a_measure_without_sentences_is_refused():
    with pytest.raises(ConfigurationError, match="needs per=sentence"):
        build(["embedding?measure=r"])


def test_values_of_sentences_stay_on_the_scale_when_cosines_are_negative():
    table = np.array([[-0.5, -0.2], [-0.9, -0.1]], np.float32)
    for measure in ("p", "r", "f", "min"):
        assert -1 <= sentence_value(table, measure) <= 0


@pytest.mark.asyncio
async def test_inputs_are_as_long_as_the_encoder_was_trained_for(tmp_path):
    """`max_seq_length` of sentence-transformers: a longer text is read in windows of that
    length."""
    tiny.need("torch", "transformers")
    tiny.encoder(tmp_path)
    text = " ".join(f"{word} ." for word in tiny.WORDS[:24])
    example = Example(output=OUTPUT, references=(text,))
    whole = await score(Embedding(model=str(tmp_path)), example)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    assert max_seq_length(tmp_path) == 12
    tool = Embedding(model=str(tmp_path))
    cut = await tool.score(example)
    longest = max(len(e) for e in tool.runner.known)
    await tool.aclose()
    assert longest <= 12
    assert cut.value != whole.value


@pytest.mark.asyncio
async def test_each_text_is_embedded_once(models):
    """Five systems with one source and two references: seven inputs and not fifteen."""
    tool = Embedding(model=str(models / "encoder"))
    references = ("the dog ran home", "a red moon")
    for number in range(5):
        output = " ".join(tiny.WORDS[number : number + 4])
        await tool.score(Example(output=output, references=references))
    evaluated = tool.runner.batches[1]
    await tool.aclose()
    assert evaluated == 7


async def agreement(tool, rows):
    """Pearson and Spearman over the data set with the mean of the four aspects."""
    from scipy.stats import pearsonr, spearmanr

    examples = [Example(output=row["output"], source=row["source"]) for row in rows]
    values = [(await tool.score(example)).value for example in examples]
    await tool.aclose()
    people = [math.fsum(row["human"].values()) / 4 for row in rows]
    return [measure(values, people).statistic for measure in (pearsonr, spearmanr)]


@pytest.mark.asyncio
async def test_sentence_wise_matching_agrees_with_people_twice_as_well():
    """On SummEval with the vectors of wordllama, 16 MB: .43/.39 beside .24/.24 for whole texts."""
    if importlib.util.find_spec("wordllama") is None:
        pytest.skip("needs the extra static")
    rows = benchmark("summeval/summeval.jsonl.gz")
    whole = await agreement(Embedding(engine="static", against="source"), rows)
    by_sentence = await agreement(
        Embedding(engine="static", against="source", per="sentence"), rows
    )
    assert whole == pytest.approx([0.24, 0.24], abs=0.01)
    assert by_sentence == pytest.approx([0.43, 0.39], abs=0.01)
