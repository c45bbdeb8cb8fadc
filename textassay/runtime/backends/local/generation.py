"""Sampled answers: how tokens are picked, and one growing text per sample with its stops.

The picks depend on the logits and the seed alone, so an answer can be repeated whatever else was
asked in between.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.scoring import LogitRow, log_total
from textassay.runtime.backends.local.tokens import Ids, Vocabulary
from textassay.runtime.errors import MalformedResponse, TextassayError
from textassay.runtime.messages import Usage
from textassay.runtime.model import FinishReason, Request, Response, Sample, TokenLogprob

_NUCLEUS_GUESS = 256
_MIN_TEMPERATURE = 1e-30  # still a number in single precision


class Grammar(Protocol):
    """What an answer must keep to, and how far it has come in it."""

    def allows(self, token: int) -> bool:
        """Return whether `token` may come next."""
        ...

    def allowed(self) -> NDArray[np.bool_]:
        """Return for every token whether it may come next."""
        ...

    def accept(self, token: int) -> None:
        """Advance by `token`, which must be allowed."""
        ...

    def close(self) -> None:
        """Free it."""
        ...


class Sampler:
    """Draws tokens for one sample.

    `seed` is the request's with the sample's number, `None` for any.
    """

    def __init__(
        self,
        *,
        temperature: float,
        top_p: float,
        seed: tuple[int, int] | None,
        grammar: Grammar | None,
    ) -> None:
        self._temperature, self._top_p, self._grammar = temperature, top_p, grammar
        # A sequence of two numbers: adding the sample's number to the seed would make sample 1 of
        # seed 7 equal to sample 0 of seed 8.
        entropy = None if seed is None else [seed[0] % 2**64, seed[1]]
        self._rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))

    def pick(self, row: LogitRow) -> int:
        """Return the next token's id.

        The grammar is asked about the drawn token first, and about all tokens only if it refuses
        that one. A second draw among the allowed ones then gives the same distribution as a draw
        among them to begin with.
        """
        token = self._draw(row)
        if self._grammar is None or self._grammar.allows(token):
            return token
        allowed = self._grammar.allowed()
        if not allowed.any():
            raise MalformedResponse(
                "the JSON schema leaves no token of the model's vocabulary to continue with"
            )
        return self._draw(np.where(allowed, row, -np.inf).astype(np.float32))

    def accepted(self, token: int) -> None:
        """Advance the grammar by `token`."""
        if self._grammar is not None:
            self._grammar.accept(token)

    def _draw(self, row: LogitRow) -> int:
        if self._temperature == 0:
            return int(row.argmax())
        with np.errstate(over="ignore"):  # at tiny temperatures all but the best become exp(-inf)
            weights = np.exp(
                (row - row.max()) / np.float32(max(self._temperature, _MIN_TEMPERATURE))
            )
        order = nucleus(weights, self._top_p) if self._top_p < 1 else None
        kept = weights if order is None else weights[order]
        cumulated = np.cumsum(kept, dtype=np.float64)
        place = int(np.searchsorted(cumulated, self._rng.random() * cumulated[-1], side="right"))
        # Rounding can put the draw at the very end of the sum.
        place = min(place, len(kept) - 1)
        return place if order is None else int(order[place])


def nucleus(weights: LogitRow, top_p: float) -> NDArray[np.intp]:
    """Return the fewest tokens that hold `top_p` of the probability, the likeliest first.

    `weights` are probabilities up to a factor, shape (vocabulary,). Sorts the likeliest few only,
    and more of them until they hold enough: a full sort of 128,000 tokens takes longer than a small
    model's step.
    """
    target = top_p * float(weights.sum(dtype=np.float64))
    count = min(_NUCLEUS_GUESS, len(weights))
    while True:
        border = np.partition(weights, len(weights) - count)[len(weights) - count]
        # whole runs of equals, so that order never depends on `count`
        likely = np.flatnonzero(weights >= border)
        order = likely[np.argsort(-weights[likely], kind="stable")]
        held = np.cumsum(weights[order], dtype=np.float64)
        if held[-1] >= target or len(order) == len(weights):
            before = held - weights[order]
            return order[: max(1, int((before < target).sum()))]
        count = min(16 * count, len(weights))


class Draft:
    """One answer of at most `most` tokens while it grows."""

    def __init__(
        self, vocabulary: Vocabulary, request: Request, most: int, sampler: Sampler
    ) -> None:
        self._vocabulary, self._most, self._sampler = vocabulary, most, sampler
        self._stops = [stop.encode() for stop in request.stop if stop]
        # a grammar has checked the names of special tokens too
        self._special = request.json_schema is not None
        self._alternatives = request.logprobs
        self._bytes = bytearray()
        self._logprobs: list[tuple[int, TokenLogprob]] = []
        self.tokens: list[int] = []
        self.finish: FinishReason | None = None

    def grow(self, row: LogitRow) -> int | None:
        """Pick the next token from its logits; return it, or `None` once the answer is finished."""
        total = log_total(row)
        token = self._sampler.pick(row)
        if token in self._vocabulary.end_ids:
            self.finish = "stop"
            return None
        self._sampler.accepted(token)
        if self._alternatives is not None:
            self._logprobs.append((len(self._bytes), self._described(row, token, total)))
        self.tokens.append(token)
        piece = self._vocabulary.piece(token, special=self._special)
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
            (self._vocabulary.text(int(i)), min(0.0, float(row[i]) - total))
            for i in best
            if np.isfinite(row[i])
        )
        return TokenLogprob(
            token=self._vocabulary.text(token),
            logprob=min(0.0, float(row[token]) - total),
            top=top,
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
    """The answers to one request, against one model.

    `ids` are what is evaluated before an answer, which has at most `most` tokens; `grammar` gives
    one for each sample.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        request: Request,
        ids: Ids,
        *,
        most: int,
        seed: int | None,
        grammar: Callable[[], Grammar] | None = None,
    ) -> None:
        self._vocabulary, self.request, self.ids, self._most = vocabulary, request, ids, most
        given = request.seed if request.seed is not None else seed
        # Another draw of the same request must be another sample, and the same each time.
        self._seed = None if given is None else given + request.draw
        self._new_grammar = grammar
        self._grammars: list[Grammar] = []
        self.drafts: list[Draft] = []
        self.error: TextassayError | None = None
        """Why it failed, if it did beside others that did not."""

    def begin(self) -> list[Draft]:
        """Begin all samples."""
        for number in range(self.request.n):
            grammar = None if self._new_grammar is None else self._new_grammar()
            if grammar is not None:
                self._grammars.append(grammar)
            sampler = Sampler(
                temperature=1.0 if self.request.temperature is None else self.request.temperature,
                top_p=self.request.top_p,
                seed=None if self._seed is None else (self._seed, number),
                grammar=grammar,
            )
            self.drafts.append(Draft(self._vocabulary, self.request, self._most, sampler))
        return self.drafts

    def response(self, name: str, truncated: int) -> Response:
        """Return the answers, once written, or raise why they could not be."""
        if self.error is not None:
            raise self.error
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
