"""Graphs: what is refused when one is built, and which types fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar

import pytest

from tests.runtime.graph.small_agents import (
    LongText,
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
from tests.work import opcodes
from textassay.runtime.errors import GraphError
from textassay.runtime.graph.graph import Graph, Node, each, fixed
from textassay.runtime.graph.types import fits, type_name
from textassay.runtime.messages import Failure, Plan, Score


async def unannotated(text) -> int:  # type: ignore[no-untyped-def]
    return 1


async def resultless(text: Text):  # type: ignore[no-untyped-def]
    return 1


async def unreadable(text: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 1


async def positional(text: Text, /) -> int:
    return 1


def not_async(text: Text) -> int:
    return 1


REFUSED: dict[str, tuple[Callable[[], Graph], str]] = {
    "type": (
        lambda: chain(Node("score", count, text="input"), Node("fuse", total, numbers="score")),
        "graph 'jury': node 'score' yields int, but 'fuse' expects list[int] for its parameter "
        "'numbers'",
    ),
    "input type": (
        lambda: chain(Node("n", half, number="input")),
        "'input' yields Text, but 'n' expects float",
    ),
    "field type": (
        lambda: chain(Node("n", half, number="input.text")),
        "'input.text' yields str, but 'n' expects float",
    ),
    "item type": (
        lambda: chain(Node("split", split, text="input"), Node("h", half, number=each("split"))),
        "the items of 'split' are str, but 'h' expects float for its parameter 'number'",
    ),
    "fan-out without fan-in": (
        lambda: chain(Node("all", size, word=each("words")), Node("h", half, number="all")),
        "node 'all' yields list[int], but 'h' expects float",
    ),
    "each over no list": (
        lambda: chain(Node("n", size, word=each("input.text"))),
        "yields str, which is not a list",
    ),
    "constant": (
        lambda: chain(Node("n", add, left="length", right=fixed("x"))),
        "the constant 'x' is Literal['x'], but",
    ),
    "unknown node": (
        lambda: chain(Node("n", half, number="counts")),
        "no annotated field 'counts'; nodes: n",
    ),
    "unknown field": (
        lambda: chain(Node("up", upper, text="input"), Node("n", half, number="up.size")),
        "wire 'number' of node 'n': 'up' yields Text, which has no annotated field 'size'",
    ),
    "unannotated property": (
        lambda: chain(Node("n", half, number="untold")),
        "no annotated field 'untold'",
    ),
    "field of a fan-out": (
        lambda: chain(Node("r", read, text=each("words")), Node("n", half, number="r.length")),
        "'r' yields list[Text], which has no annotated field 'length'",
    ),
    "missing parameter": (
        lambda: chain(Node("n", add, left="length")),
        "node 'n' has no wire for its parameter 'right'",
    ),
    "unknown parameter": (
        lambda: chain(Node("n", count, text="input", size="length")),
        "the agent of node 'n' has no parameter 'size'; parameters: text",
    ),
    "cycle": (
        lambda: chain(Node("a", add, left="length", right="b"), Node("b", half, number="a")),
        "nodes wait for each other: ",
    ),
    "own input": (
        lambda: chain(Node("a", add, left="length", right="a")),
        "wait for each other: a -> a",
    ),
    "duplicate": (
        lambda: chain(Node("a", upper, text="input"), Node("a", count, text="input")),
        "two nodes are called 'a'",
    ),
    "dot": (lambda: chain(Node("a.b", upper, text="input")), "a node cannot be called 'a.b'"),
    "reserved": (
        lambda: chain(Node("input", upper, text="input")),
        "a node cannot be called 'input'",
    ),
    "unknown output": (
        lambda: chain(Node("a", upper, text="input"), output="b"),
        "unknown output 'b'; nodes: a",
    ),
    "no nodes": (lambda: Graph("jury", input=Text, nodes=[], output="b"), "nodes: none"),
    "idle node": (
        lambda: chain(Node("idle", upper, text="input"), Node("n", count, text="input")),
        "there is no path from 'idle' to the output 'n'",
    ),
    "unreachable output": (
        lambda: chain(Node("n", half, number=fixed(1))),
        "there is no path from the input to 'n'",
    ),
    "no wire": (
        lambda: chain(Node("n", half, number=3)),
        "number=3 is not a wire; for a constant use fixed()",
    ),  # type: ignore[arg-type]
    "unannotated": (
        lambda: chain(Node("n", unannotated, text="input")),
        "'n' does not annotate its parameter 'text'",
    ),
    "no result": (lambda: chain(Node("n", resultless, text="input")), "annotate its result"),
    "unreadable": (
        lambda: chain(Node("n", unreadable, text="input")),
        "name 'Nowhere' is not defined",
    ),
    "positional": (lambda: chain(Node("n", positional, text="input")), "'text' is positional-only"),
    "not async": (lambda: chain(Node("n", not_async, text="input")), "it is not async"),  # type: ignore[arg-type]
    "a class": (lambda: chain(Node("n", Suffix, text="input")), "is not an agent"),  # type: ignore[arg-type]
    "no callable": (lambda: chain(Node("n", 3, text="input")), "3 is not an agent"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("build, message", REFUSED.values(), ids=REFUSED)  # noqa: PT006
def test_what_cannot_run_is_refused_when_built(build: Callable[[], Graph], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        build()
    assert str(caught.value).startswith("graph 'jury': ")
    assert message in str(caught.value)


def test_a_cycle_is_shown_along_its_wires() -> None:
    with pytest.raises(GraphError) as caught:
        chain(
            Node("a", add, left="length", right="c"),
            Node("b", half, number="a"),
            Node("c", count, text="b"),
            output="c",
        )
    path = str(caught.value).split(": ")[-1].split(" -> ")
    assert set(pairwise(path)) == {("a", "b"), ("b", "c"), ("c", "a")}


class Judge(Protocol):
    @property
    def name(self) -> str: ...


AnyText = TypeVar("AnyText", bound=Text)
Words = NewType("Words", list[str])


@pytest.mark.parametrize(
    ("given_type", "expected", "fitting"),
    [
        (LongText, Text, True),
        (Text, LongText, False),
        (int, float, True),
        (bool, float, False),
        (float, int, False),
        (list[int], list[float], True),
        (list[LongText], Sequence[Text], True),
        (list[LongText], Iterable[Text], True),
        (tuple[int, ...], list[int], False),
        (tuple[int, ...], Sequence[float], True),
        (tuple[int, str], tuple[float, str], True),
        (tuple[int, str], tuple[int, ...], False),
        (tuple[int, int], Sequence[int], True),
        (tuple[int, ...], tuple[int, int], False),
        (list, list[int], True),
        (list[int], list, True),
        (str, Sequence[str], False),
        (str, Iterable[str], False),
        (str, Sequence, True),
        (int, int | None, True),
        (int | None, int, False),
        (int | str, str | int | None, True),
        (list[int | str], list[int] | list[str], False),
        (None, int | None, True),
        (Literal["a"], str, True),
        (Literal["a"], Literal["a", "b"], True),
        (str, Literal["a"], False),
        (Annotated[int, "positive"], float, True),
        (Any, int, True),
        (int, Any, True),
        (int, object, True),
        (dict[str, int], Mapping[str, float], True),
        (dict[str, str], Mapping[str, float], False),
        (LongText, AnyText, True),
        (int, AnyText, False),
        (Words, list[str], True),
        (list[str], Words, False),
        (Text, Judge, True),
        (type(count), Callable[[Text], int], True),
        (Score, list[Score], False),
        (Score, Score | Failure, True),
        (list[Score], list[Score | Failure], True),
    ],
)
def test_which_types_fit(given_type: Any, expected: Any, fitting: bool) -> None:
    assert fits(given_type, expected) is fitting


@pytest.mark.parametrize(
    ("hint", "written"),
    [
        (list[Score | Failure], "list[Score | Failure]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (str | None, "str | None"),
        (Callable[[int], str], "Callable[[int], str]"),
        (Any, "Any"),
        (Literal["a", 1], "Literal['a', 1]"),
    ],
)
def test_types_are_written_as_people_write_them(hint: Any, written: str) -> None:
    assert type_name(hint) == written


async def plan_for(text: Text) -> Plan | Failure:
    return Plan(assistants={}, steps=("look", "judge"))


def test_failure_in_a_result_type_is_not_part_of_what_comes_over_the_wire() -> None:
    """An agent that declares `Plan | Failure` yields a plan; its failure travels as any other."""
    graph = chain(Node("plan", plan_for, text="input"), Node("n", size, word=each("plan.steps")))
    assert run(graph, Text(text="")) == [4, 5]


# shape and cost


def test_mermaid_is_deterministic_and_escaped() -> None:
    inner = chain(Node("read", read, text="input"), input=str)
    graph = Graph(
        "jury",
        input=Text,
        nodes=[
            Node('say "end" <b>', split, text="input"),
            Node("read", inner, input=each('say "end" <b>')),
            Node(
                "sum", partial(len_of, extra=1), texts="read", start="input.length", scale=fixed(2)
            ),
        ],
        output="sum",
    )
    assert graph.to_mermaid() == (
        "flowchart LR\n"
        '    input(["Text"])\n'
        '    n1["say #34;end#34; #60;b#62;"]\n'
        '    n2[["read"]]\n'
        '    n3["sum"]\n'
        '    result(["int"])\n'
        '    input -->|"text"| n1\n'
        '    n1 ==>|"input: each"| n2\n'
        '    n2 -->|"texts"| n3\n'
        '    input -->|"start: length"| n3\n'
        "    n3 --> result\n"
    )
    assert repr(graph) == "<Graph 'jury': Text -> int, nodes: say \"end\" <b>, read, sum>"


async def len_of(texts: list[Text], start: int, extra: int, scale: int) -> int:
    return (len(texts) + start + extra) * scale


def test_the_nodes_are_those_given() -> None:
    nodes = [Node("n", count, text="up"), Node("up", upper, text="input")]
    graph = Graph("jury", input=Text, nodes=nodes, output="n")
    assert graph.nodes == tuple(nodes)
    assert repr(nodes[0]) == "Node('n', count, text='up')"
    assert graph.signature.result is int


def test_a_node_of_a_linear_graph_costs_few_instructions() -> None:
    """Ten more nodes in a row cost some 170 instructions each, the agent's own among them."""

    async def step(text: Text) -> Text:
        return text

    def instructions(length: int) -> int:
        rest = (Node(f"n{i}", step, text=f"n{i - 1}") for i in range(1, length))
        graph = chain(Node("n0", step, text="input"), *rest)
        asyncio.run(graph.run(Text(text="a")))  # what is done once per graph
        return opcodes(lambda: asyncio.run(graph.run(Text(text="a"))))

    assert (instructions(13) - instructions(3)) / 10 < 350
