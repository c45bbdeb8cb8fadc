"""Answers that cannot be used, trees that are none, odd texts, models that lack something: typed,
the answer kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import textassay as package
from tests.cli.harness import Outcome, rows_of, served, textassay
from textassay.methods import METHODS
from textassay.methods.library import tasks
from textassay.tools import tool

TEXT = {
    "id": "x",
    "output": "The cat sat. It slept.",
    "source": "A cat sat on a mat and slept.",
    "references": ["A cat sat down and slept."],
}
PROSE = "It depends on order and on tone, and nobody can tell them apart."
CHINESE = "1. 順序：句子的順序是否合理。\n2. 語氣：語氣是否一致。\n3. 重點：重點是否突出。"
PARTS = (
    "1. Order: whether the order helps.\n2. Tone: whether the tone is even.\n"
    "3. Focus: whether it keeps to the point."
)


def kind_of(prompt: str) -> str:
    """What a prompt of ours asks for."""
    signs = {
        "list": "numbered list of",
        "plan": "names of assistant evaluators",
        "joint": "one line for each aspect",
        "fusion": "Any Floating Value",
        "steps": "Write the evaluation steps",
    }
    return next((kind for kind, sign in signs.items() if sign in prompt), "rating")


GOOD = {
    "list": PARTS,
    "plan": "- Fluency: chrf\nSteps:\n1. Read.\n2. Rate.",
    "joint": "Order: 4\nTone: 2\nFocus: 3",
    "fusion": "Fluency\nScore: 4 Explanation: Good.",
    "steps": "1. Read.\n2. Rate.",
    "rating": "Score: 4",
}


def judged(
    tmp_path: Path, method: str, said: dict[str, str], *flags: object
) -> tuple[Outcome, dict[str, Any], int]:
    """Have one text judged for its fluency; return what came of it and how many calls that took."""

    def reply(body: dict[str, Any], draw: int) -> str:
        return {**GOOD, **said}[kind_of(body["messages"][0]["content"])]

    tmp_path.mkdir(exist_ok=True)
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(TEXT), encoding="utf-8")
    with served(reply=reply) as server:
        done = textassay(
            "score", data, "--method", method, "--task", "summarization", "--aspects", "fluency",
            "--model", "direct/mock", "--api-base", server.url, "--out", tmp_path / "run",
            "--progress", "none", *flags,
        )  # fmt: skip
        [row] = rows_of(tmp_path / "run")
        return done, row, server.counters.requests


def shown(row: dict[str, Any]) -> str:
    """All that a score tells of answers."""
    return json.dumps([row["evidence"], row["error"], row["explanation"]], ensure_ascii=False)


LISTS = {
    "too few": ("1. Order: whether the order helps.", None),
    "too many": (PARTS + "\n4. Wit: whether it is witty.", "surplus"),
    "duplicate": (PARTS.replace("Tone:", "ORDER:"), "duplicate"),
    "empty": (PARTS.replace("whether the tone is even.", ""), "no definition"),
    "itself": (PARTS.replace("Tone:", "Fluency:"), "the criterion itself"),
    "another language": (CHINESE, None),
}
GROWN = ("--set", "tree=model", "--set", "children=3")


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("method", ["hd-eval", "coascore"])
def test_sub_criteria_that_are_too_few_too_many_repeated_or_empty(tmp_path, method, name):
    """What is usable is used, what is not stands in the evidence with what is wrong with it."""
    said, problem = LISTS[name]
    joint = "Order: 4\nTone: 2\nFocus: 3\n順序: 4\n語氣: 4\n重點: 4"
    flags = GROWN if method == "hd-eval" else ("--set", "n_aspects=3")
    done, row, _ = judged(tmp_path, method, {"list": said, "joint": joint}, *flags)
    assert (done.code, row["outcome"]) == (0, "scored")
    problems = [item["problem"] for item in row["evidence"] if "problem" in item]
    if problem is not None:
        assert problem in problems
    if method == "coascore" and name in ("too few", "duplicate", "empty", "itself"):
        assert any("of 3 usable" in problem for problem in problems)


@pytest.mark.parametrize("said", [PROSE, "", "{}", "Leider weiß ich keine Kriterien."])
@pytest.mark.parametrize("method", ["hd-eval", "coascore"])
def test_prose_in_place_of_a_list(tmp_path, method, said):
    """Asked for once more, then an error that quotes it; no score stands on nothing."""
    flags = GROWN if method == "hd-eval" else ("--set", "n_aspects=3")
    done, row, calls = judged(tmp_path, method, {"list": said}, *flags)
    assert (done.code, calls) == (1, 2)
    assert (row["value"], row["outcome"], row["error"]["type"]) == (
        None,
        "error",
        "MalformedResponse",
    )
    assert repr(said) in row["error"]["message"]


PLANS = {
    "another language": "Zuerst lese ich den Artikel, dann bewerte ich die Zusammenfassung.",
    "another language, in form": "Bewerter:\n- Sprachfluss: chrf\nSchritte:\n1. Lesen.\n"
    "2. Bewerten.",
    "unknown tool": "- Fluency: grammar_check\nSteps:\n1. Read.",
    "no steps": "- Fluency: chrf",
    "nothing": "",
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_that_cannot_be_used(tmp_path, name):
    """Asked for once more, then refused for every text, with the plan as the model wrote it."""
    done, row, calls = judged(
        tmp_path, "fusion-eval", {"plan": PLANS[name]}, "--tools", "chrf,length"
    )
    assert (done.code, calls) == (1, 2)
    assert (row["value"], row["outcome"], row["error"]["type"]) == (None, "invalid", "PlanRefused")
    assert row["evidence"] == [{"text": PLANS[name]}]


def test_ratings_that_nobody_asked_for(tmp_path):
    """They stand in the evidence, shift nothing, and make no score where they are all there is."""
    extra = {
        "joint": GOOD["joint"] + "\nHumour: 1",
        "fusion": "Humour\nScore: 1\n\n" + GOOD["fusion"],
    }
    for method, flags in (
        ("coascore", ("--set", "n_aspects=3")),
        ("fusion-eval", ("--tools", "chrf")),
    ):
        done, row, _ = judged(tmp_path / f"{method}-1", method, extra, *flags)
        assert (done.code, row["value"]) == (0, 4)
        assert "it was not requested" in shown(row)
        assert "Humour" in shown(row)
        only = {"joint": "Humour: 1\nWit: 5", "fusion": "Humour\nScore: 1\n\nWit\nScore: 5"}
        done, row, _ = judged(tmp_path / f"{method}-2", method, only, *flags)
        assert (done.code, row["value"], row["outcome"]) == (1, None, "invalid")
        assert "Wit" in shown(row)


RATING = {"hd-eval": ("--set", "tree=model"), "coascore": (), "fusion-eval": ("--tools", "chrf")}


@pytest.mark.parametrize("method", ["llm-score", "llm-score-cot", "g-eval", *RATING])
@pytest.mark.parametrize(
    ("said", "outcome", "kind"),
    [
        ("A fine text, all in all.", "invalid", "NoScoreFound"),
        ("Eine Note vergebe ich nicht gern.", "invalid", "NoScoreFound"),
        ("Score: 17", "invalid", "OffScale"),
        ("I'm sorry, but I cannot rate this text.", "abstained", "Declined"),
    ],
)
def test_answers_without_a_rating(tmp_path, method, said, outcome, kind):
    """No number, in any method; what the judge said is kept."""
    flags = (*RATING.get(method, ()), *(("--n", 2) if method == "g-eval" else ()))
    done, row, _ = judged(tmp_path, method, {"rating": said, "joint": said, "fusion": said}, *flags)
    assert done.code == 1
    assert (row["value"], row["outcome"]) == (None, outcome)
    assert said in shown(row)


TREES = {
    "cycle": ([("fluency", ""), ("a", "b"), ("b", "a")], "parents of each other"),
    "unknown parent": ([("fluency", ""), ("a", "nowhere")], "names the unknown parent 'nowhere'"),
    "equal siblings": (
        [("fluency", ""), ("a", "fluency"), ("A", "fluency")],
        "two siblings are called 'A'",
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_files_that_are_no_trees(tmp_path, server, name):
    """Refused with the file's name before anything is asked, and no run is made."""
    rows, problem = TREES[name]
    path, data = tmp_path / "tree.toml", tmp_path / "data.jsonl"
    parts = [
        f'[[aspects]]\nname = "{n}"\ndefinition = "d"\n' + (f'parent = "{p}"\n' if p else "")
        for n, p in rows
    ]
    path.write_text("".join(parts), encoding="utf-8")
    data.write_text(json.dumps(TEXT), encoding="utf-8")
    done = textassay(
        "score", data, "--method", "hd-eval", "--model", "direct/mock", "--api-base", server.url,
        "--set", f"tree={path}", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.code == 2
    assert problem in done.err
    assert str(path) in done.err
    assert server.counters.requests == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["summarization", "dialogue"])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "pairwise"])
def test_no_text_one_word_and_no_end(tmp_path, server, method, task):
    """No text is abstained on and never sent; one word, marks alone and a sentence without an end
    are judged."""
    texts = {
        "none": "",
        "blank": " \n\t",
        "word": "Cats",
        "marks": "?!",
        "open": "The cat sat on the",
    }
    rows = [
        {**TEXT, "id": id_, "output": output, "context": "Cats sit."}
        for id_, output in texts.items()
    ]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = textassay(
        "score", data, "--method", method, "--task", task, "--model", "direct/mock", "--api-base",
        server.url, "--out", tmp_path / "run", "--progress", "none",
    )  # fmt: skip
    assert done.code == 1, done.err
    rows = rows_of(tmp_path / "run")
    expected = {aspect.name for aspect in tasks.load(task).aspects}
    if method == "claims":  # judges what is about facts
        expected &= {"consistency", "groundedness"}
    assert {row["aspect"] for row in rows} >= expected
    for row in rows:
        if row["id"] in ("none", "blank"):
            assert (row["value"], row["outcome"], row["error"]["type"]) == (
                None,
                "abstained",
                "EmptyOutput",
            )
        elif method in ("agent-judge", "checklist") and row["id"] == "marks":
            # nothing in it can be quoted
            assert (row["value"], row["outcome"]) == (None, "abstained")
        else:
            assert (row["outcome"], row["error"]) == ("scored", None), row


@pytest.mark.parametrize(
    ("method", "lack", "names"),
    [
        (
            "g-eval",
            "refuse_logprobs",
            "or use a model that sends them (",
        ),
        ("g-eval", "omit_logprobs", "returned no log-probabilities; use a model that sends them"),
        (
            "decomp-eval",
            "refuse_logprobs",
            "or use a model that sends them (",
        ),
        (
            "decomp-eval",
            "omit_logprobs",
            "returned no log-probabilities; use a model that sends them",
        ),
        ("gptscore", "ignore_echo", "the server does not echo prompts"),
        ("gptscore", "refuse_logprobs", "this server cannot score the likelihood of a given text"),
    ],
)
def test_a_model_that_lacks_what_a_method_needs(tmp_path, method, lack, names):
    """The run stops at once without a score, and says what is missing."""
    explicit = () if method == "gptscore" else ("--set", "reading=logprob")
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps(TEXT), encoding="utf-8")
    with served(**{lack: True}) as server:
        done = textassay(
            "score", data, "--method", method, "--task", "summarization", "--aspects", "fluency",
            "--model", "direct/mock", "--api-base", server.url, "--out", tmp_path / "run",
            "--progress", "none", *explicit,
        )  # fmt: skip
    assert done.code == 2
    assert names in done.err
    # a folder without any answer would be in the way; G-Eval has asked for its steps
    assert (tmp_path / "run").exists() is (method == "g-eval")
    if method == "g-eval":
        assert rows_of(tmp_path / "run") == []


async def _evaluate(server, tmp_path, **options):
    @tool(name="words", description="Number of words.", scale=(0, 10))
    def words(example):
        if example.id == "b":
            raise ZeroDivisionError("no words to divide by")
        return float(len(example.output.split()))

    rows = [{**TEXT, "id": id_} for id_ in "abc"]
    async with package.connect("direct/mock", api_base=server.url) as model:
        return await package.evaluate(
            rows, method="fusion-eval", task="summarization", model=model, tools=[words, "chrf"],
            options=options, out=tmp_path / "run",
        )  # fmt: skip


@pytest.mark.asyncio
@pytest.mark.parametrize("options", [{}, {"plan": "none"}, {"fusion": "avg"}])
async def test_a_tool_that_fails_for_one_example(mock_server, tmp_path, options):
    """That example's scores are errors which name the tool and what went wrong; the others are
    scored."""
    run = await _evaluate(await mock_server(), tmp_path, **options)
    for score in run:
        if score.id == "b":
            assert (score.value, score.outcome, score.error.type) == (
                None,
                "error",
                "ZeroDivisionError",
            )
            assert "words" in score.error.message
            assert "no words to divide by" in score.error.message
        else:
            assert score.outcome == "scored"
