"""The pytest plugin (extra `pytest`): options, a marker, and the fixture `assay`.

Loaded in every pytest session of an environment that has textassay, so it imports nothing else of
textassay, and holds no more than a session needs in which no test asks for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from textassay.gates import Assay


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("textassay", "textassay: checks of generated text")
    group.addoption(
        "--textassay",
        dest="textassay_mode",
        choices=("record", "replay", "live"),
        help=(
            "record: call judges where no answer is recorded; replay: never call them; live: "
            "always call them. Default: replay if the variable CI is set, record elsewhere."
        ),
    )
    group.addoption(
        "--textassay-inconclusive",
        choices=("warn", "fail"),
        default="warn",
        help="Result of a check whose interval spans the threshold (default: warn).",
    )
    group.addoption(
        "--textassay-max-cost",
        type=float,
        metavar="USD",
        help="Maximum cost of the judges in this session, for all workers together.",
    )
    parser.addini("textassay_answers", "Folder of recorded answers.", default="tests/answers")


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker."""
    config.addinivalue_line(
        "markers", "textassay(**arguments): arguments of textassay.evaluate for the fixture assay"
    )
    # under xdist only the controller prints; reports of workers reach it with their properties
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reports(config), "textassay-reports")


@pytest.fixture
def assay(request: pytest.FixtureRequest) -> Assay:
    """Judge texts and check their scores; `@pytest.mark.textassay(...)` sets what it is given."""
    from textassay.pytest_plugin.session import open_assay

    return open_assay(request)


class _Reports:
    """Waits for the report of a test that used the fixture, in this process or in a worker."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hand over to `Summary`, which also receives this report."""
        if hasattr(report, "textassay_outcome"):
            from textassay.pytest_plugin.session import Summary

            manager, summary = self._config.pluginmanager, Summary(self._config)
            manager.unregister(self)
            manager.register(summary, "textassay-summary")
            # pytest has collected the receivers of this report already
            summary.pytest_runtest_logreport(report)
