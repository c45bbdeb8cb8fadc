"""The wrappers that stand around every model serve a local one unchanged."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.connected import with_cache
from textassay.runtime.model import ChoicesRequest, ContinuationRequest, Request, scoring
from textassay.runtime.storage.answers import DiskStore

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(
        importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
    ),
]


async def test_cached_scores_are_the_same_and_cost_no_evaluation(tmp_path):
    """Equal requests are evaluated once, a cache answers the next run, and another mode has its own
    entries."""
    file = write_model(tmp_path / "model.gguf", Shape(bos=True))
    choices = ChoicesRequest(prompt="the summary is", choices={"y": (" yes",), "n": (" no",)})
    text = ContinuationRequest(prompt="the summary is", continuation=" very good")
    written = Request(prompt="the summary", temperature=1, seed=1, max_tokens=4)

    async def answers(mode: str) -> tuple[list[object], int]:
        async with LlamaCppModel(
            "llamacpp/m", file.path, n_gpu_layers=0, threads=1, mode=mode, n_ctx=512
        ) as local:
            store = DiskStore(tmp_path / "cache")
            model = with_cache(local, store)
            found = await asyncio.gather(
                *(scoring(model, "choices").choices(choices) for _ in range(8)),
                *(scoring(model, "continuation").continuation(text) for _ in range(8)),
                model.generate(written),
            )
            await store.aclose()
            return [
                answer.model_copy(update={"usage": None}) for answer in found
            ], local.evaluated_tokens

    first, evaluated = await answers("exact")
    assert len({str(answer) for answer in first}) == 3
    assert 0 < evaluated < 60
    assert await answers("exact") == (first, 0)
    assert (await answers("throughput"))[1] > 0
