"""Texts that people reward for a date, and a judge that proposes criteria and rates by them."""

import re
from types import SimpleNamespace

import numpy as np

from textassay.runtime.backends.scripted import ScriptedModel

PROPOSED = (
    ("Mentions a date", "Length", "Politeness"),
    ("Ends well", "Politeness", "Rhythm"),
    ("Shape",),
)
"""What the model proposes, round by round; one is proposed again."""


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
        """Propose criteria, or rate a text on one."""
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
        """Answer a request of the mock server; which round it is follows from the request."""
        text = body["messages"][-1]["content"]
        _, tried, known = text.partition("These criteria were tried before")
        self.rounds = 0 if not tried else 2 if "Ends well" in known else 1
        return self.answer(SimpleNamespace(text=text))
