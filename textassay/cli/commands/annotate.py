"""`textassay annotate|ratings ...|import`: people rate, here or in other tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textassay.cli import flags, syntax
from textassay.cli.app import Heading, command, group
from textassay.cli.console import check_lines, messages, print_tables, say, warn, write_rows
from textassay.cli.exits import run_async, with_flags
from textassay.listening import is_loopback, link, origin
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import label_scales
from textassay.table import Column, Table, to_terminal, with_noun

if TYPE_CHECKING:
    from textassay.annotate.ratings import Answers, CollectedRatings
    from textassay.runtime.labels import LabelScale


@command("annotate", panel=Heading.FIRST)
def annotate(
    data: flags.Data,
    *,
    out: Annotated[Path, syntax.option("FILE", "File of ratings to write, .jsonl.", "--out", "-o")],
    group: Annotated[
        syntax.Flags, flags.pick("task", "aspects") | flags.MAPPED | flags.pick("unit")
    ],
    guidelines: Annotated[
        Path | None,
        syntax.option(
            "FILE", "Text or Markdown that raters read before they begin.", panel="Judging"
        ),
    ] = None,
    raters: Annotated[int, syntax.option("N", "Raters; each gets a personal link.", min=1)] = 1,
    per_item: Annotated[
        int | None, syntax.option("N", "Raters per item (default: all of them).", min=1)
    ] = None,
    repeat: Annotated[
        float, syntax.option("SHARE", "Share of a rater's items to show twice.")
    ] = 0.07,
    host: Annotated[
        str, syntax.option("HOST", "Address to serve at (default: this machine only).")
    ] = "127.0.0.1",
    port: Annotated[int, syntax.option("N", "Port; 0 picks a free one.")] = 8765,
    public_url: Annotated[
        str | None,
        syntax.option("URL", "Address of a proxy in front, for the links: https://HOST."),
    ] = None,
    next_from: Annotated[
        Path | None, syntax.option("FILE", "Rate only the examples in this file from label-plan.")
    ] = None,
    seed: Annotated[int, syntax.option("N", "Random seed of the order of items.")] = 0,
    new_links: Annotated[
        bool, syntax.switch("--new-links", "Replace the links of raters who lost theirs.")
    ] = False,
) -> int:
    """Let people rate the examples in a browser, blind.

    Raters see no scores, no system names and no answers of other raters.

    The page reports an answer as saved once it is on disk. Stop with Ctrl-C; run the same command
    again to continue. Decide how many ratings to collect before you look at an estimate: if you
    check it after every batch, its interval is too narrow.

    Examples:
        textassay annotate data.jsonl --task summarization --aspects coherence -o ratings.jsonl
        textassay annotate data.jsonl --task dialogue --raters 3 --per-item 2 -o ratings.jsonl
    """
    from textassay.annotate.ratings import CollectedRatings, read_sampled
    from textassay.annotate.server import AnnotationServer
    from textassay.annotate.study import Guidelines, Study
    from textassay.methods.library import tasks
    from textassay.runtime.data import Examples

    values, _ = flags.with_config(group)
    check_lines(out)
    public = None if public_url is None else public_address(public_url)
    task = tasks.load(values.get("task"), values.get("aspects"))
    reading = {**flags.data_options(values), "unit": values.get("unit")}
    study = Study(
        tuple(Examples(data, labels=label_scales(task.aspects), **reading)),
        task,
        # by default all raters rate all items, so that agreement among raters is measured on all
        per_item=per_item or raters,
        repeat_share=repeat,
        seed=seed,
        probabilities=read_sampled(next_from) if next_from else None,
        guidelines=Guidelines.read(guidelines) if guidelines else None,
    )

    async def serve() -> int:
        async with CollectedRatings(study, out.with_name(f"{out.stem}.journal.jsonl")) as ratings:
            server = AnnotationServer(ratings, out, host=host, public=public, warn=warn)
            try:
                async with server.serving(port) as bound:
                    address = public or link(host, bound)
                    await _show_links(ratings, raters, address, renew=new_links)
                    if warning := exposure(host, public):
                        warn(warning)
                    await _watch(ratings)
            # Ctrl-C, which is how a study usually ends
            except asyncio.CancelledError:
                say(f"{out} has {with_noun(len(ratings.answers), 'answer')}")
                raise
        return 0

    return run_async(serve())


def public_address(url: str) -> str:
    """Return scheme and host of a proxy's address."""
    if (address := origin(url)) is None:
        raise ConfigurationError(
            f"--public-url takes https://HOST or https://HOST:PORT, not {url!r}"
        )
    return address


async def _show_links(ratings: CollectedRatings, raters: int, address: str, *, renew: bool) -> None:
    """Print links for new raters, or new links for all, since only hashes of tokens are stored."""
    if renew:
        for rater in ratings.raters.values():
            # the old link stops working, as it should if it was lost or forwarded
            token = await ratings.new_token(rater)
            say(f"{rater.name}: {address}/rate/{token}")
    elif ratings.raters:
        say(f"links kept: {len(ratings.raters)}; --new-links makes new ones")
    while len(ratings.raters) < raters:
        rater, token = await ratings.add_rater()
        say(f"{rater.name}: {address}/rate/{token}")


def exposure(host: str, public: str | None) -> str | None:
    """Return a warning of what others on the network can read; `None` if there is no such risk."""
    is_encrypted = public is not None and public.startswith("https://")
    if is_loopback(host) and (is_encrypted or public is None):
        return None
    if is_encrypted:
        return (
            f"this server also listens at {host} without encryption; leave --host out if the TLS"
            " proxy runs on this machine"
        )
    return (
        "texts, links and answers are not encrypted on their way; anyone who reads a link can rate"
        " with it. Put a TLS proxy in front, and name its address with --public-url"
    )


async def _watch(ratings: CollectedRatings) -> None:
    """Show the progress until Ctrl-C."""
    from rich.live import Live

    console = messages()
    if not console.is_terminal:
        # in a log, one line whenever there are more answers
        count = len(ratings.answers)
        while True:
            await asyncio.sleep(10)
            if len(ratings.answers) != count:
                count = len(ratings.answers)
                say(with_noun(count, "answer"))
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            table = agreement_table(ratings.snapshot())
            live.update(to_terminal(table, console.width), refresh=True)
            await asyncio.sleep(2)


def agreement_table(ratings: Answers) -> Table:
    """Return items, agreement and self-agreement by aspect."""
    from textassay.annotate.ratings import agreement, self_agreement

    again = self_agreement(ratings)
    questions = ratings.study.questions
    # labels without an order have no ordinal alpha, and a nominal alpha of ratings says little
    labels = {name for question in questions if question.labels for name in question.names}
    unordered = {q.aspect for q in questions if q.kind == "labels" and not q.ordered}
    rows = [
        (aspect, row.items, row.ratings,
         row.alpha["nominal"] if aspect in labels else None,
         None if aspect in unordered else row.alpha["ordinal"],
         again[aspect]["n"], again[aspect]["same"])
        for aspect, row in agreement(ratings).items()
    ]  # fmt: skip
    columns = (
        Column("aspect", "aspect"), Column("items", "items", "count"),
        Column("ratings", "ratings", "count"), Column("nominal", "alpha (nominal)", "number", 2),
        Column("alpha", "alpha (ordinal)", "number", 2),
        Column("again", "again", "count"), Column("same", "same", "share"),
    )  # fmt: skip
    return Table(columns, rows)


group("ratings", "Exchange ratings with other annotation tools.", panel=Heading.LOOKING)


@command("import", group="ratings")
def import_ratings(
    form: Annotated[str, syntax.argument("FORMAT", "csv or label-studio.")],
    file: Annotated[Path, syntax.argument("FILE", "Export file of the other tool.")],
    *,
    out: Annotated[Path, syntax.option("FILE", "File to write, .jsonl.", "--out", "-o")],
    data: Annotated[
        str | None, syntax.option("DATA", "Examples whose texts to add to the rows.", "--data")
    ] = None,
    group: Annotated[syntax.Flags, flags.pick("task") | flags.MAPPED],
) -> None:
    """Read ratings that people gave in another tool, with one entry per rater.

    With --task, ratings that are not labels of the aspect are refused.

    Examples:
        textassay ratings import label-studio export.json --data data.jsonl -o ratings.jsonl
    """
    from textassay.annotate import interchange
    from textassay.runtime.data import Examples

    values, _ = flags.with_config(group)
    labels = _labels(values)
    rows, notes = interchange.read(form, file, labels)
    for note in notes:
        say(with_flags(note), style="yellow")
    if data is not None:
        examples = Examples(data, labels=labels, **flags.data_options(values))
        rows = interchange.with_examples(rows, examples)
    write_rows(out, rows)
    aspects = ", ".join(dict.fromkeys(name for row in rows for name in row["annotators"]))
    raters, verb = with_noun(len(rows[0]["raters"]), "rater"), "is" if len(rows) == 1 else "are"
    say(f"{with_noun(len(rows), 'example')} rated on {aspects} by {raters} {verb} in {out}")


@command("agreement", group="ratings")
def agreement(
    data: flags.Data,
    *,
    as_json: syntax.AsJson = False,
    group: Annotated[syntax.Flags, flags.pick("task") | flags.MAPPED],
) -> None:
    """Measure how well raters agree with each other, by aspect; no scores are needed.

    Examples:
        textassay ratings agreement ratings.jsonl
    """
    from textassay.agreement.table import between_raters

    values, _ = flags.with_config(group)
    labels = _labels(values)
    by_aspect, table = between_raters(data, labels=labels, **flags.data_options(values))
    rows = [{"human": name, **row.as_dict()} for name, row in by_aspect.items()]
    print_tables([table], {"rows": rows}, as_json=as_json)


@command("export", group="ratings")
def export_tasks(
    form: Annotated[str, syntax.argument("FORMAT", "label-studio or csv.")],
    data: flags.Data,
    *,
    out: Annotated[Path, syntax.option("DIR", "Folder to write to.", "--out", "-o")],
    group: Annotated[syntax.Flags, flags.pick("task", "aspects") | flags.MAPPED],
) -> None:
    """Write examples as tasks for another annotation tool, without systems and scores.

    Examples:
        textassay ratings export label-studio data.jsonl --task summarization -o tasks/
    """
    from textassay.annotate import interchange
    from textassay.methods.library import tasks
    from textassay.runtime.data import Examples
    from textassay.runtime.storage.files import storage_errors

    values, _ = flags.with_config(group)
    task = tasks.load(values.get("task"), values.get("aspects"))
    examples = Examples(data, labels=label_scales(task.aspects), **flags.data_options(values))
    with storage_errors(f"{out} cannot be written"):
        files = interchange.write(form, examples, task, out)
    for path in files:
        say(f"wrote {path}")


def _labels(values: Mapping[str, Any]) -> dict[str, LabelScale]:
    """Return the labels of the named task, if any."""
    from textassay.methods.library import tasks

    return label_scales(tasks.load(values["task"]).aspects) if "task" in values else {}


@command("import", panel=Heading.LOOKING)
def import_results(
    form: Annotated[
        str, syntax.argument("FORMAT", "inspect, promptfoo, deepeval, lm-eval or pydantic-evals.")
    ],
    file: Annotated[Path, syntax.argument("FILE", "Result file of the other tool.")],
    *,
    out: Annotated[
        Path, syntax.option("FILE", "File of examples to write, .jsonl.", "--out", "-o")
    ],
) -> None:
    """Convert another tool's result file into examples with scores, to judge, compare or rate.

    Examples:
        textassay import inspect logs/2026-11-01_security.eval --out data.jsonl
        textassay import lm-eval samples_xsum_2026-11-01.jsonl --out data.jsonl
    """
    from textassay.runtime.data.dataset import Examples
    from textassay.runtime.data.other_tools import read_results

    imported = read_results(form, file)
    # checked now, so that errors name this file and not a later copy
    Examples(imported.rows).check()
    write_rows(out, imported.rows)
    names = dict.fromkeys(name for row in imported.rows for name in row.get("metrics", ()))
    examples = with_noun(len(imported.rows), "example")
    say(f"wrote {examples} to {out}; metrics: {', '.join(names) or 'none'}")
    columns = dict.fromkeys(name for row in imported.rows for name in row.get("meta", ()))
    if columns:
        say(f"kept in meta, which no judge sees: {', '.join(columns)}")
    if imported.empty:
        verb = "was" if imported.empty == 1 else "were"
        results = with_noun(imported.empty, "result")
        say(f"{results} without an answer {verb} left out", style="yellow")
