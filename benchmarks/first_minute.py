"""The first minute of a newcomer with a CSV of two columns: one command, a verdict in words.

    python -m benchmarks.first_minute [--judgekeeper PATH] [--promptfoo PATH] [--install] [--json]

Writes 200 rows of a planted judge's and people's yes and no, runs `textassay check FILE` in a
process of its own, and prints the seconds, the first line, the words of the README before its first
command, and the concepts that a newcomer has to know beforehand. With `--judgekeeper` and
`--promptfoo`, the commands of peers that are installed in environments of their own run on the same
rows. promptfoo has no command for a judge's and people's columns: its provider `echo` repeats the
judge's verdict, and an assertion compares it with people's. `--install` also times `pip install` of
the Python packages into new environments, with pip's own index and cache.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS, YES, RIGHT = 200, 0.6, 0.85
"""Rows, people's share of yes, and the judge's share of people's verdicts."""
RUNS = 3
"""Runs of each command; the fastest counts, since other load can only add time."""


@dataclass(frozen=True)
class Minute:
    """The effort that one tool takes, and its result."""

    tool: str
    typed: str
    """The command, with the file as FILE."""
    exit_status: int
    seconds: float
    verdict: str
    """First line of the result in words."""
    concepts: tuple[str, ...]
    """Concepts that must be known, or named, before the verdict."""
    words_before: int | None
    """Words of the README before its first command; `None` if there is no README."""
    install_seconds: float | None = None


def write_verdicts(path: Path, *, with_ids: bool = False) -> None:
    """Write the verdicts of judge and people; `with_ids` adds a column that some tools require."""
    draw = random.Random(1)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*(["id"] if with_ids else []), "judge", "human"])
        for at in range(ROWS):
            human = draw.random() < YES
            judge = human if draw.random() < RIGHT else not human
            verdicts = ["yes" if judge else "no", "yes" if human else "no"]
            rows.writerow([*([at] if with_ids else []), *verdicts])


def words_before_first_command(readme: str) -> int:
    """Return the number of words before the first block of commands."""
    prose = re.split(r"^```", readme, maxsplit=1, flags=re.MULTILINE)[0]
    prose = re.sub(r"<[^>]+>|!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)", " ", prose)
    return len(re.findall(r"\w[\w'.-]*", prose))


PROMPTFOO = """\
prompts: ["{{judge}}"]
providers: [echo]
tests: file://%s
defaultTest: {assert: [{type: equals, value: "{{human}}"}]}
"""


def measure(
    tool: str,
    command: Sequence[str],
    concepts: Sequence[str],
    file: Path,
    readme: str | None,
    *,
    verdict: str = r"[A-Za-z]{2}",
) -> Minute:
    """Run a command a few times; the fastest run counts.

    Args:
        tool: Its name.
        command: The words of the command before the file.
        concepts: Concepts that must be known or named.
        file: The last argument; the command runs beside it.
        readme: The page that a newcomer reads first.
        verdict: Pattern of the line of the output that has the result.
    """
    best, done = float("inf"), None
    for _ in range(RUNS):
        began = time.perf_counter()
        done = subprocess.run(
            [*command, file.name], cwd=file.parent, capture_output=True, text=True, check=False
        )
        best = min(best, time.perf_counter() - began)
    assert done is not None  # RUNS is above 0
    lines = (done.stdout or done.stderr).splitlines()
    return Minute(
        tool=tool,
        typed=" ".join([Path(command[0]).name, *command[1:], "FILE"]),
        exit_status=done.returncode,
        seconds=best,
        verdict=next((line.strip() for line in lines if re.search(verdict, line)), ""),
        concepts=tuple(concepts),
        words_before=None if readme is None else words_before_first_command(readme),
    )


def install_seconds(package: str) -> float:
    """Return how long `pip install` takes into a new environment."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        pip = [str(Path(folder) / scripts / "python"), "-m", "pip", "install", "--quiet", package]
        began = time.perf_counter()
        subprocess.run(pip, check=True)
        return time.perf_counter() - began


def readme_of(command: Path) -> str | None:
    """Return the README that the environment of a peer's command has in its metadata."""
    found = sorted(command.parents[1].glob("lib/python*/site-packages/judgekeeper-*/METADATA"))
    return found[0].read_text(encoding="utf-8").split("\n\n", 1)[1] if found else None


def main() -> None:
    """Measure, and print a line for each tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--judgekeeper", type=Path, help="judgekeeper of an environment of its own")
    parser.add_argument("--promptfoo", type=Path, help="promptfoo of node_modules/.bin")
    parser.add_argument("--install", action="store_true", help="time pip install as well")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers.csv"
        write_verdicts(file)
        own = [str(Path(sys.executable).with_name("textassay")), "check"]
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        minutes = [measure("textassay", own, ("judge column", "human column"), file, readme)]
        if given.judgekeeper is not None:
            peer = given.judgekeeper.absolute()
            command = [str(peer), "check", "--judge", "judge", "--human", "human"]
            named = ("judge column", "human column", "--judge", "--human")
            minutes.append(measure("judgekeeper", command, named, file, readme_of(peer)))
            # the same rows with the column that its message asks for
            wider = Path(folder) / "with_ids.csv"
            write_verdicts(wider, with_ids=True)
            more = (*named, "id column")
            minutes.append(measure("judgekeeper", command, more, wider, readme_of(peer)))
        if given.promptfoo is not None:
            config = Path(folder) / "promptfooconfig.yaml"
            config.write_text(PROMPTFOO % file.name, encoding="utf-8")
            peer = given.promptfoo.absolute()
            command = [str(peer), "eval", "--no-cache", "--no-progress-bar", "-c"]
            concepts = ("config file", "prompt", "provider", "test", "assert")
            text = (peer.parents[1] / "promptfoo" / "README.md").read_text(encoding="utf-8")
            minutes.append(measure("promptfoo", command, concepts, config, text, verdict="passed"))
    if given.install:
        packages = {"textassay": str(ROOT), "judgekeeper": "judgekeeper"}
        took = {
            tool: install_seconds(package)
            for tool, package in packages.items()
            if any(one.tool == tool for one in minutes)
        }
        minutes = [replace(one, install_seconds=took.get(one.tool)) for one in minutes]
    if given.json:
        print(json.dumps({"rows": [asdict(one) for one in minutes]}))
        return
    print(f"textassay {distribution('textassay').version}, {ROWS} rows, fastest of {RUNS} runs")
    for one in minutes:
        installed = (
            "" if one.install_seconds is None else f", installed in {one.install_seconds:.0f} s"
        )
        before = "no README" if one.words_before is None else f"{one.words_before} words before"
        print(
            f"\n{one.tool}: {one.seconds:.2f} s, exit status {one.exit_status}, {before},"
            f" {len(one.concepts)} concepts ({', '.join(one.concepts)}){installed}"
        )
        print(f"  $ {one.typed}\n  {one.verdict}")
    for peer in ("judgekeeper", "promptfoo"):
        if getattr(given, peer) is None:
            print(f"\n{peer} was not measured: give the path of its command with --{peer}")


if __name__ == "__main__":
    main()
