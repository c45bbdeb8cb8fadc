"""`textassay stress`: verdicts as tables or as JSON, and a gate."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from textassay.cli.console import print_tables, say
from textassay.cli.decisions import check_confidence
from textassay.cli.exits import INCONCLUSIVE, UNSCORED, stops_of_a_run
from textassay.cli.progress import Style, show_progress
from textassay.cli.run_result import print_estimate
from textassay.cli.score import ScoreCommand, command_from
from textassay.evaluation.session import Session
from textassay.runtime.errors import ConfigurationError
from textassay.stress.run import StressPlan, StressRun
from textassay.stress.verdicts import StressResult, gate

_STAGES = {
    "paraphrase": "the originals in other words, each verified",
    "paraphrased": "the verified paraphrases",
}
_STATUS = {"holds": 0, "fails": UNSCORED, "inconclusive": INCONCLUSIVE}


@dataclass(frozen=True)
class StressRequest:
    """One `stress`, read from the command line."""

    order: StressPlan
    dry: bool = False
    progress: Style = "auto"


def stress_order(
    flags: dict[str, Any],
    chosen: dict[str, Any],
    *,
    tests: tuple[str, ...] | None,
    must_see: tuple[str, ...],
    margin: float | None,
    confidence: float,
    seed: int,
) -> StressRequest:
    """Make a request of the flags of `score` and those of `stress`."""
    check_confidence(confidence)
    read = command_from(flags, chosen, command="stress")
    if read.spec.calibration is not None:
        raise ConfigurationError("stress tests the judge itself; leave out the calibration")
    order = StressPlan(
        spec=read.spec,
        settings=read.settings,
        out=read.out,
        tests=tests,
        must_see=must_see,
        seed=seed,
        margin=margin,
        confidence=confidence,
    )
    return StressRequest(order, read.dry, read.progress)


def request_to_resume(order: ScoreCommand) -> StressRequest:
    """Make a request that continues a stress run."""
    stage = (order.spec.stress or {}).get("stage")
    # parts share the models and the budget of the whole, so they are resumed together
    if order.out is None or stage:
        raise ConfigurationError(
            f"{order.out} is the part {stage!r} of a stress run; resume the folder above it"
        )
    recalled = StressPlan.recall(order.spec, order.settings, order.out)
    return StressRequest(recalled, progress=order.progress)


async def execute(request: StressRequest, *, as_json: bool = False) -> int:
    """Run the tests, print the verdicts and return the exit status."""

    def watching(stage: str, session: Session) -> AbstractAsyncContextManager[None]:
        if stage and request.progress != "none":
            say(f"{stage}: {_STAGES.get(stage, 'the originals once more')}")
        return show_progress(lambda: session.engine.progress, request.progress, dry=request.dry)

    run = StressRun(request.order, watching=watching)
    with stops_of_a_run(request.order.out, lambda: run.began):
        if request.dry:
            usage = await run.estimate()
            print_estimate(usage, run.judged, as_json=as_json)
            return 0
        result = await run.run()
    return _show(result, request.order, as_json=as_json)


def _show(result: StressResult, order: StressPlan, *, as_json: bool) -> int:
    print_tables(result.tables(), result.as_dict(), as_json=as_json)
    if order.margin is not None:
        # with a gate its verdict decides alone: unscored pairs are reported, and too many make
        # tests inconclusive
        verdict = gate(result.rows)
        say(f"gate: shifts of at most {order.margin:g} points: {verdict}")
        return _STATUS[verdict]
    return UNSCORED if any(row.unscored for row in result.rows) else 0
