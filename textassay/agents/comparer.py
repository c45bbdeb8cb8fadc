"""Asks a judge which of two texts is better, in one order, and settles what both orders say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from textassay.agents.aggregation import shared_fields
from textassay.agents.ask import Ask, Parsed, refuse_filtered, thought_note
from textassay.agents.prompt_template import Prompt, fenced, references_shown
from textassay.agents.reading.rating import MAX_QUOTED, NoRating, parse_choice
from textassay.prompts import nonce
from textassay.runtime.data.units import OTHER_OUTPUT
from textassay.runtime.messages import NO_USAGE, Aspect, Example, Message, Score, Usage
from textassay.runtime.model import Json, Sample

OptionOrder = Literal["forth", "back"]
"""`forth` shows `output` first, `back` shows `output_b` first."""
_DRY = (
    "Both say what happened, and one of them says it in an order that is easier to"
    " follow.\nAnswer: A"
)


class Preference(Message):
    """What a judge chose in one order."""

    order: OptionOrder
    """Which text came first."""
    value: float | None = None
    """How much better `output` is than `output_b`: 1, 0.5 or 0; `None` if the answer is
    unusable."""
    reply: str = ""
    """The judge's words."""
    problem: str | None = None
    """Why there is no value; `Declined` if the judge refused."""
    message: str = ""
    """The same in a sentence."""
    notes: tuple[Json, ...] = ()
    """What the judge thought, as evidence."""
    usage: Usage = NO_USAGE
    """Cost of all requests."""


@dataclass(frozen=True)
class Comparer:
    """Asks which of the two texts of an example is better.

    Attributes:
        ask: Model and prompt; the prompt is given `aspect`, `ties` and `material`.
        order: Which text comes first.
        ties: Whether the judge may say that neither is better.
        parse_retries: How often an unusable answer is asked for again.
    """

    ask: Ask
    order: OptionOrder = "forth"
    ties: bool = False
    parse_retries: int = 1

    async def __call__(self, example: Example, aspect: Aspect) -> Preference:
        """Return the choice."""
        if not (example.output.strip() and other_output(example).strip()):
            return Preference(
                order=self.order, problem="EmptyOutput", message="one of the two texts is empty"
            )
        answers = await self.ask.until_usable(
            self._prompt(example, aspect),
            self._read,
            _problem,
            retries=self.parse_retries,
            form="letters",
            labels=("A", "B", "C") if self.ties else ("A", "B"),
            dry_run_answer=_DRY,
        )
        usage = sum((answer.usage for answer in answers), NO_USAGE)
        reply, rating = answers[-1].samples[0].text.strip(), _rating_of(answers[-1])
        notes = thought_note(answers[-1].samples)
        if isinstance(rating, NoRating):
            return Preference(
                order=self.order,
                reply=reply,
                problem=rating.reason,
                message=rating.message,
                notes=notes,
                usage=usage,
            )
        # A and B are places, not texts: shown back to front, A is `output_b`.
        value = rating if self.order == "forth" else 1 - rating
        return Preference(order=self.order, value=value, reply=reply, notes=notes, usage=usage)

    def _prompt(self, example: Example, aspect: Aspect) -> Prompt:
        prepare = self.ask.template.prepare_text
        pair = [prepare(example.output), prepare(other_output(example))]
        if self.order == "back":
            pair.reverse()
        task, name = self.ask.task, self.ask.task.output_name
        texts = [
            ("source", task.source_name, prepare(example.source or "")),
            ("context", task.context_name, prepare(example.context or "")),
            *references_shown(task, example),
        ]
        texts = [part for part in texts if part[2].strip()]
        texts += [("output-a", f"{name} A", pair[0]), ("output-b", f"{name} B", pair[1])]
        messages = self.ask.template.render_messages(
            {kind: text for kind, _, text in texts},
            material=fenced(texts, nonce(text for *_, text in texts)),
            aspect=aspect,
            ties=self.ties,
        )
        return Prompt(messages, example.source, example.images)

    def _read(self, sample: Sample) -> float | NoRating:
        rating = parse_choice(sample.text, ties=self.ties)
        if isinstance(rating, NoRating):
            refuse_filtered(sample, "the answer before its choice")
        return rating


@dataclass(frozen=True)
class PreferenceScorer:
    """Makes a score of the choices of one order or of both.

    A choice that flips with the order is no preference: its value is 0.5, and the evidence says so.

    Attributes:
        signature: What makes scores comparable.
    """

    signature: str

    async def __call__(
        self, example: Example, aspect: Aspect, first: Preference, second: Preference | None = None
    ) -> Score:
        """Return the score: 1 if `output` is better, 0 if `output_b` is, 0.5 if neither."""
        choices = [first] if second is None else [first, second]
        about: dict[str, Any] = {
            **shared_fields(example, aspect, how="text", signature=self.signature),
            "scale": (0.0, 1.0),
            "usage": sum((one.usage for one in choices), NO_USAGE),
            "explanation": "\n\n".join(one.reply for one in choices if one.reply) or None,
        }
        notes = tuple(note for one in choices for note in one.notes)
        for one in choices:
            if one.problem is not None:
                reply = f"; the judge said: {one.reply[:MAX_QUOTED]!r}" if one.reply else ""
                return Score.unscored(one.problem, one.message + reply, evidence=notes, **about)
        values = [one.value for one in choices if one.value is not None]
        flipped = len(set(values)) > 1
        evidence = [
            {"text": _in_words(one), "order": one.order, "choice": one.value} for one in choices
        ]
        if flipped:
            evidence.append({"text": "the choice flipped with the order", "flipped": True})
        # Judges prefer the first text, or the second, whatever it says (position bias); a
        # choice that depends on it says nothing about the texts.
        value = 0.5 if flipped else values[0]
        return Score(value=value, evidence=(*evidence, *notes), **about)


def other_output(example: Example) -> str:
    """Return the second text of a comparison, or an empty string."""
    return str(example.meta.get(OTHER_OUTPUT) or "")


def _rating_of(answer: Parsed[float | NoRating]) -> float | NoRating:
    if answer.cut and not isinstance(answer.read[0], NoRating):
        return NoRating("NoScoreFound", "the answer was cut before its end; raise max_tokens")
    return answer.read[0]


def _problem(answer: Parsed[float | NoRating]) -> str | None:
    rating = _rating_of(answer)
    return rating.reason if isinstance(rating, NoRating) else None


def _in_words(choice: Preference) -> str:
    first = "output" if choice.order == "forth" else OTHER_OUTPUT
    better = {1.0: "output", 0.0: OTHER_OUTPUT}.get(choice.value or 0.0, "neither")
    return f"{first} shown first: {better} is better"
