"""Answers typed questions with any model.

A decision model is sent them as they are, in as few requests as its limits allow. Any other model
is asked in words, question by question behind the same material: by the probabilities of the
options as the next token, or by written answers if it sends none. Which of the two is settled at
the first answer, once for each connection; answers of both never stand in one run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from textassay.runtime.calls.budget import estimate_tokens
from textassay.runtime.calls.call import Call, Posting, Wrapper, deciding, unwrap
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import CapabilityError, ContextTooLong, RequestRefused
from textassay.runtime.messages import NO_USAGE
from textassay.runtime.model import (
    AnyResponse,
    ChatMessage,
    ChoicesRequest,
    ChoicesResponse,
    InProcessModel,
    Json,
    Model,
    Request,
    Response,
    Sample,
    scoring,
)
from textassay.runtime.questions import (
    DECIDED,
    DECIDED_JOINTLY,
    DecisionRequest,
    DecisionResponse,
    Question,
    QuestionAnswer,
    Way,
    combined,
    invalid,
)

SAMPLES, SAMPLES_OF_THINKING = 20, 5
"""Written answers in place of probabilities (G-Eval, section 2.3), and of a model that thinks: a
thought costs more than fifty short answers."""
TOKENS_TO_SHOW = 1024
"""Longest answer that is to show whether a model thinks."""
MAX_TOKENS = 16
"""Longest written answer to one question; an answer to several has as many for each."""
MIN_MASS = 0.1
"""Least probability of all reported options together if another one is not reported."""
MAX_LETTERS = 26
MAX_DIGITS = 9
"""Options that one letter, or one digit, each can stand for."""


READ_WORDS = """Answer with {labels} and nothing else."""
JSON_WORDS = (
    "Answer with one JSON object and nothing else: by the name of each question, one of its answers"
    " as it stands before the colon."
)
WORDS = hashlib.sha256(f"{READ_WORDS}{JSON_WORDS}1".encode()).hexdigest()[:6]
"""Digest of the words around a question; the last digit counts changes of their layout."""

READ = Way(how="logprob", words=WORDS)

# Invalid 'questions[3].levels': ...   body.questions.q4.criteria: ...
_ONE_QUESTION = re.compile(r"\bquestions(?:\[\W?|[./])(q?)(\d+)")
_LIMIT = r"\b(most|maximum|max|limit|exceeds?|up to|too (many|long|large)|more than)\b"
# Invalid 'questions': array too long. Expected an array with maximum length 128, ...
_TOO_MANY = re.compile(rf"\bquestions\b.*{_LIMIT}|{_LIMIT}.*\bquestions\b", re.I | re.S)
_QUOTED = re.compile("“(.*)”", re.S)


class Memory(Protocol):
    """What is known of a model's limits, and what its settings add to every request."""

    @property
    def extra(self) -> Json:
        """Further fields for the provider."""
        ...

    def most(self, name: str) -> int:
        """Return the largest number of something that the model takes; 0 if it is not known."""
        ...

    def learn_most(self, name: str, limit: int) -> None:
        """Learn such a number."""
        ...

    async def restore(self) -> None:
        """Begin with what an earlier process has learned."""
        ...

    async def save(self) -> None:
        """Have later processes begin with what was learned."""
        ...


class _OwnMemory:
    """The memory of a model that is connected to nothing: no settings, and nothing is kept."""

    def __init__(self) -> None:
        self.extra: Json = {}
        self._most: dict[str, int] = {}

    def most(self, name: str) -> int:
        return self._most.get(name, 0)

    def learn_most(self, name: str, limit: int) -> None:
        self._most[name] = limit

    async def restore(self) -> None: ...

    async def save(self) -> None: ...


def decider(model: Model) -> DecidingModel:
    """Return `model` as one that answers typed questions; a connected one does so already."""
    return DecidingModel.of(model)


def possible_ways(model: Model) -> tuple[Way, ...]:
    """Return how a model may answer, as far as is known before the first question."""
    able = model.capabilities
    if able.decide:
        return (DECIDED if able.independent_questions else DECIDED_JOINTLY,)
    counts = (SAMPLES, SAMPLES_OF_THINKING)
    sampled = [_sampled(n, joint=joint) for joint in (False, True) for n in counts]
    return tuple(sampled) if able.choices is False else (READ, *sampled)


def _sampled(samples: int, *, joint: bool) -> Way:
    return Way(how="sampled", samples=samples, joint=joint, words=WORDS)


def describe(model: Model) -> str:
    """Return in a sentence how a model answers typed questions, as far as is known."""
    able, name = model.capabilities, model.name
    if able.decide:
        limits = able.question_limits.model_dump()
        most = ", ".join(f"{count:,} {what}" for what, count in limits.items() if count)
        others = "do not influence" if able.independent_questions else "may influence"
        return f"{name} sends probabilities; the questions of a request {others} each other" + (
            f"; a request takes {most}" if most else ""
        )
    if able.choices is False:
        return f"{name} is asked for {SAMPLES} written answers to each question"
    sure = "" if able.choices else ", or written answers if it sends none"
    return f"{name} is asked for the probabilities of each answer as its next token{sure}"


class _ReadOption:
    """What the first requests of a connection have shown of its model."""

    def __init__(self) -> None:
        self.settling = asyncio.Lock()
        self.reads_logprobs: bool | None = None
        self.is_plain = False
        """Whether it is asked by a plain prompt, as it takes no chat."""
        self.samples = 0
        """Written answers to each question; 0 as long as none were needed."""
        self.most_tokens = 0
        """Estimated tokens of a request that just may not be too long; 0 if none was."""


class DecidingModel(Wrapper):
    """Answers typed questions whatever the wrapped model is.

    Outside of all other wrappers: the requests that it makes pass through cache, limits and budget
    like any others.
    """

    def __init__(self, wrapped: Model, memory: Memory | None = None) -> None:
        super().__init__(wrapped)
        self._memory = memory or _OwnMemory()
        self._found = _ReadOption()

    @classmethod
    def of(cls, model: Model) -> DecidingModel:
        """Return one around a model, with what one among its wrappers has found out by now."""
        inner: Model = model
        while isinstance(inner, Wrapper) and not isinstance(inner, DecidingModel):
            inner = inner.wrapped
        if inner is model and isinstance(model, DecidingModel):
            return model
        outer = cls(model)
        if isinstance(inner, DecidingModel):
            # What is between them is to see the requests that are made here.
            outer._memory, outer._found = inner._memory, inner._found
        return outer

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer typed questions here; forward what else is asked."""
        if isinstance(call.request, DecisionRequest):
            return self.decide(call.request)
        return self._ask(call)

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Answer in the one way that the model allows."""
        if self.capabilities.decide:
            return await self._natively(request)
        return await self._in_words(request)

    # ---- decision models ----

    async def _natively(self, request: DecisionRequest) -> DecisionResponse:
        """Ask as few requests as the limits allow, which are learned from refusals."""
        limits = self.capabilities.question_limits
        for question in request.questions:
            if (reason := limits.refuses(question)) is not None:
                raise CapabilityError(f"{self.name!r}: {reason}: {question.text[:80]!r}")
        await self._memory.restore()
        extra = {**self._memory.extra, **request.extra}
        own = {"joint": False, "truncatable": "", "extra": extra}
        differs = request.joint or request.truncatable or extra != request.extra
        plain = request.model_copy(update=own) if differs else request
        packages = list(self._packages(plain))
        if len(packages) == 1:
            return await self._package(plain)
        responses = await gather([self._package(plain.about(part)) for part in packages])
        return combined([a for one in responses for a in one.answers], responses)

    def _packages(self, request: DecisionRequest) -> Iterator[Sequence[Question]]:
        """Yield the questions of each request, in order, as many as the limits allow."""
        questions = request.questions
        known = self.capabilities.question_limits
        limits = (known.questions, self._memory.most("questions"), len(questions))
        most = min(filter(None, limits))
        tokens = min(filter(None, (known.tokens, self._found.most_tokens)), default=0)
        # no estimate where it fits for certain: a character has at most four bytes, and a token one
        if not tokens or 4 * len(request.text) <= tokens or estimate_tokens(request.text) <= tokens:
            for start in range(0, len(questions), most):
                yield questions[start : start + most]
            return
        shared = estimate_tokens(" ".join(text.text for text in request.texts))
        package: list[Question] = []
        used = shared
        for question in questions:
            size = estimate_tokens(question.shown)
            if package and (len(package) == most or used + size > tokens > shared):
                yield package
                package, used = [], shared
            package.append(question)
            used += size
        yield package

    async def _package(self, request: DecisionRequest) -> DecisionResponse:
        """Ask one request, and smaller ones if the server takes no such many or long questions."""
        questions = request.questions
        try:
            return await deciding(self.wrapped).decide(request)
        except RequestRefused as error:
            refusal = error.refusal
            if refusal is not None and refusal.parameter in request.extra:
                raise CapabilityError(
                    f"model {self.name!r} takes no {refusal.parameter}; leave it out of extra="
                    f" ({error})"
                ) from error
            if len(questions) == 1:
                raise
            refused = error
        if (place := _refused_place(refused, len(questions))) is not None:
            # the server names one question: the others may be answered
            rest = await self._package(request.about(_without(questions, place)))
            answer = invalid("QuestionRefused", str(refused))
            answers = (*rest.answers[:place], answer, *rest.answers[place:])
            return rest.model_copy(update={"answers": answers})
        parts = self._smaller(request, refused)
        if not parts:
            raise refused
        await self._memory.save()
        # one after the other: what is refused again is learned before the next is sent
        responses = [await self._package(request.about(part)) for part in parts]
        return combined([a for one in responses for a in one.answers], responses)

    def _smaller(
        self, request: DecisionRequest, error: RequestRefused
    ) -> Sequence[Sequence[Question]]:
        """Return parts of the questions to ask instead; none if a refusal is not for their number.

        What the refusal shows of the server's limits is learned.
        """
        questions = request.questions
        half = len(questions) // 2
        if isinstance(error, ContextTooLong):
            self._found.most_tokens = estimate_tokens(request.text) - 1
            return questions[:half], questions[half:]
        quoted = _quoted(error)
        if not _TOO_MANY.search(quoted):
            return ()
        most = max(
            (n for n in map(int, re.findall(r"\d+", quoted)) if 0 < n < len(questions)),
            default=half,
        )
        self._memory.learn_most("questions", most)
        return [questions[start : start + most] for start in range(0, len(questions), most)]

    # ---- other models ----

    async def _in_words(self, request: DecisionRequest) -> DecisionResponse:
        wording = _QuestionWording(request)
        first: list[ChoicesResponse] = []
        if self._found.reads_logprobs is None:
            async with self._found.settling:
                if self._found.reads_logprobs is None:
                    first = await self._settle(wording)
        if self._found.reads_logprobs:
            return await self._by_logprobs(wording, first)
        if not self._found.samples:
            async with self._found.settling:
                if not self._found.samples:
                    await self._count_samples(wording)
        return await self._by_samples(wording, joint=request.joint)

    async def _settle(self, wording: _QuestionWording) -> list[ChoicesResponse]:
        """Find out whether the model sends probabilities; return its answer to the question."""
        first: list[ChoicesResponse] = []
        if self.capabilities.choices is not False:
            ways = (False, True) if isinstance(unwrap(self), InProcessModel) else (False,)
            for self._found.is_plain in ways:
                try:
                    first = [await self._scored(wording, 0)]
                    break
                except CapabilityError:
                    continue
        self._found.reads_logprobs = bool(first)
        return first

    async def _scored(self, wording: _QuestionWording, place: int) -> ChoicesResponse:
        fields = wording.fields(place, plain=self._found.is_plain)
        request = ChoicesRequest(**fields, choices=wording.forms(place))
        scoring(self.wrapped, "choices")
        call = Call(request, wording.posting(place, plain=self._found.is_plain))
        return cast(ChoicesResponse, await self._ask(call))

    async def _by_logprobs(
        self, wording: _QuestionWording, first: Sequence[ChoicesResponse]
    ) -> DecisionResponse:
        places = range(len(first), len(wording.questions))
        rest = await gather([self._one_scored(wording, place) for place in places])
        known = [_one(wording.read_choices(place, one), one) for place, one in enumerate(first)]
        responses = [*known, *rest]
        return combined([one.answers[0] for one in responses], responses)

    async def _one_scored(self, wording: _QuestionWording, place: int) -> DecisionResponse:
        try:
            response = await self._scored(wording, place)
        except CapabilityError as error:
            # The run reads probabilities: samples in their place would be another measure.
            missing = invalid("NoLogprobs", str(error))
            return DecisionResponse(answers=(missing,), way=READ, usage=error.usage or NO_USAGE)
        return _one(wording.read_choices(place, response), response)

    async def _count_samples(self, wording: _QuestionWording) -> None:
        """Settle how many answers are written: fewer by a model that thinks, which one shows."""
        if self.capabilities.thinks is None:
            fields = wording.fields(0, plain=self._found.is_plain)
            request = Request(**fields, temperature=1.0, max_tokens=TOKENS_TO_SHOW)
            posting = wording.posting(0, plain=self._found.is_plain)
            await self._ask(Call(request, posting))
        self._found.samples = SAMPLES_OF_THINKING if self.capabilities.thinks else SAMPLES

    async def _by_samples(self, wording: _QuestionWording, *, joint: bool) -> DecisionResponse:
        n, draw = self._found.samples, wording.request.draw
        if joint:
            many = Request(
                **wording.fields_of_all(plain=self._found.is_plain),
                n=n,
                draw=draw,
                temperature=1.0,
                max_tokens=MAX_TOKENS * len(wording.questions),
                json_schema=wording.schema,
            )
            responses = [await self._written(many, wording.posting(plain=self._found.is_plain))]
            objects = [wording.read_object(sample) for sample in responses[0].samples]
            votes = [[one.get(place) for one in objects] for place in range(len(wording.questions))]
        else:
            singles = [
                Request(
                    **wording.fields(place, plain=self._found.is_plain),
                    n=n,
                    draw=draw,
                    temperature=1.0,
                    max_tokens=MAX_TOKENS,
                )
                for place in range(len(wording.questions))
            ]
            responses = await gather(
                [
                    self._written(single, wording.posting(place, plain=self._found.is_plain))
                    for place, single in enumerate(singles)
                ]
            )
            votes = [
                [wording.read_written(place, sample) for sample in one.samples]
                for place, one in enumerate(responses)
            ]
        answers = [wording.shares(place, given, n) for place, given in enumerate(votes)]
        return DecisionResponse(
            answers=tuple(answers),
            way=_sampled(n, joint=joint),
            usage=sum((one.usage for one in responses), NO_USAGE),
            model=responses[0].model,
            truncated_tokens=max(one.truncated_tokens for one in responses),
        )

    async def _written(self, request: Request, posting: Posting) -> Response:
        """Return all samples that a request asks for, of servers that send fewer at a time, too."""

        async def ask(part: Request) -> Response:
            return cast(Response, await self._ask(Call(part, posting)))

        n, draw = request.n, request.draw
        response = await ask(request)
        samples, usage = response.samples[:n], response.usage
        while (had := len(samples)) < n:
            step = len(response.samples)
            rest = [
                request.model_copy(update={"n": min(step, n - start), "draw": draw + start})
                for start in range(had, n, step)
            ]
            for more in await gather([ask(one) for one in rest]):
                samples += more.samples[: n - len(samples)]
                usage += more.usage
        return response.model_copy(update={"samples": samples, "usage": usage})


def _one(answer: QuestionAnswer, response: ChoicesResponse) -> DecisionResponse:
    return DecisionResponse(
        answers=(answer,),
        way=READ,
        usage=response.usage,
        model=response.model,
        truncated_tokens=response.truncated_tokens,
    )


def _quoted(error: RequestRefused) -> str:
    """Return what the server itself said."""
    quoted = _QUOTED.search(str(error))
    return quoted[1] if quoted else ""


def _refused_place(error: RequestRefused, count: int) -> int | None:
    """Return the place of the one question that a refusal names; `None` if it names none."""
    named = _ONE_QUESTION.search(_quoted(error))
    place = -1 if named is None else int(named[2]) - bool(named[1])
    return place if 0 <= place < count else None


def _without(questions: Sequence[Question], place: int) -> Sequence[Question]:
    return (*questions[:place], *questions[place + 1 :])


class _QuestionWording:
    """A request as a chat model is asked it: the material first, then one question."""

    def __init__(self, request: DecisionRequest) -> None:
        self.request, self.questions = request, request.questions
        number = _unused_number(text.text for text in request.texts)
        self._shared = "".join(
            f"{text.name.capitalize()}:\n<text-{number}>\n{text.text}\n</text-{number}>\n\n"
            for text in request.texts
        )
        self.labels = [_labels(question) for question in self.questions]
        """What stands for each option in the answer to each question."""

    def fields(self, place: int, *, plain: bool) -> dict[str, Any]:
        """Return the prompt of one question, as requests take it."""
        labels = self.labels[place]
        named = f"{', '.join(labels[:-1])} or {labels[-1]}"
        words = READ_WORDS.format(labels=named)
        return self._prompt(f"{self._question(place)}\n\n{words}", plain=plain)

    def fields_of_all(self, *, plain: bool) -> dict[str, Any]:
        """Return the prompt of all questions."""
        every = [f"q{place + 1}: {self._question(place)}" for place in range(len(self.questions))]
        return self._prompt("\n\n".join([*every, JSON_WORDS]), plain=plain)

    def _prompt(self, rest: str, *, plain: bool) -> dict[str, Any]:
        request, text = self.request, self._shared + rest
        cut = next((t.text for t in request.texts if t.name == request.truncatable), None)
        fields: dict[str, Any] = {"truncatable": cut, "extra": request.extra}
        if plain:
            return {**fields, "prompt": f"{text}\n\nAnswer:"}
        message = ChatMessage(role="user", content=text)
        return {**fields, "messages": (message,), "images": request.images}

    def posting(self, place: int | None = None, *, plain: bool) -> Posting:
        """Return how one question is sent, or all of them."""
        answer = self.dry_run_object if place is None else self.labels[place][0]
        shared = len(self._shared) if len(self.questions) > 1 and not plain else 0
        return Posting(dry_run_answer=answer, shared_prefix=shared)

    def _question(self, place: int) -> str:
        question = self.questions[place]
        lines = [question.text]
        for label, option in zip(self.labels[place], question.options, strict=True):
            parts = [part for part in (option.name, option.meaning) if part and part != label]
            if parts:
                lines.append(f"{label}: {': '.join(parts)}")
        if question.kind == "rating":
            lines.append(f"{self.labels[place][0]} is the lowest answer.")
        return "\n".join(lines)

    def forms(self, place: int) -> dict[str, tuple[str, ...]]:
        """Return the surface forms of each label."""
        forms = {}
        for label in self.labels[place]:
            words = dict.fromkeys((label, label.capitalize()))
            forms[label] = (*words, *(f" {word}" for word in words))
        return forms

    def read_choices(self, place: int, response: ChoicesResponse) -> QuestionAnswer:
        """Return the options' probabilities, renormalized over all that the model reported."""
        labels, names = self.labels[place], self.questions[place].names
        logprobs = [response.logprobs.get(label) for label in labels]
        known = [logprob for logprob in logprobs if logprob is not None]
        mass = response.mass
        if not known or (len(known) < len(labels) and mass < MIN_MASS):
            return invalid(
                "NoLabelMass",
                f"all options together have probability {mass:.3g} for this model, less than"
                f" {MIN_MASS:g}, and some are not among its likeliest tokens",
            )
        top = max(known)
        weights = [0.0 if one is None else math.exp(one - top) for one in logprobs]
        total = math.fsum(weights)
        shares = {name: weight / total for name, weight in zip(names, weights, strict=True)}
        missing = [n for n, logprob in zip(names, logprobs, strict=True) if logprob is None]
        note = {"text": "options that are not among the likeliest tokens", "options": missing}
        return self._answered(place, shares, mass=mass, notes=(note,) * bool(missing))

    def _answered(self, place: int, shares: dict[str, float], **more: Any) -> QuestionAnswer:
        score = None
        if self.questions[place].kind == "rating":
            score = math.fsum(level * share for level, share in enumerate(shares.values()))
        return QuestionAnswer(probabilities=shares, score=score, **more)

    def read_written(self, place: int, sample: Sample) -> int | None:
        """Return the option that a written answer begins with, if it is one and ends there."""
        labels = self.labels[place]
        by_text = {label.casefold(): option for option, label in enumerate(labels)}
        any_label = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
        # a letter may be a word, such as an article, so only a mark may follow it
        end = r"\b" if self.questions[place].kind == "yes_no" else r"[*\s]*($|[).:,;\n])"
        found = re.match(rf"\W*({any_label}){end}", sample.text, re.I)
        return None if found is None else by_text[found[1].casefold()]

    @property
    def schema(self) -> Json:
        """JSON schema of an answer to all questions."""
        properties = {
            f"q{place + 1}": {"type": "string", "enum": list(labels)}
            for place, labels in enumerate(self.labels)
        }
        return {
            "type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False,
        }  # fmt: skip

    @property
    def dry_run_object(self) -> str:
        """A well-formed answer to all questions."""
        return json.dumps({f"q{i}": labels[0] for i, labels in enumerate(self.labels, start=1)})

    def read_object(self, sample: Sample) -> Mapping[int, int]:
        """Return the options that an answer to all questions gives, by place."""
        text = sample.text
        try:
            given = json.loads(text[text.index("{") : text.rindex("}") + 1])
        except ValueError:
            return {}
        answers = given if isinstance(given, dict) else {}
        found = {}
        for place, labels in enumerate(self.labels):
            answer = str(answers.get(f"q{place + 1}"))
            if answer in labels:
                found[place] = labels.index(answer)
        return found

    def shares(self, place: int, votes: Sequence[int | None], n: int) -> QuestionAnswer:
        """Return the options' shares of written answers, if most of these give one."""
        counts = Counter(vote for vote in votes if vote is not None)
        usable = counts.total()
        if not usable or 2 * usable < n:
            return invalid("NoAnswerFound", f"{usable} of {n} written answers name an option")
        names = self.questions[place].names
        shares = {name: counts[option] / usable for option, name in enumerate(names)}
        note = {"text": f"{usable} of {n} written answers are usable"}
        return self._answered(place, shares, notes=(note,))


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
