"""Scores for Inspect, MLflow, Langfuse and promptfoo, read by their packages where installed."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.loopback import listening
from tests.report import runs
from tests.waiting import HANGS_AFTER
from textassay import Run
from textassay.exporting import export_scores, send_scores
from textassay.exporting.rows import text_key
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError, StorageError, UnknownName
from textassay.runtime.messages import Score

ROWS: list[dict[str, Any]] = [
    {"id": "s1", "group": "s1", "source": "Capital?", "output": "Paris", "trace_id": "tr-1"},
    {"id": "s1#2", "group": "s1", "source": "Capital?", "output": "Lyon", "trace_id": "tr-2"},
    {"id": "s2", "group": "s2", "source": "Product?", "output": '{"é": [1.0, 2.5]}',
     "trace_id": "tr-3"},
    {"id": "a#2", "group": "g", "source": "Is it?", "output": "Yes", "trace_id": "tr-4"},
    {"id": "b", "source": "Is it not?", "output": "Yes", "trace_id": "tr-5"},
]  # fmt: skip
LABELS = {"tone": ["flat", "warm", "cold"], "safe": ["no", "yes"]}


def scored(values: dict[str, list[float | None]]) -> list[Score]:
    """Scores of the rows, one list of values per aspect."""
    found = []
    for aspect, column in values.items():
        for row, value in zip(ROWS, column, strict=True):
            top = float(len(LABELS[aspect]) - 1) if aspect in LABELS else 5.0
            missing = {"outcome": "error", "error": {"type": "TimedOut", "message": "too late"}}
            found.append(
                Score(
                    id=row["id"],
                    aspect=aspect,
                    value=value,
                    scale=(0.0, top),
                    signature="m|x",
                    started="2026-11-29T12:00:00Z",
                    explanation="well put",
                    calibrated=None if value is None else 2.5,
                    **(missing if value is None else {}),
                )
            )
    return found


def finished(folder: Path, values: dict[str, list[float | None]], **aspect: Any) -> Run:
    """A run over the rows, read back."""
    data = runs.write_data(folder.parent / "data.jsonl", ROWS)
    described = [
        {"name": name, "scale": [0, 5], **({"labels": LABELS[name]} if name in LABELS else {}),
         **aspect}
        for name in values
    ]  # fmt: skip
    runs.write_run(folder, scored(values), data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["spec"]["data"] = str(data)
    manifest["method"]["aspects"] = described
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return Run(folder)


@pytest.fixture
def one(tmp_path: Path) -> Run:
    """A run with one aspect, without a score of the third text."""
    return finished(tmp_path / "one", {"coherence": [5, 2, None, 4, 1]})


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- Inspect


def test_inspect_gets_one_record_per_sample_and_epoch(one, tmp_path):
    out = tmp_path / "scores.jsonl"
    assert export_scores(one, "inspect", out) == 5
    places = [(row["id"], row.get("epoch")) for row in lines(out)]
    # `a#2` is the id of a text whose group has another name, so no epoch
    assert places == [("s1", 1), ("s1", 2), ("s2", 1), ("a#2", None), ("b", None)]


def test_inspect_leaves_a_missing_score_out_of_its_metrics(one, tmp_path):
    out = tmp_path / "scores.json"
    export_scores(one, "inspect", out)
    rows = json.loads(out.read_text())
    values = [row["value"] for row in rows]
    assert [v for v in values if not math.isnan(v)] == [5, 2, 4, 1]
    (missing,) = (row for row in rows if math.isnan(row["value"]))
    assert missing["metadata"]["outcome"] == "error"
    assert missing["explanation"] == "too late"
    assert rows[0]["metadata"]["signature"] == "m|x"
    assert rows[0]["metadata"]["calibrated"] == 2.5


def test_inspect_reads_several_aspects_by_name(tmp_path):
    run = finished(tmp_path / "two", {"coherence": [5, 2, None, 4, 1], "tone": [0, 1, 2, None, 1]})
    out = tmp_path / "scores.jsonl"
    export_scores(run, "inspect", out)
    first, *_, last = lines(out)
    assert first["value"] == {"coherence": 5, "tone": "flat"}
    assert last["value"] == {"coherence": 1, "tone": "warm"}
    assert last["metadata"]["tone"]["number"] == 1


INSPECT = """
import json, sys
from inspect_ai import Task, eval, score
from inspect_ai.dataset import Sample
from inspect_ai.scorer import mean, precomputed_scores

scores, logs, *ids = sys.argv[1:]
task = Task(dataset=[Sample(id=id_, input="q") for id_ in ids], epochs=2)
(log,) = eval(task, model="mockllm/model", display="none", log_dir=logs)
log = score(log, precomputed_scores(scores, metrics=[mean()]), display="none")
(found,) = log.results.scores
print(json.dumps([found.scored_samples, found.unscored_samples, found.metrics["mean"].value]))
"""


def test_inspect_itself_scores_a_log_with_the_file(one, tmp_path):
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    out = tmp_path / "scores.json"
    export_scores(one, "inspect", out)
    ids = [row["id"] for row in ROWS if row["id"] != "s1#2"]
    # in a process of its own: it leaves streams open
    done = subprocess.run(
        [sys.executable, "-c", INSPECT, str(out), str(tmp_path / "logs"), *ids],
        capture_output=True, text=True, timeout=HANGS_AFTER, check=True,
    )  # fmt: skip
    scored, unscored, mean = json.loads(done.stdout.splitlines()[-1])
    assert (scored, unscored) == (3, 1)
    assert mean == pytest.approx((3.5 + 4 + 1) / 3)


# --- MLflow


def test_mlflow_gets_an_error_in_place_of_a_missing_value(one, tmp_path):
    out = tmp_path / "assessments.jsonl"
    assert export_scores(one, "mlflow", out, trace="trace_id") == 5
    rows = lines(out)
    assert [row["trace_id"] for row in rows] == [f"tr-{i}" for i in range(1, 6)]
    assert rows[0]["feedback"] == {"value": 5}
    assert rows[2]["feedback"] == {
        "value": None, "error": {"error_code": "TimedOut", "error_message": "too late"},
    }  # fmt: skip
    assert rows[0]["source"] == {"source_type": "LLM_JUDGE", "source_id": "m|x"}
    assert rows[0]["metadata"]["calibrated"] == "2.5"
    assert all(isinstance(v, str) for row in rows for v in row["metadata"].values())


def test_mlflow_itself_reads_the_assessments(one, tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    from mlflow.entities import Feedback

    out = tmp_path / "assessments.jsonl"
    export_scores(one, "mlflow", out)
    found = [Feedback.from_dictionary(row) for row in lines(out)]
    assert [one.value for one in found] == [5, 2, None, 4, 1]
    assert found[2].error.error_code == "TimedOut"


@asynccontextmanager
async def mlflow_server():
    """Traces that keep the assessments they are sent."""
    kept: dict[str, list[Any]] = {}

    async def answer(request: web.Request) -> web.Response:
        *_, trace, last = ["", *request.path.split("/")]
        if request.method == "GET":
            info = {"trace_id": last, "assessments": kept.get(last, [])}
            return web.json_response({"trace": {"trace_info": info}})
        assert last == "assessments"
        assessment = (await request.json())["assessment"]
        kept.setdefault(trace, []).append(assessment)
        return web.json_response({"assessment": assessment})

    async with listening(answer) as url:
        yield url, kept


async def test_mlflow_is_sent_no_score_twice(one):
    async with mlflow_server() as (url, kept):
        assert await send_scores(one, "mlflow", url) == 5
        assert await send_scores(one, "mlflow", url) == 0
    ids = ("s1", "s1#2", "s2", "a#2", "b")
    assert {trace: len(found) for trace, found in kept.items()} == dict.fromkeys(ids, 1)


# --- Langfuse


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    pair = ("pk-lf-public", "sk-lf-very-secret")
    for name, value in zip(("PUBLIC", "SECRET"), pair, strict=True):
        monkeypatch.setenv(f"LANGFUSE_{name}_KEY", value)
    return pair


@asynccontextmanager
async def langfuse_server(refuses: str = ""):
    """Scores by id, as Langfuse keeps them; a refusal echoes what it was sent."""
    kept: dict[str, Any] = {}
    logins: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.Response:
        logins[request.headers["Authorization"]] += 1
        body = await request.json()
        if refuses and body["traceId"] == refuses:
            return web.json_response({"error": request.headers["Authorization"]}, status=401)
        assert (request.method, request.path) == ("POST", "/api/public/scores")
        kept[body["id"]] = body
        return web.json_response({"id": body["id"]})

    async with listening(answer) as url:
        yield url, kept, logins


async def test_langfuse_keeps_one_score_however_often_it_is_sent(one, keys):
    async with langfuse_server() as (url, kept, logins):
        for _ in range(2):
            assert await send_scores(one, "langfuse", f"{url}/", trace="trace_id") == 4
    assert len(kept) == 4
    assert {row["traceId"] for row in kept.values()} == {"tr-1", "tr-2", "tr-4", "tr-5"}
    assert logins == {f"Basic {b64encode(':'.join(keys).encode()).decode()}": 8}
    first = next(iter(kept.values()))
    assert (first["name"], first["value"], first["dataType"]) == ("coherence", 5, "NUMERIC")
    assert first["timestamp"] == "2026-11-29T12:00:00.000Z"
    assert first["metadata"]["outcome"] == "scored"


async def test_no_key_is_in_an_error(one, keys):
    async with langfuse_server(refuses="tr-2") as (url, _, _):
        with pytest.raises(StorageError, match="answered with status 401") as caught:
            await send_scores(one, "langfuse", url, trace="trace_id")
    said = str(caught.value)
    assert "[key]" in said
    assert keys[1] not in said
    assert b64encode(":".join(keys).encode()).decode() not in said


async def test_langfuse_without_keys_names_the_variables(one, monkeypatch):
    monkeypatch.delenv("LANGFUSE_SECRET_KEY", raising=False)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    with pytest.raises(ConfigurationError, match=r"set LANGFUSE_SECRET_KEY$"):
        await send_scores(one, "langfuse", "http://127.0.0.1:9")


def test_labels_without_an_order_go_as_words(tmp_path):
    run = finished(tmp_path / "run", {"tone": [0, 1, None, 2, 2], "safe": [0, 1, 0.25, 1, 1]})
    out = tmp_path / "scores.jsonl"
    export_scores(run, "langfuse", out)
    found = {(row["traceId"], row["name"]): row for row in lines(out)}
    tone, safe = found["s1", "tone"], found["s2", "safe"]
    assert (tone["value"], tone["dataType"]) == ("flat", "CATEGORICAL")
    # a probability of `yes` is between the labels
    assert (safe["value"], safe["dataType"]) == (0.25, "NUMERIC")
    assert found["s1#2", "safe"]["metadata"]["label"] == "yes"


def test_langfuse_itself_takes_the_bodies(one, tmp_path):
    pytest.importorskip("langfuse", reason="langfuse is not installed")
    from langfuse.api.scores.types.create_score_request import CreateScoreRequest

    out = tmp_path / "scores.jsonl"
    export_scores(one, "langfuse", out)
    known = {*CreateScoreRequest.model_fields, "traceId", "dataType"}
    for row in lines(out):
        assert set(row) <= known
        CreateScoreRequest.model_validate(row)


# --- promptfoo

ASSERT = """
const check = require(process.argv[1]);
const asked = JSON.parse(process.argv[2]);
const found = asked.map(([output, context]) => {
  try { return check(output, context); } catch (error) { return { error: error.message }; }
});
console.log(JSON.stringify(found));
"""


def asserted(script: Path, *asked: tuple[Any, dict[str, Any]]) -> list[Any]:
    """What the script returns for outputs, as promptfoo calls it; needs Node.js."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    done = subprocess.run(
        [node, "-e", ASSERT, str(script), json.dumps(asked)], capture_output=True, text=True,
        timeout=HANGS_AFTER, check=True,
    )  # fmt: skip
    return list(json.loads(done.stdout))


def test_promptfoo_finds_scores_by_the_text(one, tmp_path):
    script = tmp_path / "scores.cjs"
    export_scores(one, "promptfoo", script)
    config = {"config": {"aspect": "coherence", "threshold": 2}}
    paris, lyon, bare, yes, no, unknown, other = asserted(
        script, ("Paris", {}), (" Lyon\n", config), ({"é": [1, 2.5]}, {}),
        ("Yes", {"prompt": "Is it?", "vars": {}, **config}),
        ("Yes", {"prompt": "x", "vars": {"q": "Is it not?"}, **config}),
        ("Rome", {}), ("Paris", {"config": {"aspect": "tone"}}),
    )  # fmt: skip
    assert (paris["pass"], paris["score"], paris["namedScores"]) == (True, 1, {"coherence": 1})
    assert (lyon["pass"], lyon["score"]) == (True, 0.4)
    # a missing score is an error of the test, and no number
    assert bare == {"error": "no score for coherence: too late"}
    assert (yes["pass"], yes["score"]) == (True, 0.8)
    assert (no["pass"], no["score"]) == (False, 0.2)
    assert unknown == {"error": "textassay has not judged this output"}
    assert other == {"error": "textassay did not judge tone"}
    assert paris["metadata"]["textassay"]["coherence"]["signature"] == "m|x"


def test_promptfoo_does_not_guess_between_equal_outputs(one, tmp_path):
    script = tmp_path / "scores.js"
    export_scores(one, "promptfoo", script)
    (found,) = asserted(script, ("Yes", {"prompt": "another question"}))
    assert "more than once, with unequal scores: a#2, b" in found["error"]


def test_more_is_better_in_promptfoo(tmp_path):
    """Of an aspect on which less is better, the limit is the largest value that passes."""
    run = finished(tmp_path / "run", {"toxicity": [5, 2, 0, 4, 1]}, higher_is_better=False)
    script = tmp_path / "scores.cjs"
    export_scores(run, "promptfoo", script)
    config = {"config": {"threshold": 2}}
    bad, good = asserted(script, ("Paris", config), ("Lyon", config))
    assert (bad["pass"], bad["score"]) == (False, 0)
    assert (good["pass"], good["score"]) == (True, 0.6)


def test_promptfoo_takes_no_labels_without_an_order(tmp_path):
    run = finished(tmp_path / "run", {"tone": [0, 1, None, 2, 2]})
    with pytest.raises(ConfigurationError, match="have no order"):
        export_scores(run, "promptfoo", tmp_path / "scores.cjs")


@pytest.mark.parametrize(
    "text",
    [
        "a  b", " a\nb ", "[x", "{}", '{"a": 1.0, "b": "ü\\u00e9"}', "[1, 2.50]", "\u00a0x",
        "äöü\t€", "😀",
    ],
)  # fmt: skip
def test_a_text_has_one_key_in_python_and_in_the_script(text, one, tmp_path):
    script = tmp_path / "scores.cjs"
    export_scores(one, "promptfoo", script)
    source = script.read_text().replace("module.exports =", "const unused =")
    script.write_text(source + "\nmodule.exports = (output) => key(output);\n")
    assert asserted(script, (text, {})) == [text_key(text)]


# --- all


def test_impossible_exports_are_refused(one, tmp_path):
    with pytest.raises(UnknownName, match="'wandb'; known: inspect"):
        export_scores(one, "wandb", tmp_path / "x.json")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"ends in \.js or \.cjs"):
        export_scores(one, "promptfoo", tmp_path / "x.json")
    with pytest.raises(DataError, match="'s1' has no trace in 'call'"):
        export_scores(one, "mlflow", tmp_path / "x.jsonl", trace="call")
    with pytest.raises(DataError, match="lack 4 texts that have scores, such as 's1#2'"):
        export_scores(one, "inspect", tmp_path / "x.jsonl", data=Examples(ROWS[:1]))
    with pytest.raises(StorageError, match="cannot be written"):
        export_scores(one, "inspect", tmp_path / "none" / "x.json")
    assert not list(tmp_path.glob("x.*"))
