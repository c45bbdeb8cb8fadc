"""docs/decisions.md prints what its commands say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import decisions_story
from tests.benchmark_data import FOLDER
from tests.cli.harness import textassay

PAGE = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text(encoding="utf-8")
RECORDED = FOLDER / "alttest" / "summeval.jsonl.gz"


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    if not RECORDED.exists():
        pytest.skip(f"benchmark data not found in {FOLDER}; set TEXTASSAY_DATA")
    folder = tmp_path_factory.mktemp("story")
    decisions_story.write(folder, RECORDED)
    return folder


def shown(found):
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def test_the_estimates_are_those_of_the_page(story):
    """Judge only, labels only, corrected, and what a label is worth; each as printed."""
    done = textassay("estimate", story / "scores.jsonl", story / "rated.jsonl", "--json")
    for row in json.loads(done.out)["rows"]:
        three = [shown(row[name]) for name in ("judge_only", "labels_only", "corrected")]
        assert " | ".join([row["aspect"], *three, f"{row['worth']:.2f}"]) in PAGE


def test_the_stand_in_table_is_that_of_the_page(story):
    """Omega, rho, the best constant, and the advantage over it."""
    done = textassay("alt-test", story / "scores.jsonl", story / "all_rated.jsonl", "--json")
    lines = {
        line.split(" | ")[0].strip("| "): line for line in PAGE.partition("## 5.")[2].splitlines()
    }
    for row in json.loads(done.out)["rows"]:
        constant = row["constant"]
        cells = [cell.strip() for cell in lines[row["score"]].strip("|").split("|")]
        expected = [row["omega"], row["rho"], constant["value"], constant["omega"], constant["rho"]]
        assert [float(cell) for cell in cells[1:6]] == [round(one, 2) for one in expected]
        assert cells[6] == shown(row["over_constant"]).replace("0.", ".")
        assert cells[7] == ("yes" if row["may_stand_in"] else "no")
