"""`textassay fit --method hd-eval` against a real server, and the folder applied."""

import hashlib
import re
import shlex
from types import SimpleNamespace

import pytest

from tests.cli.harness import read_json, read_lines, served, textassay
from tests.fitting.made_texts import Planted, write
from textassay.demo import data_file
from textassay.runtime.data.dataset import Examples


@pytest.fixture
def planted():
    return Planted(60)


def prompt_of(body):
    return "\n".join(message["content"] for message in body["messages"])


@pytest.fixture
def judge(planted):
    def reply(body, draw):
        return planted.answer(SimpleNamespace(text=prompt_of(body)))

    with served(reply=reply) as server:
        yield server


def fit(data, out, judge, *more, aggregator="ridge"):
    model = ("--method", "hd-eval", "--model", "direct/mock", "--api-base", judge.url)
    learning = ("--aggregator", aggregator, "--keep", 2, "--task", "summarization")
    where = () if out is None else ("--out", out)
    return textassay("fit", data, *model, *learning, "--progress", "none", *where, *more)


def test_a_fit_and_its_use_from_the_command_line(planted, judge, tmp_path):
    data, ev = write(tmp_path / "data.jsonl", planted.rows), tmp_path / "ev"
    assert "1084" in fit(data, None, judge, "--dry-run", "--price", "1,2").ok().out
    assert judge.counters.requests == 0
    done = fit(data, ev, judge).ok()
    assert "layer 3: 8 criteria" in done.out
    assert judge.counters.requests == 60 * 18 + 4
    assert f"textassay score DATA --method {ev} --model direct/mock" in done.err
    kept = read_json(ev / "evaluator.json")
    assert (kept["format"], kept["kind"], kept["model"]) == (1, "hd-eval", "direct/mock")
    flags = ("--method", ev, "--api-base", judge.url, "--limit", 5, "--progress", "none")
    done = textassay("score", data, *flags, "--model", "direct/mock", "--out", tmp_path / "run")
    assert done.ok().err == ""
    other = ("score", data, *flags, "--model", "direct/other", "--out", tmp_path / "other")
    textassay(*other).ends(2, "changed from 'direct/mock' to 'direct/other'")
    textassay(*other, "--set", "allow_change=true").ok()
    drawn = textassay("graph", ev).ok()
    assert re.findall(r'n\d+\["(\w+)"\]', drawn.out) == ["criteria", "ratings", "scores"]
    textassay("graph", ev, "--task", "dialogue").ends(2, "leave out --task dialogue")
    textassay("show", ev).ends(2, f"textassay report {ev} --out FILE")


def test_the_command_that_applies_a_fit_works_as_printed(planted, judge, tmp_path):
    """With blanks in its names, the judge's settings, the field map and marks of missing values."""
    rows = [{"the text": row["output"], **row} for row in planted.rows]
    for row in rows:
        del row["output"]
    data, ev = write(tmp_path / "data.jsonl", rows), tmp_path / "my evaluator"
    extra = ("--extra", 'service_tier="flex"', "--missing", "N/A", "--field", "the text=output")
    done = fit(data, ev, judge, "--layers", 1, "--effort", "low", "--set", "top_p=0.9", *extra).ok()
    _, *words = shlex.split(done.err.rpartition("apply it with: ")[2])
    words[words.index("DATA")], words[words.index("RUN")] = str(data), str(tmp_path / "run")
    assert textassay(*words, "--limit", 3).ok().code == 0
    at = words.index("--effort")
    textassay(*words[:at], *words[at + 2 :]).ends(2, "effort changed from 'low' to None")
    words[at + 1] = "high"
    textassay(*words).ends(2, "effort changed from 'low' to 'high'")


def test_a_spent_budget_stops_resumably(planted, judge, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    done = fit(data, tmp_path / "ev", judge, "--price", "100,100", "--max-cost", "5")
    assert done.code == 3
    assert "repeat the same command to continue" in done.err
    before = judge.counters.requests
    assert 0 < before < 60 * 18
    fit(data, tmp_path / "ev", judge).ok()
    assert judge.counters.requests == 60 * 18 + 4


@pytest.fixture
def contrary(planted):
    """A judge whose ratings fall as quality rises, which weights of at least 0 cannot use."""

    def reply(body, draw):
        said = planted.answer(SimpleNamespace(text=prompt_of(body)))
        return f"{6 - int(said)}" if said.isdecimal() else said

    with served(reply=reply) as server:
        yield server


def test_ratings_that_could_not_be_learnt_from_are_kept(planted, contrary, tmp_path):
    """They serve another aggregator, and a fit with more rows, which asks for the new ones only."""
    few, data = (write(tmp_path / f"{n}.jsonl", planted.rows[:n]) for n in (48, 60))
    out, calls = tmp_path / "ev", contrary.counters
    done = fit(few, out, contrary, aggregator="nnls")
    assert done.code == 3
    assert "stopped: aspect 'coherence': nnls gives every feature the weight 0" in done.err
    assert f"ratings are kept in {out / 'layers'}" in done.err.replace("\n", "")
    assert "another aggregator" in done.err
    assert (calls.requests, (out / "evaluator.json").exists()) == (48 * 2, False)
    fit(data, tmp_path / "all", contrary, "--cache", out / "answers").ok()
    assert calls.requests == 60 * 18 + 4
    fit(few, out, contrary, "--cache", out / "answers").ok()
    assert read_json(out / "report.json")["aggregators"]["chosen"] == "ridge"


def test_a_judge_that_always_says_the_same_is_reported(planted, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    with served(reply=lambda body, draw: "3") as server:
        done = fit(data, tmp_path / "ev", server)
    assert done.code == 3
    assert "no feature varies over the training rows" in done.err
    assert "ratings are kept" in done.err


def test_a_judge_that_knows_the_answer_is_leakage(planted, judge, tmp_path):
    for i, row in enumerate(planted.rows):
        row["human"]["fluency"] = planted.rating("fluency", i)
    fit(write(tmp_path / "data.jsonl", planted.rows), tmp_path / "ev", judge).ends(
        3, "leakage: 'fluency' is as good as the ratings of 'fluency'", "ratings are kept"
    )


BY_MODEL = ("--method", "hd-eval", "--model", "direct/mock")
RECORDED = ("--features", "*")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--method", "hd-eval"), "--model MODEL"),
        (("--method", "g-eval", "--model", "x/y"), "known: hd-eval"),
        ((*BY_MODEL, "--keep", "0"), "--keep: Input should be greater than or equal to 1"),
        ((*BY_MODEL, "--set", "depth=3"), "option depth cannot be combined with fit"),
        ((*BY_MODEL, "--set", "tree=dialogue"), "itself; a tree is named by --tree,"),
        ((*BY_MODEL, *RECORDED), "--features and --scores from recorded"),
        ((*BY_MODEL, "--limit", "-1"), "--limit: Input should be greater than or equal to 1"),
        ((*BY_MODEL, "--tree", "grown"), "unknown tree 'grown'"),
        ((*RECORDED, "--seed", "-1"), "--seed: Input should be greater than or equal to 0"),
        ((*RECORDED, "--repeats", "3"), "--repeats is for the curves of --report full"),
    ],
)
def test_what_cannot_be_is_refused_in_the_words_of_the_command(tmp_path, flags, message):
    textassay("fit", data_file("summarization"), *flags, "--out", tmp_path / "ev").ends(2, message)
    assert not (tmp_path / "ev").exists()


QUICK = ("--aggregator", "ridge")
"""What of all that `auto` weighs is fitted soonest."""


def judge_of(examples):
    """Return a judge that names four parts of any criterion, and rates near the human mean."""

    def reply(body, draw):
        text = prompt_of(body)
        if of := re.search(r"I would like to to evaluate its (.+?): ", text):
            return "\n".join(f"{k}. {of[1]} {k}: whether part {k} is good." for k in range(1, 5))
        judged = max((e for e in examples if e.output in text), key=lambda e: len(e.output))
        mean = sum(judged.human.values()) / len(judged.human)
        noise = hashlib.sha256(text.encode()).digest()[0] % 3 - 1
        return str(min(5, max(1, round(mean) + noise)))

    return reply


@pytest.mark.parametrize(
    ("task", "quick"),
    [("summarization", ()), ("dialogue", QUICK), ("data-to-text", QUICK)],
)
def test_the_fit_that_the_demo_advises_succeeds(task, quick, tmp_path):
    with served(reply=judge_of(list(Examples(data_file(task))))) as server:
        flags = ("--method", "hd-eval", "-t", task, "-m", "direct/mock", "--api-base", server.url)
        out = ("-o", tmp_path / "ev", "--layers", "2")
        textassay("fit", data_file(task), *flags, *out, *quick).ok()
        assert (tmp_path / "ev" / "evaluator.json").exists()


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_too_few_groups_are_refused_before_anything_is_asked(planted, judge, tmp_path, dry):
    rows = [{**row, "group": f"g{i % 2}"} for i, row in enumerate(planted.rows[:12])]
    data = write(tmp_path / "data.jsonl", rows)
    fit(data, tmp_path / "ev", judge, *dry, aggregator="auto").ends(
        2, "rows to learn from, in 1 groups, are not enough", "--aggregator avg"
    )
    assert judge.counters.requests == 0
    assert not (tmp_path / "ev").exists()


def test_a_published_tree_is_rated_and_nothing_is_taken_apart(recorded, tmp_path):
    server, asked = recorded
    rows = read_lines(data_file("summarization"))
    data = write(tmp_path / "data.jsonl", [{"my text": row.pop("output"), **row} for row in rows])
    address = server.url.replace("http://", "http://user:secret@")
    done = textassay(
        "fit", data, *BY_MODEL, "-t", "summarization", "--tree", "published", "--api-base", address,
        "--layers", 2, "--aggregator", "ridge", "--aspects", "coherence", "-o", tmp_path / "ev",
        "--progress", "none", "--field", "my text=output", "--field", "human=human",
    ).ok()  # fmt: skip
    # the next command knows where the model is and which column is judged, and no password
    assert f" --api-base {server.url} --field 'my text=output' --out RUN" in done.err
    assert "secret" not in done.err
    criteria = {re.search(r"following metric:\n\n(.+?): ", text)[1] for text in asked}
    assert criteria == {"coherence", "Sentence ordering", "Discourse structure", "Topic focus"}


def test_every_flag_of_fit_at_once(recorded, tmp_path):
    """A grown tree, ranked by Shapley values and pruned in spite of noise, with all ablations."""
    rows = read_lines(data_file("summarization"))
    for at, row in enumerate(rows):
        raters = [1 + (at + shift) % 5 for shift in (0, 1)]
        row["annotators"] = {"coherence": raters, "fluency": raters[::-1]}
    server, asked = recorded
    out = tmp_path / "ev"
    textassay(
        "fit", write(tmp_path / "rated.jsonl", rows), *BY_MODEL, "-t", "summarization",
        "--api-base", server.url, "--aspects", "coherence,fluency",
        "--layers", 3, "--children", 2, "--keep", 1, "--saliency", "shapley", "--noise", "prune",
        "--train-fraction", 0.5, "--test-fraction", 0.4, "--split", "row", "--seed", 1,
        "--scale", "coherence=1,5", "--aggregator", "tree-joint", "--aggregator", "linear",
        "--report", "full", "--repeats", 2, "--out", out, "--progress", "none", "--json",
    ).ok()  # fmt: skip
    report = read_json(out / "report.json")
    # of the third layer's two, the one named like its criterion is dropped
    assert [len(layer["criteria"]) for layer in report["alignment"]] == [2, 4, 1]
    assert report["held_out"]["aspects"]["coherence"]["n"] == 14
    assert set(report["aggregators"]["cross_validated_error"]) == {"tree-joint", "linear"}
    assert all(report[part] for part in ("criteria_efficiency", "ablations", "experts"))
    assert any("numbered list of at most 2 lines" in text for text in asked)
