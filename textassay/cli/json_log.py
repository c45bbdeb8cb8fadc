"""Structured logs.

One JSON object per line on standard error, for collectors rather than people.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from textassay.cli.console import Messages
from textassay.evaluation.progress import Progress


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger, message and, if there is one, the error."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            entry["error"] = {
                "type": type(record.exc_info[1]).__name__,
                "message": str(record.exc_info[1]),
            }
        return json.dumps(entry)


class JsonHandler(logging.Handler):
    """Writes records to standard error while messages are JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        if Messages.as_json:
            print(self.format(record), file=sys.stderr, flush=True)  # noqa: T201


def log_as_json() -> None:
    """Write what the package logs, from the level INFO up, as JSON."""
    Messages.as_json = True
    logger = logging.getLogger("textassay")
    # called once per command, and several commands may run in one process
    if not any(isinstance(handler, JsonHandler) for handler in logger.handlers):
        logger.addHandler(JsonHandler())
        logger.setLevel(logging.INFO)


def progress_line(now: Progress) -> str:
    """Return the state of a run with all its counters."""
    counters = {
        "done": now.done,
        "total": now.total,
        "seconds": round(now.seconds, 3),
        "outcomes": now.outcomes,
        "usage": now.usage.model_dump(),
        "failures": now.failures,
        "limiters": {name: asdict(state) for name, state in now.limiters.items()},
    }
    time = datetime.now(UTC).isoformat()
    return json.dumps({"time": time, "level": "info", "message": "progress", **counters})
