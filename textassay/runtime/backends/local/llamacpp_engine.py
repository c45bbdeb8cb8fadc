"""Evaluates texts with llama.cpp: exactly on one sequence, or on several at once.

Exact mode keeps the longest common prefix of the request before. A score has the same bits after
any other requests, because everything that could change it is excluded: flash attention (its result
depends on how a sequence was cut), a batch of few rows (see `plan_batches`), other requests in the
batch, and weights repacked for the CPU (see `Weights`). Sampled tokens are decoded one by one, so
they are forgotten when their request ends.

Throughput mode is for GPUs, where one short sequence leaves most of the chip idle. Other sequences
in a batch change the rounding, so scores differ a little from exact mode's and between runs. Texts
to score are taken in groups (`score_together`): sequence 0 evaluates the prefix that a group
shares, and the others start as copies of it. Answers are written side by side (`write_together`),
each on a sequence of its own.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.llamacpp_library import (
    KvType,
    Weights,
    forget_log,
    library,
    recent_log,
)
from textassay.runtime.backends.local.scoring import Evaluation, Generation, LogitRow, PartialAnswer
from textassay.runtime.backends.local.tokens import Ids, common_prefix, sort_key
from textassay.runtime.errors import ConfigurationError, FatalModelError, TextassayError

BATCH = 512
"""Tokens evaluated together: llama.cpp's own default (`n_ubatch`)."""
MIN_ROWS = 9
"""Fewest rows that go through the kernels together; CPU kernels need 8, CUDA kernels 9, see
`plan_batches`. The CPU time of a request is equal with 2, 9 and 36 (58.7 to 61.0 ms)."""
MIN_LIMIT = 3 * MIN_ROWS
"""Least batch size and least number of outputs of a plan: with fewer than 25, some plans have a
batch of fewer than `MIN_ROWS` (all plans of up to 200 tokens were counted)."""


class Abandoned(Exception):
    """The caller no longer waits for the result."""


def never() -> bool:
    """Return `False`: the caller still waits."""
    return False


class Chunk(NamedTuple):
    """Tokens `start` to `stop` are decoded together; logits are wanted from `output` on."""

    start: int
    stop: int
    output: int


def first_output(first: int, length: int) -> int:
    """Return the first position whose logits to compute, for at least `MIN_ROWS` outputs."""
    return max(0, min(first, length - MIN_ROWS))


def reusable(shared: int, first: int, length: int) -> int:
    """Return how many evaluated tokens may stay, given how many agree."""
    count = min(shared, first_output(first, length))
    # A shorter stretch was computed by the kernels for few rows.
    return count if count >= MIN_ROWS else 0


def plan_batches(kept: int, first: int, length: int, *, batch: int, outputs: int) -> list[Chunk]:
    """Return the batches that evaluate tokens `kept` to `length` with logits from `first` on.

    They are cut in a way that cannot change the result. llama.cpp has other kernels for few rows
    than for many, which round differently: for one row with every type, for fewer than eight
    with the K-quants (measured on CPUs, 0.2 in a log-probability of a random model), and on CUDA
    for up to eight (`MMVQ_MAX_BATCH_SIZE` in ggml-cuda/mmvq.cuh). So a batch has `MIN_ROWS` tokens
    or more, asks for the logits of as many, and never continues a shorter sequence. A sequence that
    is shorter itself is always evaluated whole.
    A batch has at most `batch` tokens and `outputs` rows of logits, each at least `MIN_LIMIT`.
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


class LlamaEngine:
    """A llama.cpp context with `sequences` independent sequences; exact mode uses one."""

    def __init__(
        self,
        weights: Weights,
        *,
        n_ctx: int,
        threads: int,
        kv: KvType,
        sequences: int = 1,
        batch: int = BATCH,
        flash_attention: bool = False,
    ) -> None:
        """Make the context; each sequence takes the memory of one.

        `flash_attention` computes attention in blocks; its results depend on how a sequence was
        cut, so never in exact mode.
        """
        self.weights, self._lib = weights, library()
        self.n_ctx, self.sequences, self.batch_tokens = n_ctx, sequences, batch
        self.evaluated_tokens = 0
        """Tokens decoded so far, for checks of prefix sharing."""
        self.decodes = 0
        """Batches decoded so far, for checks of how well they are filled."""
        # llama.cpp reserves memory for that many rows of logits, here up to 64 MB; a row of a
        # vocabulary of 128,000 tokens takes half a megabyte.
        in_memory = 64 * 2**20 // (4 * weights.size)
        self.most_outputs = max(MIN_LIMIT, sequences, min(batch, in_memory))
        """Most logit rows one batch may ask for; llama.cpp aborts the process beyond it."""
        self.cached: list[Ids] = [np.empty(0, np.int32) for _ in range(sequences)]
        forget_log()
        self._context = self._lib.llama_init_from_model(
            weights.handle, self._params(threads, kv, flash=flash_attention)
        )
        if not self._context:
            raise ConfigurationError(
                f"llama.cpp cannot make a context of {n_ctx} tokens x {sequences}:"
                f" {recent_log() or 'no reason given'}; ask for a smaller n_ctx, fewer sequences"
                " or, on a GPU, fewer n_gpu_layers"
            )
        self._memory = self._lib.llama_get_memory(self._context)
        self.batch = _TokenBatch(self._lib, batch, sequences)
        """The tokens that the next `decode` evaluates."""

    def _params(self, threads: int, kv: KvType, *, flash: bool) -> Any:
        lib = self._lib
        params = lib.llama_context_default_params()
        # llama.cpp divides it among the sequences and keeps multiples of 256.
        params.n_ctx = -(-self.n_ctx // 256) * 256 * self.sequences
        # Equal, so that llama.cpp does not split a batch of `plan_batches`.
        params.n_batch = params.n_ubatch = self.batch_tokens
        params.n_seq_max = self.sequences
        params.n_outputs_max = self.most_outputs
        params.n_threads = params.n_threads_batch = threads
        on, off = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED, lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.flash_attn_type = on if flash else off
        params.type_k = params.type_v = lib.GGML_TYPE_F32 if kv == "f32" else lib.GGML_TYPE_F16
        params.kv_unified = self.sequences == 1
        # a sliding window that was dropped cannot be rewound to a shared prefix
        params.swa_full = True
        params.no_perf = True
        return params

    def score(self, evaluations: list[Evaluation], abandoned: Callable[[], bool] = never) -> None:
        """Evaluate texts one after the other and fill in their log-probabilities."""
        for evaluation in evaluations:
            for position, rows in self.rows(evaluation.ids, evaluation.first, abandoned):
                evaluation.take(position, rows)

    def rows(
        self, ids: Ids, first: int, abandoned: Callable[[], bool] = never, *, sequence: int = 0
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Evaluate `ids` on one sequence and yield `(position, logits)` from position `first` on.

        The logits, shape (positions, vocabulary), are llama.cpp's own memory: read them before
        resuming the iteration. An earlier position than requested may come first. Raises
        `Abandoned` once `abandoned()` is true.
        """
        length = len(ids)
        shared = common_prefix(self.cached[sequence], ids)
        kept = self.rewind(sequence, reusable(shared, first, length))
        for chunk in plan_batches(
            kept, first, length, batch=self.batch_tokens, outputs=self.most_outputs
        ):
            if abandoned():
                raise Abandoned
            self.batch.clear()
            self.batch.add(sequence, ids[chunk.start : chunk.stop], chunk.start, chunk.output)
            rows = self.decode()
            # Only once it is decoded: a decode that fails has forgotten everything.
            self.cached[sequence] = ids[: chunk.stop]
            if len(rows):
                yield chunk.output, rows

    def last_row(
        self, ids: Ids, abandoned: Callable[[], bool] = never, *, sequence: int = 0
    ) -> LogitRow:
        """Evaluate `ids` and return a copy of the logits of the next token, shape (vocabulary,)."""
        *_, (_, rows) = self.rows(ids, len(ids) - 1, abandoned, sequence=sequence)
        last: LogitRow = rows[-1].copy()
        return last

    def rewind(self, sequence: int, kept: int) -> int:
        """Forget all but the first `kept` tokens of a sequence; return how many could be kept."""
        self.cached[sequence] = self.cached[sequence][:kept]
        # Recurrent models keep a state rather than tokens, and can forget all of it or nothing.
        if not self._lib.llama_memory_seq_rm(self._memory, sequence, kept, -1):
            self._lib.llama_memory_seq_rm(self._memory, sequence, 0, -1)
            self.cached[sequence] = self.cached[sequence][:0]
            return 0
        return kept

    def share(self, sequence: int, source: int = 0) -> None:
        """Make a sequence a copy of another one, by default the first."""
        self._lib.llama_memory_seq_rm(self._memory, sequence, 0, -1)
        self._lib.llama_memory_seq_cp(self._memory, source, sequence, -1, -1)
        self.cached[sequence] = self.cached[source]

    def decode(self) -> NDArray[np.float32]:
        """Return the requested logits, (outputs, vocabulary), valid until the next call."""
        forget_log()
        tokens, outputs = self.batch.tokens, self.batch.outputs
        assert 0 < tokens <= self.batch_tokens
        assert outputs <= self.most_outputs
        code = self._lib.llama_decode(self._context, self.batch.native())
        if code:
            self.forget()
            raise FatalModelError(
                f"llama.cpp failed to evaluate {tokens} tokens (code {code}):"
                f" {recent_log() or 'no reason'}"
            )
        self.evaluated_tokens += tokens
        self.decodes += 1
        if not outputs:
            return np.empty((0, self.weights.size), np.float32)
        return np.ctypeslib.as_array(
            self._lib.llama_get_logits(self._context), shape=(outputs, self.weights.size)
        )

    def forget(self) -> None:
        """Forget all sequences."""
        self._lib.llama_memory_clear(self._memory, False)
        self.cached = [ids[:0] for ids in self.cached]

    def close(self) -> None:
        """Free the context; safe to call twice."""
        if self._context:
            self._lib.llama_free(self._context)
            self._context = None


class _TokenBatch:
    """llama.cpp's batch over numpy memory.

    Filling it token by token through ctypes takes longer than a small model.
    """

    def __init__(self, lib: Any, size: int, sequences: int) -> None:
        self.tokens = self.outputs = 0
        self._ids, self._positions = np.zeros(size, np.int32), np.zeros(size, np.int32)
        self._counts = np.ones(size, np.int32)
        self._has_logits = np.zeros(size, np.int8)
        self._sequences = np.arange(sequences, dtype=np.int32)
        self._owner = np.zeros(size, np.uintp)
        self._native = lib.llama_batch(
            n_tokens=0,
            token=_pointer(self._ids, ctypes.c_int32),
            embd=None,
            pos=_pointer(self._positions, ctypes.c_int32),
            n_seq_id=_pointer(self._counts, ctypes.c_int32),
            seq_id=_pointer(self._owner, ctypes.POINTER(ctypes.c_int32)),
            logits=_pointer(self._has_logits, ctypes.c_int8),
        )

    def clear(self) -> None:
        self.tokens = self.outputs = 0

    def add(self, sequence: int, ids: Ids, position: int, output: int) -> None:
        """Append tokens of one sequence at `position`; logits are wanted from `output` on."""
        start, stop = self.tokens, self.tokens + len(ids)
        self._ids[start:stop] = ids
        self._positions[start:stop] = np.arange(position, position + len(ids))
        self._has_logits[start:stop] = self._positions[start:stop] >= output
        # Each token points at its list of sequences: here one int32 within the array of all
        # numbers.
        self._owner[start:stop] = self._sequences.ctypes.data + 4 * sequence
        self.tokens = stop
        self.outputs += int(self._has_logits[start:stop].sum())

    def native(self) -> Any:
        """Return it as llama.cpp takes it."""
        self._native.n_tokens = self.tokens
        return self._native


def _pointer(array: NDArray[Any], kind: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(kind))


def score_together(
    engine: LlamaEngine, evaluations: Sequence[Evaluation], abandoned: Callable[[], bool]
) -> None:
    """Evaluate texts in groups of one per sequence; fill in their log-probabilities."""
    # Sorted by ids, neighbors share their longest prefixes, and a group is evaluated from its
    # common one.
    ordered = sorted(evaluations, key=lambda evaluation: sort_key(evaluation.ids))
    for start in range(0, len(ordered), engine.sequences):
        _score_group(engine, ordered[start : start + engine.sequences], abandoned)


def _score_group(
    engine: LlamaEngine, group: Sequence[Evaluation], abandoned: Callable[[], bool]
) -> None:
    leader = group[0].ids
    shared = min(reusable(common_prefix(leader, e.ids), e.first, len(e.ids)) for e in group)
    _evaluate_prefix(engine, leader[:shared], abandoned)
    for sequence in range(1, len(group)):
        # Left over from the group before: cheaper to cut back than to copy.
        if shared and common_prefix(engine.cached[sequence], leader) >= shared:
            engine.rewind(sequence, shared)
        else:
            engine.share(sequence)
    pending = [_Tail(sequence, evaluation, shared) for sequence, evaluation in enumerate(group)]
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
    """The rest of one sequence that is not evaluated yet, from `start` on."""

    sequence: int
    evaluation: Evaluation
    start: int


def _decode_some(engine: LlamaEngine, pending: Sequence[_Tail]) -> list[_Tail]:
    """Fill one batch with the tails in order, decode it and read it; return the remaining tails."""
    engine.batch.clear()
    parts: list[tuple[Evaluation, int, int]] = []
    remaining: list[_Tail] = []
    for tail in pending:
        ids, first = tail.evaluation.ids, tail.evaluation.first
        stop = min(len(ids), tail.start + engine.batch_tokens - engine.batch.tokens)
        # llama.cpp aborts the process when a batch asks for more rows of logits than were reserved.
        stop = min(stop, max(first, tail.start) + engine.most_outputs - engine.batch.outputs)
        if stop > tail.start:
            before = engine.batch.outputs
            engine.batch.add(tail.sequence, ids[tail.start : stop], tail.start, first)
            parts.append((tail.evaluation, max(first, tail.start), engine.batch.outputs - before))
            engine.cached[tail.sequence] = ids[:stop]
        if stop < len(ids):
            remaining.append(tail._replace(start=max(stop, tail.start)))
    rows, place = engine.decode(), 0
    for evaluation, position, count in parts:
        evaluation.take(position, rows[place : place + count])
        place += count
    return remaining


def write_together(
    engine: LlamaEngine, generations: Sequence[Generation], abandoned: Callable[[], bool]
) -> None:
    """Write all samples of all requests; a sequence that has finished takes the next one at once.

    Exact mode has one sequence, and writes one sample after the other. A request that fails keeps
    its error and does not affect the others.
    """
    waiting: deque[_SampledToken] = deque()
    for generation in generations:
        try:
            waiting.extend(_SampledToken(generation, draft) for draft in generation.begin())
        except TextassayError as error:
            generation.error = error
    try:
        _write_all(engine, waiting, abandoned)
    finally:
        for generation in generations:
            generation.close()


class _SampledToken(NamedTuple):
    """A sample to write, and the request that it belongs to."""

    generation: Generation
    draft: PartialAnswer


def _write_all(
    engine: LlamaEngine, waiting: deque[_SampledToken], abandoned: Callable[[], bool]
) -> None:
    growing: dict[int, _SampledToken] = {}
    first_rows: dict[int, LogitRow] = {}  # logits after each prompt, for its further samples
    try:
        while waiting or growing:
            if abandoned():
                raise Abandoned
            while waiting and len(growing) < engine.sequences:
                sample = waiting.popleft()
                if sample.generation.error:
                    continue
                ids, request = sample.generation.ids, id(sample.generation)
                free = [s for s in range(engine.sequences) if s not in growing]
                # The free sequence that still holds most of this prompt.
                sequence = max(free, key=lambda s: common_prefix(engine.cached[s], ids))
                known_row = first_rows.get(request)
                row = first_rows[request] = _begin(engine, sequence, ids, known_row, abandoned)
                if _grow(sample, row):
                    growing[sequence] = sample
            _step(engine, growing)
    finally:
        for sequence, sample in growing.items():
            engine.rewind(sequence, len(sample.generation.ids))


def _begin(
    engine: LlamaEngine,
    sequence: int,
    ids: Ids,
    row: LogitRow | None,
    abandoned: Callable[[], bool],
) -> LogitRow:
    """Bring a sequence to `ids`, if useful by copying another one; return the next logits."""
    shared = [common_prefix(cached, ids) for cached in engine.cached]
    donor = max(range(engine.sequences), key=shared.__getitem__)
    # a copy takes the time of a whole sequence's memory
    if shared[donor] >= shared[sequence] + 64:
        engine.share(sequence, donor)
        shared[sequence] = shared[donor]
    if row is not None and engine.rewind(sequence, shared[sequence]) == len(ids):
        return row
    return engine.last_row(ids, abandoned, sequence=sequence)


def _step(engine: LlamaEngine, growing: dict[int, _SampledToken]) -> None:
    """Decode one token of every sample; those that are finished leave their sequence."""
    if not growing:
        return
    engine.batch.clear()
    for sequence, sample in growing.items():
        position = len(sample.generation.ids) + len(sample.draft.tokens) - 1
        token = np.array(sample.draft.tokens[-1:], np.int32)
        engine.batch.add(sequence, token, position, position)
    for row, (sequence, sample) in zip(engine.decode(), list(growing.items()), strict=True):
        if not _grow(sample, row):
            del growing[sequence]
            engine.rewind(sequence, len(sample.generation.ids))


def _grow(sample: _SampledToken, row: LogitRow) -> bool:
    """Grow a sample by a token; return whether it continues and its request has not failed."""
    if not sample.generation.error:
        try:
            return sample.draft.grow(row)
        except TextassayError as error:  # belongs to this request alone
            sample.generation.error = error
    return False
