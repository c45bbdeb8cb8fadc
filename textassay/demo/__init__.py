"""The demo: bundled examples, methods that one local model runs over them, and the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.demo.bundled import data_file

__all__ = ["data_file"]

__getattr__, __dir__ = lazy(__name__, {"data_file": "bundled"})
