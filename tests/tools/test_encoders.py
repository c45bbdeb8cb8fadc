"""Greedy matching and sentence embeddings over tiny encoders, in both engines."""

import json

import numpy as np
import pytest

from tests.tools import tiny
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import BertScore, Embedding
from textassay.tools.learned_metrics import TokenStates, greedy_match

OUTPUT, REFERENCE = "the cat sat on a mat .", "a small cat was in the park and she sat ."
ENGINES = ("transformers", "onnx")


def states(folder, text, *, layer=-1):
    """Hidden states of a text, asked of transformers by itself."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        found = AutoModel.from_pretrained(folder)(**inputs, output_hidden_states=True)
    return found.hidden_states[layer][0].numpy()


def matched(output, other):
    """Precision, recall and F1 by loops, as the paper defines them."""

    def cosine(a, b):
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    # the first and the last token are special: candidates, but of no weight themselves
    precision = np.mean([max(cosine(a, b) for b in other) for a in output[1:-1]])
    recall = np.mean([max(cosine(a, b) for a in output) for b in other[1:-1]])
    return precision, recall, 2 * precision * recall / (precision + recall)


async def score(tool, example):
    try:
        return await tool.score(example)
    finally:
        await tool.aclose()


@pytest.mark.asyncio
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("measure", "index"), [("p", 0), ("r", 1), ("f", 2)])
async def test_bertscore_matches_words_greedily_and_lets_them_match_special_tokens(
    models, engine, measure, index
):
    """Against a reference, with precision and recall told apart."""
    folder = models / "encoder"
    due = matched(*(states(folder, text) for text in (OUTPUT, REFERENCE)))
    assert abs(due[0] - due[1]) > 1e-3
    tool = BertScore(model=str(folder), engine=engine, measure=measure)
    found = await score(tool, Example(output=OUTPUT, references=(REFERENCE,)))
    assert found.value == pytest.approx(due[index], abs=1e-4)


@pytest.mark.asyncio
async def test_bertscore_reads_the_layer_that_is_asked_for(models):
    """An export holds the last one only, and says so."""
    folder = models / "encoder"
    due = matched(*(states(folder, text, layer=1) for text in (OUTPUT, REFERENCE)))[2]
    example = Example(output=OUTPUT, references=(REFERENCE,))
    assert (await score(BertScore(model=str(folder), layer=1), example)).value == pytest.approx(
        due, abs=1e-4
    )
    with pytest.raises(ConfigurationError, match="contains the last layer only"):
        await score(BertScore(model=str(folder), layer=1, engine="onnx"), example)
    with pytest.raises(ConfigurationError, match="has layers 0 to 2, not 9"):
        await score(BertScore(model=str(folder), layer=9), example)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [BertScore, Embedding])
async def test_a_text_is_closest_to_itself(models, kind):
    """The best reference counts, whatever stands beside it in the batch."""
    tool = kind(model=str(models / "encoder"))
    found = await score(
        tool, Example(output=OUTPUT, references=("the sun and the moon in the sky", OUTPUT))
    )
    assert found.value == pytest.approx(1, abs=1e-5)
    assert found.value <= 1


@pytest.mark.asyncio
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
async def test_embedding_is_the_cosine_of_pooled_states(models, engine, pooling):
    """Special tokens are pooled too, as sentence encoders were trained."""
    folder = models / "encoder"
    vectors = [states(folder, text) for text in (OUTPUT, REFERENCE)]
    first, second = (v.mean(0) if pooling == "mean" else v[0] for v in vectors)
    due = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    tool = Embedding(model=str(folder), engine=engine, pooling=pooling)
    found = await score(tool, Example(output=OUTPUT, references=(REFERENCE,)))
    assert found.value == pytest.approx(due, abs=1e-4)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
    ],
)
async def test_pooling_is_read_from_the_folder(tmp_path, written, expected):
    """As sentence-transformers writes it, old and new."""
    tiny.need("torch", "transformers")
    tiny.encoder(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(written))
    example = Example(output=OUTPUT, references=(REFERENCE,))
    auto, named = [
        await score(Embedding(model=str(tmp_path), pooling=p), example) for p in ("auto", expected)
    ]
    assert auto.value == named.value


@pytest.mark.asyncio
async def test_encoders_that_would_be_run_in_part_are_refused(tmp_path):
    """A dense layer after pooling, or a pooling that is not known."""
    tiny.need("torch", "transformers")
    tiny.encoder(tmp_path)
    example = Example(output=OUTPUT, references=(REFERENCE,))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_max_tokens": True})
    )
    with pytest.raises(ConfigurationError, match="pools by pooling_mode_max_tokens"):
        await score(Embedding(model=str(tmp_path)), example)
    kinds = ["Transformer", "Pooling", "Dense"]
    (tmp_path / "modules.json").write_text(
        json.dumps([{"type": f"sentence_transformers.models.{k}"} for k in kinds])
    )
    with pytest.raises(ConfigurationError, match=r"further layers .Dense."):
        await score(Embedding(model=str(tmp_path), pooling="mean"), example)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [BertScore, Embedding])
async def test_long_texts_are_embedded_in_windows(models, kind):
    """A long text is as close to itself as a short one, so nothing of it is missing."""
    long = " ".join(" ".join(tiny.WORDS[i:] + tiny.WORDS[:i]) + " ." for i in range(8))
    tool = kind(model=str(models / "encoder"))
    found = await tool.score(Example(output=long, references=(long,)))
    other = await tool.score(Example(output=long, references=(long.rpartition(" the ")[0],)))
    await tool.aclose()
    assert found.value == pytest.approx(1, abs=1e-5)
    assert other.value < found.value


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [BertScore, Embedding])
async def test_source_in_place_of_a_reference_is_marked(models, kind):
    """And without either there is no value."""
    tool = kind(model=str(models / "encoder"))
    found = await tool.score(Example(output=OUTPUT, source=REFERENCE))
    none = await tool.score(Example(output=OUTPUT))
    await tool.aclose()
    assert "against:source" in found.signature
    assert (none.outcome, none.error.type) == ("abstained", "MissingReferences")


def test_matches_that_are_not_positive_stay_on_the_scale():
    """The harmonic mean of negative numbers is not a mean."""
    down, up = (
        TokenStates(rows, rows)
        for rows in (np.array([[-1.0, 0.0]]), np.array([[1.0, 0.0], [0.9, 0.1]]))
    )
    assert greedy_match(down, up).f1 >= -1
    assert greedy_match(up, up).f1 == pytest.approx(1)
