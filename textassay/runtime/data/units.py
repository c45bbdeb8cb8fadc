"""What is judged: a conversation, each turn of the assistant or call of a tool, or a pair of texts.

Turns and calls of one conversation are not independent, so they share a `group`; systems are paired
within groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Literal, get_args

from textassay.runtime.conversation import (
    ConversationMessage,
    Piece,
    answer_piece,
    conversation_pieces,
    conversation_text,
    passages_text,
    source_beside,
)
from textassay.runtime.data.tables import FieldError
from textassay.runtime.errors import DataError
from textassay.runtime.images import Image
from textassay.runtime.messages import Example

OTHER_OUTPUT = "output_b"
"""Field of an example that holds the second text of a comparison."""
OTHER_SYSTEM = "system_b"
"""Field of an example that names who made the second text."""


class Paired:
    """The pairs of systems in each group, built again whenever they are iterated.

    `human` of a pair says which of the two people rated higher: 1 for the first, 0 for the second,
    0.5 for equal ratings.
    """

    def __init__(self, examples: Iterable[Example]) -> None:
        self._examples = examples

    def __iter__(self) -> Iterator[Example]:
        made = False
        for members in self._by_group().values():
            for first, second in combinations(sorted(members), 2):
                made = True
                yield pair(members[first], members[second])
        if not made:
            raise DataError("no group has texts of two systems, so there is nothing to compare")

    def _by_group(self) -> dict[str, dict[str, Example]]:
        groups: dict[str, dict[str, Example]] = {}
        for one in self._examples:
            if one.group is None or one.system is None:
                lacking = "group" if one.group is None else "system"
                raise DataError(
                    f"the example {one.id!r} has no {lacking!r}; systems are paired within groups,"
                    " so give every row both"
                )
            members = groups.setdefault(one.group, {})
            if one.system in members:
                raise DataError(
                    f"the examples {members[one.system].id!r} and {one.id!r} are both of system "
                    f"{one.system!r} in group {one.group!r}; one text per system can be paired"
                )
            members[one.system] = one
        return groups


def pair(first: Example, second: Example) -> Example:
    """Return the comparison of two texts of one group."""
    for name in ("source", "context", "images"):
        ours, theirs = getattr(first, name), getattr(second, name)
        if ours and theirs and ours != theirs:
            raise DataError(
                f"the examples {first.id!r} and {second.id!r} of group {first.group!r} have"
                f" different {'inputs' if name == 'source' else name}, and a comparison shows one;"
                " pair texts that answer the same input, or give whole conversations as outputs"
            )
    meta: dict[str, Any] = {**first.meta, OTHER_OUTPUT: second.output, OTHER_SYSTEM: second.system}
    return Example(
        id=f"{first.id} vs {second.id}",
        output=first.output,
        source=first.source or second.source,
        messages=first.messages if first.source else second.messages,
        context=first.context or second.context,
        passages=first.passages if first.context else second.passages,
        images=first.images or second.images,
        references=first.references,
        system=first.system,
        group=first.group,
        human=_preferred(first, second),
        meta=meta,
    )


def _preferred(first: Example, second: Example) -> dict[str, float | None]:
    preferences: dict[str, float | None] = {}
    for aspect, a in first.human.items():
        b = second.human.get(aspect)
        if a is not None and b is not None:
            preferences[aspect] = 0.5 if a == b else float(a > b)
    return preferences


Unit = Literal["conversation", "turn", "call"]
UNITS: tuple[Unit, ...] = get_args(Unit)


def in_units(example: Example, unit: Unit, chars: int) -> Iterator[Example]:
    """Yield the turns or calls of a conversation, each with all that came before it.

    The group is the conversation's own, since conversations of one group depend on each other as
    well, or else the conversation. Ratings and recorded scores are of the whole conversation, so
    turns and calls have none.
    """
    if unit == "conversation":
        yield example
        return
    if not example.messages:
        raise FieldError("messages", f"are missing; the unit {unit} is a part of a conversation")
    messages = example.messages
    pieces = conversation_pieces(messages)
    if example.output.strip() and answer_piece(pieces, example.output) is None:
        # an output that stands beside the conversation is what was answered last
        messages = (*messages, ConversationMessage(role="assistant", content=example.output))
        pieces = conversation_pieces(messages)
    given = source_beside(example.source, example.messages)
    for last, output, name in _turns(pieces) if unit == "turn" else _calls(pieces):
        history = _history(messages, last, pieces)
        passages = example.passages or _passages(messages, pieces, last.turn)
        is_end = unit == "turn" and last.turn == _last_turn(pieces)
        text = conversation_text(history, output, chars)
        yield example.model_copy(
            update={
                "id": f"{example.id}#{name}",
                "output": output,
                "source": f"{given}\n\n{text}" if given else text,
                "context": example.context or passages_text(passages) or None,
                "passages": passages,
                "messages": history,
                "images": _images(example, [given, output, *(m.content for m in history)]),
                "references": example.references if is_end else (),
                "rubric": example.rubric if is_end else (),
                "group": example.id if example.group is None else example.group,
                "human": {},
                "annotators": {},
                "metrics": {},
                "meta": {**example.meta, "conversation": example.id},
            }
        )


def _turns(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str, str]]:
    """Yield the last piece, the output and the name of each turn of the assistant."""
    for number in range(1, _last_turn(pieces) + 1):
        own = [piece for piece in pieces if piece.turn == number]
        spoken = [p for p in own if p.kind == "text" and p.speaker.startswith("assistant")]
        calls = [p.text for p in own if p.kind == "call"]
        if spoken:
            yield own[-1], spoken[-1].text, f"turn-{number}"
        elif calls:  # it acted without a word
            yield own[-1], "\n".join(calls), f"turn-{number}"


def _calls(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str, str]]:
    for piece in pieces:
        if piece.kind == "call":
            yield piece, piece.text, f"turn-{piece.turn}-call-{piece.call}"


def _last_turn(pieces: Sequence[Piece]) -> int:
    return max((piece.turn for piece in pieces), default=0)


def _history(
    messages: Sequence[ConversationMessage], last: Piece, pieces: Sequence[Piece]
) -> tuple[ConversationMessage, ...]:
    """Return the messages up to a piece, which is the last of its message or a call."""
    *before, message = messages[: last.message + 1]
    if last.kind == "call":
        first = next(p.call for p in pieces if p.message == last.message and p.kind == "call")
        update: dict[str, Any] = {"calls": message.calls[: last.call - first + 1]}
        message = message.model_copy(update=update)
    return (*before, message)


def _images(example: Example, texts: Sequence[str]) -> tuple[Image, ...]:
    """Return the images that stand in these texts: a judge sees none of later turns."""
    return tuple(one for one in example.images if any(one.mark in text for text in texts))


def _passages(
    messages: Sequence[ConversationMessage], pieces: Sequence[Piece], turn: int
) -> tuple[Any, ...]:
    """Return what was retrieved for a turn."""
    own = dict.fromkeys(piece.message for piece in pieces if piece.turn == turn)
    return tuple(passage for at in own for passage in messages[at].passages)
