"""How often 95 % intervals contain the truth, and tests at .05 raise false alarms, in one table.

    python -m benchmarks.coverage [COMMAND ...] [--draws 500] [--data FOLDER]

COMMAND is `agreement`, `compare`, `choices`, `labels`, `estimate`, `calibrate`, `rank`, `alt-test`
or `fit`; without one all designs are run, which takes hours. FOLDER has `alttest/` and
`summeval/` for the designs of SummEval. A line has, of each interval, the share of the draws in
which it holds the truth, of how many, and its mean half-width, of those with a warning by
themselves; of a test, the share of the draws in which it finds a difference. `!` marks a share
without a warning that lies outside of 93 to 97 % (or the design's own range) or an alarm above .06,
if chance (two standard errors) does not explain it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.coverage import agreement, estimation, fitting, labels
from benchmarks.coverage.tally import MIN_COUNT, tally


def main() -> None:
    """Print a line for each design, then the range of each command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", metavar="COMMAND")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    designs = [
        *agreement.designs(),
        *labels.designs(),
        *estimation.designs(given.data),
        *fitting.designs(given.data),
    ]
    chosen = [
        one
        for one in designs
        if not given.commands or one.command.startswith(tuple(given.commands))
    ]
    if not chosen:
        parser.error(f"no design of {', '.join(given.commands)}")
    began, shares = time.process_time(), dict[str, list[float]]()
    for one in chosen:
        found = tally(one.measure(), max(1, round(given.draws * one.share)))
        texts = []
        for name, own in found.items():
            is_warned = name.endswith("warned")
            texts.append(f"{name} {own.describe(*((0.0, 1.0) if is_warned else one.span))}")
            if own.draws >= MIN_COUNT and not (is_warned or own.is_alarm):
                shares.setdefault(one.command, []).append(own.share)
        print(f"{one.command:22}{one.words:56}{'; '.join(texts) or 'none'}", flush=True)
    for command, all_of in shares.items():
        mean = sum(all_of) / len(all_of)
        print(f"{command}: {min(all_of):.1%} to {max(all_of):.1%}, mean {mean:.1%}")
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
