"""Sampled answers: one growing text per sample, its stops and its log-probabilities."""

from __future__ import annotations

import codecs
from collections.abc import Callable

import numpy as np

from textassay.runtime.backends.llamacpp.engine import Abandoned, LlamaEngine
from textassay.runtime.backends.llamacpp.json_grammar import json_grammar
from textassay.runtime.backends.llamacpp.logprobs import LogitRow, log_total
from textassay.runtime.backends.llamacpp.sampling import Grammar, Sampler
from textassay.runtime.backends.llamacpp.weights import Ids, Weights
from textassay.runtime.errors import ContextTooLong
from textassay.runtime.messages import Usage
from textassay.runtime.model import FinishReason, Request, Response, Sample, TokenLogprob


class Draft:
    """One answer while it grows."""

    def __init__(self, weights: Weights, request: Request, most: int, sampler: Sampler) -> None:
        """Begin an empty answer of at most `most` tokens."""
        self._weights, self._most, self._sampler = weights, most, sampler
        self._stops = [stop.encode() for stop in request.stop if stop]
        self._special = (
            request.json_schema is not None
        )  # a grammar has checked the names of special tokens too
        self._alternatives = request.logprobs
        self._bytes = bytearray()
        self._logprobs: list[tuple[int, TokenLogprob]] = []
        self.tokens: list[int] = []
        self.finish: FinishReason | None = None

    def grow(self, row: LogitRow) -> int | None:
        """Pick the next token from its logits; return it, or `None` once the answer is finished."""
        total = log_total(row)
        token = self._sampler.pick(row)
        if token in self._weights.end_ids:
            self.finish = "stop"
            return None
        self._sampler.accepted(token)
        if self._alternatives is not None:
            self._logprobs.append((len(self._bytes), self._described(row, token, total)))
        self.tokens.append(token)
        piece = self._weights.piece(token, special=self._special)
        self._bytes += piece
        if self._stopped(len(piece)):
            self.finish = "stop"
        elif len(self.tokens) >= self._most:
            self.finish = "length"
        return token if self.finish is None else None

    def _stopped(self, fresh: int) -> bool:
        for stop in self._stops:
            # A stop may begin in earlier tokens, so the search goes back by its own length.
            place = self._bytes.find(stop, max(0, len(self._bytes) - fresh - len(stop)))
            if place >= 0:
                del self._bytes[place:]
                return True
        return False

    def _described(self, row: LogitRow, token: int, total: float) -> TokenLogprob:
        count = min(self._alternatives or 0, len(row))
        best = np.argpartition(-row, count - 1)[:count] if count else np.empty(0, np.intp)
        best = best[np.argsort(-row[best], kind="stable")]
        top = tuple(
            (self._weights.text(int(i)), min(0.0, float(row[i]) - total))
            for i in best
            if np.isfinite(row[i])
        )
        return TokenLogprob(
            token=self._weights.text(token), logprob=min(0.0, float(row[token]) - total), top=top
        )

    def sample(self) -> Sample:
        """Return the answer.

        Invalid UTF-8 becomes U+FFFD; a character that is cut off at the end is dropped.
        """
        # Not told that this is the end, the decoder holds an unfinished character back.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._bytes))
        # Tokens that lie behind a stop went with its text.
        kept = [entry for start, entry in self._logprobs if start < max(1, len(self._bytes))]
        return Sample(
            text=text,
            finish_reason=self.finish or "length",
            logprobs=None if self._alternatives is None else tuple(kept),
        )


class Generation:
    """What one request asks for, against one model."""

    def __init__(
        self, weights: Weights, request: Request, ids: Ids, *, n_ctx: int, seed: int | None
    ) -> None:
        """Check the lengths and the JSON schema.

        Raises:
            ConfigurationError: The JSON schema cannot be kept.
            ContextTooLong: Prompt and answer do not fit together.
        """
        self._weights, self._request, self.ids = weights, request, ids
        room = n_ctx - len(ids)
        self.most = room if request.max_tokens is None else request.max_tokens
        if room < 1 or self.most > room:
            raise ContextTooLong(
                f"a prompt of {len(ids)} tokens and an answer of"
                f" {request.max_tokens or 'at least 1'} do not fit into the context of {n_ctx}"
            )
        given = request.seed if request.seed is not None else seed
        # Another draw of the same request must be another sample, and the same each time.
        self._seed = None if given is None else given + request.draw
        self._gbnf = None if request.json_schema is None else json_grammar(request.json_schema)
        self._grammars: list[Grammar] = []
        self.drafts: list[Draft] = []

    def begin(self) -> list[Draft]:
        """Begin all samples."""
        for number in range(self._request.n):
            if self._gbnf is not None:
                self._grammars.append(Grammar(self._weights, self._gbnf))
            sampler = Sampler(
                temperature=1.0 if self._request.temperature is None else self._request.temperature,
                top_p=self._request.top_p,
                seed=None if self._seed is None else (self._seed, number),
                grammar=self._grammars[-1] if self._gbnf is not None else None,
            )
            self.drafts.append(Draft(self._weights, self._request, self.most, sampler))
        return self.drafts

    def run(self, engine: LlamaEngine, abandoned: Callable[[], bool]) -> None:
        """Write all samples one after the other on the first sequence.

        The prompt is evaluated once.
        """
        try:
            for draft in self.begin():
                row: LogitRow = engine.last_row(self.ids, abandoned)
                try:
                    self._write(engine, draft, row, abandoned)
                finally:
                    # Sampled tokens went through the kernels for single rows: nothing may be built
                    # upon them.
                    engine.rewind(0, len(self.ids))
        finally:
            self.close()

    def _write(
        self, engine: LlamaEngine, draft: Draft, row: LogitRow, abandoned: Callable[[], bool]
    ) -> None:
        position = len(self.ids)
        while (token := draft.grow(row)) is not None:
            if abandoned():
                raise Abandoned
            engine.batch.clear()
            engine.batch.add(0, np.array([token], np.int32), position, position)
            row = engine.decode()[0]
            position += 1

    def response(self, name: str, truncated: int) -> Response:
        """Return the answers, once written."""
        usage = Usage(
            calls=1,
            prompt_tokens=len(self.ids),
            completion_tokens=sum(len(draft.tokens) for draft in self.drafts),
            cost=0.0,
        )
        samples = tuple(draft.sample() for draft in self.drafts)
        return Response(samples=samples, usage=usage, model=name, truncated_tokens=truncated)

    def close(self) -> None:
        """Free the grammars."""
        for grammar in self._grammars:
            grammar.close()
