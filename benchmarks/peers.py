"""The same judgments through Inspect, pydantic-evals, DeepEval, Verdict, bare loops and textassay.

    python -m benchmarks.peers [--samples 2000] [--rounds 1] [--only NAME,...] [--environments DIR]

Each runs in an environment of its own, made at the first run with the versions below, and sends the
prompts that textassay sends, with as many calls at once. Everything is measured from outside, on
whole processes: rate and CPU time per sample are differences between a long run and a run of one
sample, so that starting is not counted; the short run is shown as the start. Scores must be equal.
Nothing is answered from a cache; textassay writes its run folder, and Inspect its log, as always.
Needs an idle machine with two cores, one of which serves the answers. POSIX only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.examples_made import make
from benchmarks.server import ROOT, server

CONCURRENCY = 100
LATENCIES = (100, 0)
"""Milliseconds before each answer."""
ENVIRONMENT = {
    "BENCHMARK_KEY": "none",
    "PYTHONPATH": str(ROOT),
    # nothing is fetched or reported
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    # unset: programs start from compiled modules
    "PYTHONDONTWRITEBYTECODE": "",
}


@dataclass(frozen=True)
class Arm:
    """A framework: its module in `peer_arms`, and the packages installed for it."""

    module: str
    requirements: tuple[str, ...]


OPENAI = "openai[aiohttp]==3.54.0"
PEERS = {
    "bare aiohttp loop": Arm("bare_aiohttp", ("aiohttp==3.14.5",)),
    "bare openai loop": Arm("bare_openai", (OPENAI,)),
    "pydantic-evals": Arm(
        "pydantic_evals_dataset",
        ("pydantic-evals==2.62.0", "pydantic-ai-slim[openai]==2.62.0", OPENAI),
    ),
    "DeepEval": Arm("deepeval_metric", ("deepeval==4.3.1", OPENAI)),
    "Verdict": Arm("verdict_pipeline", ("verdict==0.2.7", "litellm==1.80.0")),
    "Inspect": Arm("inspect_ai_task", ("inspect-ai==0.3.285", OPENAI)),
}
OURS = {"textassay direct/": "direct/mock", "textassay litellm": "openai/mock"}


@dataclass(frozen=True)
class Cost:
    """The cost of a process."""

    seconds: float
    cpu: float
    peak_mb: float


@dataclass(frozen=True)
class Row:
    """One framework at one latency."""

    per_second: float
    cpu_ms: float
    peak_mb: float
    start: float


def cost_of(command: list[str], folder: Path) -> Cost:
    """Run a process to its end in `folder`.

    Raises:
        RuntimeError: It failed; the message has its last output.
    """
    with (folder / "output.txt").open("w+", encoding="utf-8") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **ENVIRONMENT}, stdout=output, stderr=output
        )
        # unlike `wait`, `wait4` returns the resources of the process and of its children
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"{command} failed:\n{output.read()[-3000:]}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / unit)


class Bench:
    """Runs arms on the same work and checks that they agree."""

    def __init__(self, folder: Path, environments: Path, samples: int) -> None:
        """Make the data; the prompts come from a first run of textassay."""
        self._folder, self._environments, self.samples = folder, environments, samples
        self._runs = 0
        self._data = {count: make(folder / f"{count}.jsonl", count) for count in (1, samples)}
        with server() as url:
            _, scores = self._ours("direct/mock", samples, url)
        self._expected = scores
        exported = folder / "exported.jsonl"
        command = [sys.executable, "-m", "textassay", "cache", "export", str(folder / "run-1")]
        subprocess.run([*command, "--out", str(exported)], cwd=ROOT, check=True)
        rows = [json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines()]
        asked = {row["id"]: row["prompt"] for row in rows}
        for count in self._data:
            with (folder / f"prompts-{count}.jsonl").open("w", encoding="utf-8") as file:
                for name in list(asked)[:count]:
                    [message] = asked[name]
                    file.write(json.dumps({"id": name, "prompt": message["content"]}) + "\n")

    def measure(self, name: str, url: str) -> Row:
        """Run an arm on one sample and on all.

        Raises:
            RuntimeError: Its scores differ from textassay's, or the machine was too busy to measure
                the cost of the samples.
        """
        one, scores_of_one = self._run(name, 1, url)
        many, scores = self._run(name, self.samples, url)
        if scores != self._expected or len(scores_of_one) != 1:
            raise RuntimeError(f"{name} has other scores than textassay")
        if many.seconds <= one.seconds or many.cpu <= one.cpu:
            raise RuntimeError(
                f"{name}: one sample took {one.seconds:.1f} s and {self.samples} took"
                f" {many.seconds:.1f} s; other programs keep the machine busy, measure again"
            )
        more = self.samples - 1
        return Row(
            per_second=more / (many.seconds - one.seconds),
            cpu_ms=1000 * (many.cpu - one.cpu) / more,
            peak_mb=many.peak_mb,
            start=one.seconds,
        )

    def versions(self, name: str) -> str:
        """Return the versions of the packages of an arm."""
        code = (
            "import importlib.metadata as m, sys\n"
            "print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
        )
        names = [each.partition("==")[0].partition("[")[0] for each in PEERS[name].requirements]
        done = subprocess.run(
            [self._python(name), "-c", code, *names], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def _run(self, name: str, samples: int, url: str) -> tuple[Cost, dict[str, float]]:
        if name in OURS:
            return self._ours(OURS[name], samples, url)
        self._runs += 1
        folder = self._folder / f"peer-{self._runs}"
        folder.mkdir()
        scores = folder / "scores.json"
        module = f"benchmarks.peer_arms.{PEERS[name].module}"
        prompts = str(self._folder / f"prompts-{samples}.jsonl")
        command = [self._python(name), "-m", module, prompts, str(scores)]
        flags = ["--api-base", url, "--concurrency", str(CONCURRENCY)]
        cost = cost_of([*command, *flags], folder)
        return cost, json.loads(scores.read_text(encoding="utf-8"))

    def _ours(self, model: str, samples: int, url: str) -> tuple[Cost, dict[str, float]]:
        self._runs += 1
        run = self._folder / f"run-{self._runs}"
        command = [
            sys.executable, "-m", "textassay", "score", str(self._data[samples]),
            "--method", "llm-score", "--task", "summarization", "--aspects", "coherence",
            "--model", model, "--api-base", url, "--api-key-env", "BENCHMARK_KEY",
            "--concurrency", str(CONCURRENCY), "--progress", "none", "--out", str(run),
        ]  # fmt: skip
        cost = cost_of(command, self._folder)
        lines = (run / "scores.jsonl").read_text(encoding="utf-8").splitlines()
        return cost, {row["id"]: row["value"] for row in map(json.loads, lines)}

    def _python(self, name: str) -> str:
        return str(environment(self._environments, name))


def environment(parent: Path, name: str) -> Path:
    """Return the interpreter of an arm's environment, made with uv (or pip) if it is not there."""
    arm = PEERS[name]
    folder = parent / arm.module
    python, marker = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join(arm.requirements)
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing {', '.join(arm.requirements)}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    else:
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, str(folder)], check=True)
        install = [uv, "pip", "install", "-q", "--compile-bytecode", "-p", str(python)]
    subprocess.run([*install, *arm.requirements], check=True)
    marker.write_text(wanted, encoding="utf-8")
    return python


def median(rows: list[Row], figure: str) -> float:
    """Return the median of one figure over the rounds."""
    return statistics.median(float(getattr(row, figure)) for row in rows)


def table(found: dict[str, dict[int, list[Row]]]) -> str:
    """Return the table in Markdown, the fastest first."""
    slow, fast = LATENCIES
    lines = [
        f"| | samples/s at {slow} ms | at {fast} ms | CPU per sample | peak memory | one sample |",
        "|---|---|---|---|---|---|",
    ]
    for name, by_latency in sorted(
        found.items(), key=lambda item: -median(item[1][slow], "per_second")
    ):
        at = by_latency[slow]
        lines.append(
            f"| {name} | {median(at, 'per_second'):,.0f} "
            f"| {median(by_latency[fast], 'per_second'):,.0f} | {median(at, 'cpu_ms'):.2f} ms "
            f"| {median(at, 'peak_mb'):.0f} MB | {median(at, 'start'):.1f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table and the versions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default=",".join([*PEERS, *OURS]), help="names, with commas")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "peers")
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := set(names) - PEERS.keys() - OURS.keys():
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join([*PEERS, *OURS])}")
    for name in names:
        if name in PEERS:
            environment(args.environments, name)
    found: dict[str, dict[int, list[Row]]] = {name: {} for name in names}
    failed: dict[str, RuntimeError] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), args.environments, args.samples)
        for latency in LATENCIES:
            with server(latency_ms=latency) as url:
                for _ in range(args.rounds):
                    for name in [each for each in names if each not in failed]:
                        try:
                            row = bench.measure(name, url)
                        except RuntimeError as error:
                            failed[name] = error  # the figures of the others are not lost
                            continue
                        found[name].setdefault(latency, []).append(row)
                        print(name, latency, row, file=sys.stderr, flush=True)
        print(table({name: rows for name, rows in found.items() if name not in failed}))
        print()
        for name in names:
            if name in PEERS:
                print(f"{name}: {bench.versions(name)}")
    print(
        f"{args.samples} samples, {CONCURRENCY} calls at once; Python {platform.python_version()};"
        f" {datetime.now(UTC):%Y-%m-%d}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    if failed:
        raise SystemExit("\n".join(f"{name}: {error}" for name, error in failed.items()))


if __name__ == "__main__":
    main()
