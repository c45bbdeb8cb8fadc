"""One process of `score --processes`.

Judges a shard, keeping to its part of all limits, and reports progress to the parent as one JSON
object per line.

    python -m textassay.cli.shard_worker      reads an order from standard input

The parent keeps standard input open. Once it is closed, the parent is gone, and this process stops
as if it were interrupted.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from textassay.cli.exits import Interrupted, Stopped, run_async
from textassay.cli.scoring import ScoreCommand, run_order
from textassay.evaluation.counted import CountedScores
from textassay.evaluation.progress import Progress
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import Session
from textassay.evaluation.shards import Shard
from textassay.garbage import raise_gc_threshold
from textassay.runtime.calls.limit import LimiterState
from textassay.runtime.errors import TextassayError, quoted
from textassay.runtime.messages import Usage

REPORT_SECONDS = 0.25

Send = Callable[[dict[str, Any]], None]
"""Sends one JSON object to the parent."""


def order_as_json(order: ScoreCommand) -> dict[str, Any]:
    """Return an order as JSON values; keys stay in the environment, which the worker shares."""
    return order.request.model_dump(mode="json")


def order_from_json(content: dict[str, Any]) -> ScoreCommand:
    """Return the order that `order_as_json` wrote."""
    return ScoreCommand(request=RunRequest(**content), progress="none")


def progress_as_json(now: Progress) -> dict[str, Any]:
    """Return a progress as JSON values."""
    return {**asdict(now), "usage": now.usage.model_dump(), "limiters": {
        name: asdict(state) for name, state in now.limiters.items()
    }}  # fmt: skip


def progress_from_json(content: dict[str, Any]) -> Progress:
    """Return the progress that `progress_as_json` wrote."""
    limiters = {name: LimiterState(**state) for name, state in content["limiters"].items()}
    return Progress(**{**content, "usage": Usage(**content["usage"]), "limiters": limiters})


async def judge(order: ScoreCommand, send: Send) -> dict[str, Any]:
    """Judge the shard, sending progress meanwhile; return how it ended."""
    sessions: list[Session] = []
    assert order.request.shard is not None
    shard = Shard.parse(order.request.shard)

    def begun(session: Session) -> None:
        sessions.append(session)
        session.begin_as(shard)

    reporting = asyncio.create_task(_report(sessions, send))
    try:
        await run_order(order, begun)
        return {"ended": "finished", "counted": _counted(sessions)}
    except Stopped as stop:
        cause = stop.__cause__ or stop
        return {"ended": "stopped", **_error_as_json(cause)}
    except asyncio.CancelledError:  # SIGTERM before the run began
        return {"ended": "stopped", **_error_as_json(Interrupted("interrupted"))}
    except (TextassayError, ValidationError) as error:
        # the parent decides by this word whether anything was begun, and so between status 2 and 3
        return {"ended": "refused", **_error_as_json(error)}
    finally:
        # then the last state by hand, so that the parent's sum is exact at the end
        reporting.cancel()
        await asyncio.wait([reporting])
        _send_progress(sessions, send)


async def _report(sessions: list[Session], send: Send) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        _send_progress(sessions, send)


def _send_progress(sessions: list[Session], send: Send) -> None:
    for session in sessions:
        send({"progress": progress_as_json(session.engine.progress)})


def _counted(sessions: list[Session]) -> dict[str, Any] | None:
    """Return what the one session has counted, as JSON values."""
    folders = [session.folder for session in sessions if session.folder is not None]
    return asdict(CountedScores.of(folders[0])) if folders else None


def _error_as_json(error: BaseException) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        # parameters stay marked: the parent says them in the words of the command line
        "message": quoted(error) if isinstance(error, TextassayError) else str(error),
        "notes": list(getattr(error, "__notes__", ())),
    }


def _stop_with_parent() -> None:
    """Wait for the end of standard input, then stop this process as SIGTERM does."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _sending() -> Send:
    """Take standard output for reports; what anything else prints goes to standard error."""
    reports = os.dup(sys.stdout.fileno())
    sys.stdout.flush()
    if sys.stderr is None:  # closed, as for some services
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  # for as long as we run
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(line: dict[str, Any]) -> None:
        left = json.dumps(line).encode() + b"\n"
        with suppress(BrokenPipeError):  # the parent is gone, and the end of its input stops us
            while left:
                left = left[os.write(reports, left) :]

    return send


def main() -> None:
    """Judge the shard that the first line of standard input orders."""
    raise_gc_threshold()
    send = _sending()
    line = sys.stdin.readline()
    if not line.endswith("\n"):  # the parent died before it had sent the order
        return
    order = order_from_json(json.loads(line))
    # a thread, because a blocking read has no cancellation on every system's event loop; as a
    # daemon it does not hold up the end
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    send(run_async(judge(order, send)))


if __name__ == "__main__":
    main()
