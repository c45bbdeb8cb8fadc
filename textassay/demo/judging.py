"""The demo's second part: a small local model judges the bundled summaries, beside counting words.

GPTScore needs only the likelihood of a text, for which such a small model is enough. `judge` writes
the folders of `textassay score` and `textassay tools score`, and the page of `textassay report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from textassay.agreement import spearman
from textassay.demo import data_file
from textassay.evaluation.api import evaluate
from textassay.evaluation.progress import OnProgress
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Example, Score
from textassay.runtime.model import Model

DATA = data_file("summarization")
METHOD = "gptscore"
ASPECTS = ("coherence", "fluency")
"""The aspects with which the model's scores agree; for consistency and relevance counting words is
better.
"""
COUNTING = {
    "length": "number of words", "novelty": "word pairs not in the article",
    "rougeL": "ROUGE-L with a reference",
}  # fmt: skip
"""Surface tools, which a judge must beat."""
SHOWN = "bridge-garbled"
"""The summary with the shown evidence: its words are out of order."""
ALTERATIONS = {
    "lead": "faithful", "short": "true, but too little", "wrong": "facts turned round",
    "shuffled": "sentences out of order", "drift": "about something else",
    "garbled": "words out of order",
}  # fmt: skip
"""The alterations of the summaries, by the name of their system."""


@dataclass(frozen=True, slots=True)
class MeasureAgreement:
    """The agreement of one way of scoring with the ratings."""

    name: str
    spearman: Mapping[str, float | None]
    """Spearman's rho by aspect, over all texts; for `COUNTING` its size alone, in its favor."""


@dataclass(frozen=True, slots=True)
class AlterationMean:
    """The mean score and rating of the texts that were altered in one way."""

    name: str
    score: float
    rating: float


@dataclass(frozen=True, slots=True)
class ShownText:
    """One text with its score and the tokens that the model found least likely."""

    text: str
    score: float | None
    unlikeliest: Sequence[str]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Results of the second part."""

    run: Path
    texts: int
    agreement: Sequence[MeasureAgreement]
    """The judge first, then each of `COUNTING`."""
    alterations: Sequence[AlterationMean]
    """Mean of each alteration in the first of `ASPECTS`, best score first."""
    evidence: ShownText
    unscored: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {**asdict(self), "run": str(self.run)}


async def judge(folder: Path, model: Model, progress: OnProgress = None) -> DemoResult:
    """Score the summaries, or continue an earlier demo, and compare with the ratings.

    Args:
        folder: Gets a run folder of the judge and one of the tools.
        model: The judge, which must score given text.
        progress: As of `evaluate`.

    Raises:
        TextassayError: As of `evaluate`.
    """
    place = folder / METHOD
    run = await evaluate(
        DATA, method=METHOD, task="summarization", aspects=ASPECTS, model=model, out=place,
        resume=True, progress=progress,
    )  # fmt: skip
    counts = await evaluate(
        DATA, method="tools", tools=tuple(COUNTING), out=folder / "counting", resume=True,
        progress=False,
    )  # fmt: skip
    examples = {example.id: example for example in Examples(DATA)}
    scores = {(score.id, score.aspect): score for score in (*run.scores, *counts.scores)}
    values = {at: score.value for at, score in scores.items() if score.value is not None}
    return DemoResult(
        place,
        len(examples),
        [
            _compare(examples, values, METHOD),
            *(_compare(examples, values, tool) for tool in COUNTING),
        ],
        _average(examples, values),
        _show(examples[SHOWN], scores[SHOWN, ASPECTS[0]]),
        len(scores) - len(values),
    )


def _compare(
    examples: Mapping[str, Example], values: Mapping[tuple[str, str], float], name: str
) -> MeasureAgreement:
    """Return Spearman's rho of the judge or of a tool with the ratings, over all texts."""
    by_measure = {}
    for aspect in ASPECTS:
        scored = {id_: values.get((id_, aspect if name == METHOD else name)) for id_ in examples}
        ids = [id_ for id_, value in scored.items() if value is not None]
        ratings = np.array([examples[id_].human[aspect] for id_ in ids], float)
        rho = spearman(np.array([scored[id_] for id_ in ids], float), ratings)
        by_measure[aspect] = rho if rho is None or name == METHOD else abs(rho)
    return MeasureAgreement(name, by_measure)


def _average(
    examples: Mapping[str, Example], values: Mapping[tuple[str, str], float]
) -> list[AlterationMean]:
    """Return the mean of each alteration, the best score first."""
    aspect = ASPECTS[0]
    means = []
    for system, name in ALTERATIONS.items():
        ids = [
            id_
            for id_, example in examples.items()
            if example.system == system and (id_, aspect) in values
        ]
        if ids:
            score = np.mean([values[id_, aspect] for id_ in ids])
            rating = np.mean([examples[id_].human[aspect] for id_ in ids])
            means.append(AlterationMean(name, float(score), float(rating)))
    return sorted(means, key=lambda mean: -mean.score)


def _show(example: Example, score: Score) -> ShownText:
    # a text without a score has no evidence
    tokens = [token["token"].strip() for piece in score.evidence for token in piece["unlikeliest"]]
    return ShownText(example.output, score.value, tokens)
