"""Data sets: nothing that was meant for the judge is dropped in silence."""

from __future__ import annotations

import contextlib
import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pictures import png_uri
from tests.runtime.data.rows import EXPORTS, complaint, lines, read, saved
from textassay.runtime.column_names import ALIASES, BY_PLACE, LESS_CLEAR, RATERS, plain_name
from textassay.runtime.conversation import ConversationMessage, Passage, ToolCall
from textassay.runtime.data.dataset import Examples, PairedExamples
from textassay.runtime.data.ratings import WithRatings
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example


def shown(example: Example) -> str:
    """Return what prompts show of an example, and its references."""
    texts = (example.source, example.context, example.output, *example.references)
    return "\n".join(text for text in texts if text)


@pytest.mark.parametrize("name", EXPORTS)
def test_rows_of_other_tools_are_understood_without_a_map(tmp_path: Path, name: str) -> None:
    """Every passage, turn, call and result is shown, whether from memory or from a file."""
    row, texts, output = EXPORTS[name]
    (example,) = read([row])
    assert example.output == output
    assert [text for text in texts if text not in shown(example)] == []
    assert read(saved(tmp_path, lines(row))) == [example]
    assert read(saved(tmp_path, json.dumps([row]), "data.json")) == [example]


def test_files_that_hold_their_list_in_an_object_are_read(tmp_path: Path) -> None:
    """Inspect's logs and DeepEval's test runs are such files."""
    log = {"version": 2, "status": "success", "samples": [EXPORTS["inspect"].row]}
    (sample,) = read(saved(tmp_path, json.dumps(log), "log.json"))
    assert (sample.id, sample.group, sample.metrics) == ("sample-1#2", "sample-1", {"match": 1.0})
    (case,) = read(
        saved(tmp_path, json.dumps({"testCases": [EXPORTS["deepeval"].row]}), "run.json")
    )
    assert len(case.passages) == 2
    assert case.meta["expected_context"] == ["All customers are eligible."]


def test_expected_passages_are_not_among_the_retrieved_ones() -> None:
    """DeepEval writes its names in both ways; `context` alone is what was retrieved."""
    for output, retrieved in (
        ("actual_output", "retrieval_context"),
        ("actualOutput", "retrievalContext"),
    ):
        row = {"input": "q", output: "x", retrieved: ["Found."], "context": ["Ideal."]}
        (case,) = read([row])
        assert case.context == "[passage 1] Found."
        assert case.meta["expected_context"] == ["Ideal."]
    (case,) = read([{"input": "q", "actualOutput": "x", "context": ["Ideal."]}])
    assert case.context == "[passage 1] Ideal."


def test_passages_and_messages_in_cells_of_a_csv_file(tmp_path: Path) -> None:
    """Lists are read as JSON writes them, and as Python does, which is what Ragas writes."""
    path, ragas = tmp_path / "ragas.csv", EXPORTS["ragas"].row
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["user_input", "retrieved_contexts", "response"])
        writer.writeheader()
        for as_text in (str, json.dumps):
            row = {key: ragas[key] for key in writer.fieldnames}
            row["retrieved_contexts"] = as_text(row["retrieved_contexts"])
            writer.writerow(row | {"response": f"{as_text.__name__}"})
    first, second = read(path)
    passages = tuple(Passage(text=text) for text in ragas["retrieved_contexts"])
    assert first.passages == second.passages == passages


TITLED = {"id": 7, "text": "Two.", "title": "T", "score": 0.5}


@pytest.mark.parametrize(
    ("row", "fields", "context"),
    [
        ({"context": "A fact."}, {}, "A fact."),
        ({"context": ["One.", TITLED]}, {}, "[passage 1] One.\n\n[passage 2] 7 - T: Two."),
        ({"context": ["A.", None, "B."]}, {}, "[passage 1] A.\n\n[passage 2] B."),
        ({"context": ["A.", "", "B."]}, {}, "[passage 1] A.\n\n[passage 2] B."),
        ({"context": ["A."], "retrieved_contexts": ["A.", "C."]}, {},
         "[passage 1] A.\n\n[passage 2] C."),
        ({"search_results": [{"title": "T", "snippet": "S."}]}, {"search_results": "context"},
         "[passage 1] T: S."),
    ],
)  # fmt: skip
def test_a_context_is_a_text_or_passages(
    row: dict[str, Any], fields: dict[str, str], context: str
) -> None:
    """Passages of all columns stand numbered in one text, what two have in common once."""
    (example,) = read([{"output": "x", **row}], **fields)
    assert example.context == context
    if TITLED in [*row.get("context", ())]:
        assert example.passages[1] == Passage(text="Two.", id="7", title="T", score=0.5)
        assert Example(output="x", context=row["context"]).passages == example.passages


def test_a_question_that_was_asked_before_is_shown_again() -> None:
    """Where the messages are only what came before it."""
    history = chat("Yes", "Sure?")
    assert str(read([{"chat_history": history, "question": "Yes", "answer": "OK."}])[0].source) == (
        "Yes\n\nA conversation of 2 turns, numbered.\n\n[turn 1] user: Yes\n\n"
        "[turn 2] assistant: Sure?"
    )
    whole = {"messages": [*history, *chat("Yes", "OK.")], "question": "Yes", "answer": "OK."}
    assert str(read([whole])[0].source).startswith("A conversation")


def test_messages_are_typed_whatever_their_form() -> None:
    """Calls keep their arguments and ids, results the call that they answer."""
    (example,) = read([EXPORTS["anthropic"].row])
    call = ToolCall(name="price", arguments='{"of": "tea"}', id="u1")
    assert example.messages == (
        ConversationMessage(role="user", content="Price of tea?"),
        ConversationMessage(role="assistant", content="One moment.", calls=(call,)),
        ConversationMessage(role="tool", content="2 pounds", call_id="u1"),
        ConversationMessage(role="assistant", content="It costs 2 pounds."),
    )
    assert Example(**example.model_dump()) == example
    from_rows, from_examples = Examples([EXPORTS["anthropic"].row]), Examples([example])
    assert from_rows.check().digest == from_examples.check().digest


def test_a_file_is_named_where_it_stood() -> None:
    """Without its bytes."""
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "audio", "audio": "data:audio/mp3;base64,AAAA"},
        {"type": "file", "file": "https://example.org/cat.pdf"},
    ]
    (example,) = read([{"messages": [{"role": "user", "content": parts}], "output": "A cat."}])
    assert "[audio: data:audio/mp3;base64]\n[file: https://example.org/cat.pdf]" in str(
        example.source
    )


def chat(*texts: str, role: str = "user") -> list[dict[str, str]]:
    """Return messages of a user and an assistant in turn."""
    roles = [role, "assistant" if role == "user" else "user"]
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


CALLING = [
    {"role": "user", "content": "Book A"},
    {"role": "assistant", "tool_calls": [{"function": {"name": "book", "arguments": "{}"}}]},
    {"role": "tool", "content": "Booked."},
]
BELOW = "(the text to judge, which is given below)"
JUDGED: list[tuple[dict[str, Any], str, list[str]]] = [
    (
        {"user_input": chat("Book A", "Done.", "Book B"), "response": "Done."},
        "Done.", ["Book A", "Done.", "Book B", BELOW],
    ),
    (
        {"input": chat("Book A", "Done.", "Book B"), "output": chat("Done.", role="assistant")},
        "Done.", ["Book A", "Done.", "Book B", BELOW],
    ),
    (
        {"input": chat("Yes", "Sure?", "Yes"), "messages": chat("Yes", "Sure?", "Yes", "OK.")},
        "OK.", ["Yes", "Sure?", "Yes", BELOW],
    ),
    (
        {"input": chat("Yes"), "messages": chat("Why?", "So.", "Yes", "OK.")},
        "OK.", ["Yes", "Why?", "So.", "Yes", BELOW],
    ),
    ({"input": chat("Hi"), "output": chat("Hi", "Hello.")}, "Hello.", ["Hi", BELOW]),
    ({"input": chat("Hi", "Hello."), "output": "Hello."}, "Hello.", ["Hi", BELOW]),
    (
        {"input": [{"role": "system", "content": "Be brief."}, *chat("Hi")],
         "messages": chat("Hi", "Hello.")},
        "Hello.", ["Be brief.", "Hi", BELOW],
    ),
    ({"messages": json.dumps(chat("Hi", "Hello."))}, "Hello.", ["Hi", BELOW]),
    ({"messages": CALLING}, "book({})", ["Book A", BELOW, "Booked."]),
    ({"input": CALLING[:1], "output": CALLING[1:]}, "book({})", ["Book A", BELOW, "Booked."]),
]  # fmt: skip


@pytest.mark.parametrize(("row", "output", "texts"), JUDGED)
def test_the_judged_turn_is_where_it_was_said(
    row: dict[str, Any], output: str, texts: list[str]
) -> None:
    """Only what two lists have in common is shown once: an answer may be given twice."""
    (example,) = read([row])
    assert example.output == output
    pieces = str(example.source).split("\n\n")[1:]
    assert len(pieces) == len(texts)
    assert [text for piece, text in zip(pieces, texts, strict=True) if text not in piece] == []
    assert list(Examples([row], unit="turn"))[-1].output == output


def test_a_chat_that_is_a_text_is_shown_as_the_source_and_reported() -> None:
    rows = [{"conversation": "Hi.", "output": "x"}, {"conversation": chat("Hi."), "output": "y"}]
    assert read(rows)[0].source == "Hi."
    assert Examples(rows).check().notices == ("the text in 'conversation' is shown as the source",)
    assert Examples(rows[1:]).check().notices == ()


TOOLS = [
    "add", {"name": "add"}, {"type": "web_search"}, {"title": "add", "type": "object"},
    {"type": "function", "function": {"name": "add"}}, {"name": "add", "input_schema": {}},
    {"functionDeclarations": [{"name": "add"}]}, {"google_search": {}}, {"codeExecution": {}},
    {"toolSpec": {"name": "add"}}, {"tools": [{"toolSpec": {"name": "add"}}]},
    {"add": {"description": "Adds."}, "divide": {"description": "Divides."}},
]  # fmt: skip
UNNAMED = [{"a": 1}, {"function": {}}, {"name": None}, {"description": "Adds.", "parameters": {}}]


@pytest.mark.parametrize("tool", [*TOOLS, *UNNAMED])
def test_tools_of_all_forms_are_shown_and_reported_without_a_name(tool: Any) -> None:
    message = {"role": "system", "content": "Be brief.", "tools": [None, tool]}
    notices = ("tools without the name of a tool are shown as JSON",) if tool in UNNAMED else ()
    for row in ({"tools": [tool, None]}, {"messages": [message]}):
        data = Examples([{"output": "x", **row}])
        assert "Tools:\n- " in str(next(iter(data)).source)
        assert data.check().notices == notices
    assert read([{"output": "x", "tools": [None]}])[0].source is None


CALLS: list[tuple[dict[str, Any], str]] = [
    ({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}, "f({})"),
    ({"id": "1", "type": "custom", "custom": {"name": "f", "input": "a"}}, "f(a)"),
    ({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}, "f({})"),
    ({"type": "web_search_call", "id": "1", "status": "completed"}, "web_search_call()"),
    (
        {"type": "web_search_call", "action": {"query": "q"}},
        'web_search_call({"action": {"query": "q"}})',
    ),
    (
        {"type": "code_interpreter", "code_interpreter": {"input": "1", "outputs": []}},
        "code_interpreter(1)",
    ),
    ({"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}, 'f({"x": 1})'),
    ({"functionCall": {"name": "f", "args": {"x": 1}}}, 'f({"x": 1})'),
    ({"toolUse": {"toolUseId": "1", "name": "f", "input": {"x": 1}}}, 'f({"x": 1})'),
    ({"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}, 'f({"x": 1})'),
    ({"google_search": {"query": "q"}}, 'google_search({"query": "q"})'),
    ({"a": 1}, '({"a": 1})'),
    ({"type": "function", "function": {"x": 1}}, '({"function": {"x": 1}})'),
    ({"arguments": {"name": "Ann"}}, '({"name": "Ann"})'),
]


@pytest.mark.parametrize(("call", "text"), CALLS)
def test_calls_of_all_forms_are_shown_and_reported_without_a_name(
    call: dict[str, Any], text: str
) -> None:
    message = {"role": "assistant", "content": "Said.", "tool_calls": [call]}
    notices = ("calls without the name of a tool are shown as JSON",) if text[0] == "(" else ()
    for row in ({"tools_called": [call]}, {"messages": [message]}):
        data = Examples([{"output": "x", **row}])
        assert f"[turn 1, call 1] {text}" in str(next(iter(data)).source)
        assert data.check().notices == notices


@pytest.mark.parametrize(
    "parts",
    [({"functionCall": {"name": "f", "args": {"x": 1}}},
      {"functionResponse": {"name": "f", "response": {"y": 42}}}),
     ({"toolUse": {"toolUseId": "1", "name": "f", "input": {"x": 1}}},
      {"toolResult": {"toolUseId": "1", "content": [{"json": {"y": 42}}]}})],
)  # fmt: skip
def test_calls_and_results_that_are_parts_without_a_type_are_read(parts: Any) -> None:
    said = {"text": "Said.", "functionCall": None, "toolUse": None}
    messages = [
        {"role": "model", "parts": [said]},
        {"role": "model", "parts": parts[0]},
        {"role": "user", "parts": parts[1:]},
    ]
    source = str(read([{"messages": messages, "output": "x"}])[0].source)
    assert "assistant: Said." in source
    assert '[turn 1, call 1] f({"x": 1})' in source
    assert "[turn 1, call 1, result]" in source


@pytest.mark.parametrize(
    ("field", "value"), [("tool_calls", [5]), ("tools", [5]), ("context", [{"id": 1}])]
)
def test_a_fault_inside_a_message_is_named_by_its_place(field: str, value: Any) -> None:
    """The column is what it should be: there is no advice to leave out the conversation."""
    messages = [{"role": "user", "content": "Hi"}, {"role": "user", "content": "x", field: value}]
    message = complaint([{"messages": messages, "output": "x"}])
    assert f"field 'messages': message 2: field '{field}': " in message
    assert "meta" not in message


TURNS: list[tuple[list[Any], str]] = [
    (
        [{"type": "web_search_call", "id": "1", "action": {"query": "q"}}],
        '[turn 2, call 1] web_search_call({"action": {"query": "q"}})',
    ),
    (
        [{"type": "file_search_call", "id": "1", "queries": ["q"],
          "results": [{"text": "In 1967."}]}],
        '[turn 2, call 1] file_search_call({"queries": ["q"]})\n\n'
        "[turn 2, call 1, result] file_search_call: In 1967.",
    ),
    (
        [{"type": "code_interpreter_call", "id": "1", "code": "1",
          "outputs": [{"type": "logs", "logs": "2"}]}],
        '[turn 2, call 1] code_interpreter_call({"code": "1"})\n\n'
        "[turn 2, call 1, result] code_interpreter_call: 2",
    ),
    (
        [{"type": "mcp_call", "id": "1", "name": "f", "arguments": "{}", "output": "42",
          "error": None}],
        "[turn 2, call 1] f({})\n\n[turn 2, call 1, result] f: 42",
    ),
    (
        [{"type": "custom_tool_call", "call_id": "1", "name": "f", "input": "x"},
         {"type": "custom_tool_call_output", "call_id": "1", "output": "42"}],
        "[turn 2, call 1] f(x)\n\n[turn 2, call 1, result] 42",
    ),
    (
        [{"type": "image_generation_call", "id": "1", "result": png_uri().partition(",")[2]}],
        "[turn 2, call 1, result] image_generation_call: [Image 1]",
    ),
    ([{"type": "reasoning", "summary": [{"text": "Secret."}]}], "[turn 2] assistant: (the text"),
    (
        [{"type": "mcp_list_tools", "id": "1", "tools": [{"name": "f", "description": "Adds."}]}],
        "[system] Tools:\n- f: Adds.",
    ),
    (
        [{"role": "model", "parts": [{"text": "Secret.", "thought": True, "function_call": None},
                                     {"text": None, "function_call": {"name": "f", "args": {}}}]},
         {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"x": 1}}}]}],
        '[turn 2, call 1] f({})\n\n[turn 2, call 1, result] f: {"x": 1}',
    ),
    (
        [{"role": "model", "parts": [{"text": "I count."}, {"executableCode": {"code": "1"}},
                                     {"codeExecutionResult": {"output": "2"}}, {"text": "Two."}]}],
        '[turn 2] assistant: I count.\n\n[turn 2, call 1] executableCode({"code": "1"})\n\n'
        "[turn 2, call 1, result] 2\n\n[turn 2] assistant: Two.",
    ),
    (
        [{"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Secret."}}}, {"text": "I look."},
            {"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}]},
         {"role": "user", "content": [{"toolResult": {"toolUseId": "1",
                                                      "content": [{"json": {"x": 1}}]}}]}],
        '[turn 2] assistant: I look.\n\n[turn 2, call 1] f({})\n\n'
        '[turn 2, call 1, result] {"x": 1}',
    ),
    (
        [{"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "1", "name": "f", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "1",
             "content": [{"type": "web_search_result", "url": "https://a.org"}]},
            {"type": "text", "text": "Found."}]}],
        "[turn 2, call 1] f({})\n\n[turn 2, call 1, result] [web_search_result: https://a.org]"
        "\n\n[turn 2] assistant: Found.",
    ),
    (
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f"}]},
         {"role": "user", "content": [
             {"type": "text", "text": "Go on."},
             {"type": "tool_result", "tool_use_id": "1", "content": "42"}]}],
        "[turn 2, call 1] f()\n\n[turn 2, call 1, result] 42\n\n[turn 3] user: Go on.",
    ),
    (
        [{"role": "user", "content": [
            {"document": {"format": "pdf", "name": "Report", "source": {"bytes": "Secret"}}},
            {"cachePoint": {"type": "default"}}, {"text": "Read it."}]}],
        "user: [document: Report]\nRead it.",
    ),
    (
        [{"role": "user", "parts": [
            {"inlineData": {"mimeType": "audio/wav", "data": "Secret"}}, {"text": "Listen."}]}],
        "user: [inlineData: audio/wav]\nListen.",
    ),
    (
        [{"role": "assistant", "parts": [
            {"type": "step-start"},
            {"type": "tool-f", "toolCallId": "1", "input": {}, "output": 42},
            {"type": "text", "text": "Done."}]}],
        "[turn 2, call 1] f({})\n\n[turn 2, call 1, result] f: 42\n\n[turn 2] assistant: Done.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "text"), TURNS)
def test_calls_results_and_thoughts_of_a_turn_stand_in_their_order(
    turn: list[Any], text: str
) -> None:
    """OpenAI's responses, Gemini (also as its SDK dumps it), Bedrock, Anthropic and AI SDK."""
    answer = {"role": "assistant", "content": "In 1967."}
    (example,) = read([{"messages": [{"role": "user", "content": "When?"}, *turn, answer]}])
    assert example.output == "In 1967."
    assert text in str(example.source)
    assert "Secret" not in str(example.source)


RESPONSES: list[dict[str, Any]] = [
    {"choices": [{"message": {"role": "assistant", "content": "Hello."}}]},
    {"object": "response", "output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text",
                                                              "text": "Hello."}]}]},
    {"output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}}},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}}]},
    {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
]  # fmt: skip


@pytest.mark.parametrize("response", RESPONSES)
def test_an_output_may_be_the_whole_response_of_a_model(response: Any) -> None:
    (example,) = read([{"source": "Hi", "output": response}])
    assert example.output == "Hello."


@pytest.mark.parametrize("write", [json.dumps, str])
def test_an_output_in_a_cell_may_be_a_list_of_messages(tmp_path: Path, write: Any) -> None:
    """As data frames of preferences are written; the question is shown once."""
    chats = [[{"role": "user", "content": "Q?"}, {"role": "assistant", "content": text}]
             for text in ("Blue.", "Seven.")]  # fmt: skip
    with (path := tmp_path / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["prompt", "a", "b"], ["Q?", *map(write, chats)]])
    data = Examples(path, fields={"a": "output", "b": "output_b"})
    (example,) = data
    assert data.check().notices[0].startswith("lists of messages in 'a' are read as conversations")
    assert (example.output, example.meta["output_b"]) == ("Blue.", "Seven.")
    assert str(example.source).count("Q?") == 1
    assert read([{"output": write(chats[0])}])[0].output == write(chats[0])


def test_a_chat_may_be_a_text() -> None:
    (example,) = read([{"messages": "A: Hi", "output": RESPONSES[0]}])
    assert example.output == "Hello."
    assert str(example.source).startswith("A: Hi\n\nA conversation of 1 turn")
    assert "is a text, and so is the source" in complaint(
        [{"messages": "A: Hi", "source": "Hi", "output": "Hello."}]
    )


PASSAGE = "[turn 2, passage 1] It was in 1967."
IN_MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"context": "It was in 1967."}, PASSAGE),
    ({"contexts": ["It was in 1967."]}, PASSAGE),
    ({"documents": [{"text": "It was in 1967.", "id": "d"}]}, "passage 1] d: It was in 1967."),
    ({"citations": [{"cited_text": "It was in 1967."}]}, PASSAGE),
    ({"documents": ["It rained."], "context": ["It was in 1967."]}, "passage 2] It rained."),
    ({"role": "system", "tools": [{"name": "add", "description": "Adds."}]}, "- add: Adds."),
    ({"role": "system", "context": ["It was in 1967."]}, "[passage 1] It was in 1967."),
    ({"tools": [{"function": {"name": "add"}}]}, "[system] Tools:\n- add"),
    ({"content": None, "refusal": "I will not."}, "assistant: I will not."),
    (
        {"content": [{"type": "document", "title": "Report",
                      "source": {"type": "text", "media_type": "text/plain", "data": "In 1967."}}]},
        "assistant: Report\nIn 1967.",
    ),
    (
        {"content": [{"type": "document",
                      "source": {"type": "content",
                                 "content": [{"type": "text", "text": "In 1967."}]}}]},
        "assistant: In 1967.",
    ),
    (
        {"attachments": [{"name": "a", "contentType": "image/png", "url": "https://a.org/a"}]},
        "assistant: [Image 1]",
    ),
    ({"experimental_attachments": [{"url": "https://a.org/a.png"}]}, "assistant: [Image 1]"),
    ({"retrieved_contexts": ["It was in 1967.", None]}, PASSAGE),
    (
        {"toolInvocations": [{"toolName": "add", "args": {"x": 1}, "result": "42"}]},
        "[turn 2, call 1, result] add: 42",
    ),
    (
        {"content": "", "parts": [{"type": "tool-call", "toolName": "add", "input": {"x": 1}},
                                  {"type": "tool-result", "toolName": "add", "output": "42"}]},
        '[turn 2, call 1] add({"x": 1})',
    ),
    *(
        ({"content": "", "parts": [{"type": "step-start"}, {**call, "toolCallId": "c"},
                                   {"type": "text", "text": "So it is 3."}]}, shown)
        for call, shown in [
            ({"type": "tool-add", "input": {"x": 1}, "output": 3}, '1] add({"x": 1})'),
            ({"type": "tool-add", "input": {}, "output": 3}, "[turn 2, call 1, result] add: 3"),
            ({"type": "tool-add", "input": {}}, "[turn 2] assistant: So it is 3."),
            ({"type": "dynamic-tool", "toolName": "add", "input": {}, "errorText": "No."},
             "[turn 2, call 1, result] add: No."),
        ]
    ),
    (
        {"content": [{"type": "server_tool_use", "name": "web_search", "input": {"query": "q"}}]},
        '[turn 2, call 1] web_search({"query": "q"})',
    ),
    (
        {"content": [{"type": "document", "source": {"type": "url", "url": "https://a.org/a"}}]},
        "[document: https://a.org/a]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "text"), IN_MESSAGES)
def test_the_parts_of_a_message_are_shown(fields: dict[str, Any], text: str) -> None:
    """Passages, tools, documents, images and refusals, whatever they stand in."""
    message = {"role": "assistant", "content": "Said.", **fields}
    messages = [{"role": "user", "content": "When?"}, message]
    (example,) = read([{"messages": messages, "output": "In 1967, then."}])
    assert text in str(example.source)
    assert len(example.images) == ("[Image 1]" in text)


FILE = {"name": "a.pdf", "contentType": "application/pdf", "url": "https://a.org/a.pdf"}
ATTACHED = (
    "has the attachment 'a.pdf', which is not an image and would not be shown; put its text into"
    " the message, or remove it"
)


@pytest.mark.parametrize("attached", ["attachments", "experimental_attachments"])
def test_an_attachment_that_is_not_an_image_is_refused(attached: str) -> None:
    row = {"messages": [{"role": "assistant", "content": "Said.", attached: [FILE]}], "output": "x"}
    assert complaint([row]) == f"list, row 1, field 'messages': message 1: {ATTACHED}"


@pytest.mark.parametrize(
    ("calls", "text"),
    [*((empty, None) for empty in ("[]", "None", "null", " ", "nan", ["[]"], [None, "null"])),
     ('[{"name": "f", "args": {"x": 1}}]', 'f({"x": 1})'), ('{"name": "f"}', "f()"),
     ("[{'name': 'f', 'args': {'x': 1, 'y': None}}]", 'f({"x": 1, "y": null})'),
     (['{"name": "f"}', "g"], "f()\n\n[turn 1, call 2] g()")],
)  # fmt: skip
@pytest.mark.parametrize("field", ["tool_calls", "function_call"])
def test_calls_that_are_written_as_a_text_are_read(
    calls: Any, text: str | None, field: str
) -> None:
    message = {"role": "assistant", "content": "Said.", field: calls}
    inside = read([{"messages": [message], "output": "x"}])[0]
    beside = read([{"tools_called": calls, "output": "x"}])[0]
    if text is None:
        assert "call 1" not in str(inside.source) + str(beside.source)
    else:
        assert f"[turn 1, call 1] {text}" in str(inside.source)
        assert f"[turn 1, call 1] {text}" in str(beside.source)


def test_a_text_in_the_place_of_calls_is_named_as_unseen() -> None:
    messages = [{"role": "assistant", "content": "Said.", "tool_calls": "adds"}]
    info = Examples([{"messages": messages, "output": "x"}], strict_columns=True).check()
    assert set(info.unseen) == {"messages[].tool_calls"}


def test_parts_of_a_message_that_no_judge_sees_are_named() -> None:
    messages = [{"role": "assistant", "content": "Said.", "sources": ["It was in 1967."], "at": 7}]
    info = Examples([{"messages": messages, "output": "x"}], strict_columns=True).check()
    assert set(info.unseen) == {"messages[].sources", "messages[].at"}


def test_a_span_that_only_retrieves_is_reported() -> None:
    span = {"openinference.span.kind": "RETRIEVER", "input.value": "When?",
            "retrieval.documents.0.document.content": "It was in 1967."}  # fmt: skip
    assert Examples([span, {"output": "x"}]).check().notices[-1] == (
        "1 of 2 rows have passages and no answer, as spans of a retriever do: their output is empty"
    )


MAPPED = [
    ("source", ["question", "Doc", "post", "mr", "user query", "problem", "sourceDocument"]),
    ("context", ["ctx", "background", "evidence", "Search Results", "knowledge-base", "facts",
                 "retrievedChunks", "premise"]),
    ("references", ["idealAnswer", "correct_answer", "golden_answer", "human_summaries"]),
    ("output", ["decoded", "hyp", "llmResponse", "claim", "mt", "model_summary", "reply"]),
]  # fmt: skip


@pytest.mark.parametrize(("field", "name"), [(f, name) for f, names in MAPPED for name in names])
def test_names_of_published_data_are_mapped(field: str, name: str) -> None:
    """Whatever their case and separators."""
    row = {name: "A text of its own."}
    (example,) = read([row if field == "output" else {"output": "x", **row}])
    value = getattr(example, field)
    assert value == (("A text of its own.",) if field == "references" else "A text of its own.")
    assert example.meta == {}


def test_a_name_stands_for_one_field() -> None:
    """Of two fields with the same name in their lists, one would lose it without a word."""
    fields: dict[str, set[str]] = {}
    for names in (ALIASES, LESS_CLEAR, BY_PLACE, {"rater": " ".join(RATERS)}):
        for field, listed in names.items():
            for name in listed.split():
                fields.setdefault(plain_name(name), set()).add(field)
    assert {name: claims for name, claims in fields.items() if len(claims) > 1} == {}


@pytest.mark.parametrize("field", [*ALIASES, *LESS_CLEAR, *BY_PLACE])
def test_the_page_on_data_shows_names_of_each_field(field: str) -> None:
    """All of them, unless the list ends in three dots."""
    page = (Path(__file__).parents[3] / "docs/data.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    names_shown = next(row[3] for row in rows if f"`{field}`" in row[1])
    shown = set(map(plain_name, names_shown.split("`")[1::2]))
    names = set(map(plain_name, f"{ALIASES.get(field, '')} {BY_PLACE.get(field, '')}".split()))
    assert shown & names
    assert "..." in names_shown or names <= shown


TEXT_BESIDE = ["decoded", "hyp", "pred", "generated", "llm_response", "claim", "mt", "candidate",
               "reply", "model_output", "answer", "machine_summary"]  # fmt: skip


@pytest.mark.parametrize("name", TEXT_BESIDE)
def test_text_beside_an_output_is_what_it_was_made_from(name: str) -> None:
    (example,) = read([{"text": "A long article.", name: "Short."}])
    assert (example.output, example.source) == ("Short.", "A long article.")
    (example,) = read([{"text": "Other.", name: "Short.", "source": "An article."}])
    assert (example.source, example.meta) == ("An article.", {"text": "Other."})


@pytest.mark.parametrize("generic", ["text", "answer"])
@pytest.mark.parametrize(
    "other", ["It has several words.", ["It has several words."], {"m1": "It has several words."},
              "これは要約された文章です。"],
)  # fmt: skip
def test_a_generic_name_is_not_an_output_where_another_column_may_be_it(
    generic: str, other: Any
) -> None:
    """The error says how to map both; labels and names are not outputs."""
    row = {generic: "An article.", "x17": other, "topic": "sports news"}
    message = complaint([row])
    assert "may be the output, and so may 'x17'; say which is judged" in message
    assert read([row], **{generic: "output"})[0].output == "An article."
    assert read([row], x17="meta")[0].output == "An article."
    plain = {generic: "An article.", "topic": "sports news", "label": 1, "tags": ["a b", "c"]}
    assert read([plain])[0].output == "An article."


UNUSABLE = [
    ({"source": "s", "question": "Why not?"}, "question"),
    ({"source": "s", "problem": "Add 17 and 25."}, "problem"),
    ({"references": ["r"], "reference": "q"}, "reference"),
    ({"tools_called": ["add"], "tool_calls": ["divide"]}, "tool_calls"),
    ({"background": 5}, "background"),
    ({"documents": [{"page": 3}]}, "documents"),
    ({"chat_history": [{"page": 3}]}, "chat_history"),
    ({"ground_truth": {"a": "b"}}, "ground_truth"),
    ({"prompt": 17}, "prompt"),
    ({"tool_calls": 3}, "tool_calls"),
    ({"photo": "scan.png"}, "photo"),
    ({"pred": 0, "output": None, "text": "A text."}, "pred"),
    *(
        ({name: value}, name)
        for name, values in {
            "messages": [5, [5], {"a": 1}, [{"role": "user"}]],
            "source": [5, True, ["a", "b"], {"a": 1}],
            "context": [5, [{"id": 1}], [["a"]], {"a": [1]}],
            "passages": [5, [{"id": 1}], {"a": [1]}],
            "references": [True, {"a": 1}, [{"a": 1}]],
            "images": [5, {"a": 1}, [{"url": 5}], "absent.png"],
            "tools": [5, [5], [True]],
            "tools_called": [5, [5], "add", [True]],
            "rubric": [5, "text", [{"x": 1}], [{"criterion": 5}]],
        }.items()
        for value in values
    ),
]  # fmt: skip


@pytest.mark.parametrize(("row", "field"), UNUSABLE)
def test_a_known_name_whose_value_cannot_be_used_is_refused(
    row: dict[str, Any], field: str
) -> None:
    """The error says how to leave it out."""
    row = {name: value for name, value in {"output": "x", **row}.items() if value is not None}
    message = complaint([row])
    assert f"field '{field}" in message
    assert f'fields={{"{field}": "meta"}}' in message
    assert read([row], **{field: "meta"})[0].meta[field] == row[field]


@pytest.mark.parametrize(
    "row",
    [
        {"source": "Old and new.", "query": "new", "references": ["a", "b"], "reference": "b"},
        {"source": "s", "document": "", "history": [], "reference": None},
        {"text": "other text", "model": "m", "version": "v"},
    ],
)
def test_what_is_empty_or_shown_already_is_not_an_error(row: dict[str, Any]) -> None:
    assert read([{"output": "x", **row}])[0].output == "x"


def test_columns_that_no_judge_sees_are_named_in_one_line() -> None:
    """Empty ones are not, nor those that the map keeps, nor what commands read from meta."""
    rows: list[dict[str, Any]] = [
        {"output": "x", "policy": "Be kind.", "steps": [], "note": 0, "kept": 1, "rater": "ann"},
        {"output": "y", "policy": None, "steps": ["a"], "note": None, "kept": 2, "rater": "ben"},
    ]
    info = Examples(rows, fields={"kept": "meta"}).check()
    assert info.unseen == {"policy": 1, "note": 1, "steps": 1}
    assert info.notices == (
        "the judge does not see: policy, note, steps (kept in meta; show one with"
        ' fields={"policy": "context"})',
    )
    assert Examples(rows, fields={"kept": "meta"}, needs_output=False).check().unseen == {}


def test_strict_columns_make_that_line_an_error() -> None:
    with pytest.raises(DataError, match=r"no judge sees policy, steps \(strict_columns=True\)"):
        Examples([{"output": "x", "policy": "p", "steps": 3}], strict_columns=True).check()
    fields = {"policy": "context", "steps": "meta"}
    rows = [{"output": "x", "policy": "p", "steps": 3}]
    assert Examples(rows, fields=fields, strict_columns=True).check().unseen == {}


def test_data_of_which_only_numbers_are_read_may_have_any_columns() -> None:
    row = {"id": "a", "human.c": 3, "source": "s", "question": "q", "prompt": "p", "text": "A b c.",
           "response": "r", "summary": "s"}  # fmt: skip
    (example,) = Examples([row], needs_output=False)
    assert example.human == {"c": 3.0}


def test_a_map_of_ratings_may_find_none() -> None:
    """So that one configuration serves data that people rated, and those that they did not."""
    fields = {"coh": "human.coherence", "r1": "annotators.fluency", "m": "metrics.rouge"}
    info = Examples([{"output": "x"}], fields=fields).check()
    assert info.notices[0] == "no row has 'coh', which the field map reads as 'human.coherence'"
    assert len(info.notices) == 3


PARTS = ("my rag all context passages question prompt messages chat tools reference truth evidence"
         " sources hits policy text")  # fmt: skip
NAMES = st.lists(st.sampled_from(PARTS.split()), min_size=1, max_size=3, unique=True).map("_".join)
TEXT = st.text("abcdefgh ", min_size=3, max_size=20).map(lambda text: f"zq {text} qz")
SHAPES = st.one_of(
    TEXT,
    st.lists(TEXT, min_size=1, max_size=3),
    st.lists(st.fixed_dictionaries({"text": TEXT, "id": st.integers()}), min_size=1, max_size=3),
    st.lists(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": TEXT}),
        min_size=1,
        max_size=3,
    ),
)


@given(values=st.dictionaries(NAMES, SHAPES, max_size=3))
def test_nothing_is_unused_in_silence(values: dict[str, Any]) -> None:
    """Whatever it is called and however it is written: it is shown, named, or refused."""
    data = Examples([{"output": "o", **values}])
    try:
        info = data.check()
    except DataError:
        return
    visible = shown(next(iter(data)))
    for name, value in values.items():
        assert name in info.unseen or [t for t in texts_in(value) if t not in visible] == []


def texts_in(value: Any) -> list[str]:
    """Return the texts of a value of `SHAPES`."""
    if isinstance(value, str):
        return [value]
    items = [
        item if isinstance(item, str) else item.get("text", item.get("content")) for item in value
    ]
    return [str(item) for item in items]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            ["role", "content", "type", "text", "message", "tool_calls", "function", "name",
             "arguments", "data", "kwargs", "lc", "choices", "completion", "value", "document",
             "documents", "input_messages", "tools", "parts", "id", "error", "query", "image",
             "image_url", "images", "source", "url", "inlineData", "number", "place"]
        ),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)  # fmt: skip
KEYS = ["id", "input", "output", "messages", "target", "scores", "context", "tools", "turns",
        "tools_called", "actual_output", "retrieval_context", "llm.input_messages", "llm.tools",
        "input.value", "retrieval.documents", "attributes", "llm.output_messages.0.message",
        "llm.prompts", "llm.choices", "response", "user_input", "attachments", "epoch", "images",
        "image_path"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=8))
@example({"messages": [{"role": "user", "content": [{"type": {}, "text": "a"}]}]})
@example({"messages": [{"role": "model", "content": "a", "toolInvocations": True}]})
def test_whatever_a_row_holds_it_is_read_or_refused(row: dict[str, Any]) -> None:
    """Rows that are nearly those of another tool, too: nothing else is raised."""
    with contextlib.suppress(DataError):
        list(Examples([row]))


def test_a_call_that_stands_alone_is_a_list_of_one() -> None:
    call = {"id": "c", "function": {"name": "find", "arguments": "{}"}}
    turns = [{"role": "assistant", "content": "A", "tool_calls": call}]
    (example,) = read([{"messages": turns}])
    assert "find({})" in str(example.source)


def test_a_system_prompt_beside_the_messages_is_one_of_them(tmp_path: Path) -> None:
    """ShareGPT's rows have it there; beside other messages `system` names what wrote the output."""
    turns = [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]
    (example,) = read(saved(tmp_path, lines({"conversations": turns, "system": "Be brief."})))
    assert (example.output, example.system) == ("A", None)
    assert "[system] Be brief." in str(example.source)
    turns = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    (example,) = read(saved(tmp_path, lines({"conversations": turns, "system": "M1"})))
    assert example.system == "M1"


def test_pairs_and_rated_data_name_what_no_judge_sees_of_their_rows() -> None:
    rows = [
        {"id": system, "output": "x", "group": "g", "system": system, "policy": "p"}
        for system in ("m", "n")
    ]
    rated = Examples([{"id": "m", "human.c": 3}], needs_output=False)
    for source in (PairedExamples(Examples(rows)), WithRatings(Examples(rows), {"r": rated})):
        assert Examples(source).check().unseen == {"policy": 2}


CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


@pytest.mark.parametrize("row", [
    {"context": CHAT, "response": "x"},
    {"context": CHAT, "messages": [{"role": "user", "content": "When?"}], "response": "x"},
    {"documents": ["A fact."], "context": CHAT, "prompt": "When?", "response": "x"},
    {"input": {"messages": CHAT}, "output": "x"},
])  # fmt: skip
def test_a_conversation_in_the_place_of_passages_keeps_who_spoke(row: dict[str, Any]) -> None:
    """HelpSteer 3 has the conversation in `context`, Langfuse in an object."""
    (example,) = read([row])
    assert "[turn 1] user: Hi" in str(example.source)
    assert "assistant: Hello" in str(example.source)
    assert [one.text for one in example.passages] == row.get("documents", [])


def test_passages_with_an_author_are_passages() -> None:
    (example,) = read([{"context": [{"author": "Smith", "text": "It was."}], "response": "x"}])
    assert example.context == "[passage 1] It was."


@pytest.mark.parametrize("mark", ["N/A", "none", " - ", "nan", "NULL"])
def test_a_mark_of_a_missing_value_is_no_passage(mark: str) -> None:
    """A judge of groundedness would rate an answer by it."""
    row = {"question": "When?", "context": mark, "response": "In 1967."}
    assert f"usually marks a missing value; declare missing=({mark!r},)" in complaint([row])
    (example,) = Examples([row], missing=[mark.strip()])
    assert example.context is None


def test_objects_among_references_may_be_passages() -> None:
    row = {"question": "When?", "output": "x", "reference": [{"text": "It was.", "id": "d1"}]}
    assert 'if they are passages, map them: fields={"reference": "context"}' in complaint([row])


@pytest.mark.parametrize(("row", "said"), [
    ({"question": "Capital?", "answer": "Paris", "gpt4": "London"}, ["answer"]),
    ({"question": "Capital?", "answer": "Paris", "hops": 2}, []),
    ({"question": "Capital?", "response": "Paris", "gpt4": "London"}, []),
])  # fmt: skip
def test_it_is_said_which_column_is_judged_where_a_short_text_may_be_it(
    row: dict[str, Any], said: list[str]
) -> None:
    """The gold answer of a data set may be called `answer`, and a model's `gpt4`."""
    notices = Examples([row]).check().notices
    judged = [f"the column {name!r} is judged, as the output" for name in said]
    assert [one for one in notices if "is judged" in one] == judged


@pytest.mark.parametrize("text", ["\u200b", "\u00ad\u2060", "\ufeff \n", "\u200e\u00a0"])
def test_characters_of_no_width_alone_are_no_text(text: str) -> None:
    (found,) = Examples([{"output": text, "source": text, "context": text}])
    assert (found.output, found.source or "", found.context or "") == ("", "", "")
    (found,) = Examples([{"output": f"{text}👍", "source": f"{text}."}])
    assert (found.output, found.source) == (f"{text}👍", f"{text}.")


@pytest.mark.parametrize(
    "text", ["[]", " [ ] ", "[None]", "[nan, null]", "()", "set()", "array([])"]
)
def test_an_empty_list_as_a_text_has_no_passage_and_no_reference(text: str) -> None:
    """As `csv.DictReader` and JSON Lines of a table have it."""
    (found,) = Examples([{"output": "It rained.", "context": text, "reference": text}])
    assert (found.context, found.references) == (None, ())
