"""Serves the page of a run until the user stops it."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import typer

from textassay.cli.console import say
from textassay.cli.exits import run_async
from textassay.listening import is_loopback
from textassay.report.server import Viewer, serve

_POLITE = 10
"""Steps by which the viewer's priority is lower than that of other processes."""


def execute(run: Path, *, human: Path | None, host: str, port: int) -> None:
    """Serve until Ctrl-C, which is how this command ends.

    Raises:
        ConfigurationError: There is no run, or the address cannot be listened on.
    """

    def started(address: str) -> None:
        typer.echo(address)
        if not is_loopback(host):
            say(
                "warning: whoever reaches this address reads the texts and scores; there is no "
                "password and no encryption"
            )
        say("serving this page until Ctrl-C")

    async def serving() -> None:
        viewer = Viewer(run, host=host, data=human)
        # SIGTERM cancels, and ending is what was asked for: no status of an interrupted run
        with suppress(asyncio.CancelledError):
            await serve(viewer, port=port, started=started)

    if hasattr(os, "nice"):
        os.nice(_POLITE)  # on a busy machine the run that is watched goes first
    with suppress(KeyboardInterrupt):
        run_async(serving())
