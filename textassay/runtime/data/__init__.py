"""Reads data sets of examples from files, tables or iterables, and maps their field names."""

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.runtime.data.dataset import DataInfo, Examples

__all__ = ["DataInfo", "Examples"]

__getattr__, __dir__ = lazy(__name__, {"dataset": "DataInfo Examples"})
