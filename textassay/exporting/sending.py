"""Sends scores to a server of MLflow or Langfuse; no score is sent twice."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote as in_path

import aiohttp

from textassay.evaluation.run import Run
from textassay.exporting.files import rows_for
from textassay.exporting.rows import IDENTITY, Row, judged_texts
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.http_client import HttpClient
from textassay.runtime.backends.http_errors import quote
from textassay.runtime.errors import ConfigurationError, StorageError, UnknownName
from textassay.runtime.messages import Example

Server = Literal["mlflow", "langfuse"]
"""The tools with a server for scores."""


async def send_scores(
    run: Run | str | Path,
    server: Server,
    url: str,
    *,
    data: Iterable[Example] | None = None,
    trace: str = "id",
) -> int:
    """Send the scores of a run to a server; sending them again changes nothing.

    Langfuse replaces a score with an equal id; for MLflow, the assessments of each trace are read
    first, and known scores are left out. Keys are read from the environment, as the tools' own
    packages do: `LANGFUSE_PUBLIC_KEY` and `LANGFUSE_SECRET_KEY`; `MLFLOW_TRACKING_TOKEN`, or
    `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`, or none.

    Args:
        run: The run, or its folder.
        server: The tool.
        url: Address of its server, such as `https://cloud.langfuse.com`.
        data: The judged data; by default the data of the run.
        trace: Field with the id of an example's trace: `id`, `group` or the name of a column in
            `meta`.

    Returns:
        The number of scores that were sent.

    Raises:
        UnknownName: There is no such server.
        ConfigurationError: Keys are not set, or the run or its data cannot be read.
        StorageError: The server refuses a score; it keeps the earlier ones.
    """
    if server not in get_args(Server):
        raise UnknownName("server", server, get_args(Server))
    opened = run if isinstance(run, Run) else Run(run)
    login, secrets = _login(server)
    client = HttpClient(
        url.rstrip("/"),
        Endpoint(secrets=secrets),
        name=server,
        headers={"Content-Type": "application/json", **login},
    )
    try:
        rows = rows_for(server, opened, judged_texts(opened, data), trace)
        if server == "langfuse":
            return await _send_all(rows, lambda row: _send(client, "/api/public/scores", row))
        return await _send_to_mlflow(client, rows)
    finally:
        await client.aclose()


async def _send_to_mlflow(client: HttpClient, rows: Iterable[Row]) -> int:
    ids_in: dict[str, asyncio.Task[set[str]]] = {}
    count = 0

    async def send(row: Row) -> None:
        nonlocal count
        trace = f"/api/3.0/mlflow/traces/{in_path(row['trace_id'], safe='')}"
        if trace not in ids_in:
            ids_in[trace] = asyncio.create_task(_find_in_mlflow(client, trace))
        if row["metadata"][IDENTITY] not in await ids_in[trace]:
            await _send(client, f"{trace}/assessments", {"assessment": row})
            count += 1

    await _send_all(rows, send)
    return count


async def _find_in_mlflow(client: HttpClient, trace: str) -> set[str]:
    """Return the ids of our scores in a trace."""
    answer = json.loads(await _ask(client, "GET", trace, b""))
    assessments = answer["trace"]["trace_info"].get("assessments") or ()
    ids = ((assessment.get("metadata") or {}).get(IDENTITY) for assessment in assessments)
    return {id_ for id_ in ids if id_ is not None}


async def _send_all(rows: Iterable[Row], send: Callable[[Row], Awaitable[object]]) -> int:
    remaining, count = iter(rows), 0
    # calls in flight: the number that a server with a few worker processes answers in parallel
    while part := list(islice(remaining, 8)):
        await asyncio.gather(*map(send, part))
        count += len(part)
    return count


async def _send(client: HttpClient, path: str, row: Row) -> None:
    await _ask(client, "POST", path, json.dumps(row).encode())


async def _ask(client: HttpClient, method: str, path: str, body: bytes) -> bytes:
    try:
        # twice the time in which a busy tracking server still answers
        async with asyncio.timeout(60.0):
            answer = await client.send(method, client.base + path, body)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise StorageError(str(client.network_error(error))) from error
    if not 200 <= answer.status < 300:
        words = quote(answer.body, client.secrets)
        raise StorageError(f"{client.base}{path} answered with status {answer.status}: {words}")
    return answer.body


def _login(server: Server) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the header with the login, and its secrets."""
    if server == "langfuse":
        public, secret = (os.environ.get(f"LANGFUSE_{n}_KEY", "") for n in ("PUBLIC", "SECRET"))
        keys = {"LANGFUSE_PUBLIC_KEY": public, "LANGFUSE_SECRET_KEY": secret}
        if missing := [name for name, key in keys.items() if not key]:
            raise ConfigurationError(
                f"Langfuse needs the keys of a project: set {' and '.join(missing)}"
            )
        return _basic(public, secret)
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}, (token,)
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{n}") for n in ("USERNAME", "PASSWORD"))
    return _basic(user, password or "") if user else ({}, ())


def _basic(user: str, password: str) -> tuple[dict[str, str], tuple[str, ...]]:
    credentials = b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {credentials}"}, tuple(filter(None, (credentials, password)))
