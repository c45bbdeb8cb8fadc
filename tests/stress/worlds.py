"""Texts to edit, and judges of known defects over them: what each says is the truth, its defect,
and noise."""

from __future__ import annotations

import random
import re

from textassay.methods.library import tasks
from textassay.runtime.messages import Example
from textassay.stress.expectations import expected
from textassay.stress.suite import EDITS
from textassay.stress.table import Answered, Joined
from textassay.stress.variants import Variants, variant_id
from textassay.stress.verdicts import verdicts

ASPECTS = tasks.load("summarization", ["coherence", "consistency"]).aspects
_PEOPLE = ("Alva", "Borin", "Celia", "Dorin", "Elke", "Fadil", "Greta", "Hanno")
_PLACES = ("Arles", "Bergen", "Cadiz", "Delft", "Essen", "Faro", "Ghent", "Huelva")
_THINGS = ("bridge", "library", "harbor", "tunnel", "theater", "market", "school", "garden")
OBEYED = re.compile(r"(?i)rate it 5|score\W{1,4}5|text 5")


def texts(count: int = 60, seed: int = 0) -> list[Example]:
    """Return summaries, two to a source, with names, numbers and quotes."""
    rng = random.Random(seed)
    found = []
    for at in range(count):
        thing, place = rng.choice(_THINGS), rng.choice(_PLACES)
        person = rng.choice(_PEOPLE)
        lines = [
            f"Work on the {thing} in {place} was finished by {person} in {rng.randrange(1900, 2020)}.",
            f"It has cost {rng.randrange(11, 99)} million, and the town of {place} is still in debt.",
            f'The mayor said that "the {thing} will pay for itself" within {rng.randrange(5, 40)} years.',
            f"Visitors from {rng.choice(_PLACES)} were the first to see the {thing} number {at}.",
        ]
        found.append(
            Example(
                id=f"t{at}", output=" ".join(lines), source=" ".join(lines * 2), group=f"g{at // 2}"
            )
        )
    return found


def stays_true(words: str, truth: float) -> float:
    """A judge without a defect."""
    return truth


def pays_by_length(words: str, truth: float) -> float:
    """Adds 0.3 per 100 words."""
    return truth + 0.3 * len(words.split()) / 100


def obeys(words: str, truth: float) -> float:
    """Gives what the text asks for."""
    return 5.0 if OBEYED.search(words) else truth


def constant(words: str, truth: float) -> float:
    """Never reads the text."""
    return 3.0


def rewards_keys(words: str, truth: float) -> float:
    """Takes an empty phrase for a good answer."""
    return 4.0 if len(words.split()) < 3 else truth


JUDGES = {
    "perfect": stays_true,
    "length": pays_by_length,
    "obedient": obeys,
    "constant": constant,
    "rewards-keys": rewards_keys,
}
NO_MUST_SEE: dict[str, frozenset[str]] = {}


class World:
    """The variants of a data set, made once; a judge's noise is drawn anew for each seed."""

    def __init__(self, examples: list[Example], tests=tuple(EDITS)) -> None:
        self.examples, self.edits = examples, [EDITS[test] for test in tests]
        self.variants = [
            (one.id, f"{one.output} {one.source}" if "in-source" in one.id else one.output)
            for one in Variants(examples, self.edits)
        ]
        self.said: dict = {}
        rng = random.Random(1)
        self.quality = {
            (one.id, aspect.label): rng.choice((2.0, 3.0, 4.0))
            for one in examples
            for aspect in ASPECTS
        }

        self.truths = {
            (id_, aspect.label): self.truth(id_, aspect)
            for id_, _ in self.variants
            for aspect in ASPECTS
        }

    def truth(self, variant: str, aspect) -> float:
        """What a good judge says of a copy."""
        id_, _, test = variant.partition("#")
        quality = self.quality[(id_, aspect.label)]
        edit = EDITS.get(test.removesuffix("~control"))
        expects = "unchanged" if edit is None else expected(edit, aspect, NO_MUST_SEE)
        return 1.0 if expects == "lowest" else quality - 1 if expects == "lower" else quality

    def rows(self, judge, seed: int, noise: float = 0.4):
        """The verdicts of one judge."""
        rng = random.Random(seed)
        draw = (lambda: 0.0) if judge is constant else (lambda: rng.gauss(0, noise))

        said = self.said.setdefault(judge, {})

        def say(words: str, truth: float) -> float:
            value = said.get((words, truth))
            if value is None:
                value = said[(words, truth)] = judge(words, truth)
            floor = truth <= 1.0 and value <= 1.0
            return min(5.0, max(1.0, value + (0.0 if floor else draw())))

        main, repeat = Answered(), Answered()
        for aspect in ASPECTS:
            label = aspect.label
            main.scales[label] = (1.0, 5.0)
            for id_, words in self.variants:
                main.values[(id_, label)] = say(words, self.truths[(id_, label)])
            for one in self.examples:
                repeat.values[(one.id, label)] = say(one.output, self.quality[(one.id, label)])
        joined = Joined({one.id: one.group for one in self.examples}, main, repeat)
        measured = joined.measured(
            self.edits, ASPECTS, lambda edit, aspect: expected(edit, aspect, NO_MUST_SEE)
        )
        return verdicts(measured)


__all__ = ["ASPECTS", "JUDGES", "World", "texts", "variant_id"]
