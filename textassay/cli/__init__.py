"""The command line: arguments in, `evaluate` out."""

from textassay.cli.app import main

__all__ = ["main"]
