"""Single scores with their texts and evidence: as lines for every display, and packed for the page.

Methods write evidence in forms of their own: probabilities of labels, sub-questions with answers,
scores of tools and criteria, contributions of a fitted evaluator, samples. Displays show only the
lines made here: a text, a figure and a bar. Texts are unescaped: each display escapes them in its
own way.

The page has a small index, with a column for each field that can be searched, sorted or filtered,
and blocks of examples with texts and evidence, compressed one by one, so that a browser
decompresses only the viewed blocks. Equal runs give equal bytes.
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np

from textassay.agreement.correlation import number_or_none
from textassay.arrays import Floats
from textassay.report.rendering import visible
from textassay.report.source import DataSource, JoinedPage, RowNumbers, RunSource
from textassay.runtime.conversation import Part, browser_piece, count_left_out, readable_parts
from textassay.runtime.data.digests import material_digests, text_digest
from textassay.runtime.images import Image, for_page, uri_length
from textassay.runtime.messages import Example, Score
from textassay.runtime.storage.files import encode
from textassay.runtime.storage.run_files import OUTCOMES

MAX_ROWS = 200_000
"""Most scores of a page; of more, the extremes and a random sample."""
MAX_TEXT = 20_000
"""Most characters of one text."""
MAX_IMAGE = 2_000_000
"""Most characters of one image as a data: URI."""
_BLOCK = 200
"""Examples in a block."""
SectionKind = Literal["label", "question", "contribution", "part", "note"]
TITLES: dict[SectionKind, str] = {
    "label": "Probability of each label",
    "question": "Sub-questions",
    "contribution": "What moved the score",
    "part": "Parts",
    "note": "Notes",
}
"""Heading of the lines of a kind, in the order in which they are shown."""
_SHOWN = frozenset(
    {"text", "value", "outcome", "scale", "id", "definition", "explanation", "problem", "mapped"}
    | {"contribution", "probability", "answer", "p_yes", "mass", "ratings", "logprob", "tokens"}
    | {"unlikeliest", "direction", "thought", "quote", "found_in", "characters"}
    # contained in the text of the piece
    | {"abstained", "dropped", "flipped"}
)
"""Fields with a form of their own; other fields are put in words, or shown by name and value."""
_WORDS = {
    "points": "{} points",
    "met": "met: {}",
    "tags": "tags: {}",
    "prerequisites not met": "prerequisites not met: {}",
    "reason": "because: {}",
    "votes": "votes: {}",
    "samples": "samples: {}",
    "unusable": "unusable: {}",
    "unreported": "{} is not among the likeliest tokens",
    "truncated_tokens": "{} tokens of the source did not fit",
    "sentence": "sentence: {}",
    "reference": "reference: {}",
    "logprob_alone": "log-probability without context {}",
}
"""Words for fields that methods write, with their value."""


@dataclass(frozen=True, slots=True)
class Line:
    """One piece of evidence."""

    kind: SectionKind
    """Lines of one kind are shown together."""
    text: str
    """Its subject: a label, a question, a tool."""
    figure: str = ""
    """Its number, formatted."""
    start: float | None = None
    """Left end of its bar, as a share of the width; `None` without a bar."""
    end: float | None = None
    """Right end of its bar."""
    note: str = ""
    """Further text."""
    thought: str = ""
    """The judge's thought before the answer, which is shown folded."""


def evidence_lines(score: Score) -> list[Line]:
    """Return a score's evidence as lines, grouped by kind and otherwise in order."""
    # more deeply nested evidence is cut
    evidence = [_cut(piece, 100) for piece in score.evidence]
    widest = max((abs(_as_number(piece.get("contribution")) or 0.0) for piece in evidence
                  if not _is_start(piece)), default=0.0)  # fmt: skip
    lines = [replace(_line(p, widest), thought=str(p.get("thought") or "")) for p in evidence]
    order = list(TITLES)
    # stable: lines of a kind keep the order in which the method wrote them
    return sorted(lines, key=lambda line: order.index(line.kind))


def group_lines(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    """Return lines by heading, with lines of one kind together."""
    return [
        (TITLES[kind], list(group)) for kind, group in groupby(lines, key=lambda line: line.kind)
    ]


def describe_how(score: Score) -> str:
    """Return in words how a value was obtained."""
    words = {
        "text": "read from the judge's answer",
        "sampled": "mean of samples",
        "logprob": "expected value of the label probabilities",
        "decision": "expected value of the probabilities that the model sent",
        "loglikelihood": "mean log-likelihood per token",
        "tool": "computed by a tool",
        "fused": "combined from the parts below" if score.evidence else "combined from parts",
    }[score.how]
    more = []
    if score.samples is not None:
        more.append(f"{score.samples} samples")
    if score.spread is not None:
        more.append(f"standard deviation {score.spread:.3g}")
    if score.mass is not None:
        more.append(f"{score.mass:.1%} of the probability on the labels")
    return "; ".join([words, *more])


def _line(piece: Mapping[str, Any], widest: float) -> Line:
    text, note = str(piece.get("text", "")), _note_of(piece)
    # by the fields of a piece rather than by method, so that methods of other packages are shown
    # too
    if (share := _as_number(piece.get("probability"))) is not None:
        return Line("label", text, f"{share:.3f}", 0.0, share, note)
    if (share := _as_number(piece.get("p_yes"))) is not None:
        return Line("question", text, f"{piece.get('answer', '')} {share:.2f}", 0.0, share, note)
    if (contribution := _as_number(piece.get("contribution"))) is not None:
        if _is_start(piece):
            return Line("contribution", text, f"{contribution:.3f}", note=note)
        value = _as_number(piece.get("value"))
        note = "; ".join(filter(None, [f"value {value:.3g}" if value is not None else "", note]))
        # bars start in the middle, so that they show sign and size relative to the largest
        # contribution
        half = 0.5 * contribution / widest if widest else 0.0
        return Line("contribution", text, f"{contribution:+.3f}", 0.5, 0.5 + half, note)
    if rated := _as_numbers(piece.get("ratings")):
        ratings = ", ".join(f"{value:g}" for value in rated)
        return Line("note", text, note="; ".join(filter(None, [f"ratings {ratings}", note])))
    if "value" in piece:
        return _of_part(piece, text, note)
    return Line("note", text, note=note)


def _of_part(piece: Mapping[str, Any], text: str, note: str) -> Line:
    value, scale = _as_number(piece["value"]), _as_numbers(piece.get("scale"))
    if value is None:
        return Line("part", text, str(piece.get("outcome", "no score")), note=note)
    if isinstance(answer := piece.get("answer"), str):
        return Line("part", text, answer, note=note)
    if len(scale) != 2 or not scale[0] < scale[1]:
        return Line("part", text, f"{value:.3g}", note=note)
    share = min(max((value - scale[0]) / (scale[1] - scale[0]), 0.0), 1.0)
    figure = f"{value:.3g} of {scale[0]:g} to {scale[1]:g}"
    return Line("part", text, figure, 0.0, share, note)


def _note_of(piece: Mapping[str, Any]) -> str:
    """Return the fields of a piece besides its text and its number, in words."""
    notes = [_quotation(piece)] if piece.get("quote") or piece.get("found_in") else []
    if problem := piece.get("problem"):
        notes.append(str(problem))
    if definition := piece.get("definition"):
        notes.append(f"definition: {definition}")
    if explanation := piece.get("explanation"):
        notes.append(f"the judge says: {explanation}")
    if tokens := _tokens(piece.get("unlikeliest")):
        alternatives = ", ".join(f"{token!r} {logprob:.1f}" for token, logprob in tokens)
        notes.append(f"least likely tokens {alternatives}")
    if piece.get("tokens") is not None:
        notes.append(f"{piece['tokens']} tokens")
    notes += [
        _WORDS.get(name, f"{name.replace('_', ' ')} {{}}").format(_plain(value))
        for name, value in piece.items()
        if name not in _SHOWN and value is not None
    ]
    return "; ".join(notes)


def _quotation(piece: Mapping[str, Any]) -> str:
    """Return a quotation with the text, passage, turn or call that contains it."""
    quoted, where = f"\u201c{piece.get('quote', '')}\u201d", piece.get("found_in")
    if where is None:
        return f"{quoted}, which is not in any of the texts"
    if where == "nowhere":  # text that an agent searched for
        return f"{quoted}, which a search found nowhere"
    if where in ("output", "source", "context", "reference"):
        where = f"the {where}"
    if not piece.get("quote"):  # an agent's finding that something is missing
        return f"missing in {where}, which was read whole"
    span = piece.get("characters")
    place = f", characters {span[0]} to {span[1]}" if isinstance(span, list) and span[1:] else ""
    return f"{quoted} in {where}{place}"


def _cut(value: Any, levels: int) -> Any:
    """Return a value without too deeply nested parts, which Python could not write."""
    if isinstance(value, Mapping):
        return {name: _cut(inner, levels - 1) for name, inner in value.items()} if levels else "..."
    if isinstance(value, list | tuple):
        return [_cut(inner, levels - 1) for inner in value] if levels else "..."
    return value


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    return str(value)


def _is_start(piece: Mapping[str, Any]) -> bool:
    """Return whether a contribution is the starting value of a fitted evaluator."""
    return piece.get("text") == "(start)"


def _as_number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number else None
    except OverflowError:
        return None


# a foreign run may have any value under the names that methods use


def _as_numbers(value: Any) -> list[float]:
    """Return a list of numbers; empty for any other value."""
    numbers = [_as_number(number) for number in value] if isinstance(value, list) else []
    return [number for number in numbers if number is not None] if None not in numbers else []


def _tokens(value: Any) -> list[tuple[Any, float]]:
    """Return tokens with their log-probabilities; empty for any other value."""
    pieces = value if isinstance(value, list) else []
    pairs = [
        (p.get("token"), _as_number(p.get("logprob"))) for p in pieces if isinstance(p, Mapping)
    ]
    return [(token, logprob) for token, logprob in pairs if logprob is not None]


def clip(text: str, limit: int) -> str:
    """Return a visible text of at most `limit` characters, and how many were left out."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])} [... {len(text) - limit:,} more characters]"


@dataclass(frozen=True, slots=True)
class ShownScore:
    """One score with its texts and evidence."""

    score: Score
    example: Example | None
    """`None` if the data could not be found."""
    given: list[Part]
    """The texts from which the output was made."""
    human: float | None
    """Human rating; `None` if unrated."""
    gap: float | None
    """Judge minus people."""
    unit: str
    """Unit of the gap."""
    other: float | None
    """Value in the second run."""
    other_example: Example | None
    """The second run's example under this id, if its text, source or passages differ."""
    other_given: list[Part]
    """The texts that it was made from, if they differ."""
    flips: bool
    """Whether the change crosses the middle of the scale."""
    obtained: str
    evidence: list[tuple[str, list[Line]]]
    """Lines by heading."""
    labels: tuple[str, ...] = ()
    """Names of the labels, if values are positions of labels, else empty."""


@dataclass(frozen=True, slots=True)
class ExamplesSection:
    """The section."""

    order: str
    """Reason for the order."""
    shown: list[ShownScore]
    total: int
    packed: int
    """Number of scores in the page, of `total`."""


def examples(
    run: RunSource, data: Sequence[DataSource], joined: JoinedPage, *, packed: int
) -> ExamplesSection | None:
    """Return the most interesting scores, or `None` without scores."""
    if not len(run.table):
        return None
    order, rows = order_rows(joined)
    # a dozen examples in the page itself, for printing and for readers without JavaScript
    scores = [show_score(run, data[0], joined, row, data[-1]) for row in rows[:12].tolist()]
    return ExamplesSection(order, scores, len(run.table), packed)


def order_rows(joined: JoinedPage) -> tuple[str, RowNumbers]:
    """Return the criterion of the order, and all rows in it; ties keep the order of the run.

    With a second run: flips, then the largest changes; with ratings: the largest disagreements;
    else the lowest values, since the columns do not have the scales. Rows without the number come
    last.
    """
    if (~np.isnan(joined.changes)).any():
        # a flip matters more than its size, since it changes the decision
        size = _known_values(np.abs(joined.changes))
        return "flips first, then the largest changes", np.lexsort((-size, ~joined.flips))
    if joined.has_people:
        return "largest disagreements with people first", np.argsort(
            -_known_values(joined.sizes), kind="stable"
        )
    # without ratings or a second run, unscored texts come first
    lowest = np.where(np.isnan(joined.values), -np.inf, joined.values)
    return "scores without a value, then the lowest", np.argsort(lowest, kind="stable")


def show_score(
    run: RunSource, data: DataSource, joined: JoinedPage, row: int, second: DataSource | None = None
) -> ShownScore:
    """Return one score with its example and evidence.

    `second` is the data of a second run, which may have judged another text.
    """
    score = run.table.score(row)
    scale = run.labels.get(score.aspect)
    example = data.examples.get(score.id)
    other = _other(example, second, score.id)
    given, other_given = (parts_of(one, MAX_TEXT) if one else [] for one in (example, other))
    return ShownScore(
        score=score,
        example=example,
        given=given,
        human=number_or_none(joined.human[row]),
        gap=number_or_none(joined.gaps[row]),
        unit=joined.units.get(score.aspect, "points"),
        other=number_or_none(joined.other[row]),
        other_example=other,
        other_given=[] if other_given == given else other_given,
        flips=bool(joined.flips[row]),
        obtained=describe_how(score),
        evidence=group_lines(evidence_lines(score)),
        labels=scale.names if scale else (),
    )


def _other(example: Example | None, second: DataSource | None, id_: str) -> Example | None:
    """Return the second run's example under an id, unless text, source and passages are equal."""
    other = second.examples.get(id_) if second else None
    if not other or other is example:
        return None
    is_equal = example and (
        text_digest(example) == text_digest(other)
        and material_digests(example) == material_digests(other)
    )
    return None if is_equal else other


def _known_values(column: Floats) -> Floats:
    return np.where(np.isnan(column), -1.0, column)


@dataclass(frozen=True, slots=True)
class PackedScores:
    """The scores and examples of the page."""

    index: str
    """The columns as base64 of gzip, like each block."""
    blocks: tuple[str, ...]
    shown: int
    total: int


def pack_rows(
    runs: Sequence[RunSource],
    both: Sequence[DataSource],
    joined: JoinedPage,
    *,
    max_rows: int = MAX_ROWS,
) -> PackedScores:
    """Return the scores of a run, or `max_rows` of them, as compressed columns and blocks.

    A second run, with its own data, is beside the first.
    """
    run, data, second = runs[0], both[0], runs[1] if len(runs) > 1 else None
    rows = select_rows(joined, len(run.table), max_rows)
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
    shown_examples = [data.examples.get(example_id) for example_id, _ in by_example]
    if both[-1] is not data:
        shown_examples += [both[-1].examples.get(example_id) for example_id, _ in by_example]
    limit, pictures = _limit(shown_examples), _pictures(shown_examples)
    return PackedScores(
        _compress(index),
        tuple(_blocks(run, both, second, by_example, limit, pictures)),
        len(rows),
        len(run.table),
    )


def select_rows(joined: JoinedPage, total: int, max_rows: int = MAX_ROWS) -> RowNumbers:
    """Return the rows of a page: all, or the extremes and a random sample with a fixed seed."""
    if total <= max_rows:
        return np.arange(total)
    # the extremes are the most interesting, and a random rest keeps the distributions
    share = max_rows // 2
    extremes = [_largest(joined.sizes, share), _largest(np.abs(joined.changes), share)]
    extremes += [_largest(-joined.values, share // 2), _largest(joined.values, share // 2)]
    interesting = np.unique(np.concatenate([part[: share // 4] for part in extremes]))
    rest = np.setdiff1d(np.arange(total), interesting)
    # a fixed seed, since equal runs must yield equal bytes
    sampled = np.random.default_rng(0).choice(rest, max_rows - len(interesting), replace=False)
    return np.sort(np.concatenate([interesting, sampled]))


def head(
    run: RunSource, data: DataSource, joined: JoinedPage, second: RunSource | None
) -> dict[str, Any]:
    """Return the names that columns refer to: runs, aspects with their scales, outcomes."""
    table, labels = run.table, run.labels
    return {
        "runs": [visible(source.name) for source in (run, second) if source],
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
    places: dict[str | None, int] = {system: at for at, system in enumerate(systems)}
    return {
        "systems": [visible(system) for system in systems],
        "ids": [visible(example_id) for example_id in ids],
        "system": [places.get(example.system, -1) if example else -1 for example in examples],
        "begins": [_beginning(example.output) if example else "" for example in examples],
    }


def score_columns(
    run: RunSource,
    joined: JoinedPage,
    rows: Sequence[int],
    *,
    places: Mapping[int, int] | None = None,
    is_part: bool = False,
) -> dict[str, Any]:
    """Return the numbers of each score; `joined` may have only these rows (`is_part`).

    Missing numbers are null, and a column without numbers is left out. The page computes
    differences of points.
    """
    table = run.table
    at = np.arange(len(rows)) if is_part else np.array(rows, int)
    examples = [table.example[row] for row in rows]
    columns: dict[str, Any] = {
        "example": examples if places is None else [places[example] for example in examples],
        "aspect": [table.aspect[row] for row in rows],
        "outcome": [table.outcome[row] for row in rows],
        "value": round_numbers(joined.values[at]),
    }
    for name, column in (
        ("human", joined.human),
        ("gap", joined.gaps if "ranks" in joined.units.values() else None),
        ("other", joined.other),
        ("change", joined.changes),
    ):
        if column is not None and (~np.isnan(column[at])).any():
            columns[name] = round_numbers(column[at])
    if joined.flips[at].any():
        columns["flip"] = [int(flips) for flips in joined.flips[at]]
    if not is_part and (~np.isnan(calibrated := table.calibrated[at])).any():
        columns["calibrated"] = [round_numbers(column) for column in calibrated.T]
    return columns


def detail(
    example: Example | None,
    scores: Sequence[Sequence[Score]],
    limit: int,
    texts: dict[str, int],
    pictures: frozenset[str] | None = None,
    *,
    other: Example | None = None,
) -> dict[str, Any]:
    """Return one example as the page shows it: its texts, ratings and the evidence of its scores.

    `other` is the second run's example under the same id, if it differs.
    """
    fields: dict[str, Any] = {
        "scores": [
            {visible(score.aspect): _words(score, limit) for score in each} for each in scores
        ]
    }
    if other:
        fields["other"] = clip(other.output, limit)
        parts = [_part(part, other, limit, texts) for part in parts_of(other, limit)]
        if not example or parts_of(example, limit) != parts_of(other, limit):
            fields["other_given"] = parts
    if not example:
        return fields
    fields["output"] = clip(example.output, limit)
    fields["given"] = [_part(part, example, limit, texts) for part in parts_of(example, limit)]
    if example.images:
        fields["images"] = [
            [image.label, _place(visible(_picture(image, pictures)), texts)]
            for image in example.images
        ]
    fields["references"] = [_place(clip(text, limit), texts) for text in example.references]
    fields["human"] = {visible(name): value for name, value in example.human.items()}
    fields["raters"] = {visible(name): each for name, each in example.annotators.items()}
    return fields


def parts_of(example: Example, limit: int) -> list[Part]:
    """Return the texts from which an example's output was made, at most `limit` characters each."""
    return readable_parts(
        example.source, example.context, example.messages, example.passages, example.output,
        most=limit,
    )  # fmt: skip


def _part(part: Part, example: Example, limit: int, texts: dict[str, int]) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": part.kind}
    if part.text:
        fields["text"] = _place(clip(part.text, limit), texts)
    if part.pieces:
        fields["pieces"] = [
            browser_piece(p, _place(visible(p.text), texts), visible) for p in part.pieces
        ]
    if part.kind == "conversation" and count_left_out(example.source) is not None:
        fields["shortened"] = True
    return fields


def round_numbers(column: Floats) -> list[float | None]:
    """Return numbers to five significant digits, NaN as `None`."""
    return [None if math.isnan(value) else float(f"{value:.5g}") for value in column.tolist()]


def _words(score: Score, limit: int) -> list[Any]:
    """Return how a value was obtained or why it is missing, the judge's words, and evidence."""
    error = f"{score.error.type}: {score.error.message}" if score.error else None
    return [
        describe_how(score),
        clip(score.explanation or "", limit),
        clip(error or "", limit),
        [_pack(line, limit) for line in evidence_lines(score)],
    ]


def _pack(line: Line, limit: int) -> list[Any]:
    """Return a line as a short list."""
    text = clip(line.text, limit)
    # the page shows shares in thousandths
    if line.kind == "label" and not (line.note or line.thought):
        return [line.kind, text, round(1000 * (line.end or 0.0))]
    ends = [None if end is None else round(end, 3) for end in (line.start, line.end)]
    packed = [line.kind, text, visible(line.figure), *ends, clip(line.note, limit)]
    if line.thought:
        return [*packed, clip(line.thought, limit)]
    return packed if line.note else packed[:-1]


def _by_example(run: RunSource, data: DataSource, rows: RowNumbers) -> list[tuple[str, list[int]]]:
    """Return ids with their rows, grouped by source, so that a block contains a source once."""
    table = run.table
    by_example: dict[int, list[int]] = {}
    for row in rows.tolist():
        by_example.setdefault(table.example[row], []).append(row)
    groups: dict[str, int] = {}

    def place(at: int) -> tuple[int, int]:
        example = data.examples.get(table.ids[at])
        group = data.sources[example.id] if example else None
        # the NUL distinguishes the key of an example without a group from names of groups
        return (groups.setdefault(group if group is not None else f"\0{at}", len(groups)), at)

    return [(table.ids[at], by_example[at]) for at in sorted(sorted(by_example), key=place)]


def _blocks(
    run: RunSource,
    data: Sequence[DataSource],
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
            if second:
                scores.append(list(second.table.scores(second.table.rows_of(example_id))))
            example = data[0].examples.get(example_id)
            other = _other(example, data[-1], example_id)
            details.append(detail(example, scores, limit, texts, pictures, other=other))
        yield _compress({"texts": list(texts), "examples": details})


def _limit(examples: Sequence[Example | None]) -> int:
    """Return the longest text length with which all texts fit."""
    lengths = [
        len(text)
        for example in examples
        if example
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
    # most characters of all texts on a page; if there are more, single texts are cut shorter
    while limit > 200 and sum(min(length, limit) for length in lengths) > 48_000_000:
        limit //= 2
    return limit


def _pictures(examples: Sequence[Example | None]) -> frozenset[str]:
    """Return the keys of the first images that fit."""
    images = (image for example in examples if example for image in example.images)
    # most characters of all images on a page; the first ones that fit are shown
    room, keys = 24_000_000, set[str]()
    for key, image in {image.key: image for image in images}.items():
        if (size := uri_length(image)) <= min(room, MAX_IMAGE):
            room -= size
            keys.add(key)
    return frozenset(keys)


def _picture(image: Image, pictures: frozenset[str] | None) -> str:
    return for_page(image, MAX_IMAGE if pictures is None or image.key in pictures else 0)


def _place(text: str, texts: dict[str, int]) -> int:
    return texts.setdefault(text, len(texts))


def _beginning(text: str, most: int = 110) -> str:
    return visible(" ".join(text[: 2 * most].split())[:most])


def _largest(column: Floats, count: int) -> RowNumbers:
    """Return the rows with the largest numbers, largest first, ties in order."""
    defined = np.flatnonzero(~np.isnan(column))
    return defined[np.argsort(-column[defined], kind="stable")[:count]]


def _compress(value: Any) -> str:
    # without `mtime=0` gzip writes the time, so equal runs would yield different bytes
    return base64.b64encode(gzip.compress(encode(value), 9, mtime=0)).decode("ascii")
