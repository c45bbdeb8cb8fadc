"""Fixtures of the command line's tests, for those of `--cluster`."""

from tests.cli.conftest import data, run, server

__all__ = ["data", "run", "server"]
