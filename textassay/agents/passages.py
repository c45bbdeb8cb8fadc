"""Writes what GPTScore conditions on.

The template T(d, a, S) filled for one example and aspect, and the text to score.

Knows directions, references, demonstrations and the boolean question; asks no model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from pydantic import Field

from textassay.agents.likelihood_words import (
    Direction,
    Qualities,
    Quality,
    TaskWords,
    Wording,
    object_of,
)
from textassay.agents.prompt_template import PromptTemplate, fenced, plain_texts
from textassay.prompts import nonce
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, Example, Message, ScoreError
from textassay.tools.tool import premise, references

Directions = Literal["default", "src-hypo", "ref-hypo", "hypo-ref", "ref-both", "harmonic"]
"""A direction; that of the table (`default`); or the mean (`ref-both`, as in BARTScore) or the
harmonic mean of both directions between hypothesis and reference."""
Scored = Literal["output", "yes"]
"""The text itself, or the `Yes` that answers a boolean question about it."""

# "User: hello" at the beginning of a line
_SPEAKER = re.compile(r"(?m)^[ \t]*([^\W\d_][\w ]{0,20}):")


class Passage(Message):
    """A text whose probability is asked for, and what comes before it."""

    direction: str
    """A direction, or `question`."""
    question: str = ""
    """The instruction or question in the prompt."""
    prompt: str
    """What comes before."""
    scored: str = Field(min_length=1)
    """The text, with the space before it."""
    alone: str | None = None
    """The prompt without the given text, if the text's probability by itself is to be taken
    off."""
    reference: int | None = None
    """Which of the references that are not blank is used, from 0."""
    source: str | None = None
    """The part of the prompt that may be cut at its end if not all of it fits a local
    model."""


class Passages(Message):
    """All passages behind one score."""

    items: tuple[Passage, ...] = ()
    missing: ScoreError | None = None
    """Why there are none."""


@dataclass(frozen=True)
class PassageWriter:
    """Fills the template for an example and an aspect.

    Attributes:
        template: The prompt file.
        words: How prompts of this task read.
        qualities: Aspects in words.
        direction: Which text is scored given which.
        scored: Whether the text itself is scored or the answer to a question about it.
        instruct: Whether task and aspect are described at all.
        combined: Aspects whose definitions are joined to that of the judged one.
        demonstrations: Examples shown before, by aspect id; they are not judged themselves.
        first_reference: Whether references after the first are left out.
        alone: Whether to ask for the text's probability by itself as well.
        printed: Whether prompts go out byte by byte as a paper prints them.
    """

    template: PromptTemplate
    words: TaskWords
    qualities: Qualities
    direction: Directions = "default"
    scored: Scored = "output"
    instruct: bool = True
    combined: tuple[Quality, ...] = ()
    demonstrations: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)
    first_reference: bool = False
    alone: bool = False
    printed: bool = False

    async def __call__(self, example: Example, aspect: Aspect) -> Passages:
        """Return the passages, or why there are none.

        Raises:
            PromptError: The prompt file does not render.
            ConfigurationError: A demonstration lacks what this aspect needs.
        """
        # Its answer stands in the prompt, so its likelihood would say nothing.
        if any(_same(example, shown) for shown in self._demonstrations(aspect)):
            return _none(
                "Demonstration", "this example is shown as a demonstration, so it is not judged"
            )
        example = self.template.prepare(example)
        if not example.output.strip():
            return _none("EmptyOutput", "there is no text to judge")
        quality = self.qualities.of(aspect)
        if self.scored == "yes":
            return self._question(example, aspect, quality)
        directions = self._directions(aspect)
        pairs = [pair for direction in directions for pair in self._pairs(example, direction)]
        if not pairs:
            return _missing("references" if "src-hypo" not in directions else "source")
        return Passages(items=tuple(self._passage(pair, aspect, quality) for pair in pairs))

    def _directions(self, aspect: Aspect) -> tuple[Direction, ...]:
        if self.direction in ("ref-both", "harmonic"):
            return ("ref-hypo", "hypo-ref")
        if self.direction != "default":
            return (cast(Direction, self.direction),)
        if self.template.takes_plain_texts and not self.printed:
            return ("src-hypo",)  # a profile's own words: the table's choices go with the paper's
        known = self.words.directions.get(self.qualities.of(aspect).name)
        return (known.direction if known is not None else "src-hypo",)

    def _pairs(self, example: Example, direction: Direction) -> list[_Pair]:
        output = example.output.strip()
        if direction == "src-hypo":
            given = premise(example)
            return (
                []
                if given is None
                else [
                    _Pair(
                        direction, given, output, texts=plain_texts(example, ("source", "context"))
                    )
                ]
            )
        known = list(enumerate(text.strip() for text in references(example)))
        chosen = known[:1] if self.first_reference else known
        if direction == "ref-hypo":
            return [_Pair(direction, text, output, n, {"source": text}) for n, text in chosen]
        return [_Pair(direction, output, text, n, {"source": output}) for n, text in chosen]

    def _passage(self, pair: _Pair, aspect: Aspect, quality: Quality) -> Passage:
        wording = self.words.templates[pair.direction]
        instruction, lead, cue = self._wording(wording, quality)
        values: dict[str, Any] = {
            "instruction": instruction,
            "lead": lead,
            "cue": cue.rstrip(" "),
            "separator": cue[len(cue.rstrip(" ")) :] if self.printed else " ",
            "between": wording.between,
            "demonstrations": self._shown_pairs(aspect, pair.direction),
        }
        render = self.template.render_text
        bare = self.template.takes_plain_texts and "source" in pair.texts
        given = pair.texts["source"] if bare else pair.given
        return Passage(
            direction=pair.direction,
            question=instruction,
            prompt=render(pair.texts, given=pair.given, **values),
            scored=f"{values['separator']}{pair.scored}",
            # The same words around an empty text: what is taken off is the likelihood of the scored
            # text itself.
            alone=render({}, given="", **values) if self.alone else None,
            reference=pair.reference,
            source=given if pair.direction == "src-hypo" else None,
        )

    def _wording(self, wording: Wording, quality: Quality) -> tuple[str, str, str]:
        """Return the instruction, the instruction up to the given text, and the cue."""
        others = tuple(other for other in self.combined if other.name != quality.name)
        object_ = object_of(self.words.noun, quality, others)
        known = quality in self.qualities.aspects  # a user's own definition has no published words
        published = wording.published(quality.name, self.printed) if known else None
        cue = wording.cue if published is None else published[1]
        if not self.instruct:
            return "", "", cue
        if self.template.layout != "paper":
            return wording.afterwards.replace("{object}", object_), "", cue
        # A published prompt speaks of one aspect; with others combined, the instruction is made
        # anew.
        if published is None or others:
            instruction = wording.instruction.replace("{object}", object_)
            return instruction, f"{instruction} ", cue
        return published[0].strip(), published[0], cue

    def _shown_pairs(self, aspect: Aspect, direction: Direction) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []
        for demonstration in self._demonstrations(aspect):
            pairs = self._pairs(self.template.prepare(demonstration), direction)
            if not pairs:
                what = "source" if direction == "src-hypo" else "reference"
                raise ConfigurationError(
                    f"demonstration {demonstration.id!r} has no {what}, which {direction} needs"
                )
            shown.append(
                {"given": pairs[0].given, "scored": pairs[0].scored, "bare": pairs[0].texts}
            )
        return shown

    def _demonstrations(self, aspect: Aspect) -> tuple[Example, ...]:
        return self.demonstrations.get(aspect.id, ())

    def _question(self, example: Example, aspect: Aspect, quality: Quality) -> Passages:
        asks = self.template.task.asks
        # A response can only be asked about within its conversation.
        if asks == "response" and not (example.source or "").strip():
            return _missing("source")
        if quality.needs_context and not (example.context or "").strip():
            return _missing("context")
        own_words = self.template.takes_plain_texts and not self.printed
        question = self._question_text(aspect, quality) if self.instruct or own_words else ""
        shown = []
        for demonstration in self._demonstrations(aspect):
            text = self._question_prompt(
                self.template.prepare(demonstration), quality, question, []
            )
            shown.append(
                {
                    "text": text,
                    "scored": (
                        f"{self.template.prepare_text(_known_answer(demonstration, aspect))}."
                    ),
                }
            )
        prompt = self._question_prompt(example, quality, question, shown)
        return Passages(
            items=(
                Passage(
                    direction="question",
                    question=question,
                    prompt=prompt,
                    scored=f" {self.template.prepare_text('Yes')}",
                    source=(example.source or "").strip() or None,
                ),
            )
        )

    def _question_text(self, aspect: Aspect, quality: Quality) -> str:
        """Return the boolean question.

        On dialogue the paper's, else the aspect's own, else one from its words.
        """
        others = tuple(other for other in self.combined if other.name != quality.name)
        asks = self.template.task.asks
        if not others:
            if asks and self.words.own_questions and aspect.question:
                return aspect.question
            if asks and quality.question:
                return quality.question
            if asks and quality.adjective:
                return f"Are the responses of AI {quality.adjective}?"
            if aspect.question:
                return aspect.question
        return f"Is this {object_of(self.words.noun, quality, others)}?"

    def _question_prompt(
        self,
        example: Example,
        quality: Quality,
        question: str,
        demonstrations: list[dict[str, str]],
    ) -> str:
        if self.template.task.asks:
            parts = [("conversation", "Conversation", self._conversation(example))]
            parts += [("context", "Fact", example.context or "")] if quality.needs_context else []
        else:
            task = self.template.task
            named = (("source", task.source_name), ("context", task.context_name))
            parts = [
                (part, label, text)
                for part, label in named
                if (text := getattr(example, part) or "").strip()
            ]
            parts.append(("output", task.output_name, example.output))
        return self.template.render_text(
            plain_texts(example),
            instruction=self.words.question if self.instruct else "",
            question=question,
            texts=(
                [{"label": label, "text": text.strip()} for _, label, text in parts]
                if self.printed
                else fenced(parts, nonce(text for _, _, text in parts))
            ),
            demonstrations=demonstrations,
        )

    def _conversation(self, example: Example) -> str:
        """Return the conversation that is asked about.

        A judged response is its last turn, by the speaker it names, else by `AI`.
        """
        source, output = (example.source or "").strip(), example.output.strip()
        if self.template.task.asks == "conversation":
            return output
        opening = _SPEAKER.match(output)
        # A label counts only if a turn of the conversation has it: "Note: ..." begins an answer,
        # too.
        named = opening is not None and opening[1] in _SPEAKER.findall(source)
        return f"{source}\n{output if named else f'AI: {output}'}"


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is given and what is scored."""

    direction: Direction
    given: str
    scored: str
    reference: int | None = None
    texts: dict[str, str] = field(default_factory=dict)


def _same(one: Example, other: Example) -> bool:
    return one.output == other.output and (one.source == other.source or one.id == other.id)


def _known_answer(demonstration: Example, aspect: Aspect) -> str:
    answers = demonstration.meta.get("answers")
    answer = str(answers.get(aspect.name, "") if isinstance(answers, Mapping) else "").casefold()
    if answer not in ("yes", "no"):
        raise ConfigurationError(
            f"demonstration {demonstration.id!r} does not say how the question on {aspect.name} is"
            " answered; a line of "
            f'the file needs "answers": {{"{aspect.name}": "yes"}} (or "no")'
        )
    return answer.capitalize()


def _missing(what: str) -> Passages:
    kinds = {
        "source": "MissingSource",
        "references": "MissingReferences",
        "context": "MissingContext",
    }
    article = "" if what == "references" else "a "
    hint = "; direction=src-hypo scores it given its source" if what == "references" else ""
    return _none(
        kinds[what],
        f"the text is scored given {article}{what}, which this example does not have{hint}",
    )


def _none(kind: str, message: str) -> Passages:
    return Passages(missing=ScoreError(type=kind, message=message))
