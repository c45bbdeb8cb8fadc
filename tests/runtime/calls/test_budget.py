"""Never more is spent than a budget's cap; estimates of tokens, and what forecasts learn."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.virtual_time import run_virtual, virtual
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.calls.budget import Budget, BudgetedModel, TokenForecast, estimate_tokens
from textassay.runtime.calls.call import Call
from textassay.runtime.errors import BudgetReached, ConfigurationError, ServerFailed
from textassay.runtime.model import ChoicesRequest, ContinuationRequest, Request, Response, Sample

PRICE = (1.0, 10.0)
REQUEST = Request(prompt="Is this text coherent?", max_tokens=100)
MOST = (estimate_tokens(REQUEST.text) * 1.0 + 100 * 10.0) / 1e6


def costing(cost: float | None, prompt_tokens: int = 10, completion_tokens: int = 20) -> Response:
    usage = Usage(
        calls=1, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost=cost
    )
    return Response(samples=(Sample(text="5"),), usage=usage)


async def ask_all(model: BudgetedModel, count: int) -> tuple[int, int]:
    """Ask at once; return how many were answered and how many the budget refused."""

    async def one() -> bool:
        try:
            await model.generate(REQUEST)
        except BudgetReached:
            return False
        return True

    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(one()) for _ in range(count)]
    answered = sum(task.result() for task in asked)
    return answered, count - answered


@settings(max_examples=60, deadline=None)
@given(
    cap=st.floats(1e-5, 0.1),
    actual=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    failing=st.sets(st.integers(0, 59)),
    price_known=st.booleans(),
)
def test_concurrent_requests_do_not_pass_the_cap(
    cap: float, actual: list[float], failing: set[int], price_known: bool
) -> None:
    dice = random.Random(len(actual))

    async def main() -> None:
        budget, asked = Budget(cap), iter(range(1000))

        async def reply(_: Request) -> Response:
            index = next(asked)
            await asyncio.sleep(dice.uniform(0, 2))
            if index in failing:
                raise ServerFailed("told to fail")
            share = actual[index % len(actual)] if price_known else 1.0
            return costing(share * MOST)

        model = BudgetedModel(ScriptedModel(reply), budget, PRICE if price_known else None)

        async def one() -> None:
            try:
                await model.generate(REQUEST)
            except (BudgetReached, ServerFailed):
                return

        async with asyncio.TaskGroup() as tasks:
            for _ in actual:
                tasks.create_task(one())
        # Without a price the first answer shows it, and may itself exceed the budget.
        assert budget.spent <= (cap if price_known else max(cap, MOST)) * (1 + 1e-6)
        assert budget.reserved == 0

    run_virtual(main())


@pytest.mark.parametrize(
    ("cap", "each", "answered"),
    [
        (3, 0.1, 21),  # after 20 of them two are spent; the 21st still fits, the 22nd might not
        (10, 2, 10),  # answers that cost twice their estimate, ten in flight: only these go wrong
    ],
)
@virtual
async def test_the_budget_is_used_up_whatever_is_estimated(cap, each, answered) -> None:
    async def reply(_: Request) -> Response:
        await asyncio.sleep(1)
        return costing(each * MOST)

    budget = Budget(cap * MOST)
    model = BudgetedModel(ScriptedModel(reply), budget, PRICE)
    assert await ask_all(model, 50) == (answered, 50 - answered)
    assert budget.spent == pytest.approx(answered * each * MOST)


@virtual
async def test_a_refusal_says_what_to_do() -> None:
    budget = Budget(MOST / 2)
    with pytest.raises(BudgetReached, match=r"cost limit of \$.* \$0\.0000 is spent .* max_cost="):
        await BudgetedModel(ScriptedModel(["5"]), budget, PRICE).generate(REQUEST)
    assert (budget.spent, budget.reserved) == (0, 0)


@virtual
async def test_failures_and_cancellation_give_the_reservation_back() -> None:
    async def reply(_: Request) -> Response:
        await asyncio.sleep(10)
        raise ServerFailed("told to fail")

    budget = Budget(1.5 * MOST)
    model = BudgetedModel(ScriptedModel(reply), budget, PRICE)
    tasks = [asyncio.create_task(model.generate(REQUEST)) for _ in range(4)]
    await asyncio.sleep(1)
    assert budget.reserved == pytest.approx(MOST)
    tasks[1].cancel()  # while it waits
    await asyncio.sleep(10)
    assert budget.reserved == pytest.approx(MOST)
    tasks[2].cancel()  # while it is asked
    await asyncio.sleep(1)
    assert budget.reserved == pytest.approx(MOST)
    await asyncio.wait(tasks)
    assert isinstance(tasks[3].exception(), ServerFailed)
    assert (budget.spent, budget.reserved) == (0, 0)


@virtual
async def test_a_waiter_cancelled_as_it_is_let_in_holds_nothing() -> None:
    """The turn between being let in and running is counted, too."""

    budget = Budget(1.0)
    holder = budget.reserve(1.0)
    await holder.__aenter__()
    waiter = asyncio.create_task(budget.reserve(1.0).__aenter__())
    await asyncio.sleep(0)
    await holder.__aexit__(None, None, None)
    assert budget.reserved == 1.0
    waiter.cancel()
    await asyncio.wait([waiter])
    assert budget.reserved == 0


@virtual
async def test_without_a_cap_costs_are_only_counted_and_under_one_they_must_be_known() -> None:
    budget, replies = Budget(None), [costing(0.25), costing(None), costing(0.5)]
    model = BudgetedModel(ScriptedModel(replies), budget, None)
    for _ in range(3):
        await model.generate(REQUEST)
    assert budget.spent == 0.75
    model = BudgetedModel(ScriptedModel([costing(None)]), Budget(1.0), None)
    with pytest.raises(ConfigurationError, match="price="):
        await model.generate(REQUEST)


@pytest.mark.parametrize(
    ("cached_price", "expected"), [((), 210e-6), ((0.1,), 204.6e-6), ((0.1, 1.25), 205.1e-6)]
)
@virtual
async def test_a_price_gives_the_cost_where_the_backend_does_not(
    cached_price: tuple[float, ...], expected: float
) -> None:
    """Ten tokens in, six cached and two written to the cache, and twenty out."""
    answer = costing(None)
    usage = answer.usage.model_copy(update={"cached_prompt_tokens": 6, "cache_write_tokens": 2})
    replies = [answer.model_copy(update={"usage": usage}), costing(None, 0, 0)]
    budget = Budget(1.0)
    model = BudgetedModel(ScriptedModel(replies), budget, (*PRICE, *cached_price))
    assert (await model.generate(REQUEST)).usage.cost == pytest.approx(expected)
    assert budget.spent == pytest.approx(expected)
    await model.generate(REQUEST)
    # nothing was counted: all of the prompt may have been written to the cache
    written = sum(cached_price[1:]) - PRICE[0] if cached_price[1:] else 0.0
    most = MOST + written * estimate_tokens(REQUEST.text) / 1e6
    assert budget.spent == pytest.approx(expected + most)


@pytest.mark.parametrize(("cost", "expected"), [(1.0, 2), (0.0, 20)])
@virtual
async def test_without_a_price_the_first_request_goes_alone_and_shows_it(
    cost: float, expected: int
) -> None:
    starts: list[float] = []

    async def reply(_: Request) -> Response:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        return costing(cost, estimate_tokens(REQUEST.text), 100)

    model = BudgetedModel(ScriptedModel(reply), Budget(2.5), None)
    assert await ask_all(model, 20) == (expected, 20 - expected)
    assert starts[1:] == [starts[0] + 1] * (expected - 1)


@pytest.mark.parametrize("cap", [0, -1, float("nan"), float("inf")])
def test_a_cap_must_be_a_positive_number(cap: float) -> None:
    with pytest.raises(ConfigurationError, match="max_cost="):
        Budget(cap)


@virtual
async def test_a_lease_spends_what_it_is_granted_and_waits_for_more() -> None:
    budget, shortages = Budget(1.0), []
    budget.start_lease(lambda: shortages.append(budget.needed))
    entered: list[int] = []

    async def spend(number: int) -> None:
        async with budget.reserve(0.4):
            entered.append(number)
            budget.spent += 0.4

    tasks = [asyncio.create_task(spend(number)) for number in range(3)]
    await asyncio.sleep(1)
    assert (entered, budget.needed) == ([], 0.4)
    budget.grow(0.5)
    await asyncio.sleep(1)
    assert (entered, budget.needed) == ([0], 0.4)
    budget.grow(0.3)
    await asyncio.sleep(1)
    assert entered == [0, 1]
    budget.end_lease()
    with pytest.raises(BudgetReached):
        await tasks[2]
    assert len(shortages) == 3
    assert (budget.spent, budget.reserved) == (0.8, 0.0)


def answer(completion_tokens: int) -> Response:
    return Response(
        samples=(Sample(text="x"),), usage=Usage(calls=1, completion_tokens=completion_tokens)
    )


def test_answers_teach_how_long_one_is_expected_to_be_unless_its_request_says_so() -> None:
    """256 tokens a sample, then 1.2 times the mean of a sample; a set length teaches nothing."""
    forecast, request = TokenForecast(), Call(Request(prompt="p", n=2))
    forecast.learn(request, answer(0))
    forecast.learn(Call(Request(prompt="p", max_tokens=5)), answer(5))
    assert forecast.completion(request) == 512
    forecast.learn(request, answer(200))
    forecast.learn(Call(Request(prompt="p")), answer(300))
    assert forecast.completion(request) == pytest.approx(2 * 200 * 1.2)
    assert forecast.completion(Call(Request(prompt="p", n=20, max_tokens=50))) == 1000


def test_scoring_given_text_counts_what_is_sent() -> None:
    forecast, texts = TokenForecast(), ("one two three", " four five six seven")
    long = ContinuationRequest(prompt=texts[0], continuation=texts[1])
    assert forecast.prompt(long) == sum(map(estimate_tokens, texts))
    assert forecast.completion(Call(long)) == 1
    assert forecast.completion(Call(ChoicesRequest(prompt="p", choices={"yes": ("yes",)}))) == 1


def test_english_prose_is_within_a_tenth() -> None:
    """62 tokens by cl100k_base."""
    prose = (
        "The council met on Tuesday evening to discuss the new bridge, which is expected to cost "
        "about twelve million pounds and to take three years to build. Several residents objected, "
        "saying that the old crossing could be repaired for a fraction of the price; others "
        "welcomed the plan because it would shorten the way to the hospital."
    )
    assert estimate_tokens(prose) == pytest.approx(62, rel=0.1)


@given(st.text(), st.text())
def test_more_text_has_no_fewer_tokens_and_no_more_than_its_bytes(first, second):
    """Odd characters, lone surrogates among them, do no harm."""
    tokens = estimate_tokens(first)
    assert 1 <= tokens <= max(2, 2 * len(first.encode("utf-8", "surrogatepass")))
    assert estimate_tokens(f"{first}\n{second}") >= tokens
