"""The pytest plugin (extra `pytest`): options, a marker, the fixture `assay`, and a summary.

Loaded in every pytest session of an environment that has textassay, so nothing else of textassay is
imported before a test asks for the fixture. Under xdist the process that prints judges nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from textassay.gates import Assay, GateCheck, Judge

_JUDGE: pytest.StashKey[Judge] = pytest.StashKey()
_CHECKS: pytest.StashKey[list[GateCheck]] = pytest.StashKey()
PROPERTY = "textassay"
"""Name of a report's property that contains a check."""


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
        choices=("fail", "pass"),
        default="fail",
        help=(
            "Result of a check whose interval spans the threshold (default: fail; if nothing else "
            "failed, the exit status is 4)."
        ),
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
        config.pluginmanager.register(_GateSummary(config), "textassay-summary")


@pytest.fixture
def assay(request: pytest.FixtureRequest) -> Assay:
    """Judge texts and check their scores; `@pytest.mark.textassay(...)` sets its arguments."""
    from textassay.gates import Assay

    config, item = request.config, request.node
    checks = item.stash.setdefault(_CHECKS, [])
    strict = config.getoption("textassay_inconclusive") == "fail"

    def report(check: GateCheck) -> None:
        __tracebackhide__ = True
        checks.append(check)
        item.user_properties += _properties(check)
        check.raise_for_verdict(inconclusive=strict)

    defaults: dict[str, Any] = {}
    # the closest mark comes first, so reversed it is applied last and wins over marks of class and
    # module
    for mark in reversed(list(item.iter_markers("textassay"))):
        defaults |= mark.kwargs
    return Assay(_judge(config), report, defaults)


def _judge(config: pytest.Config) -> Judge:
    if _JUDGE not in config.stash:
        from textassay.gates import Judge

        mode: Any = config.getoption("textassay_mode") or (
            "replay" if os.environ.get("CI") else "record"
        )
        cost: float | None = config.getoption("textassay_max_cost")
        # workers share no memory, so each gets an equal part of the limit
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        folder = Path(config.rootpath, config.getini("textassay_answers"))
        part = None if cost is None else cost / workers
        config.stash[_JUDGE] = Judge(mode, folder, max_cost=part)
        config.pluginmanager.register(_Outcomes(), "textassay-outcomes")
    return config.stash[_JUDGE]


def _properties(check: GateCheck) -> list[tuple[str, object]]:
    fields = check.as_dict()
    plain = ("verdict", "value", "low", "high", "threshold", "n")
    named = [(f"{PROPERTY}.{check.aspect}.{name}", fields[name]) for name in plain]
    # as text: user properties travel between xdist's processes and into JUnit files
    return [(PROPERTY, json.dumps({**fields, "text": str(check)})), *named]


class _Outcomes:
    """Marks reports of tests that used the fixture, in the process that runs them."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Set the outcome: `inconclusive`, `error` if the judge could not be asked, or pytest's."""
        from textassay.runtime.errors import TextassayError

        report = yield
        excinfo, full = call.excinfo, item.config.getoption("fulltrace")
        if excinfo is not None and excinfo.errisinstance(TextassayError) and not full:
            # the line of the test and the error, without textassay's own frames
            report.longrepr = excinfo.getrepr(
                style="short", chain=False, tbfilter=lambda traceback: _of_tests(traceback, item)
            )
        checks = item.stash.get(_CHECKS, None)
        if call.when == "call" and checks is not None:
            # an expected failure, or its absence, is pytest's to report
            is_expected = hasattr(report, "wasxfail") or (report.failed and not excinfo)
            # an attribute travels through xdist
            report.textassay_outcome = (  # type: ignore[attr-defined]
                "" if is_expected else _outcome(call, checks)
            )
        return report


def _of_tests(excinfo: pytest.ExceptionInfo[BaseException], item: pytest.Item) -> Any:
    """Return the part of a traceback from the test down to where it calls textassay."""
    entries, package = excinfo.traceback.cut(path=item.path), Path(__file__).parent
    called = (at for at, entry in enumerate(entries) if Path(entry.path).is_relative_to(package))
    return entries[: next(called, len(entries))] or excinfo.traceback


def _outcome(call: pytest.CallInfo[None], checks: list[GateCheck]) -> str:
    from textassay.gates import Inconclusive
    from textassay.runtime.errors import TextassayError

    if call.excinfo is None:
        return "inconclusive" if any(c.verdict == "inconclusive" for c in checks) else ""
    if call.excinfo.errisinstance(Inconclusive):
        return "inconclusive"
    return "error" if call.excinfo.errisinstance(TextassayError) else ""


class _GateSummary:
    """Collects the results of all tests, also of xdist's workers, and prints them at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._checks: list[tuple[str, dict[str, Any]]] = []
        self._inconclusive = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the checks of a finished test."""
        if not hasattr(report, "textassay_outcome"):  # the properties may come from another plugin
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
        """Exit with 4 if all failures are inconclusive checks."""
        # a real failure keeps pytest's own status
        if self._inconclusive and session.testsfailed == self._inconclusive:
            session.exitstatus = 4

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print every check, and append them to the summary of a GitHub job."""
        if not self._checks:
            return
        terminalreporter.section("textassay")
        for node, check in self._checks:
            terminalreporter.line(f"{node}: {check['text']}")
            if check["regressed"]:
                terminalreporter.line(f"  worse than the baseline: {_worst_texts(check)}")
        if _JUDGE in self._config.stash:
            usage = self._config.stash[_JUDGE].usage
            cost = "" if not usage.cost else f", ${usage.cost:.4f}"
            terminalreporter.line(
                f"judges: {usage.calls} calls, {usage.cached_calls} answered from the recording"
                f"{cost}"
            )
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(_markdown(self._checks))


def _markdown(checks: list[tuple[str, dict[str, Any]]]) -> str:
    from textassay.table import Column, Estimate, Table, to_markdown

    rows = []
    for node, check in checks:
        of_baseline = ", difference to baseline" if check["kind"] == "not_worse" else ""
        required = "≤" if check["kind"] == "at_most" else "≥"
        value = Estimate(check["value"], check["low"], check["high"])
        rows.append(
            (node, f"{check['aspect']}{of_baseline}", value,
             f"{required} {check['threshold']:.3f}", check["verdict"],
             _worst_texts(check) or None)
        )  # fmt: skip
    columns = (
        Column("test", "test"), Column("aspect", "aspect"),
        Column("value", "value", "interval"), Column("threshold", "required"),
        Column("verdict", "verdict"), Column("regressed", "worse than the baseline"),
    )  # fmt: skip
    table = Table(columns, rows)
    if not any(check["regressed"] for _, check in checks):
        table = table.without("regressed")
    return f"### textassay\n\n{to_markdown(table)}\n"


def _worst_texts(check: dict[str, Any]) -> str:
    """Return the ids of texts that are worse than the baseline, the largest losses first."""
    more = check["worse"] - len(check["regressed"])
    return ", ".join([*check["regressed"], *([f"{more} more"] if more else [])])
