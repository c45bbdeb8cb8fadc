"""Tasks: built in, and from a user's file."""

import re

import pytest

from textassay.methods.library import tasks
from textassay.prompts import TASKS
from textassay.runtime.errors import ConfigurationError, UnknownName

GOOD = """
name = "story"
intro = "You will be given a story."
output_name = "Story"
[[aspects]]
name = "suspense"
definition = "whether one wants to know how it goes on."
scale = [0, 10]
steps = ["Read it.", "Rate it."]
[[aspects]]
name = "brevity"
definition = "whether it is short."
higher_is_better = false
"""


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", TASKS)
def test_every_built_in_task_loads_and_asks_a_question_for_each_aspect(name):
    task = tasks.load(name)
    assert task.name == name
    assert all(aspect.question and aspect.question.endswith("?") for aspect in task.aspects)


@pytest.mark.parametrize(
    ("name", "aspects"),
    [
        ("summarization", ["coherence", "consistency", "fluency", "relevance"]),
        (
            "dialogue",
            [
                "naturalness",
                "coherence",
                "engagingness",
                "groundedness",
                "understandability",
                "overall",
            ],
        ),
        ("data-to-text", ["informativeness", "naturalness", "quality"]),
    ],
)
def test_built_in_tasks_judge_what_the_benchmarks_judge(name, aspects):
    assert [aspect.name for aspect in tasks.load(name).aspects] == aspects


def test_dialogue_is_rated_on_the_scales_of_its_human_ratings():
    scales = {aspect.name: aspect.scale for aspect in tasks.load("dialogue").aspects}
    assert scales["naturalness"] == scales["coherence"] == scales["engagingness"] == (1, 3)
    assert scales["groundedness"] == scales["understandability"] == (0, 1)
    assert scales["overall"] == (1, 5)


def test_aspects_come_in_the_order_asked_for_and_leave_the_digest_alone():
    whole, part = (
        tasks.load("summarization"),
        tasks.load("summarization", ["Relevance", "coherence"]),
    )
    assert [aspect.name for aspect in part.aspects] == ["relevance", "coherence"]
    assert part.digest == whole.digest


def test_a_file_of_the_users_own(tmp_path):
    task = tasks.load(written(tmp_path, GOOD))
    assert [(a.name, a.scale, a.higher_is_better) for a in task.aspects] == [
        ("suspense", (0, 10), True),
        ("brevity", (1, 5), False),
    ]
    assert task.steps == {"suspense": ("Read it.", "Rate it.")}
    assert task.digest != tasks.load(written(tmp_path, GOOD.replace("short", "long"))).digest


def test_unknown_names_list_what_exists():
    with pytest.raises(
        UnknownName, match=r"unknown task 'poetry'; known: summarization, dialogue, .*\.toml"
    ):
        tasks.load("poetry")
    with pytest.raises(
        UnknownName, match=r"unknown aspect of task 'summarization': 'humour'; known: coherence, "
    ):
        tasks.load("summarization", ["humour"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            GOOD.replace("[0, 10]", "[10, 0]"),
            "aspect 'suspense': .*must be ascending, not from 10 to 0",
        ),
        (GOOD.replace("[0, 10]", '["a", "b"]'), "aspect 'suspense': scale"),
        (
            GOOD.replace("higher_is_better", "higher"),
            "aspect 'brevity': unknown key 'higher'; known: name, definition",
        ),
        (GOOD.replace("output_name", "output"), "unknown key 'output'; known: name, intro"),
        (
            GOOD.replace('definition = "whether it is short."', ""),
            "aspect 'brevity': definition: Field required",
        ),
        (GOOD.replace('"whether it is short."', '" "'), "'brevity' needs a definition"),
        (GOOD.replace('"brevity"', '"Suspense"'), "two aspects are called 'suspense'"),
        (
            GOOD.replace('["Read it.", "Rate it."]', '"Read it."'),
            "steps must be a list of sentences",
        ),
        ('intro = "x"', "at least one"),
        ("name = ", "cannot be read"),
        (GOOD.replace('intro = "You will be given a story."', ""), "intro: Field required"),
    ],
)
def test_what_is_wrong_in_a_file_names_file_and_key(tmp_path, text, says):
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError, match=says) as caught:
        tasks.load(path)
    assert re.search(r"mine\.toml", str(caught.value))


def test_an_aspect_may_say_that_it_is_judged_without_steps(tmp_path):
    path = written(tmp_path, GOOD.replace('["Read it.", "Rate it."]', "[]"))
    assert tasks.load(path).steps == {"suspense": ()}


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="does not exist"):
        tasks.load(str(tmp_path / "none.toml"))
