"""Reads the cell of the asked aspect out of a table with a row of titles."""

from __future__ import annotations

import re

from textassay.agents.reading.notation import blank_out
from textassay.agents.reading.scales import SCALE_NAME
from textassay.agents.reading.words import NOUN, NUMBER
from textassay.lazy import lazy_pattern

_RATED = lazy_pattern(
    r"(?i)(?:(?:an?|the|my|our|this|its|your|final|overall|total|assigned|resulting|numeric(?:al)?"
    rf"|revised|updated|new)\s)*(?:{NOUN}|points|awarded)(?:\s?[(\[][^()\[\]]{{0,30}}[)\]])?"
)
_VALUE = lazy_pattern(rf"(?i){NUMBER}(?:\s?/\s?\d+|\sout\sof\s\d+)?")


def with_own_cell(plain: str, own: re.Pattern[str], top: float) -> str:
    """Return the text with `→` before the cell that rates the aspect, and its table as spaces.

    A table with a column of the highest ratings has none where that is not `top`.
    """
    at = 0
    for block in re.split(r"(\n\s*\n)", plain):
        cell = _own_cell(block, own, top)
        if cell is not None:
            start, end = at + cell[0], at + cell[1]
            spans = [(at, start), (end, at + len(block))]
            blank = blank_out(plain, spans)
            return f"{blank[: start - 1]}→{blank[start:]}"
        at += len(block)
    return plain


def _own_cell(block: str, own: re.Pattern[str], top: float) -> tuple[int, int] | None:
    """Return the place of the cell that rates the aspect in a table, if the block is one."""
    lines = [line for line in re.finditer(r"[^\n]+", block) if line[0].strip(" \t|:+-")]
    if not lines:
        return None
    # | a | b |   a<tab>b   a;b   a,b   a  b
    signs = [sign for sign in ("|", "\t", ";", ",", "  ") if sign in lines[0][0].strip(" |")]
    if not signs:
        return None
    between = "[ ]{2,}" if signs[0] == "  " else rf"[ ]*{re.escape(signs[0])}[ ]*"
    rows = [_cells(line, between) for line in lines]
    titles, *body = ([block[start:end].strip() for start, end in row] for row in rows)
    if any(len(row) != len(titles) for row in body):
        return None
    if any(map(_VALUE.fullmatch, titles)):
        # names with their values: fluency;4
        names = [_RATED if not body else own, own]
        mine = [
            n
            for n, row in enumerate((titles, *body), start=-1)
            if any(name.fullmatch(row[0]) for name in names)
        ]
        found = (mine[0], 1) if len(titles) == 2 and len(mine) == 1 else None
    else:
        found = _place(titles, body, own, top)
    if found is None:
        return None
    row, column = found
    values = [
        n for n, (start, end) in enumerate(rows[row + 1]) if _VALUE.fullmatch(block[start:end])
    ]
    if column not in values and len(values) == 1:
        column = values[0]
    start, end = rows[row + 1][column]
    # a character before it is left for the sign
    is_rating = _VALUE.fullmatch(block[start:end]) and start > lines[row + 1].start()
    return (start, end) if is_rating else None


def _cells(line: re.Match[str], between: str) -> list[tuple[int, int]]:
    """Return where the cells of a line begin and end, without bars and spaces around them."""
    bar = r"\|?" if "|" in between else ""
    begin = len(re.match(rf"[ ]*{bar}[ ]*", line[0])[0])  # type: ignore[index]
    text = re.sub(rf"[ ]*{bar}[ ]*\Z", "", line[0])
    # style,"short, but dull",4
    bare = re.sub(r"\"[^\"]*\"", lambda match: "x" * len(match[0]), text)
    signs = [match.span() for match in re.compile(between).finditer(bare, begin)]
    starts = [begin, *(end for _, end in signs)]
    ends = [*(start for start, _ in signs), len(text)]
    at = line.start()
    return [(at + start, at + end) for start, end in zip(starts, ends, strict=True)]


def _place(
    titles: list[str], body: list[list[str]], own: re.Pattern[str], top: float
) -> tuple[int, int] | None:
    """Return row and column of the rating: below the name, or beside it below a title for it."""
    if not body:
        return None
    names = [n for n, title in enumerate(titles) if own.fullmatch(title)]
    mine = [n for n, row in enumerate(body) if any(map(own.fullmatch, row[:2]))]
    tops = [n for n, title in enumerate(titles) if SCALE_NAME.fullmatch(title.lower())]
    named = [n for row in mine for n, cell in enumerate(body[row]) if own.fullmatch(cell)]
    left_out = {*tops, *named}
    rated = [n for n, title in enumerate(titles) if _RATED.fullmatch(title) and n not in left_out]
    if tops and mine and body[mine[0]][tops[0]] != f"{top:g}":
        return None
    if len(names) == 1:
        labeled = [
            n
            for n, row in enumerate(body)
            if _RATED.fullmatch(row[0]) or re.match(r"(?i)(?:overall|total|whole)\b", row[0])
        ]
        rows = labeled if len(body) > 1 else [0]
        return (rows[0], names[0]) if len(rows) == 1 else None
    levels = [row[rated[0]] for row in body] if len(rated) == 1 and len(body) > 2 else []
    # | 1 | not fluent |   | 2 | fluent |   explain the scale
    if levels and sorted(levels) == [f"{n}" for n in range(1, len(body) + 1)]:
        return None
    if len(rated) == 1 and len(mine or body) == 1:
        return (mine[0] if mine else 0), rated[0]
    return None
