"""Draws the graph of a method, or of a fitted evaluator in its folder, without asking any model."""

from __future__ import annotations

from typing import Any

from textassay.methods.by_name import build
from textassay.methods.fitted.evaluator import is_evaluator, load
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.model import Capabilities, Model


def mermaid_of(method: str, task: str | None) -> str:
    """Return a mermaid picture.

    Args:
        method: Name of a method, or path of an evaluator folder.
        task: Task to build it for; `None` for the method's own.

    Raises:
        ConfigurationError: There is no such method or task, or the folder holds no evaluator.
    """
    # a model that answers nothing: building a graph asks for a model's name and abilities only
    models: dict[str, Model] = {"": ScriptedModel([], capabilities=Capabilities())}
    options: dict[str, Any] = {}
    if is_evaluator(method):
        if load(method).model is None:
            models = {}  # learned from recorded scores, it asks no model and refuses one
        else:
            options = {"allow_change": True}  # nothing is rated, so it does not matter by whom
    return build(method, models, task=task, options=options).graph.to_mermaid()
