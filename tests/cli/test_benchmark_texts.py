"""Every method over SummEval and Topical-Chat, from the command line: rows of people's data, as
published.

All 1,960 rows by every method take minutes: `python -m benchmarks.every_method` does that. Here
every method judges the first 20 rows of each on all aspects, and one method all rows on one aspect.
"""

from __future__ import annotations

import pytest

from benchmarks.every_method import DATA
from tests.benchmark_data import FOLDER
from tests.cli.harness import rows_of, textassay
from textassay.methods import METHODS
from textassay.methods.claims import FACTUAL
from textassay.methods.library import tasks

SOME = 20
ALL = {"summarization": 1600, "dialogue": 360}


def judged(server, tmp_path, method, task, *flags):
    """Run a method over a file and return its scores, each of which has a value."""
    path = FOLDER / DATA[task]
    if not path.exists():
        pytest.skip(f"benchmark data {DATA[task]} not found in {FOLDER}; set TEXTASSAY_DATA")
    done = textassay(
        "score", path, "--method", method, "--task", task, "--model", "direct/mock", "--api-base",
        server.url, "--out", tmp_path / "run", "--progress", "none", "--no-cache", *flags,
    )  # fmt: skip
    assert done.code == 0, (done.out, done.err)
    rows = rows_of(tmp_path / "run")
    assert {(row["outcome"], row["error"]) for row in rows} == {("scored", None)}
    assert sum(row["usage"]["calls"] for row in rows) == server.counters.requests
    return rows


@pytest.mark.parametrize("task", DATA)
@pytest.mark.parametrize("method", [name for name in METHODS if name != "pairwise"])
def test_every_method_over_the_first_rows(server, tmp_path, method, task):
    """A score with a value for each row and aspect."""
    rows = judged(server, tmp_path, method, task, "--limit", SOME)
    aspects = {row["aspect"] for row in rows}
    expected = {aspect.name for aspect in tasks.load(task).aspects}
    assert (expected & set(FACTUAL) if method == "claims" else expected) <= aspects
    assert len(rows) == len({(row["id"], row["aspect"]) for row in rows}) == SOME * len(aspects)


@pytest.mark.parametrize("task", DATA)
def test_one_method_over_all_rows(server, tmp_path, task):
    """All 1,600 rows of SummEval and all 360 of Topical-Chat."""
    rows = judged(server, tmp_path, "llm-score", task, "--aspects", "coherence")
    assert len(rows) == len({row["id"] for row in rows}) == ALL[task]
