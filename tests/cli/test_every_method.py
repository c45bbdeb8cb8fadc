"""Every method over the bundled examples, on benchmark texts, and on a tiny local model."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.every_method import DATA
from tests.benchmark_data import FOLDER
from tests.cli.harness import rows_of, served, textassay
from tests.methods.judging import CHOICES, mock_reply
from tests.methods.test_golden_requests import refused_by_choices
from textassay.demo import data_file
from textassay.methods import METHODS
from textassay.methods.claims import FACTUAL
from textassay.methods.library import tasks

TASKS = ("summarization", "dialogue", "data-to-text", "translation")
ON_A_LOCAL_MODEL = {
    "decomp-eval": (),
    "gptscore": (),
    "llm-score": ("--set", "max_tokens=1", "--set", "parse_retries=0"),
    "llm-score-cot": ("--set", "max_tokens=1", "--set", "parse_retries=0"),
}
"""With flags that keep answers short. The others have a model write lists, which one with random
weights never ends."""
LIMIT = 4
"""Examples of a task that are judged; `benchmarks.every_method` judges all of people's."""
OF_SINGLE_OUTPUTS = [name for name in METHODS if name != "pairwise"]
BY_CHOICES = [name for name in OF_SINGLE_OUTPUTS if name not in refused_by_choices()]
HINT = (
    "an answer without a usable rating: _as_asked of examples/mock_replies.py answers in the form"
    ' that a prompt asks for, and a prompt that ends in "?" gets one word; a method that cannot be'
    " judged from probabilities alone refuses such a judge (require_writing)"
)
READ_FROM_PROBABILITIES = ("decomp-eval", "gptscore")


def judged(data, method, task, run, model, *flags, codes=(0,)):
    """Judge a file and return its scores, each of which has a value or a reason."""
    done = textassay(
        "score", data, "--method", method, "--task", task, "--model", model, "--out", run,
        "--progress", "none", *flags,
    )  # fmt: skip
    assert done.code in codes, f"{HINT}\n{task}: {done.out}{done.err}"
    rows = rows_of(run)
    assert all(
        (row["value"] is None) == (row["outcome"] != "scored") == bool(row["error"]) for row in rows
    )
    assert len(rows) == len({(row["id"], row["aspect"]) for row in rows})
    return rows


@pytest.mark.parametrize("method", OF_SINGLE_OUTPUTS)
def test_over_the_bundled_examples_on_the_server(tmp_path, method):
    """One score for every example and aspect, with a value and a signature of method and model."""
    for task in TASKS:
        with served(reply=mock_reply(method)) as server:
            at = ("direct/mock", "--api-base", server.url, "--limit", LIMIT)
            rows = judged(data_file(task), method, task, tmp_path / task, *at)
        aspects = {row["aspect"] for row in rows}
        expected = {aspect.name for aspect in tasks.load(task).aspects}
        # claims judges what is about facts
        assert (expected & set(FACTUAL) if method == "claims" else expected) <= aspects
        assert len(rows) == LIMIT * len(aspects)
        assert {row["outcome"] for row in rows} == {"scored"}
        assert all(f"method:{method}|model:direct/mock|" in row["signature"] for row in rows)


SOME = 4
ALL = {"summarization": 1600, "dialogue": 360}


@pytest.mark.parametrize("task", DATA)
@pytest.mark.parametrize("method", [*OF_SINGLE_OUTPUTS, None])
def test_over_rows_of_people(tmp_path, method, task):
    """The first of SummEval and Topical-Chat; all on one aspect by one (`None`)."""
    path = FOLDER / DATA[task]
    if not path.exists():
        pytest.skip(f"benchmark data {DATA[task]} not found in {FOLDER}; set TEXTASSAY_DATA")
    some = ("--limit", SOME) if method else ("--aspects", "coherence")
    method_name = method or "llm-score"
    with served(reply=mock_reply(method_name)) as server:
        at = ("direct/mock", "--api-base", server.url, "--no-cache", *some)
        rows = judged(path, method_name, task, tmp_path / "run", *at)
    assert {row["outcome"] for row in rows} == {"scored"}
    assert sum(row["usage"]["calls"] for row in rows) == server.counters.requests
    assert len({row["id"] for row in rows}) == (SOME if method else ALL[task])
    expected = {aspect.name for aspect in tasks.load(task).aspects}
    expected &= set(FACTUAL) if method == "claims" else expected if method else {"coherence"}
    assert expected <= {row["aspect"] for row in rows}


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory) -> Path:
    """Random weights, one layer, a chat template and room for our longest prompts."""
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed")
    fixture = pytest.importorskip("tests.gguf_fixture")
    shape = fixture.Shape(
        width=32, layers=1, heads=2, hidden=32, context=8192, vocabulary=4096, dtype="f32", bos=True
    )
    return Path(fixture.write_model(tmp_path_factory.mktemp("gguf") / "tiny.gguf", shape).path)


LOCAL = ("--set", "n_gpu_layers=0", "--set", "threads=1", "--set")


@pytest.mark.parametrize("method", BY_CHOICES)
def test_over_the_bundled_examples_on_a_local_model_by_a_profile(tiny_model, tmp_path, method):
    flags = (*LOCAL, "n_ctx=2048", "--set", f"profile={CHOICES}", "--limit", LIMIT)
    for task in TASKS:
        first = ("--aspects", tasks.load(task).aspects[0].name)
        model = f"llamacpp/{tiny_model}"
        rows = judged(data_file(task), method, task, tmp_path / task, model, *flags, *first)
        assert len(rows) == LIMIT
        assert {row["outcome"] for row in rows} == {"scored"}
        assert {row["how"] for row in rows} <= {"logprob", "fused", "loglikelihood"}


@pytest.mark.parametrize("method", ON_A_LOCAL_MODEL)
def test_over_the_bundled_examples_on_a_local_model(tiny_model, tmp_path, method):
    """Values where they are probabilities; where a babbling model must write, typed refusals."""
    outcomes: Counter[str] = Counter()
    flags = (*LOCAL, "n_ctx=8192", "--limit", LIMIT, *ON_A_LOCAL_MODEL[method])
    for task in TASKS:
        named = (f"llamacpp/{tiny_model}", *flags, "--aspects", tasks.load(task).aspects[0].name)
        rows = judged(data_file(task), method, task, tmp_path / task, *named, codes=(0, 1))
        assert len({row["id"] for row in rows}) == LIMIT
        outcomes.update(row["outcome"] for row in rows)
    if method in READ_FROM_PROBABILITIES:
        assert outcomes == {"scored": LIMIT * len(TASKS)}
    else:
        assert not outcomes["abstained"]
