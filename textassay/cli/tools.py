"""`textassay tools list`: what assistant evaluators there are."""

from __future__ import annotations

import json

import typer

from textassay.tools import describe_all


def show_list(as_json: bool) -> None:
    """Print every kind of tool.

    What it measures, its range, what it needs and which extra installs it.
    """
    if as_json:
        rows = [tool.model_dump(mode="json") for tool in describe_all()]
        typer.echo(json.dumps({"rows": rows}))
        return
    for tool in describe_all():
        scale = "unbounded" if tool.scale is None else f"{tool.scale[0]:g} to {tool.scale[1]:g}"
        better = "" if tool.higher_is_better else ", lower is better"
        state = "" if tool.installed or tool.extra is None else f"  [needs the extra {tool.extra}]"
        typer.echo(f"{tool.kind} ({scale}{better}){state}\n    {tool.description}")
