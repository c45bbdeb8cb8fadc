"""A judge that answers by records, for `fit --method rubric` on real texts without a model.

It rates the aspects as one recorded model did. Asked for criteria, it proposes from a pool, those
first whose ratings go with the ratings of the texts that the prompt shows: it knows nothing of
other texts' ratings. Pool: the same model's ratings under other prompts, properties that are
computed from the text, and noise. What it is asked about is read from the prompt alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Row = Mapping[str, Any]
Rate = Callable[[Row], float | None]

NOISE = ("Rhythm", "Politeness", "Optimism", "Formality", "Suspense", "Warmth")
PLANTED = "Mentions a date"

_OUTPUT = re.compile(r"<output-\w+>\n(.*?)\n</output-", re.DOTALL)
_SOURCE = re.compile(r"<source-\w+>\n(.*?)\n</source-", re.DOTALL)
_ASPECT = re.compile(r"People rated texts on one aspect: (.+?), ")
_PAIR = re.compile(r"(?m)^Text \d+, rated (\S+)$")
_KNOWN = re.compile(r"(?m)^- (.+?): ")
_COUNT = re.compile(r"numbered list of at most (\d+) lines")
_METRIC = re.compile(r"on the following metric:\s+(.+?): ")
_DATE = re.compile(
    r"\b(?:january|february|march|april|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Criterion:
    """One criterion of the pool."""

    name: str
    definition: str
    kind: str
    """`judge`, `text` or `noise`."""
    rate: Rate
    """Its rating of a row, from 1 to 5; `None` if there is no record."""


class RecordedJudge:
    """Answers requests of `fit --method rubric` and `score` for some rows.

    Args:
        rows: Rows with `output`, `source`, `id`.
        own: The recorded model's rating of each aspect.
        pool: What may be proposed.
    """

    def __init__(self, rows: Sequence[Row], own: Mapping[str, Rate], pool: Sequence[Criterion]):
        self._rows = {(row["output"].strip(), _key(row["source"] or "")): row for row in rows}
        self.own, self.pool = dict(own), {one.name: one for one in pool}

    def __call__(self, body: Mapping[str, Any], draw: int) -> str:
        """Return the answer to one request, as the mock server's `reply`."""
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        if "Propose criteria" in prompt:
            return self._propose(prompt)
        [name] = _METRIC.findall(prompt)[:1]
        rate = self.own[name] if name in self.own else self.pool[name].rate
        value = rate(self._shown(prompt)[-1])
        return "There is no record." if value is None else f"{value:g}"

    def _shown(self, prompt: str) -> list[Row]:
        """Return the rows that a prompt shows, in order.

        Raises:
            KeyError: A text is of none of the rows.
        """
        sources = map(_key, _SOURCE.findall(prompt))
        return [
            self._rows[text.strip(), source]
            for text, source in zip(_OUTPUT.findall(prompt), sources, strict=True)
        ]

    def _propose(self, prompt: str) -> str:
        [wanted] = map(int, _COUNT.findall(prompt))
        tried = set(_KNOWN.findall(prompt.rpartition("These criteria were tried before")[2]))
        # within the delimiters a text may hold anything; the ratings stand outside
        outside = re.sub(r"<(output|source|context)-\w+>.*?</\1-\w+>", "", prompt, flags=re.DOTALL)
        ratings = [float(rating) for rating in _PAIR.findall(outside)]
        rows = self._shown(prompt)
        left = [one for one in self.pool.values() if one.name not in tried]
        ranked = sorted(left, key=lambda one: -_agreement([one.rate(row) for row in rows], ratings))
        lines = [f"{one.name}: {one.definition}" for one in ranked[:wanted]]
        return "\n".join(f"{at}. {line}" for at, line in enumerate(lines, 1)) or "Nothing else."


def _key(source: str) -> str:
    """Return the beginning of a source; prompts shorten long ones, and then join their words."""
    return " ".join(source.split())[:80]


def aspect_of(prompt: str) -> str:
    """Return the aspect that a request for criteria is about."""
    [name] = _ASPECT.findall(prompt)[:1]
    return str(name)


def _agreement(values: Sequence[float | None], ratings: Sequence[float]) -> float:
    """Return the size of the correlation over the pairs that are there; 0 if nothing varies."""
    pairs = np.array([p for p in zip(values, ratings, strict=True) if p[0] is not None], float)
    if len(pairs) < 3 or (pairs.std(axis=0) == 0).any():
        return 0.0
    return float(abs(np.corrcoef(pairs.T)[0, 1]))


def noise() -> list[Criterion]:
    """Return criteria whose ratings are drawn at random, the same for a text each time."""

    def rate_as(name: str) -> Rate:
        return lambda row: 1.0 + hashlib.sha256(f"{name}|{row['id']}".encode()).digest()[0] % 5

    return [
        Criterion(name, f"how far the text has {name.lower()}.", "noise", rate_as(name))
        for name in NOISE
    ]


def of_texts() -> list[Criterion]:
    """Return criteria that are computed from the text and what it was made from."""
    return [
        Criterion(PLANTED, "whether a date, weekday, month or year is named.", "text",
                  lambda row: 5.0 if mentions_date(row) else 1.0),
        Criterion("Says nothing twice", "whether no run of three words comes again.", "text",
                  lambda row: _five(_distinct(row))),
        Criterion("Ends with a whole sentence", "whether the last sentence is complete.", "text",
                  lambda row: 5.0 if row["output"].strip()[-1:] in tuple(".!?'\"") else 1.0),
        Criterion("Short sentences", "whether sentences are easy to take in.", "text",
                  lambda row: _five(1.4 - _sentence_length(row) / 25)),
        Criterion("Takes over the beginning", "whether it is what the source begins with.", "text",
                  lambda row: _five(_overlap(row["output"], _beginning(row), 3))),
        Criterion("Keeps to the words of the source", "whether its wording is the source's.",
                  "text", lambda row: _five(_overlap(row["output"], row["source"] or "", 2))),
        Criterion("Numbers from the source", "whether its numbers occur in the source.", "text",
                  _numbers),
        Criterion("Length", "whether it is long enough to say something.", "text",
                  lambda row: _five(len(row["output"].split()) / 80)),
        Criterion("Quotes someone", "whether somebody's words are quoted.", "text",
                  lambda row: 5.0 if re.search(r"['\"`]{1,2}\s?\w[^'\"]{10,}['\"]", row["output"])
                  else 1.0),
        Criterion("Asks something", "whether it asks a question.", "text",
                  lambda row: 5.0 if "?" in row["output"] else 1.0),
        Criterion("Uses the given fact", "whether it takes words from the given fact.", "text",
                  lambda row: _five(3 * _overlap(row["output"], row.get("context") or "", 2))),
    ]  # fmt: skip


def mentions_date(row: Row) -> bool:
    """Return whether a text names a date."""
    return _DATE.search(row["output"]) is not None


def recorded(
    name: str, definition: str, metric: str, scale: tuple[float, float] = (1.0, 5.0)
) -> Criterion:
    """Return a criterion by a recorded metric, mapped from its scale to 1 to 5."""
    low, high = scale

    def rate(row: Row) -> float | None:
        value = row["metrics"].get(metric)
        return None if value is None else round(1 + 4 * (value - low) / (high - low), 4)

    return Criterion(name, definition, "judge", rate)


def _five(share: float) -> float:
    """Return one of the five ratings for a share of 0 to 1."""
    return float(1 + round(4 * min(1.0, max(0.0, share))))


def _runs(text: str, n: int) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return list(zip(*(words[at:] for at in range(n)), strict=False))


def _overlap(text: str, other: str, n: int) -> float:
    own, theirs = _runs(text, n), set(_runs(other, n))
    return sum(run in theirs for run in own) / max(1, len(own))


def _distinct(row: Row) -> float:
    runs = _runs(row["output"], 3)
    # a tenth of repeated runs is as bad as can be
    return 1 - 10 * (1 - len(set(runs)) / max(1, len(runs)))


def _sentence_length(row: Row) -> float:
    sentences = [part for part in re.split(r"[.!?]+", row["output"]) if part.split()]
    return len(row["output"].split()) / max(1, len(sentences))


def _beginning(row: Row) -> str:
    return " ".join((row["source"] or "").split()[:100])


def _numbers(row: Row) -> float:
    own = re.findall(r"\d+", row["output"])
    theirs = set(re.findall(r"\d+", row["source"] or ""))
    return _five(sum(number in theirs for number in own) / len(own)) if own else 5.0
