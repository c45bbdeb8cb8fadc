"""`textassay view`: the page of a run, served while the run grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.registry import LOOKING, command
from textassay.cli.shared_flags import Human


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
) -> None:
    """Serve the page of a run on this machine and follow the run while it grows."""
    from textassay.cli.view import execute

    execute(run, human=human, host=host, port=port)
