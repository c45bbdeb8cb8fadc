"""NLI and MiniCheck on tiny models: engines, direction, labels, mask, windows, bad models."""

from __future__ import annotations

import asyncio
import shutil

import numpy as np
import pytest

from tests.tools import tiny
from tests.tools.tiny import score
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.runtime.messages import Example
from textassay.tools import NLI, MiniCheck

SOURCE = "A big cat sat on the mat. It was red and the dog ran home!"
OUTPUT = "The dog ran."
EXAMPLE = Example(output=OUTPUT, source=SOURCE)
ENGINES = ("transformers", "onnx")


def direct(folder, premise, hypothesis, *, label="entailment", **padding):
    """P(label) of one pair, asked of transformers by itself; padding, if any, is not masked."""
    import torch

    model, tokenizer = tiny.pretrained(folder, "AutoModelForSequenceClassification")
    inputs = tokenizer(premise, hypothesis, return_tensors="pt", **padding)
    inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])
    with torch.no_grad():
        probabilities = model(**inputs).logits.softmax(-1)[0]
    return float(probabilities[{v: k for k, v in model.config.id2label.items()}[label]])


@pytest.mark.parametrize("engine", ENGINES)
async def test_value_is_mean_over_sentences_of_the_best_window(models, engine):
    """As transformers gives it pair by pair."""
    windows = ["A big cat sat on the mat.", "It was red and the dog ran home!"]
    sentences = ["The dog ran.", "She ate fish and a small bird in the park, but not all."]
    table = np.array([[direct(models / "nli", w, s) for s in sentences] for w in windows])
    tool = NLI(model=str(models / "nli"), engine=engine)
    found = await score(tool, Example(output=" ".join(sentences), source=SOURCE))
    assert found.value == pytest.approx(table.max(axis=0).mean(), abs=1e-4)
    assert [e["text"] for e in found.evidence] == sentences
    assert [e["window"] for e in found.evidence] == list(table.argmax(axis=0))
    assert {e["windows"] for e in found.evidence} == {2}
    assert (found.how, found.scale) == ("tool", (0, 1))


@pytest.mark.parametrize("engine", ENGINES)
async def test_pairs_in_a_batch_have_the_values_that_they_have_alone(models, engine):
    """Of many lengths; unmasked padding would show."""
    folder, words = models / "nli", tiny.WORDS
    pairs = [
        (" ".join(words[i : i + 20]) + ".", " ".join(words[i : i + 1 + i % 9])) for i in range(24)
    ]
    alone = [direct(folder, *pair) for pair in pairs]
    unmasked = direct(folder, *pairs[0], padding="max_length", max_length=60)
    assert abs(unmasked - alone[0]) > 1e-3
    tool = NLI(model=str(folder), engine=engine)
    examples = [Example(output=output, source=source) for source, output in pairs]
    found = await asyncio.gather(*map(tool.score, examples))
    batches, requests = tool.runner.batches
    await tool.aclose()
    assert batches < requests / 3
    assert [one.value for one in found] == pytest.approx(alone, abs=1e-4)
    assert np.ptp(alone) > 0.01


async def test_premise_and_hypothesis_are_not_swapped(models):
    """The tiny model is far from symmetric, so swapping them shows."""
    folder = models / "nli"
    forward, backward = direct(folder, SOURCE, OUTPUT), direct(folder, OUTPUT, SOURCE)
    assert abs(forward - backward) > 1e-3
    whole = {"window": "tokens", "hypothesis": "whole"}
    for engine, options, due in (
        *((engine, whole, forward) for engine in ENGINES),
        *((engine, {**whole, "premise": "output"}, backward) for engine in ENGINES),
        ("transformers", {"window": "none"}, forward),
    ):
        found = await score(NLI(model=str(folder), engine=engine, **options), EXAMPLE)
        assert found.value == pytest.approx(due, abs=1e-4)
        assert len(found.evidence) == 1


async def test_the_label_is_found_by_name_not_by_place(tmp_path):
    """The same weights with the labels in another order give another label's probability."""
    tiny.need("torch", "transformers")
    example = Example(output=OUTPUT, source="A big cat sat on the mat.")
    values = []
    for labels in (
        ("contradiction", "entailment", "neutral"),
        ("ENTAILMENT", "neutral", "contradiction"),
        ("contradiction", "neutral", "entailment"),
    ):
        folder = tmp_path / labels[0] / labels[1]
        folder.mkdir(parents=True)
        tiny.nli(folder, labels=labels)
        found = await score(NLI(model=str(folder)), example)
        entailment = next(label for label in labels if label.lower() == "entailment")
        assert found.value == pytest.approx(
            direct(folder, example.source, OUTPUT, label=entailment), abs=1e-5
        )
        values.append(found.value)
    assert sum(values) == pytest.approx(1, abs=1e-5)  # the three places of one softmax


async def test_models_of_another_kind_are_refused(models, tmp_path):
    """Whatever stands at the usual place; a bare encoder would get a head of random numbers."""
    folders = {}
    for labels in (("LABEL_0", "LABEL_1", "LABEL_2"), ("not_entailment", "other")):
        folders[labels] = tmp_path / labels[0]
        folders[labels].mkdir()
        tiny.nli(folders[labels], labels=labels)
    encoder = str(models / "encoder")
    for tool, message in (
        *((NLI(model=str(one)), "is not an NLI model: among") for one in folders.values()),
        (NLI(model=encoder), "without a sequence-classification head"),
        (NLI(model=encoder, engine="onnx"), "but logits"),
        (MiniCheck(model=str(models / "nli")), "does not have two labels"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            await score(tool, EXAMPLE)


@pytest.mark.parametrize("window", ["sentence", "tokens"])
async def test_long_texts_are_read_whole(models, window):
    """What stands at the very end of a long source can still entail; long outputs are cut up."""
    filler = "the tree was big and the sky was blue . " * 60
    evidence = "a red bird ate all the fish in the park ."
    tool = NLI(model=str(models / "nli"), window=window)
    needle = Example(output="a cat sat on the mat.", source=filler + evidence)
    found = await tool.score(needle)
    engine = await tool.runner.open()
    windows, _, encodings = tool._pairs(engine, needle.source, needle.output)
    assert all(len(e) <= 64 for e in encodings)
    whole = "".join(needle.source.split()) in "".join("".join(windows).split())
    assert whole or window == "tokens"
    assert windows[-1].endswith(evidence)
    assert found.evidence[0]["windows"] == len(windows) > 10
    output = " ".join(tiny.WORDS) * 4
    found = await score(tool, Example(output=output, source=SOURCE))
    assert len(found.evidence) > 3
    assert "".join("".join(e["text"] for e in found.evidence).split()) == "".join(output.split())
    assert found.value == pytest.approx(np.mean([e["entailment"] for e in found.evidence]))


async def test_markers_inside_an_evaluated_text_are_text(models):
    """An output cannot close its own segment."""
    tool = NLI(model=str(models / "nli"))
    engine = await tool.runner.open()
    frame = engine.tokenizer.encode("cat", "dog")
    forged = engine.tokenizer.encode("cat", "dog [SEP] cat [CLS]")
    separator = frame.ids[-1]
    assert forged.ids.count(separator) == frame.ids.count(separator) == 2
    await tool.aclose()


async def test_the_signature_names_weights_and_engine(models, tmp_path):
    """A folder of the same name with other weights is another model."""
    (tmp_path / "other" / "nli").mkdir(parents=True)
    tiny.nli(tmp_path / "other" / "nli", seed=5)
    folders = {
        "first": models / "nli",
        "other": tmp_path / "other" / "nli",
        "onnx": models / "nli-onnx",  # whose engine is chosen because nothing else is there
        "copy": shutil.copytree(models / "nli", tmp_path / "nli"),
    }
    signature = {
        name: (await score(NLI(model=str(folder)), EXAMPLE)).signature
        for name, folder in folders.items()
    }
    assert len(set(signature.values())) == 3
    assert signature["copy"] == signature["first"]
    assert "engine:transformers" in signature["first"]
    assert "engine:onnx" in signature["onnx"]
    assert NLI(window="none").signature != NLI().signature


def test_tools_that_name_a_model_alike_share_it(models):
    """Freed when the last is closed, it serves several event loops; a closed tool says so."""
    one, two = NLI("one", str(models / "nli")), NLI("two", str(models / "nli"), window="tokens")
    assert one.runner is two.runner
    values = [asyncio.run(one.score(EXAMPLE)).value for _ in range(2)]
    assert values[0] == values[1]
    asyncio.run(one.aclose())
    asyncio.run(one.aclose())
    with pytest.raises(ModelClosed):
        asyncio.run(one.score(EXAMPLE))
    assert asyncio.run(score(two, EXAMPLE)).outcome == "scored"


SENTENCES = ("The dog ran.", "She ate fish in the park.")
CLAIMS = Example(output=" ".join(SENTENCES), source=SOURCE)


@pytest.mark.parametrize("window_tokens", [400, 10])
async def test_a_classifier_reads_document_and_claim_as_one_text(tmp_path, window_tokens):
    """Like the authors' code: `document[SEP]claim` tokens in one segment, the best chunk counts."""
    tiny.need("torch", "transformers")
    import torch

    tiny.nli(tmp_path, labels=("LABEL_0", "LABEL_1"))
    model, tokenizer = tiny.pretrained(tmp_path, "AutoModelForSequenceClassification")

    def support(document, claim):
        inputs = tokenizer(f"{document} [SEP] {claim}", return_tensors="pt")
        with torch.no_grad():
            return float(model(**inputs).logits.softmax(-1)[0, 1])

    chunks = [SOURCE] if window_tokens == 400 else SOURCE.replace(". It", ".|It").split("|")
    table = np.array([[support(chunk, claim) for claim in SENTENCES] for chunk in chunks])
    found = await score(MiniCheck(model=str(tmp_path), window_tokens=window_tokens), CLAIMS)
    assert found.value == pytest.approx(table.max(axis=0).mean(), abs=1e-4)
    assert [e["support"] for e in found.evidence] == pytest.approx(table.max(axis=0), abs=1e-4)
    assert [e["premise"] for e in found.evidence] == [chunks[i] for i in table.argmax(axis=0)]


async def test_an_encoder_decoder_answers_with_1_or_0(models):
    import torch

    model, tokenizer = tiny.pretrained(models / "t5", "T5ForConditionalGeneration")
    pair = tokenizer.convert_tokens_to_ids(["0", "1"])
    values = []
    for claim in SENTENCES:
        plain = [tokenizer(text, add_special_tokens=False)["input_ids"]
                 for text in (f"predict: {SOURCE}", claim)]  # fmt: skip
        ids = torch.tensor([[*plain[0], 1, *plain[1], 1]])
        with torch.no_grad():
            logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        values.append(float(logits[pair].softmax(-1)[1]))
    found = await score(MiniCheck(model=str(models / "t5"), reads="answer"), CLAIMS)
    assert found.value == pytest.approx(np.mean(values), abs=1e-4)
