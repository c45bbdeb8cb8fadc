"""The typed messages that agents exchange.

Frozen pydantic models for the terms of `docs/glossary.md`: examples, aspects, scores, failures.

The module does not depend on prompts, files or models.
Requests to and responses from a model are in `model.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import (
    AwareDatetime,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from textassay.runtime.base import NO_USAGE, Count, Message, Number, Outcome, ScoreError, Usage
from textassay.runtime.chat_formats import read_messages, read_passages
from textassay.runtime.conversation import (
    ConversationMessage,
    Passage,
    calls_as_text,
    conversation_text,
    has_conversation,
    last_answer,
    passages_text,
)
from textassay.runtime.images import Image, ImageReader
from textassay.runtime.labels import NONE_OF_THEM, LabelScale, in_order, slug
from textassay.runtime.rubric import Criterion, read_rubric

Scale = tuple[Number, Number]
"""`(low, high)`, both ends possible, low < high."""

How = Literal["text", "sampled", "logprob", "decision", "loglikelihood", "tool", "fused"]
"""How a score was obtained."""


class Example(Message):
    """One text to judge, with its material and people's ratings."""

    id: str = Field(default="", min_length=1)
    """Unique in a data set; by default a hash of the content."""
    output: str
    """The text under evaluation."""
    source: str | None = None
    """The output's source: article, dialogue history, meaning representation, source sentence; ends
    with the text of `messages`, if there are any.
    """
    context: str | None = None
    """Further input, such as the fact a dialogue turn should use; the numbered text of `passages`,
    if there are any."""
    references: tuple[str, ...] = ()
    """Reference texts."""
    system: str | None = None
    """The system that wrote the output."""
    group: str | None = None
    """The output's source document or unit; correlations within groups and splits use it."""
    human: dict[str, Number | None] = Field(default_factory=dict)
    """Mean human rating by aspect, on the raters' own scale."""
    annotators: dict[str, tuple[Number | None, ...]] = Field(default_factory=dict)
    """Rating of each annotator by aspect; `None` if it is missing."""
    metrics: dict[str, Number | None] = Field(default_factory=dict)
    """Scores recorded elsewhere, by name."""
    meta: dict[str, Any] = Field(default_factory=dict)
    """All other fields of the input."""
    passages: tuple[Passage, ...] = ()
    """The passages of `context`, if it was given as passages."""
    messages: tuple[ConversationMessage, ...] = ()
    """The conversation that contains the output, or precedes it."""
    rubric: tuple[Criterion, ...] = ()
    """Criteria for this text, with points; `checklist` uses them."""
    images: tuple[Image, ...] = ()
    """The images that the source shows as `[Image 1]` and so on: of the conversation, and those
    that were given beside it; a path, address, data: URI or part of a message, or a list of
    these."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        if type(data) is not dict and not isinstance(data, Mapping):
            return data
        get = data.get
        if (
            get("messages")
            or get("passages")
            or get("images")
            or type(get("context")) in (list, tuple)
        ):
            data = with_material(data)
        if get("rubric"):
            data = {**data, "rubric": read_rubric(get("rubric"))}
        return {**data, "id": content_id(data)} if data.get("id") is None else data


def with_material(
    fields: Mapping[str, Any], *, images: ImageReader | None = None, **options: Any
) -> dict[str, Any]:
    """Return an example's fields with passages, messages and images typed, and as texts."""
    complete = dict(fields)
    if images is None:
        images = ImageReader()
        images.take(complete.get("images"))
    if type(complete.get("context")) in (list, tuple):
        complete["passages"] = complete.pop("context")
    if complete.get("passages"):
        passages = complete["passages"] = read_passages(complete["passages"])
        if complete.get("context") is None:
            complete["context"] = passages_text(passages) or None
    messages: tuple[ConversationMessage, ...] = ()
    if complete.get("messages"):
        messages = complete["messages"] = read_messages(complete["messages"], images)
        if complete.get("output") is None:
            # an agent may call tools without a text
            answer = last_answer(messages) or calls_as_text(messages)
            complete |= {} if answer is None else {"output": answer}
    source, output = complete.get("source"), complete.get("output")
    if images.images:
        marks = images.marks()
        if marks and isinstance(source, str | None):
            source = complete["source"] = f"{marks}\n\n{source}" if source else marks
        complete["images"] = tuple(images.images)
    # a value of another type is refused with its field's name
    if messages and isinstance(source, str | None) and not has_conversation(source, messages):
        judged = output if isinstance(output, str) else ""
        text = conversation_text(messages, judged, **options)
        complete["source"] = text if not source else f"{source}\n\n{text}"
    return complete


def content_id(fields: Mapping[str, Any]) -> str:
    """Return 16 hex digits that identify an example's texts, for rows without an id."""
    named = ("output", "source", "context", "references", "system", "group")
    values = [fields.get(name) for name in named]
    meta = fields.get("meta")
    if isinstance(meta, Mapping) and (other := meta.get("output_b")):
        values.append(other)
    if images := fields.get("images"):
        values.append([Image.model_validate(image).key for image in images])
    # Tuples as lists: the same example from a file and from Python must have the same id.
    text = "\x1f".join(repr(list(value) if isinstance(value, tuple) else value) for value in values)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _check_listable(labels: Iterable[str]) -> None:
    """Refuse labels that could not be distinguished where several may apply."""
    by_name: dict[str, str] = {}
    for label in labels:
        if ";" in label:
            raise ValueError(
                f"the label {label!r} has a semicolon, which separates labels in tables where"
                " several may apply; rename it"
            )
        if label.strip().casefold() == NONE_OF_THEM:
            raise ValueError(
                f"the label {label!r} is what raters choose if no label applies; where several may"
                " apply, leave it out"
            )
        other = by_name.setdefault(slug(label), label)
        if other != label:
            raise ValueError(
                f"the labels {other!r} and {label!r} have the same name in scores, {slug(label)!r},"
                " where several may apply; rename one"
            )


def _problem_of(scale: Scale) -> str:
    """Return why a scale cannot be used; empty if it can."""
    low, high = scale
    if not low < high:
        return f"the scale must be ascending, not from {low:g} to {high:g}"
    return "the scale is wider than numbers can express" if math.isinf(high - low) else ""


class Aspect(Message):
    """An aspect on which texts are judged."""

    name: str = Field(min_length=1)
    """Short name, as prompts and people use it; unique among siblings."""
    definition: str = Field(min_length=1)
    """Definition for the judge, in one or more sentences."""
    scale: Scale = (1.0, 5.0)
    """Lowest and highest rating a judge may give; the numbers of `labels`, if there are any."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that a judge gives instead of a rating, with their meanings, lowest first; a known
    pair such as pass and fail may be in any order. A label's number is its position, from 0."""
    ordered: bool = False
    """Whether more than two labels are ordered. Without an order, scores are the labels' numbers as
    identifiers, which have no mean.
    """
    multiple: bool = False
    """Whether several labels may apply to one text: then each is judged separately, see `members`.
    """
    member_of: str | None = None
    """Name of the aspect to which this label belongs, if several may apply."""
    higher_is_better: bool = True
    """Whether high ratings are good."""
    parent: str | None = None
    """`id` of the aspect this one is part of; `None` at the root."""
    question: str | None = None
    """The aspect as a yes/no question, if it has its own."""

    @model_validator(mode="before")
    @classmethod
    def _scale_of_labels(cls, data: Any) -> Any:
        fields = data if isinstance(data, Mapping) else {}
        if any(isinstance(end, str) for end in fields.get("scale") or ()):
            raise ValueError("scale takes the lowest and the highest number; words are labels")
        labels = fields.get("labels")
        if not isinstance(labels, Mapping | list) or not labels:
            return data
        ends = (0.0, float(len(labels) - 1)) if not data.get("multiple") else (0.0, 1.0)
        if data.get("scale") is not None and tuple(data["scale"]) != ends:
            raise ValueError("an aspect has a scale or labels, not both")
        names = list(labels)
        if len(names) < 2:
            raise ValueError("an aspect needs at least two labels")
        if data.get("multiple") and data.get("ordered"):
            raise ValueError("labels of which several may apply have no order")
        if len({str(name).strip().casefold() for name in names} - {""}) < len(names):
            raise ValueError("labels must differ by more than their case, and not be empty")
        if data.get("multiple"):
            _check_listable([str(name) for name in names])
        if isinstance(labels, list):
            labels = dict.fromkeys(labels, "")  # names that need no explanation
        if all(isinstance(name, str) for name in names):
            labels = {name: labels[name] for name in in_order(names)}
        return {**data, "labels": labels, "scale": ends}

    @model_validator(mode="after")
    def _scale_goes_up(self) -> Self:
        if problem := _problem_of(self.scale):
            raise ValueError(f"aspect {self.name!r}: {problem}")
        if not self.definition.strip():
            raise ValueError(f"aspect {self.name!r} needs a definition")
        if (self.ordered or self.multiple) and not self.labels:
            raise ValueError(f"aspect {self.name!r} is ordered or multiple, but has no labels")
        return self

    @model_serializer(mode="wrap")
    def _without_empty_labels(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        # aspects without these keep the digests that they had
        if not self.labels:
            del fields["labels"], fields["ordered"]
        if not self.multiple:
            fields.pop("multiple", None)
        if self.member_of is None:
            fields.pop("member_of", None)
        return fields

    @property
    def label_scale(self) -> LabelScale | None:
        """The labels and whether they are ordered; `None` if it has a scale."""
        names = tuple(self.labels)
        return LabelScale(names, self.ordered, self.multiple) if names else None

    @property
    def is_nominal(self) -> bool:
        """Whether its scores are labels without an order, which have no mean."""
        return self.label_scale is not None and self.label_scale.is_nominal

    @property
    def members(self) -> tuple[Aspect, ...]:
        """The aspect itself, or a yes/no aspect for each label if several may apply."""
        if not self.multiple:
            return (self,)
        return tuple(
            Aspect(
                name=name,
                definition=f"whether the label {name!r} applies{f' ({text})' if text else ''}; it"
                f" is one of the labels of {self.name}, of which several or none may apply:"
                f" {self.definition}",
                labels={"no": f"{name} does not apply", "yes": f"{name} applies"},
                question=f"Does the label {name!r}{f' ({text})' if text else ''} apply?",
                parent=self.id,
                member_of=self.name,
            )
            for name, text in self.labels.items()
        )

    @cached_property
    def id(self) -> str:
        """Path of slugs from the root, such as `coherence/logical-flow`."""
        leaf = slug(self.name)
        return leaf if self.parent is None else f"{self.parent}/{leaf}"

    def __hash__(self) -> int:
        # hashing all fields takes longer than filling an example into a prompt, and prompts are
        # cached by aspect
        return hash(self.id)

    @cached_property
    def label(self) -> str:
        """Its name in scores: its name at the root, as in human ratings, and its `id` below."""
        return self.name if self.parent is None else self.id


def label_scales(aspects: Iterable[Aspect]) -> dict[str, LabelScale]:
    """Return the label scale of each labeled aspect, by the aspect's name in scores."""
    return {aspect.label: scale for aspect in aspects if (scale := aspect.label_scale)}


class AspectTree(Message, defer_build=True):
    """Aspects as a hierarchy (HD-Eval, section 3.1).

    Every parent is in the tree; siblings have different names.
    """

    aspects: tuple[Aspect, ...]
    """All nodes; order is kept among siblings."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.aspects:
            raise ValueError("an aspect tree needs at least one aspect")
        # Two passes: a parent may come after its children in the tuple.
        ids: set[str] = set()
        for aspect in self.aspects:
            if aspect.id in ids:
                raise ValueError(f"two siblings are called {aspect.name!r} (id {aspect.id!r})")
            ids.add(aspect.id)
        for aspect in self.aspects:
            if aspect.parent is not None and aspect.parent not in ids:
                raise ValueError(
                    f"aspect {aspect.name!r} names the unknown parent {aspect.parent!r}"
                )
        return self

    def __getitem__(self, aspect_id: str) -> Aspect:
        """Return the aspect with this id; `KeyError` if the tree has none."""
        return self._by_id[aspect_id]

    # pydantic's models iterate over their fields; a tree iterates over its nodes.
    def __iter__(self) -> Iterator[Aspect]:  # type: ignore[override]
        return iter(self.aspects)

    @cached_property
    def _by_id(self) -> dict[str, Aspect]:
        return {a.id: a for a in self.aspects}

    @cached_property
    def roots(self) -> tuple[Aspect, ...]:
        """Aspects without a parent."""
        return self.children(None)

    @cached_property
    def leaves(self) -> tuple[Aspect, ...]:
        """Aspects without children."""
        parents = {a.parent for a in self.aspects}
        return tuple(a for a in self.aspects if a.id not in parents)

    @cached_property
    def depth(self) -> int:
        """Number of layers."""
        return max(a.id.count("/") for a in self.aspects) + 1

    def children(self, aspect_id: str | None) -> tuple[Aspect, ...]:
        """Return the aspects right below this one, in order."""
        return tuple(a for a in self.aspects if a.parent == aspect_id)

    def layer(self, number: int) -> tuple[Aspect, ...]:
        """Return the aspects of one layer, counted from 1 at the roots."""
        return tuple(a for a in self.aspects if a.id.count("/") == number - 1)

    def with_children(self, children: Iterable[Aspect]) -> AspectTree:
        """Return a tree with these aspects added."""
        return AspectTree(aspects=(*self.aspects, *children))


class Score(Message):
    """One judgment of one example on one aspect: its value, if any, its origin and its evidence."""

    id: str = Field(min_length=1)
    """The example's id."""
    aspect: str = Field(min_length=1)
    """The aspect's `label`."""
    value: Number | None = None
    """The rating, on `scale`; `None` exactly when `outcome` is not `scored`."""
    outcome: Outcome = "scored"
    """Whether there is a value; without one, the kind of the reason."""
    scale: Scale | None = None
    """Range of the rating; `None` if unbounded (log-likelihoods)."""
    how: How = "text"
    """How the value was obtained."""
    samples: Count | None = None
    """Number of usable samples behind the value; `None` if it does not apply."""
    spread: float | None = Field(default=None, ge=0)
    """Standard deviation of the samples (population); `None` if it does not apply."""
    mass: float | None = Field(default=None, ge=0, le=1.0 + 1e-6)
    """Probability the model gave to all label tokens together; `None` if it does not apply."""
    explanation: str | None = None
    """The judge's own words."""
    evidence: tuple[dict[str, Any], ...] = ()
    """Evidence for the value: objects with `text`, such as sub-questions with answers or
    sub-aspects with scores.
    """
    usage: Usage = NO_USAGE
    """Cost of this score; a call that serves several aspects counts on the first and is zero on the
    rest."""
    error: ScoreError | None = None
    """The reason why there is no value; `None` exactly when `outcome` is `scored`."""
    calibrated: Number | None = None
    """The expected rating by people; `None` without a calibration, or if the value is outside the
    rated range.
    """
    low: Number | None = None
    """Lower end of the interval for the expected rating."""
    high: Number | None = None
    """Upper end of the interval."""
    outside: bool | None = None
    """Whether the value is outside the rated range; `None` without a calibration."""
    signature: str = ""
    """Names method, model, prompt digest, sampling and version; scores with equal signatures are
    comparable."""
    text_digest: str = ""
    """Digest of the judged text, to distinguish ratings of this text from ratings of another text
    with the same id; empty if it is not recorded.
    """
    started: AwareDatetime | None = None
    """When work on the example began (UTC); `None` in scores outside of runs."""
    seconds: float | None = Field(default=None, ge=0)
    """Duration until its scores were complete, with waits and retries; equal for all aspects that
    were judged together.
    """

    def __eq__(self, other: object) -> bool:
        """Return whether two scores are equal apart from their times."""
        if not isinstance(other, Score):
            return NotImplemented
        # Two runs of the same evaluation are equal, though never equally fast.
        untimed = {"started": None, "seconds": None}
        return {**self.__dict__, **untimed} == {**other.__dict__, **untimed}

    @classmethod
    def unscored(
        cls, type: str, message: str, *, outcome: Outcome | None = None, **fields: Any
    ) -> Self:
        """Return a score without a value.

        Args:
            type: Type of the reason, such as `NoScoreFound`.
            message: The reason in a sentence.
            outcome: Kind of the reason; by default `abstained` if the judge declined or there was
                no text to judge, else `invalid`.
            fields: The score's other fields.
        """
        outcome = outcome or ("abstained" if type in ("Declined", "EmptyOutput") else "invalid")
        return cls(outcome=outcome, error=ScoreError(type=type, message=message), **fields)

    @model_validator(mode="after")
    def _value_and_outcome_agree(self) -> Self:
        fields = vars(self)  # attributes of a model take five times as long
        value, outcome, scale = fields["value"], fields["outcome"], fields["scale"]
        is_scored = outcome == "scored"
        if (value is not None) != is_scored:
            raise ValueError(
                f"a score is 'scored' exactly when it has a value: {outcome!r} with {value!r}"
            )
        if (fields["error"] is None) != is_scored:
            raise ValueError(
                f"a score carries an error exactly when it is not 'scored': {outcome!r}"
            )
        if scale is not None:
            low, high = scale
            if not low < high or math.isinf(high - low):
                raise ValueError(_problem_of(scale))
            if value is not None and not low <= value <= high:
                raise ValueError(f"value {value!r} is off its scale {low:g} to {high:g}")
        return self

    @property
    def unit_value(self) -> float | None:
        """The value mapped from its scale to 0..1.

        `None` if it has none or the scale is unbounded.
        """
        if self.value is None or self.scale is None:
            return None
        low, high = self.scale
        return (self.value - low) / (high - low)


class Plan(Message, defer_build=True):
    """Fusion-Eval's plan: assistants for each aspect, and steps of judging (section 3.1)."""

    assistants: dict[str, tuple[str, ...]]
    """Names of tools by name of aspect; an aspect without tools has an empty tuple."""
    steps: tuple[str, ...] = ()
    """The judge's steps, in order."""
    text: str = ""
    """The plan as the model wrote it."""

    def __hash__(self) -> int:
        return hash((self.steps, self.text))  # prompts are kept by plan


class SubQuestion(Message, defer_build=True):
    """One yes/no question about one part of the output (DecompEval, section 3.2)."""

    text: str = Field(min_length=1)
    """The question."""
    sentence: str
    """The sentence it asks about."""
    index: int = Field(ge=0)
    """Position of the sentence in the output, from 0."""


class Assignment(Message, defer_build=True):
    """The input of a method's graph: an example and the aspects to judge it on."""

    example: Example
    aspects: tuple[Aspect, ...] = Field(min_length=1)
    """The aspects, in the order of the returned scores."""


class Failure(Message):
    """A node of a graph failed; travels downstream in place of its message."""

    node: str
    """Name of the node that failed first."""
    type: str
    """Name of the exception's class."""
    message: str
    """The exception's message."""
