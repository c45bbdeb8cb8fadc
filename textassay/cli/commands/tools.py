"""`textassay tools list|score`: automatic metrics without a judge."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from textassay.cli import flags
from textassay.cli.app import SCORING, command, group
from textassay.cli.exits import run_async

group("tools", "Run automatic metrics (ROUGE, NLI, ...) without a judge.", panel=SCORING)

TOOLS_FLAGS = (
    flags.CONFIG | flags.PROGRESS | flags.READING | flags.RUNTIME.only("api_base", "api_key_env")
)


@command("list", group="tools")
def tools_list(*, as_json: flags.AsJson = False) -> None:
    """List the metrics: what each measures, its range, and what it needs.

    Examples:
        textassay tools list
    """
    from textassay.tools import describe_all

    if as_json:
        rows = [tool.model_dump(mode="json") for tool in describe_all()]
        typer.echo(json.dumps({"rows": rows}))
        return
    for tool in describe_all():
        scale = "unbounded" if tool.scale is None else f"{tool.scale[0]:g} to {tool.scale[1]:g}"
        better = "" if tool.higher_is_better else ", lower is better"
        state = "" if tool.installed or tool.extra is None else f"  [needs the extra {tool.extra}]"
        typer.echo(f"{tool.kind} ({scale}{better}){state}\n    {tool.description}")


@command("score", group="tools", asks_models=True)
def tools_score(
    data: flags.Data,
    *,
    tools: Annotated[
        list[str] | None, flags.option("A,B", "Metrics, such as rouge,nli:MODEL; may repeat.")
    ] = None,
    model: Annotated[
        str | None, flags.option("MODEL", "Model that lm_prob asks.", "--model", "-m")
    ] = None,
    out: flags.Out = None,
    as_json: flags.AsJson = False,
    given: Annotated[flags.Given, TOOLS_FLAGS],
) -> int:
    """Score every example of DATA with automatic metrics and write the scores to a run folder.

    Examples:
        textassay tools score data.jsonl --tools rouge,chrf -o runs/metrics
    """
    from textassay.cli.commands.score import build_command, execute

    typed = {"data": data, "tools": tools, "model": model, "out": out, **given}
    known = ("data", "tools", "model", "out", *TOOLS_FLAGS.flags, "fields")
    read, chosen = flags.with_config(typed, known)
    parsed = build_command({**read, "method": "tools"}, chosen)
    return run_async(execute(parsed, as_json=as_json))
