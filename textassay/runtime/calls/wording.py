"""Puts typed questions into words for a model that writes, and reads its answers.

Methods with words of their own, such as a paper's, make a `QuestionWording`; a `WordedRequest`
makes ours.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from textassay.runtime.base import Json
from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.declining import declines
from textassay.runtime.model import ChatMessage, ChoicesResponse, Request, Sample, thought_note
from textassay.runtime.questions import (
    MIN_MASS,
    DecisionRequest,
    Question,
    QuestionAnswer,
    invalid_answer,
    refused_answer,
)

MAX_TOKENS = 16
"""Tokens of a written answer, for each question: the least that OpenAI's Responses API takes."""

READ_WORDS = """Answer with {labels} and nothing else."""
JSON_WORDS = (
    "Answer with one JSON object and nothing else, which has the answer to each question under the"
    " name of the question."
)
WORDS = hashlib.sha256(f"{READ_WORDS}{JSON_WORDS}2".encode()).hexdigest()[:6]
"""Digest of our words around a question; the last character counts changes of their layout."""


class QuestionWording(NamedTuple):
    """The prompts for one question to a model that writes, and the reader of its answers."""

    question: Question
    prompts: tuple[Mapping[str, Any], ...]
    """The prompt as fields of a request, and then other forms for local models that refuse it."""
    forms: Mapping[str, tuple[str, ...]]
    """Spellings of each label, in the order of the options."""
    read: Callable[[Sample], int | None] = lambda sample: None
    """Returns the index of the option that a written answer names."""
    sampling: Mapping[str, Any] = {"temperature": 1.0}
    """Fields of requests for written answers: by default, sampled from the model's distribution."""
    digest: str = ""
    """Digest of these words, unless signatures have it elsewhere."""
    posting: Posting = PLAIN

    def read_choices(self, response: ChoicesResponse, name: str) -> QuestionAnswer:
        """Return the options' probabilities, renormalized over the reported ones."""
        labels, names = list(self.forms), self.question.names
        logprobs = [response.logprobs.get(label) for label in labels]
        reported = [logprob for logprob in logprobs if logprob is not None]
        unreported = tuple(n for n, logprob in zip(names, logprobs, strict=True) if logprob is None)
        mass = response.mass
        if not reported:
            why = f"{name!r} would answer something other than {join_or(labels)}"
            return invalid_answer(
                "NoLabelMass", f"{why}: none of them is among its likeliest tokens"
            )
        if unreported and mass < MIN_MASS:
            why = f"{join_or(labels, 'and')} together have probability {mass:.3g} for {name!r}"
            lacking = f"{join_or(unreported, 'and')} not among its likeliest tokens"
            answer = invalid_answer("NoLabelMass", f"{why}, less than {MIN_MASS:g} ({lacking})")
            return answer.model_copy(update={"mass": mass})
        top = max(reported)
        weights = [0.0 if logprob is None else math.exp(logprob - top) for logprob in logprobs]
        total = math.fsum(weights)
        shares = {n: weight / total for n, weight in zip(names, weights, strict=True)}
        return self._make_answer(shares, mass=mass, unreported=unreported)

    def read_samples(self, samples: Sequence[Sample]) -> QuestionAnswer:
        """Return the options' shares of written answers."""
        texts = [sample.text for sample in samples]
        return self.read_votes([self.read(sample) for sample in samples], texts, samples)

    def read_votes(
        self, votes: Sequence[int | None], texts: Sequence[str], samples: Sequence[Sample]
    ) -> QuestionAnswer:
        """Return the options' shares of votes, if most answers have one.

        Args:
            votes: Index of the option that each answer names.
            texts: The answers to this question.
            samples: The answers that contain them.
        """
        usable = [vote for vote in votes if vote is not None]
        if 2 * len(usable) < len(votes) or not usable:
            quoted = repr(samples[0].text.strip()[:200])
            unread = [text for vote, text in zip(votes, texts, strict=True) if vote not in usable]
            if all(map(declines, unread)):
                return refused_answer(f"the judge declined to answer: {quoted}")
            cut = all(sample.finish_reason == "length" for sample in samples)
            return invalid_answer(
                "NoAnswerFound",
                f"{len(usable)} of {len(votes)} written answers name {join_or(self.forms)}; the"
                f" first says: {quoted}" + " (all were cut at max_tokens)" * cut,
            )
        names = self.question.names
        shares = {name: usable.count(at) / len(usable) for at, name in enumerate(names)}
        return self._make_answer(shares, usable=len(usable), notes=thought_note(samples))

    def _make_answer(self, shares: dict[str, float], **more: Any) -> QuestionAnswer:
        score = None
        if self.question.kind == "rating":
            score = math.fsum(level * share for level, share in enumerate(shares.values()))
        return QuestionAnswer(probabilities=shares, score=score, **more)


class WordedRequest:
    """Typed questions as prompts for a chat model: the material, and then one question, or all."""

    def __init__(self, request: DecisionRequest) -> None:
        self.request = request
        number = _unused_number(text.text for text in request.texts)
        self._shared = "".join(
            f"{text.name.capitalize()}:\n<text-{number}>\n{text.text}\n</text-{number}>\n\n"
            for text in request.texts
        )
        self.wordings = [self._word(question) for question in request.questions]
        """The wording of each single question."""

    def _word(self, question: Question) -> QuestionWording:
        labels = _labels(question)
        rest = f"{_render(question, labels)}\n\n{READ_WORDS.format(labels=join_or(labels))}"
        return QuestionWording(
            question,
            prompts=self._prompts(rest),
            forms={label: _spellings(label) for label in labels},
            read=partial(_read_written, question, labels),
            sampling={"temperature": 1.0, "draw": self.request.draw},
            posting=self._posting(labels[0]),
            digest=WORDS,
        )

    def _prompts(self, rest: str) -> tuple[Mapping[str, Any], ...]:
        """Return the prompt as a chat, and as plain text for a model that takes no chat."""
        request, text = self.request, self._shared + rest
        cut = next((t.text for t in request.texts if t.name == request.truncatable), None)
        fields: dict[str, Any] = {"truncatable": cut, "extra": request.extra}
        message = ChatMessage(role="user", content=text)
        chat = {"messages": (message,), "images": request.images}
        return {**fields, **chat}, {**fields, "prompt": f"{text}\n\nAnswer:"}

    def _posting(self, dry_run_answer: str) -> Posting:
        shared = len(self._shared) if len(self.request.questions) > 1 else 0
        return Posting(dry_run_answer=dry_run_answer, shared_prefix=shared)

    @property
    def prompts(self) -> tuple[Mapping[str, Any], ...]:
        """The prompt of all questions, as `QuestionWording.prompts`."""
        every = [
            f"{name}: {_render(w.question, tuple(w.forms))}\nThe answer is {join_or(w.forms)}."
            for name, w in self._named.items()
        ]
        return self._prompts("\n\n".join([*every, JSON_WORDS]))

    @property
    def _named(self) -> dict[str, QuestionWording]:
        return {f"q{place}": wording for place, wording in enumerate(self.wordings, start=1)}

    @property
    def schema(self) -> Json:
        """JSON schema of an answer to all questions."""
        properties = {
            name: {"type": "string", "enum": list(w.forms)} for name, w in self._named.items()
        }
        return {
            "type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False,
        }  # fmt: skip

    @property
    def posting(self) -> Posting:
        """The posting of the prompt of all questions."""
        answers = {name: wording.posting.dry_run_answer for name, wording in self._named.items()}
        return self._posting(json.dumps(answers))

    def remind(self, request: Request, text: str) -> Json:
        """Return the prompt after an answer with unusable parts, as fields of a request."""
        answer = text or "(nothing)"  # some APIs refuse an empty turn
        if not request.messages:
            return {"prompt": f"{request.prompt} {answer}\n\n{JSON_WORDS}\n\nAnswer:"}
        turns = ("assistant", answer), ("user", JSON_WORDS)
        more = (ChatMessage(role=role, content=content) for role, content in turns)
        return {"messages": (*request.messages, *more)}

    def read(self, sample: Sample) -> list[QuestionAnswer]:
        """Return the answers to all questions from one JSON object."""
        values = _object_in(sample)
        # words in place of the answers, such as a refusal, are about all questions
        words = "" if values.keys() & self._named.keys() else sample.text
        answers = []
        for name, wording in self._named.items():
            value = values.get(name, words)
            text = value if isinstance(value, str) else json.dumps(value)
            answers.append(wording.read_votes([_find_option(wording, text)], [text], [sample]))
        return answers


def join_or(words: Iterable[str], last: str = "or") -> str:
    """Return words as `A, B or C`."""
    *others, end = words
    return f"{', '.join(others)} {last} {end}" if others else end


def _render(question: Question, labels: Sequence[str]) -> str:
    """Return a question with the option and meaning of each label."""
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
    """Return the index of the option with which a written answer begins; `None` without one."""
    by_text = {label.casefold(): place for place, label in enumerate(labels)}
    any_label = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    # a letter may be a word, such as an article, so only a mark may follow it
    # and 4.5 is no 4
    end = r"\b" if question.kind == "yes_no" else r"[*\s]*($|[).:,;\n](?!\d))"
    match = re.match(rf"\W*({any_label}){end}", sample.text, re.I)
    return None if match is None else by_text[match[1].casefold()]


def _object_in(sample: Sample) -> Json:
    text = sample.text
    try:
        value = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _find_option(wording: QuestionWording, text: str) -> int | None:
    """Return the index of the option that an answer of a JSON object names; `None` if unclear."""
    labels, question = tuple(wording.forms), wording.question
    # without a schema, a model may write an option's name in place of its letter, but 1 may be the
    # number of a level or its name
    is_clear = question.kind == "choice" or not {*labels} & {*question.names}
    names = {_simplify(text), {"true": "yes", "false": "no"}.get(_simplify(text))}
    for spellings in (labels, question.names) if is_clear else (labels,):
        places = [at for at, spelling in enumerate(spellings) if _simplify(spelling) in names]
        if places:
            return places[0] if len(places) == 1 else None
    return None


def _simplify(text: str) -> str:
    return text.strip(" .*").removesuffix(".0").casefold()


def _labels(question: Question) -> tuple[str, ...]:
    """Return a label for each option: a word, digit or letter, which is one token if possible."""
    names, count = question.names, len(question.options)
    if question.kind == "yes_no":
        return names
    if question.kind == "rating":
        if all(len(name) == 1 and name in "0123456789" for name in names):
            return names
        if count <= 9:
            return tuple(str(number) for number in range(1, count + 1))
    letters = string.ascii_uppercase[:count]
    # an option that is named AB, or A in another place, would be read as the letter A
    others = (n.upper() for n, letter in zip(names, letters, strict=False) if n.upper() != letter)
    if count <= 26 and not any(map(set(letters).issuperset, others)):
        return tuple(letters)
    return tuple(str(number) for number in range(1, count + 1))


def _unused_number(texts: Iterable[str]) -> str:
    """Return a number for delimiters that no text can contain: a digest of all texts."""
    known = tuple(texts)
    joined = "\x1f".join(f"{len(text)}:{text}" for text in known)
    number = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    while any(number in text for text in known):
        number = hashlib.sha256(number.encode()).hexdigest()[:8]
    return number
