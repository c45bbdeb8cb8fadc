"""The command line: arguments in, `evaluate` out."""

from textassay.cli.start import main

__all__ = ["main"]
