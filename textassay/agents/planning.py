"""Has a model write what judges need: an aspect's evaluation steps, a criterion's parts.

The steps are G-Eval's automatic chain of thought (section 2.2); the parts are HD-Eval's criteria,
CoAScore's chain of relevant aspects, or a checklist's questions. A list that is too short or none
is asked for again, and a tree grows layer by layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import Field

from textassay.agents.ask import Ask, refuse_filtered
from textassay.agents.prompt_template import PromptPart, Task, as_noun
from textassay.agents.reading.lists import Listing, parse_listing
from textassay.agents.reading.ratings import MAX_QUOTED
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import ConfigurationError, MalformedResponse
from textassay.runtime.messages import Aspect, AspectTree, Message, Scale, Score
from textassay.runtime.model import Json, Sample

_DRY_RUN_ANSWER = """\
1. Read what the text was made from carefully and identify its main topic and key points.
2. Read the text and compare it with what it was made from. Check whether the text does justice \
to the criterion throughout, and note each place where it does not and how much that disturbs.
3. Assign a score on the scale that is given, where the lowest number is the worst and the \
highest the best, based on the Evaluation Criteria."""
"""As long as those that a model wrote for G-Eval (figure 1)."""
# "Example:" or "Evaluation Form (scores ONLY):", which models add after the steps, as the prompt
# that they were shown does
_AFTERWARDS = re.compile(r"(?im)^[\s*#]{0,8}(?:example|evaluation form)\b.*", re.DOTALL)


class Steps(PromptPart):
    """How to judge an aspect, step by step."""

    text: str
    """A numbered list, as prompts show it; empty if there are no steps."""

    @property
    def in_prompts(self) -> str:
        """The list."""
        return self.text


@dataclass(frozen=True, slots=True)
class StepsWriter:
    """Asks a model for the steps to judge an aspect.

    Attributes:
        ask: Model and prompt; the prompt is given `aspect` as well.
        labels_prompt: Prompt for aspects with labels; `None` if it is that of `ask`.
    """

    ask: Ask
    labels_prompt: str | None = None

    async def __call__(self, aspect: Aspect) -> Steps:
        """Return the steps.

        Raises:
            MalformedResponse: The model wrote nothing, or did not come to an end.
        """
        ask = self.ask
        if aspect.labels and self.labels_prompt:
            ask = replace(ask, prompt=self.labels_prompt)
        answer = await ask.answer(
            ask.render(aspect=aspect),
            _read,
            is_cut=lambda sample, text: not text or sample.finish_reason == "length",
            dry_run_answer=_DRY_RUN_ANSWER,
        )
        text = answer.read[0]
        if answer.cut:
            what = "did not come to an end" if text else "wrote nothing"
            raise MalformedResponse(
                f"{self.ask.model.name!r} was asked for steps to judge {aspect.name!r} and {what}"
            )
        return Steps(text=text)


def _read(sample: Sample) -> str:
    return _AFTERWARDS.sub("", sample.text).strip()


@dataclass(frozen=True, slots=True)
class WrittenSteps:
    """Takes the steps from the task's file."""

    task: Task

    def __post_init__(self) -> None:
        missing = [
            aspect.name for aspect in self.task.aspects if aspect.name not in self.task.steps
        ]
        if missing:
            raise ConfigurationError(
                f"task {self.task.name!r} has no steps for {', '.join(missing)}; add `steps` to its"
                " file or let the model write them (options={'steps': 'auto'})"
            )

    async def __call__(self, aspect: Aspect) -> Steps:
        """Return the steps as a numbered list; empty if the task says that there are none."""
        lines = enumerate(self.task.steps[aspect.name], start=1)
        return Steps(text="\n".join(f"{number}. {line}" for number, line in lines))


async def no_steps(aspect: Aspect) -> Steps:
    """Return no steps, whatever the aspect."""
    return Steps(text="")


AGAIN_PROMPT = "listing_again"
TOKENS_PER_ENTRY, TOKENS_BESIDE = 60, 200
"""Room for an answer: a name with a definition of one or two sentences each, and some words around
the list."""


class Decomposition(Message):
    """What a criterion was taken apart into."""

    of: Aspect
    """The criterion."""
    aspects: tuple[Aspect, ...] = Field(min_length=1)
    """Its parts, in the order of the answer; each has the criterion as its parent."""
    notes: tuple[dict[str, Any], ...] = ()
    """`{text, problem}` for what the model said and could not be used: repeats, surplus, answers
    that were no list."""


class RelatedAspect(Message):
    """One relevant aspect (CoAScore, equation 4)."""

    name: str
    """Its name."""
    definition: str
    """What it means."""
    score: float | None = None
    """The rating of the text on it, or `None`."""
    scale: Scale
    """Lowest and highest rating."""


class RelatedAspects(PromptPart):
    """The chain of relevant aspects as a prompt shows it."""

    aspects: tuple[RelatedAspect, ...] = Field(min_length=1)
    """In the order of the chain."""

    @classmethod
    def of(cls, aspects: Iterable[Aspect], scores: Iterable[Score] | None = None) -> RelatedAspects:
        """Put aspects and their scores together.

        Args:
            aspects: The chain.
            scores: One for each aspect, in order; `None` to show definitions only.
        """
        chain = tuple(aspects)
        values = [None] * len(chain) if scores is None else [score.value for score in scores]
        known = (
            RelatedAspect(
                name=aspect.name, definition=aspect.definition, score=value, scale=aspect.scale
            )
            for aspect, value in zip(chain, values, strict=True)
        )
        return cls(aspects=tuple(known))

    @property
    def in_prompts(self) -> tuple[RelatedAspect, ...]:
        """The aspects."""
        return self.aspects


@dataclass(frozen=True)
class Decomposer:
    """Takes one criterion apart.

    Attributes:
        ask: Model and prompt; the prompt is given `aspect` and `count` as well.
        count: Number of parts asked for; more are dropped.
        exact: Whether fewer parts than `count` are asked for again; they are taken if there still
            are not enough.
        scale: Scale of the parts; `None` for the criterion's own.
        repairs: How often an unusable answer is asked for again, with a word on what is wrong with
            it.
        questions: Whether the parts are questions.
    """

    ask: Ask
    count: int
    exact: bool = False
    scale: Scale | None = None
    repairs: int = 1
    questions: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigurationError(f"a criterion must have at least 1 part, not {self.count}")

    @cached_property
    def digest(self) -> str:
        """6 hex digits for everything that shapes the parts, the model among it."""
        ask = self.ask
        shape = (self.count, self.exact, self.scale, self.repairs)
        variants = (ask.task.digest, *shape, ask.seed, ask.model.name)
        return ask.digest(*variants, also=(AGAIN_PROMPT,))

    async def __call__(
        self, aspect: Aspect, known: Sequence[Aspect] = (), **shown: Any
    ) -> Decomposition:
        """Return the parts.

        At least one, at most `count`, without repeats and without the criterion itself.

        Args:
            aspect: The criterion.
            known: Criteria that are no parts, such as those that were tried before; the prompt is
                given them as well.
            shown: What the prompt names besides.

        Raises:
            MalformedResponse: The model gave no usable list; the message quotes what it said.
        """
        if known or shown:
            shown["known"] = tuple(known)
        unwanted = [aspect.name, as_noun(aspect).name, *(one.name for one in known)]
        prompt = self.ask.render(aspect=aspect, count=self.count, **shown)
        dry_run_answer = _dry_run_answer(aspect, self.count, "?" if self.questions else ".")
        best, notes = Listing(()), list[Json]()
        for attempt in range(self.repairs + 1):
            answer = await self.ask.answer(
                prompt,
                lambda sample: self._read(sample, aspect, unwanted),
                max_tokens=TOKENS_BESIDE + self.count * TOKENS_PER_ENTRY,
                dry_run_answer=dry_run_answer,
            )
            text, listing = answer.samples[0].text, answer.read[0]
            # A repair can be worse than what it repairs; the fullest list is kept.
            if attempt == 0 or len(listing.entries) > len(best.entries):
                best = listing
            if len(listing.entries) >= (self.count if self.exact else 1):
                break
            problem = (
                f"{len(listing.entries)} of {self.count} usable" if listing.entries else "no list"
            )
            notes.append({"text": text.strip()[:MAX_QUOTED], "problem": problem})
            values = {"aspect": aspect, "count": self.count, "exact": self.exact}
            # The model sees its own answer and what is wrong with it; the bare question again would
            # mostly give the same answer.
            prompt = prompt.append_turn(text, AGAIN_PROMPT, listing=listing, **values)
        if not best.entries:
            raise MalformedResponse(
                f"{self.ask.model.name!r} was asked to divide {aspect.name!r} into criteria but "
                f"returned no list; it said: {text.strip()[:MAX_QUOTED]!r}"
            )
        parts = tuple(
            Aspect(
                name=entry.name,
                definition=entry.definition,
                scale=self.scale or aspect.scale,
                higher_is_better=aspect.higher_is_better,
                parent=aspect.id,
            )
            for entry in best.entries
        )
        return Decomposition(of=aspect, aspects=parts, notes=(*notes, *best.dropped))

    def _read(self, sample: Sample, aspect: Aspect, unwanted: Sequence[str]) -> Listing:
        refuse_filtered(sample, f"the parts of {aspect.name!r}")
        listing = parse_listing(sample.text, most=self.count, unwanted=unwanted)
        # A list that was cut off is used all the same: only its last entry may be incomplete.
        if sample.finish_reason != "length":
            return listing
        last = [
            {"text": f"{e.name}: {e.definition}"[:MAX_QUOTED], "problem": "cut off"}
            for e in listing.entries[-1:]
        ]
        # The last definition may end in the middle.
        return Listing(listing.entries[:-1], (*listing.dropped, *last))


def _dry_run_answer(aspect: Aspect, count: int, end: str) -> str:
    """Return a list as long as those that models wrote for HD-Eval (tables 10 to 12).

    No two criteria have equal parts, nor is one a part of itself: what is asked about equal parts
    would be asked once.
    """
    layer = chr(ord("A") + aspect.id.count("/"))
    reply = (
        f"whether the text does well in this part of {aspect.id}, without faults that readers mind"
    )
    return "\n".join(f"{i}. Part {layer}{i}: {reply}{end}" for i in range(1, count + 1))


class Placed(Message):
    """A criterion at its place."""

    aspect: Aspect
    """The criterion."""
    parent: Aspect | None
    """The criterion that it is part of; `None` in the first layer."""


class GrownTree(Message):
    """A tree that a decomposer grew, or a part of one from a file."""

    tree: AspectTree
    """Depth first."""
    notes: tuple[dict[str, Any], ...] = ()
    """What could not be used, see `Decomposition.notes`; `under` is the id of the criterion that
    was taken apart."""

    @cached_property
    def placed(self) -> tuple[Placed, ...]:
        """Every node with its parent."""
        parents = {node.id: node for node in self.tree}
        return tuple(
            Placed(aspect=node, parent=node.parent and parents[node.parent]) for node in self.tree
        )


async def grow(decomposer: Decomposer, roots: tuple[Aspect, ...], depth: int) -> GrownTree:
    """Decompose criteria layer by layer until the tree has `depth` layers (HD-Eval, section 2.1).

    Args:
        decomposer: Who takes one criterion apart.
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
