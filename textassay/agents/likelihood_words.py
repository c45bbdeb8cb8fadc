"""GPTScore's words: templates, directions and questions by kind of task."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from textassay.agents.task import Task
from textassay.runtime.messages import Message

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
