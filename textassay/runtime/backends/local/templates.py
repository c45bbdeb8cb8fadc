"""Prompts to token ids: chat templates and control tokens.

Control tokens are read from the template's own words, never from evaluated text. Each stretch of
text between two control tokens is tokenized in one piece, template words and evaluated text
together, as in training.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import jinja2
import numpy as np
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from textassay.runtime.backends.local.prefix_encoder import PrefixEncoder
from textassay.runtime.backends.local.tokens import Ids, Vocabulary
from textassay.runtime.errors import CapabilityError, RequestRefused
from textassay.runtime.model import ChatMessage, Prompted


class ChatTemplate:
    """The template in a model's file: messages to text, rendered in a sandbox.

    If the file has no template, or it does not compile, an error says what to do: no other template
    takes its place.
    """

    def __init__(self, source: str | None, *, file: str, bos: str = "", eos: str = "") -> None:
        self.source, self._file = source or "", file
        self._tokens = {"bos_token": bos, "eos_token": eos}
        self._failed = "" if source else "it has none (no tokenizer.chat_template)"
        try:
            self._template = _environment().from_string(self.source)
        except jinja2.TemplateError as error:
            self._failed = f"it does not compile: {error}"

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """Return the messages as the model saw them in training, up to its answer."""
        if self._failed:
            raise CapabilityError(
                f"the chat template of {self._file!r} cannot be used: {self._failed}. Ask with a"
                " plain prompt instead of messages (Request(prompt=...)), or take an"
                " instruction-tuned model's file"
            )
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            return self._template.render(messages=turns, add_generation_prompt=True, **self._tokens)
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, OverflowError) as error:
            roles = ", ".join(message.role for message in messages)
            raise RequestRefused(
                f"the chat template of {self._file!r} refuses messages of the roles {roles}:"
                f" {error}"
            ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    # Model files come from anywhere, so their templates run in a sandbox. They are written for the
    # settings of transformers: with others a prompt has line breaks or blanks that the model never
    # saw in training.
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
    raise jinja2.TemplateError(message)


class TokenizedPrompt:
    """A tokenized prompt whose ids may change if text follows it."""

    encoded: Ids = np.empty(0, np.int32)
    """Input of an encoder, empty here."""

    def __init__(self, tokenizer: PromptTokenizer, head: Ids, text: str) -> None:
        self._tokenizer, self._head, self._text = tokenizer, head, text
        self.ids: Ids = np.concatenate([head, tokenizer.plain(text)])

    def encode_with(self, text: str) -> Ids:
        """Return the ids of prompt and `text` tokenized together."""
        fixed, rest = self._cut
        return np.concatenate([fixed, self._tokenizer.plain(rest + text, remember=False)])

    @cached_property
    def _cut(self) -> tuple[Ids, str]:
        """Ids that no following text can change, and the text to tokenize after them."""
        border = self._tokenizer.last_border(self._text)
        if not border:
            return self._head, self._text
        rest = self._tokenizer.encoder.after_border(self._text, border)
        changing = len(self._tokenizer.plain(rest, remember=False))
        return self.ids[: len(self.ids) - changing], rest


class PromptTokenizer:
    """Tokenizes the prompts of requests for one model."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate) -> None:
        self._vocabulary, self._template = vocabulary, template
        special = dict(vocabulary.special_texts)
        # User-defined tokens that neither end a text nor occur in the template are ordinary words
        # of the vocabulary (runs of spaces, say): the library reads them as in training.
        harmless = {
            text
            for text in vocabulary.always_parsed
            if special[text] not in vocabulary.end_ids and text not in template.source
        }
        self._special = {text: token for text, token in special.items() if text not in harmless}
        self._parsed_in_text = frozenset(vocabulary.always_parsed) - harmless
        # The longest first: an alternation takes the first that matches, and names begin one
        # another.
        names = sorted((text for text in self._special if len(text) > 1), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, names)) or "(?!)")
        self.encoder = PrefixEncoder(vocabulary)

    def prompt(self, request: Prompted) -> TokenizedPrompt:
        """Tokenize a request's prompt or messages."""
        head = np.array(self._vocabulary.head, np.int32)
        if not request.messages:
            return TokenizedPrompt(self, head, request.prompt or "")
        pieces, text = self._messages(request.messages)
        # Many templates write the token that begins a text themselves; no training text has two.
        if pieces and pieces[0][0] in head:
            head = head[:0]
        return TokenizedPrompt(self, self._join([head, *pieces]), text)

    def plain(self, text: str, *, remember: bool = True) -> Ids:
        """Return the ids of text in which nothing is a control token.

        `remember` says whether later texts may begin like this one.
        """
        if not self._has_parsed_names(text):
            return self.encoder.encode(text, remember=remember)
        # The library finds user-defined tokens in any text, but not if their names are cut in two.
        pieces, start = [], 0
        for match in self._pattern.finditer(text):
            if match.group() in self._parsed_in_text:
                pieces.append(text[start : match.start() + 1])
                start = match.start() + 1
        return self._join(
            [self._vocabulary.encode(piece) for piece in [*pieces, text[start:]] if piece]
        )

    def _has_parsed_names(self, text: str) -> bool:
        return any(name in text for name in self._parsed_in_text)

    def last_border(self, text: str) -> int:
        """Return the end of the part whose ids do not depend on the text that follows, or 0."""
        return 0 if self._has_parsed_names(text) else self.encoder.last_border(text)

    def _messages(self, messages: Sequence[ChatMessage]) -> tuple[list[Ids], str]:
        """Return the ids up to the last control token of the chat, and the plain text after it."""
        contents = "".join(message.content for message in messages)
        # a noncharacter, which texts have no use for
        mark = next(filter(lambda mark: mark not in contents, map(chr, range(0xFDD0, 0xFDF0))), "")
        if not mark:
            raise RequestRefused(
                "the messages contain every Unicode noncharacter from U+FDD0 to U+FDEF"
            )
        rendered = self._template.render(
            [self._break_special(message, mark) for message in messages]
        )
        pieces: list[Ids] = []
        text = ""
        for plain, token in self._split(rendered):
            text = plain.replace(mark, "")
            if token is not None:
                if text:
                    pieces.append(self.plain(text))
                pieces.append(np.array([token], np.int32))
                text = ""
        return [piece for piece in pieces if len(piece)], text

    def _break_special(self, message: ChatMessage, mark: str) -> ChatMessage:
        """Break special tokens' names in a message, so that only the template's own are parsed."""
        content = self._pattern.sub(
            lambda match: match.group()[0] + mark + match.group()[1:], message.content
        )
        return message.model_copy(update={"content": content})

    def _split(self, rendered: str) -> Iterator[tuple[str, int | None]]:
        """Yield pieces of text with the special token that ends each; the last has `None`."""
        start, strip_left = 0, False
        for match in self._pattern.finditer(rendered):
            token = self._special[match.group()]
            swallows_before, swallows_after = self._vocabulary.strips(token)
            text = rendered[start : match.start()]
            # As training tokenized it: such tokens were written with the white space around them.
            text = text.lstrip() if strip_left else text
            yield text.rstrip() if swallows_before else text, token
            start, strip_left = match.end(), swallows_after
        yield rendered[start:].lstrip() if strip_left else rendered[start:], None

    @staticmethod
    def _join(pieces: Sequence[Ids]) -> Ids:
        return np.concatenate([*pieces, np.empty(0, np.int32)]).astype(np.int32, copy=False)
