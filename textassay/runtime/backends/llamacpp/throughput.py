"""Throughput mode.

Several sequences in one batch, for GPUs, where one short sequence leaves most of the chip idle.

What shares a batch changes the rounding, so scores differ a little from exact mode's and between
runs. Texts to score are taken in groups: sequence 0 evaluates what a group shares, and the others
start as copies of it. Answers are written side by side, each on a sequence of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from textassay.runtime.backends.llamacpp.engine import Abandoned, LlamaEngine, reusable
from textassay.runtime.backends.local.generation import Draft, Generation
from textassay.runtime.backends.local.scoring import Evaluation, LogitRow
from textassay.runtime.backends.local.tokens import Ids, common_prefix, sort_key
from textassay.runtime.errors import TextassayError

_WORTH_A_COPY = 64
"""Tokens that a copy must save: a copy takes the time of a whole sequence's memory."""


def score_together(
    engine: LlamaEngine, evaluations: Sequence[Evaluation], abandoned: Callable[[], bool]
) -> None:
    """Evaluate all, in groups of as many as there are sequences, and fill in what they found."""
    # Sorted by ids, neighbors share their longest prefixes, and a group is evaluated from its
    # common one.
    ordered = sorted(evaluations, key=lambda evaluation: sort_key(evaluation.ids))
    for start in range(0, len(ordered), engine.sequences):
        _score_group(engine, ordered[start : start + engine.sequences], abandoned)


def _score_group(
    engine: LlamaEngine, group: Sequence[Evaluation], abandoned: Callable[[], bool]
) -> None:
    leader = group[0].ids
    shared = min(reusable(common_prefix(leader, one.ids), one.first, len(one.ids)) for one in group)
    _evaluate_prefix(engine, leader[:shared], abandoned)
    for sequence in range(1, len(group)):
        # Left over from the group before: cheaper to cut back than to copy.
        if shared and common_prefix(engine.cached[sequence], leader) >= shared:
            engine.rewind(sequence, shared)
        else:
            engine.share(sequence)
    pending = [_Tail(sequence, one, shared) for sequence, one in enumerate(group)]
    while pending:
        if abandoned():
            raise Abandoned
        pending = _decode_some(engine, pending)


def _evaluate_prefix(engine: LlamaEngine, prefix: Ids, abandoned: Callable[[], bool]) -> None:
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


def _decode_some(engine: LlamaEngine, pending: Sequence[_Tail]) -> list[_Tail]:
    """Fill one batch with the tails in order, decode it and read it; return what is left."""
    engine.batch.clear()
    taken: list[tuple[Evaluation, int, int]] = []
    left: list[_Tail] = []
    for tail in pending:
        ids, first = tail.evaluation.ids, tail.evaluation.first
        stop = min(len(ids), tail.start + engine.batch_tokens - engine.batch.tokens)
        # llama.cpp aborts the process when a batch asks for more rows of logits than were reserved.
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


def write_together(
    engine: LlamaEngine, generations: Sequence[Generation], abandoned: Callable[[], bool]
) -> None:
    """Write all samples of all requests; a sequence that has finished takes the next one at once.

    A request that fails keeps its error and leaves the others alone.
    """
    waiting: deque[_Waiting] = deque()
    for generation in generations:
        try:
            waiting.extend(_Waiting(generation, draft) for draft in generation.begin())
        except TextassayError as error:
            generation.error = error
    try:
        _write_all(engine, waiting, abandoned)
    finally:
        for generation in generations:
            generation.close()


class _Waiting(NamedTuple):
    """A sample that is still to be written."""

    generation: Generation
    draft: Draft


@dataclass
class _Growing:
    """A sample being written on a sequence, with its next token to decode."""

    sample: _Waiting
    token: int
    position: int


def _write_all(
    engine: LlamaEngine, waiting: deque[_Waiting], abandoned: Callable[[], bool]
) -> None:
    growing: dict[int, _Growing] = {}
    first_rows: dict[int, LogitRow] = {}  # what follows each prompt, for its further samples
    try:
        while waiting or growing:
            if abandoned():
                raise Abandoned
            while waiting and len(growing) < engine.sequences:
                sample = waiting.popleft()
                if sample.generation.error is not None:
                    continue
                ids, request = sample.generation.ids, id(sample.generation)
                free = [s for s in range(engine.sequences) if s not in growing]
                # The free sequence that still holds most of this prompt.
                sequence = max(free, key=lambda s: common_prefix(engine.cached[s], ids))
                known = first_rows.get(request)
                row = first_rows[request] = _begin(engine, sequence, ids, known, abandoned)
                token = _grown(sample, row)
                if token is not None:
                    growing[sequence] = _Growing(sample, token, len(ids))
            _step(engine, growing)
    finally:
        for sequence, one in growing.items():
            engine.rewind(sequence, len(one.sample.generation.ids))


def _begin(
    engine: LlamaEngine,
    sequence: int,
    ids: Ids,
    known: LogitRow | None,
    abandoned: Callable[[], bool],
) -> LogitRow:
    """Bring a sequence to exactly `ids` and return the logits that follow.

    If another sequence holds more of `ids`, its memory is copied.
    """
    shared = [common_prefix(cached, ids) for cached in engine.cached]
    donor = max(range(engine.sequences), key=shared.__getitem__)
    if shared[donor] >= shared[sequence] + _WORTH_A_COPY:
        engine.share(sequence, donor)
        shared[sequence] = shared[donor]
    if known is not None and engine.rewind(sequence, shared[sequence]) == len(ids):
        return known
    return engine.last_row(ids, abandoned, sequence=sequence)


def _step(engine: LlamaEngine, growing: dict[int, _Growing]) -> None:
    """Decode one token of every sample; those that are finished leave their sequence."""
    if not growing:
        return
    engine.batch.clear()
    for sequence, one in growing.items():
        engine.batch.add(sequence, np.array([one.token], np.int32), one.position, one.position)
    for row, (sequence, one) in zip(engine.decode(), list(growing.items()), strict=True):
        token = _grown(one.sample, row)
        if token is None:
            del growing[sequence]
            engine.rewind(sequence, len(one.sample.generation.ids))
        else:
            growing[sequence] = _Growing(one.sample, token, one.position + 1)


def _grown(sample: _Waiting, row: LogitRow) -> int | None:
    """Return the sample's next token, `None` if it is finished or its request has failed."""
    if sample.generation.error is not None:
        return None
    try:
        return sample.draft.grow(row)
    except TextassayError as error:  # belongs to this request alone
        sample.generation.error = error
        return None
