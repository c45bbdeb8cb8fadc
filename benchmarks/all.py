"""Every benchmark of the targets, one after the other: what `make bench` runs.

python -m benchmarks.all [--only NAME ...]

Takes some hours on an idle machine, most of them for `coverage` and `memory`; benchmarks/README.md
lists all programs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from benchmarks.server import ROOT

EACH: dict[str, tuple[str, ...]] = {
    "throughput": ("--samples", "12000"),
    "in_flight": ("--samples", "60000"),
    "start": (),
    "first_minute": (),
    "scale_out": ("20000",),
    "limit": (),
    "faults": (),
    "kill": (),
    "batches": (),
    "decisions": (),
    "prompt_caching": (),
    "report_large": (),
    "coverage": ("--draws", "200"),
    "memory": ("--samples", "1000000"),
}
"""Arguments by benchmark: runs long enough to average out the noise of a machine."""


def main(only: list[str]) -> None:
    """Run each in a process of its own; stop at the first that fails."""
    for name in only:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *EACH[name]]
        if code := subprocess.run(command, cwd=ROOT).returncode:
            left_out = only[only.index(name) + 1 :]
            print(f"\n{name} failed with status {code}; left out: {', '.join(left_out) or 'none'}")
            sys.exit(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=EACH, default=list(EACH), metavar="NAME")
    main(parser.parse_args().only)
