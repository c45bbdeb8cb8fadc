"""Cuts the evaluation of a token sequence into batches in a way that cannot change its result.

llama.cpp runs other kernels for few rows than for many, and they round differently: for one row
with every type, for fewer than eight with the K-quants (measured on CPUs, 0.2 in a log-probability
of a random model), and on CUDA for up to eight (`MMVQ_MAX_BATCH_SIZE` in ggml-cuda/mmvq.cuh). So no
batch holds fewer than `MIN_ROWS` tokens, none asks for the logits of fewer, and what a shorter
sequence left behind is not built upon. A sequence that is shorter itself is always evaluated whole.
"""

from __future__ import annotations

from typing import NamedTuple

MIN_ROWS = 9
"""Fewest rows that go through the kernels together; CPU kernels need 8 and CUDA's 9."""

MIN_LIMIT = 4 * MIN_ROWS
"""Least batch size and least number of outputs a plan works with."""


class Chunk(NamedTuple):
    """Tokens `start` to `stop` are decoded together; logits are wanted from `output` on."""

    start: int
    stop: int
    output: int


def first_output(first: int, length: int) -> int:
    """Return the first position whose logits to compute, at most `first`.

    The batch must hold at least `MIN_ROWS` outputs.
    """
    return max(0, min(first, length - MIN_ROWS))


def reusable(shared: int, first: int, length: int) -> int:
    """Return how many evaluated tokens may stay, given how many agree.

    Args:
        shared: Length of the longest common prefix with what is evaluated.
        first: First position whose logits are wanted.
        length: Number of tokens in the sequence.
    """
    kept = min(shared, first_output(first, length))
    # A shorter stretch was computed by the kernels for few rows.
    return kept if kept >= MIN_ROWS else 0


def plan_batches(kept: int, first: int, length: int, *, batch: int, outputs: int) -> list[Chunk]:
    """Return the batches that evaluate tokens `kept` to `length`.

    Args:
        kept: Tokens that are evaluated already; what `reusable` returned.
        first: First position whose logits are wanted.
        length: Number of tokens in the sequence.
        batch: Maximum tokens in one batch, at least `MIN_LIMIT`.
        outputs: Maximum logit rows of one batch, at least `MIN_LIMIT`.
    """
    output = first_output(first, length)
    chunks, start = [], kept
    while start < length:
        stop = min(length, start + batch)
        if stop > output:
            stop = min(stop, max(output, start) + outputs)
        # Shorten this batch rather than leave a last one with too few rows.
        if 0 < length - stop < MIN_ROWS:
            stop = length - MIN_ROWS
        # Too few outputs in this batch: it ends before the first, and the next one has them all.
        if stop < length and 0 < stop - max(output, start) < MIN_ROWS:
            stop = output
        chunks.append(Chunk(start, stop, min(max(output, start), stop)))
        start = stop
    return chunks
