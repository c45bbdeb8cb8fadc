"""Cuts the evaluation of a token sequence into batches in a way that cannot change its result.

llama.cpp runs other kernels for one row than for several, and they round differently. So no batch holds a single
token, and none asks for the logits of a single token, unless the sequence itself has only one.
"""

from __future__ import annotations

from typing import NamedTuple

SMALLEST_LIMIT = 8
"""Least batch size and least number of outputs a plan works with."""


class Chunk(NamedTuple):
    """Tokens `start` to `stop` are decoded together; logits are wanted from `output` on."""

    start: int
    stop: int
    output: int


def reusable(shared: int, first: int, length: int) -> int:
    """Return how many evaluated tokens may stay, given how many agree.

    Args:
        shared: Length of the longest common prefix with what is evaluated.
        first: First position whose logits are wanted.
        length: Number of tokens in the sequence.
    """
    return max(0, min(shared, first, length - 2))


def plan(kept: int, first: int, length: int, *, batch: int, outputs: int) -> list[Chunk]:
    """Return the batches that evaluate tokens `kept` to `length`.

    Args:
        kept: Tokens that are evaluated already; at most `reusable(...)`.
        first: First position whose logits are wanted; at most `length - 2` unless `length` is 1.
        length: Number of tokens in the sequence.
        batch: Most tokens in one batch, at least `SMALLEST_LIMIT`.
        outputs: Most logit rows of one batch, at least `SMALLEST_LIMIT`.
    """
    chunks, start = [], kept
    while start < length:
        stop = min(length, start + batch)
        if stop > first:
            stop = min(stop, max(first, start) + outputs)
        if length - stop == 1:
            stop -= 1
        if stop < length and stop - max(first, start) == 1:
            stop -= 1
        chunks.append(Chunk(start, stop, min(max(first, start), stop)))
        start = stop
    return chunks
