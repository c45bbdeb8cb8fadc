"""Material for a judge: context, question, messages, images, tools and references.

Finds the field that the name of a column means, and assembles material from several columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from textassay.lazy import lazy_pattern
from textassay.runtime.chat_formats import (
    CALL_FIELDS,
    READ_IN_MESSAGES,
    FaultInMessage,
    is_response_item,
    looks_like_messages,
    parse_text,
    read_calls,
    read_messages,
    read_passages,
    read_response,
    read_tools,
    short_repr,
    text_of,
)
from textassay.runtime.column_names import ALIASES, BY_PLACE, GENERIC, LESS_CLEAR, plain_name
from textassay.runtime.conversation import (
    ConversationMessage,
    passages_text,
)
from textassay.runtime.data.cells import KEYED, FieldError, list_or_text
from textassay.runtime.images import ENDINGS, ImageReader
from textassay.runtime.messages import Example, with_material

NAMES = (*Example.model_fields, "tools", "tools_called")
"""Our own names: the fields of an example, and two that become parts of its messages."""
OTHER_OUTPUT = "output_b"
"""Field of an example with the second text of a comparison."""
OTHER_SYSTEM = "system_b"
"""Field of an example with the system of the second text."""
IN_META = {name: f"meta.{name}" for name in (OTHER_OUTPUT, OTHER_SYSTEM)}
"""Further fields that a field map may name, which are kept in `meta`."""
JOINED = frozenset({"context", "images"})
"""Fields that use all of their columns."""
MATERIAL = frozenset({
    "source", "context", "passages", "references", "messages", "images", "tools", "tools_called",
    "rubric",
})  # fmt: skip
"""Fields whose columns may not be omitted silently, since a judge was meant to see them."""


MEANING = {
    **{
        plain_name(alias): (field, rank)
        for table, rank in ((ALIASES, 2), (LESS_CLEAR, 3))
        for field, aliases in table.items()
        for alias in aliases.split()
    },
    **{plain_name(name): ("output", 4 + place) for place, name in enumerate(GENERIC)},
    **{
        plain_name(alias): (field, 2 + place)
        for field, aliases in BY_PLACE.items()
        for place, alias in enumerate(aliases.split())
    },
    **{plain_name(name): (name, 1) for name in NAMES if name not in KEYED},
}
"""The field of a name, and the rank of its claim; the lowest wins."""


def meaning_of(name: str) -> tuple[str, int]:
    """Return the field of a column, and the rank of its claim; `""` and 0 if unknown.

    Names of ratings, metrics and `meta` must match exactly.
    """
    return (name, 1) if name in KEYED else MEANING.get(plain_name(name), ("", 0))


_IMAGE_URI = lazy_pattern(r"data:image/(?:png|jpe?g|gif|webp);base64,[A-Za-z0-9+/]{16}")
_LAST_LETTERS = frozenset({*(ending[-1] for ending in ENDINGS), " ", "\n"})


def is_invisible(text: str) -> bool:
    """Return whether a text has characters of no width alone, as web pages leave them."""
    return not text[:1].isalnum() and not any(c.isprintable() and c != " " for c in text)


def is_running_text(value: Any) -> bool:
    """Return whether a value is or contains a text of several words.

    Fewer than three words are mostly a name, a code or a label, and so are fewer than twelve
    letters of a script without blanks.
    """
    return any(
        len(leaf.split(maxsplit=3)) >= 3 or (len(leaf) >= 12 and not leaf.isascii())
        for leaf in _leaves(value)
    )


def is_shown(value: Any, fields: Mapping[str, Any]) -> bool:
    """Return whether all text of a value is among the texts that a judge sees."""
    leaves = list(_leaves(value))
    if not leaves:
        return True
    references = fields.get("references") or ()
    texts = [fields.get(name) for name in ("source", "context", "output")]
    texts += references if isinstance(references, list) else [references]
    texts += [message.content for message in fields.get("messages", ())]
    texts += [image.name for image in fields.get("images", ())]
    visible = "\n".join(str(text) for text in texts if text)
    return all(leaf in visible for leaf in leaves)


def has_value(value: Any) -> bool:
    """Return whether a cell is not empty."""
    return bool(value) or value == 0


def check_not_images(
    fields: Mapping[str, Any], keys: Mapping[str, str], folder: Path | None
) -> None:
    """Refuse texts that are an image's path or its content: a judge would not see the image."""
    get = fields.get
    references = get("references") or ()
    listed = references if type(references) is list else (references,)
    texts = [get("output"), get("source"), get("context"), *listed]
    if "messages" in fields or "passages" in fields:
        texts += [message.content for message in get("messages", ())]
        texts += [passage.text for passage in get("passages", ())]
    for text in texts:
        # this is called for every row, and few texts need more checks
        if type(text) is str and text and (text[-1] in _LAST_LETTERS or text[0] == "d"):
            _check_not_image(text.strip(), fields, keys, folder)


def _check_not_image(
    path: str, fields: Mapping[str, Any], keys: Mapping[str, str], folder: Path | None
) -> None:
    if _IMAGE_URI.match(path):
        problem = "holds an image as text"
    elif path.endswith(ENDINGS) and _is_there(path, folder):
        problem = f"is the path of the image {path}"
    else:
        return
    if path in {image.name for image in fields.get("images", ())}:
        return
    texts_of = {
        **{name: [*_leaves(fields.get(name))] for name in ("output", "source", "references")},
        "messages": [message.content.strip() for message in fields.get("messages", ())],
    }
    name = next((name for name, texts in texts_of.items() if path in texts), "context")
    raise FieldError(
        keys.get(name, name),
        f"{problem}, which would not be shown as an image; give it in the field 'images'",
    )


def _is_there(path: str, folder: Path | None) -> bool:
    try:
        return "\n" not in path and ((folder or Path()) / path).is_file()
    except (OSError, ValueError):  # too long for a path
        return False


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)


def assemble(
    fields: dict[str, Any],
    further: Iterable[tuple[str, str, Any]],
    keys: Mapping[str, str],
    chars: int,
    images: ImageReader,
) -> dict[str, Any]:
    """Return an example's fields with its material typed and as text."""
    complete = dict(fields)
    for name in ("messages", "tools", "tools_called", "context", "passages"):
        if not complete.get(name):
            complete.pop(name, None)
    chats: list[Any] = []
    if _is_chat(complete.get("context")):
        chats += complete.pop("context")
    key = keys.get("images", "images")
    try:
        images.take(_parse_list(complete.pop("images", None)))
        for column, name, value in further:
            key = column
            if name == "images":
                images.take(_parse_list(value))
            elif _is_chat(value):
                chats += value
            else:
                _join_context(complete, value)
        if chats:
            complete["messages"] = [*chats, *_parse_list(complete.get("messages", []))]
        key = keys.get("messages", "messages")
        _gather_messages(complete, images)
        for name in ("tools", "tools_called"):
            key = keys.get(name, name)
            _add_tools(complete, name, images)
        key = keys.get("messages") or keys.get("context") or keys.get("source") or "messages"
        return with_material(complete, images=images, chars=chars)
    except FaultInMessage as error:  # the column itself is valid
        raise FieldError(key, str(error), column="") from None
    except ValueError as error:
        raise FieldError(key, str(error)) from None


def how_to_map(column: str) -> str:
    """Return advice about a column whose value does not fit its name."""
    is_material = column != "output" and meaning_of(column)[0] in {*MATERIAL, "output"}
    advice = f'; if it is something else, leave it out: fields={{"{column}": "meta"}}'
    return advice if is_material else ""


def _parse_list(value: Any) -> Any:
    return list_or_text(value) if isinstance(value, str) else value


def _join_context(fields: dict[str, Any], value: Any) -> None:
    """Add a further column of context; two columns are passages."""
    if not value:
        return
    if "context" not in fields:
        fields["context"] = value
        return
    passages, added = [*read_passages(fields["context"])], read_passages(value)
    # files of ratings have passages beside their numbered text, as an example has
    if fields["context"] == passages_text(added):
        passages = []
    elif value == passages_text(passages):
        added = ()
    texts = {passage.text for passage in passages}
    fields["context"] = [*passages, *(p for p in added if p.text not in texts)]


def _gather_messages(fields: dict[str, Any], images: ImageReader) -> None:
    """Make one conversation from messages in source, messages and output."""
    messages: tuple[ConversationMessage, ...] = ()
    chat = fields.pop("messages", None)
    source, output = fields.get("source"), fields.get("output")
    if looks_like_messages(listed := _parse_list(chat)):
        chat = listed
    if isinstance(chat, str):  # a chat that was written down as a text
        if source:
            raise ValueError("is a text, and so is the source; give a list of messages")
        fields["source"] = chat
    elif chat is not None:
        messages = read_messages(chat, images)
    if isinstance(source, Mapping) and len(source) == 1:
        inner = source.get("messages", source.get("contents"))
        fields["source"] = source = source if inner is None else inner
    if looks_like_messages(source):
        opening = read_messages(fields.pop("source"), images)
        follows = chat is None and isinstance(output, str) and bool(output.strip())
        answer = (ConversationMessage(role="assistant", content=output),) if follows else ()
        messages = _in_order(opening, messages or answer)
    elif (
        isinstance(source, str)
        and not _end_before_question(messages, output)
        and source.strip() in {m.content.strip() for m in messages}
    ):
        del fields["source"]  # it is shown as a message
    answers = read_response(output, images)
    if answers is not None:
        fields.pop("output")
        messages = _in_order(messages, answers)
        fields["output"] = text_of(answers)
        if isinstance(source, str) and source.strip() in {m.content.strip() for m in answers}:
            fields.pop("source", None)
    if messages:
        fields["messages"] = messages


def read_other_output(fields: dict[str, Any], images: ImageReader) -> None:
    """Take the text of a second output that is a list of messages, as for the first."""
    meta = fields.get("meta") or {}
    other = meta.get(OTHER_OUTPUT)
    if (answers := read_response(other, images)) is not None:
        fields["meta"] = {**meta, OTHER_OUTPUT: text_of(answers)}
    elif isinstance(other, list | Mapping):
        raise FieldError(
            OTHER_OUTPUT,
            f"should be one text or a list of messages, not {short_repr(other)}; map an item of a"
            ' list by its number from 0, such as fields={"NAME.0": "output_b"}',
        )


def _is_chat(context: Any) -> bool:
    """Return whether a context is a list of messages rather than passages, which have no roles."""
    return looks_like_messages(context) and all("role" in item for item in context)


def unread_names(messages: Any) -> set[str]:
    """Return the names of fields of messages that prompts do not show, such as a time stamp."""
    if not looks_like_messages(messages):
        return set()
    objects = [m for m in messages if isinstance(m, Mapping) and not is_response_item(m)]
    return {
        name
        for item in objects
        for name, value in item.items()
        if has_value(value)
        and (
            name not in READ_IN_MESSAGES
            or (name in CALL_FIELDS and isinstance(parse_text(value), str))
        )
    }


def _end_before_question(messages: Sequence[ConversationMessage], output: Any) -> bool:
    """Return whether messages end before the question: with an answer that is not the output."""
    return (
        bool(messages and messages[-1].role == "assistant" and messages[-1].content.strip())
        and isinstance(output, str)
        and output.strip() != messages[-1].content.strip()
    )


def _in_order(
    first: tuple[ConversationMessage, ...], second: tuple[ConversationMessage, ...]
) -> tuple[ConversationMessage, ...]:
    """Return messages followed by later ones; the overlap of both appears once."""
    systems: tuple[ConversationMessage, ...] = ()
    if not any(message.role == "system" for message in first):
        systems = tuple(takewhile(lambda message: message.role == "system", second))
    rest = second[len(systems) :]
    longest = min(len(first), len(rest))
    before, after = ([(m.role, m.content.strip(), m.calls) for m in ms] for ms in (first, rest))
    lengths = range(longest, -1, -1)
    common = next(n for n in lengths if before[len(before) - n :] == after[:n])
    return (*systems, *first, *rest[common:])


def _add_tools(fields: dict[str, Any], name: str, images: ImageReader) -> None:
    """Add the available or called tools to the conversation."""
    value = fields.pop(name, None)
    if name == "tools_called":
        value = parse_text(value)
    if not value:
        return
    messages: tuple[ConversationMessage, ...] = fields.get("messages", ())
    source = fields.get("source")
    if not messages and isinstance(source, str) and source.strip():
        messages = (ConversationMessage(role="user", content=fields.pop("source")),)
    if name == "tools":
        if about := read_tools(value):
            messages = (ConversationMessage(role="system", content=about), *messages)
        fields["messages"] = messages
        return
    if not isinstance(value, list | Mapping):
        raise ValueError("should be a list of calls, each with the name of a tool")
    called = read_calls(value, images)
    calls_there = {call for message in messages for call in message.calls}
    if all(call in calls_there for call, _ in called):
        return
    calls = tuple(call for call, _ in called)
    results = (
        ConversationMessage(role="tool", content=result, name=call.name, call_id=call.id)
        for call, result in called
        if result is not None
    )
    output = fields.get("output")
    last = (ConversationMessage(role="assistant", content=output),) if output else ()
    if messages and last and messages[-1].content == output:
        messages = messages[:-1]
    calling = ConversationMessage(role="assistant", calls=calls)
    fields["messages"] = (*messages, calling, *results, *last)
