"""Seconds and memory of the commands from scores to decisions, over 10^5 rows.

python -m benchmarks.decisions_speed [--rows 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

SYSTEMS = 10
STRESSED = """
from benchmarks.planted_judges import JUDGES, World, texts
World(texts({texts}), ("bullets", "padded", "number", "shuffled")).rows(JUDGES["perfect"], 0)
"""
"""Edits texts, draws a judge's scores of 2 aspects in 6 versions, and tests them: what `stress`
does besides asking the judge."""


def write(folder: Path, rows: int) -> None:
    """Write two score files and data in which a fifth of the sources is rated by three raters."""
    rng = np.random.default_rng(0)
    quality = rng.normal(3.4, 0.8, rows)
    first, second = (
        np.clip(quality + rng.normal(0, 0.7, rows), 1, 5).round(2).tolist() for _ in range(2)
    )
    given = np.clip(np.round(quality[:, None] + rng.normal(0, 0.5, (rows, 3))), 1, 5).tolist()
    names = [f"{at // SYSTEMS}-{at % SYSTEMS}" for at in range(rows)]
    for name, scores in (("a.jsonl", first), ("b.jsonl", second)):
        with (folder / name).open("w") as file:
            for id_, score in zip(names, scores, strict=True):
                row = {"id": id_, "aspect": "x", "value": score, "scale": [1, 5]}
                file.write(json.dumps(row) + "\n")
    (folder / "run").mkdir()
    (folder / "run" / "manifest.json").write_text('{"format": 1}')
    with (folder / "run" / "scores.jsonl").open("w") as file:
        for id_, score in zip(names, first, strict=True):
            row = {"id": id_, "aspect": "x", "value": score, "outcome": "scored", "scale": [1, 5]}
            file.write(json.dumps(row | {"how": "text", "signature": "judge"}) + "\n")
    with (folder / "jurors.jsonl").open("w") as file:
        for id_, *both in zip(names, first, second, strict=True):
            for juror, score in zip(("x/one", "x/two"), both, strict=True):
                file.write(json.dumps({"id": id_, "aspect": juror, "value": score}) + "\n")
    with (folder / "pairs.jsonl").open("w") as file:
        for at in range(0, rows - rows % SYSTEMS, SYSTEMS):
            for i, j in combinations(range(SYSTEMS), 2):
                ids = f"{names[at + i]} vs {names[at + j]}"
                value = float(np.sign(first[at + i] - first[at + j]) / 2 + 0.5)
                file.write(json.dumps({"id": ids, "aspect": "x", "value": value}) + "\n")
    with (folder / "data.jsonl").open("w") as file:
        for at, id_ in enumerate(names):
            row = {
                "id": id_,
                "group": f"g{at // SYSTEMS}",
                "system": f"s{at % SYSTEMS}",
                "output": "some words " * (3 + at % 7),
            }
            if at // SYSTEMS % 5 == 0:
                row["annotators"] = {"x": given[at]}
            file.write(json.dumps(row) + "\n")


def timed(command: Sequence[str]) -> tuple[float, float, float]:
    """Run a command; return seconds, seconds of CPU, and its largest resident memory in MB."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode and process.stderr is not None:
            raise RuntimeError(process.stderr.read().decode())
    cpu = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - began, cpu, usage.ru_maxrss / 1024


def main() -> None:
    """Print one line per command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.rows)
        names = ("a.jsonl", "b.jsonl", "pairs.jsonl", "data.jsonl", "run", "jurors.jsonl", "cal")
        a, b, pairs, data, run, jurors, cal = (str(folder / file) for file in names)
        for command in (
            ("calibrate", run, data, "-o", cal),
            ("calibrate", run, "--apply", cal, "-o", str(folder / "applied")),
            ("estimate", a, data),
            ("estimate", a, data, "--by", "system"),
            ("estimate", run, data, "--calibration", cal),
            ("compare", a, b),
            ("compare", a, b, data),
            ("alt-test", a, data),
            ("label-plan", a, data, "--half-width", "0.01"),
            ("meta", a, data),
            ("meta", a, data, "--raters"),
            ("rank", pairs, data, "--pair", "system"),
            ("cascade", run, data, "--out", str(folder / "cascade")),
            ("jurors", jurors, data),
        ):
            words = " ".join(word for word in command if not word.startswith("/"))
            report(words, timed(("-m", "textassay", *command)))
        report(
            "stress, without the judge", timed(("-c", STRESSED.format(texts=options.rows // 12)))
        )


def report(name: str, measured: tuple[float, float, float]) -> None:
    """Print one line."""
    seconds, cpu, memory = measured
    print(f"{name:32} {seconds:6.1f} s  {cpu:6.1f} s of CPU  {memory:6.0f} MB", flush=True)


if __name__ == "__main__":
    main()
