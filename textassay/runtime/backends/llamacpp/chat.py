"""The chat template that a model file carries: messages to text, rendered in a sandbox.

A file without a template, or with one that does not compile, is an error that names the way around:
no other template is put in its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from textassay.runtime.errors import CapabilityError, RequestRefused
from textassay.runtime.model import ChatMessage


class TemplateRefusal(Exception):
    """Raised by a template that does not take these messages."""


class ChatTemplate:
    """A compiled template."""

    def __init__(self, source: str | None, *, file: str, bos: str = "", eos: str = "") -> None:
        """Compile.

        Args:
            source: The template as the file holds it, or `None`.
            file: The file's name, for error messages.
            bos: Text of the token that begins a text.
            eos: Text of the token that ends one.
        """
        self.source, self._file, self._tokens = (
            source or "",
            file,
            {"bos_token": bos, "eos_token": eos},
        )
        self._failed: str | None = None if source else "it has none (no tokenizer.chat_template)"
        if source:
            try:
                self._template = _environment().from_string(source)
            except jinja2.TemplateError as error:
                self._failed = f"it does not compile: {error}"

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """Return the text the model was trained on for these messages, ready for its answer.

        Raises:
            CapabilityError: There is no usable template.
            RequestRefused: The template does not take these messages.
        """
        if self._failed is not None:
            raise CapabilityError(
                f"the chat template of {self._file!r} cannot be used: {self._failed}. Ask with a"
                " plain prompt instead of messages (Request(prompt=...)), or take an"
                " instruction-tuned model's file"
            )
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            return self._template.render(messages=turns, add_generation_prompt=True, **self._tokens)
        except (
            jinja2.TemplateError,
            TemplateRefusal,
            TypeError,
            ValueError,
            KeyError,
            OverflowError,
        ) as error:
            roles = ", ".join(message.role for message in messages)
            raise RequestRefused(
                f"the chat template of {self._file!r} refuses messages of the roles {roles}:"
                f" {error}"
            ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    # Templates come with model files from anywhere, so they run in a sandbox. The settings are
    # those of transformers, for which they are written: with others a prompt has line breaks or
    # blanks that the model never saw in training.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    return environment


def _to_json(value: Any, indent: int | None = None) -> str:
    # Jinja's own `tojson` escapes `<`, `>` and `&` for HTML.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise TemplateRefusal(message)
