"""Draws small pictures as inline SVG: intervals, histograms, shares, curves and graphs.

Every picture is beside its numbers, so it is hidden from screen readers unless it has a title.
Colors and strokes are classes of the style sheet, which supports light, dark and print; no inline
styles, which a strict Content-Security-Policy would refuse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from textassay.table import Estimate

Span = tuple[float, float]
Point = tuple[float, float]


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element.

    `class_` is written `class`, other underscores become hyphens, `None` is left out.
    """
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    # escape does not change Markup: texts are escaped, nested elements not a second time
    inner = Markup("").join(escape(child) for child in children)
    return Markup(f"<{name}{attribute_text}>{inner}</{name}>")


def picture(
    width: float, height: float, *children: object, label: str | None = None, kind: str = "",
    stretch: bool = False,
) -> Markup:  # fmt: skip
    """Return an `<svg>`.

    Without a label it is decorative; with `stretch` it is as wide as its container.
    """
    labeled = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return tag(
        "svg", *children, viewBox=f"0 0 {width:g} {height:g}", width=width, height=height,
        class_=f"plot {kind}".strip(), preserveAspectRatio="none" if stretch else None, **labeled,
    )  # fmt: skip


def interval_plot(
    interval: Estimate,
    span: Span,
    *,
    mark: float | None = None,
    beside: float | None = None,
    kind: str = "judge",
    width: float = 130,
) -> Markup:
    """Draw a value with its interval on an axis."""
    height, middle = 18.0, 9.0

    def x(number: float) -> float:
        return _place(number, span, width)

    parts = [tag("line", x1=x(span[0]), x2=x(span[1]), y1=middle, y2=middle, class_="axis")]
    if mark is not None:
        parts.append(tag("line", x1=x(mark), x2=x(mark), y1=2, y2=16, class_="mark"))
    if interval.ends:
        low, high = map(x, interval.ends)
        parts.append(tag("line", x1=low, x2=high, y1=middle, y2=middle, class_=f"whisker {kind}"))
    if beside is not None:
        parts.append(_dot(x(beside), middle, "other"))
    if interval.value is not None:
        parts.append(_dot(x(interval.value), middle, kind))
    return picture(width, height, *parts)


def histogram(counts: Sequence[int]) -> Markup:
    """Draw counts of equal bins as bars."""
    width, height, most = 64.0, 18.0, max(counts, default=0) or 1
    step = width / max(len(counts), 1)
    bars = []
    for at, count in enumerate(counts):
        if count:
            # a bin that is not empty stays visible
            tall = max(1.0, (height - 1) * count / most)
            place = {"x": at * step + 0.5, "y": height - tall}
            bars.append(tag("rect", **place, width=step - 1, height=tall, class_="bar judge"))
    base = tag("line", x1=0, x2=width, y1=height - 0.5, y2=height - 0.5, class_="axis")
    return picture(width, height, *bars, base)


def shares(parts: Iterable[tuple[str, int]]) -> Markup:
    """Draw counts as one divided bar.

    Each part has a class and, beside the bar, its number in words.
    """
    filled = [(kind, count) for kind, count in parts if count]
    width, total, at, bars = 640.0, sum(count for _, count in filled) or 1, 0.0, []
    for kind, count in filled:
        wide = width * count / total
        bars.append(
            tag("rect", x=at, y=0, width=max(wide - 1, 0.5), height=10, class_=f"bar {kind}")
        )
        at += wide
    return picture(width, 10, *bars, kind="wide", stretch=True)


def bin_values(values: Iterable[float], span: Span, cells: int) -> list[float]:
    """Return the middle of each value's cell, with the span divided into equal cells."""
    width = (span[1] - span[0]) / (cells - 1) or 1.0
    return [span[0] + width * round((value - span[0]) / width) for value in values]


def curve(
    points: Sequence[Point],
    x_span: Span,
    y_span: Span,
    *,
    band: Sequence[tuple[float, float, float]] = (),
    dots: Sequence[Point] = (),
    label: str = "",
) -> Markup:
    """Draw a line in a frame whose x axis is the judge's and y axis people's."""
    size, left, top, bottom = 200.0, 34.0, 8.0, 32.0
    width, height = left + size + 10, top + size + bottom

    def at(x: float, y: float) -> Point:
        return left + _place(x, x_span, size, 0), top + size - _place(y, y_span, size, 0)

    corner, far = at(x_span[0], y_span[0]), at(x_span[1], y_span[1])
    parts = [
        tag("rect", x=corner[0], y=far[1], width=size, height=size, class_="frame"),
        *(tag("text", name, x=x, y=y, text_anchor=side, class_="small") for name, x, y, side in (
            (f"{x_span[0]:g}", left, top + size + 13, "start"),
            (f"{x_span[1]:g}", left + size, top + size + 13, "end"),
            ("judge", left + size / 2, top + size + 26, "middle"),
            (f"{y_span[0]:g}", left - 5, top + size, "end"),
            (f"{y_span[1]:g}", left - 5, top + 9, "end"),
        )),
        tag("text", "people", class_="small", text_anchor="middle",
            transform=f"translate({left - 22:g} {top + size / 2:g}) rotate(-90)"),
    ]  # fmt: skip
    # the diagonal of equal values exists only if the two axes overlap
    low, high = max(x_span[0], y_span[0]), min(x_span[1], y_span[1])
    if low < high:
        (x1, y1), (x2, y2) = at(low, low), at(high, high)
        parts.append(tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="equal"))
    if band:
        edge = [at(x, upper) for x, _, upper in band] + [
            at(x, lower) for x, lower, _ in reversed(band)
        ]
        parts.append(tag("polygon", points=_points(edge), class_="band"))
    # ratings and scores repeat: the area of a dot is the number of texts
    most = max(Counter(dots).values(), default=1)
    for dot, count in Counter(dots).items():
        cx, cy = at(*dot)
        radius = max(1.6, 7.0 * math.sqrt(count / most) if most > 1 else 0.0)
        parts.append(tag("circle", cx=cx, cy=cy, r=radius, class_="seen"))
    if points:
        line = _points([at(*point) for point in points])
        parts.append(tag("polyline", points=line, class_="line"))
    return picture(width, height, *parts, label=label, kind="curve")


def flow(
    columns: Sequence[Sequence[str]],
    edges: Iterable[tuple[str, str, bool]],
    *,
    names: dict[str, str],
    label: str,
) -> Markup:
    """Draw a graph from left to right."""
    row, gap, tall, letter = 46.0, 64.0, 30.0, 7.3
    widths = [
        max(len(names.get(name, name)) for name in column) * letter + 22 for column in columns
    ]
    most = max(len(column) for column in columns)
    boxes: dict[str, tuple[float, float, float]] = {}
    x = 2.0
    for column, wide in zip(columns, widths, strict=True):
        for at, name in enumerate(column):
            y = (most - len(column)) * row / 2 + at * row + (row - tall) / 2
            boxes[name] = (x, y, wide)
        x += wide + gap
    arrows = [_arrow(boxes[source], boxes[target], tall, each) for source, target, each in edges]
    ends, round_ = (columns[0][0], columns[-1][0]), tall / 2
    nodes = [
        part
        for name, (left, y, wide) in boxes.items()
        for part in (
            tag("rect", x=left, y=y, width=wide, height=tall, rx=round_ if name in ends else 4,
                class_="node"),
            tag("text", names.get(name, name), x=left + wide / 2, y=y + tall / 2 + 4,
                text_anchor="middle", class_="name"),
        )
    ]  # fmt: skip
    return picture(x - gap + 2, most * row, *arrows, *nodes, label=label, kind="flow")


def _arrow(
    source: tuple[float, float, float], target: tuple[float, float, float], tall: float, each: bool
) -> Markup:
    x1, y1 = source[0] + source[2], source[1] + tall / 2
    x2, y2 = target[0] - 6, target[1] + tall / 2
    bend = max((x2 - x1) / 2, 18)
    path = f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
    head = f"M{x2 - 4:g} {y2 - 4:g}L{x2 + 5:g} {y2:g}L{x2 - 4:g} {y2 + 4:g}Z"
    kind = "edge each" if each else "edge"
    return tag("g", tag("path", d=path, class_=kind), tag("path", d=head, class_="head"))


def _dot(x: float, y: float, kind: str) -> Markup:
    """Draw a dot for a judge, a square for a trivial measure, so that shape repeats the color."""
    if kind == "judge":
        return tag("circle", cx=x, cy=y, r=4, class_="dot judge")
    return tag("rect", x=x - 3, y=y - 3, width=6, height=6, class_=f"dot {kind}")


def _place(number: float, span: Span, width: float, margin: float = 6) -> float:
    """Return the position of a number on an axis, clipped to the picture."""
    share = (number - span[0]) / (span[1] - span[0]) if span[1] > span[0] else 0.5
    return margin + min(max(share, 0.0), 1.0) * (width - 2 * margin)


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.4g},{y:.4g}" for x, y in points)


def _short(value: object) -> object:
    return f"{value:.5g}" if isinstance(value, float) else value
