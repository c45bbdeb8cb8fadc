"""Writes a trained network as a GGUF file that llama.cpp runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from gguf.quants import quantize
from torch import Tensor

from training.encoding import SPECIAL
from training.network import EPSILON, Network

Weights = Literal["f32", "f16", "q8_0"]
_TYPES: dict[str, tuple[LlamaFileType, GGMLQuantizationType]] = {
    "f32": (LlamaFileType.ALL_F32, GGMLQuantizationType.F32),
    "f16": (LlamaFileType.MOSTLY_F16, GGMLQuantizationType.F16),
    "q8_0": (LlamaFileType.MOSTLY_Q8_0, GGMLQuantizationType.Q8_0),
}


def export(network: Network, tokenizer: Path, out: Path, weights: Weights = "f16") -> None:
    """Write a network with its tokenizer.

    Matrices as asked for, norms in f32, the embedding serving as output too.

    Args:
        network: What to write.
        tokenizer: The tokenizer's file.
        out: The GGUF file.
        weights: Type of the matrices.
    """
    shape = network.shape
    file_type, _ = _TYPES[weights]
    writer = GGUFWriter(str(out), "llama")
    writer.add_name("textassay-embedded")
    writer.add_description("A very small judge of English text, for demonstrations")
    writer.add_license("Apache-2.0")
    writer.add_file_type(file_type)
    writer.add_context_length(shape.longest)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.base)
    writer.add_vocab_size(shape.vocabulary)
    _add_tokenizer(writer, json.loads(tokenizer.read_text(encoding="utf-8"))["model"])
    for name, parameter in parameters(network).items():
        _add(writer, name, np.ascontiguousarray(parameter.detach().float().cpu().numpy()), weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def parameters(network: Network) -> dict[str, Tensor]:
    """Return the weights by llama.cpp's names."""
    found: dict[str, Tensor] = {
        "token_embd.weight": network.embedding.weight,
        "output_norm.weight": network.norm,
    }
    for i, block in enumerate(network.blocks):
        found |= {
            f"blk.{i}.attn_norm.weight": block.attention_norm,
            f"blk.{i}.attn_q.weight": block.query.weight,
            f"blk.{i}.attn_k.weight": block.key.weight,
            f"blk.{i}.attn_v.weight": block.value.weight,
            f"blk.{i}.attn_output.weight": block.output.weight,
            f"blk.{i}.ffn_norm.weight": block.hidden_norm,
            f"blk.{i}.ffn_gate.weight": block.gate.weight,
            f"blk.{i}.ffn_up.weight": block.up.weight,
            f"blk.{i}.ffn_down.weight": block.down.weight,
        }
    return found


def _add_tokenizer(writer: GGUFWriter, model: dict[str, object]) -> None:
    vocabulary, merges = model["vocab"], model["merges"]
    if not isinstance(vocabulary, dict) or not isinstance(merges, list):
        raise TypeError("the tokenizer's file holds no BPE model")
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [TokenType.CONTROL if token in SPECIAL else TokenType.NORMAL for token in tokens]
    )
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    )
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def _add(writer: GGUFWriter, name: str, values: np.ndarray, weights: Weights) -> None:
    if values.ndim == 1 or weights == "f32":
        writer.add_tensor(name, values)
    elif weights == "f16":
        writer.add_tensor(name, values.astype(np.float16))
    else:
        kind = _TYPES[weights][1]
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
