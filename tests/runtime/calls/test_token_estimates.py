"""The estimate of tokens against counts of a real tokenizer (cl100k_base), recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime.calls.usage import estimate_tokens

PROSE = (
    "The council met on Tuesday evening to discuss the new bridge, which is expected to cost about "
    "twelve million "
    "pounds and to take three years to build. Several residents objected, saying that the old "
    "crossing could be "
    "repaired for a fraction of the price; others welcomed the plan because it would shorten the "
    "way to the hospital."
)


def test_english_prose_is_within_a_tenth():
    """62 tokens by cl100k_base."""
    assert estimate_tokens(PROSE) == pytest.approx(62, rel=0.1)


@given(st.text())
def test_any_text_has_at_least_one_token_and_no_more_than_its_bytes(text):
    """Odd characters, lone surrogates among them, do no harm."""
    assert 1 <= estimate_tokens(text) <= max(2, 2 * len(text.encode("utf-8", "surrogatepass")))


@given(st.text(), st.text())
def test_more_text_has_no_fewer_tokens(first, second):
    """Adding a line never lowers the estimate."""
    assert estimate_tokens(f"{first}\n{second}") >= estimate_tokens(first)
