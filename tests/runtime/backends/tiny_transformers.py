"""Tiny random T5, OPT, GPT-2 and Llama models with real tokenizers, made and saved by the tests."""

from __future__ import annotations

TEXT = [
    "the cat sat on the mat and the dog ran home",
    "is the summary fluent? yes, it is. no, it is not.",
    "question: how good is this text? answer: 1 2 3 4 5",
    "The bridge opens in May; Caf\u00e9 \u201cquotes\u201d and \U0001f600 smile.",
] * 20
RAINBOW = [
    "The colors of the rainbow are red, orange, yellow, green, blue, indigo and violet."
] * 20
"""What the battery of models asks about: a unigram vocabulary has no bytes for other letters."""

FAMILIES = ("gpt2", "opt", "llama", "t5")


def save(family: str, folder: object, *, seed: int = 0) -> None:
    """Write a model of a family with random weights, and its tokenizer, into a folder."""
    import torch
    import transformers

    tokenizer = _unigram() if family == "t5" else _byte_level(begins=family != "gpt2")
    tokenizer.save_pretrained(folder)
    size = len(tokenizer)
    small = {"vocab_size": size, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if family == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=128, **small)
        kind = transformers.GPT2LMHeadModel
    elif family == "opt":
        config = transformers.OPTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48,
            max_position_embeddings=128, word_embed_proj_dim=32, **small,
        )  # fmt: skip
        kind = transformers.OPTForCausalLM
    elif family == "llama":
        config = transformers.LlamaConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=48, max_position_embeddings=128, **small,
        )  # fmt: skip
        kind = transformers.LlamaForCausalLM
    else:
        config = transformers.T5Config(
            d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0,
            vocab_size=size, eos_token_id=2, pad_token_id=0,
        )  # fmt: skip
        kind = transformers.T5ForConditionalGeneration
    torch.manual_seed(seed)
    model = kind(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():  # large enough for answers to differ between inputs
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower() and "ln_" not in name:
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)


def _byte_level(*, begins: bool):
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


def _unigram():
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
