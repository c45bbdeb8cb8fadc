"""`textassay annotate`.

Serves the page on which people rate, until everything is rated or Ctrl-C.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from rich.live import Live

from textassay.annotate.ratings import (
    Answers,
    CollectedRatings,
    agreement,
    read_sampled,
    self_agreement,
)
from textassay.annotate.server import AnnotationServer
from textassay.annotate.study import Study
from textassay.cli.console import messages, say
from textassay.display import to_terminal
from textassay.listening import is_loopback, link, origin
from textassay.methods.library import tasks
from textassay.runtime.data import Examples
from textassay.runtime.errors import ConfigurationError
from textassay.table import Column, Table

SHOWN_EVERY = 2.0


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
    next_from: Path | None
    seed: int
    fields: dict[str, str]
    new_links: bool


async def serve(annotation: Annotation) -> int:
    """Serve the study until it is done or interrupted; return 0.

    Raises:
        TextassayError: The data, the task or an earlier journal do not fit; nothing is served.
    """
    examples = await asyncio.to_thread(
        lambda: tuple(Examples(annotation.data, fields=annotation.fields))
    )
    study = Study(
        examples,
        tasks.load(annotation.task, annotation.aspects),
        # by default everybody rates everything: agreement among raters can then be measured on all
        # items
        per_item=annotation.per_item or annotation.raters,
        repeat_share=annotation.repeat,
        seed=annotation.seed,
        probabilities=read_sampled(annotation.next_from) if annotation.next_from else None,
    )
    async with CollectedRatings(study, journal_of(annotation.out)) as ratings:
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
    """Return scheme and host of a proxy's address.

    Raises:
        ConfigurationError: It is no web address, or has a path, which the page does not know.
    """
    if (known := origin(url)) is None:
        raise ConfigurationError(
            f"--public-url takes https://HOST or https://HOST:PORT, not {url!r}"
        )
    return known


def journal_of(out: Path) -> Path:
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
    """Return what others on the network can read; `None` if nothing crosses it as it is.

    Args:
        host: The address that is listened at.
        public: The address of a proxy in front.
    """
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
    console = messages()
    if not console.is_terminal:
        # without a terminal there is nothing to draw; serving goes on until the process is stopped
        await asyncio.Event().wait()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            table = agreement_table(ratings.snapshot())
            live.update(to_terminal(table, console.width), refresh=True)
            await asyncio.sleep(SHOWN_EVERY)


def agreement_table(ratings: Answers) -> Table:
    """Return items, agreement and self-agreement by aspect."""
    again = self_agreement(ratings)
    rows = [
        (aspect, one.items, one.ratings, one.alpha["ordinal"], again[aspect]["n"],
         again[aspect]["same"])
        for aspect, one in agreement(ratings).items()
    ]  # fmt: skip
    columns = (
        Column("aspect", "aspect"), Column("items", "items", "count"),
        Column("ratings", "ratings", "count"), Column("alpha", "alpha", "number", 2),
        Column("again", "again", "count"), Column("same", "same", "share"),
    )  # fmt: skip
    return Table(columns, rows)
