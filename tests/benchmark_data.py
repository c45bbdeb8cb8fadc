"""Finds the benchmark data with human scores and the papers, and reads them for tests."""

import gzip
import json
import os
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(
    os.environ.get("TEXTASSAY_DATA")
    or Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
)


@cache
def _read(path):
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        return [json.loads(line) for line in lines]


def benchmark(name):
    """The rows of one benchmark file; skips the test where it is absent."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"benchmark data {name} not found in {FOLDER}; set TEXTASSAY_DATA")
    return _read(path)


def paper(name):
    """The text of a paper, from `papers` beside the data; skips the test if absent."""
    path = FOLDER.resolve().parent / "papers" / name
    if not path.exists():
        pytest.skip(f"paper {name} not found in {path.parent}; set TEXTASSAY_DATA")
    return path.read_text(encoding="utf-8")
