"""Asks a model for an aspect's evaluation steps, or for the parts of a criterion.

The steps are G-Eval's automatic chain of thought (section 2.2); the parts are HD-Eval's criteria,
CoAScore's chain of relevant aspects, or a checklist's questions. If an answer has no list, or a
list that is too short, it is requested again. A tree grows layer by layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import Field

from textassay.agents.ask import Ask, check_not_filtered
from textassay.agents.prompt_template import Task, as_noun
from textassay.agents.reading.lists import Listing, parse_listing
from textassay.agents.reading.outcomes import MAX_QUOTED
from textassay.runtime.base import Json, Message
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import ConfigurationError, MalformedResponse
from textassay.runtime.messages import Aspect, AspectTree, Scale, Score
from textassay.runtime.model import Sample

_STEPS = """\
1. Read what the text was made from carefully and identify its main topic and key points.
2. Read the text and compare it with what it was made from. Check whether the text does justice \
to the criterion throughout, and note each place where it does not and how much that disturbs.
3. Assign a score on the scale that is given, where the lowest number is the worst and the \
highest the best, based on the Evaluation Criteria."""
"""Answer of a dry run, as long as the steps that a model wrote for G-Eval (figure 1)."""


@dataclass(frozen=True, slots=True)
class StepsWriter:
    """Asks a model for the steps to judge an aspect."""

    ask: Ask
    """Model and prompt; the prompt also gets `aspect`."""
    labels_prompt: str = ""
    """Prompt for aspects with labels; empty for the prompt of `ask`."""

    async def __call__(self, aspect: Aspect) -> str:
        """Return the steps, as prompts show them.

        Raises:
            MalformedResponse: The answer is empty or cut off.
        """
        ask = self.ask
        if aspect.labels and self.labels_prompt:
            ask = replace(ask, prompt=self.labels_prompt)
        answer = await ask.answer(
            ask.render(aspect=aspect),
            _read,
            is_cut=lambda sample, text: not text or sample.finish_reason == "length",
            dry_run_answer=_STEPS,
        )
        text = answer.readings[0]
        if answer.cut:
            problem = "did not come to an end" if text else "wrote nothing"
            raise MalformedResponse(
                f"{self.ask.model.name!r} was asked for steps to judge {aspect.name!r} and"
                f" {problem}"
            )
        return text


def _read(sample: Sample) -> str:
    # "Example:" or "Evaluation Form (scores ONLY):", which models add after the steps, as the
    # prompt does
    added = r"(?ims)^[\s*#]{0,8}(?:example|evaluation form)\b.*"
    return re.sub(added, "", sample.text).strip()


@dataclass(frozen=True, slots=True)
class WrittenSteps:
    """Reads the steps from the task's file."""

    task: Task

    def __post_init__(self) -> None:
        names = [aspect.name for aspect in self.task.aspects]
        if missing := [name for name in names if name not in self.task.steps]:
            raise ConfigurationError(
                f"task {self.task.name!r} has no steps for {', '.join(missing)}; add `steps` to its"
                " file or let the model write them (options={'steps': 'auto'})"
            )

    async def __call__(self, aspect: Aspect) -> str:
        """Return the steps as a numbered list; empty if the task's file has `steps = []`."""
        lines = enumerate(self.task.steps[aspect.name], start=1)
        return "\n".join(f"{number}. {line}" for number, line in lines)


async def no_steps(aspect: Aspect) -> str:
    """Return no steps for any aspect."""
    return ""


AGAIN_PROMPT = "listing_again"
"""Prompt that follows an answer without a usable list."""


class Decomposition(Message):
    """A criterion with its parts."""

    of: Aspect
    """The criterion."""
    aspects: tuple[Aspect, ...] = Field(min_length=1)
    """Its parts, in the order of the answer; each has the criterion as its parent."""
    notes: tuple[dict[str, Any], ...] = ()
    """`{text, problem}` for unusable parts of answers: repeats, surplus, answers without a list."""


class RelatedAspect(Message):
    """One relevant aspect (CoAScore, equation 4)."""

    name: str
    """Its name."""
    definition: str
    """Its definition."""
    score: float | None = None
    """The rating of the text, if there is one."""
    scale: Scale
    """Lowest and highest rating."""


def related_aspects(
    aspects: Iterable[Aspect], scores: Iterable[Score] = ()
) -> tuple[RelatedAspect, ...]:
    """Return a chain of aspects, as prompts show it.

    Args:
        aspects: The chain.
        scores: One for each aspect, in order; empty to show definitions only.
    """
    chain = tuple(aspects)
    values = [score.value for score in scores] or [None] * len(chain)
    return tuple(
        RelatedAspect(name=m.name, definition=m.definition, score=value, scale=m.scale)
        for m, value in zip(chain, values, strict=True)
    )


@dataclass(frozen=True)
class Decomposer:
    """Divides one criterion into parts."""

    ask: Ask
    """Model and prompt; the prompt also gets `aspect` and `count`."""
    count: int
    """Requested number of parts; further ones are dropped."""
    exact: bool = False
    """Whether answers with fewer than `count` parts are requested again; the last answer is used
    even so.
    """
    scale: Scale | None = None
    """Scale of the parts; `None` for the criterion's own."""
    repairs: int = 1
    """How often an unusable answer is requested again, with its problem."""
    questions: bool = False
    """Whether the parts are questions."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigurationError(f"a criterion must have at least 1 part, not {self.count}")

    @cached_property
    def digest(self) -> str:
        """6 hex digits of everything that affects the parts, such as the model."""
        ask = self.ask
        shape = (self.count, self.exact, self.scale, self.repairs)
        variants = (ask.task.digest, *shape, ask.seed, ask.model.name)
        return ask.digest(*variants, also=(AGAIN_PROMPT,))

    async def __call__(
        self, aspect: Aspect, known: Sequence[Aspect] = (), **shown: Any
    ) -> Decomposition:
        """Return the parts.

        They are 1 to `count`, without repeats and without the criterion itself.

        Args:
            aspect: The criterion.
            known: Criteria that may not be parts, such as earlier attempts; the prompt gets them as
                well.
            shown: Further values for the prompt.

        Raises:
            MalformedResponse: The model gave no usable list; the message quotes its answer.
        """
        if known or shown:
            shown["known"] = tuple(known)
        unwanted = [aspect.name, as_noun(aspect).name, *(other.name for other in known)]
        prompt = self.ask.render(aspect=aspect, count=self.count, **shown)
        dry_run_answer = _dry_run_answer(aspect, self.count, "?" if self.questions else ".")
        best, notes = Listing(()), list[Json]()
        for attempt in range(self.repairs + 1):
            answer = await self.ask.answer(
                prompt,
                lambda sample: self._read(sample, aspect, unwanted),
                # a name with one or two sentences each, and some words around the list
                max_tokens=200 + self.count * 60,
                dry_run_answer=dry_run_answer,
            )
            text, listing = answer.samples[0].text, answer.readings[0]
            # the longest list is kept, as a repair can be worse than the first answer
            if attempt == 0 or len(listing.entries) > len(best.entries):
                best = listing
            count = len(listing.entries)
            if count >= (self.count if self.exact else 1):
                break
            problem = f"{count} of {self.count} usable" if count else "no list"
            notes.append({"text": text.strip()[:MAX_QUOTED], "problem": problem})
            values = {"aspect": aspect, "count": self.count, "exact": self.exact}
            # the model sees its own answer and the problem: the same question would mostly get the
            # same answer
            prompt = prompt.append_turn(text, AGAIN_PROMPT, listing=listing, **values)
        if not best.entries:
            raise MalformedResponse(
                f"{self.ask.model.name!r} was asked to divide {aspect.name!r} into criteria but "
                f"returned no list; it said: {text.strip()[:MAX_QUOTED]!r}"
            )
        shared: Json = {"scale": self.scale or aspect.scale, "parent": aspect.id}
        shared["higher_is_better"] = aspect.higher_is_better
        parts = (Aspect(name=e.name, definition=e.definition, **shared) for e in best.entries)
        return Decomposition(of=aspect, aspects=tuple(parts), notes=(*notes, *best.dropped))

    def _read(self, sample: Sample, aspect: Aspect, unwanted: Sequence[str]) -> Listing:
        check_not_filtered(sample, f"the parts of {aspect.name!r}")
        listing = parse_listing(sample.text, most=self.count, unwanted=unwanted)
        # a cut list is used: only its last entry may be incomplete
        if sample.finish_reason != "length":
            return listing
        last = [
            {"text": f"{e.name}: {e.definition}"[:MAX_QUOTED], "problem": "cut off"}
            for e in listing.entries[-1:]
        ]
        return Listing(listing.entries[:-1], (*listing.dropped, *last))


def _dry_run_answer(aspect: Aspect, count: int, end: str) -> str:
    """Return a list as long as models wrote for HD-Eval (tables 10 to 12).

    All parts differ from each other and from all criteria, since equal requests are sent once.
    """
    layer = chr(ord("A") + aspect.id.count("/"))
    reply = (
        f"whether the text does well in this part of {aspect.id}, without faults that readers mind"
    )
    return "\n".join(f"{i}. Part {layer}{i}: {reply}{end}" for i in range(1, count + 1))


class GrownTree(Message):
    """A tree that a decomposer grew, or a part of one from a file."""

    tree: AspectTree
    """Depth first."""
    notes: tuple[dict[str, Any], ...] = ()
    """Unusable parts of answers, see `Decomposition.notes`; `under` is the id of the criterion that
    was divided."""


async def grow(decomposer: Decomposer, roots: tuple[Aspect, ...], depth: int) -> GrownTree:
    """Decompose criteria layer by layer until the tree has `depth` layers (HD-Eval, section 2.1).

    Args:
        decomposer: Divides one criterion.
        roots: The first layer.
        depth: Number of layers, with the first; at least 1.

    Raises:
        ConfigurationError: The depth is below 1.
        TextassayError: As the decomposer raised it.
    """
    if depth < 1:
        raise ConfigurationError(f"a tree must have at least 1 layer, not {depth}")
    children: dict[str, tuple[Aspect, ...]] = {}
    notes: list[Json] = []
    layer = roots
    for _ in range(depth - 1):
        parts = await gather(decomposer(aspect) for aspect in layer)
        children |= {part.of.id: part.aspects for part in parts}
        notes += [{**note, "under": part.of.id} for part in parts for note in part.notes]
        layer = tuple(aspect for part in parts for aspect in part.aspects)
    return GrownTree(
        tree=AspectTree(aspects=tuple(_depth_first(roots, children))), notes=tuple(notes)
    )


def _depth_first(
    aspects: tuple[Aspect, ...], children: dict[str, tuple[Aspect, ...]]
) -> list[Aspect]:
    ordered: list[Aspect] = []
    for aspect in aspects:
        ordered += [aspect, *_depth_first(children.get(aspect.id, ()), children)]
    return ordered
