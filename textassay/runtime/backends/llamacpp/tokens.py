"""Prompts to token ids.

Control tokens are read out of the template's own words, never out of evaluated text.

Each stretch of text between two control tokens is tokenized in one piece, template words and
evaluated text together, since that is how the model saw them in training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from textassay.runtime.backends.llamacpp.chat import ChatTemplate
from textassay.runtime.backends.llamacpp.prefix_encoder import PrefixEncoder
from textassay.runtime.backends.llamacpp.weights import Ids, Weights
from textassay.runtime.errors import RequestRefused
from textassay.runtime.model import ChatMessage, Prompted

_MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # noncharacters: no text has a use for them


class TokenizedPrompt:
    """A tokenized prompt that knows how its ids change when text follows it."""

    def __init__(self, tokenizer: GGUFTokenizer, head: Ids, text: str) -> None:
        """Take the ids up to the last control token, and the plain text after it."""
        self._tokenizer, self._head, self._text = tokenizer, head, text
        self.ids: Ids = np.concatenate([head, tokenizer.plain(text)])

    def followed_by(self, text: str) -> Ids:
        """Return the ids of prompt and `text` tokenized together."""
        fixed, rest = self._cut
        return np.concatenate([fixed, self._tokenizer.plain(rest + text, remember=False)])

    @cached_property
    def _cut(self) -> tuple[Ids, str]:
        """Ids that no following text can change, and the text to tokenize after them."""
        border = self._tokenizer.last_border(self._text)
        if not border:
            return self._head, self._text
        rest = self._tokenizer.after_border(self._text, border)
        changing = len(self._tokenizer.plain(rest, remember=False))
        return self.ids[: len(self.ids) - changing], rest


class GGUFTokenizer:
    """Tokenizes requests for one model file."""

    def __init__(self, weights: Weights, template: ChatTemplate) -> None:
        """Look up the file's special tokens."""
        self._weights, self._template = weights, template
        special = dict(weights.special_texts)
        # User-defined tokens that neither end a text nor occur in the template are ordinary words
        # of the vocabulary (runs of spaces, say): reading them as llama.cpp does is what training
        # did.
        harmless = {
            text
            for text in weights.always_parsed
            if special[text] not in weights.end_ids and text not in template.source
        }
        self._special = {text: token for text, token in special.items() if text not in harmless}
        self._parsed_in_text = frozenset(weights.always_parsed) - harmless
        # The longest first: an alternation takes the first that matches, and names begin one
        # another.
        names = sorted((text for text in self._special if len(text) > 1), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, names))) if names else None
        self._encoder = PrefixEncoder(weights)

    def prompt(self, request: Prompted) -> TokenizedPrompt:
        """Tokenize a request's prompt or messages.

        Raises:
            ConfigurationError: Messages were given, and the file has no usable chat template.
            RequestRefused: The text cannot be tokenized, or the template refuses the messages.
        """
        bos = self._weights.bos if self._weights.adds_bos else None
        head: list[Ids] = [] if bos is None else [np.array([bos], np.int32)]
        if request.prompt is not None:
            return TokenizedPrompt(self, self._joined(head), request.prompt)
        parts, text = self._messages(request.messages)
        # Many templates write the token that begins a text themselves; no training text has two.
        if head and parts and parts[0][0] == bos:
            head = []
        return TokenizedPrompt(self, self._joined([*head, *parts]), text)

    def plain(self, text: str, *, remember: bool = True) -> Ids:
        """Return the ids of text in which nothing is a control token.

        Args:
            text: The text.
            remember: Whether texts to come may begin like this one.
        """
        if self._pattern is None or not self._has_parsed_names(text):
            return self._encoder.encode(text, remember=remember)
        # llama.cpp takes user-defined tokens out of any text; cut in two, their names stay text
        pieces, start = [], 0
        for match in self._pattern.finditer(text):
            if match.group() in self._parsed_in_text:
                pieces.append(text[start : match.start() + 1])
                start = match.start() + 1
        return self._joined(
            [self._weights.encode(piece) for piece in [*pieces, text[start:]] if piece]
        )

    def _has_parsed_names(self, text: str) -> bool:
        return any(name in text for name in self._parsed_in_text)

    def last_border(self, text: str) -> int:
        """Return up to where the ids of a text do not depend on what follows, or 0."""
        return 0 if self._has_parsed_names(text) else self._encoder.last_border(text)

    def after_border(self, text: str, border: int) -> str:
        """Return what to tokenize in place of `text[border:]`."""
        return self._encoder.after_border(text, border)

    def _messages(self, messages: Sequence[ChatMessage]) -> tuple[list[Ids], str]:
        """Return the ids up to the last control token of the chat, and the plain text after it."""
        written = "".join(message.content for message in messages)
        mark = next((mark for mark in _MARKS if mark not in written), None)
        if mark is None:
            raise RequestRefused(
                "the messages contain every Unicode noncharacter from U+FDD0 to U+FDEF"
            )
        rendered = self._template.render([self._marked(message, mark) for message in messages])
        parts: list[Ids] = []
        text = ""
        for plain, token in self._split(rendered):
            text = plain.replace(mark, "")
            if token is not None:
                if text:
                    parts.append(self.plain(text))
                parts.append(np.array([token], np.int32))
                text = ""
        return [part for part in parts if len(part)], text

    def _marked(self, message: ChatMessage, mark: str) -> ChatMessage:
        """Break special tokens' names in a message, so that only the template's own are parsed."""
        if self._pattern is None:
            return message
        return message.model_copy(
            update={
                "content": self._pattern.sub(
                    lambda m: m.group()[0] + mark + m.group()[1:], message.content
                )
            }
        )

    def _split(self, rendered: str) -> Iterator[tuple[str, int | None]]:
        """Yield pieces of text with the special token that ends each; the last has `None`."""
        start, strip_left = 0, False
        for match in self._pattern.finditer(rendered) if self._pattern else ():
            token = self._special[match.group()]
            swallows_before, swallows_after = self._weights.strips(token)
            text = rendered[start : match.start()]
            # As training tokenized it: such tokens were written with the white space around them.
            text = text.lstrip() if strip_left else text
            yield text.rstrip() if swallows_before else text, token
            start, strip_left = match.end(), swallows_after
        yield rendered[start:].lstrip() if strip_left else rendered[start:], None

    @staticmethod
    def _joined(parts: Sequence[Ids]) -> Ids:
        return np.concatenate([*parts, np.empty(0, np.int32)]).astype(np.int32, copy=False)
