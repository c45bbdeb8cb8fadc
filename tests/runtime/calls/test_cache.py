"""The cache: equal requests are asked once in a lifetime, and nothing else counts as equal."""

import asyncio
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.counting import PAID, CountingModel
from textassay.runtime.base import Usage
from textassay.runtime.calls.cache import (
    CachedModel,
    StoringModel,
    check_entry,
    decode_answer,
    encode_answer,
)
from textassay.runtime.calls.call import Call, Posting, identity_bytes, request_key
from textassay.runtime.errors import ConfigurationError, ServerFailed, StorageError
from textassay.runtime.images import Image
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Function,
    Request,
    Response,
    Sample,
    TokenLogprob,
)
from textassay.runtime.storage.answer_admin import info, read_answers, verify
from textassay.runtime.storage.answers import DiskStore
from textassay.runtime.storage.files import decode, encode

FREE = Usage(calls=0, cached_calls=1, prompt_tokens=0, completion_tokens=0, cost=0.0)
IDENTITY = {"model": "m", "api_base": "http://127.0.0.1:1/v1"}
ASKED = Request(messages=(ChatMessage(role="user", content="Rate it."),))
LOOK = Function(name="look", description="Look it up.", parameters={"type": "object"})
CALLED = ChatMessage(role="user", content="Rate it.", native=({"role": "tool", "content": "3"},))

SHOWN = (ChatMessage(role="user", content="Rate [Image 1]."),)
PICTURE = Image(number=1, name="a.png", place="/d/a.png", digest="1" * 64, media_type="image/png")
LINK = Image(number=2, name="https://h/a.png", place="https://h/a.png")
CHANGES = [
    {"messages": (ChatMessage(role="user", content="Rate it!"),)},
    {"messages": (ChatMessage(role="system", content="Rate it."),)},
    {
        "messages": (
            ChatMessage(role="user", content="Rate"),
            ChatMessage(role="user", content=" it."),
        )
    },
    {"messages": (), "prompt": "Rate it."},
    {"n": 2},
    {"draw": 1},
    {"temperature": 0.5},
    {"temperature": None},
    {"effort": "low"},
    {"effort": "none"},
    {"thinking_tokens": 0},
    {"top_p": 0.5},
    {"max_tokens": 8},
    {"seed": 0},
    {"stop": ("\n",)},
    {"logprobs": 0},
    {"logprobs": 5},
    {"functions": (LOOK,)},
    {"functions": (LOOK.model_copy(update={"description": "Look."}),)},
    {"functions": (LOOK,), "messages": (CALLED,)},
    {"json_schema": {}},
    {"json_schema": {"type": "object"}},
    {"extra": {"top_k": 1}},
    {"extra": {"top_k": "1"}},
    {"truncatable": "Rate"},
    {"truncatable": "it"},
    {"prompt": None, "messages": SHOWN, "images": (PICTURE,)},
    {"prompt": None, "messages": SHOWN, "images": (LINK,)},
    {"prompt": None, "messages": SHOWN, "images": (PICTURE, LINK)},
]


def keeping(model, store):
    """Return a model that looks its answers up and keeps them."""
    return CachedModel(StoringModel(model, store), store)


def test_every_field_that_changes_the_answer_changes_the_key():
    requests = [ASKED, *(Request(**{**ASKED.model_dump(), **change}) for change in CHANGES)]
    others = [
        ChoicesRequest(prompt="Rate it.", choices={"yes": ("yes",)}),
        ChoicesRequest(prompt="Rate it.", choices={"yes": ("yes", "Yes")}),
        ContinuationRequest(prompt="Rate it.", continuation="yes"),
        ContinuationRequest(prompt="Rate it", continuation=".yes"),
    ]
    keys = {request_key(IDENTITY, request) for request in [*requests, *others]}
    assert len(keys) == len(requests) + len(others)
    assert request_key({**IDENTITY, "model": "n"}, ASKED) not in keys
    assert set(Request.model_fields) == {name for change in CHANGES for name in change}


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"place": "/elsewhere/a.png"}, True),
        ({"name": "b.png"}, False),
        ({"digest": "2" * 64}, False),
    ],
)
def test_an_image_is_known_by_its_content_and_its_path_in_the_data(change, is_same):
    key = request_key(IDENTITY, Request(messages=SHOWN, images=(PICTURE,)))
    other = PICTURE.model_copy(update=change)
    assert (request_key(IDENTITY, Request(messages=SHOWN, images=(other,))) == key) == is_same


def test_the_order_of_fields_does_not_change_the_key():
    one = ASKED.model_copy(update={"extra": {"a": 1, "b": {"c": 2, "d": 3}}})
    two = ASKED.model_copy(update={"extra": {"b": {"d": 3, "c": 2}, "a": 1}})
    assert request_key(IDENTITY, one) == request_key(dict(reversed(IDENTITY.items())), two)


def test_keys_are_the_same_in_every_process_and_version():
    """A golden key: if it changes, every answer that anyone has paid for is asked again."""
    assert (
        request_key({"model": "m"}, ASKED)
        == "3c14cf8849fbb869edc6bcec5f052f500668516fd63710d9ec8a1473e882024f"
    )


def test_any_text_has_a_key():
    """Half a surrogate pair, which UTF-8 cannot hold."""
    texts = ["\ud83d", "\ude00", "\ud83d\ude00", "😀", "\\ud83d"]
    keys = {request_key(IDENTITY, Request(prompt=text)) for text in texts}
    assert len(keys) == len(texts)
    huge = [Request(prompt="x", extra={"seed": 2**80 + i}) for i in range(2)]
    assert request_key(IDENTITY, huge[0]) != request_key(IDENTITY, huge[1])
    with pytest.raises(ConfigurationError, match="the request contains something that is not JSON"):
        request_key(IDENTITY, Request(prompt="x", extra={"when": object()}))
    with pytest.raises(ConfigurationError, match="the identity of the model"):
        request_key({"model": object()}, ASKED)


TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)
LOGPROBS = st.floats(max_value=0, allow_nan=False, allow_infinity=False)
TOKENS = st.builds(
    TokenLogprob,
    token=TEXTS,
    logprob=LOGPROBS,
    top=st.lists(st.tuples(TEXTS, LOGPROBS), max_size=3).map(tuple),
)
ANSWERS = st.one_of(
    st.builds(
        Response,
        samples=st.lists(
            st.builds(
                Sample,
                text=TEXTS,
                finish_reason=st.sampled_from(["stop", "length", "filtered", "other"]),
                logprobs=st.none() | st.lists(TOKENS, max_size=3).map(tuple),
                thought=st.none() | TEXTS,
                from_thought=st.booleans(),
                native=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
        usage=st.just(PAID),
        model=st.none() | TEXTS,
    ),
    st.builds(
        ChoicesResponse,
        logprobs=st.dictionaries(TEXTS, st.none() | LOGPROBS, max_size=3),
        usage=st.just(PAID),
        truncated_tokens=st.integers(0, 10**6),
    ),
    st.builds(
        ContinuationResponse,
        tokens=st.lists(TOKENS, min_size=1, max_size=3).map(tuple),
        usage=st.just(PAID),
    ),
)


@given(answer=ANSWERS)
def test_a_kept_answer_is_the_answer(answer):
    kept = encode_answer(answer)
    assert decode_answer(kept) == answer.model_copy(update={"usage": FREE})
    dumped = answer.model_dump(exclude={"usage"})
    for sample in dumped.get("samples", ()):
        if sample["thought"] is None and not sample["from_thought"]:
            del sample["thought"], sample["from_thought"]
        if sample["native"] is None:
            del sample["native"]
    assert encode({**decode(kept), "answer": dumped}) == kept


def test_parts_of_a_subclass_are_kept_as_their_base():
    class Timed(Sample):
        seconds: float

    kept = encode_answer(Response(samples=(Timed(text="4", seconds=1.5),)))
    assert kept == encode_answer(Response(samples=(Sample(text="4"),)))


def test_answers_that_wait_for_a_commit_take_no_more_memory_than_they_are_long():
    response = Response(samples=(Sample(text="4" * 600),))
    tracemalloc.start()
    try:
        waiting = [encode_answer(response) for _ in range(1000)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1.5 * sum(len(answer) for answer in waiting)


async def test_equal_requests_are_asked_once(tmp_path):
    model = CountingModel()
    async with DiskStore(tmp_path) as store:
        cached = keeping(model, store)
        first, second = await cached.generate(ASKED), await cached.generate(ASKED)
        assert (first.usage, second.usage) == (PAID, FREE)
        assert first.samples == second.samples
        assert (await cached.generate(ASKED.model_copy(update={"draw": 1}))).samples[
            0
        ].text == "answer 2"
    async with DiskStore(tmp_path) as store:
        again = await keeping(model, store).generate(ASKED)
        assert again == second
        assert (
            await keeping(CountingModel(api_base="elsewhere"), store).generate(ASKED)
        ).usage == PAID
    assert len(model.asked) == 2


async def test_an_answer_that_cannot_be_read_is_an_error(tmp_path):
    model = CountingModel()
    key = request_key(model.identity, ASKED)
    for value in (
        b"{",
        b"[]",
        b'{"kind": "other", "answer": {}}',
        b'{"kind": "generate", "answer": {"samples": []}}',
    ):
        async with DiskStore(tmp_path) as store:
            await store.put(key, value)
            with pytest.raises(StorageError, match=rf"{key} in .*textassay cache verify"):
                await keeping(model, store).generate(ASKED)
        (problem,) = verify(tmp_path, check_entry).problems
        assert key in problem
    assert not model.asked


async def test_cancelling_does_not_lose_an_answer_that_is_there(tmp_path):
    model = CountingModel(waits=True)
    async with DiskStore(tmp_path) as store:
        cached = keeping(model, store)
        task = asyncio.create_task(cached.generate(ASKED))
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert (await cached.generate(ASKED)).usage == FREE
    assert len(model.asked) == 1


async def test_all_three_kinds_are_kept_and_errors_are_not(tmp_path):
    model = CountingModel()
    model.error = ServerFailed("503")
    async with DiskStore(tmp_path) as store:
        cached = keeping(model, store)
        choices = ChoicesRequest(prompt="p", choices={"yes": ("yes",), "no": ("no",)})
        continuation = ContinuationRequest(prompt="p", continuation=" c")
        with pytest.raises(ServerFailed):
            await cached.choices(choices)
        model.error = None
        for ask, request in ((cached.choices, choices), (cached.continuation, continuation)):
            first, second = await ask(request), await ask(request)
            assert (first.usage, second) == (PAID, first.model_copy(update={"usage": FREE}))
        await cached.aclose()
        assert model.closed == 1
        assert await store.fetch("a") is None, "whoever opened the store closes it"
    assert len(model.asked) == 3
    assert verify(tmp_path, check_entry).ok


async def test_an_answer_is_kept_by_a_storing_model_alone_before_it_is_reported(tmp_path):
    """As in a dry run, which keeps none."""
    async with DiskStore(tmp_path) as store:
        await CachedModel(CountingModel(), store).generate(ASKED)
        assert info(tmp_path).entries == 0
        await keeping(CountingModel(), store).generate(ASKED)
        assert request_key(CountingModel().identity, ASKED) in dict(read_answers(tmp_path))
        assert (await CachedModel(CountingModel(), store).generate(ASKED)).usage == FREE


async def test_hits_let_other_tasks_run(tmp_path):
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with DiskStore(tmp_path) as store:
        cached = keeping(CountingModel(), store)
        await cached.generate(ASKED)
        other = asyncio.create_task(count_turns())
        await asyncio.sleep(0)
        turns = 0
        for _ in range(160):
            await cached.generate(ASKED)
        assert turns >= 160
        other.cancel()


def test_a_call_makes_its_key_once_for_each_identity():
    one, other = identity_bytes(IDENTITY), identity_bytes({**IDENTITY, "model": "n"})
    call = Call(ASKED, Posting(allowance=4096, shared_prefix=4, cap_field="max_completion_tokens"))
    assert call.key(one) == request_key(IDENTITY, ASKED)
    assert call.key(one) is call.key(one)
    assert call.key(other) == request_key({**IDENTITY, "model": "n"}, ASKED)
    later = call.with_request(ASKED.model_copy(update={"draw": 1}))
    assert later.key(one) != call.key(one)
    assert later.posting is call.posting
