"""`textassay stress`: test whether a judge holds."""

from __future__ import annotations

from typing import Annotated

import typer

from textassay.cli import arguments
from textassay.cli.commands.score import FLAGS, score_keys
from textassay.cli.exits import run_async
from textassay.cli.flags import AsJson, Given, MethodName, Models, OptionalData, Out
from textassay.cli.registry import DECIDING, command
from textassay.cli.shared_flags import Confidence


@command(
    "stress",
    panel=DECIDING,
    asks_models=True,
    examples=(
        "textassay stress data.jsonl --method llm-score -m openai/gpt-4.1-mini -o runs/stress",
        (
            "textassay stress data.jsonl --method g-eval -m MODEL -o runs/stress --tests"
            " length,injection --fail-above 0.2"
        ),
        (
            "textassay stress data.jsonl --method pairwise --pair system -m MODEL -o runs/stress"
            " --limit 50"
        ),
    ),
)
def stress(
    data: OptionalData = None,
    *,
    method: MethodName = None,
    model: Models = None,
    out: Out = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Tests or families: repeat, format, length, position, injection, master-keys, "
            "authority, must-see, paraphrase (default: all; paraphrase only with --model "
            "paraphraser=NAME); may repeat.",
        ),
    ] = None,
    must_see: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEST=ASPECT",
            help=(
                "Aspect that must react to a test, such as number=tone, if its name does not say "
                "so; may repeat."
            ),
        ),
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help=(
                "Exit with 0 if all tests hold with shifts up to X points, 1 if one fails, 4 if"
                " one "
                "is inconclusive."
            ),
        ),
    ] = None,
    confidence: Confidence = 0.95,
    stress_seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the edits (default: 0).")
    ] = 0,
    as_json: AsJson = False,
    given: Annotated[Given, FLAGS],
) -> int:
    """Test the robustness of a judge: edit the texts in known ways and compare the scores."""
    from textassay.cli.stress import execute, stress_order

    flags = {"data": data, "method": method, "model": model, "out": out, **given}
    # the same keys as `score`, so that one config file serves both commands
    read, chosen = arguments.with_config(flags, score_keys())
    request = stress_order(
        read,
        chosen,
        tests=arguments.typed_names(tests),
        must_see=tuple(must_see or ()),
        margin=fail_above,
        confidence=confidence,
        seed=stress_seed,
    )
    return run_async(execute(request, as_json=as_json))
