"""The object that a test judges with, and its judges: recorded once, replayed without a key.

FOLDER/                         a cache folder of answers
FOLDER/models/NAME-DIGEST.json  what each model is, so that a replay needs neither key nor server
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from textassay.evaluation.api import ModelsByRole, evaluate
from textassay.evaluation.run import Run
from textassay.gates.checks import (
    MAX_UNSCORED,
    SHOWN,
    Baseline,
    Check,
    JudgeError,
    check_at_least,
    check_not_worse,
)
from textassay.runtime.backends.by_name import load_backend
from textassay.runtime.backends.replay import RecordedModel
from textassay.runtime.calls.budget import Budget
from textassay.runtime.connected import ConnectedModel, connect
from textassay.runtime.errors import (
    ConfigurationError,
    RequestRefused,
    StorageError,
    UnknownParameter,
)
from textassay.runtime.messages import Usage
from textassay.runtime.model import Capabilities, Model
from textassay.runtime.settings import Settings
from textassay.runtime.storage.cache_folder import prepare
from textassay.runtime.storage.files import read_regular, write_json

_ARGUMENTS = tuple(inspect.signature(evaluate).parameters)
_OF_SESSION = {
    "cache": "textassay_answers in pytest's configuration",
    "max_cost": "--textassay-max-cost",
}
"""Settings that all tests of a session have together, and where they are given."""


def _move_settings(given: dict[str, Any]) -> None:
    """Replace single settings among the arguments by `settings`.

    Raises:
        UnknownParameter: A name is neither an argument of `evaluate` nor a setting.
        ConfigurationError: A setting is one of the session.
    """
    own = {name: given.pop(name) for name in list(given) if name not in _ARGUMENTS}
    for name in own:
        if name not in Settings.model_fields:
            raise UnknownParameter("evaluate", name, [*_ARGUMENTS, *Settings.model_fields])
        if name in _OF_SESSION:
            raise ConfigurationError(
                f"{name}= is one for all tests of a session: {_OF_SESSION[name]}"
            )
    if own:
        general: Settings = given.get("settings") or Settings()
        set_before = {name: getattr(general, name) for name in general.model_fields_set}
        given["settings"] = Settings(**{**set_before, **own})


class Assay:
    """Judges texts and checks their scores; one per test.

    In an async test `run = await assay("data.jsonl")`, in any other one
    `run = assay.evaluate_sync("data.jsonl")`.
    """

    def __init__(
        self, judge: Judge, report: Callable[[Check], object], defaults: Mapping[str, Any]
    ) -> None:
        """Store what a test shares with the others.

        Args:
            judge: How models are asked.
            report: Called with every check that was decided; raises if the test is to end there.
            defaults: Arguments of `textassay.evaluate` that the test need not repeat.
        """
        self.judge = judge
        self._report, self._defaults = report, dict(defaults)

    async def evaluate(self, examples: Any, **arguments: Any) -> Run:
        """Judge every example and return the run.

        Args:
            examples: As `textassay.evaluate`.
            **arguments: Keyword arguments of `textassay.evaluate`, and settings of how models are
                asked (`api_base`, `price`, ...), in place of the test's own.

        Raises:
            TextassayError: As `textassay.evaluate`.
            ConfigurationError: A setting has no effect in tests.
            JudgeError: In a replay, a text was never judged; names it.
        """
        # a test suite captures standard error, where a progress line would be noise
        given = {"progress": False, **self._defaults, **arguments}
        _move_settings(given)
        # taken out, because the session's judge opens the models: they share one recording and one
        # budget
        model, settings = given.pop("model", None), given.pop("settings", None)
        async with self.judge.models(model, settings) as (models, own):
            run = await evaluate(examples, model=models, settings=own, **given)
        if run.progress is not None:
            self.judge.usage = self.judge.usage + run.progress.usage
        self._refuse_unrecorded(run)
        return run

    def _refuse_unrecorded(self, run: Run) -> None:
        """Raise if a text was never judged: a gate that leaves it out would let it through."""
        if self.judge.mode != "replay":
            return
        # a replay refuses nothing else
        never = [one for one in run if one.error and one.error.type == RequestRefused.__name__]
        ids = list(dict.fromkeys(one.id for one in never))
        if ids:
            more = ", ..." if len(ids) > SHOWN else ""
            raise JudgeError(
                f"{len(ids)} {'text was' if len(ids) == 1 else 'texts were'} never judged:"
                f" {', '.join(map(repr, ids[:SHOWN]))}{more}; {self.judge.folder} has no answer for"
                " them. Run pytest --textassay=record and commit that folder"
            )

    __call__ = evaluate

    def evaluate_sync(self, examples: Any, **arguments: Any) -> Run:
        """Do what `evaluate` does in a test that is not async."""
        return asyncio.run(self.evaluate(examples, **arguments))

    def check(
        self,
        run: Run,
        aspect: str,
        *,
        at_least: float,
        confidence: float = 0.95,
        max_unscored: float = MAX_UNSCORED,
    ) -> Check:
        """Check that the mean score of an aspect is at least a threshold.

        It fails if the whole interval is below, and is inconclusive if the interval spans it.

        Args:
            run: What was judged.
            aspect: Which of its aspects.
            at_least: The threshold, on the score's own scale.
            confidence: Confidence of the interval.
            max_unscored: Share of texts without a score up to which the others decide.

        Raises:
            CheckFailed: It fails.
            Inconclusive: It is inconclusive, and that counts as a failure here.
            JudgeError: Too many texts have no score.
        """
        __tracebackhide__ = True
        result = check_at_least(
            run, aspect, at_least, confidence=confidence, max_unscored=max_unscored
        )
        self._report(result)
        return result

    def check_not_worse(
        self,
        run: Run,
        *,
        baseline: Baseline,
        by: float = 0.0,
        aspects: str | Iterable[str] | None = None,
        confidence: float = 0.95,
        max_unscored: float = MAX_UNSCORED,
    ) -> list[Check]:
        """Check that no aspect is worse than in a recorded run by more than a margin.

        Args:
            run: The new run.
            baseline: A run, a run folder or a file of scores, of texts with the same ids.
            by: The margin, on the score's own scale.
            aspects: What to compare; all that both judged if left out.
            confidence: Confidence of the intervals.
            max_unscored: Share of texts that may lack one of the two scores.

        Raises:
            CheckFailed: An aspect fails.
            Inconclusive: One is inconclusive, and that counts as a failure here.
            JudgeError: Too many texts have no score.
        """
        __tracebackhide__ = True
        results = check_not_worse(
            run, baseline, by=by, aspects=aspects, confidence=confidence, max_unscored=max_unscored
        )
        for check in sorted(results, key=lambda check: check.verdict):  # "fails" comes first
            self._report(check)
        return results


RecordingMode = Literal["record", "replay", "live"]
"""`record` asks what has no recorded answer, `replay` asks nothing, `live` asks everything."""
MODELS = "models"


class Judge:
    """The judges of one test session.

    How they are asked, where answers are kept, what they cost.
    """

    def __init__(self, mode: RecordingMode, folder: Path, *, max_cost: float | None = None) -> None:
        """Store how models are asked.

        Args:
            mode: Whether answers are recorded, replayed, or neither.
            folder: Where answers are kept.
            max_cost: The most that the session may cost, in US dollars.
        """
        self.mode: RecordingMode = mode
        self.folder, self.max_cost = folder, max_cost
        self.usage = Usage()
        # one budget for the session: the limit is on the test suite, not on each test
        self._budget = Budget(max_cost)

    @asynccontextmanager
    async def models(
        self, given: ModelsByRole | None, settings: Settings | None
    ) -> AsyncIterator[tuple[dict[str, Model] | None, Settings | None]]:
        """Open the models of one evaluation.

        Yields:
            The models by role, and the run's own settings.

        Raises:
            ConfigurationError: Nothing is recorded for a model, or its price is not known although
                there is a cap.
        """
        if given is None:
            yield None, None
            return
        roles = given if isinstance(given, Mapping) else {"": given}
        async with AsyncExitStack() as stack:
            opened = {
                role: await self._opened(model, (settings or Settings()).for_role(role), stack)
                for role, model in roles.items()
            }
            cached = self.mode == "record" and any(
                isinstance(model, ConnectedModel) for model in opened.values()
            )
            yield opened, Settings(cache=self.folder) if cached else None

    async def _opened(self, model: str | Model, settings: Settings, stack: AsyncExitStack) -> Model:
        name = model if isinstance(model, str) else model.name
        # in replay no backend is opened at all, so neither its package nor a key has to be there
        if self.mode == "replay" and not name.startswith("replay/"):
            recorded = self._recorded(name, settings)
            stack.push_async_callback(recorded.aclose)
            return recorded
        if isinstance(model, ConnectedModel):
            connected = model
        else:
            if isinstance(model, str):
                await load_backend(model)
            # the session's folder is the only cache: a second one would answer before anything is
            # recorded
            plain = settings.model_copy(update={"cache": None, "max_cost": None})
            connected = connect(model, settings=plain, budget=self._budget)
            if isinstance(model, str):  # an object of the caller's stays open
                await stack.enter_async_context(connected)
        # a limit that cannot be computed would never be reached
        if self.max_cost is not None and connected.price is None:
            raise ConfigurationError(
                f"--textassay-max-cost cannot be enforced: the price of {name!r} is not known; "
                "give settings=Settings(price=(IN, OUT)), US dollars per million tokens"
            )
        if self.mode == "record":
            self._remember(name, settings, connected)
        return connected

    def _remember(self, name: str, settings: Settings, model: Model) -> None:
        entry = {
            "name": model.name,
            "identity": dict(model.identity),
            # kept beside the identity: in replay methods choose their prompts by what the model
            # can do
            "capabilities": model.capabilities.model_dump(mode="json"),
        }
        file = self._file(name, settings)
        try:
            # an unchanged file is not written, so that recording again leaves no change to commit
            if file.is_file() and json.loads(read_regular(file)) == json.loads(json.dumps(entry)):
                return
            # before anything else lies in the folder, for a cache refuses folders of others
            prepare(self.folder)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, entry)
        except OSError as error:
            raise StorageError(f"{file} cannot be written: {error}") from error

    def _recorded(self, name: str, settings: Settings) -> RecordedModel:
        file = self._file(name, settings)
        try:
            entry: dict[str, Any] = json.loads(read_regular(file))
            capabilities = Capabilities(**entry["capabilities"])
            return RecordedModel(entry["name"], entry["identity"], capabilities, self.folder)
        except FileNotFoundError:
            raise ConfigurationError(
                f"no answers of {name!r} are recorded in {self.folder}; run the tests once with "
                "--textassay=record and commit that folder"
            ) from None
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{file} cannot be used: {error}") from error

    def _file(self, name: str, settings: Settings) -> Path:
        # the same name at another address may be another model
        whole = f"{name}\n{settings.api_base or ''}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        return self.folder / MODELS / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', name)[-60:]}-{digest}.json"
