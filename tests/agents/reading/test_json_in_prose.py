"""The finder of JSON in answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.agents.reading.joint import parse_joint
from textassay.agents.reading.json_in_prose import JsonObject, find_json
from textassay.agents.reading.lists import parse_listing
from textassay.agents.reading.plan import parse_plan
from textassay.runtime.messages import Aspect

values = st.dictionaries(
    st.text(max_size=5), st.integers() | st.text(max_size=8) | st.none() | st.booleans(), max_size=3
)


@given(
    held=st.lists(values, min_size=1, max_size=3),
    between=st.sampled_from(["", "Here: ", "\n```json\n", " see [1] and {x} ", "\n\n"]),
)
def test_what_was_written_is_found_where_it_stands(held, between):
    text = between + between.join(json.dumps(value) for value in held) + between
    found = [one for one in find_json(text) if isinstance(one.value, dict)]
    assert [one.value for one in found] == held
    assert [json.loads(text[one.start : one.end]) for one in found] == held


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("no JSON", []),
        ("{x} [a] (b)", []),
        ('{"a": {"b": 1}, "c": ', []),
        ('{"a": NaN}', [{"a": None}]),
        ('{"a": 1' + "0" * 5000 + "}", [{"a": 1e299}]),
        ('{"a": "two\nlines"}', [{"a": "two\nlines"}]),
    ],
)
def test_what_cannot_be_read_gives_nothing_and_no_parts(text, values):
    found = [one.value for one in find_json(text)]
    assert found == pytest.approx(values) if not values else found == values


def test_a_key_that_occurs_twice_is_remembered():
    (found,) = find_json('{"a": 1, "b": 2, "a": 3, "b": 2}')
    assert isinstance(found.value, JsonObject)
    assert dict(found.value.contradicted) == {"a": 1}


@pytest.mark.parametrize("unit", ["[", "{", '{"a":', '[{"', "[1,", "{x}", '{"a":1}', "[[1],"])
def test_hostile_text_is_read_in_linear_time(unit):
    assert grows_linearly(lambda text: list(find_json(text)), unit, 2_500)


def test_lists_joint_answers_and_plans_share_it():
    """All three read JSON behind a reference in brackets, in a fence, and one object per line."""
    prose = "As [1] has it:\n```json\n{}\n```\nDone."
    entry = {"name": "Flow", "definition": "It flows."}
    for held in (json.dumps([entry]), json.dumps(entry), json.dumps({"aspects": [entry]})):
        (found,) = parse_listing(prose.replace("{}", held)).entries
        assert tuple(found) == ("Flow", "It flows.")
    aspects = (Aspect(name="flow", definition="d"), Aspect(name="grammar", definition="d"))
    for held in ('{"flow": 4, "grammar": 2}', '{"flow": {"score": 4}}\n{"grammar": "2"}'):
        assert parse_joint(prose.replace("{}", held), aspects).ratings == (4.0, 2.0)
    twice = parse_joint('{"flow": 4, "flow": 5, "grammar": 2}', aspects).ratings
    assert "more than once" in twice[0].message
    assert twice[1] == 2
    plan = {"assistants": {"flow": ["NLI", "bleurt"], "grammar": []}, "steps": ["Read.", "Rate."]}
    found = parse_plan(
        prose.replace("{}", json.dumps(plan)), ("flow", "grammar"), ("nli", "bleurt")
    )
    assert found.assistants == {"flow": ("nli", "bleurt"), "grammar": ()}
    assert found.steps == ("Read.", "Rate.")
    assert found.problems == ()
