from collections.abc import Iterator
from typing import Any

import pytest

from tests.report.browser import browsing


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all tests of the page; starting it takes a second."""
    with browsing(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
