"""Throughput mode: one request's failure is its own, and answers fill all sequences."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.errors import RequestRefused, TextassayError
from textassay.runtime.model import ChoicesRequest, Request

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
)

OBJECT = {"type": "object", "properties": {"score": {"enum": [1, 2, 3]}}, "required": ["score"]}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("gguf") / "m.gguf", Shape(dtype="f32")).path


def local(file, **options):
    defaults = {"n_ctx": 256, "n_gpu_layers": 0, "threads": 1, "kv": "f32"}
    return LlamaCppModel("llamacpp/m", file, **{**defaults, **options})


def requests(count, *, tokens=20, n=1, **more):
    return [
        Request(
            prompt=f"the summary is good and the source number {number} is very",
            max_tokens=tokens,
            temperature=1.0,
            seed=number,
            n=n,
            **more,
        )
        for number in range(count)
    ]


async def answers(model, asked):
    async with model:
        before = model._engine.engine.decodes
        found = await asyncio.gather(*map(model.generate, asked), return_exceptions=True)
        return found, model._engine.engine.decodes - before


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("count", "n"), [(16, 1), (32, 1), (1, 20), (5, 3)], ids=["16", "32", "n=20", "5 x 3"]
)
async def test_all_sequences_write_all_the_time(file, count, n):
    """Steps are those of an ideal schedule, within one prompt each and the longest answer's
    tail."""
    asked = requests(count, n=n, tokens=20)
    found, decodes = await answers(local(file, mode="throughput", sequences=8), asked)
    tokens = sum(response.usage.completion_tokens for response in found)
    longest = max(response.usage.completion_tokens for response in found) / n
    # the first token comes with the prompt; the first pop may hold a single request
    assert decodes <= count + tokens / 8 + 3 * 20 + longest


@pytest.mark.asyncio
async def test_answers_are_those_of_exact_mode(file):
    """In single precision the same seeds give the same texts, whatever else is written beside
    them."""
    asked = [*requests(12, tokens=12), *requests(3, tokens=8, n=3, logprobs=2)]
    alone, _ = await answers(local(file), asked)
    together, _ = await answers(local(file, mode="throughput", sequences=4), asked)
    same = [
        [sample.text for sample in one.samples] == [sample.text for sample in other.samples]
        for one, other in zip(alone, together, strict=True)
    ]
    assert sum(same) >= len(asked) - 1, "rounding may turn one pick"


@pytest.mark.asyncio
async def test_a_refused_request_fails_alone(file):
    """A schema that cannot be kept and a choice that is none: two errors, and six answers."""
    good = requests(6, tokens=6)
    bad = requests(1, tokens=6, json_schema={"type": "string", "pattern": "a+"})
    found, _ = await answers(
        local(file, mode="throughput", sequences=4), [*good[:3], *bad, *good[3:]]
    )
    assert [isinstance(one, TextassayError) for one in found] == [False] * 3 + [True] + [False] * 3


@pytest.mark.asyncio
async def test_a_text_that_cannot_be_scored_fails_alone(file):
    choices = {"yes": (" yes",), "no": (" no",)}
    async with local(file, mode="throughput", sequences=4) as model:
        good = [ChoicesRequest(prompt=f"is {word}", choices=choices) for word in "abcdefg"]
        bad = ChoicesRequest(prompt="is", choices={"yes": ("",), "no": (" no",)})
        found = await asyncio.gather(
            *(model.choices(one) for one in [*good, bad]), return_exceptions=True
        )
        again = await model.choices(good[0])
    assert isinstance(found[-1], RequestRefused)
    assert not any(isinstance(one, BaseException) for one in found[:-1])
    assert again.logprobs["yes"] == pytest.approx(found[0].logprobs["yes"], abs=1e-3)


@pytest.mark.asyncio
async def test_grammars_are_kept_side_by_side(file):
    asked = requests(10, tokens=40, json_schema=OBJECT)
    found, _ = await answers(local(file, mode="throughput", sequences=3), asked)
    assert {response.samples[0].text for response in found} <= {
        f'{{{a}"score"{b}:{c}{value}{d}}}'
        for value in (1, 2, 3)
        for a in ("", " ")
        for b in ("", " ")
        for c in ("", " ")
        for d in ("", " ")
    }
