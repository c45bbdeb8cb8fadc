"""The network: llama's architecture over contexts and branches, copying wired in beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.encoding import CONTEXT, Branch

EPSILON = 1e-5


@dataclass(frozen=True)
class Shape:
    """Size of the network.

    Attributes:
        vocabulary: Number of tokens.
        width: Of the residual stream.
        layers: Number of blocks.
        heads: Attention heads in each.
        hidden: Width of the feed-forward part.
        base: Of the rotary positions.
        longest: Number of positions.
    """

    vocabulary: int = 4096
    width: int = 256
    layers: int = 5
    heads: int = 4
    hidden: int = 704
    base: float = 500_000.0
    longest: int = 1024

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.width // self.heads


@dataclass(frozen=True)
class Batch:
    """Contexts with branches, without padding, and where each token lies in the padded ones.

    Attributes:
        ids: Tokens [tokens], all contexts first.
        targets: What follows each [tokens].
        why: Why that is to be learned [tokens].
        places: Positions [tokens].
        contexts: Number of contexts and padded length.
        branches: Number of branches and padded length.
        at_context: Place of each context token among the padded ones.
        at_branch: Place of each branch token among the padded ones.
        owner: Context of each branch [branches].
        mask: What a branch's tokens see, their context first; added to scores [branches, 1, length,
            both lengths].
    """

    ids: Tensor
    targets: Tensor
    why: Tensor
    places: Tensor
    contexts: tuple[int, int]
    branches: tuple[int, int]
    at_context: Tensor
    at_branch: Tensor
    owner: Tensor
    mask: Tensor

    def to(self, device: str) -> Batch:
        """Return the batch on a device."""
        tensors = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **tensors)


def batch_of(
    contexts: Sequence[np.ndarray], branches: Sequence[Sequence[Branch]], learn_context: bool = True
) -> Batch:
    """Lay contexts and the branches of each out for the network."""
    flat = [branch for group in branches for branch in group]
    owner = np.repeat(np.arange(len(contexts)), [len(group) for group in branches])
    long_context, long_branch = max(map(len, contexts)), max(len(branch.ids) for branch in flat)
    lengths = np.array([len(context) for context in contexts])
    mask = np.full((len(flat), long_branch, long_context + long_branch), -np.inf, dtype=np.float32)
    for row, (branch, of) in enumerate(zip(flat, owner, strict=True)):
        n = len(branch.ids)
        mask[row, :, : lengths[of]] = 0
        sees = (branch.question[None, :] == 0) | (
            branch.question[None, :] == branch.question[:, None]
        )
        mask[row, :n, long_context : long_context + n][
            np.tril(np.ones((n, n), dtype=bool)) & sees
        ] = 0
    why = [
        np.full(len(context), CONTEXT if learn_context else 0, dtype=np.int64)
        for context in contexts
    ]
    for marks in why:
        marks[-1] = 0
    targets = [np.append(context[1:], 0) for context in contexts] + [
        branch.targets for branch in flat
    ]
    places = [np.arange(n) for n in lengths] + [
        branch.places + lengths[of] for branch, of in zip(flat, owner, strict=True)
    ]

    def joined(parts: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts).astype(np.int64))

    return Batch(
        ids=joined([*contexts, *(branch.ids for branch in flat)]),
        targets=joined(targets),
        why=joined([*why, *(branch.why for branch in flat)]),
        places=joined(places),
        contexts=(len(contexts), long_context),
        branches=(len(flat), long_branch),
        at_context=joined([i * long_context + np.arange(n) for i, n in enumerate(lengths)]),
        at_branch=joined(
            [i * long_branch + np.arange(len(branch.ids)) for i, branch in enumerate(flat)]
        ),
        owner=torch.from_numpy(owner),
        mask=torch.from_numpy(mask)[:, None],
    )


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn adjacent pairs by their position's angle, as llama.cpp does for this architecture."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Block(nn.Module):
    """One layer: attention, then the feed-forward part, each on a normed copy of the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, hidden = shape.width, shape.hidden
        self.attention_norm, self.hidden_norm = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.query, self.key, self.value, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, batch: Batch) -> Tensor:
        """Return the stream [tokens, width] after the layer."""
        normed = F.rms_norm(x, (self.shape.width,), self.attention_norm.to(x.dtype), EPSILON)
        heads = (self.shape.heads, self.shape.head)
        query = rotate(self.query(normed).unflatten(-1, heads), cos, sin)
        key = rotate(self.key(normed).unflatten(-1, heads), cos, sin)
        value = self.value(normed).unflatten(-1, heads)
        x = x + self.output(self._attend(query, key, value, batch))
        normed = F.rms_norm(x, (self.shape.width,), self.hidden_norm.to(x.dtype), EPSILON)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, batch: Batch) -> Tensor:
        n = len(batch.at_context)

        def padded(x: Tensor, places: Tensor, size: tuple[int, int]) -> Tensor:
            whole = x.new_zeros(size[0] * size[1], *x.shape[1:]).index_copy(0, places, x)
            return whole.view(*size, *x.shape[1:]).transpose(1, 2)

        of_context = [padded(x[:n], batch.at_context, batch.contexts) for x in (query, key, value)]
        of_branch = [padded(x[n:], batch.at_branch, batch.branches) for x in (query, key, value)]
        seen = F.scaled_dot_product_attention(
            of_context[0], of_context[1], of_context[2], is_causal=True
        )
        keys, values = (
            torch.cat((of_context[i].index_select(0, batch.owner), of_branch[i]), 2) for i in (1, 2)
        )
        branched = F.scaled_dot_product_attention(
            of_branch[0], keys, values, attn_mask=batch.mask.to(keys.dtype)
        )

        def flat(x: Tensor, places: Tensor) -> Tensor:
            return x.transpose(1, 2).flatten(2).flatten(0, 1).index_select(0, places)

        return torch.cat((flat(seen, batch.at_context), flat(branched, batch.at_branch)))


class Network(nn.Module):
    """Tokens in, the stream that the embedding turns into scores of the next token out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))
        pairs = torch.arange(0, shape.head, 2) / shape.head
        self.register_buffer("speeds", shape.base**-pairs, persistent=False)

    def forward(self, batch: Batch) -> Tensor:
        """Return the normed stream [tokens, width]."""
        x = self.embedding(batch.ids)
        if torch.is_autocast_enabled(x.device.type):
            x = x.bfloat16()
        angles = batch.places[:, None].float() * self.speeds
        cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin, batch)
        return F.rms_norm(x, (self.shape.width,), self.norm.to(x.dtype), EPSILON)

    def scores(self, stream: Tensor) -> Tensor:
        """Return the logits of the next token [tokens, vocabulary]."""
        return stream @ self.embedding.weight.to(stream.dtype).T


LENGTH = 8.0
"""Norm of an embedding: large beside what an update writes, so that copying outlives the first
steps."""
CONSTANT = 0.5
"""Share of `LENGTH` in the last coordinate, which is the same for every token."""


@torch.no_grad()
def wire(network: Network, seed: int) -> None:
    """Set the weights so that the network copies before it has learned anything.

    Layer 0, head 0 looks one token back: query and key read the constant coordinate, turned against
    each other by one position, and it writes the token found there into coordinates that embeddings
    leave free. Layer 1, three heads, look for the place whose predecessor was the present token, on
    the slow pairs alone so that distance hardly counts, and write what stands there. All other
    attention and all feed-forward outputs start at 0.
    """
    shape = network.shape
    width, head = shape.width, shape.head
    own = 3 * head
    free = width - 1 - own
    source = torch.Generator().manual_seed(seed)

    def gaussian(rows: int, columns: int, scale: float) -> Tensor:
        return torch.randn(rows, columns, generator=source) * scale

    def orthogonal(rows: int, columns: int) -> Tensor:
        basis, _ = torch.linalg.qr(
            torch.randn(max(rows, columns), min(rows, columns), generator=source)
        )
        return basis if rows >= columns else basis.T

    words = torch.zeros(shape.vocabulary, width)
    words[:, :own] = F.normalize(gaussian(shape.vocabulary, own, 1.0), dim=1) * LENGTH
    words[:, -1] = CONSTANT * LENGTH
    network.embedding.weight.copy_(words)
    network.norm.fill_(0.07)
    for block in network.blocks:
        for linear in (block.query, block.key, block.value, block.gate, block.up):
            linear.weight.copy_(
                gaussian(
                    linear.weight.shape[0], linear.weight.shape[1], linear.weight.shape[1] ** -0.5
                )
            )
        block.output.weight.zero_()
        block.down.weight.zero_()

    size = math.sqrt(1 + CONSTANT**2)
    """Norm of an embedding in units of `LENGTH`; a normed stream has `sqrt(width) / size` times the
    embedding's own."""
    store = orthogonal(free, own)
    first = network.blocks[0]
    for linear in (first.query, first.key, first.value):
        linear.weight[:head] = 0
    steep = 1.05 * math.sqrt(8 * math.sqrt(head)) / (CONSTANT / size * math.sqrt(width))
    for pair in range(8):
        step = float(network.speeds[pair])
        first.query.weight[2 * pair, -1] = steep * math.cos(step)
        first.query.weight[2 * pair + 1, -1] = -steep * math.sin(step)
        first.key.weight[2 * pair, -1] = steep
    first.value.weight[:free, :own] = store
    written = math.sqrt(width) / size * math.sqrt(free / own)
    first.output.weight[own : own + free, :free] = torch.eye(free) * (LENGTH / written)

    second = network.blocks[1]
    slow = head // 2
    for number in range(3):
        rows = slice(number * head, (number + 1) * head)
        for linear in (second.query, second.key, second.value):
            linear.weight[rows] = 0
        match = orthogonal(head - slow, free)
        late = slice(number * head + slow, (number + 1) * head)
        second.query.weight[late, :own] = 1.7 * math.sqrt(own / free) * match @ store
        second.key.weight[late, own : own + free] = 1.7 * match
        second.value.weight[rows, rows] = torch.eye(head)
        second.output.weight[rows, rows] = torch.eye(head) * (2 * LENGTH / math.sqrt(width))
