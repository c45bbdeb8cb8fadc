"""Forward passes over batches.

Log-probabilities of given tokens, and answers that grow step by step.

Rows of a batch are padded on the left, so that the last positions, which are wanted, stand under
each other. What all rows of a batch begin with is evaluated once. A prompt that several texts
follow goes through an encoder once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.generation import Draft, Generation
from textassay.runtime.backends.local.scoring import Evaluation
from textassay.runtime.backends.local.tokens import Ids
from textassay.runtime.backends.transformers.loading import LoadedTransformer
from textassay.runtime.errors import FatalModelError

Floats = NDArray[np.float32]

MIN_SHARED = 16
"""Fewest tokens that all rows of a batch must begin with to be evaluated apart: it costs a second
pass."""
MAX_LOGITS = 2**26
"""Most logits held at once, 256 MB in single precision."""


class TransformersEngine:
    """Evaluates sequences on one model; all calls come from one thread."""

    def __init__(self, loaded: LoadedTransformer, *, batch_tokens: int) -> None:
        self.loaded, self.evaluated_tokens = loaded, 0  # padding left out
        self._torch, self._model, self._batch_tokens = loaded.torch, loaded.model, batch_tokens
        accepted = inspect.signature(type(loaded.model).forward).parameters
        self._takes_positions = "position_ids" in accepted
        # Without it, logits of all positions are computed: gigabytes for long prompts and large
        # vocabularies.
        self._keeps_logits = "logits_to_keep" in accepted
        self._vocabulary = int(loaded.model.config.get_text_config().vocab_size)

    def score(self, sequences: Sequence[Evaluation]) -> None:
        """Fill in the wanted log-probabilities of all sequences."""
        with self._torch.inference_mode():
            for batch in self._batches(sequences):
                if self.loaded.is_encoder_decoder:
                    self._score_seq2seq(batch)
                else:
                    self._score_causal(batch)

    def generate(self, generations: Sequence[Generation]) -> None:
        """Write the samples of all generations together, step by step."""
        with self._torch.inference_mode():
            drafts = [draft for generation in generations for draft in generation.begin()]
            owners = [n for n, one in enumerate(generations) for _ in one.drafts]
            writer = _Writer(self, [generation.ids for generation in generations], owners)
            writer.run(drafts)

    def first_logits(self, prompts: Sequence[Ids]) -> list[Floats]:
        """Return the logits of the answer's first token after each prompt, shape (vocabulary,).

        For encoder-decoder models only. A prompt's ids are what the encoder reads, with its end
        mark.
        """
        with self._torch.inference_mode():
            hidden, mask, rows = self._encode(prompts)
            start = self._torch.full((len(prompts), 1), self.loaded.start, device=hidden.device)
            logits = self._decode(hidden[rows], mask[rows], start).logits[:, 0]
            return list(logits.float().cpu().numpy())

    # ---- scoring ----

    def _batches(self, sequences: Sequence[Evaluation]) -> Iterator[list[Evaluation]]:
        """Yield batches of like lengths whose padded tokens and logits stay within bounds."""
        batch: list[Evaluation] = []
        # By length, so that padding is small, and by ids, so that neighbors share their beginnings.
        for sequence in sorted(sequences, key=lambda one: (one.length, bytes(one.ids))):
            longest = max(one.length for one in [*batch, sequence])
            rows = max(one.predicted for one in [*batch, sequence])
            count = len(batch) + 1
            full = count * longest > self._batch_tokens
            if batch and (full or count * rows * self._vocabulary > MAX_LOGITS):
                yield batch
                batch = []
            batch.append(sequence)
        if batch:
            yield batch

    def _score_causal(self, batch: list[Evaluation]) -> None:
        ids = [one.ids for one in batch]
        shared = self._shared(batch)
        past = None
        if shared:
            past = self._forward(ids[0][None, :shared], use_cache=True).past_key_values
            past.batch_repeat_interleave(len(batch))
        rest = [row[shared:] for row in ids]
        self.evaluated_tokens += shared + sum(map(len, rest))
        width = max(one.predicted for one in batch)
        tokens, mask = self._padded(rest)
        output = self._forward(tokens, mask=mask, past=past, shared=shared, keep=width)
        logits = output.logits[:, -width:]
        for number, one in enumerate(batch):
            self._take(one, logits[number, width - one.predicted :])

    def _shared(self, batch: Sequence[Evaluation]) -> int:
        """Return how many leading tokens all rows share, 0 if too few to be worth a pass."""
        if len(batch) < 2:
            return 0
        # Never past the first wanted position: logits of the shared part are not computed.
        limit = min(one.first for one in batch)
        first = batch[0].ids
        for one in batch[1:]:
            same = first[:limit] == one.ids[:limit]
            limit = int(np.argmin(same)) if not same.all() else limit
        return limit if limit >= MIN_SHARED else 0

    def _score_seq2seq(self, batch: list[Evaluation]) -> None:
        hidden, mask, rows = self._encode([one.encoded for one in batch])
        tokens, _ = self._padded([one.ids for one in batch], left=False)
        self.evaluated_tokens += sum(len(one.ids) for one in batch)
        # a position never sees the padding behind it, so the decoder needs no mask
        logits = self._decode(hidden[rows], mask[rows], tokens).logits
        for number, one in enumerate(batch):
            first, last = one.first, len(one.ids)
            self._take(one, logits[number, first:last])

    def _take(self, evaluation: Evaluation, logits: Any) -> None:
        """Keep the log-probabilities of the wanted tokens.

        Logits of shape (positions, vocabulary).
        """
        logits = logits.float()
        totals = logits.logsumexp(dim=-1)
        if not bool(totals.isfinite().all()):
            raise FatalModelError(
                "the model computes NaN or infinite logits: its weights or its number format are "
                "broken (dtype=float32 shows which)"
            )
        # All at once: an operation per token takes longer than a small model's own pass.
        counts = [len(targets) for targets in evaluation.targets]
        places, index = (
            self._torch.as_tensor(numbers.astype(np.int64), device=logits.device)
            for numbers in (
                np.repeat(np.arange(len(counts)), counts),
                np.concatenate(evaluation.targets),
            )
        )
        logprobs = (logits[places, index] - totals[places]).double().cpu().numpy()
        evaluation.logprobs.extend(np.split(logprobs, np.cumsum(counts)[:-1]))

    # ---- passes ----

    def _encode(self, prompts: Sequence[Ids]) -> tuple[Any, Any, Any]:
        """Return hidden states and mask of the distinct prompts, and each row's index in them."""
        distinct: dict[bytes, int] = {}
        for prompt in prompts:
            distinct.setdefault(prompt.tobytes(), len(distinct))
        unique = [np.frombuffer(key, np.int32) for key in distinct]
        tokens, mask = self._padded(unique, left=False)
        self.evaluated_tokens += sum(map(len, unique))
        encoder = self._model.get_encoder()
        hidden = encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        rows = [distinct[prompt.tobytes()] for prompt in prompts]
        return hidden, mask, self._torch.as_tensor(rows, device=hidden.device)

    def _decode(self, hidden: Any, mask: Any, tokens: Any, *, past: Any = None) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
            attention_mask=mask,
            decoder_input_ids=tokens,
            past_key_values=past,
            use_cache=past is not None,
        )

    def _forward(
        self,
        tokens: Any,
        *,
        mask: Any = None,
        past: Any = None,
        shared: int = 0,
        keep: int = 1,
        use_cache: bool = False,
    ) -> Any:
        """Run a decoder-only model.

        `shared` tokens stand before `tokens` in the cache of every row.
        """
        if isinstance(tokens, np.ndarray):
            tokens = self._torch.as_tensor(tokens.astype(np.int64), device=self.loaded.device)
        if mask is None:
            mask = self._torch.ones_like(tokens)
        if past is not None and shared:
            before = mask.new_ones((len(mask), shared))
            mask = self._torch.cat([before, mask], dim=1)
        more: dict[str, Any] = {}
        if self._takes_positions:
            # Counted from each row's first real token: padding on the left would shift learned
            # positions.
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            more["position_ids"] = positions[:, -tokens.shape[1] :]
        if self._keeps_logits:
            more["logits_to_keep"] = keep
        return self._model(
            input_ids=tokens,
            attention_mask=mask,
            past_key_values=past,
            use_cache=use_cache or past is not None,
            **more,
        )

    def _padded(self, rows: Sequence[Ids], *, left: bool = True) -> tuple[Any, Any]:
        """Return rows as one tensor of ids, shape (n, longest), and its mask."""
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        for number, row in enumerate(rows):
            place = slice(longest - len(row), longest) if left else slice(0, len(row))
            ids[number, place], mask[number, place] = row, 1
        device = self.loaded.device
        return self._torch.as_tensor(ids, device=device), self._torch.as_tensor(mask, device=device)


class _Writer:
    """Answers of several requests that grow together, one token per step and row."""

    def __init__(
        self, engine: TransformersEngine, prompts: Sequence[Ids], owners: Sequence[int]
    ) -> None:
        """Take the prompts, and which prompt each answer belongs to."""
        self._engine, self._prompts, self._owners = engine, prompts, list(owners)
        self._torch = engine.loaded.torch

    def run(self, drafts: Sequence[Draft]) -> None:
        """Grow all drafts to their ends; finished rows leave the batch."""
        logits = self._begin()
        alive = list(range(len(drafts)))
        while True:
            rows = logits.float().cpu().numpy()
            picked = [drafts[draft].grow(rows[row]) for row, draft in enumerate(alive)]
            unfinished = [row for row, token in enumerate(picked) if token is not None]
            if not unfinished:
                return
            # Finished rows leave the batch: otherwise each row would cost as much as the longest
            # answer.
            if len(unfinished) < len(alive):
                self._select(unfinished)
                alive = [alive[row] for row in unfinished]
            logits = self._step([token for token in picked if token is not None])

    def _begin(self) -> Any:
        """Evaluate each prompt once; return the logits that follow, one row per answer."""
        engine, torch = self._engine, self._torch
        index = torch.as_tensor(self._owners, device=engine.loaded.device)
        if engine.loaded.is_encoder_decoder:
            from transformers import DynamicCache, EncoderDecoderCache

            self._hidden, self._mask, _ = _rows(engine._encode(self._prompts), index)
            self._past = EncoderDecoderCache(DynamicCache(), DynamicCache())
            start = engine.loaded.start
            tokens = torch.full((len(index), 1), start, device=engine.loaded.device)
            return self._decoded(tokens)
        tokens, mask = engine._padded(self._prompts)
        engine.evaluated_tokens += int(mask.sum())
        output = engine._forward(tokens, mask=mask, use_cache=True)
        self._past, self._mask = output.past_key_values, mask[index]
        self._past.batch_select_indices(index)
        return output.logits[index, -1]

    def _step(self, tokens: Iterable[int]) -> Any:
        engine = self._engine
        new = self._torch.as_tensor(list(tokens), device=engine.loaded.device)[:, None]
        engine.evaluated_tokens += len(new)
        if engine.loaded.is_encoder_decoder:
            return self._decoded(new)
        self._mask = self._torch.cat([self._mask, self._mask.new_ones((len(new), 1))], dim=1)
        output = engine._forward(new, mask=self._mask, past=self._past)
        self._past = output.past_key_values
        return output.logits[:, -1]

    def _decoded(self, tokens: Any) -> Any:
        output = self._engine._decode(self._hidden, self._mask, tokens, past=self._past)
        self._past = output.past_key_values
        return output.logits[:, -1]

    def _select(self, rows: Sequence[int]) -> None:
        index = self._torch.as_tensor(rows, device=self._engine.loaded.device)
        self._past.batch_select_indices(index)
        self._mask = self._mask[index]
        if self._engine.loaded.is_encoder_decoder:
            self._hidden = self._hidden[index]


def _rows(encoded: tuple[Any, Any, Any], index: Any) -> tuple[Any, Any, Any]:
    """Return hidden states and mask for each answer, given those of the distinct prompts."""
    hidden, mask, rows = encoded
    return hidden[rows[index]], mask[rows[index]], rows
