"""`textassay demo`: the whole pipeline, offline, on the embedded model."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from textassay.cli.console import results, say
from textassay.cli.demo_progress import Steps
from textassay.cli.demo_report import closing, opening, report
from textassay.cli.exits import UNSCORED, Interrupted, Stopped
from textassay.cli.progress import Style
from textassay.demo.layout import Layout
from textassay.demo.pipeline import Pipeline
from textassay.demo.recipes import TASKS
from textassay.demo.results import agreement_as_dict, outcomes, result_of, shown_example, usage
from textassay.runtime.connect import connect
from textassay.runtime.errors import TextassayError
from textassay.runtime.settings import LocalSettings

MODEL = "embedded"
THREADS = 1
"""A model this small gains nothing from a second thread, and loses much where another process wants the core."""


async def carry_out(out: Path | None, style: Style) -> int:
    """Run the demo, print what came out and return the exit status.

    Args:
        out: Folder to make, or that of an earlier demo, which is gone on with; by default a temporary one.
        style: How progress is shown.

    Raises:
        ConfigurationError: The model cannot be had or the folder not be used; nothing was asked.
        Stopped: It began and was stopped; its cause tells why.
    """
    console = results()
    began = time.monotonic()
    async with connect(MODEL, local=LocalSettings(threads=THREADS)) as model:
        layout = Layout(out if out is not None else Path(tempfile.mkdtemp(prefix="textassay-demo-")))
        layout.open(MODEL)
        console.print(opening())
        try:
            async with Steps(Pipeline.steps(), style) as steps:
                await Pipeline(layout, model, steps.watch).run()
        except TextassayError as error:
            error.__notes__ = [_how_to_go_on(layout)]
            raise Stopped from error
        except asyncio.CancelledError:
            stop = Interrupted("interrupted")
            stop.add_note(_how_to_go_on(layout))
            raise Stopped from stop
    found = [result_of(layout, task) for task in TASKS]
    layout.write_agreement(agreement_as_dict(found))
    console.print(report(found, shown_example(layout)))
    console.print(closing(layout, usage(layout), time.monotonic() - began))
    unscored = {kind: count for kind, count in outcomes(layout).items() if kind != "scored"}
    if unscored:
        counts = ", ".join(f"{count} {kind}" for kind, count in unscored.items())
        say(f"unscored: {counts}; the runs tell why", style="yellow")
    return UNSCORED if unscored else 0


def _how_to_go_on(layout: Layout) -> str:
    return f"what is finished is kept; go on with: textassay demo --out {layout.folder}"
