"""`textassay score` and `textassay resume`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from textassay.cli.exits import UNSCORED, Stopped, printable, say
from textassay.cli.progress import Style, shown
from textassay.evaluation.api import finish
from textassay.evaluation.run import Run
from textassay.evaluation.session import Session, open_session
from textassay.evaluation.spec import RunSpec, spec_of, split_settings
from textassay.runtime.errors import ConfigurationError, TextassayError
from textassay.runtime.run_folder import read_manifest
from textassay.runtime.settings import Settings

RUNTIME_FLAGS = ("concurrency", "rpm", "tpm", "max_cost", "price", "api_base", "api_key_env", "cache", "no_cache")
OPTION_FLAGS = ("n", "temperature", "seed")


@dataclass(frozen=True)
class Order:
    """One `score` or `resume`, read from the command line."""

    spec: RunSpec
    settings: Settings
    out: Path | None
    resume: bool = False
    dry: bool = False
    progress: Style = "auto"


def order_from(flags: dict[str, Any], chosen: dict[str, Any]) -> Order:
    """Make an order of `score` from its flags and its `--set` pairs.

    Raises:
        ConfigurationError: A flag that is needed is missing.
    """
    for name in ("data", "method"):
        if not flags.get(name):
            raise ConfigurationError(f"score needs {'DATA' if name == 'data' else '--method'}")
    if flags.get("out") is None and not flags.get("dry_run"):
        raise ConfigurationError("score needs --out RUN, a folder for the scores (or --dry-run)")
    runtime, options = split_settings(chosen)
    options |= {name: flags[name] for name in OPTION_FLAGS if flags.get(name) is not None}
    runtime |= {name: flags[name] for name in RUNTIME_FLAGS if flags.get(name) is not None}
    data = str(flags["data"])
    spec = RunSpec(
        method=flags["method"],
        task=flags.get("task"),
        aspects=flags.get("aspects"),
        models=flags.get("model") or {},
        options=options,
        tools=flags.get("tools") or (),
        data=data,
        fields=flags.get("fields") or {},
        limit=flags.get("limit"),
    )
    return Order(
        spec=spec,
        settings=Settings(**runtime),
        out=None if flags.get("out") is None else Path(flags["out"]),
        dry=bool(flags.get("dry_run")),
        progress=flags.get("progress") or "auto",
    )


def order_to_resume(folder: Path, flags: dict[str, Any]) -> Order:
    """Make an order that goes on with a run; flags that are given replace the run's settings.

    Raises:
        RunFolderError: There is no run in the folder.
        ConfigurationError: The run's data were not read from a file.
    """
    manifest = read_manifest(folder)
    spec = spec_of(manifest)
    if spec.data is None:
        raise ConfigurationError(
            f"{folder}: the run's data came from memory; resume it in Python with "
            "evaluate(examples, ..., out=..., resume=True)"
        )
    before = {**manifest["settings"], "max_cost": None}  # a spent budget must not stop the resumed run at once
    given = {name: flags[name] for name in RUNTIME_FLAGS if flags.get(name) is not None}
    if given.get("cache") is not None or given.get("no_cache"):
        before |= {"cache": None, "no_cache": False}
    settings = Settings(**{**before, **given})
    return Order(spec=spec, settings=settings, out=folder, resume=True, progress=flags.get("progress") or "auto")


async def carry_out(order: Order) -> int:
    """Run the order, print the result and return the exit status.

    Raises:
        ConfigurationError: Nothing was asked.
        Stopped: The run began and was stopped; its cause tells why.
    """
    async with open_session(
        order.spec.data, order.spec, settings=order.settings, out=order.out, resume=order.resume, dry=order.dry
    ) as session:
        if order.dry:
            return await _dry_run(session, order)
        try:
            async with shown(lambda: session.engine.progress, order.progress):
                run = await finish(session)
        except TextassayError as error:
            raise Stopped from error
        except asyncio.CancelledError:
            say(f"interrupted; go on with: textassay resume {order.out}", style="yellow")
            raise
    return print_result(run)


async def _dry_run(session: Session, order: Order) -> int:
    with suppress(asyncio.CancelledError):
        async with shown(lambda: session.engine.progress, order.progress):
            async for _ in session.engine.scores():
                pass
    asked = session.asked
    cost = "unknown (give --price IN,OUT)" if asked.cost is None else f"${asked.cost:.4f} at most"
    table = _plain_table("dry run: nothing was asked", "", "")
    for name, value in (
        ("examples", f"{session.engine.progress.done}"),
        ("calls", f"{asked.calls}"),
        ("answers in the cache", f"{asked.cached_calls}"),
        ("prompt tokens", f"{asked.prompt_tokens} (estimate)"),
        ("completion tokens", f"{asked.completion_tokens} (upper bound)"),
        ("cost", cost),
    ):
        table.add_row(name, value)
    Console(highlight=False).print(table)
    return 0


def print_result(run: Run) -> int:
    """Print means by aspect and what is unscored and why; return the exit status."""
    summary = run.summary()
    console = Console(highlight=False)
    table = _plain_table(str(run.folder), "aspect", "n", "mean")
    for name, aspect in summary["aspects"].items():
        mean = "-" if aspect["mean"] is None else f"{aspect['mean']:.4f}"
        table.add_row(Text(printable(name)), str(aspect["n"]), mean)
    console.print(table)
    usage = summary["usage"]
    cost = "unknown" if usage["cost"] is None else f"${usage['cost']:.4f}"
    console.print(
        f"{usage['calls']} calls, {usage['cached_calls']} from the cache, {usage['prompt_tokens']} + "
        f"{usage['completion_tokens']} tokens, cost {cost}"
    )
    unscored = {kind: count for kind, count in summary["outcomes"].items() if kind != "scored" and count}
    if not unscored:
        return 0
    reasons = ", ".join(f"{kind} x{count}" for kind, count in summary["errors"].items())
    counts = ", ".join(f"{count} {kind}" for kind, count in unscored.items())
    console.print(Text(printable(f"unscored: {counts} ({reasons})"), style="yellow"))
    if unscored.get("error"):
        console.print(f"ask again for errors with: textassay resume {run.folder}")
    return UNSCORED


def _plain_table(title: str, *columns: str) -> Table:
    table = Table(
        title=Text(printable(title)), title_justify="left", box=None, pad_edge=False, show_header=any(columns)
    )
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at == 0 else "right", overflow="fold")
    return table
