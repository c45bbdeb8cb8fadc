"""Runs the stress tests: a run over originals and edited copies, and the originals again.

Sessions of the ordinary engine share the models, their limits and the budget: `RUN` itself holds
the originals and the edited copies; `RUN/repeat`, `RUN/letters`, `RUN/label-order` and
`RUN/scale-order` hold the originals, judged again or in another way. Each can be resumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from textassay.agents.reading.labels import MAX_LETTERS, is_whole
from textassay.evaluation.opening import open_models
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import Session, finish, open_session
from textassay.evaluation.sources import open_examples
from textassay.methods import METHODS, tasks
from textassay.methods.judging import PromptMethod
from textassay.methods.method import Method
from textassay.methods.pairwise import Pairwise
from textassay.runtime.base import NO_USAGE, Usage
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.concurrency import gather
from textassay.runtime.data.digests import sources_by_id
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Aspect, Score
from textassay.runtime.model import AnyResponse, ChatMessage, Model, Request
from textassay.runtime.questions import DecisionRequest, DecisionResponse, combine_answers
from textassay.runtime.storage.files import write_json
from textassay.runtime.storage.run_files import MANIFEST
from textassay.stress.edits import (
    EDITS,
    POSITION_TESTS,
    REPEAT,
    Edit,
    Variants,
    check_must_see,
    read_must_see,
    select_tests,
)
from textassay.stress.verdicts import JoinedSessions, SessionScores, StressResult, verdicts

STRESS_FILE = "stress.json"
_OF_DATA = ("limit", "pair", "unit", "conversation_chars")
"""Fields of a request for reading its data."""
Watching = Callable[[str, Session], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class StressPlan:
    """The tests of a run."""

    request: RunRequest
    """The run of the judge under test, in the folder of the result, or in none for dry runs; its
    `stress` is filled in here."""
    tests: tuple[str, ...] = ("all",)
    """Names of tests and families."""
    must_see: tuple[str, ...] = ()
    """Entries `TEST=ASPECT` for aspects that no rule recognizes."""
    seed: int = 0
    """Seed of the edits."""
    margin: float | None = None
    """Points that a score may move although it should not; 5 % of the scale if left out."""
    confidence: float = 0.95
    """Confidence of the intervals."""

    def __post_init__(self) -> None:
        select_tests(self.tests)
        read_must_see(self.must_see)
        if self.margin is not None and self.margin < 0:
            raise ConfigurationError(f"margin= must be 0 or more, not {self.margin:g}")

    @property
    def recorded(self) -> dict[str, Any]:
        """The part that the manifest keeps, so that `resume` runs the same tests."""
        return {
            "tests": list(self.tests),
            "must_see": list(self.must_see),
            "seed": self.seed,
            "margin": self.margin,
            "confidence": self.confidence,
            **{name: getattr(self.request, name) for name in _OF_DATA},
        }

    @classmethod
    def recall(cls, request: RunRequest) -> StressPlan:
        """Return the plan that the request of a resumed run records."""
        record = request.stress or {}
        data = {name: record[name] for name in _OF_DATA}
        return cls(
            request=request.model_copy(update={**data, "stress": None}),
            tests=tuple(record["tests"]),
            must_see=tuple(record["must_see"]),
            **{name: record[name] for name in ("seed", "margin", "confidence")},
        )


@dataclass
class Stage:
    """One session of the stress run."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    observe: Callable[[Model], Model] | None = None
    edits: Sequence[Edit] = ()
    """Edits whose copies are judged beside the originals."""


class FreshSamples(Wrapper):
    """Requests new samples, so that no cache or seed repeats the first run's answers."""

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        request = call.request
        if isinstance(request, Request | DecisionRequest):
            # the draw is part of the cache's key and of the seed; no run has so many draws
            call = call.with_request(request.model_copy(update={"draw": request.draw + 500_000}))
        return await ask(call)


AskTyped = Callable[[DecisionRequest], Awaitable[DecisionResponse]]
"""Sends typed questions."""


class TypedOrder(FreshSamples):
    """Asks typed questions in another way."""

    changes_questions = True

    def __init__(
        self,
        wrapped: Model,
        reorder: Callable[[DecisionRequest, AskTyped], Awaitable[DecisionResponse]],
    ) -> None:
        super().__init__(wrapped)
        self._reorder = reorder
        self.changed = False  # whether any request was sent in another way

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        first, fresh = call.request, super().around
        if not isinstance(first, DecisionRequest):
            return await fresh(call, ask)

        async def decide(request: DecisionRequest) -> DecisionResponse:
            self.changed = self.changed or request != first
            return cast(DecisionResponse, await fresh(Call(request), ask))

        return await self._reorder(first, decide)


async def reverse_questions(request: DecisionRequest, decide: AskTyped) -> DecisionResponse:
    """Ask typed questions from the last to the first, and turn their answers back."""
    response = await decide(request.with_questions(request.questions[::-1]))
    return response.model_copy(update={"answers": response.answers[::-1]})


async def reverse_options(request: DecisionRequest, decide: AskTyped) -> DecisionResponse:
    """Show the options of choices from the last to the first, and turn the answers back."""
    turned = [
        question.model_copy(update={"options": question.options[::-1]})
        if question.kind == "choice"
        else question
        for question in request.questions
    ]
    response = await decide(request.with_questions(turned))
    answers = [
        answer.model_copy(
            update={"probabilities": {n: answer.probabilities[n] for n in question.names}}
        )
        if answer.problem is None
        else answer
        for question, answer in zip(request.questions, response.answers, strict=True)
    ]
    return response.model_copy(update={"answers": tuple(answers)})


async def ask_alone(request: DecisionRequest, decide: AskTyped) -> DecisionResponse:
    """Ask every typed question in a request of its own."""
    responses = await gather([decide(request.with_questions((q,))) for q in request.questions])
    return combine_answers([response.answers[0] for response in responses], responses)


def highest_rating(request: RunRequest) -> str:
    """Return the highest rating as this run's judge would write it, for texts that ask for it."""
    if request.method == Pairwise.name:
        return "the better text"
    is_listed = request.method in METHODS
    aspects = tasks.load(request.task, request.aspects).aspects if is_listed else ()
    tops = {f"{aspect.scale[1]:g}" for aspect in aspects}
    return tops.pop() if len(tops) == 1 else "the highest rating"


class StressRun:
    """One stress run, of the plan's data and models, or of given ones."""

    def __init__(
        self,
        plan: StressPlan,
        *,
        examples: Any = None,
        models: dict[str, Model] | None = None,
        watching: Watching | None = None,
    ) -> None:
        self._plan, self._models = plan, models or {}
        self._watching = watching or (lambda name, session: nullcontext())
        self._tests = select_tests(plan.tests)
        self._edits = [EDITS[test] for test in self._tests if test in EDITS]
        self._must_see = read_must_see(plan.must_see)
        data = plan.request.data if examples is None else examples
        if data is None:
            raise DataError("stress needs DATA, a file of examples")
        self._examples = open_examples(data, plan.request)
        self._aspects: tuple[Aspect, ...] = ()
        self._reordered: dict[str, list[ReorderedPrompts | TypedOrder]] = {}
        self.usage: Usage = NO_USAGE  # counts of a dry run
        self.judged = 0  # number of texts in a dry run
        self.began = False  # whether a request was sent

    async def run(self) -> StressResult:
        """Send all requests, compute the verdicts and write `stress.json`.

        Raises:
            ConfigurationError: The plan is wrong; no model was called.
            ModelError: A failure that would hit every call; the run can be resumed.
            BudgetReached: The cost limit is reached; the run can be resumed.
        """
        answered = await self._sessions(dry=False)
        result = self._judge(answered)
        if self._plan.request.out is not None:
            write_json(self._plan.request.out / STRESS_FILE, {"format": 1, **result.as_dict()})
        return result

    async def estimate(self) -> Usage:
        """Count the requests without sending them."""
        await self._sessions(dry=True)
        return self.usage

    async def _sessions(self, *, dry: bool) -> dict[str, SessionScores]:
        answers: dict[str, SessionScores] = {}
        async with AsyncExitStack() as stack:
            models = await open_models(
                {**self._plan.request.models, **self._models}, self._plan.request.settings, stack
            )
            # the main session first: it refuses impossible tests, and its method decides on the
            # further sessions
            pending = [Stage("", edits=self._edits)]
            while pending:
                stage = pending.pop(0)
                async with self._open(stage, models, dry=dry) as session:
                    if not stage.name:
                        pending = self._further(session.method)
                    self.began = self.began or not dry
                    answers[stage.name] = await self._finish(stage, session, dry=dry)
        return answers

    async def _finish(self, stage: Stage, session: Session, *, dry: bool) -> SessionScores:
        async with self._watching(stage.name, session):
            if not dry:
                return SessionScores.of(await finish(session))
            async with aclosing(session.engine.scores()) as counted:
                async for _ in counted:
                    pass
        self.usage += session.usage
        self.judged += session.engine.progress.done
        return SessionScores()

    def _open(
        self, stage: Stage, models: dict[str, Model], *, dry: bool
    ) -> AbstractAsyncContextManager[Session]:
        plan = self._plan
        out = plan.request.out
        if out is not None and stage.name:
            out /= stage.name
        request = plan.request.model_copy(
            update={
                "options": {**plan.request.options, **stage.options},
                # already applied to the originals; it would cut off the last copies
                **dict.fromkeys(_OF_DATA),
                "stress": {**plan.recorded, "stage": stage.name},
                "out": out,
                # an interrupted run may have begun only some of its sessions
                "resume": plan.request.resume and out is not None and (out / MANIFEST).is_file(),
            }
        )
        return open_session(
            self._variants(stage.edits),
            request,
            models=models,
            dry=dry,
            # aspects are the same in all sessions, so the first one checks them
            adjustment_for=None if stage.name else self._check,
            observe=stage.observe,
        )

    def _variants(self, edits: Sequence[Edit] = ()) -> Variants:
        request = self._plan.request
        return Variants(
            self._examples,
            edits,
            seed=self._plan.seed,
            top=highest_rating(request),
            limit=request.limit,
        )

    def _check(self, method: Method) -> Callable[[Score], Score]:
        """Refuse impossible tests before any request."""
        check_must_see(self._must_see, method.aspects)
        if unordered := next((aspect.name for aspect in method.aspects if aspect.is_nominal), None):
            raise ConfigurationError(
                f"a stress test measures how far scores move, and the labels of {unordered!r} have"
                " no order; choose other aspects"
            )
        return lambda score: score

    def _further(self, method: Method) -> list[Stage]:
        """Return the sessions that judge the originals in another way."""
        self._aspects = method.aspects
        return [Stage(REPEAT, observe=FreshSamples), *self._orders(method)]

    def _orders(self, method: Method) -> list[Stage]:
        """Return the sessions that show labels, the scale or questions in another way."""
        if isinstance(method, PromptMethod) and method.decides:
            orders = {
                "label-order": reverse_options,
                "question-order": reverse_questions,
                "alone": ask_alone,
            }
            return [
                self._reordering(test, partial(TypedOrder, reorder=order))
                for test, order in orders.items()
                if test in self._tests
            ]
        form = getattr(getattr(method, "options", None), "form", None)
        if form is None:
            return []
        in_letters = all(
            is_whole(a.scale) and a.scale[1] - a.scale[0] < MAX_LETTERS for a in method.aspects
        )
        letters: dict[str, Any] = {} if form == "letters" else {"form": "letters"}
        stages = []
        if in_letters:
            if letters and {"letters", "label-order"} & set(self._tests):
                stages.append(Stage("letters", letters))
            if "label-order" in self._tests:
                turned = partial(ReorderedPrompts, change=reverse_labels)
                stages.append(self._reordering("label-order", turned, letters))
        if form != "letters" and "scale-order" in self._tests:
            turned = partial(ReorderedPrompts, change=reverse_scale)
            stages.append(self._reordering("scale-order", turned))
        return stages

    def _reordering(
        self,
        test: str,
        wrap: Callable[[Model], ReorderedPrompts | TypedOrder],
        options: dict[str, Any] | None = None,
    ) -> Stage:
        def observe(model: Model) -> Model:
            wrapped = wrap(model)
            self._reordered.setdefault(test, []).append(wrapped)
            return wrapped

        return Stage(test, options or {}, observe=observe)

    def _judge(self, answered: dict[str, SessionScores]) -> StressResult:
        before = self._earlier_tests()
        for test, models in self._reordered.items():
            if not any(model.changed for model in models) and test not in before:
                answered.pop(test, None)  # the prompts contain nothing that could be reversed
        sources = sources_by_id(self._variants())
        joined = JoinedSessions(
            sources,
            answered[""],
            answered[REPEAT],
            {t: answered[t] for t in POSITION_TESTS if t in answered},
        )
        measured = joined.measure(self._edits, self._aspects, self._must_see)
        rows = verdicts(measured, margin=self._plan.margin, confidence=self._plan.confidence)
        tested = {row.test for row in rows}
        # `swap` needs a method that compares two texts
        untested = [test for test in self._tests if test not in tested | {"swap"}]
        return StressResult(
            [row for row in rows if row.test in self._tests],
            tuple(untested),
            len({s or i for i, s in sources.items()}),
        )

    def _earlier_tests(self) -> set[str]:
        """Return the tests of the result that a finished run is resumed with."""
        request = self._plan.request
        if not request.resume or request.out is None or not (request.out / STRESS_FILE).is_file():
            return set()
        return {row["test"] for row in read_result(request.out)["tests"]}


def read_result(folder: Path) -> dict[str, Any]:
    """Return the content of a stress run's `stress.json`."""
    result: dict[str, Any] = json.loads((folder / STRESS_FILE).read_bytes())
    return result


def reverse_scale(prompt: str) -> str:
    """Return a prompt with its scale from high to low, except inside of judged texts."""
    return _outside_of_texts(
        prompt, lambda words: re.sub(r"\((\d+)-(\d+)\)", r"(\2-\1)", _swap_ends(words))
    )


def reverse_labels(prompt: str) -> str:
    """Return a prompt that lists its letters, or their span, from the best to the worst."""
    # lines that give the meaning of letters: "A. 1, the lowest rating"
    options = r"(?m)(?:^[A-Z]\. -?\d.*\n?){2,}"
    return _outside_of_texts(
        prompt, lambda words: _swap_ends(re.sub(options, _reverse_lines, words))
    )


def _swap_ends(words: str) -> str:
    pattern = r"\bfrom (\S+) \(worst\) to (\S+) \(best\)"
    return re.sub(pattern, r"from \2 (best) to \1 (worst)", words)


def _reverse_lines(match: re.Match[str]) -> str:
    lines = match[0].splitlines()
    return "\n".join(reversed(lines)) + ("\n" if match[0].endswith("\n") else "")


def _outside_of_texts(prompt: str, change: Callable[[str], str]) -> str:
    fenced = r"(?s)(<(?P<kind>[a-z-]+-[0-9a-f]{8})>\n.*?\n</(?P=kind)>)"
    pieces = re.split(fenced, prompt)
    # split gives: words, fenced text, its kind, words, ...
    pieces[::3] = map(change, pieces[::3])
    return "".join(piece for at, piece in enumerate(pieces) if at % 3 != 2)


class ReorderedPrompts(Wrapper):
    """Shows every prompt in another order."""

    def __init__(self, wrapped: Model, change: Callable[[str], str]) -> None:
        super().__init__(wrapped)
        self._change = change
        self.changed = False  # whether any prompt was changed

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        turned = _change_prompt(call.request, self._change)
        self.changed = self.changed or turned is not call.request
        return await ask(call.with_request(turned))


def _change_prompt(request: Any, change: Callable[[str], str]) -> Any:
    if request.prompt is not None:
        prompt = change(request.prompt)
        return (
            request if prompt == request.prompt else request.model_copy(update={"prompt": prompt})
        )
    messages = tuple(
        ChatMessage(role=text.role, content=change(text.content)) for text in request.messages
    )
    if messages == tuple(request.messages):
        return request
    return request.model_copy(update={"messages": messages})
