"""Sends one prompt to one model, and retries if the answer was cut off or is unusable.

Every agent that asks a model does it through an `Ask`, which has the prompt, its digest, the
sampling and the signature of scores. Errors of the model pass through to the caller of the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Generic, Literal, NamedTuple, cast

from textassay.agents.prompt_template import (
    NO_PROFILE,
    Layout,
    Profile,
    Prompt,
    PromptTemplate,
    Task,
    join_messages,
)
from textassay.agents.reading.outcomes import DECLINED, MAX_QUOTED, NoRating
from textassay.lazy import lazy_pattern
from textassay.runtime.base import NO_USAGE, Json, R, Usage
from textassay.runtime.calls.call import Call, Posting, Wrapper, fill_up, sender
from textassay.runtime.calls.wording import QuestionWording
from textassay.runtime.errors import CapabilityError, ContentRefused
from textassay.runtime.messages import Example, Failure, Score
from textassay.runtime.model import Model, Request, Response, Sample, thought_note
from textassay.runtime.questions import Question
from textassay.version import __version__

REMINDER = "form_again"
"""Prompt that follows an unusable answer and asks only for the required form.

It is not part of prompt digests, so that runs and evaluators made without it can be continued and
applied.
"""
_END_OF_TEXT = lazy_pattern(r"\n</[a-z-]+-\w+>\n")
"""The delimiter after a text under evaluation."""


def reached_limit(sample: Sample, read: object = None) -> bool:
    """Return whether a sample ended because it reached the token limit."""
    return sample.finish_reason == "length"


class Parsed(NamedTuple, Generic[R]):
    """A model's answer to one prompt."""

    samples: tuple[Sample, ...]
    """The requested number of samples."""
    readings: tuple[R, ...]
    """The reading of each sample."""
    usage: Usage
    """Cost of all requests, including repeated ones."""
    truncated_tokens: int
    """Tokens of the source that did not fit the prompt."""
    max_tokens: int
    """`max_tokens` of the last request."""
    cut: bool
    """Whether the last answer is cut off as well."""
    server_limit: int = 0
    """Tokens after which the server cut an answer although more were allowed; 0 if it did not."""
    earlier: tuple[Parsed[R], ...] = ()
    """Unusable answers before this one, whose cost is part of `usage`."""

    @property
    def text(self) -> str:
        """The first sample."""
        return self.samples[0].text.strip()

    @property
    def result(self) -> R | NoRating:
        """The reading of the first sample; an answer that is cut off has none."""
        if not self.cut:
            return self.readings[0]
        limit = f"{self.max_tokens} tokens, before its end; raise max_tokens"
        if self.server_limit:
            limit = f"{self.server_limit} tokens by the server, though max_tokens is"
            limit += f" {self.max_tokens}: its context is full"
        return NoRating("NoScoreFound", f"the answer was cut after {limit}")

    @property
    def problem(self) -> str | None:
        """Why the answer is unusable; `None` if it is usable."""
        result = self.result
        return result.reason if isinstance(result, NoRating) else None

    @property
    def note(self) -> Json:
        """The unusable answer, for the evidence: it was paid for."""
        return {"text": self.text[:MAX_QUOTED], "problem": self.problem}


@dataclass(frozen=True)
class Ask:
    """One prompt for one model."""

    model: Model
    prompt: str
    """Prompt file, as for `prompts.render`; it gets `task`, `layout`, `material` and the agent's
    own values.
    """
    task: Task
    """The kind of text that is judged."""
    layout: Layout = "paper"
    """Order of the prompt."""
    n: int = 1
    """Number of samples."""
    temperature: float = 0.0
    """Sampling temperature."""
    seed: int | None = None
    """Seed of the sampling."""
    max_tokens: int = 512
    """Longest answer in tokens; if it is cut off, the request is repeated with four times as many.
    """
    profile: Profile = NO_PROFILE
    """How to prompt a model that does not follow the papers' prompts."""
    required: tuple[str, ...] = ()
    """Names of the sampling parameters that the user set: a server that refuses one stops the
    run."""
    is_single: bool = False
    """Whether each example has only one prompt, so that no other prompt shares its beginning."""

    @cached_property
    def template(self) -> PromptTemplate:
        """The prompt in this model's form."""
        return PromptTemplate(self.prompt, self.task, self.layout, self.profile)

    def prepare(self, example: Example) -> Example:
        """Return the example with its texts in this model's form."""
        return self.template.prepare(example)

    def render(self, example: Example | None = None, **values: Any) -> Prompt:
        """Return the prompt for an example, see `PromptTemplate.render`."""
        return self.template.render(example, **values)

    def digest(self, *variants: object, also: tuple[str, ...] = ()) -> str:
        """Return 6 hex digits of the prompt's words, see `PromptTemplate.digest`.

        Raises:
            PromptError: A file is missing or not a valid template.
        """
        return self.template.digest(*variants, also=also)

    async def answer(
        self,
        prompt: Prompt,
        read: Callable[[Sample], R],
        *,
        is_cut: Callable[[Sample, R], bool] = reached_limit,
        dry_run_answer: str = "",
        **request: Any,
    ) -> Parsed[R]:
        """Ask, and ask again with more tokens if every sample was cut off.

        Args:
            prompt: The prompt.
            read: Reads a sample; may raise.
            is_cut: Returns whether a sample needs more tokens, given its reading; by default if it
                was cut off.
            dry_run_answer: A well-formed answer of usual length.
            request: Further fields of the `Request`, such as `n`; this agent's sampling and
                `max_tokens` are the default.
        """
        usage, limit = NO_USAGE, request.pop("max_tokens", None) or self.max_tokens
        sampling = {"temperature": self.temperature, "seed": self.seed, "max_tokens": limit}
        message = Request(**self._request_fields(prompt), **sampling, **request)
        posting, send = self._posting(prompt, dry_run_answer), sender(self.model)
        # the samples of the last round are returned, with the usage of both
        for is_last in (False, True):
            call = Call(message, posting)
            response = cast(Response, await send(call))
            if len(response.samples) != message.n:
                response = await fill_up(response, send, call)
            samples = response.samples
            usage += response.usage
            # read before the decision to ask again: an early rating in a cut answer is valid
            parsed = tuple(map(read, samples))
            cut = all(map(is_cut, samples, parsed))
            server_limit = _server_limit(response, limit) if cut else 0
            # more tokens do not help if the server allows fewer than were asked for
            if not cut or is_last or server_limit:
                break
            limit *= 4
            message = message.model_copy(update={"max_tokens": limit})
        truncated = response.truncated_tokens
        return Parsed(samples, parsed, usage, truncated, limit, cut, server_limit)

    async def until_usable(
        self,
        prompt: Prompt,
        read: Callable[[Sample], R],
        again: Callable[[Prompt, Parsed[R]], Prompt],
        *,
        retries: int,
        problem: Callable[[Parsed[R]], str | None] = lambda answer: answer.problem,
        **request: Any,
    ) -> Parsed[R]:
        """Ask for one sample, until it is usable, retries run out, or the judge declines.

        Args:
            prompt: The prompt.
            read: Reads a sample; may raise.
            again: Returns the prompt after an unusable answer, such as `remind_of(form)`.
            retries: How often an unusable answer is requested again.
            problem: Returns the problem of an answer; `None` if it is usable.
            request: Further arguments of `answer`.

        Returns:
            The last answer; `earlier` has the others.
        """
        answer = await self.answer(prompt, read, **request)
        for _ in range(retries):
            # a judge that declines has answered; asking until it gives in would bias the scores
            if problem(answer) in (None, DECLINED):
                break
            prompt, earlier = again(prompt, answer), (*answer.earlier, answer)
            answer = await self.answer(prompt, read, **request)
            usage = earlier[-1].usage + answer.usage
            answer = answer._replace(usage=usage, earlier=earlier)
        return answer

    def wording(
        self,
        question: Question,
        prompt: Prompt,
        forms: Mapping[str, tuple[str, ...]],
        *,
        dry_run_answer: str = "",
        **reading: Any,
    ) -> QuestionWording:
        """Return the words of a typed question for a chat model.

        Args:
            question: The question and its options.
            prompt: The prompt with the question.
            forms: How an answer may spell the options, in their order, by label.
            dry_run_answer: A well-formed answer.
            reading: How written answers are read, as fields of `QuestionWording`.
        """
        temperature = self.with_samples(1).temperature
        return QuestionWording(
            question,
            (self._request_fields(prompt),),
            forms,
            sampling={"temperature": temperature, "seed": self.seed},
            posting=self._posting(prompt, dry_run_answer),
            **reading,
        )

    def with_samples(self, n: int) -> Ask:
        """Return a copy that samples written answers in place of probabilities.

        The temperature is 1, the model's own distribution, unless the user set another.
        """
        is_set = "temperature" in self.required
        return replace(self, n=n, temperature=self.temperature if is_set else 1.0)

    def _request_fields(self, prompt: Prompt) -> dict[str, Any]:
        fields: dict[str, Any] = {"truncatable": prompt.truncatable}
        if prompt.images:
            if self.profile.ask != "chat" or self.model.capabilities.images is False:
                raise CapabilityError(
                    f"the model {self.model.name!r} accepts only texts, and an example has images"
                )
            fields["images"] = prompt.images
        if self.profile.ask == "chat":
            fields["messages"] = prompt.messages
        else:
            fields["prompt"] = join_messages(prompt.messages)
        return fields

    def _posting(self, prompt: Prompt, dry_run_answer: str = "") -> Posting:
        return Posting(self.required, dry_run_answer, self._find_shared_prefix(prompt))

    def _find_shared_prefix(self, prompt: Prompt) -> int:
        """Return the end of the texts, which come first in this layout."""
        if self.layout == "paper" or self.is_single or self.profile.ask != "chat":
            return 0
        if not prompt.messages:
            return 0
        ends = [match.end() for match in _END_OF_TEXT.finditer(prompt.messages[-1].content)]
        return ends[-1] if ends else 0

    def signature(self, method: str, prompt_digest: str, /, **facts: object) -> str:
        """Return the signature of scores: method, model, words, sampling and version.

        Args:
            method: Name of the method.
            prompt_digest: Result of `digest`.
            facts: Further facts that distinguish scores, in order; `True` adds the name alone, and
                `False` nothing.
        """
        parts = [
            name if fact is True else f"{name}:{fact}"
            for name, fact in facts.items()
            if fact is not False
        ]
        settings = [f"{name}:{value}" for name, value in self.settings.items()]
        words = f"prompt:{prompt_digest}|layout:{self.layout}"
        first = f"method:{method}|model:{self.model.name}|{words}"
        return "|".join([first, *parts, *settings, f"v:{__version__}"])

    @property
    def settings(self) -> Mapping[str, object]:
        """The facts in signatures about fields that settings add to requests, such as `effort`."""
        return self.model.settings_facts if isinstance(self.model, Wrapper) else {}

    @property
    def sampling(self) -> dict[str, object]:
        """The facts about the sampling in signatures."""
        seed = "-" if self.seed is None else self.seed
        return {"n": self.n, "temp": f"{self.temperature:g}", "seed": seed}


def _server_limit(response: Response, limit: int) -> int:
    """Return the tokens, without thoughts, of answers that were cut before `limit`; else 0."""
    answer_tokens = response.usage.completion_tokens - (response.usage.reasoning_tokens or 0)
    # cached answers do not record where they were cut
    is_asked = response.usage.calls > 0 and response.usage.cached_calls == 0
    is_clipped = is_asked and 0 < answer_tokens < limit * len(response.samples)
    return answer_tokens // len(response.samples) if is_clipped else 0


@lru_cache(maxsize=256)
def remind_of(form: str, labels: tuple[str, ...] = ()) -> Callable[[Prompt, Parsed[Any]], Prompt]:
    """Return a function that continues a chat after an unusable answer with a reminder of the form.

    Args:
        form: `number`, `letters`, `stars`, `ratings`, `json`, `list` or `same`.
        labels: The ratings or choices that the reminder offers.
    """
    return lambda prompt, answer: prompt.append_turn(
        answer.text, REMINDER, form=form, labels=labels
    )


def never_cut(sample: Sample, read: object = None) -> bool:
    """Return that no sample needs more tokens."""
    return False


def check_not_filtered(sample: Sample, part: str = "the answer") -> None:
    """Raise if the provider's content filter cut an answer off."""
    if sample.finish_reason == "filtered":
        raise ContentRefused(f"the provider's content filter cut off {part}")


def truncation_note(tokens: int) -> tuple[Json, ...]:
    """Return a note that the end of a source did not fit a local model's prompt; empty for 0."""
    if not tokens:
        return ()
    return (
        {"text": f"the last {tokens} tokens of the source did not fit", "truncated_tokens": tokens},
    )


def notes_on(answer: Parsed[Any]) -> tuple[Json, ...]:
    """Return evidence on an answer: unusable ones before it, a cut source, the model's thoughts."""
    unusable = tuple([earlier.note for earlier in answer.earlier])
    return unusable + truncation_note(answer.truncated_tokens) + thought_note(answer.samples)


def score_answer(answer: Parsed[Any], **about: Any) -> Score:
    """Return the score for the value that was read in an answer, or the reason why there is none.

    Args:
        answer: The answer.
        about: The score's other fields.
    """
    value = answer.result
    about |= {"usage": answer.usage, "explanation": answer.text or None}
    if not isinstance(value, NoRating):
        return Score(value=value, evidence=notes_on(answer), **about)
    unusable = (attempt.note for attempt in (*answer.earlier, answer))
    about["evidence"] = (*unusable, *thought_note(answer.samples))
    message = f"{value.message}; the judge said: {answer.text[:MAX_QUOTED]!r}"
    return Score.unscored(value.reason, message, **about)


ProbabilityReading = Literal["auto", "logprob"]
"""Log-probabilities if the model sends usable ones, else samples; or log-probabilities alone."""

AUTO = "|how:auto|"
"""Part of a method's signature until the first answer shows how its scores are obtained."""


def signature_of_parts(signature: str, parts: Iterable[Score | Failure]) -> str:
    """Return the signature of a score made of parts, with the `how` of the parts."""
    if AUTO not in signature:
        return signature
    scores = [part for part in parts if isinstance(part, Score) and part.signature]
    sampled = [score for score in scores if score.how == "sampled"]
    return next((score.signature for score in (*sampled, *scores)), signature)
