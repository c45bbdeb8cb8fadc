"""Renders prompts: a task's texts between delimiters, in the form of the model's profile.

A task names the texts and lists the aspects. A profile changes the prompts for a judge that does
not follow the papers' prompts, but never the meaning of a score; `methods/library/` reads both
kinds of files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from itertools import chain, repeat
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from textassay.lazy import lazy_pattern
from textassay.prompts import (
    PromptFault,
    PromptFrame,
    Turn,
    digest,
    fence,
    frame,
    nonce,
    render,
    simplify,
)
from textassay.prompts.rendering import source
from textassay.runtime.base import Json, Message
from textassay.runtime.conversation import source_beside
from textassay.runtime.errors import PromptError
from textassay.runtime.images import Image
from textassay.runtime.messages import Aspect, Example, Scale
from textassay.runtime.model import ChatMessage, Sample


class TaskNeed(StrEnum):
    """What an aspect may need of an example."""

    SOURCE = "source"
    CONTEXT = "context"
    REFERENCES = "references"
    SOURCE_OR_CONTEXT = "source or context"

    @property
    def field(self) -> str:
        """The field that an example without it is told to have; of two, either would do."""
        return "source" if self is TaskNeed.SOURCE_OR_CONTEXT else self.value


class Task(Message):
    """A kind of text, and the aspects on which it is judged."""

    name: str = Field(min_length=1)
    """Short name, such as `summarization`."""
    intro: str = Field(min_length=1)
    """One or two sentences that introduce the texts to a judge."""
    source_name: str = "Source"
    """Name of an example's `source` in prompts."""
    context_name: str = "Context"
    """Name of an example's `context` in prompts."""
    reference_name: str | None = None
    """Name of an example's references in prompts; `None` if prompts do not contain them."""
    output_name: str = "Text"
    """Name of an example's `output` in prompts."""
    aspects: tuple[Aspect, ...] = Field(min_length=1)
    """The aspects to judge, in the order of the scores."""
    family: tuple[Aspect, ...] = ()
    """All aspects of the task's file that are judged by default."""
    optional: tuple[Aspect, ...] = ()
    """Aspects of the task's file that are judged only if they are named."""
    asks: Literal["response", "conversation"] | None = None
    """Subject of GPTScore's yes/no question, if it asks one: `response` if the output ends the
    conversation, `conversation` if it is the conversation.
    """
    steps: dict[str, tuple[Annotated[str, Field(pattern=r"\S")], ...]] = {}
    """Evaluation steps by aspect name, for aspects with defined steps; `()` means no steps."""
    needs: dict[str, tuple[TaskNeed, ...]] = {}
    """Required material of an example, by aspect name."""
    published: tuple[str, ...] = ()
    """Names of aspects in the words that G-Eval's authors publish, for the profile `paper`."""
    measured: str = ""
    """Measured agreement with people, and the data."""
    digest: str = ""
    """6 hex digits that change with any word of the task's file, independent of the chosen aspects.
    """

    def with_members(self) -> Task:
        """Return the task with one aspect for each label of aspects with multiple labels."""
        members = tuple(member for aspect in self.aspects for member in aspect.members)
        return self if members == self.aspects else self.model_copy(update={"aspects": members})


def has_field(example: Example, need: TaskNeed) -> bool:
    """Return whether an example has what an aspect needs, in its fields, messages or images."""
    if need == TaskNeed.SOURCE_OR_CONTEXT:
        return has_field(example, TaskNeed.SOURCE) or has_field(example, TaskNeed.CONTEXT)
    if need == TaskNeed.REFERENCES:
        return any(text.strip() for text in example.references)
    if need == TaskNeed.CONTEXT:
        # the results of tools are the context of an agent's answer
        texts = [m.content for m in example.messages if m.role == "tool"]
        texts += [passage.text for m in example.messages for passage in m.passages]
        # "[]" and "..." do not count as passages
        return any(any(map(str.isalnum, text)) for text in (*texts, example.context or ""))
    # a conversation of nothing but answers has no source
    others = [m.content for m in example.messages if m.role != "assistant"]
    beside = source_beside(example.source, example.messages)
    return bool(example.images) or any(text.strip() for text in (beside, *others))


KINDS = ("source", "context", "output")
"""The texts of an example that prompts show, in their order."""


def material(task: Task, example: Example) -> list[dict[str, str]]:
    """Return the texts of an example for prompts: `{label, text}` each, delimited."""
    return fence_texts(material_texts(task, example))


def material_texts(task: Task, example: Example) -> list[tuple[str, str, str]]:
    """Return kind, label and text of each text of an example that is not blank.

    References come before the output, if the task has a name for them.
    """
    values, labels = vars(example), vars(task)
    texts = [
        (kind, labels[f"{kind}_name"], text)
        for kind in KINDS
        if (text := values[kind]) and not text.isspace()
    ]
    if references := references_shown(task, example):
        at = len(texts) - any(kind == "output" for kind, _, _ in texts)
        texts[at:at] = references
    return texts


def references_shown(task: Task, example: Example) -> list[tuple[str, str, str]]:
    """Return kind, label and text of each reference; empty if the task has no name for them."""
    if not task.reference_name:
        return []
    texts = [text for text in example.references if text.strip()]
    numbers = [f" {number}" for number in range(1, len(texts) + 1)] if len(texts) > 1 else [""]
    return [
        ("reference", f"{task.reference_name}{number}", text)
        for number, text in zip(numbers, texts, strict=False)
    ]


def fence_texts(texts: Sequence[tuple[str, str, str]], number: str = "") -> list[dict[str, str]]:
    """Return texts for prompts: `{label, text}` each, between their delimiters.

    Args:
        texts: Kind (`source`, `output`, ...), label and text of each.
        number: Number of the delimiters; by default the `nonce` of all texts.
    """
    number = number or nonce([text for _, _, text in texts])
    return [{"label": label, "text": fence(kind, text, number)} for kind, label, text in texts]


def plain_texts(example: Example, kinds: Iterable[str] = KINDS) -> dict[str, str]:
    """Return the nonblank texts of an example by kind, stripped and without delimiters."""
    texts = {kind: (getattr(example, kind) or "").strip() for kind in kinds}
    return {kind: text for kind, text in texts.items() if text}


Asking = Literal["chat", "plain"]
"""Send messages, for instruction-tuned models, or a plain prompt, for base models and completion
servers.
"""
Text = Literal["as-is", "simplify"]
"""Texts as they are, or in lower case with plain typography (`prompts.simplify`)."""
Lines = Literal["kept", "joined"]
"""Line breaks of texts stay, or each text is put on one line."""

# "Anna: ", "Speaker 2: "
_SPEAKER = lazy_pattern(r"\s*([^\W\d_][\w .'-]{0,30}):\s+")


class Profile(Message):
    """How to prompt a model, or models of one kind.

    The default is for models that follow the papers' prompts.
    """

    name: str = ""
    """Name or folder; empty without a profile."""
    digest: str = ""
    """6 hex digits that change with the file; empty without a profile."""
    prompts: dict[str, str] = {}
    """Paths of prompt files by the name of the built-in prompt that they replace."""
    text: Text = "as-is"
    """How texts are prepared."""
    lines: Lines = "kept"
    """How line breaks are shown."""
    conversations: tuple[str, ...] = ()
    """Tasks whose source is a conversation, shown one turn a line, `- ...`, without speakers'
    labels."""
    ask: Asking = "chat"
    """How judges are prompted."""
    ratings: Literal["written", "choices"] = "written"
    """Ratings are read from the text that a judge writes, or from the probabilities of the labels
    as the next token."""
    scale: Scale | None = None
    """Scale of the requested ratings, if not the aspect's own; ratings are mapped to the aspect's
    scale.
    """
    least_mass: float = Field(default=0.0, ge=0, lt=1)
    """Probability of all labels together below which there is no rating; only with
    `ratings="choices"`."""
    methods: tuple[str, ...] = ()
    """Methods that may use it; all of them if empty."""
    others: str = ""
    """Why other methods may not use it."""
    printed: bool = False
    """Whether prompts equal the paper's byte by byte, with texts without delimiters; methods whose
    paper publishes no prompts refuse it."""
    writes: bool = True
    """Whether the model can write lists, steps and plans."""
    options: dict[str, dict[str, Any]] = {}
    """Defaults of methods' options, by method."""
    refused: dict[str, dict[str, str]] = {}
    """Reasons why an option, or one of its values (`variant=no-scores`), has no effect, by method;
    `method` is the method itself, and `*` means every method.
    """

    @property
    def digest_parts(self) -> tuple[str, ...]:
        """The profile's part of digests; empty without a profile."""
        return (self.digest,) if self.digest else ()

    def prompt(self, name: str) -> str:
        """Return the prompt that replaces a built-in one, or the built-in one itself."""
        return self.prompts.get(name, name)

    def prepare(self, example: Example, task: Task) -> Example:
        """Return the example with its texts in the model's form."""
        talk = task.name in self.conversations
        if self.text == "as-is" and self.lines == "kept" and not talk:
            return example
        source, context, output = example.source, example.context, example.output
        if source and talk:
            source, output = _drop_speakers(source, output)
            turns = map(self.prepare_text, filter(str.strip, source.splitlines()))
            source = "\n".join(f"- {turn}" for turn in turns)
        elif source:
            source = self.prepare_text(source)
        return example.model_copy(
            update={
                "source": source,
                "context": self.prepare_text(context) if context else context,
                "output": self.prepare_text(output),
                "references": tuple(map(self.prepare_text, example.references)),
            }
        )

    def prepare_text(self, text: str) -> str:
        """Return one text in the model's form."""
        return _prepare(text, self.text, self.lines)


NO_PROFILE = Profile()
"""For models that follow the papers' prompts."""


@lru_cache(maxsize=1024)
def _prepare(text: str, how: Text, lines: Lines) -> str:
    """The results are cached, since all aspects of an example share the same texts."""
    plain = simplify(text) if how == "simplify" else text
    return " ".join(plain.split()) if lines == "joined" else plain


def _drop_speakers(source: str, output: str) -> tuple[str, str]:
    """Return a conversation and its answer without speakers' labels, if every turn has a label."""
    turns = [turn for turn in source.splitlines() if turn.strip()]
    labels = [label for turn in turns if (label := _SPEAKER.match(turn))]
    # if a line has no label, it continues a turn, or the text is not a dialogue
    if not turns or len(labels) < len(turns):
        return source, output
    named = _SPEAKER.match(output)
    if named and named[1] in {label[1] for label in labels}:
        output = output[named.end() :]
    return "\n".join(label.string[label.end() :] for label in labels), output


Layout = Literal["paper", "shared-prefix"]
"""Order of a prompt: the paper's, or texts first and aspect last so that servers can reuse the
prefix."""


class Prompt(NamedTuple):
    """A rendered prompt."""

    messages: tuple[ChatMessage, ...]
    """The messages of the chat."""
    truncatable: str | None = None
    """The part that a local model may cut at its end if the prompt does not fit."""
    images: tuple[Image, ...] = ()
    """The images that the texts name by number."""

    def append_turn(self, answer: str, prompt: str, **values: Any) -> Prompt:
        """Return the chat continued with the model's answer and another prompt."""
        # some APIs refuse an empty turn
        turn = ChatMessage(role="assistant", content=answer or "(nothing)")
        return self._replace(messages=(*self.messages, turn, *chat(prompt, **values)))

    def after_call(self, sample: Sample, prompt: str, **values: Any) -> Prompt:
        """Return the chat continued with an answer that may call functions, and another prompt.

        The prompt is the result of the first call; others are not carried out.
        """
        continued = self.append_turn(sample.text.strip(), prompt, **values)
        if not sample.native:
            return continued
        *before, turn, result = continued.messages
        contents = chain([result.content], repeat("Not done: call one function at a time."))
        results = tuple(
            {"role": "tool", "tool_call_id": call.get("id"), "content": content}
            for call, content in zip(sample.native["tool_calls"], contents, strict=False)
        )
        turn = turn.model_copy(update={"native": (sample.native,)})
        result = result.model_copy(update={"native": results})
        return continued._replace(messages=(*before, turn, result))


@dataclass(frozen=True)
class PromptTemplate:
    """One prompt file, rendered for a kind of text and a model."""

    prompt: str
    """Prompt file, as `prompts.render` takes it; it is given `task`, `layout`, `material` and
    further values of the agent."""
    task: Task
    """The kind of text that is judged."""
    layout: Layout = "paper"
    """Order of the prompt."""
    profile: Profile = NO_PROFILE
    """How to prompt a model that does not follow the papers' prompts."""
    _latest: dict[str, tuple[Example, list[dict[str, str]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The last rendered example and its texts, since aspects are mostly asked consecutively."""

    def prepare(self, example: Example) -> Example:
        """Return the example with its texts in this model's form."""
        return self.profile.prepare(example, self.task)

    def _in_english(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with `overall` as `overall quality` if sentences name it."""
        if not _names_aspect_in_sentence(self.prompt):
            return values
        return {
            name: as_noun(value) if isinstance(value, Aspect) else value
            for name, value in values.items()
        }

    @cached_property
    def takes_plain_texts(self) -> bool:
        """Whether the prompt is a profile's, which gets the texts without delimiters (`bare`)."""
        return bool(self.profile.digest)

    def render(
        self, example: Example | None = None, *, readings: Sequence[Json] = (), **values: Any
    ) -> Prompt:
        """Return the prompt for an example.

        Args:
            example: The example to judge, as `prepare` returns it; `None` for prompts without
                texts.
            readings: Further entries of `material`, `{label, text}` each.
            values: Further values for the prompt.
        """
        if not example:
            return Prompt(self.chat(**values))
        return self.bind(**values).render(example, readings)

    def bind(self, **values: Any) -> BoundPrompt:
        """Return the prompt with its values, to be rendered for many examples.

        Equal values give the same object.
        """
        try:
            return self._bind(tuple(values.items()))
        except TypeError:  # a value cannot be hashed
            return BoundPrompt(self, values)

    @cached_property
    def _bind(self) -> Callable[[tuple[tuple[str, Any], ...]], BoundPrompt]:
        return lru_cache(maxsize=1024)(lambda items: BoundPrompt(self, dict(items)))

    def texts_of(self, example: Example) -> list[dict[str, str]]:
        """Return the texts of an example for prompts, see `material`."""
        latest = self._latest.get("last")
        if not latest or latest[0] is not example:
            # one tuple, so that no other thread sees an example with the texts of another
            self._latest["last"] = latest = (example, material(self.task, example))
        return latest[1]

    def chat(self, **values: Any) -> tuple[ChatMessage, ...]:
        """Return the messages, rendered with exactly these values."""
        return chat(self.prompt, task=self.task, layout=self.layout, **self._in_english(values))

    def frame(self, labels: tuple[str, ...], values: dict[str, Any]) -> PromptFrame | None:
        """Return the messages with gaps for texts with these labels, if there can be any."""
        words = self._in_english(values)
        with _own_errors():
            return frame(self.prompt, labels, task=self.task, layout=self.layout, **words)

    def render_text(self, plain: Mapping[str, str], **values: Any) -> str:
        """Return the prompt as one text, for models that continue texts.

        Args:
            plain: Texts by kind without delimiters, which prompts of profiles take as `bare`.
            values: Further values for the prompt.
        """
        return join_messages(self.render_messages(plain, **values))

    def render_messages(self, plain: Mapping[str, str], **values: Any) -> tuple[ChatMessage, ...]:
        """Return the prompt as messages, for agents whose `values` contain the texts."""
        if self.takes_plain_texts:
            values["bare"] = plain
        return self.chat(**values)

    def digest(self, *variants: object, also: tuple[str, ...] = ()) -> str:
        """Return 6 hex digits of the prompt's words, without the examples' texts.

        Args:
            variants: Further facts that affect the request, such as the layout.
            also: Prompts that follow up on the first one.

        Raises:
            PromptError: A file is missing or not a valid template.
        """
        overall = filter(_is_overall, self.task.aspects)
        in_sentence = _names_aspect_in_sentence(self.prompt)
        nouns = [as_noun(aspect).name for aspect in overall if in_sentence]
        return prompt_digest((self.prompt, *also), *variants, *self.profile.digest_parts, *nouns)


@cache
def _names_aspect_in_sentence(prompt: str) -> bool:
    """Return whether a prompt says `rate the ... of the response`, rather than in a heading."""
    with _own_errors():
        words = source(prompt)
    return re.search(r"[a-z] \{\{ aspect\.name \}\}", words) is not None


class BoundPrompt:
    """A prompt with all values but the texts of an example.

    Rendering takes ten times as long as filling in texts, and prompts of one aspect differ only in
    their texts, so a prompt is rendered once for all examples with the same labels.
    """

    def __init__(self, template: PromptTemplate, values: dict[str, Any]) -> None:
        self._template, self._values = template, values
        self._frame: Callable[[tuple[str, ...]], PromptFrame | None]
        self._frame = lru_cache(maxsize=1024)(lambda labels: template.frame(labels, values))

    def render(self, example: Example, readings: Sequence[Json] = ()) -> Prompt:
        """Return the prompt for an example; arguments and errors as of `PromptTemplate.render`."""
        template, frame = self._template, None
        texts = template.texts_of(example)
        if readings:
            texts = [*texts, *readings]
        if not template.takes_plain_texts:
            # the key includes labels: an example without a source has a different prompt
            frame = self._frame(tuple([text["label"] for text in texts]))
        if frame:
            messages = _messages(template.prompt, frame.fill([text["text"] for text in texts]))
        else:  # the prompt has plain texts, or changes its texts (by a filter)
            messages = template.render_messages(
                plain_texts(example), material=texts, **self._values
            )
        return Prompt(messages, example.source, example.images)


def _is_overall(aspect: Aspect) -> bool:
    return aspect.name.strip().casefold() == "overall"


def as_noun(aspect: Aspect) -> Aspect:
    """Return the aspect under a name that works as a noun in a sentence (`overall quality`)."""
    if not _is_overall(aspect):
        return aspect
    return aspect.model_copy(update={"name": f"{aspect.name.strip()} quality"})


def chat(prompt: str, **values: Any) -> tuple[ChatMessage, ...]:
    """Render a prompt as the messages of a request.

    Args:
        prompt: A prompt, as `prompts.render` takes it.
        values: Values for the prompt; texts under evaluation are in `material`.

    Raises:
        PromptError: The file is missing or does not render.
    """
    with _own_errors():
        turns = render(prompt, **values)
    return _messages(prompt, turns)


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise the errors of `prompts`, which imports no other layer, as `PromptError`."""
    try:
        yield
    except PromptFault as fault:
        raise PromptError(str(fault)) from fault


def _messages(prompt: str, turns: tuple[Turn, ...]) -> tuple[ChatMessage, ...]:
    if not turns:
        raise PromptError(f"prompt {prompt!r} renders to an empty text")
    return tuple([ChatMessage(role=role, content=text) for role, text in turns])


def prompt_digest(prompts: tuple[str, ...], *variants: object) -> str:
    """Return 6 hex digits of the prompt's words, see `prompts.digest`."""
    with _own_errors():
        return digest(prompts, *variants)


def join_messages(messages: tuple[ChatMessage, ...]) -> str:
    """Return messages as one text, for models that continue texts."""
    return "\n".join(message.content for message in messages)
