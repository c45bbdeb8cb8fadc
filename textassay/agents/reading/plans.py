"""Reads Fusion-Eval's plan: which assistant evaluators serve which criterion, and the steps.

The words around the names do not matter, so that headings may be in any language; names do. Faults
are reported as problems, for the model to repair: the plan names an evaluator or a criterion that
does not exist, leaves a criterion out, or has no steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from textassay.agents.reading.json_in_prose import find_json
from textassay.agents.reading.lists import matching
from textassay.agents.reading.outcomes import MAX_ANSWER
from textassay.lazy import lazy_pattern


@dataclass(frozen=True, slots=True)
class PlanReading:
    """What a plan says."""

    assistants: dict[str, tuple[str, ...]]
    """Names of evaluators by criterion, both as they were given; criteria that the plan leaves out
    are missing."""
    steps: tuple[str, ...]
    """In order."""
    problems: tuple[str, ...]
    """What makes it unusable, each a clause to follow "the plan"; empty for a usable plan."""


def parse_plan(text: str, criteria: tuple[str, ...], tools: tuple[str, ...]) -> PlanReading:
    """Read a plan. Never raises; the first 40,000 characters are read, in linear time."""
    reader = _PlanReader(criteria, tools)
    reply = text[:MAX_ANSWER]
    for line in _lines_of_json(reply) or reply.splitlines():
        reader.read(line)
    if missing := [name for name in criteria if name not in reader.assistants]:
        reader.problems.append(
            f"does not say which assistant evaluators serve {', '.join(missing)}"
        )
    if not reader.steps:
        reader.problems.append("has no numbered steps")
    assistants = {
        name: tuple(reader.assistants[name]) for name in criteria if name in reader.assistants
    }
    return PlanReading(assistants, tuple(reader.steps), tuple(dict.fromkeys(reader.problems)))


def _lines_of_json(text: str) -> list[str] | None:
    """Return a plan that was written as JSON in the lines of a plain one; `None` if it was not.

    Takes `{"coherence": ["nli"], "steps": ["..."]}`, the criteria perhaps in an object of their
    own.
    """
    value = next((part.value for part in find_json(text) if isinstance(part.value, dict)), None)
    if value is None:
        return None
    criteria, steps = list[str](), list[str]()
    for key, held in value.items():
        if isinstance(held, dict):
            criteria += [f"{name}: {_items(inner)}" for name, inner in held.items()]
        elif _STEPS.match(key) and isinstance(held, list):
            steps += [f"{n}. {step}" for n, step in enumerate(held, start=1)]
        else:
            criteria.append(f"{key}: {_items(held)}")
    return [*criteria, "Steps:", *steps]


def _items(held: Any) -> str:
    if isinstance(held, list):
        return ", ".join(map(str, held)) or "none"
    return "none" if held is None else str(held)


# "- ", "## ", "> **", "| ": what Markdown puts before a line's words
_MARKS = r"[\s>*_`#|•·–—-]{0,12}"
# "3. Check the facts."   "- Fluency: sum_bleurt"
_PLAN_LINE = lazy_pattern(rf"^{_MARKS}(?P<number>\(?\d{{1,3}}[.):、]{_MARKS})?(?P<rest>\S.*)$")
# Fluency: sum_bleurt, nli   | Fluency | nli |   Fluency -> nli
_ASSIGNMENT = lazy_pattern(
    r"^(?P<name>[^:：=|→\n]{1,80}?)\s{0,3}(?:[:：=|→]|->|=>|\s[-–—]\s)[>*_`\s]{0,6}(?P<items>.*)$"
)
# "## Evaluation Steps:"   "Plan"
_STEPS = lazy_pattern(
    r"(?i)^\W{0,8}(?:(?:evaluation|the)\s)?(?:steps?|plan|procedure"
    r"|instructions)\b[^.!?]{0,60}\W{0,6}$"
)
# nli, sum_bleurt and rouge / bertscore
_AND = lazy_pattern(r"\s{0,3}(?:[,;&+/|、，；]|\band\b)\s{0,3}")
# "nli - it checks facts", "nli because ...", "nli (...)": what follows is not a name
_WHY = lazy_pattern(r"\s[–—-]\s|\s?(?:\bbecause\b|\bsince\b|\bas\b|\bfor\b)|[.:]\s")
# none   N/A   no assistant evaluators   keiner   無
_NONE = lazy_pattern(
    r"(?i)\A\W{0,4}(?:none|nothing|no\s(?:assistant|evaluator|tool)\w{0,3}|n/?a|manual(?:ly)?"
    r"|keine?r?|aucune?|ninguno|无|なし)"
    r"\b.{0,80}\Z|\A\W{0,6}(?:no\W{0,3})?\Z"
)


class _PlanReader:
    """Goes through a plan line by line."""

    def __init__(self, criteria: tuple[str, ...], tools: tuple[str, ...]) -> None:
        self._criteria, self._tools = criteria, tools
        self._open = ""  # criterion whose evaluators are listed below it
        self._in_steps = False
        self.assistants: dict[str, list[str]] = {}
        self.steps: list[str] = []
        self.problems: list[str] = []

    def read(self, line: str) -> None:
        match = _PLAN_LINE.match(line)
        if match is None:
            return
        rest = match["rest"].strip(" \t*_`|")
        if _STEPS.match(rest):
            self._in_steps, self._open = True, ""
        elif not self._in_steps and self._assigns(rest):
            return
        elif match["number"] and re.search(r"\w", rest):
            self.steps.append(rest)
            self._open = ""
        elif self._in_steps and self.steps and re.search(r"\w", rest):
            self.steps[-1] += " " + rest

    def _assigns(self, rest: str) -> bool:
        """Take a line that says which evaluators serve a criterion; return whether it is one."""
        pair = _ASSIGNMENT.match(rest)
        name, items = (pair["name"], pair["items"].strip()) if pair else (rest, "")
        criterion = matching(name, self._criteria)
        if criterion is not None:
            # its second line is prose about it ("Coherence: the order of ..."), no assignment
            is_first = criterion not in self.assistants
            if is_first:
                self._open = "" if items else criterion
                self._add(criterion, items)
            return is_first
        if self._open and matching(name, self._tools):
            self._add(self._open, name)
            return True
        is_unknown = bool(items) and all(matching(item, self._tools) for item in _split(items))
        if is_unknown:
            self.problems.append(f"names the criterion {name[:60]!r}, which does not exist")
        return is_unknown

    def _add(self, criterion: str, items: str) -> None:
        held = self.assistants.setdefault(criterion, [])
        for item in () if _NONE.match(items) else _split(items):
            tool = matching(item, self._tools)
            if tool is None:
                self.problems.append(
                    f"names the assistant evaluator {item[:60]!r} for {criterion}, which"
                    " does not exist"
                )
            elif tool not in held:
                held.append(tool)


def _split(items: str) -> list[str]:
    plain = re.sub(r"\([^()]{0,200}\)", " ", items)
    plain = _WHY.split(plain.strip(" \t*_`[]"), maxsplit=1)[0]
    return [bare for item in _AND.split(plain) if (bare := item.strip(" \t*_`\"'“”[].:"))]
