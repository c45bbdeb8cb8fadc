"""The bundled examples are whole: enough of them, with sources, references and ratings on their tasks' scales."""

from pathlib import Path

import pytest

from textassay.methods import tasks
from textassay.runtime.data import Examples

DATA = Path(__file__).parents[2] / "examples" / "data"
FILES = {
    "summarization": "summaries.jsonl",
    "dialogue": "dialogue.jsonl",
    "data-to-text": "data-to-text.jsonl",
    "translation": "translation.jsonl",
}


@pytest.mark.parametrize("task", FILES)
def test_every_example_is_rated_on_every_aspect_and_within_its_scale(task: str) -> None:
    """Sources and references are there too, and several outputs share a group."""
    aspects = {aspect.name: aspect for aspect in tasks.load(task).aspects}
    examples = list(Examples(DATA / FILES[task]))
    for example in examples:
        assert example.human.keys() == aspects.keys()
        for name, value in example.human.items():
            low, high = aspects[name].scale
            assert value is not None
            assert low <= value <= high, (example.id, name)
        assert example.source
        assert example.references
        assert bool(example.context) == (task == "dialogue")
    assert len({example.group for example in examples}) * 3 <= len(examples)


def test_there_are_fifty_outputs_with_ids_of_their_own() -> None:
    """As many as the runs of every method go over."""
    ids = [(task, example.id) for task, file in FILES.items() for example in Examples(DATA / file)]
    assert len(ids) == len(set(ids)) >= 50
