"""A scripted judge whose criteria carry known signal, and the rated texts it judges."""

import re

import numpy as np

from textassay.runtime.backends.scripted import ScriptedModel

PARTS = {
    "coherence": ("Order", "Focus", "Links", "Shape"),
    "fluency": ("Grammar", "Spelling", "Wording", "Length"),
    "Order": ("Opening", "Ending", "Titles", "Margins"),
    "Grammar": ("Tense", "Number", "Case", "Mood"),
}
NOISE = {
    "coherence": 2.0,
    "fluency": 2.0,
    "Order": 1.0,
    "Grammar": 1.0,
    "Opening": 0.2,
    "Ending": 0.2,
    "Tense": 0.2,
}


class Planted:
    """Texts with two human aspects: coherence is made of an opening and an ending, fluency of
    grammar alone.

    Aspects' own ratings are noisy; `Order` and `Grammar` are less so, and their parts hardly; all
    other criteria are noise.
    """

    def __init__(self, n=240, seed=0, per_group=6):
        rng = np.random.default_rng(seed)
        opening, ending, grammar = rng.normal(size=(3, n))
        signal = {
            "coherence": (opening + ending) / 2**0.5,
            "fluency": grammar,
            "Order": (opening + ending) / 2**0.5,
            "Grammar": grammar,
            "Opening": opening,
            "Ending": ending,
            "Tense": grammar,
        }
        names = [*PARTS, *(part for parts in PARTS.values() for part in parts if part not in PARTS)]
        self._ratings = {
            name: np.clip(
                np.round(3 + signal.get(name, 0) + NOISE.get(name, 1.0) * rng.normal(size=n)), 1, 5
            )
            for name in names
        }
        human = {
            name: np.clip(3 + signal[name] + 0.2 * rng.normal(size=n), 1, 5)
            for name in ("coherence", "fluency")
        }
        self.rows = [
            {
                "id": f"r{i}",
                "output": f"text {i}.",
                "source": f"source {i // per_group}",
                "group": f"g{i // per_group}",
                "human": {name: float(values[i]) for name, values in human.items()},
            }
            for i in range(n)
        ]
        self.asked_for_parts = []

    def answer(self, request):
        """Say what the judge says."""
        if of := re.search(r"I would like to to evaluate its (.+?): ", request.text):
            self.asked_for_parts.append(of[1])
            parts = PARTS.get(of[1]) or [f"{of[1]} {k}" for k in range(4)]
            return "\n".join(
                f"{k}. {part}: how good its {part.lower()} is." for k, part in enumerate(parts, 1)
            )
        [name] = re.findall(r"on the following metric:\n\n(.+?): ", request.text)
        [row] = re.findall(r"text (\d+)\.", request.text)
        return f"{self.rating(name, int(row)):g}"

    def rating(self, name, row):
        """Return the rating of a row on a criterion; criteria below unplanned ones are noise."""
        if name not in self._ratings:
            rng = np.random.default_rng(sum(map(ord, name)))
            self._ratings[name] = rng.integers(1, 6, size=len(self.rows)).astype(float)
        return self._ratings[name][row]

    def model(self, name="scripted"):
        """Return the judge."""
        return ScriptedModel(self.answer, name=name)
