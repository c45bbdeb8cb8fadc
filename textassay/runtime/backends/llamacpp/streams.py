"""Throughput mode: several sequences in one batch, for GPUs, where one short sequence leaves most of the chip idle.

What shares a batch changes the rounding, so scores differ a little from exact mode's and between
runs. Sequence 0 evaluates what the group shares; the others start as copies of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from textassay.runtime.backends.llamacpp.chunks import reusable
from textassay.runtime.backends.llamacpp.engine import Abandoned, Engine, common_prefix
from textassay.runtime.backends.llamacpp.generation import Draft, Generation
from textassay.runtime.backends.llamacpp.logprobs import Evaluation
from textassay.runtime.backends.llamacpp.weights import Ids


def score_together(
    engine: Engine, evaluations: Sequence[Evaluation], abandoned: Callable[[], bool]
) -> None:
    """Evaluate all, in groups of as many as there are sequences, and fill in what they found."""
    ordered = sorted(evaluations, key=lambda evaluation: evaluation.ids.astype(">u4").tobytes())
    for start in range(0, len(ordered), engine.sequences):
        _score_group(engine, ordered[start : start + engine.sequences], abandoned)


def _score_group(
    engine: Engine, group: Sequence[Evaluation], abandoned: Callable[[], bool]
) -> None:
    leader = group[0].ids
    shared = min(reusable(common_prefix(leader, one.ids), one.first, len(one.ids)) for one in group)
    _evaluate_prefix(engine, leader[:shared], abandoned)
    for sequence in range(1, len(group)):
        if shared and common_prefix(engine.cached[sequence], leader) >= shared:
            engine.rewind(sequence, shared)
        else:
            engine.share(sequence)
    pending = [_Tail(sequence, one, shared) for sequence, one in enumerate(group)]
    while pending:
        if abandoned():
            raise Abandoned
        pending = _decode_some(engine, pending)


def _evaluate_prefix(engine: Engine, prefix: Ids, abandoned: Callable[[], bool]) -> None:
    """Bring the first sequence to exactly `prefix`."""
    kept = engine.rewind(0, common_prefix(engine.cached[0], prefix))
    for start in range(kept, len(prefix), engine.batch_tokens):
        if abandoned():
            raise Abandoned
        part = prefix[start : start + engine.batch_tokens]
        engine.batch.clear()
        engine.batch.add(0, part, start, len(prefix))
        engine.decode()
        engine.cached[0] = prefix[: start + len(part)]


class _Tail(NamedTuple):
    """What is left to evaluate of one sequence, from `start` on."""

    sequence: int
    evaluation: Evaluation
    start: int


def _decode_some(engine: Engine, pending: Sequence[_Tail]) -> list[_Tail]:
    """Fill one batch with the tails in order, decode it and read it; return what is left."""
    engine.batch.clear()
    taken: list[tuple[Evaluation, int, int]] = []
    left: list[_Tail] = []
    for tail in pending:
        ids, first = tail.evaluation.ids, tail.evaluation.first
        stop = min(len(ids), tail.start + engine.batch_tokens - engine.batch.tokens)
        stop = min(stop, max(first, tail.start) + engine.most_outputs - engine.batch.outputs)
        if stop > tail.start:
            before = engine.batch.outputs
            engine.batch.add(tail.sequence, ids[tail.start : stop], tail.start, first)
            taken.append((tail.evaluation, max(first, tail.start), engine.batch.outputs - before))
            engine.cached[tail.sequence] = ids[:stop]
        if stop < len(ids):
            left.append(tail._replace(start=max(stop, tail.start)))
    rows, place = engine.decode(), 0
    for evaluation, position, count in taken:
        evaluation.take(position, rows[place : place + count])
        place += count
    return left


def generate_together(
    engine: Engine, generations: Sequence[Generation], abandoned: Callable[[], bool]
) -> None:
    """Write all samples of all requests, as many at a time as there are sequences beside the first."""
    waiting = [(generation, draft) for generation in generations for draft in generation.begin()]
    try:
        for start in range(0, len(waiting), engine.sequences - 1):
            _write_group(engine, waiting[start : start + engine.sequences - 1], abandoned)
    finally:
        for generation in generations:
            generation.close()
        for sequence in range(1, engine.sequences):
            engine.rewind(sequence, 0)


def _write_group(
    engine: Engine, group: Sequence[tuple[Generation, Draft]], abandoned: Callable[[], bool]
) -> None:
    growing: list[tuple[int, Draft, int]] = []
    tokens: list[int] = []
    for sequence, (generation, draft) in enumerate(group, start=1):
        token = draft.grow(engine.last_row(generation.ids, abandoned))
        engine.share(sequence)
        if token is not None:
            growing.append((sequence, draft, len(generation.ids)))
            tokens.append(token)
    while growing:
        if abandoned():
            raise Abandoned
        engine.batch.clear()
        for (sequence, _, position), token in zip(growing, tokens, strict=True):
            engine.batch.add(sequence, np.array([token], np.int32), position, position)
        picked = [
            (draft.grow(row), place)
            for row, place in zip(engine.decode(), growing, strict=True)
            for draft in [place[1]]
        ]
        growing = [
            (s, draft, position + 1) for token, (s, draft, position) in picked if token is not None
        ]
        tokens = [token for token, _ in picked if token is not None]
