"""Fixtures of the methods' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples.mock_server import MockServer
from tests.cli.harness import served


@pytest.fixture
def server() -> Iterator[MockServer]:
    """A server beside the command line, which has the event loop of the test's thread."""
    with served() as running:
        yield running
