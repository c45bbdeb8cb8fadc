"""What would end the process inside llama.cpp ends in an error of ours: each case in a process of
its own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.waiting import HANGS_AFTER

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
)

ROOT = Path(__file__).parents[3]
PRELUDE = """
import asyncio, dataclasses, sys, warnings
from pathlib import Path
from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.errors import TextassayError
from textassay.runtime.model import ChatMessage, ChoicesRequest, ContinuationRequest, Request
folder = Path(sys.argv[1])
def made(**shape):
    return write_model(folder / "model.gguf", Shape(**shape)).path
def local(path, **options):
    return LlamaCppModel("llamacpp/x", path, **{"n_gpu_layers": 0, "threads": 1, **options})
TEXT = ContinuationRequest(prompt="the text", continuation=" good")
async def load(path, **options):
    async with local(path, **options) as model:
        return await model.continuation(TEXT)
def run(coroutine):
    try:
        print("ok", asyncio.run(coroutine))
    except TextassayError as error:
        print(type(error).__name__, "|", error)
"""

CASES = {
    "no such file": ('run(load(folder / "none.gguf"))', "ModelNotFound", "no file"),
    "a folder": ("run(load(folder))", "ModelNotFound", "is a folder"),
    "empty file": (
        '(folder / "e.gguf").touch(); run(load(folder / "e.gguf"))',
        "ConfigurationError",
        "not a GGUF",
    ),
    "not a GGUF": (
        '(folder / "t.gguf").write_text("hello " * 99); run(load(folder / "t.gguf"))',
        "ConfigurationError",
        "not a GGUF",
    ),
    "only the magic": (
        '(folder / "m.gguf").write_bytes(b"GGUF" + b"\\xff" * 60); run(load(folder / "m.gguf"))',
        "ConfigurationError",
        "cannot load",
    ),
    "truncated in the header": (
        "p = made(); p.write_bytes(p.read_bytes()[:3000]); run(load(p))",
        "ConfigurationError",
        "cannot load",
    ),
    "truncated in the weights": (
        "p = made(); p.write_bytes(p.read_bytes()[:-5000]); run(load(p))",
        "ConfigurationError",
        "corrupted or incomplete",
    ),
    "unsupported architecture": (
        'run(load(made(architecture="nosuchnet")))',
        "ConfigurationError",
        "unknown model architecture: 'nosuchnet'",
    ),
    "NaN weights": ("run(load(made(nan=True)))", "FatalModelError", "NaN"),
    "NaN weights, file checked": (
        'run(load(made(nan=True, dtype="f16"), check_tensors=True))',
        "ConfigurationError",
        "cannot load",
    ),
    "out of memory": (
        "run(load(made(context=2**30), n_ctx=2**30))",
        "ConfigurationError",
        "GiB are free",
    ),
    "more context than trained": (
        "run(load(made(), n_ctx=4096))",
        "ConfigurationError",
        "beyond the 2048 tokens",
    ),
    "no chat template": (
        """
        async def ask():
            async with local(made(chat_template=None)) as model:
                chat = (ChatMessage(role="user", content="x"),)
                return await model.generate(Request(messages=chat))
        run(ask())
        """,
        "CapabilityError",
        "chat template",
    ),
    "prompt longer than the context": (
        """
        async def ask():
            async with local(made(), n_ctx=300) as model:
                long = ContinuationRequest(prompt="good " * 5000, continuation="x")
                return await model.continuation(long)
        run(ask())
        """,
        "ContextTooLong",
        "has 300",
    ),
    "prompt that fills the context": (
        """
        async def ask():
            async with local(made(), n_ctx=300) as model:
                for words in range(290, 302):
                    prompt = "a" + " good" * words
                    try:
                        await model.continuation(
                            ContinuationRequest(prompt=prompt, continuation=" x")
                        )
                    except TextassayError as error:
                        print(words, error)
                return await model.generate(Request(prompt="good" + " good" * 200))
        run(ask())
        """,
        "ok",
        "context",
    ),
    "malformed JSON schema": (
        """
        async def ask():
            async with local(made()) as model:
                for schema in (
                    {"type": "nonsense"}, {"type": 7}, {"enum": []},
                    {"type": "object", "properties": 3}, {"$ref": "#/nowhere"},
                    {"$ref": "https://example.org/x.json"}, {"type": "string", "pattern": "("},
                ):
                    try:
                        await model.generate(Request(prompt="x", json_schema=schema, max_tokens=5))
                    except TextassayError as error:
                        print(type(error).__name__, error)
                return await model.continuation(TEXT)
        run(ask())
        """,
        "ok",
        "JSON schema",
    ),
    "a schema that refers to itself": (
        """
        async def ask():
            async with local(made()) as model:
                own = {"$ref": "#/$defs/t"}
                tree = {**own, "$defs": {"t": {"type": "array", "items": own}}}
                await model.generate(Request(prompt="x", json_schema=tree, max_tokens=40))
                loop = {**own, "$defs": {"t": {"anyOf": [own, {"type": "null"}]}}}
                return await model.generate(Request(prompt="x", json_schema=loop, max_tokens=5))
        run(ask())
        """,
        "ConfigurationError",
        "grammar",
    ),
    "use after close": (
        """
        async def ask():
            model = local(made())
            await model.open()
            await model.aclose()
            return await model.continuation(TEXT)
        run(ask())
        """,
        "ModelClosed",
        "closed",
    ),
    "close while work is queued": (
        """
        async def ask():
            model = local(made())
            await model.open()
            asked = [
                ContinuationRequest(prompt="good " * n, continuation=" x") for n in range(1, 200)
            ]
            # lasts until it is stopped, however late that is
            endless = Request(prompt="x", max_tokens=1500, n=50, temperature=1)
            tasks = [asyncio.create_task(model.generate(endless))]
            tasks += [asyncio.create_task(model.continuation(one)) for one in asked]
            await asyncio.sleep(0.05)
            await model.aclose()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            return {type(one).__name__ for one in found}
        run(ask())
        """,
        "ok",
        "ModelClosed",
    ),
    "never closed": (
        """
        model = local(made())
        async def ask():
            endless = Request(prompt="x", max_tokens=1500, temperature=1)
            task = asyncio.create_task(model.generate(endless))
            await asyncio.sleep(0.3)
            return "left running"
        run(ask())
        """,
        "ok",
        "left running",
    ),
    "asked from many tasks and two event loops": (
        """
        model = local(made())
        async def ask():
            asked = [
                ContinuationRequest(prompt="good " * n, continuation=" x") for n in range(1, 40)
            ]
            answers = await asyncio.gather(*map(model.continuation, asked))
            return sum(one.logprob < 0 for one in answers)
        run(ask())
        run(ask())
        """,
        "ok",
        "39",
    ),
    "hostile text": (
        """
        async def ask():
            async with local(made()) as model:
                for text in (
                    "a" * 200_000, "\\x00" * 50, "\\U0010ffff" * 50, " " * 100_000, "\\ufdd0" * 9
                ):
                    chat = (ChatMessage(role="user", content=text),)
                    for request in (
                        ContinuationRequest(prompt=text, continuation=text),
                        ContinuationRequest(messages=chat, continuation="x"),
                    ):
                        try:
                            await model.continuation(request)
                        except TextassayError as error:
                            print(type(error).__name__)
                return "survived"
        run(ask())
        """,
        "ok",
        "survived",
    ),
    "bad arguments": (
        """
        for options in (
            {"n_ctx": 0}, {"threads": 0}, {"mode": "fast"}, {"kv": "q8_0"}, {"truncate": "end"}
        ):
            try:
                local("x.gguf", **options)
            except TextassayError as error:
                print(type(error).__name__, error)
        """,
        "ConfigurationError",
        "mode must be",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_ends_in_an_error_and_not_in_a_crash(case: str, tmp_path: Path) -> None:
    """The process ends normally, says what is wrong, and leaves no file of the library open."""
    code, kind, words = CASES[case]
    script = textwrap.dedent(PRELUDE) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", script, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert kind in done.stdout
    assert words in done.stdout
    assert "Traceback" not in done.stderr
    assert "/dev/null" not in done.stderr
