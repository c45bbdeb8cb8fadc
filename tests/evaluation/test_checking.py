"""Faulty scores of a user's agents: the run continues and can be resumed."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from textassay import evaluate
from textassay.evaluation.engine import validate_score
from textassay.evaluation.run import Run
from textassay.runtime.base import ScoreError, Usage
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import Aspect, Assignment, Example, Failure, Score
from textassay.runtime.storage.run_files import parse_score, score_row

WIT = Aspect(name="wit", definition="How funny the text is.")
SCORED = Score(id="x", aspect="wit", value=3.0, scale=(1, 5))
UNSCORED = Score.unscored("NoScoreFound", "no number", id="x", aspect="wit", scale=(1, 5))


def usage(**update):
    """A usage that was changed after it was checked."""
    return Usage().model_copy(update=update)


def error(**update):
    """Why there is no value, changed after it was checked."""
    return ScoreError(type="NoScoreFound", message="no number").model_copy(update=update)


DEEP: Any = functools.reduce(lambda deep, _: [deep], range(5000), [])
UNWRITABLE = "the score cannot be written as JSON: "
UNSOUND = [
    # what is changed in which score, and how the reason begins
    (SCORED, {"value": math.nan}, "value: "),
    (SCORED, {"value": 99.0}, "score: value 99.0 is off its scale 1 to 5"),
    (SCORED, {"value": None}, "score: a score is 'scored' exactly when it has a value"),
    (SCORED, {"value": "3"}, "value: "),
    (SCORED, {"value": 10**400, "scale": None}, "value: "),
    (SCORED, {"spread": -1.0}, "spread: "),
    (SCORED, {"usage": Usage().model_copy(update={"calls": -1})}, "usage.calls: "),
    (SCORED, {"evidence": ({"parts": {1, 2}},)}, f"{UNWRITABLE}contains set"),
    (SCORED, {"evidence": ({"when": object()},)}, f"{UNWRITABLE}contains object"),
    (SCORED, {"evidence": ({"deep": DEEP},)}, f"{UNWRITABLE}nested too deeply"),
    (SCORED, {"samples": 2.5}, "samples: "),
    (SCORED, {"samples": 2**64}, "samples: "),
    (SCORED, {"samples": "many"}, "samples: "),
    (SCORED, {"how": "judge"}, "how: "),
    (SCORED, {"how": None}, "how: "),
    (SCORED, {"scale": (1, 5, 9)}, "scale: "),
    (SCORED, {"scale": (1.0,)}, "scale.1: "),
    (SCORED, {"scale": (1.0, math.inf)}, "scale.1: "),
    (SCORED, {"scale": (True, 5.0)}, "scale.0: "),
    (UNSCORED, {"scale": (5.0, 1.0)}, "score: the scale must be ascending"),
    (UNSCORED, {"scale": (-1e308, 1e308)}, "score: the scale is wider than numbers can express"),
    (UNSCORED, {"scale": ("a", "b")}, "scale.0: "),
    (UNSCORED, {"scale": ()}, "scale.0: "),
    (UNSCORED, {"outcome": "bogus"}, "outcome: "),
    (UNSCORED, {"outcome": ["error"]}, "outcome: "),
    (UNSCORED, {"error": error(message=7)}, "error.message: "),
    (UNSCORED, {"error": error(type="")}, "error.type: "),
    (SCORED, {"low": "x", "outside": False}, "low: "),
    (SCORED, {"outside": "perhaps"}, "outside: "),
    (SCORED, {"evidence": "because"}, "evidence: "),
    (SCORED, {"evidence": {"text": "because"}}, "evidence: "),
    (SCORED, {"evidence": ("because",)}, "evidence.0: "),
    (SCORED, {"usage": usage(calls=1.5)}, "usage.calls: "),
    (SCORED, {"usage": usage(calls=2**70)}, "usage.calls: "),
    (SCORED, {"usage": usage(prompt_tokens=0.5)}, "usage.prompt_tokens: "),
    (SCORED, {"usage": None}, "usage: "),
    (SCORED, {"usage": object()}, "usage: "),
]
SOUND = [
    # what an agent gives, and what is kept of it
    ({"samples": np.int64(3)}, {"samples": 3}),
    ({"samples": "3"}, {"samples": 3}),
    ({"usage": usage(calls=np.int64(1))}, {"usage": Usage(calls=1)}),
    ({"usage": usage(calls="1", cost=np.float64(2))}, {"usage": Usage(calls=1, cost=2.0)}),
    ({"scale": (np.int64(1), np.float64(5))}, {"scale": (1.0, 5.0)}),
    ({"scale": [1, 5]}, {"scale": (1.0, 5.0)}),
    ({"scale": None, "value": 2**53 + 1}, {"value": 2.0**53}),
    ({"evidence": [{"text": "because"}]}, {"evidence": ({"text": "because"},)}),
    ({"value": np.float32(2.5), "spread": np.float64(0.5)}, {"value": 2.5, "spread": 0.5}),
    (
        {"evidence": ({"text": "a", "all": np.array([1.0, 2.0]), "n": [np.int32(3)]},)},
        {"evidence": ({"text": "a", "all": [1.0, 2.0], "n": [3]},)},
    ),
    ({"calibrated": 2.0, "low": 1.0, "high": 4.0, "outside": False}, {"calibrated": 2.0}),
]


async def judged(scores, folder):
    """Judge one example per score and resume at once; return the scores that are kept."""

    async def agent(example: Example, aspect: Aspect) -> Score:
        return scores[int(example.id)].model_copy(update={"id": example.id})

    node = Node("scores", agent, example="input.example", aspect=each("input.aspects"))
    method = Graph("own", input=Assignment, nodes=[node], output="scores")
    rows = [{"id": str(number), "output": "a text"} for number in range(len(scores))]
    run = await evaluate(rows, method=method, aspects=[WIT], out=folder)
    read = sorted(Run(folder=folder), key=lambda score: int(score.id))
    assert read == sorted(run, key=lambda score: int(score.id))
    # what is an error is asked for again
    again = await evaluate(rows, method=method, aspects=[WIT], out=folder, resume=True)
    assert read == sorted(again, key=lambda score: int(score.id))
    return read


async def test_what_could_not_be_read_again_is_an_error_that_names_the_field(tmp_path):
    kept = await judged([score.model_copy(update=u) for score, u, _ in UNSOUND], tmp_path / "run")
    assert {(score.outcome, score.error.type) for score in kept} == {("error", "InvalidScore")}
    for score, (_, update, reason) in zip(kept, UNSOUND, strict=True):
        assert score.error.message.startswith(f"scores: {reason}"), update


async def test_what_reads_as_a_score_is_kept_as_it_reads(tmp_path):
    kept = await judged([SCORED.model_copy(update=given) for given, _ in SOUND], tmp_path / "run")
    for score, (_, expected) in zip(kept, SOUND, strict=True):
        assert score.outcome == "scored"
        assert {name: getattr(score, name) for name in expected} == expected
    assert type(kept[0].samples) is int


@pytest.mark.parametrize("update", [{"id": "another"}, {"aspect": "another"}])
def test_a_score_of_something_else_is_refused(update):
    """It would overwrite that score on resuming and in reports."""
    found = validate_score(SCORED.model_copy(update=update), "x", "wit")
    assert isinstance(found, Failure)
    assert found.type == "WrongExample"


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**400, np.int64(2), np.float32(2.5)]),
    st.floats(),
    st.text(st.characters(), max_size=3),
    st.sampled_from(["scored", "error", "text", "tool"]),
    st.tuples(st.floats(), st.floats()),
    st.lists(st.integers(0, 6), max_size=3),
    st.lists(st.dictionaries(st.text(max_size=2), st.integers() | st.floats()), max_size=2),
    st.just(object()),
)
MESSAGES = {
    "usage": st.builds(usage, **dict.fromkeys(["calls", "cost"], JUNK)),
    "error": st.builds(error, **dict.fromkeys(["type", "message"], JUNK)),
}
# the run itself sets when it was made
FIELDS = sorted(Score.model_fields.keys() - {"id", "aspect", "started", "seconds"})


@given(st.sampled_from([SCORED, UNSCORED]), st.data())
@settings(max_examples=200)
def test_every_score_is_either_refused_or_reads_as_it_is(score, data):
    names = data.draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=2, unique=True))
    update = {name: data.draw(MESSAGES.get(name, JUNK) | JUNK, name) for name in names}
    kept = validate_score(score.model_copy(update=update), "x", "wit")
    if isinstance(kept, Failure):
        assert (kept.type, kept.message != "") == ("InvalidScore", True)
    else:
        assert parse_score(Path("scores.jsonl"), 1, score_row(kept)) == kept
