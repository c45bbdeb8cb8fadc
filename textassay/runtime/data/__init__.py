"""Reads data sets of examples from files, tables or iterables, and maps their field names."""

from textassay.runtime.data.dataset import DataInfo, Examples

__all__ = ["DataInfo", "Examples"]
