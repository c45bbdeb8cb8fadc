"""Reads and writes ratings in the formats of other annotation tools."""

from __future__ import annotations

from pathlib import Path

from textassay.annotate import interchange
from textassay.cli.console import say
from textassay.methods.library import tasks
from textassay.runtime.data import Examples
from textassay.runtime.errors import StorageError
from textassay.runtime.storage.files import write_text
from textassay.runtime.storage.json_text import encode


def import_from(form: str, file: Path, out: Path, data: str | None) -> None:
    """Write the ratings of another tool's export in our format.

    Raises:
        TextassayError: The export cannot be read, names unknown ids, or `out` cannot be written.
    """
    rows = interchange.read(form, file)
    if data is not None:
        rows = interchange.with_examples(rows, Examples(data))
    lines = [encode(row).decode("utf-8") for row in rows]
    try:
        write_text(out, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error}") from error
    say(f"{len(rows)} rated examples by {len(rows[0]['raters'])} raters are in {out}")


def export_to(
    form: str, data: str, out: Path, task: str | None, aspects: tuple[str, ...] | None
) -> None:
    """Write examples as tasks for another tool.

    Raises:
        TextassayError: The data or the task do not fit, or the folder cannot be written to.
    """
    try:
        written = interchange.write(form, Examples(data), tasks.load(task, aspects), out)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error}") from error
    for path in written:
        say(f"wrote {path}")
