"""Decides for which uses a judge may be trusted, by the rules of `docs/check.md`.

A use is granted only if a 95 % interval over sources lies on the right side of a limit, so a judge
exactly at the limit is granted it in 2.5 % of data sets. It is refused if the estimate itself falls
short, and left open if the estimate suffices and the interval does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from textassay.agreement.correlation import average_ranks
from textassay.agreement.labels import LabelAgreement, label_agreement
from textassay.arrays import Floats
from textassay.checking.pair import JudgedPair
from textassay.checking.phrases import ends, interval, percent, percent_interval, subtract
from textassay.checking.statistics import (
    MIN_ITEMS,
    SystemOrder,
    best_cut,
    correlation,
    detectable_mean,
    halves,
    mean_over,
    on_a_line,
    system_order,
    with_the_others,
    within_sources,
)
from textassay.runtime.errors import DataError
from textassay.table import Alert, Estimate, column

Use = Literal["compare", "means", "gate", "texts"]
USES: tuple[Use, ...] = get_args(Use)
UseAnswer = Literal["yes", "corrected", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class UseLimits:
    """The limits for a judge's figures; docs/check.md gives the reasons."""

    follows: float = math.sqrt(0.5)
    """Correlation from which scores share at least half of their variance with people's ratings."""
    follows_blind: float = math.sqrt(0.8)
    """The same if it is unknown whether the judge favors a system: even if the rest were all favor,
    it would spread the systems half as far as people's ratings do.
    """
    helps: float = math.sqrt(0.05)
    """Correlation from which a rating with the judge's help is worth at least 1.05: 1 / (1 -
    r²).
    """
    ordered: float = 0.9
    """Share of people's differences between systems that the judge must order like people."""
    size: float = 1.5
    """Factor by which differences between systems may be larger or smaller than people's."""
    luck: float = 0.05
    """Largest share of random orders of the systems that agree as well as the judge."""
    tolerance: float = 0.05
    """Error of a mean that may be reported uncorrected, as a share of the scale."""
    caught: float = 0.8
    """Share of people's failures that a gate must stop, and of their passes that it must pass."""
    right: float = 0.9
    """Share of single texts on which the judge must agree with the one person who rated them."""
    close: float = 0.1
    """Typical error on single texts, root mean square, as a share of the scale."""
    skill: float = 0.5
    """Share of the best constant's error that the judge may have left on single texts."""
    sources: int = 10
    """Fewest sources for a verdict: with fewer, intervals cover less than promised if a single
    source has most of the errors.
    """
    enough: int = math.ceil(math.log(0.05) / math.log(0.9))
    """Fewest sources for an uncorrected use: 95 % of tables of this size show an error of a judge
    that errs in one text of ten; with fewer, too many judges look perfect.
    """
    unscored: float = 0.05
    """Largest share of rated texts without a score; above it, only systems are compared."""
    raters: int = 3
    """Fewest raters for the alternative annotator test."""


LIMITS = UseLimits()
WORDS: dict[UseAnswer, str] = {
    "no": "not yet",
    "unknown": "unknown",
    "corrected": "yes, with correction",
    "yes": "yes",
}
"""Names of the verdicts in sentences, from the worst to the best."""


@dataclass(frozen=True, slots=True)
class UseVerdict:
    """The verdict on one use of a judge."""

    answer: UseAnswer
    """`yes`; `corrected`: with a correction by ratings; `no`: not yet; `unknown`: there are too few
    data.
    """
    why: str
    """The deciding figures, in one or two sentences."""


def _verdict(use: Use, heading: str) -> dict[str, Any]:
    def cell(row: VerdictRow) -> str:
        answer = row.uses[use].answer
        return Alert(WORDS[answer]) if answer == "no" else WORDS[answer]

    return column(heading, name=use, cell=cell)


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """The verdicts on one judge, with the figures behind them."""

    pair: JudgedPair = field(
        metadata=column("judge", name="judge", cell="pair.judge")
        | column("people", name="human", cell="pair.human")
    )
    n: int = field(metadata=column("n", "count"))
    """Number of texts with a score and a rating."""
    groups: int = field(metadata=column("sources", "count"))
    """Number of their sources."""
    agreement: dict[str, Estimate] = field(
        metadata=column("agreement", "interval", cell=lambda row: row.main_figure[1])
    )
    """Measures of agreement by name."""
    constant: dict[str, Any] = field(
        metadata=column(
            "constant", "number", when=any, cell=lambda row: row.constant.get("accuracy")
        )
    )
    """The best constant answer, and its agreement."""
    detectable: float | None
    """Difference of two systems' mean ratings that these sources would show in four of five
    samples; on people's scale, or as a share for labels.
    """
    uses: dict[Use, UseVerdict] = field(
        metadata=_verdict("compare", "compare")
        | _verdict("means", "means")
        | _verdict("gate", "gate")
        | _verdict("texts", "single texts")
    )

    @property
    def main_figure(self) -> tuple[str, Estimate]:
        """The main measure of agreement, with its name."""
        name = "accuracy" if self.pair.judge_labels else "pearson"
        return name, self.agreement.get(name, Estimate(None))

    @property
    def answers(self) -> tuple[UseAnswer, ...]:
        """The verdicts on the uses, in their order."""
        return tuple(self.uses[use].answer for use in USES)

    def as_dict(self) -> dict[str, Any]:
        return {
            "judge": self.pair.judge, "human": self.pair.human, "kind": self.pair.kind,
            "n": self.n, "groups": self.groups,
            "agreement": {name: estimate.as_dict() for name, estimate in self.agreement.items()},
            "constant": self.constant, "detectable": self.detectable,
            "uses": {
                use: {"verdict": its.answer, "why": its.why} for use, its in self.uses.items()
            },
        }  # fmt: skip


def assess(pair: JudgedPair, *, seed: int = 0) -> VerdictRow:
    """Return the verdicts on one judge.

    Args:
        pair: Scores and ratings.
        seed: Seed of resamples and folds.
    """
    return _Assessment(pair, seed).row()


class _Assessment:
    """The figures of one pair; rows without a score or a rating are left out."""

    def __init__(self, pair: JudgedPair, seed: int) -> None:
        self.unfiltered, self.seed = pair, seed
        self.pair = rated = pair.only(pair.both)
        self.x, self.y, self.groups = rated.scores, rated.ratings, rated.groups
        self.sources = int(rated.groups.max(initial=-1)) + 1
        self.unit = "sources" if pair.has_groups else "texts"
        # numbers pass or fail by a cut, and so do two labels; more labels have none
        self.has_cut = len(rated.labels) == 2 or not rated.labels
        # 1 for pass and 0 for fail; the labels themselves if there are more than two
        self.judged = self._passes(self.x, rated.judge_cut) if self.has_cut else self.x
        self.human = self._passes(self.y, rated.cut) if self.has_cut else self.y
        self.labels = self._agree(self.judged)
        self.follow = self._follow()
        self.within = self._within()
        self.order = self._order()

    def row(self) -> VerdictRow:
        return VerdictRow(
            pair=self.unfiltered,
            n=len(self.x),
            groups=self.sources,
            agreement=dict(self._agreement()),
            constant=self._constant(),
            detectable=self._detectable(),
            uses=self._uses(),
        )

    # figures

    def _agree(self, judged: Floats) -> LabelAgreement:
        """Return the agreement of labels, or of numbers cut into pass and fail."""
        names = self.pair.labels or ("fail", "pass")
        return label_agreement(
            judged, self.human, labels=names, groups=self.groups, bootstrap=1000, seed=self.seed
        )

    @staticmethod
    def _passes(values: Floats, cut: float) -> Floats:
        # a mean of thirds may miss the cut by a rounding error
        return np.asarray((values >= cut - 1e-9).astype(float))

    def _follow(self) -> Estimate:
        """Return the correlation of the judge's scores with people's."""
        # labels without an error have an interval only as labels: their jackknife has no width
        if self.has_cut and not self.pair.judge_labels:
            return correlation(self.x, self.y, self.groups)
        return self._measure(self.labels, "mcc")

    def _within(self) -> Estimate:
        """Return the correlation within sources, if sources have several texts."""
        if self.has_cut and len(self.x) >= 2 * self.sources:
            return within_sources(self.x, self.y, self.groups)
        return self.follow

    def _order(self) -> SystemOrder:
        """Return the judge's ranking of systems; empty without sources, which pair them."""
        if not self.has_cut or not self.unfiltered.has_groups:
            return SystemOrder()
        return system_order(
            self.pair.on_scale, self.y, self.groups, self.pair.systems, seed=self.seed
        )

    @staticmethod
    def _measure(agreement: LabelAgreement, name: str) -> Estimate:
        return agreement.measures[name].estimate if name in agreement.measures else Estimate(None)

    def _agreement(self) -> Iterator[tuple[str, Estimate]]:
        if self.has_cut and (self.pair.kind == "number" or not self.pair.judge_labels):
            yield "pearson", self.follow
            yield "spearman", correlation(
                average_ranks(self.x), average_ranks(self.y), self.groups
            )  # fmt: skip
        if self.pair.kind == "number":
            yield "error", self._error(self.pair.on_scale)
        if self.pair.kind == "label":
            names = ["accuracy", "kappa", "balanced_accuracy", "mcc"]
            for name in [*names, *(["tpr", "tnr"] if self.has_cut else [])]:
                yield name, self._measure(self.labels, name)

    def _error(self, values: Floats) -> Estimate:
        """Return the root mean square error, in points of people's scale."""
        square = mean_over((values - self.y) ** 2, self.groups)
        figures = square.value, square.low, square.high
        return Estimate(*(None if f is None else math.sqrt(max(0.0, f)) for f in figures))

    def _constant(self) -> dict[str, Any]:
        if not len(self.y):
            return {}
        if self.pair.kind == "number":
            return {"value": float(self.y.mean()), "error": float(self.y.std())}
        counts = np.bincount(self.y.astype(int), minlength=len(self.pair.labels))
        best = int(counts.argmax())
        return {"value": self.pair.labels[best], "accuracy": float(counts[best]) / len(self.y)}

    def _detectable(self) -> float | None:
        if self.order.detectable is not None:
            return self.order.detectable
        if not self.has_cut:
            return None
        difference = detectable_mean(self.y, self.groups)
        # the difference of two means over these sources
        return None if difference is None else math.sqrt(2) * difference

    # verdicts

    def _uses(self) -> dict[Use, UseVerdict]:
        if (verdict := self._verdict_on_all_uses()) is not None:
            return dict.fromkeys(USES, verdict)
        verdicts: dict[Use, UseVerdict] = {
            "compare": self._compare(), "means": self._means(), "gate": self._gate(),
            "texts": self._texts(),
        }  # fmt: skip
        if self.sources < LIMITS.enough:
            verdicts = {use: self._with_few_sources(use, v) for use, v in verdicts.items()}
        share = self.unfiltered.unscored / (self.unfiltered.unscored + len(self.x))
        if share > LIMITS.unscored:
            for use in USES[1:]:
                if verdicts[use].answer in ("yes", "corrected"):
                    verdicts[use] = UseVerdict(
                        "unknown",
                        f"{percent(share)} of the rated texts have no score, and it is unknown what"
                        f" it would be. Of the others: {verdicts[use].why}",
                    )
        return verdicts

    def _with_few_sources(self, use: Use, verdict: UseVerdict) -> UseVerdict:
        """Return the verdict for few sources, which cannot show that no correction is needed."""
        uncorrected = use in ("gate", "texts")
        if verdict.answer != "yes" and not (uncorrected and verdict.answer == "corrected"):
            return verdict
        why = (
            f"{verdict.why} But {self.sources} {self.unit} are too few: a judge that errs in one"
            f" text of ten often makes no error in them. At least {LIMITS.enough} are needed."
        )
        if uncorrected:
            return UseVerdict("unknown", why)
        return self._correction(self.within if use == "compare" else self.follow, why)

    def _verdict_on_all_uses(self) -> UseVerdict | None:
        """Return the verdict on all uses, if one reason decides them."""
        if self.sources < LIMITS.sources:
            few = f"{self.sources} {self.unit} with a score and a rating"
            return UseVerdict("unknown", f"There are {few}; at least {LIMITS.sources} are needed.")
        if self.y.min() == self.y.max():
            return UseVerdict(
                "unknown",
                "People gave every text the same rating, so it is unknown whether the judge "
                "reads the texts; have texts of different quality rated.",
            )
        if self.x.min() == self.x.max():
            only = self._name(self.x[0])
            return UseVerdict("no", f"The judge says {only} of every text.")
        if self.follow.is_below(0):
            return UseVerdict(
                "no",
                f"The judge runs against people ({self._correlation(self.follow)}). If a low value"
                " is the better one in its column, turn it around first.",
            )
        return None

    def _name(self, value: float) -> str:
        if self.pair.judge_labels:
            return f'"{self.pair.labels[int(value)]}"'
        return f"{value:g}"

    def _correlation(self, figure: Estimate) -> str:
        """Return a correlation with its name and interval, for a sentence."""
        return f"{'r' if self.has_cut else 'MCC'} {interval(figure)}"

    def _correction(self, figure: Estimate, reason: str) -> UseVerdict:
        """Return the verdict on a judge that needs a correction by ratings.

        Args:
            figure: Its correlation with people, which shows whether a correction helps.
            reason: A sentence on why it needs one.
        """
        if figure.is_above(LIMITS.helps):
            low, worth, high = (
                # beyond .99 the ratio is meaningless
                f"{1 / (1 - min(float(end or 0), 0.99) ** 2):.1f}"
                for end in (figure.low, figure.value, figure.high)
            )
            return UseVerdict(
                "corrected",
                f"{reason} Corrected by ratings it helps: {self._correlation(figure)}, so one"
                f" rating does the work of up to {worth} [{low}, {high}].",
            )
        falls_short = figure.value is None or figure.value < LIMITS.helps
        ending = (
            f"A correction would not help: {self._correlation(figure)}, needed is"
            f" {LIMITS.helps:.2f}."
            if falls_short
            else f"Whether a correction helps is open: {self._correlation(figure)}, needed is"
            f" {LIMITS.helps:.2f}; rate more {self.unit}."
        )
        return UseVerdict("no" if falls_short else "unknown", f"{reason} {ending}")

    def _compare(self) -> UseVerdict:
        if self.order.systems > 3 and self.order.pairs:
            return self._compare_by_order()
        figure = self.within
        if figure.is_above(LIMITS.follows_blind) and not self.order.reversed:
            closely = f"The judge follows people closely: {self._correlation(figure)}."
            return UseVerdict("yes", f"{closely} {self._detectable_text()}")
        if self.order.systems:
            whose = "These systems are too few or too alike to show whether the judge favors one"
        else:
            named = bool((self.pair.systems >= 0).any())
            lacking = "the source, which pairs systems," if named else "the system of each text,"
            whose = f"No column names {lacking} so it is unknown whether the judge favors one"
        reason = f"{whose}, and it does not follow people closely enough to ignore this."
        return self._with_detectable(self._correction(figure, reason))

    def _compare_by_order(self) -> UseVerdict:
        """Return the verdict on comparisons, if people's ratings show differences of systems."""
        figure, order = self.within, self.order
        figures = (
            f"It orders {percent_interval(order.right)} of the differences that people's ratings"
            f" show among {order.systems} systems ({order.pairs} pairs; guessing: 50 %)"
        )
        if order.reversed:
            figures += f", {order.reversed} pairs the wrong way round"
        if (
            figure.is_above(LIMITS.helps)
            and order.right.is_above(LIMITS.ordered)
            and order.luck <= LIMITS.luck
        ):
            size = self._size()
            if _within(size, 1 / LIMITS.size, LIMITS.size):
                return UseVerdict("yes", f"{figures}. {self._detectable_text()}")
            times = "-" if size.value is None else f"{size.value:.2f}"
            figures += (
                f", but a difference of 1 by the judge is one of {times} by people"
                f" [{ends(size, 2)}]"
            )
        return self._with_detectable(self._correction(figure, f"{figures}."))

    def _with_detectable(self, verdict: UseVerdict) -> UseVerdict:
        return UseVerdict(verdict.answer, f"{verdict.why} {self._detectable_text()}".strip())

    def _detectable_text(self) -> str:
        difference = self._detectable()
        if difference is None:
            return ""
        in_words = _difference(difference, as_share=self.pair.kind == "label")
        return (
            f"Ratings of {self.sources} {self.unit} would show a difference of {in_words} between"
            " two systems."
        )

    def _size(self) -> Estimate:
        """Return people's difference between systems per difference of 1 by the judge."""
        systems = self.pair.systems
        has_system = systems >= 0
        codes = np.unique(systems[has_system], return_inverse=True)[1]
        x, y = self.pair.on_scale[has_system], self.y[has_system]
        sizes = np.bincount(codes)
        means = [np.bincount(codes, weights=values) / sizes for values in (x, y)]
        judge = means[0] - means[0].mean()
        spread = float(judge @ judge)
        if spread <= 0:
            return Estimate(None)
        slope = float(judge @ (means[1] - means[1].mean())) / spread
        # each row's contribution to the slope: its system's deviation times its residual
        place = judge[codes] / (sizes[codes] * spread)
        residual = (y - means[1].mean()) - slope * (x - means[0].mean())
        added = mean_over(place * residual * len(x), self.groups[has_system])
        if added.value is None or added.high is None:
            return Estimate(slope)
        half = added.high - added.value
        return Estimate(slope, slope - half, slope + half)

    def _means(self) -> UseVerdict:
        if not self.has_cut:
            return self._shares()
        if self.pair.kind == "label":
            (low, high), values = (0.0, 1.0), self.judged
        else:
            (low, high), values = self.pair.scale, self.pair.on_scale
        bias = mean_over(values - self.y, self.groups)
        tolerance = LIMITS.tolerance * (high - low)
        text = self._bias_in_words(bias, values)
        if self.pair.kind == "number" and not self.pair.same_scale:
            return self._correction(self.follow, f"Judge and people use different scales. {text}")
        if _within(bias, -tolerance, tolerance) and self.follow.is_above(LIMITS.follows):
            return self._trust(text)
        return self._correction(self.follow, text)

    def _bias_in_words(self, bias: Estimate, values: Floats) -> str:
        """Describe the difference of both means, from the judge's values on people's scale."""
        judge, people = float(values.mean()), float(self.y.mean())
        as_share = self.pair.kind == "label"
        seen = self._would_show(values - self.y, as_share=as_share)
        if as_share:
            name = self.pair.labels[1]
            return (
                f'It says "{name}" of {percent(judge)} of the texts, people of {percent(people)}:'
                f" {100 * (bias.value or 0):+.1f} points [{ends(bias, 1, 100)}]{seen}."
            )
        return (
            f"Its mean is {judge:.2f}, people's {people:.2f}: {bias.value or 0:+.2f}"
            f" [{ends(bias, 2)}]{seen}."
        )

    def _would_show(self, values: Floats, *, as_share: bool) -> str:
        """Return the mean that these sources would distinguish from 0, in words; may be empty."""
        difference = detectable_mean(values, self.groups)
        if difference is None:
            return ""
        in_words = _difference(difference, as_share=as_share)
        return f" ({self.sources} {self.unit} would show a difference of {in_words} or more)"

    def _trust(self, finding: str) -> UseVerdict:
        closely = f"It follows people closely: {self._correlation(self.follow)}."
        return UseVerdict("yes", f"{finding} {closely}")

    def _shares(self) -> UseVerdict:
        """Return the verdict on means of more than two labels, which are their shares."""
        offs = {
            name: mean_over((self.x == at).astype(float) - (self.y == at), self.groups)
            for at, name in enumerate(self.pair.labels)
        }
        name, worst = max(offs.items(), key=lambda item: abs(item[1].value or 0))
        finding = (
            f'The share of "{name}" is off most: {100 * (worst.value or 0):+.1f} points'
            f" [{ends(worst, 1, 100)}]."
        )
        fits = all(_within(off, -LIMITS.tolerance, LIMITS.tolerance) for off in offs.values())
        if fits and self.follow.is_above(LIMITS.follows):
            return self._trust(finding)
        return self._correction(self.follow, finding)

    def _gate(self) -> UseVerdict:
        if not self.has_cut:
            return UseVerdict(
                "unknown",
                f"A gate needs two labels, pass and fail; people gave {len(self.pair.labels)}.",
            )
        if self.human.min() == self.human.max():
            return UseVerdict("unknown", f"People {self._pass_condition()} all texts or none.")
        verdict = self._gate_of(self.judged, self.labels, self._rule())
        if verdict.answer == "yes" or len(np.unique(self.x)) < 3:
            return verdict
        if (moved := self._move_cut()) is None:
            return verdict
        cut, judged = moved
        at = f" With its cut moved to about {cut:g} (chosen on other {self.unit}): "
        better = self._gate_of(judged, self._agree(judged), at)
        if better.answer == "yes":
            return UseVerdict("corrected", f"{verdict.why}{better.why.replace(': It', ': it')}")
        return verdict

    def _rule(self) -> str:
        """Describe the cut, if people gave numbers."""
        cut, people_cut = self.pair.judge_cut, self.pair.cut
        if self.pair.judge_labels:
            return ""
        if self.pair.kind == "label":
            return f"The judge passes {cut:g} and above. "
        same = "" if cut == people_cut else f", by the judge {cut:g}"
        return f"Passing is {people_cut:g} and above{same}. "

    def _pass_condition(self) -> str:
        if self.pair.kind == "number":
            return f"rated {self.pair.cut:g} or more"
        return f'said "{self.pair.labels[1]}" of'

    def _gate_of(self, judged: Floats, agreement: LabelAgreement, before: str) -> UseVerdict:
        """Return the verdict on a gate that passes texts with 1 in `judged`; `before` begins it."""
        human = self.human
        through, stopped = self._measure(agreement, "tnr"), self._measure(agreement, "tpr")
        best = float(human.mean() >= 0.5)
        missed, failures = subtract(through, 1), int((human == 0).sum())
        alarms = subtract(stopped, 1)
        constant = float(np.mean(human == best))
        word = self._word(best)
        accuracy = self._measure(agreement, "accuracy")
        gain = (judged == human).astype(float) - (human == best)
        seen = self._would_show(gain, as_share=True)
        finding = (
            f"{before}It lets {percent_interval(missed)} of people's {failures} failures through"
            f" and stops {percent_interval(alarms)} of what they pass. It agrees on"
            f" {percent_interval(accuracy, 1)} of the texts; always saying {word} agrees on"
            f" {percent(constant, 1)}{seen}."
        )
        ahead = mean_over(gain, self.groups)
        limits = (through, LIMITS.caught), (stopped, LIMITS.caught), (ahead, 0.0)
        if all(share.is_above(limit) for share, limit in limits):
            return UseVerdict("yes", finding)
        if all(share.value is not None and share.value >= limit for share, limit in limits):
            return UseVerdict(
                "unknown",
                f"{finding} That would do, but the intervals reach beyond the limits; rate more"
                f" {self.unit}.",
            )
        most = percent(1 - LIMITS.caught)
        needed = f"Needed: at most {most} of each, and to agree more often than that."
        return UseVerdict("no", f"{finding} {needed}")

    def _word(self, best: float) -> str:
        """Return the name of a label, or of passing or failing, in quotation marks."""
        if self.pair.kind == "label":
            return f'"{self.pair.labels[int(best)]}"'
        return '"pass"' if best else '"fail"'

    def _move_cut(self) -> tuple[float, Floats] | None:
        """Return a cut and the verdicts by it.

        Each half of the sources is cut where the other half agrees best.
        """
        half = halves(self.groups, self.seed)
        judged, cuts = np.empty(len(self.x)), []
        for part in (half, ~half):
            cut = best_cut(self.x[~part], self.human[~part])
            if cut is None:
                return None
            judged[part] = self._passes(self.x[part], cut)
            cuts.append(cut)
        return float(np.mean(cuts)), judged

    def _texts(self) -> UseVerdict:
        if (verdict := self._beside_raters()) is not None:
            return verdict
        if not self.has_cut or self.pair.kind == "label":
            return self._single_labels()
        return self._single_numbers()

    def _single_labels(self) -> UseVerdict:
        best = float(np.bincount(self.human.astype(int)).argmax())
        wrong, constant = self.judged != self.human, (self.human != best).astype(float)
        agrees = self._measure(self.labels, "accuracy")
        excess = mean_over(wrong - LIMITS.skill * constant, self.groups)
        finding = (
            f"It agrees with the person on {percent_interval(agrees, 1)} of the texts; always"
            f" saying {self._word(best)} agrees on {percent(1 - float(constant.mean()), 1)}."
        )
        needed = f"{percent(LIMITS.right)}, and half of that constant's errors at most"
        return self._single(finding, needed, agrees, LIMITS.right, excess)

    def _single_numbers(self) -> UseVerdict:
        raw = self._single_of(self.pair.on_scale)
        if raw.answer == "yes":
            return raw
        return self._calibration_verdict(self._single_of(self._line_values()), raw)

    def _line_values(self) -> Floats:
        """Return the scores on people's scale by a line that was learned from other sources."""
        return on_a_line(self.x, self.y, self.groups, self.seed)

    def _calibration_verdict(self, moved: UseVerdict, raw: UseVerdict) -> UseVerdict:
        """Return the verdict on calibrated scores if they suffice, else the one on raw scores."""
        if moved.answer != "yes":
            return raw
        return UseVerdict("corrected", f"Calibrated on other {self.unit}: {moved.why}")

    def _single_of(self, values: Floats) -> UseVerdict:
        width = self.pair.scale[1] - self.pair.scale[0]
        squares, constant = (values - self.y) ** 2, (self.y - self.y.mean()) ** 2
        error = self._error(values)
        excess = mean_over(squares - LIMITS.skill * constant, self.groups)
        close = subtract(error, unit=width)
        finding = (
            f"Its typical error on a text is {error.value or 0:.2f} [{ends(error, 2)}] on a scale"
            f" of {self.pair.scale[0]:g} to {self.pair.scale[1]:g}; always saying"
            f" {self.y.mean():.2f} errs by {self.y.std():.2f}."
        )
        needed = (
            f"an error of at most {LIMITS.close * width:.2f} ({percent(LIMITS.close)} of the scale)"
            f" and {math.sqrt(LIMITS.skill) * self.y.std():.2f} (half of the variance of people's"
            " ratings)"
        )
        return self._single(finding, needed, close, -LIMITS.close, excess)

    def _single(
        self, text: str, needed: str, good: Estimate, limit: float, excess: Estimate
    ) -> UseVerdict:
        """Return the verdict on single texts.

        Args:
            text: The figures, in words.
            needed: What they have to be, in words.
            good: Agreement, or the negative error.
            limit: Least value of `good`.
            excess: The judge's error less the allowed share of the constant's; at most 0 is needed.
        """
        beaten = subtract(excess)
        if good.is_above(limit) and beaten.is_above(0.0):
            return UseVerdict("yes", text)
        if good.reaches(limit) and beaten.reaches(0.0):
            return UseVerdict(
                "unknown", f"{text} That would do, but the interval reaches beyond the limit."
            )
        return UseVerdict("no", f"{text} Needed: {needed}.")

    def _beside_raters(self) -> UseVerdict | None:
        """Return whether the judge may replace one of several raters; `None` if too few."""
        raters = self.pair.raters
        shared = ((~np.isnan(raters)) & ((~np.isnan(raters)).sum(axis=1) > 1)[:, None]).sum(axis=0)
        if np.count_nonzero(shared >= MIN_ITEMS) < LIMITS.raters:
            return None
        values, finding = self.pair.on_scale, ""
        if self.pair.kind == "number":
            follows, rater = with_the_others(values, raters, self.groups)
            finding = (
                f" It follows the other raters with r {interval(follows)}; a rater follows"
                f" them with {rater:.2f}."
            )
            needed = " Needed: half the variance that a rater shares with the others."
            if (follows.value or 0) < LIMITS.follows * rater:
                return UseVerdict("no", (finding + needed).strip())
            if not follows.is_above(LIMITS.follows * rater):
                return UseVerdict(
                    "unknown", f"{finding.strip()}{needed} The interval reaches below it."
                )
        raw = self._alternative(values, finding)
        if raw is None or raw.answer == "yes" or self.pair.kind == "label":
            return raw
        grid = np.unique(raters[~np.isnan(raters)])
        nearest = grid[np.abs(self._line_values()[:, None] - grid).argmin(axis=1)]
        return self._calibration_verdict(self._alternative(nearest, finding) or raw, raw)

    def _alternative(self, values: Floats, ending: str) -> UseVerdict | None:
        """Return the verdict of the alternative annotator test; `None` if it cannot be computed."""
        # loads scipy's optimizers and statistics, which few checks need
        from textassay.estimation.alt_test import alt_test

        try:
            test = alt_test(
                values,
                self.pair.raters,
                self.groups,
                metric="match" if self.pair.kind == "label" else "rmse",
                seed=self.seed,
            )
        except DataError:
            return None  # raters share too few items; the rule for one person decides
        judge, over = test.judge, test.over_constant
        gain = Estimate(over.value, over.low, over.high)
        wins = round(judge.omega * test.raters)
        text = (
            f"It is as near to the other raters as a rater is in {percent(judge.rho)} of"
            f" comparisons and may replace {wins} of {test.raters} raters; the best constant has"
            f" {percent(test.constant.rho)} (difference {100 * (gain.value or 0):+.1f} points"
            f" [{ends(gain, 1, 100)}]).{ending}"
        )
        if test.may_stand_in:
            return UseVerdict("yes", text)
        # a p below one half means that the estimate itself is on the judge's side
        ahead = sum(rater.p < 0.5 for rater in judge.per_rater) >= test.raters / 2
        if ahead and (gain.value or 0) > 0:
            return UseVerdict(
                "unknown", f"{text} That would do, but these {self.unit} are too few to show it."
            )
        return UseVerdict("no", f"{text} Needed: half of the raters, and more than the constant.")


def _difference(size: float, *, as_share: bool) -> str:
    return f"{100 * size:.1f} points" if as_share else f"{size:.2f}"


def _within(figure: Estimate, low: float, high: float) -> bool:
    return bool(figure.ends) and figure.ends[0] >= low and figure.ends[1] <= high
