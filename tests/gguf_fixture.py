"""Writes small random-weight llama models as GGUF files, and computes what they must answer without
llama.cpp.

Two oracles: `forward_logits` is the whole network in float64 numpy; a model made with `bigram=True`
has dead attention and feed-forward outputs, so that its log-probabilities have the closed form of
`bigram_logprobs`. The same `Shape` gives the same bytes.
"""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.llamacpp import Loader
from textassay.runtime.backends.local.model import LocalRules
from textassay.runtime.backends.local.tokens import common_prefix
from textassay.runtime.backends.local.transformers import byte_letters
from textassay.runtime.model import ContinuationRequest
from textassay.runtime.settings import LocalSettings

Floats = NDArray[np.float64]

# fmt: off
WORDS = [
    "yes", "no", "Yes", "No", "the", "summary", "is", "good", "bad", "text", "a", "of", "and",
    "score", "rate", "fluent", "source", "answer", "question", "Answer", "Question", "system",
    "user", "assistant", "true", "false", "not", "very", "model", "output", "article", "with",
    "for", "coherent", "faithful", "relevant",
]
# fmt: on

CHAT_TEMPLATE = (
    "{%- for message in messages -%}<|turn|>{{ message.role }}\n"
    "{{ message.content | trim }}<|end|>\n{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|turn|>assistant\n{%- endif -%}"
)

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}


@dataclasses.dataclass(frozen=True)
class Shape:
    """Everything that determines the file."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 96
    vocabulary: int = 512
    context: int = 2048
    dtype: Literal["f32", "f16", "q8_0"] = "f16"
    tokenizer: Literal["bpe", "spm"] = "bpe"
    bos: bool = False
    bigram: bool = False
    chat_template: str | None = CHAT_TEMPLATE
    architecture: str = "llama"
    nan: bool = False
    eps: float = 1e-5
    theta: float = 10_000.0
    seed: int = 7

    @property
    def head_width(self) -> int:
        return self.width // self.heads


@dataclasses.dataclass(frozen=True)
class Written:
    """A file together with its weights as they were stored (rounded to the file's type)."""

    path: Path
    shape: Shape
    weights: dict[str, NDArray[np.float32]]


def write_model(path: Path, shape: Shape | None = None) -> Written:
    """Write a model file and return it with its stored weights."""
    shape = shape or Shape()
    writer = gguf.GGUFWriter(str(path), shape.architecture)
    writer.add_name("random")
    writer.add_file_type(FILE_TYPES[shape.dtype])
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.eps)
    writer.add_rope_freq_base(shape.theta)
    (_write_bpe if shape.tokenizer == "bpe" else _write_spm)(writer, shape)
    if shape.chat_template is not None:
        writer.add_chat_template(shape.chat_template)
    stored = {
        name: _store(writer, name, array, shape) for name, array in _random_weights(shape).items()
    }
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Written(path, shape, stored)


def _store(
    writer: gguf.GGUFWriter, name: str, array: NDArray[np.float32], shape: Shape
) -> NDArray[np.float32]:
    if array.ndim == 1 or shape.dtype == "f32":
        writer.add_tensor(name, array)
        return array
    if shape.dtype == "f16":
        half = array.astype(np.float16)
        writer.add_tensor(name, half)
        return half.astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q8_0
    packed = gguf.quants.quantize(array, kind)
    writer.add_tensor(name, packed, raw_dtype=kind)
    return np.asarray(gguf.quants.dequantize(packed, kind), np.float32)


def _random_weights(shape: Shape) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(shape.seed)

    def matrix(rows: int, columns: int, gain: float = 1.0) -> NDArray[np.float32]:
        return rng.standard_normal((rows, columns), np.float32) * np.float32(
            gain / np.sqrt(columns)
        )

    def gain() -> NDArray[np.float32]:
        return rng.uniform(0.8, 1.2, shape.width).astype(np.float32)

    kv_width = shape.kv_heads * shape.head_width
    alive = 0.0 if shape.bigram else 1.0
    weights = {"token_embd.weight": matrix(shape.vocabulary, shape.width, np.sqrt(shape.width))}
    for layer in range(shape.layers):
        block = {
            "attn_norm": gain(),
            "attn_q": matrix(shape.width, shape.width),
            "attn_k": matrix(kv_width, shape.width),
            "attn_v": matrix(kv_width, shape.width),
            "attn_output": matrix(shape.width, shape.width, alive),
            "ffn_norm": gain(),
            "ffn_gate": matrix(shape.hidden, shape.width),
            "ffn_up": matrix(shape.hidden, shape.width),
            "ffn_down": matrix(shape.width, shape.hidden, alive),
        }
        weights |= {f"blk.{layer}.{name}.weight": array for name, array in block.items()}
    weights["output_norm.weight"] = gain()
    weights["output.weight"] = matrix(shape.vocabulary, shape.width, 2.0)
    if shape.nan:
        weights["blk.0.attn_q.weight"][0, 0] = np.nan
    return weights


def _made_up_words() -> list[str]:
    syllables = ["".join(parts) for parts in product("bdgklmnprst", "aeiou", ("", "n", "r", "s"))]
    return [first + second for first, second in product(syllables, syllables)]


def _write_bpe(writer: gguf.GGUFWriter, shape: Shape) -> None:
    table = {byte: letter for letter, byte in byte_letters().items()}
    tokens = ["<|start|>", "<|turn|>", "<|end|>", *(table[byte] for byte in range(256))]
    kinds = [CONTROL] * 3 + [NORMAL] * 256
    known, merges = set(tokens), []
    spaced = [form for word in [*WORDS, *_made_up_words()] for form in (" " + word, word)]
    for word in spaced:
        symbols = [table[byte] for byte in word.encode()]
        for length in range(2, len(symbols) + 1):
            piece = "".join(symbols[:length])
            if piece not in known and len(tokens) < shape.vocabulary:
                known.add(piece)
                tokens.append(piece)
                kinds.append(NORMAL)
                merges.append(f"{''.join(symbols[: length - 1])} {symbols[length - 1]}")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(shape.bos)


def _write_spm(writer: gguf.GGUFWriter, shape: Shape) -> None:
    tokens = ["<unk>", "<s>", "<|end|>", "<|turn|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [UNKNOWN, CONTROL, CONTROL, CONTROL, *[BYTE] * 256]
    pieces: dict[str, None] = dict.fromkeys(["▁", *map(chr, range(33, 127))])
    for word in [*WORDS, *_made_up_words()]:
        for form in ("▁" + word, word):
            pieces |= dict.fromkeys(form[:length] for length in range(1, len(form) + 1))
    chosen = list(pieces)[: shape.vocabulary - len(tokens)]
    scores = [0.0] * len(tokens) + [-float(rank) for rank in range(len(chosen))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + chosen)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds + [NORMAL] * len(chosen))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(shape.bos)
    writer.add_add_space_prefix(True)


def _normalised(x: Floats, gain: NDArray[np.floating[Any]], eps: float) -> Floats:
    return np.asarray(x / np.sqrt(np.mean(x**2, -1, keepdims=True) + eps) * gain)


def _rotated(x: Floats, theta: float) -> Floats:
    """Apply rotary positions to neighbouring pairs; `x` has shape (tokens, heads, width)."""
    tokens, _, width = x.shape
    angle = np.arange(tokens)[:, None] * theta ** (-np.arange(0, width, 2) / width)
    turn = np.exp(1j * angle)[:, None, :]
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * turn
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def forward_logits(model: Written, ids: list[int]) -> Floats:
    """Return the logits at every position, shape (tokens, vocabulary)."""
    shape, tokens = model.shape, len(ids)
    weights = {name: array.astype(np.float64) for name, array in model.weights.items()}
    x = weights["token_embd.weight"][ids]
    future = np.where(np.arange(tokens)[None] > np.arange(tokens)[:, None], -np.inf, 0.0)
    for layer in range(shape.layers):
        block = {
            name.split(".")[2]: array
            for name, array in weights.items()
            if name.startswith(f"blk.{layer}.")
        }
        h = _normalised(x, block["attn_norm"], shape.eps)
        q, k, v = (
            (h @ block[name].T).reshape(tokens, -1, shape.head_width)
            for name in ("attn_q", "attn_k", "attn_v")
        )
        q, k = _rotated(q, shape.theta), _rotated(k, shape.theta)
        mixed = np.empty_like(q)
        for head in range(shape.heads):
            shared = head // (shape.heads // shape.kv_heads)
            weight = q[:, head] @ k[:, shared].T / np.sqrt(shape.head_width) + future
            weight = np.exp(weight - weight.max(-1, keepdims=True))
            mixed[:, head] = weight / weight.sum(-1, keepdims=True) @ v[:, shared]
        x = x + mixed.reshape(tokens, -1) @ block["attn_output"].T
        h = _normalised(x, block["ffn_norm"], shape.eps)
        gate = h @ block["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ block["ffn_up"].T)) @ block["ffn_down"].T
    return np.asarray(
        _normalised(x, weights["output_norm.weight"], shape.eps) @ weights["output.weight"].T
    )


def log_softmax(logits: Floats) -> Floats:
    """Return natural-log probabilities along the last axis."""
    top = logits.max(-1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True)))


def next_logprobs(model: Written, ids: list[int]) -> Floats:
    """Return the next token's log-probabilities at each position, shape (tokens, vocabulary)."""
    return log_softmax(forward_logits(model, ids))


def bigram_logprobs(model: Written, ids: list[int]) -> Floats:
    """Return the same for a bigram model in closed form: only the last token matters."""
    embedded = model.weights["token_embd.weight"][ids].astype(np.float64)
    hidden = _normalised(embedded, model.weights["output_norm.weight"], model.shape.eps)
    return log_softmax(np.asarray(hidden @ model.weights["output.weight"].T.astype(np.float64)))


def ids_of(model: Written, prompt: str, continuation: str) -> tuple[list[int], int]:
    """The ids of both together and where the continuation begins, as the package tokenizes them."""
    settings = LocalSettings(n_ctx=64, n_gpu_layers=0)
    loaded = Loader(LocalRules("model", "error"), str(model.path), settings)()
    before = loaded.tokenizer.prompt(ContinuationRequest(prompt=prompt, continuation=continuation))
    joint = before.encode_with(continuation)
    loaded.close()
    return [int(token) for token in joint], common_prefix(before.ids, joint)
