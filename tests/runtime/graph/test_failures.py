"""Graphs: where failures go, and what stops a run."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.runtime.graph.small_agents import (
    Text,
    add,
    chain,
    count,
    describe,
    fail,
    half,
    run,
    size,
    split,
    total,
    total_of_known,
    upper,
)
from textassay.runtime.errors import AuthenticationFailed, BudgetReached, GraphError, StorageError
from textassay.runtime.graph.graph import Node, each
from textassay.runtime.messages import Failure, Message


def test_a_failure_passes_agents_that_do_not_name_it() -> None:
    """The result is the first failure, with the node, the exception's name and its message."""
    graph = chain(
        Node("fail", fail, text="input"),
        Node("up", upper, text="fail"),
        Node("n", count, text="up"),
    )
    assert run(graph, Text(text="a")) == Failure(node="fail", type="ValueError", message="bad text")


def test_a_failure_reaches_the_agent_that_names_it() -> None:
    """`Text | Failure` receives it, even through nodes that did not run."""
    graph = chain(
        Node("fail", fail, text="input"),
        Node("up", upper, text="fail"),
        Node("say", describe, result="up"),
    )
    assert run(graph, Text(text="a")) == "ValueError: bad text at fail"


def test_one_failed_item_is_a_failure_in_the_list() -> None:
    """The others keep their values and places."""
    result = run(
        chain(Node("split", split, text="input"), Node("sizes", size, word=each("split"))),
        Text(text="a 1 ccc"),
    )
    assert result == [1, Failure(node="sizes", type="ValueError", message="no word: 1"), 3]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [(total, Failure(node="sizes", type="ValueError", message="no word: 1")), (total_of_known, 4)],
)
def test_a_list_with_a_failure_reaches_only_consumers_that_name_it(
    agent: Any, expected: Any
) -> None:
    """`list[int]` fails with it, `Sequence[int | Failure]` deals with it."""
    graph = chain(
        Node("split", split, text="input"),
        Node("sizes", size, word=each("split")),
        Node("total", agent, numbers="sizes"),
    )
    assert run(graph, Text(text="a 1 ccc")) == expected


def test_fanning_out_over_failed_items_passes_each_on() -> None:
    """A second fan-out skips the failed items and keeps their places."""
    graph = chain(
        Node("split", split, text="input"),
        Node("sizes", size, word=each("split")),
        Node("half", half, number=each("sizes")),
    )
    assert run(graph, Text(text="aa 1 bbbb")) == [
        1.0,
        Failure(node="sizes", type="ValueError", message="no word: 1"),
        2.0,
    ]


def test_a_failure_inside_a_nested_graph_names_both_nodes() -> None:
    """The path says where; a list inside a list is looked through."""
    inner = chain(Node("split", split, text="input"), Node("sizes", size, word=each("split")))
    outer = chain(Node("inner", inner, input="input"), Node("total", total, numbers="inner"))
    assert run(outer, Text(text="a 1")) == Failure(
        node="sizes", type="ValueError", message="no word: 1"
    )
    wrapped = chain(Node("outer", chain(Node("fail", fail, text="input")), input="input"))
    assert run(wrapped, Text(text="a")) == Failure(
        node="outer/fail", type="ValueError", message="bad text"
    )


def test_lists_of_different_length_fail_the_node() -> None:
    """Nothing is dropped when zipped lists differ."""

    async def join(word: str, number: int) -> str:
        return word * number

    graph = chain(
        Node("split", split, text="input"),
        Node("join", join, word=each("split"), number=each("numbers")),
        Node("numbers", partial(numbers_up_to, n=3), text="input"),
        output="join",
    )
    failure = run(graph, Text(text="a b"))
    assert (failure.node, failure.type) == ("join", "ValueError")
    assert "word has 2, number has 3" in failure.message


async def numbers_up_to(text: Text, n: int) -> list[int]:
    return list(range(n))


def test_a_result_of_the_wrong_class_is_a_failure() -> None:
    """What an agent yields is held against what it declares."""

    async def lies(text: Text) -> int:
        return "three"  # type: ignore[return-value]

    failure = run(chain(Node("lies", lies, text="input")), Text(text="a"))
    assert (failure.type, "yielded str" in failure.message) == ("TypeError", True)


def test_a_property_that_raises_fails_the_node_that_reads_it() -> None:
    """Reading a field is part of running the node."""

    class Fragile(Message):
        @property
        def field(self) -> int:
            raise LookupError("nothing here")

    Fragile.field.fget.__annotations__["return"] = int  # type: ignore[attr-defined]
    failure = run(chain(Node("half", half, number="field"), input=Fragile), Fragile())
    assert (failure.node, failure.type) == ("half", "LookupError")


@pytest.mark.parametrize(
    "error", [AuthenticationFailed("no key"), StorageError("disk full"), BudgetReached("spent")]
)
@pytest.mark.parametrize("grouped", [False, True])
def test_an_error_that_stops_the_run_comes_out_and_cancels_the_siblings(
    error: Exception, grouped: bool
) -> None:
    cancelled = []

    async def waits(text: Text) -> int:
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(text)
            raise

    async def stops(word: str) -> int:
        await asyncio.sleep(0)
        raise ExceptionGroup("several", [ValueError("other"), error]) if grouped else error

    graph = chain(
        Node("waits", waits, text="input"),
        Node("split", split, text="input"),
        Node("stops", stops, word=each("split")),
        Node("total", total, numbers="stops"),
        Node("sum", add, left="waits", right="total"),
    )
    with pytest.raises(type(error)) as caught:
        run(graph, Text(text="a b"))
    assert caught.value is error
    assert len(cancelled) == 1


def test_cancelling_a_run_cancels_its_nodes() -> None:
    """CancelledError comes out, and no task is left."""

    async def main() -> None:
        started = asyncio.Event()

        async def waits(word: str) -> str:
            started.set()
            await asyncio.Event().wait()
            return word

        task = asyncio.create_task(
            chain(Node("all", waits, word=each("words"))).run(Text(text="a b c"))
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_the_input_must_be_of_the_graphs_type() -> None:
    """A wrong message is refused before anything runs."""
    with pytest.raises(GraphError, match="graph 'jury': expects Text as its input, not dict"):
        run(chain(Node("up", upper, text="input")), {"text": "a"})
