"""Sampled answers from a local model, also behind the wrappers of every model."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.gguf_fixture import Shape, Written, next_logprobs, write_model
from tests.waiting import eventually
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.backends.llamacpp.library import Weights
from textassay.runtime.calls.cache import StoringModel
from textassay.runtime.connected import with_cache
from textassay.runtime.errors import ConfigurationError, ModelClosed, RequestRefused
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Request,
    scoring,
)
from textassay.runtime.storage.answers import DiskStore

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(
        importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
    ),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_model(tmp_path_factory.mktemp("gguf") / "model.gguf", Shape(dtype="f32", bos=True))


def local(file: Written, **options: object) -> LlamaCppModel:
    return LlamaCppModel(
        "llamacpp/model.gguf", file.path, **{"n_gpu_layers": 0, "threads": 1, **options}
    )


def chat(text: str = "rate the summary", **fields: object) -> Request:
    return Request(
        messages=(ChatMessage(role="user", content=text),), **{"max_tokens": 12, **fields}
    )


async def test_greedy_answers_follow_the_network(file):
    """At temperature 0 each token is the likeliest, and its log-probability is the network's."""
    async with local(file) as model:
        response = await model.generate(Request(prompt="the summary is", max_tokens=6, logprobs=3))
    tokens = response.samples[0].logprobs
    ids = [0, *ids_of(file, "the summary is")]
    for token in tokens:
        expected = next_logprobs(file, ids)[-1]
        best = int(expected.argmax())
        assert token.logprob == pytest.approx(expected[best], abs=5e-3)
        assert [lp for _, lp in token.top] == pytest.approx(sorted(expected)[:-4:-1], abs=5e-3)
        assert token.top[0][0] == token.token
        ids.append(best)
    assert response.usage.completion_tokens == 6
    assert response.usage.cost == 0
    assert response.samples[0].finish_reason == "length"


def ids_of(file: Written, text: str) -> list[int]:
    weights = Weights(file.path, gpu_layers=0, check_tensors=False)
    ids = [int(token) for token in weights.encode(text)]
    weights.close()
    return ids


async def test_a_seed_repeats_and_a_draw_changes_the_answer(file):
    """Seed and draw decide the samples, whatever was asked in between; samples of one request
    differ."""
    async with local(file) as model:
        asked = chat(temperature=1.0, seed=4, n=3)
        first = await model.generate(asked)
        await model.generate(chat("something else", temperature=1.0))
        assert await model.generate(asked) == first
        assert len({sample.text for sample in first.samples}) == 3
        moved = await model.generate(chat(temperature=1.0, seed=4, n=3, draw=1))
        assert moved.samples != first.samples
        assert moved == await model.generate(chat(temperature=1.0, seed=5, n=3))
    async with local(file, seed=4) as seeded:
        assert await seeded.generate(chat(temperature=1.0, n=3)) == first


async def test_samples_are_distributed_as_the_model_says(file):
    """The first tokens of many samples occur as often as their probabilities ask for."""
    async with local(file) as model:
        response = await model.generate(
            chat(temperature=1.0, seed=1, n=2000, max_tokens=1, logprobs=1)
        )
    drawn = [sample.logprobs[0] for sample in response.samples if sample.logprobs]
    whole = [
        token for token in drawn if "\ufffd" not in token.token
    ]  # half characters all look alike
    chances = {token.token: math.exp(token.logprob) for token in whole}
    for token, count in Counter(token.token for token in whole).most_common(6):
        assert abs(count - 2000 * chances[token]) < 4.5 * math.sqrt(2000 * chances[token])
    async with local(file) as model:
        nucleus = await model.generate(
            chat(temperature=1.0, top_p=0.05, seed=1, n=50, max_tokens=1)
        )
    assert len({sample.text for sample in nucleus.samples}) <= 2


async def test_stop_texts_end_an_answer_and_are_left_out(file):
    """An answer ends before its stop text, also where that spans tokens."""
    async with local(file) as model:
        whole = (await model.generate(chat(temperature=1.0, seed=2, max_tokens=40))).samples[0].text
        stop = whole[10:13]
        cut = (
            await model.generate(
                chat(temperature=1.0, seed=2, max_tokens=40, stop=(stop,), logprobs=0)
            )
        ).samples[0]
    assert cut.text == whole[: whole.index(stop)]
    assert cut.finish_reason == "stop"
    assert len(cut.logprobs) <= 40


SCHEMA = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "why": {"type": "string", "maxLength": 8},
        "labels": {
            "type": "array",
            "items": {"enum": ['a "quoted" one', "é", None]},
            "maxItems": 2,
        },
    },
    "required": ["score", "labels"],
    "additionalProperties": False,
}


async def test_a_json_schema_is_kept(file):
    """Every sample is JSON of the schema, bounds and quotes included."""
    async with local(file) as model:
        response = await model.generate(
            chat(temperature=1.0, seed=3, n=12, max_tokens=200, json_schema=SCHEMA)
        )
    for sample in response.samples:
        answer = json.loads(sample.text)
        assert answer["score"] in range(1, 6)
        assert set(answer) <= {"score", "why", "labels"}
        assert len(answer.get("why", "")) <= 8
        assert all(label in ('a "quoted" one', "é", None) for label in answer["labels"])
        assert sample.finish_reason == "stop"


async def test_a_string_holds_characters_and_not_bytes(file):
    """Random bytes are no character: none comes out as several and makes a string too long."""
    schema = {"type": "string", "minLength": 6, "maxLength": 6}
    async with local(file) as model:
        response = await model.generate(
            chat(temperature=3.0, seed=5, n=40, max_tokens=60, json_schema=schema)
        )
    texts = [json.loads(sample.text) for sample in response.samples]
    assert {len(text) for text in texts} == {6}
    assert any(not text.isascii() for text in texts)


async def test_no_chat_template_is_an_error_that_names_the_way_around(tmp_path):
    """Messages need the file's template; a plain prompt does not."""
    bare = write_model(tmp_path / "bare.gguf", Shape(chat_template=None))
    broken = write_model(tmp_path / "broken.gguf", Shape(chat_template="{% for %}"))
    choosy = write_model(
        tmp_path / "choosy.gguf", Shape(chat_template="{{ raise_exception('no system role') }}")
    )
    async with local(bare) as model:
        with pytest.raises(ConfigurationError, match=r"it has none.*Request\(prompt="):
            await model.generate(chat())
        assert (await model.generate(Request(prompt="text", max_tokens=2))).samples
    async with local(broken) as model:
        with pytest.raises(ConfigurationError, match="does not compile"):
            await model.generate(chat())
    async with local(choosy) as model:
        with pytest.raises(RequestRefused, match="no system role"):
            await model.generate(chat())


async def test_extra_fields_are_refused(file):
    """What the backend cannot pass on is an error, not ignored."""
    async with local(file) as model:
        with pytest.raises(ConfigurationError, match="repeat_penalty"):
            await model.generate(chat(extra={"repeat_penalty": 1.1}))


async def test_cancelled_and_closed(file):
    """A waiting request is cancelled at once, closing fails what is queued, and a closed model says
    so."""
    model = local(file)
    await model.open()
    long = asyncio.ensure_future(
        model.generate(chat(temperature=1.0, seed=0, n=50, max_tokens=1900))
    )
    # until it is running: of requests that wait, the order may prefer a later one
    await eventually(lambda: model.evaluated_tokens)
    waiting = asyncio.ensure_future(model.generate(chat("waits")))
    other = asyncio.ensure_future(
        model.continuation(ContinuationRequest(prompt="a", continuation=" b"))
    )
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not long.done()  # so nothing waited for it
    await model.aclose()
    for task in (long, other):
        with pytest.raises(ModelClosed):
            await task
    with pytest.raises(ModelClosed):
        await model.generate(chat())
    await model.aclose()


async def test_throughput_mode_writes_the_same_answers(file):
    """Several answers at a time follow the same seeds; a tie in rounding may part them late."""
    asked = [
        chat(f"rate {word}", temperature=0.7, seed=1, n=2, max_tokens=8)
        for word in ("yes", "no", "the", "good")
    ]
    async with local(file) as exact, local(file, mode="throughput", sequences=4) as quick:
        expected = [await exact.generate(request) for request in asked]
        found = await asyncio.gather(*(quick.generate(request) for request in asked))
    same = [
        a.text == b.text
        for x, y in zip(expected, found, strict=True)
        for a, b in zip(x.samples, y.samples, strict=True)
    ]
    assert np.mean(same) >= 0.75


async def test_loading_warns_where_offload_was_asked_for_and_cannot_be(
    file: Written, tmp_path: Path
):
    """A build without GPU support says so when layers were asked for, and stays quiet when they
    were not."""
    from textassay.runtime.backends.llamacpp.library import offloads

    if offloads():
        pytest.skip("this build can offload")
    with pytest.warns(UserWarning, match="cannot use a GPU"):
        async with local(file, n_gpu_layers=-1):
            pass


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
            model = with_cache(StoringModel(local, store), store)
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
