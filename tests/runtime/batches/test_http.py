"""Files that go to a provider and come from it: where the key may go, and what lines may be."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.loopback import listening
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.batches.dialect import BatchHttp
from textassay.runtime.errors import AnswerTooLong, ModelNotFound, RequestRefused

SECRETS = Endpoint(query={"token": "query-secret"}, max_bytes=1000)


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[BatchHttp]:
    http = BatchHttp(address, SECRETS, name="m", headers={"api-key": "header-secret"}, key="k")
    try:
        yield http
    finally:
        await http.aclose()


async def test_files_are_not_uploaded_to_where_a_server_leads(tmp_path: Path) -> None:
    """They hold the prompts, and the key goes with them."""
    (tmp_path / "requests").write_bytes(b"the prompts")
    asked: list[web.Request] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return web.json_response({"id": "file-1"})

    async with listening(elsewhere) as other:

        async def leading(request: web.Request) -> web.StreamResponse:
            await request.read()
            raise web.HTTPTemporaryRedirect(f"{other}/files")

        async with listening(leading) as address, opened(address) as http:
            with pytest.raises(ModelNotFound, match="redirects to"):
                await http.upload("/files", tmp_path / "requests", {"purpose": "batch"})
    assert not asked


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_without_an_end_is_refused(tmp_path: Path, status: int) -> None:
    """To an upload or in place of results; it would take all memory."""
    (tmp_path / "requests").write_bytes(b"the prompts")

    async def endless(request: web.Request) -> web.StreamResponse:
        await request.read()
        answer = web.StreamResponse(status=status)
        await answer.prepare(request)
        while True:
            await answer.write(b" " * 1000)

    async with listening(endless) as address, opened(address) as http:
        with pytest.raises(AnswerTooLong, match="more than 1000 bytes"):
            await http.upload("/files", tmp_path / "requests", {"purpose": "batch"})
        with pytest.raises(AnswerTooLong, match="more than 1000 bytes"):
            async for _ in http.lines("/results"):
                pass


async def test_results_in_a_storage_elsewhere_are_fetched_without_the_key() -> None:
    """As providers have them that lead to a signed address."""
    asked: list[web.Request] = []

    async def storage(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return web.Response(body=b'{"a": 1}\n\n{"b": \n{"c": 3}')

    async with listening(storage) as other:

        async def leading(request: web.Request) -> web.StreamResponse:
            assert request.headers["api-key"] == "header-secret"
            raise web.HTTPFound(f"{other}/bucket/file?signed=yes")

        async with listening(leading) as address, opened(address) as http:
            assert [line async for line in http.lines("/files/1")] == [{"a": 1}, None, {"c": 3}]
    (request,) = asked
    assert request.path_qs == "/bucket/file?signed=yes"
    assert not any("secret" in value for value in request.headers.values())


async def test_a_redirect_on_the_same_server_keeps_the_key() -> None:
    """As gateways have them that add a slash; one that never ends is refused."""

    async def serving(request: web.Request) -> web.StreamResponse:
        assert request.headers["api-key"] == "header-secret"
        if request.path == "/round":
            raise web.HTTPFound("/round")
        if not request.path.endswith("/"):
            raise web.HTTPTemporaryRedirect(request.path + "/")
        return web.Response(body=b"1\n2")

    async with listening(serving) as address, opened(address) as http:
        assert [line async for line in http.lines("/files/1/content")] == [1, 2]
        with pytest.raises(RequestRefused, match="from address to address"):
            async for _ in http.lines("/round"):
                pass


async def test_a_user_in_the_address_is_sent_as_a_login_on_the_same_server() -> None:
    """In place of a key of the environment, and to results elsewhere it is not sent."""
    logins = []

    async def serving(request: web.Request) -> web.StreamResponse:
        logins.append(request.headers.get("Authorization"))
        if request.path == "/files/1":
            raise web.HTTPFound("/files/1/" if len(logins) == 1 else f"{other}/files/1/")
        return web.Response(body=b"1")

    async with listening(serving) as address, listening(serving) as other:
        with_user = address.replace("://", "://me:pass-word@")
        async with opened(with_user) as http:
            for _ in range(2):
                assert [line async for line in http.lines("/files/1")] == [1]
    login = f"Basic {base64.b64encode(b'me:pass-word').decode()}"
    assert logins == [login, login, login, None]


async def test_a_line_that_is_too_long_is_told_apart_from_a_damaged_one() -> None:
    """A resumed run with a larger limit reads it."""

    async def serving(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"1\n" + b"x" * 2000)

    async with listening(serving) as address, opened(address) as http:
        with pytest.raises(AnswerTooLong, match="max_answer_bytes"):
            async for _ in http.lines("/files/1"):
                pass
