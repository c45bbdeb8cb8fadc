"""How often intervals hold the truth and tests raise false alarms, over hard designs, in one table.

    python -m benchmarks.coverage_designs [--draws 500] [--only estimate meta ...]

Sources of very unequal size (Pareto, up to 40 texts), ratings of which 70 to 90 % are the top
grade, sizes that go with quality, rows drawn at random. Each line has the figure of a reading that
found faults (`before`, from simulations of its own), and today's: coverage of the 95 % intervals
(90 % for `calibrate`) that are printed without a warning and of those with one, each with the
number of intervals, or the share of draws in which a test at .05 finds what is not there. A figure
without a warning that lies outside of 93 to 97 %, or an alarm above .06, is marked with `!` if
chance (two standard errors) does not explain it.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks import coverage
from benchmarks import decisions_coverage as decisions
from benchmarks.decisions_coverage import SCALE, sizes, uneven
from textassay import agreement
from textassay.agreement.correlation import COEFFICIENTS, Codes, Floats
from textassay.estimation.alt_test import alt_test
from textassay.estimation.columns import Columns
from textassay.estimation.compare import DOUBTFUL_P, FEW_SOURCES, paired_difference
from textassay.estimation.estimate import estimate_means
from textassay.estimation.maps import fit_cells, grid_of, learn_map
from textassay.fitting.api import fit_sync
from textassay.runtime.errors import DataError

HEAVIEST = 40
TRUTH_SOURCES = 20_000
MIN_COUNT = 20
"""Intervals below which their coverage says nothing: few draws of a design escape a warning."""
TOP = {"spread": 0.3, "70 % fives": 0.7, "82 % fives": 0.82, "90 % fives": 0.9}


@dataclass
class Found:
    """What came out of one design.

    Attributes:
        plain: Intervals without a warning: how many held the truth, how many there were.
        warned: The same of those with a warning.
        alarms: Draws in which a test found something, and draws; only where nothing is to be found.
    """

    plain: list[int] = field(default_factory=lambda: [0, 0])
    warned: list[int] = field(default_factory=lambda: [0, 0])
    alarms: list[int] = field(default_factory=lambda: [0, 0])

    def interval(self, held: bool, *, warned: bool = False) -> None:
        """Count an interval."""
        counts = self.warned if warned else self.plain
        counts[0] += held
        counts[1] += 1

    def alarm(self, raised: bool) -> None:
        """Count a test."""
        self.alarms[0] += raised
        self.alarms[1] += 1

    def told(self, low: float, high: float) -> str:
        """Return the figures as text."""
        texts = []
        for name, (hits, count) in (
            ("", self.plain), ("warned ", self.warned), ("alarms ", self.alarms)
        ):  # fmt: skip
            if not count:
                continue
            share = hits / count
            noise = 2 * math.sqrt(max(share * (1 - share), 0.01) / count)
            missed = count >= MIN_COUNT and (
                not low - noise <= share <= high + noise if name == "" else
                name == "alarms " and share > 0.06 + noise
            )  # fmt: skip
            texts.append(f"{name}{share:.3f} of {count}{' !' if missed else ''}")
        return ", ".join(texts) or "none given"


@dataclass(frozen=True)
class Design:
    """One line of the table.

    Attributes:
        what: The command.
        how: The design in words.
        before: The figure of the earlier reading.
        run: From the number of draws to what was found.
        share: Share of `--draws` that are drawn, for designs that take long.
        span: Within which the coverage is to lie.
    """

    what: str
    how: str
    before: str
    run: Callable[[int], Mapping[str, Found]]
    share: float = 1.0
    span: tuple[float, float] = (0.93, 0.97)


def estimated(draws: int, **design: object) -> dict[str, Found]:
    """Return coverage of the corrected mean."""
    found = Found()
    tallies = decisions.estimates_of_uneven(draws, **design)  # type: ignore[arg-type]
    for counts, name in ((found.plain, "without"), (found.warned, "with a warning")):
        counts[:] = [tallies[name].held, tallies[name].draws]
    return {"": found}


def detected(draws: int, labels: int) -> dict[str, Found]:
    """Return coverage of a share of yes."""
    tally = decisions.yes_no(draws, 0.5, 0.9, 0.85, n=2000, rated=labels, texts=8).held
    return {"": Found(plain=[tally.held, tally.draws])}


def told_apart(draws: int, rated: int, *, top: float, heaviest: int | None) -> dict[str, Found]:
    """Return how often `estimate --by system` finds a difference among five equal systems."""
    found = Found()
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        per = np.full(4 * rated, 1) if heaviest is None else sizes(rng, 4 * rated, heaviest)
        # five systems write about each text's source alike
        x, y, groups = uneven(rng, 5 * per, top, 0.0)
        columns = Columns(
            "a", "a", list(map(str, range(len(y)))), x, np.where(groups < rated, y, np.nan),
            np.empty((len(y), 0)), groups, True, [f"s{i % 5}" for i in range(len(y))],
            np.zeros(len(y)), None, SCALE.judge, (), 0, 0,
        )  # fmt: skip
        try:
            told = estimate_means(columns, scales=SCALE, seed=draw, by_system=True).differences
        except DataError:  # equal ratings throughout
            continue
        found.alarm(any(one.p_holm is not None and one.p_holm < 0.05 for one in told))
    return {"": found}


def sign_flips(draws: int, sources: int, noise: Callable[..., Floats]) -> dict[str, Found]:
    """Return false alarms of `compare` without a warning, over sources of unequal size."""
    found = Found()
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        at = np.repeat(np.arange(sources), sizes(rng, sources, HEAVIEST))
        gap = noise(rng, size=sources)[at] + 0.5 * rng.normal(size=len(at))
        p = paired_difference(gap, np.zeros(len(gap)), at, seed=draw).p
        # as a user sees it: what has a warning (`DOUBTFUL_P`) is no alarm
        limit = DOUBTFUL_P if sources < FEW_SOURCES else 0.05
        found.alarm(p is not None and p < limit)
    return {"": found}


def agreeing(
    draws: int, sources: int, *, top: float | None, heaviest: int | None
) -> dict[str, Found]:
    """Return coverage of the intervals of `agreement` at data set level."""

    def drawn(rng: np.random.Generator, count: int) -> tuple[Floats, Floats, Codes]:
        per = np.full(count, 5) if heaviest is None else sizes(rng, count, heaviest)
        if top is not None:
            return uneven(rng, per, top, 0.0)
        at = np.repeat(np.arange(count), per)
        quality = 0.7 * rng.normal(size=count)[at] + 0.7 * rng.normal(size=len(at))
        judge = 0.8 * quality + 0.4 * rng.normal(size=count)[at] + 0.8 * rng.normal(size=len(at))
        return judge, quality + 0.5 * rng.normal(size=len(at)), at

    x, y, _ = drawn(np.random.default_rng(99), TRUTH_SOURCES)
    truth, found = agreement.correlate(x, y), {str(name): Found() for name in COEFFICIENTS}
    for draw in range(draws):
        x, y, at = drawn(np.random.default_rng(draw), sources)
        told = agreement.correlate(x, y, groups=at, bootstrap=200, seed=draw)
        for name, span in (told.ci or {}).items():
            if span is not None:
                held = span[0] <= getattr(truth, name) <= span[1]
                found[name].interval(held, warned=told.note is not None)
    return found


def within_groups(draws: int, groups: int) -> dict[str, Found]:
    """Return coverage of the intervals of `agreement` at group level, six texts a group."""
    counts = coverage.coverage(coverage.World(systems=6), "group", groups, draws, resamples=2)
    return {name: Found(plain=list(held)) for name, held in counts.items()}


def judges_told_apart(draws: int, sources: int) -> dict[str, Found]:
    """Return how often `compare` tells judges apart who agree with people alike."""
    alarms = decisions.equal_judges(draws, sources, HEAVIEST)
    return {"pearson": Found(alarms=[round(alarms * draws), draws])}


def standing_in(draws: int, sources: int, raters: int, heaviest: int | None) -> dict[str, Found]:
    """Return how often a judge like the raters, whom nothing is given, passes `alt-test`."""
    found = Found()
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        per = np.full(sources, 5) if heaviest is None else sizes(rng, sources, heaviest)
        at = np.repeat(np.arange(sources), per)
        quality = 0.7 * rng.normal(size=sources)[at] + 0.7 * rng.normal(size=len(at))
        # whoever rates errs by source, too
        own = 0.3 * rng.normal(size=(sources, raters + 1))[at]
        given = quality[:, None] + own + 0.8 * rng.normal(size=own.shape)
        try:
            told = alt_test(given[:, -1], given[:, :-1], at, epsilon=0.0, seed=draw)
        except DataError:  # fewer than 30 items
            continue
        found.alarm(told.judge.passes)
    return {"": found}


def single_texts(draws: int, rated: int, top: float) -> dict[str, Found]:
    """Return coverage of 90 % intervals of new texts of new sources."""
    found = Found()
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        x, y, at = uneven(rng, np.full(rated + 1, 5), top, 0.0)
        train, new = at < rated, np.flatnonzero(at == rated)[:1]
        try:
            learned = learn_map(x[train], y[train], at[train], scales=SCALE, seed=draw)
        except DataError:
            continue
        grid = grid_of(y[train], SCALE.raters)
        cells = fit_cells(
            x[train], y[train], learned.cross_fitted, at[train], grid=grid, coverage=0.9
        )
        low, high = cells.around(x[new], learned.map.predict(x[new]), grid)
        found.interval(bool(low[0] - 1e-9 <= y[new][0] <= high[0] + 1e-9))
    return {"": found}


def ranked(draws: int, sources: int, heaviest: int) -> dict[str, Found]:
    """Return coverage of differences of strengths, and any difference found among equal systems."""
    tally, alarms = decisions.equal_systems(draws, sources, heaviest)
    counted = [round(alarms * tally.draws), tally.draws]
    return {"": Found(plain=[tally.held, tally.draws], alarms=counted)}


def fitted_by_row(draws: int, sources: int, texts: int) -> dict[str, Found]:
    """Return coverage of r in the report of `fit --split row`, for an average: nothing learned."""

    def drawn(rng: np.random.Generator, count: int) -> tuple[Floats, Floats, Codes]:
        at = np.repeat(np.arange(count), texts)
        quality = 0.7 * rng.normal(size=count)[at] + 0.7 * rng.normal(size=len(at))
        judges = quality[:, None] + 0.6 * rng.normal(size=(count, 2))[at]
        return judges + 0.8 * rng.normal(size=judges.shape), quality, at

    judges, quality, _ = drawn(np.random.default_rng(99), TRUTH_SOURCES)
    truth, found = agreement.pearson(judges.mean(axis=1), quality), Found()
    assert truth is not None
    for draw in range(draws):
        judges, quality, at = drawn(np.random.default_rng(draw), sources)
        rows = [
            {"id": str(i), "output": "-", "group": str(at[i]), "human": {"q": quality[i]},
             "metrics": {"a": judges[i, 0], "b": judges[i, 1]}}
            for i in range(len(at))
        ]  # fmt: skip
        report = fit_sync(
            rows, features=("a", "b"), aggregator="avg", split="row", train_fraction=0.5, seed=draw
        ).report
        one = report["held_out"]["aspects"]["q"]["agreement"]["evaluator"]["ci"]["pearson"]
        found.interval(one[0] <= truth <= one[1])
    return {"pearson": found}


def designs() -> Iterator[Design]:
    """Yield all lines."""
    heavy = {"heaviest": HEAVIEST}
    for top, how, kind, before in (
        ("spread", "equal sizes", {}, (".951", ".949", "-")),
        ("spread", "heavy sizes", heavy, (".934", ".950", ".938")),
        ("spread", "heavy sizes, rows", heavy | {"whole": False}, (".918", ".938", ".940")),
        ("90 % fives", "equal sizes", {}, (".813", ".876", ".934")),
        ("90 % fives", "equal sizes, rows", {"whole": False}, (".885", ".924", ".926")),
        ("90 % fives", "heavy sizes", heavy, (".812", ".862", ".895")),
        ("90 % fives", "heavy sizes, rows", heavy | {"whole": False}, (".758", ".775", ".864")),
        ("82 % fives", "equal sizes", {}, (".875", "-", "-")),
        ("70 % fives", "equal sizes", {}, (".893", "-", "-")),
        ("spread", "larger is worse, of sources", heavy | {"falls": 0.4}, (".884", ".914", ".906")),
        ("spread", "larger is worse, of texts", heavy | {"falls": 0.4, "weight": "texts"},
         ("0", "0", "0")),
    ):  # fmt: skip
        for rated, earlier in zip((20, 40, 100), before, strict=True):
            run = partial(estimated, rated=rated, top=TOP[top], **kind)
            yield Design("estimate", f"{top}, {how}, {rated} sources", earlier, run)
    for labels in (40, 160):
        run = partial(detected, labels=labels)
        yield Design("estimate, yes/no", f"{labels} labels, 8 a source", ".957 to .980", run,
                     span=(0.93, 0.99))  # fmt: skip
    for rated, earlier in ((12, ".030"), (20, ".067"), (40, ".040")):
        run = partial(told_apart, rated=rated, top=0.3, heaviest=None)
        yield Design("estimate --by system", f"equal sizes, {rated} sources", earlier, run, 0.5)
    run = partial(told_apart, rated=20, top=0.3, heaviest=8)
    yield Design("estimate --by system", "heavy sizes, 20 sources", ".047", run, 0.5)
    noises: tuple[tuple[str, Callable[..., Floats], tuple[str, ...]], ...] = (
        ("normal", lambda rng, size: rng.normal(size=size), (".043", ".052", ".045", ".039")),
        ("t3", lambda rng, size: rng.standard_t(3, size), (".049", ".050", ".050", ".043")),
        # skewed, so that signs are not exchangeable though the mean is 0
        (
            "exponential",
            lambda rng, size: rng.exponential(size=size) - 1,
            (".061", ".055", ".061", ".043"),
        ),
        (
            "lognormal",
            lambda rng, size: rng.lognormal(size=size) - math.exp(0.5),
            (".107", ".121", ".102", ".087"),
        ),
    )
    for name, noise, figures in noises:
        for sources, earlier in zip((8, 12, 20, 40), figures, strict=True):
            run = partial(sign_flips, sources=sources, noise=noise)
            yield Design("compare", f"heavy sizes, {name}, {sources} sources", earlier, run)
    for sources, earlier in ((12, ".056"), (20, ".066"), (40, ".086")):
        run = partial(judges_told_apart, sources=sources)
        yield Design("compare, agreement", f"heavy sizes, {sources} sources", earlier, run)
    for how, top_share, heaviest, figures in (
        ("heavy sizes, 1-5", 0.3, HEAVIEST, (".952 .962 .968", ".928 .944 .944", ".908 .910 .908")),
        ("heavy sizes, continuous", None, HEAVIEST,
         (".946 .972 .970", ".916 .932 .924", ".916 .918 .920")),
        ("equal sizes, 90 % fives", 0.9, None,
         (".853 .906 .920", ".898 .922 .930", ".928 .934 .936")),
        ("equal sizes, 1-5", 0.3, None, (".938 .958 .954", ".922 .950 .948", ".932 .950 .944")),
        ("heavy sizes, 90 % fives", 0.9, HEAVIEST, ("-", "-", "-")),
    ):  # fmt: skip
        for sources, earlier in zip((12, 20, 40), figures, strict=True):
            run = partial(agreeing, sources=sources, top=top_share, heaviest=heaviest)
            yield Design("meta, data set", f"{how}, {sources} sources", earlier, run)
    for groups in (20, 40):
        run = partial(within_groups, groups=groups)
        yield Design("meta, group", f"{groups} groups of 6", ".930 to .955", run)
    for raters, sources, heaviest, earlier in (
        (3, 8, None, ".016"), (3, 20, None, ".008"), (3, 20, HEAVIEST, ".030"),
        (5, 20, None, "<= .014"),
    ):  # fmt: skip
        run = partial(standing_in, sources=sources, raters=raters, heaviest=heaviest)
        how = f"{raters} raters, {sources} sources{', heavy sizes' if heaviest else ''}"
        yield Design("alt-test", how, earlier, run)
    for top, figures in (
        ("spread", (".961", ".957", ".956", ".951")),
        ("90 % fives", (".950", ".927", ".914", ".920")),
    ):  # fmt: skip
        for rated, earlier in zip((12, 20, 40, 100), figures, strict=True):
            run = partial(single_texts, rated=rated, top=TOP[top])
            # grades are few, so that an interval of whole grades holds more than 90 %
            yield Design("calibrate", f"{top}, {rated} sources", earlier, run, span=(0.88, 0.99))
    for heaviest, sources, earlier in (
        (5, 20, ".942 to .955; .028 to .062"), (15, 8, ".888; .175"), (15, 12, ".897; .170"),
        (15, 20, ".902; .168"), (15, 40, ".933; .080"), (15, 100, ".932; .075"),
    ):  # fmt: skip
        run = partial(ranked, sources=sources, heaviest=heaviest)
        yield Design("rank", f"1 to {heaviest} rounds, {sources} sources", earlier, run)
    for sources, texts, earlier in ((100, 16, ".880"), (40, 8, ".877")):
        run = partial(fitted_by_row, sources=sources, texts=texts)
        yield Design("fit --split row", f"{sources} sources of {texts}", earlier, run, 0.4)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--only", nargs="+", default=[""], help="commands, by their first letters")
    given = parser.parse_args()
    began = time.process_time()
    print(f"{'command':22}{'design':46}{'before':>28}  now")
    for one in designs():
        if one.what.startswith(tuple(given.only)):
            found = one.run(max(1, round(given.draws * one.share)))
            now = "; ".join(f"{name} {f.told(*one.span)}".strip() for name, f in found.items())
            print(f"{one.what:22}{one.how:46}{one.before:>28}  {now}", flush=True)
    print(f"{time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
