"""The demo's folder: made, gone on with, or refused."""

import json

import pytest

from textassay.demo.pipeline import MARK, DemoFolder
from textassay.runtime.errors import RunFolderError

MODEL = {"name": "embedded", "sha256": "a"}


def test_a_new_folder_is_made_and_an_earlier_demo_is_gone_on_with(tmp_path):
    """Opening twice changes nothing, and what is there stays."""
    layout = DemoFolder(tmp_path / "new" / "demo")
    layout.open(MODEL)
    kept = layout.run("dialogue", "g-eval")
    kept.mkdir(parents=True)
    layout.open(MODEL)
    assert kept.is_dir()
    assert json.loads((layout.folder / MARK).read_bytes())["model"] == MODEL


def test_an_empty_folder_will_do(tmp_path):
    DemoFolder(tmp_path).open(MODEL)
    assert (tmp_path / MARK).exists()


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path):
    """So is a file."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(
        RunFolderError, match="contains something else; give --out a folder that is new or empty"
    ):
        DemoFolder(tmp_path).open(MODEL)
    with pytest.raises(RunFolderError, match="contains something else"):
        DemoFolder(tmp_path / "thesis.txt").open(MODEL)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_demo_of_another_model_or_a_damaged_mark_is_refused(tmp_path):
    """Scores of two models would stand in one table."""
    DemoFolder(tmp_path).open(MODEL)
    with pytest.raises(
        RunFolderError, match=r"another model or another version .* give --out a new folder"
    ):
        DemoFolder(tmp_path).open({**MODEL, "sha256": "b"})
    (tmp_path / MARK).write_text("{")
    with pytest.raises(RunFolderError, match=r"demo\.json cannot be read"):
        DemoFolder(tmp_path).open(MODEL)
