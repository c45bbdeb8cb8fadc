"""BLEURT: our loader against transformers' own classes on random weights under the published names,
and the tool."""

import json

import numpy as np
import pytest

from tests.tools import tiny
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools import Bleurt

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
# how the converted checkpoints call what transformers calls otherwise
RENAMED = {
    "rembert.": "bleurt.",
    "bert.": "bleurt.",
    "encoder.embedding_hidden_mapping_in": "encoder.embedding_projection",
}


def reference_model(kind, vocabulary, seed=3):
    """A regressor of transformers' own, with random weights."""
    import transformers

    common = {
        **SIZES,
        "vocab_size": vocabulary,
        "max_position_embeddings": 64,
        "num_labels": 1,
        "layer_norm_eps": 1e-12,
    }
    if kind == "rembert":
        config = transformers.RemBertConfig(
            **common, input_embedding_size=16, output_embedding_size=16
        )
        model = transformers.RemBertForSequenceClassification(config)
    else:
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**common))
    return tiny._randomise(model, seed)


def publish(model, folder, kind, *, pickled=False, **changes):
    """Save weights and configuration under the names of the published checkpoints."""
    import torch
    from safetensors.torch import save_file

    weights = {}
    for name, tensor in model.state_dict().items():
        for theirs, published in RENAMED.items():
            if name.startswith(theirs) or (theirs in name and not theirs.endswith("bert.")):
                name = name.replace(theirs, published, 1)
        weights[name] = tensor.contiguous()
    weights["bleurt.embeddings.position_ids"] = torch.arange(64)[
        None
    ]  # older files hold this buffer
    config = {"model_type": "bleurt", "architectures": ["BleurtForSequenceClassification"], **SIZES}
    config |= {
        "vocab_size": model.config.vocab_size,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
    }
    config |= {"layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0}
    config |= {"embedding_size": 16 if kind == "rembert" else None, **changes}
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
    """A function that publishes a checkpoint and returns folder, model and tokenizer."""
    tiny.need("torch", "transformers", "safetensors")

    def make(kind, **changes):
        folder = tmp_path / f"bleurt-20-{kind}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        tokenizer = tiny.tokenizer(folder)
        model = reference_model(kind, len(tokenizer))
        publish(model, folder, kind, **changes)
        return folder, model, tokenizer

    return make


async def scores(tool, examples):
    found = [await tool.score(e) for e in examples]
    await tool.aclose()
    return found


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["rembert", "bert"])
@pytest.mark.parametrize("pickled", [False, True])
async def test_the_loader_equals_the_classes_of_transformers(checkpoint, kind, pickled):
    """Narrow embeddings with a projection (BLEURT-20) and plain BERT, in both file formats."""
    folder, model, tokenizer = checkpoint(kind, pickled=pickled)
    pairs = [
        ("a cat sat on the mat .", "a cat sat ."),
        ("the sun", "the moon and the star in the sky !"),
        ("yes", "no"),
    ]
    found = await scores(
        Bleurt(model=str(folder)), [Example(output=c, references=(r,)) for r, c in pairs]
    )
    due = [expected(model, tokenizer, r, c) for r, c in pairs]
    assert [s.value for s in found] == pytest.approx(due, abs=1e-4)
    assert np.ptp(due) > 0.05


@pytest.mark.asyncio
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
    (found,) = await scores(tool, [Example(output=candidate, references=(reference,))])
    assert found.outcome == "scored"


@pytest.mark.asyncio
async def test_reference_comes_first(checkpoint):
    """Swapped, the value is another."""
    folder, model, tokenizer = checkpoint("rembert")
    reference, candidate = "a big cat sat on the red mat .", "she ate fish ."
    forward, backward = (
        expected(model, tokenizer, *p) for p in ((reference, candidate), (candidate, reference))
    )
    assert abs(forward - backward) > 1e-2
    (found,) = await scores(
        Bleurt(model=str(folder)), [Example(output=candidate, references=(reference,))]
    )
    assert found.value == pytest.approx(forward, abs=1e-4)


@pytest.mark.asyncio
async def test_a_batch_gives_what_single_requests_give(checkpoint):
    """Padding is masked in our module too."""
    folder, model, tokenizer = checkpoint("rembert")
    short, long = "a cat", "the dog ran home and the bird ate all the fish in the park ."
    (found,) = await scores(
        Bleurt(model=str(folder), combine="mean"), [Example(output=short, references=(short, long))]
    )
    due = [expected(model, tokenizer, r, short) for r in (short, long)]
    assert [e["bleurt"] for e in found.evidence] == pytest.approx(due, abs=1e-4)
    assert found.value == pytest.approx(sum(due) / 2, abs=1e-4)


@pytest.mark.asyncio
async def test_the_source_serves_where_there_is_no_reference_and_is_marked(checkpoint):
    """Fact and conversation in dialogue; such scores are not comparable with the others."""
    folder, model, tokenizer = checkpoint("rembert")
    example = Example(
        output="a cat sat .", source="is it a cat ?", context="the cat sat on the mat ."
    )
    with_reference = example.model_copy(update={"references": ("a dog ran .",)})
    found, other, none = await scores(
        Bleurt(model=str(folder)), [example, with_reference, Example(output="a cat")]
    )
    due = expected(model, tokenizer, "the cat sat on the mat .\nis it a cat ?", "a cat sat .")
    assert found.value == pytest.approx(due, abs=1e-4)
    assert "against:source" in found.signature
    assert "source in place of a reference" in found.explanation
    assert "against:references" in other.signature
    assert (none.outcome, none.error.type) == ("abstained", "MissingReferences")


@pytest.mark.asyncio
async def test_against_says_what_is_wanted(checkpoint):
    """No silent change of what is compared."""
    folder, *_ = checkpoint("bert")
    only_source = Example(output="a cat", source="a dog")
    (refused,) = await scores(Bleurt(model=str(folder), against="references"), [only_source])
    assert (refused.outcome, refused.error.type) == ("abstained", "MissingReferences")
    (refused,) = await scores(
        Bleurt(model=str(folder), against="source"), [Example(output="a", references=("b",))]
    )
    assert (refused.outcome, refused.error.type) == ("abstained", "MissingSource")


@pytest.mark.asyncio
async def test_long_sources_are_read_in_windows(checkpoint):
    """The best window counts, and how many there were is told."""
    folder, *_ = checkpoint("rembert")
    source = "the tree was big and the sky was blue . " * 40
    (found,) = await scores(
        Bleurt(model=str(folder)), [Example(output="a cat sat .", source=source)]
    )
    assert found.outcome == "scored"
    assert int(found.explanation.split()[-2]) > 5


@pytest.mark.asyncio
async def test_plain_regressors_of_transformers_work_too(tmp_path):
    """As the BERT checkpoints that others converted."""
    tiny.need("torch", "transformers")
    tokenizer = tiny.tokenizer(tmp_path)
    model = reference_model("bert", len(tokenizer))
    model.save_pretrained(tmp_path)
    (found,) = await scores(
        Bleurt(model=str(tmp_path)), [Example(output="a cat", references=("a dog ran",))]
    )
    assert found.value == pytest.approx(expected(model, tokenizer, "a dog ran", "a cat"), abs=1e-4)


@pytest.mark.asyncio
async def test_a_classifier_is_no_regressor(models):
    """Three outputs cannot be a BLEURT score."""
    with pytest.raises(ConfigurationError, match="is not a regressor: it has 3 outputs"):
        await scores(Bleurt(model=str(models / "nli")), [Example(output="a", references=("b",))])


@pytest.mark.asyncio
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
    folder, *_ = checkpoint("rembert", **changes)
    with pytest.raises(ConfigurationError, match=message):
        await scores(Bleurt(model=str(folder)), [Example(output="a", references=("b",))])


@pytest.mark.asyncio
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
        await scores(Bleurt(model=str(folder)), [Example(output="a", references=("b",))])
    assert not (tmp_path / "ran").exists()


def test_the_description_tells_the_scale_of_the_checkpoint():
    """They differ, and a planner must know."""
    assert "About 0 to 1" in Bleurt(model="lucadiliello/BLEURT-20-D12").description
    assert "About -2 to 1" in Bleurt(model="Elron/bleurt-base-512").description
    assert Bleurt().scale is None
