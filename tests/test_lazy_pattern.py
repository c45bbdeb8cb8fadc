"""What is made on first use behaves as if it had been there from the start."""

from __future__ import annotations

import re

import pytest

from textassay.lazy import lazy_pattern
from textassay.runtime.settings import DescribedMessage


class Described(DescribedMessage):
    """Two fields with a docstring and one without."""

    first: int = 1
    """One line."""
    second: str = ""
    """Two lines
    of text."""
    third: float = 0.0

    class Inner(DescribedMessage):
        """A class of the same field name."""

        first: int = 2
        """Another line."""


class Heir(Described):
    """Inherits what it does not describe itself."""

    third: float = 0.0
    """Described here."""


def test_a_lazy_pattern_is_compiled_on_first_use() -> None:
    pattern = lazy_pattern(r"(?P<number>\d+)", re.IGNORECASE)
    assert pattern.sub("#", "a 1 b 22") == "a # b #"
    assert pattern.search is pattern.search
    assert [match["number"] for match in pattern.finditer("1 22")] == ["1", "22"]
    assert (pattern.pattern, pattern.groups) == (r"(?P<number>\d+)", 1)
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("")


def test_fields_are_described_by_the_docstrings_below_them() -> None:
    shown = {name: field.description for name, field in Heir.model_fields.items()}
    assert shown == {
        "first": "One line.",
        "second": "Two lines\nof text.",
        "third": "Described here.",
    }
    assert Described.model_fields["third"].description is None
    assert Described.Inner.model_fields["first"].description == "Another line."
