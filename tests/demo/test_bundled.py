"""The bundled examples are whole: sources, references, and ratings on their tasks' scales."""

from collections import Counter
from itertools import product

import pytest

from textassay.demo import BUNDLED_TASKS, FOLDER, data_file
from textassay.methods.library import tasks
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Example

COUNTS = {"summarization": 36, "dialogue": 30, "data-to-text": 30, "translation": 12}


def examples_of(task: str) -> list[Example]:
    return list(Examples(data_file(task)))


@pytest.mark.parametrize("task", BUNDLED_TASKS)
def test_every_example_is_rated_on_every_aspect_and_within_its_scale(task):
    aspects = {aspect.name: aspect for aspect in tasks.load(task).aspects}
    for example in examples_of(task):
        assert example.human.keys() == aspects.keys()
        for name, value in example.human.items():
            low, high = aspects[name].scale
            assert value is not None
            assert low <= value <= high, (example.id, name)
        assert example.source
        assert example.output.strip()
        assert example.references
        assert bool(example.context) == (task == "dialogue")


def test_summaries_have_three_raters_the_first_of_whom_is_the_author():
    """So that the alternative annotator test can be shown; means stay those of `human`."""
    aspects = {aspect.name: aspect.scale for aspect in tasks.load("summarization").aspects}
    for example in examples_of("summarization"):
        assert example.annotators.keys() == aspects.keys()
        for name, ratings in example.annotators.items():
            low, high = aspects[name]
            assert len(ratings) == 3
            assert all(one is not None and low <= one <= high for one in ratings)
            assert ratings[0] == example.human[name]


@pytest.mark.parametrize("task", ["summarization", "dialogue", "data-to-text"])
def test_the_same_was_done_to_the_texts_of_every_source(task):
    """Six sources with equal systems, so that means by system compare like with like."""
    examples = examples_of(task)
    assert len(examples) == COUNTS[task]
    systems = {example.system for example in examples}
    by_group = Counter(example.group for example in examples)
    assert len(by_group) == 6
    assert set(by_group.values()) == {len(systems)}
    assert {(e.group, e.system) for e in examples} == set(product(by_group, systems))
    assert len({(e.group, e.source, e.context, e.references) for e in examples}) == 6
    # otherwise there would be nothing to agree with
    for aspect in tasks.load(task).aspects:
        assert len({example.human[aspect.name] for example in examples}) >= 2


def test_articles_are_of_the_length_of_short_news():
    lengths = [len((example.source or "").split()) for example in examples_of("summarization")]
    assert 120 <= min(lengths) <= max(lengths) <= 220


def test_ids_are_unique_over_all_tasks_and_name_group_and_system():
    found = [example for task in BUNDLED_TASKS for example in examples_of(task)]
    assert len(found) == sum(COUNTS.values()) >= 60
    assert len({example.id for example in found}) == len(found)
    assert all(example.id == f"{example.group}-{example.system}" for example in found)


def test_an_unknown_task_has_no_file():
    with pytest.raises(KeyError):
        data_file("general")
    assert {file.stem for file in FOLDER.glob("*.jsonl")} == set(BUNDLED_TASKS)
