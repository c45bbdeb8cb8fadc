"""What is read: data sets of examples as files, tables or iterables, and the names of their fields."""

from textassay.runtime.data.dataset import DataInfo, Examples

__all__ = ["DataInfo", "Examples"]
