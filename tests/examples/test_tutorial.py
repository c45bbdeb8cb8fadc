"""The tutorial notebook runs from top to bottom in a fresh kernel, and shows what it promises."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.embedded_model import needs_embedded

ROOT = Path(__file__).parents[2]


@needs_embedded
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.xdist_group("llamacpp")
def test_the_tutorial_runs(tmp_path, monkeypatch):
    """Every cell succeeds; the run, the agreement and the estimates are tables without script."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    whole = "".join(shown)
    for heading in ("36 scored", "agreement with people", "raters&#x27; scale", "graph g-eval"):
        assert heading in whole
    assert "<script" not in whole
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [one.text for one in outputs if one.output_type == "stream"] == []
    [progress] = [one.data["text/plain"] for one in outputs if one.output_type == "display_data"]
    assert re.fullmatch(r"36/36 \| .* \| took \d+:\d\d \| 36 calls.*", progress)
