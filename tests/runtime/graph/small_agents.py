"""Agents of a line each, for the tests of graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from textassay.runtime.graph.graph import Graph, Node
from textassay.runtime.messages import Failure, Message


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


class LongText(Text):
    """A kind of text."""


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
