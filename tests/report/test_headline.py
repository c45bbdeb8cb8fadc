"""What the page says in words, both runs in every section, and what is above trivial measures."""

import html
import json
import random
import re

import pytest

from tests.browser import open_file, wait_for
from tests.cli.harness import textassay
from tests.report import runs as written
from tests.report.runs import score, words_of, write_data, write_run
from tests.report.test_accessible import color_scheme, flaws
from textassay.agreement import compare
from textassay.report import write_report
from textassay.report.page import build_content, join_runs
from textassay.report.source import open_both, open_data, open_run
from textassay.runtime.messages import Score
from textassay.tools.surface import Length

RATERS = 3


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts of three systems on thirty sources, rated by three; a good judge, and one by chance."""
    folder, chance = tmp_path_factory.mktemp("headline"), random.Random(5)
    rows, good, blind = [], [], []
    for i in range(90):
        truth = min(5, max(1, chance.gauss(1.4 + 1.6 * (i % 3), 0.6)))
        ratings = [min(5, max(1, round(truth + chance.gauss(0, 0.7)))) for _ in range(RATERS)]
        rows.append({"id": f"x{i}", "system": f"M{i % 3}", "group": f"g{i // 3}",
                     "output": "word " * chance.randint(3, 30),
                     "annotators": {"coherence": ratings}})  # fmt: skip
        good.append(score(f"x{i}", value=round(min(5, max(1, truth + chance.gauss(0, 0.2))), 1)))
        blind.append(score(f"x{i}", value=float(chance.randint(1, 5))))
    data = write_data(folder / "data.jsonl", rows)
    return folder, write_run(folder / "good", good, data), write_run(folder / "blind", blind, data)


def words(tmp_path, *runs, **options):
    write_report(runs, tmp_path / "page.html", **options)
    return html.unescape(words_of((tmp_path / "page.html").read_text("utf-8")))


def content_of(*folders):
    opened = [open_run(folder) for folder in folders]
    for run in opened:
        run.table.read_all()
    data = open_both(opened, None, {})
    return build_content(opened, data, join_runs(opened, data, {}), {}, packed=0)


def test_a_good_judge_in_words(files):
    """It agrees, is above trivial measures, may stand in, and distinguishes the systems."""
    found = content_of(files[1]).headline
    (judge,) = content_of(files[1]).agreement[0].judges
    value, low, high = judge.value.value, judge.value.low, judge.value.high
    assert found.first == (
        f"The judge agrees with people on coherence ({value:.2f} [{low:.2f}, {high:.2f}]); "
        "Spearman's rho with 95 % intervals over sources."
    )
    above, stand_in, systems = found.points
    assert above.startswith("The judge is better than the best trivial measure on coherence (")
    assert stand_in == "The judge may stand in for a rater on coherence."
    assert systems.startswith("On coherence: the best of 3 systems is M2 (M2 is above M0 by ")


def test_results_that_are_not_shown_are_called_so(files):
    """A judge by chance is not declared above trivial measures because its rho is higher."""
    content = content_of(files[2])
    (judge,) = content.agreement[0].judges
    assert judge.advantage.above == "not shown"
    assert content.headline.first.startswith(
        "The data do not show that the judge agrees with people on"
    )
    assert any(
        "may stand in" in point and "do not show" in point for point in content.headline.points
    )


def test_above_trivial_is_decided_by_paired_intervals(files):
    """The difference is that of `agreement.compare` over sources, with the sign of the measure."""
    run = open_run(files[1])
    run.table.read_all()
    examples = list(open_data(run, None).examples.values())
    words = [Length().compute(example).value for example in examples]
    by_id = dict(zip(run.table.ids, run.table.values, strict=True))
    found = compare(
        [by_id[one.id] for one in examples], words, [one.human["coherence"] for one in examples],
        groups=[one.group for one in examples],
    ).spearman  # fmt: skip
    if found.b < 0:
        found = compare(
            [by_id[one.id] for one in examples], [-n for n in words],
            [one.human["coherence"] for one in examples], groups=[one.group for one in examples],
        ).spearman  # fmt: skip
    (judge,) = content_of(files[1]).agreement[0].judges
    assert judge.advantage.measure == "length in words"
    shown = judge.advantage.difference
    expected = pytest.approx((found.difference.value, *found.difference.ends))
    assert (shown.value, shown.low, shown.high) == expected


def test_two_runs_are_in_every_section(files, tmp_path):
    """Which agrees better comes first; scores, agreement, estimates and the test show both."""
    _, good, blind = files
    said = words(tmp_path, good, blind)
    assert "A agrees better with people than B on coherence (" in said
    assert "all texts A 90" in said
    assert "all texts B 90" in said
    assert re.search(r"coherence good 90 .*coherence blind 90 ", said)
    for section in ("Estimated human ratings", "May the judge stand in for a rater?"):
        part = said[said.index(section) :]
        assert re.search(r"coherence A .*?coherence B ", part), section
    assert "A: g-eval" in said
    assert "B: g-eval" in said


def test_without_ratings_systems_are_compared_by_scores(files, tmp_path):
    """Paired by source, with a sentence that nothing shows whether people would agree."""
    lines = (files[0] / "data.jsonl").read_text("utf-8").splitlines()
    rows = [{key: value for key, value in json.loads(line).items() if key != "annotators"}
            for line in lines]  # fmt: skip
    data = write_data(tmp_path / "plain.jsonl", rows)
    scores = [score(row["id"], value=2.0 + i % 3 + i % 2 / 2) for i, row in enumerate(rows)]
    said = words(tmp_path, write_run(tmp_path / "run", scores, data))
    assert "g-eval scores 3.25 [" in said
    best = "the best of 3 systems is M2 (M2 is above M0 by 2.00 ["
    assert f"On coherence, by the judge's scores alone: {best}" in said
    assert "differences of the judge's mean scores, by source" in said
    assert "There are no ratings by people beside these scores" in said
    done = textassay("compare", tmp_path / "run", data, "--systems", "M0", "M2", "--json").ok()
    assert '"difference": -2.0' in done.out


def test_jurors_agree_on_their_own(files, tmp_path, monkeypatch):
    """Each juror's ratings, which are parts of a jury's score, have a row of their own."""
    folder = files[0]
    monkeypatch.setitem(written.MANIFEST, "method",
                        {"name": "jury", "aspects": [], "jurors": ["one", "two"]})  # fmt: skip
    scores = [
        score(f"x{i}", value=3.0 + i % 2, evidence=({"text": "one", "value": 3.0 + i % 2},
              {"text": "two", "value": None if i % 9 == 0 else 1.0 + i % 4}))
        for i in range(90)
    ]  # fmt: skip
    said = words(tmp_path, write_run(tmp_path / "jury", scores, folder / "data.jsonl"))
    assert "coherence/one jury 90 1.000" in said
    assert "coherence/two jury 80 0.889" in said
    alone = [score(f"x{i}", "coherence/one", 3.0 + i % 2) for i in range(90)]
    said = words(tmp_path, write_run(tmp_path / "alone", alone, folder / "data.jsonl"))
    assert "coherence/one alone 90 " in said, "scores of single jurors pair with their aspect"


def test_title_and_note(files, tmp_path):
    """In the author's words, escaped."""
    note = "Read on <b>Tuesday</b>.\n\nBy M."
    done = textassay("report", files[1], "--title", "Release 7 & others", "--note", note, "--out",
                     tmp_path / "r.html")  # fmt: skip
    assert done.code == 0, done.err
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<title>Release 7 &amp; others – textassay</title>" in page
    assert "Read on &lt;b&gt;Tuesday&lt;/b&gt;.\n\nBy M.</p>" in page


def test_cells_of_a_confusion_matrix_lead_to_their_texts(tmp_path, browser, monkeypatch):
    """A cell lists the rows that it counts, as `agreement` counts them; a button shows all."""
    labels = {"name": "passed", "labels": {"fail": "", "pass": ""}}
    monkeypatch.setitem(written.MANIFEST, "method", {"name": "x", "aspects": [labels]})
    rows = [{"id": f"x{i}", "output": "a text", "group": f"g{i}", "human": {"passed": i % 2}}
            for i in range(20)]  # fmt: skip
    data = write_data(tmp_path / "data.jsonl", rows)
    scores = [Score(id=f"x{i}", aspect="passed", value=float(i % 3 == 0), scale=(0.0, 1.0))
              for i in range(20)]  # fmt: skip
    run = write_run(tmp_path / "run", scores, data)
    others = [score("x0", "first"), *(one.model_copy(update={"value": 0.0}) for one in scores)]
    write_report([run, write_run(tmp_path / "all-fail", others, data)], tmp_path / "r.html")
    for scheme in ("light", "dark"):
        with color_scheme(browser, scheme):
            open_file(browser, tmp_path / "r.html")
            assert flaws(browser) == []
    second = "document.querySelector(\".matrix a[href^='#cell/1/'][href$='/1/0']\")"
    browser.execute_script(f"{second}.click()")
    wait_for(browser, "!document.getElementById('cell').hidden")
    assert browser.find_element("id", "count").text == "10 of 20 scores", "of the second run"
    expected = {f"x{i}" for i in range(20) if i % 2 and i % 3}
    cell = browser.find_element("css selector", ".matrix a[href^='#cell/0/'][href$='/1/0']")
    assert cell.text == str(len(expected))
    browser.execute_script("arguments[0].click()", cell)
    wait_for(
        browser, f"document.getElementById('count').textContent.startsWith('{len(expected)} ')"
    )
    assert browser.find_element("id", "count").text == f"{len(expected)} of 20 scores"
    listed = browser.execute_script(
        "return [...document.querySelectorAll('#window .row .id')].map(one => one.title)"
    )
    assert set(listed) == expected
    again = browser.find_element("id", "cell")
    assert again.text == "passed: people pass, judge fail ×"
    again.click()
    assert browser.find_element("id", "count").text == "20 scores"


SAVE = """
    window.saved = [];
    URL.createObjectURL = (blob) => { saved.push(blob.text()); return '#' };
    document.getElementById('aspect').value = '0';
    document.getElementById('aspect').dispatchEvent(new Event('change'));
    document.getElementById('download').click()
"""


def test_listed_scores_are_saved_as_csv(tmp_path, browser):
    """The rows that the filters leave, in their order; no id or system is a formula."""
    rows = [{"id": "=1+1", "output": "a", "system": 'M "1", 2', "human": {"coherence": 1}},
            {"id": "b", "output": "b", "system": "M2", "human": {"coherence": 4}}]  # fmt: skip
    data = write_data(tmp_path / "data.jsonl", rows)
    scores = [score("=1+1", value=5.0), score("b", value=3.5), score("b", "fluency", None)]
    write_report([write_run(tmp_path / "run", scores, data)], tmp_path / "r.html")
    open_file(browser, tmp_path / "r.html")
    browser.execute_script(SAVE)
    assert browser.execute_async_script("saved[0].then(arguments[0])") == (
        "id,system,aspect,outcome,value,people,apart,apart_in\n"
        '\'=1+1,"M ""1"", 2",coherence,scored,5,1,4,points\n'
        "b,M2,coherence,scored,3.5,4,-0.5,points\n"
    )


def test_labels_are_named_in_the_list_and_in_what_is_saved(tmp_path, browser, monkeypatch):
    """As in the text that is opened; a mean between two labels stays a number."""
    tone = {"name": "tone", "labels": {"cold": "", "plain": "", "kind": ""}, "ordered": True}
    monkeypatch.setitem(written.MANIFEST, "method", {"name": "x", "aspects": [tone]})
    rows = [{"id": "a", "output": "a", "human": {"tone": "plain"}},
            {"id": "b", "output": "b", "annotators": {"tone": ["kind", "plain"]}}]  # fmt: skip
    data = write_data(tmp_path / "data.jsonl", rows)
    scores = [Score(id=id_, aspect="tone", value=value, scale=(0.0, 2.0))
              for id_, value in (("a", 2.0), ("b", 0.0))]  # fmt: skip
    write_report([write_run(tmp_path / "run", scores, data)], tmp_path / "r.html")
    open_file(browser, tmp_path / "r.html")
    browser.execute_script(SAVE)
    listed = browser.execute_script(
        "return [...document.querySelectorAll('#window .row')].map(row =>"
        " ['.value', '.people-value'].map(one => row.querySelector(one).textContent))"
    )
    assert sorted(listed) == [["cold", "1.50"], ["kind", "plain"]]
    saved = browser.execute_async_script("saved[0].then(arguments[0])").splitlines()
    assert {",".join(line.split(",")[:6]) for line in saved} == {
        "id,system,aspect,outcome,value,people",
        "a,,tone,scored,kind,plain",
        "b,,tone,scored,cold,1.5",
    }
