"""`textassay import`: result files of other tools as examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.app import LOOKING, command
from textassay.cli.console import say
from textassay.cli.new_files import io_errors


@command(
    "import",
    panel=LOOKING,
    examples=(
        "textassay import inspect logs/2026-11-01_security.eval --out data.jsonl",
        "textassay import lm-eval samples_xsum_2026-11-01.jsonl --out data.jsonl",
    ),
)
def import_results(
    form: Annotated[
        str, typer.Argument(metavar="FORMAT", help="inspect, promptfoo, deepeval or lm-eval.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Result file of that tool.")],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File of examples to write, .jsonl.")
    ],
) -> None:
    """Convert another tool's result file into examples with scores, to judge, compare or rate."""
    from textassay.runtime.data.results import read_results
    from textassay.runtime.storage.files import encode, write_text

    imported = read_results(form, file)
    with io_errors(out):
        write_text(out, "".join(f"{encode(row).decode()}\n" for row in imported.rows))
    names = dict.fromkeys(name for row in imported.rows for name in row.get("metrics", ()))
    say(f"wrote {len(imported.rows)} examples to {out}; metrics: {', '.join(names) or 'none'}")
    if imported.empty:
        say(f"{imported.empty} results without a text were left out", style="yellow")
