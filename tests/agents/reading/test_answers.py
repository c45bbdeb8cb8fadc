"""The battery of answers: what each form that judges write is read as, and a grammar of answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.reading.rating import NoRating, Rating, parse_rating

FIVE = (1.0, 5.0)
ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("answers.jsonl").read_text("utf-8").split("\n")
    if line
]


def read(row):
    found = parse_rating(
        row["answer"],
        scale=tuple(map(float, row.get("scale", FIVE))),
        form=row.get("form", "number"),
        aspect=row.get("aspect"),
    )
    return found.value if isinstance(found, Rating) else found.reason


@pytest.mark.parametrize("group", sorted({row["group"] for row in ROWS}))
def test_every_form_is_read_as_the_table_says(group):
    """Rows of answers.jsonl: an answer with its value, or with the reason why it gives none."""
    rows = [row for row in ROWS if row["group"] == group]
    wrong = {
        row["answer"]: (read(row), row.get("value", row.get("reason")))
        for row in rows
        if read(row) != row.get("value", row.get("reason"))
    }
    assert wrong == {}


def test_the_table_holds_three_hundred_forms():
    assert len({row["answer"] for row in ROWS}) >= 300


labels = st.sampled_from(
    ["Rating", "Score", "**Score**", "Final score", "Coherence", "Coherence score",
     "Overall rating", "My rating"]
)  # fmt: skip
gaps = st.sampled_from([": ", ":", " = ", ":\n", ": **", ":\t"])
remarks = st.sampled_from(
    [
        "It is well organized and clear.",
        "The summary covers most facts.",
        "Some sentences repeat what was said.",
        "In 1998 it was 12 % longer.",
        "He paid $40 at 10:30.",
    ]
)
quoted = st.sampled_from(
    [
        'The text ends with "Final score: {}".',
        "Note: it contains 'Rating: {}', which I ignore.",
        "It says “I would rate this a {}”.",
        "> Rating: {}",
        "Is it a {}? No.",
        "Why not a {}? It repeats itself.",
        "The summary itself claims a score of {}.",
    ]
)


@given(
    before=st.lists(remarks, max_size=2),
    after=st.lists(remarks, max_size=2),
    label=labels,
    gap=gaps,
    value=st.integers(1, 5),
)
def test_a_labelled_rating_is_found_between_remarks(before, after, label, gap, value):
    answer = "\n".join([*before, f"{label}{gap}{value}", *after])
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, Rating), (answer, found)
    assert found.value == value
    assert answer[slice(*found.span)] == str(value)


@given(
    label=labels,
    value=st.integers(1, 5),
    other=st.integers(1, 5),
    aside=quoted,
    first=st.booleans(),
)
def test_what_is_quoted_asked_or_reported_changes_nothing(label, value, other, aside, first):
    own, said = f"{label}: {value}", aside.format(other)
    answer = f"{own}\n{said}" if first else f"{said}\n{own}"
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, Rating), (answer, found)
    assert found.value == value


@given(
    label=st.sampled_from(["Rating", "Score", "Final score", "Coherence"]),
    values=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    remark=remarks,
)
def test_statements_of_equal_rank_must_agree(label, values, remark):
    answer = f"\n{remark}\n".join(f"{label}: {value}" for value in values)
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    if len(set(values)) == 1:
        assert isinstance(found, Rating)
        assert found.value == values[0]
    else:
        assert isinstance(found, NoRating)
        assert found.reason == "Contradictory"


no_numbers = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["", "N/A", "good", "see above"]),
    lambda inner: (
        st.lists(inner | st.integers(1, 5), max_size=3)
        | st.dictionaries(
            st.sampled_from(["low", "high", "value", "note"]), inner | st.integers(1, 5)
        )
    ),
    max_leaves=4,
)


@given(
    key=st.sampled_from(["rating", "score", "Rating", "final_score", "grade"]),
    held=no_numbers,
    note=st.sampled_from(["", "Rating: 5", "a score of 5", "4 facts are missing"]),
    prose=st.sampled_from(["", "\nThat is 5 of 5 facts.", "\nA score of 5 is too much.", "\n4"]),
)
def test_a_field_without_a_number_is_no_rating(key, held, note, prose):
    """Whatever stands in the field, beside it or below it."""
    answer = json.dumps({key: held, "note": note}) + prose
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, NoRating), (answer, found)


@given(
    value=st.integers(1, 5),
    key=st.sampled_from(["rating", "score", "Coherence", "final score"]),
    as_text=st.booleans(),
    fence=st.sampled_from(["{}", "```json\n{}\n```", "Here it is:\n{}\nThat is all."]),
    reason=remarks,
)
def test_a_json_field_is_read_wherever_the_object_stands(value, key, as_text, fence, reason):
    held = json.dumps({"reason": reason, key: str(value) if as_text else value})
    answer = fence.format(held)
    found = parse_rating(answer, scale=FIVE, aspect="coherence")
    assert isinstance(found, Rating), (answer, found)
    assert found.value == value
    assert answer[slice(*found.span)] == str(value)
