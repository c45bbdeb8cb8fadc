"""What a session says about its checks: outcomes beside each test, a summary, an exit status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from textassay.table import Column, Interval, Table, to_markdown

# imports no more of textassay: under xdist the process that prints judges nothing
if TYPE_CHECKING:
    from textassay.gates import Judge

JUDGE = pytest.StashKey["Judge"]()
PROPERTY = "textassay"
"""Name of the property of a report that holds a check."""
INCONCLUSIVE = 4
"""Exit status if nothing failed but checks that are inconclusive."""


class Summary:
    """Collects what all tests found, also those of xdist's workers, and prints it at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._checks: list[tuple[str, dict[str, Any]]] = []
        self._inconclusive = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the checks of a finished test."""
        if report.failed:
            self._inconclusive += getattr(report, "textassay_outcome", "") == "inconclusive"
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
            terminalreporter.line(_cost(self._config.stash[JUDGE]))
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(_markdown(self._checks))


def _cost(judge: Judge) -> str:
    usage = judge.usage
    cost = "" if not usage.cost else f", ${usage.cost:.4f}"
    return f"judges: {usage.calls} calls, {usage.cached_calls} answered from the recording{cost}"


def _judged(check: dict[str, Any]) -> str:
    """Return what the value of a check is of."""
    aspect = str(check["aspect"])
    return aspect if check["kind"] == "at_least" else f"{aspect}, difference to baseline"


def _markdown(checks: list[tuple[str, dict[str, Any]]]) -> str:
    rows = [
        (node, _judged(check), Interval(check["value"], check["low"], check["high"]),
         check["threshold"], check["verdict"])
        for node, check in checks
    ]  # fmt: skip
    columns = (
        Column("test", "test"), Column("aspect", "aspect"),
        Column("value", "value", "interval"), Column("threshold", "at least", "number"),
        Column("verdict", "verdict"),
    )  # fmt: skip
    return f"### textassay\n\n{to_markdown(Table(columns, rows))}\n"
