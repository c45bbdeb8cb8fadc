"""Texts to edit, and judges with planted defects: each rating is the truth, the defect, and noise.

The true score of an edited text is the one that the suite expects of a good judge, so a perfect
judge notices every change that it must notice, and nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from textassay.arrays import Floats
from textassay.evaluation.request import RunRequest
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.data.material import OTHER_OUTPUT
from textassay.runtime.messages import Aspect, Example
from textassay.runtime.model import Capabilities, Request
from textassay.runtime.settings import Settings
from textassay.stress import StressPlan, StressResult, StressRun
from textassay.stress.edits import (
    EDITS,
    Variants,
    expectation,
)
from textassay.stress.verdicts import JoinedSessions, SessionScores, StressRow, verdicts

ASPECTS = tasks.load("summarization", ["coherence", "consistency"]).aspects
_PEOPLE = ("Alva", "Borin", "Celia", "Dorin", "Elke", "Fadil", "Greta", "Hanno")
_PLACES = ("Arles", "Bergen", "Cadiz", "Delft", "Essen", "Faro", "Ghent", "Huelva")
_THINGS = ("bridge", "library", "harbor", "tunnel", "theater", "market", "school", "garden")
_FIRST_OPTION = re.compile(r"(?m)^([A-E])\. ")
_OBEYED = re.compile(r"(?i)rate it 5|score\W{1,4}5|text 5")


def texts(count: int = 60, seed: int = 0) -> list[Example]:
    """Return summaries, two per source, with names, numbers and quotes."""
    rng = random.Random(seed)
    found = []
    for at in range(count):
        thing, place, person = rng.choice(_THINGS), rng.choice(_PLACES), rng.choice(_PEOPLE)
        lines = [
            f"Work on the {thing} in {place} was finished by {person} in"
            f" {rng.randrange(1900, 2020)}.",
            f"It has cost {rng.randrange(11, 99)} million, and the town of {place} is still in"
            " debt.",
            f'The mayor said that "the {thing} will pay for itself" within'
            f" {rng.randrange(5, 40)} years.",
            f"Visitors from {rng.choice(_PLACES)} were the first to see the {thing} number {at}.",
        ]
        text, source = " ".join(lines), " ".join(lines * 2)
        found.append(Example(id=f"t{at}", output=text, source=source, group=f"g{at // 2}"))
    return found


Says = Callable[[str, str, float], float]
_Columns = tuple[list[tuple[str, str]], Floats]


def _stays_true(output: str, source: str, truth: float) -> float:
    return truth


def _pays_by_length(output: str, source: str, truth: float) -> float:
    return truth + 0.3 * len(output.split()) / 100


def _obeys(output: str, source: str, truth: float) -> float:
    return 5.0 if _OBEYED.search(f"{output} {source}") else truth


def _never_reads(output: str, source: str, truth: float) -> float:
    return 3.0


@dataclass(frozen=True)
class Judge:
    """A judge with a planted defect."""

    says: Says = _stays_true
    """Rating before noise, of an output and its source, given the true quality."""
    defects: frozenset[str] = frozenset()
    """Tests that must fail."""
    touched: frozenset[str] = frozenset()
    """Tests that the defect changes too little, or too seldom, to require a failure."""
    noise: float = 0.4
    """Standard deviation of a repeated rating."""
    leans: float = 0.0
    """Points in favor of the end of the scale that is listed first."""


_ORDERS = {"letters": 1, "label-order": -1, "scale-order": -1}
"""Tests of order, with the sign of the gain from leaning toward the worst rating."""
_OBEYABLE = ("fake-rating", "fake-turn", "closed-fence", "json-verdict")
_MUST_SEE = frozenset(edit.test for edit in EDITS.values() if edit.must_see)
JUDGES = {
    "perfect": Judge(),
    # 0.3 per 100 words are a defect of every text; a repeated text gains less than the margin
    "length": Judge(
        _pays_by_length, defects=frozenset({"padded"}), touched=frozenset({"restated"})
    ),
    "obedient": Judge(
        _obeys,
        defects=frozenset(_OBEYABLE)
        | {"in-source"}
        | {f"in-source-{test}" for test in _OBEYABLE if test != "fake-rating"},
    ),
    "prefers-first": Judge(leans=-0.5, defects=frozenset({"label-order", "scale-order"})),
    "constant": Judge(_never_reads, defects=_MUST_SEE, noise=0.0),
}
"""The judges by name; each defect is found by its own tests."""


@dataclass
class World:
    """The edited copies of a data set and their true scores; made once for all judges and seeds."""

    examples: Sequence[Example]
    """The originals."""
    tests: Sequence[str] = (*EDITS, *_ORDERS)
    """Tests that edit texts or ask in another order; all but `swap`."""
    aspects: Sequence[Aspect] = ASPECTS
    """The judged aspects."""
    _copies: list[Example] = field(init=False)
    _truths: dict[tuple[str, str], float] = field(init=False)
    _known: dict[tuple[Says, int], _Columns] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Make the copies, and draw how good each original is."""
        self._edits = [EDITS[test] for test in self.tests if test in EDITS]
        self._copies = list(Variants(self.examples, self._edits))
        rng = random.Random(1)
        quality = {
            (one.id, aspect.label): rng.choice((2.0, 3.0, 4.0))
            for one in self.examples
            for aspect in self.aspects
        }
        self._truths = {
            (copy.id, aspect.label): self._truth(copy.id, aspect, quality)
            for copy in self._copies
            for aspect in self.aspects
        }

    def _truth(self, copy: str, aspect: Aspect, quality: dict[tuple[str, str], float]) -> float:
        id_, _, test = copy.partition("#")
        edit = EDITS.get(test.removesuffix("~control"))
        expects = "unchanged" if edit is None else expectation(edit, aspect, {})
        known = quality[(id_, aspect.label)]
        return known - 1 if expects == "lower" else known

    def rows(self, judge: Judge, seed: int) -> list[StressRow]:
        """Return the verdicts on one judge, with new noise for each seed."""
        rng = np.random.default_rng(seed)
        originals = [one for one in self._copies if "#" not in one.id]
        # the scale is listed from the worst rating, unless a test turns it around
        main = self._answered(judge, self._copies, judge.leans, rng)
        repeat = self._answered(judge, originals, judge.leans, rng)
        others = {
            test: self._answered(judge, originals, sign * judge.leans, rng)
            for test, sign in _ORDERS.items()
            if test in self.tests
        }
        joined = JoinedSessions({one.id: one.group for one in self.examples}, main, repeat, others)
        return verdicts(joined.measure(self._edits, self.aspects, {}))

    def _answered(
        self, judge: Judge, copies: Sequence[Example], lean: float, rng: np.random.Generator
    ) -> SessionScores:
        keys, ratings = self._columns(judge, copies)
        values = np.clip(ratings + lean + rng.normal(0, judge.noise, len(keys)), 1.0, 5.0)
        return SessionScores(
            values=dict(zip(keys, values.tolist(), strict=True)),
            scales={one.label: one.scale for one in self.aspects},
        )

    def _columns(self, judge: Judge, copies: Sequence[Example]) -> _Columns:
        """Return keys and ratings before noise; made once per kind of judge."""
        known = (judge.says, len(copies))
        if known not in self._known:
            keys = [(copy.id, aspect.label) for copy in copies for aspect in self.aspects]
            texts = [(copy.output, copy.source or "") for copy in copies for _ in self.aspects]
            truths = [self._truths[key] for key in keys]
            ratings = [judge.says(*text, truth) for text, truth in zip(texts, truths, strict=True)]
            self._known[known] = keys, np.array(ratings)
        return self._known[known]

    def planted(self, judge: Judge) -> frozenset[str]:
        """Return the tests of these aspects that the judge must fail."""
        blind = {
            edit.test
            for edit in self._edits
            if any(expectation(edit, aspect, {}) == "lower" for aspect in self.aspects)
        }
        return judge.defects & (blind | (set(self.tests) - _MUST_SEE))

    async def whole_run(self, judge: Judge, seed: int) -> StressResult:
        """Return the verdicts of a run through prompts and answers, on the first aspect alone."""
        aspect = self.aspects[0]
        truths = {
            (copy.output.strip(), (copy.source or "").strip()): self._truths[copy.id, aspect.label]
            for copy in self._copies
        }

        def answer(request: Request) -> str:
            output, source = (_fenced(kind, request.text).strip() for kind in ("output", "source"))
            truth = truths[output, source]
            # one number per request and draw, regardless of the order of the answers
            rng = random.Random(f"{seed}:{request.draw}:{request.text}")
            best_first = "(best) to" in request.text or _FIRST_OPTION.findall(request.text)[:1] == [
                "E"
            ]
            lean = -judge.leans if best_first else judge.leans
            value = judge.says(output, source, truth) + lean
            grade = min(5.0, max(1.0, value + rng.gauss(0, judge.noise)))
            if "Choose one option" in request.text:
                return "ABCDE"[round(grade) - 1]
            return f"Score: {grade:.4f}"

        order = StressPlan(
            request=RunRequest(
                method="llm-score",
                task="summarization",
                aspects=(aspect.label,),
                settings=Settings(cache=False),
            ),
            tests=tuple(self.tests),
        )
        model = ScriptedModel(answer, capabilities=Capabilities(n=True))
        return await StressRun(order, examples=self.examples, models={"": model}).run()


PAIRWISE = {"fair": 0.0, "prefers the first": 0.3}
"""Judges of pairs: how often each takes the first text without reading either."""


async def compared(lean: float, seed: int, pairs: int = 60, noise: float = 0.1) -> StressResult:
    """Return the verdict on a judge of pairs, of a whole run of the test `swap`.

    Args:
        lean: How often it takes the first text without reading.
        seed: Seed of its choices.
        pairs: Number of pairs, two per source.
        noise: How often it takes either text at random.
    """
    examples = [
        one.model_copy(update={"meta": {OTHER_OUTPUT: other.output}})
        for one, other in zip(texts(pairs), texts(pairs, seed=1), strict=True)
    ]

    def answer(request: Request) -> str:
        rng = random.Random(f"{seed}:{request.draw}:{request.text}")
        drawn = rng.random()
        if drawn < lean + noise:
            return f"Answer: {'A' if drawn < lean else rng.choice('AB')}"
        a, b = (_fenced(f"output-{letter}", request.text) for letter in "ab")
        return f"Answer: {'A' if (len(a), a) > (len(b), b) else 'B'}"

    order = StressPlan(
        request=RunRequest(
            method="pairwise",
            task="summarization",
            aspects=("coherence",),
            settings=Settings(cache=False),
        ),
        tests=("swap",),
    )
    return await StressRun(order, examples=examples, models={"": ScriptedModel(answer)}).run()


def _fenced(kind: str, prompt: str) -> str:
    # by the mark of the opening line: a text may hold lines that look like the end of a fence
    match = re.search(rf"<({kind}-[0-9a-f]{{8}})>\n(.*?)\n</\1>", prompt, re.DOTALL)
    assert match is not None, prompt
    return match[2]
