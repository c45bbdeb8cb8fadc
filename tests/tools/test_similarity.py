"""BERTScore, embeddings and BLEURT: tiny models in both engines, static vectors, and people."""

from __future__ import annotations

import importlib.util
import json
import math

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from tests.tools import tiny
from tests.tools.tiny import score, scores
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import NLI, BertScore, Bleurt, Embedding
from textassay.tools.similarity import (
    TokenStates,
    greedy_match,
    max_seq_length,
    sentence_value,
)

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
        (
            lambda m, t: BertScore(model=f"{m}/encoder", layer=1, engine="onnx"),
            "contains the last layer only",
        ),
        (lambda m, t: BertScore(model=f"{m}/encoder", layer=9), "has layers 0 to 2, not 9"),
        (lambda m, t: NLI(model=str(t)), "a table of static vectors"),
        (lambda m, t: Embedding(model=f"{m}/encoder", engine="static"), "contains no table"),
        (lambda m, t: Embedding(measure="r"), "needs per=sentence"),
        (lambda m, t: Bleurt(model=f"{m}/nli"), "is not a regressor: it has 3 outputs"),
    ],
)
async def test_options_beyond_a_model_are_refused(models, table, tool, message):
    example = Example(output=OUTPUT, source=SOURCE, references=(REFERENCE,))
    with pytest.raises(ConfigurationError, match=message):
        await score(tool(models, table[0]), example)


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
    """The folder alone shows that it is a table; unknown words are left out."""
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
    assert (await tool.score(example)).value != whole.value
    lengths = [len(encoding) for encoding in tool.runner._known]
    assert 8 < max(lengths) <= 12
    await tool.aclose()


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


PAIR = Example(output="a", references=("b",))
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "layer_norm_eps": 1e-12,
}  # fmt: skip
# how the converted checkpoints call what transformers calls otherwise
RENAMED = {
    "rembert.": "bleurt.",
    "bert.": "bleurt.",
    "encoder.embedding_hidden_mapping_in": "encoder.embedding_projection",
}


def reference_model(kind, vocabulary, seed=3):
    import transformers

    common = {**SIZES, "vocab_size": vocabulary, "num_labels": 1}
    if kind == "rembert":
        common |= {"input_embedding_size": 16, "output_embedding_size": 16}
    name = {"rembert": "RemBert", "bert": "Bert"}[kind]
    config = getattr(transformers, f"{name}Config")(**common)
    model = getattr(transformers, f"{name}ForSequenceClassification")(config)
    return tiny.randomize(model, seed)


def publish(model, folder, kind, *, pickled=False, **changes):
    import torch
    from safetensors.torch import save_file

    weights = {}
    for name, tensor in model.state_dict().items():
        for theirs, published in RENAMED.items():
            if name.startswith(theirs) or (theirs in name and not theirs.endswith("bert.")):
                name = name.replace(theirs, published, 1)
        weights[name] = tensor.contiguous()
    # older files hold this buffer
    weights["bleurt.embeddings.position_ids"] = torch.arange(64)[None]
    config = {
        **SIZES,
        "model_type": "bleurt",
        "architectures": ["BleurtForSequenceClassification"],
        "vocab_size": model.config.vocab_size,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "pad_token_id": 0,
        "embedding_size": 16 if kind == "rembert" else None,
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    if pickled:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        save_file(weights, folder / "model.safetensors")


def expected(model, tokenizer, reference, candidate):
    import torch

    with torch.no_grad():
        return float(model(**tokenizer(reference, candidate, return_tensors="pt")).logits[0, 0])


@pytest.fixture
def checkpoint(tmp_path):
    tiny.need("torch", "transformers", "safetensors")

    def make(kind, **changes):
        folder = tmp_path / f"bleurt-20-{kind}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        tokenizer = tiny.tokenizer(folder)
        model = reference_model(kind, len(tokenizer))
        publish(model, folder, kind, **changes)
        return folder, model, tokenizer

    return make


@pytest.mark.parametrize("kind", ["rembert", "bert", "plain"])
@pytest.mark.parametrize("pickled", [False, True])
async def test_bleurt_equals_the_classes_of_transformers(checkpoint, kind, pickled):
    """Narrow embeddings with a projection (BLEURT-20), plain BERT, and what others converted."""
    folder, model, tokenizer = checkpoint("bert" if kind == "plain" else kind, pickled=pickled)
    if kind == "plain":
        model.save_pretrained(folder)
    pairs = [
        ("a cat sat on the mat .", "a cat sat ."),
        ("the sun", "the moon and the star in the sky !"),
        ("the moon and the star in the sky !", "the sun"),  # the reference comes first
        ("yes", "no"),
    ]
    tool = Bleurt(model=str(folder))
    found = await scores(tool, *(Example(output=c, references=(r,)) for r, c in pairs))
    due = [expected(model, tokenizer, r, c) for r, c in pairs]
    assert [s.value for s in found] == pytest.approx(due, abs=1e-4)
    assert np.ptp(due[1:3]) > 0.01
    # padding is masked: a batch gives what single requests give
    references = ("a cat", "the dog ran home and the bird ate all the fish in the park .")
    tool = Bleurt(model=str(folder), combine="mean")
    several = await score(tool, Example(output="a cat", references=references))
    due = [expected(model, tokenizer, r, "a cat") for r in references]
    assert [e["bleurt"] for e in several.evidence] == pytest.approx(due, abs=1e-4)
    assert several.value == pytest.approx(sum(due) / 2, abs=1e-4)


async def test_the_sentencepiece_file_of_published_checkpoints_is_read(checkpoint, tmp_path):
    """They come with `spm.model` and no tokenizer.json; the tokens are those of sentencepiece
    itself."""
    tiny.need("sentencepiece")
    import sentencepiece

    (tmp_path / "text").write_text(
        "\n".join(f"the quick cat number {i} sat on {i * 7} mats" for i in range(300))
    )
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=60,
        pad_id=0,
        pad_piece="[PAD]",
        unk_id=1,
        unk_piece="[UNK]",
        bos_id=-1,
        eos_id=-1,
        user_defined_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
    )
    folder, *_ = checkpoint("rembert")
    for file in folder.glob("*token*"):
        file.unlink()
    (folder / "spm.model").write_bytes((tmp_path / "spm.model").read_bytes())
    tool = Bleurt(model=str(folder))
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    reference, candidate = "the quick cat", "mats sat"
    encoding = (await tool.runner.open()).tokenizer.encode(reference, candidate)
    first, second = pieces.encode(reference), pieces.encode(candidate)
    assert encoding.ids == (2, *first, 3, *second, 3)
    assert encoding.types == (0,) * (len(first) + 2) + (1,) * (len(second) + 1)
    found = await score(tool, Example(output=candidate, references=(reference,)))
    assert found.outcome == "scored"


async def test_the_source_serves_where_there_is_no_reference_and_is_marked(checkpoint):
    """Fact and conversation in dialogue; long ones are read in windows."""
    folder, model, tokenizer = checkpoint("rembert")
    example = Example(
        output="a cat sat .", source="is it a cat ?", context="the cat sat on the mat ."
    )
    found, other, long = await scores(
        Bleurt(model=str(folder)),
        example,
        example.model_copy(update={"references": ("a dog ran .",)}),
        Example(output="a cat sat .", source="the tree was big and the sky was blue . " * 40),
    )
    due = expected(model, tokenizer, "the cat sat on the mat .\nis it a cat ?", "a cat sat .")
    assert found.value == pytest.approx(due, abs=1e-4)
    assert "against:source" in found.signature
    assert "source in place of a reference" in found.explanation
    assert "against:references" in other.signature
    assert int(long.explanation.split()[-2]) > 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 4}, "do not fit a BLEURT regressor"),
        ({"num_hidden_layers": 2}, "do not fit a BLEURT regressor"),
        ({"embedding_size": None}, "do not fit a BLEURT regressor"),
        ({"hidden_size": 30}, "not a multiple of 4 heads"),
        ({"hidden_act": "tangent"}, "unknown activation 'tangent'"),
        ({"vocab_size": None}, "is missing a size"),
    ],
)
async def test_weights_that_do_not_fit_are_refused(checkpoint, changes, message):
    """No parameter is made up, none is left out."""
    with pytest.raises(ConfigurationError, match=message):
        await score(Bleurt(model=str(checkpoint("rembert", **changes)[0])), PAIR)


async def test_no_pickled_code_is_run(checkpoint, tmp_path):
    """A weights file can hold a program; it is refused."""
    import torch

    folder, *_ = checkpoint("bert")
    (folder / "model.safetensors").unlink()

    class Payload:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    torch.save({"x": Payload()}, folder / "pytorch_model.bin")
    with pytest.raises(ConfigurationError, match="cannot read"):
        await score(Bleurt(model=str(folder)), PAIR)
    assert not (tmp_path / "ran").exists()


def test_the_scale_of_a_checkpoint_is_described():
    """BLEURT's checkpoints differ, and a planner must know."""
    assert "About 0 to 1" in Bleurt(model="lucadiliello/BLEURT-20-D12").description
    assert "About -2 to 1" in Bleurt(model="Elron/bleurt-base-512").description
    assert Bleurt().scale is None
