"""Prompts and settings for models that do not follow the papers' prompts.

Its own prompts, its way with texts and ratings.

A profile changes how judges are asked, never what a score means. Knows nothing of files;
`methods/library/profiles.py` reads them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from textassay.agents.task import Task
from textassay.prompts import simplify
from textassay.runtime.messages import Example, Message, Scale

Asking = Literal["chat", "plain"]
"""Ask by messages, for instruction-tuned models, or by a plain prompt, for base models and
completion servers."""
Text = Literal["as-is", "simplify"]
"""Texts as they are, or in lower case with plain typography (`prompts.simplify`)."""
Lines = Literal["kept", "joined"]
"""Line breaks of texts stay, or each text is put on one line."""
RatingSource = Literal["written", "choices"]
"""Ratings are read from what a judge writes, or from the probabilities of the labels as what comes
next."""

# "Anna: ", "Speaker 2: "
_SPEAKER = re.compile(r"\s*([^\W\d_][\w .'-]{0,30}):\s+")
MAX_TEXTS = 1024


class Profile(Message):
    """How one model, or several of a kind, are asked.

    The default is a model that follows the papers' prompts.
    """

    name: str = ""
    """Name or folder; empty for none."""
    digest: str = ""
    """6 hex digits that change with the file; empty for none."""
    prompts: dict[str, str] = {}
    """Path of the prompt file that takes the place of a built-in one, by that one's name."""
    text: Text = "as-is"
    """How texts are prepared."""
    lines: Lines = "kept"
    """What becomes of line breaks."""
    conversations: tuple[str, ...] = ()
    """Tasks whose source is a conversation, shown one turn a line, `- ...`, without speakers'
    labels."""
    ask: Asking = "chat"
    """How judges are asked."""
    ratings: RatingSource = "written"
    """How ratings are read."""
    scale: Scale | None = None
    """Scale on which ratings are requested, if not the aspect's own; they are mapped onto that."""
    least_mass: float = Field(default=0.0, ge=0, lt=1)
    """Probability of all labels together below which there is no rating; only for ratings that are
    choices."""
    methods: tuple[str, ...] = ()
    """Methods that it is for; all of them if empty."""
    printed: bool = False
    """Whether prompts are those of a paper byte by byte, the texts without delimiters; methods
    whose paper publishes none refuse it."""
    writes: bool = True
    """Whether the model can be asked for lists, steps and plans."""
    options: dict[str, dict[str, Any]] = {}
    """Defaults of methods' options, by method."""
    refused: dict[str, dict[str, str]] = {}
    """Why an option, or a value of it (`variant=no-scores`), has no effect, by method; `method` is
    the method itself, and `*` stands for every method."""

    @property
    def digest_parts(self) -> tuple[str, ...]:
        """What distinguishes its scores from those of other profiles; empty for no profile."""
        return (self.digest,) if self.digest else ()

    def prompt(self, name: str) -> str:
        """Return the prompt that replaces a built-in one, or the built-in one itself."""
        return self.prompts.get(name, name)

    def shows_as_is(self, task: Task) -> bool:
        """Return whether a task's texts are shown as they are, with nothing to prepare."""
        is_plain = self.text == "as-is" and self.lines == "kept"
        return is_plain and task.name not in self.conversations

    def prepare(self, example: Example, task: Task) -> Example:
        """Return the example with its texts as the model is shown them."""
        if self.shows_as_is(task):
            return example
        source, output = example.source, example.output
        talk = task.name in self.conversations
        if talk and source is not None:
            source, output = _unlabeled(source, output)
        return example.model_copy(
            update={
                "source": (
                    source
                    if source is None
                    else self._turns(source)
                    if talk
                    else self.prepare_text(source)
                ),
                "context": None if example.context is None else self.prepare_text(example.context),
                "output": self.prepare_text(output),
                "references": tuple(map(self.prepare_text, example.references)),
            }
        )

    def prepare_text(self, text: str) -> str:
        """Return one text as the model is shown it."""
        return _prepared(text, self.text, self.lines)

    def _turns(self, source: str) -> str:
        return "\n".join(
            f"- {self.prepare_text(turn)}" for turn in source.splitlines() if turn.strip()
        )


NO_PROFILE = Profile()
"""For models that follow the papers' prompts."""


@lru_cache(maxsize=MAX_TEXTS)
def _prepared(text: str, how: Text, lines: Lines) -> str:
    """Return a text prepared.

    Remembered, since every aspect of an example is asked about with the same texts.
    """
    plain = simplify(text) if how == "simplify" else text
    return " ".join(plain.split()) if lines == "joined" else plain


def _unlabeled(source: str, output: str) -> tuple[str, str]:
    """Return a conversation and its answer without speakers' labels, if every turn has one."""
    turns = [turn for turn in source.splitlines() if turn.strip()]
    labels = [_SPEAKER.match(turn) for turn in turns]
    present = [label for label in labels if label is not None]
    # A line without a label is the rest of a turn, or no dialogue at all: then nothing is taken
    # away.
    if not turns or len(present) < len(turns):
        return source, output
    named = _SPEAKER.match(output)
    if named is not None and named[1] in {label[1] for label in present}:
        output = output[named.end() :]
    return "\n".join(
        turn[label.end() :] for turn, label in zip(turns, present, strict=True)
    ), output
