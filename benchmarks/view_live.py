"""What watching a run costs it.

Wall time of a run alone, and of one whose page is open in a browser.

python -m benchmarks.view_live [--scores 20000] [--pairs 3]

The run asks a scripted model, so that it is as fast as it can be. Runs alternate, alone and
watched; the ratio is that of the medians. Without Chromium a client asks as the page does.
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
from textassay import evaluate_sync
from textassay.runtime.backends.scripted import ScriptedModel
began = time.perf_counter()
model = ScriptedModel(lambda request: "Score: 4")
aspects = ["coherence", "fluency"]
evaluate_sync(sys.argv[1], method="llm-score", aspects=aspects, model=model, out=sys.argv[2])
print(time.perf_counter() - began, time.process_time())
"""


def run(data: Path, out: Path) -> subprocess.Popen[str]:
    """Start a run in a process of its own."""
    command = [sys.executable, "-c", RUN, str(data), str(out)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def watched(data: Path, out: Path, profile: Path) -> tuple[list[float], float, bool]:
    """Return wall and CPU seconds of a watched run, and CPU seconds of the viewer.

    The last value is whether no score was missing.
    """
    running = run(data, out)
    while not (out / "manifest.json").exists():
        time.sleep(0.01)
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
        seen = _follow(address, running, ask=CHROMIUM is None)
        assert running.stdout is not None
        seconds = [float(part) for part in running.stdout.read().split()]
        ticks = Path(f"/proc/{viewer.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return seconds, cpu, seen


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
        alone: list[list[float]] = []
        open_: list[list[float]] = []
        for number in range(args.pairs):
            process = run(data, folder / f"alone-{number}")
            alone.append([float(part) for part in process.communicate()[0].split()])
            found, cpu, complete = watched(
                data, folder / f"watched-{number}", folder / f"profile-{number}"
            )
            open_.append(found)
            print(
                f"alone {alone[-1][0]:.2f} s ({alone[-1][1]:.2f} s of CPU), watched"
                f" {found[0]:.2f} s "
                f"({found[1]:.2f} s of CPU), viewer {cpu:.2f} s of CPU, "
                f"{'complete' if complete else 'INCOMPLETE'}",
                flush=True,
            )
    wall, cpu_time = (
        statistics.median(each[at] for each in open_)
        / statistics.median(each[at] for each in alone)
        for at in (0, 1)
    )
    rate = args.scores / statistics.median(each[0] for each in alone)
    print(f"{args.scores} scores at {rate:.0f}/s: watched takes {wall:.3f} of the time alone, "
          f"{cpu_time:.3f} of its CPU time")  # fmt: skip


if __name__ == "__main__":
    main()
