"""A task as judges see it: what the texts are called and which aspects are judged.

Knows nothing of files.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from textassay.runtime.messages import Aspect, Message


class Task(Message):
    """What kind of text is judged."""

    name: str = Field(min_length=1)
    """Short name, such as `summarization`."""
    intro: str = Field(min_length=1)
    """One or two sentences that tell a judge what will be shown."""
    source_name: str = "Source"
    """What an example's `source` is called in prompts."""
    context_name: str = "Context"
    """What an example's `context` is called in prompts."""
    reference_name: str | None = None
    """What an example's references are called in prompts; `None` if no judge is shown them."""
    output_name: str = "Text"
    """What an example's `output` is called in prompts."""
    aspects: tuple[Aspect, ...] = Field(min_length=1)
    """What is judged, in the order of the scores."""
    family: tuple[Aspect, ...] = ()
    """All aspects of the task's file that are judged by default."""
    optional: tuple[Aspect, ...] = ()
    """Aspects of the task's file that are judged only if they are named."""
    asks: Literal["response", "conversation"] | None = None
    """Whether GPTScore asks a yes/no question about a conversation: one that ends in the output
    (`response`), or the output itself (`conversation`)."""
    steps: dict[str, tuple[str, ...]] = {}
    """Evaluation steps by aspect name, for aspects that come with some, or with none (`()`)."""
    published: tuple[str, ...] = ()
    """Names of aspects in the words that G-Eval's authors publish, for the profile `paper`."""
    measured: str = ""
    """What agreement with people it was measured at, and on what."""
    digest: str = ""
    """6 hex digits that change with any word of the task's file, whichever aspects are chosen."""

    def with_members(self) -> Task:
        """Return the task with one aspect for each label of which several may apply."""
        members = tuple(member for aspect in self.aspects for member in aspect.members)
        return self if members == self.aspects else self.model_copy(update={"aspects": members})
