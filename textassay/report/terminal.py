"""Draws a run for a terminal, with the same numbers and the same evidence as its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from textassay.report.examples import Line, ShownScore, clip, order_rows, show_score
from textassay.report.overview import overview, scores
from textassay.report.rendering import figure, visible
from textassay.report.source import DataSource, JoinedPage, RunSource
from textassay.table import (
    Alert,
    Table,
    column,
    indent,
    plain_table,
    printable,
    table_of,
    to_terminal,
)


@dataclass(frozen=True, slots=True)
class _Listed:
    """One of the most interesting scores."""

    id: str = field(metadata=column("id"))
    aspect: str = field(metadata=column("aspect"))
    system: str = field(metadata=column("system"))
    judge: float | str = field(metadata=column("judge", "number"))
    people: float | None = field(metadata=column("people", "number", 2))
    apart: str | None = field(metadata=column("apart", "number"))


def run_parts(
    run: RunSource, data: DataSource, joined: JoinedPage, width: int
) -> Iterator[RenderableType]:
    """Yield the facts of the run, the scores by system, and the most interesting scores."""
    yield _facts(run, data)
    tables = [aspect.table() for aspect in scores([run], [data], [joined])]
    tables += [_first(run, data, joined)] if len(run.table) else []
    for table in tables:
        yield Group(Text(), to_terminal(table, width))


def example_parts(scores: Sequence[ShownScore]) -> RenderableType:
    """Return one text with the evidence of all its scores."""
    parts: list[RenderableType] = [_text(scores[0])]
    for score in scores:
        parts += [Text(), score_evidence(score)]
    return Group(*parts)


def _facts(run: RunSource, data: DataSource) -> RenderableType:
    summary = overview([run], [data])
    facts = summary.runs[0]
    table = plain_table("", "", left=2)
    for label, value in facts.facts + facts.more:
        table.add_row(Text(label, style="dim"), _safe(value))
    outcomes = ", ".join(f"{count:,} {name}" for name, count, _ in facts.outcomes)
    table.add_row(Text("Outcomes", style="dim"), outcomes or "no scores yet")
    for name, count in facts.errors:
        table.add_row("", _safe(f"{count:,} {name}", "yellow"))
    parts: list[RenderableType] = [_safe(run.name, "bold"), indent(table)]
    if summary.missing:
        parts.append(_safe(f"Texts and ratings are not available: {summary.missing}.", "yellow"))
    parts += [_safe(sentence, "yellow") for sentence in summary.left_out]
    return Group(*parts)


def _first(run: RunSource, data: DataSource, joined: JoinedPage) -> Table:
    order, rows = order_rows(joined)
    lines = []
    for row in rows[:10].tolist():
        item = show_score(run, data, joined, row)
        system = item.example.system if item.example else None
        apart = None if item.gap is None else f"{item.gap:+.2f} {item.unit}"
        value = Alert(item.score.outcome) if item.score.value is None else item.score.value
        id_, aspect, name = map(visible, (item.score.id, item.score.aspect, system or ""))
        lines.append(_Listed(id_, aspect, name, value, item.human, apart))
    return table_of(_Listed, lines, title=order.capitalize())


def _text(shown: ShownScore) -> RenderableType:
    heading = _safe(shown.score.id, "bold")
    if not shown.example:
        return heading
    if shown.example.system is not None:
        heading.append(f"  {printable(visible(shown.example.system))}", style="not bold dim")
    parts: list[RenderableType] = [heading]
    for name, text in (("source", shown.example.source), ("context", shown.example.context)):
        if text:
            parts += [Text(name, style="dim"), indent(_clip(text))]
    parts += [_safe(f"{image.label}: {image.name}", "dim") for image in shown.example.images]
    return Group(*parts, Text("output", style="dim"), indent(_clip(shown.example.output)))


def score_evidence(shown_score: ShownScore) -> RenderableType:
    """Return a score, how it was obtained, and its evidence."""
    score = shown_score.score
    scale = "" if score.scale is None else f" of {score.scale[0]:g} to {score.scale[1]:g}"
    if shown_score.labels:
        scale = printable(visible(f" of {', '.join(shown_score.labels)}"))
    heading = Text.assemble(
        (printable(visible(score.aspect)), "bold"), "  ", _value(shown_score), (scale, "dim")
    )
    if shown_score.human is not None:
        heading.append(
            f"  people {printable(visible(_format_value(shown_score, shown_score.human, 2)))}"
        )
    parts: list[RenderableType] = [heading, indent(Text(shown_score.obtained, style="dim"))]
    if score.error:
        parts.append(indent(_clip(f"{score.error.type}: {score.error.message}", "yellow")))
    if score.explanation:
        parts.append(indent(_clip(score.explanation, "italic")))
    for title, lines in shown_score.evidence:
        parts.append(indent(Text(title, style="dim")))
        parts.append(Padding(_lines(lines), (0, 0, 0, 4), expand=False))
    return Group(*parts)


def _lines(lines: Sequence[Line]) -> RenderableType:
    table = plain_table("", "", "", left=0)
    table.columns[1].justify = table.columns[2].justify = "left"
    for line in lines:
        thought = f"(thought before: {len(line.thought):,} characters)" if line.thought else ""
        text = " ".join(part for part in (line.text, line.note, thought) if part)
        table.add_row(_safe(line.figure), Text(_bar(line), style="cyan"), _clip(text))
    return table


def _bar(line: Line) -> str:
    """Return a bar of 16 characters; empty for a line without one."""
    if line.start is None or line.end is None:
        return ""
    # a contribution below 0 runs from the middle to the left
    width = 16
    left, right = sorted((round(line.start * width), round(line.end * width)))
    return (" " * left + "█" * (right - left)).ljust(width)


def _value(shown: ShownScore) -> Text:
    if shown.score.value is None:
        return Text(shown.score.outcome, style="yellow")
    return _safe(_format_value(shown, shown.score.value))


def _format_value(shown_score: ShownScore, value: float, digits: int = 3) -> str:
    """Return a label by its name, and any other value as a number."""
    if value.is_integer() and 0 <= value < len(shown_score.labels):
        return shown_score.labels[int(value)]
    return figure(value, digits)


def _safe(text: str, style: str = "") -> Text:
    # `visible` writes out characters that hide or reverse text, `printable` terminal controls
    return Text(printable(visible(text)), style)


def _clip(text: str, style: str = "") -> Text:
    return Text(printable(clip(text, 4000)), style)
