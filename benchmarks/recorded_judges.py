"""Real judges replayed: recorded answers of GPT-4 and GPT-3.5, against people and the record.

    python -m benchmarks.recorded_judges --data DATA_FOLDER --replay-judge replay_judge.py --keep .

DATA_FOLDER holds `summeval/` and `topical_chat/` as JSON lines with recorded answers;
`replay_judge.py` is an OpenAI-compatible server that answers a scoring prompt with the judge's
recorded answer. Neither is part of the project. With `--keep FOLDER` it keeps the texts,
`summeval.jsonl`, and GPT-4's run, which `replay/FOLDER/runs/gpt-4` asks again, and prints the table
of the README.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.kill import command
from benchmarks.server import ROOT

SUMMEVAL = ("coherence", "consistency", "fluency", "relevance")
Recorded = dict[tuple[str, str], float | None]


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from map(json.loads, lines)


@contextmanager
def replay(script: Path, data: Path, predictions: Path, *flags: str) -> Iterator[str]:
    """Serve recorded answers inside the block; yields the address, ending in `/v1`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [
        str(script),
        "--data",
        str(data),
        "--predictions",
        str(predictions),
        "--port",
        str(port),
        *flags,
    ]
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{port}/healthz"):
                    break
            except URLError:
                assert process.poll() is None, "the replay judge did not start"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def score(
    data: Path, out: Path, url: str, aspects: tuple[str, ...], *flags: str
) -> tuple[int, Recorded]:
    """Run `textassay score`; return its exit status and the values by id and aspect."""
    done = subprocess.run(
        command(
            "score", data, "--method", "llm-score", "--aspects", ",".join(aspects), "--api-base",
            url,
            "--out", out, "--progress", "none", *flags,
        ),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OPENAI_API_KEY": "none"},
    )  # fmt: skip
    return done.returncode, {
        (row["id"], row["aspect"]): row["value"] for row in rows_of(out / "scores.jsonl")
    }


def rows_from(*words: object) -> list[dict[str, Any]]:
    """Return the rows that a command prints with `--json`."""
    done = subprocess.run(
        command(*words, "--json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return found


def agreement(out: Path, data: Path) -> list[dict[str, Any]]:
    """Run `textassay agreement --json` at dataset and group level."""
    return rows_from("agreement", out, data, "--level", "dataset,group", "--bootstrap", "0")


def verdicts(run: Path, data: Path, trivial: Path) -> Iterator[str]:
    """Yield the rows of the README's table, the best agreement first."""
    judged = rows_from("agreement", run, data, "--level", "group")
    measured = {
        (name, aspect): rows_from(
            "agreement", trivial, data, "--level", "group", "--bootstrap", "0", "--aspect-map",
            f"{name}={aspect}",
        )[0]["spearman"]
        for name in ("rougeL", "length")
        for aspect in SUMMEVAL
    }  # fmt: skip
    may = {row["score"]: row["may_stand_in"] for row in rows_from("alt-test", run, data)}
    means = {row["aspect"]: row for row in rows_from("estimate", run, data)}
    for row in sorted(judged, key=lambda row: -row["spearman"]):
        aspect, (low, high) = row["aspect"], row["ci"]["spearman"]
        cells = (
            aspect,
            f"{row['spearman']:.3f} [{low:.3f}, {high:.3f}]",
            *(f"{measured[name, aspect]:.3f}" for name in ("rougeL", "length")),
            "**yes**" if may[aspect] else "no",
            *(f"{means[aspect][of]['value']:.3f}" for of in ("judge_only", "labels_only")),
        )
        yield f"| {' | '.join(cells)} |"


def recorded_means(path: Path, judge: str, prompt: str) -> Recorded:
    """Return the recorded mean by id and dimension."""
    return {
        (row["id"], row["dimension"]): row["mean"]
        for row in rows_of(path)
        if row["judge"] == judge and row["prompt"] == prompt
    }


def against_record(found: Recorded, recorded: Recorded) -> str:
    """Print how many values equal the recorded ones."""
    pairs = [(found.get(key), mean) for key, mean in recorded.items() if mean is not None]
    equal = sum(value is not None and abs(value - mean) < 1e-9 for value, mean in pairs)
    unscored = sum(value is None for value, _ in pairs)
    return f"{equal / len(pairs):.2%} of {len(pairs)} equal the record, {unscored} unscored"


def gpt_4(args: argparse.Namespace, folder: Path, models: tuple[str, ...]) -> None:
    """GPT-4 on the 1,200 rows that have recorded answers, by each client."""
    whole, predictions = _summeval(args)
    recorded = recorded_means(predictions, "gpt-4-0314", "rts")
    ids = {id_ for id_, _ in recorded}
    data = folder / "summeval.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows_of(whole) if row["id"] in ids))
    with replay(
        args.replay_judge, whole, predictions, "--judge", "gpt-4-0314", "--prompt", "rts"
    ) as url:
        for model in models:
            out = folder / "runs" / model.removeprefix("direct/").replace("/", "-")
            status, found = score(
                data, out, url, SUMMEVAL, "--task", "summarization", "--model", model
            )
            print(
                f"gpt-4-0314 rts through {model}: exit {status}, {against_record(found, recorded)}"
            )
            for row in agreement(out, data):
                print(
                    f"  {row['aspect']:12} {row['level']:8} Pearson {row['pearson']:.3f} n"
                    f" {row['n']} "
                    f"groups {row['groups']} skipped {row['groups_skipped']}"
                )


def gpt_35(args: argparse.Namespace, folder: Path) -> None:
    """GPT-3.5 on the same rows, by each of its prompts."""
    whole, predictions = _summeval(args)
    data = folder / "summeval.jsonl"
    ids = {row["id"] for row in rows_of(data)}
    for prompt, form, n in (("rts", "number", 1), ("mcq", "letters", 2), ("stareval", "stars", 1)):
        judge = "gpt-3.5-turbo-0301"
        with replay(
            args.replay_judge, whole, predictions, "--judge", judge, "--prompt", prompt
        ) as url:
            # some items of mcq were recorded twice, with two answers; the record is their mean
            flags = (
                "--task",
                "summarization",
                "--model",
                "direct/gpt-3.5",
                "--set",
                f"form={form}",
                "--n",
                str(n),
            )
            status, found = score(data, folder / prompt, url, SUMMEVAL, *flags)
        means = {
            key: v for key, v in recorded_means(predictions, judge, prompt).items() if key[0] in ids
        }
        print(
            f"{judge} {prompt} (form={form}, n={n}): exit {status}, {against_record(found, means)}"
        )


def _summeval(args: argparse.Namespace) -> tuple[Path, Path]:
    folder = args.data / "summeval"
    return folder / "summeval.jsonl.gz", folder / "predictions_llm_judges.jsonl.gz"


def keep(args: argparse.Namespace, folder: Path) -> None:
    """Keep GPT-4's run and one of trivial measures, and print the table of the README."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    gpt_4(args, folder, ("direct/gpt-4",))
    data, trivial = folder / "summeval.jsonl", folder / "runs" / "trivial"
    measured = command("tools", "score", data, "--tools", "length,rougeL", "--out", trivial)
    subprocess.run(measured, cwd=ROOT, check=True, capture_output=True)
    for line in verdicts(folder / "runs" / "gpt-4", data, trivial):
        print(line)


def topical_chat(args: argparse.Namespace, folder: Path) -> None:
    """GPT-3.5 with G-Eval's prompt, 20 samples."""
    data = args.data / "topical_chat" / "topical_chat.jsonl"
    predictions = args.data / "topical_chat" / "predictions_gpt35_geval.jsonl.gz"
    recorded = recorded_means(predictions, "gpt-3.5-turbo", "geval")
    chosen = tuple(sorted({aspect for _, aspect in recorded}))
    with replay(args.replay_judge, data, predictions) as url:
        flags = ("--task", "dialogue", "--model", "direct/gpt-3.5", "--n", "20")
        status, found = score(data, folder / "topical", url, chosen, *flags)
    print(f"Topical-Chat geval, n = 20: exit {status}, {against_record(found, recorded)}")


def main() -> None:
    """Replay all and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--replay-judge", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="folder for GPT-4's run; nothing else is made")
    args = parser.parse_args()
    if args.keep is not None:
        keep(args, args.keep.absolute())
        return
    with tempfile.TemporaryDirectory() as name:
        gpt_4(args, Path(name), ("direct/gpt-4", "openai/gpt-4"))
        gpt_35(args, Path(name))
        topical_chat(args, Path(name))


if __name__ == "__main__":
    main()
