"""Prompts to token ids: chat templates, control tokens, and text that follows a prompt.

Control tokens are read from the template's own words, never from evaluated text. Each stretch of
text between two control tokens is tokenized in one piece, template words and evaluated text
together, as in training.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import jinja2
import numpy as np
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from numpy.typing import NDArray

from textassay.runtime.errors import CapabilityError, RequestRefused
from textassay.runtime.model import ChatMessage, Prompted

Ids = NDArray[np.int32]


class Vocabulary(ABC):
    """The tokens of a model: turns text into ids, and ids into text."""

    size: int
    bos: int | None
    """Token that begins a text."""
    adds_bos: bool
    """Whether training texts began with it."""
    end_ids: frozenset[int]
    """Tokens that end an answer."""
    merges_pairs: bool
    """Whether ids come from merging neighbors as long as that makes a token of the vocabulary."""
    special_texts: Mapping[str, int]
    """Text of each token that is parsed in templates, with its id."""
    always_parsed: Sequence[str]
    """Texts that are always taken for one token."""

    @abstractmethod
    def strips(self, token: int) -> tuple[bool, bool]:
        """Return whether a special token swallows the white space before it, and after it."""

    @abstractmethod
    def piece(self, token: int, *, special: bool = True) -> bytes:
        """Return the bytes of a token; of a special one its name, or nothing if not `special`."""

    @abstractmethod
    def _encode_valid(self, text: str) -> Ids:
        """Return the ids of a text that is valid Unicode."""

    def encode(self, text: str) -> Ids:
        """Return the ids of plain text, which adds no tokens and contains no control tokens."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestRefused(
                f"the text is not valid Unicode: {error.reason} at character {error.start}"
            ) from error
        return self._encode_valid(text)

    def text(self, token: int) -> str:
        """Return a token as text; bytes of incomplete characters become U+FFFD."""
        return self.piece(token).decode("utf-8", "replace")


def common_prefix(one: NDArray[Any], other: NDArray[Any]) -> int:
    """Return how many leading ids, or bytes, agree."""
    length = min(len(one), len(other))
    differ = one[:length] != other[:length]
    return int(differ.argmax()) if differ.any() else length


def sort_key(ids: Ids) -> bytes:
    """Return ids as bytes that sort as the ids do."""
    return ids.astype(">u4").tobytes()


# ---- chat templates ----


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


# ---- prompts ----


class TokenizedPrompt:
    """A tokenized prompt whose ids may change if text follows it."""

    encoded: Ids = np.empty(0, np.int32)
    """Input of an encoder, empty here."""

    def __init__(self, tokenizer: PromptTokenizer, head: Ids, text: str) -> None:
        self._tokenizer, self._head, self._text = tokenizer, head, text
        self.ids: Ids = np.concatenate([head, tokenizer.plain(text)])

    def followed_by(self, text: str) -> Ids:
        """Return the ids of prompt and `text` tokenized together."""
        fixed, rest = self._cut
        return np.concatenate([fixed, self._tokenizer.plain(rest + text)])

    @cached_property
    def _cut(self) -> tuple[Ids, str]:
        """Ids that no following text can change, and the text to tokenize after them."""
        border = self._tokenizer.last_border(self._text)
        if not border:
            return self._head, self._text
        rest = self._tokenizer.borders.after(self._text, border)
        changing = len(self._tokenizer.plain(rest))
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
        self._pattern = re.compile("|".join(map(re.escape, names))) if names else None
        self.borders = Borders(vocabulary)

    def prompt(self, request: Prompted) -> TokenizedPrompt:
        """Tokenize a request's prompt or messages."""
        bos = self._vocabulary.bos if self._vocabulary.adds_bos else None
        head: list[Ids] = [] if bos is None else [np.array([bos], np.int32)]
        if not request.messages:
            return TokenizedPrompt(self, self._join(head), request.prompt or "")
        pieces, text = self._messages(request.messages)
        # Many templates write the token that begins a text themselves; no training text has two.
        if head and pieces and pieces[0][0] == bos:
            head = []
        return TokenizedPrompt(self, self._join([*head, *pieces]), text)

    def plain(self, text: str) -> Ids:
        """Return the ids of text in which nothing is a control token."""
        if not self._pattern or not self._has_parsed_names(text):
            return self._vocabulary.encode(text)
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
        return 0 if self._has_parsed_names(text) else self.borders.last(text)

    def _messages(self, messages: Sequence[ChatMessage]) -> tuple[list[Ids], str]:
        """Return the ids up to the last control token of the chat, and the plain text after it."""
        written = "".join(message.content for message in messages)
        # a noncharacter, which texts have no use for
        mark = next(filter(lambda mark: mark not in written, map(chr, range(0xFDD0, 0xFDF0))), "")
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
        if not self._pattern:
            return message
        content = self._pattern.sub(
            lambda match: match.group()[0] + mark + match.group()[1:], message.content
        )
        return message.model_copy(update={"content": content})

    def _split(self, rendered: str) -> Iterator[tuple[str, int | None]]:
        """Yield pieces of text with the special token that ends each; the last has `None`."""
        start, strip_left = 0, False
        for match in self._pattern.finditer(rendered) if self._pattern else ():
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


# ---- where a text can be cut ----


class Borders:
    """Places at which a text can be cut: the ids of both parts are those of the whole text.

    A **border** is the space between two words, letter-space-letter. If no token of the vocabulary
    contains a letter followed by a space, neither byte-level BPE nor SentencePiece's BPE ever
    merges across a border, and the pre-tokenizers of BPE start afresh there.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def last(self, text: str) -> int:
        """Return the place of the last border in a text, or 0 if it has none.

        Text after it cannot change the ids before it.
        """
        return _border_before(text, len(text)) if self.exist else 0

    def after(self, text: str, border: int) -> str:
        """Return the text to tokenize in place of `text[border:]`.

        SentencePiece's models put a space before every text, so the border's own is left out.
        """
        return text[border + self._added_space if border else 0 :]

    @cached_property
    def exist(self) -> bool:
        """Whether no token of this vocabulary crosses a border."""
        if not self._vocabulary.merges_pairs:
            return False
        # A byte of 0x80 or above may be the end of any letter.
        crosses = re.compile(rb"[A-Za-z\x80-\xff] ").search
        if any(crosses(self._vocabulary.piece(token)) for token in range(self._vocabulary.size)):
            return False
        # The library finds these in a text first, and tokenizes the text before and after one.
        for name in self._vocabulary.always_parsed:
            if name in (" ", "▁") or not name or name[0].isalpha() or name[-1].isalpha():
                return False
        return self._split_a_text()

    @cached_property
    def _added_space(self) -> int:
        """1 if a space is put before every text, else 0."""
        ids = self._vocabulary.encode("word")
        return sum(len(self._vocabulary.piece(token)) for token in ids) - len("word")

    def _split_a_text(self) -> bool:
        """Test the borders on a varied text, in case the pre-tokenizer is an unknown one."""
        if self._added_space not in (0, 1):
            return False
        # all kinds of text that pre-tokenizers treat specially
        text = (
            "The quick brown fox's tail isn't 1234567 cm long, e.g. here\n\nand  there (see"
            " below) “quoted” words — Über straße être кошка и собака 中文 字 word x y"
            " z\ttab end. Next one"
        )
        whole, borders = self._vocabulary.encode(text), 0
        border = _border_before(text, len(text))
        while border:
            halves = map(self._vocabulary.encode, (text[:border], self.after(text, border)))
            if not np.array_equal(np.concatenate([*halves]), whole):
                return False
            border, borders = _border_before(text, border), borders + 1
        return borders > 0


def _border_before(text: str, stop: int) -> int:
    """Return the last place of a space between two letters in `text[:stop]`, or 0."""
    place = text.rfind(" ", 0, max(0, stop - 1))
    while place > 0 and not (text[place - 1].isalpha() and text[place + 1].isalpha()):
        place = text.rfind(" ", 0, place)
    return max(0, place)
