"""Single scores with their texts and evidence: which come first, and how they travel in the page.

The page has a light index, with a column for each thing that can be searched, sorted or filtered,
and blocks of examples with texts and evidence, compressed one by one, so that a browser unpacks
what is looked at. Equal runs give equal bytes.
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.meta.correlation import Floats
from textassay.report.evidence import Line, clipped, evidence_lines, grouped, obtained, visible
from textassay.report.source import OUTCOMES, DataSource, Joined, Rows, RunSource
from textassay.runtime.conversation import Part, browser_piece, left_out, readable_parts
from textassay.runtime.images import Image, for_page, size_of
from textassay.runtime.labels import labels_of
from textassay.runtime.messages import Example, Score
from textassay.runtime.storage.files import encode

MAX_ROWS = 200_000
"""Scores that a page holds; of more, the extremes and a random sample."""
MAX_TEXT = 20_000
"""Characters of one text that a page holds."""
_ALL_TEXTS = 48_000_000
"""Characters of all texts together; above, single texts are cut shorter."""
MAX_IMAGE = 2_000_000
"""Characters of one image as a data: URI that a page holds."""
_ALL_IMAGES = 24_000_000
"""Characters of all images together; the first that fit are shown."""
_BLOCK = 200
"""Examples in a block."""
_SNIPPET = 110
PRINTED = 12
"""Examples in the page itself, for readers without JavaScript and for print."""


@dataclass(frozen=True, slots=True)
class ShownScore:
    """One score with everything behind it.

    Attributes:
        score: The score.
        example: Its example; `None` if the data could not be found.
        given: What the output was made from.
        human: Rating beside it; `None` if unrated.
        gap: Judge minus people.
        unit: What the gap is counted in.
        other: Value in the second run.
        change: Second run minus first.
        flips: Whether that crosses the middle of the scale.
        obtained: How the value was obtained.
        evidence: Lines by heading.
        labels: Names of the labels that values are positions of; empty if they are none.
    """

    score: Score
    example: Example | None
    given: list[Part]
    human: float | None
    gap: float | None
    unit: str
    other: float | None
    change: float | None
    flips: bool
    obtained: str
    evidence: list[tuple[str, list[Line]]]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExamplesSection:
    """The section."""

    order: str
    """Why these come first."""
    shown: list[ShownScore]
    total: int
    packed: int
    """Number of scores in the page, of `total`."""


def examples(
    run: RunSource, data: DataSource, joined: Joined, *, packed: int, count: int = PRINTED
) -> ExamplesSection | None:
    """Return the scores that a reader should look at first, or `None` while there are none."""
    if not len(run.table):
        return None
    order, rows = first_rows(joined)
    shown = [show(run, data, joined, row) for row in rows[:count].tolist()]
    return ExamplesSection(order, shown, len(run.table), packed)


def first_rows(joined: Joined) -> tuple[str, Rows]:
    """Return what decides the order, and all rows in it; ties keep the order of the run.

    With a second run, flips and then the largest changes; with ratings, the largest disagreements;
    else the lowest shares of their scale cannot be told from the columns, so the lowest values.
    Within an order, rows that lack the number come last.
    """
    if (~np.isnan(joined.changes)).any():
        # a flip matters more than its size: it changes what a reader would decide
        size = _known(np.abs(joined.changes))
        return "flips first, then the largest changes", np.lexsort((-size, ~joined.flips))
    if joined.has_people:
        return "largest disagreements with people first", np.argsort(
            -_known(joined.sizes), kind="stable"
        )
    # without ratings or a second run, texts that could not be scored need a look most
    lowest = np.where(np.isnan(joined.values), -np.inf, joined.values)
    return "scores without a value, then the lowest", np.argsort(lowest, kind="stable")


def show(run: RunSource, data: DataSource, joined: Joined, row: int) -> ShownScore:
    """Return one score with its example and evidence."""
    score = run.table.score(row)
    scale = labels_of(run.manifest).get(score.aspect)
    example = data.examples.get(score.id)
    return ShownScore(
        score=score,
        example=example,
        given=[] if example is None else parts_of(example, MAX_TEXT),
        human=_number(joined.human, row),
        gap=_number(joined.gaps, row),
        unit=joined.units.get(score.aspect, "points"),
        other=_number(joined.other, row),
        change=_number(joined.changes, row),
        flips=bool(joined.flips[row]),
        obtained=obtained(score),
        evidence=grouped(evidence_lines(score)),
        labels=() if scale is None else scale.names,
    )


def _known(column: Floats) -> Floats:
    return np.where(np.isnan(column), -1.0, column)


def _number(column: Floats, row: int) -> float | None:
    return None if np.isnan(column[row]) else float(column[row])


@dataclass(frozen=True, slots=True)
class Packed:
    """What travels in the page."""

    index: str
    """The columns, as base64 of gzip; so is each block."""
    blocks: tuple[str, ...]
    shown: int
    total: int


def pack_rows(
    run: RunSource,
    data: DataSource,
    joined: Joined,
    second: RunSource | None,
    *,
    max_rows: int = MAX_ROWS,
) -> Packed:
    """Return the scores of a run, or `max_rows` of them, as compressed columns and blocks."""
    rows = selected(joined, len(run.table), max_rows)
    by_example = _by_example(run, data, rows)
    order = [row for _, rows_of in by_example for row in rows_of]
    places = {run.table.example[rows_of[0]]: at for at, (_, rows_of) in enumerate(by_example)}
    index = {
        "block": _BLOCK,
        "total": len(run.table),
        **head(run, data, joined, second),
        **example_columns(data, [example_id for example_id, _ in by_example]),
        **score_columns(run, joined, order, places=places),
    }
    found = [data.examples.get(example_id) for example_id, _ in by_example]
    limit, pictures = _limit(found), _pictures(found)
    return Packed(
        _compressed(index),
        tuple(_blocks(run, data, second, by_example, limit, pictures)),
        len(rows),
        len(run.table),
    )


def selected(joined: Joined, total: int, max_rows: int = MAX_ROWS) -> Rows:
    """Return the rows that a page holds.

    All, or the extremes and a random sample with a fixed seed.
    """
    if total <= max_rows:
        return np.arange(total)
    # extremes are what people look for, and a random rest keeps the distributions true
    share = max_rows // 2
    extremes = [_largest(joined.sizes, share), _largest(np.abs(joined.changes), share)]
    extremes += [_largest(-joined.values, share // 2), _largest(joined.values, share // 2)]
    kept = np.unique(np.concatenate([part[: share // 4] for part in extremes]))
    rest = np.setdiff1d(np.arange(total), kept)
    # a fixed seed, since equal runs must give equal bytes
    drawn = np.random.default_rng(0).choice(rest, max_rows - len(kept), replace=False)
    return np.sort(np.concatenate([kept, drawn]))


def head(
    run: RunSource, data: DataSource, joined: Joined, second: RunSource | None
) -> dict[str, Any]:
    """Return what the columns refer to: runs, aspects with their scales, outcomes."""
    table, labels = run.table, labels_of(run.manifest)
    return {
        "runs": [visible(one.name) for one in (run, second) if one is not None],
        "outcomes": OUTCOMES,
        "people": joined.has_people,
        "texts": bool(data.examples),
        "aspects": [
            {
                "name": visible(name),
                "scale": scale,
                "unit": joined.units.get(name),
                **({"labels": list(map(visible, labels[name].names))} if name in labels else {}),
            }
            for name, scale in zip(table.aspects, table.scales, strict=True)
        ],
    }


def example_columns(data: DataSource, ids: Sequence[str]) -> dict[str, Any]:
    """Return id, system and the beginning of the output of each example."""
    examples = [data.examples.get(example_id) for example_id in ids]
    systems = data.systems
    places = {system: at for at, system in enumerate(systems)}
    return {
        "systems": [visible(system) for system in systems],
        "ids": [visible(example_id) for example_id in ids],
        "system": [
            -1 if one is None or one.system is None else places[one.system] for one in examples
        ],
        "begins": ["" if one is None else _beginning(one.output) for one in examples],
    }


def score_columns(
    run: RunSource,
    joined: Joined,
    rows: Sequence[int],
    *,
    places: Mapping[int, int] | None = None,
    base: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return the numbers of each score.

    What is missing is null, and a column without numbers is left out.

    The page takes differences of points itself.
    """
    table = run.table
    at = np.array(rows, int) if base is None else np.arange(len(base))
    examples = [table.example[row] for row in rows]
    columns: dict[str, Any] = {
        "example": examples if places is None else [places[example] for example in examples],
        "aspect": [table.aspect[row] for row in rows],
        "outcome": [table.outcome[row] for row in rows],
        "value": rounded_numbers(joined.values[at]),
    }
    for name, column in (
        ("human", joined.human),
        ("gap", joined.gaps if "ranks" in joined.units.values() else None),
        ("other", joined.other),
        ("change", joined.changes),
    ):
        if column is not None and (~np.isnan(column[at])).any():
            columns[name] = rounded_numbers(column[at])
    if joined.flips[at].any():
        columns["flip"] = [int(flips) for flips in joined.flips[at]]
    if base is None and (~np.isnan(calibrated := table.calibrated[at])).any():
        columns["calibrated"] = [rounded_numbers(column) for column in calibrated.T]
    return columns


def detail(
    example: Example | None,
    scores: Sequence[Sequence[Score]],
    limit: int,
    texts: dict[str, int],
    pictures: frozenset[str] | None = None,
) -> dict[str, Any]:
    """Return what is shown of one example: its texts, ratings and the evidence of its scores."""
    shown: dict[str, Any] = {
        "scores": [
            {visible(score.aspect): _words(score, limit) for score in each} for each in scores
        ]
    }
    if example is None:
        return shown
    shown["output"] = clipped(example.output, limit)
    shown["given"] = [_part(part, example, limit, texts) for part in parts_of(example, limit)]
    if example.images:
        shown["images"] = [
            [image.label, _place(visible(_picture(image, pictures)), texts)]
            for image in example.images
        ]
    shown["references"] = [_place(clipped(text, limit), texts) for text in example.references]
    shown["human"] = {visible(name): value for name, value in example.human.items()}
    shown["raters"] = {visible(name): each for name, each in example.annotators.items()}
    return shown


def parts_of(example: Example, limit: int) -> list[Part]:
    """Return what an example's output was made from; a piece has at most `limit` characters."""
    return readable_parts(
        example.source, example.context, example.messages, example.passages, example.output,
        most=limit,
    )  # fmt: skip


def _part(part: Part, example: Example, limit: int, texts: dict[str, int]) -> dict[str, Any]:
    shown: dict[str, Any] = {"kind": part.kind}
    if part.text:
        shown["text"] = _place(clipped(part.text, limit), texts)
    if part.pieces:
        shown["pieces"] = [
            browser_piece(piece, _place(visible(piece.text), texts), visible)
            for piece in part.pieces
        ]
    if part.kind == "conversation" and left_out(example.source) is not None:
        shown["shortened"] = True
    return shown


def rounded_numbers(column: Floats) -> list[float | None]:
    """Return numbers to five significant digits, NaN as `None`."""
    return [None if math.isnan(value) else float(f"{value:.5g}") for value in column.tolist()]


def _words(score: Score, limit: int) -> list[Any]:
    """Return how a value was obtained, the judge's words, why one is missing, and evidence."""
    error = None if score.error is None else f"{score.error.type}: {score.error.message}"
    return [
        obtained(score),
        clipped(score.explanation or "", limit),
        clipped(error or "", limit),
        [_packed(line, limit) for line in evidence_lines(score)],
    ]


def _packed(line: Line, limit: int) -> list[Any]:
    """Return a line as a short list.

    A label's share in thousandths, whose figure the page writes.
    """
    text = clipped(line.text, limit)
    if line.kind == "label" and not (line.note or line.thought):
        return [line.kind, text, round(1000 * (line.end or 0.0))]
    ends = [None if end is None else round(end, 3) for end in (line.start, line.end)]
    packed = [line.kind, text, visible(line.figure), *ends, clipped(line.note, limit)]
    if line.thought:
        return [*packed, clipped(line.thought, limit)]
    return packed if line.note else packed[:-1]


def _by_example(run: RunSource, data: DataSource, rows: Rows) -> list[tuple[str, list[int]]]:
    """Return ids with their rows.

    Examples of one source stand together, so that a block holds it once.
    """
    table = run.table
    by_example: dict[int, list[int]] = {}
    for row in rows.tolist():
        by_example.setdefault(table.example[row], []).append(row)
    groups: dict[str, int] = {}

    def place(at: int) -> tuple[int, int]:
        example = data.examples.get(table.ids[at])
        group = None if example is None else example.group
        # the NUL keeps the key of an example without a group apart from names of groups
        return (groups.setdefault(group if group is not None else f"\0{at}", len(groups)), at)

    return [(table.ids[at], by_example[at]) for at in sorted(sorted(by_example), key=place)]


def _blocks(
    run: RunSource,
    data: DataSource,
    second: RunSource | None,
    by_example: Sequence[tuple[str, list[int]]],
    limit: int,
    pictures: frozenset[str],
) -> Iterator[str]:
    for begin in range(0, len(by_example), _BLOCK):
        texts: dict[str, int] = {}
        details = []
        for example_id, rows in by_example[begin : begin + _BLOCK]:
            scores = [list(run.table.scores(rows))]
            if second is not None:
                scores.append(list(second.table.scores(second.table.rows_of(example_id))))
            example = data.examples.get(example_id)
            details.append(detail(example, scores, limit, texts, pictures))
        yield _compressed({"texts": list(texts), "examples": details})


def _limit(examples: Sequence[Example | None]) -> int:
    """Return how long a text may be for all of them to fit."""
    lengths = [
        len(text)
        for example in examples
        if example is not None
        for text in (
            example.output,
            *(
                t
                for part in parts_of(example, MAX_TEXT)
                for t in (part.text, *(piece.text for piece in part.pieces))
            ),
        )
    ]
    limit = MAX_TEXT
    while limit > 200 and sum(min(length, limit) for length in lengths) > _ALL_TEXTS:
        limit //= 2
    return limit


def _pictures(examples: Sequence[Example | None]) -> frozenset[str]:
    """Return the keys of the first images that fit."""
    images = (image for example in examples if example is not None for image in example.images)
    room, kept = _ALL_IMAGES, set[str]()
    for key, image in {image.key: image for image in images}.items():
        if (size := size_of(image)) <= min(room, MAX_IMAGE):
            room -= size
            kept.add(key)
    return frozenset(kept)


def _picture(image: Image, pictures: frozenset[str] | None) -> str:
    return for_page(image, MAX_IMAGE if pictures is None or image.key in pictures else 0)


def _place(text: str, texts: dict[str, int]) -> int:
    return texts.setdefault(text, len(texts))


def _beginning(text: str) -> str:
    return visible(" ".join(text[: 2 * _SNIPPET].split())[:_SNIPPET])


def _largest(column: Floats, count: int) -> Rows:
    """Return the rows with the largest numbers, largest first, ties in order."""
    known = np.flatnonzero(~np.isnan(column))
    return known[np.argsort(-column[known], kind="stable")[:count]]


def _compressed(value: Any) -> str:
    # without `mtime=0` gzip writes the time, and equal runs would give different bytes
    return base64.b64encode(gzip.compress(encode(value), 9, mtime=0)).decode("ascii")
