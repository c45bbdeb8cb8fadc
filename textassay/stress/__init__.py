"""Stress tests of a judge: known edits of the user's texts, and their effect on the scores."""

from textassay.stress.order import StressOrder
from textassay.stress.run import StressRun, read_result
from textassay.stress.suite import FAMILIES, TESTS, chosen_tests
from textassay.stress.summary import StressResult
from textassay.stress.verdicts import Measured, StressRow, gate, verdicts

__all__ = [
    "FAMILIES",
    "TESTS",
    "Measured",
    "StressOrder",
    "StressResult",
    "StressRow",
    "StressRun",
    "chosen_tests",
    "gate",
    "read_result",
    "verdicts",
]
