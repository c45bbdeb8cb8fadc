"""llama_cpp.server itself, started on a small random model, beside the same file in process."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import free_port, until
from textassay import connect, evaluate
from textassay.runtime.model import ChoicesRequest, Request

pytest.importorskip("llama_cpp")
pytest.importorskip("fastapi", reason="llama_cpp.server needs it")
gguf_fixture = pytest.importorskip("tests.gguf_fixture")

pytestmark = pytest.mark.asyncio

CONTEXT = 1024
EXAMPLES = [
    {"output": "the cat sat on the mat", "source": "A cat – the “old” one – sat: é 😀."},
    {"output": "“it is” good 😀", "source": "it is good"},
    {"output": "Café closed.", "source": "the café was closed"},
]


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers with a byte-level vocabulary, so that characters are split."""
    path = tmp_path_factory.mktemp("model") / "judge.gguf"
    gguf_fixture.write_model(path, gguf_fixture.Shape(context=CONTEXT, bos=True, dtype="f32"))
    return path


@pytest.fixture(scope="module")
def address(model_file: Path) -> Iterator[str]:
    """The address of a llama_cpp.server that has loaded the model."""
    port = free_port()
    command = [sys.executable, "-m", "llama_cpp.server", "--model", model_file]
    command += ["--host", "127.0.0.1", "--port", port, "--n_ctx", CONTEXT, "--n_threads", 1]
    said = model_file.with_suffix(".log")
    with said.open("wb") as log:
        server = subprocess.Popen(
            [str(part) for part in command],
            stdout=log,
            stderr=log,
            env={**os.environ, "GOMP_SPINCOUNT": "3000"},
        )
    base = f"http://127.0.0.1:{port}/v1"
    try:
        until(lambda: _answers(base, server, said), every=0.05)
        yield base
    finally:
        server.terminate()
        server.wait()


def _answers(base: str, server: subprocess.Popen[bytes], said: Path) -> bool:
    assert server.poll() is None, said.read_text()
    try:
        urllib.request.urlopen(f"{base}/models", timeout=60).close()
    except OSError:
        return False
    return True


async def scores(model: str, **settings: Any) -> dict[tuple[str, str], float]:
    """Score the examples, and fail if one has no score."""
    async with connect(model, **settings) as connected:
        run = await evaluate(EXAMPLES, method="gptscore", task="summarization", model=connected)
    assert run.summary()["outcomes"]["scored"] == len(run.scores), run.summary()
    return {(score.id, score.aspect): score.value for score in run.scores}


async def test_every_text_is_scored_as_in_process(address, model_file):
    """Echoed characters of several tokens are aligned, and one token is asked for, not all."""
    served = await scores("direct/judge", api_base=address)
    local = await scores(f"llamacpp/{model_file}", local={"n_gpu_layers": 0, "threads": 1})
    assert served.keys() == local.keys()
    for place, value in served.items():
        assert value == pytest.approx(local[place], abs=2e-3)


async def test_the_likeliest_next_token_is_the_same(address, model_file):
    """By the log-probabilities of a completion."""
    async with connect("direct/judge", api_base=address) as served:
        (sample,) = (
            await served.generate(Request(prompt="the cat", max_tokens=1, logprobs=5))
        ).samples
    best = {token: logprob for token, logprob in sample.logprobs[0].top if token.strip()}
    settings = {"n_gpu_layers": 0, "threads": 1}
    async with connect(f"llamacpp/{model_file}", local=settings) as local:
        asked = ChoicesRequest(prompt="the cat", choices={token: (token,) for token in best})
        found = await local.choices(asked)
    assert best
    for token, logprob in best.items():
        assert found.logprobs[token] == pytest.approx(logprob, abs=2e-3)
