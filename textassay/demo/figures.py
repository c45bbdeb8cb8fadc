"""The demo's first part: five recorded judges checked by three experts, without any model.

`data/summeval-figures.csv.gz` contains only figures by id, without texts: for each of the 1,600
summaries of SummEval three experts' ratings, the recorded ratings of five judges, ROUGE and the
number of words.
"""

from __future__ import annotations

from dataclasses import replace

from textassay.checking.api import check
from textassay.checking.result import Check
from textassay.demo import FOLDER

FIGURES = FOLDER / "summeval-figures.csv.gz"
ASPECT = "consistency"
"""The judged aspect; the file also has coherence, fluency and relevance."""


def check_figures() -> Check:
    """Check the recorded judges, ROUGE-L and the number of words against the experts."""
    recorded = ("gpt-4o", "gpt-4o-mini", "gemini_pro", "llama-31", "mistral-v03")
    judges = [f"{judge}_{ASPECT}" for judge in recorded]
    experts = [f"expert{at}_{ASPECT}" for at in (1, 2, 3)]
    result = check(FIGURES, judge=[*judges, "rougeL", "words"], human=experts)
    rows = tuple(
        replace(row, pair=replace(
            row.pair, judge=row.pair.judge.removesuffix(f"_{ASPECT}"), human="three experts"
        ))
        for row in result.rows
    )  # fmt: skip
    # the next commands are about the reader's own data, not about these
    return replace(result, rows=rows, next=())
