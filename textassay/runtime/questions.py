"""Typed questions about a text, and the probabilities that answer them.

The answer to a question has a probability for each of its options. Only `read_answer` checks
probabilities from a server: an answer that fails a check has no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from operator import mul
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from textassay.runtime.base import (
    NO_USAGE,
    Count,
    Json,
    Message,
    Number,
    Outcome,
    ScoreError,
    Usage,
)
from textassay.runtime.errors import AnswerUnfinished, ModelError
from textassay.runtime.images import Image

QuestionKind = Literal["yes_no", "choice", "rating"]

MIN_MASS = 0.1
"""Least total probability of the reported options if another option is not reported.

Servers report the 20 likeliest tokens. If the reported options have at least this probability in
total, then the renormalized probabilities are wrong by less than a third, and the likelier of two
options is always the right one: the 20th token has at most .05, and .05 / (.05 + .1) is a third. A
quarter of it would allow an error of two thirds, four times of it one of a ninth."""
HALF_PRECISION = 2**-8
"""Tolerance of a sum of probabilities that were computed in half precision, as a share."""
SLACK = 1e-6
"""Further tolerance for sums of floats."""
OFF_BY = 0.01
"""Levels, for each level of a rating, by which a sent score may differ from the mean of the rounded
probabilities: with five levels of Jev it is off by up to .04."""


class Option(Message, defer_build=True):
    """One answer that a question allows."""

    name: str = Field(min_length=1)
    """Name of the option, such as `supported`, or of the level, such as `3`."""
    meaning: str = ""
    """Definition, for the model."""


class Question(Message, defer_build=True):
    """A question with the options that may answer it; see `yes_no`, `choice` and `rating`."""

    kind: QuestionKind
    text: str = Field(min_length=1)
    """The question or statement without its options."""
    options: tuple[Option, ...] = Field(min_length=2)
    """The options in the order of the prompt; the levels of a rating from lowest to highest."""

    @model_validator(mode="after")
    def _options_differ(self) -> Self:
        names = self.names
        if len(set(names)) < len(names):
            raise ValueError(f"the options of a question have different names, not {list(names)}")
        if self.kind == "yes_no" and names != ("yes", "no"):
            raise ValueError("a yes/no question has the options yes and no, in this order")
        return self

    def __hash__(self) -> int:
        return hash(self.shown)  # a text caches its hash

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the options, in order."""
        return tuple(option.name for option in self.options)

    @cached_property
    def wire_names(self) -> list[str]:
        """Names of the options for servers; the levels of a rating are numbered."""
        is_rating = self.kind == "rating"
        return [*map(str, range(len(self.options)))] if is_rating else [*self.names]

    @cached_property
    def digest(self) -> str:
        """32 hex digits that identify the question with its options."""
        return sha256(self.shown.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @cached_property
    def shown(self) -> str:
        """The question with its options as JSON, with about the length that is sent."""
        return self.model_dump_json()

    @classmethod
    def yes_no(cls, text: str, *, yes: str = "", no: str = "") -> Question:
        """Return a yes/no question or statement.

        Args:
            text: The question or statement.
            yes: When the answer is yes.
            no: When the answer is no.
        """
        options = (Option(name="yes", meaning=yes), Option(name="no", meaning=no))
        return cls(kind="yes_no", text=text, options=options)

    @classmethod
    def choice(cls, text: str, options: Mapping[str, str] | Iterable[str]) -> Question:
        """Return a question with several options.

        Args:
            text: The question.
            options: Names, or definitions by name.
        """
        return cls(kind="choice", text=text, options=_options(options))

    @classmethod
    def rating(cls, text: str, levels: Mapping[str, str] | Iterable[str]) -> Question:
        """Return a question with the levels of a scale.

        Args:
            text: The question.
            levels: Names, or definitions by name, from the lowest level to the highest.
        """
        return cls(kind="rating", text=text, options=_options(levels))


def _options(options: Mapping[str, str] | Iterable[str]) -> tuple[Option, ...]:
    pairs = options.items() if isinstance(options, Mapping) else ((name, "") for name in options)
    return tuple(Option(name=name, meaning=meaning) for name, meaning in pairs)


class QuestionLimits(Message):
    """Maximum sizes of one request to a provider; 0 if unknown."""

    questions: Count = 0
    options: Count = 0
    levels: Count = 0
    tokens: Count = 0
    """Most tokens of the material and all questions together."""

    def refuse(self, question: Question) -> str:
        """Return why a question is refused, if it has too many options; else an empty text."""
        most = self.levels if question.kind == "rating" else self.options
        what = "levels" if question.kind == "rating" else "options"
        if not most or len(question.options) <= most:
            return ""
        return (
            f"takes at most {most} {what}; the question {question.text[:80]!r} has"
            f" {len(question.options)}: give it fewer, or ask another model"
        )


class NamedText(Message, defer_build=True):
    """A text of the material for questions."""

    name: str = Field(min_length=1)
    """Name of the part, such as `article` or `summary`, as questions may refer to it."""
    text: str

    def __hash__(self) -> int:
        return hash(self.text)  # which a text remembers; all questions about it look for it


class DecisionRequest(Message, defer_build=True):
    """Asks several questions about the same material; every field is part of the cache key."""

    texts: tuple[NamedText, ...] = Field(min_length=1)
    """The material: texts with different names."""
    questions: tuple[Question, ...] = Field(min_length=1)
    images: tuple[Image, ...] = ()
    """Images of the material, sent before its texts."""
    draw: int = Field(default=0, ge=0)
    """Number of the repeat among otherwise equal requests."""
    joint: bool = False
    """Whether a chat model without log-probabilities answers all questions in one JSON object, at
    temperature 0: cheaper, but the answers depend on each other. Has no effect on decision models.
    """
    truncatable: str = ""
    """Name of the text that may be cut at its end if it does not fit a local model with
    `truncate="source"`. Has no effect on decision models.
    """
    extra: Json = Field(default_factory=dict)
    """Further fields for the provider, sent unchanged."""

    @model_validator(mode="after")
    def _texts_differ(self) -> Self:
        names = [text.name for text in self.texts]
        if len(set(names)) < len(names):
            raise ValueError(f"the texts of a request have different names, not {names}")
        return self

    @cached_property
    def shared_digest(self) -> bytes:
        """SHA-256 of all fields but the questions; an image counts by its content."""
        fields = self.model_dump_json(exclude={"questions", "images"})
        images = [(image.number, image.name, image.key) for image in self.images]
        return sha256(f"{fields}{images}".encode("utf-8", "surrogatepass")).digest()

    @property
    def text(self) -> str:
        """All the text that is sent, for estimates of its length."""
        parts = [part for text in self.texts for part in (text.name, text.text)]
        return "\n".join([*parts, *(question.shown for question in self.questions)])

    def with_questions(self, questions: Iterable[Question]) -> DecisionRequest:
        """Return the same request with other questions."""
        other = self.model_copy(update={"questions": tuple(questions)})
        if "shared_digest" in self.__dict__:  # the slowest part of a key
            other.__dict__["shared_digest"] = self.shared_digest
        return other


class Way(Message, defer_build=True):
    """How answers were obtained; part of the signature of their scores."""

    how: Literal["decision", "logprob", "sampled", "text"]
    """`decision`: probabilities as a decision model sent them; `logprob`: token probabilities of
    the options; `sampled`: shares of written answers; `text`: one written answer."""
    samples: Count = 0
    """Number of requested written answers whose shares are read; 0 otherwise."""
    joint: bool = False
    """Whether the answer to a question may depend on the others of its request."""
    words: str = ""
    """Digest of the words of a chat model's prompt; empty for decision models."""

    @cached_property
    def facts(self) -> str:
        """Its part of signatures, such as `how:sampled|n:20|temp:1|joint|words:1f00aa`."""
        parts = [f"how:{self.how}"]
        if self.samples:
            parts += [f"n:{self.samples}", "temp:1"]
        parts += ["joint"] * self.joint
        parts += [f"words:{self.words}"] * bool(self.words)
        return "|".join(parts)

    def sign(self, signature: str) -> str:
        """Return a signature with `how:auto` replaced by how an answer was obtained.

        The aspects that may be asked together (`joint:...`) remain if they were, in place of the
        bare `joint`.
        """
        facts, (before, joint, after) = self.facts, signature.partition("|joint:")
        if joint and self.joint:
            facts = facts.replace("|joint", "")
        elif joint:
            signature = before + after[after.find("|") :]
        return signature.replace("|how:auto|", f"|{facts}|", 1)


DECIDED = Way(how="decision")
DECIDED_JOINTLY = Way(how="decision", joint=True)


class QuestionAnswer(Message, defer_build=True):
    """The probabilities of one question's options, or why they are missing."""

    probabilities: dict[str, Number] = Field(default_factory=dict)
    """Probabilities by option, in the question's order, as sent; empty without an answer."""
    score: Number | None = None
    """Mean level of a rating, counted from 0, as sent; `None` for other kinds."""
    choice: str = ""
    """Option that was sent as the likeliest, if another one has as much probability by rounding."""
    mass: Number | None = None
    """Total probability of all options; `None` if unknown."""
    outcome: Outcome = "scored"
    """`abstained` if the model refused this question, `invalid` if its answer fails a check,
    `error` if its request failed and others of the same `decide` were answered."""
    problem: ScoreError | None = None
    """Why there is no answer; `None` exactly if `outcome` is `scored`."""
    unreported: tuple[str, ...] = ()
    """Options that are not among the reported tokens; they count as 0."""
    usable: Count = 0
    """Number of written answers that name an option; 0 if probabilities are read."""
    notes: tuple[Json, ...] = ()
    """Further evidence, each with a `text`: the provider's confidence, recomputed values, the
    model's thought.
    """

    @property
    def shares(self) -> dict[str, float]:
        """The probabilities, normalized to a sum of 1."""
        total = math.fsum(self.probabilities.values())
        if abs(total - 1) < SLACK:
            return self.probabilities
        return {name: p / total for name, p in self.probabilities.items()}

    @property
    def p_yes(self) -> float:
        """P(yes) / (P(yes) + P(no)) of an answered yes/no question."""
        return self.shares["yes"]

    @property
    def likeliest(self) -> str:
        """The likeliest option of an answered question; in a tie the sent one, or the first."""
        return self.choice or max(self.probabilities, key=self.probabilities.__getitem__)

    def mean_on(self, scale: tuple[float, float]) -> float:
        """Return the mean level of an answered rating, with levels evenly spaced on a scale."""
        assert self.score is not None
        low, high = scale
        return low + (high - low) * self.score / (len(self.probabilities) - 1)

    @property
    def spread(self) -> float:
        """Standard deviation of the level of an answered rating, or of yes as 1 and no as 0.

        It is the model's own uncertainty, and not the spread of repeated answers.
        """
        shares = list(self.probabilities.values())
        values = (1, 0) if self.score is None else range(len(shares))
        total = math.fsum(shares)
        mean = math.fsum(map(mul, values, shares)) / total
        squares = [p * (v - mean) ** 2 for v, p in zip(values, shares, strict=True)]
        return math.sqrt(math.fsum(squares) / total)


class DecisionResponse(Message, defer_build=True):
    """Answers to a `DecisionRequest`."""

    answers: tuple[QuestionAnswer, ...] = Field(min_length=1)
    """One for each question, in order."""
    way: Way
    """How all answers were obtained."""
    usage: Usage = NO_USAGE
    model: str | None = None
    """The model as the server names it."""
    truncated_tokens: int = Field(default=0, ge=0)
    """Tokens of the material that were left out, if truncation was asked for."""


class SentAnswer(NamedTuple):
    """A server's answer, in either wire form, before any check."""

    kind: object
    probabilities: Sequence[tuple[object, object]]
    """Pairs of option and probability; a rating's options are the numbers of its levels."""
    score: object = None
    choice: object = None
    confidence: object = None
    mass: object = None


def invalid_answer(kind: str, message: str) -> QuestionAnswer:
    """Return the answer that replaces an answer that fails a check."""
    return QuestionAnswer(outcome="invalid", problem=ScoreError(type=kind, message=message))


def refused_answer(message: str) -> QuestionAnswer:
    """Return the answer to a question that the model refuses."""
    return QuestionAnswer(outcome="abstained", problem=ScoreError(type="Declined", message=message))


def failed_answer(error: ModelError) -> QuestionAnswer:
    """Return the answer to a question whose request failed, while others were answered."""
    outcome: Outcome = "invalid" if isinstance(error, AnswerUnfinished) else "error"
    problem = ScoreError(type=type(error).__name__, message=str(error))
    return QuestionAnswer(outcome=outcome, problem=problem)


def distribution(question: Question, probabilities: Mapping[str, float]) -> QuestionAnswer:
    """Return probabilities by option as the answer to a question, checked like a server's."""
    mean: object = None
    if question.kind == "rating":
        mean = math.fsum(i * probabilities.get(n, 0.0) for i, n in enumerate(question.names))
    places = {name: index for index, name in enumerate(question.names)}
    is_rating = question.kind == "rating"
    pairs = [(places.get(n, n) if is_rating else n, p) for n, p in probabilities.items()]
    return read_answer(question, SentAnswer(question.kind, pairs, score=mean))


def read_answer(question: Question, sent: SentAnswer) -> QuestionAnswer:
    """Return the sent answer, or an invalid one that names the failed check.

    Every option must have one finite probability between 0 and 1, there must be no other options,
    and the sum must be 1 up to rounding. A sent likeliest option must agree with them; a mean level
    that does not agree is recomputed, with a note.
    """
    return QuestionAnswer(**answer_fields(question, sent))


def answer_fields(question: Question, sent: SentAnswer) -> Json:
    """Return the fields of `read_answer`'s result, as a response validates all its answers."""
    try:
        return _check_answer(question, sent)
    except ValueError as error:
        return vars(invalid_answer("MalformedProbabilities", str(error)))


def _check_answer(question: Question, sent: SentAnswer) -> Json:
    if sent.kind != question.kind:
        raise ValueError(f"the answer is of another kind: {str(sent.kind)[:40]!a}")
    options = question.wire_names
    by_option = {
        # the usual case, which saves a call that takes as long as the rest of the line
        str(option): p if type(p) is float and 0.0 <= p <= 1.0 else _probability(p)
        for option, p in sent.probabilities
    }
    is_whole = [*by_option] == options or by_option.keys() == set(options)
    if not is_whole or len(sent.probabilities) != len(options):
        names = [str(option) for option, _ in sent.probabilities]
        raise ValueError(f"probabilities of {names!a:.200} were sent, not of the options asked")
    shares = [by_option[option] for option in options]
    total = math.fsum(shares)
    off = abs(total - 1) - SLACK
    if off > HALF_PRECISION and off > _rounding(shares):
        raise ValueError(f"the probabilities add up to {total:.6g}, not to 1")
    if total <= 0.5:  # of 100 options and more, each with half a hundredth at the most
        raise ValueError(
            f"rounding took away {1 - total:.6g} of the probability, and left {total:.6g}"
        )
    fields: Json = {"probabilities": dict(zip(question.names, shares, strict=True))}
    notes: list[Json] = []
    if isinstance(sent.confidence, int | float) and math.isfinite(sent.confidence):
        notes.append({"text": "confidence, as the provider computes it", "sent": sent.confidence})
    if sent.choice is not None:
        chosen = by_option.get(str(sent.choice), 0.0)
        # two probabilities are rounded, and one may have been moved by .01 to make the sum 1
        if chosen < max(shares) - 2 * OFF_BY - SLACK:
            raise ValueError(
                f"{str(sent.choice)[:80]!a} was sent as the likeliest option, with probability"
                f" {chosen:.3g} beside {max(shares):.3g}"
            )
        likeliest = options[shares.index(max(shares))]
        if question.kind == "choice" and chosen and likeliest != sent.choice:
            fields["choice"] = str(sent.choice)
    if question.kind == "rating":
        mean = math.fsum(map(mul, range(len(shares)), shares)) / total
        score: Any = sent.score if type(sent.score) in (float, int) else math.nan
        if not abs(score - mean) <= OFF_BY * len(shares) + SLACK:
            notes.append({
                "text": "the score that was sent is not the mean",
                "sent": str(float(score)),
            })  # fmt: skip
            score = mean
        fields["score"] = score
    if sent.mass is not None:
        fields["mass"] = _probability(sent.mass)
    if notes:
        fields["notes"] = tuple(notes)
    return fields


def _rounding(shares: Sequence[float]) -> float:
    """Return the largest rounding error of the sum: half of the last decimal for each share.

    A share of 0 was not rounded up, and adds nothing to a sum above 1.
    """
    count = len(shares) if math.fsum(shares) < 1 else len(shares) - shares.count(0.0)
    for unit in (100, 1000, 10_000):  # servers send two decimals or more
        if all(abs(unit * share - round(unit * share)) < SLACK for share in shares):
            return 0.5 / unit * count
    return 0.0


def _probability(value: object) -> float:
    if type(value) not in (float, int) or not 0 <= value <= 1:  # type: ignore[operator]
        raise ValueError(f"{str(value)[:40]!a} was sent in place of a probability")
    return float(value)  # type: ignore[arg-type]


def combine_answers(
    answers: Sequence[QuestionAnswer], responses: Sequence[DecisionResponse]
) -> DecisionResponse:
    """Return several responses as one, with the sum of their costs."""
    first = responses[0]
    return DecisionResponse(
        answers=tuple(answers),
        way=next((one.way for one in responses if one.way.joint), first.way),
        usage=sum((one.usage for one in responses), NO_USAGE),
        model=first.model,
        truncated_tokens=max(one.truncated_tokens for one in responses),
    )
