"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.mock_server import MockServer
from tests.cli.harness import served, write_examples


@pytest.fixture
def server() -> Iterator[MockServer]:
    """A server that answers at once, with a rating."""
    with served() as running:
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six examples with human ratings."""
    return write_examples(tmp_path / "data.jsonl", 6)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where a run shall be made."""
    return tmp_path / "run"
