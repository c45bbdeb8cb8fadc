"""Several ratings out of one answer, by name: what is left out stays out, and nobody gets a
neighbour's rating."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.agents.reading.joint import parse_joint
from textassay.agents.reading.rating import NoRating
from textassay.runtime.messages import Aspect

NAMES = ("Relevance", "Logical flow", "Tone (voice)")
ASPECTS = tuple(Aspect(name=name, definition="d") for name in NAMES)


def read(answer, form="number"):
    found = parse_joint(answer, ASPECTS, form)
    return [None if isinstance(item, NoRating) else item for item in found.ratings]


@pytest.mark.parametrize(
    "answer",
    [
        "Relevance: 4\nLogical flow: 3\nTone (voice): 5",
        "Tone (voice): 5\nLogical flow: 3\nRelevance: 4",
        "1. Relevance (1-5): 4/5\n2. **Logical Flow**: 3\n3. Tone: 5",
        "Relevance: 4 Explanation: 2 slips.\nLogical flow score: 3 out of 5\nTone: **5**",
        "### Relevance\nScore: 4\nReason: 3 topics: all good.\n\n### Logical flow\nRating: 3\n"
        "### Tone\n**5**",
        "Relevance\nScore: 4 Explanation: 3 topics.\n\nLogical flow\nScore: 3 Explanation: So so."
        "\n\nTone\nScore: 5 Explanation: Fine.\n\nThat is all.",
        "| Aspect | Score |\n|---|---|\n| Relevance | 4 |\n| Logical flow   | 3 |\n"
        "| Tone (voice) | 5 |",
        '{"relevance": 4, "logical_flow": {"reason": "not 5", "score": 3}, "tone_voice": "5"}',
        '```json\n{"Relevance": 4, "Logical flow": "3/5", "Tone (voice)": 5}\n```',
    ],
)
def test_the_usual_shapes_are_read_by_name(answer):
    assert read(answer) == [4, 3, 5]
    assert parse_joint(answer, ASPECTS).invented == ()


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("letters", "Relevance: D\nLogical flow: C.\nTone (voice): (E)"),
        ("stars", "Relevance: 4 stars\nLogical flow: ★★★\nTone (voice): 5"),
    ],
)
def test_letters_and_stars(form, answer):
    assert read(answer, form) == [4, 3, 5]


@pytest.mark.parametrize("left_out", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_what_is_left_out_has_no_rating_and_shifts_nothing(left_out):
    lines = [f"{i + 1}. {name}: {i + 2}" for i, name in enumerate(NAMES) if i not in left_out]
    assert read("\n".join(lines)) == [None if i in left_out else i + 2 for i in range(3)]


def test_an_aspect_that_nobody_asked_for_is_reported_and_given_to_no_other():
    found = parse_joint("Relevance: good\nHumour: 3\nLogical flow: 2\nOverall: 5", ASPECTS)
    assert isinstance(found.ratings[0], NoRating)
    assert found.ratings[1] == 2
    assert [item["text"] for item in found.invented] == ["Humour: 3", "Overall: 5"]


@pytest.mark.parametrize(
    "beside",
    ["4 - 2 slips", "3-4", "good (4)", "at least 4", "4/10", "4, not 5", "3 errors", ">4", "4?"],
)
def test_what_is_no_clear_rating_beside_a_name_is_none(beside):
    assert read(f"Relevance: {beside}\nLogical flow: 3\nTone: 5") == [None, 3, 5]
    assert read(f'{{"relevance": "{beside}", "logical_flow": 3, "tone_voice": 5}}') == [None, 3, 5]


def test_bare_numbers_are_nobodys():
    assert read("4\n3\n5") == [None] * 3
    assert read("[4, 3, 5]") == [None] * 3


def test_an_aspect_rated_twice_counts_only_where_both_agree():
    assert read("Relevance: 4\nLogical flow: 3\nRelevance: 4") == [4, 3, None]
    found = parse_joint("Relevance: 4\nRelevance: 2", ASPECTS)
    assert "more than once, as 2 and 4" in found.ratings[0].message


def test_a_rating_off_its_scale_is_none():
    aspects = (ASPECTS[0], ASPECTS[1].model_copy(update={"scale": (0.0, 1.0)}))
    found = parse_joint("Relevance: 9\nLogical flow: 1", aspects)
    assert found.ratings[0].reason == "OffScale"
    assert found.ratings[1] == 1


def test_a_block_with_a_title_that_nobody_asked_for_is_no_rating_of_the_aspect_before_it():
    said = (
        "Relevance\n(cannot tell)\n\n**Charm**\nScore: 5 Explanation: Lovely.\n\nLogical flow\n"
        "Score: 2"
    )
    found = parse_joint(said, ASPECTS)
    by_name = {aspect.name: rating for aspect, rating in zip(ASPECTS, found.ratings, strict=True)}
    assert isinstance(by_name["Relevance"], NoRating)
    assert by_name["Logical flow"] == 2
    assert [note["text"] for note in found.invented] == ["Charm: Score: 5 Explanation: Lovely."]


def test_a_judge_that_declines_has_declined_for_all():
    found = parse_joint("I'm sorry, I cannot rate this.", ASPECTS)
    assert {item.reason for item in found.ratings} == {"Declined"}


@given(st.permutations(range(3)), st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_the_order_of_the_lines_does_not_matter(order, values):
    assert read("\n".join(f"{NAMES[i]}: {values[i]}" for i in order)) == values


@given(st.text(max_size=400))
def test_any_text_gives_ratings_on_the_scale_or_none(text):
    assert all(value is None or 1 <= value <= 5 for value in read(text))


@pytest.mark.parametrize(
    "unit", ["Relevance: ", "a: 3, ", "1. ", "| 4 ", "{", "a: 4\n", " \n", "Relevance\n", "★"]
)
def test_hostile_text_is_read_in_linear_time(unit):
    assert grows_linearly(lambda text: parse_joint(text, ASPECTS), unit)
