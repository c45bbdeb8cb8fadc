"""`fit --method rubric` on real texts and ratings, with a judge that answers by records.

    python -m benchmarks.rubric_real_texts --data FOLDER [--on summeval topical-chat planted]
        [--labels 30 80] [--seeds 5]

The commands `fit --method rubric` and `score --method EVALUATOR` run against a local server that
rates as one recorded model did and proposes criteria from a pool (`rubric_pool`): the same model's
ratings under other prompts, properties of the text, and noise. So the figures tell what choosing
and weighing criteria is worth, not how well a model invents them. On `planted`, the texts and
ratings are SummEval's, but a date in the text is worth 1.5 points of coherence and relevance.

Compared on the documents of which no text was labeled: the rubric; the plain rating of the same
model (`llm-score`); the plain mean of that rating and all criteria proposed for the aspect; and a
jury learned by `auto` from the same labels and other records (SummEval: six newer judges;
Topical-Chat: all prompts of the one model, and UniEval). Printed per number of labels: Pearson's
r and Spearman's rho averaged over aspects and seeds, how far the rubric is ahead with the 95 %
interval over documents (1,000 bootstrap samples of them, the same for all seeds), and which
criteria stayed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.learning_data import SETS, read
from benchmarks.recorded_judges import rows_of
from benchmarks.rubric_pool import (
    PLANTED,
    Criterion,
    Rate,
    RecordedJudge,
    mentions_date,
    noise,
    of_texts,
    recorded,
)
from benchmarks.server import ROOT
from examples.mock_server import Options, serve
from textassay.cli.exits import UNSCORED
from textassay.learning import Aggregator

Floats = NDArray[np.float64]
SUMMEVAL = ("coherence", "consistency", "fluency", "relevance")
CHAT = {"naturalness": (1, 3), "coherence": (1, 3), "engagingness": (1, 3), "groundedness": (0, 1)}
DRAWS = 1000


@dataclass(frozen=True)
class Benchmark:
    """Rows with ratings, the judge's record, and the features of the jury it is compared with."""

    name: str
    task: str
    rows: list[dict[str, Any]]
    aspects: tuple[str, ...]
    own: Mapping[str, Rate]
    pool: list[Criterion]
    jury: str
    """Name of the jury's data in `learning_data.SETS`."""


@dataclass
class Measured:
    """What one fit predicts for the documents it has not seen."""

    documents: list[str]
    human: Floats
    by_arm: dict[str, Floats]
    kept: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)


def summeval(folder: Path, *, planted: bool = False) -> Benchmark:
    """Return SummEval's 1,200 summaries that GPT-3.5 rated under five prompts."""
    model = "gpt-3.5-turbo-0301"
    prompts = {
        "mcq": "as a choice of a letter", "stareval": "in stars",
        "altrts": "after a reason", "altmcq": "as a choice after a reason",
    }  # fmt: skip
    rows = [row for row in rows_of(folder / "summeval" / "summeval.jsonl.gz")
            if row["metrics"].get(f"{model}/rts/coherence") is not None]  # fmt: skip
    for row in rows:
        row["human"] = {aspect: row["human"][aspect] for aspect in SUMMEVAL}
        if planted:
            for aspect in ("coherence", "relevance"):
                # on the same scale: 4 points of quality and 1.5 of the date share its 4
                points = row["human"][aspect] - 1 + 1.5 * mentions_date(row)
                row["human"][aspect] = round(1 + 4 * points / 5.5, 4)
    own = {one: recorded(one, "", f"{model}/rts/{one}").rate for one in SUMMEVAL}
    judged = [
        recorded(f"{one.capitalize()} {how}", f"how good the {one} is.", f"{model}/{prompt}/{one}")
        for prompt, how in prompts.items() for one in SUMMEVAL
    ]  # fmt: skip
    properties = [one for one in of_texts() if "fact" not in one.name]
    name = "SummEval, a date is worth 1.5 points" if planted else "SummEval"
    return Benchmark(
        name, "summarization", rows, SUMMEVAL, own, [*judged, *properties, *noise()], "alttest"
    )


def topical_chat(folder: Path) -> Benchmark:
    """Return Topical-Chat's 360 responses that GPT-3.5 rated under seven prompts."""
    prompts = {
        "analyze_rate": "after an analysis", "geval": "by steps", "llm_eval_no_cot": "at once",
        "geval_no_auto_cot": "without steps", "analyze_rate_auto_cot": "by steps and an analysis",
        "rate_explain_auto_cot": "by steps, with a reason",
    }  # fmt: skip
    rows = list(rows_of(folder / "topical_chat" / "topical_chat.jsonl"))
    for row in rows:
        row["human"] = {aspect: row["human"][aspect] for aspect in CHAT}

    def by(prompt: str, aspect: str, name: str = "") -> Criterion:
        scale = tuple(map(float, CHAT[aspect]))
        metric = f"gpt-3.5-turbo/{prompt}/{aspect}"
        return recorded(name, f"how good the {aspect} is.", metric, (scale[0], scale[1]))

    own = {aspect: by("rate_explain", aspect).rate for aspect in CHAT}
    judged = [
        by(prompt, aspect, f"{aspect.capitalize()} {how}")
        for prompt, how in prompts.items() for aspect in CHAT
    ]  # fmt: skip
    return Benchmark(
        "Topical-Chat", "dialogue", rows, tuple(CHAT), own, [*judged, *of_texts(), *noise()],
        "topical-chat",
    )  # fmt: skip


async def measure(one: Benchmark, folder: Path, out: Path, labels: int, seed: int) -> Measured:
    """Fit with so many labels, apply the evaluator to new documents, and compute the other arms."""
    judge = RecordedJudge(one.rows, one.own, one.pool)
    data = _written(out / "data.jsonl", one.rows)
    async with serve(Options(reply=judge)) as server:
        asked = ("--model", "direct/recorded", "--api-base", server.url, "--progress", "none")
        await _command("fit", data, "--method", "rubric", "--task", one.task, "--out", out / "ev",
                       "--labels", labels, "--seed", seed, *asked)  # fmt: skip
        labeled = {row["id"] for row in rows_of(out / "ev" / "layers" / "0" / "scores.jsonl")}
        seen = {row["group"] for row in one.rows if row["id"] in labeled}
        new = [row for row in one.rows if row["group"] not in seen]
        held_out = _written(out / "new.jsonl", [{**row, "human": {}} for row in new])
        await _command("score", held_out, "--method", out / "ev", "--out", out / "run", *asked)
    report = json.loads((out / "ev" / "report.json").read_text())
    values = {(s["id"], s["aspect"]): s["value"] for s in rows_of(out / "run" / "scores.jsonl")}
    found = Measured(
        [row["group"] for row in new],
        np.array([[row["human"][aspect] for aspect in one.aspects] for row in new]),
        {
            "rubric": np.array([[values[row["id"], a] for a in one.aspects] for row in new], float),
            "jury by fit": _by_jury(one, folder, labeled, new, seed),
            "llm-score": _mean_of(one, new, {aspect: [] for aspect in one.aspects}),
            "plain mean": _mean_of(one, new, _proposed(report)),
        },
    )
    last = report["rubric"][-1]["criteria"]
    found.kept = [f"{row['criterion'].split('/')[0]}/{row['name']}" for row in last if row["kept"]]
    found.proposed = [f"{aspect}/{name}" for aspect, names in _proposed(report).items()
                      for name in names]  # fmt: skip
    return found


def _proposed(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the criteria that were proposed for each aspect in all rounds."""
    found = dict[str, list[str]]()
    for one in report["rubric"]:
        for row in one["criteria"]:
            if row["new"]:
                found.setdefault(row["criterion"].split("/")[0], []).append(row["name"])
    return found


def _mean_of(
    one: Benchmark, rows: Sequence[Mapping[str, Any]], names: Mapping[str, Sequence[str]]
) -> Floats:
    """Return the plain mean of the judge's rating of each aspect and criteria of the pool."""
    pool = {criterion.name: criterion.rate for criterion in one.pool}
    columns = []
    for aspect in one.aspects:
        rates = [one.own[aspect], *(pool[name] for name in names.get(aspect, ()))]
        values = np.array([[rate(row) for rate in rates] for row in rows], float)
        columns.append(np.nanmean(values, axis=1))
    return np.stack(columns, axis=1)


def _by_jury(
    one: Benchmark, folder: Path, labeled: set[str], new: Sequence[Mapping[str, Any]], seed: int
) -> Floats:
    """Return the predictions of `auto`, learned from the same labels and recorded judges."""
    data = read(folder, SETS[one.jury])
    ids = [row["id"] for row in rows_of(folder / SETS[one.jury].path)]
    at = {id_: number for number, id_ in enumerate(ids)}
    people = {row["id"]: row["human"] for row in one.rows}
    groups = {row["id"]: row["group"] for row in one.rows}
    train = sorted(labeled)
    jury = Aggregator("auto", seed=seed).fit(
        data.features[[at[id_] for id_ in train]],
        np.array([[people[id_][aspect] for aspect in one.aspects] for id_ in train]),
        groups=[groups[id_] for id_ in train],
        feature_names=data.feature_names,
        target_names=one.aspects,
    )
    return np.asarray(jury.predict(data.features[[at[row["id"]] for row in new]]), float)


def agreement(predicted: Floats, human: Floats) -> Floats:
    """Return r and rho, averaged over the aspects; shapes (n, aspects)."""
    filled = _filled(predicted)
    pairs = ((filled, human), (rankdata(filled, axis=0), rankdata(human, axis=0)))
    alike = np.ones((1, len(human)))
    return np.array([_weighted(x, y, alike)[0] for x, y in pairs])


def ahead_by(found: Sequence[Measured], arm: str) -> Floats:
    """Return the interval of the rubric's lead in r and rho, shape (2, 2): low and high of each.

    Documents are drawn with replacement, the same draw for every seed. Ranks are those among all
    rows of a seed, so that a draw is a weighting of documents.
    """
    names = sorted({name for one in found for name in one.documents})
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(names), size=(DRAWS, len(names)))
    times = np.stack([np.bincount(draw, minlength=len(names)) for draw in drawn]).astype(float)
    leads = np.zeros((DRAWS, 2))
    for one in found:
        rows = times[:, np.searchsorted(names, one.documents)]
        for at, ranked in enumerate((False, True)):
            people = rankdata(one.human, axis=0) if ranked else one.human
            for name, sign in (("rubric", 1), (arm, -1)):
                values = _filled(one.by_arm[name])
                values = rankdata(values, axis=0) if ranked else values
                leads[:, at] += sign * _weighted(values, people, rows) / len(found)
    return np.percentile(leads, [2.5, 97.5], axis=0).T


def _filled(predicted: Floats) -> Floats:
    return np.where(np.isnan(predicted), np.nanmean(predicted, axis=0), predicted)


def _weighted(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the correlation under each row of weights, averaged over the columns."""
    total = weights.sum(axis=1, keepdims=True)
    means = [weights @ values / total for values in (x, y, x * x, y * y, x * y)]
    spread = (means[2] - means[0] ** 2) * (means[3] - means[1] ** 2)
    found = (means[4] - means[0] * means[1]) / np.sqrt(np.where(spread > 0, spread, np.inf))
    return np.asarray(found.mean(axis=1))


def report(one: Benchmark, labels: int, found: Sequence[Measured]) -> None:
    """Print the table of one benchmark and number of labels."""
    print(f"{one.name}, {labels} labels, {len(found)} seeds")
    for arm in found[0].by_arm:
        values = np.array([agreement(each.by_arm[arm], each.human) for each in found])
        line = f"  {arm:12s} {values[:, 0].mean():.3f}/{values[:, 1].mean():.3f}"
        if arm != "rubric":
            ours = np.array([agreement(each.by_arm["rubric"], each.human) for each in found])
            lead = (ours - values).mean(axis=0)
            line += "  rubric ahead by " + ", ".join(
                f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
                for mean, (low, high) in zip(lead, ahead_by(found, arm), strict=True)
            )
        print(line, flush=True)
    kinds = {criterion.name: criterion.kind for criterion in one.pool}
    kept, proposed = (
        Counter(kinds[name.split("/", 1)[1]] for names in lists for name in names)
        for lists in ([each.kept for each in found], [each.proposed for each in found])
    )
    for kind in ("judge", "text", "noise"):
        print(f"  criteria from {kind}: {kept[kind]} of {proposed[kind]} stayed")
    common = Counter(name for each in found for name in each.kept).most_common(8)
    print("  kept: " + (", ".join(f"{name} {count}" for name, count in common) or "none"))
    dated = [f"{aspect}/{PLANTED}" for aspect in ("coherence", "relevance")]
    for name in dated if "date" in one.name else ():
        print(f"  {name} was found in {sum(name in each.kept for each in found)} of {len(found)}")


def _written(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    fields = ("id", "group", "source", "context", "output", "human")
    kept = [{name: row.get(name) for name in fields} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return path


async def _command(*arguments: object) -> None:
    """Run a command of textassay; its messages are shown if it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "textassay", *map(str, arguments),
        cwd=ROOT, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "OPENAI_API_KEY": "none"},
    )  # fmt: skip
    _, told = await process.communicate()
    # some ratings are gaps, which the record has as well
    if process.returncode not in (0, UNSCORED):
        raise SystemExit(f"textassay {arguments[0]}: {told.decode()}")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made: dict[str, Callable[[Path], Benchmark]] = {
        "summeval": summeval,
        "topical-chat": topical_chat,
        "planted": partial(summeval, planted=True),
    }
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--on", nargs="+", choices=list(made), default=list(made))
    parser.add_argument("--labels", type=int, nargs="+", default=[30, 80])
    parser.add_argument("--seeds", type=int, default=5)
    a = parser.parse_args()
    if a.data is None or not Path(a.data).is_dir():
        print("skipped: --data (or TEXTASSAY_DATA) names no folder of recorded ratings")
        return
    for name in a.on:
        one = made[name](Path(a.data))
        for labels in a.labels:
            found = []
            for seed in range(a.seeds):
                with tempfile.TemporaryDirectory() as out:
                    found.append(asyncio.run(measure(one, Path(a.data), Path(out), labels, seed)))
            report(one, labels, found)


if __name__ == "__main__":
    main()
