"""`textassay report|view|show`: show a run on a page, on a live page, or in the terminal."""

from __future__ import annotations

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import zip_longest
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from textassay.cli import flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import capture_warnings, print_tables, results, say, warn
from textassay.cli.exits import run_async
from textassay.cli.rated import open_examples
from textassay.listening import is_loopback
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.table import printable

if TYPE_CHECKING:
    from textassay.evaluation.exchanges import Exchange
    from textassay.evaluation.request import RunRequest
    from textassay.report.source import DataSource, JoinedPage, RunSource


@command("show", panel=Heading.LOOKING)
def show(
    run: flags.RunArgument,
    id_: Annotated[
        str | None, syntax.argument("[ID]", "Example to show with its evidence.")
    ] = None,
    *,
    human: flags.HumanData = None,
    aspect_map: flags.AspectPairs = None,
    prompts: Annotated[
        bool, syntax.switch("--prompts", "Print the prompts and answers of the models.")
    ] = False,
    jurors: Annotated[
        bool, syntax.switch("--jurors", "Print the gain and the cost of each juror of a jury.")
    ] = False,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.MAPPED],
) -> None:
    """Show a run in the terminal.

    Prints a summary and the largest disagreements with people; with ID, the evidence of one
    example; with --jurors, the value of each juror in a run with output=jurors, or in scores named
    ASPECT/JUROR.

    Examples:
        textassay show runs/first
        textassay show runs/first doc-17-M3
        textassay show runs/first doc-17-M3 --prompts
        textassay show runs/jury --human rated.jsonl --jurors
    """
    if jurors:
        _show_jurors(run, human, group, as_json=as_json)
        return
    if prompts:
        ids = () if id_ is None else (id_,)
        with capture_warnings("textassay.evaluation.exchanges"):
            run_async(_show_exchanges(run, ids, human, flags.data_reading(group), as_json=as_json))
        return
    from textassay.agreement.joined import map_entries
    from textassay.methods.fitted.evaluator import is_evaluator
    from textassay.report.page import join_runs
    from textassay.report.source import open_data, open_run

    if is_evaluator(run):
        raise ConfigurationError(
            f"{run} is a fitted evaluator; write its report with: textassay report {run} --out FILE"
        )
    source = open_run(run)
    source.table.read_all()
    data = open_data(source, open_examples(run, human, group))
    joined = join_runs([source], [data], dict(map_entries(aspect_map or ())))
    if id_ is None:
        _show_run(run, source, data, joined, as_json=as_json)
    else:
        _show_example(id_, source, data, joined, as_json=as_json)


def _show_run(
    folder: Path, run: RunSource, data: DataSource, joined: JoinedPage, *, as_json: bool
) -> None:
    if as_json:
        typer.echo(json.dumps({"run": str(folder), "rows": _rows(run, data, joined)}))
        return
    from textassay.report.terminal import run_parts

    console = results()
    console.print(*run_parts(run, data, joined, console.width), sep="\n")


def _show_example(
    id_: str, run: RunSource, data: DataSource, joined: JoinedPage, *, as_json: bool
) -> None:
    from textassay.report.examples import show_score

    rows = run.table.rows_of(id_)
    if not rows:
        # the ids of the run, not of the data, so that the error suggests ids with scores
        raise UnknownName("example of this run", id_, run.table.ids)
    scores = [show_score(run, data, joined, row) for row in rows]
    if as_json:
        example = scores[0].example
        content = None if example is None else example.model_dump(mode="json")
        scored = [{**score.score.model_dump(mode="json"), "human": score.human} for score in scores]
        typer.echo(json.dumps({"id": id_, "example": content, "scores": scored}))
        return
    from textassay.report.terminal import example_parts

    results().print(example_parts(scores))


def _rows(run: RunSource, data: DataSource, joined: JoinedPage) -> list[dict[str, Any]]:
    """Return the means of the printed table: one row per aspect and system."""
    from textassay.report.overview import scores

    return [
        {
            "aspect": aspect.name,
            "system": row.system,
            "n": row.n,
            "mean": row.mean.value,
            "low": row.mean.low,
            "high": row.mean.high,
            "unscored": row.unscored,
            "human": row.people,
        }
        for aspect in scores([run], [data], [joined])
        for row in aspect.rows
    ]


async def _show_exchanges(
    folder: Path,
    ids: Collection[str],
    data: Path | None,
    reading: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Print prompts and answers of some examples of a run."""
    from textassay.evaluation.exchanges import exchanges_of_run

    exchanges = exchanges_of_run(folder, ids, data=data, reading=reading)
    if as_json:
        rows = [exchange.as_dict() async for exchange in exchanges]
        typer.echo(json.dumps({"rows": rows}))
        return
    await _print(exchanges)


async def show_prompts(request: RunRequest, count: int) -> None:
    """Print the prompts of `score` for the first `count` examples."""
    from textassay.evaluation.exchanges import exchanges_ahead

    await _print(exchanges_ahead(request, count))


async def _print(exchanges: AsyncGenerator[Exchange, None]) -> None:
    from textassay.report.examples import clip

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
                if thought:  # only the beginning; JSON has the whole thought
                    folded = indent(clip(thought, 1000), "    ")
                    typer.echo(printable(f"    --- thought before it ---\n{folded}"))
            for choice, logprob in (exchange.logprobs or {}).items():
                number = "-" if logprob is None else f"{logprob:.4f}"
                typer.echo(printable(f"--- log-probability {number} ---\n{choice}"))
            if exchange.answers is None:
                typer.echo("--- no answer in the cache ---")
            typer.echo()


@command("view", panel=Heading.LOOKING)
def view(
    run: Annotated[Path, syntax.argument("RUN", "Run folder, or a folder that contains several.")],
    *,
    human: flags.HumanData = None,
    host: Annotated[str, syntax.option("ADDRESS", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, syntax.option("N", "Port; a free one by default.", min=0, max=65535)] = 0,
    group: Annotated[syntax.Flags, flags.MAPPED],
) -> None:
    """Serve the page of a run on this machine and follow the run while it grows.

    Examples:
        textassay view runs/first
        textassay view runs --port 8080
    """
    from textassay.report.server import Viewer

    def print_address(address: str) -> None:
        typer.echo(address)
        if not is_loopback(host):
            warn(
                "anyone who reaches this address can read the texts and scores; there is no"
                " password and no encryption"
            )
        say("serving this page until Ctrl-C")

    async def serving() -> None:
        viewer = Viewer(run, host=host, data=open_examples(run, human, group))
        # SIGTERM is the normal way to stop the server, so the status is 0 and not an interrupted
        # run's
        with suppress(asyncio.CancelledError):
            async with viewer.serving(port) as address:
                print_address(address)
                await asyncio.Event().wait()

    if hasattr(os, "nice"):
        os.nice(10)  # lower priority than the watched run
    with suppress(KeyboardInterrupt):
        run_async(serving())


@command("report", panel=Heading.FIRST)
def report(
    runs: Annotated[
        list[Path],
        syntax.argument(
            "RUN...",
            "Run folder; a second one is compared with it. Or the folder of a fitted evaluator.",
        ),
    ],
    *,
    out: Annotated[Path, syntax.option("FILE", "File to write.", "--out", "-o")],
    format_: Annotated[
        Literal["html", "latex", "csv", "markdown"] | None,
        syntax.option(
            "",
            "Format of a fitted evaluator's report (default: by the ending of FILE: .tex, .csv or"
            " .md, otherwise html).",
            "--format",
        ),
    ] = None,
    human: flags.HumanData = None,
    calibration: Annotated[
        Path | None, syntax.option("DIR", "Calibration whose curves and intervals are shown.")
    ] = None,
    aspect_map: flags.AspectPairs = None,
    title: Annotated[
        str | None, syntax.option("TEXT", "Heading; by default the runs' names.")
    ] = None,
    note: Annotated[str, syntax.option("TEXT", "Note for readers, shown below the heading.")] = "",
    group: Annotated[syntax.Flags, flags.MAPPED],
) -> None:
    """Write one HTML page that shows a run: scores, agreement with people, and evidence.

    For the folder of a fitted evaluator, write the report of `fit`, also as LaTeX, CSV or Markdown.

    Examples:
        textassay report runs/first --out report.html
        textassay report evaluators/first --out tables.tex
        textassay report runs/first runs/second --human ratings.jsonl --out report.html
    """
    from textassay.methods.fitted.evaluator import is_evaluator
    from textassay.report import write_report

    if is_evaluator(runs[0]):
        if len(runs) > 1 or human or calibration or aspect_map or group:
            raise ConfigurationError(
                "report of a fitted evaluator takes its folder, --out, --format, --title and --note"
            )
        _report_fit(runs[0], out, format_, title, note)
        return
    if format_ not in (None, "html"):
        raise ConfigurationError(
            f"a run is shown as html; --format {format_} is for the folder of a fitted evaluator"
        )
    examples = open_examples(runs[0], human, group)
    write_report(
        runs, out, human=examples, calibration=calibration, aspect_map=aspect_map or (),
        title=title, note=note,
    )  # fmt: skip
    say(f"wrote {out}")


def _report_fit(folder: Path, out: Path, format_: str | None, title: str | None, note: str) -> None:
    """Write the report of a fitted evaluator."""
    from textassay.fitting.report import Fit
    from textassay.report.page import fill_tables, portable
    from textassay.runtime.storage.files import storage_errors, write_text
    from textassay.table import to_csv, to_latex, to_markdown

    tables = list(map(portable, Fit.load(folder).tables()))
    by_ending = {"": "html", ".htm": "html", ".html": "html"}
    by_ending |= {".tex": "latex", ".csv": "csv", ".md": "markdown"}
    form = format_ or by_ending.get(out.suffix.lower())
    if not form:
        raise ConfigurationError(
            f"{out}: the report of fit is .html, .tex, .csv or .md; name it so, or give --format"
        )
    if form == "html":
        text = fill_tables(tables, title=title or folder.resolve().name, note=note)
    elif form == "csv":
        # one table after another, below their titles
        titles = (f"# {table.title}\n" if table.title else "" for table in tables)
        text = "\n".join(map(str.__add__, titles, map(to_csv, tables)))
    else:
        write = to_latex if form == "latex" else to_markdown
        text = "\n".join(map(write, tables))
    with storage_errors(f"{out} cannot be written"):
        write_text(out, text)
    say(f"wrote {out}")


def _show_jurors(scores: Path, human: Path | None, group: syntax.Flags, *, as_json: bool) -> None:
    """Print the gain of each juror in a jury without negative weights, and the jury's agreement."""
    from textassay.cli.rated import RatedInput
    from textassay.fitting.feature_table import rating_scales
    from textassay.fitting.importance import juries, jury_tables, labels_of_jurors, worths
    from textassay.fitting.learn import Fitter
    from textassay.fitting.read_table import read_table
    from textassay.methods.fitted.evaluator import read_files
    from textassay.runtime.data.material import OTHER_OUTPUT
    from textassay.runtime.data.ratings import LabelReader

    source = RatedInput(scores, human, group)
    files = read_files(
        (source.source(LabelReader(source.declared, any_word=True)),), level_features=False
    )
    rated_aspects = source.examples(LabelReader(any_word=True), needs_output=False).check().human
    labels = labels_of_jurors(source.declared, rated_aspects)
    examples = source.examples(LabelReader(labels, any_word=True), needs_output=False)
    rated = read_table(examples, scores=files)
    fitter = Fitter(rating_scales(rated, {}), seed=0, threads=1)
    pairs = {example.id for example in examples if example.meta.get(OTHER_OUTPUT) is not None}
    gains = worths(rated, fitter, costs=_juror_costs(scores, rated.all_aspects), pairs=pairs)
    together = juries(rated, fitter, pairs)
    document = {
        "rows": [row.as_dict() for row in gains], "juries": [row.as_dict() for row in together],
    }  # fmt: skip
    print_tables(
        jury_tables(gains, together, of_labels=bool(rated.label_sets)), document, as_json=as_json
    )


def _juror_costs(scores: Path, aspects: Sequence[str]) -> dict[str, float | None]:
    """Return each juror's cost in dollars per text, from a run's usage; empty for other files."""
    from textassay.fitting.importance import juror_of
    from textassay.runtime.storage.run_files import MANIFEST, latest_scores

    if not (scores / MANIFEST).is_file():
        return {}
    paid: dict[str, list[float | None]] = defaultdict(list)
    texts: dict[str, set[str]] = defaultdict(set)
    for score in latest_scores(scores):
        juror = juror_of(score.aspect, aspects)
        paid[juror].append(score.usage.cost)
        texts[juror].add(score.id)
    return {
        juror: None if None in costs else sum(filter(None, costs)) / len(texts[juror])
        for juror, costs in paid.items()
    }
