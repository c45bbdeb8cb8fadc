"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    """The folder for a run."""
    return tmp_path / "run"


@pytest.fixture
def recorded() -> Iterator[tuple[MockServer, list[str]]]:
    """A server that lists two criteria or rates, with the requests in order."""
    asked: list[str] = []

    def reply(body: dict[str, Any], draw: int) -> str:
        text = "\n".join(message["content"] for message in body["messages"])
        asked.append(text)
        if "numbered list of" in text:
            return "1. Order: how its parts follow.\n2. Focus: whether it stays with its topic."
        return f"{1 + len(text) % 5}"

    with served(reply=reply) as server:
        yield server, asked
