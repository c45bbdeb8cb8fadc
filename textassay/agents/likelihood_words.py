"""GPTScore's words: aspects in sentences; templates, directions and questions by kind of task.

An aspect that is not in GPTScore's table, or that defines a known name otherwise, is described by
its definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from textassay.agents.task import Task
from textassay.runtime.errors import UnknownName
from textassay.runtime.messages import Aspect, Message


class Quality(Message):
    """One aspect in the words of prompts."""

    code: str = ""
    """Three letters, as GPTScore's tables have it."""
    name: str = Field(min_length=1)
    """The aspect's name."""
    definition: str
    """What it means."""
    tasks: tuple[str, ...] = ()
    """Kinds of task that the paper uses it on."""
    adjective: str | None = None
    """Stands before the noun: `fluent and grammatical`."""
    clause: str | None = None
    """Stands behind `that` if there is no adjective: `covers the content of the reference`."""
    question: str | None = None
    """The boolean question about a conversation."""
    quoted: bool = False
    """Whether the question is the paper's."""
    ours: bool = False
    """Whether the definition is ours rather than the paper's."""
    also: tuple[str, ...] = ()
    """Other names of the aspect."""
    needs_context: bool = False
    """Whether the question is about the example's `context`."""

    @property
    def names(self) -> set[str]:
        """All names in lower case."""
        return {name.casefold() for name in (self.code, self.name, *self.also) if name}


class Qualities(Message):
    """Aspects in the words of prompts."""

    aspects: tuple[Quality, ...]
    """Each under names that no other one has."""
    definitions: frozenset[str] = frozenset()
    """Definitions, besides their own, that these words stand for."""

    def find(self, name: str) -> Quality | None:
        """Return the quality of this name, or `None`."""
        folded = name.casefold()
        return next((quality for quality in self.aspects if folded in quality.names), None)

    def of(self, aspect: Aspect) -> Quality:
        """Return the quality for an aspect; one of unknown definition is described by it."""
        known = self.find(aspect.name)
        # An aspect of a known name with a definition of its own means something else: published
        # words about that name would not ask for it.
        if known is None or aspect.definition not in {known.definition, *self.definitions}:
            return described(aspect)
        return known

    def chosen(self, names: Iterable[str], aspects: Sequence[Aspect]) -> tuple[Quality, ...]:
        """Return the qualities of these names, which may also be names of the given aspects.

        Raises:
            UnknownName: A name is unknown.
        """
        own = {aspect.name.casefold(): self.of(aspect) for aspect in aspects}
        qualities = []
        for name in names:
            quality = own.get(name.casefold()) or self.find(name)
            if quality is None:
                raise UnknownName(
                    "aspect to combine", name, [*own, *(q.name for q in self.aspects)]
                )
            qualities.append(quality)
        return tuple(qualities)


def described(aspect: Aspect) -> Quality:
    """Return the quality of an aspect that has no words of its own.

    A high value means much of what it names.
    """
    meaning = " ".join(aspect.definition.split()).rstrip(".")
    does = "does well in" if aspect.higher_is_better else "shows much"
    return Quality(
        name=aspect.name, definition=aspect.definition, clause=f"{does} {aspect.name} ({meaning})"
    )


def object_of(noun: str, target: Quality, others: Sequence[Quality] = ()) -> str:
    """Return the noun phrase that a question asks about.

    `an interesting response that is specific and engaging` (GPTScore, order of aspects).

    Args:
        noun: What kind of text it is.
        target: The judged aspect.
        others: Aspects whose definitions are combined with it.
    """
    first = f"{target.adjective} {noun}" if target.adjective else noun
    clauses = [] if target.adjective else [target.clause or f"is good in {target.name}"]
    adjectives = [other.adjective for other in others if other.adjective]
    if adjectives:
        clauses.append(f"is {_listed(adjectives)}")
    clauses += [other.clause for other in others if not other.adjective and other.clause]
    article = "an" if first[0].lower() in "aeiou" else "a"
    return f"{article} {first}" + (f" that {' and '.join(clauses)}" if clauses else "")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


Direction = Literal["src-hypo", "ref-hypo", "hypo-ref"]
"""Which text is scored given which: `src-hypo` is p(hypothesis | source)."""
OverReferences = Literal["mean", "max", "harmonic", "first"]
"""What becomes of the values under several references."""


class Wording(Message):
    """How one direction is put into a prompt."""

    instruction: str = ""
    """What stands before the text, with `{object}`."""
    afterwards: str = ""
    """The same, behind the text."""
    cue: str
    """What stands between the given text and the scored one."""
    between: str = "\n\n"
    """What stands between demonstrations, and between the last one and the text."""
    prompts: dict[str, str] = {}
    """By aspect, a published prompt word for word, with `{given}` and `{scored}`; takes the place
    of `instruction`."""
    printed: dict[str, str] = {}
    """The same as a paper prints it, if its authors ran another; for the profile `paper`."""

    @model_validator(mode="after")
    def _has_places(self) -> Wording:
        for prompt in (*self.prompts.values(), *self.printed.values()):
            if not prompt.endswith("{scored}") or prompt.count("{given}") != 1:
                raise ValueError(f"{prompt!r} needs {{given}} once and ends in {{scored}}")
        return self

    def published(self, aspect: str, printed: bool = False) -> tuple[str, str] | None:
        """Return a published prompt's text before the given text, and that between the two."""
        prompt = (self.printed if printed else {}).get(aspect) or self.prompts.get(aspect)
        if prompt is None:
            return None
        before, _, cue = prompt.removesuffix("{scored}").partition("{given}")
        return before, cue


class Directed(Message):
    """The default direction of an aspect."""

    direction: Direction
    by: str = ""
    """Whose choice that is, and why."""
    note: str = ""
    """What speaks against it."""


class TaskWords(Message):
    """How a kind of task is put into prompts."""

    like: str | None = None
    """Another task whose words these are."""
    noun: str = "text"
    """What the output is called."""
    own_questions: bool = True
    """Whether an aspect's own question, in the task's file, is the boolean question; else that of
    GPTScore's table of aspects is."""
    over_references: OverReferences = "mean"
    """What becomes of several references unless something else is wanted."""
    question: str = ""
    """What stands before a boolean question."""
    templates: dict[Direction, Wording] = {}
    """By direction."""
    directions: dict[str, Directed] = {}
    """By aspect."""

    @model_validator(mode="before")
    @classmethod
    def _both_directions(cls, content: Any) -> Any:
        """Take a template named `ref-both` for both directions between hypothesis and reference."""
        templates = dict(content.get("templates", {})) if isinstance(content, dict) else {}
        both = templates.pop("ref-both", None)
        if both is None:
            return content
        return {**content, "templates": {"ref-hypo": both, "hypo-ref": both, **templates}}


class Protocols(Message):
    """GPTScore's words for all tasks."""

    tasks: dict[str, TaskWords] = {}
    default: TaskWords
    """For tasks that are not named, and for what a named one does not say."""
    conversation: str = ""
    """What stands before a boolean question about a conversation."""

    def of(self, task: Task) -> TaskWords:
        """Return the words for a task."""
        own = self.tasks.get(task.name)
        if own is not None and own.like is not None:
            own = self.tasks.get(own.like)
        question = self.conversation if task.asks else self.default.question
        if own is None:
            noun = task.output_name.lower()
            return self.default.model_copy(update={"noun": noun, "question": question})
        update = {
            "templates": {**self.default.templates, **own.templates},
            "question": own.question or question,
        }
        return own.model_copy(update=update)
