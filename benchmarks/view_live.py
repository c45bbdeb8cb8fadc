"""What watching a run costs it.

Wall and CPU time of a run alone, and of one whose page is open in a browser.

python -m benchmarks.view_live [--scores 20000] [--pairs 3]

The run asks a scripted model, so that it is as fast as it can be; its first answer waits until the
page is open. Pairs of runs alternate: alone and then watched, watched and then alone. The CPU time
is that of the run's own process, which other work on the machine changes less than the wall time:
that means something on an idle machine only. The viewer's CPU time is split into its start and what
it takes per score afterwards. Without Chromium a client asks as the page does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.examples_made import make
from benchmarks.server import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
RUN = """
import sys, time
from pathlib import Path
from textassay import evaluate_sync
from textassay.runtime.backends.scripted import ScriptedModel

began = []

def answer(request):
    if not began:
        while not Path(sys.argv[3]).exists():
            time.sleep(0.01)
        began.extend((time.perf_counter(), time.process_time()))
    return "Score: 4"

aspects = ["coherence", "fluency"]
model = ScriptedModel(answer)
evaluate_sync(sys.argv[1], method="llm-score", aspects=aspects, model=model, out=sys.argv[2])
print(time.perf_counter() - began[0], time.process_time() - began[1])
"""
SETTLE = 6.0
"""Seconds that the viewer and the browser have to start before the run's first answer."""


def run(data: Path, out: Path) -> subprocess.Popen[str]:
    """Start a run in a process of its own."""
    command = [sys.executable, "-c", RUN, str(data), str(out), str(_gate(out))]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _gate(out: Path) -> Path:
    """Return the file that a run waits for before its first answer."""
    return out.with_suffix(".go")


def alone(data: Path, out: Path) -> list[float]:
    """Return wall and CPU seconds of a run that nobody watches."""
    running = run(data, out)
    _until_begun(out)
    time.sleep(SETTLE)
    _gate(out).touch()
    return [float(part) for part in running.communicate()[0].split()]


def _until_begun(out: Path) -> None:
    while not (out / "manifest.json").exists():
        time.sleep(0.01)


def watched(data: Path, out: Path, profile: Path) -> tuple[list[float], float, float, bool]:
    """Return wall and CPU seconds of a watched run, and CPU seconds of the viewer.

    The viewer's are those until the first score and those afterwards; the last value is whether no
    score was missing.
    """
    running = run(data, out)
    _until_begun(out)
    with ExitStack() as stack:
        command = [sys.executable, "-m", "textassay", "view", str(out)]
        viewer = stack.enter_context(
            subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        )
        stack.callback(viewer.terminate)
        assert viewer.stdout is not None
        address = viewer.stdout.readline().strip()
        if CHROMIUM is not None:
            browser = stack.enter_context(_browser(address, profile))
            stack.callback(browser.terminate)
        # what is measured is watching, not the start of a browser
        time.sleep(SETTLE)
        start = _cpu_seconds(viewer.pid)
        _gate(out).touch()
        seen = _follow(address, running, ask=CHROMIUM is None)
        assert running.stdout is not None
        seconds = [float(part) for part in running.stdout.read().split()]
        cpu = _cpu_seconds(viewer.pid)
    return seconds, start, cpu - start, seen


def _cpu_seconds(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _browser(address: str, profile: Path) -> subprocess.Popen[bytes]:
    assert CHROMIUM is not None
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--remote-debugging-port=0", f"--user-data-dir={profile}")  # fmt: skip
    return subprocess.Popen(
        [CHROMIUM, *flags, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _follow(address: str, running: subprocess.Popen[str], *, ask: bool) -> bool:
    """Wait for the run's end, asking meanwhile as a page does if there is none.

    Return whether nothing is missing.
    """
    cursor, known, answer = 0, 0, dict[str, Any]()
    while running.poll() is None:
        if ask:
            answer = _get(f"{address}scores?cursor={cursor}&known={known}")
            cursor, known = answer["cursor"], known + len(answer["examples"]["ids"])
        time.sleep(0.5)
    while answer.get("more", True):
        answer = _get(f"{address}scores?cursor={cursor}&known={known}")
        cursor, known = answer["cursor"], known + len(answer["examples"]["ids"])
    return int(answer["total"]) == cursor


def _get(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def main() -> None:
    """Alternate, and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = make(folder / "data.jsonl", args.scores // 2, source_words=60)
        pairs = [_pair(data, folder / str(number), number, args) for number in range(args.pairs)]
    wall, cpu = ([pair[at] for pair in pairs] for at in (0, 1))
    print(
        f"{args.scores} scores, watched over alone, median of {args.pairs} pairs: "
        f"{statistics.median(cpu):.3f} of the CPU time ({min(cpu):.3f} to {max(cpu):.3f}), "
        f"{statistics.median(wall):.3f} of the wall time ({min(wall):.3f} to {max(wall):.3f})"
    )


def _pair(data: Path, folder: Path, number: int, args: argparse.Namespace) -> tuple[float, float]:
    """Run alone and watched, print both, and return the ratios of wall and CPU time."""
    folder.mkdir()
    # what drifts on the machine must not always fall on the same side
    unseen = alone(data, folder / "alone") if number % 2 == 0 else None
    found, start, cpu, complete = watched(data, folder / "watched", folder / "profile")
    unseen = unseen or alone(data, folder / "alone")
    print(
        f"alone {unseen[0]:.2f} s, {unseen[1]:.2f} s of CPU; watched {found[0]:.2f} s, "
        f"{found[1]:.2f} s of CPU; viewer {start:.2f} s of CPU to start, then "
        f"{1e6 * cpu / args.scores:.0f} us a score; {'complete' if complete else 'INCOMPLETE'}",
        flush=True,
    )
    return found[0] / unseen[0], found[1] / unseen[1]


if __name__ == "__main__":
    main()
