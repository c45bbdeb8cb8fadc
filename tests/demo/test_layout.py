"""The demo's folder: made, gone on with, or refused."""

import json

import pytest

from textassay.demo.layout import MARK, Layout
from textassay.runtime.errors import RunFolderError


def test_a_new_folder_is_made_and_an_earlier_demo_is_gone_on_with(tmp_path):
    """Opening twice changes nothing, and what is there stays."""
    layout = Layout(tmp_path / "new" / "demo")
    layout.open("embedded")
    kept = layout.run("dialogue", "g-eval")
    kept.mkdir(parents=True)
    layout.open("embedded")
    assert kept.is_dir()
    assert json.loads((layout.folder / MARK).read_bytes())["model"] == "embedded"


def test_an_empty_folder_will_do(tmp_path):
    Layout(tmp_path).open("embedded")
    assert (tmp_path / MARK).exists()


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path):
    """So is a file."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="holds something else; give --out a folder that is new or empty"):
        Layout(tmp_path).open("embedded")
    with pytest.raises(RunFolderError, match="holds something else"):
        Layout(tmp_path / "thesis.txt").open("embedded")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_demo_of_another_model_or_a_damaged_mark_is_refused(tmp_path):
    """Scores of two models would stand in one table."""
    Layout(tmp_path).open("embedded")
    with pytest.raises(RunFolderError, match=r"another model or version .* give --out a new folder"):
        Layout(tmp_path).open("llamacpp/other.gguf")
    (tmp_path / MARK).write_text("{")
    with pytest.raises(RunFolderError, match=r"demo\.json cannot be read"):
        Layout(tmp_path).open("embedded")
