"""Prints what was asked and answered in a run, or what would be asked, without asking a model."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from itertools import zip_longest
from pathlib import Path
from textwrap import indent

import typer

from textassay.cli.console import say
from textassay.cli.score import ScoreCommand
from textassay.display import printable
from textassay.evaluation.exchanges import Exchange, exchanges_ahead, exchanges_of_run
from textassay.report.evidence import clipped
from textassay.runtime.errors import StorageError

MAX_THOUGHT = 1000
"""Characters of a thought that are printed; JSON has all that was kept."""


async def show_exchanges(
    folder: Path, ids: Collection[str] | None, data: Path | None, *, as_json: bool = False
) -> None:
    """Print prompts and answers of some examples of a run.

    Raises:
        ConfigurationError: The run, its data or an id cannot be found.
    """
    exchanges = exchanges_of_run(folder, ids, data=data)
    if as_json:
        rows = [exchange.as_dict() async for exchange in exchanges]
        typer.echo(json.dumps({"rows": rows}))
        return
    await _print(exchanges)


async def show_prompts(order: ScoreCommand, count: int) -> None:
    """Print what an order of `score` would ask for the first `limit` examples.

    Raises:
        ConfigurationError: Something does not fit.
    """
    await _print(exchanges_ahead(order.spec.data, order.spec, order.settings, count))


async def export(folder: Path, out: Path | None, data: Path | None) -> None:
    """Write prompts and answers of a run as JSON Lines, to a new file or to standard output.

    Raises:
        ConfigurationError: The run or its data cannot be found.
        StorageError: The file exists or cannot be written.
    """
    count = missing = 0
    exchanges = exchanges_of_run(folder, data=data)
    try:
        # "x": prompts hold the data, and an existing file may be somebody's
        file = sys.stdout if out is None else out.open("x", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{out}: cannot be written: {error.strerror}") from error
    try:
        # closed at once if the reader of standard output goes away: the run's cache is open
        async with aclosing(exchanges):
            async for exchange in exchanges:
                file.write(json.dumps(exchange.as_dict(), ensure_ascii=False) + "\n")
                count += 1
                missing += exchange.answers is None
    finally:
        if out is not None:
            file.close()
    without = f", {missing} of them without an answer in the cache" if missing else ""
    say(f"{count} requests{without}")


async def _print(exchanges: AsyncGenerator[Exchange, None]) -> None:
    last = None
    async with aclosing(exchanges):
        async for exchange in exchanges:
            if exchange.id != last:
                typer.echo(printable(f"=== {exchange.id} ==="))
                last = exchange.id
            for turn in exchange.prompt:
                typer.echo(
                    printable(f"--- {exchange.model}, {turn['role']} ---\n{turn['content']}")
                )
            for answer, thought in zip_longest(exchange.answers or (), exchange.thoughts):
                typer.echo(printable(f"--- answer ---\n{answer}"))
                if thought:
                    folded = indent(clipped(thought, MAX_THOUGHT), "    ")
                    typer.echo(printable(f"    --- thought before it ---\n{folded}"))
            for choice, logprob in (exchange.logprobs or {}).items():
                shown = "-" if logprob is None else f"{logprob:.4f}"
                typer.echo(printable(f"--- log-probability {shown} ---\n{choice}"))
            if exchange.answers is None:
                typer.echo("--- no answer in the cache ---")
            typer.echo()
