"""MiniCheck on tiny models with random weights: the authors' inputs, both kinds of model."""

import numpy as np
import pytest

from tests.tools import tiny
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import MiniCheck

SOURCE = "A big cat sat on the mat. It was red and the dog ran home!"
SENTENCES = ("The dog ran.", "She ate fish in the park.")


async def score(folder, **settings):
    checker = MiniCheck(model=str(folder), **settings)
    try:
        return await checker.score(Example(output=" ".join(SENTENCES), source=SOURCE))
    finally:
        await checker.aclose()


@pytest.mark.asyncio
@pytest.mark.parametrize("window_tokens", [400, 10])
async def test_a_classifier_reads_document_and_claim_as_one_text(tmp_path, window_tokens):
    """Like the authors' code: `document[SEP]claim` tokens in one segment, the best chunk counts."""
    tiny.need("torch", "transformers")
    import torch
    from transformers import AutoTokenizer

    model = tiny.nli(tmp_path, labels=("LABEL_0", "LABEL_1"))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)

    def direct(document, claim):
        inputs = tokenizer(f"{document} [SEP] {claim}", return_tensors="pt")
        with torch.no_grad():
            return float(model(**inputs).logits.softmax(-1)[0, 1])

    chunks = [SOURCE] if window_tokens == 400 else SOURCE.replace(". It", ".|It").split("|")
    table = np.array([[direct(chunk, claim) for claim in SENTENCES] for chunk in chunks])
    found = await score(tmp_path, window_tokens=window_tokens)
    assert found.value == pytest.approx(table.max(axis=0).mean(), abs=1e-4)
    assert [e["support"] for e in found.evidence] == pytest.approx(table.max(axis=0), abs=1e-4)
    assert [e["premise"] for e in found.evidence] == [chunks[i] for i in table.argmax(axis=0)]


@pytest.mark.asyncio
async def test_an_encoder_decoder_answers_with_1_or_0(tmp_path):
    tiny.need("torch", "transformers")
    import torch
    from transformers import AutoTokenizer

    model = tiny.t5(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    pair = tokenizer.convert_tokens_to_ids(["0", "1"])
    values = []
    for claim in SENTENCES:
        plain = [tokenizer(text, add_special_tokens=False)["input_ids"]
                 for text in (f"predict: {SOURCE}", claim)]  # fmt: skip
        ids = torch.tensor([[*plain[0], 1, *plain[1], 1]])
        with torch.no_grad():
            logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        values.append(float(logits[pair].softmax(-1)[1]))
    assert (await score(tmp_path, reads="answer")).value == pytest.approx(np.mean(values), abs=1e-4)


@pytest.mark.asyncio
async def test_a_model_of_another_kind_is_refused(models):
    with pytest.raises(ConfigurationError, match="does not have two labels"):
        await score(models / "nli")
