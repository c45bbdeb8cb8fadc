"""BERTScore and embeddings: tiny encoders in both engines, static vectors, and people."""

from __future__ import annotations

import importlib.util
import json
import math

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from tests.tools import tiny
from tests.tools.tiny import score
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import NLI, BertScore, Embedding
from textassay.tools.embedding import max_seq_length, sentence_value
from textassay.tools.learned_metrics import TokenStates, greedy_match

OUTPUT, REFERENCE = "the cat sat on a mat .", "a small cat was in the park and she sat ."
STATIC = "The cat sat on a mat. The moon was red."
SOURCE = "A small cat was in the park. She sat on the mat. The dog ran home."
EXAMPLE = Example(output=OUTPUT, references=(REFERENCE,))
ENGINES = ("transformers", "onnx")


def states(folder, text, *, layer=-1):
    """Hidden states of a text, asked of transformers by itself."""
    import torch

    model, tokenizer = tiny.pretrained(folder, "AutoModel")
    with torch.no_grad():
        found = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
    return found.hidden_states[layer][0].numpy()


def matched(output, other):
    """Precision, recall and F1 by loops, as the paper defines them."""

    def cosine(a, b):
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    # the first and the last token are special: candidates, but of no weight themselves
    precision = np.mean([max(cosine(a, b) for b in other) for a in output[1:-1]])
    recall = np.mean([max(cosine(a, b) for a in output) for b in other[1:-1]])
    return precision, recall, 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("measure", "index"), [("p", 0), ("r", 1), ("f", 2)])
async def test_bertscore_matches_words_greedily_and_lets_them_match_special_tokens(
    models, engine, measure, index
):
    folder = models / "encoder"
    due = matched(*(states(folder, text) for text in (OUTPUT, REFERENCE)))
    assert abs(due[0] - due[1]) > 1e-3
    found = await score(BertScore(model=str(folder), engine=engine, measure=measure), EXAMPLE)
    assert found.value == pytest.approx(due[index], abs=1e-4)


async def test_bertscore_reads_the_layer_that_is_asked_for(models):
    folder = models / "encoder"
    due = matched(*(states(folder, text, layer=1) for text in (OUTPUT, REFERENCE)))[2]
    found = await score(BertScore(model=str(folder), layer=1), EXAMPLE)
    assert found.value == pytest.approx(due, abs=1e-4)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (lambda m, t: BertScore(model=m, layer=1, engine="onnx"), "contains the last layer only"),
        (lambda m, t: BertScore(model=m, layer=9), "has layers 0 to 2, not 9"),
        (lambda m, t: NLI(model=t), "a table of static vectors"),
        (lambda m, t: Embedding(model=m, engine="static"), "contains no table of vectors"),
        (lambda m, t: Embedding(measure="r"), "needs per=sentence"),
    ],
)
async def test_what_a_model_cannot_do_is_refused(models, table, tool, message):
    example = Example(output=OUTPUT, source=SOURCE, references=(REFERENCE,))
    with pytest.raises(ConfigurationError, match=message):
        await score(tool(str(models / "encoder"), str(table[0])), example)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
async def test_embedding_is_the_cosine_of_pooled_states(models, engine, pooling):
    """Special tokens are pooled too, as sentence encoders were trained."""
    folder = models / "encoder"
    vectors = [states(folder, text) for text in (OUTPUT, REFERENCE)]
    first, second = (v.mean(0) if pooling == "mean" else v[0] for v in vectors)
    due = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    found = await score(Embedding(model=str(folder), engine=engine, pooling=pooling), EXAMPLE)
    assert found.value == pytest.approx(due, abs=1e-4)


async def test_pooling_is_read_from_the_folder(tmp_path):
    """As sentence-transformers writes it, old and new; what would be run in part is refused."""
    tiny.need("torch", "transformers")
    tiny.encoder(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    config = tmp_path / "1_Pooling" / "config.json"

    async def value(pooling="auto"):
        return (await score(Embedding(model=str(tmp_path), pooling=pooling), EXAMPLE)).value

    for written, expected in (
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
    ):
        config.write_text(json.dumps(written))
        assert await value() == await value(expected)
    config.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ConfigurationError, match="pools by pooling_mode_max_tokens"):
        await value()
    kinds = [f"sentence_transformers.models.{k}" for k in ("Transformer", "Pooling", "Dense")]
    (tmp_path / "modules.json").write_text(json.dumps([{"type": kind} for kind in kinds]))
    with pytest.raises(ConfigurationError, match=r"further layers .Dense."):
        await value("mean")


@pytest.mark.parametrize("kind", [BertScore, Embedding])
async def test_long_texts_are_embedded_in_windows(models, kind):
    """A long text is closest to itself, so nothing of it is missing; the best reference counts."""
    long = " ".join(" ".join(tiny.WORDS[i:] + tiny.WORDS[:i]) + " ." for i in range(8))
    found, other, instead = await tiny.scores(
        kind(model=str(models / "encoder")),
        Example(output=long, references=("the sun and the moon in the sky", long)),
        Example(output=long, references=(long.rpartition(" the ")[0],)),
        Example(output=OUTPUT, source=REFERENCE),
    )
    assert found.value == pytest.approx(1, abs=1e-5)
    assert other.value < found.value <= 1
    assert "against:source" in instead.signature


def test_values_stay_on_the_scale_when_cosines_are_negative():
    """The harmonic mean of negative numbers is not a mean."""
    down, up = (
        TokenStates(rows, rows)
        for rows in (np.array([[-1.0, 0.0]]), np.array([[1.0, 0.0], [0.9, 0.1]]))
    )
    assert greedy_match(down, up).f1 >= -1
    assert greedy_match(up, up).f1 == pytest.approx(1)
    cosines = np.array([[-0.5, -0.2], [-0.9, -0.1]], np.float32)
    assert all(-1 <= sentence_value(cosines, measure) <= 0 for measure in ("p", "r", "f", "min"))


@pytest.fixture
def table(tmp_path):
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
    rng = np.random.default_rng(5)  # every factor and row is its own: no mix-up stays unseen
    vectors = rng.normal(size=(20, 8)).astype(np.float16)
    rows = rng.integers(0, 20, len(words))
    factors = rng.uniform(0.2, 2, len(words)).astype(np.float32)
    save_file(
        {"embeddings": vectors, "mapping": rows, "weights": factors}, tmp_path / "model.safetensors"
    )
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec"}))

    def embed(text):
        ids = [i for i in made.encode(text, add_special_tokens=False).ids if i != 1]
        vector = (vectors[rows[ids]].astype(np.float64) * factors[ids, None]).mean(0)
        return vector / np.linalg.norm(vector)

    return tmp_path, embed


@pytest.mark.parametrize("engine", ["auto", "static"])
async def test_static_vectors_are_averaged_with_their_factors(table, engine):
    """The folder alone tells that it is a table; unknown words are left out."""
    folder, embed = table
    output = STATIC + " Zyzzyva!"
    found = await score(
        Embedding(model=str(folder), engine=engine), Example(output=output, source=SOURCE)
    )
    assert found.value == pytest.approx(float(embed(output) @ embed(SOURCE)), abs=1e-6)
    assert "engine:static" in found.signature


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
    found = await score(tool, Example(output=STATIC, source=SOURCE))
    assert found.value == pytest.approx(float(expected), abs=1e-6)
    assert [piece["cosine"] for piece in found.evidence] == pytest.approx(forth, abs=1e-6)
    assert found.evidence[0]["closest"] in SOURCE
    assert f"per:sentence|measure:{measure}" in found.signature


async def test_sentence_wise_matching_works_with_any_encoder(models):
    """The output's own sentences have cosine 1 with themselves, in any order."""
    tool = Embedding(model=str(models / "encoder"), per="sentence", measure="min")
    shuffled = "She sat on the mat. The dog ran home. A small cat was in the park."
    found = await score(tool, Example(output=shuffled, source=SOURCE))
    assert found.value == pytest.approx(1, abs=1e-5)
    assert len(found.evidence) == 3


async def test_the_context_alone_can_be_compared_with(table):
    """Groundedness is about the fact, not about the conversation before it."""
    folder, embed = table
    example = Example(output=STATIC, source="the dog ran", context="a red moon")
    found = await score(Embedding(model=str(folder), against="context"), example)
    assert found.value == pytest.approx(float(embed(STATIC) @ embed("a red moon")), abs=1e-6)


async def test_a_text_without_known_words_has_no_value(table):
    """Zero vectors would have a cosine of 0, which is not a measurement."""
    for per in ("text", "sentence"):
        tool = Embedding(model=str(table[0]), per=per)
        found = await score(tool, Example(output="qwx zzy", source=SOURCE))
        assert (found.outcome, found.error.type) == ("abstained", "NoTokens")


async def test_inputs_are_as_long_as_the_encoder_was_trained_for(tmp_path):
    tiny.need("torch", "transformers")
    tiny.encoder(tmp_path)
    text = " ".join(f"{word} ." for word in tiny.WORDS[:24])
    example = Example(output=STATIC, references=(text,))
    whole = await score(Embedding(model=str(tmp_path)), example)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    assert max_seq_length(tmp_path) == 12
    tool = Embedding(model=str(tmp_path))
    cut = await tool.score(example)
    longest = max(len(e) for e in tool.runner.known)
    await tool.aclose()
    assert longest <= 12
    assert cut.value != whole.value


async def test_each_text_is_embedded_once(models):
    """Five systems with one source and two references: seven inputs and not fifteen."""
    tool = Embedding(model=str(models / "encoder"))
    texts = [" ".join(tiny.WORDS[number : number + 4]) for number in range(5)]
    references = ("the dog ran home", "a red moon")
    runner = tool.runner
    await tiny.scores(tool, *(Example(output=text, references=references) for text in texts))
    assert runner.batches[1] == 7


async def agreement(tool, rows):
    """Pearson and Spearman over the data set with the mean of the four aspects."""
    from scipy.stats import pearsonr, spearmanr

    examples = [Example(output=row["output"], source=row["source"]) for row in rows]
    values = [(await tool.score(example)).value for example in examples]
    await tool.aclose()
    people = [math.fsum(row["human"].values()) / 4 for row in rows]
    return [measure(values, people).statistic for measure in (pearsonr, spearmanr)]


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
