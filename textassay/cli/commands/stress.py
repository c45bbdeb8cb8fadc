"""`textassay stress`: test how robust a judge is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from textassay.cli import Status, flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import print_tables, say
from textassay.cli.exits import GATE_STATUS, as_stopped, run_async
from textassay.cli.progress import show_progress
from textassay.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from textassay.cli.commands.score import ScoreCommand
    from textassay.evaluation.session import Session
    from textassay.stress.runner import StressPlan
    from textassay.stress.verdicts import StressResult


@command("stress", panel=Heading.DECIDING, asks_models=True)
def stress(
    data: flags.OptionalData = None,
    *,
    method: flags.MethodName = None,
    model: flags.JudgeNames = None,
    out: flags.NewRun = None,
    tests: Annotated[
        list[str] | None,
        syntax.option(
            "A,B",
            "Tests or families: repeat, length, position, injection, must-see (default: all); "
            "may repeat.",
        ),
    ] = None,
    must_see: Annotated[
        list[str] | None,
        syntax.option(
            "TEST=ASPECT",
            "Aspect that must react to a test, such as number=tone, if its name does not imply "
            "it; may repeat.",
        ),
    ] = None,
    fail_above: Annotated[
        float | None,
        syntax.option(
            "X",
            "Exit with 0 if all tests hold with shifts up to X points, 1 if one fails, 4 if"
            " one "
            "is inconclusive.",
        ),
    ] = None,
    confidence: flags.Confidence = 0.95,
    stress_seed: Annotated[int, syntax.option("N", "Seed of the edits.")] = 0,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.SCORE],
) -> int:
    """Test the robustness of a judge: edit the texts in known ways and compare the scores.

    Examples:
        textassay stress data.jsonl --method llm-score -m openai/gpt-4.1-mini -o runs/stress
        textassay stress data.jsonl --method g-eval -m MODEL -o runs/stress --tests
            length,injection --fail-above 0.2
        textassay stress data.jsonl --method pairwise --pair system -m MODEL -o runs/stress
            --limit 50
    """
    from textassay.cli.commands.score import build_command
    from textassay.stress.runner import StressPlan

    values = {"data": data, "method": method, "model": model, "out": out, **group}
    # the same keys as `score`, so that one config file serves both commands
    merged, set_values = flags.with_config(values)
    flags.check_confidence(confidence)
    parsed = build_command(merged, set_values, command="stress")
    if parsed.request.calibration is not None:
        raise ConfigurationError("stress tests the judge itself; leave out the calibration")
    plan = StressPlan(
        request=parsed.request,
        tests=flags.split_names(tests) or ("all",),
        must_see=tuple(must_see or ()),
        seed=stress_seed,
        margin=fail_above,
        confidence=confidence,
    )
    return run_async(_execute(plan, parsed, as_json=as_json))


async def resume_stress(command: ScoreCommand, *, as_json: bool) -> int:
    """Continue a stress run."""
    from textassay.stress.runner import StressPlan

    request = command.request
    stage = (request.stress or {}).get("stage")
    # the parts share models and budget, so they are resumed together
    if stage:
        raise ConfigurationError(
            f"{request.out} is the part {stage!r} of a stress run; resume the folder above it"
        )
    return await _execute(StressPlan.recall(request), command, as_json=as_json)


async def _execute(plan: StressPlan, command: ScoreCommand, *, as_json: bool) -> int:
    """Run the tests, print the verdicts and return the exit status."""
    from textassay.cli.commands.score import open_choice, print_estimate
    from textassay.methods.method import traits_of
    from textassay.stress.runner import StressRun

    most_calls: int | None = None
    is_open, by_samples = False, None

    @asynccontextmanager
    async def watching(stage: str, session: Session) -> AsyncIterator[None]:
        nonlocal most_calls, is_open
        most_calls = traits_of(session.method).most_calls
        # before the walk, whose answers determine it
        is_open = is_open or bool(open_choice(session))
        if stage and command.progress != "none":
            say(f"{stage}: the originals again")
        async with show_progress(
            lambda: session.engine.progress, command.progress, dry=command.dry
        ):
            yield

    @asynccontextmanager
    async def sampling(stage: str, session: Session) -> AsyncIterator[None]:
        if choice := open_choice(session):
            choice.refuse()
        yield

    run = StressRun(plan, watching=watching)
    with as_stopped(plan.request.out, lambda: run.began):
        if command.dry:
            usage = await run.estimate()
            if is_open:
                by_samples = await StressRun(plan, watching=sampling).estimate()
            print_estimate(
                usage, run.judged, by_samples=by_samples, most_calls=most_calls, as_json=as_json
            )
            return 0
        result = await run.run()
    return _show(result, plan, as_json=as_json)


def _show(result: StressResult, plan: StressPlan, *, as_json: bool) -> int:
    from textassay.stress.verdicts import gate

    print_tables([result], result.as_dict(), as_json=as_json)
    if plan.margin is not None:
        # with a gate, its verdict alone decides the status: unscored pairs are reported, and too
        # many make tests inconclusive
        verdict = gate(result.rows, result.untested)
        say(f"gate: shifts of at most {plan.margin:g} points: {verdict}")
        return GATE_STATUS[verdict]
    return Status.UNSCORED if any(row.unscored for row in result.rows) else 0
