"""Record what a server answers to the questions that the tests read back.

    python -m tests.recorded_servers.record NAME ADDRESS MODEL [KEY]

Asks through a relay on the loopback and writes `NAME.json` beside this file. Recorded were, each on
2026-11-22 and with the model of `tests.gguf_fixture.Shape(context=1024, bos=True)` if it takes
GGUF:

- `llama_server`: upstream's server of the llama.cpp in llama-cpp-python 0.3.36, `-c 4096 -np 4
  --jinja`
- `llama_cpp_server`: `llama_cpp.server` 0.3.36, `--n_ctx 1024`
- `litellm_proxy`: `litellm[proxy]` 1.106.2 in front of it, as `openai/judge`, with a master key
- `transformers_serve`: transformers 5.23.0 on the tiny Llama of `tiny_transformers.py`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tests.loopback import listening
from tests.recorded_servers.questions import QUESTIONS
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.errors import TextassayError

FOLDER = Path(__file__).parent
# the path of a library on the recording machine is private
_HERE = re.compile(r"/[\w./-]*/site-packages/")


async def record(address: str, model: str, key: str | None) -> dict[str, Any]:
    """Return the exchanges of each question, in the order they were made."""
    seen: list[dict[str, Any]] = []

    async def relay(request: web.Request) -> web.Response:
        body = await request.json()
        headers = {k: v for k, v in request.headers.items() if k.lower() == "authorization"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(address + request.path, json=body, headers=headers) as reply,
        ):
            text, kind = await reply.text(), reply.content_type
        body = _HERE.sub("/site-packages/", text)
        seen.append({"path": request.path, "status": reply.status, "type": kind, "body": body})
        return web.Response(status=reply.status, content_type=kind, text=text)

    exchanges = {}
    async with listening(relay) as url:
        for name, ask, named, secret in [
            *((name, ask, model, key) for name, ask in QUESTIONS.items()),
            ("wrong model", QUESTIONS["chat"], "nope", key),
            ("wrong key", QUESTIONS["chat"], model, "sk-wrong"),
        ]:
            seen.clear()
            asking = DirectModel(f"direct/{named}", api_base=f"{url}/v1", api_key=secret)
            with contextlib.suppress(TextassayError):
                await ask(asking)
            await asking.aclose()
            exchanges[name] = list(seen)
    return exchanges


def main() -> None:
    """Record one server."""
    name, address, model, *key = sys.argv[1:]
    exchanges = asyncio.run(record(address, model, key[0] if key else None))
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(exchanges, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
