"""Reads a GGUF file back into the network, for the log-probabilities of the training framework."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer

from training.encoding import SPECIAL, Branch, byte_level
from training.export import parameters
from training.network import Network, Shape, batch_of


def read_back(path: Path) -> Network:
    """Return the network that a GGUF file holds, its weights in f32 as they are stored."""
    reader = GGUFReader(str(path))

    def field(name: str) -> float:
        return float(reader.fields[f"llama.{name}"].contents())

    stored = {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    shape = Shape(
        vocabulary=int(field("vocab_size")),
        width=int(field("embedding_length")),
        layers=int(field("block_count")),
        heads=int(field("attention.head_count")),
        hidden=int(field("feed_forward_length")),
        base=field("rope.freq_base"),
        longest=int(field("context_length")),
    )
    network = Network(shape)
    with torch.no_grad():
        for name, parameter in parameters(network).items():
            parameter.copy_(
                torch.from_numpy(np.array(stored[name], dtype=np.float32)).view_as(parameter)
            )
    return network


def read_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer that a GGUF file holds."""
    fields = GGUFReader(str(path)).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = byte_level({token: i for i, token in enumerate(tokens)}, merges)
    tokenizer.add_special_tokens(list(SPECIAL))  # which keep the numbers that they have
    return tokenizer


def weights_of(path: Path) -> str:
    """Return the type of a GGUF file's matrices: `f32`, `f16` or `q8_0`."""
    kinds = {
        tensor.tensor_type.name.lower()
        for tensor in GGUFReader(str(path)).tensors
        if len(tensor.shape) > 1
    }
    (kind,) = kinds
    return kind


@torch.no_grad()
def log_probabilities(network: Network, given: list[int], scored: list[int]) -> list[float]:
    """Return the natural log-probability of each scored token behind the given ones.

    Those open with the end mark.
    """
    n = len(scored)
    branch = Branch(
        ids=np.array([given[-1], *scored[:-1]]),
        targets=np.array(scored),
        why=np.ones(n, dtype=np.int8),
        question=np.zeros(n, dtype=np.int8),
        places=np.arange(n),
        aspects=(),
    )
    batch = batch_of([np.array(given[:-1])], [[branch]], learn_context=False)
    scores = network.scores(network(batch))[len(given) - 1 :].double()
    found = torch.log_softmax(scores, -1)[torch.arange(n), torch.tensor(scored)]
    return [float(value) for value in found]
