"""Runs the stress tests.

An ordinary run over originals and edited copies, and the originals once more.

Four sessions of the ordinary engine share the models, their limits and the budget: `RUN` itself
holds the originals and the edited copies; `RUN/repeat`, `RUN/letters` and `RUN/scale-order` hold
the originals, asked once more or in another way. Each can be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from textassay.agents.answer_form import MAX_LETTERS, is_whole
from textassay.evaluation.api import finish
from textassay.evaluation.data import open_examples
from textassay.evaluation.opening import open_models
from textassay.evaluation.session import (
    Session,
    open_session,
)
from textassay.evaluation.spec import RunSpec
from textassay.methods import METHODS, Pairwise, tasks
from textassay.methods.method import Method
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import NO_USAGE, Aspect, Score, Usage
from textassay.runtime.model import Model, Request, Response, Wrapper
from textassay.runtime.settings import Settings
from textassay.runtime.storage.files import write_json
from textassay.runtime.storage.run_folder import MANIFEST
from textassay.stress.edit import Edit
from textassay.stress.expectations import check_must_see, expected, read_must_see
from textassay.stress.families.position import LETTERS, SCALE_ORDER, SWAP, ReversedScale
from textassay.stress.suite import EDITS, REPEAT, chosen_tests
from textassay.stress.summary import StressResult
from textassay.stress.table import Answered, Joined
from textassay.stress.variants import Variants
from textassay.stress.verdicts import verdicts

STRESS_FILE = "stress.json"
FORMAT = 1
REPEAT_DRAW = 500_000
"""Added to the draw of each request of the repeat, so that no cache answers it."""

T = TypeVar("T")
Watching = Callable[[str, Session], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class StressOrder:
    """What is tested.

    Attributes:
        spec: The run of the judge under test; its `stress` is filled in here.
        settings: How models are asked.
        out: Folder of the result; `None` only for dry runs.
        tests: Names of tests and families; `None` for all.
        must_see: Entries `TEST=ASPECT` for aspects whose names tell nothing.
        seed: Seed of the edits.
        margin: Points that a score may move where it should not; 5 % of the scale if left out.
        confidence: Of the intervals.
        resume: Whether to continue the run in `out`.
    """

    spec: RunSpec
    settings: Settings
    out: Path | None
    tests: tuple[str, ...] | None = None
    must_see: tuple[str, ...] = ()
    seed: int = 0
    margin: float | None = None
    confidence: float = 0.95
    resume: bool = False

    def __post_init__(self) -> None:
        chosen_tests(self.tests)
        read_must_see(self.must_see)
        if self.margin is not None and self.margin < 0:
            raise ConfigurationError(f"--fail-above is 0 or more, not {self.margin:g}")

    @property
    def recorded(self) -> dict[str, Any]:
        """What the manifest keeps, so that `resume` makes the same tests."""
        return {
            "tests": None if self.tests is None else list(self.tests),
            "must_see": list(self.must_see),
            "seed": self.seed,
            "margin": self.margin,
            "confidence": self.confidence,
            "limit": self.spec.limit,
            "pair": self.spec.pair,
        }

    @classmethod
    def recall(cls, spec: RunSpec, settings: Settings, out: Path) -> StressOrder:
        """Return the order that a manifest's spec records, to be resumed."""
        kept = spec.stress or {}
        return cls(
            spec=spec.model_copy(
                update={"limit": kept.get("limit"), "pair": kept.get("pair"), "stress": None}
            ),
            settings=settings,
            out=out,
            tests=None if kept.get("tests") is None else tuple(kept["tests"]),
            must_see=tuple(kept.get("must_see") or ()),
            seed=int(kept.get("seed") or 0),
            margin=kept.get("margin"),
            confidence=float(kept.get("confidence") or 0.95),
            resume=True,
        )


class Redrawn(Wrapper):
    """Asks for other draws than the first run, so that neither a cache nor a seed repeats its answers."""

    async def generate(self, request: Request) -> Response:
        """Ask for a later draw."""
        shifted = request.model_copy(update={"draw": request.draw + REPEAT_DRAW})
        return await self.wrapped.generate(shifted)


@dataclass
class _Stage:
    """One session of the stress run."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    observe: Callable[[Model], Model] | None = None


class StressRun:
    """One stress run.

    Args:
        order: What is tested.
        examples: The data, if not those that the order's spec names.
        method: A method object in place of one that is built from the spec.
        models: Models that are open already, by role.
        watching: Shows the progress of each session.
    """

    def __init__(
        self,
        order: StressOrder,
        *,
        examples: Any = None,
        method: Method | None = None,
        models: dict[str, Model] | None = None,
        watching: Watching | None = None,
    ) -> None:
        self._order, self._method, self._models = order, method, models or {}
        self._watching = watching or (lambda name, session: nullcontext())
        self._tests = chosen_tests(order.tests)
        self._edits = [EDITS[test] for test in self._tests if test in EDITS]
        self._must_see = read_must_see(order.must_see)
        data = order.spec.data if examples is None else examples
        self._examples = opened(data, order.spec)
        self._aspects: tuple[Aspect, ...] = ()
        self._reversed: list[ReversedScale] = []
        self.asked: Usage = NO_USAGE
        """What a dry run counted."""
        self.judged = 0
        """Texts that a dry run went through."""
        self.began = False
        """Whether anything was asked."""

    async def run(self) -> StressResult:
        """Ask everything, judge and write `stress.json`.

        Raises:
            ConfigurationError: Something does not fit; nothing was asked.
            ModelError: A failure that would hit every call; the run can be resumed.
            BudgetReached: The cost limit is reached; the run can be resumed.
        """
        answered = await self._sessions(dry=False)
        result = self._judged(answered)
        if self._order.out is not None:
            write_json(self._order.out / STRESS_FILE, {"format": FORMAT, **result.as_dict()})
        return result

    async def estimate(self) -> Usage:
        """Count what would be asked; ask nothing."""
        await self._sessions(dry=True)
        return self.asked

    async def _sessions(self, *, dry: bool) -> dict[str, Answered]:
        found: dict[str, Answered] = {}
        async with AsyncExitStack() as stack:
            models = await open_models(
                {**self._order.spec.models, **self._models}, self._order.settings, stack
            )
            pending = [_Stage("")]
            while pending:
                stage = pending.pop(0)
                async with self._opened(stage, models, dry=dry) as session:
                    if not stage.name:
                        pending = self._further(session.method)
                    self.began = self.began or not dry
                    found[stage.name] = await self._carried_out(stage, session, dry=dry)
        return found

    async def _carried_out(self, stage: _Stage, session: Session, *, dry: bool) -> Answered:
        async with self._watching(stage.name, session):
            if not dry:
                return Answered.of(await finish(session))
            async with aclosing(session.engine.scores()) as scores:
                async for _ in scores:
                    pass
        self.asked += session.asked
        self.judged += session.engine.progress.done
        return Answered()

    def _opened(
        self, stage: _Stage, models: dict[str, Model], *, dry: bool
    ) -> AbstractAsyncContextManager[Session]:
        order = self._order
        out = None if order.out is None else order.out / stage.name if stage.name else order.out
        spec = order.spec.model_copy(
            update={
                "options": {**order.spec.options, **stage.options},
                "limit": None,
                "pair": None,
                "stress": {**order.recorded, "stage": stage.name},
            }
        )
        examples = _Lazy(self._originals) if stage.name else _Lazy(self._variants)
        return open_session(
            examples,
            spec,
            method=self._method,
            models=models,
            settings=order.settings,
            out=out,
            resume=order.resume and out is not None and (out / MANIFEST).is_file(),
            dry=dry,
            adjusting=None if stage.name else self._check,
            observe=stage.observe,
        )

    def _variants(self) -> Variants:
        return Variants(
            self._examples,
            self._edits,
            seed=self._order.seed,
            top=highest_rating(self._order.spec, self._method),
            limit=self._order.spec.limit,
        )

    def _originals(self) -> Any:
        return Variants(self._examples, (), limit=self._order.spec.limit)

    def _check(self, method: Method) -> Callable[[Score], Score]:
        """Refuse what cannot be tested, before anything is asked."""
        check_must_see(self._must_see, method.aspects)
        return lambda score: score

    def _further(self, method: Method) -> list[_Stage]:
        """Return the sessions that ask about the originals in another way."""
        self._aspects = method.aspects
        stages = [_Stage(REPEAT, observe=Redrawn)]
        options = getattr(method, "options", None)
        if getattr(options, "form", None) not in ("number", "stars"):
            return stages
        in_letters = all(
            is_whole(aspect.scale) and aspect.scale[1] - aspect.scale[0] < MAX_LETTERS
            for aspect in method.aspects
        )
        if LETTERS in self._tests and in_letters and self._method is None:
            stages.append(_Stage(LETTERS, {"form": "letters"}))
        if SCALE_ORDER in self._tests:
            stages.append(_Stage(SCALE_ORDER, observe=self._turned))
        return stages

    def _turned(self, model: Model) -> Model:
        self._reversed.append(ReversedScale(model))
        return self._reversed[-1]

    def _judged(self, answered: dict[str, Answered]) -> StressResult:
        if not any(turned.changed for turned in self._reversed):
            answered.pop(SCALE_ORDER, None)  # the prompts name no scale that could be turned
        sources = {one.id: one.group for one in self._originals()}
        joined = Joined(
            sources,
            answered[""],
            answered[REPEAT],
            {test: answered[test] for test in (LETTERS, SCALE_ORDER) if test in answered},
        )

        def expects(edit: Edit, aspect: Aspect) -> Any:
            return expected(edit, aspect, self._must_see)

        measured = joined.measured(self._edits, self._aspects, expects)
        rows = verdicts(measured, margin=self._order.margin, confidence=self._order.confidence)
        tested = {row.test for row in rows}
        untested = [test for test in self._tests if test not in tested and test != SWAP]
        return StressResult(rows, tuple(untested), len({s or i for i, s in sources.items()}))


class _Lazy:
    """Examples that are made when they are iterated, by what is known then."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __iter__(self) -> Any:
        return iter(self._make())


def opened(data: Any, spec: RunSpec) -> Examples:
    """Open the originals.

    Raises:
        DataError: There are none.
    """
    if data is None:
        raise DataError("stress needs DATA, a file of examples")
    return open_examples(data, spec)


def highest_rating(spec: RunSpec, method: Method | None) -> str:
    """Return the highest rating as a judge of this run would write it, for texts that ask for one."""
    name = spec.method if method is None else method.name
    if name == Pairwise.name:
        return "the better text"
    if method is not None:
        aspects = method.aspects
    elif name in METHODS:
        aspects = tasks.load(spec.task, spec.aspects).aspects
    else:
        return "the highest rating"
    tops = {f"{aspect.scale[1]:g}" for aspect in aspects}
    return tops.pop() if len(tops) == 1 else "the highest rating"


def read_result(folder: Path) -> dict[str, Any]:
    """Return what a stress run's `stress.json` holds."""
    found: dict[str, Any] = json.loads((folder / STRESS_FILE).read_bytes())
    return found


__all__: Sequence[str] = ("StressOrder", "StressRun", "read_result")
