"""Reads messages and passages as other tools write them.

It reads the forms of OpenAI (chat and responses), Anthropic, Inspect, Ragas, LangChain, DeepEval's
turns, OpenInference, Gemini, Bedrock, AI SDK and ShareGPT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from textassay.runtime.column_names import RETRIEVED, plain_name
from textassay.runtime.conversation import (
    ConversationMessage,
    Passage,
    ToolCall,
    as_json_text,
    calls_as_text,
    last_answer,
    passages_text,
)
from textassay.runtime.images import ImageReader, is_image_name, is_image_part

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "gpt": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "developer": "system",
    "function": "tool",
}
_SPEAKER = ("role", "from", "speaker", "author")
_TEXT = ("content", "value", "text", "parts", "message", "utterance")
_WITHOUT_TEXT = (
    "tool_calls", "function_call", "contents", "refusal", "attachments", "experimental_attachments",
)  # fmt: skip
"""Fields that a message may have in place of a text."""
_IMAGES = ("images", "image", "image_url", "image_path")
"""Names of images in messages and passages, beside their text."""
_TOOLS = ("tools", "functions")
CALL_FIELDS = (
    "tool_calls", "calls", "tools_called", "toolsCalled", "mcp_tools_called", "toolInvocations",
    "function_call",
)  # fmt: skip
READ_IN_MESSAGES = frozenset({
    *_SPEAKER, *_TEXT, *_WITHOUT_TEXT, *_IMAGES, *RETRIEVED, *_TOOLS, *CALL_FIELDS, "citations",
    "name", "tool_name", "function", "source", "type", "id", "data", "kwargs", "lc", "error",
    "tool_call_id", "call_id", "arguments", "output",
})  # fmt: skip
"""Fields of messages that are read: parts that a judge is shown, and those that name their kind.
`source` is Inspect's name for the author."""
_CALLS = (
    "toolcall", "functioncall", "searchcall", "interpretercall", "computercall", "mcpcall",
    "shellcall", "patchcall", "generationcall", "tooluse", "toolinvocation", "executablecode",
)  # fmt: skip
_RESULTS = (
    "toolresult", "functionresponse", "calloutput", "codeexecutionresult", "toolerror",
    "tooloutputdenied",
)  # fmt: skip
_NOT_SHOWN = (
    "reasoning", "thinking", "redactedthinking", "reasoningcontent", "stepstart", "cachepoint",
    "itemreference", "compaction", "mcpapprovalrequest", "mcpapprovalresponse",
)  # fmt: skip
"""Endings of the types of parts that are calls of tools, and of those that are their results; types
of thoughts and of parts that show neither a text nor a call. All are plain names."""
_NO_NAMES = ("tooluse", "toolcall", "functioncall", "toolinvocation")
"""Endings of types and keys that calls of any tool have, as plain names."""
_ARGUMENTS = ("arguments", "args", "input", "input_parameters", "inputParameters", "parameters")


class FaultInMessage(ValueError):
    """A part of one message cannot be read; the text says where it is."""


def looks_like_messages(value: Any) -> bool:
    """Return whether a value is a list of messages, in any known form."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(item, ConversationMessage) or _is_message(item) for item in value)
    )


def read_messages(value: Any, images: ImageReader | None = None) -> tuple[ConversationMessage, ...]:
    """Return the messages of a list, read from any known form.

    Raises:
        FaultInMessage: A part of a message cannot be read.
        ValueError: An item is not a message; its number is named.
    """
    if not isinstance(value, list | tuple):
        raise ValueError("should be a list of messages, each with a role and its content")
    messages: list[ConversationMessage] = []
    for number, item in enumerate(value, start=1):
        if isinstance(item, ConversationMessage):
            messages.append(item)
            continue
        if not isinstance(item, Mapping) or not _is_message(item):
            raise ValueError(
                f"message {number} should be an object with a role and its content, in the form of"
                f" OpenAI, Inspect, Ragas, LangChain or DeepEval, not {short_repr(item)}"
            )
        try:
            messages += _messages_of(item, images)
        except ValueError as error:
            raise FaultInMessage(f"message {number}: {error}") from None
    return tuple(messages)


def read_response(
    value: Any, images: ImageReader | None = None
) -> tuple[ConversationMessage, ...] | None:
    """Return the messages of an output that is a model's response, or a part of one.

    It is `None` for any other value.
    """
    # of OpenAI (chat and responses), Gemini and Bedrock
    for name in ("choices", "candidates", "output", "content", "parts"):
        if isinstance(value, Mapping) and value.get(name) and not looks_like_messages([value]):
            value = value[name]
            if name in ("choices", "candidates") and isinstance(value, list):
                value = value[0]
    items = value if isinstance(value, list | tuple) else [value]
    if looks_like_messages(items):
        return read_messages(items, images)
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    functions = [item.get("function") for item in items]
    if all(isinstance(one, Mapping) and "arguments" in one for one in functions):
        return read_messages([{"role": "assistant", "tool_calls": items}], images)
    kinds = [_kind_and_fields(item)[0] for item in items]
    others = [
        item
        for item, kind in zip(items, kinds, strict=True)
        if not kind.endswith((*_NO_NAMES, *_RESULTS)) and kind not in _NOT_SHOWN
    ]
    if any(kind.endswith(_NO_NAMES) for kind in kinds) and all("text" in item for item in others):
        return read_messages([{"role": "assistant", "content": items}], images)
    return None


def text_of(answers: Sequence[ConversationMessage]) -> str | None:
    """Return the text of an output that is a list of messages, or else its calls."""
    texts = (m.content for m in reversed(answers) if m.content.strip())
    return last_answer(answers) or calls_as_text(answers) or next(texts, None)


def read_passages(value: Any) -> tuple[Passage, ...]:
    """Return passages: a text, or a list of texts or objects with text, id, title and score."""
    items = [value] if isinstance(value, str | Mapping | Passage) else value
    if not isinstance(items, list | tuple):
        raise ValueError(f"should be a text or a list of passages, not {short_repr(value)}")
    passages: list[Passage] = []
    for number, item in enumerate(items, start=1):
        if item is None:
            continue
        text = _passage_text(item)
        if text is None:
            raise ValueError(
                f"passage {number} should be a text, or an object with a text, not"
                f" {short_repr(item)}"
            )
        if isinstance(item, Mapping) and any(item.get(name) for name in _IMAGES):
            raise ValueError(
                f"passage {number} has an image, which would not be shown; put it into the field"
                " 'images', or remove it"
            )
        if isinstance(item, Passage):
            passages.append(item)
        elif any(map(str.isalnum, text)):
            passages.append(_passage(item, text))
    return tuple(passages)


def read_tools(value: Any) -> str:
    """Return definitions of tools as the text of a system message; empty without any.

    Raises:
        ValueError: One of them is neither a text nor an object.
    """
    if isinstance(value, str):
        return f"Tools:\n{value}"
    items = [value] if isinstance(value, Mapping) else value
    if not isinstance(items, list | tuple):
        raise ValueError(f"should be a list of tools, not {short_repr(value)}")
    lines = []
    for number, item in enumerate(items, start=1):
        if item is None:
            continue
        if not isinstance(item, str | Mapping):
            raise ValueError(
                f"tool {number} should be a text, or an object with the name of a tool, not"
                f" {short_repr(item)}"
            )
        tool = _inner(item, "tool")
        tool = _inner(tool, "function") if isinstance(tool, Mapping) else tool
        if not isinstance(tool, Mapping) or not tool.get("name"):
            lines.append(f"- {as_json_text(item)}")
            continue
        rest = {k: v for k, v in tool.items() if k not in ("name", "description", "type")}
        about = f": {tool['description']}" if tool.get("description") else ""
        lines.append(f"- {tool['name']}{about}{f' {as_json_text(rest)}' if rest else ''}")
    return "\n".join(["Tools:", *lines]) if lines else ""


def has_unnamed_tool(tools: Any, messages: Any) -> bool:
    """Return whether a tool, given or in messages, has no name and is not the value of one."""
    found = [message for message in _entries(messages) if isinstance(message, Mapping)]
    items = [tools, *(message.get(name) for message in found for name in _TOOLS)]
    return any(
        isinstance(tool, Mapping) and not _names_tool(tool)
        for value in items
        for tool in (value if isinstance(value, list | tuple) else [value])
    )


def _names_tool(item: Mapping[str, Any]) -> bool:
    """Return whether a definition has a name, here or below, or is the value of its name."""
    if any(item.get(name) for name in ("name", "type", "title")):
        return True
    fields = [value for key, value in item.items() if key not in _ARGUMENTS]
    inside = [part for v in fields for part in (v if isinstance(v, list | tuple) else [v])]
    if any(isinstance(part, Mapping) and _names_tool(part) for part in inside):
        return True
    is_definition = all(isinstance(value, Mapping) for value in item.values())
    return is_definition and not item.keys() <= {"function", "tool", *_ARGUMENTS}


def message_text(content: Any, images: ImageReader | None = None) -> str:
    """Return the text of a message's content: a text, or parts.

    Thoughts are left out; the text names images and files in their places, an image by its number
    if `images` accepts it.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _part_text(content, images)
    if isinstance(content, list | tuple):
        return "\n".join(text for part in content if (text := message_text(part, images)))
    return as_json_text(content)


def _inner(item: Any, name: str) -> Any:
    """Return the object in a field of the item; the item itself if there is no object."""
    if isinstance(item, Mapping) and isinstance(item.get(name), Mapping):
        return item[name]
    return item


def _is_message(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    item = _inner(item, "message")
    if any(isinstance(item.get(name), str) for name in _SPEAKER):
        # `ConversationMessage` as in files of ratings, which omit empty fields
        is_ours = isinstance(item.get("calls"), list | tuple) or (
            item.get("role") == "tool" and "call_id" in item
        )
        return is_ours or any(name in item for name in (*_TEXT, *_WITHOUT_TEXT))
    kind = str(item.get("type"))
    if kind in ("human", "ai", "tool", "system", "function"):
        return "content" in item or isinstance(item.get("data"), Mapping)
    if is_response_item(item):
        return True
    return "lc" in item and isinstance(item.get("kwargs"), Mapping)


def is_response_item(item: Mapping[str, Any]) -> bool:
    """Return whether an object is an item of OpenAI's responses other than a message."""
    kind = plain_name(str(item.get("type")))
    is_shown = _is_call(kind, item) or kind.endswith(_RESULTS)
    is_known = is_shown or kind in (*_NOT_SHOWN, "mcplisttools")
    always = ("functioncall", "functioncalloutput", "reasoning")
    is_item = kind in always or not {"id", "call_id", "status"}.isdisjoint(item)
    return is_known and is_item and "role" not in item


def _is_call(kind: str, item: Any) -> bool:
    """Return whether an object of a type, in plain letters, is a call of a tool."""
    if kind.endswith(_CALLS):
        return True
    # of a tool that is not known here; a `phone_call` is none
    return kind.endswith("call") and not {"call_id", "arguments"}.isdisjoint(item)


def _messages_of(item: Mapping[str, Any], images: ImageReader | None) -> list[ConversationMessage]:
    """Return the messages in one object, usually one."""
    item = _inner(item, "message")
    if is_response_item(item):
        if _kind_and_fields(item)[0] in _NOT_SHOWN:
            return []
        lists_tools = "tools" in item
        item = {"role": "system", **item} if lists_tools else {"role": "assistant", "content": item}
    role, item = _role_and_fields(item)
    # `contents` is OpenInference's name; in messages of AI SDK it may be empty beside another field
    names = (*_TEXT, "contents")
    content = next((item[name] for name in names if item.get(name)), None)
    messages, rest, calls_in_parts = _read_parts(role, content, images)
    calls = [*_calls_in_fields(item, images), *((call, None) for call in calls_in_parts)]
    text = _text_with_fields(message_text(rest, images), role, item, images)
    if messages and not text.strip() and not calls:
        return messages
    call_id = item.get("tool_call_id", item.get("call_id"))
    named_by = ("name", "tool_name", "function") if role == "tool" else ("name",)
    passages = _passages_in(item)
    tools = [_read_at(name, read_tools, item[name]) for name in _TOOLS if item.get(name)]
    tools = [text for text in tools if text]
    if role == "system":
        text = "\n\n".join(part for part in (text, *tools, passages_text(passages)) if part)
        tools, passages = [], ()
    messages += [ConversationMessage(role="system", content=about) for about in tools]
    message_with_calls = ConversationMessage(
        role=role,
        content=text,
        name=_text_or_none(next((item[name] for name in named_by if item.get(name)), None)),
        calls=tuple(call for call, _ in calls),
        call_id=_text_or_none(call_id) if role == "tool" else None,
        passages=passages,
    )
    answers = [_result_of(call, result) for call, result in calls if result is not None]
    if answers and text.strip():
        # a turn that has calls, their results and a text: the text was written last
        calling = message_with_calls.model_copy(update={"content": ""})
        closing = message_with_calls.model_copy(update={"calls": (), "passages": ()})
        return [*messages, calling, *answers, closing]
    return [*messages, message_with_calls, *answers]


def _read_parts(
    role: str, content: Any, images: ImageReader | None
) -> tuple[list[ConversationMessage], list[Any], list[ToolCall]]:
    """Return the messages in a content up to its last result of a tool, and what follows.

    What follows are the parts that are no calls, and the calls. A result in the message of a user
    is that of an earlier call, and precedes the whole message.
    """
    messages: list[ConversationMessage] = []
    rest: list[Any] = []
    calls: list[ToolCall] = []

    def add(result: ConversationMessage) -> None:
        if role == "assistant" and (calls or rest):
            text = message_text(rest, images)
            message = ConversationMessage(role=role, content=text, calls=tuple(calls))
            messages.extend([message] if calls or text.strip() else [])
            rest.clear()
            calls.clear()
        messages.append(result)

    parts = content if isinstance(content, list | tuple) else (content,)
    for part in parts:
        kind, fields = _kind_and_fields(part)
        if kind.endswith(_RESULTS):
            add(_result_part(fields, images))
        elif _is_call(kind, fields):
            call, result = read_call(part if fields is part else {_key_of(part): fields}, images)
            calls.append(call)
            if result is not None:
                add(_result_of(call, result))
        else:
            rest.append(part)
    return messages, rest, calls


def _result_of(call: ToolCall, result: str) -> ConversationMessage:
    return ConversationMessage(role="tool", content=result, name=call.name or None, call_id=call.id)


def _text_with_fields(
    text: str, role: str, item: Mapping[str, Any], images: ImageReader | None
) -> str:
    """Return the text of a message with refusal, images and error from fields beside it."""
    if not text.strip() and isinstance(item.get("refusal"), str):
        text = item["refusal"]
    beside = next((item[name] for name in _IMAGES if item.get(name)), None)
    attached = beside if isinstance(beside, list) else [] if beside is None else [beside]
    attached = [*attached, *_attached_images(item)]
    if attached and images is not None:  # Ollama's messages, and AI SDK's
        text = "\n".join([*(images.mark(_as_part(image)) for image in attached), text])
    return _with_error(text, item.get("error")) if role == "tool" else text


def _with_error(text: str, error: Any) -> str:
    """Return the result of a tool with the error that is reported beside it, if there is one."""
    if not error:
        return text
    message = error.get("message") if isinstance(error, Mapping) else None
    message = message or (error if isinstance(error, str) else as_json_text(error))
    return "\n".join(part for part in (text, f"error: {message}") if part)


def _role_and_fields(item: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the role of a message, and the object that has its other fields."""
    if "lc" in item and isinstance(item.get("kwargs"), Mapping):
        path = item.get("id")
        name = str(path[-1]) if isinstance(path, Sequence) and path else ""
        classes = {"AI": "assistant", "System": "system", "Tool": "tool"}
        role = next((ours for start, ours in classes.items() if name.startswith(start)), "user")
        return role, item["kwargs"]
    spoken = next((item[name] for name in _SPEAKER if isinstance(item.get(name), str)), None)
    role = str(spoken if spoken is not None else item.get("type", "user"))
    if isinstance(item.get("data"), Mapping):  # LangChain's messages_to_dict
        item = item["data"]
    return _ROLES.get(role.lower(), role.lower()) or "user", item


def _attached_images(item: Mapping[str, Any]) -> list[Any]:
    """Return the attached images of a message."""
    names = ("attachments", "experimental_attachments")
    fields = [item[name] for name in names if item.get(name)]
    attached = [file for some in fields for file in (some if isinstance(some, list) else [some])]
    for file in attached:
        if is_image_file(file):
            continue
        named = file if isinstance(file, str) else None
        if isinstance(file, Mapping):
            named = next(
                (file[name] for name in ("name", "filename", "url") if file.get(name)), None
            )
        raise ValueError(
            f"has the attachment {short_repr(named or file)}, which is not an image and would not"
            " be shown; put its text into the message, or remove it"
        )
    return attached


def is_image_file(value: Any) -> bool:
    """Return whether a value is an image's name, or has its type or name (AI SDK)."""
    if isinstance(value, str):
        return is_image_name(value)
    if not isinstance(value, Mapping):
        return False
    kinds = (value.get(name) for name in ("contentType", "content_type", "mediaType", "mimeType"))
    kind = next((kind for kind in kinds if isinstance(kind, str)), None)
    if kind is not None:
        return kind.startswith("image/")
    return is_image_part(value) or any(
        is_image_name(str(value.get(name))) for name in ("url", "path", "name")
    )


def _passages_in(item: Mapping[str, Any]) -> tuple[Passage, ...]:
    """Return the passages of a message, each once."""
    names = (*RETRIEVED, "citations")
    values = {name: item[name] for name in names if _has_text(item.get(name))}
    if cited := values.get("citations"):  # Cohere's are places in the answer, with their sources
        values["citations"] = [c for c in cited if not (isinstance(c, Mapping) and "start" in c)]
    found = [p for n, value in values.items() for p in _read_at(n, read_passages, value)]
    return tuple({p.text: p for p in found}.values())


def _has_text(value: Any) -> bool:
    """Return whether a value contains more than numbers (of citations)."""
    items = value if isinstance(value, list | tuple) else [value]
    return any(item and isinstance(item, str | Mapping | Passage) for item in items)


def _as_part(image: Any) -> Mapping[str, Any]:
    return image if isinstance(image, Mapping) else {"image": image}


def _calls_in_fields(
    item: Mapping[str, Any], images: ImageReader | None
) -> list[tuple[ToolCall, str | None]]:
    """Return the calls in a message's own fields, each with its result if it has one."""
    found = {name: parse_text(item.get(name)) for name in CALL_FIELDS}
    return [
        call
        for name, value in found.items()
        if not isinstance(value, str)
        for call in _read_at(name, read_calls, value, images)
    ]


def _read_at(name: str, read: Callable[..., Any], *values: Any) -> Any:
    """Read a field of a message with `read`; an error names the field."""
    try:
        return read(*values)
    except ValueError as error:
        raise ValueError(f"field {name!r}: {error}") from None


def parse_text(value: Any) -> Any:
    """Return the list or the object in a text, as JSON or Python writes it; other values unchanged.

    A blank text and a mark of a missing value are `None`.
    """
    if not isinstance(value, str):
        return value
    from textassay.runtime.literals import parse_literal

    text = value.strip()
    try:
        parsed = json.loads(text) if text else None
    except (ValueError, RecursionError):
        try:
            parsed = parse_literal(text, json.loads)
        except ValueError:
            return value
    return parsed if parsed is None or isinstance(parsed, list | dict) else value


def read_calls(value: Any, images: ImageReader | None = None) -> list[tuple[ToolCall, str | None]]:
    """Return the calls of a list, or one call, each with its result if it has one."""
    return [read_call(call, images) for call in _entries(value)]


def _entries(value: Any) -> Iterator[Any]:
    value = parse_text(value)
    if isinstance(value, list | tuple):
        for item in value:
            yield from _entries(item)
    elif value:
        yield value


def read_call(call: Any, images: ImageReader | None = None) -> tuple[ToolCall, str | None]:
    """Return a call of a tool, with its result if there is one.

    Its name may be one level down, or the key or the type of a hosted tool; a call without a name
    has all of its fields as arguments.

    Raises:
        ValueError: It is neither a text nor an object.
    """
    if isinstance(call, str):
        return ToolCall(name=call), None
    if not isinstance(call, Mapping):
        raise ValueError(
            f"a call should be the name of a tool, or an object with it, not {short_repr(call)}"
        )
    call = _inner({k: v for k, v in call.items() if v is not None}, "tool_call")
    outcomes, errors = ("output", "result", "outputs", "results"), ("error", "errorText")
    about = ("type", "id", "call_id", "toolCallId", "status", "state", *outcomes, *errors)
    inner = _inner(call, "function")
    if not (name := _own_name(inner)):
        others = (*_ARGUMENTS, *about)
        parts = {k: v for k, v in call.items() if isinstance(v, Mapping) and k not in others}
        inner = next(filter(_own_name, parts.values()), call)
        name = _own_name(inner)
    rest: dict[str, Any] = {}
    if not name:
        name = _name_of_hosted(call, parts)
        inner = parts.get(name, call)
        rest = {k: v for k, v in inner.items() if k not in about and v is not None}
    arguments = next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), None)
    arguments = arguments if rest.keys() <= set(_ARGUMENTS) else rest
    both = {**inner, **call}
    output = next((both[key] for key in outcomes if both.get(key) is not None), None)
    if call.get("type") == "image_generation_call" and output is not None:
        output = {"type": "image", "data": output}
    error = next((both[key] for key in errors if both.get(key)), None)
    # a call that only failed has its error for its result
    result = error if output is None else output
    text = None if result is None else message_text(result, images)
    ids = ("call_id", "id", "tool_call_id", "toolCallId", "toolUseId")
    return (
        ToolCall(
            name=name,
            arguments=as_json_text(arguments),
            id=_text_or_none(next((both[key] for key in ids if both.get(key)), None)),
        ),
        text if text is None or output is None else _with_error(text, error),
    )


def _own_name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    name = call.get("name") or call.get("toolName")
    kind = str(call.get("type"))
    if not name and "toolCallId" in call and kind.startswith("tool-"):  # AI SDK
        name = kind.removeprefix("tool-")
    return str(name or (function if isinstance(function, str) else ""))


def _name_of_hosted(call: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """Return the type of a call; without one, its only key; empty if neither names a tool."""
    name = str(call.get("type") or (next(iter(parts)) if parts and len(call) == 1 else ""))
    return "" if plain_name(name).endswith(("function", *_NO_NAMES)) else name


def _result_part(part: Mapping[str, Any], images: ImageReader | None) -> ConversationMessage:
    names = ("content", "response", "output", "result")
    content = next((part[name] for name in names if part.get(name) is not None), None)
    ids = ("tool_use_id", "toolUseId", "tool_call_id", "toolCallId", "call_id")
    call_id = next((part[key] for key in ids if part.get(key)), None)
    if isinstance(content, Mapping) and content.keys() == {"type", "value"}:  # AI SDK
        content = content["value"]
    is_object = isinstance(content, Mapping) and not is_image_part(content)
    text = as_json_text(content) if is_object else message_text(content, images)
    is_denied = plain_name(str(part.get("type"))).endswith("denied")
    return ConversationMessage(
        role="tool",
        content=_with_error(text, part.get("error") or ("denied" if is_denied else None)),
        name=_text_or_none(part.get("name") or part.get("toolName")),
        call_id=_text_or_none(call_id),
    )


def _key_of(part: Mapping[str, Any]) -> str | None:
    """Return the key that is the type of a part of Gemini or Bedrock."""
    types = (*_NOT_SHOWN, "document", "image", "video", "json", "inlinedata", "filedata")
    keys = {key: plain_name(str(key)) for key in part if isinstance(part[key], Mapping)}
    endings = (*_NO_NAMES, *_RESULTS, "executablecode")
    return next((k for k, name in keys.items() if name in types or name.endswith(endings)), None)


def _kind_and_fields(part: Any) -> tuple[str, Any]:
    """Return the type of a content's part as a plain name, and the object with its fields.

    The type is empty if there is none.
    """
    if not isinstance(part, Mapping):
        return "", part
    kind = plain_name(str(part.get("type") or ""))
    if "toolCallId" in part and not kind.endswith(_RESULTS):
        return "toolcall", part  # such as `tool-weather` of AI SDK
    key = None if kind else _key_of(part)
    return (kind, part) if key is None else (plain_name(key), part[key])


def _part_text(part: Mapping[str, Any], images: ImageReader | None) -> str:
    part = _inner(part, "message_content")  # OpenInference
    kind, fields = _kind_and_fields(part)
    is_read = _is_call(kind, fields) or kind.endswith(_RESULTS)
    if is_read or kind in _NOT_SHOWN or part.get("thought") is True:
        return ""
    if images is not None and is_image_part(part):
        return images.mark(part)
    if kind == "json":
        return as_json_text(fields)
    if kind == "document" and (text := _document_text(fields)):
        titles = (fields.get("title"), fields.get("context"))
        return "\n".join([*(title for title in titles if isinstance(title, str) and title), text])
    for name in ("text", "content", "refusal", "transcript", "logs"):
        if fields.get(name) is not None:
            return message_text(fields[name], images)
    if not kind:
        return as_json_text({name: value for name, value in part.items() if value is not None})
    name = str(part.get("type") or _key_of(part)).replace("-", "_")
    return f"[{name.removeprefix('input_').removesuffix('_url')}: {_reference(fields)}]"


def _document_text(part: Mapping[str, Any]) -> str:
    """Return the text of a document (Anthropic, Bedrock, Cohere); empty for an address or bytes."""
    fields = (part.get(name) for name in ("source", "document"))
    document: Mapping[str, Any] = next((f for f in fields if isinstance(f, Mapping)), {})
    data = document.get("data") if document.get("type", "text") == "text" else None
    text = next((v for v in (data, document.get("text"), document.get("content")) if v), None)
    return as_json_text(text) if isinstance(text, Mapping) else message_text(text)


def _reference(part: Mapping[str, Any]) -> str:
    """Return the name of an image or a file, without its bytes."""
    # a name says more than a format
    for name, value in sorted(part.items(), key=lambda item: item[0] != "name"):
        if name in ("type", "data", "bytes", "base64", "file_data"):
            continue
        inner = _reference(value) if isinstance(value, Mapping) else value
        if isinstance(inner, str) and inner != "not shown":
            return inner.partition(",")[0] if inner.startswith("data:") else inner[:200]
    return "not shown"


def _passage_text(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    if isinstance(item, Passage):
        return item.text
    if not isinstance(item, Mapping):
        return None
    item = _inner(item, "document")
    names = (
        "text", "content", "page_content", "pageContent", "passage", "chunk", "context", "body",
        "snippet", "document", "excerpt", "cited_text",
    )  # fmt: skip
    return next((item[key] for key in names if isinstance(item.get(key), str)), None)


def _passage(item: Any, text: str) -> Passage:
    if not isinstance(item, Mapping):
        return Passage(text=text)
    item = _inner(item, "document")
    metadata = item.get("metadata")
    about = {**(metadata if isinstance(metadata, Mapping) else {}), **item}
    scores = ("score", "similarity", "relevance_score", "distance")
    ids = ("id", "_id", "doc_id", "document_id", "chunk_id", "source", "url")
    score = next((about[key] for key in scores if _is_number(about.get(key))), None)
    name = next((about[key] for key in ids if about.get(key) not in (None, "")), None)
    title = about.get("title")
    return Passage(
        text=text,
        id=_text_or_none(name),
        title=title if isinstance(title, str) and title else None,
        score=None if score is None else float(score),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text_or_none(value: Any) -> str | None:
    return None if value is None or isinstance(value, list | dict) else str(value)


def short_repr(value: Any) -> str:
    """Return a value for an error message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
