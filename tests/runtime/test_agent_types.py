"""Which types fit each other, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar

import pytest

from textassay.runtime.agent_types import fits, type_name
from textassay.runtime.base import Message
from textassay.runtime.messages import Failure, Score


class Text(Message):
    text: str


class LongText(Text):
    """A kind of text."""


async def count(text: Text) -> int:
    return len(text.text)


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
