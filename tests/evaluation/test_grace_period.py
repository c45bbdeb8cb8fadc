"""Examples in work when a model refuses: bounded time, and no mix-up with other cancellations."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tests.virtual_time import run_virtual
from textassay.evaluation.engine import GRACE_SECONDS, EvaluationEngine
from textassay.runtime.errors import AuthenticationFailed
from textassay.runtime.messages import Aspect, Assignment, Example, Score

EXAMPLES = [Example(id=name, output="Text.") for name in ("refused", "slow", "quick")]


def engine(slow: float, ended: list[str]) -> EvaluationEngine:
    """Return an engine whose model refuses the first example, while the second takes `slow` s."""

    async def judge(assignment: Assignment) -> list[Score]:
        name = assignment.example.id
        if name == "refused":
            await asyncio.sleep(1)
            raise AuthenticationFailed("the key is wrong")
        try:
            await asyncio.sleep(slow if name == "slow" else 2)
        finally:
            ended.append(name)
        return [Score(id=name, aspect="fluency", value=3.0, signature="s")]

    method = SimpleNamespace(
        name="own",
        how="text",
        signature="s",
        aspects=(Aspect(name="fluency", definition="Reads well."),),
        graph=SimpleNamespace(run=judge),
    )
    return EvaluationEngine(EXAMPLES, method, workers=3)  # type: ignore[arg-type]


async def shown(engine: EvaluationEngine) -> tuple[list[str], BaseException | None, float]:
    """Return the ids of the scores, what ended the run, and its seconds."""
    loop = asyncio.get_running_loop()
    began, seen, error = loop.time(), [], None
    try:
        async for score in engine.scores():
            seen.append(score.id)  # noqa: PERF401  # a comprehension loses them when it raises
    except AuthenticationFailed as caught:
        error = caught
    return seen, error, loop.time() - began


@pytest.mark.parametrize(("slow", "finished"), [(10.0, True), (10_000.0, False)])
def test_examples_in_work_get_some_time(slow: float, finished: bool) -> None:
    """What ends within the grace period is a score; what does not is given up, without a score."""
    ended: list[str] = []
    seen, error, seconds = run_virtual(shown(engine(slow, ended)))
    assert seen == (["quick", "slow"] if finished else ["quick"])
    assert ended == ["quick", "slow"]
    assert isinstance(error, AuthenticationFailed)
    assert seconds == pytest.approx(slow if finished else 1 + GRACE_SECONDS)


def test_a_cancellation_by_the_caller_stays_one() -> None:
    """Canceled within the grace period, the run ends at once and leaves no timer behind."""

    async def main() -> None:
        ended: list[str] = []
        run = asyncio.create_task(shown(engine(10_000.0, ended)))
        await asyncio.sleep(5)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended == ["quick", "slow"]
        await asyncio.sleep(2 * GRACE_SECONDS)

    run_virtual(main())
