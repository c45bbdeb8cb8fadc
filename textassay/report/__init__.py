"""One HTML page that shows a run, and the same page served while the run grows.

Example:
    >>> from textassay.report import write_report
    >>> write_report(["runs/first"], "report.html", human="data.jsonl")  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.report.page import write_report

__all__ = ["write_report"]

__getattr__, __dir__ = lazy(__name__, {"page": "write_report"})
