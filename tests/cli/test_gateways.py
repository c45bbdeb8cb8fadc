"""Gateways: what they ask for beside a key, outages of theirs, and several as one model."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli import harness
from tests.cli.harness import (
    Outcome,
    read_lines,
    rows_of,
    served,
    textassay,
    write_examples,
    write_lines,
)
from tests.decision_server import Decisions, deciding_in_thread
from tests.loopback import in_thread, listening, make_certificate
from textassay.runtime.settings import OneOfEndpoints, Settings
from textassay.runtime.storage.run_files import read_manifest

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


def score(data: Path, out: Path, url: str, *more: object, model: str = "direct/m") -> Outcome:
    return harness.score(data, out, url, *more, model=model, aspects="coherence")


@pytest.mark.parametrize("status", [403, 400])
def test_one_poisoned_row_does_not_stop_the_run(tmp_path, status):
    """Before: stopped at that row, and at every resume; no row was ever finished."""
    data = write_examples(tmp_path / "d.jsonl", 30)
    rows = read_lines(data)
    rows[7]["output"] = "'; DROP TABLE users; --"
    write_lines(data, rows)

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
    assert "20 calls to direct/m failed in a row" in ended.messages
    assert "resume" in ended.err
    assert len(asked) <= 20 + 4


@pytest.mark.parametrize("lies", [{"prompt_tokens": 0, "completion_tokens": 0}, "empty"])
def test_max_cost_holds_whatever_the_server_reports(tmp_path, lies):
    """Answers without usage or without text count; before, the budget was never reached."""
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
        ended = score(data, tmp_path / "run", url, *budget, "--set", "attempts=2")
    assert ended.code == 3
    assert "cost limit" in ended.err
    # a prompt has some 300 tokens, 30 cents at this price
    assert len(asked) <= 40


def test_a_cost_without_counts_of_tokens_is_not_for_want_of_a_price(tmp_path):
    """Before, zeros cost nothing, and answers without usage asked for the price that was given."""
    data = write_examples(tmp_path / "d.jsonl", 1)
    with gateway(lambda *_: rated({"prompt_tokens": 0, "completion_tokens": 0})) as url:
        ended = score(data, tmp_path / "run", url, "--price", "1,1")
    assert "cost unknown (the server reports no tokens)" in ended.out


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """A certificate for localhost that no authority has signed, with its key, in one file."""
    return make_certificate(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.mark.parametrize("name", ["direct/m", "openai/m"])
@pytest.mark.parametrize("asked", [False, True])
def test_certificates_of_an_own_authority_are_trusted_and_shown(tmp_path, certificate, name, asked):
    """One of the server needs `ca`; a server may ask for one, whose key stands in the same file."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    if asked:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(certificate)
    data, trust = write_examples(tmp_path / "d.jsonl", 1), ("--set", f"ca={certificate}")
    at = ("--set", "attempts=1", "--set", "outage_wait=0", "--price", "1,1")
    without, complete = (at, trust) if not asked else ((*at, *trust), ())
    complete = (*without, *complete, *(("--set", f"client_cert={certificate}") if asked else ()))
    with gateway(lambda request, text: rated(), tls) as url:
        refused = score(data, tmp_path / "a", url, *without, model=name)
        score(data, tmp_path / "b", url, *complete, model=name).ok()
    assert refused.code in ((1, 3) if asked else (3,))
    assert asked or "cannot trust the certificate" in refused.err


@pytest.mark.parametrize("name", ["direct/m", "openai/m"])
def test_endpoints_behind_a_proxy_have_keys_of_their_own(tmp_path, monkeypatch, name):
    """Each is sent its own key and what all are sent; no file of the run holds a secret."""
    secrets = {"KEY_ONE": "sk-one-0123456789", "KEY_TWO": "sk-two-0123456789"}
    secrets |= {"PROXY_PASSWORD": "proxy-0123456789", "SIGNATURE": "signed-0123456789"}
    secrets["TEAM_TOKEN"] = "team-0123456789"
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
            'query = { sig = "${SIGNATURE}", api-version = "2026-01-01" }\n'
            'headers = { X-Team = "judges ${TEAM_TOKEN}" }\n'
            f'proxy = "{proxy.replace("//", "//me:${PROXY_PASSWORD}@")}"\n'
            "[[models.scorer.endpoints]]\n"
            'api_base = "http://one.invalid/v1?tier=fast"\n'
            'api_key_env = "KEY_ONE"\n'
            "[[models.scorer.endpoints]]\n"
            'api_base = "http://two.invalid/v1"\n'
            'api_key_env = "KEY_TWO"\n'
            'api_key_header = "api-key"\n'
        )
        judge = ("--method", "llm-score", "--aspects", "coherence", "--config", config)
        textassay("score", data, *judge, "--out", run).ok()
    one, two = seen["one.invalid"], seen["two.invalid"]
    assert one.url.path == "/v1/chat/completions"
    assert one.query["tier"] == "fast"
    assert one.headers["Authorization"] == f"Bearer {secrets['KEY_ONE']}"
    assert two.headers["api-key"] == secrets["KEY_TWO"]
    assert "Authorization" not in two.headers
    for request in (one, two):
        assert request.query["sig"] == secrets["SIGNATURE"]
        assert request.query["api-version"] == "2026-01-01"
        assert request.headers["X-Team"] == f"judges {secrets['TEAM_TOKEN']}"
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
def test_proxies_are_asked_but_for_what_they_leave_out(tmp_path, monkeypatch, name):
    """`proxy` and `HTTP_PROXY` name one, `NO_PROXY` the servers that are reached without it."""
    seen = []

    def answer(request: web.Request, text: str) -> web.Response:
        seen.append(request.raw_path)
        return rated()

    def environment(proxy: str, without: str) -> None:
        for variable, value in (("HTTP_PROXY", proxy), ("NO_PROXY", without)):
            monkeypatch.setenv(variable, value)
            monkeypatch.setenv(variable.lower(), value)

    data, elsewhere = write_examples(tmp_path / "d.jsonl", 1), "http://judge.invalid/v1"
    with gateway(answer) as url:
        here, price = url.removesuffix("/v1").replace("localhost", "127.0.0.1"), ("--price", "1,1")
        named = ("--set", f"proxy={here}", *price)
        score(data, tmp_path / "named", elsewhere, *named, model=name).ok()
        environment(here, "")
        score(data, tmp_path / "a", elsewhere, *price, model=name).ok()
        environment("http://127.0.0.1:9", "127.0.0.1")
        score(data, tmp_path / "b", f"{here}/v1", *price, model=name).ok()
    assert seen == [f"{elsewhere}/chat/completions"] * 2 + ["/v1/chat/completions"]


def test_doctor_says_by_its_status_that_nothing_works():
    def broken(request: web.Request, text: str) -> web.Response:
        return web.json_response({"error": {"message": "no such field"}}, status=422)

    with gateway(broken) as url:
        assert textassay("doctor", "direct/m", "--api-base", url).code == 1
    with gateway(lambda request, text: rated()) as url:
        assert textassay("doctor", "direct/m", "--api-base", url).code == 0


def test_doctor_lists_the_methods_of_a_decision_model():
    with deciding_in_thread(Decisions()) as url:
        done = textassay("doctor", "systemone/m", "--api-base", url, "--json")
        plain = textassay("doctor", "systemone/m", "--api-base", url)
    rows = {row["ability"]: row for row in json.loads(done.out)["rows"]}
    assert (done.code, plain.code, [*rows]) == (0, 0, ["decide", "methods"])
    unfit = rows["methods"]["detail"].partition(";")[0].removeprefix("all but ").split(", ")
    assert {"gptscore", "agent-judge", "llm-score-cot"} <= set(unfit)
    assert not {"decide", "hd-eval", "checklist", "decomp-eval", "pairwise"} & set(unfit)

    def spoil(payload: dict[str, Any]) -> None:
        payload["answers"] = {}

    with deciding_in_thread(Decisions(spoil=spoil)) as url:
        done = textassay("doctor", "systemone/m", "--api-base", url)
    assert done.code == 1
    assert "the server sent no answer to this question" in done.out


def test_doctor_finds_likelihoods_of_given_texts():
    with served() as server:
        done = textassay("doctor", "direct/m", "--api-base", server.url, "--json")
    rows = {row["ability"]: row for row in json.loads(done.out)["rows"]}
    assert rows["continuation"]["verdict"] == rows["logprobs"]["verdict"] == "yes"
    assert rows["methods"]["detail"] == "all"
    assert "logprobs" not in rows["parameters"]["detail"]


SECRET = "sk-a-very-secret-key"


def config(path: Path, *endpoints: str, **more: object) -> Path:
    """Write a file of --config with these `[[endpoints]]`."""
    settings = "".join(f"{name} = {value}\n" for name, value in more.items())
    tables = "".join(f"[[models.scorer.endpoints]]\n{table}\n" for table in endpoints)
    path.write_text(f'{settings}[models.scorer]\nmodel = "direct/judge"\n{tables}')
    return path


def scored(data: Path, file: Path, out: Path, *more: object, says: str = "") -> int:
    method = ("--method", "llm-score", "--aspects", "fluency")
    done = textassay("score", data, *method, "--config", file, "--out", out, *more)
    assert says in done.err
    return done.code


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ({"rpm": 5.0}, ("JUDGE_KEY", {"X-Key": "${JUDGE_KEY}"}, 5.0)),
        # its model's key and secret headers are for other addresses
        ({"api_key_env": None, "headers": {}}, (None, {}, None)),
    ],
)
def test_an_endpoint_takes_what_it_lacks_from_its_model(endpoint: Any, expected: Any) -> None:
    endpoint = {"api_base": "http://127.0.0.1:1/v1", **endpoint}
    general = {"api_key_env": "JUDGE_KEY", "headers": {"X-Key": "${JUDGE_KEY}"}, "concurrency": 7}
    roles = {"planner": {"endpoints": [endpoint]}}
    settings = Settings(**general, endpoints=(OneOfEndpoints(**endpoint),), roles=roles)
    for each in (settings, Settings.model_validate_json(settings.model_dump_json())):
        for role in (each, each.for_role("scorer"), each.for_role("planner")):
            own = role.at(role.endpoints[0])
            assert (own.api_key_env, own.headers, own.rpm, own.concurrency) == (*expected, 7)


def test_requests_are_divided_by_weight_and_a_failing_endpoint_is_rested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    data = write_examples(tmp_path / "data.jsonl", 40)
    with (
        served(require_key=SECRET, latency_ms=5) as heavy,
        served(latency_ms=5) as light,
        served(p500=1.0) as broken,
    ):
        file = config(
            tmp_path / "judge.toml",
            f'api_base = "{heavy.url}"\napi_key_env = "JUDGE_KEY"\nweight = 3',
            f'api_base = "{light.url}"',
            f'api_base = "{broken.url}"\nweight = 4',
            concurrency=1,
        )
        assert scored(data, file, tmp_path / "run") == 0
        assert heavy.counters.ok + light.counters.ok == 40
        assert heavy.counters.ok == pytest.approx(30, abs=2)
        assert 1 <= broken.counters.requests <= 8, "it was asked once more after a rest at most"
        assert heavy.counters.refused == 0
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    recorded = read_manifest(tmp_path / "run")["settings"]["roles"]["scorer"]["endpoints"]
    assert [place["weight"] for place in recorded] == [3, 1, 4]
    assert "JUDGE_KEY" not in str(recorded)


def test_answers_and_signatures_are_one_whatever_the_endpoints(tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 6)
    with served() as one, served() as other:
        first = config(tmp_path / "one.toml", f'api_base = "{one.url}"')
        both = config(tmp_path / "two.toml", *(f'api_base = "{s.url}"' for s in (other, one)))
        cache = ("--cache", tmp_path / "cache")
        assert scored(data, first, tmp_path / "a", *cache) == 0
        assert scored(data, both, tmp_path / "b", *cache) == 0
        assert one.counters.requests + other.counters.requests == 6
    a, b = rows_of(tmp_path / "a"), rows_of(tmp_path / "b")
    assert {row["signature"] for row in a} == {row["signature"] for row in b}
    assert all(row["usage"]["cached_calls"] == 1 for row in b)


def test_a_wrong_key_at_one_endpoint_does_not_stop_the_run(tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 6)
    with served(require_key="another") as closed, served() as opened:
        file = config(tmp_path / "judge.toml", *(f'api_base = "{s.url}"' for s in (closed, opened)))
        says = "warning: endpoint 1 failed with"
        assert scored(data, file, tmp_path / "run", says=says) == 0
        assert opened.counters.ok == 6


def test_files_of_settings_and_tasks_may_begin_with_a_mark_of_byte_order(tmp_path: Path) -> None:
    """Windows' editors write it."""
    data = write_examples(tmp_path / "data.jsonl", 2)
    task = tmp_path / "task.toml"
    task.write_text(
        'name = "t"\nintro = "A joke."\n[[aspects]]\nname = "wit"\ndefinition = "d"', "utf-8-sig"
    )
    with served() as server:
        file = config(tmp_path / "judge.toml", f'api_base = "{server.url}"', task=f'"{task}"')
        file.write_text(file.read_text(), "utf-8-sig")
        done = textassay("score", data, "--config", file, "--out", tmp_path / "run")
    assert (done.code, {row["aspect"] for row in rows_of(tmp_path / "run")}) == (0, {"wit"})


def test_resume_takes_no_endpoints_from_a_run_folder(tmp_path: Path) -> None:
    data = write_examples(tmp_path / "data.jsonl", 4)
    with served(p500=1.0) as one, served(p500=1.0) as other:
        endpoints = [f'api_base = "{s.url}"' for s in (one, other)]
        file = config(tmp_path / "judge.toml", *endpoints, attempts=1)
        assert scored(data, file, tmp_path / "run") in (1, 3)
    with served() as mended:
        textassay("resume", tmp_path / "run").ends(2, "--config")
        file = config(tmp_path / "judge.toml", f'api_base = "{mended.url}"')
        assert textassay("resume", tmp_path / "run", "--config", file).code == 0


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('api_bse = "http://127.0.0.1:9/v1"', "endpoint 2: unknown setting 'api_bse'; known: api_"),
        ('api_base = "http://127.0.0.1:9/v1"\nweight = 0', "endpoint 2: weight: "),
        ("rpm = 60", "endpoint 2: model 'direct/judge' needs --api-base"),
    ],
)
@pytest.mark.parametrize("role", ["scorer", None])
def test_a_mistake_in_an_endpoint_is_named_by_its_place(
    tmp_path: Path, table: str, says: str, role: str | None
) -> None:
    data = write_examples(tmp_path / "data.jsonl", 2)
    file = config(tmp_path / "judge.toml", 'api_base = "http://127.0.0.1:9/v1"', table)
    if role is None:
        text = file.read_text().replace("[[models.scorer.endpoints]]", "[[endpoints]]")
        file.write_text(text.replace("[models.scorer]\n", ""))
    elif "needs" not in says:
        says = f"error: models.scorer: {says}"
    assert scored(data, file, tmp_path / "run", says=says) == 2
    assert not (tmp_path / "run").exists()


def test_an_address_on_the_command_line_is_not_ignored_for_endpoints(tmp_path: Path) -> None:
    data, file = write_examples(tmp_path / "data.jsonl", 2), tmp_path / "judge.toml"
    file.write_text('model = "direct/judge"\n[[endpoints]]\napi_base = "http://127.0.0.1:9/v1"\n')
    says = f"--api-base would not be used beside the [[endpoints]] of {file}"
    more = ("--api-base", "http://127.0.0.1:10/v1")
    assert scored(data, file, tmp_path / "run", *more, says=says) == 2


def test_settings_of_a_role_hold_for_the_general_model(tmp_path: Path) -> None:
    """Also in a run that was begun without them, and under another model on the command line."""
    data, file = write_examples(tmp_path / "data.jsonl", 4), tmp_path / "judge.toml"
    with served() as general, served() as own, served() as later:
        file.write_text(
            f'model = "direct/judge"\napi_base = "{general.url}"\n'
            f'[models.scorer]\napi_base = "{own.url}"\n'
        )
        assert scored(data, file, tmp_path / "run") == 0
        assert scored(data, file, tmp_path / "other", "--model", "direct/other") == 0
        assert (general.counters.requests, own.counters.requests) == (0, 8)
        file.write_text(f'model = "direct/judge"\napi_base = "{later.url}"\n')
        assert scored(data, file, tmp_path / "later") == 0
        scores = tmp_path / "later" / "scores.jsonl"
        scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:3]))
        file.write_text(f'[models.scorer]\napi_base = "{later.url}"\ntimeout = 50\n')
        textassay("resume", tmp_path / "later", "--config", file).ok()
        assert later.counters.requests == 4, "its answer is in the cache"


@pytest.mark.parametrize(
    ("table", "asked"),
    [
        ('judge]\nmodel = "direct/judge"', ("judge",)),
        ('judge]\nmodel = "direct/judge"', ("scorer=judge",)),
        ('"direct/judge"]', ("direct/judge",)),
    ],
)
def test_a_model_is_asked_by_the_name_of_its_table(
    tmp_path: Path, table: str, asked: tuple[str, ...]
) -> None:
    """Its endpoints are those of the table; signature and cache are the model's own."""
    data, file = write_examples(tmp_path / "data.jsonl", 8), tmp_path / "judge.toml"
    name = table.partition("]")[0]
    with served() as first, served() as second:
        endpoints = "".join(
            f'[[models.{name}.endpoints]]\napi_base = "{each.url}"\n' for each in (first, second)
        )
        file.write_text(f"[models.{table}\nconcurrency = 2\n{endpoints}")
        flags = [flag for each in asked for flag in ("--model", each)]
        assert scored(data, file, tmp_path / "run", *flags) == 0
        # the first request goes alone, so the halves may differ by it
        shares = first.counters.requests, second.counters.requests
        assert sum(shares) == 8
        assert min(shares) >= 3
        assert {row["signature"].split("|")[1] for row in rows_of(tmp_path / "run")} == {
            "model:direct/judge"
        }
        textassay("resume", tmp_path / "run", "--config", file).ok()


def test_settings_of_a_role_that_the_method_does_not_have_are_warned_of(tmp_path: Path) -> None:
    data, file = write_examples(tmp_path / "data.jsonl", 2), tmp_path / "judge.toml"
    with served() as server:
        file.write_text(
            f'model = "direct/judge"\napi_base = "{server.url}"\n[models.judge]\nrpm = 3\n'
        )
        says = "warning: role 'judge' is not used; the roles of llm-score: scorer"
        assert scored(data, file, tmp_path / "run", says=says) == 0
