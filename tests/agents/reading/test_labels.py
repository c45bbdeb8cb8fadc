"""The expected rating under token probabilities, on distributions that can be checked by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.answer_form import points_of
from textassay.agents.reading.labels import Expectation, NoExpectation, expected_rating
from textassay.runtime.model import Sample, TokenLogprob

FIVE = points_of((1, 5), "number")


def at(text, top):
    pairs = tuple((alternative, math.log(p)) for alternative, p in top.items())
    return TokenLogprob(token=text, logprob=math.log(top.get(text, 1.0)), top=pairs)


def sample(*tokens):
    return Sample(text="".join(t.token for t in tokens), logprobs=tokens)


def test_the_mean_over_labels_is_renormalised_and_keeps_its_mass():
    found = expected_rating(sample(at("4", {"4": 0.6, "5": 0.2, "I": 0.2})), 0, FIVE)
    assert isinstance(found, Expectation)
    assert found.value == pytest.approx((4 * 0.6 + 5 * 0.2) / 0.8)
    assert found.mass == pytest.approx(0.8)
    assert found.probabilities == {"1": 0, "2": 0, "3": 0, "4": 0.75, "5": 0.25}


def test_spellings_of_a_label_are_one_label():
    found = expected_rating(sample(at(" 4", {" 4": 0.4, "4": 0.2, "4\n": 0.1, "▁2": 0.3})), 1, FIVE)
    assert isinstance(found, Expectation)
    assert found.value == pytest.approx(0.7 * 4 + 0.3 * 2)


def test_the_place_of_the_rating_counts_and_not_the_first_number():
    tokens = [
        at("Step ", {}),
        at("1", {"1": 1.0}),
        at(": Score:", {}),
        at(" ", {}),
        at("3", {"3": 0.5, "4": 0.5}),
    ]
    answer = sample(*tokens)
    found = expected_rating(answer, answer.text.rindex("3"), FIVE)
    assert isinstance(found, Expectation)
    assert found.value == pytest.approx(3.5)


def test_a_sampled_label_that_is_not_among_the_alternatives_counts_once():
    found = expected_rating(
        Sample(text="2", logprobs=(TokenLogprob(token="2", logprob=math.log(0.5)),)), 0, FIVE
    )
    assert isinstance(found, Expectation)
    assert (found.value, found.mass) == (2, pytest.approx(0.5))


def test_letters_are_labels_too():
    found = expected_rating(sample(at("B", {"B": 0.5, " C": 0.5})), 0, points_of((1, 5), "letters"))
    assert isinstance(found, Expectation)
    assert found.value == pytest.approx(2.5)


def test_too_little_mass_is_no_rating():
    found = expected_rating(sample(at("4", {"4": 0.05, "The": 0.9})), 0, FIVE)
    assert isinstance(found, NoExpectation)
    assert found.reason == "NoLabelMass"


def test_tokens_that_do_not_make_up_the_text_are_no_rating():
    found = expected_rating(
        Sample(text="4", logprobs=(TokenLogprob(token="�", logprob=0.0),)), 0, FIVE
    )
    assert isinstance(found, NoExpectation)
    assert found.reason == "NoScorePosition"


TEN = points_of((1, 10), "number")


def test_ten_as_one_token_is_a_label():
    found = expected_rating(sample(at("10", {"10": 0.5, "1": 0.5})), 0, TEN)
    assert isinstance(found, Expectation)
    assert found.value == pytest.approx(5.5)


def test_ten_in_two_tokens_is_told_from_one_where_the_answer_goes_that_way():
    found = expected_rating(
        sample(at("1", {"1": 0.8, "9": 0.2}), at("0", {"0": 0.75, "": 0.25})), 0, TEN
    )
    assert isinstance(found, Expectation)
    assert found.value == pytest.approx(10 * 0.6 + 1 * 0.2 + 9 * 0.2)


def test_ten_in_two_tokens_is_refused_where_it_cannot_be_told():
    found = expected_rating(sample(at("9", {"1": 0.4, "9": 0.6})), 0, TEN)
    assert isinstance(found, NoExpectation)
    assert found.reason == "AmbiguousLabels"
    assert "n=20" in found.message


@given(st.lists(st.floats(0.001, 1.0), min_size=5, max_size=5))
def test_any_distribution_gives_a_rating_on_the_scale(weights):
    total = sum(weights)
    shares = {str(i): weight / total for i, weight in enumerate(weights, start=1)}
    found = expected_rating(sample(at("3", shares)), 0, FIVE)
    assert isinstance(found, Expectation)
    assert 1 <= found.value <= 5
    assert found.value == pytest.approx(math.fsum(int(k) * p for k, p in shares.items()))


@pytest.mark.parametrize("logprob", [0.5, 800.0, math.nan, math.inf])
def test_a_log_probability_above_zero_is_malformed(logprob):
    """Of an alternative; the message type itself refuses one of a sampled token."""
    token = TokenLogprob.model_construct(token="4", logprob=-0.1, top=(("4", -0.1), ("5", logprob)))
    found = expected_rating(Sample.model_construct(text="4", logprobs=(token,)), 0, FIVE)
    assert isinstance(found, NoExpectation)
    assert found.reason == "MalformedLogprobs"


def test_labels_above_one_together_are_malformed():
    top = (("4", -0.1), ("5", -0.1))
    token = TokenLogprob(token="4", logprob=-0.1, top=top)
    found = expected_rating(Sample(text="4", logprobs=(token,)), 0, FIVE)
    assert isinstance(found, NoExpectation)
    assert "above 1" in found.message
