"""The pytest plugin (extra `pytest`): options, a marker, the fixture `assay`, and a summary.

Loaded in every pytest session of an environment that has textassay, so nothing else of textassay is
imported before a test asks for the fixture. Under xdist the process that prints judges nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from textassay.gates import Assay, Judge

JUDGE: pytest.StashKey[Judge] = pytest.StashKey()
PROPERTY = "textassay"
"""Name of the property of a report that holds a check."""
INCONCLUSIVE = 4
"""Exit status if nothing failed but checks that are inconclusive."""


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
        config.pluginmanager.register(_Summary(config), "textassay-summary")


@pytest.fixture
def assay(request: pytest.FixtureRequest) -> Assay:
    """Judge texts and check their scores; `@pytest.mark.textassay(...)` sets what it is given."""
    from textassay.pytest_plugin.session import open_assay

    return open_assay(request)


class _Summary:
    """Collects what all tests found, also those of xdist's workers, and prints it at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._checks: list[tuple[str, dict[str, Any]]] = []
        self._inconclusive = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the checks of a finished test."""
        if not hasattr(report, "textassay_outcome"):  # the properties are of another's making
            return
        if report.failed:
            self._inconclusive += report.textassay_outcome == "inconclusive"
        if report.when == "call":
            checks = (value for name, value in report.user_properties if name == PROPERTY)
            self._checks += [(report.nodeid, json.loads(str(value))) for value in checks]

    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
        """Name the outcomes that pytest does not have."""
        outcome = getattr(report, "textassay_outcome", None)
        if outcome == "inconclusive":
            return "inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})
        if outcome == "error":
            return "error", "E", ("ERROR", {"red": True})
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Exit with 4 if inconclusive checks are all that failed."""
        # a real failure keeps pytest's own status, which CI knows
        if self._inconclusive and session.testsfailed == self._inconclusive:
            session.exitstatus = INCONCLUSIVE

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print every check, and append them to the summary of a GitHub job."""
        if not self._checks:
            return
        terminalreporter.section("textassay")
        for node, check in self._checks:
            terminalreporter.line(f"{node}: {check['text']}")
        if JUDGE in self._config.stash:
            usage = self._config.stash[JUDGE].usage
            cost = "" if not usage.cost else f", ${usage.cost:.4f}"
            terminalreporter.line(
                f"judges: {usage.calls} calls, {usage.cached_calls} answered from the recording"
                f"{cost}"
            )
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(_markdown(self._checks))


def _markdown(checks: list[tuple[str, dict[str, Any]]]) -> str:
    from textassay.table import Column, Interval, Table, to_markdown

    rows = []
    for node, check in checks:
        of_baseline = "" if check["kind"] == "at_least" else ", difference to baseline"
        value = Interval(check["value"], check["low"], check["high"])
        rows.append(
            (node, f"{check['aspect']}{of_baseline}", value, check["threshold"], check["verdict"])
        )
    columns = (
        Column("test", "test"), Column("aspect", "aspect"),
        Column("value", "value", "interval"), Column("threshold", "at least", "number"),
        Column("verdict", "verdict"),
    )  # fmt: skip
    return f"### textassay\n\n{to_markdown(Table(columns, rows))}\n"
