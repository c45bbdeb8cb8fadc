"""Graphs: what runs when, and in which shapes agents come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.graph.small_agents import (
    Suffix,
    Text,
    add,
    chain,
    count,
    half,
    read,
    run,
    size,
    split,
    total,
    upper,
)
from tests.waiting import HANGS_AFTER
from textassay.runtime.concurrency import gather
from textassay.runtime.graph.graph import Graph, Node, each, fixed
from textassay.runtime.messages import Aspect, Assignment, Example, Score


def test_a_linear_graph_passes_messages_along() -> None:
    """The output's value comes out."""
    graph = chain(Node("read", read, text="input"), Node("upper", upper, text="read"), input=str)
    assert run(graph, "hello") == Text(text="HELLO")


def test_the_readme_graph_fans_out_over_a_field_of_the_input() -> None:
    """Several `each` of one node advance together, and results keep the order of the items."""

    async def write_steps(aspect: Aspect) -> str:
        return f"How is {aspect.name}?"

    async def scorer(example: Example, aspect: Aspect, steps: str) -> Score:
        return Score(id=example.id, aspect=aspect.name, value=float(len(steps)))

    graph = Graph(
        "g-eval",
        input=Assignment,
        nodes=[
            Node("scores", scorer, example="example", aspect=each("aspects"), steps=each("steps")),
            Node("steps", write_steps, aspect=each("input.aspects")),
        ],
        output="scores",
    )
    aspects = (Aspect(name="fluency", definition="d"), Aspect(name="coherence", definition="d"))
    scores = run(graph, Assignment(example=Example(id="a", output="x"), aspects=aspects))
    assert [(s.aspect, s.value) for s in scores] == [("fluency", 15.0), ("coherence", 17.0)]


@given(st.lists(st.text("abc", min_size=1, max_size=5), max_size=10))
def test_fan_out_and_fan_in_agree_with_a_loop(words: list[str]) -> None:
    """How many items there are is known only at run time; none is fine."""
    graph = chain(
        Node("split", split, text="input"),
        Node("sizes", size, word=each("split")),
        Node("total", total, numbers="sizes"),
    )
    assert run(graph, Text(text=" ".join(words))) == sum(map(len, words))


def test_fields_properties_and_constants_are_wires() -> None:
    """A wire may end in a field, a property or a cached property; a constant needs none."""
    assert run(chain(Node("half", half, number="input.length")), Text(text="abcd")) == 2.0
    assert run(chain(Node("half", half, number="length")), Text(text="abcd")) == 2.0
    assert run(chain(Node("sizes", size, word=each("words"))), Text(text="a bcd")) == [1, 3]
    assert (
        run(chain(Node("sum", add, left="input.length", right=fixed(10))), Text(text="abcd")) == 14
    )


def test_a_node_hides_a_field_of_the_input_with_its_name() -> None:
    """The short form means the node; `input.` still reaches the field."""
    graph = chain(Node("length", half, number="input.length"), Node("again", half, number="length"))
    assert run(graph, Text(text="12345678")) == 2.0


async def anything(**texts: Text) -> str:
    return "+".join(f"{name}={text.text}" for name, text in texts.items())


def announced(text: Text) -> Awaitable[Text]:
    return upper(text)


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (Suffix("!"), "a!"),
        (Suffix("?").method, "a?"),
        (partial(Suffix("!"), times=3), "a!!!"),
        (partial(Suffix.method, Suffix("#")), "a#"),
        (announced, "A"),
    ],
)
def test_agents_come_in_all_shapes(agent: Any, expected: str) -> None:
    """Objects, bound methods, partials and functions that return an awaitable serve as agents."""
    assert run(chain(Node("only", agent, text="input")), Text(text="a")).text == expected


def test_an_agent_may_take_any_keywords() -> None:
    """`**texts: Text` takes as many wires as there are."""
    graph = chain(
        Node("up", upper, text="input"), Node("all", anything, first="input", second="up")
    )
    assert run(graph, Text(text="a")) == "first=a+second=A"


def test_graphs_nest() -> None:
    """A graph is an agent; fanning out over it is fanning out over any agent."""
    inner = chain(Node("read", read, text="input"), Node("count", count, text="read"), input=str)
    outer = chain(
        Node("split", split, text="input"),
        Node("sizes", inner, input=each("split")),
        Node("total", total, numbers="sizes"),
    )
    assert run(outer, Text(text="a bb ccc")) == 6


def test_nodes_run_as_soon_as_their_inputs_are_there() -> None:
    """Both arms of a diamond are under way at once; they could not finish otherwise."""
    meeting = asyncio.Barrier(2)

    async def arm(text: Text) -> int:
        async with asyncio.timeout(HANGS_AFTER):
            await meeting.wait()
        return len(text.text)

    graph = chain(
        Node("up", upper, text="input"),
        Node("left", arm, text="up"),
        Node("right", arm, text="up"),
        Node("sum", add, left="left", right="right"),
    )
    assert run(graph, Text(text="abc")) == 6


def test_a_slow_arm_does_not_hold_back_a_fast_one() -> None:
    """A node waits for its own inputs, not for a whole layer."""
    done = asyncio.Event()

    async def slow(text: Text) -> int:
        async with asyncio.timeout(HANGS_AFTER):
            await done.wait()
        return 1

    async def last_of_fast(number: int) -> int:
        done.set()
        return number

    graph = chain(
        Node("slow", slow, text="input"),
        Node("fast", count, text="input"),
        Node("after", last_of_fast, number="fast"),
        Node("sum", add, left="slow", right="after"),
    )
    assert run(graph, Text(text="abc")) == 4


def test_items_of_a_fan_out_run_at_once() -> None:
    """All items are under way together."""
    meeting = asyncio.Barrier(3)

    async def meet(word: str) -> str:
        async with asyncio.timeout(HANGS_AFTER):
            await meeting.wait()
        return word

    assert run(chain(Node("all", meet, word=each("words"))), Text(text="a b c")) == ["a", "b", "c"]


def test_runs_of_one_graph_do_not_share_anything() -> None:
    """The same graph runs many messages at once."""
    graph = chain(
        Node("up", upper, text="input"),
        Node("n", count, text="up"),
        Node("sum", add, left="n", right="input.length"),
    )

    async def main() -> list[Any]:
        return await gather([graph.run(Text(text="x" * n)) for n in range(50)])

    assert asyncio.run(main()) == [2 * n for n in range(50)]
