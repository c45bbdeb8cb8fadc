"""`textassay demo`: recorded judges checked by people; then the whole pipeline, offline."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textassay.cli.app import SCORING, command
from textassay.cli.console import Style, results, say
from textassay.cli.exits import UNSCORED, Interrupted, Stopped, run_async
from textassay.cli.flags import PROGRESS, AsJson, Given, option, switch
from textassay.runtime.errors import TextassayError
from textassay.runtime.model import Model
from textassay.table import printable

if TYPE_CHECKING:
    from textassay.demo.pipeline import DemoFolder

MODEL = "embedded"


@command("demo", panel=SCORING, asks_models=True)
def demo(
    *,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "Folder to create, or the folder of an earlier demo to continue (default: a "
            "temporary one).",
            "--out",
            "-o",
        ),
    ] = None,
    quick: Annotated[bool, switch("--quick", "Run the first of the three tasks only.")] = False,
    as_json: AsJson = False,
    given: Annotated[Given, PROGRESS],
) -> int:
    """Check real judges by real people, from bundled figures; then run the whole pipeline.

    All is offline. The pipeline runs on bundled examples with the embedded model, where
    llama-cpp-python is installed.

    Examples:
        textassay demo
        textassay demo --quick
        textassay demo -o demo
    """
    if not as_json:
        print_figures()
        if find_spec("llama_cpp") is None:
            say("The rest of the demo judges texts with an embedded model: pip install"
                " 'textassay[llamacpp]'")  # fmt: skip
            return 0
    return run_async(_execute(out, given.get("progress") or "auto", quick=quick, as_json=as_json))


def print_figures() -> None:
    """Print what three experts' ratings say of five recorded judges; asks no model."""
    from textassay.cli.commands.check import print_check
    from textassay.demo.figures import check_figures

    results().print(
        "Can you trust an LLM judge? Five judges rated the consistency of 1,600 summaries; three"
        " experts did, too\n(SummEval; figures by id, no texts; ROUGE-L and the number of words"
        " stand beside the judges).\n"
    )
    print_check(check_figures())
    results().print("\nYour own table: textassay check FILE\n", markup=False)


async def _execute(
    out: Path | None, style: Style, *, quick: bool = False, as_json: bool = False
) -> int:
    """Run the demo, print what came out and return the exit status."""
    from textassay.cli.demo_report import closing, commands, opening, report, shown_example
    from textassay.demo.pipeline import TASKS, DemoFolder
    from textassay.demo.results import agreement_as_dict, decided, outcomes, read_result, usage
    from textassay.runtime.api import connect

    console, began = results(), time.monotonic()
    async with connect(MODEL) as model:
        layout = DemoFolder(
            out if out is not None else Path(tempfile.mkdtemp(prefix="textassay-demo-")),
            TASKS[:1] if quick else TASKS,
        )
        layout.open(model.identity)
        if not as_json:
            console.print(opening())
        await _run(layout, model, style)
    task_results = [read_result(layout, task) for task in layout.tasks]
    agreement = agreement_as_dict(task_results)
    # written before anything is printed, so that a closed pipe does not lose it
    layout.write_agreement(agreement)
    if as_json:
        content = {
            "folder": str(layout.folder),
            "outcomes": outcomes(layout),
            "agreement": agreement,
        }
        typer.echo(json.dumps(content))
        return _status(layout)
    console.print(report(task_results, shown_example(layout), decided(layout)))
    console.print(closing(layout, usage(layout), time.monotonic() - began))
    for line in commands(layout, _program()):
        # not folded, so that it can be copied
        console.print(f"  {printable(line)}", soft_wrap=True, markup=False)
    console.print(
        "\nYour own texts: one JSON object a line, with output, source, references and human; see"
        " README.md."
    )
    return _status(layout)


async def _run(layout: DemoFolder, model: Model, style: Style) -> None:
    from textassay.cli.demo_report import demo_steps
    from textassay.demo.pipeline import Pipeline, count_steps

    try:
        with demo_steps(count_steps(layout), style) as watch:
            await Pipeline(layout, model, watch).run()
    except TextassayError as error:
        # replaces the notes of the run inside, which name a folder that the user did not choose
        error.__notes__ = [_how_to_go_on(layout)]
        raise Stopped from error
    except asyncio.CancelledError:
        stop = Interrupted("interrupted")
        stop.add_note(_how_to_go_on(layout))
        raise Stopped from stop


def _status(layout: DemoFolder) -> int:
    """Say what is unscored, and return the exit status."""
    from textassay.demo.results import outcomes

    unscored = {kind: count for kind, count in outcomes(layout).items() if kind != "scored"}
    if not unscored:
        return 0
    counts = ", ".join(f"{count} {kind}" for kind, count in unscored.items())
    say(f"unscored: {counts}; scores.jsonl of each run gives the reasons", style="yellow")
    return UNSCORED


def _how_to_go_on(layout: DemoFolder) -> str:
    return f"finished work is kept; continue with: textassay demo --out {layout.folder}"


def _program() -> str:
    """Return how this command is called: by its name, or its path if that is not found."""
    beside = Path(sys.executable).with_name("textassay")
    if shutil.which("textassay") is not None or not beside.exists():
        return "textassay"
    return shlex.quote(
        str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)
    )
