"""The server that the other tests, the benchmarks and the demo rely on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest

from examples.mock_server import BROKEN_STYLES, RETRY_AFTER_STYLES, Options, parse
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
BODY = {"model": "m", "messages": [{"role": "user", "content": "Rate this."}], "temperature": 0}


async def post(
    url: str, body: dict[str, object], path: str = "/chat/completions"
) -> tuple[int, dict[str, object]]:
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as response:
        return response.status, await response.json()


async def test_replies_depend_on_model_and_prompt_only(mock_server):
    servers = [await mock_server(), await mock_server(latency_ms=1, latency_max_ms=3)]
    texts = {(await post(s.url, BODY))[1]["choices"][0]["message"]["content"] for s in servers * 3}
    assert len(texts) == 1
    prompts = [BODY | {"messages": [{"role": "user", "content": f"Rate {i}."}]} for i in range(30)]
    replies = [
        (await post(servers[0].url, p))[1]["choices"][0]["message"]["content"] for p in prompts
    ]
    assert set(replies) == {f"Rating: {i}" for i in range(1, 6)}


async def test_draws_differ_where_the_temperature_allows(mock_server):
    server = await mock_server(reply=lambda body, draw: f"draw {draw}")

    async def texts(**more):
        choices = (await post(server.url, BODY | {"n": 2} | more))[1]["choices"]
        return [c["message"]["content"] for c in choices]

    assert await texts() == ["draw 0", "draw 0"]
    assert [await texts(temperature=1), await texts(temperature=1)] == [
        ["draw 0", "draw 1"],
        ["draw 2", "draw 3"],
    ]
    assert [await texts(temperature=1, seed=9), await texts(temperature=1, seed=9)] == [
        ["draw 9", "draw 10"]
    ] * 2


async def test_it_counts(mock_server):
    server = await mock_server(p429=0.5, hold_after=1, seed=3)
    async with asyncio.TaskGroup() as group:
        for i in range(40):
            group.create_task(post(server.url, BODY | {"user": str(i % 20)}))
        await eventually(lambda: server.counters.in_flight == 39)
        server.options.hold_after = 0
    counted = server.counters.as_json()
    assert counted["requests"] == 40
    assert counted["ok"] + counted["faults"]["429"] == 40
    assert 8 < counted["faults"]["429"] < 32
    assert (counted["distinct_bodies"], counted["max_repeats"]) == (20, 2)
    assert counted["max_in_flight"] >= 39
    assert counted["in_flight"] == 0
    async with (
        aiohttp.ClientSession() as session,
        session.get(server.url.removesuffix("/v1") + "/counters") as got,
    ):
        assert await got.json() == counted


async def test_limits_are_enforced(mock_server):
    server = await mock_server(rpm=600)
    assert [(await post(server.url, BODY))[0] for _ in range(10)] == [200] * 10
    assert server.counters.limited == 0
    slow = await mock_server(rpm=0.01)
    assert [(await post(slow.url, BODY))[0] for _ in range(3)] == [200, 429, 429]
    assert slow.counters.limited == 2
    tokens = await mock_server(tpm=1)
    assert [(await post(tokens.url, BODY | {"max_tokens": 80}))[0] for _ in range(2)] == [200, 429]


@pytest.mark.parametrize("path", ["/models", "/../healthz"])
async def test_small_pages(mock_server, path):
    server = await mock_server(models="a,b")
    async with aiohttp.ClientSession() as session, session.get(server.url + path) as got:
        assert got.status == 200


async def test_an_unknown_path_is_not_found(mock_server):
    server = await mock_server()
    assert (await post(server.url, BODY, "/chat"))[0] == 404


async def test_every_option_is_an_argument():
    given = vars(parse(["--p429", "0.2", "--refuse-n", "--reply", "text"]))
    assert (given.pop("host"), given.pop("port")) == ("127.0.0.1", 0)
    assert Options(**given) == Options(p429=0.2, refuse_n=True, reply="text")
    assert "random" not in (*RETRY_AFTER_STYLES, *BROKEN_STYLES)


async def test_it_runs_as_a_program():
    program = (sys.executable, "-m", "examples.mock_server", "--reply", "text")
    process = await asyncio.create_subprocess_exec(
        *program, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    try:
        status, answer = await post(url, BODY)
        assert status == 200
        assert answer["choices"][0]["message"]["content"].endswith(".")
    finally:
        process.terminate()
        await process.wait()
