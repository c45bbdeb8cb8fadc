"""Answers typed questions with any model.

A decision model gets them unchanged, in as few requests as its limits allow. Any other model is
asked in words, one question after the same material in each request: for the probabilities of the
options as the next token, or for written answers if it sends no probabilities. Which of the two is
chosen once for a connection (`LogprobsOrSamples`); a run never mixes them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, cast

from textassay.runtime.base import T
from textassay.runtime.calls.budget import estimate_tokens
from textassay.runtime.calls.call import Call, Posting, Wrapper, fill_up, layers, unwrap
from textassay.runtime.calls.logprobs_or_samples import (
    SAMPLES,
    SAMPLES_OF_THINKING,
    TOKENS_TO_SHOW,
    LogprobsOrSamples,
)
from textassay.runtime.calls.question_refusals import allowed_number, find_refused, quote_server
from textassay.runtime.calls.traits import AdaptationMemory
from textassay.runtime.calls.wording import MAX_TOKENS, WORDS, QuestionWording, WordedRequest
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import (
    CapabilityError,
    ContextTooLong,
    ModelError,
    RequestRefused,
)
from textassay.runtime.messages import How
from textassay.runtime.model import (
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    InProcessModel,
    Model,
    Request,
    Response,
    scoring,
)
from textassay.runtime.questions import (
    DECIDED,
    DECIDED_JOINTLY,
    DecisionRequest,
    DecisionResponse,
    Question,
    QuestionAnswer,
    QuestionLimits,
    Way,
    combine_answers,
    failed_answer,
    invalid_answer,
    refused_answer,
)


def decider(model: Model) -> DecidingModel:
    """Return `model` as a model that answers typed questions."""
    return DecidingModel.of(model)


def possible_ways(model: Model) -> tuple[Way, ...]:
    """Return the ways in which a model may answer typed questions, before the first answer."""
    abilities = model.capabilities
    if abilities.decide and not answers_in_words(model):
        return (DECIDED if abilities.independent_questions else DECIDED_JOINTLY,)
    if isinstance(model, TypedJudge):
        reads = Way(how="logprob", words=WORDS)
        joint = _LogprobsOrObject.way
        return (joint,) if abilities.choices is False else (reads, joint)
    return ways_in_words(model, WORDS)


def answers_in_words(model: Model) -> bool:
    """Return whether a model is asked in words: all but decision models."""
    if isinstance(model, TypedJudge):
        return not model.wrapped.capabilities.decide
    return not model.capabilities.only_decides


def ways_in_words(model: Model, words: str = "") -> tuple[Way, ...]:
    """Return the ways in which a model may answer in words, even if it is a decision model.

    Args:
        model: The model.
        words: Digest of the words of the question, unless signatures have it elsewhere.
    """
    samples = (SAMPLES, SAMPLES_OF_THINKING)
    sampled = tuple(Way(how="sampled", samples=n, words=words) for n in samples)
    reads = Way(how="logprob", words=words)
    return sampled if model.capabilities.choices is False else (reads, *sampled)


def describe(model: Model) -> str:
    """Return a sentence about how a decision model answers."""
    abilities = model.capabilities
    limits = abilities.question_limits.model_dump()
    most = ", ".join(f"{count:,} {unit}" for unit, count in limits.items() if count)
    others = "do not influence" if abilities.independent_questions else "may influence"
    return f"{model.name} sends probabilities; the questions of a request {others} each other" + (
        f"; a request takes {most}" if most else ""
    )


class _LogprobsOrObject(LogprobsOrSamples):
    """Reads one JSON answer to all questions if a model sends no log-probabilities."""

    way = Way(how="text", joint=True, words=WORDS)
    """How such an answer is obtained."""
    _written: How = "text"
    _replacement = "one JSON answer to all questions takes"

    def refuse(self) -> None:
        """Read written answers from now on, also in a stack that puts questions into words."""
        super().refuse()
        for layer in layers(self.model):
            if isinstance(layer, DecidingModel) and not layer.reading.decided:
                layer.reading.refuse()

    def _count(self, note: str = "") -> str:
        return "one JSON answer to all questions"


class _LearnedFacts:
    """Facts about a model that the requests of a connection have shown."""

    def __init__(self, model: Model) -> None:
        self.reading = LogprobsOrSamples(model, "choices")
        self.form = 0
        """Index into `prompts` of a wording: the first form that a local model has not refused."""
        self.fits = self.too_long = 0
        """Estimated tokens of the longest request that was answered since the first refusal, and of
        the shortest that was refused; 0 without a refusal."""

    @property
    def most_tokens(self) -> int:
        """Estimated tokens of the next request; 0 for any number."""
        if self.too_long <= 1.1 * self.fits:  # estimates err by a tenth
            return self.fits
        return (self.fits + self.too_long) // 2

    def learn_size(self, tokens: int, *, fits: bool) -> None:
        """Learn whether a request of this size fits."""
        if not fits:
            self.too_long = min(tokens, self.too_long or tokens)
            self.fits = 0 if self.fits >= self.too_long else self.fits
        elif tokens < self.too_long:
            self.fits = max(tokens, self.fits)


class _Package(Call):
    """Typed questions of one request, which a `DecidingModel` further in sends on unchanged."""

    __slots__ = ()


class DecidingModel(Wrapper):
    """Answers typed questions with any wrapped model.

    Outside of all other wrappers, so that its requests pass through cache, limits and budget.
    """

    retries = 1
    """How often a JSON object with unusable answers is requested again."""

    def __init__(self, wrapped: Model, memory: AdaptationMemory | None = None) -> None:
        super().__init__(wrapped)
        self._memory = memory or AdaptationMemory()
        self._learned = _LearnedFacts(self)

    @classmethod
    def of(cls, model: Model) -> DecidingModel:
        """Return one around a model, with the knowledge of a `DecidingModel` among its wrappers."""
        if isinstance(model, DecidingModel):
            return model
        outer = cls(model)
        for inner in layers(model):
            if isinstance(inner, DecidingModel):
                # the wrappers between the two see the requests that are made here
                outer._memory, outer._learned = inner._memory, inner._learned
                break
        return outer

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer typed questions here, and forward other requests."""
        # quicker than `isinstance`
        if type(call.request) is DecisionRequest and type(call) is not _Package:
            return self.decide(call.request)
        return self._ask(call)

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Answer as a decision model, if it is one, and otherwise in words."""
        abilities = self.capabilities
        if abilities.decide:
            return await self._ask_natively(request, abilities.question_limits)
        return await self._ask_in_words(request)

    # ---- decision models ----

    async def _ask_natively(
        self, request: DecisionRequest, limits: QuestionLimits
    ) -> DecisionResponse:
        """Send as few requests as the limits allow, some of which are learned from refusals.

        A question with too many options is not sent.
        """
        await self._memory.restore()
        learned = {name: self._memory.most(name) for name in ("options", "levels")}
        if any(learned.values()):
            limits = limits.model_copy(update={name: n for name, n in learned.items() if n})
        refusals = [limits.refuse(question) for question in request.questions]
        if any(refusals):
            return await self._ask_allowed(request, refusals, limits)
        extra = {**self._memory.extra, **request.extra}
        changes = {"joint": False, "truncatable": "", "extra": extra}
        differs = request.joint or request.truncatable or extra != request.extra
        plain = request.model_copy(update=changes) if differs else request
        packages = list(self._split_into_packages(plain, limits))
        if len(packages) == 1:
            return await self._send_package(plain)
        asking = [_or_error(self._send_package(plain.with_questions(part))) for part in packages]
        return _combine_parts([*map(len, packages)], await gather(asking))

    async def _ask_allowed(
        self, request: DecisionRequest, refusals: Sequence[str], limits: QuestionLimits
    ) -> DecisionResponse:
        """Send the questions that are within the limits, and answer the others with the reason.

        Raises:
            CapabilityError: No question is within the limits.
        """
        if all(refusals):
            raise CapabilityError(f"{self.name!r} {refusals[0]}")
        allowed = request.with_questions(
            q for q, why in zip(request.questions, refusals, strict=True) if not why
        )
        response = await self._ask_natively(allowed, limits)
        remaining = iter(response.answers)
        answers = tuple(
            refused_answer(f"{self.name!r} {why}") if why else next(remaining) for why in refusals
        )
        return response.model_copy(update={"answers": answers})

    def _split_into_packages(
        self, request: DecisionRequest, question_limits: QuestionLimits
    ) -> Iterator[Sequence[Question]]:
        """Yield the questions of each request, in order, as many as the limits allow."""
        questions = request.questions
        limits = (question_limits.questions, self._memory.most("questions"), len(questions))
        most = min(filter(None, limits))
        tokens = min(filter(None, (question_limits.tokens, self._learned.most_tokens)), default=0)
        # no estimate is needed if the text certainly fits: a character has at most four bytes, and
        # a token at least one
        if not tokens or 4 * len(request.text) <= tokens or estimate_tokens(request.text) <= tokens:
            for start in range(0, len(questions), most):
                yield questions[start : start + most]
            return
        shared = estimate_tokens(" ".join(text.text for text in request.texts))
        package: list[Question] = []
        used = shared
        for question in questions:
            size = estimate_tokens(question.shown)
            # if the material alone exceeds the limit, smaller packages would not help
            is_full = len(package) == most or (used + size > tokens and shared < tokens)
            if package and is_full:
                yield package
                package, used = [], shared
            package.append(question)
            used += size
        yield package

    async def _send_package(self, request: DecisionRequest) -> DecisionResponse:
        """Send one request, or smaller ones if the server takes fewer or shorter questions."""
        questions = request.questions
        try:
            response = cast(DecisionResponse, await self._ask(_Package(request)))
            if self._learned.too_long:
                self._learned.learn_size(estimate_tokens(request.text), fits=True)
            return response
        except RequestRefused as error:
            refusal = error.refusal
            if refusal is not None and refusal.parameter in request.extra:
                raise CapabilityError(
                    f"model {self.name!r} takes no {refusal.parameter}; leave it out of extra="
                    f" ({error})"
                ) from error
            if self._learn_most_options(questions, error):
                await self._memory.save()
                return await self._ask_natively(request, self.capabilities.question_limits)
            if len(questions) == 1:
                raise
            refused = error
        if (place := find_refused(refused, len(questions))) is not None:
            # the server names one question: the others may be answered
            left = (*questions[:place], *questions[place + 1 :])
            response = await self._send_package(request.with_questions(left))
            answer = invalid_answer("QuestionRefused", str(refused))
            answers = (*response.answers[:place], answer, *response.answers[place:])
            return response.model_copy(update={"answers": answers})
        parts = self._smaller_parts(request, refused)
        if not parts:
            raise refused
        await self._memory.save()
        # one after the other, so that a second refusal is learned before the next is sent
        limits = self.capabilities.question_limits
        first, *others = map(request.with_questions, parts)
        response = await self._ask_natively(first, limits)
        rest = [await _or_error(self._ask_natively(one, limits)) for one in others]
        return _combine_parts([*map(len, parts)], [response, *rest])

    def _smaller_parts(
        self, request: DecisionRequest, error: RequestRefused
    ) -> Sequence[Sequence[Question]]:
        """Return smaller parts of the questions, and learn the limits that the refusal shows.

        Empty if the refusal is not about their number or their length.
        """
        questions = request.questions
        half = len(questions) // 2
        if isinstance(error, ContextTooLong):
            self._learned.learn_size(estimate_tokens(request.text), fits=False)
            parts = list(self._split_into_packages(request, self.capabilities.question_limits))
            return parts if len(parts) > 1 else (questions[:half], questions[half:])
        # Invalid 'questions': array too long. Expected an array with maximum length 128, ...
        most = allowed_number("questions", error, len(questions), default=half)
        if not most:
            return ()
        self._memory.learn_most("questions", most)
        return [questions[start : start + most] for start in range(0, len(questions), most)]

    def _learn_most_options(self, questions: Sequence[Question], error: RequestRefused) -> bool:
        """Return whether a question has more options than the server takes, and learn its limit."""
        # a limit of characters or tokens does not limit the number of options
        if re.search(r"(?i)\b(string|characters?|tokens?)\b", quote_server(error)):
            return False
        place = find_refused(error, len(questions))
        for question in questions if place is None else (questions[place],):
            unit = "levels" if question.kind == "rating" else "options"
            names = "levels|criteria" if unit == "levels" else "options|choices|criteria"
            if most := allowed_number(names, error, len(question.options)):
                self._memory.learn_most(unit, most)
                return True
        return False

    # ---- other models ----

    async def _ask_in_words(self, request: DecisionRequest) -> DecisionResponse:
        worded = WordedRequest(request)
        first, *rest = worded.wordings
        known = await _or_error(self.reading.first(lambda: self._score_choices(first)))
        if request.joint and self.reading.decided != "logprob":
            if isinstance(known, ModelError):  # nothing has shown yet how to ask the others
                raise known
            return await self._by_object(worded)
        asking = [_or_error(self.ask(one)) for one in (rest if known else worded.wordings)]
        results = [*([known] if known else ()), *await gather(asking)]
        return _combine_parts([1] * len(results), results)

    async def ask(self, wording: QuestionWording, *, may_sample: bool = True) -> DecisionResponse:
        """Answer one question in the words of a wording: by probabilities, or by written answers.

        Raises:
            CapabilityError: The model sends no probabilities, and `may_sample` is false.
        """
        if not may_sample:
            return await self._score_choices(wording)
        response = await self.reading.first(lambda: self._score_choices(wording))
        if response is not None:
            return response
        n = await self._count_samples(wording)
        prompt, sampling = self._prompt_of(wording), wording.sampling
        request = Request(**prompt, **sampling, n=n, max_tokens=MAX_TOKENS)
        answer = await self._write(request, wording.posting)
        way = Way(how="sampled", samples=n, words=wording.digest)
        return _response([wording.read_samples(answer.samples)], answer, way)

    @property
    def reading(self) -> LogprobsOrSamples:
        """Whether answers in words are read by probabilities or by samples."""
        return self._learned.reading

    async def _score_choices(self, wording: QuestionWording) -> DecisionResponse:
        scoring(self.wrapped, "choices")
        forms = len(wording.prompts) if isinstance(unwrap(self), InProcessModel) else 1
        while True:
            form = self._learned.form
            try:
                request = ChoicesRequest(**self._prompt_of(wording), choices=wording.forms)
                response = cast(ChoicesResponse, await self._send(request, wording.posting))
                break
            except CapabilityError:
                if form + 1 >= forms:
                    raise
                # not `+= 1`, as other requests in this form fail meanwhile, too
                self._learned.form = max(self._learned.form, form + 1)
        answer = wording.read_choices(response, self.name)
        return _response([answer], response, Way(how="logprob", words=wording.digest))

    def _prompt_of(self, wording: QuestionWording | WordedRequest) -> Mapping[str, Any]:
        """Return the prompt in the form that the model takes."""
        return wording.prompts[min(self._learned.form, len(wording.prompts) - 1)]

    async def _send(self, request: Request | ChoicesRequest, posting: Posting) -> AnyResponse:
        return await self._ask(_call(request, posting))

    async def _write(self, request: Request, posting: Posting) -> Response:
        call = _call(request, posting)
        return await fill_up(cast(Response, await self._ask(call)), self._ask, call)

    async def _count_samples(self, wording: QuestionWording) -> int:
        prompt, sampling = self._prompt_of(wording), wording.sampling
        shows = Request(**prompt, **sampling, max_tokens=TOKENS_TO_SHOW)
        return await self.reading.samples(lambda: self._send(shows, wording.posting))

    async def _by_object(self, worded: WordedRequest) -> DecisionResponse:
        """Answer all questions by one JSON object, which has the likeliest answer to each.

        If it has unusable answers, it is requested again, and only these are replaced. If that
        fails, they are errors.
        """
        request = Request(
            **self._prompt_of(worded),
            draw=worded.request.draw,
            max_tokens=MAX_TOKENS * (len(worded.wordings) + 1),
            json_schema=worded.schema,
        )
        object_answer = cast(Response, await self._send(request, worded.posting))
        response = _response(
            worded.read(object_answer.samples[0]), object_answer, _LogprobsOrObject.way
        )
        for _ in range(self.retries):
            # as in `Ask.until_usable`, a judge that declines is not asked again
            if all(answer.outcome != "invalid" for answer in response.answers):
                break
            unusable = object_answer.samples[0].text.strip()
            note = {"text": unusable[:200], "problem": "unreadable; the model was asked again"}
            request = request.model_copy(update=worded.remind(request, unusable))
            result = await _or_error(self._send(request, worded.posting))
            if isinstance(result, ModelError):
                given, responses = [failed_answer(result)] * len(response.answers), [response]
            else:
                object_answer = cast(Response, result)
                given = worded.read(object_answer.samples[0])
                responses = [response, _response(given, object_answer, response.way)]
            answers = [
                new.model_copy(update={"notes": (*old.notes, note, *new.notes)})
                if old.outcome == "invalid"
                else old
                for old, new in zip(response.answers, given, strict=True)
            ]
            response = combine_answers(answers, responses)
        return response


class TypedJudge(DecidingModel):
    """A chat model that is asked like a decision model: all questions about a text together.

    It answers by token probabilities if it sends them, and otherwise by one JSON object with the
    answers to all questions. A model that also has `decide` is asked through it.
    """

    def __init__(self, wrapped: Model, retries: int = 1) -> None:
        super().__init__(wrapped)
        self.retries = retries
        self._learned.reading = _LogprobsOrObject(self, "choices")

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of a decision model."""
        return self.wrapped.capabilities.model_copy(update={"decide": True, "writes": False})

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        if not answers_in_words(self):
            return await super().decide(request)
        request = request.model_copy(update={"joint": True})
        # the wrapper must see the questions first; `DecidingModel` further in puts them into words
        if any(isinstance(m, Wrapper) and m.changes_questions for m in layers(self.wrapped)):
            return cast(DecisionResponse, await self._ask(Call(request)))
        return await self._ask_in_words(request)


async def _or_error(asking: Awaitable[T]) -> T | ModelError:
    """Return a response, or the error of its request, unless that stops the run."""
    try:
        return await asking
    except ModelError as error:
        if error.stops_run:
            raise
        return error


def _combine_parts(
    counts: Sequence[int], results: Sequence[DecisionResponse | ModelError]
) -> DecisionResponse:
    """Return the answers of several requests as one response.

    Args:
        counts: The number of questions of each request.
        results: Its response, or its error, which becomes the answer to each of its questions.

    Raises:
        ModelError: No request was answered.
    """
    responses = [one for one in results if isinstance(one, DecisionResponse)]
    if not responses:
        raise next(one for one in results if isinstance(one, ModelError))
    answers = [
        answer
        for count, one in zip(counts, results, strict=True)
        for answer in (
            one.answers if isinstance(one, DecisionResponse) else [failed_answer(one)] * count
        )
    ]
    return combine_answers(answers, responses)


def _call(request: Request | ChoicesRequest, posting: Posting) -> Call:
    # only chats can mark a shared prefix
    return Call(request, posting if request.messages else posting._replace(shared_prefix=0))


def _response(
    answers: Sequence[QuestionAnswer], response: Response | ChoicesResponse, way: Way
) -> DecisionResponse:
    return DecisionResponse(
        answers=tuple(answers),
        way=way,
        usage=response.usage,
        model=response.model,
        truncated_tokens=response.truncated_tokens,
    )
