"""Puts prompt files, tasks and examples together into the messages of a request.

Knows what prompts want to be given; nothing of how answers are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textassay.agents.task import Task
from textassay.prompts import Frame, PromptFault, Turn, digest, fence, frame, nonce, render
from textassay.runtime.errors import PromptError
from textassay.runtime.messages import Example
from textassay.runtime.model import ChatMessage, Json

FRAMES_KEPT = 4096
_PLAIN = frozenset({str, int, float, bool, type(None)})
_frames: dict[tuple[Any, ...], tuple[tuple[Any, ...], Frame | None]] = {}


def material(task: Task, example: Example) -> list[dict[str, str]]:
    """Return the texts of an example in the order of prompts, `{label, text}` each, between their delimiters."""
    parts = [
        ("source", task.source_name, example.source),
        ("context", task.context_name, example.context),
    ]
    parts.append(("output", task.output_name, example.output))
    given = [
        (kind, label, text) for kind, label, text in parts if text is not None and text.strip()
    ]
    return fenced(given, nonce(text for _, _, text in given))


def fenced(parts: Iterable[tuple[str, str, str]], number: str) -> list[dict[str, str]]:
    """Return texts as prompts want them, `{label, text}` each, between their delimiters.

    Args:
        parts: Kind (`source`, `output`, ...), label and text of each.
        number: What `nonce` gives for all of them.
    """
    return [{"label": label, "text": fence(kind, text, number)} for kind, label, text in parts]


def chat(prompt: str, *, lasting: bool = True, **values: Any) -> tuple[ChatMessage, ...]:
    """Render a prompt as the messages of a request.

    Args:
        prompt: A prompt, as `prompts.render` takes it.
        lasting: Whether the values but `material` stay for other examples, so that the rest is
            worth keeping.
        values: What the prompt names; texts under evaluation come as `material`, from the function
            of that name.

    Raises:
        PromptError: The file is missing or does not render.
    """
    try:
        turns = _turns(prompt, **values) if lasting else render(prompt, **values)
    except PromptFault as fault:
        raise PromptError(str(fault)) from fault
    if not turns:
        raise PromptError(f"prompt {prompt!r} renders to nothing")
    return tuple(ChatMessage(role=turn.role, content=turn.content) for turn in turns)


def _turns(
    prompt: str, material: list[dict[str, str]] | None = None, **values: Any
) -> tuple[Turn, ...]:
    """Render the prompt, or fill the frame that an earlier example with the same values has left."""
    if material is None:
        return render(prompt, **values)
    labels = tuple([part["label"] for part in material])
    known = tuple(values.values())
    key = (
        prompt,
        labels,
        *values,
        *[value if type(value) in _PLAIN else id(value) for value in known],
    )
    kept = _frames.get(key)
    if kept is None:
        if len(_frames) >= FRAMES_KEPT:
            _frames.clear()
        kept = _frames[key] = (
            known,
            frame(prompt, labels, **values),
        )  # keeps the values, so that no id is used again
    whole = kept[1]
    if whole is None:
        return render(prompt, material=material, **values)
    return whole.fill([part["text"] for part in material])


def truncation_note(tokens: int) -> tuple[Json, ...]:
    """Return the evidence that a local model left out the end of a source that did not fit, as it was asked to.

    Args:
        tokens: How many tokens were left out; for 0 there is nothing to tell.
    """
    if not tokens:
        return ()
    return (
        {"text": f"the last {tokens} tokens of the source did not fit", "truncated_tokens": tokens},
    )


def prompt_digest(prompts: tuple[str, ...], *variants: object) -> str:
    """Return 6 hex digits for the words that are sent, see `prompts.digest`.

    Raises:
        PromptError: A file is missing or no valid template.
    """
    try:
        return digest(prompts, *variants)
    except PromptFault as fault:
        raise PromptError(str(fault)) from fault
