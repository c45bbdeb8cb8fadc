"""Puts a typed question to a model that writes, and reads its answer.

Askers with words of their own, such as a paper's, give a `QuestionWording`; `word` makes ours.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.model import (
    ChatMessage,
    ChoicesResponse,
    Json,
    Sample,
    thought_note,
)
from textassay.runtime.questions import DecisionRequest, Question, QuestionAnswer, invalid

MIN_MASS = 0.1
"""Least probability of all reported options together if another one is not reported.

Servers report the 20 likeliest tokens: if the options among them have at least this share, and
another is not among them, then the renormalized probabilities are wrong by less than a third, and
never on which of two options is likelier."""
MAX_TOKENS = 16
"""Longest written answer to one question; an answer to several has as many for each."""
MAX_QUOTED = 200
"""Characters of an unusable answer that a message quotes."""
MAX_LETTERS = 26
MAX_DIGITS = 9
"""Options that one letter, or one digit, each can stand for."""

READ_WORDS = """Answer with {labels} and nothing else."""
JSON_WORDS = (
    "Answer with one JSON object and nothing else: by the name of each question, one of its answers"
    " as it stands before the colon."
)
WORDS = hashlib.sha256(f"{READ_WORDS}{JSON_WORDS}1".encode()).hexdigest()[:6]
"""Digest of our words around a question; the last digit counts changes of their layout."""


@dataclass(frozen=True)
class QuestionWording:
    """How one question is put to a model that writes, and how a written answer is read."""

    question: Question
    prompts: tuple[Mapping[str, Any], ...]
    """The prompt as fields of a request, then other forms of it for local models that refuse that
    one."""
    forms: Mapping[str, tuple[str, ...]]
    """By label, in the order of the options, how an answer may spell it."""
    read: Callable[[Sample], int | None] = lambda sample: None
    """Returns the place of the option that a written answer names."""
    sampling: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 1.0})
    """How written answers are sampled: from the model's own distribution, if a user wants no
    other."""
    digest: str = ""
    """Digest of these words, if signatures have it nowhere else."""
    posting: Posting = PLAIN
    """How the prompt is sent."""

    def read_choices(self, response: ChoicesResponse, name: str) -> QuestionAnswer:
        """Return the options' probabilities, renormalized over those that a model reported."""
        labels, names = list(self.forms), self.question.names
        logprobs = [response.logprobs.get(label) for label in labels]
        known = [logprob for logprob in logprobs if logprob is not None]
        unreported = tuple(n for n, one in zip(names, logprobs, strict=True) if one is None)
        mass = response.mass
        if not known:
            why = f"{name!r} would answer something other than {join_or(labels)}"
            return invalid("NoLabelMass", f"{why}: none of them is among its likeliest tokens")
        if unreported and mass < MIN_MASS:
            why = f"{join_or(labels, 'and')} together have probability {mass:.3g} for {name!r}"
            lacking = f"{join_or(unreported, 'and')} not among its likeliest tokens"
            answer = invalid("NoLabelMass", f"{why}, less than {MIN_MASS:g} ({lacking})")
            return answer.model_copy(update={"mass": mass})
        top = max(known)
        weights = [0.0 if one is None else math.exp(one - top) for one in logprobs]
        total = math.fsum(weights)
        shares = {n: weight / total for n, weight in zip(names, weights, strict=True)}
        return self._answered(shares, mass=mass, unreported=unreported)

    def read_samples(self, samples: Sequence[Sample]) -> QuestionAnswer:
        """Return the options' shares of written answers."""
        return self.read_votes([self.read(sample) for sample in samples], samples)

    def read_votes(self, votes: Sequence[int | None], samples: Sequence[Sample]) -> QuestionAnswer:
        """Return the options' shares of votes by place, if most of the answers give one."""
        given = [vote for vote in votes if vote is not None]
        if 2 * len(given) < len(votes) or not given:
            cut = all(sample.finish_reason == "length" for sample in samples)
            return invalid(
                "NoAnswerFound",
                f"{len(given)} of {len(votes)} written answers name {join_or(self.forms)}; the"
                f" first says: {samples[0].text.strip()[:MAX_QUOTED]!r}"
                + " (all were cut at max_tokens)"
                * cut,
            )
        names = self.question.names
        shares = {name: given.count(at) / len(given) for at, name in enumerate(names)}
        return self._answered(shares, usable=len(given), notes=thought_note(samples))

    def _answered(self, shares: dict[str, float], **more: Any) -> QuestionAnswer:
        score = None
        if self.question.kind == "rating":
            score = math.fsum(level * share for level, share in enumerate(shares.values()))
        return QuestionAnswer(probabilities=shares, score=score, **more)


class WordedRequest:
    """A request as a chat model is asked it: the material first, then one question, or all."""

    def __init__(self, request: DecisionRequest) -> None:
        self._request = request
        number = _unused_number(text.text for text in request.texts)
        self._shared = "".join(
            f"{text.name.capitalize()}:\n<text-{number}>\n{text.text}\n</text-{number}>\n\n"
            for text in request.texts
        )
        self.wordings = [self._word(question) for question in request.questions]
        """How each question is asked by itself."""

    def _word(self, question: Question) -> QuestionWording:
        labels = _labels(question)
        rest = f"{_shown(question, labels)}\n\n{READ_WORDS.format(labels=join_or(labels))}"
        return QuestionWording(
            question,
            prompts=self._prompts(rest),
            forms={label: _spellings(label) for label in labels},
            read=partial(_read_written, question, labels),
            sampling={"temperature": 1.0, "draw": self._request.draw},
            posting=self._posting(labels[0]),
            digest=WORDS,
        )

    def _prompts(self, rest: str) -> tuple[Mapping[str, Any], ...]:
        """Return the prompt as a chat, and as a plain text for a model that takes no chat."""
        request, text = self._request, self._shared + rest
        cut = next((t.text for t in request.texts if t.name == request.truncatable), None)
        fields: dict[str, Any] = {"truncatable": cut, "extra": request.extra}
        message = ChatMessage(role="user", content=text)
        chat = {"messages": (message,), "images": request.images}
        return {**fields, **chat}, {**fields, "prompt": f"{text}\n\nAnswer:"}

    def _posting(self, dry_run_answer: str) -> Posting:
        shared = len(self._shared) if len(self._request.questions) > 1 else 0
        return Posting(dry_run_answer=dry_run_answer, shared_prefix=shared)

    @property
    def prompts(self) -> tuple[Mapping[str, Any], ...]:
        """The prompt of all questions, as `QuestionWording.prompts`."""
        every = [
            f"{name}: {_shown(one.question, tuple(one.forms))}" for name, one in self._named.items()
        ]
        return self._prompts("\n\n".join([*every, JSON_WORDS]))

    @property
    def _named(self) -> dict[str, QuestionWording]:
        return {f"q{place}": one for place, one in enumerate(self.wordings, start=1)}

    @property
    def schema(self) -> Json:
        """JSON schema of an answer to all questions."""
        properties = {
            name: {"type": "string", "enum": list(one.forms)} for name, one in self._named.items()
        }
        return {
            "type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False,
        }  # fmt: skip

    @property
    def posting(self) -> Posting:
        """How the prompt of all questions is sent."""
        answers = {name: one.posting.dry_run_answer for name, one in self._named.items()}
        return self._posting(json.dumps(answers))

    def read_samples(self, samples: Sequence[Sample]) -> list[QuestionAnswer]:
        """Return the answers to all questions from JSON objects."""
        objects = list(map(_object_in, samples))
        answers = []
        for name, one in self._named.items():
            places = {label: at for at, label in enumerate(one.forms)}
            votes = [places.get(str(given.get(name))) for given in objects]
            answers.append(one.read_votes(votes, samples))
        return answers


def join_or(words: Iterable[str], last: str = "or") -> str:
    """Return words in a sentence: `A, B or C`."""
    *others, end = words
    return f"{', '.join(others)} {last} {end}" if others else end


def _shown(question: Question, labels: Sequence[str]) -> str:
    """Return a question with what each label stands for."""
    lines = [question.text]
    for label, option in zip(labels, question.options, strict=True):
        parts = [part for part in (option.name, option.meaning) if part and part != label]
        if parts:
            lines.append(f"{label}: {', '.join(parts)}")
    if question.kind == "rating":
        lines.append(f"{labels[0]} is the lowest answer.")
    return "\n".join(lines)


def _spellings(label: str) -> tuple[str, ...]:
    words = dict.fromkeys((label, label.capitalize()))
    return (*words, *(f" {word}" for word in words))


def _read_written(question: Question, labels: Sequence[str], sample: Sample) -> int | None:
    """Return the option that a written answer begins with, if it is one and ends there."""
    by_text = {label.casefold(): place for place, label in enumerate(labels)}
    any_label = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    # a letter may be a word, such as an article, so only a mark may follow it
    end = r"\b" if question.kind == "yes_no" else r"[*\s]*($|[).:,;\n])"
    found = re.match(rf"\W*({any_label}){end}", sample.text, re.I)
    return None if found is None else by_text[found[1].casefold()]


def _object_in(sample: Sample) -> Json:
    text = sample.text
    try:
        given = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _labels(question: Question) -> tuple[str, ...]:
    """Return what stands for each option: words, digits or letters, one token each if possible."""
    names, count = question.names, len(question.options)
    if question.kind == "yes_no":
        return names
    if question.kind == "rating":
        if all(len(name) == 1 and name in "0123456789" for name in names):
            return names
        if count <= MAX_DIGITS:
            return tuple(str(number) for number in range(1, count + 1))
    if count <= MAX_LETTERS:
        return tuple(chr(ord("A") + place) for place in range(count))
    return tuple(str(number) for number in range(1, count + 1))


def _unused_number(texts: Iterable[str]) -> str:
    """Return digits of delimiters that no text can forge, as they follow from all of them."""
    known = tuple(texts)
    joined = "\x1f".join(f"{len(text)}:{text}" for text in known)
    number = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    while any(number in text for text in known):
        number = hashlib.sha256(number.encode()).hexdigest()[:8]
    return number
