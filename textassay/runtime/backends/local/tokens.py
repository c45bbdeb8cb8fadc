"""Prompts to token ids: chat templates, control tokens, and texts that begin alike.

Control tokens are read from the template's own words, never from evaluated text. Each stretch of
text between two control tokens is tokenized in one piece, template words and evaluated text
together, as in training.

Criteria are asked about the same source in turn, so most of a prompt has been tokenized before. Its
ids can be reused if no token crosses the place where two texts begin to differ. A **border** is the
space between two words, letter-space-letter. If no token of the vocabulary contains a letter
followed by a space, neither byte-level BPE nor SentencePiece's BPE ever merges across a border, and
the pre-tokenizers of BPE start afresh there: the ids of a text are the ids of its part before the
border followed by the ids of the rest.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jinja2
import numpy as np
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from numpy.typing import NDArray

from textassay.runtime.errors import CapabilityError, RequestRefused
from textassay.runtime.model import ChatMessage, Prompted

Ids = NDArray[np.int32]

MAX_REMEMBERED = 256
"""Texts whose ids are kept: the prompts of as many sources may be asked in turn."""

# All kinds of text that pre-tokenizers treat specially, between borders.
_PROBE = (
    "The quick brown fox's tail isn't 1234567 cm long, e.g. here\n\nand  there (see below) "
    "“quoted” words — Über straße être кошка и собака 中文 字 word x y z\ttab end. Next one"
)


class Vocabulary(ABC):
    """The tokens of a model: turns text into ids, and ids into text."""

    size: int
    head: Sequence[int]
    """The token with which training texts began, if they had one."""
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
    """Return the number of leading ids, or bytes, that agree."""
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


# ---- texts that begin alike ----


class TextIds(NamedTuple):
    """A text with its ids and, for each id, the place in the text at which its bytes end."""

    text: str
    ids: Ids
    ends: NDArray[np.int64]


class PrefixEncoder:
    """Tokenizes texts on one thread, each from the last border shared with an earlier one."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts: list[str] = []  # sorted, so that a text's best match is one of two neighbors
        self._encoded: dict[str, TextIds] = {}  # the oldest first

    def encode(self, text: str, *, remember: bool = True) -> Ids:
        """Return the same ids of a text as the vocabulary itself.

        `remember` says whether later texts may begin like this one.
        """
        # for a short text, looking for an earlier one takes as long as tokenizing
        if not remember or len(text) < 64 or not self.has_borders:
            return self._vocabulary.encode(text)
        if text in self._encoded:
            return self._encoded[text].ids
        earlier, shared = self._best_match(text)
        encoded = self._extend(earlier, shared, text) if earlier else self._anew(text)
        if not encoded:
            return self._vocabulary.encode(text)
        self._remember(encoded)
        return encoded.ids

    def last_border(self, text: str) -> int:
        """Return the place of the last border in a text, or 0 if it has none.

        Text after it cannot change the ids before it.
        """
        return _border_before(text, len(text)) if self.has_borders else 0

    def after_border(self, text: str, border: int) -> str:
        """Return the text to tokenize in place of `text[border:]`.

        SentencePiece's models put a space before every text, so the border's own is left out.
        """
        return text[border + self._added_space if border else 0 :]

    @cached_property
    def has_borders(self) -> bool:
        """Whether no token of this vocabulary crosses a border."""
        if not self._vocabulary.merges_pairs:
            return False
        # A byte of 0x80 or above may be the end of any letter.
        crosses = re.compile(rb"[A-Za-z\x80-\xff] ").search
        if any(map(crosses, self._pieces)):
            return False
        # The library finds these in a text first, and tokenizes the text before and after one.
        for name in self._vocabulary.always_parsed:
            if name in (" ", "▁") or not name or name[0].isalpha() or name[-1].isalpha():
                return False
        return self._splits_at_borders()

    @cached_property
    def _pieces(self) -> list[bytes]:
        return [self._vocabulary.piece(token) for token in range(self._vocabulary.size)]

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.array([len(piece) for piece in self._pieces], np.int64)

    @cached_property
    def _added_space(self) -> int:
        """1 if a space is put before every text, else 0."""
        return int(self._lengths[self._vocabulary.encode("word")].sum()) - len("word")

    def _splits_at_borders(self) -> bool:
        """Test the borders on a varied text, in case the pre-tokenizer is an unknown one."""
        if self._added_space not in (0, 1):
            return False
        whole, borders = self._vocabulary.encode(_PROBE), 0
        border = _border_before(_PROBE, len(_PROBE))
        while border:
            tail = self.after_border(_PROBE, border)
            halves = [self._vocabulary.encode(part) for part in (_PROBE[:border], tail)]
            if not np.array_equal(np.concatenate(halves), whole):
                return False
            border, borders = _border_before(_PROBE, border), borders + 1
        return borders > 0

    def _best_match(self, text: str) -> tuple[TextIds | None, int]:
        """Return the earlier text with the longest common prefix, and the last border in it."""
        place = bisect_left(self._texts, text)
        best, longest = "", 0
        for neighbor in self._texts[max(0, place - 1) : place + 1]:
            shared = _common_length(neighbor, text)
            if shared > longest:
                best, longest = neighbor, shared
        border = _border_before(text, longest)
        return (self._encoded[best], border) if border else (None, 0)

    def _extend(self, earlier: TextIds, border: int, text: str) -> TextIds | None:
        """Return a text's ids: the earlier text's up to the border, then its own."""
        at = len(text[:border].encode())
        count = int(np.searchsorted(earlier.ends, at, side="right"))
        # The border is not between two tokens of the earlier text, so none of its ids can be kept.
        if not count or earlier.ends[count - 1] != at:
            return self._anew(text)
        try:
            tail = self._vocabulary.encode(self.after_border(text, border))
        except RequestRefused:
            return None  # the whole text is refused, too, and its error counts from its start
        ids = np.concatenate([earlier.ids[:count], tail])
        ends = np.concatenate([earlier.ends[:count], at + np.cumsum(self._lengths[tail])])
        return self._verify(TextIds(text, ids, ends))

    def _anew(self, text: str) -> TextIds | None:
        ids = self._vocabulary.encode(text)
        return self._verify(TextIds(text, ids, np.cumsum(self._lengths[ids]) - self._added_space))

    @staticmethod
    def _verify(encoded: TextIds) -> TextIds | None:
        """Return it unless its pieces do not spell the text, as if a character has no token."""
        spelled = int(encoded.ends[-1]) if len(encoded.ends) else 0
        # Without the exact place of each id, later texts could be joined at a wrong one.
        return encoded if spelled == len(encoded.text.encode()) else None

    def _remember(self, encoded: TextIds) -> None:
        for array in (encoded.ids, encoded.ends):
            # The same arrays are handed out again and again.
            array.setflags(write=False)
        self._texts.insert(bisect_left(self._texts, encoded.text), encoded.text)
        self._encoded[encoded.text] = encoded
        if len(self._encoded) > MAX_REMEMBERED:
            oldest = next(iter(self._encoded))
            del self._texts[bisect_left(self._texts, oldest)], self._encoded[oldest]


def _border_before(text: str, stop: int) -> int:
    """Return the last place of a space between two letters in `text[:stop]`, or 0."""
    place = text.rfind(" ", 0, max(0, stop - 1))
    while place > 0 and not (text[place - 1].isalpha() and text[place + 1].isalpha()):
        place = text.rfind(" ", 0, place)
    return max(0, place)


def _common_length(one: str, other: str) -> int:
    """Return the number of leading characters that agree."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # comparing slices takes a hundredth of comparing characters
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
