"""`Budget` never lets more be spent than its cap, and never stops while there is money left."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.virtual_time import run_virtual
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.budget import Budget, BudgetedModel
from textassay.runtime.calls.usage import estimate_tokens
from textassay.runtime.errors import BudgetReached, ConfigurationError, ServerFailed
from textassay.runtime.messages import Usage
from textassay.runtime.model import Request, Response, Sample

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
    """All asked at once, each costing up to its estimate, some failing."""
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
        # Without a price the first answer tells it, and may itself cost more than there is.
        assert budget.spent <= (cap if price_known else max(cap, MOST)) * (1 + 1e-6)
        assert budget.reserved == 0

    run_virtual(main())


def test_the_budget_is_used_before_it_stops() -> None:
    """Reservations ten times too high do not stop a run early."""

    async def reply(_: Request) -> Response:
        await asyncio.sleep(1)
        return costing(MOST / 10)

    async def main() -> None:
        budget = Budget(3 * MOST)
        answered, refused = await ask_all(BudgetedModel(ScriptedModel(reply), budget, PRICE), 50)
        assert (
            answered == 21
        )  # after 20 of them two are spent; the 21st still fits, the 22nd might not
        assert refused == 29
        assert budget.spent == pytest.approx(2.1 * MOST)

    run_virtual(main())


def test_the_overshoot_is_no_more_than_the_error_of_the_estimates() -> None:
    """Answers that cost twice their estimate, ten in flight: at most these ten go wrong."""

    async def reply(_: Request) -> Response:
        await asyncio.sleep(1)
        return costing(2 * MOST)

    async def main() -> None:
        budget = Budget(10 * MOST)
        answered, _ = await ask_all(BudgetedModel(ScriptedModel(reply), budget, PRICE), 50)
        assert answered == 10
        assert budget.spent == pytest.approx(20 * MOST)

    run_virtual(main())


def test_a_refusal_says_what_to_do() -> None:
    """It names the cap, what is spent and the option; the budget stays as it was."""

    async def main() -> None:
        budget = Budget(MOST / 2)
        with pytest.raises(
            BudgetReached, match=r"cost limit of \$.* \$0\.0000 is spent .* max_cost="
        ):
            await BudgetedModel(ScriptedModel(["5"]), budget, PRICE).generate(REQUEST)
        assert (budget.spent, budget.reserved) == (0, 0)

    run_virtual(main())


def test_failures_and_cancellation_give_the_reservation_back() -> None:
    """Also to those who wait for it, in order."""

    async def reply(_: Request) -> Response:
        await asyncio.sleep(10)
        raise ServerFailed("told to fail")

    async def main() -> None:
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

    run_virtual(main())


def test_a_waiter_cancelled_as_it_is_let_in_holds_nothing() -> None:
    """The turn between being let in and running is no hole."""

    async def main() -> None:
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

    run_virtual(main())


def test_without_a_cap_costs_are_only_counted() -> None:
    """What has no known cost is not counted as anything."""

    async def main() -> None:
        budget = Budget(None)
        model = BudgetedModel(
            ScriptedModel([costing(0.25), costing(None), costing(0.5)]), budget, None
        )
        for _ in range(3):
            await model.generate(REQUEST)
        assert budget.spent == 0.75

    run_virtual(main())


def test_an_unknown_cost_under_a_cap_is_an_error_that_names_the_option() -> None:
    """The first answer tells that nothing can be told."""

    async def main() -> None:
        model = BudgetedModel(ScriptedModel([costing(None)]), Budget(1.0), None)
        with pytest.raises(ConfigurationError, match="price="):
            await model.generate(REQUEST)

    run_virtual(main())


def test_a_price_tells_the_cost_where_the_backend_does_not() -> None:
    """Ten tokens in and twenty out, in the answer's usage too."""

    async def main() -> None:
        budget = Budget(1.0)
        model = BudgetedModel(ScriptedModel([costing(None), costing(None, 0, 0)]), budget, PRICE)
        answer = await model.generate(REQUEST)
        assert answer.usage.cost == pytest.approx(210e-6)
        assert budget.spent == pytest.approx(210e-6)
        await model.generate(REQUEST)
        assert budget.spent == pytest.approx(210e-6 + MOST)

    run_virtual(main())


@pytest.mark.parametrize(("cached_price", "expected"), [((), 210e-6), ((0.1,), 204.6e-6)])
def test_tokens_that_the_provider_had_cached_cost_their_own_price(
    cached_price: tuple[float, ...], expected: float
) -> None:
    """Six of the ten prompt tokens; at the full price if no other is given."""

    async def main() -> None:
        answer = costing(None)
        usage = answer.usage.model_copy(update={"cached_prompt_tokens": 6})
        reply = answer.model_copy(update={"usage": usage})
        model = BudgetedModel(ScriptedModel([reply]), Budget(1.0), (*PRICE, *cached_price))
        assert (await model.generate(REQUEST)).usage.cost == pytest.approx(expected)

    run_virtual(main())


@pytest.mark.parametrize(("cost", "expected"), [(1.0, 2), (0.0, 20)])
def test_without_a_price_the_first_request_goes_alone_and_tells_it(
    cost: float, expected: int
) -> None:
    """Nobody else is asked until it is known what asking costs."""
    starts: list[float] = []

    async def reply(_: Request) -> Response:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        return costing(cost, estimate_tokens(REQUEST.text), 100)

    async def main() -> None:
        model = BudgetedModel(ScriptedModel(reply), Budget(2.5), None)
        assert await ask_all(model, 20) == (expected, 20 - expected)
        assert starts[1:] == [starts[0] + 1] * (expected - 1)

    run_virtual(main())


@pytest.mark.parametrize("cap", [0, -1, float("nan"), float("inf")])
def test_a_cap_must_be_a_positive_number(cap: float) -> None:
    """The message names the option."""
    with pytest.raises(ConfigurationError, match="max_cost="):
        Budget(cap)


def test_a_lease_spends_what_it_is_granted_and_waits_for_more() -> None:
    """Nothing before the first grant; each grant admits; the end of the lease refuses the rest."""

    async def main() -> None:
        budget, shortages = Budget(1.0), []
        budget.start_lease(lambda: shortages.append(budget.needed))
        entered: list[int] = []

        async def spend(number: int) -> None:
            async with budget.reserve(0.4) as reservation:
                entered.append(number)
                reservation.settle(0.4)

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

    run_virtual(main())
