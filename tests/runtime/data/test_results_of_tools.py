"""Files that Inspect, promptfoo, DeepEval and lm-evaluation-harness wrote themselves are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from textassay.runtime.data import Examples
from textassay.runtime.data.results import promptfoo_rows, read_results

FILES = Path(__file__).parents[2] / "fixtures" / "results"


def examples(form, name):
    """Return the examples of a file by id."""
    found = read_results(form, FILES / name)
    return {example.id: example for example in Examples(found.rows)}, found.empty


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_inspect(name):
    """A log compressed with zstd, as Inspect writes it by default, and one in JSON."""
    if name == "inspect.eval" and sys.version_info < (3, 14):
        pytest.importorskip("backports.zstd")
    rows, empty = examples("inspect", name)
    assert (set(rows), empty) == ({"fr", "fr#2", "2", "2#2"}, 0)
    assert rows["fr"].output == "The capital is Paris."
    assert rows["fr"].metrics == {"match": 1, "rubric.tone": 0.5, "rubric.length": 2.1}
    assert rows["2#2"].metrics["match"] == 0
    assert (rows["2#2"].group, rows["2#2"].references) == ("2", ("Rhine", "Elbe"))
    assert {row.system for row in rows.values()} == {"mockllm/model"}


@pytest.mark.parametrize("name", ["promptfoo.json", "promptfoo.jsonl"])
def test_promptfoo(name):
    """Of three tests with two prompts one failed: it has no text, and is counted."""
    rows, empty = examples("promptfoo", name)
    assert (len(rows), empty) == (4, 2)
    first = rows["0-1-answerer"]
    assert (first.output, first.system) == ("The capital is Paris.", "answerer, prompt 1")
    assert first.source == "Answer: What is the capital of France?"
    assert first.metrics == {"score": 0.7625, "icontains": 1, "Length": 0.525}
    assert rows["1-0-answerer"].metrics == {"score": 1, "equals": 1}


def test_promptfoo_with_two_providers():
    """Prompts are numbered across providers; a test without an assertion has no score."""
    rows, empty = examples("promptfoo", "promptfoo-providers.json")
    assert (len(rows), empty) == (10, 2)
    assert {(row.system, row.source.split(":")[0]) for row in rows.values()} == {
        (f"{provider}, prompt {number}", begin)
        for provider in ("answerer", "echo")
        for number, begin in enumerate(["In one sentence", "Answer"])
    }
    assert rows["0-3-echo"].metrics == {"score": 0.475, "icontains": 0, "Length": 0.95}
    assert rows["2-2-echo"].metrics == {}


def test_promptfoo_without_parts_of_the_grading():
    """The result's own score counts if something was asserted, and was not that a test passes
    unasked, that a provider failed, or that it answered nothing."""
    unanswered = {"score": 0, "testCase": {"assert": [{"type": "equals"}]}}
    asserted = unanswered | {"response": {"output": "x"}}
    results = [
        {"score": 0.4, "gradingResult": {"score": 0.4, "reason": "too short"}},
        {"score": 1, "gradingResult": {"score": 1, "reason": "No assertions"}},
        asserted | {"score": 0.3},
        {"score": 1, "response": {"output": "x"}, "testCase": {}},
        asserted | {"failureReason": 2},
        unanswered | {"response": {}, "error": "No output", "failureReason": 0},
        unanswered | {"response": {"output": None}, "error": "No output"},
        unanswered | {"response": {"error": "API 500"}, "error": "API 500"},
        asserted | {"response": {"output": ""}},
    ]
    rows = promptfoo_rows({"results": [one | {"provider": "p"} for one in results]})
    found = [row.get("metrics") for row in rows]
    assert found == [{"score": 0.4}, None, {"score": 0.3}, *[None] * 5, {"score": 0}]


def test_prompts_of_promptfoo_with_one_id_are_told_apart():
    """By their columns; the same prompt has one number under every provider."""
    ids = ("same", "same", "x")
    results = [
        {"promptIdx": column, "promptId": ids[column % 3], "provider": "ab"[column // 3]}
        for column in range(6)
    ]
    assert [row["system"] for row in promptfoo_rows({"results": results})] == [
        f"{name}, prompt {number}" for name in "ab" for number in range(3)
    ]


@pytest.mark.parametrize("name", ["run", "latest", "results"])
def test_deepeval(name):
    """In each of its three files; a metric that raised an error has no score."""
    rows, _ = examples("deepeval", f"deepeval-{name}.json")
    assert rows["test_case_0"].metrics == {"Word Overlap": 1, "Strict": 1}
    assert rows["second"].metrics == {"Word Overlap": 0}
    assert (rows["second"].output, rows["second"].references) == ("It is Lyon", ("Paris",))
    assert rows["second"].context == "Paris is the capital of France."


def test_lm_eval():
    """Generated texts once per filter; of choices the likeliest, and the right one's text."""
    rows, _ = examples("lm-eval", "lm-eval-generated.jsonl")
    assert set(rows) == {"0-strict", "1-strict", "0-letters", "1-letters"}
    assert rows["1-strict"].source == "Q: Name a river of Germany.\nA:"
    assert (rows["1-strict"].references, rows["1-strict"].metrics) == (
        ("Rhine",),
        {"exact_match": 0},
    )
    rows, _ = examples("lm-eval", "lm-eval-choices.jsonl")
    assert (rows["0"].output, rows["0"].references) == (" Lyon", (" Paris",))
    assert rows["1"].metrics == {"acc": 0, "acc_norm": 0}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ragas_single", ("When was it?", "It was in 1967.", "It rained a lot.", "In 1967.")),
        ("ragas_multi", ("Weather in Paris?", "weather(", "18 degrees cloudy", "It is 18")),
        ("deepeval_single", ("shoes don't fit?", "within 30 days.", "Keep the box.", "You have")),
        ("deepeval_conv", ("Can I return them?", "Yes, within", "Full refund", "You are welcome")),
        ("openinference", ("Weather in Paris?", "weather(", "18 degrees cloudy", "It is 18")),
    ],
)
def test_data_sets_and_traces_load_as_they_are(name, said):
    """Without a field map; every turn, call and passage is shown."""
    files = sorted((FILES.parent / "exports").glob(f"{name}.*"))
    assert files
    for file in files:
        first = next(iter(Examples(file)))
        shown = "\n".join(filter(None, (first.source, first.context, first.output)))
        assert all(words in shown for words in said), (file.name, shown)
