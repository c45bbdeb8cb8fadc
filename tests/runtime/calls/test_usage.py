"""Estimates of tokens, against counts of a real tokenizer, and what forecasts learn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime.calls.usage import TokenForecast, estimate_tokens
from textassay.runtime.messages import Usage
from textassay.runtime.model import ChoicesRequest, ContinuationRequest, Request, Response, Sample


def answer(completion_tokens: int) -> Response:
    return Response(
        samples=(Sample(text="x"),), usage=Usage(calls=1, completion_tokens=completion_tokens)
    )


def test_a_request_that_says_how_long_is_believed() -> None:
    """`n` samples of `max_tokens`, whatever was seen before."""
    forecast = TokenForecast()
    forecast.learn(Request(prompt="p"), answer(10))
    assert forecast.completion(Request(prompt="p", n=20, max_tokens=50)) == 1000


def test_a_request_that_does_not_say_gets_the_default_and_then_the_mean_with_headroom() -> None:
    """256 a sample, then 1.2 times the mean of a sample."""
    forecast, request = TokenForecast(), Request(prompt="p", n=2)
    assert forecast.completion(request) == 512
    forecast.learn(request, answer(200))
    forecast.learn(Request(prompt="p"), answer(300))
    assert forecast.completion(request) == pytest.approx(2 * 200 * 1.2)


def test_answers_that_teach_nothing_are_passed_over() -> None:
    """No token count, or a length that was set."""
    forecast = TokenForecast()
    forecast.learn(Request(prompt="p"), answer(0))
    forecast.learn(Request(prompt="p", max_tokens=5), answer(5))
    assert forecast.completion(Request(prompt="p")) == 256


def test_scoring_given_text_counts_what_is_sent() -> None:
    """Prompt and continuation; one token is sampled at most."""
    forecast = TokenForecast()
    long = ContinuationRequest(prompt="one two three", continuation=" four five six seven")
    assert forecast.prompt(long) == estimate_tokens("one two three") + estimate_tokens(
        " four five six seven"
    )
    assert forecast.completion(long) == 1
    assert forecast.completion(ChoicesRequest(prompt="p", choices={"yes": ("yes",)})) == 1


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
