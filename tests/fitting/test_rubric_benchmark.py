"""The judge of `benchmarks.rubric_real_texts` on bundled examples: it answers by the record and
proposes by what a prompt shows, and the commands work against it."""

import json

import pytest

from benchmarks.rubric_pool import (
    NOISE,
    PLANTED,
    RecordedJudge,
    aspect_of,
    mentions_date,
    noise,
    of_texts,
    recorded,
)
from tests.cli.harness import served, textassay
from textassay.demo import data_file


@pytest.fixture
def rows():
    """Bundled summaries with a recorded rating from 1 to 3, and other ratings by people."""
    lines = data_file("summarization").read_text(encoding="utf-8").splitlines()
    found = []
    for at, line in enumerate(lines[:24]):
        row = {**json.loads(line), "annotators": None}
        rating = 1 + at % 3
        found.append({**row, "group": f"g{at // 2}", "human": {"coherence": 1.0 + (at // 2) % 3},
                      "metrics": {"judge/coherence": rating}})  # fmt: skip
    return found


@pytest.fixture
def judge(rows):
    own = {"coherence": recorded("", "", "judge/coherence", (1.0, 3.0)).rate}
    return RecordedJudge(rows, own, [*of_texts(), *noise()])


def test_it_rates_and_proposes_from_the_prompt_alone_as_the_commands_ask(rows, judge, tmp_path):
    data, bodies = tmp_path / "data.jsonl", []
    data.write_text("".join(json.dumps({**row, "metrics": {}}) + "\n" for row in rows))
    asked = ["--progress", "none", "--model", "direct/recorded", "--api-base"]
    with served(reply=judge) as server:
        server.listener = bodies.append
        fit = textassay(
            "fit", data, "--method", "rubric", "--task", "summarization", "--out",
            tmp_path / "ev", "--rounds", "1", "--aggregator", "ridge", *asked, server.url,
        )  # fmt: skip
        assert fit.code == 0, fit.err
        run = tmp_path / "run"
        score = textassay(
            "score", data, "--method", tmp_path / "ev", "--out", run, *asked, server.url
        )
        assert score.code == 0, score.err
    by_id = {row["id"]: row for row in rows}
    own = (tmp_path / "ev" / "layers" / "0" / "scores.jsonl").read_text().splitlines()
    for rated in map(json.loads, own):
        assert rated["value"] == 1 + 2 * (by_id[rated["id"]]["metrics"]["judge/coherence"] - 1)
    [asking] = [b for b in bodies if "Propose criteria" in b["messages"][-1]["content"]]
    prompt = asking["messages"][-1]["content"]
    assert aspect_of(prompt) == "coherence"
    [first] = json.loads((tmp_path / "ev" / "report.json").read_text())["rubric"]
    names = {row["name"] for row in first["criteria"]}
    assert len(names) == 4
    assert names <= set(judge.pool)
    # those that were tried are not proposed again
    known = "\n".join(f"- {name}: whatever." for name in sorted(names))
    again = judge._propose(
        f"{prompt}\nThese criteria were tried before; propose others:\n{known}\n"
    )
    assert not names & {line.split(". ", 1)[1].split(":")[0] for line in again.splitlines()}


def test_criteria_that_go_with_the_shown_ratings_are_proposed_first(rows, judge):
    dated = [row for row in rows if mentions_date(row)][:3]
    others = [row for row in rows if not mentions_date(row)][:3]
    assert len(dated) == len(others) == 3
    shown = "".join(
        f"\nText {at}, rated {5 if row in dated else 1}\n\nSource:\n\n<source-1a>\n"
        f"{row['source']}\n</source-1a>\n\nSummary:\n\n<output-1a>\n{row['output']}\n</output-1a>\n"
        for at, row in enumerate([*dated, *others], 1)
    )
    told = judge._propose(f"{shown}\nAnswer with a numbered list of at most 1 lines.")
    assert told.startswith(f"1. {PLANTED}: ")


def test_noise_is_the_same_each_time_and_unknown_texts_are_refused(rows, judge):
    drawn = {one.name: [one.rate(row) for row in rows] for one in noise()}
    assert set(drawn) == set(NOISE)
    assert drawn == {one.name: [one.rate(row) for row in rows] for one in noise()}
    assert {value for values in drawn.values() for value in values} == {1, 2, 3, 4, 5}
    texts = "<source-1>\nx\n</source-1>\n<output-1>\ny\n</output-1>"
    prompt = f"on the following metric:\n\nLength: l\n{texts}"
    with pytest.raises(KeyError):
        judge({"messages": [{"content": prompt}]}, 0)
