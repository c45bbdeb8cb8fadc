"""Shows the texts under evaluation in prompts.

Labeled and between delimiters that they cannot forge.
"""

from __future__ import annotations

from collections.abc import Iterable

from textassay.agents.task import Task
from textassay.prompts import fence, nonce
from textassay.runtime.messages import Example

KINDS = ("source", "context", "output")
"""The texts of an example that prompts show, in their order."""
_LABELS = tuple((kind, f"{kind}_name") for kind in KINDS)
"""Each of them, with the field of a task that says what prompts call it."""


def material(task: Task, example: Example) -> list[dict[str, str]]:
    """Return the texts of an example as prompts want them.

    `{label, text}` each, delimited, blank ones left out. References stand before the output, if the
    task has a name for them.
    """
    values, labels = vars(example), vars(task)
    shown = [
        (kind, labels[name], text)
        for kind, name in _LABELS
        if (text := values[kind]) and not text.isspace()
    ]
    if references := references_shown(task, example):
        at = len(shown) - any(kind == "output" for kind, _, _ in shown)
        shown[at:at] = references
    return fenced(shown, nonce([text for _, _, text in shown]))


def references_shown(task: Task, example: Example) -> list[tuple[str, str, str]]:
    """Return kind, label and text of each reference; none unless the task has a name for them."""
    if task.reference_name is None:
        return []
    given = [text for text in example.references if text.strip()]
    numbers = [f" {number}" for number in range(1, len(given) + 1)] if len(given) > 1 else [""]
    return [
        ("reference", f"{task.reference_name}{number}", text)
        for number, text in zip(numbers, given, strict=False)
    ]


def fenced(texts: Iterable[tuple[str, str, str]], number: str) -> list[dict[str, str]]:
    """Return texts as prompts want them: `{label, text}` each, between their delimiters.

    Args:
        texts: Kind (`source`, `output`, ...), label and text of each.
        number: What `nonce` returns for all of them.
    """
    return [{"label": label, "text": fence(kind, text, number)} for kind, label, text in texts]


def plain_texts(example: Example, kinds: Iterable[str] = KINDS) -> dict[str, str]:
    """Return the texts of an example by kind, stripped and without delimiters.

    Blank ones are left out.
    """
    texts = {kind: getattr(example, kind) for kind in kinds}
    return {kind: text.strip() for kind, text in texts.items() if text is not None and text.strip()}
