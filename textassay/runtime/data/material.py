"""What a judge is meant to see: context, question, messages, images, tools and references.

Puts together what several columns say of it, and finds columns that look like it and are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from textassay.runtime.chat_formats import (
    looks_like_messages,
    looks_like_passages,
    read_call,
    read_messages,
    read_passages,
    read_tools,
)
from textassay.runtime.conversation import ConversationMessage
from textassay.runtime.data.aliases import NOT_SHOWN
from textassay.runtime.data.cells import FieldError
from textassay.runtime.images import ImageReader, is_image_name, is_image_part
from textassay.runtime.messages import with_material

_KINDS = {
    "context": (
        "context contexts passage passages chunk chunks document documents doc docs retrieved"
        " retrieval evidence evidences knowledge snippet snippets facts grounding"
    ),
    "question": "question questions query queries prompt prompts input inputs article source",
    "messages": (
        "message messages conversation conversations dialog dialogue dialogues chat history"
        " transcript turns trajectory trace traces thread"
    ),
    "images": "image images img imgs picture pictures photo photos screenshot screenshots",
    "tools": "tool tools",
    "references": "reference references truth truths gold golden expected target targets",
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_OF_MATERIAL = {"question": "source", "tools": "tools"}
"""The field that a kind of material is mapped to, where it has another name."""
_NO_MATERIAL = frozenset(
    ["id", "ids", "uid", "uuid", "name", "names", "type", "types", "kind", "count", "counts", "num",
     "number", "n", "length", "len", "size", "tokens", "token", "score", "scores", "model",
     "version", "url", "urls", "uri", "path", "paths", "file", "files", "date", "time", "timestamp",
     "at", "index", "idx", "lang", "language", "hash", "template", "digest", "label", "labels",
     "metadata", "meta", "config", "params", "parameters", "cost", "usage", "level", "category",
     "topic", "topics", "precision", "recall", "relevance", "relevancy", "rate", "ratio", "mode",
     "status", "flag", "k", "rank", "ranks", "format", "title", "embedding", "embeddings",
     "similarity", "distance"]
)  # fmt: skip
"""Last words of names that say something about material: `context_id`, `question_type`."""
_WHERE = frozenset(["url", "urls", "uri", "path", "paths", "file", "files"])
"""Last words of names that say where something is, which is how images are given."""
_MEASURES = frozenset(["n", "num", "is", "has", "avg", "mean", "max", "min", "total"])
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")


def kind_of_name(name: str) -> str | None:
    """Return which material a column seems to hold by its name, such as `context`; or `None`."""
    if name in NOT_SHOWN:
        return None
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[0] in _MEASURES:
        return None
    if words[-1] in _NO_MATERIAL:
        names_image = words[-1] in _WHERE and any(_KIND_OF.get(word) == "images" for word in words)
        return "images" if names_image else None
    return next((_KIND_OF[word] for word in words if word in _KIND_OF), None)


def kind_of_value(value: Any) -> str | None:
    """Return which material a value is by its form, whatever its name; or `None`."""
    if type(value) is not list:
        return "images" if is_image_name(str(value)) else None
    if not value or type(value[0]) is not dict:
        return "images" if value and is_image_name(str(value[0])) else None
    if all(type(item) is dict and is_image_part(item) for item in value):
        return "images"
    if looks_like_messages(value):
        return "messages"
    # lists of objects are common; a text with a score or of a page is what retrievers return
    if looks_like_passages(value) and all(
        "page_content" in item
        or "document" in item
        or ("score" in item and any(name in item for name in ("text", "content", "passage")))
        for item in value
    ):
        return "context"
    return None


def says_something(value: Any) -> bool:
    """Return whether a value has any text."""
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, Mapping):
        return any(map(says_something, value.values()))
    return isinstance(value, list | tuple) and any(map(says_something, value))


def refuse_unused(row: Mapping[str, Any], suspects: Mapping[str, str], texts: str) -> None:
    """Refuse a row with material that no judge would see.

    Args:
        row: The row.
        suspects: Columns that are not used, and what they seem to hold.
        texts: All texts that are used; what occurs in them is shown.

    Raises:
        FieldError: A column looks like material; says how to use it or leave it out.
    """
    for key, kind in suspects.items():
        value = row.get(key)
        if kind == "images":
            if any(_is_image(leaf) and leaf not in texts for leaf in _leaves(value)):
                raise _unused(key, kind)
            continue
        # a document or a query may be named rather than given
        is_any = kind not in ("context", "question") or kind_of_value(value) is not None
        if any((is_any or _is_prose(leaf)) and leaf not in texts for leaf in _leaves(value)):
            raise _unused(key, kind)


def _unused(key: str, kind: str) -> FieldError:
    target = _OF_MATERIAL.get(kind, kind)
    return FieldError(
        key,
        f"looks like {kind} and would not be shown; say what it is, such as"
        f' fields={{"{key}": "{target}"}}, or leave it out: fields={{"{key}": "meta"}}',
    )


def _is_image(text: str) -> bool:
    """Return whether a text in a column of images names one, rather than describes it."""
    return is_image_name(text) or (text.startswith(("http://", "https://")) and " " not in text)


def _is_prose(text: str) -> bool:
    """Return whether a text is more than a code or a name."""
    return len(text.split(maxsplit=1)) > 1 or text.endswith("?")


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


def put_together(
    fields: dict[str, Any],
    further: Iterable[tuple[str, str, Any]],
    keys: Mapping[str, str],
    chars: int,
    images: ImageReader,
) -> dict[str, Any]:
    """Return an example's fields with its material typed and as text.

    Args:
        fields: Values by field.
        further: Columns beside those that mean the same: key, field and value of each.
        keys: The row's name of each field, for messages.
        chars: Longest text of a conversation.
        images: Takes the images.

    Raises:
        FieldError: Passages, messages or tools are in no form that is understood, or an image
            cannot be read.
    """
    complete = dict(fields)
    for name in ("messages", "tools", "tools_called", "context", "passages"):
        if not complete.get(name):
            complete.pop(name, None)
    key = keys.get("images", "images")
    try:
        images.take(complete.pop("images", None))
        for column, name, value in further:
            key = column
            if name == "images":
                images.take(value)
            else:
                _join_context(complete, value)
        key = keys.get("messages", "messages")
        _gather_messages(complete, images)
        for name in ("tools", "tools_called"):
            key = keys.get(name, name)
            _add_tools(complete, name, images)
        key = keys.get("messages") or keys.get("context") or keys.get("source") or "messages"
        return with_material(complete, images=images, chars=chars)
    except ValueError as error:
        raise FieldError(key, str(error)) from None


def _join_context(fields: dict[str, Any], value: Any) -> None:
    """Add one more column of context: two of them are passages."""
    if not value:
        return
    if "context" not in fields:
        fields["context"] = value
        return
    known = [*read_passages(fields["context"])]
    texts = {passage.text for passage in known}
    fields["context"] = [*known, *(p for p in read_passages(value) if p.text not in texts)]


def _gather_messages(fields: dict[str, Any], images: ImageReader) -> None:
    """Make one conversation of messages in the place of source, messages and output."""
    messages: tuple[ConversationMessage, ...] = ()
    given = fields.pop("messages", None)
    source, output = fields.get("source"), fields.get("output")
    if isinstance(given, str):  # a chat that was written down as a text
        if source:
            raise ValueError("is a text, and so is the source; give a list of messages")
        fields["source"] = given
    elif given is not None:
        messages = read_messages(given, images)
    if looks_like_messages(source):
        opening = read_messages(fields.pop("source"), images)
        contents = {message.content for message in messages}
        messages = (*(m for m in opening if m.content not in contents), *messages)
    elif isinstance(source, str) and source.strip() in {m.content.strip() for m in messages}:
        del fields["source"]  # it is shown as the message that it is
    answers = _answer_messages(output, images)
    if answers is not None:
        fields.pop("output")
        contents = {message.content for message in messages if message.role == "assistant"}
        messages = (*messages, *(m for m in answers if m.content not in contents or m.calls))
        fields["output"] = next(
            (m.content for m in reversed(answers) if m.content.strip()), None
        ) or _calls_as_text(answers)
    if messages:
        fields["messages"] = messages


def _answer_messages(output: Any, images: ImageReader) -> tuple[ConversationMessage, ...] | None:
    """Return the messages of an output that is no text: a response of a model, or messages."""
    if isinstance(output, Mapping):
        choices = output.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            output = choices[0].get("message", choices[0])
        output = [output]
    return read_messages(output, images) if looks_like_messages(output) else None


def _calls_as_text(messages: Iterable[ConversationMessage]) -> str | None:
    lines = [f"{call.name}({call.arguments})" for m in messages for call in m.calls]
    return "\n".join(lines) or None


def _add_tools(fields: dict[str, Any], name: str, images: ImageReader) -> None:
    """Make a part of the conversation of the tools that there were, or that were called."""
    given = fields.pop(name, None)
    if not given:
        return
    messages: tuple[ConversationMessage, ...] = fields.get("messages", ())
    source = fields.get("source")
    if not messages and isinstance(source, str) and source.strip():
        messages = (ConversationMessage(role="user", content=fields.pop("source")),)
    if name == "tools":
        about = ConversationMessage(role="system", content=read_tools(given))
        fields["messages"] = (about, *messages)
        return
    if not isinstance(given, list):
        raise ValueError("should be a list of calls, each with the name of a tool")
    called = [
        read_call({"name": call} if isinstance(call, str) else call, images)
        for call in given
        if isinstance(call, Mapping | str)
    ]
    known = {call for message in messages for call in message.calls}
    if all(call in known for call, _ in called):
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
