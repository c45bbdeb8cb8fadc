"""NLI and MiniCheck on tiny models: engines, direction, labels, mask, windows, bad models."""

from __future__ import annotations

import asyncio
import shutil

import numpy as np
import pytest

from tests.tools import tiny
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.runtime.messages import Example
from textassay.tools import NLI, MiniCheck

SOURCE = "A big cat sat on the mat. It was red and the dog ran home!"
OUTPUT = "The dog ran."
ENGINES = ("transformers", "onnx")


def direct(folder, premise, hypothesis, *, label="entailment"):
    """P(label) of one pair, asked of transformers by itself: no batch, no padding."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(premise, hypothesis, return_tensors="pt")
    with torch.no_grad():
        probabilities = model(**inputs).logits.softmax(-1)[0]
    return float(probabilities[{v: k for k, v in model.config.id2label.items()}[label]])


async def score(example, **settings):
    tool = NLI(**{"model": None, **settings})
    try:
        return await tool.score(example)
    finally:
        await tool.aclose()


@pytest.mark.asyncio
@pytest.mark.parametrize("engine", ENGINES)
async def test_value_is_mean_over_sentences_of_the_best_window(models, engine):
    """As transformers gives it pair by pair."""
    windows = ["A big cat sat on the mat.", "It was red and the dog ran home!"]
    sentences = ["The dog ran.", "She ate fish and a small bird in the park, but not all."]
    table = np.array([[direct(models / "nli", w, s) for s in sentences] for w in windows])
    found = await score(
        Example(output=" ".join(sentences), source=SOURCE), model=str(models / "nli"), engine=engine
    )
    assert found.value == pytest.approx(table.max(axis=0).mean(), abs=1e-4)
    assert [e["text"] for e in found.evidence] == sentences
    assert [e["window"] for e in found.evidence] == list(table.argmax(axis=0))
    assert {e["windows"] for e in found.evidence} == {2}
    assert (found.how, found.scale) == ("tool", (0, 1))


@pytest.mark.asyncio
async def test_both_engines_give_the_same_scores(models):
    """To 1e-4, on pairs of many lengths batched together."""
    words = tiny.WORDS
    examples = [
        Example(
            output=" ".join(words[i : i + 1 + i % 9]),
            source=" ".join(words[i : i + 20]) + ". " + SOURCE,
        )
        for i in range(24)
    ]

    async def all_of(engine):
        tool = NLI(model=str(models / "nli"), engine=engine)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(tool.score(e)) for e in examples]
        batches, requests = tool.runner.batches
        assert batches < requests / 3
        await tool.aclose()
        return [task.result().value for task in tasks]

    torch_scores, onnx_scores = await all_of("transformers"), await all_of("onnx")
    assert onnx_scores == pytest.approx(torch_scores, abs=1e-4)
    assert np.ptp(torch_scores) > 0.01


@pytest.mark.asyncio
@pytest.mark.parametrize("engine", ENGINES)
async def test_premise_and_hypothesis_are_not_swapped(models, engine):
    """The tiny model is far from symmetric, so swapping them shows."""
    folder = models / "nli"
    forward, backward = direct(folder, SOURCE, OUTPUT), direct(folder, OUTPUT, SOURCE)
    assert abs(forward - backward) > 1e-3
    whole = {"model": str(folder), "engine": engine, "window": "tokens", "hypothesis": "whole"}
    example = Example(output=OUTPUT, source=SOURCE)
    assert (await score(example, **whole)).value == pytest.approx(forward, abs=1e-4)
    assert (await score(example, **whole, premise="output")).value == pytest.approx(
        backward, abs=1e-4
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("engine", ENGINES)
async def test_padding_is_masked(models, engine):
    """A short pair beside a long one keeps its value; unmasked it would not."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = models / "nli"
    alone = direct(folder, "The sun.", "A cat.")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(
        "The sun.", "A cat.", return_tensors="pt", padding="max_length", max_length=50
    )
    inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])
    with torch.no_grad():
        unmasked = AutoModelForSequenceClassification.from_pretrained(folder)(
            **inputs
        ).logits.softmax(-1)[0, 1]
    assert abs(alone - float(unmasked)) > 1e-3
    tool = NLI(model=str(folder), engine=engine)
    short = Example(output="A cat.", source="The sun.")
    long = Example(output="A cat " * 12, source="The sun and the moon " * 6)
    async with asyncio.TaskGroup() as group:
        first, _ = group.create_task(tool.score(short)), group.create_task(tool.score(long))
    await tool.aclose()
    assert first.result().value == pytest.approx(alone, abs=1e-4)


@pytest.mark.asyncio
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
        found = await score(example, model=str(folder))
        entailment = next(label for label in labels if label.lower() == "entailment")
        assert found.value == pytest.approx(
            direct(folder, example.source, OUTPUT, label=entailment), abs=1e-5
        )
        values.append(found.value)
    assert sum(values) == pytest.approx(1, abs=1e-5)  # the three places of one softmax


@pytest.mark.asyncio
@pytest.mark.parametrize("labels", [("LABEL_0", "LABEL_1", "LABEL_2"), ("not_entailment", "other")])
async def test_a_model_without_an_entailment_label_is_refused(tmp_path, labels):
    """Whatever stands at the usual place; `not_entailment` is not entailment."""
    tiny.need("torch", "transformers")
    tiny.nli(tmp_path, labels=labels)
    with pytest.raises(ConfigurationError, match="is not an NLI model: among its labels"):
        await score(Example(output=OUTPUT, source=SOURCE), model=str(tmp_path))


@pytest.mark.asyncio
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_model_without_the_head_is_refused(models, engine):
    """A bare encoder would get a classifier of random numbers."""
    with pytest.raises(
        ConfigurationError, match=r"without a sequence-classification head|but logits"
    ):
        await score(
            Example(output=OUTPUT, source=SOURCE), model=str(models / "encoder"), engine=engine
        )


@pytest.mark.asyncio
@pytest.mark.parametrize("window", ["sentence", "tokens"])
async def test_long_texts_are_read_whole(models, window):
    """What stands at the very end of a long source can still entail."""
    filler = "the tree was big and the sky was blue . " * 60
    evidence = "a red bird ate all the fish in the park ."
    tool = NLI(model=str(models / "nli"), window=window)
    needle = Example(output="a cat sat on the mat.", source=filler + evidence)
    found = await tool.score(needle)
    plan = tool._pairs(await tool.runner.open(), needle.source, needle.output)
    assert all(len(e) <= 64 for e in plan.encodings)
    assert (
        "".join(needle.source.split()) in "".join("".join(plan.windows).split())
        or window == "tokens"
    )
    assert plan.windows[-1].endswith(evidence)
    assert found.evidence[0]["windows"] == len(plan.windows) > 10
    await tool.aclose()


@pytest.mark.asyncio
async def test_an_output_longer_than_the_model_is_cut_into_parts_that_all_count(models):
    """Nothing is left out silently."""
    output = " ".join(tiny.WORDS) * 4
    found = await score(Example(output=output, source=SOURCE), model=str(models / "nli"))
    assert len(found.evidence) > 3
    assert "".join("".join(e["text"] for e in found.evidence).split()) == "".join(output.split())
    assert found.value == pytest.approx(np.mean([e["entailment"] for e in found.evidence]))


@pytest.mark.asyncio
async def test_other_languages_are_measured_as_the_model_reads_them(models):
    """Unknown words are unknown to this model, and nothing breaks."""
    found = await score(
        Example(output="他来了。她走了！", source="他昨天来了。"), model=str(models / "nli")
    )
    assert found.outcome == "scored"
    assert len(found.evidence) == 2


@pytest.mark.asyncio
async def test_markers_inside_an_evaluated_text_are_text(models):
    """An output cannot close its own segment."""
    tool = NLI(model=str(models / "nli"))
    engine = await tool.runner.open()
    frame = engine.tokenizer.encode("cat", "dog")
    forged = engine.tokenizer.encode("cat", "dog [SEP] cat [CLS]")
    separator = frame.ids[-1]
    assert forged.ids.count(separator) == frame.ids.count(separator) == 2
    await tool.aclose()


@pytest.mark.asyncio
async def test_missing_inputs_abstain_without_loading_the_model():
    """No source, and an empty output."""
    for example, reason in (
        (Example(output="a"), "MissingSource"),
        (Example(output="", source="a"), "EmptyOutput"),
    ):
        found = await NLI(model="/nowhere").score(example)
        assert (found.outcome, found.value, found.error.type) == ("abstained", None, reason)


@pytest.mark.asyncio
async def test_the_signature_names_weights_and_engine(models, tmp_path):
    """A folder of the same name with other weights is another model."""
    tiny.nli(tmp_path, seed=5)
    example = Example(output=OUTPUT, source=SOURCE)
    first = await score(example, model=str(models / "nli"))
    other = await score(example, model=str(tmp_path))
    onnx = await score(example, model=str(models / "nli-onnx"))
    assert len({first.signature, other.signature, onnx.signature}) == 3
    assert "engine:transformers" in first.signature
    assert "engine:onnx" in onnx.signature  # chosen because nothing else is there
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copytree(models / "nli", copy / "nli")
    assert (await score(example, model=str(copy / "nli"))).signature == first.signature


@pytest.mark.asyncio
async def test_tools_that_name_a_model_alike_share_it(models):
    """It is freed when the last is closed, and a closed tool says so."""
    one, two = NLI("one", str(models / "nli")), NLI("two", str(models / "nli"), window="tokens")
    assert one.runner is two.runner
    example = Example(output=OUTPUT, source=SOURCE)
    await one.score(example)
    await one.aclose()
    await one.aclose()
    with pytest.raises(ModelClosed):
        await one.score(example)
    assert (await two.score(example)).outcome == "scored"
    await two.aclose()


def test_one_tool_serves_several_event_loops(models):
    """As with evaluate_sync called twice."""
    tool = NLI(model=str(models / "nli"))
    values = [
        asyncio.run(tool.score(Example(output=OUTPUT, source=SOURCE))).value for _ in range(2)
    ]
    assert values[0] == values[1]
    asyncio.run(tool.aclose())


@pytest.mark.asyncio
async def test_one_pair_without_windows(models):
    example = Example(source="A big cat sat. It was red.", output="The cat ran. It was big.")
    folder = models / "nli"
    found = await score(example, model=str(folder), window="none", engine="transformers")
    assert found.value == pytest.approx(direct(folder, example.source, example.output), abs=1e-5)
    assert len(found.evidence) == 1
    assert NLI(model=str(folder), window="none").signature != NLI(model=str(folder)).signature


SENTENCES = ("The dog ran.", "She ate fish in the park.")


async def score_minicheck(folder, **settings):
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
    found = await score_minicheck(tmp_path, window_tokens=window_tokens)
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
    assert (await score_minicheck(tmp_path, reads="answer")).value == pytest.approx(
        np.mean(values), abs=1e-4
    )


@pytest.mark.asyncio
async def test_a_model_of_another_kind_is_refused(models):
    with pytest.raises(ConfigurationError, match="does not have two labels"):
        await score_minicheck(models / "nli")
