"""Texts as a profile prepares them: plain, on one line, conversations turn by turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.prompt_template import NO_PROFILE, Profile, plain_texts
from textassay.methods.library import tasks
from textassay.runtime.messages import Example

DIALOGUE, SUMMARIZATION = tasks.load("dialogue"), tasks.load("summarization")
PLAIN = Profile(name="p", text="simplify", lines="joined", conversations=("dialogue",))


def test_without_a_profile_the_example_is_the_same():
    example = Example(output="A\nB", source="C")
    assert NO_PROFILE.prepare(example, DIALOGUE) is example


def test_texts_are_simplified_and_put_on_one_line():
    example = Example(
        id="x",
        output="The  Cat\nsat .",
        source="A “cat”\n\nsat.",
        references=("It\nSat",),
        context="Do n't",
    )
    prepared = PLAIN.prepare(example, SUMMARIZATION)
    assert plain_texts(prepared) == {
        "source": 'a "cat" sat.',
        "context": "don't",
        "output": "the cat sat.",
    }
    assert (prepared.id, prepared.references) == ("x", ("it sat",))


@pytest.mark.parametrize(
    ("source", "output", "shown", "answer"),
    [
        ("A: Hi!\n\nB: Hello", "A: Bye", "- hi!\n- hello", "bye"),
        ("Anna: Hi!\nSpeaker 2: Hello", "Hm: bye", "- hi!\n- hello", "hm: bye"),
        ("Note: a film\nI saw it", "Note: good", "- note: a film\n- i saw it", "note: good"),
        ("A: hi at 10:30\nB: see http://x", "ok", "- hi at 10:30\n- see http://x", "ok"),
    ],
)
def test_a_conversation_is_shown_turn_by_turn(source, output, shown, answer):
    """Labels go where every turn has one, so that no first word before a colon is lost."""
    prepared = PLAIN.prepare(Example(output=output, source=source), DIALOGUE)
    assert (prepared.source, prepared.output) == (shown, answer)


@given(st.text(), st.text())
def test_no_text_can_forge_a_line_of_the_prompt(source, output):
    talk = PLAIN.prepare(Example(output=output, source=source), DIALOGUE)
    assert len(talk.output.splitlines()) <= 1
    assert all(line.startswith("- ") for line in talk.source.splitlines())
    article = PLAIN.prepare(Example(output=output, source=source), SUMMARIZATION)
    assert len(article.source.splitlines()) <= 1
