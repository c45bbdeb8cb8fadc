"""`LimitedModel` reserves, settles, backs off and gives back."""

from __future__ import annotations

import asyncio

import pytest

from tests.virtual_time import run_virtual
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.limits import MAX_PAUSE, LimitedModel, Limiter
from textassay.runtime.calls.usage import estimate_tokens
from textassay.runtime.errors import ContentRefused, ModelError, RateLimited, ServerFailed
from textassay.runtime.messages import Usage
from textassay.runtime.model import Request, Response, Sample

REQUEST = Request(prompt="Is this text coherent?", max_tokens=100, n=2)


def limiter(rpm: float | None = None, tpm: float | None = 10_000, concurrency: int = 20) -> Limiter:
    return Limiter(rpm=rpm, tpm=tpm, concurrency=concurrency)


def using(prompt_tokens: int, completion_tokens: int) -> Response:
    usage = Usage(calls=1, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    return Response(samples=(Sample(text="5"),), usage=usage)


def test_prompt_and_longest_answer_are_reserved_and_the_usage_is_settled() -> None:
    """While the call is under way the estimate counts, afterwards what was used."""

    async def main() -> None:
        limit = limiter()
        seen: list[int] = []

        def reply(request: Request) -> Response:
            seen.append(limit.state.tokens_last_minute)
            return using(12, 34)

        await LimitedModel(ScriptedModel(reply), limit).generate(REQUEST)
        assert seen == [estimate_tokens(REQUEST.text) + 200]
        assert limit.state.tokens_last_minute == 46

    run_virtual(main())


def test_answers_teach_how_much_to_reserve() -> None:
    """Where no request sets a length, the second reserves 1.2 times what the first took."""

    async def main() -> None:
        limit = limiter()
        reserved: list[int] = []
        request = Request(prompt="Is this text coherent?")

        def reply(_: Request) -> Response:
            reserved.append(limit.state.tokens_last_minute)
            return using(10, 50)

        model = LimitedModel(ScriptedModel(reply), limit)
        await model.generate(request)
        await model.generate(request)
        prompt = estimate_tokens(request.text)
        assert reserved == [prompt + 256, 60 + prompt + 60]

    run_virtual(main())


def test_an_answer_without_token_count_keeps_its_reservation() -> None:
    """Nothing is known, so the upper bound stands."""

    async def main() -> None:
        limit = limiter()
        silent = Response(samples=(Sample(text="5"),), usage=Usage(calls=1))
        await LimitedModel(ScriptedModel([silent]), limit).generate(REQUEST)
        assert limit.state.tokens_last_minute == estimate_tokens(REQUEST.text) + 200

    run_virtual(main())


@pytest.mark.parametrize(
    ("error", "is_load", "paused"),
    [
        (RateLimited("slow down"), True, 0.0),
        (RateLimited("slow down", retry_after=7.5), True, 7.5),
        (RateLimited("tomorrow", retry_after=86_400), True, MAX_PAUSE),
        (ServerFailed("overloaded", status=503), True, 0.0),
        (ServerFailed("overloaded", status=503, retry_after=3), True, 3.0),
        (ServerFailed("oops", status=500), False, 0.0),
        (ServerFailed("oops", status=502, retry_after=2), False, 2.0),
        (ContentRefused("no"), False, 0.0),
    ],
)
def test_what_an_error_means_for_everybody(error: ModelError, is_load: bool, paused: float) -> None:
    """429 and 503 shrink, Retry-After pauses; each time tokens are given back and the request
    counts."""

    async def main() -> None:
        limit = limiter(rpm=1000)
        before = limit.limit
        with pytest.raises(type(error)):
            await LimitedModel(ScriptedModel([error]), limit).generate(REQUEST)
        state = limit.state
        assert (state.limit < before, state.paused_for, state.in_flight) == (is_load, paused, 0)
        assert (state.requests_last_minute, state.tokens_last_minute) == (1, 0)

    run_virtual(main())


def test_a_retry_after_holds_all_models_behind_the_limiter() -> None:
    """Another wrapper of the same limiter waits as well."""

    async def main() -> None:
        limit, loop = limiter(tpm=None), asyncio.get_running_loop()
        refused = LimitedModel(ScriptedModel([RateLimited("slow down", retry_after=30)]), limit)
        fine = LimitedModel(ScriptedModel(["5"]), limit)
        began = loop.time()
        with pytest.raises(RateLimited):
            await refused.generate(REQUEST)
        await fine.generate(REQUEST)
        assert loop.time() == began + 30

    run_virtual(main())


def test_cancelling_a_call_frees_its_place() -> None:
    """At any moment of waiting or being asked."""

    async def slow(request: Request) -> str:
        await asyncio.sleep(10)
        return "5"

    async def main() -> None:
        for cancel_after in (0.0, 0.5, 5.0, 9.999, 12.0):
            limit = limiter(rpm=30, concurrency=2)
            model = LimitedModel(ScriptedModel(slow), limit)
            tasks = [asyncio.create_task(model.generate(REQUEST)) for _ in range(5)]
            await asyncio.sleep(cancel_after)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert (limit.state.in_flight, limit.state.waiting) == (0, 0)

    run_virtual(main())
