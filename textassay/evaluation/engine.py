"""Runs a method over examples.

A fixed number of workers, every score journaled before it is reported.

Knows graphs and run folders; nothing of names, data files or the command line.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from textassay.agents.prompt_template import TaskNeed, has_field
from textassay.evaluation.progress import Progress, merge_limiters
from textassay.evaluation.sources import CompletedScores, Source
from textassay.methods.method import Method, traits_of
from textassay.runtime.base import CACHED, NO_USAGE, ScoreError, Usage, UsageTotal
from textassay.runtime.calls.budget import track_usage
from textassay.runtime.chat_formats import short_repr
from textassay.runtime.concurrency import run_workers
from textassay.runtime.conversation import count_left_out
from textassay.runtime.data.digests import text_digest
from textassay.runtime.data.material import is_running_text
from textassay.runtime.errors import AgentExited, AnswerUnfinished, BudgetReached, ModelError
from textassay.runtime.graph import OBSERVERS, RunObserver
from textassay.runtime.messages import Aspect, Assignment, Example, Failure, Score
from textassay.runtime.stack import ConnectedModel
from textassay.runtime.storage.files import decode, encode
from textassay.runtime.storage.run_files import as_json
from textassay.runtime.storage.run_folder import RunFolder


def validate_score(
    yielded: object,
    example_id: str,
    aspect: str,
    of_session: Mapping[str, Any] = MappingProxyType({}),
) -> Score | Failure:
    """Return the score as it can be journaled, or a failure in its place.

    A failure stays unchanged, and numbers of numpy become Python's. Failures are: content that JSON
    cannot represent; a value that is missing, not finite or off its scale; a field of the wrong
    type; a score of another example or aspect.
    """
    if isinstance(yielded, Failure):
        return yielded
    if not isinstance(yielded, Score):
        return _refuse("InvalidScore", f"this is {type(yielded).__name__}, not a Score")
    # under another id or aspect it would overwrite that score on resuming and in reports
    if (yielded.id, yielded.aspect) != (example_id, aspect):
        return _refuse(
            "WrongExample",
            f"the agent was asked about {example_id!r} on {aspect!r} and returned a score of "
            f"{yielded.id!r} on {yielded.aspect!r}",
        )
    fields = {**vars(yielded), **of_session}
    # parts of a score may be unchecked copies
    usage, error = fields.get("usage"), fields.get("error")
    if usage is not CACHED and usage is not NO_USAGE and isinstance(usage, BaseModel):
        fields["usage"] = vars(usage)
    if error and isinstance(error, BaseModel):
        fields["error"] = vars(error)
    try:
        if fields.get("evidence"):  # as `resume` will read it
            fields["evidence"] = decode(encode(fields["evidence"], default=as_json))
        return Score.model_validate(fields)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "score"
        field = str(first["loc"][0]) if first["loc"] else "value"
        return _refuse(
            "InvalidScore",
            f"{place}: {str(first['msg']).removeprefix('Value error, ')} "
            f"({field} {short_repr(vars(yielded).get(field))})",
        )
    except (TypeError, ValueError, RecursionError) as reason:
        return _refuse("InvalidScore", f"the score cannot be written as JSON: {reason}")


def _refuse(kind: str, why: str) -> Failure:
    return Failure(node="scores", type=kind, message=why)


GRACE_SECONDS = 30.0
"""Seconds for the examples in progress after the model has refused all answers."""


_JudgedExample = tuple[Example, list[Score]]
"""An example with its scores; without any if the run stopped before it was judged."""


class EvaluationEngine:
    """One session of one run.

    If a run stops, the examples in progress are finished and journaled, since their calls cost
    money: without a time limit if the budget is spent, for `GRACE_SECONDS` if the model refuses to
    answer.
    Errors of storage and configuration stop the run at once.
    """

    def __init__(
        self,
        source: Source,
        method: Method,
        *,
        folder: RunFolder | None = None,
        completed: CompletedScores | None = None,
        models: Collection[ConnectedModel] = (),
        costs: Callable[[], dict[str, float | None]] = dict,
        workers: int = 64,
        adjust: Callable[[Score], Score] | None = None,
    ) -> None:
        self._source, self._method = source, method
        # once: methods compute these on every access
        traits = traits_of(method)
        self._is_joint, self._aspects = traits.judges_jointly, tuple(method.aspects)
        judged = {aspect.member_of or aspect.name for aspect in self._aspects}
        self._needs = {name: needed for name, needed in traits.needs.items() if name in judged}
        self.workers = max(1, workers)
        """Examples in progress at once; changes after the start have no effect."""
        self._folder, self._completed, self._models = folder, completed, models
        self._costs = costs
        self._adjust = adjust
        self._done = self._settled_before = 0
        self._outcomes: Counter[str] = Counter()
        self._sampled = self._unanimous = 0
        self._ledger = UsageTotal()
        self._began = time.monotonic()
        self._stop: BudgetReached | ModelError | None = None
        self._in_progress: set[asyncio.Task[Any]] = set()
        self._overdue: set[asyncio.Task[Any]] = set()
        self._grace: asyncio.TimerHandle | None = None
        self._observed: RunObserver | None = None

    @property
    def progress(self) -> Progress:
        """The current progress of the session."""
        failures: Counter[str] = Counter()
        for model in self._models:
            failures.update(model.failures)
        return Progress(
            done=self._done,
            settled_before=self._settled_before,
            total=self._source.total,
            seconds=time.monotonic() - self._began,
            outcomes=dict(self._outcomes),
            usage=self._ledger.usage,
            costs=self._costs(),
            failures=dict(failures),
            sampled=self._sampled,
            unanimous=self._unanimous,
            # roles with settings of their own ask one model through several limiters
            limiters=merge_limiters((m.name, m.limiter_state) for m in self._models),
        )

    async def scores(self) -> AsyncGenerator[Score, None]:
        """Yield scores as examples finish; leaving early stops the workers."""
        async with aclosing(self.score_lists()) as lists:
            async for scores in lists:
                for score in scores:
                    yield score

    async def score_lists(self) -> AsyncGenerator[list[Score], None]:
        """Yield the scores in the lists in which they were journaled."""
        self._began = time.monotonic()
        if OBSERVERS.current is not None:
            self._observed = OBSERVERS.current.run(self._method)
        ended_by: BaseException | None = None
        try:
            async with aclosing(
                # workers pull assignments from a generator, so memory does not grow with the data
                run_workers(
                    self._source.map(self._assignment),
                    self._judge_with_material if self._needs else self._judge,
                    workers=self.workers,
                    commit=self._journal,
                )
            ) as finished:
                async for judged in finished:
                    yield [score for _, scores in judged for score in scores]
        except AgentExited as error:
            # Ctrl-C inside an agent stops the run and is not an error of the agent
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None
            raise
        except Exception as error:
            ended_by = error
            raise
        finally:
            if self._grace is not None:
                self._grace.cancel()
            if self._observed is not None:
                self._observed.end(ended_by or self._stop)
        # after examples in progress were finished and journaled, since their calls cost money
        if self._stop is not None:
            # not the fifty frames of the call that met it, which is no fault of theirs
            raise self._stop.with_traceback(None)

    def _assignment(self, example: Example) -> Assignment | None:
        """Return the example with the aspects that have no score; `None` if all have one."""
        if open_aspects := self._open_aspects(example):
            # where a score may depend on the other aspects, all are judged again, and only the
            # missing scores are kept
            aspects = self._aspects if self._is_joint else open_aspects
            return Assignment(example=example, aspects=aspects)
        self._done += 1
        self._settled_before += 1
        return None

    def _open_aspects(self, example: Example) -> tuple[Aspect, ...]:
        if self._completed is None:
            return self._aspects
        # completed per aspect, not per example: a resumed run requests only missing scores
        return tuple(a for a in self._aspects if not self._completed.has(example.id, a.label))

    def _kept_aspects(self, assignment: Assignment) -> Collection[str]:
        """Return the labels of the judged aspects whose scores are missing."""
        missing = self._open_aspects(assignment.example) if self._is_joint else assignment.aspects
        return {aspect.label for aspect in missing}

    async def _judge_with_material(self, assignment: Assignment) -> _JudgedExample:
        """Judge the aspects for which the example has the material; the others abstain."""
        unmet = unmet_needs(assignment, self._method, self._needs)
        if not unmet:
            return await self._judge(assignment)
        example, aspects = assignment.example, assignment.aspects
        open_aspects = tuple(aspect for aspect in aspects if aspect.label not in unmet)
        if open_aspects:
            _, scores = await self._judge(Assignment(example=example, aspects=open_aspects))
            if not scores:  # the run stops
                return example, []
            unmet |= {score.aspect: score for score in scores}
        kept = self._kept_aspects(assignment)
        return example, [unmet[aspect.label] for aspect in aspects if aspect.label in kept]

    async def _judge(self, assignment: Assignment) -> _JudgedExample:
        started, began = datetime.now(UTC), time.monotonic()
        # the ledger is a context variable, so calls at any depth in this task count for the example
        with track_usage() as ledger:
            if self._observed is None:
                result = await self._result(assignment)
            else:
                with self._observed.example(assignment.example):
                    result = await self._result(assignment)
        for usage in ledger.usages:
            self._ledger.add(usage)
        if result is None:
            return assignment.example, []
        of_session = {
            "started": started,
            "seconds": round((time.monotonic() - began) * 1e6) / 1e6,
            "text_digest": text_digest(assignment.example),
        }
        kept = self._kept_aspects(assignment)
        scores = to_scores(result, assignment, ledger.usages, self._method, of_session, kept)
        if suffix := self._signature_suffix():
            scores = [
                score.model_copy(update={"signature": score.signature + suffix}) for score in scores
            ]
        if self._adjust is not None:
            scores = [self._adjust(score) for score in scores]
        return assignment.example, scores

    def _signature_suffix(self) -> str:
        """Return how the requests differ from the method's signature."""
        different = [model for model in self._models if model.adaptation.differences]
        if not different:
            return ""
        several = len({model.name for model in self._models}) > 1
        differences = {
            f"{model.name} {difference}" if several else difference: None
            for model in different
            for difference in model.adaptation.differences
        }
        return "".join(f"|{difference}" for difference in differences)

    def _journal(self, judged: list[_JudgedExample]) -> None:
        """Write scores, then count them, so that callers see only journaled scores."""
        if self._folder is not None:
            self._folder.append([score for _, scores in judged for score in scores])
        for example, scores in judged:
            self._done += bool(scores)
            for score in scores:
                self._outcomes[score.outcome] += 1
                if score.spread is not None and (score.samples or 0) > 1:
                    self._sampled += 1
                    # equal ratings, up to the rounding of their mean
                    self._unanimous += score.spread < 1e-9
                if self._observed is not None:
                    self._observed.record_score(score, example)

    async def _result(self, assignment: Assignment) -> Any:
        """Return the graph's result; `None` if the run stops before."""
        task = asyncio.current_task()
        assert task is not None
        self._in_progress.add(task)
        try:
            return await self._method.graph.run(assignment)
        except asyncio.CancelledError:
            # `uncancel` returns the remaining requests: 0, unless another caller also cancels this
            # task
            if task not in self._overdue:
                raise
            self._overdue.discard(task)
            if task.uncancel():
                raise
            return None
        except (BudgetReached, ModelError) as error:
            if not error.stops_run:
                raise
            self._stop_soon(error)
            return None
        finally:
            self._in_progress.discard(task)
            if self._overdue and task in self._overdue:  # it ended before it could be canceled
                self._overdue.discard(task)
                task.uncancel()

    def _stop_soon(self, error: BudgetReached | ModelError) -> None:
        """Take no more examples, and bound the time for the examples in progress."""
        if self._stop is not None:
            return
        self._stop = error
        self._source.end()  # otherwise workers would wait for examples forever
        # a model that refuses may never answer the examples in progress; a spent budget only
        # forbids new calls
        if isinstance(error, ModelError):
            # one timer for all, since a timeout around each example costs more than its journal
            # entry
            self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end_grace)

    def _end_grace(self) -> None:
        """Cancel the examples in progress, so that `_result` distinguishes it from other causes."""
        for task in self._in_progress:
            self._overdue.add(task)
            task.cancel()


def to_scores(
    result: Any,
    assignment: Assignment,
    usages: list[Usage],
    method: Method,
    of_session: Mapping[str, Any],
    kept: Collection[str],
) -> list[Score]:
    """Turn the result of a graph into one score for every kept aspect.

    This is the one place where a failure becomes an `error` score, and where calls that no score
    claims (a plan, the steps of an aspect) are put on the first.
    """
    aspects = assignment.aspects
    items = [result] * len(aspects) if isinstance(result, Failure) else list(result)
    if len(items) != len(aspects):
        raise TypeError(
            f"method {method.name!r} yielded {len(items)} scores for {len(aspects)} aspects"
        )
    example = assignment.example
    notes = _shortening(example, method) if example.messages else ()
    scores = []
    for item, aspect in zip(items, aspects, strict=True):
        if aspect.label not in kept:
            continue
        score = validate_score(item, example.id, aspect.label, of_session)
        if isinstance(score, Failure):
            score = error_score(example, aspect, score, method).model_copy(update=of_session)
        elif notes:
            score = score.model_copy(update={"evidence": (*score.evidence, *notes)})
        scores.append(score)
    return add_unattributed_usage(scores, usages)


def unmet_needs(
    assignment: Assignment, method: Method, needs: Mapping[str, tuple[TaskNeed, ...]]
) -> dict[str, Score]:
    """Return the abstentions from aspects whose material the example lacks, by label.

    `needs` comes from the method's traits.
    """
    example = assignment.example
    lacking = {
        aspect: [
            field
            for field in map(TaskNeed, needs.get(aspect.member_of or aspect.name, ()))
            if not has_field(example, field)
        ]
        for aspect in assignment.aspects
    }
    return {
        aspect.label: Score.unscored(
            f"Missing{fields[0].field.capitalize()}",
            f"{aspect.name} is judged by the {fields[0]}, which the example does not have"
            f"{_candidates(example, fields[0])}",
            outcome="abstained",
            **_fields_of(example, aspect, method),
        )
        for aspect, fields in lacking.items()
        if fields
    }


def _candidates(example: Example, need: TaskNeed) -> str:
    """Name the columns that may contain what is missing."""
    names = [name for name, value in example.meta.items() if is_running_text(value)]
    if need == TaskNeed.CONTEXT and example.references:
        names.insert(0, "references")
    holders = " or ".join(names[:3])
    return f"; if {holders} contains it, map it: fields={{NAME: {need.field!r}}}" if names else ""


def _shortening(example: Example, method: Method) -> tuple[dict[str, Any], ...]:
    """Return the evidence that a conversation was shortened."""
    left_out = count_left_out(example.source) if traits_of(method).shows_source else None
    if left_out is None:
        return ()
    count, contents = left_out
    text = f"the conversation was shortened: {count:,} characters of {contents} were left out"
    return ({"text": text, "left_out": count},)


def error_score(example: Example, aspect: Aspect, failure: Failure, method: Method) -> Score:
    return Score(
        # a thought that used all tokens is an unusable answer
        outcome="invalid" if failure.type == AnswerUnfinished.__name__ else "error",
        error=ScoreError(type=failure.type, message=f"{failure.node}: {failure.message}"),
        **_fields_of(example, aspect, method),
    )


def _fields_of(example: Example, aspect: Aspect, method: Method) -> dict[str, Any]:
    """Return the fields of a score without a value that the engine makes."""
    scale = aspect.scale if traits_of(method).has_scale else None
    return {
        "id": example.id, "aspect": aspect.label, "scale": scale, "how": method.how,
        "signature": method.signature,
    }  # fmt: skip


def add_unattributed_usage(scores: list[Score], usages: list[Usage]) -> list[Score]:
    """Return the scores, with the usage of unclaimed calls added to the first one."""
    if len(scores) == len(usages) == 1 and vars(scores[0].usage) == vars(usages[0]):
        return scores  # nearly always
    claimed, paid = UsageTotal(), UsageTotal()
    for score in scores:
        if score.usage is not NO_USAGE:  # all aspects but the first
            claimed.add(score.usage)
    for usage in usages:
        paid.add(usage)
    if vars(paid) == vars(claimed) or not scores:
        return scores
    # an agent may claim more than was counted, and negative usage cannot be journaled
    rest = {
        name: None if count is None or part is None else max(0, count - part)
        for (name, count), part in zip(vars(paid).items(), vars(claimed).values(), strict=True)
    }
    first = scores[0].model_copy(update={"usage": scores[0].usage + Usage(**rest)})
    return [first, *scores[1:]]
