"""Runs from elsewhere: of another user, of Python."""

import asyncio
import json
import shutil
import sys

import pytest

from tests.cli.harness import (
    read_json,
    rows_of,
    score,
    served,
    textassay,
    verdicts,
    write_examples,
)
from textassay import Aspect, Example, Graph, Node, Score, connect, each, evaluate, evaluate_sync
from textassay.runtime.messages import Assignment

SECRET = "AKIA-0123456789-secret"


@pytest.fixture
def finished(data, run, server):
    """A run of six examples, one score of which is taken away again."""
    score(data, run, server, aspects="fluency").ok()
    lines = (run / "scores.jsonl").read_bytes().splitlines(keepends=True)
    (run / "scores.jsonl").write_bytes(b"".join(lines[:-1]))
    return run


def edit(run, **settings):
    """Change settings of a manifest by hand."""
    manifest = read_json(run / "manifest.json")
    manifest["settings"] |= settings
    (run / "manifest.json").write_text(json.dumps(manifest))
    return manifest


@pytest.mark.parametrize("where", ["settings", "", "scorer"])
def test_a_manifest_cannot_have_a_secret_sent(finished, run, monkeypatch, where):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with served(require_key=SECRET) as thief:
        planted = {"api_base": thief.url, "api_key_env": "AWS_SECRET_ACCESS_KEY"}
        edit(run, **(planted if where == "settings" else {"roles": {where: planted}}))
        refused = textassay("resume", run)
        assert refused.code == 2
        assert f"--api-base {thief.url} --api-key-env AWS_SECRET_ACCESS_KEY" in refused.err
        for half in (("--api-base", thief.url), ("--api-key-env", "AWS_SECRET_ACCESS_KEY")):
            assert textassay("resume", run, *half).code == 2
        assert thief.counters.requests == 0
        shutil.rmtree(run / "answers")
        asked = textassay(
            "resume", run, "--api-base", thief.url, "--api-key-env", "AWS_SECRET_ACCESS_KEY"
        )
        assert asked.code == 0, asked.err
        assert thief.counters.ok == 1


@pytest.mark.parametrize(
    "planted",
    [
        {"headers": {"X": "${AWS_SECRET_ACCESS_KEY}"}},
        {"query": {"x": "${AWS_SECRET_ACCESS_KEY}"}},
        {"proxy": "http://${AWS_SECRET_ACCESS_KEY}@127.0.0.1:9"},
    ],
)
def test_headers_query_and_proxy_are_not_taken_from_a_manifest(finished, run, monkeypatch, planted):
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    edit(run, **planted)
    textassay("resume", run).ok()
    assert len(verdicts(run)) == 6


def test_a_manifest_makes_no_cache_folder(finished, run, tmp_path):
    """Given again, it is used."""
    folder = tmp_path / "made"
    edit(run, cache=str(folder))
    textassay("resume", run).ends(2, f"--cache '{folder}'")
    assert not folder.exists()
    assert textassay("resume", run, "--cache", folder).code == 0


def test_a_run_without_a_key_is_resumed_without_flags(data, run, server, tmp_path):
    """A server without a key is asked at the recorded address, a cache that exists is used."""
    score(data, run, server, "--limit", 5, "--cache", tmp_path / "cache", aspects="fluency").ok()
    (run / "scores.jsonl").write_text("")
    textassay("resume", run).ok()
    assert len(verdicts(run)) == 5


def test_litellm_sends_the_key_it_finds_to_no_address_of_a_manifest(
    finished, run, server, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    manifest = edit(run)
    manifest["spec"]["models"] = {"": "openai/mock"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    textassay("resume", run).ends(2, f"--api-base {server.url}")
    manifest["spec"]["models"] = {"": "huggingface/http://127.0.0.1:9/x"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert "contains an address" in textassay("resume", run, "--api-base", server.url).err


DAMAGE = [
    {"settings": None},
    {"settings": []},
    {"settings": {"attempts": "many"}},
    {"settings": {"unknown": 1}},
    {"models": None},
    {"models": {"": None}},
    {"models": {"": {"name": 1, "identity": {}}}},
    {"models": {"": {"name": "direct/mock", "identity": [1]}}},
    {"spec": None},
    {"spec": {"method": 1}},
    {"spec": {"method": "llm-score", "models": {"": ["x"]}}},
]


def test_a_damaged_manifest_is_refused(finished, data, run, server):
    """Whatever has the wrong type: status 2, the file's name, no traceback, nothing asked."""
    asked, whole = server.counters.requests, read_json(run / "manifest.json")
    for damage in DAMAGE:
        (run / "manifest.json").write_text(json.dumps(whole | damage))
        textassay("resume", run).ends(2, "manifest.json")
    replayed = score(data, run.with_name("replayed"), server, model=f"replay/{run}")
    assert replayed.code in (0, 1, 2)
    (run / "manifest.json").write_text('{"format": 1, "settings": ' + "[" * 50_000)
    textassay("resume", run).ends(2, "nested too deeply")
    assert server.counters.requests == asked


def test_scores_that_were_edited_are_reported(finished, run, server):
    """An id that the data lack, or the blank lines and byte order marks of an editor."""
    scores, asked = run / "scores.jsonl", server.counters.requests
    whole = scores.read_bytes()
    foreign = json.dumps(rows_of(run)[0] | {"id": "from-elsewhere"}).encode()
    for content, said in (
        (whole + foreign + b"\n", "scores.jsonl:6: 'from-elsewhere'"),
        (b"\n" + whole, "scores.jsonl:1: "),
        (b"\xef\xbb\xbf" + whole, "scores.jsonl:1: "),
    ):
        scores.write_bytes(content)
        textassay("resume", run).ends(2, said)
    assert server.counters.requests == asked


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_links_in_a_run_lead_nowhere(finished, run, tmp_path):
    foreign = tmp_path / "foreign"
    foreign.write_text("not ours")
    (run / ".summary.json.tmp").symlink_to(foreign)
    assert textassay("resume", run).code == 0
    (run / "scores.jsonl").unlink()
    (run / "scores.jsonl").symlink_to(foreign)
    textassay("resume", run).ends(2, "is a link")
    assert foreign.read_text() == "not ours"


@pytest.mark.parametrize("model", ["direct/mock", "openai/mock"])
def test_a_key_that_the_server_echoes_is_written_nowhere(data, run, monkeypatch, model):
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    key = ("--api-key-env", "JUDGE_KEY", "--price", "1,1")
    with served(reply=lambda prompt, draw: f"Authorization: Bearer {SECRET}\nRating: 4") as server:
        score(data, run, server, *key, model=model, aspects="fluency").ok()
    assert "[key]" in rows_of(run)[0]["explanation"]
    for path in run.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


async def make(data, run, **settings):
    async with connect("direct/judge", **settings) as model:
        wanted = {"task": "summarization", "aspects": ["fluency"], "progress": False}
        await evaluate(data, method="llm-score", model=model, out=run, **wanted)


def test_the_settings_of_a_connected_model_are_recorded(server, tmp_path):
    """Before, the manifest held the defaults, and `resume` asked for the address."""
    data, run = write_examples(tmp_path / "data.jsonl", 3), tmp_path / "run"
    asyncio.run(make(data, run, api_base=server.url, rpm=5000, attempts=2))
    settings = read_json(run / "manifest.json")["settings"]
    assert (settings["api_base"], settings["rpm"], settings["attempts"]) == (server.url, 5000, 2)
    done = textassay("resume", run)
    assert (done.code, "fluency  3" in done.out) == (0, True), done.err


@pytest.mark.parametrize("known", [True, False])
def test_a_key_of_a_connected_model_is_asked_for_again(server, tmp_path, monkeypatch, known):
    monkeypatch.setenv("JUDGE_KEY", "sk-a-key-of-this-test-0123456789")
    data, run = write_examples(tmp_path / "data.jsonl", 2), tmp_path / "run"
    given = {"api_key_env": "JUDGE_KEY"} if known else {"headers": {"X-Key": "secret-of-this-test"}}
    asyncio.run(make(data, run, api_base=server.url, **given))
    text = (run / "manifest.json").read_text()
    assert "sk-a-key" not in text
    assert "secret-of" not in text
    before = server.counters.requests
    done = textassay("resume", run)
    if known:
        assert done.code == 2
        assert f"--api-base {server.url} --api-key-env JUDGE_KEY" in done.err
    assert server.counters.requests == before


def test_a_run_of_a_graph_is_resumed_in_python(tmp_path):
    """Which the message says; also if a method has the graph's name and would judge the rest."""

    async def length(example: Example, aspect: Aspect) -> Score:
        value = float(len(example.output) % 5)
        return Score(id=example.id, aspect=aspect.label, value=value, scale=(0, 4), how="tool")

    node = Node("length", length, example="input.example", aspect=each("input.aspects"))
    data = write_examples(tmp_path / "data.jsonl", 3)
    for name in ("lengths", "llm-score"):
        graph = Graph(name, input=Assignment, nodes=[node], output="length")
        evaluate_sync(data, method=graph, aspects=["fluency"], out=tmp_path / name, limit=1)
        done = textassay("resume", tmp_path / name)
        assert done.code == 2
        assert f"made by the graph {name!r}, which is Python code" in done.messages
