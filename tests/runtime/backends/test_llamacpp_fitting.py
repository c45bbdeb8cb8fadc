"""How a source is cut: the longest beginning that fits, found with few tokenizations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime.backends.local.model import fit_to_context
from textassay.runtime.errors import ContextTooLong
from textassay.runtime.model import ContinuationRequest

WORDS = st.text(st.sampled_from("ab\n") | st.characters(codec="utf-8"), min_size=1, max_size=50)


def asked(source: str) -> ContinuationRequest:
    return ContinuationRequest(prompt=f"«{source}»", continuation="x", truncatable=source)


def beginnings(source: str) -> list[str]:
    """What may be kept: what ends with a word, or in one that is longer than 40."""
    ends = [place for place in range(1, len(source)) if source[place].isspace()]
    inside = [p for p in range(len(source)) if not any(p - 40 <= end <= p for end in ends)]
    return [source[:place] for place in [*ends, *inside]]


@given(
    st.lists(WORDS, min_size=1, max_size=30).map(" ".join), st.integers(2, 200), st.integers(1, 9)
)
def test_the_longest_beginning_that_fits_is_kept(source, limit, dear):
    """Whatever characters weigh, so also where a guess from their mean is far off."""

    def length(text: str) -> int:
        return sum(dear if character in "a " else 1 for character in text)

    request = asked(source)
    tried: list[str] = []

    def plan(cut: ContinuationRequest) -> str:
        tried.append(cut.prompt)
        return cut.prompt

    if length(request.prompt) <= limit:
        assert fit_to_context(request, plan, length, limit=limit, truncate="source", name="m") == (
            request.prompt,
            0,
        )
        return
    fitting = [f"«{kept}»" for kept in beginnings(source) if length(f"«{kept}»") <= limit]
    if not fitting:
        with pytest.raises(ContextTooLong, match="even without the source"):
            fit_to_context(request, plan, length, limit=limit, truncate="source", name="m")
        return
    found, left_out = fit_to_context(
        request, plan, length, limit=limit, truncate="source", name="m"
    )
    assert found == max(fitting, key=len)
    assert left_out == length(request.prompt) - length(found)
    assert len(tried) == len(set(tried))


def test_prose_is_cut_with_few_tokenizations():
    """A bisection over the characters would take 13."""
    source = " ".join(f"{'word' * (1 + number % 3)}{number}" for number in range(800))
    tried: list[str] = []

    def plan(cut: ContinuationRequest) -> str:
        tried.append(cut.prompt)
        return cut.prompt

    def length(text: str) -> int:
        return len(text.split()) + len(text) // 9

    found, _ = fit_to_context(asked(source), plan, length, limit=700, truncate="source", name="m")
    assert 695 < length(found) <= 700
    assert len(tried) <= 7
