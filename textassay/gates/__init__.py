"""Checks of scores in a test suite: a threshold or a baseline, decided on the end of an interval.

Knows runs and answers on disk; knows nothing of pytest, so that any test runner can use it.
"""

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.gates.assay import Assay, Judge
    from textassay.gates.checks import Check, CheckFailed, Inconclusive, JudgeError, judged

_HOME = {
    "Assay": "assay",
    "Check": "checks",
    "CheckFailed": "checks",
    "Inconclusive": "checks",
    "Judge": "assay",
    "JudgeError": "checks",
    "judged": "checks",
}

__all__ = ["Assay", "Check", "CheckFailed", "Inconclusive", "Judge", "JudgeError", "judged"]

__getattr__, __dir__ = lazy(__name__, _HOME)
