"""`textassay view`: the page of a run, served while the run grows."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.app import LOOKING, command
from textassay.cli.console import say
from textassay.cli.exits import run_async
from textassay.cli.flags import MAPPED, Given, Human
from textassay.listening import is_loopback

_POLITE = 10
"""Steps by which the viewer's priority is lower than that of other processes."""


@command(
    "view",
    panel=LOOKING,
    examples=("textassay view runs/first", "textassay view runs --port 8080"),
)
def view(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder, or a folder that contains several.")
    ],
    *,
    human: Human = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; a free one by default.")
    ] = 0,
    given: Annotated[Given, MAPPED],
) -> None:
    """Serve the page of a run on this machine and follow the run while it grows."""
    from textassay.cli.rated import shown_examples
    from textassay.report.server import Viewer, serve

    def started(address: str) -> None:
        typer.echo(address)
        if not is_loopback(host):
            say(
                "warning: whoever reaches this address reads the texts and scores; there is no "
                "password and no encryption"
            )
        say("serving this page until Ctrl-C")

    async def serving() -> None:
        viewer = Viewer(run, host=host, data=shown_examples(run, human, given))
        # SIGTERM cancels, and ending is what was asked for: no status of an interrupted run
        with suppress(asyncio.CancelledError):
            await serve(viewer, port=port, started=started)

    if hasattr(os, "nice"):
        os.nice(_POLITE)  # on a busy machine the run that is watched goes first
    with suppress(KeyboardInterrupt):
        run_async(serving())
