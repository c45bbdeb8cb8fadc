"""Types conversations and passages, numbers them, and writes them as text for judges and people.

A turn is everything that one side says and does before the other side speaks; its calls of tools,
their results and its retrieved passages are numbered within it. Judges see these numbers, and
evidence names them (`turn 4, call 2`).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

Unit = Literal["conversation", "turn", "call"]
"""The judged unit of a conversation: all of it, each turn of the assistant, each call of a tool."""
UNITS: tuple[Unit, ...] = get_args(Unit)
CONVERSATION_CHARS = 100_000
"""Default number of characters of a conversation in prompts."""
LEAST_CHARS = 1_000
"""Smallest number of characters that may be set."""
ANSWER_BELOW = "(the text to judge, which is given below)"
"""The text in place of the output within its conversation."""

Kind = Literal["system", "text", "call", "result", "passage", "answer"]
"""The kind of a piece; `answer` is the judged one, as marked by `readable_parts`."""
_SHORTENED: tuple[tuple[frozenset[Kind], int, str], ...] = (
    (frozenset({"result"}), 200, "tool results"),
    (frozenset({"result", "passage", "call"}), 0, "tool results, calls and passages"),
    (frozenset({"result", "passage", "call", "text", "system"}), 0, "messages and tool results"),
)
"""Kinds of pieces to shorten, in order, each with its least number of characters and its name."""


class _Material(BaseModel, defer_build=True):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Passage(_Material, defer_build=True):
    """One of the source texts of an output, such as a retrieved document."""

    text: str
    """Its text."""
    id: str | None = None
    """Its name in the collection from which it was retrieved."""
    title: str | None = None
    """Its title."""
    score: float | None = None
    """The retriever's relevance score; not shown to judges."""


class ToolCall(_Material, defer_build=True):
    """A call of a tool by an assistant."""

    name: str
    """The tool."""
    arguments: str = ""
    """Its arguments, mostly a JSON object."""
    id: str | None = None
    """The id to which its result refers."""


class ConversationMessage(_Material, defer_build=True):
    """One message of a conversation."""

    role: str = Field(min_length=1)
    """`system`, `user`, `assistant` or `tool`; any other name is another speaker."""
    content: str = ""
    """Its text."""
    name: str | None = None
    """Name of the speaker or of the tool."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of tools by an assistant, after its text."""
    call_id: str | None = None
    """The call that a tool answers."""
    passages: tuple[Passage, ...] = ()
    """Passages that were retrieved for an assistant's message."""


class Piece(NamedTuple):
    """A part of a conversation or a context that a judge can quote."""

    name: str
    """Its name in evidence, such as `turn 4, call 2`."""
    text: str
    """Its text."""
    kind: Kind
    """Its kind."""
    speaker: str = ""
    """The speaker."""
    message: int = 0
    """Index of its message."""
    turn: int = 0
    """Number of the turn, from 1; 0 outside of turns."""
    call: int = 0
    """Number of the call within the turn, from 1; 0 for a place outside of calls."""

    @property
    def shown(self) -> str:
        """The piece with its number, as judges see it."""
        # a line of a text must not look like the beginning of another piece
        text = re.sub(r"^(\[(?:turn|system|passage)\b)", r"\\\1", self.text, flags=re.MULTILINE)
        return f"[{self.name}]{f' {self.speaker}:' if self.speaker else ''} {text}"


def passage_pieces(passages: Iterable[Passage]) -> list[Piece]:
    """Return passages as numbered pieces."""
    return [
        Piece(
            f"passage {number}",
            passage.text,
            "passage",
            " - ".join(part for part in (passage.id, passage.title) if part),
        )
        for number, passage in enumerate(passages, start=1)
    ]


def passages_text(passages: Iterable[Passage]) -> str:
    """Return passages as one text, numbered."""
    return "\n\n".join(piece.shown for piece in passage_pieces(passages))


def is_assistant(message: ConversationMessage) -> bool:
    """Return whether a message is by the judged side, or a result of its call."""
    return message.role in ("assistant", "tool")


def conversation_pieces(messages: Sequence[ConversationMessage]) -> list[Piece]:
    """Return a conversation as numbered pieces, in order."""
    numbering = _Numbering()
    return [piece for at, message in enumerate(messages) for piece in numbering.pieces(message, at)]


def last_turn(pieces: Iterable[Piece]) -> int:
    """Return the number of the last turn; 0 if there is none."""
    return max((piece.turn for piece in pieces), default=0)


class _Numbering:
    """Numbers messages by turn, and within a turn its calls and passages."""

    def __init__(self) -> None:
        self._turn, self._side = 0, ""
        self._calls = self._passages = 0
        self._by_id: dict[str, int] = {}
        self._waiting: list[int] = []
        """Calls of the turn without a result, in order."""

    def pieces(self, message: ConversationMessage, at: int) -> Iterator[Piece]:
        """Yield the pieces of the next message, with index `at`."""
        if message.role == "system":
            yield Piece("system", message.content, "system", message.name or "", at)
            return
        side = "assistant" if is_assistant(message) else message.role
        if side != self._side:
            self._turn, self._side = self._turn + 1, side
            self._calls = self._passages = 0
            self._by_id, self._waiting = {}, []
        name, turn = f"turn {self._turn}", self._turn
        for piece in passage_pieces(message.passages):
            self._passages += 1
            numbered = f"{name}, passage {self._passages}"
            yield piece._replace(name=numbered, message=at, turn=turn)
        if message.role == "tool":
            call = self._match_call(message)
            result = f"{name}, call {call}, result" if call else f"{name}, result"
            yield Piece(result, message.content, "result", message.name or "", at, turn, call)
            return
        if message.content.strip():
            speaker = message.role if message.name is None else f"{message.role} {message.name}"
            yield Piece(name, message.content, "text", speaker, at, turn)
        for called in message.calls:
            self._calls += 1
            self._waiting.append(self._calls)
            if called.id is not None:
                self._by_id[called.id] = self._calls
            text = f"{called.name}({called.arguments})"
            yield Piece(f"{name}, call {self._calls}", text, "call", "", at, turn, self._calls)

    def _match_call(self, result: ConversationMessage) -> int:
        """Return the number of the call that a result answers; 0 if there is none in its turn."""
        call = self._by_id.get(result.call_id or "") or (self._waiting[0] if self._waiting else 0)
        if call in self._waiting:
            self._waiting.remove(call)
        return call


def answer_piece(pieces: Sequence[Piece], output: str) -> Piece | None:
    """Return the assistant's last piece with the judged text, if there is one."""
    judged = output.strip()
    matching = (
        piece
        for piece in reversed(pieces)
        if piece.text.strip() == judged
        and (piece.kind == "call" or (piece.kind == "text" and piece.speaker[:9] == "assistant"))
    )
    return next(matching, None) if judged else None


def last_answer(messages: Sequence[ConversationMessage]) -> str | None:
    """Return the assistant's last text; `None` without one."""
    contents = (
        m.content for m in reversed(messages) if m.role == "assistant" and m.content.strip()
    )
    return next(contents, None)


def calls_as_text(messages: Iterable[ConversationMessage]) -> str | None:
    """Return all calls of tools, one per line; `None` without calls."""
    lines = [f"{call.name}({call.arguments})" for m in messages for call in m.calls]
    return "\n".join(lines) or None


def conversation_text(
    messages: Sequence[ConversationMessage], output: str = "", chars: int = CONVERSATION_CHARS
) -> str:
    """Return a conversation as one text, numbered by turn and call.

    If it is longer than `chars`, tool results are shortened first, then other long texts, with a
    note in the first line and at each place.
    """
    pieces = conversation_pieces(messages)
    answer = answer_piece(pieces, output)
    marked = [p._replace(text=ANSWER_BELOW) if p is answer else p for p in pieces]
    heading = _heading(pieces)
    whole = "\n\n".join([heading, *(piece.shown for piece in marked)])
    if len(whole) <= chars:
        return whole
    # the heading describes the omitted text
    limits, kinds = _limits(marked, chars - len(heading) - 100)
    shortened = [_cut(piece, limits.get(piece.kind)) for piece in marked]
    count = sum(_count_left_out_of(piece, limits.get(piece.kind)) for piece in marked)
    heading += f" Shortened: {count:,} characters of {kinds} are left out, where it says so."
    return "\n\n".join([heading, *(piece.shown for piece in shortened)])


def has_conversation(text: str | None, messages: Sequence[ConversationMessage]) -> bool:
    """Return whether a text already contains the conversation."""
    return text is not None and _heading(conversation_pieces(messages)) in text


def source_beside(text: str | None, messages: Sequence[ConversationMessage]) -> str:
    """Return the part of a source before the text of its conversation."""
    if text is None or not messages:
        return text or ""
    return text.rpartition(_heading(conversation_pieces(messages)))[0].strip()


class Part(NamedTuple):
    """A part of an output's material, in readable form."""

    kind: Literal["source", "conversation", "context", "passages"]
    """Its kind."""
    text: str = ""
    """The text; empty if it consists of pieces."""
    pieces: tuple[Piece, ...] = ()
    """The turns of a conversation, or the passages of a context."""


def readable_parts(
    source: str | None,
    context: str | None,
    messages: Sequence[ConversationMessage],
    passages: Sequence[Passage],
    output: str,
    *,
    most: int,
) -> list[Part]:
    """Return an output's material: texts, and typed pieces in place of their numbered text.

    Conversations are not shortened here.
    """
    pieces = conversation_pieces(messages)
    answer = answer_piece(pieces, output)
    turns = [_cut(p._replace(kind="answer") if p is answer else p, most) for p in pieces]
    beside = context if passages and context != passages_text(passages) else None
    parts = [
        Part("source", source_beside(source, messages)),
        Part("conversation", pieces=tuple(turns)),
        Part("context", (beside if passages else context) or ""),
        Part("passages", pieces=tuple(_cut(piece, most) for piece in passage_pieces(passages))),
    ]
    return [part for part in parts if part.pieces or part.text.strip()]


def browser_piece(piece: Piece, text: object, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return a piece as the script `material.js` of the pages draws it."""
    return {
        "name": piece.name,
        "speaker": clean(piece.speaker),
        "kind": piece.kind,
        "turn": piece.turn,
        "call": piece.call,
        "text": text,
    }


def count_left_out(text: str | None) -> tuple[int, str] | None:
    """Return number and kind of the omitted characters of a conversation; `None` without any."""
    pattern = (
        r"^A conversation of \d+ turns?, numbered\. Shortened: (?P<count>[\d,]+) characters of"
        r" (?P<what>.+) are left out, where it says so\.$"
    )
    match = None if text is None else re.search(pattern, text, re.MULTILINE)
    return None if match is None else (int(match["count"].replace(",", "")), match["what"])


def _heading(pieces: Iterable[Piece]) -> str:
    turns = last_turn(pieces)
    return f"A conversation of {turns} turn{'' if turns == 1 else 's'}, numbered."


def _limits(pieces: Sequence[Piece], limit: int) -> tuple[dict[Kind, int], str]:
    """Return the kept characters of each piece by kind, and the name of the shortened kinds."""
    around = sum(len(piece.shown) - len(piece.text) + 2 for piece in pieces)
    longest = max(len(piece.text) for piece in pieces)
    limits: dict[Kind, int] = {}
    shortened = ""
    for kinds, least, name in _SHORTENED:

        def is_too_long(most: int, kinds: frozenset[Kind] = kinds) -> bool:
            lengths = (_shorten(piece, most if piece.kind in kinds else None) for piece in pieces)
            return around + sum(lengths) > limit

        # the largest number that is not too long; below `least` if there is none
        most = bisect_left(range(least, longest + 1), True, key=is_too_long) + least - 1
        limits, shortened = dict.fromkeys(kinds, max(most, 0)), name
        if most >= least:
            break
    return limits, shortened


def _count_left_out_of(piece: Piece, most: int | None) -> int:
    """Return the number of omitted characters of a piece; 0 if omitting would not save any."""
    count_left_out = 0 if most is None else len(piece.text) - most
    return count_left_out if count_left_out > len(_marker(count_left_out)) else 0


def _shorten(piece: Piece, most: int | None) -> int:
    count_left_out = _count_left_out_of(piece, most)
    return (
        len(piece.text) - count_left_out + (len(_marker(count_left_out)) if count_left_out else 0)
    )


def _marker(count_left_out: int) -> str:
    return f" [... {count_left_out:,} characters left out ...] "


def _cut(piece: Piece, most: int | None) -> Piece:
    """Return a piece with the beginning and the end of its text."""
    count_left_out = _count_left_out_of(piece, most)
    if not count_left_out:
        return piece
    length = len(piece.text) - count_left_out
    head = length - length // 3
    text = piece.text[:head] + _marker(count_left_out) + piece.text[head + count_left_out :]
    return piece._replace(text=text)


def as_json_text(value: Any) -> str:
    """Return arguments or a result of a tool as text."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
