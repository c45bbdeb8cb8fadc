"""Log-probabilities of given text: which positions to look at, and how choices add up.

A continuation is tokenized together with its prompt, and what counts as continuation begins where
the two tokenizations part: a prompt that ends in a space may lose that space to the first word. All
choices of a request are counted from the earliest such place, so that their probabilities are of
events that exclude each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.tokens import Ids, common_prefix
from textassay.runtime.errors import FatalModelError, RequestRefused
from textassay.runtime.messages import Usage
from textassay.runtime.model import ChoicesResponse, ContinuationResponse, TokenLogprob

LogitRow = NDArray[np.float32]
Path = tuple[int, ...]
A_co = TypeVar("A_co", covariant=True)


def log_total(row: LogitRow) -> float:
    """Return the natural log of the sum of exponentials of a row, the softmax normalizer.

    Exponentials are in single precision, their sum in double: within 1e-6 of double precision
    throughout, in a tenth of the time.
    """
    # Subtracted first: the exponential of a logit above 88 overflows single precision.
    top = float(row.max())
    if not np.isfinite(top):
        raise FatalModelError(
            "the model computes NaN or infinite logits: its weights or their quantization are"
            " broken (check_tensors=True checks the file for them at load)"
        )
    return top + float(np.log(np.exp(row - np.float32(top)).sum(dtype=np.float64)))


@dataclass
class Evaluation:
    """A token sequence, the positions that need log-probabilities, and later their values."""

    ids: Ids
    """What is evaluated: everything up to the last position that predicts something wanted."""
    first: int
    """Position of the first prediction wanted: what follows `ids[first]`."""
    targets: list[Ids]
    """Ids wanted at positions `first`, `first + 1`, ...; the last belongs to the last of `ids`."""
    encoded: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    """What an encoder reads; then `ids` are the decoder's."""
    logprobs: list[NDArray[np.float64]] = field(default_factory=list)
    """Log-probabilities, one array for each of `targets`."""

    def take(self, position: int, rows: NDArray[np.float32]) -> None:
        """Read what is wanted out of the logits of `position` and those after it."""
        for offset, row in enumerate(rows):
            place = position + offset - self.first
            if place >= 0:
                self.logprobs.append(row[self.targets[place]].astype(np.float64) - log_total(row))

    @property
    def length(self) -> int:
        """Tokens that are evaluated."""
        return len(self.ids) + len(self.encoded)

    @property
    def predicted(self) -> int:
        """Positions whose logits are wanted: the last ones."""
        return len(self.ids) - self.first


class Prompt(Protocol):
    """A tokenized prompt that knows what follows it."""

    ids: Ids
    encoded: Ids
    """What an encoder reads; then `ids` are what the decoder begins with."""

    def followed_by(self, text: str) -> Ids:
        """Return the ids of prompt and text together."""
        ...


class ScoringPlan(Protocol[A_co]):
    """A tokenized request for scores: what to evaluate, and the answer that follows from it."""

    length: int
    """Positions it needs in the context."""
    evaluations: list[Evaluation]
    """What to evaluate, in any order."""

    def response(self, name: str, spell: Callable[[int], str], truncated: int) -> A_co:
        """Return the answer, once evaluated.

        `spell` gives a token's text; `truncated` tokens of the source were left out.
        """
        ...


class ContinuationPlan:
    """How to score one given text."""

    def __init__(self, prompt: Prompt, continuation: str) -> None:
        joint = prompt.followed_by(continuation)
        base = _base(prompt, [joint])
        if base == len(joint):
            raise RequestRefused(
                f"the continuation {continuation[:40]!r} adds no token to the prompt"
            )
        self.tokens = joint[base:]
        # Encoder and decoder have their own positions: the longer of the two must fit.
        self.length = max(len(joint), len(prompt.encoded))
        targets = [self.tokens[i : i + 1] for i in range(len(self.tokens))]
        self.evaluations = [Evaluation(joint[:-1], base - 1, targets, prompt.encoded)]

    def response(
        self, name: str, spell: Callable[[int], str], truncated: int
    ) -> ContinuationResponse:
        """Return the answer, once evaluated."""
        tokens = tuple(
            TokenLogprob(
                token=spell(int(token)), logprob=_finite(float(logprobs[0]), spell(int(token)))
            )
            for token, logprobs in zip(self.tokens, self.evaluations[0].logprobs, strict=True)
        )
        usage = Usage(calls=1, prompt_tokens=self.length, cost=0.0)
        return ContinuationResponse(
            tokens=tokens, usage=usage, model=name, truncated_tokens=truncated
        )


class ChoicesPlan:
    """How to score several given answers: a tree of token paths, each inner node evaluated once."""

    def __init__(self, prompt: Prompt, choices: Mapping[str, Sequence[str]]) -> None:
        joints = {
            label: [prompt.followed_by(form) for form in forms] for label, forms in choices.items()
        }
        for label, forms in choices.items():
            if not forms:
                raise RequestRefused(f"the choice {label!r} has no surface form")
        base = _base(prompt, [joint for forms in joints.values() for joint in forms])
        self.labels = tuple(choices)
        self.owners: dict[Path, str] = {}
        for label, forms in choices.items():
            for form, joint in zip(forms, joints[label], strict=True):
                self._claim(label, form, joint[base:])
        self._lay_out(joints[self.labels[0]][0][:base], prompt.encoded)

    def _claim(self, label: str, form: str, ids: Ids) -> None:
        path = tuple(int(token) for token in ids)
        if not path:
            raise RequestRefused(
                f"the form {form!r} of the choice {label!r} is not a token after this prompt"
            )
        owner = self.owners.setdefault(path, label)
        if owner != label:
            raise RequestRefused(f"the choices {owner!r} and {label!r} share the form {form!r}")

    def _lay_out(self, before: Ids, encoded: Ids) -> None:
        """Make one evaluation for each longest inner path; it passes through the shorter ones."""
        self._next: dict[Path, list[int]] = {}
        for path in self.owners:
            for depth in range(len(path)):
                following = self._next.setdefault(path[:depth], [])
                if path[depth] not in following:
                    following.append(path[depth])
        # A longer path passes through its beginnings, so their logits come with its own.
        self._inner = [
            path
            for path in self._next
            if not any(path != o and o[: len(path)] == path for o in self._next)
        ]
        self.evaluations = [
            Evaluation(
                np.concatenate([before, np.array(inner, np.int32)]).astype(np.int32),
                len(before) - 1,
                [np.array(self._next[inner[:depth]], np.int32) for depth in range(len(inner) + 1)],
                encoded,
            )
            for inner in self._inner
        ]
        self.length = max(len(before) + max(map(len, self.owners)), len(encoded))

    def response(self, name: str, _: Callable[[int], str], truncated: int) -> ChoicesResponse:
        """Return the answer, once evaluated; a label of probability zero has `None`."""
        steps: dict[tuple[Path, int], float] = {}
        for inner, evaluation in zip(self._inner, self.evaluations, strict=True):
            for depth, row in enumerate(evaluation.logprobs):
                prefix = inner[:depth]
                steps.update(
                    ((prefix, token), float(lp))
                    for token, lp in zip(self._next[prefix], row, strict=True)
                )
        whole = {
            path: math.fsum(steps[path[:depth], path[depth]] for depth in range(len(path)))
            for path in self.owners
        }
        logprobs = {
            label: _log_sum(
                _ending(path, whole) for path in self.owners if self.owners[path] == label
            )
            for label in self.labels
        }
        usage = Usage(calls=1, prompt_tokens=self.length, cost=0.0)
        return ChoicesResponse(
            logprobs=logprobs, usage=usage, model=name, truncated_tokens=truncated
        )


def _base(prompt: Prompt, joints: Sequence[Ids]) -> int:
    """Return the place from which on continuations are counted."""
    # Text that follows may change the prompt's last tokens ("the" + "re"): what counts as
    # continuation begins where the ids part.
    base = min(common_prefix(prompt.ids, joint) for joint in joints)
    if base == 0:
        raise RequestRefused(
            "no text precedes the text to score, and this model has no token that begins a"
            " text: its first token has no probability; give a prompt that is not empty"
        )
    return base


def _ending(path: Path, whole: Mapping[Path, float]) -> float:
    """Return the log-probability that the text ends with a path rather than begins a longer one.

    The path of 1 may be the beginning of that of 10: what goes to the longer ones is taken off, or
    the probabilities would add up to more than 1.
    """
    longer = [other for other in whole if len(other) > len(path) and other[: len(path)] == path]
    nearest = [
        one
        for one in longer
        if not any(
            len(path) < len(other) < len(one) and one[: len(other)] == other for other in longer
        )
    ]
    going_on = math.fsum(
        math.exp(whole[one] - whole[path]) for one in nearest if whole[path] > -math.inf
    )
    if not going_on:
        return whole[path]
    return whole[path] + (math.log1p(-going_on) if going_on < 1 else -math.inf)


def _log_sum(values: Iterable[float]) -> float | None:
    terms = [value for value in values if value > -math.inf]
    if not terms:
        return None
    top = max(terms)
    return min(0.0, top + math.log(math.fsum(math.exp(term - top) for term in terms)))


def _finite(logprob: float, token: str) -> float:
    if logprob == -math.inf:
        raise RequestRefused(
            f"the model rules the token {token!r} out altogether: its log-probability is not finite"
        )
    return min(0.0, logprob)
