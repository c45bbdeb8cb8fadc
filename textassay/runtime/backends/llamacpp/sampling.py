"""Picks the next token: temperature and top-p in numpy, a grammar through llama.cpp.

The picks depend on the logits and the seed alone, so an answer can be repeated whatever else was
asked in between.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.llamacpp.library import forget_log, library, logged
from textassay.runtime.backends.llamacpp.logprobs import LogitRow
from textassay.runtime.backends.llamacpp.weights import Weights
from textassay.runtime.errors import ConfigurationError, MalformedResponse

_NUCLEUS_GUESS = 256
_MIN_TEMPERATURE = 1e-30  # still a number in single precision
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Grammar:
    """A GBNF grammar and how far a text has come in it; use it as a context manager."""

    def __init__(self, weights: Weights, gbnf: str) -> None:
        """Parse the grammar.

        Raises:
            ConfigurationError: llama.cpp does not take it. It must be asked: a grammar it does not
                take crashes the process when it is used.
        """
        self._lib = library()
        forget_log()
        self._handle = self._lib.llama_sampler_init_grammar(
            weights.vocabulary, gbnf.encode(), b"root"
        )
        if not self._handle:
            raise ConfigurationError(
                f"llama.cpp does not accept the grammar: {logged() or 'it gives no reason'}"
            )
        self._all = np.zeros(weights.size, _CANDIDATE)
        self._all["id"] = np.arange(weights.size)

    def allows(self, token: int) -> bool:
        """Return whether `token` may come next."""
        one = np.zeros(1, _CANDIDATE)
        one["id"] = token
        return bool(np.isfinite(self._applied(one)[0]))

    def allowed(self) -> NDArray[np.bool_]:
        """Return for every token whether it may come next."""
        self._all["logit"] = 0.0
        return np.isfinite(self._applied(self._all))

    def _applied(self, candidates: NDArray[Any]) -> NDArray[np.float32]:
        array = self._lib.llama_token_data_array(
            data=candidates.ctypes.data_as(self._lib.llama_token_data_p),
            size=len(candidates),
            selected=-1,
            sorted=False,
        )
        self._lib.llama_sampler_apply(self._handle, ctypes.byref(array))
        return np.asarray(candidates["logit"])

    def accept(self, token: int) -> None:
        """Advance by `token`, which must be allowed: llama.cpp ends the process otherwise."""
        self._lib.llama_sampler_accept(self._handle, token)

    def close(self) -> None:
        """Free it; safe to call twice."""
        if self._handle:
            self._lib.llama_sampler_free(self._handle)
            self._handle = None


class Sampler:
    """Draws tokens for one sample."""

    def __init__(
        self,
        *,
        temperature: float,
        top_p: float,
        seed: tuple[int, int] | None,
        grammar: Grammar | None,
    ) -> None:
        """Take what the request asks for.

        `seed` is the request's with the sample's number, `None` for any.
        """
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

        Raises:
            MalformedResponse: The grammar allows no token of this vocabulary.
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

    Sorts the likeliest few only, and more of them until they hold enough: a full sort of 128,000
    tokens takes longer than a small model's step.

    Args:
        weights: Probabilities up to a factor, shape (vocabulary,).
        top_p: Share of the probability, 0 to 1.
    """
    target = top_p * float(weights.sum(dtype=np.float64))
    count = min(_NUCLEUS_GUESS, len(weights))
    while True:
        border = np.partition(weights, len(weights) - count)[len(weights) - count]
        likely = np.flatnonzero(
            weights >= border
        )  # whole runs of equals, so that order never depends on `count`
        order = likely[np.argsort(-weights[likely], kind="stable")]
        held = np.cumsum(weights[order], dtype=np.float64)
        if held[-1] >= target or len(order) == len(weights):
            before = held - weights[order]
            return order[: max(1, int((before < target).sum()))]
        count = min(16 * count, len(weights))
