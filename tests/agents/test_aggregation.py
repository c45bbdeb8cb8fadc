"""The average: exact, on the fused aspect's scale, and never over what is missing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.aggregation import Average
from textassay.runtime.base import ScoreError, Usage
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, Example, Failure, Score

EXAMPLE = Example(id="x", output="A text.")
TARGET = Aspect(name="coherence", definition="d")


def part(value, scale=(1.0, 5.0), name="p"):
    return Score(id="x", aspect=name, value=value, scale=scale, usage=Usage(calls=1))


def missing(outcome="invalid", kind="NoScoreFound"):
    error = ScoreError(type=kind, message="none")
    return Score(id="x", aspect="gap", outcome=outcome, scale=(1.0, 5.0), error=error)


async def test_the_mean_of_the_parts_with_the_parts_as_evidence():
    score = await Average(signature="s")(EXAMPLE, TARGET, [part(2.0), part(5.0, name="q")])
    assert (score.value, score.how, score.outcome, score.signature) == (3.5, "fused", "scored", "s")
    assert (score.aspect, score.scale, score.usage.calls) == ("coherence", (1, 5), 2)
    assert [(item["text"], item["value"]) for item in score.evidence] == [("p", 2), ("q", 5)]


async def test_parts_on_other_scales_are_mapped_to_the_targets():
    score = await Average()(
        EXAMPLE, TARGET, [part(1.0, (0.0, 1.0)), part(2.0, (1.0, 3.0)), part(1.0)]
    )
    assert score.value == pytest.approx((5 + 3 + 1) / 3)


async def test_a_missing_part_is_left_out_and_reported():
    score = await Average()(EXAMPLE, TARGET, [part(2.0), missing(), part(4.0)])
    assert score.value == 3
    assert score.evidence[1] == {
        "text": "gap", "value": None, "outcome": "invalid", "scale": [1, 5],
        "problem": "NoScoreFound: none",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gaps", "outcome", "kind"),
    [
        ([missing()] * 2, "invalid", "NoScoreFound"),
        ([missing("abstained", "EmptyOutput")] * 2, "abstained", "EmptyOutput"),
        ([missing("abstained", "Declined"), missing()], "invalid", "PartsMissing"),
    ],
)
async def test_where_too_many_parts_are_missing_there_is_no_mean(gaps, outcome, kind):
    score = await Average()(EXAMPLE, TARGET, [part(2.0), *gaps])
    assert (score.value, score.outcome, score.error.type) == (None, outcome, kind)
    assert "2 of 3" in score.error.message


@pytest.mark.parametrize(
    "broken", [Failure(node="judge", type="TimedOut", message="slow"), missing("error", "TimedOut")]
)
async def test_a_part_that_could_not_be_asked_for_makes_an_error_that_a_resume_asks_again(broken):
    score = await Average()(EXAMPLE, TARGET, [part(2.0), part(3.0), broken])
    assert (score.outcome, score.error.type) == ("error", "TimedOut")
    assert score.usage.calls == 2


async def test_parts_that_cannot_be_averaged_are_refused():
    with pytest.raises(ConfigurationError, match="nothing to average"):
        await Average()(EXAMPLE, TARGET, [])
    with pytest.raises(ConfigurationError, match="has no scale"):
        await Average()(EXAMPLE, TARGET, [part(-3.0, None)])
    with pytest.raises(ConfigurationError, match="share"):
        Average(required=0)


@given(st.lists(st.floats(1, 5), min_size=1, max_size=30))
async def test_the_mean_never_leaves_the_range_of_its_parts(values):
    score = await Average()(EXAMPLE, TARGET, [part(value) for value in values])
    assert min(values) <= score.value <= max(values)
    assert score.value == pytest.approx(math.fsum(values) / len(values))
