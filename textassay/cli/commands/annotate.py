"""`textassay annotate`: people rate in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textassay.cli import arguments
from textassay.cli.app import LOOKING, command
from textassay.cli.console import messages, say
from textassay.cli.exits import run_async
from textassay.cli.flags import CONFIG_KEYS, JUDGING, MAPPED, UNIT, Data, Given, Group
from textassay.display import to_terminal
from textassay.listening import is_loopback, link, origin
from textassay.runtime.errors import ConfigurationError
from textassay.table import Column, Table

if TYPE_CHECKING:
    from textassay.annotate.ratings import Answers, CollectedRatings

SHOWN_EVERY = 2.0
"""Seconds between two looks at the ratings."""
LOGGED_EVERY = 10.0
"""Seconds between two lines about them where standard error is no terminal."""


GUIDELINES = Group(
    guidelines=Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Text or Markdown that raters read before they begin.",
            rich_help_panel="Judging",
        ),
    ]
)
"""What raters are told beside the task."""


@command(
    "annotate",
    panel=LOOKING,
    examples=(
        "textassay annotate data.jsonl --task summarization --aspects coherence -o ratings.jsonl",
        "textassay annotate data.jsonl --task dialogue --raters 3 --per-item 2 -o ratings.jsonl",
    ),
)
def annotate(
    data: Data,
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File of ratings to write, .jsonl.")
    ],
    given: Annotated[Given, JUDGING.only("task", "aspects") | MAPPED | UNIT | GUIDELINES],
    raters: Annotated[
        int, typer.Option(metavar="N", help="Raters; each gets a personal link.", min=1)
    ] = 1,
    per_item: Annotated[
        int | None, typer.Option(metavar="N", help="Raters per item (default: all of them).", min=1)
    ] = None,
    repeat: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of a rater's items to show twice.")
    ] = 0.07,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to serve at (default: this machine only).")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0 picks a free one.")] = 8765,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address of a proxy in front, for the links: https://HOST."
        ),
    ] = None,
    next_from: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rate only the examples in this file from label-plan."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the order of items.")] = 0,
    new_links: Annotated[
        bool, typer.Option("--new-links", help="Replace the links of raters who lost theirs.")
    ] = False,
) -> int:
    """Let people rate the examples in a browser, blind.

    Raters see no scores, no system names and no answers of other raters.

    The page reports an answer as saved once it is on disk. Stop with Ctrl-C; run the same command
    again to continue. Decide how many ratings to collect before you look at an estimate: one that
    is looked at after every batch misses more often than its interval says.
    """
    flags, _ = arguments.with_config(given, CONFIG_KEYS)
    annotation = Annotation(
        data=data,
        out=out,
        task=flags.get("task"),
        aspects=flags.get("aspects"),
        reading={**arguments.reading(flags), "unit": flags.get("unit")},
        raters=raters,
        per_item=per_item,
        repeat=repeat,
        host=host,
        port=port,
        public=None if public_url is None else public_address(public_url),
        next_from=next_from,
        guidelines=flags.get("guidelines"),
        seed=seed,
        new_links=new_links,
    )
    return run_async(_serve(annotation))


@dataclass(frozen=True, slots=True)
class Annotation:
    """What to serve, as the command line says it."""

    data: str
    out: Path
    task: str | None
    aspects: tuple[str, ...] | None
    raters: int
    per_item: int | None
    repeat: float
    host: str
    port: int
    public: str | None
    reading: Mapping[str, Any]
    next_from: Path | None
    guidelines: Path | None
    seed: int
    new_links: bool


async def _serve(annotation: Annotation) -> int:
    """Serve the study until it is done or interrupted; return 0."""
    from textassay.annotate.ratings import CollectedRatings, read_sampled
    from textassay.annotate.server import AnnotationServer
    from textassay.annotate.study import Guidelines, Study
    from textassay.methods.library import tasks
    from textassay.runtime.data import Examples

    task = tasks.load(annotation.task, annotation.aspects)
    labels = {one.name: scale for one in task.aspects if (scale := one.label_scale) is not None}
    examples = await asyncio.to_thread(
        lambda: tuple(Examples(annotation.data, labels=labels, **annotation.reading))
    )
    study = Study(
        examples,
        task,
        # by default everybody rates everything: agreement among raters can then be measured on all
        # items
        per_item=annotation.per_item or annotation.raters,
        repeat_share=annotation.repeat,
        seed=annotation.seed,
        probabilities=read_sampled(annotation.next_from) if annotation.next_from else None,
        guidelines=Guidelines.read(annotation.guidelines) if annotation.guidelines else None,
    )
    async with CollectedRatings(study, journal_path(annotation.out)) as ratings:
        server = AnnotationServer(
            ratings, annotation.out, host=annotation.host, public=annotation.public, warn=_warn
        )
        try:
            async with server.serving(annotation.port) as port:
                address = annotation.public or link(annotation.host, port)
                await _show_links(ratings, annotation, address)
                if warning := exposure(annotation.host, annotation.public):
                    _warn(warning)
                await _watch(ratings)
        # Ctrl-C, which is how a study usually ends
        except asyncio.CancelledError:
            say(f"{len(ratings.answers)} answers are in {annotation.out}")
            raise
    return 0


def _warn(message: str) -> None:
    say(f"warning: {message}")


def public_address(url: str) -> str:
    """Return scheme and host of a proxy's address."""
    if (known := origin(url)) is None:
        raise ConfigurationError(
            f"--public-url takes https://HOST or https://HOST:PORT, not {url!r}"
        )
    return known


def journal_path(out: Path) -> Path:
    """Return where the journal of a file of ratings is."""
    return out.with_name(f"{out.stem}.journal.jsonl")


async def _show_links(ratings: CollectedRatings, annotation: Annotation, address: str) -> None:
    """Print personal links: for new raters, and for all of them if new links are wanted.

    A link cannot be shown again: only a hash of its token is kept.
    """
    if annotation.new_links:
        for rater in ratings.raters.values():
            # the old link stops working, which is what a lost or forwarded link needs
            token = await ratings.new_token(rater)
            say(f"{rater.name}: {address}/rate/{token}")
    elif ratings.raters:
        say(f"{len(ratings.raters)} raters keep their links; --new-links makes new ones")
    while len(ratings.raters) < annotation.raters:
        rater, token = await ratings.add_rater()
        say(f"{rater.name}: {address}/rate/{token}")


def exposure(host: str, public: str | None) -> str | None:
    """Return what others on the network can read; `None` if nothing crosses it as it is."""
    is_encrypted = public is not None and public.startswith("https://")
    if is_loopback(host) and (is_encrypted or public is None):
        return None
    if is_encrypted:
        return (
            f"this server also listens at {host} without encryption; leave --host out if the TLS"
            " proxy runs on this machine"
        )
    return (
        "texts, links and answers are not encrypted on their way; whoever reads a link can rate"
        " with it. Put a TLS proxy in front, and name its address with --public-url"
    )


async def _watch(ratings: CollectedRatings) -> None:
    """Show how far it is until Ctrl-C."""
    from rich.live import Live

    console = messages()
    if not console.is_terminal:
        # a line in a log whenever there are more answers
        shown = len(ratings.answers)
        while True:
            await asyncio.sleep(LOGGED_EVERY)
            if len(ratings.answers) != shown:
                shown = len(ratings.answers)
                say(f"{shown} answers")
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            table = agreement_table(ratings.snapshot())
            live.update(to_terminal(table, console.width), refresh=True)
            await asyncio.sleep(SHOWN_EVERY)


def agreement_table(ratings: Answers) -> Table:
    """Return items, agreement and self-agreement by aspect."""
    from textassay.annotate.ratings import agreement, self_agreement

    again = self_agreement(ratings)
    questions = ratings.study.questions
    # labels without an order have no ordinal alpha, and ratings no nominal one that says much
    labels = {name for one in questions if one.labels for name in one.names}
    unordered = {one.aspect for one in questions if one.kind == "labels" and not one.ordered}
    rows = [
        (aspect, one.items, one.ratings,
         one.alpha["nominal"] if aspect in labels else None,
         None if aspect in unordered else one.alpha["ordinal"],
         again[aspect]["n"], again[aspect]["same"])
        for aspect, one in agreement(ratings).items()
    ]  # fmt: skip
    columns = (
        Column("aspect", "aspect"), Column("items", "items", "count"),
        Column("ratings", "ratings", "count"), Column("nominal", "alpha (nominal)", "number", 2),
        Column("alpha", "alpha (ordinal)", "number", 2),
        Column("again", "again", "count"), Column("same", "same", "share"),
    )  # fmt: skip
    return Table(columns, rows)
