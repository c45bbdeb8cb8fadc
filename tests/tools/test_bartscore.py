"""BARTScore on a tiny BART equals the published formula, in every direction, cut as published."""

import numpy as np
import pytest

from tests.tools import tiny
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import BartScore, build

EXAMPLE = Example(
    output="A cat sat on the mat.",
    source="the cat and the dog ran home, and the bird ate fish in the red tree",
    references=("a dog ran", "the small cat sat"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tiny.need("torch", "transformers")
    path = tmp_path_factory.mktemp("bart")
    tiny.bart(path)
    return path


def published(folder, pairs, limit=1024):
    """The authors' formula in one padded batch: mean of the target's log-probabilities."""
    import torch
    from transformers import AutoTokenizer, BartForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BartForConditionalGeneration.from_pretrained(folder).eval()
    settings = {"max_length": limit, "truncation": True, "padding": True, "return_tensors": "pt"}
    read = tokenizer([first for first, _ in pairs], **settings)
    scored = tokenizer([second for _, second in pairs], **settings)
    with torch.no_grad():
        logits = model(
            input_ids=read["input_ids"],
            attention_mask=read["attention_mask"],
            labels=scored["input_ids"],
        ).logits
    flat = torch.nn.functional.nll_loss(
        logits.reshape(-1, logits.shape[-1]).log_softmax(1),
        scored["input_ids"].reshape(-1),
        reduction="none",
        ignore_index=model.config.pad_token_id,
    )
    lengths = scored["attention_mask"].sum(1)
    return (-flat.reshape(len(pairs), -1).sum(1) / lengths).tolist()


async def score(folder, example=EXAMPLE, **settings):
    tool = BartScore(model=str(folder), **settings)
    try:
        return await tool.score(example)
    finally:
        await tool.aclose()


@pytest.mark.asyncio
async def test_equal_to_the_published_formula(folder):
    """In each direction; of several references the best counts, or their mean."""
    source, output, (first, second) = EXAMPLE.source, EXAMPLE.output, EXAMPLE.references
    pairs = [(source, output), (first, output), (second, output), (output, first), (output, second)]
    faithful, *by_reference = published(folder, pairs)
    precision, recall = np.array(by_reference[:2]), np.array(by_reference[2:])
    expected = {
        "src-hypo": faithful,
        "ref-hypo": precision.max(),
        "hypo-ref": recall.max(),
        "f": ((precision + recall) / 2).max(),
    }
    for direction, value in expected.items():
        found = await score(folder, direction=direction)
        assert found.value == pytest.approx(value, abs=1e-5), direction
        assert found.scale is None
    mean = await score(folder, direction="hypo-ref", over_references="mean")
    assert mean.value == pytest.approx(recall.mean(), abs=1e-5)
    assert "|direction:hypo-ref|over:mean|max_tokens:1024|" in mean.signature


@pytest.mark.asyncio
async def test_texts_are_cut_as_published_and_it_is_told(folder):
    """The mark at the end stays; a cut score is not comparable with a whole one."""
    [expected] = published(folder, [(EXAMPLE.source, EXAMPLE.output)], limit=6)
    found = await score(folder, max_tokens=6)
    assert found.value == pytest.approx(expected, abs=1e-5)
    assert "tokens beyond 6 were cut off" in found.explanation
    assert "|cut:yes|" in found.signature


@pytest.mark.asyncio
async def test_what_is_missing_is_told(folder, tmp_path):
    """Inputs, and models without a decoder."""
    lone = Example(output="A cat sat.")
    assert (await score(folder, lone)).error.type == "MissingSource"
    assert (await score(folder, lone, direction="f")).error.type == "MissingReferences"
    tiny.encoder(tmp_path)
    with pytest.raises(ConfigurationError, match="encoder and a decoder"):
        await score(tmp_path)


def test_it_has_a_name_in_the_registry(folder):
    """With its options."""
    [tool] = build([f"bartscore:{folder}?direction=f"])
    assert isinstance(tool, BartScore)
    assert tool.direction == "f"
