"""Typed questions, and the one place where the probabilities that answer them are checked."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from textassay.runtime.questions import (
    DecisionRequest,
    NamedText,
    Question,
    QuestionAnswer,
    SentAnswer,
    Way,
    distribution,
    read_answer,
)

LEVELS = Question.rating("How clear?", {"1": "not at all", "2": "in parts", "3": "clear"})
LABELS = Question.choice("Which?", ["supported", "contradicted", "not stated"])
FINE = Question.yes_no("Is it fine?")


def weights(least: int = 2, most: int = 12) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(0.01, 1), min_size=least, max_size=most)


@given(weights(), st.integers(2, 6))
def test_rounded_probabilities_are_kept_as_they_were_sent(given_, decimals):
    shares = [round(w / math.fsum(given_), decimals) for w in given_]
    names = [f"o{place}" for place in range(len(shares))]
    question = Question.choice("Which?", names)
    answer = read_answer(question, SentAnswer("choice", list(zip(names, shares, strict=True))))
    assert answer.outcome == "scored"
    assert answer.probabilities == dict(zip(names, shares, strict=True))


@given(weights(2, 9), st.floats(0.01, 0.5), st.sampled_from([-1, 1]), st.data())
def test_a_sum_that_rounding_does_not_explain_is_not_an_answer(given_, off, sign, data):
    shares = [w / math.fsum(given_) for w in given_]
    place = data.draw(st.integers(0, len(shares) - 1))
    shares[place] = min(1.0, max(0.0, shares[place] + sign * off))
    names = [f"o{place}" for place in range(len(shares))]
    answer = read_answer(
        Question.choice("Which?", names),
        SentAnswer("choice", list(zip(names, shares, strict=True))),
    )
    if abs(math.fsum(shares) - 1) > 0.005 * len(shares) + 1e-6:
        assert answer.outcome == "invalid"
        assert not answer.probabilities


MANY = Question.choice("Which?", [f"o{place}" for place in range(255)])


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ([0.0] * 255, "rounding took away 1 of the probability"),
        ([0.01] * 30 + [0.0] * 225, "left 0.3"),
        ([0.5, *[0.0] * 254], "left 0.5"),
        ([1.0, 0.5, *[0.0] * 253], "add up to 1.5"),
        ([1.0, 0.03, *[0.0] * 253], "add up to 1.03"),
        ([0.97, *[0.0] * 254], ""),
        ([0.01] * 130 + [0.0] * 125, ""),
        ([0.98, 0.01, 0.01, 0.01, *[0.0] * 251], ""),
    ],
)
def test_many_rounded_probabilities_show_most_of_the_whole(shares, says):
    """Rounding of 255 values to two decimals would explain any sum up to 2.27."""
    pairs = list(zip(MANY.names, shares, strict=True))
    answer = read_answer(MANY, SentAnswer("choice", pairs))
    assert answer.outcome == ("invalid" if says else "scored")
    if answer.problem:
        assert says in answer.problem.message
    else:
        assert math.fsum(answer.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -0.1, 1.2, None, "0.5", True, [0.5]], ids=repr
)
@pytest.mark.parametrize("question", [LEVELS, LABELS], ids=["rating", "choice"])
def test_only_numbers_from_0_to_1_are_probabilities(question, value):
    options = range(3) if question.kind == "rating" else question.names
    pairs = [(option, 0.25) for option in options]
    pairs[1] = (pairs[1][0], value)
    answer = read_answer(question, SentAnswer(question.kind, pairs, score=1.0))
    assert answer.outcome == "invalid"
    assert answer.problem is not None
    assert answer.problem.type == "MalformedProbabilities"


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (SentAnswer("rating", []), "another kind"),
        (SentAnswer("choice", [("supported", 1.0)]), "not of the options asked"),
        (SentAnswer("choice", [(n, 0.25) for n in (*LABELS.names, "other")]), "not of the options"),
        (SentAnswer("choice", [("supported", 0.5)] * 3), "not of the options asked"),
        (
            SentAnswer(
                "choice",
                list(zip(LABELS.names, (0.7, 0.2, 0.1), strict=True)),
                choice="not stated",
            ),
            "sent as the likeliest",
        ),
    ],
)  # fmt: skip
def test_an_answer_to_something_else_says_so(sent, says):
    answer = read_answer(LABELS, sent)
    assert answer.outcome == "invalid"
    assert answer.problem is not None
    assert says in answer.problem.message


@pytest.mark.parametrize(("sent", "kept"), [(1.12, 1.12), (1.15, 1.1), (None, 1.1), ("1", 1.1)])
def test_a_score_stays_as_sent_unless_it_is_not_the_mean(sent, kept):
    """The mean of unrounded probabilities differs by a few hundredths; 1.15 cannot."""
    pairs = [(0, 0.2), (1, 0.5), (2, 0.3)]
    answer = read_answer(LEVELS, SentAnswer("rating", pairs, score=sent))
    assert answer.score == pytest.approx(kept)
    noted = any("not the mean" in note["text"] for note in answer.notes)
    assert noted == (sent != kept)
    assert answer.mean_on((1, 5)) == pytest.approx(1 + 2 * kept)


@pytest.mark.parametrize("sent", [1, 0, 0.75])
def test_the_confidence_of_the_provider_is_noted_also_as_a_whole_number(sent):
    pairs = list(zip(LABELS.names, (1.0, 0.0, 0.0), strict=True))
    answer = read_answer(LABELS, SentAnswer("choice", pairs, confidence=sent))
    assert [note["sent"] for note in answer.notes] == [sent]


@pytest.mark.parametrize(
    ("shares", "sent", "likeliest"),
    [
        ((0.49, 0.02, 0.49), "not stated", "not stated"),
        ((0.49, 0.02, 0.49), "supported", "supported"),
        ((0.49, 0.02, 0.49), None, "supported"),
        ((0.5, 0.02, 0.48), "not stated", "not stated"),  # one was moved to make the sum 1
        ((0.004,) * 250, "another", "0"),
    ],
)
def test_the_option_that_is_sent_as_the_likeliest_decides_where_rounding_hides_it(
    shares, sent, likeliest
):
    few = len(shares) == len(LABELS.names)
    question = LABELS if few else Question.choice("Which?", [*map(str, range(len(shares)))])
    pairs = list(zip(question.names, shares, strict=True))
    answer = read_answer(question, SentAnswer("choice", pairs, choice=sent))
    assert answer.likeliest == likeliest


def test_probabilities_give_score_spread_and_likeliest_option():
    rated = distribution(LEVELS, {"1": 0.25, "2": 0.5, "3": 0.25})
    assert (rated.score, rated.spread) == (1.0, pytest.approx(math.sqrt(0.5)))
    fine = distribution(FINE, {"yes": 0.8, "no": 0.2})
    assert (fine.p_yes, fine.likeliest, fine.spread) == (0.8, "yes", pytest.approx(0.4))
    assert distribution(LABELS, {"supported": 1.0}).outcome == "invalid"


def test_questions_that_no_model_could_answer_are_refused():
    with pytest.raises(ValidationError, match="different names"):
        Question.choice("Which?", ["a", "a"])
    with pytest.raises(ValidationError, match="at least 2"):
        Question.rating("How clear?", ["1"])
    with pytest.raises(ValidationError, match="yes and no"):
        Question(kind="yes_no", text="Fine?", options=LABELS.options)
    text = NamedText(name="text", text="It rained.")
    with pytest.raises(ValidationError, match="different names"):
        DecisionRequest(texts=(text, text), questions=(FINE,))


def test_a_way_is_what_signatures_say():
    assert Way(how="decision").facts == "how:decision"
    sampled = Way(how="sampled", samples=20, joint=True, words="12ab34")
    assert sampled.facts == "how:sampled|n:20|temp:1|joint|words:12ab34"


def test_answers_are_messages_that_json_gives_back():
    answer = distribution(LEVELS, {"1": 0.25, "2": 0.5, "3": 0.25})
    assert QuestionAnswer.model_validate_json(answer.model_dump_json()) == answer
