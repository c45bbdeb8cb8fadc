"""`textassay ratings ...|import`: ratings and results from and to other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textassay.cli import arguments
from textassay.cli.app import LOOKING, command, group
from textassay.cli.console import say
from textassay.cli.exits import io_errors
from textassay.cli.flags import CONFIG_KEYS, JUDGING, MAPPED, AsJson, Data, Given

if TYPE_CHECKING:
    from textassay.agents.task import Task
    from textassay.runtime.labels import LabelScale


group("ratings", "Exchange ratings with other annotation tools.", panel=LOOKING)


@command(
    "import",
    group="ratings",
    examples=(
        "textassay ratings import label-studio export.json --data data.jsonl -o ratings.jsonl",
    ),
)
def import_ratings(
    form: Annotated[
        str, typer.Argument(metavar="FORMAT", help="csv, label-studio, argilla or potato.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Export file of the other tool.")],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File to write, .jsonl.")
    ],
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Examples whose texts to add to the rows."),
    ] = None,
    given: Annotated[Given, JUDGING.only("task") | MAPPED],
) -> None:
    """Read ratings that people gave in another tool, with one entry per rater.

    With the task that they rated by, a rating that is none of an aspect's labels is refused.
    """
    from textassay.annotate import interchange
    from textassay.methods.library import tasks
    from textassay.runtime.data import Examples
    from textassay.runtime.storage.files import encode, write_text

    flags, _ = arguments.with_config(given, CONFIG_KEYS)
    labels = _labels(tasks.load(flags["task"])) if "task" in flags else {}
    rows = interchange.read(form, file, labels)
    if data is not None:
        examples = Examples(data, labels=labels, **arguments.reading(flags))
        rows = interchange.with_examples(rows, examples)
    lines = [encode(row).decode("utf-8") for row in rows]
    with io_errors(out):
        write_text(out, "".join(f"{line}\n" for line in lines))
    say(f"{len(rows)} rated examples by {len(rows[0]['raters'])} raters are in {out}")


@command("agreement", group="ratings", examples=("textassay ratings agreement ratings.jsonl",))
def agreement(
    data: Data, *, as_json: AsJson = False, given: Annotated[Given, JUDGING.only("task") | MAPPED]
) -> None:
    """Measure how well raters agree with each other, by aspect; no scores are needed."""
    from textassay.cli.console import print_tables
    from textassay.meta.table import between_raters
    from textassay.methods.library import tasks

    flags, _ = arguments.with_config(given, CONFIG_KEYS)
    labels = _labels(tasks.load(flags["task"])) if "task" in flags else {}
    reading = {key: flags[key] for key in flags.keys() & {"fields", "missing"}}
    found, table = between_raters(data, labels=labels, **reading)
    rows = [{"human": name, **one.as_dict()} for name, one in found.items()]
    print_tables([table], {"rows": rows}, as_json=as_json)


@command(
    "export",
    group="ratings",
    examples=("textassay ratings export label-studio data.jsonl --task summarization -o tasks/",),
)
def export_tasks(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="label-studio, argilla or potato.")],
    data: Data,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write to.")],
    given: Annotated[Given, JUDGING.only("task", "aspects") | MAPPED],
) -> None:
    """Write examples as tasks for another annotation tool, without systems and scores."""
    from textassay.annotate import interchange
    from textassay.methods.library import tasks
    from textassay.runtime.data import Examples

    flags, _ = arguments.with_config(given, CONFIG_KEYS)
    task = tasks.load(flags.get("task"), flags.get("aspects"))
    examples = Examples(data, labels=_labels(task), **arguments.reading(flags))
    with io_errors(out):
        written = interchange.write(form, examples, task, out)
    for path in written:
        say(f"wrote {path}")


def _labels(task: Task) -> dict[str, LabelScale]:
    """Return the labels of a task's aspects by name."""
    return {one.name: scale for one in task.aspects if (scale := one.label_scale)}


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
