"""Verdicts whose findings cite what was read, and the check of these citations: without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from textassay.agents.ask import MAX_QUOTED
from textassay.agents.lookup import Excerpt, Material, has_read
from textassay.agents.quotes import find_quote, plain
from textassay.agents.reading.rating import rating_of_field
from textassay.runtime.labels import number_of
from textassay.runtime.messages import (
    NO_USAGE,
    Aspect,
    Example,
    Message,
    Score,
    ScoreError,
    Usage,
)
from textassay.runtime.model import Json
from textassay.runtime.settings import DescribedMessage

EMPTY = ScoreError(type="EmptyOutput", message="there is no text to judge")
NOWHERE = "nowhere"
"""Where a text stands that a search did not find."""
_SEARCHES = frozenset({"find", "search", NOWHERE})


class Action(DescribedMessage):
    """Base of what a judge writes: names that were not asked for are left out."""

    model_config = ConfigDict(extra="ignore")


class Finding(Action):
    """A fact that a verdict rests on."""

    finding: str = Field(min_length=1)
    """The fact in a sentence."""
    where: str = ""
    """Name of the section that shows it, or "find" for a text that a search found nowhere."""
    quote: str = ""
    """The words that show it, as they stand there; empty if a section lacks something."""


class Verdict(Action):
    """Give your verdict, which ends the task."""

    action: Literal["verdict"] = "verdict"
    findings: tuple[Finding, ...] = ()
    """What it rests on, one fact each."""
    reason: str = ""
    """Why these facts lead to the score, in a sentence."""
    score: bool | float | str | None = None
    """The score."""


class Step(Message):
    """One step of a judge that looks things up."""

    text: str
    """What it did, such as `read turn 4`."""
    shown: tuple[str, ...] = ()
    """Places that it was shown."""
    problem: str | None = None
    """Why nothing came of it."""


class Inquiry(Message):
    """How a judge came to its verdict on one aspect, or why it came to none."""

    aspect: Aspect
    """What was asked."""
    verdict: Verdict | None = None
    """What it decided, before its citations are looked up."""
    problem: ScoreError | None = None
    """Why there is no verdict."""
    excerpts: tuple[Excerpt, ...] = ()
    """What it was shown of the material, word for word."""
    absent: tuple[str, ...] = ()
    """Texts that it looked for and that stand nowhere."""
    steps: tuple[Step, ...] = ()
    """What it did, in order."""
    text: str = ""
    """The last answer as it was written."""
    notes: tuple[Json, ...] = ()
    """What the model thought before it, as evidence."""
    usage: Usage = NO_USAGE
    """Cost of all steps."""


class Citation(NamedTuple):
    """Where the evidence of a finding stands."""

    found_in: str | None
    """Name of the section, `nowhere` for what a search did not find, `None` for what was not
    read."""
    characters: tuple[int, int] | None = None
    """Where in the section."""


class Checked(NamedTuple):
    """A verdict whose citations were looked up."""

    value: float | None
    """The score on the aspect's scale; `None` if there is a problem with it."""
    citations: tuple[Citation, ...]
    """One for each finding."""
    problem: ScoreError | None
    """Why the verdict does not count."""


def verified(
    verdict: Verdict,
    aspect: Aspect,
    material: Material,
    excerpts: Iterable[Excerpt],
    absent: Iterable[str],
    *,
    required: bool = True,
) -> Checked:
    """Return the score of a verdict and where its citations stand, or why it does not count.

    Args:
        verdict: What the judge decided.
        aspect: On what.
        material: What there was to read.
        excerpts: What it was shown.
        absent: Texts that it looked for and that stand nowhere.
        required: Whether every citation must be found.
    """
    spans, missing = _merged(excerpts), {plain(text) for text in absent}
    cited = tuple(_located(one, material, spans, missing) for one in verdict.findings)
    value = _value(verdict.score, aspect)
    if isinstance(value, ScoreError):
        return Checked(None, cited, value)
    if not cited:
        error = ScoreError(type="NoFindings", message="the verdict has no findings")
        return Checked(value, cited, error)
    pairs = zip(verdict.findings, cited, strict=True)
    lacking = [finding for finding, citation in pairs if citation.found_in is None]
    problem = _not_read(lacking[0], material) if lacking and required else None
    return Checked(value, cited, problem)


@dataclass(frozen=True)
class CitationCheck:
    """Makes a score of a verdict; none if it cites what was not read.

    Attributes:
        signature: What the scores carry.
        required: Whether a verdict counts only if all of its citations are found.
    """

    signature: str = ""
    required: bool = True

    async def __call__(self, example: Example, material: Material, inquiry: Inquiry) -> Score:
        """Return the score.

        `abstained` with `QuoteNotFound` if a citation is not in what the judge read; `invalid` if
        it gave no verdict, or one without findings or without a usable score.
        """
        aspect = inquiry.aspect
        about: dict[str, Any] = {
            "id": example.id,
            "aspect": aspect.label,
            "scale": aspect.scale,
            "how": "text",
            "signature": self.signature,
            "usage": inquiry.usage,
            "explanation": inquiry.text or None,
        }
        steps = tuple(
            {"text": f"step {number}: {step.text}"}
            | ({"shown": list(step.shown)} if step.shown else {})
            | ({"problem": step.problem} if step.problem else {})
            for number, step in enumerate(inquiry.steps, start=1)
        )
        about["evidence"] = (*steps, *inquiry.notes)
        verdict = inquiry.verdict
        if verdict is None:
            problem = inquiry.problem or EMPTY
            return Score.unscored(problem.type, problem.message, **about)
        checked = verified(
            verdict, aspect, material, inquiry.excerpts, inquiry.absent, required=self.required
        )
        findings = tuple(map(_as_evidence, verdict.findings, checked.citations))
        about |= {
            "explanation": verdict.reason or inquiry.text,
            "evidence": (*findings, *about["evidence"]),
        }
        if checked.problem is not None:
            outcome = "abstained" if checked.problem.type == "QuoteNotFound" else "invalid"
            error = checked.problem
            return Score.unscored(error.type, error.message, **about | {"outcome": outcome})
        assert checked.value is not None
        if aspect.labels:
            label = list(aspect.labels)[int(checked.value)]
            about["evidence"] = ({"text": label}, *about["evidence"])
        return Score(value=checked.value, **about)


def _as_evidence(finding: Finding, citation: Citation) -> Json:
    piece: Json = {"text": finding.finding, "quote": finding.quote, "found_in": citation.found_in}
    if citation.characters is not None:
        piece["characters"] = list(citation.characters)
    return piece


def _value(score: bool | float | str | None, aspect: Aspect) -> float | ScoreError:
    """Return the number of a score or a label, or what is wrong with it."""
    if aspect.labels:
        names = list(aspect.labels)
        if (number := number_of(str(score), names)) is not None:
            return float(number)
        message = f"the score {score!r} is none of the labels {', '.join(names)}"
        return ScoreError(type="NoScoreFound", message=message)
    low, high = aspect.scale
    value = rating_of_field(score, aspect.scale, "number")
    if value is None:
        message = f"the score {score!r} is no number from {low:g} to {high:g}"
        return ScoreError(type="NoScoreFound", message=message)
    if not low <= value <= high:
        message = f"the score {value:g} is off the scale from {low:g} to {high:g}"
        return ScoreError(type="OffScale", message=message)
    return value


def _not_read(finding: Finding, material: Material) -> ScoreError:
    """Return the error of a finding whose evidence was not read."""
    quote, where = finding.quote.strip(), finding.where.strip()
    if quote:
        what = f"the quoted words are not in what was read: {quote[:MAX_QUOTED]!r}"
    elif material.within(where) and where:
        what = f"{where} was not read whole, so nothing can be said to be missing in it"
    else:
        what = f"the finding {finding.finding[:MAX_QUOTED]!r} cites nothing"
    return ScoreError(type="QuoteNotFound", message=what)


def _located(
    finding: Finding, material: Material, spans: Sequence[Excerpt], absent: set[str]
) -> Citation:
    """Return where the evidence of a finding stands in what was read."""
    quote, where = finding.quote.strip(), finding.where.strip()
    if where.casefold() in _SEARCHES:
        return Citation(NOWHERE if plain(quote) in absent else None)
    named = material.within(where) if where else []
    if not quote:
        whole = bool(named) and all(has_read(spans, section) for section in named)
        return Citation(where if whole else None)
    # where the judge says that it stands comes first, for words may stand in several places
    names = {section.name for section in named}
    ordered = sorted(spans, key=lambda span: span.section not in names)
    match = find_quote(quote, {str(at): span.text for at, span in enumerate(ordered)})
    if match is None:
        return Citation(None)
    span = ordered[int(match.where)]
    literal = re.compile(r"\s+".join(map(re.escape, quote.split())), re.IGNORECASE)
    exact = literal.search(span.text)
    first, last = exact.span() if exact else (0, len(span.text))
    return Citation(span.section, (span.start + first, span.start + last))


def _merged(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Return what was read with excerpts that overlap or follow each other put together."""
    merged = list[Excerpt]()
    for one in sorted(excerpts, key=lambda one: (one.section, one.start)):
        last = merged[-1] if merged else None
        if last is None or last.section != one.section or one.start > last.end:
            merged.append(one)
        elif one.end > last.end:
            text = last.text + one.text[last.end - one.start :]
            merged[-1] = last.model_copy(update={"text": text})
    return merged
