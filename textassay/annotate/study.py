"""The content of a study.

The items of a study, the questions per aspect, and the parts that a browser may see.

Knows examples and tasks; nothing of raters, servers or files of ratings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from textassay.agents.prompt_template import Task
from textassay.agents.reading.labels import is_whole, points_of
from textassay.runtime.conversation import Part, browser_piece, readable_parts
from textassay.runtime.data.material import OTHER_OUTPUT
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.images import for_page
from textassay.runtime.messages import Aspect, Example

MOST_OF_PIECE = 20_000
"""Characters of a turn, a result of a tool or a passage; the middle of a longer one is left out."""


@dataclass(frozen=True, slots=True)
class RatingQuestion:
    """The question about one aspect for a rater."""

    aspect: str
    definition: str
    """The aspect's definition, in the task's words."""
    kind: Literal["buttons", "number", "yes-no", "choice", "labels", "several"]
    """How it is answered."""
    values: tuple[float, ...]
    """Valid ratings, lowest first; the two ends of the scale for `number`."""
    # the digest of the task covers the fields that follow

    labels: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Name and definition of each label, in the order of `values`, for `labels`; the possible
    labels, for `several`.
    """
    ordered: bool = field(default=False, repr=False)
    """Whether labels are ordered."""
    names: tuple[str, ...] = field(default=(), repr=False)
    """Names of the ratings: the aspect, or each of its labels for `several`."""

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", (self.aspect,))

    @classmethod
    def of(cls, aspect: Aspect, *, paired: bool) -> RatingQuestion:
        """Return the question that asks for an aspect's rating."""
        if paired:
            # how much better `output` is than `output_b`: 0.5 if both are equally good
            return cls(aspect.label, aspect.definition, "choice", (0.0, 0.5, 1.0))
        if aspect.multiple:
            members = tuple(member.label for member in aspect.members)
            named = tuple(aspect.labels.items())
            return cls(aspect.label, aspect.definition, "several", (0.0, 1.0), named, names=members)
        points = tuple(point.value for point in points_of(aspect.scale, "number"))
        if aspect.labels:
            named = tuple(aspect.labels.items())
            ordered = len(named) == 2 or aspect.ordered
            return cls(aspect.label, aspect.definition, "labels", points, named, ordered)
        if points == (0.0, 1.0) and is_whole(aspect.scale):
            return cls(aspect.label, aspect.question or aspect.definition, "yes-no", points)
        # two points are nearly always the ends of a continuous or very wide scale, for which
        # buttons cannot serve; a scale of 0 and 1 was handled above
        # at most 11 buttons, as for a scale of 0 to 10; wider scales get a field for a number
        if len(points) == 2 or len(points) > 11:
            return cls(aspect.label, aspect.definition, "number", (points[0], points[-1]))
        return cls(aspect.label, aspect.definition, "buttons", points)

    def accepts(self, value: object) -> bool:
        """Return whether a rating is valid; `None` means that the text cannot be judged."""
        if value is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.kind == "number":
            return self.values[0] <= value <= self.values[-1]
        return value in self.values

    def read_answer(self, ratings: Mapping[str, float | None]) -> float | str | list[str] | None:
        """Return a rater's answer: a number, a label by its name, or several labels.

        `None` if the rater could not judge it, or did not.
        """
        values = [ratings.get(name) for name in self.names]
        if None in values:
            return None
        if self.kind == "several":
            return [name for (name, _), value in zip(self.labels, values, strict=True) if value]
        value = values[0]
        return self.labels[int(value or 0)][0] if self.kind == "labels" else value


@dataclass(frozen=True, slots=True)
class Guidelines:
    """Instructions for raters beside the definitions of the task."""

    name: str
    """Name of their file, without its folder."""
    text: str
    """The text, shown unchanged."""

    @classmethod
    def read(cls, path: Path) -> Guidelines:
        """Read a file of text or Markdown."""
        try:
            text = path.read_text(encoding="utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the guidelines {path} cannot be read: {error}") from error
        if not text:
            raise DataError(f"the guidelines {path} are empty")
        return cls(path.name, text)

    @property
    def digest(self) -> str:
        """Hex digits that change with the text."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()[:16]

    def as_dict(self) -> dict[str, str]:
        """Return name and digest, for the file of ratings."""
        return {"name": self.name, "digest": self.digest}


class Study:
    """The items to rate, and their views for a browser."""

    def __init__(
        self,
        examples: Iterable[Example],
        task: Task,
        *,
        per_item: int = 1,
        repeat_share: float = 0.07,
        seed: int = 0,
        probabilities: Mapping[str, float] | None = None,
        guidelines: Guidelines | None = None,
    ) -> None:
        if per_item < 1:
            raise ConfigurationError(f"per_item must be at least 1, not {per_item}")
        if not 0 <= repeat_share <= 0.5:
            raise ConfigurationError(f"repeat_share must be from 0 to 0.5, not {repeat_share:g}")
        self.task, self.per_item, self.seed = task, per_item, seed
        self.repeat_share, self.guidelines = repeat_share, guidelines
        self.probabilities = dict(probabilities or {})
        self.examples = _choose(tuple(examples), self.probabilities)
        paired = {example.meta.get(OTHER_OUTPUT) is not None for example in self.examples}
        if len(paired) > 1:
            raise ConfigurationError(
                f"some examples have {OTHER_OUTPUT!r} and some do not: rate comparisons and single "
                "texts in two studies"
            )
        self.paired = paired == {True}
        self.questions = tuple(RatingQuestion.of(a, paired=self.paired) for a in task.aspects)
        self.names = tuple(name for question in self.questions for name in question.names)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """One opaque key per example: ids often name the system, so no browser gets them."""
        return tuple(self._key(example.id) for example in self.examples)

    @cached_property
    def by_key(self) -> dict[str, Example]:
        """The examples by their keys."""
        return dict(zip(self.keys, self.examples, strict=True))

    @cached_property
    def digest(self) -> str:
        """Hex digits that change with the examples, task, aspects, guidelines or design."""
        parts = [
            self.task.name,
            self.task.digest,
            repr(self.questions),
            f"{self.per_item} {self.repeat_share} {self.seed}",
            # ratings of one file were all given under the same guidelines, texts and images; other
            # fields of the data may change
            *([] if self.guidelines is None else [self.guidelines.digest]),
            *(
                repr((e.id, e.output, e.source, e.context, *(image.key for image in e.images)))
                for e in self.examples
            ),
        ]
        joined = "\x1e".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.sha256(joined).hexdigest()[:16]

    def browser_view(self) -> dict[str, Any]:
        """Return the introduction and the questions that every rater sees before the first item."""
        guidelines = self.guidelines
        return {
            "intro": self.task.intro,
            "guidelines": guidelines and {**guidelines.as_dict(), "text": guidelines.text},
            "paired": self.paired,
            "questions": [
                {name: value for name, value in asdict(question).items() if name != "ordered"}
                for question in self.questions
            ],
        }

    def browser_item(self, key: str, *, swapped: bool = False) -> dict[str, Any]:
        """Return the browser's view of an item: texts with their labels, and nothing else."""
        example = self.by_key[key]
        labels = {"conversation": "Conversation", "source": self.task.source_name}
        parts = readable_parts(
            example.source, example.context, example.messages, example.passages, example.output,
            most=MOST_OF_PIECE,
        )  # fmt: skip
        outputs = [(self.task.output_name, example.output)]
        if self.paired:
            pair = [example.output, str(example.meta[OTHER_OUTPUT])]
            pair = pair[::-1] if swapped else pair
            outputs = [(f"{self.task.output_name} {n}", text) for n, text in enumerate(pair, 1)]
        return {
            "key": key,
            "given": [
                _to_piece(labels.get(part.kind, self.task.context_name), part) for part in parts
            ],
            "outputs": [_show(label, text) for label, text in outputs],
            "images": [_show(image.label, for_page(image)) for image in example.images],
        }

    def check(self, ratings: object) -> dict[str, float | None]:
        """Return a rater's answers by aspect, checked against the questions."""
        if not isinstance(ratings, Mapping):
            raise DataError("ratings must be an object with one entry per aspect")
        question_of = {name: question for question in self.questions for name in question.names}
        for name in ratings:
            if name not in question_of:
                raise DataError(f"ratings name the unknown aspect {name!r}")
        checked: dict[str, float | None] = {}
        for name, question in question_of.items():
            if name not in ratings:
                raise DataError(
                    f"ratings are missing the aspect {name!r}; send null if it is unratable"
                )
            value = ratings[name]
            if not question.accepts(value):
                offered = ", ".join(f"{number:g}" for number in question.values)
                raise DataError(f"the rating of {name!r} must be one of {offered} or null")
            checked[name] = None if value is None else float(value)
        for question in self.questions:
            if len({checked[name] is None for name in question.names}) > 1:
                raise DataError(f"ratings of {question.aspect!r} do not cover all labels")
        return checked

    def _key(self, example_id: str) -> str:
        return hashlib.blake2b(
            example_id.encode("utf-8", "surrogatepass"),
            # keyed, so that a known id cannot be found by hashing it without the seed
            key=f"textassay study {self.seed}".encode(),
            digest_size=8,
        ).hexdigest()


def _choose(examples: Sequence[Example], sampled: Mapping[str, float]) -> tuple[Example, ...]:
    if sampled:
        lacking = sampled.keys() - {example.id for example in examples}
        if lacking:
            raise DataError(
                f"{len(lacking)} sampled ids are not in the data, such as {min(lacking)!r}"
            )
        examples = [example for example in examples if example.id in sampled]
    if not examples:
        raise DataError("there is nothing to rate: the data contain no example")
    return tuple(examples)


def _to_piece(label: str, part: Part) -> dict[str, Any]:
    """Return a text, or a conversation or passages as pieces."""
    if not part.pieces:
        return _show(label, part.text)
    pieces = [browser_piece(piece, _clean(piece.text), _clean) for piece in part.pieces]
    return {"label": label, "pieces": pieces}


def _show(label: str, text: str) -> dict[str, Any]:
    return {"label": label, "text": _clean(text)}


def _clean(text: str) -> str:
    # half of a surrogate pair has no UTF-8 form and would make the reply unreadable
    return text.encode("utf-8", "replace").decode("utf-8")
