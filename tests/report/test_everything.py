"""Pages from what the commands write: every section where there are data for it."""

import html
import json
import re
from types import SimpleNamespace

import pytest

from tests.cli.harness import served, textassay
from tests.fitting.made_texts import Planted
from tests.report.runs import words_of, write_data
from textassay.report.rendering import figure

SECTIONS = ("overview", "scores", "agreement", "compared", "calibration", "estimates", "alt-test",
            "method", "texts")  # fmt: skip
# one worker makes what all of these tests read
pytestmark = pytest.mark.xdist_group("everything")
COMMON = ("--task", "summarization", "--model", "direct/mock", "--progress", "none")


def done(*arguments):
    """Run a command that must succeed."""
    return textassay(*arguments).ok()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A fitted evaluator's run, another judge's run, a calibration, and a page of all of them."""
    folder, planted = tmp_path_factory.mktemp("everything"), Planted(60, per_group=3)
    for i, row in enumerate(planted.rows):
        row["system"] = f"M{i % 3}"
        row["annotators"] = {
            name: [min(5, max(1, round(value + shift))) for shift in (-0.4, 0, 0.4)]
            for name, value in row["human"].items()
        }
    data = write_data(folder / "data.jsonl", planted.rows)

    def reply(body, draw):
        text = "\n".join(message["content"] for message in body["messages"])
        if "on the following metric" in text or "I would like to to evaluate" in text:
            return planted.answer(SimpleNamespace(text=text))
        return f"Rating: {1 + len(text) % 5}"

    with served(reply=reply) as server:
        common = (*COMMON, "--api-base", server.url)
        done("fit", data, "--method", "hd-eval", "--aggregator", "ridge", "--keep", 2, *common,
             "--out", folder / "ev")  # fmt: skip
        done("score", data, "--method", folder / "ev", *common[2:], "--out", folder / "a")
        done("score", data, "--method", "llm-score", "--aspects", "coherence,fluency", *common,
             "--out", folder / "b")  # fmt: skip
    done("calibrate", folder / "a", data, "--out", folder / "cal")
    done("report", folder / "a", folder / "b", "--human", data, "--calibration", folder / "cal",
         "--out", folder / "all.html")  # fmt: skip
    return folder


def test_every_section_is_there(made):
    """Two runs, ratings of several people and a calibration: no section is absent."""
    page = (made / "all.html").read_text("utf-8")
    found = re.findall(r'<section id="([^"]+)"', page)
    assert [name for name in SECTIONS if name not in found] == []
    assert page.count("<figure>") == 2 + 4, "calibrations, and judge against people of both runs"
    assert "What moved the score" in page
    assert "flips" in page


def test_a_fitted_tree_has_scores_and_importance(made):
    """Every criterion with the mean of its ratings, and how much the evaluator relies on it."""
    page = (made / "all.html").read_text("utf-8")
    text = words_of(page)
    report = json.loads((made / "ev" / "report.json").read_text())
    importance, criteria = report["importance"]["permutation"], report["criteria"]
    assert all(one["definition"] for one in criteria.values())
    ratings = {}
    for line in (made / "a" / "scores.jsonl").read_text().splitlines():
        score = json.loads(line)
        for piece in score["evidence"]:
            if piece.get("value") is not None:
                ratings.setdefault(piece["text"], {})[score["id"]] = piece["value"]
    assert len(importance) > 4
    assert "Criteria of coherence" in text
    for each in importance:
        given = ratings[each["feature"]].values()
        name = each["feature"].split("/")[-1].replace("-", " ")
        mean = figure(sum(given) / len(given), 2)
        meant = criteria.get(each["feature"], {}).get("definition", "")
        row = f" {name} {meant} {len(given)} {mean} {figure(each['mean'], 4)} "
        assert " ".join(row.split()) in " ".join(html.unescape(text).split()), each["feature"]


def test_sections_without_data_are_absent(made, tmp_path):
    """One run without ratings, second run and calibration: none of their sections, no heading."""
    rows = [json.loads(line) for line in (made / "data.jsonl").read_text().splitlines()]
    plain = [{name: row[name] for name in ("id", "output", "source")} for row in rows]
    data = write_data(tmp_path / "plain.jsonl", plain)
    done("report", made / "b", "--human", data, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert re.findall(r'<section id="([^"]+)"', page) == ["overview", "scores", "method", "texts"]
    for heading in ("Agreement with people", "Calibration", "Criteria", "The plan", "stress"):
        assert heading not in words_of(page)


def test_a_stress_run_shows_its_verdicts(tmp_path, made):
    """Every row of `stress.json`, as the command wrote it."""
    with served() as server:
        textassay("stress", made / "data.jsonl", "--method", "llm-score", "--aspects", "coherence",
                  *COMMON, "--api-base", server.url, "--limit", 12, "--tests", "length",
                  "--out", tmp_path / "run")  # fmt: skip
    tests = json.loads((tmp_path / "run" / "stress.json").read_text())["tests"]
    done("report", tmp_path / "run", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    section = page[page.index('<section id="stress"') :]
    text = words_of(section[: section.index("</section>")])
    assert len(tests) >= 3
    assert "Does the judge pass the stress tests?" in page
    for row in tests:
        head = f"{row['test']} {row['family']} {row['aspect']} {row['expects']} {row['n']}"
        assert f"{head} {row['groups']} {figure(row['shift'])}" in text
        assert f"{row['moved']:.0%} {row['flip_rate']:.0%} {row['verdict']}" in text
