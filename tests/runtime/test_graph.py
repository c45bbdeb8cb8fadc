"""Graphs: what runs when, where failures go, what stops a run, and what is refused when built."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import HANGS_AFTER
from tests.work import opcodes
from textassay.runtime.agent_types import fits
from textassay.runtime.base import Message
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import AuthenticationFailed, BudgetReached, GraphError, StorageError
from textassay.runtime.graph import Graph, Node, constant, each
from textassay.runtime.messages import Aspect, Assignment, Example, Failure, Plan, Score


class Text(Message):
    """A text with its length and words."""

    text: str

    @property
    def length(self) -> int:
        return len(self.text)

    @cached_property
    def words(self) -> list[str]:
        return self.text.split()

    @property
    def untold(self):  # type: ignore[no-untyped-def]
        return 1


async def read(text: str) -> Text:
    return Text(text=text)


async def upper(text: Text) -> Text:
    return Text(text=text.text.upper())


async def count(text: Text) -> int:
    return len(text.text)


async def half(number: float) -> float:
    return number / 2


async def split(text: Text) -> list[str]:
    return text.text.split()


async def size(word: str) -> int:
    if not word.isalpha():
        raise ValueError(f"no word: {word}")
    return len(word)


async def total(numbers: list[int]) -> int:
    return sum(numbers)


async def total_of_known(numbers: Sequence[int | Failure]) -> int:
    return sum(n for n in numbers if not isinstance(n, Failure))


async def add(left: int, right: int) -> int:
    return left + right


async def fail(text: Text) -> Text:
    raise ValueError("bad text")


async def describe(result: Text | Failure) -> str:
    return (
        f"{result.type}: {result.message} at {result.node}"
        if isinstance(result, Failure)
        else result.text
    )


def chain(*nodes: Node, input: Any = Text, output: str | None = None) -> Graph:
    return Graph("jury", input=input, nodes=nodes, output=output or nodes[-1].name)


def run(graph: Graph, message: Any) -> Any:
    return asyncio.run(graph.run(message))


@dataclass
class Suffix:
    """An agent with a parameter of its own."""

    suffix: str

    async def __call__(self, text: Text, times: int = 1) -> Text:
        return Text(text=text.text + self.suffix * times)

    async def method(self, text: Text) -> Text:
        return await self(text)


# what runs when


def test_a_linear_graph_passes_messages_along() -> None:
    graph = chain(Node("read", read, text="input"), Node("upper", upper, text="read"), input=str)
    assert run(graph, "hello") == Text(text="HELLO")


def test_the_readme_graph_fans_out_over_a_field_of_the_input() -> None:
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
    graph = chain(
        Node("split", split, text="input"),
        Node("sizes", size, word=each("split")),
        Node("total", total, numbers="sizes"),
    )
    assert run(graph, Text(text=" ".join(words))) == sum(map(len, words))


def test_fields_properties_and_constants_are_wires() -> None:
    assert run(chain(Node("half", half, number="input.length")), Text(text="abcd")) == 2.0
    assert run(chain(Node("half", half, number="length")), Text(text="abcd")) == 2.0
    assert run(chain(Node("sizes", size, word=each("words"))), Text(text="a bcd")) == [1, 3]
    assert (
        run(chain(Node("sum", add, left="input.length", right=constant(10))), Text(text="abcd"))
        == 14
    )


def test_a_node_hides_a_field_of_the_input_with_its_name() -> None:
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
    assert run(chain(Node("only", agent, text="input")), Text(text="a")).text == expected


def test_an_agent_may_take_any_keywords() -> None:
    graph = chain(
        Node("up", upper, text="input"), Node("all", anything, first="input", second="up")
    )
    assert run(graph, Text(text="a")) == "first=a+second=A"


def test_graphs_nest() -> None:
    inner = chain(Node("read", read, text="input"), Node("count", count, text="read"), input=str)
    outer = chain(
        Node("split", split, text="input"),
        Node("sizes", inner, input=each("split")),
        Node("total", total, numbers="sizes"),
    )
    assert run(outer, Text(text="a bb ccc")) == 6


def test_nodes_run_as_soon_as_their_inputs_are_there() -> None:
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
    meeting = asyncio.Barrier(3)

    async def meet(word: str) -> str:
        async with asyncio.timeout(HANGS_AFTER):
            await meeting.wait()
        return word

    assert run(chain(Node("all", meet, word=each("words"))), Text(text="a b c")) == ["a", "b", "c"]


def test_runs_of_one_graph_do_not_share_anything() -> None:
    graph = chain(
        Node("up", upper, text="input"),
        Node("n", count, text="up"),
        Node("sum", add, left="n", right="input.length"),
    )

    async def main() -> list[Any]:
        return await gather([graph.run(Text(text="x" * n)) for n in range(50)])

    assert asyncio.run(main()) == [2 * n for n in range(50)]


def test_a_failure_passes_agents_that_do_not_name_it() -> None:
    graph = chain(
        Node("fail", fail, text="input"),
        Node("up", upper, text="fail"),
        Node("n", count, text="up"),
    )
    assert run(graph, Text(text="a")) == Failure(node="fail", type="ValueError", message="bad text")


def test_a_failure_reaches_the_agent_that_names_it() -> None:
    graph = chain(
        Node("fail", fail, text="input"),
        Node("up", upper, text="fail"),
        Node("say", describe, result="up"),
    )
    assert run(graph, Text(text="a")) == "ValueError: bad text at fail"


@pytest.mark.parametrize(
    ("agent", "expected"),
    [(total, Failure(node="sizes", type="ValueError", message="no word: 1")), (total_of_known, 4)],
)
def test_a_list_with_a_failure_reaches_only_consumers_that_name_it(
    agent: Any, expected: Any
) -> None:
    graph = chain(
        Node("split", split, text="input"),
        Node("sizes", size, word=each("split")),
        Node("total", agent, numbers="sizes"),
    )
    assert run(graph, Text(text="a 1 ccc")) == expected


def test_fanning_out_over_failed_items_passes_each_on() -> None:
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
    """The messages that an agent yields are compared with its declaration."""

    async def lies(text: Text) -> int:
        return "three"  # type: ignore[return-value]

    failure = run(chain(Node("lies", lies, text="input")), Text(text="a"))
    assert (failure.type, "yielded str" in failure.message) == ("TypeError", True)


def test_a_property_that_raises_fails_the_node_that_reads_it() -> None:
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


def test_a_cancellation_from_inside_an_agent_is_a_failure() -> None:
    """A caller would take itself for canceled, and a task group would drop it in silence."""

    async def joins(word: str) -> str:
        shared = asyncio.get_running_loop().create_future()
        shared.cancel()
        return str(await shared)

    for words in ("a", "a b"):
        graph = chain(Node("all", joins, word=each("words")))
        failures = run(graph, Text(text=words))
        assert [(one.node, one.type) for one in failures] == [("all", "CancelledError")] * len(
            words.split()
        )


def test_the_input_must_be_of_the_graphs_type() -> None:
    with pytest.raises(GraphError, match="graph 'jury': expects Text as its input, not dict"):
        run(chain(Node("up", upper, text="input")), {"text": "a"})


# what is refused


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
        lambda: chain(Node("n", add, left="length", right=constant("x"))),
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
        lambda: chain(Node("n", half, number=constant(1))),
        "there is no path from the input to 'n'",
    ),
    "no wire": (
        lambda: chain(Node("n", half, number=3)),
        "number=3 is not a wire; for a constant use constant()",
    ),  # type: ignore[arg-type]
    "unannotated": (
        lambda: chain(Node("n", unannotated, text="input")),
        "'n' does not annotate its parameter 'text'",
    ),
    "no result": (lambda: chain(Node("n", resultless, text="input")), "its result has no type"),
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
def test_graphs_that_cannot_run_are_refused_when_built(
    build: Callable[[], Graph], message: str
) -> None:
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
                "sum",
                partial(len_of, extra=1),
                texts="read",
                start="input.length",
                scale=constant(2),
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


T = TypeVar("T")


class State(TypedDict):
    """The usual state of other frameworks; two fields are called like methods of dict."""

    text: str
    items: list[str]
    copy: NotRequired[str]


class Outer(TypedDict, Generic[T]):
    inner: State
    held: T


class Point(NamedTuple):
    text: str
    count: int


@dataclass
class Plain:
    text: str
    inner: State


async def shout(text: str) -> str:
    return text.upper()


async def state_of(text: str) -> State:
    return {"text": text, "items": [text, text]}


STATE: State = {"text": "a", "items": ["a", "b"], "copy": "c"}


@pytest.mark.parametrize(
    ("input_type", "wire", "message", "result"),
    [
        (State, "text", STATE, "A"),
        (State, "input.copy", STATE, "C"),
        (State, each("items"), STATE, ["A", "B"]),
        (Outer[int], "inner.text", {"inner": STATE, "held": 1}, "A"),
        (Outer[int], each("inner.items"), {"inner": STATE, "held": 1}, ["A", "B"]),
        (Plain, "inner.copy", Plain("x", STATE), "C"),
        (State | Point, "text", STATE, "A"),
        (State | Point, "text", Point("p", 1), "P"),
        (Point, "text", Point("p", 1), "P"),
    ],
)
async def test_fields_of_typed_dicts_are_keys(input_type, wire, message, result):
    graph = Graph("g", input=input_type, nodes=[Node("upper", shout, text=wire)], output="upper")
    assert await graph.run(message) == result


async def test_a_node_that_yields_a_typed_dict_passes_its_fields_on():
    nodes = [Node("state", state_of, text="text"), Node("all", shout, text=each("state.items"))]
    graph = Graph("g", input=State, nodes=nodes, output="all")
    assert await graph.run(STATE) == ["A", "A"]


async def test_a_key_that_is_left_out_is_a_failure_with_its_name():
    graph = Graph("g", input=State, nodes=[Node("upper", shout, text="copy")], output="upper")
    failure = await graph.run({"text": "a", "items": []})
    assert isinstance(failure, Failure)
    assert "'copy'" in failure.message


@pytest.mark.parametrize("wire", ["keys", "missing", "text.length", "items", each("text")])
def test_a_wire_to_no_field_of_a_typed_dict_is_refused_when_the_graph_is_built(wire):
    with pytest.raises(GraphError, match=r"node 'upper'|'upper' expects|each\(\) of 'upper'"):
        Graph("g", input=State, nodes=[Node("upper", shout, text=wire)], output="upper")


async def test_an_input_or_a_result_that_is_not_a_dict_is_not_taken_for_a_typed_dict():
    graph = Graph("g", input=State, nodes=[Node("upper", shout, text="text")], output="upper")
    with pytest.raises(GraphError, match="expects State"):
        await graph.run("a")

    async def wrong(text: str) -> State:
        return text  # type: ignore[return-value]

    nodes = [Node("state", wrong, text="text"), Node("upper", shout, text="state.text")]
    failure = await Graph("g", input=State, nodes=nodes, output="upper").run(STATE)
    assert isinstance(failure, Failure)
    assert failure.node == "state"


def test_typed_dicts_fit_by_their_fields():
    class Longer(State):
        more: int

    class Other(TypedDict):
        text: int

    assert fits(Longer, State)
    assert not fits(State, Longer)
    assert not fits(Other, State)
    assert fits(State, dict)
    assert not fits(str, State)


def test_a_list_for_a_single_item_names_each():
    with pytest.raises(GraphError, match=r"each\(\.\.\.\)"):
        Graph("g", input=State, nodes=[Node("upper", shout, text="items")], output="upper")
