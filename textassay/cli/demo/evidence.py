"""One example's evidence: what the score of each method rests on, a line for each piece."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from textassay.cli.console import indented, plain_table
from textassay.demo.results import ShownExample
from textassay.display import printable
from textassay.runtime.messages import Score


def evidence(shown: ShownExample) -> RenderableType:
    """Return the text that was judged, and below it what each method says of it and why."""
    parts: list[RenderableType] = [
        indented(Text(printable(shown.example.output), style="italic")),
        Text(),
    ]
    for name, score in shown.scores.items():
        parts += [_heading(name, score), indented(_pieces(score)), Text()]
    return Group(*parts)


def _heading(name: str, score: Score) -> Text:
    value = "no score" if score.value is None else f"{score.value:.2f}"
    scale = "" if score.scale is None else f" ({score.scale[0]:g} to {score.scale[1]:g})"
    return Text.assemble((f"{name}, {printable(score.aspect)}: {value}", "bold"), scale)


def _pieces(score: Score) -> RenderableType:
    table = plain_table("", "", left=0)
    table.columns[1].justify = "left"
    for piece in score.evidence:
        table.add_row(_figure(piece), Text(printable(f"{piece['text']}{_span(piece)}")))
    return table


def _span(piece: dict[str, Any]) -> str:
    scale = piece.get("scale")
    return "" if scale is None else f" ({scale[0]:g} to {scale[1]:g})"


def _figure(piece: dict[str, Any]) -> str:
    """Return a piece's number: P(yes) of a sub-question, or the value of a sub-aspect or a tool."""
    if "p_yes" in piece:
        return f"{piece['answer']}, P(yes) {piece['p_yes']:.2f}"
    value = piece.get("value")
    return "-" if value is None else f"{value:.2f}"
