"""Reads logits: log-probabilities of given text, and sampled answers.

A continuation is tokenized together with its prompt, and begins at the first token that differs
from the tokens of the prompt alone: a prompt that ends in a space may lose that space to the first
word. All choices of a request are counted from the earliest such place, so that their probabilities
belong to events that exclude each other. Sampled tokens depend on the logits and the seed alone, so
an answer can be repeated, even after other requests.
"""

from __future__ import annotations

import codecs
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.local.tokens import Ids, Vocabulary, common_prefix, sort_key
from textassay.runtime.base import Usage
from textassay.runtime.errors import (
    FatalModelError,
    MalformedResponse,
    RequestRefused,
    TextassayError,
)
from textassay.runtime.model import (
    ChoicesResponse,
    ContinuationResponse,
    FinishReason,
    Request,
    Response,
    Sample,
    TokenLogprob,
    log_sum,
)

if TYPE_CHECKING:
    from textassay.runtime.backends.local.json_grammar import JsonGrammar

LogitRow = NDArray[np.float32]
Path = tuple[int, ...]


def log_total(row: LogitRow) -> float:
    """Return the natural log of the sum of exponentials of a row, the softmax normalizer.

    Exponentials are in single precision, which is much faster, and their sum is in double
    precision: the result is within 1e-6 of one in double precision.
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
    """The sequence up to the last position whose prediction is wanted."""
    first: int
    """First position whose prediction is wanted: the token after `ids[first]`."""
    targets: list[Ids]
    """Ids wanted at positions `first`, `first + 1`, ...; the last belongs to the last of `ids`."""
    encoded: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    """Input of an encoder, if there is one; then `ids` are the decoder's."""
    logprobs: list[NDArray[np.float64]] = field(default_factory=list)
    """Log-probabilities, one array for each of `targets`."""

    def take(self, position: int, rows: NDArray[np.float32]) -> None:
        """Read the wanted log-probabilities from the logits of `position` and the next ones."""
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


class PromptIds(Protocol):
    """A tokenized prompt that a text may follow."""

    ids: Ids
    encoded: Ids
    """Input of an encoder, if there is one; then the decoder begins with `ids`."""

    def encode_with(self, text: str) -> Ids:
        """Return the ids of prompt and text together."""
        ...


class ScoringPlan(ABC):
    """A tokenized request for scores: the texts to evaluate, and the answer from their values."""

    evaluations: list[Evaluation]
    length: int
    """Tokens that it needs in the context."""
    truncated = 0
    """Tokens of the source that were left out."""

    def __len__(self) -> int:
        return sum(evaluation.length for evaluation in self.evaluations)

    @property
    def key(self) -> bytes:
        """Sort key by which tasks with a common prefix are neighbors."""
        # The longest text stays in the cache, and its prefix can be shared with the next task.
        return sort_key(max((evaluation.ids for evaluation in self.evaluations), key=len))

    @abstractmethod
    def response(self, name: str) -> ChoicesResponse | ContinuationResponse:
        """Return the answer, once evaluated."""

    def _fields(self, name: str) -> dict[str, Any]:
        usage = Usage(calls=1, prompt_tokens=self.length, cost=0.0)
        return {"usage": usage, "model": name, "truncated_tokens": self.truncated}


class ContinuationPlan(ScoringPlan):
    """How to score one given text; `spell` gives the text of a token."""

    def __init__(self, prompt: PromptIds, continuation: str, spell: Callable[[int], str]) -> None:
        joint = prompt.encode_with(continuation)
        base = _base(prompt, [joint])
        if base == len(joint):
            raise RequestRefused(
                f"the continuation {continuation[:40]!r} adds no token to the prompt"
            )
        self.tokens, self._spell = joint[base:], spell
        # Encoder and decoder have their own positions: the longer of the two must fit.
        self.length = max(len(joint), len(prompt.encoded))
        targets = [self.tokens[i : i + 1] for i in range(len(self.tokens))]
        self.evaluations = [Evaluation(joint[:-1], base - 1, targets, prompt.encoded)]

    def response(self, name: str) -> ContinuationResponse:
        spelled = [self._spell(int(token)) for token in self.tokens]
        tokens = tuple(
            TokenLogprob(token=text, logprob=_finite(float(logprobs[0]), text))
            for text, logprobs in zip(spelled, self.evaluations[0].logprobs, strict=True)
        )
        return ContinuationResponse(tokens=tokens, **self._fields(name))


class ChoicesPlan(ScoringPlan):
    """How to score several given answers: a tree of token paths, each inner node evaluated once."""

    def __init__(self, prompt: PromptIds, choices: Mapping[str, Sequence[str]]) -> None:
        joints = {
            label: [prompt.encode_with(form) for form in forms] for label, forms in choices.items()
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

    def response(self, name: str) -> ChoicesResponse:
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
            label: log_sum(
                _ending(path, whole) for path in self.owners if self.owners[path] == label
            )
            for label in self.labels
        }
        return ChoicesResponse(logprobs=logprobs, **self._fields(name))


def _base(prompt: PromptIds, joints: Sequence[Ids]) -> int:
    """Return the place at which continuations begin."""
    # The text may change the prompt's last tokens ("the" + "re"): the continuation begins where
    # the ids differ.
    base = min(common_prefix(prompt.ids, joint) for joint in joints)
    if base == 0:
        raise RequestRefused(
            "no text precedes the text to score, and this model has no token that begins a"
            " text: its first token has no probability; give a prompt that is not empty"
        )
    return base


def _ending(path: Path, whole: Mapping[Path, float]) -> float:
    """Return the log-probability that the text ends with a path rather than begins a longer one.

    The path of "1" may begin the path of "10": the probability of longer paths is subtracted, as
    the sum of all would exceed 1 otherwise.
    """
    longer = [other for other in whole if len(other) > len(path) and other[: len(path)] == path]
    nearest = [
        candidate
        for candidate in longer
        if not any(
            len(path) < len(other) < len(candidate) and candidate[: len(other)] == other
            for other in longer
        )
    ]
    going_on = math.fsum(
        math.exp(whole[candidate] - whole[path]) for candidate in nearest if whole[path] > -math.inf
    )
    if not going_on:
        return whole[path]
    return whole[path] + (math.log1p(-going_on) if going_on < 1 else -math.inf)


def _finite(logprob: float, token: str) -> float:
    if logprob == -math.inf:
        raise RequestRefused(
            f"the model rules the token {token!r} out altogether: its log-probability is not finite"
        )
    return min(0.0, logprob)


class Sampler:
    """Draws the tokens of one sample, by the request's seed and the sample's number if given."""

    def __init__(
        self,
        *,
        temperature: float,
        top_p: float,
        seed: tuple[int, int] | None,
        grammar: JsonGrammar | None,
    ) -> None:
        self._temperature, self._top_p, self._grammar = temperature, top_p, grammar
        # A sequence of two numbers: adding the sample's number to the seed would make sample 1 of
        # seed 7 equal to sample 0 of seed 8.
        entropy = [seed[0] % 2**64, seed[1]] if seed else None
        self._rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))

    def pick(self, row: LogitRow) -> int:
        """Return the next token's id.

        The grammar checks the drawn token first, and all tokens only if it refuses that one. A
        second draw among the allowed tokens has the same distribution as a first draw among them.
        """
        token = self._draw(row)
        if not self._grammar or self._grammar.allows(token):
            return token
        allowed = self._grammar.allowed_tokens()
        if not allowed.any():
            raise MalformedResponse(
                "the JSON schema leaves no token of the model's vocabulary to continue with"
            )
        return self._draw(np.where(allowed, row, -np.inf).astype(np.float32))

    def accept(self, token: int) -> None:
        """Advance the grammar by `token`."""
        if self._grammar:
            self._grammar.accept(token)

    def _draw(self, row: LogitRow) -> int:
        if self._temperature == 0:
            return int(row.argmax())
        with np.errstate(over="ignore"):  # at tiny temperatures all but the best become exp(-inf)
            # 1e-30 is still a number in single precision
            weights = np.exp((row - row.max()) / np.float32(max(self._temperature, 1e-30)))
        if self._top_p == 1:
            return self._place_in(weights)
        order = nucleus(weights, self._top_p)
        return int(order[self._place_in(weights[order])])

    def _place_in(self, weights: LogitRow) -> int:
        """Draw a place with a probability in proportion to its weight."""
        cumulated = np.cumsum(weights, dtype=np.float64)
        place = int(np.searchsorted(cumulated, self._rng.random() * cumulated[-1], side="right"))
        # Rounding can put the draw at the very end of the sum.
        return min(place, len(weights) - 1)


def nucleus(weights: LogitRow, top_p: float) -> NDArray[np.intp]:
    """Return the fewest tokens with `top_p` of the probability, the likeliest first.

    `weights` are probabilities up to a factor, shape (vocabulary,). Only the likeliest few are
    sorted, and more of them until they suffice: a full sort of 128,000 tokens takes longer than a
    small model's step.
    """
    target = top_p * float(weights.sum(dtype=np.float64))
    count = min(256, len(weights))
    while True:
        border = np.partition(weights, len(weights) - count)[len(weights) - count]
        # whole runs of equals, so that order never depends on `count`
        likely = np.flatnonzero(weights >= border)
        order = likely[np.argsort(-weights[likely], kind="stable")]
        sums = np.cumsum(weights[order], dtype=np.float64)
        if sums[-1] >= target or len(order) == len(weights):
            before = sums - weights[order]
            return order[: max(1, int((before < target).sum()))]
        count = min(16 * count, len(weights))


class PartialAnswer:
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

    def grow(self, row: LogitRow) -> bool:
        """Append the next token, picked from its logits; return whether the answer continues."""
        total = log_total(row)
        token = self._sampler.pick(row)
        if token in self._vocabulary.end_ids:
            self.finish = "stop"
            return False
        self._sampler.accept(token)
        if self._alternatives is not None:
            self._logprobs.append((len(self._bytes), self._to_logprob(row, token, total)))
        self.tokens.append(token)
        piece = self._vocabulary.piece(token, special=self._special)
        self._bytes += piece
        if self._find_stop(len(piece)):
            self.finish = "stop"
        elif len(self.tokens) >= self._most:
            self.finish = "length"
        return not self.finish

    def _find_stop(self, fresh: int) -> bool:
        for stop in self._stops:
            # A stop may begin in earlier tokens
            place = self._bytes.find(stop, max(0, len(self._bytes) - fresh - len(stop)))
            if place >= 0:
                del self._bytes[place:]
                return True
        return False

    def _to_logprob(self, row: LogitRow, token: int, total: float) -> TokenLogprob:
        count = min(self._alternatives or 0, len(row))
        best = np.argpartition(-row, count - 1)[:count] if count else np.empty(0, np.intp)
        best = best[np.argsort(-row[best], kind="stable")]
        top = tuple(
            (self._vocabulary.text(int(i)), min(0.0, float(row[i]) - total))
            for i in best
            if np.isfinite(row[i])
        )
        return TokenLogprob(
            token=self._vocabulary.text(token), logprob=min(0.0, float(row[token]) - total), top=top
        )

    def sample(self) -> Sample:
        """Return the answer.

        Invalid UTF-8 becomes U+FFFD; a character that is cut off at the end is dropped.
        """
        # Without `final`, the decoder holds an unfinished character back.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._bytes))
        # The tokens of a stop are dropped with its text.
        entries = [entry for start, entry in self._logprobs if start < max(1, len(self._bytes))]
        return Sample(
            text=text,
            finish_reason=self.finish or "length",
            logprobs=None if self._alternatives is None else tuple(entries),
        )


class Generation:
    """The answers to one request.

    `ids` are evaluated before an answer, which has at most `most` tokens; `grammar` makes the
    grammar of a sample.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        request: Request,
        ids: Ids,
        *,
        most: int,
        grammar: Callable[[], JsonGrammar] | None = None,
    ) -> None:
        self._vocabulary, self.request, self.ids, self._most = vocabulary, request, ids, most
        self._new_grammar = grammar
        self._grammars: list[JsonGrammar] = []
        self.drafts: list[PartialAnswer] = []
        self.error: TextassayError | None = None
        """The error of this request, if it failed and others did not."""
        self.truncated = 0
        """Tokens of the source that were left out."""

    def __len__(self) -> int:
        return len(self.ids) + self.request.n

    @property
    def key(self) -> bytes:
        """Sort key by which tasks with a common prefix are neighbors."""
        return sort_key(self.ids)

    def begin(self) -> list[PartialAnswer]:
        """Begin all samples."""
        request = self.request
        if self._new_grammar:
            self._grammars = [self._new_grammar() for _ in range(request.n)]
        for number in range(request.n):
            sampler = Sampler(
                temperature=1.0 if request.temperature is None else request.temperature,
                top_p=request.top_p,
                # Another draw of the same request must be another sample, and the same each time.
                seed=None if request.seed is None else (request.seed + request.draw, number),
                grammar=self._grammars[number] if self._grammars else None,
            )
            self.drafts.append(PartialAnswer(self._vocabulary, request, self._most, sampler))
        return self.drafts

    def response(self, name: str) -> Response:
        """Return the answers, once written, or raise the error of the request."""
        if self.error:
            raise self.error
        usage = Usage(
            calls=1,
            prompt_tokens=len(self.ids),
            completion_tokens=sum(len(draft.tokens) for draft in self.drafts),
            cost=0.0,
        )
        samples = tuple(draft.sample() for draft in self.drafts)
        return Response(samples=samples, usage=usage, model=name, truncated_tokens=self.truncated)

    def close(self) -> None:
        """Free the grammars."""
        for grammar in self._grammars:
            grammar.close()
