"""Tiny models with random weights, made and saved by the tests."""

from __future__ import annotations

import importlib.util
from functools import cache

import pytest

_TEXT = """
    the a cat dog sat ran on in mat hat park home was is it he she they red blue big small and but
    not all some one two yes no eat ate fish bird tree sun moon star sky question document
    summary claim coherent
"""
WORDS = _TEXT.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def need(*modules):
    """Skip where an extra is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}, which is not installed (extras nli and onnx)")


def tokenizer(path, model_max_length=64):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *WORDS, ".", ",", "'", "!", "?"])}
    made = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = Lowercase(), BertPreTokenizer()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made,
        model_max_length=model_max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    fast.save_pretrained(path)
    return fast


def _bert_config(vocabulary, positions, **more):
    from transformers import BertConfig

    return BertConfig(
        vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=positions, **more,
    )  # fmt: skip


def randomize(model, seed):
    """Draw weights that are large enough for the outputs to differ between inputs."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            norm = "LayerNorm.weight" in name or "layer_norm.weight" in name
            parameter.copy_(
                1 + 0.1 * drawn if norm else (0.05 if name.endswith("bias") else 0.35) * drawn
            )
    return model.eval()


def nli(path, *, labels=("contradiction", "entailment", "neutral"), positions=64, seed=0):
    from transformers import BertForSequenceClassification

    made = tokenizer(path, positions)
    config = _bert_config(
        len(made),
        positions,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        num_labels=len(labels),
    )
    model = randomize(BertForSequenceClassification(config), seed)
    model.save_pretrained(path)
    return model


def encoder(path, *, positions=64, seed=1):
    from transformers import BertModel

    made = tokenizer(path, positions)
    model = randomize(BertModel(_bert_config(len(made), positions)), seed)
    model.save_pretrained(path)
    return model


def t5(path, *, seed=2):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    words = ["<pad>", "</s>", "<unk>", "Yes", "No", *WORDS, ".", "?", ":", "0", "1"]
    vocabulary = {word: i for i, word in enumerate(words)}
    made = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = BertPreTokenizer()
    made.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        model_max_length=512,
    ).save_pretrained(path)  # fmt: skip
    config = T5Config(
        vocab_size=len(vocabulary), d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    model = randomize(T5ForConditionalGeneration(config), seed)
    model.save_pretrained(path)
    return model


def bart(path, *, seed=3):
    from transformers import BartConfig, BartForConditionalGeneration

    made = tokenizer(path, 64)
    ids = {name: made.convert_tokens_to_ids(token) for name, token in _BART_MARKS.items()}
    sides = ("encoder", "decoder")
    config = BartConfig(
        **{f"{side}_layers": 2 for side in sides},
        **{f"{side}_attention_heads": 4 for side in sides},
        **{f"{side}_ffn_dim": 48 for side in sides},
        vocab_size=len(made), d_model=32, max_position_embeddings=64,
        decoder_start_token_id=ids["eos_token_id"], forced_eos_token_id=None, **ids,
    )  # fmt: skip
    model = randomize(BartForConditionalGeneration(config), seed)
    model.save_pretrained(path)
    return model


_BART_MARKS = {"pad_token_id": "[PAD]", "bos_token_id": "[CLS]", "eos_token_id": "[SEP]"}


def export(model, path, output):
    """Write a model as ONNX beside its other files, with free batch and length."""
    import torch

    class Bare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):
            found = self.model(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            )
            return getattr(found, output)

    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = tuple(torch.ones(2, 7, dtype=torch.long) for _ in names)
    axes = {name: {0: "batch", 1: "length"} for name in names}
    axes[output] = {0: "batch"} if output == "logits" else {0: "batch", 1: "length"}
    torch.onnx.export(
        Bare().eval(),
        sample,
        str(path / "model.onnx"),
        input_names=names,
        output_names=[output],
        dynamic_axes=axes,
        dynamo=False,
    )


async def scores(tool, *examples):
    """Score examples and close the tool in any case."""
    try:
        return [await tool.score(example) for example in examples]
    finally:
        await tool.aclose()


async def score(tool, example):
    """Score one example and close the tool."""
    return (await scores(tool, example))[0]


@cache
def pretrained(folder, kind):
    """The model and tokenizer of a folder as transformers reads them without us."""
    import transformers

    model = getattr(transformers, kind).from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)
