"""Judges for the examples: scripts that count words, so that everything runs offline."""

from __future__ import annotations

import re

from textassay.demo import data_file
from textassay.runtime import Capabilities, Request, ScriptedModel

SUMMARIES = data_file("summarization")
_TEXT = re.compile(r"<(\w+)-[0-9a-f]{8}>\n(.*?)\n</\1-[0-9a-f]{8}>", re.DOTALL)


def texts_in(request: Request) -> dict[str, str]:
    """Return the texts of a prompt by their kind, such as `source` and `output`."""
    return dict(_TEXT.findall(request.text))


def overlap(text: str, source: str) -> float:
    """Return the share of the text's words that the source has."""
    words = re.findall(r"\w+", text.lower())
    return sum(word in source.lower() for word in words) / max(1, len(words))


def counting_judge(name: str, *, power: float = 1.0, shaky: bool = False) -> ScriptedModel:
    """Return a judge that rates by `overlap`.

    The higher `power`, the stricter; a shaky one is inconsistent in the middle.
    """

    def rate(request: Request) -> str:
        texts = texts_in(request)
        share = overlap(texts["output"], texts["source"]) ** power
        if shaky and share < 0.9 and request.draw % 2:
            share /= 2
        return f"Score: {1 + round(4 * share)}"

    return ScriptedModel(rate, name=name, capabilities=Capabilities(n=True))
