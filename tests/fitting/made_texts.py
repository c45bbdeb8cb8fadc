"""Rated texts made by known rules, and scripted judges of them."""

import json
import re
from types import SimpleNamespace

import numpy as np

from tests.learning.planted import planted
from textassay.runtime.backends.scripted import ScriptedModel


def rows_of(n=120, *, seed=0, per_group=6, **kept):
    """Rows with two human aspects on different scales and eight recorded judges, of which three
    carry them."""
    x, y, groups = planted(n, seed=seed, per_group=per_group)
    return [
        {
            "id": f"r{i}",
            "output": f"text {i}",
            "group": f"g{groups[i]}",
            "human": {"clarity": y[i, 0], "charm": y[i, 1]},
            "metrics": {
                f"judge-{j}/{'clarity' if j % 2 == 0 else 'charm'}": x[i, j]
                for j in range(x.shape[1])
            },
            **kept,
        }
        for i in range(n)
    ]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


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
        return ScriptedModel(self.answer, name=name)


PROPOSED = (
    ("Mentions a date", "Length", "Politeness"),
    ("Ends well", "Politeness", "Rhythm"),
    ("Shape",),
)
"""The model's proposals, round by round; one is repeated."""


class Dated:
    """Short texts, some of which mention a date, which is what people mostly reward."""

    def __init__(self, n=120, per_group=3, seed=0):
        rng = np.random.default_rng(seed)
        self.dated, self.ends = rng.random(n) < 0.5, rng.random(n) < 0.5
        self.noise = rng.integers(1, 6, size=(n, 6))
        human = 2 + 1.6 * self.dated + 0.8 * self.ends + 0.3 * rng.normal(size=n)
        self.rows = [
            {
                "id": f"r{i}",
                "output": f"Text {i}: it happened{' on 3 May' if self.dated[i] else ''}.",
                "source": f"Source {i // per_group}.",
                "group": f"g{i // per_group}",
                "human": {"coherence": round(float(np.clip(human[i], 1, 5)), 2)},
            }
            for i in range(n)
        ]
        self.rounds, self.shown = 0, []

    def answer(self, request):
        if "Propose criteria" in request.text:
            self.shown.append(re.findall(r"Text (\d+): ", request.text))
            names = PROPOSED[min(self.rounds, len(PROPOSED) - 1)]
            self.rounds += 1
            return "\n".join(f"{i}. {name}: whether it does." for i, name in enumerate(names, 1))
        [name] = re.findall(r"on the following metric:\n\n(.+?): ", request.text)
        at = int(re.findall(r"Text (\d+): ", request.text)[0])
        if name in ("Mentions a date", "Ends well"):
            said = 1 + 4 * (self.dated if name == "Mentions a date" else self.ends)[at]
            # a judge that errs on one text in ten
            return str(6 - said if self.noise[at, 0] == 1 and at % 2 else said)
        if name == "Shape":
            return "3"
        names = ("coherence", "Length", "Politeness", "Rhythm")
        return str(self.noise[at, 1 + names.index(name)])

    def model(self):
        return ScriptedModel(self.answer, name="scripted")

    def reply(self, body, draw):
        """Answer a request of the mock server; the request shows the round."""
        text = body["messages"][-1]["content"]
        _, tried, known = text.partition("These criteria were tried before")
        self.rounds = 0 if not tried else 2 if "Ends well" in known else 1
        return self.answer(SimpleNamespace(text=text))
