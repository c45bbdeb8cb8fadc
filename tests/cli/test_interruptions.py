"""Processes that are killed, interrupted or run at once: resume finishes what is missing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.mock_server import MockServer
from tests.cli.harness import flags, rows_of, served, textassay, verdicts, write_examples
from tests.waiting import until

ROOT = Path(__file__).parents[2]
# a test run that was started in the background hands its children an interrupt that is ignored; a
# terminal does not
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from "
    "textassay.cli import main; main()"
)
COUNT = 120
IN_FLIGHT = 8

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals of POSIX")


def command(data: Path, run: Path, server: MockServer, *more: object) -> list[str]:
    """The command line of a run of 240 calls."""
    arguments = flags(data, run, server, "--concurrency", IN_FLIGHT, *more)
    return [sys.executable, "-c", MAIN, *map(str, arguments)]


@contextmanager
def begun(arguments: list[str], run: Path, lines: int) -> Iterator[subprocess.Popen[str]]:
    """Start a run and wait until it has written so many scores."""
    with subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: has_written(process, run / "scores.jsonl", lines))
            yield process
        finally:
            process.kill()


def has_written(process: subprocess.Popen[str], scores: Path, lines: int) -> bool:
    """Whether a run that is under way has so many scores."""
    assert process.poll() is None, process.stderr and process.stderr.read()
    return scores.exists() and scores.read_bytes().count(b"\n") >= lines


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """More examples than a process finishes before it is stopped."""
    return write_examples(tmp_path / "data.jsonl", COUNT)


@pytest.mark.parametrize("lines", [1, 50])
def test_a_killed_run_loses_no_finished_score_and_repeats_only_what_was_in_flight(data, run, lines):
    """`kill -9`, then resume: each score once, the same as in an undisturbed run."""
    with served(hold_after=lines + IN_FLIGHT) as server:
        with begun(command(data, run, server, "--progress", "none"), run, lines) as process:
            process.send_signal(signal.SIGKILL)
            process.wait()
        raw = (run / "scores.jsonl").read_bytes()
        rows = [json.loads(line) for line in raw.splitlines(True) if line.endswith(b"\n")]
        finished = {(row["id"], row["aspect"], row["value"]) for row in rows}
        assert len(finished) >= lines
        server.options.hold_after = 0
        textassay("resume", run).ok()
        assert server.counters.requests - 2 * COUNT <= IN_FLIGHT
        assert finished <= {row[:3] for row in verdicts(run)}
        assert len(rows_of(run)) == len(verdicts(run)) == 2 * COUNT
        undisturbed = run.with_name("undisturbed")
        textassay(*command(data, undisturbed, server, "--cache", run / "answers")[3:]).ok()
        assert server.counters.requests - 2 * COUNT <= IN_FLIGHT
        assert verdicts(undisturbed) == verdicts(run)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_stop_leaves_a_run_that_can_be_resumed(data, run, sent):
    """Ctrl-C and SIGTERM: exit 3, a summary that fits the scores, a word on how to go on."""
    with served(hold_after=20) as server:
        with begun(command(data, run, server), run, 10) as process:
            process.send_signal(sent)
            out, err = process.communicate()
        assert process.returncode == 3
        assert out == ""
        assert "Traceback" not in err
        assert err.count("interrupted") == 1
        assert f"textassay resume {run}" in err
        outcomes = json.loads((run / "summary.json").read_text())["outcomes"]
        assert outcomes == {"scored": len(rows_of(run)), "abstained": 0, "invalid": 0, "error": 0}
        until(lambda: server.counters.in_flight == 0)
        server.options.hold_after = 0
        assert textassay("resume", run).code == 0
        assert len(rows_of(run)) == 2 * COUNT
        assert server.counters.requests - 2 * COUNT <= IN_FLIGHT


def test_a_second_process_on_one_run_is_refused(data, run):
    with served(hold_after=20) as server, begun(command(data, run, server), run, 10) as process:
        textassay("resume", run).ends(2, "in use by another process")
        assert textassay(*command(data, run, server)[3:]).code == 2
        assert textassay("agreement", run, data, "--bootstrap", "0").code == 0
        server.options.hold_after = 0
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert len(rows_of(run)) == 2 * COUNT


def test_two_runs_may_share_a_cache_at_the_same_time(data, run, tmp_path):
    cache = tmp_path / "cache"
    with (
        served(hold_after=20) as server,
        begun(command(data, run, server, "--cache", cache), run, 10) as process,
    ):
        server.options.hold_after = 0
        textassay(*command(data, tmp_path / "other", server, "--cache", cache)[3:]).ok()
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert verdicts(run) == verdicts(tmp_path / "other")
    assert textassay("cache", "verify", cache).code == 0


def in_terminal(
    arguments: list[str],
    *,
    columns: int,
    typed: bytes = b"",
    after: bytes = b"",
    watch: Callable[[str], object] = str,
) -> tuple[int, str]:
    """Run a command in a terminal; type once it has shown `after`; `watch` sees all output."""
    import fcntl
    import pty
    import struct
    import termios

    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        arguments, cwd=ROOT, stdin=side, stdout=side, stderr=side, start_new_session=True,
        env=environment, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:  # fmt: skip
        os.close(side)
        shown = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
            watch(shown.decode(errors="ignore"))
            if typed and after in shown:
                os.write(main, typed)
                typed = b""
        code = process.wait()
    os.close(main)
    return code, shown.decode()


def uncolored(shown: str) -> str:
    """Return what was shown without the codes that color it and move the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_a_terminal_shows_a_live_line_that_fits(data, run):
    """Two lines that are drawn over; the final state and the result stay."""

    def states_of(shown: str) -> list[str]:
        return re.findall(r"(\d+)% (\d+)/120 \| \d+\.\d/s", uncolored(shown))

    def release(shown: str) -> None:
        seen = len(set(states_of(shown)))
        server.options.hold_after = 80 * (seen + 1) if seen < 2 else 0

    with served(hold_after=80) as server:
        code, shown = in_terminal(command(data, run, server), columns=60, watch=release)
    assert code == 0
    assert "\x1b[1A" in shown  # goes back up to draw over the line
    plain, states = uncolored(shown), states_of(shown)
    assert len(set(states)) > 2
    assert states[-1] == ("100", "120")
    drawn = [line for line in re.split(r"[\r\n]+", plain) if "calls |" in line or "/s" in line]
    assert max(map(len, drawn)) <= 60
    assert "mean" in plain.split("100%")[-1]


def test_ctrl_c_in_a_terminal_stops_the_run_and_says_how_to_go_on(data, run):
    with served(hold_after=80) as server:
        typing = {"typed": b"\x03", "after": b"/s"}
        code, shown = in_terminal(command(data, run, server), columns=100, **typing)
    assert code == 3
    assert "interrupted" in shown
    assert "resume" in shown
    assert "Traceback" not in shown
