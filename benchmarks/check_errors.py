"""How often `textassay check` grants a use wrongly, and whether its verdicts are repeatable.

    python -m benchmarks.check_errors [--draws 100]              planted judges, a minute a hundred
    python -m benchmarks.check_errors --few [--draws 1000]       the same, tables of 10 to 28 rows
    python -m benchmarks.check_errors --recorded DATA [--splits 20]   recorded judges, halves

Planted judges: data sets are drawn from a known distribution, and a judge of a known kind rates
them, so that it is known whether it deserves a yes; some judges are exactly at a limit of a rule,
where errors are most likely. A verdict is an error if it is yes (or yes with correction) where the
judge deserves less.

Recorded judges: the verdict from a random half of the sources is compared with the verdict from
the other half. The two contradict each other if one is `yes` or `corrected` and the other is `no`;
`unknown` contradicts nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from textassay.checking.pair import JudgedPair
from textassay.checking.sources import read_pairs
from textassay.checking.verdicts import LIMITS, USES, Use, assess
from textassay.runtime.errors import TextassayError

Floats = np.ndarray[Any, Any]
SIZES = ((30, 8), (100, 4), (400, 1))
"""Numbers of sources, and of texts per source."""
FEW = ((10, 1), (12, 1), (16, 1), (20, 1), (28, 1))
"""The same for tables that a person rates in an hour."""
SYSTEMS = 8
_YES, _HELPED = ("yes",), ("yes", "corrected")


@dataclass(frozen=True)
class World:
    """Texts with people's standardized opinions."""

    quality: Floats
    groups: Floats
    systems: Floats
    length: Floats
    rng: np.random.Generator

    def noise(self, shared: float = 0.5) -> Floats:
        """Return errors with variance 1, a share of which the texts of a source have in common."""
        own = self.rng.normal(size=len(self.groups))
        common = self.rng.normal(size=int(self.groups.max()) + 1)[self.groups]
        mixed: Floats = np.sqrt(1 - shared) * own + np.sqrt(shared) * common
        return mixed


def world(sources: int, texts: int, rng: np.random.Generator) -> World:
    """Draw texts of systems that differ in quality and, independently, in length."""
    groups = np.repeat(np.arange(sources), texts)
    # the systems of a source are drawn without repetition, as in a table of systems by articles
    systems = np.concatenate([rng.permutation(SYSTEMS)[:texts] for _ in range(sources)])
    effect, lengths = rng.normal(size=SYSTEMS), rng.normal(size=SYSTEMS)
    quality = (
        0.5 * _standard(effect)[systems]
        + 0.5 * rng.normal(size=sources)[groups]
        + np.sqrt(0.5) * rng.normal(size=len(groups))
    )
    length = np.sqrt(0.5) * (_standard(lengths)[systems] + rng.normal(size=len(groups)))
    return World(quality, groups, systems, length, rng)


def _standard(values: Floats) -> Floats:
    standard: Floats = (values - values.mean()) / values.std()
    return standard


@dataclass(frozen=True)
class Planted:
    """A kind of judge, and the verdicts that it deserves."""

    name: str
    label: bool
    judge: Callable[[World, Floats], Floats]
    """Makes scores from the texts and people's ratings."""
    denied: tuple[Use, ...]
    """Uses for which it deserves no `yes`."""
    useless: tuple[Use, ...] = ()
    """Uses for which not even a correction would help."""


def _numbers(shift: Callable[[World], Floats]) -> Callable[[World, Floats], Floats]:
    return lambda w, y: 3 + 0.8 * shift(w)


def _at(r: float) -> Callable[[World], Floats]:
    # the judge follows people's opinions in part; the rest of its score is noise
    return lambda w: r * w.quality + np.sqrt(1 - r * r) * w.noise()


def _flipped(miss: float, alarm: float) -> Callable[[World, Floats], Floats]:
    """Return a judge that errs on some failures and passes, in part on whole sources."""

    def judge(w: World, y: Floats) -> Floats:
        from statistics import NormalDist

        cut = NormalDist().inv_cdf
        u = w.noise()
        wrong = np.where(y == 1, u < cut(alarm), u < cut(miss))
        return np.where(wrong, 1 - y, y)

    return judge


def _slips(share: float) -> Callable[[World, Floats], Floats]:
    """Return people's ratings, a share of them replaced by the ratings of other texts."""
    return lambda w, y: np.where(w.rng.random(len(y)) < share, w.rng.permutation(y), y)


def _easy(w: World, y: Floats) -> Floats:
    """Return verdicts that are right on half of the texts, and guesses on the others."""
    return np.where(w.rng.random(len(y)) < 0.5, y, (w.rng.random(len(y)) < y.mean()).astype(float))


ALL: tuple[Use, ...] = USES
KINDS = (
    Planted("noise", False, _numbers(lambda w: w.noise()), ALL, ALL),
    Planted("noise", True, lambda w, y: (w.rng.random(len(y)) < 0.7) * 1.0, ALL, ALL),
    Planted("nearly constant", False, lambda w, y: 4.0 + (w.rng.random(len(y)) < 0.02), ALL, ALL),
    Planted("nearly constant", True, lambda w, y: 1.0 - (w.rng.random(len(y)) < 0.02), ALL, ALL),
    Planted("inverted", False, _numbers(lambda w: -_at(0.8)(w)), ALL, ALL),
    Planted("inverted", True, lambda w, y: 1 - _flipped(0.1, 0.1)(w, y), ALL, ALL),
    Planted("length", False, _numbers(lambda w: w.length), ALL, ALL),
    Planted("length", True, lambda w, y: (w.length > -0.5) * 1.0, ALL, ALL),
    Planted("right on easy texts only", True, _easy, ALL),
    Planted("wrong in one text of seven", False, _slips(2 / 7), ("gate", "texts")),
    Planted("wrong in one text of seven", True, _flipped(1 / 7, 1 / 7), ("texts",)),
    Planted("biased by half a point", False, lambda w, y: y + 0.5 + 0.1 * w.noise(),
            ("means", "texts")),
    Planted("favors systems", False,
            lambda w, y: y + 0.8 * np.random.default_rng(5).permutation(
                np.linspace(-1.5, 1.5, SYSTEMS))[w.systems], ("compare", "texts")),
    Planted("follows the source alone", False,
            lambda w, y: 3 + 0.8 * (np.bincount(w.groups, weights=w.quality)
                                    / np.bincount(w.groups))[w.groups]
            if np.bincount(w.groups).max() > 1 else 3 + 0.8 * w.noise(),
            ("compare", "texts", "gate"), ("compare",)),
    Planted("at the limit: r of half the variance", False, _numbers(_at(LIMITS.follows - 0.005)),
            ("means",)),
    Planted("at the limit: r that helps", False, _numbers(_at(LIMITS.helps - 0.005)), ALL,
            ("means",)),
    Planted("at the limit: bias", False,
            lambda w, y: y + 4 * LIMITS.tolerance + 0.2 * w.noise(), ("means",)),
    Planted("at the limit: error", False,
            lambda w, y: y + 4 * LIMITS.close * w.noise(), ("texts",)),
    Planted("at the limit: misses", True, _flipped(0.2, 0.02), ("gate",)),
    Planted("at the limit: alarms", True, _flipped(0.02, 0.2), ("gate",)),
    Planted("at the limit: agreement", True,
            _flipped(1 - LIMITS.right, 1 - LIMITS.right), ("texts",)),
)  # fmt: skip
GOOD = (
    Planted("good", False, lambda w, y: y + 0.2 * w.noise(), ()),
    Planted("good", True, _flipped(0.03, 0.03), ()),
    Planted("useful", False, _numbers(_at(0.5)), ("means", "gate", "texts")),
    Planted("useful", True, _flipped(0.25, 0.15), ("gate", "texts")),
)  # fmt: skip


def draw(
    kind: Planted, size: tuple[int, int], rng: np.random.Generator, systems: bool
) -> JudgedPair:
    """Return one data set of a planted judge; few rows have whole ratings and unknown systems."""
    w = world(*size, rng)
    y = (w.quality > -0.5).astype(float) if kind.label else 3 + 0.8 * w.quality
    scores = kind.judge(w, y)
    if size in FEW:
        systems = False
        scores, y = (np.clip(np.round(one), 0 if kind.label else 1, 5) for one in (scores, y))
    return JudgedPair(
        judge="judge", human="people", scores=scores, ratings=y,
        raters=np.empty((len(y), 0)), groups=w.groups, has_groups=True,
        systems=w.systems if systems else np.full(len(y), -1), judge_labels=kind.label,
        labels=("no", "yes") if kind.label else (), scale=(0.0, 1.0) if kind.label else (1.0, 5.0),
        judge_scale=(0.0, 1.0) if kind.label else (1.0, 5.0),
    )  # fmt: skip


def planted(draws: int, sizes: tuple[tuple[int, int], ...] = SIZES) -> None:
    """Print, for each kind of judge, the share of data sets in which a use was granted."""
    print("share granted, in %: `yes` where it deserves no yes, and in brackets `yes` or"
          " `yes, with correction` where no correction helps")  # fmt: skip
    print(f"{'judge':42}{'ratings':9}" + "".join(f"{use:>16}" for use in USES))
    worst: Counter[Use] = Counter()
    total: Counter[Use] = Counter()
    for kind in (*KINDS, *GOOD):
        granted: Counter[tuple[Use, str]] = Counter()
        count = 0
        for at, size in enumerate(sizes):
            for n in range(draws // len(sizes)):
                rng = np.random.default_rng([at, n])
                row = assess(draw(kind, size, rng, systems=n % 2 == 0), seed=n)
                granted.update((use, verdict.answer) for use, verdict in row.uses.items())
                count += 1
        cells = []
        for use in USES:
            yes, either = (sum(granted[use, one] for one in kinds) for kinds in (_YES, _HELPED))
            if use in kind.denied:
                worst[use] += yes
                total[use] += count
            mark = "!" if use in kind.denied and yes > 0.05 * count else ""
            cell = (
                f"{mark}{100 * yes / count:.1f}"
                if use in kind.denied
                else f"({100 * yes / count:.0f})"
            )
            if use in kind.useless:
                cell += f" [{100 * either / count:.1f}]"
            cells.append(f"{cell:>16}")
        print(
            f"{kind.name:42}{'labels' if kind.label else 'numbers':9}" + "".join(cells), flush=True
        )
    print(f"{'all that deserve a no':51}"
          + "".join(f"{100 * worst[use] / max(1, total[use]):>16.1f}" for use in USES))  # fmt: skip


def recorded_pairs(data: Path) -> Iterator[tuple[str, JudgedPair]]:
    """Yield recorded judges and people, with the names of their sets."""
    yield from _read(data, "alttest/summeval.jsonl.gz", "SummEval")
    yield from _read(data, "summeval/summeval.jsonl.gz", "SummEval 2023", ("gpt-4-0314", "gpt-3.5"))
    yield from _read(
        data, "topical_chat/topical_chat.jsonl", "Topical-Chat", ("unieval", "gpt-3.5")
    )
    yield from _read(
        data, "faithbench/faithbench.jsonl.gz", "FaithBench", human=("human.faithful",)
    )
    yield from _read(data, "devai/devai.jsonl.gz", "DevAI")
    yield from _read(data, "newsroom/newsroom.jsonl.gz", "Newsroom")
    yield from _read(data, "fed_turn/fed_turn.jsonl", "FED turns")
    yield from _read(
        data, "rewardbench2/rewardbench2.jsonl.gz", "RewardBench 2", ("/base/", "/criteria/")
    )
    for name in ("wax", "lgbteen", "mtbench"):
        yield from _of_labels(data / f"alttest/{name}.jsonl.gz", name)
    yield from _jev(data / "jevals/jev_pubmedqa.jsonl.gz", "PubMedQA (Jev)")
    yield from _jev(data / "jevals/jev_helpsteer2.jsonl.gz", "HelpSteer2 (Jev)")


def _read(
    data: Path, path: str, name: str, judges: tuple[str, ...] = (), human: tuple[str, ...] = ()
) -> Iterator[tuple[str, JudgedPair]]:
    try:
        found = read_pairs(data / path, human=human).pairs
    except TextassayError as error:
        print(f"{path}: {error}")
        return
    yield from (
        (name, pair) for pair in found if not judges or any(one in pair.judge for one in judges)
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return [json.loads(line) for line in content.splitlines()]


def _of_labels(path: Path, name: str) -> Iterator[tuple[str, JudgedPair]]:
    """Return categories that are coded as numbers as words."""
    rows = _rows(path)
    table = [
        {f"rater {at}": None if one is None else f"label {one:g}"
         for at, one in enumerate(row["annotators"]["label"])}
        | {f"judge {judge}": f"label {value:g}" for judge, value in row["metrics"].items()
           if value is not None}
        for row in rows
    ]  # fmt: skip
    for judge in rows[0]["metrics"]:
        people = [f"rater {at}" for at in range(len(rows[0]["annotators"]["label"]))]
        try:
            [pair] = read_pairs(table, judge=[f"judge {judge}"], human=people).pairs
        except TextassayError as error:
            print(f"{name} {judge}: {error}")
            continue
        yield name, pair


def _jev(path: Path, name: str) -> Iterator[tuple[str, JudgedPair]]:
    rows = [row for row in _rows(path) if row["repeat"] == 0]
    table = []
    for row in rows:
        [human] = row["human"].values()
        yes = row["probabilities"].get("yes")
        table.append({"jev": row.get("score") if yes is None else yes, "human": human})
    yield name, read_pairs(table).pairs[0]


def recorded(data: Path, splits: int) -> None:
    """Print the verdicts on recorded judges, and how often the verdicts on two halves agree."""
    print(f"{'set':18}{'judge':34}{'people':24}{'n':>6}" + "".join(f"{use:>11}" for use in USES))
    equal: Counter[Use] = Counter()
    granted: Counter[Use] = Counter()
    holds: Counter[Use] = Counter()
    broken: Counter[tuple[str, str, Use]] = Counter()
    total = 0
    for name, pair in recorded_pairs(data):
        row = assess(pair)
        answers = "".join(f"{row.uses[use].answer:>11}" for use in USES)
        judge, human = pair.judge.removeprefix("metrics."), pair.human.partition(",")[0]
        print(f"{name:18}{judge[:33]:34}{human[:23]:24}{row.n:>6}{answers}", flush=True)
        number = int(pair.groups.max()) + 1
        for split in range(splits):
            first = np.random.default_rng(split).permutation(number) < number // 2
            halves = [
                assess(pair.only(part[pair.groups]), seed=split).uses for part in (first, ~first)
            ]
            total += 1
            for use in USES:
                a, b = (half[use].answer for half in halves)
                equal[use] += a == b
                granted[use] += (a in _HELPED) == (b in _HELPED)
                denied = {a, b} & set(_HELPED) and "no" in (a, b)
                holds[use] += not denied
                if denied:
                    broken[f"{name}: {judge}", human, use] += 1
    if not total:
        return
    for words, counts in (
        ("holds on the other half", holds),
        ("is granted in both halves, or in neither", granted),
        ("is the same word", equal),
    ):
        print(f"{words:82}" + "".join(f"{100 * counts[use] / total:>10.1f}%" for use in USES))
    for (judge, human, use), count in broken.most_common(12):
        print(f"  {count} of {splits} splits differ: {judge}, {human}, {use}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=99, help="data sets per kind of judge")
    parser.add_argument("--few", action="store_true", help="tables of 10 to 28 rows")
    parser.add_argument("--recorded", type=Path, help="folder of recorded judges")
    parser.add_argument("--splits", type=int, default=20)
    given = parser.parse_args()
    if given.recorded is None:
        planted(given.draws, FEW if given.few else SIZES)
    else:
        recorded(given.recorded, given.splits)


if __name__ == "__main__":
    main()
