"""What a score rests on, as lines that every display draws alike: a text, a figure and a bar.

Methods write evidence in forms of their own: probabilities of labels, sub-questions with answers,
scores of tools and criteria, contributions of a fitted evaluator, samples. Displays know only the
lines made here. Texts are as the judge or the data have them: each display escapes them in its own
way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from textassay.runtime.messages import Score

Kind = Literal["label", "question", "contribution", "part", "note"]
TITLES: dict[Kind, str] = {
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
    # the text of the piece says them
    | {"abstained", "dropped", "flipped"}
)
"""Fields that are drawn in some form; any other is put in words, or named beside its value."""
_WORDS = {
    "criterion": "criterion {}",
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
    "logprob_alone": "log-probability by itself {}",
}
"""What is said of fields that methods write, with their value."""
# a judged text can reverse what is shown after it (U+202E) or hide instructions: readers of a
# report must see what the judge saw
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, halves of surrogate pairs, and marks that reverse what stands after them."""


_LEVELS = 100
"""Deepest nesting of evidence that is shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """One piece of evidence.

    Attributes:
        kind: What it is; lines of a kind stand together.
        text: What it is about: a label, a question, a tool.
        figure: Its number, ready to be shown.
        start: Where its bar begins, as a share of the width; `None` without a bar.
        end: Where its bar ends.
        note: Anything else that it says.
        thought: What the judge thought before it answered, which is shown folded.
    """

    kind: Kind
    text: str
    figure: str = ""
    start: float | None = None
    end: float | None = None
    note: str = ""
    thought: str = ""


def evidence_lines(score: Score) -> list[Line]:
    """Return a score's evidence as lines, those of a kind together and otherwise in order."""
    evidence = [_cut(piece, _LEVELS) for piece in score.evidence]
    widest = max((abs(_number(piece.get("contribution")) or 0.0) for piece in evidence
                  if not _is_start(piece)), default=0.0)  # fmt: skip
    lines = [
        replace(_line(piece, widest), thought=str(piece.get("thought") or "")) for piece in evidence
    ]
    order = list(TITLES)
    # stable: lines of a kind keep the order in which the method wrote them
    return sorted(lines, key=lambda line: order.index(line.kind))


def grouped(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    """Return lines by their heading."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(TITLES[line.kind], []).append(line)
    return list(groups.items())


def obtained(score: Score) -> str:
    """Say in words how a value was obtained."""
    words = {
        "text": "read from the judge's answer",
        "sampled": "mean of samples",
        "logprob": "expected value of the label probabilities",
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
    text, note = str(piece.get("text", "")), _note(piece)
    # by the fields that a piece has rather than by method: methods of other packages are drawn too
    if (share := _number(piece.get("probability"))) is not None:
        return Line("label", text, f"{share:.3f}", 0.0, share, note)
    if (share := _number(piece.get("p_yes"))) is not None:
        return Line("question", text, f"{piece.get('answer', '')} {share:.2f}", 0.0, share, note)
    if (contribution := _number(piece.get("contribution"))) is not None:
        if _is_start(piece):
            return Line("contribution", text, f"{contribution:.3f}", note=note)
        value = _number(piece.get("value"))
        note = "; ".join(filter(None, [f"value {value:.3g}" if value is not None else "", note]))
        # bars start in the middle, so that sign and size are seen against the largest contribution
        half = 0.5 * contribution / widest if widest else 0.0
        return Line("contribution", text, f"{contribution:+.3f}", 0.5, 0.5 + half, note)
    if rated := _numbers(piece.get("ratings")):
        ratings = ", ".join(f"{value:g}" for value in rated)
        return Line("note", text, note="; ".join(filter(None, [f"ratings {ratings}", note])))
    if "value" in piece:
        return _part(piece, text, note)
    return Line("note", text, note=note)


def _part(piece: Mapping[str, Any], text: str, note: str) -> Line:
    value, scale = _number(piece["value"]), _numbers(piece.get("scale"))
    if value is None:
        return Line("part", text, str(piece.get("outcome", "no score")), note=note)
    if isinstance(answer := piece.get("answer"), str):
        return Line("part", text, answer, note=note)
    if len(scale) != 2 or not scale[0] < scale[1]:
        return Line("part", text, f"{value:.3g}", note=note)
    share = min(max((value - scale[0]) / (scale[1] - scale[0]), 0.0), 1.0)
    figure = f"{value:.3g} of {scale[0]:g} to {scale[1]:g}"
    return Line("part", text, figure, 0.0, share, note)


def _note(piece: Mapping[str, Any]) -> str:
    """Return what a piece says besides its text and its number."""
    notes = [_quotation(piece)] if piece.get("quote") or piece.get("found_in") else []
    if problem := piece.get("problem"):
        notes.append(str(problem))
    if definition := piece.get("definition"):
        notes.append(f"what is meant: {definition}")
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
    """Say what was quoted, and in which text, passage, turn or call it stands."""
    quoted, where = f"\u201c{piece.get('quote', '')}\u201d", piece.get("found_in")
    if where is None:
        return f"{quoted}, which stands in none of the texts"
    if where == "nowhere":  # what an agent looked for
        return f"{quoted}, which a search found nowhere"
    if where in ("output", "source", "context", "reference"):
        where = f"the {where}"
    if not piece.get("quote"):  # an agent's finding that something is missing
        return f"missing in {where}, which was read whole"
    span = piece.get("characters")
    place = f", characters {span[0]} to {span[1]}" if isinstance(span, list) and span[1:] else ""
    return f"{quoted} in {where}{place}"


def _cut(value: Any, levels: int) -> Any:
    """Return a value with what is nested more deeply left out: Python could not write it."""
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
    """Return whether a contribution is where a fitted evaluator starts from, not a feature's."""
    return piece.get("text") == "(start)"


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number else None
    except OverflowError:
        return None


# a run from somebody else may have anything under the names that methods use


def _numbers(value: Any) -> list[float]:
    """Return a list of numbers, empty if it is none."""
    numbers = [_number(one) for one in value] if isinstance(value, list) else []
    return [one for one in numbers if one is not None] if None not in numbers else []


def _tokens(value: Any) -> list[tuple[Any, float]]:
    """Return tokens with their log-probabilities, empty if it is no list of these."""
    pairs = [
        (one.get("token"), _number(one.get("logprob"))) if isinstance(one, Mapping) else ("", None)
        for one in (value if isinstance(value, list) else [])
    ]
    return [(token, logprob) for token, logprob in pairs if logprob is not None]


def visible(text: str) -> str:
    """Return text with control characters, direction overrides and lone surrogates written out.

    Line breaks and tabs stay. NUL becomes the picture of NUL, a direction override `[U+202E]`.
    """
    if text.isprintable() and text.isascii():  # most texts, and ten times as fast
        return text
    return _UNSEEN.sub(_written, text.replace("\r\n", "\n"))


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number with `digits` decimals, a minus sign that is one, and a dash for nothing."""
    return "–" if value is None else f"{value:z,.{digits}f}".replace("-", "−")


def clipped(text: str, limit: int) -> str:
    """Return a visible text of at most `limit` characters, and how many were left out."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])} [... {len(text) - limit:,} more characters]"


def _written(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"[U+{code:04X}]"
