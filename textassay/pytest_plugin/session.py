"""What the process that runs tests holds once one asks for the fixture: its judge, and outcomes."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from textassay.gates import Assay, Check, Inconclusive, Judge
from textassay.pytest_plugin import JUDGE, PROPERTY
from textassay.runtime.errors import TextassayError

_CHECKS = pytest.StashKey[list[Check]]()


def open_assay(request: pytest.FixtureRequest) -> Assay:
    """Return the fixture's value for one test."""
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
    if JUDGE not in config.stash:
        mode: Any = config.getoption("textassay_mode") or (
            "replay" if os.environ.get("CI") else "record"
        )
        cost = config.getoption("textassay_max_cost")
        # workers share no memory, so each gets an equal part of the limit
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        folder = Path(config.rootpath, config.getini("textassay_answers"))
        config.stash[JUDGE] = Judge(mode, folder, max_cost=None if cost is None else cost / workers)
        config.pluginmanager.register(_Outcomes(), "textassay-outcomes")
    return config.stash[JUDGE]


def _properties(check: Check) -> list[tuple[str, object]]:
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
        report = yield
        excinfo, full = call.excinfo, item.config.getoption("fulltrace")
        if excinfo is not None and excinfo.errisinstance(TextassayError) and not full:
            # the line of the test and what is wrong; how textassay came to say so helps nobody
            report.longrepr = excinfo.getrepr(
                style="short", chain=False, tbfilter=lambda one: _of_tests(one, item)
            )
        checks = item.stash.get(_CHECKS, None)
        if call.when == "call" and checks is not None:
            # an attribute travels through xdist
            report.textassay_outcome = _outcome(call, checks)  # type: ignore[attr-defined]
        return report


def _of_tests(excinfo: pytest.ExceptionInfo[BaseException], item: pytest.Item) -> Any:
    """Return the part of a traceback from the test down to where it calls textassay."""
    entries, package = excinfo.traceback.cut(path=item.path), Path(__file__).parents[1]
    called = (at for at, one in enumerate(entries) if Path(one.path).is_relative_to(package))
    return entries[: next(called, len(entries))] or excinfo.traceback


def _outcome(call: pytest.CallInfo[None], checks: list[Check]) -> str:
    if call.excinfo is None:
        return "inconclusive" if any(c.verdict == "inconclusive" for c in checks) else ""
    if call.excinfo.errisinstance(Inconclusive):
        return "inconclusive"
    return "error" if call.excinfo.errisinstance(TextassayError) else ""
