"""Prompt files: rendered once, in a sandbox, complete or not at all."""

import re

import pytest

from textassay.prompts import PromptFault, Turn, digest, files, render
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


def test_a_value_that_is_not_given_is_an_error_that_names_it(tmp_path):
    path = written(tmp_path, "{{ absent }}")
    with pytest.raises(PromptFault, match=r"mine\.jinja.*'absent' is undefined"):
        render(path)


@pytest.mark.parametrize(
    "attack", ["{{ ''.__class__.__mro__ }}", "{{ x.append(1) }}", "{{ x.__init__.__globals__ }}"]
)
def test_a_prompt_file_cannot_reach_out_of_the_sandbox(tmp_path, attack):
    with pytest.raises(PromptFault):
        render(written(tmp_path, attack), x=[])


@pytest.mark.parametrize(
    ("text", "says"),
    [("{% if %}", "not a valid template"), ("{% block other %}x{% endblock %}", "block 'other'")],
)
def test_a_broken_file_is_an_error(tmp_path, text, says):
    with pytest.raises(PromptFault, match=says):
        render(written(tmp_path, text))


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
