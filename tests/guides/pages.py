"""The files that each guide assumes, and replacements for models and servers elsewhere."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.benchmark_data import FOLDER as DATA
from tests.cli.harness import textassay
from tests.guides.running import Block, Reader
from tests.loopback import in_thread, listening
from tests.pictures import png
from textassay import ScriptedModel
from textassay.runtime.messages import Example

ELSEWHERE = {
    ("README.md", "python"): "tests/test_docs_examples.py",
    ("README.md", "console"): "tests/test_docs_examples.py",
    ("tasks.md", "toml"): "tests/test_docs_examples.py",
    ("tasks.md", "json"): "tests/test_docs_examples.py",
    ("tasks.md", "console"): "tests/test_docs_examples.py",
    ("tasks.md", "python"): "tests/test_docs_examples.py",
    ("CONTRIBUTING.md", "python"): "tests/test_docs_examples.py",
    ("CONTRIBUTING.md", "jinja"): "tests/test_recipes.py",
    ("ci.md", "python"): "tests/gates/test_pytest_plugin.py",
    ("compose.md", "python"): "tests/examples/test_compose.py",
    ("exports.md", "yaml"): "tests/exporting/test_exports.py",
}
"""Blocks by page and language with a test of their own."""

NAMES = {
    "MODEL": "direct/judge", "BIG": "direct/judge", "SMALL": "direct/judge",
    # through litellm a call takes ten times as long; blocks in Python ask through it
    "openai/gpt-4.1-mini": "direct/judge",
    "openai/gpt-6-luna": "direct/judge",
    "--max-cost": "--price 1,2 --max-cost",
}  # fmt: skip
LARGE = (
    "README.md", "agreement.md", "annotate.md", "appendix.md", "check.md", "estimation.md",
    "fit.md", "report.md",
)  # fmt: skip
"""Pages whose commands need more than four texts."""
COMMON = ["--method", "llm-score", "--task", "summarization", "--aspects", "fluency"]


@contextmanager
def reader_of(page: str, folder: Path, url: str, patch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Yield a reader of one page, with all files that the page assumes."""
    reader = Reader(folder, url, dict(NAMES))
    if page not in LARGE:
        data = folder / "data.jsonl"
        data.write_text("\n".join(data.read_text("utf-8").splitlines()[:4]), encoding="utf-8")
    prepare = PREPARE.get(page, _nothing)
    steps = prepare(reader, patch)
    next(steps, None)
    try:
        yield reader
    finally:
        next(steps, None)


def _nothing(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    yield


def _toml(reader: Reader, check: Callable[[str, dict[str, Any]], None]) -> None:
    """Read the page's own files with a function; entry points are checked as on every page."""
    entry_points = reader.run_toml

    def run_toml(block: Block) -> None:
        found = tomllib.loads(block.text)
        if "project" in found:
            entry_points(block)
        else:
            check(block.text, found)

    reader.run_toml = run_toml  # type: ignore[method-assign]


def _score(reader: Reader, *more: str) -> None:
    out = reader.folder / "runs" / f"toml-{len(list((reader.folder / 'runs').iterdir()))}"
    done = textassay("score", *more, "--out", out)
    assert done.code == 0, done


def _annotate(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Label Studio's export of a rated text, and the files of two rounds of rating."""
    exported = [
        {
            "data": {"id": "doc-0-M0"},
            "annotations": [
                {
                    "completed_by": 1,
                    "result": [
                        {"from_name": "coherence", "type": "rating", "value": {"rating": 4}}
                    ],
                }
            ],
        }
    ]
    folder = reader.folder
    (folder / "export.json").write_text(json.dumps(exported), encoding="utf-8")
    reader.names["60"] = "12"
    data = folder / "data.jsonl"
    rows = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    rated = {row["id"]: {"id": row["id"], "annotators": row.pop("annotators")} for row in rows}
    for row in rows:
        del row["human"]
    _lines(data, rows)
    _read_here(folder)
    first, plan = folder / "ratings.jsonl", folder / "next2.jsonl"
    _lines(first, list(rated.values())[:32])
    done = textassay(
        "label-plan", folder / "runs/first", "--ratings", first, "--half-width", "0.1",
        "--next", 12, "-o", plan,
    )  # fmt: skip
    assert done.code == 0, done
    drawn = [json.loads(line) for line in plan.read_text("utf-8").splitlines()]
    _lines(folder / "ratings2.jsonl", [rated[one["id"]] for one in drawn if not one["rated"]])
    yield


def _read_here(folder: Path) -> None:
    """Have the run read the data of this folder, not those of the one it was copied from."""
    manifest = folder / "runs/first/manifest.json"
    made = json.loads(manifest.read_text("utf-8"))
    made["spec"]["data"] = str(folder / "data.jsonl")
    manifest.write_text(json.dumps(made), encoding="utf-8")


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _agreement(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run whose answers are replayed, and texts in groups of four with a subset."""
    rows = [json.loads(line) for line in (reader.folder / "data.jsonl").read_text().splitlines()]
    _lines(reader.folder / "best_of_four.jsonl", [{**row, "subset": "rain"} for row in rows])
    shutil.copy(reader.folder / "data.jsonl", reader.folder / "summeval.jsonl")
    done = textassay(
        "score", "summeval.jsonl", "--method", "llm-score", "--task", "summarization",
        "--model", "direct/judge", "--api-base", reader.url, "--out", "runs/gpt-4",
    )  # fmt: skip
    assert done.code == 0, done
    yield


def _check(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A table with one judge, three raters and their mean, two texts to a question."""
    lines = ["question,gpt-4o,human,anna,ben,clara"]
    for at in range(24):
        ratings = [1 + (at + shift) % 5 for shift in (0, 0, 1)]
        lines.append(
            f"q{at // 2},{1 + at % 5},{sum(ratings) / 3:.2f},{','.join(map(str, ratings))}"
        )
    (reader.folder / "answers.csv").write_text("\n".join(lines), encoding="utf-8")
    yield


def _data(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A table with the columns that the page maps, and pairs under published names."""
    for field in ("rejected=output_b", "label=human.overall"):
        # the other commands of the page judge single texts
        reader.names[f"--field {field} ..."] = (
            f"--field {field} --aspects overall --model direct/judge --out runs/pairs"
        )
    pair = {"prompt": "When did it rain?", "chosen": "On Monday.", "rejected": "It did not."}
    _lines(reader.folder / "rewardbench.jsonl", [pair])
    pair = {"prompt": "When did it rain?", "response_A": "On Monday.", "response_B": "Never."}
    _lines(reader.folder / "pairs.jsonl", [{**pair, "label": "A>B"}])
    reader.names["..."] = (
        "--method llm-score --task summarization --aspects coherence --field "
        "coherence=human.coherence --model direct/judge --out runs/first"
    )
    rows = [
        json.loads(line)
        for line in (reader.folder / "data.jsonl").read_text("utf-8").splitlines()[:4]
    ]
    lines = ["item_id,model,article,gold,coherence,output"]
    lines += [
        f'{r["id"]},{r["system"]},"{r["source"]}","{r["references"][0]}",3,"{r["output"]}"'
        for r in rows
    ]
    (reader.folder / "summaries.csv").write_text("\n".join(lines), encoding="utf-8")
    lines = ["coherence;Score (mean);output"]
    lines += [f"3,5;{'N/A' if at else 4};{r['output']}" for at, r in enumerate(rows)]
    (reader.folder / "ratings.csv").write_text("\n".join(lines), encoding="utf-8")
    (reader.folder / "scans").mkdir()
    (reader.folder / "scans" / "17.png").write_bytes(png())

    def check(text: str, found: dict[str, Any]) -> None:
        (reader.folder / "map.toml").write_text(text, encoding="utf-8")
        _score(
            reader, "summaries.csv", "--config", "map.toml", "--aspects", "coherence",
            "--model", "direct/judge", "--api-base", reader.url,
        )  # fmt: skip

    _toml(reader, check)
    yield


def _exports(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run of texts that have a trace, and a server in place of MLflow's and Langfuse's."""
    folder = reader.folder
    rows = (folder / "all_rated.jsonl").read_text("utf-8").splitlines()
    traced = [{**json.loads(row), "trace_id": f"tr-{at}"} for at, row in enumerate(rows)]
    _lines(folder / "data.jsonl", traced)
    _read_here(folder)
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        patch.setenv(name, "k")

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"trace": {"trace_info": {}}} if request.method == "GET" else {})

    def run_python(block: Block) -> None:
        # Inspect needs a process and a log of its own: tests/exporting/test_exports.py
        if "inspect_ai" not in block.text:
            Reader.run_python(reader, block)

    reader.run_python = run_python  # type: ignore[method-assign]
    with in_thread(lambda: listening(answer)) as url:
        for server in ("http://127.0.0.1:5000", "https://cloud.langfuse.com"):
            reader.names[server] = url
        yield


def _fit(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The ratings of the texts are drawn, so that there is nothing for `auto` to learn."""
    for flag in ("--method hd-eval", "--features", "--scores runs/first"):
        reader.names[flag] = f"--aggregator ridge {flag}"
    people, judges = _labels_of([f"x{at}" for at in range(40)])
    _lines(reader.folder / "people.jsonl", people)
    _lines(reader.folder / "judges.jsonl", judges)
    new = (reader.folder / "new.jsonl").read_text("utf-8").splitlines()
    _, judges = _labels_of([json.loads(line)["id"] for line in new])
    _lines(reader.folder / "judges-of-new.jsonl", judges)
    yield


def _labels_of(ids: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows with the labels of three raters, and scores of two judges."""
    labels = ("refund", "delivery", "other")
    people = [
        {"id": id_, "annotators": {"intent": [labels[at % 3]] * 3}} for at, id_ in enumerate(ids)
    ]
    judges = [
        {"id": id_, "aspect": f"{name}/intent", "value": labels[(at + at % by) % 3]}
        for at, id_ in enumerate(ids) for by, name in ((4, "one"), (5, "two"))
    ]  # fmt: skip
    return people, judges


def _decisions(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fewer texts than on the page."""
    reader.names["--next 100"] = "--next 10"
    reader.names["..."] = "--task summarization --model direct/judge"
    yield


def _appendix(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files as `benchmarks.recorded_juries` writes them."""
    out, ids = reader.folder / "out", range(40)
    out.mkdir()
    _lines(out / "summeval-six.jsonl", [
        {"id": f"x{at}", "human": {"fluency": 1 + at % 5},
         "metrics": {f"{name}/fluency": 1 + (at + at % (3 + by)) % 5
                     for by, name in enumerate(("anna", "ben"))}}
        for at in ids
    ])  # fmt: skip
    people, judges = _labels_of([f"x{at}" for at in ids])
    _lines(out / "lgbteen-people.jsonl", people)
    _lines(out / "lgbteen.jsonl", judges)
    yield


def _fusion(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tools of the names on the page that need no model."""
    _add_facts(reader)
    reader.names["nli,bleurt"] = "nli=coverage,bleurt=rougeL"

    def check(text: str, found: dict[str, Any]) -> None:
        (reader.folder / "written.toml").write_text(text, encoding="utf-8")
        _score(
            reader, "data.jsonl", "--method", "fusion-eval", "--model", "direct/judge",
            "--task", "summarization", "--aspects", "consistency,fluency", "--api-base", reader.url,
            "--tools", "nli=coverage,bleurt=rougeL", "--set", "plan=written.toml",
        )  # fmt: skip

    _toml(reader, check)
    yield


def _gateways(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every key of the page's files is read; the server is the one of the tests."""
    import certifi

    reader.names["openai/gpt-4.1-mini"] = f'direct/judge"\napi_base = "{reader.url}'
    patch.setenv("GATEWAY_KEY", "k")
    patch.setenv("TEAM_TOKEN", "t")
    reader.names |= {
        "/etc/ssl/our-ca.pem": certifi.where(),
        "https://gateway.example/openai/v1": reader.url,
        "https://gateway.example/v1": reader.url,
        "http://gpu-1:8000/v1": reader.url.replace("127.0.0.1", "localhost"),
    }
    reader.scope["textassay"] = sys.modules["textassay"]
    reader.scope["MyModel"] = lambda: ScriptedModel(lambda asked: "Rating: 4")

    def check(text: str, found: dict[str, Any]) -> None:
        (reader.folder / "gateway.toml").write_text(text, encoding="utf-8")
        given = [] if "method" in found else COMMON
        _score(reader, "data.jsonl", "--config", "gateway.toml", *given)

    def run_python(block: Block) -> None:
        Reader.run_python(reader, block)
        if test := reader.scope.get("test_my_model"):
            assert callable(test)
            mark = next(m for m in test.pytestmark if m.name == "parametrize")
            assert mark.args[0] == "check"

    reader.run_python = run_python  # type: ignore[method-assign]
    _toml(reader, check)
    yield


def _local_models(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tiny GGUF model; transformers, whose import takes seconds, has tests of its own."""
    reader.names["transformers/google/flan-t5-xl"] = "direct/judge"
    reader.names["transformers/facebook/opt-350m@main"] = "direct/judge"

    def run_python(block: Block) -> None:
        pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
        from tests.gguf_fixture import write_model

        write_model(reader.folder / "judge.gguf")
        Reader.run_python(reader, block)

    def check(text: str, found: dict[str, Any]) -> None:
        profile = reader.folder / "profile"
        (profile / "chains").mkdir(parents=True)
        (profile / "profile.toml").write_text(text, encoding="utf-8")
        (profile / "rating.jinja").write_text("Rate {{ aspect.name }}.\nRating:", encoding="utf-8")
        _score(
            reader, "new.jsonl", *COMMON, "--model", "direct/judge", "--api-base", reader.url,
            "--set", f"profile={profile}",
        )  # fmt: skip

    reader.run_python = run_python  # type: ignore[method-assign]
    _toml(reader, check)
    yield


def _reproduce(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The published data sets, if present."""
    if not DATA.is_dir():
        pytest.skip(f"benchmark data not found in {DATA}; set TEXTASSAY_DATA")
    reader.names |= {
        "--data DATA": f"--data {DATA}",
        "transformers/google/flan-t5-xl": f"direct/judge --api-base {reader.url} --limit 2",
    }
    # 1: some rows of a table lack something, and say what
    reader.statuses = (0, 1)
    yield


def _scale(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two shards instead of four."""
    reader.names |= {"1/4": "1/2", "2/4": "2/2"}
    yield


def _stress(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The judge, which draws its ratings, holds or fails as it may."""
    reader.names |= {"NAME": "direct/judge", "OTHER": "direct/other"}
    reader.statuses = (0, 1, 4)
    reader.names["--method llm-score"] = "--aspects consistency --method llm-score"
    reader.names["--method g-eval"] = "--aspects consistency --method g-eval"
    yield


def _telemetry(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    reader.scope["telemetry"].uninstrument()


def _thinking(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server of the page's file is the one of the tests."""
    reader.names["http://127.0.0.1:8000/v1"] = reader.url

    def check(text: str, found: dict[str, Any]) -> None:
        (reader.folder / "judge.toml").write_text(text, encoding="utf-8")
        _score(reader, "data.jsonl", "--config", "judge.toml", *COMMON)

    _toml(reader, check)
    yield


def _tools(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    import re

    from textassay.tools import build, premise, tool

    reader.names["nli:/models/nli"] = "nli=coverage"
    reader.scope |= {"tool": tool, "premise": premise, "Example": Example, "re": re}
    reader.scope["example"] = Example(output="It rained.", source="It rained all day.")

    def check(text: str, found: dict[str, Any]) -> None:
        (name,) = found["tools"]
        (made,) = build([name], table=found["tools"])
        assert made.name == name

    _toml(reader, check)
    yield


def _trees(reader: Reader, patch: pytest.MonkeyPatch) -> Iterator[None]:
    def check(text: str, found: dict[str, Any]) -> None:
        (reader.folder / "own.toml").write_text(text, encoding="utf-8")
        _score(
            reader, "data.jsonl", "--method", "hd-eval", "--task", "summarization",
            "--aspects", "coherence", "--set", "tree=own.toml",
            "--model", "direct/judge", "--api-base", reader.url,
        )  # fmt: skip

    _toml(reader, check)
    _add_facts(reader)
    yield


def _add_facts(reader: Reader) -> None:
    """Give each row the fact of its dialogue, without which groundedness abstains."""
    data = reader.folder / "data.jsonl"
    rows = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    _lines(data, [{**row, "context": row["source"]} for row in rows])


PREPARE = {
    "agreement.md": _agreement, "annotate.md": _annotate, "appendix.md": _appendix,
    "check.md": _check, "data.md": _data,
    "estimation.md": _decisions, "exports.md": _exports, "fit.md": _fit,
    "fusion-eval.md": _fusion, "gateways.md": _gateways, "local-models.md": _local_models,
    "reproduce.md": _reproduce, "scale.md": _scale, "stress.md": _stress,
    "telemetry.md": _telemetry, "thinking.md": _thinking, "tools.md": _tools, "trees.md": _trees,
}  # fmt: skip
