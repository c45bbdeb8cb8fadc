"""Tiny random T5, OPT, GPT-2 and Llama models with real tokenizers, made and saved by the tests."""

from __future__ import annotations

from typing import Any

TEXT = [
    "the cat sat on the mat and the dog ran home",
    "is the summary fluent? yes, it is. no, it is not.",
    "question: how good is this text? answer: 1 2 3 4 5",
    "The bridge opens in May; Caf\u00e9 \u201cquotes\u201d and \U0001f600 smile.",
] * 20
RAINBOW = [
    "The colors of the rainbow are red, orange, yellow, green, blue, indigo and violet."
] * 20
"""Texts of the battery of models: a unigram vocabulary has no bytes for other letters."""

FAMILIES = ("gpt2", "opt", "llama", "t5")


def save(
    family: str,
    folder: object,
    *,
    seed: int = 0,
    width: int = 32,
    layers: int = 2,
    positions: int = 128,
) -> None:
    """Write a model of a family with random weights, and its tokenizer, into a folder."""
    import torch
    import transformers

    tokenizer = _unigram() if family == "t5" else _byte_level(begins=family != "gpt2")
    tokenizer.save_pretrained(folder)
    size = len(tokenizer)
    small = {"vocab_size": size, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if family == "gpt2":
        config = transformers.GPT2Config(
            n_embd=width, n_layer=layers, n_head=4, n_positions=positions, **small
        )
        kind = transformers.GPT2LMHeadModel
    elif family == "opt":
        config = transformers.OPTConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
            ffn_dim=3 * width // 2, max_position_embeddings=positions, word_embed_proj_dim=width,
            **small,
        )  # fmt: skip
        kind = transformers.OPTForCausalLM
    elif family == "llama":
        config = transformers.LlamaConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=3 * width // 2,
            max_position_embeddings=positions, **small,
        )  # fmt: skip
        kind = transformers.LlamaForCausalLM
    else:
        config = transformers.T5Config(
            d_model=width, d_kv=width // 4, d_ff=3 * width // 2, num_layers=layers, num_heads=4,
            decoder_start_token_id=0,
            vocab_size=size, eos_token_id=2, pad_token_id=0,
        )  # fmt: skip
        kind = transformers.T5ForConditionalGeneration
    torch.manual_seed(seed)
    model = kind(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():  # large enough for answers to differ between inputs
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower() and "ln_" not in name:
                drawn = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(0.3 * (32 / width) ** 0.5 * drawn)
    model.save_pretrained(folder)


def _byte_level(*, begins: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(TEXT, trainer)
    if begins:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def _unigram() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=160, special_tokens=["<pad>", "<unk>", "</s>"], unk_token="<unk>"
    )
    made.train_from_iterator(TEXT + RAINBOW, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
