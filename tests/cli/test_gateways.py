"""Gateways: what they ask for beside a key, texts that they turn away, and outages of theirs."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli.harness import rows_of, textassay, write_examples
from tests.loopback import in_thread, listening

Handler = Callable[[web.Request, str], web.Response]


def rated(usage: dict[str, Any] | None = None) -> web.Response:
    message = {"role": "assistant", "content": "Rating: 4"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = usage or {"prompt_tokens": 200, "completion_tokens": 3}
    return web.json_response({"model": "m", "choices": [choice], "usage": usage})


@contextmanager
def gateway(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve `handler(request, text)` in a thread; yields the address."""

    async def answer(request: web.Request) -> web.Response:
        return handler(request, await request.text())

    with in_thread(lambda: listening(answer, tls)) as address:
        yield f"{address}/v1"


def score(data: Path, out: Path, url: str, *more: object) -> Any:
    judge = ("--method", "llm-score", "--model", "direct/m", "--aspects", "coherence")
    return textassay("score", data, *judge, "--api-base", url, "--out", out, *more)


@pytest.mark.parametrize("status", [403, 400])
def test_one_poisoned_row_does_not_stop_the_run(tmp_path, status):
    """Before: stopped at that row, and at every resume; no row was ever finished."""
    data = write_examples(tmp_path / "d.jsonl", 30)
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows[7]["output"] = "'; DROP TABLE users; --"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def firewall(request: web.Request, text: str) -> web.Response:
        if "DROP TABLE" in text:
            said = f"model blocked: {text}: the model does not exist"
            return web.json_response({"error": {"message": said}}, status=status)
        return rated()

    with gateway(firewall) as url:
        ended = score(data, tmp_path / "run", url)
    assert ended.code == 1, ended.err
    outcomes = [row["outcome"] for row in rows_of(tmp_path / "run")]
    assert (outcomes.count("scored"), outcomes.count("error")) == (29, 1)
    assert "RequestRefused x1: " in ended.out


def test_a_gateway_that_only_fails_is_not_asked_to_the_very_end(tmp_path):
    """Before: all rows, six attempts each."""
    asked = []

    def broken(request: web.Request, text: str) -> web.Response:
        asked.append(text)
        return web.json_response({"error": {"message": "oops"}}, status=500)

    data = write_examples(tmp_path / "d.jsonl", 200)
    with gateway(broken) as url:
        ended = score(data, tmp_path / "run", url, "--set", "attempts=1", "--concurrency", 4)
    assert ended.code == 3
    assert "the last 20 calls" in ended.err
    assert "resume" in ended.err
    assert len(asked) <= 20 + 4


@pytest.mark.parametrize("lies", [{"prompt_tokens": 0, "completion_tokens": 0}, "empty"])
def test_max_cost_holds_whatever_the_server_tells(tmp_path, lies):
    """Answers without usage and answers without text count; before, the budget was never
    reached."""
    asked = []

    def cheat(request: web.Request, text: str) -> web.Response:
        asked.append(text)
        if lies != "empty":
            return rated(lies)
        message = {"role": "assistant", "content": None}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 0}
        return web.json_response({"model": "m", "choices": [choice], "usage": usage})

    data = write_examples(tmp_path / "d.jsonl", 200)
    with gateway(cheat) as url:
        budget = ("--price", "1000,1000", "--max-cost", "5", "--concurrency", 2)
        patience = ("--set", "failure_limit=1000", "--set", "attempts=2")
        ended = score(data, tmp_path / "run", url, *budget, *patience)
    assert ended.code == 3
    assert "cost limit" in ended.err
    # a prompt has some 300 tokens, 30 cents at this price
    assert len(asked) <= 40


@pytest.mark.parametrize("name", ["direct/m", "openai/m"])
def test_headers_query_and_key_of_each_role_come_from_the_config(tmp_path, monkeypatch, name):
    """Everything a gateway may ask for; secrets stay in the environment and out of the manifest."""
    monkeypatch.setenv("GATEWAY_KEY", "sk-the-key-of-the-gateway")
    monkeypatch.setenv("TEAM_TOKEN", "team-token-0123456789")
    seen: list[web.Request] = []

    def check(request: web.Request, text: str) -> web.Response:
        seen.append(request)
        return rated()

    data = write_examples(tmp_path / "d.jsonl", 2)
    with gateway(check) as url:
        config = tmp_path / "judge.toml"
        config.write_text(
            "[models.scorer]\n"
            f'model = "{name}"\n'
            "price = [1, 1]\n"
            f'api_base = "{url}?tier=fast"\n'
            'api_key_env = "GATEWAY_KEY"\n'
            'api_key_header = "api-key"\n'
            'api_version = "2026-01-01"\n'
            'headers = { X-Team = "judges ${TEAM_TOKEN}" }\n'
            "timeout = 30\n"
        )
        judge = ("--method", "llm-score", "--aspects", "coherence", "--config", config)
        ended = textassay("score", data, *judge, "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    (first, *_) = seen
    assert first.path == "/v1/chat/completions"
    assert dict(first.query) == {"tier": "fast", "api-version": "2026-01-01"}
    assert first.headers["api-key"] == "sk-the-key-of-the-gateway"
    assert first.headers["X-Team"] == "judges team-token-0123456789"
    assert "Authorization" not in first.headers
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"sk-the-key" not in content
            assert b"team-token" not in content


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """A certificate for localhost that no authority has signed, with its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    key, pem = folder / "key.pem", folder / "cert.pem"
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    try:
        command = (*made, *names, "-keyout", str(key), "-out", str(pem))
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    both = folder / "both.pem"
    both.write_text(pem.read_text() + key.read_text())
    return both


@pytest.mark.parametrize("name", ["direct/m", "openai/m"])
def test_an_untrusted_certificate_stops_the_run_and_an_own_authority_is_trusted(
    tmp_path, certificate, name
):
    """Through litellm it was a malformed answer per sample, six times each."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    data = write_examples(tmp_path / "d.jsonl", 1)
    judge = ("--method", "llm-score", "--aspects", "coherence", "--model", name)
    with gateway(lambda request, text: rated(), tls) as url:
        at = ("--api-base", url, "--set", "attempts=2", "--price", "1,1")
        refused = textassay("score", data, *judge, *at, "--out", tmp_path / "a")
        trusted = textassay(
            "score", data, *judge, *at, "--out", tmp_path / "b", "--set", f"ca={certificate}"
        )
    assert refused.code == 3
    assert "cannot trust the certificate" in refused.err
    assert trusted.code == 0, trusted.err


@pytest.mark.parametrize("name", ["direct/m", "openai/m"])
def test_a_client_certificate_is_shown_to_a_server_that_asks_for_one(tmp_path, certificate, name):
    """Without it the run stops; its key may stand in the same file."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificate)
    data = write_examples(tmp_path / "d.jsonl", 1)
    judge = ("--method", "llm-score", "--aspects", "coherence", "--model", name)
    patience = ("--set", "attempts=1", "--set", "outage_wait=0", "--price", "1,1")
    with gateway(lambda request, text: rated(), tls) as url:
        at = (*judge, "--api-base", url, *patience, "--set", f"ca={certificate}")
        refused = textassay("score", data, *at, "--out", tmp_path / "a")
        shown = ("--set", f"client_cert={certificate}")
        accepted = textassay("score", data, *at, *shown, "--out", tmp_path / "b")
    assert refused.code in (1, 3)
    assert accepted.code == 0, accepted.err


@pytest.mark.parametrize("name", ["direct/m", "openai/m"])
def test_endpoints_behind_a_proxy_have_keys_of_their_own(tmp_path, monkeypatch, name):
    """Each is sent its own key and no other, and no file of the run holds one of the secrets."""
    secrets = {"KEY_ONE": "sk-one-0123456789", "KEY_TWO": "sk-two-0123456789"}
    secrets |= {"PROXY_PASSWORD": "proxy-0123456789", "SIGNATURE": "signed-0123456789"}
    for variable, value in secrets.items():
        monkeypatch.setenv(variable, value)
    seen: dict[str, web.Request] = {}

    def check(request: web.Request, text: str) -> web.Response:
        seen[request.url.host] = request
        return rated()

    data = write_examples(tmp_path / "d.jsonl", 4)
    config, run = tmp_path / "judge.toml", tmp_path / "run"
    with gateway(check) as url:
        proxy = url.removesuffix("/v1").replace("localhost", "127.0.0.1")
        config.write_text(
            "[models.scorer]\n"
            f'model = "{name}"\n'
            "price = [1, 1]\n"
            'query = { sig = "${SIGNATURE}" }\n'
            f'proxy = "{proxy.replace("//", "//me:${PROXY_PASSWORD}@")}"\n'
            "[[models.scorer.endpoints]]\n"
            'api_base = "http://one.invalid/v1"\n'
            'api_key_env = "KEY_ONE"\n'
            "[[models.scorer.endpoints]]\n"
            'api_base = "http://two.invalid/v1"\n'
            'api_key_env = "KEY_TWO"\n'
            'api_key_header = "api-key"\n'
        )
        judge = ("--method", "llm-score", "--aspects", "coherence", "--config", config)
        ended = textassay("score", data, *judge, "--out", run)
    assert ended.code == 0, ended.err
    one, two = seen["one.invalid"], seen["two.invalid"]
    assert one.headers["Authorization"] == f"Bearer {secrets['KEY_ONE']}"
    assert two.headers["api-key"] == secrets["KEY_TWO"]
    assert "Authorization" not in two.headers
    for request in (one, two):
        assert request.query["sig"] == secrets["SIGNATURE"]
        assert "Proxy-Authorization" in request.headers
    for path in (path for path in run.rglob("*") if path.is_file()):
        assert not [value for value in secrets.values() if value.encode() in path.read_bytes()]


def test_resume_takes_headers_and_addresses_from_the_config(tmp_path, monkeypatch):
    """What is never taken from a run folder can be given in the file of the run."""
    monkeypatch.setenv("TEAM_TOKEN", "team-token-0123456789")
    down = [False]

    def check(request: web.Request, text: str) -> web.Response:
        if request.headers.get("X-Team") != "judges team-token-0123456789":
            return web.json_response({"error": {"message": "who are you?"}}, status=401)
        if down[0] and "Text number 1" in text:
            return web.json_response({"error": {"message": "no"}}, status=422)
        return rated()

    data = write_examples(tmp_path / "d.jsonl", 2)
    config, run = tmp_path / "judge.toml", tmp_path / "run"
    with gateway(check) as url:
        config.write_text(
            'method = "llm-score"\n'
            'aspects = ["coherence"]\n'
            "[models.scorer]\n"
            'model = "direct/m"\n'
            f'api_base = "{url}"\n'
            'headers = { X-Team = "judges ${TEAM_TOKEN}" }\n'
        )
        down[0] = True
        assert textassay("score", data, "--config", config, "--out", run).code == 1
        down[0] = False
        without = textassay("resume", run)
        resumed = textassay("resume", run, "--config", config)
    assert without.code != 0
    assert resumed.code == 0, resumed.err
    assert [row["outcome"] for row in rows_of(run)].count("scored") == 2


@pytest.mark.parametrize("name", ["direct/m", "openai/m"])
def test_proxies_of_the_environment_are_asked_but_for_what_they_leave_out(
    tmp_path, monkeypatch, name
):
    """`HTTP_PROXY` names the proxy, `NO_PROXY` the servers that are reached without it."""
    seen = []

    def answer(request: web.Request, text: str) -> web.Response:
        seen.append(request.raw_path)
        return rated()

    data = write_examples(tmp_path / "d.jsonl", 1)
    judge = ("--method", "llm-score", "--aspects", "coherence", "--model", name, "--price", "1,1")
    with gateway(answer) as url:
        here = url.removesuffix("/v1").replace("localhost", "127.0.0.1")
        for variable in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(variable, here)
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(variable, "")
        base = ("--api-base", "http://judge.invalid/v1")
        through = textassay("score", data, *judge, *base, "--out", tmp_path / "a")
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(variable, "127.0.0.1")
        for variable in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(variable, "http://127.0.0.1:9")
        past = textassay("score", data, *judge, "--api-base", f"{here}/v1", "--out", tmp_path / "b")
    assert through.code == 0, through.err
    assert past.code == 0, past.err
    assert seen == ["http://judge.invalid/v1/chat/completions", "/v1/chat/completions"]


def test_a_proxy_that_is_named_is_asked(tmp_path):
    """The proxy sees the whole address of a server that exists nowhere."""
    seen = []

    def proxy(request: web.Request, text: str) -> web.Response:
        seen.append(request.raw_path)
        return rated()

    data = write_examples(tmp_path / "d.jsonl", 1)
    with gateway(proxy) as url:
        address = url.removesuffix("/v1").replace("localhost", "127.0.0.1")
        base = "http://judge.invalid/v1"
        ended = score(data, tmp_path / "run", base, "--set", f"proxy={address}")
    assert ended.code == 0, ended.err
    assert seen == ["http://judge.invalid/v1/chat/completions"]


def test_doctor_says_by_its_status_that_nothing_works():
    """Before: all "no", and 0."""

    def broken(request: web.Request, text: str) -> web.Response:
        return web.json_response({"error": {"message": "no such field"}}, status=422)

    with gateway(broken) as url:
        assert textassay("doctor", "direct/m", "--api-base", url).code == 1
    with gateway(lambda request, text: rated()) as url:
        assert textassay("doctor", "direct/m", "--api-base", url).code == 0


def test_doctor_names_levels_of_effort_and_what_was_cached():
    """As the refusal of one level names them; long prompts are told by what usage says."""
    asked: list[dict[str, Any]] = []

    def provider(request: web.Request, text: str) -> web.Response:
        body = json.loads(text)
        if request.path != "/v1/chat/completions":
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        if body.get("reasoning_effort") == "max":
            said = (
                "Unsupported value: 'reasoning_effort' does not support 'max' with this model."
                " Supported values are: 'none', 'low', and 'high'."
            )
            error = {"message": said, "param": "reasoning_effort", "code": "unsupported_value"}
            return web.json_response({"error": error}, status=400)
        cached = 2048 if len(text) > 8000 and body in asked else 0
        asked.append(body)
        usage = {"prompt_tokens": 2500, "completion_tokens": 3}
        return rated({**usage, "prompt_tokens_details": {"cached_tokens": cached}})

    with gateway(provider) as url:
        flags = ("--effort", "low", "--temperature", "0.5", "--json")
        done = textassay("doctor", "direct/m", "--api-base", url, *flags)
    assert done.code == 0, (done.out, done.err)
    details = {row["ability"]: row["detail"] for row in json.loads(done.out)["rows"]}
    assert details["effort"] == "takes none, low, high; none gives no thought"
    assert details["caching"].startswith("2,048 of 2,500 tokens")
    assert {body["temperature"] for body in asked} == {0.5}
    assert {body["reasoning_effort"] for body in asked} == {"low", "none"}
