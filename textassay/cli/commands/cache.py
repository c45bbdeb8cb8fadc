"""`textassay cache info|verify|clear|export`: folders of cached answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from textassay.cli import Status, flags, syntax
from textassay.cli.app import Heading, command, group
from textassay.cli.console import capture_warnings, say
from textassay.cli.exits import run_async
from textassay.table import printable

group("cache", "Inspect, verify or clear a response cache.", panel=Heading.MAKING)

Folder = Annotated[Path, syntax.argument("DIR", "Cache folder.")]


@command("info", group="cache")
def info(folder: Folder, *, as_json: syntax.AsJson = False) -> None:
    """Show how many answers a cache folder contains."""
    from textassay.runtime.storage import answer_admin

    content = answer_admin.info(folder)
    document = {"answers": content.entries, "bytes": content.bytes}
    text = f"{content.entries} answers, {content.bytes / 1e6:.1f} MB"
    typer.echo(json.dumps(document) if as_json else text)


@command("verify", group="cache")
def verify(folder: Folder, *, as_json: syntax.AsJson = False) -> int:
    """Check every file and answer of a cache folder."""
    from textassay.runtime.calls.cache import check_entry
    from textassay.runtime.storage import answer_admin

    content = answer_admin.verify(folder, check_entry)
    document = {"sound": content.entries, "problems": list(content.problems)}
    text = "\n".join([f"{content.entries} answers are sound", *map(printable, content.problems)])
    typer.echo(json.dumps(document) if as_json else text)
    return 0 if content.ok else Status.UNSCORED


@command("clear", group="cache")
def clear(folder: Folder, *, as_json: syntax.AsJson = False) -> None:
    """Delete all answers of a cache folder."""
    from textassay.runtime.storage import answer_admin

    cleared = answer_admin.clear(folder)
    document = {"deleted": cleared.entries, "bytes": cleared.bytes}
    text = f"deleted {cleared.entries} answers, {cleared.bytes / 1e6:.1f} MB"
    typer.echo(json.dumps(document) if as_json else text)


@command("export", group="cache")
def export(
    run: flags.RunArgument,
    *,
    data: Annotated[
        Path | None, syntax.option("DATA", "Data of the run, if the file was moved.")
    ] = None,
    out: Annotated[
        Path | None,
        syntax.option("FILE", "File to create (default: standard output).", "--out", "-o"),
    ] = None,
    group: Annotated[syntax.Flags, flags.MAPPED],
) -> None:
    """Write all prompts and answers of a run as JSON Lines.

    Each line has an id, model, prompt, answers and log-probabilities.

    Examples:
        textassay cache export runs/first -o asked.jsonl
        textassay cache export runs/first | jq .answers
    """
    with capture_warnings("textassay.evaluation.exchanges"):
        run_async(_export(run, out, data, flags.data_reading(group)))


async def _export(
    folder: Path, out: Path | None, data: Path | None, reading: Mapping[str, Any]
) -> None:
    """Write prompts and answers of a run as JSON Lines, to a new file or to standard output."""
    from textassay.evaluation.exchanges import exchanges_of_run
    from textassay.runtime.storage.files import storage_errors

    count = missing = 0
    exchanges = exchanges_of_run(folder, data=data, reading=reading)
    with storage_errors(f"{out} cannot be written"):
        # "x": never overwrite an existing file with prompts, which contain the data
        opened = nullcontext(sys.stdout) if out is None else out.open("x", encoding="utf-8")
    with opened as file:
        # closes the run's cache at once if the reader of standard output goes away
        async with aclosing(exchanges):
            async for exchange in exchanges:
                file.write(json.dumps(exchange.as_dict(), ensure_ascii=False) + "\n")
                count += 1
                missing += exchange.answers is None
        file.flush()  # requests are counted after the reader or the disk has received them
    without = f", {missing} of them without an answer in the cache" if missing else ""
    say(f"{count} requests{without}")
