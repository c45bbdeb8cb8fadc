"""Requests for rows of docs/methods.md as a server records them, from the command line."""

import json
import re

import pytest

from tests.cli.harness import rows_of, served, textassay
from tests.fitting.made_texts import write
from textassay.demo import data_file


@pytest.fixture
def recorded():
    """A server with what it was asked, in order."""
    asked = []

    def reply(body, draw):
        text = "\n".join(message["content"] for message in body["messages"])
        asked.append(text)
        if "numbered list of" in text:
            return "1. Order: how its parts follow.\n2. Focus: whether it stays with its topic."
        if "on each of these aspects" in text:
            return "Order: 4\nFocus: 2"
        return "1" if "from 0 (worst) to 1 (best)" in text else f"{1 + len(text) % 5}"

    with served(reply=reply) as server:
        yield server, asked


def score(recorded, data, method, *flags):
    server, _ = recorded
    done = textassay(
        "score", data, "--method", method, "--model", "direct/mock", "--api-base", server.url,
        "--progress", "none", *flags,
    )  # fmt: skip
    assert done.code == 0, done.err
    return done


def examples(path, task, count=3):
    lines = data_file(task).read_text().splitlines()[:count]
    return write(path, [json.loads(line) for line in lines])


def test_coascores_relevant_aspects_have_a_scale_of_their_own(recorded, tmp_path):
    """Groundedness is rated on 0 to 1, what is relevant to it on 1 to 5; overall is a noun."""
    data = examples(tmp_path / "d.jsonl", "dialogue", 1)
    score(
        recorded, data, "coascore", "-t", "dialogue", "--aspects", "groundedness,overall",
        "--set", "n_aspects=2", "--out", tmp_path / "run",
    )  # fmt: skip
    asked = "\n".join(recorded[1])
    assert "1. Order (1 to 5): how its parts follow." in asked
    assert "(rated 4 on a scale from 1 to 5)" in asked
    assert "rate the groundedness of the response" in asked
    assert "rate the overall quality of the response" in asked
    scales = {row["aspect"]: row["scale"] for row in rows_of(tmp_path / "run")}
    assert scales["groundedness"] == [0, 1]


def test_corrw_asks_the_direct_evaluator_about_rated_and_judged_examples(recorded, tmp_path):
    """Once each; every score tells the correlations, the run folder the weights."""
    rated = examples(tmp_path / "rated.jsonl", "summarization", 12)
    data = examples(tmp_path / "d.jsonl", "summarization", 3)
    run = tmp_path / "run"
    score(
        recorded, data, "fusion-eval", "-t", "summarization", "--aspects", "coherence",
        "--tools", "rougeL,coverage", "--set", "fusion=corrw", "--set", f"ratings={rated}",
        "--set", "direct=true", "--n", 2, "--out", run, "--no-cache",
    )  # fmt: skip
    asked = [text for text in recorded[1] if "Evaluation Form" in text]
    ids = {re.search(r"Summary:\s+(.+)", text, re.S)[1][:200] for text in asked}
    assert len(ids) == 12  # the three are among the twelve
    weights = json.loads((run / "weights.json").read_text())["aspects"]["coherence"]
    assert set(weights["correlations"]) == {"rougeL", "coverage", "direct"}
    shown = rows_of(run)[0]["evidence"]
    assert {one["text"]: one["correlation"] for one in shown} == weights["correlations"]


def test_a_published_tree_is_rated_and_nothing_is_taken_apart(recorded, tmp_path):
    server, asked = recorded
    done = textassay(
        "fit", data_file("summarization"), "--method", "hd-eval", "-t", "summarization",
        "--model", "direct/mock", "--api-base", server.url, "--tree", "published", "--layers", 2,
        "--aggregator", "ridge", "--aspects", "coherence", "-o", tmp_path / "ev",
        "--progress", "none",
    )  # fmt: skip
    assert done.code == 0, done.err
    criteria = {re.search(r"following metric:\n\n(.+?): ", text)[1] for text in asked}
    assert criteria == {"coherence", "Sentence ordering", "Discourse structure", "Topic focus"}
    unknown = textassay(
        "fit", data_file("summarization"), "--method", "hd-eval", "--model", "direct/mock",
        "--tree", "grown", "-o", tmp_path / "other",
    )  # fmt: skip
    assert unknown.code == 2
    assert "unknown tree 'grown'" in unknown.err


def test_every_flag_of_fit_at_once(recorded, tmp_path):
    """A grown tree, ranked by Shapley values and pruned in spite of noise, with all ablations."""
    rows = [json.loads(line) for line in data_file("summarization").read_text().splitlines()]
    for at, row in enumerate(rows):
        raters = [1 + (at + shift) % 5 for shift in (0, 1)]
        row["annotators"] = {"coherence": raters, "fluency": raters[::-1]}
    server, asked = recorded
    out = tmp_path / "ev"
    done = textassay(
        "fit", write(tmp_path / "rated.jsonl", rows), "--method", "hd-eval", "-t", "summarization",
        "--model", "direct/mock", "--api-base", server.url, "--aspects", "coherence,fluency",
        "--layers", 3, "--children", 2, "--keep", 1, "--saliency", "shapley", "--noise", "prune",
        "--train-fraction", 0.5, "--test-fraction", 0.4, "--split", "row", "--seed", 1,
        "--scale", "coherence=1,5", "--aggregator", "tree-joint", "--aggregator", "linear",
        "--report", "full", "--repeats", 2, "--out", out, "--progress", "none", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    report = json.loads((out / "report.json").read_text())
    # of the third layer's two, the one named like its criterion is dropped
    assert [len(layer["criteria"]) for layer in report["alignment"]] == [2, 4, 1]
    assert report["held_out"]["aspects"]["coherence"]["n"] == 14
    assert set(report["aggregators"]["cross_validated_error"]) == {"tree-joint", "linear"}
    assert report["criteria_efficiency"]
    assert report["ablations"]
    assert report["experts"]
    assert any("numbered list of at most 2 lines" in text for text in asked)


def test_the_profile_paper_sends_texts_bare(recorded, tmp_path):
    data = examples(tmp_path / "d.jsonl", "summarization", 1)
    flags = ("-t", "summarization", "--aspects", "coherence", "--set", "profile=paper")
    score(recorded, data, "hd-eval", *flags, "--out", tmp_path / "run")
    output = json.loads(data.read_text())["output"]
    assert len(recorded[1]) == 4
    for text in recorded[1]:  # nothing but the label stands before it, and nothing behind it
        assert f"\n\nSummary:\n\n{output}\n\n## Evaluation\n\n" in text
