"""`textassay report`: what the page says without a browser, and how large it gets."""

import base64
import gzip
import html
import json
import re
import tomllib
from typing import get_args

import numpy as np
import pytest

from benchmarks import report_large
from tests.cli.harness import served, textassay
from tests.report.runs import score, small_data, small_run, words_of, write_run
from textassay.agreement import agreement_table, read_scores
from textassay.report import write_report
from textassay.report.examples import MAX_ROWS, clip, evidence_lines, select_rows
from textassay.report.rendering import figure
from textassay.report.source import JoinedPage
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError
from textassay.runtime.messages import How
from textassay.runtime.storage.run_files import read_summary


@pytest.fixture
def run(tmp_path):
    return small_run(tmp_path / "run", small_data(tmp_path / "data.jsonl"))


def page_of(tmp_path, *runs, **options):
    write_report(runs, tmp_path / "report.html", **options)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_equal_runs_give_equal_bytes(run, tmp_path):
    """A page holds no time of its making, no order by chance, and no path of the author's.

    Of data that changed it shows no text: another than the judged one would stand by its score.
    """
    first = page_of(tmp_path, run)
    assert first == page_of(tmp_path, run)
    assert str(tmp_path) not in first
    small_data(tmp_path / "data.jsonl", count=23)
    assert "has changed since the run judged it" in page_of(tmp_path, run)


def test_agreement_is_that_of_meta(run, tmp_path):
    """Every coefficient of the page is the one that `textassay agreement` prints, at each level."""
    words = words_of(page_of(tmp_path, run))
    data = Examples(tmp_path / "data.jsonl")
    table = agreement_table(
        read_scores(run), data, levels=["dataset", "group", "system"], bootstrap=1000
    )
    for row in table.rows:
        for name in ("pearson", "spearman", "kendall"):
            assert figure(getattr(row.agreement, name)) in words
            low, high = row.agreement.ci[name].ends or (None, None)
            assert low is None or f"{figure(low)} to {figure(high)}" in words


def test_outcomes_are_those_of_the_summary(run, tmp_path):
    """Counts of outcomes and reasons, and the mean of each aspect, equal `summary.json`."""
    words, summary = words_of(page_of(tmp_path, run)), read_summary(run)
    assert summary["outcomes"] == {"scored": 47, "abstained": 0, "invalid": 1, "error": 0}
    assert "scored 47 has a value invalid 1 the judge answered" in words, "zeros take no row"
    assert f"NoScoreFound {summary['errors']['NoScoreFound']} " in words
    for aspect in summary["aspects"].values():
        assert f"all texts {aspect['n']} " in words
        assert figure(aspect["mean"]) in words


def test_parts_without_data_are_absent(tmp_path):
    """A run without data has no section for them, and says why texts are absent."""
    run = write_run(tmp_path / "bare", [score("a"), score("b", value=4.0)])
    page = page_of(tmp_path, run)
    assert 'id="agreement"' not in page
    assert "the run judged data from memory" in page


def test_largest_disagreement_comes_first(run, tmp_path):
    """The score that is furthest from its rating, as a share of the scale."""
    page = page_of(tmp_path, run)
    gaps = [
        float(text.replace("−", "-"))
        for text in re.findall(r'Apart <b class="n">([^<]+)</b>', page)
    ]
    assert len(gaps) == 12
    assert [abs(gap) for gap in gaps] == sorted(map(abs, gaps), reverse=True)
    assert "largest disagreements with people first" in page


def test_second_run_shows_exactly_what_changed(run, tmp_path):
    """Those that cross the middle of the scale come before larger ones that do not."""
    data = tmp_path / "data.jsonl"
    changed = {"x3": 1.0, "x7": 5.0}
    before = [score(f"x{i}", value=2.5 if i == 3 else 3.5 if i == 7 else 4.0) for i in range(24)]
    after = [score(one.id, value=changed.get(one.id, one.value)) for one in before]
    after[3] = score("x3", value=3.5)
    first, second = write_run(tmp_path / "a", before, data), write_run(tmp_path / "b", after, data)
    page = page_of(tmp_path, first, second)
    cases = re.findall(r"<h3><bdi>(x\d+)</bdi>", page)
    assert cases[:2] == ["x3", "x7"]
    assert page.count('<b class="flag">flips</b>') == 1


@pytest.mark.parametrize(
    ("count", "error", "words"),
    [(3, ConfigurationError, "one run or two, not 3"), (2, RunFolderError, "given twice")],
)
def test_three_runs_and_the_same_run_twice_are_refused(run, tmp_path, count, error, words):
    with pytest.raises(error, match=words):
        write_report([run] * count, tmp_path / "x.html")


def test_run_that_still_grows_can_be_shown(run, tmp_path):
    """A torn last line is left out, and what is complete is shown."""
    with (run / "scores.jsonl").open("ab") as file:
        file.write(b'{"id": "x0", "asp')
    assert "scored" in page_of(tmp_path, run)


def test_the_tree_and_the_plan_are_shown(tmp_path):
    """Every criterion of HD-Eval with its mean, and every step of Fusion-Eval's plan."""
    data = small_data(tmp_path / "data.jsonl", 4)
    with served() as server:
        for method in ("hd-eval", "fusion-eval"):
            done = textassay(
                "score", data, "--method", method, "--task", "summarization", "--aspects",
                "coherence", "--model", "direct/j", "--api-base", server.url, "--out",
                tmp_path / method,
            )  # fmt: skip
            assert done.code == 0, done.err
            write_report([tmp_path / method], tmp_path / f"{method}.html")
    manifest = json.loads((tmp_path / "hd-eval" / "manifest.json").read_text("utf-8"))
    page = (tmp_path / "hd-eval.html").read_text("utf-8")
    criteria = [path for tree in manifest["method"]["trees"].values() for path in tree]
    assert len(criteria) > 3
    for path in criteria:
        assert path.rpartition("/")[2].replace("-", " ") in page
    page = (tmp_path / "fusion-eval.html").read_text("utf-8")
    plan = tomllib.loads((tmp_path / "fusion-eval" / "plan.toml").read_text("utf-8"))
    assert len(plan["steps"]) > 1
    for step in plan["steps"]:
        assert html.escape(step) in page


@pytest.mark.parametrize(
    "field",
    [
        f'"contribution":1{"0" * 400}',
        f'"value":1{"0" * 400},"scale":[1,5]',
        '"value":2,"scale":["a","b"]',
        '"value":2,"scale":[1]',
        '"value":2,"scale":5',
        '"ratings":5',
        '"ratings":["a"]',
        '"unlikeliest":[5]',
        '"unlikeliest":[{"token":1}]',
        '"probability":{}',
        '"more":' + '{"a":' * 1000 + "1" + "}" * 1000,
        '"more":' + "[" * 1000 + "1" + "]" * 1000,
    ],
    ids=range(12),
)
def test_evidence_of_any_form_and_depth_is_shown(tmp_path, field):
    """A run from somebody else may have anything under the names that methods use."""
    data = small_data(tmp_path / "data.jsonl", 1)
    told = ({"text": "the text of it", "more": 1},)
    folder = write_run(tmp_path / "run", [score("x0", evidence=told)], data)
    scores = folder / "scores.jsonl"
    scores.write_text(scores.read_text("utf-8").replace('"more":1', field), "utf-8")
    write_report([folder], tmp_path / "page.html", human=data)
    shown = textassay("show", folder, "x0").out
    assert "the text of it" in shown
    assert ("..." in shown) == field.startswith('"more"')


@pytest.mark.parametrize(
    ("piece", "figure", "note"),
    [
        ({"value": 1.0, "answer": "yes", "quote": "It rained.", "found_in": "passage 2"}, "yes",
         "\u201cIt rained.\u201d in passage 2"),
        ({"quote": "noon", "found_in": "turn 2, call 1, result", "characters": [3, 7]}, "",
         "\u201cnoon\u201d in turn 2, call 1, result, characters 3 to 7"),
        ({"quote": "A cat", "found_in": "source"}, "", "\u201cA cat\u201d in the source"),
        ({"quote": "A cat", "found_in": None}, "",
         "\u201cA cat\u201d, which is not in any of the texts"),
        ({"quote": "A cat", "found_in": "nowhere"}, "",
         "\u201cA cat\u201d, which a search found nowhere"),
        ({"quote": "", "found_in": "turn 4"}, "", "missing in turn 4, which was read whole"),
        ({"quote": "", "found_in": None}, "", ""),
        ({"value": None, "outcome": "invalid", "problem": "NoAnswerFound: no yes or no"}, "invalid",
         "NoAnswerFound: no yes or no"),
        ({"met": True, "points": 7.0, "tags": ["a", "b"], "reason": "it does",
          "prerequisites not met": "0"}, "",
         "met: yes; 7 points; tags: a, b; because: it does; prerequisites not met: 0"),
        ({"votes": {"spam": 2, "ham": 1}}, "", "votes: spam 2, ham 1"),
        ({"abstained": 3}, "", ""),
        ({"own_field": 0.5}, "", "own field 0.5"),
    ],
    ids=range(12),
)  # fmt: skip
def test_evidence_is_put_in_words(piece, figure, note):
    """No reader has to know how methods name their fields, or which text a key means."""
    (line,) = evidence_lines(score("x0", evidence=({"text": "Is it so?", **piece},)))
    assert (line.text, line.figure, line.note) == ("Is it so?", figure, note)


def test_a_scale_without_a_finite_width_is_refused(tmp_path):
    """In a run from somebody else; nothing can be drawn on it."""
    folder = write_run(tmp_path / "run", [score("x0")])
    scores = folder / "scores.jsonl"
    text = scores.read_text("utf-8").replace('"scale":[1.0,5.0]', '"scale":[-1e308,1e308]')
    scores.write_text(text, "utf-8")
    with pytest.raises(DataError, match="wider than numbers can express"):
        write_report([folder], tmp_path / "page.html")


def test_a_thought_is_folded_and_escaped(tmp_path):
    """Beside the evidence that it led to; a terminal says how long it is."""
    data = small_data(tmp_path / "data.jsonl", 1)
    thought = "<script>alert(1)</script> Is it a 2?" + "!" * 4000
    told = ({"text": "is it clear?", "answer": "yes", "p_yes": 0.8, "thought": thought},)
    folder = write_run(tmp_path / "run", [score("x0", evidence=told)], data)
    write_report([folder], tmp_path / "page.html", human=data)
    page = (tmp_path / "page.html").read_text("utf-8")
    shown = page[page.index("<details><summary>Thought</summary>") :]
    shown = shown[: shown.index("</details>")]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; Is it a 2?" in shown
    assert len(shown) < 3300
    assert "(thought before: 4,036 characters)" in textassay("show", folder, "x0").out


def test_scores_take_little_room(tmp_path):
    """2,000 scores with words and evidence take at most 125 bytes each, beside the sections."""
    run = report_large.write_run(tmp_path, 2_000)
    write_report([run], tmp_path / "report.html", human=tmp_path / "data.jsonl")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    packed = page[page.index('<script type="text/plain"') : page.rindex("<script>")]
    assert len(packed) < 2_000 * 125


def test_very_large_runs_keep_extremes():
    """Of more than 200,000 scores the ends of each order, and of the rest some by chance."""
    count = MAX_ROWS + 50_000
    nothing, values = np.full(count, np.nan), np.arange(count, dtype=float)
    sizes = values[::-1] / count
    joined = JoinedPage(
        values, nothing, nothing, sizes, {}, nothing, nothing, np.zeros(count, bool)
    )
    rows = select_rows(joined, count)
    assert len(rows) == len(set(rows.tolist())) == MAX_ROWS
    assert set(range(20_000)) <= set(rows.tolist())
    assert set(range(count - 20_000, count)) <= set(rows.tolist())
    assert (rows == select_rows(joined, count)).all()
    assert len(select_rows(joined, MAX_ROWS)) == MAX_ROWS


def unpacked(page):
    """The list of scores that a page holds."""
    found = re.search(r'<script type="text/plain" id="index">(.*?)</script>', page, re.DOTALL)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_a_page_that_holds_a_part_says_so(tmp_path):
    """How many of how many and which; sections are of all scores, the list of the chosen ones."""
    run = report_large.write_run(tmp_path, 800)
    whole, part = tmp_path / "whole.html", tmp_path / "part.html"
    write_report([run], whole, human=tmp_path / "data.jsonl")
    write_report([run], part, human=tmp_path / "data.jsonl", max_rows=160)
    pages = [page.read_text(encoding="utf-8") for page in (whole, part)]
    notice = (
        "This page holds 160 of 800 scores: the largest disagreements and changes, the lowest "
        "and highest values, and a random sample of the rest."
    )
    assert [notice in page for page in pages] == [False, True]
    assert ["scores.jsonl" in page for page in pages] == [False, True]
    everything, listed = map(unpacked, pages)
    assert (len(everything["value"]), len(listed["value"]), listed["total"]) == (800, 160, 800)
    gaps = [
        sorted((abs(v - h) for v, h in zip(one["value"], one["human"], strict=True)), reverse=True)
        for one in (everything, listed)
    ]
    assert gaps[1][:20] == gaps[0][:20]
    ends = [sorted(one["value"]) for one in (everything, listed)]
    assert (ends[1][:20], ends[1][-20:]) == (ends[0][:20], ends[0][-20:])
    with pytest.raises(ConfigurationError, match="max_rows= must be at least 0, not -1"):
        write_report([run], tmp_path / "none.html", human=tmp_path / "data.jsonl", max_rows=-1)
    # a sample by chance, not only extremes
    assert gaps[1][-1] < gaps[0][400]
    before = [page[: page.index('id="texts"')] for page in pages]
    assert before[0].split("<body")[1] == before[1].split("<body")[1]


def test_cut_texts_say_so():
    """A text that was cut says how much is missing."""
    assert clip("a" * 30, 10) == "a" * 10 + " [... 20 more characters]"
    assert clip("short", 10) == "short"


@pytest.mark.parametrize("how", get_args(How))
def test_a_page_shows_scores_however_they_were_obtained(how, tmp_path):
    data = small_data(tmp_path / "data.jsonl")
    scores = [score(f"x{place}", how=how, spread=0.5) for place in range(6)]
    write_report([write_run(tmp_path / "run", scores, data)], tmp_path / "page.html")
    assert "standard deviation 0.5" in (tmp_path / "page.html").read_text("utf-8")
