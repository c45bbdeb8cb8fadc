"""What the pytest plugin costs a session that does not use it.

    python -m benchmarks.pytest_plugin [--starts 15]

The CPU time of importing the plugin once pytest is imported, and of one collection of an empty test
file with and without it, each in processes of their own that take turns; the least of each counts.
The target is 5 ms at most.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.server import ROOT

TARGET_MS = 5.0
IMPORT = """
import time, pytest
began = time.process_time()
import textassay.pytest_plugin
print(time.process_time() - began)
"""
COLLECT = """
import sys, time, pytest
began = time.process_time()
pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", "--rootdir", ".", *sys.argv[1:]])
print(time.process_time() - began)
"""


def seconds(code: str, folder: Path, *arguments: str) -> float:
    """Return what the code prints last, from a process of its own."""
    # the entry point is left out: the plugin is named where it is wanted
    known = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, **known},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=15)
    given = parser.parse_args()
    imported, without, with_plugin = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
        seconds(IMPORT, folder)  # compiles what is not compiled yet
        for _ in range(given.starts):
            imported.append(seconds(IMPORT, folder))
            without.append(seconds(COLLECT, folder))
            with_plugin.append(seconds(COLLECT, folder, "-p", "textassay.pytest_plugin"))
    cost = min(imported) * 1e3
    collected = (min(with_plugin) - min(without)) * 1e3
    print(f"import: {cost:.2f} ms of CPU time, target {TARGET_MS:g} ms: "
          f"{'met' if cost <= TARGET_MS else 'missed'}")  # fmt: skip
    alone = f"{min(without) * 1e3:.0f} ms without"
    print(f"a collection: {collected:+.2f} ms (least of {given.starts}; {alone})")


if __name__ == "__main__":
    main()
