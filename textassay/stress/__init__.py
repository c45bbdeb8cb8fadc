"""Stress tests of a judge: known edits of the user's texts, and their effect on the scores."""

from textassay.stress.edits import FAMILIES, TESTS, select_tests
from textassay.stress.runner import StressPlan, StressRun, read_result
from textassay.stress.verdicts import MeasuredTest, StressResult, StressRow, gate, verdicts

__all__ = [
    "FAMILIES",
    "TESTS",
    "MeasuredTest",
    "StressPlan",
    "StressResult",
    "StressRow",
    "StressRun",
    "gate",
    "read_result",
    "select_tests",
    "verdicts",
]
