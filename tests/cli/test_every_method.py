"""Every method over the bundled examples, from the command line: on the project's server and on a
tiny local model."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.harness import rows_of, textassay
from tests.methods.test_golden_requests import refused_by_the_embedded_model
from textassay.demo import data_file
from textassay.methods import METHODS
from textassay.methods.claims import FACTUAL
from textassay.methods.library import tasks

COUNTS = {"summarization": 36, "dialogue": 30, "data-to-text": 30, "translation": 12}
ON_A_LOCAL_MODEL = {
    "decomp-eval": (),
    "gptscore": (),
    "llm-score": ("--set", "max_tokens=1", "--set", "parse_retries=0"),
    "llm-score-cot": ("--set", "max_tokens=1", "--set", "parse_retries=0"),
}
"""With flags that keep answers short. The others have a model write lists, which one with random
weights never ends."""
LIMIT = 13
"""Examples per task that a local model judges, 51 in all; the demo has one judge all of a task."""
OF_SINGLE_OUTPUTS = [name for name in METHODS if name != "pairwise"]
ON_THE_EMBEDDED_MODEL = [
    name for name in OF_SINGLE_OUTPUTS if name not in refused_by_the_embedded_model()
]
READ_FROM_PROBABILITIES = ("decomp-eval", "gptscore")


@pytest.mark.parametrize("method", OF_SINGLE_OUTPUTS)
def test_over_the_bundled_examples_on_the_server(server, tmp_path, method):
    """One score for every example and aspect, all with a value, each with a signature that names
    method and model."""
    for task, count in COUNTS.items():
        run = tmp_path / task
        done = textassay(
            "score", data_file(task), "--method", method, "--task", task, "--model", "direct/mock",
            "--api-base", server.url, "--out", run, "--progress", "none",
        )  # fmt: skip
        assert done.code == 0, (task, done.out, done.err)
        rows = rows_of(run)
        judged = {aspect.name for aspect in tasks.load(task).aspects}
        if method == "claims":  # judges what is about facts
            judged &= set(FACTUAL)
        assert judged <= {row["aspect"] for row in rows}
        assert (
            len(rows)
            == len({(row["id"], row["aspect"]) for row in rows})
            == count * len({r["aspect"] for r in rows})
        )
        assert {row["outcome"] for row in rows} == {"scored"}
        assert all(f"method:{method}|model:direct/mock|" in row["signature"] for row in rows)


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


@pytest.mark.parametrize("method", ON_THE_EMBEDDED_MODEL)
def test_over_the_bundled_examples_on_a_local_model_by_its_profile(tiny_model, tmp_path, method):
    """A value for every example, whatever the method: a profile reads ratings from probabilities
    and writes nothing."""
    total = 0
    for task, count in COUNTS.items():
        run, first = tmp_path / task, tasks.load(task).aspects[0].name
        done = textassay(
            "score", data_file(task), "--method", method, "--task", task, "--model",
            f"llamacpp/{tiny_model}", "--out", run, "--progress", "none", "--set",
            "profile=embedded", "--set", "n_gpu_layers=0", "--set", "threads=1", "--set",
            "n_ctx=2048", "--aspects", first, "--limit", LIMIT,
        )  # fmt: skip
        assert done.code == 0, (task, done.out, done.err)
        rows = rows_of(run)
        assert len(rows) == len({row["id"] for row in rows}) == min(count, LIMIT)
        assert {row["outcome"] for row in rows} == {"scored"}
        assert {row["how"] for row in rows} <= {"logprob", "fused", "loglikelihood"}
        total += len(rows)
    assert total >= 50


@pytest.mark.parametrize("method", ON_A_LOCAL_MODEL)
def test_over_the_bundled_examples_on_a_local_model(tiny_model, tmp_path, method):
    """Values where they are probabilities; where a babbling model must write, typed refusals and no
    number."""
    outcomes: Counter[str] = Counter()
    for task, count in COUNTS.items():
        run, first = tmp_path / task, tasks.load(task).aspects[0].name
        done = textassay(
            "score", data_file(task), "--method", method, "--task", task, "--model",
            f"llamacpp/{tiny_model}", "--out", run, "--progress", "none", "--set", "n_gpu_layers=0",
            "--set", "threads=1", "--set", "n_ctx=8192", "--aspects", first, "--limit", LIMIT,
            *ON_A_LOCAL_MODEL[method],
        )  # fmt: skip
        assert done.code in (0, 1), (task, done.out, done.err)
        rows = rows_of(run)
        assert len({row["id"] for row in rows}) == min(count, LIMIT)
        assert all(
            (row["value"] is None) == (row["outcome"] != "scored") == bool(row["error"])
            for row in rows
        )
        outcomes.update(row["outcome"] for row in rows)
    if method in READ_FROM_PROBABILITIES:
        assert outcomes == {"scored": sum(min(count, LIMIT) for count in COUNTS.values())}
    else:
        assert not outcomes["abstained"]
