"""The process itself: closed streams, a full disk behind standard output, few open files, an early
interrupt."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAIN = "from textassay.cli import main; main()"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="streams and limits of POSIX")


def shell(line: str, code: str = MAIN) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which `$T` is the command line."""
    command = f'T() {{ "{sys.executable}" -c "$CODE" "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={**os.environ, "CODE": code},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    """Status 3 and what is wrong; no traceback, not even of the interpreter's end."""
    done = shell("T tools list > /dev/full")
    assert done.returncode == 3
    assert done.stderr == "error: the results cannot be written: No space left on device\n"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_closed_stream_changes_nothing_else(stream: str, tmp_path: Path) -> None:
    """The command does its work, and no file of its own takes the stream's number."""
    assert shell(f"T --version {stream}>&-").returncode == 0
    refused = shell(
        f"T score {tmp_path}/absent.jsonl --method tools --tools rouge -o x {stream}>&-"
    )
    assert refused.returncode == 2


def test_a_limit_of_open_files_that_no_run_can_keep_is_told_at_the_start() -> None:
    """Rather than as a summary that was not written at the end."""
    done = shell("ulimit -n 24; T tools list")
    assert done.returncode == 2
    assert done.stderr.startswith("error: this shell allows 24 open files")
    assert "Traceback" not in done.stderr


def test_a_low_limit_is_raised_where_it_may_be() -> None:
    """The soft limit of many systems is lower than a run of many connections needs."""
    assert shell("ulimit -Sn 40; T --version").returncode == 0


def test_an_interrupt_while_modules_are_loaded_is_one_line() -> None:
    """Status 130, as shells expect it."""
    code = f"""
import sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == 'typer':
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
{MAIN}
"""
    done = shell("T --version", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
