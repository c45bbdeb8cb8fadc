"""Lists out of what models say: every usual shape, and what is wrong with an entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import grows_linearly
from textassay.agents.reading.lists import ListItem, parse_listing
from textassay.runtime.labels import slug

FLOW_AND_STOP = (ListItem("Flow", "it goes."), ListItem("Full stop", "it ends."))


@pytest.mark.parametrize(
    "answer",
    [
        "1. Flow: it goes.\n2. Full stop: it ends.",
        "1) **Flow** - it goes.\n\n2) **Full stop** - it ends.",
        "**1. Flow**: it goes.\n**2. Full stop**: it ends.",
        "- **Flow:** it goes.\n- **Full stop:** it ends.",
        "• Flow — it goes.\n• Full stop — it ends.",
        "Flow: it goes.\nFull stop: it ends.",
        "Sure! Here are two aspects:\n\n1. Flow (1-5): it goes.\n2. Full stop (1-5): it ends.\n\n"
        "Note: they overlap.",
        "### 1. Flow\nit\ngoes.\n\n### 2. Full stop\n- Definition: it ends.\n\nI hope this helps!",
        "1. Flow\n\n   it goes.\n\n2. Full stop\n\n   it ends.",
        "Form:\n  1. Flow: it goes.\nEnd:\n  2. Full stop: it ends.",
        "| # | Aspect | Definition |\n|---|:---|---|\n| 1 | **Flow** | it goes. |\n"
        "| 2 | Full stop | it ends. |",
        '[{"name": "Flow", "definition": "it goes."}, {"aspect": "Full stop", "description": "it '
        'ends."}]',
        "Here:\n```json\n"
        '{"aspects": [{"Flow": "it goes."}, {"Full stop": "it ends."}]}\n```\nDone.',
        '{"Flow": "it goes.", "Full stop": {"definition": "it ends."}}',
    ],
)
def test_the_usual_shapes_of_a_list_are_read(answer):
    listing = parse_listing(answer)
    assert listing.entries == FLOW_AND_STOP
    assert listing.dropped == ()


def test_names_and_definitions_may_be_in_any_script():
    listing = parse_listing("1、流暢性：文章是否流暢。\n2、一致性：與來源一致。")
    assert listing.entries == (
        ListItem("流暢性", "文章是否流暢。"),
        ListItem("一致性", "與來源一致。"),
    )


def test_half_a_surrogate_pair_is_replaced():
    assert parse_listing("1. Flow \ud83d: it goes \ud83d\ude00.").entries == (
        ListItem("Flow \ufffd", "it goes 😀."),
    )


def test_what_cannot_be_used_is_kept_with_the_reason():
    answer = (
        "1. Flow: goes.\n2. FLOW: again.\n3. Coherence: itself.\n4. Empty:\n5. Stop: ends.\n"
        "6. More: too many."
    )
    listing = parse_listing(answer, most=2, unwanted=["coherence"])
    assert [entry.name for entry in listing.entries] == ["Flow", "Stop"]
    assert [item["problem"] for item in listing.dropped] == [
        "duplicate",
        "the criterion itself",
        "no definition",
        "surplus",
    ]
    assert listing.dropped[0]["text"] == "FLOW: again."


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "\n\n",
        "Coherence depends on many things, such as order. "
        "It also matters how sentences are joined.",
        "I'm sorry, I cannot help with that.",
        "1. The text should be clear.\n2. The text should be short.",
        "{}",
        "[1, 2]",
        '{"aspects": []}',
        "- - -\n* * *",
    ],
)
def test_prose_and_nothing_give_no_entries(answer):
    assert parse_listing(answer).entries == ()


@given(st.text(max_size=400), st.integers(1, 5))
def test_any_text_gives_at_most_the_number_asked_for_and_no_repeats(text, most):
    entries = parse_listing(text, most=most).entries
    assert len(entries) <= most
    assert len({slug(entry.name) for entry in entries}) == len(entries)
    assert all(entry.name.strip() and entry.definition.strip() for entry in entries)


@pytest.mark.parametrize(
    "unit", ["1. ", "- a: ", "**", "a:", "| a ", "[", "# a\n", "(", " \n", "1. a: b\n"]
)
def test_hostile_text_is_read_in_linear_time(unit):
    assert grows_linearly(parse_listing, unit)
