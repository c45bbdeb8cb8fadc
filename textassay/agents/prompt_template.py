"""Renders one prompt for examples as one model is shown them.

Prompt file, layout, task and the model's profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic_core import to_json

from textassay.agents.profile import NO_PROFILE, Profile
from textassay.agents.shown_material import material, plain_texts
from textassay.agents.task import Task
from textassay.prompts import PromptFault, PromptFrame, Turn, digest, frame, render
from textassay.runtime.errors import PromptError
from textassay.runtime.images import Image
from textassay.runtime.messages import Aspect, Example
from textassay.runtime.model import ChatMessage, Sample

Layout = Literal["paper", "shared-prefix"]
"""Order of a prompt: the paper's, or texts first and aspect last so that servers can reuse the
prefix."""

NOT_DONE = "Not done: call one function at a time."
"""What a call returns that came beside another one."""
MAX_FRAMES = 1024
"""Rendered prompts that one template keeps; the oldest is dropped first."""

_NEW: Any = object()
K = TypeVar("K")
V = TypeVar("V")

IN_SENTENCES = (
    "llm_score", "llm_score_cot", "llm_score_labels", "pairwise", "coascore",
    "coascore_aspects", "hd_eval", "hd_eval_decompose",
)  # fmt: skip
"""Prompts that name an aspect inside a sentence (`rate the ... of the response`), rather than as a
heading."""


class Prompt(NamedTuple):
    """A rendered prompt.

    Attributes:
        messages: The messages of the chat.
        truncatable: The part of them that a local model may cut at its end if all does not fit.
        images: The images that the texts name by number.
    """

    messages: tuple[ChatMessage, ...]
    truncatable: str | None = None
    images: tuple[Image, ...] = ()

    def followed_by(self, answer: str, prompt: str, **values: Any) -> Prompt:
        """Return the chat continued with the model's answer and another prompt.

        Raises:
            PromptError: The prompt file does not render.
        """
        # Some APIs refuse an empty turn.
        turn = ChatMessage(role="assistant", content=answer or "(nothing)")
        return self._replace(messages=(*self.messages, turn, *chat(prompt, **values)))

    def after_call(self, sample: Sample, prompt: str, **values: Any) -> Prompt:
        """Return the chat continued with an answer that may call functions, and another prompt.

        The prompt is what the first call returned; others were not carried out.

        Raises:
            PromptError: The prompt file does not render.
        """
        continued = self.followed_by(sample.text.strip(), prompt, **values)
        if sample.native is None:
            return continued
        *before, turn, result = continued.messages
        results = tuple(
            {
                "role": "tool",
                "tool_call_id": call.get("id"),
                "content": NOT_DONE if number else result.content,
            }
            for number, call in enumerate(sample.native["tool_calls"])
        )
        natives = ((turn, (sample.native,)), (result, results))
        ending = (one.model_copy(update={"native": native}) for one, native in natives)
        return continued._replace(messages=(*before, *ending))


@dataclass(frozen=True)
class PromptTemplate:
    """One prompt file, rendered for a kind of text and a model.

    Attributes:
        prompt: Prompt file, as `prompts.render` takes it; it is given `task`, `layout`, `material`
            and whatever the agent adds.
        task: What kind of text is judged.
        layout: Order of the prompt.
        profile: How the model is asked if it does not follow the papers' prompts.
    """

    prompt: str
    task: Task
    layout: Layout = "paper"
    profile: Profile = NO_PROFILE
    _bound: dict[Any, BoundPrompt] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _latest: dict[str, tuple[Example, list[dict[str, str]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The example that was rendered last, and its texts: aspects are mostly asked in a row."""

    def prepare(self, example: Example) -> Example:
        """Return the example with its texts as this model is shown them."""
        if self._shows_as_is:
            return example
        return self.profile.prepare(example, self.task)

    @cached_property
    def _shows_as_is(self) -> bool:
        return self.profile.shows_as_is(self.task)

    def prepare_text(self, text: str) -> str:
        """Return one text as this model is shown it."""
        return self.profile.prepare_text(text)

    @property
    def _has_sentences(self) -> bool:
        name = Path(self.prompt).stem if self.profile.printed else self.prompt
        return name in IN_SENTENCES

    def _in_english(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with `overall` as `overall quality` if sentences name it."""
        if not self._has_sentences:
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
        self,
        example: Example | None = None,
        *,
        readings: list[dict[str, str]] | None = None,
        **values: Any,
    ) -> Prompt:
        """Return the prompt for an example.

        Args:
            example: What is judged, as `prepare` returns it; `None` for prompts without texts.
            readings: Further entries of `material`, `{label, text}` each.
            values: What the prompt names besides.

        Raises:
            PromptError: The prompt file does not render.
        """
        if example is None:
            return Prompt(self.chat(**values))
        return self.bind(**values).render(example, readings)

    def bind(self, **values: Any) -> BoundPrompt:
        """Return the prompt with what it names besides the examples, for many of them.

        Equal values give the same object.
        """
        key: Any = (tuple(values), *values.values())
        try:
            bound = self._bound.get(key)
        except TypeError:  # a value that does not hash, such as a plan: its JSON stands for it
            key = to_json(values)
            bound = self._bound.get(key)
        if bound is None:
            bound = BoundPrompt(self, values)
            _keep(self._bound, key, bound)
        return bound

    def texts_of(self, example: Example) -> list[dict[str, str]]:
        """Return the texts of an example as prompts want them, see `material`."""
        latest = self._latest.get("last")
        if latest is None or latest[0] is not example:
            # one tuple, so that no other thread sees an example with the texts of another
            self._latest["last"] = latest = (example, material(self.task, example))
        return latest[1]

    def chat(self, **values: Any) -> tuple[ChatMessage, ...]:
        """Return the messages, rendered with exactly these values.

        Raises:
            PromptError: The prompt file does not render.
        """
        return chat(self.prompt, task=self.task, layout=self.layout, **self._in_english(values))

    def frame(self, labels: tuple[str, ...], values: dict[str, Any]) -> PromptFrame | None:
        """Return the messages with gaps for texts with these labels; `None` if there can be none.

        Raises:
            PromptError: The prompt file does not render.
        """
        try:
            words = self._in_english(values)
            return frame(self.prompt, labels, task=self.task, layout=self.layout, **words)
        except PromptFault as fault:
            raise PromptError(str(fault)) from fault

    def render_text(self, plain: Mapping[str, str], **values: Any) -> str:
        """Return the prompt as one text, for models that continue texts.

        Args:
            plain: Texts by kind without delimiters, which prompts of profiles take as `bare`.
            values: What the prompt names besides.

        Raises:
            PromptError: The prompt file does not render.
        """
        return joined_text(self.render_messages(plain, **values))

    def render_messages(self, plain: Mapping[str, str], **values: Any) -> tuple[ChatMessage, ...]:
        """Return the prompt as messages, for agents that put the texts into `values` themselves.

        Raises:
            PromptError: The prompt file does not render.
        """
        if self.takes_plain_texts:
            values["bare"] = plain
        return self.chat(**values)

    def digest(self, *variants: object, also: tuple[str, ...] = ()) -> str:
        """Return 6 hex digits for the words that are sent apart from the examples' own.

        Args:
            variants: Whatever else shapes what is sent, such as the layout.
            also: Prompts that follow up on the first one.

        Raises:
            PromptError: A file is missing or not a valid template.
        """
        nouns = [
            as_noun(a).name for a in self.task.aspects if self._has_sentences and _is_overall(a)
        ]
        return prompt_digest((self.prompt, *also), *variants, *self.profile.digest_parts, *nouns)


class BoundPrompt:
    """A prompt with all that it names but the texts of an example.

    Rendering takes ten times as long as filling in texts, and prompts of one aspect differ in
    nothing else, so it is rendered once for all examples with the same labels.
    """

    def __init__(self, template: PromptTemplate, values: dict[str, Any]) -> None:
        """Store what is rendered, see `PromptTemplate.bind`."""
        self._template, self._values = template, values
        self._frames: dict[tuple[str, ...], PromptFrame | None] = {}

    def render(self, example: Example, readings: list[dict[str, str]] | None = None) -> Prompt:
        """Return the prompt for an example; arguments and errors as of `PromptTemplate.render`."""
        template = self._template
        texts = template.texts_of(example)
        if readings:
            texts = [*texts, *readings]
        if template.takes_plain_texts:
            bare = plain_texts(example)
            messages = template.chat(material=texts, bare=bare, **self._values)
            return Prompt(messages, example.source, example.images)
        # Labels belong to the key: an example without a source has another prompt than one with it.
        labels = tuple([text["label"] for text in texts])
        frame = self._frames.get(labels, _NEW)
        if frame is _NEW:
            frame = template.frame(labels, self._values)
            _keep(self._frames, labels, frame)
        # This prompt changes the texts (a filter, say), so it must be rendered for each example.
        if frame is None:
            messages = template.chat(material=texts, **self._values)
            return Prompt(messages, example.source, example.images)
        turns = frame.fill([text["text"] for text in texts])
        return Prompt(_messages(template.prompt, turns), example.source, example.images)


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Add to a dict of at most `MAX_FRAMES`; the oldest makes room."""
    if len(kept) >= MAX_FRAMES:
        del kept[next(iter(kept))]  # dicts keep the order of insertion
    kept[key] = value


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
        values: What the prompt names; texts under evaluation come as `material`.

    Raises:
        PromptError: The file is missing or does not render.
    """
    try:
        turns = render(prompt, **values)
    except PromptFault as fault:
        raise PromptError(str(fault)) from fault
    return _messages(prompt, turns)


def _messages(prompt: str, turns: tuple[Turn, ...]) -> tuple[ChatMessage, ...]:
    if not turns:
        raise PromptError(f"prompt {prompt!r} renders to an empty text")
    return tuple([ChatMessage(role=role, content=text) for role, text in turns])


def prompt_digest(prompts: tuple[str, ...], *variants: object) -> str:
    """Return 6 hex digits for the words that are sent, see `prompts.digest`.

    Raises:
        PromptError: A file is missing or not a valid template.
    """
    try:
        return digest(prompts, *variants)
    except PromptFault as fault:
        raise PromptError(str(fault)) from fault


def joined_text(messages: tuple[ChatMessage, ...]) -> str:
    """Return messages as one text, for models that continue texts."""
    return "\n".join(message.content for message in messages)
