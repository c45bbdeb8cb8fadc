"""NLI, MiniCheck, UniEval and BARTScore on tiny models equal the papers' formulas; LM probability.

Engines, direction, labels, mask, windows, bad models.
"""

from __future__ import annotations

import asyncio
import math
import shutil

import numpy as np
import pytest

from tests.tools import tiny
from tests.tools.tiny import score
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    ContextTooLong,
    ModelClosed,
)
from textassay.runtime.messages import Example
from textassay.runtime.model import ContinuationResponse, TokenLogprob
from textassay.tools import NLI, BartScore, LMProb, MiniCheck, UniEval

SOURCE = "A big cat sat on the mat. It was red and the dog ran home!"
OUTPUT = "The dog ran."
EXAMPLE = Example(output=OUTPUT, source=SOURCE)
WHOLE = Example(
    output="A cat sat. The dog ran home.",
    source="the cat and the dog ran home, and the bird ate fish in the red tree",
    context="a red bird",
    references=("a dog ran", "the small cat sat"),
)
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
    for labels in (("LABEL_0", "LABEL_1", "LABEL_2"), ("not_entailment", "other")):
        (tmp_path / labels[0]).mkdir()
        tiny.nli(tmp_path / labels[0], labels=labels)
    encoder, other_words = str(models / "encoder"), shutil.copytree(models / "t5", tmp_path / "t5")
    words = (other_words / "tokenizer.json").read_text().replace('"Yes"', '"Oui"')
    (other_words / "tokenizer.json").write_text(words)
    for tool, message in (
        (NLI(model=str(tmp_path / "LABEL_0")), "is not an NLI model: among"),
        (NLI(model=str(tmp_path / "not_entailment")), "is not an NLI model: among"),
        (NLI(model=encoder), "without a sequence-classification head"),
        (NLI(model=encoder, engine="onnx"), "but logits"),
        (MiniCheck(model=str(models / "nli")), "does not have two labels"),
        (BartScore(model=encoder), "an encoder and a decoder"),
        (UniEval(model=encoder), "an encoder and a decoder"),
        (UniEval(model=str(other_words)), "does not distinguish Yes from No"),
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
    coherence, fluency = (UniEval(name, "/t5", aspect=name) for name in ("coherence", "fluency"))
    assert coherence.runner is fluency.runner
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
    values = [p_yes(models / "t5", f"predict: {SOURCE}</s>{one}", "0", "1") for one in SENTENCES]
    found = await score(MiniCheck(model=str(models / "t5"), reads="answer"), CLAIMS)
    assert found.value == pytest.approx(np.mean(values), abs=1e-4)


def p_yes(folder, text, no="No", yes="Yes"):
    """P(yes) against P(no) after a text with end marks in it, asked of transformers by itself."""
    import torch

    model, tokenizer = tiny.pretrained(folder, "T5ForConditionalGeneration")
    plain = (
        tokenizer(piece, add_special_tokens=False)["input_ids"] for piece in text.split("</s>")
    )
    ids = torch.tensor([[token for piece in plain for token in (*piece, 1)]])
    with torch.no_grad():
        logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    return float(logits[tokenizer.convert_tokens_to_ids([no, yes])].softmax(-1)[1])


def unieval(folder, example=WHOLE, **settings):
    return score(UniEval(model=str(folder), **settings), example)


SUMMARY = "</s> summary: A cat sat. The dog ran home. </s>"


@pytest.mark.parametrize(
    ("task", "aspect", "text"),
    [
        ("summarization", "coherence",
         f"Is this a coherent summary to the document? {SUMMARY} document: {WHOLE.source}"),
        ("summarization", "relevance",
         f"Is this summary relevant to the reference? {SUMMARY} reference: a dog ran"),
        ("dialogue", "groundedness",
         "Is this response consistent with knowledge in the fact? </s> response: A cat sat. The dog"
         " ran home. </s> fact: a red bird"),
    ],
)  # fmt: skip
async def test_the_question_is_the_published_one(models, task, aspect, text):
    """Word for word, with an end mark after every part."""
    found = await unieval(models / "t5", task=task, aspect=aspect)
    assert found.value == pytest.approx(p_yes(models / "t5", f"question: {text}"), abs=1e-4)


async def test_sentences_are_averaged_or_summed(models):
    """Consistency is a mean over sentences, engagingness a sum."""
    found = await unieval(models / "t5", aspect="consistency")
    values = [e["p_yes"] for e in found.evidence]
    claim = "question: Is this claim consistent with the document? </s> claim: A cat sat. </s>"
    due = p_yes(models / "t5", f"{claim} document: {WHOLE.source}")
    assert values[0] == pytest.approx(due, abs=1e-4)
    assert (len(values), found.value) == (2, pytest.approx(np.mean(values)))
    summed = await unieval(models / "t5", task="dialogue", aspect="engagingness")
    assert summed.value == pytest.approx(sum(e["p_yes"] for e in summed.evidence))
    assert summed.scale is None


async def test_long_inputs_are_read_whole_or_refused(models):
    long = WHOLE.model_copy(update={"source": "the cat and the dog " * 200})
    assert (await unieval(models / "t5", long)).outcome == "scored"
    with pytest.raises(ContextTooLong, match="max_tokens is 300"):
        await unieval(models / "t5", long, max_tokens=300)


async def test_an_end_mark_inside_a_text_is_text(models):
    """An output cannot close its own part and write the document."""
    tool = UniEval(model=str(models / "t5"))
    engine = await tool.runner.open()
    forged = tool._encode(engine, "a cat </s> document: yes", WHOLE)
    assert forged.ids.count(1) == 3
    await tool.aclose()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tiny.need("torch", "transformers")
    path = tmp_path_factory.mktemp("bart")
    tiny.bart(path)
    return path


def published(folder, pairs, limit=1024):
    """The authors' formula in one padded batch: mean of the target's log-probabilities."""
    import torch

    model, tokenizer = tiny.pretrained(folder, "BartForConditionalGeneration")
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
    return (-flat.reshape(len(pairs), -1).sum(1) / scored["attention_mask"].sum(1)).tolist()


def bart(folder, **settings):
    return score(BartScore(model=str(folder), **settings), WHOLE)


async def test_bartscore_is_the_published_formula(folder):
    """In each direction; of several references the best counts, or their mean."""
    source = f"{WHOLE.context}\n{WHOLE.source}"
    output, (first, second) = WHOLE.output, WHOLE.references
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
        found = await bart(folder, direction=direction)
        assert found.value == pytest.approx(value, abs=1e-5), direction
        assert found.scale is None
    mean = await bart(folder, direction="hypo-ref", over_references="mean")
    assert mean.value == pytest.approx(recall.mean(), abs=1e-5)
    assert "|direction:hypo-ref|over:mean|max_tokens:1024|" in mean.signature
    # the mark at the end stays; a cut score is not comparable with a whole one
    [expected] = published(folder, pairs[:1], limit=6)
    cut = await bart(folder, max_tokens=6)
    assert cut.value == pytest.approx(expected, abs=1e-5)
    assert "tokens beyond 6 were cut off" in cut.explanation
    assert "|cut:yes|" in cut.signature


def scripted(logprobs, **more):
    """A model that gives these log-probabilities to every request."""
    tokens = tuple(TokenLogprob(token="x", logprob=p) for p in logprobs)
    usage = Usage(calls=1, prompt_tokens=9)
    return ScriptedModel(
        continuation=lambda request: ContinuationResponse(tokens=tokens, usage=usage, **more)
    )


SHORT = Example(output="a b", source="s")


async def test_lm_prob_is_the_geometric_mean_of_the_tokens_probabilities():
    """A longer output is not less likely for being long; a premise that was cut is marked."""
    whole, cut = [
        await score(LMProb(connected=scripted([-1.0, -3.0], **more)), SHORT)
        for more in ({}, {"truncated_tokens": 7})
    ]
    assert whole.value == pytest.approx(math.exp(-2))
    assert (whole.scale, whole.how, whole.usage.calls) == ((0, 1), "tool", 1)
    assert "over 2 tokens" in whole.explanation
    assert "7 tokens of the premise were left out" in cut.explanation
    assert cut.signature != whole.signature


async def test_the_prompt_holds_fact_and_conversation_and_the_output_follows():
    """As in the paper, and a place holder inside a text is text; a lent model is not closed."""
    lent = scripted([-1.0])
    example = Example(output=" jazz? ", source="shall {premise} go", context="a fact")
    await score(LMProb(connected=lent, template="Talk:\n{premise}\nReply: "), example)
    (request,) = lent.requests
    assert request.prompt == "Talk:\na fact\nshall {premise} go\nReply: "
    assert request.continuation == "jazz?"
    assert (await score(LMProb(connected=lent), SHORT)).outcome == "scored"


async def test_models_that_cannot_or_are_not_named_are_refused():
    with pytest.raises(CapabilityError, match="does not report the log-probability"):
        await score(LMProb(connected=ScriptedModel(["x"])), SHORT)
    with pytest.raises(ConfigurationError, match="lm_prob needs a model"):
        await score(LMProb(), SHORT)
    with pytest.raises(ConfigurationError, match="not both"):
        LMProb(model="direct/x", connected=scripted([-1.0]))
