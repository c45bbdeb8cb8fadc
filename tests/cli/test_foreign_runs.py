"""A run folder from somebody else: what it can and cannot make `resume` do."""

import json
import shutil
import sys

import pytest

from tests.cli.harness import rows_of, served, textassay, verdicts

SECRET = "AKIA-0123456789-secret"


def finished_run(data, run, server, *more):
    """A run of six examples, one score of which is taken away again."""
    flags = ("--method", "llm-score", "--model", "direct/mock", "--api-base", server.url)
    done = textassay("score", data, *flags, "--aspects", "fluency", "--out", run, *more)
    assert done.code == 0, done.err
    lines = (run / "scores.jsonl").read_bytes().splitlines(keepends=True)
    (run / "scores.jsonl").write_bytes(b"".join(lines[:-1]))


def edit(run, **settings):
    """Change settings of a manifest by hand."""
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["settings"] |= settings
    (run / "manifest.json").write_text(json.dumps(manifest))
    return manifest


@pytest.mark.parametrize("where", ["settings", "", "scorer"])
def test_a_manifest_cannot_have_a_secret_sent(data, run, server, monkeypatch, where):
    """Neither by the variable and address it names, nor in a role's table; given again, both are
    used."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    finished_run(data, run, server)
    with served(require_key=SECRET) as thief:
        planted = {"api_base": thief.url, "api_key_env": "AWS_SECRET_ACCESS_KEY"}
        edit(run, **(planted if where == "settings" else {"roles": {where: planted}}))
        refused = textassay("resume", run)
        assert refused.code == 2
        assert f"--api-base {thief.url} --api-key-env AWS_SECRET_ACCESS_KEY" in refused.err
        for half in (
            ("--api-base", thief.url),
            ("--api-key-env", "AWS_SECRET_ACCESS_KEY"),
        ):
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
def test_headers_query_and_proxy_are_not_taken_from_a_manifest(
    data, run, server, monkeypatch, planted
):
    """They may name any variable; the run is resumed without them."""
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    finished_run(data, run, server)
    edit(run, **planted)
    done = textassay("resume", run)
    assert done.code == 0, done.err
    assert len(verdicts(run)) == 6


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("limits", "redis://192.0.2.1/0"),
        ("cache", "redis://192.0.2.1/0"),
        ("cache", "rediss://evil.example/0"),
        ("cache", "redis://127.0.0.1.evil.example/0"),
        ("cache", "redis://:${AWS_SECRET_ACCESS_KEY}@127.0.0.1/0"),
        ("cache", "FOLDER"),
    ],
)
def test_a_manifest_cannot_say_where_answers_are_kept(data, run, server, tmp_path, name, address):
    """Whoever has the place can give any answer in the model's name; given again, it is used."""
    address = address.replace("FOLDER", str(tmp_path / "made"))
    finished_run(data, run, server)
    edit(run, **{name: address})
    refused = textassay("resume", run)
    assert refused.code == 2
    assert f"--{name} '{address}'" in refused.err
    assert not (tmp_path / "made").exists()
    if "made" in address:
        assert textassay("resume", run, "--cache", address).code == 0


def test_a_run_with_a_cache_that_exists_is_resumed_without_flags(data, run, server, tmp_path):
    """It was made by whoever made the run here."""
    finished_run(data, run, server, "--cache", tmp_path / "cache")
    done = textassay("resume", run)
    assert done.code == 0, done.err
    assert len(verdicts(run)) == 6


def test_litellm_sends_the_key_it_finds_to_no_address_of_a_manifest(data, run, server, monkeypatch):
    """No variable is named, but litellm looks for its providers' own."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    finished_run(data, run, server)
    manifest = edit(run)
    manifest["spec"]["models"] = {"": "openai/mock"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    refused = textassay("resume", run)
    assert refused.code == 2
    assert f"--api-base {server.url}" in refused.err
    manifest["spec"]["models"] = {"": "huggingface/http://127.0.0.1:9/x"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert "contains an address" in textassay("resume", run, "--api-base", server.url).err


def test_a_run_without_a_key_is_resumed_without_flags(data, run, server):
    """A local server is asked at the recorded address: no key is sent there."""
    finished_run(data, run, server)
    assert textassay("resume", run).code == 0
    assert len(verdicts(run)) == 6


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


@pytest.mark.parametrize("damage", DAMAGE, ids=map(str, DAMAGE))
def test_a_damaged_manifest_is_refused(data, run, server, damage):
    """Whatever has the wrong type: status 2, the file's name, no traceback, nothing asked."""
    finished_run(data, run, server)
    asked = server.counters.requests
    manifest = json.loads((run / "manifest.json").read_text()) | damage
    (run / "manifest.json").write_text(json.dumps(manifest))
    refused = textassay("resume", run)
    assert refused.code == 2
    assert "manifest.json" in refused.err
    replayed = textassay(
        *("score", data, "--method", "llm-score", "--model", f"replay/{run}"),
        *("--aspects", "fluency", "--out", run.with_name("replayed")),
    )
    assert replayed.code in (0, 1, 2)
    assert server.counters.requests == asked


def test_a_deep_manifest_is_refused(data, run, server):
    """Nested beyond what any reader follows."""
    finished_run(data, run, server)
    deep = '{"format": 1, "settings": ' + "[" * 50_000
    (run / "manifest.json").write_text(deep)
    refused = textassay("resume", run)
    assert refused.code == 2
    assert "nested too deeply" in refused.err


def test_a_score_of_an_example_that_the_data_lack_is_told(data, run, server):
    """It would count in the means; resume names line and id, and asks nothing."""
    finished_run(data, run, server)
    row = rows_of(run)[0] | {"id": "from-elsewhere"}
    with (run / "scores.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    asked = server.counters.requests
    refused = textassay("resume", run)
    assert refused.code == 2
    assert "scores.jsonl:6: 'from-elsewhere'" in refused.err
    assert server.counters.requests == asked


@pytest.mark.parametrize("damage", [b"\n", b"\xef\xbb\xbf"])
def test_a_file_of_scores_that_was_edited_is_told(data, run, server, damage):
    """Blank lines and byte order marks come from an editor."""
    finished_run(data, run, server)
    (run / "scores.jsonl").write_bytes(damage + (run / "scores.jsonl").read_bytes())
    refused = textassay("resume", run)
    assert refused.code == 2
    assert "scores.jsonl:1: " in refused.err


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_links_in_a_run_lead_nowhere(data, run, server, tmp_path):
    """The file that a link names keeps its bytes."""
    finished_run(data, run, server)
    foreign = tmp_path / "foreign"
    foreign.write_text("not ours")
    (run / ".summary.json.tmp").symlink_to(foreign)
    assert textassay("resume", run).code == 0
    (run / "scores.jsonl").unlink()
    (run / "scores.jsonl").symlink_to(foreign)
    refused = textassay("resume", run)
    assert refused.code == 2
    assert "is a link" in refused.err
    assert foreign.read_text() == "not ours"


@pytest.mark.parametrize("model", ["direct/mock", "openai/mock"])
def test_a_key_that_the_server_echoes_is_written_nowhere(data, run, monkeypatch, model):
    """Not as the explanation of a score, nor in the answers that are kept."""
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    with served(reply=lambda prompt, draw: f"Authorization: Bearer {SECRET}\nRating: 4") as server:
        flags = ("--method", "llm-score", "--model", model, "--api-base", server.url)
        key = ("--api-key-env", "JUDGE_KEY", "--price", "1,1")
        done = textassay("score", data, *flags, *key, "--aspects", "fluency", "--out", run)
        assert done.code == 0, done.err
        assert "[key]" in rows_of(run)[0]["explanation"]
    for path in run.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
