"""Ratings in our own data format.

One line per rated example, with `annotators`, ready for every command.

Raters come in a fixed order, `null` if one did not rate an example. Besides `human` and
`annotators` a line carries what a later analysis needs: time spent, revisions, second ratings of
repeated items, and the probability with which the example was sampled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textassay.annotate.ratings import Answers, RaterAnswer
from textassay.meta.raters import RaterAgreement, rater_agreement
from textassay.runtime.storage.files import write_text
from textassay.runtime.storage.json_text import encode

SAMPLING_PROBABILITY = "sampling_probability"
"""Field of a line: the probability with which the example was drawn to be rated."""


def rows(ratings: Answers) -> list[dict[str, Any]]:
    """Return one row per example that somebody rated, in the order of the data."""
    lines = []
    again: dict[str, dict[str, Any]] = {}
    for visit, _, second in ratings.repeats():
        again.setdefault(visit.key, {})[visit.rater] = dict(second.ratings)
    for key, example in ratings.study.by_key.items():
        answers = ratings.first_ratings(key)
        if answers:
            given = example.model_dump(exclude_defaults=True, exclude={"human", "annotators"})
            meta = given.pop("meta", {})
            lines.append({**given, **meta, **_rated(ratings, answers)})
            if key in again:
                lines[-1]["repeated"] = again[key]
            if example.id in ratings.study.probabilities:
                lines[-1][SAMPLING_PROBABILITY] = ratings.study.probabilities[example.id]
    return lines


def write(ratings: Answers, path: Path) -> int:
    """Replace the file of ratings by what is rated so far; return the number of rated examples.

    Raises:
        OSError: The file cannot be written; the old one is untouched.
    """
    lines = [encode(row).decode("utf-8") for row in rows(ratings)]
    write_text(path, "".join(f"{line}\n" for line in lines))
    return len(lines)


def agreement(ratings: Answers) -> dict[str, RaterAgreement]:
    """Return agreement among the raters by aspect, over the items that somebody rated."""
    names = list(ratings.raters)
    tables: dict[str, list[list[float | None]]] = {q.aspect: [] for q in ratings.study.questions}
    for key in ratings.study.keys:
        answers = ratings.first_ratings(key)
        if answers:
            for aspect, table in tables.items():
                table.append([_value(answers.get(name), aspect) for name in names])
    return {aspect: rater_agreement(table) for aspect, table in tables.items() if table}


def self_agreement(ratings: Answers) -> dict[str, dict[str, Any]]:
    """Return by aspect how often raters gave a repeated item the same rating again.

    Returns:
        `n` pairs of ratings, `same` (share of equal ones) and `mean_difference`; the last two are
        `None` without pairs.
    """
    by_aspect = {}
    for question in ratings.study.questions:
        pairs = [
            (a, b)
            for _, first, second in ratings.repeats()
            if (a := first.ratings[question.aspect]) is not None
            and (b := second.ratings[question.aspect]) is not None
        ]
        differences = [abs(a - b) for a, b in pairs]
        by_aspect[question.aspect] = {
            "n": len(pairs),
            "same": sum(d == 0 for d in differences) / len(pairs) if pairs else None,
            "mean_difference": math.fsum(differences) / len(pairs) if pairs else None,
        }
    return by_aspect


def _rated(ratings: Answers, answers: Mapping[str, RaterAnswer]) -> dict[str, Any]:
    human: dict[str, float] = {}
    annotators: dict[str, list[float | None]] = {}
    for question in ratings.study.questions:
        values = [_value(answers.get(name), question.aspect) for name in ratings.raters]
        given = [value for value in values if value is not None]
        if given:
            # all raters in the same order in every row, with gaps: a column is then one person,
            # which pairwise agreement needs
            annotators[question.aspect] = values
            human[question.aspect] = math.fsum(given) / len(given)
    comments = {name: a.comment for name, a in answers.items() if a.comment}
    return {
        "human": human,
        "annotators": annotators,
        "raters": list(ratings.raters),
        "seconds": {name: round(a.seconds, 1) for name, a in answers.items()},
        "revisions": {name: a.revision for name, a in answers.items()},
        **({"comments": comments} if comments else {}),
    }


def _value(answer: RaterAnswer | None, aspect: str) -> float | None:
    return None if answer is None else answer.ratings.get(aspect)
