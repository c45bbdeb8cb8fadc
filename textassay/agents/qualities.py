"""How an aspect is put into words inside a sentence.

"a fluent and grammatical summary", "Is this ...?".

Knows the aspects of GPTScore's table by name; any other aspect, one that defines a known name
otherwise among them, is described by its definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from textassay.runtime.errors import UnknownName
from textassay.runtime.messages import Aspect, Message, Scale, Score


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


class RelatedAspects(Message):
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
