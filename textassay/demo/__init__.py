"""The demo: bundled examples, every method on them by one local model, and what came out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.demo.bundled import data_file

__all__ = ["data_file"]

__getattr__, __dir__ = lazy(__name__, {"data_file": "bundled"})
