"""Bad input of the commands from scores to decisions, beside tests/cli/test_decisions.py."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import textassay, write_examples

ROWS = [(f"g{at // 3}", f"{at}") for at in range(60)]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def data(tmp_path):
    """20 sources of three texts each, all rated by two raters who differ."""
    return write(
        tmp_path / "data.jsonl",
        [
            {"id": id_, "group": group, "output": "w " * (3 + int(id_) % 4),
             "annotators": {"tone": [1 + int(id_) % 5, 1 + (int(id_) + int(id_) // 7) % 5]}}
            for group, id_ in ROWS
        ],
    )  # fmt: skip


def scores(path, value=lambda at: 1 + at % 5, **fields):
    return write(
        path,
        [
            {"id": id_, "aspect": "tone", "value": value(int(id_)), "scale": [1, 5],
             "signature": "judge-1", **fields}
            for _, id_ in ROWS
        ],
    )  # fmt: skip


def said(done):
    return " ".join(done.err.split())


def test_compare_refuses_a_file_of_two_judges(tmp_path, data):
    """Its mean would be of neither."""
    one = scores(tmp_path / "one.jsonl")
    rows = [json.loads(line) for line in one.read_text().splitlines()]
    mixed = write(
        tmp_path / "mixed.jsonl",
        [{**row, "signature": f"judge-{at % 2}"} for at, row in enumerate(rows)],
    )
    for order, which in (((mixed, one), "first"), ((one, mixed), "second")):
        done = textassay("compare", *order, data)
        assert (done.code, done.out) == (2, "")
        assert "of 'tone' come from 2 different judges ('judge-0'; 'judge-1')" in said(done)
        assert f"split them into one file per judge (those of the {which} run)" in said(done)


def test_compare_subtracts_nothing_across_scales(tmp_path, data):
    """A 4 of 5 minus a .8 of 1 is no number; agreement with people is still compared."""
    one = scores(tmp_path / "one.jsonl")
    other = scores(
        tmp_path / "other.jsonl", lambda at: (at % 5) / 4, scale=[0, 1], signature="judge-2"
    )
    done = textassay("compare", one, other, data, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    row = found["rows"][0]
    empty = ("difference", "low", "high", "p", "p_holm", "wins", "ties", "losses")
    assert [row[name] for name in empty] == [None] * len(empty)
    assert (row["a"], row["b"]) == (3, 0.5)
    assert found["agreement"][0]["difference"] == pytest.approx(0)
    assert "scores from 1 to 5, the other from 0 to 1, so a - b means nothing" in said(done)
    gated = textassay("compare", one, other, data, "--fail-below", "0")
    assert (gated.code, "inconclusive" in said(gated)) == (4, True)


def test_compare_says_why_there_is_no_agreement(tmp_path, data):
    """Data without ratings, a constant judge, constant people."""
    one, other = scores(tmp_path / "one.jsonl"), scores(tmp_path / "two.jsonl", lambda at: 3)
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    bare = write(tmp_path / "bare.jsonl", [{**row, "annotators": {}} for row in rows])
    assert "no ratings in the data" in said(textassay("compare", one, one, bare))
    assert "agreement is undefined" in said(textassay("compare", one, other, data))
    same = write(tmp_path / "same.jsonl", [{**r, "annotators": {"tone": [3, 3]}} for r in rows])
    assert "agreement is undefined" in said(textassay("compare", one, one, same))
    assert "undefined" not in said(textassay("compare", one, one, data))


def test_meta_says_why_raters_have_no_agreement(tmp_path, data):
    """One rater; ratings that never differ; no single ratings at all."""
    one = scores(tmp_path / "one.jsonl")
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    for annotators, words in (
        ({"tone": [3]}, "only one rater"),
        ({"tone": [3, 3]}, "alpha is undefined"),
    ):
        file = write(tmp_path / "d.jsonl", [{**row, "annotators": annotators} for row in rows])
        done = textassay("meta", one, file, "--raters")
        assert (done.code, words in said(done)) == (0, True)
    means = [
        {k: v for k, v in row.items() if k != "annotators"} | {"human": {"tone": 3}} for row in rows
    ]
    done = textassay("meta", one, write(tmp_path / "m.jsonl", means), "--raters")
    assert (done.code, done.out, "no single ratings" in said(done)) == (2, "", True)
    assert "alpha" not in said(textassay("meta", one, data, "--raters"))


def test_meta_refuses_a_file_of_two_judges(tmp_path, data):
    """As the other commands do; a line that was replaced since is of no judge."""
    one = scores(tmp_path / "one.jsonl")
    rows = [json.loads(line) for line in one.read_text().splitlines()]
    mixed = [{**row, "signature": f"judge-{at % 2}"} for at, row in enumerate(rows)]
    done = textassay("meta", write(tmp_path / "mixed.jsonl", mixed), data)
    assert (done.code, done.out) == (2, "")
    assert "the scores of 'tone' come from 2 different judges ('judge-0'; 'judge-1')" in said(done)
    assert "split them into one file per judge" in said(done)
    again = textassay("meta", write(tmp_path / "again.jsonl", mixed + rows), data, "--json")
    assert again.code == 0, again.err
    assert again.out == textassay("meta", one, data, "--json").out


@pytest.mark.parametrize("change", [{"output": None}, {"output": ...}])
def test_meta_needs_no_texts(tmp_path, data, change):
    """Ids and ratings suffice, here one row per rater: nothing else is looked at."""
    one = scores(tmp_path / "one.jsonl")
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    bare = [{k: v for k, v in {**row, **change}.items() if v is not ...} for row in rows]
    expected = textassay("meta", one, data, "--json").out
    assert textassay("meta", one, write(tmp_path / "b.jsonl", bare), "--json").out == expected
    by_rater = [
        {k: v for k, v in row.items() if k != "annotators"} | {"rater": name, "human.tone": rating}
        for row in bare
        for name, rating in zip("xy", row["annotators"]["tone"], strict=True)
    ]
    done = textassay("meta", one, write(tmp_path / "long.jsonl", by_rater), "--json")
    assert (done.code, done.out) == (0, expected), done.err


def test_label_plan_says_that_everything_is_rated(tmp_path, data):
    """The half-width is the ratings' own, never 0, and nothing is left to draw."""
    one = scores(tmp_path / "one.jsonl", lambda at: 1 + at % 5 + at % 3 / 10)
    plan = ("label-plan", one, data, "--half-width", "0.01")
    done = textassay(*plan)
    assert done.code == 0, done.err
    assert "all 60 rows are rated, so nothing is left to draw" in said(done)
    assert "all rated" in done.out
    row = json.loads(textassay(*plan, "--json").out)["rows"][0]
    assert row["half_width"] == row["with_all"] > 0.1
    assert row["more"] is None
    none = textassay(*plan, "--next", "5", "-o", tmp_path / "next.jsonl")
    assert (none.code, "0 scored rows are unrated" in said(none)) == (2, True)
    assert not (tmp_path / "next.jsonl").exists()


@pytest.fixture
def profile(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "profile.toml").write_text(
        'format = 1\nask = "chat"\n\n[prompts]\nllm_score = "rate.jinja"\n'
    )
    (folder / "rate.jinja").write_text("Rate {{ bare.output }} from 1 to 5. Score:")
    return folder


def ask(server, profile):
    return (
        "--method", "llm-score", "-t", "summarization", "-a", "coherence", "-m", "direct/mock",
        "--api-base", server.url, "--set", f"profile={profile}", "--progress", "none",
    )  # fmt: skip


def test_prompts_that_have_changed_are_refused_unasked(tmp_path, server, profile):
    """One word of a prompt: no calibration of before fits, and no run is resumed or compared."""
    examples = write_examples(tmp_path / "examples.jsonl", 40)
    run, cal = tmp_path / "run", tmp_path / "cal"
    assert textassay("score", examples, *ask(server, profile), "-o", run).code == 0
    rows = [json.loads(line) for line in examples.read_text().splitlines()]
    rated = write(
        tmp_path / "rated.jsonl",
        [{**row, "human": {"coherence": 1 + at % 5}} for at, row in enumerate(rows)],
    )
    assert textassay("calibrate", run, rated, "-o", cal).code == 0
    stress, stressed = tmp_path / "stress", ("--tests", "bold", "--limit", "6")
    done = textassay("stress", examples, *ask(server, profile), "-o", stress, *stressed)
    assert (stress / "stress.json").is_file(), done.err
    # a file of another name, since this process has read the first one
    (profile / "anew.jinja").write_text("Please rate {{ bare.output }} from 1 to 5. Score:")
    prompts = (profile / "profile.toml").read_text()
    (profile / "profile.toml").write_text(prompts.replace("rate.jinja", "anew.jinja"))
    before, again = server.counters.requests, ("--api-base", server.url, "--progress", "none")
    done = textassay(
        "score", examples, *ask(server, profile), "-o", tmp_path / "no", "--calibration", cal
    )
    assert (done.code, "another judge, prompt or setting" in said(done)) == (2, True)
    for folder in (run, stress):
        done = textassay("resume", folder, *again)
        assert done.code == 2, done.out
        assert "prompt" in said(done)
    assert server.counters.requests == before
    later = tmp_path / "later"
    assert textassay("score", examples, *ask(server, profile), "-o", later).code == 0
    done = textassay("calibrate", later, "--apply", cal, "-o", tmp_path / "applied")
    assert (done.code, (tmp_path / "applied").exists()) == (2, False)
    assert "the runs are of two judges or settings" in said(textassay("compare", run, later))
