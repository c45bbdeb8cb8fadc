"""What a judge is meant to see: context, question, messages, images, tools and references.

Knows what fields are called, here and by other tools, puts together what several columns say, and
finds columns that look like material and are not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from textassay.lazy import lazy_pattern
from textassay.runtime.chat_formats import (
    READ_IN_MESSAGES,
    RETRIEVED,
    is_image_file,
    looks_like_messages,
    looks_like_passages,
    read_call,
    read_messages,
    read_passages,
    read_tools,
)
from textassay.runtime.conversation import (
    ConversationMessage,
    calls_as_text,
    conversation_pieces,
    last_answer,
    passages_text,
)
from textassay.runtime.data.tables import KEYED, FieldError, listed_objects
from textassay.runtime.images import ENDINGS, ImageReader, is_image_name, is_image_part
from textassay.runtime.messages import Example, with_material

NAMES = (*Example.model_fields, "tools", "tools_called")
"""The names that need no alias: the fields of an example, and two that become a part of its
messages."""
ALIASES = {
    "output": (
        "response hypothesis summary prediction actual_output system_output model_output"
        " actualOutput"
    ),
    "source": "document input article question prompt query src source_text dialogue user_input",
    "context": " ".join(RETRIEVED),
    "messages": (
        "turns conversation conversations chat chat_history history transcript trajectory traj"
    ),
    "images": (
        "image image_url image_urls image_path image_paths image_file image_files img img_path imgs"
        " picture pictures"
    ),
    "tools": "available_tools tool_definitions",
    "tools_called": "toolsCalled tool_calls",
    "rubric": "rubrics rubric_items",
    "references": (
        "reference expected expected_output expectedOutput expected_outcome expectedOutcome target"
        " ground_truth ground_truths gold ref refs"
    ),
}
"""Names that other tools use, by ours."""
LAST_RESORT = {
    "output": "text answer reply completion generated_text generation translation candidate",
    "source": "instruction instructions scenario",
    "system": "version model model_name system_name",
    "group": "group_id source_id doc_id document_id",
}
"""Names that often mean something else: they count only if no other column claims the field, the
first listed before the others."""
JOINED = frozenset({"context", "images"})
"""Fields that take all the columns that mean them."""
NOT_SHOWN = frozenset(
    ["expected_tools", "expectedTools", "expected_actions", "reference_tool_calls",
     "reference_contexts", "reference_context_ids", "retrieved_context_ids", "reference_topics",
     "user_description", "userDescription", "chatbot_role", "chatbotRole", "persona",
     "multi_responses"]
)  # fmt: skip
"""Columns of other tools that no judge is shown: they are kept in `meta`, and a run names them."""
LOOKS_LIKE = {
    "context": (
        "context contexts passage passages chunk chunks document documents doc docs retrieved"
        " retrieval evidence evidences knowledge snippet snippets facts grounding",
        "search_results search_result web_results excerpts excerpt sources hits corpus kb"
        " paragraphs paragraph citations premise premises story policy policies guidelines memory"
        " memories",
    ),
    "question": (
        "question questions query queries prompt prompts input inputs article source",
        "problem problems task tasks",
    ),
    "messages": (
        "message messages conversation conversations dialog dialogue dialogues chat history"
        " transcript turns trajectory trace traces thread",
        "observations intermediate_steps steps spans events logs",
    ),
    "images": ("image images img imgs picture pictures photo photos screenshot screenshots", ""),
    "tools": ("tool tools", "functions"),
    "calls": ("", "function_calls actions"),
    "references": (
        "reference references truth truths gold golden expected target targets",
        "ideal_answer ideal_answers correct_answer correct_answers best_answer best_answers"
        " answer_key solution solutions",
    ),
    "files": ("", "attachment attachments audio audios video videos"),
}
"""Words of other names that look like material, by its kind; then words, or two of them, that are
labels, tags or numbers as often."""
NO_MATERIAL = frozenset(
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
WHERE = frozenset(["url", "urls", "uri", "path", "paths", "file", "files"])
"""Last words of names that say where something is, which is how images are given."""
MEASURES = frozenset(["n", "num", "is", "has", "avg", "mean", "max", "min", "total"])

MEANING = {
    **{alias: (name, 2) for name, aliases in ALIASES.items() for alias in aliases.split()},
    **{
        alias: (name, 3 + place)
        for name, aliases in LAST_RESORT.items()
        for place, alias in enumerate(aliases.split())
    },
}
"""What an alias means, and the rank of its claim."""


def meaning_of(name: str) -> tuple[str, int]:
    """Return which field a column stands for, and the rank of its claim; `""` and 0 if none.

    Our own names come first. Headings of spreadsheets such as `Source` and `Doc ID` mean what
    `source` and `doc_id` do; only names of ratings, metrics and `meta` must be written as they are.
    """
    if name in NAMES:
        return name, 1
    if name in MEANING:
        return MEANING[name]
    plain = name.strip().casefold().replace(" ", "_")
    if plain in NAMES and plain not in KEYED:
        return plain, 1
    return MEANING.get(plain, ("", 0))


_KIND_OF = {word: kind for kind, (words, _) in LOOKS_LIKE.items() for word in words.split()}
_OFTEN = {word: kind for kind, (_, words) in LOOKS_LIKE.items() for word in words.split()}
_OF_MATERIAL = {"question": "source", "calls": "tools_called"}
"""The field that a kind of material is mapped to, where it has another name."""
_IN_MESSAGES = {"context": "context", "calls": "tool_calls", "tools": "tools", "images": "images"}
"""What messages call a kind of material."""
_IMAGE_URI = lazy_pattern(r"data:image/(?:png|jpe?g|gif|webp);base64,[A-Za-z0-9+/]{16}")
_FILE = lazy_pattern(r"^data:|://|\.[A-Za-z]\w{1,4}$|^[A-Za-z0-9+/=]{100}")
_LAST_LETTERS = frozenset({*(ending[-1] for ending in ENDINGS), " ", "\n"})
_TARGETS = frozenset(
    ["source", "context", "passages", "references", "messages", "images", "tools", "tools_called"]
)
_WORDS = lazy_pattern(r"ChatGPT|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")


@lru_cache(maxsize=4096)
def kind_of_name(name: str) -> str | None:
    """Return which material a column seems to hold by its name, such as `context`; or `None`."""
    if name in NOT_SHOWN:
        return None
    if target := meaning_of(name)[0]:  # a second output or system is another matter
        kinds = {"source": "question", "tools_called": "calls", "passages": "context"}
        return kinds.get(target, target) if target in _TARGETS else None
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[0] in MEASURES:
        return None
    if words[-1] in NO_MATERIAL:
        held = (_KIND_OF.get(word) or _OFTEN.get(word) for word in words)
        file = next((kind for kind in held if kind in ("images", "files")), None)
        return file if words[-1] in WHERE else None
    pairs = [f"{one}_{other}" for one, other in pairwise(words)]
    found = [_KIND_OF.get(word) for word in words] + [_OFTEN.get(word) for word in words + pairs]
    return next(filter(None, found), None)


def _is_often_other(name: str) -> bool:
    """Return whether a name of material is as often one of labels, tags or numbers."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return not meaning_of(name)[0] and _KIND_OF.keys().isdisjoint(words)


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
        or "snippet" in item
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


def refuse_unused(row: Mapping[str, Any], keys: Iterable[str], texts: str) -> None:
    """Refuse a row with material that no judge would see, or objects in which some stands."""
    for key in keys:
        value = row[key]
        if kind := _kind_unused(key, value, texts):
            raise _unused(key, kind)
        is_object = type(value) is dict and kind_of_name(key) is None
        for name, inner in value.items() if is_object else ():
            # `source` is mostly where a row comes from
            if name != "source" and (kind := _kind_unused(name, inner, texts)):
                raise _unused(key, kind, inside=name)


def refuse_images_as_text(
    fields: Mapping[str, Any], keys: Mapping[str, str], folder: Path | None
) -> None:
    """Refuse texts that are the path of an image, or hold its content: a judge would see a name."""
    get = fields.get
    references = get("references") or ()
    listed = references if type(references) is list else (references,)
    texts = [get("output"), get("source"), get("context"), *listed]
    if "messages" in fields or "passages" in fields:
        texts += [message.content for message in get("messages", ())]
        texts += [passage.text for passage in get("passages", ())]
    for text in texts:
        # every row comes here, and few texts go further
        if type(text) is str and text and (text[-1] in _LAST_LETTERS or text[0] == "d"):
            _refuse_image(text.strip(), fields, keys, folder)


def _refuse_image(
    path: str, fields: Mapping[str, Any], keys: Mapping[str, str], folder: Path | None
) -> None:
    if _IMAGE_URI.match(path):
        what = "holds an image as text"
    elif path.endswith(ENDINGS) and _is_there(path, folder):
        what = f"is the path of the image {path}"
    else:
        return
    if path in {image.name for image in fields.get("images", ())}:
        return
    held = {
        **{name: [*_leaves(fields.get(name))] for name in ("output", "source", "references")},
        "messages": [message.content.strip() for message in fields.get("messages", ())],
    }
    name = next((name for name, texts in held.items() if path in texts), "context")
    raise FieldError(
        keys.get(name, name),
        f"{what}, which would not be shown as an image; give it in the field 'images'",
    )


def _is_there(path: str, folder: Path | None) -> bool:
    try:
        return "\n" not in path and ((folder or Path()) / path).is_file()
    except (OSError, ValueError):  # too long for a path
        return False


def _kind_unused(name: str, value: Any, texts: str) -> str | None:
    """Return which material a value is that no text shows; `None` if it is none or shown."""
    by_form = kind_of_value(value)
    kind = kind_of_name(name) or by_form
    if kind is None:
        return None
    leaves = [leaf for leaf in _leaves(value) if leaf not in texts]
    if "images" in (kind, by_form):
        return "images" if any(map(_is_image, leaves)) else None
    if kind == "files":
        files = value if isinstance(value, list | tuple) else [value]
        if any(map(is_image_file, files)):
            return "images"
        return kind if any(_is_prose(leaf) or _is_file(leaf) for leaf in leaves) else None
    is_often_other = _is_often_other(name)
    # a document or a query may be named rather than given
    is_any = by_form is not None or (
        kind not in ("context", "question") and (not is_often_other or _has_objects(value))
    )
    if any(is_any or _is_prose(leaf) for leaf in leaves):
        return by_form if by_form and is_often_other else kind
    return None


def _unused(key: str, kind: str, inside: str = "") -> FieldError:
    target = _OF_MATERIAL.get(kind, kind)
    used = f'fields={{"{key}": "{target}"}}'
    unused = f'fields={{"{key}": "meta"}}'
    how = f"say what it is, such as {used}"
    if kind == "files":
        how = "give its text, such as a transcript, in a field that is shown"
    elif inside:
        how = f"give it as a field of its own, such as {target!r}"
    return FieldError(
        key,
        f"{f'its {inside!r} ' if inside else ''}looks like {kind} and would not be shown;"
        f" {how}, or leave it out: {unused}",
    )


def _has_objects(value: Any) -> bool:
    items = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(item, Mapping) for item in items)


def _is_file(text: str) -> bool:
    """Return whether a text is the name, the address or the content of a file."""
    return _FILE.search(text) is not None


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
    """Return an example's fields with its material typed and as text."""
    complete = dict(fields)
    for name in ("messages", "tools", "tools_called", "context", "passages"):
        if not complete.get(name):
            complete.pop(name, None)
    key = keys.get("images", "images")
    try:
        images.take(_listed(complete.pop("images", None)))
        for column, name, value in further:
            key = column
            if name == "images":
                images.take(_listed(value))
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


def _listed(value: Any) -> Any:
    return listed_objects(value) if isinstance(value, str) else value


def _join_context(fields: dict[str, Any], value: Any) -> None:
    """Add one more column of context: two of them are passages."""
    if not value:
        return
    if "context" not in fields:
        fields["context"] = value
        return
    known, added = [*read_passages(fields["context"])], read_passages(value)
    # files of ratings have passages beside their numbered text, as an example has
    if fields["context"] == passages_text(added):
        known = []
    elif value == passages_text(known):
        added = ()
    texts = {passage.text for passage in known}
    fields["context"] = [*known, *(p for p in added if p.text not in texts)]


def _gather_messages(fields: dict[str, Any], images: ImageReader) -> None:
    """Make one conversation of messages in the place of source, messages and output."""
    messages: tuple[ConversationMessage, ...] = ()
    given = fields.pop("messages", None)
    source, output = fields.get("source"), fields.get("output")
    if looks_like_messages(listed := _listed(given)):
        given = listed
    if isinstance(given, str):  # a chat that was written down as a text
        if source:
            raise ValueError("is a text, and so is the source; give a list of messages")
        fields["source"] = given
    elif given is not None:
        messages = read_messages(given, images)
    if looks_like_messages(source):
        opening = read_messages(fields.pop("source"), images)
        follows = given is None and isinstance(output, str) and bool(output.strip())
        answer = (ConversationMessage(role="assistant", content=output),) if follows else ()
        messages = _in_order(opening, messages or answer)
    elif (
        isinstance(source, str)
        and not _goes_on(messages, output)
        and source.strip() in {m.content.strip() for m in messages}
    ):
        del fields["source"]  # it is shown as the message that it is
    answers = _answer_messages(output, images)
    if answers is not None:
        fields.pop("output")
        messages = _in_order(messages, answers)
        texts = (m.content for m in reversed(answers) if m.content.strip())
        fields["output"] = last_answer(answers) or calls_as_text(answers) or next(texts, None)
    if messages:
        fields["messages"] = messages
        for some in (given, source, output):
            if isinstance(some, list | tuple):
                _refuse_unused_in_messages(some, messages)


def _refuse_unused_in_messages(
    given: Sequence[Any], messages: Sequence[ConversationMessage]
) -> None:
    """Refuse a message that holds material under a name that is not read."""
    objects = [(number, one) for number, one in enumerate(given, 1) if isinstance(one, Mapping)]
    if all(READ_IN_MESSAGES.issuperset(item) for _, item in objects):
        return
    texts = "\n".join(piece.text for piece in conversation_pieces(messages))
    for number, item in objects:
        about = item.get("metadata")
        held = [(name, value) for name, value in item.items() if name not in READ_IN_MESSAGES]
        held += about.items() if isinstance(about, Mapping) else ()
        for name, value in held:
            if kind := _kind_unused(name, value, texts):
                raise ValueError(
                    f"message {number}: its {name!r} looks like {kind} and would not be shown;"
                    f" name it {_IN_MESSAGES.get(kind, 'content')!r}, or remove it"
                )


def _answer_messages(output: Any, images: ImageReader) -> tuple[ConversationMessage, ...] | None:
    """Return the messages of an output that is no text: a response of a model, or messages."""
    if isinstance(output, Mapping):
        choices = output.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            output = choices[0].get("message", choices[0])
        output = [output]
    return read_messages(output, images) if looks_like_messages(output) else None


def _goes_on(messages: Sequence[ConversationMessage], output: Any) -> bool:
    """Return whether messages end before the question: with an answer that is not the output."""
    return (
        bool(messages and messages[-1].role == "assistant" and messages[-1].content.strip())
        and isinstance(output, str)
        and output.strip() != messages[-1].content.strip()
    )


def _in_order(
    first: tuple[ConversationMessage, ...], second: tuple[ConversationMessage, ...]
) -> tuple[ConversationMessage, ...]:
    """Return messages and those that follow them; what ends one and begins the other comes once."""
    systems: tuple[ConversationMessage, ...] = ()
    if not any(message.role == "system" for message in first):
        systems = tuple(takewhile(lambda message: message.role == "system", second))
    rest = second[len(systems) :]
    longest = min(len(first), len(rest))
    common = next(n for n in range(longest, -1, -1) if _same(first[len(first) - n :], rest[:n]))
    return (*systems, *first, *rest[common:])


def _same(some: Sequence[ConversationMessage], others: Sequence[ConversationMessage]) -> bool:
    """Return whether two lists of messages say and call the same."""
    first, second = ([(m.role, m.content.strip(), m.calls) for m in ms] for ms in (some, others))
    return first == second


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
