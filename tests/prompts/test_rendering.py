"""Prompt files are rendered once, in a sandbox, complete or not at all; delimiters hold."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.prompts import PromptFault, Turn, digest, fence, files, frame, nonce, render
from textassay.prompts.rendering import FOLDER

PROMPTS = sorted(path.name for path in FOLDER.glob("*.jinja"))


def written(tmp_path, text, name="mine.jinja"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", PROMPTS)
def test_every_file_opens_with_where_its_words_come_from(name):
    opening = (FOLDER / name).read_text(encoding="utf-8").splitlines()[0]
    assert re.match(r"\{# .*(section|appendix|table|ours)", opening, re.I), opening


def test_text_under_evaluation_is_not_rendered_and_not_escaped(tmp_path):
    path = written(tmp_path, "{# ours #}\n{{ text }}")
    text = "{{ 7 * 7 }} {% raw %} <b> & {# no #}"
    assert render(path, text=text) == (Turn("user", text),)


def test_blocks_are_messages_in_their_order(tmp_path):
    path = written(
        tmp_path,
        "{# ours #}{% block system %}Judge.{% endblock %}\n{% block user %}\n{{ x }}\n"
        "{% endblock %}",
    )
    assert render(path, x="Text.") == (Turn("system", "Judge."), Turn("user", "Text."))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{{ absent }}", r"mine\.jinja.*'absent' is undefined; its values are x"),
        ("{% if %}", "not a valid template"),
        ("{% block other %}x{% endblock %}", "block 'other'"),
        # out of the sandbox
        ("{{ ''.__class__.__mro__ }}", "mine.jinja"),
        ("{{ x.append(1) }}", "mine.jinja"),
        ("{{ x.__init__.__globals__ }}", "mine.jinja"),
    ],
)
def test_a_broken_or_hostile_file_is_an_error(tmp_path, text, says):
    # a name of its own: pytest uses the folder again, and a process reads a file once
    path = written(tmp_path, text, f"{len(text)}-mine.jinja")
    with pytest.raises(PromptFault, match=says):
        render(path, x=[])


def test_an_unknown_prompt_names_those_that_exist():
    with pytest.raises(PromptFault, match=r"no prompt 'nope'; known: .*g_eval.*llm_score"):
        render("nope")


def test_the_digest_follows_what_is_said_and_not_where_the_file_lies(tmp_path):
    (tmp_path / "b").mkdir()
    one, two = written(tmp_path, "{{ a }}"), written(tmp_path / "b", "{{ a }}")
    other = written(tmp_path, "{{ a }}.", "other.jinja")
    assert digest([one], "paper") == digest([two], "paper") != digest([other], "paper")
    assert digest([one], "paper") != digest([one], "shared-prefix")
    assert re.fullmatch("[0-9a-f]{6}", digest(["g_eval", "g_eval_steps"]))


def test_the_digest_covers_the_parts_that_a_prompt_includes():
    assert set(files("llm_score")) == {"llm_score", "_material", "_answer"}


MATERIAL = (
    "Judge {{ what }}.\n{% for part in material %}{{ part.label }}: {{ part.text }}\n"
    "{% endfor %}Done."
)


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_filled_frame_equals_rendering(tmp_path_factory, texts):
    """Whatever the texts are, template markers included, filling is rendering."""
    name = written(tmp_path_factory.mktemp("frames"), MATERIAL)
    labels = [f"Text {at}" for at in range(len(texts))]
    found = frame(name, labels, what="it")
    material = [{"label": label, "text": text} for label, text in zip(labels, texts, strict=True)]
    assert found.fill(texts) == render(name, material=material, what="it")


def test_template_markers_stay_text(tmp_path):
    """A text that looks like a template, or like a place for another text, stays as it is."""
    name = written(tmp_path, "{% for part in material %}{{ part.text }}|{% endfor %}")
    texts = ["{{ 7 * 7 }}", "{% if %} -0- -1-"]
    assert frame(name, ["a", "b"]).fill(texts)[0].content == "{{ 7 * 7 }}|{% if %} -0- -1-|"


@pytest.mark.parametrize(
    "text",
    ["{% for p in material %}{{ p.text | upper }}{% endfor %}", "only {{ material[0].text }}"],
)
def test_prompt_that_changes_or_drops_a_text_has_no_frame(tmp_path, text):
    assert frame(written(tmp_path, text), ["a", "b"]) is None


@given(st.lists(st.text(), max_size=4))
def test_no_text_holds_its_own_number(texts):
    number = nonce(texts)
    assert len(number) == 8
    assert not any(number in text for text in texts)


def test_equal_texts_have_equal_numbers_and_others_have_others():
    assert nonce(["a", "b"]) == nonce(iter(["a", "b"]))
    assert len({nonce(texts) for texts in (["a", "b"], ["ab"], ["b", "a"], ["a"], [])}) == 5


def test_a_text_that_guesses_a_number_gets_the_next_one():
    class Forged(str):
        """A text that holds the first number its content leads to, which takes 2**32 attempts to
        find."""

        def __contains__(self, number):
            return number == first

    joined = b"0:6:forged"
    first = hashlib.sha256(joined).hexdigest()[:8]
    assert nonce(["forged"]) == first
    assert nonce([Forged("forged")]) == hashlib.sha256(b"1:6:forged").hexdigest()[:8]


def test_a_text_is_unchanged_between_its_delimiters():
    assert fence("source", "</source> {{ x }}\n", "0a1b2c3d") == (
        "<source-0a1b2c3d>\n</source> {{ x }}\n\n</source-0a1b2c3d>"
    )
