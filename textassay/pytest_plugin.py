"""The pytest plugin (extra `pytest`): a fixture that judges, and outcomes for what it decides.

Loaded in every pytest session of an environment that has textassay, so it imports nothing of
textassay until a test asks for the fixture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from textassay.gates import Assay, Check, Judge

MODES = ("record", "replay", "live")
INCONCLUSIVE = 4
"""Exit status if nothing failed but checks that are inconclusive."""
PROPERTY = "textassay"

_JUDGE = pytest.StashKey["Judge"]()
_CHECKS = pytest.StashKey[list["Check"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("textassay", "textassay: checks of generated text")
    group.addoption(
        "--textassay",
        dest="textassay_mode",
        choices=MODES,
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
        config.pluginmanager.register(Summary(config), "textassay-summary")


@pytest.fixture
def assay(request: pytest.FixtureRequest) -> Assay:
    """Judge texts and check their scores; `@pytest.mark.textassay(...)` sets what it is given."""
    from textassay.gates import Assay

    config, item = request.config, request.node
    checks = item.stash.setdefault(_CHECKS, [])
    strict = config.getoption("textassay_inconclusive") == "fail"

    def report(check: Check) -> None:
        __tracebackhide__ = True
        checks.append(check)
        item.user_properties += _properties(check)
        check.raise_for_verdict(inconclusive=strict)

    defaults: dict[str, Any] = {}
    # the closest mark comes first, so reversed it is applied last and wins over those of class and
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
        cost = config.getoption("textassay_max_cost")
        # workers share no memory, so each gets an equal part of the limit
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        folder = Path(config.rootpath, config.getini("textassay_answers"))
        config.stash[_JUDGE] = Judge(
            mode, folder, max_cost=None if cost is None else cost / workers
        )
    return config.stash[_JUDGE]


def _properties(check: Check) -> list[tuple[str, object]]:
    fields = check.as_dict()
    plain = ("verdict", "value", "low", "high", "threshold", "n")
    named = [(f"{PROPERTY}.{check.aspect}.{name}", fields[name]) for name in plain]
    # as text: user properties travel between xdist's processes and into JUnit files
    return [(PROPERTY, json.dumps({**fields, "text": str(check)})), *named]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark reports of tests that are inconclusive, and of tests whose judge could not be asked."""
    report = yield
    checks = item.stash.get(_CHECKS, None)
    if call.when != "call" or checks is None:
        return report
    outcome = _outcome(call, checks)
    if outcome is not None:
        report.textassay_outcome = outcome  # type: ignore[attr-defined]  # travels through xdist
    return report


def _outcome(call: pytest.CallInfo[None], checks: list[Check]) -> str | None:
    from textassay.gates import Inconclusive
    from textassay.runtime.errors import TextassayError

    if call.excinfo is None:
        return "inconclusive" if any(c.verdict == "inconclusive" for c in checks) else None
    if call.excinfo.errisinstance(Inconclusive):
        return "inconclusive"
    return "error" if call.excinfo.errisinstance(TextassayError) else None


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
    """Name the outcomes that pytest does not have."""
    outcome = getattr(report, "textassay_outcome", None)
    if outcome == "inconclusive":
        return "inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})
    if outcome == "error":
        return "error", "E", ("ERROR", {"red": True})
    return None


class Summary:
    """Collects what all tests found, also those of xdist's workers, and prints it at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._checks: list[tuple[str, dict[str, Any]]] = []
        self._failed = self._inconclusive = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the checks of a finished test."""
        if report.failed:
            self._failed += 1
            self._inconclusive += getattr(report, "textassay_outcome", "") == "inconclusive"
        if report.when == "call":
            checks = (value for name, value in report.user_properties if name == PROPERTY)
            self._checks += [(report.nodeid, json.loads(str(value))) for value in checks]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Exit with 4 if inconclusive checks are all that failed."""
        # a real failure keeps pytest's own status, which CI knows
        if self._failed and self._failed == self._inconclusive:
            session.exitstatus = INCONCLUSIVE

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print every check, and append them to the summary of a GitHub job."""
        if not self._checks:
            return
        terminalreporter.section("textassay")
        for node, check in self._checks:
            terminalreporter.line(f"{node}: {check['text']}")
        if _JUDGE in self._config.stash:
            terminalreporter.line(_cost(self._config.stash[_JUDGE]))
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(_markdown(self._checks))


def _cost(judge: Judge) -> str:
    usage = judge.usage
    cost = "" if not usage.cost else f", ${usage.cost:.4f}"
    return f"judges: {usage.calls} calls, {usage.cached_calls} answered from the recording{cost}"


def _markdown(checks: list[tuple[str, dict[str, Any]]]) -> str:
    lines = [
        "| test | aspect | value | interval | at least | verdict |",
        "|---|---|--:|---|--:|---|",
    ]
    number: Callable[[float | None], str] = lambda x: "" if x is None else f"{x:.3f}"  # noqa: E731
    for node, check in checks:
        name = node.replace("|", "\\|")
        lines.append(
            f"| {name} | {check['aspect']} | {number(check['value'])} | "
            f"[{number(check['low'])}, {number(check['high'])}] | {check['threshold']:g} | "
            f"{check['verdict']} |"
        )
    return "\n".join(["### textassay", "", *lines, ""])
