"""Reads exports and result files of other evaluation tools.

Rows in a file of data become rows with our names: OpenInference's spans, Inspect's samples,
DeepEval's joined cells. `material` has columns that only need another name. Result files become
examples to judge, with their scores as `metrics`. The field names come from Inspect's `EvalLog`,
promptfoo's `EvaluateSummary` (versions 2 and 3), DeepEval's `TestRun` and lm-evaluation-harness'
`--log_samples`. `exporting/` writes scores for other tools.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from textassay.lazy import lazy_pattern
from textassay.runtime.chat_formats import (
    looks_like_messages,
    message_text,
    read_messages,
    read_passages,
    read_response,
    short_repr,
    text_of,
)
from textassay.runtime.column_names import RETRIEVED, plain_name
from textassay.runtime.conversation import calls_as_text, last_answer
from textassay.runtime.data.cells import FieldError, finite
from textassay.runtime.errors import DataError, UnknownName
from textassay.runtime.labels import find_pair
from textassay.runtime.literals import parse_literal

ExportRow = Mapping[str, Any]

_SPAN = lazy_pattern(
    r"(?:attributes\.)?(?:(?:input|output)\.(?:value|mime_type)$|llm\.(?:input|output)_messages\b"
    r"|llm\.(?:tools|prompts|choices)\b|retrieval\.documents\b"
    r"|reranker\.(?:query$|(?:input|output)_documents\b))"
)

_RETRIEVED = frozenset(map(plain_name, RETRIEVED))


def reader_for(keys: frozenset[str]) -> Callable[[ExportRow], ExportRow] | None:
    """Return the reader of rows with these keys; `None` if no tool is known to export them."""
    if any(map(_SPAN.match, keys)) or {"attributes", "context"} <= keys:
        return _from_span
    if keys >= {"id", "input", "messages", "output"} and keys & {"scores", "epoch", "target"}:
        return _from_sample
    if {"actual_output", "retrieval_context"} <= {*map(_snake_case, keys)}:
        return _from_test_case
    if {"conversations", "system"} <= keys:
        return _from_sharegpt
    if keys >= {"name", "inputs", "output", "scores", "assertions"}:
        return _from_case
    is_evaluation = keys & {"trace", "trace_id"} and any(key.endswith("/value") for key in keys)
    if is_evaluation or keys >= {"request", "response", "assessments"}:
        return _from_traces
    if any(f"{key.removesuffix('_score')}_execution_details" in keys for key in keys):
        return _from_experiment
    return None


def _from_span(row: ExportRow) -> ExportRow:
    """Read a span of OpenInference: attributes flat, nested or in columns of a data frame."""
    flat: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in row.items():
        if key == "attributes" and isinstance(value, Mapping):
            flat |= value
            nested = ("input", "output", "llm", "retrieval", "reranker")
            others = {k: v for k, v in value.items() if not _SPAN.match(k) and k not in nested}
            rest |= {key: others} if others else {}
        elif _SPAN.match(key):
            flat[key.removeprefix("attributes.")] = value
        else:
            rest[key] = value
    tree = _tree(flat)
    llm, retrieval = _at(tree, "llm"), _at(tree, "retrieval")
    reranker = _at(tree, "reranker")
    documents = retrieval.get("documents") or reranker.get("output_documents")
    documents = _nest(_parse_cell(documents))
    prompts, answers = _messages(llm, "input_messages"), _messages(llm, "output_messages")
    source, output = _value(tree, "input") or reranker.get("query"), _value(tree, "output")
    fields: dict[str, Any] = {
        "messages": [*prompts, *answers] or None,
        "context": documents,
        "tools": [_tool(tool) for tool in _as_list(_parse_cell(llm.get("tools")))] or None,
        # the JSON of a request repeats its messages
        "source": None
        if prompts and _is_json(tree, "input")
        else source or _join_texts(llm.get("prompts")),
        "output": answers or output or _join_texts(llm.get("choices")),
    }
    # a retriever's span has documents in place of an answer
    if fields["output"] is None and documents:
        fields["output"] = ""
    ids = rest.get("context")
    if isinstance(ids, Mapping) and "span_id" in ids:
        del rest["context"]
        fields |= {"id": ids["span_id"], "group": ids.get("trace_id")}
    for ours, theirs in (("id", "context.span_id"), ("group", "context.trace_id")):
        if rest.get(theirs) is not None:
            fields[ours] = rest.pop(theirs)
    return {**rest, **{name: value for name, value in fields.items() if value is not None}}


def _tree(flat: ExportRow) -> dict[str, Any]:
    """Convert names with dots to nested objects, and objects with numbers as keys to lists."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        if value is None:  # columnar files have a null for each name that a row lacks
            continue
        *path, last = name.split(".")
        place = tree
        for part in path:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            nested = _nest(value)
            present = place.get(last)
            both = isinstance(present, dict) and isinstance(nested, dict)
            place[last] = {**present, **nested} if both else nested  # type: ignore[dict-item]
    return {name: _as_lists(value) for name, value in tree.items()}


def _nest(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _tree(value)
    return [_nest(item) for item in value] if isinstance(value, list) else value


def _as_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _as_lists(item) for name, item in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def _at(tree: ExportRow, name: str) -> dict[str, Any]:
    value = tree.get(name)
    return value if isinstance(value, dict) else {}


def _messages(llm: ExportRow, name: str) -> list[Any]:
    messages = _nest(_parse_cell(llm.get(name) or []))
    if not isinstance(messages, list):
        raise FieldError(f"llm.{name}", f"should be a list of messages, not {short_repr(messages)}")
    return messages


def _value(tree: ExportRow, name: str) -> Any:
    """Return the text of `input.value` or `output.value`, or the messages in its JSON."""
    value = _at(tree, name).get("value")
    if not _is_json(tree, name):
        return value
    parsed = _parse(value)
    messages = parsed.get("messages") if isinstance(parsed, Mapping) else parsed
    if looks_like_messages(messages):
        return messages
    if isinstance(parsed, Mapping) and len(parsed) == 1:
        (only,) = parsed.values()
        return only if isinstance(only, str) else value
    return value


def _is_json(tree: ExportRow, name: str) -> bool:
    return _at(tree, name).get("mime_type") == "application/json"


def _parse(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("[", "{", '"'):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _parse_cell(value: Any) -> Any:
    """Return lists and objects that a cell holds as JSON, or as Python prints them."""
    found = _parse(value)
    if isinstance(found, str) and found[:1] in ("[", "{"):
        with contextlib.suppress(ValueError):
            return parse_literal(found)
    return found


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _tool(tool: Any) -> Any:
    inner = _at(tool, "tool") if isinstance(tool, Mapping) else {}
    return _parse(inner.get("json_schema")) or inner or tool


def _join_texts(items: Any) -> str | None:
    """Return the texts of `llm.prompts` or `llm.choices`."""
    texts = [next(iter(_at(item, name).values()), None) for item in _as_list(items)
             for name in ("prompt", "completion") if isinstance(item, Mapping)]  # fmt: skip
    return "\n\n".join(text for text in texts if isinstance(text, str)) or None


def _from_sample(row: ExportRow) -> ExportRow:
    """Read a sample of an Inspect log."""
    if not isinstance(row["output"], Mapping) or not isinstance(row["messages"], list):
        return row
    if _is_failed(row):
        raise FieldError(
            "output", "is from a failed sample; `textassay import inspect` leaves such samples out"
        )
    attachments = row.get("attachments")
    # Inspect logs these besides the conversation and its scores; they can be megabytes
    logged = ("events", "attachments", "store", "timelines")
    fields = {key: value for key, value in row.items() if key not in logged}
    if isinstance(attachments, Mapping) and attachments:
        fields = _resolve_attachments(fields, attachments)
    output = fields["output"]
    message = (output.get("choices") or [{}])[0].get("message") or {}
    answer = output.get("completion") or message_text(message.get("content"))
    fields |= {
        "id": str(_sample_id(row)),
        "group": fields.get("group", str(row["id"])),
        # the last thing it did may be a call
        "output": output if message.get("tool_calls") and not answer else answer,
        "system": output.get("model"),
        **_about_sample(fields),
    }
    if "target" in fields:
        fields["target"] = _references(fields["target"])
    if not isinstance(fields["input"], str):  # its messages are the first of all messages
        del fields["input"]
    return {name: value for name, value in fields.items() if name not in ("scores", "metadata")}


def _is_failed(sample: ExportRow) -> bool:
    """Return whether a sample of Inspect lacks the model's answer."""
    output = sample.get("output") or {}
    answered = output.get("completion") or output.get("choices")
    return bool(sample.get("error")) or not answered


def _with_passages(about: ExportRow) -> dict[str, Any]:
    """Return another tool's metadata of a text: passages as `context`, the rest as `meta`."""
    passages = [value for name, value in about.items() if value and _is_context(name)]
    rest = {name: value for name, value in about.items() if not _is_context(name)}
    items = [item for value in passages for item in (value if isinstance(value, list) else [value])]
    try:
        read_passages(items)
    except ValueError:  # of an unknown form; a notice names the columns in `meta`
        return {"context": None, "meta": dict(about)}
    is_text = len(items) == 1 and isinstance(items[0], str)
    return {"context": items[0] if is_text else items, "meta": rest}


def _is_context(name: str) -> bool:
    return plain_name(name) in _RETRIEVED


def _from_case(row: ExportRow) -> ExportRow:
    """Read a case of a report of pydantic-evals."""
    measured = {name: _at(row[kind], name).get("value", value)
                for kind in ("scores", "assertions", "metrics")
                for name, value in (row.get(kind) or {}).items()}  # fmt: skip
    return {
        "id": row["name"],
        "group": row.get("source_case_name") or row["name"],
        "output": _as_answer(row["output"]),
        **_of_inputs(row["inputs"]),
        "references": _references(_as_answer(row.get("expected_output"))),
        "metrics": _numbers_in(measured),
        "meta": {n: row[n] for n in ("labels", "metadata", "attributes") if row.get(n)},
    }


def _of_inputs(inputs: Any) -> dict[str, Any]:
    """Return source, messages and passages in the inputs of a program."""
    inputs = _parse_cell(inputs)
    if not isinstance(inputs, Mapping):
        is_chat = looks_like_messages(inputs)
        return {"messages": inputs} if is_chat else {"source": _as_answer(inputs)}
    passages = {name: value for name, value in _with_passages(inputs).items() if name == "context"}
    rest = {name: value for name, value in inputs.items() if not _is_context(name)}
    messages = next((value for value in rest.values() if looks_like_messages(value)), None)
    if messages:
        return {**passages, "messages": messages}
    (only,) = rest.values() if len(rest) == 1 else (rest,)
    return {**passages, "source": _as_answer(only)}


def _first(row: ExportRow, *names: str) -> Any:
    """Return the first value that is present; `None` without one."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def _is_valid(assessment: Any) -> bool:
    """Return whether an assessment has a name, and no other one has taken its place."""
    return (
        isinstance(assessment, Mapping)
        and bool(assessment.get("assessment_name") or assessment.get("name"))
        and assessment.get("valid") is not False
    )


def _from_traces(row: ExportRow) -> ExportRow:
    """Read a row of MLflow's table of an evaluation or of its traces.

    Scores are columns `NAME/value`, or feedback among the assessments, where people's are ratings.
    """
    values = {name: value for name, value in row.items() if "/" in name}
    measured = {name.removesuffix("/value"): value
                for name, value in values.items() if name.endswith("/value")}  # fmt: skip
    assessments, ratings = _as_list(_parse_cell(row.get("assessments"))), dict[str, Any]()
    if assessments:
        values["assessments"] = assessments
    for assessment in filter(_is_valid, assessments):
        name = assessment.get("assessment_name") or assessment["name"]
        feedback, source = _at(assessment, "feedback"), _at(assessment, "source")
        value = (feedback or _at(assessment, "expectation")).get("value")
        if source.get("source_type") == "HUMAN" and feedback:
            rater = str(source.get("source_id") or "rater").replace(".", "_")
            ratings[f"annotators.{name}.{rater}"] = _number(value)
        else:
            measured.setdefault(name, value)
    expected = [measured.pop(n) for n in ("expected_response", "expected") if n in measured]
    inputs, output = _first(row, "request", "inputs"), _first(row, "response", "outputs")
    output = _parse_cell(output) if str(output)[:1] == "{" else _parse(output)
    choices = _as_list(output.get("choices")) if isinstance(output, Mapping) else []
    if choices and isinstance(choices[0], Mapping):
        output = _answer_text(_at(choices[0], "message"))
    return {
        "id": row.get("trace_id"),
        "output": _as_answer(output),
        **_of_inputs(inputs),
        "references": _references(expected[0] if expected else None),
        "metrics": _numbers_in(measured),
        **ratings,
        "meta": {name: value for name, value in values.items() if value is not None},
    }


def _from_experiment(row: ExportRow) -> ExportRow:
    """Read a row of Phoenix's evaluations, whose scores are objects in columns `NAME_score`."""
    names = [name.removesuffix("_execution_details") for name in row
             if name.endswith("_execution_details")]  # fmt: skip
    scores = {name: _parse_cell(row.get(f"{name}_score")) for name in names}
    measured = {name: s.get("score") for name, s in scores.items() if isinstance(s, Mapping)}
    beside = {f"{name}_{end}" for name in names for end in ("score", "execution_details")}
    rest = {name: value for name, value in row.items() if name not in beside}
    return {
        **rest,
        "metrics": _numbers_in(measured),
        "meta": {k: v for k, v in scores.items() if v},
    }


def _sample_id(sample: ExportRow) -> Any:
    """Return the id of a sample, which Inspect repeats in epochs."""
    epoch = sample.get("epoch") or 1
    return sample["id"] if epoch == 1 else f"{sample['id']}#{epoch}"


def _about_sample(sample: ExportRow) -> dict[str, Any]:
    """Return scores and metadata of a sample; scores that are not numbers are kept in `meta`."""
    scores = {name: score.get("value") for name, score in (sample.get("scores") or {}).items()}
    others = {name: item for name, item in scores.items() if item and not _numbers_in({name: item})}
    fields = _with_passages(sample.get("metadata") or {})
    fields["meta"] |= {"scores": others} if others else {}
    return {**fields, "metrics": _numbers_in(scores)}


def _resolve_attachments(value: Any, attachments: ExportRow) -> Any:
    """Return a value with the long texts that Inspect keeps in one place of a sample."""
    mark = "attachment://"
    if isinstance(value, str):
        return attachments.get(value[len(mark) :], value) if value.startswith(mark) else value
    if isinstance(value, Mapping):
        return {key: _resolve_attachments(item, attachments) for key, item in value.items()}
    return (
        [_resolve_attachments(item, attachments) for item in value]
        if isinstance(value, list)
        else value
    )


def _from_test_case(row: ExportRow) -> ExportRow:
    """Read a test case of DeepEval, whose passages are joined by `|` in .jsonl and .csv files."""
    ours = ("actual_output", "retrieval_context")
    fields = {snake if (snake := _snake_case(k)) in ours else k: v for k, v in row.items()}
    if not fields["actual_output"]:
        raise FieldError(
            "actual_output",
            "is missing: the golden has no answer yet; leave it out, or judge empty answers:"
            ' fields={"actual_output": "output"}',
        )
    for name in ("retrieval_context", "context"):
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            value = value.split("|")
        if isinstance(value, list):
            fields[name] = [_split_passage(item) for item in value]
    if fields["retrieval_context"] and "context" in fields:
        fields["expected_context"] = fields.pop("context")  # the expected passages
    return fields


def _from_sharegpt(row: ExportRow) -> ExportRow:
    """Read a row of ShareGPT's, which has the prompt of the system beside the messages."""
    turns, prompt = _parse(row["conversations"]), row["system"]
    if not (isinstance(turns, list) and turns and isinstance(turns[0], Mapping)):
        return row
    if not isinstance(prompt, str) or "from" not in turns[0]:
        return row
    rest = {name: value for name, value in row.items() if name != "system"}
    return rest | {"conversations": [{"from": "system", "value": prompt}, *turns]}


def _split_passage(item: Any) -> Any:
    """Return text and title of a passage, from the form in which DeepEval joins them."""
    mark = r"deepeval_source=(?P<title>.*?),deepeval_context=(?P<text>.*)"
    match = re.fullmatch(mark, item, re.DOTALL) if isinstance(item, str) else None
    return match.groupdict() if match else item


VERDICTS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partially correct, incorrect, no answer."""


def _numbers_in(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that are numbers; a mapping yields a score per key."""
    metrics: dict[str, float] = {}
    for name, value in values.items():
        inner = (
            {f"{name}.{key}": part for key, part in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
        for key, part in inner.items():
            if (number := _number(part)) is not None:
                metrics[str(key)] = number
    return metrics


def _number(value: Any) -> float | None:
    """Return a score as a number, pass and fail as 1 and 0; `None` if it is not a finite number."""
    if not isinstance(value, str | int | float):
        return None
    if pair := find_pair(value):
        return float(pair[1])
    try:
        number = VERDICTS[value] if value in VERDICTS else float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(content: Any) -> str | None:
    """Return the text of a chat, a message, its content or a plain string."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _text(content.get("content", content.get("text")))
    if isinstance(content, list):
        return "\n\n".join(part for part in map(_text, content) if part) or None
    return None


def _as_answer(value: Any) -> str | None:
    """Return an answer as text, a value of another type as JSON; `None` if it is missing.

    A model's response becomes its last text, with the calls after it.
    """
    if value is None or isinstance(value, str):
        return value
    if (response := read_response(value)) is not None:
        texts = [n for n, m in enumerate(response) if m.role == "assistant" and m.content.strip()]
        end = response[max(texts, default=0) :]
        last = (last_answer(end), calls_as_text(end))
        return "\n".join(filter(None, last)) or text_of(response) or ""
    return json.dumps(value, ensure_ascii=False)


def _references(value: Any) -> list[str]:
    """Return a reference, or several, as a list."""
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items if item not in (None, "")]


def read_inspect(log: Mapping[str, Any]) -> Iterator[ExportRow]:
    """Yield the samples of an Inspect log; `group` is the sample, and each epoch is a text."""
    model = log.get("eval", {}).get("model")
    for sample in log.get("samples") or ():
        if _is_failed(sample):
            yield {"id": _sample_id(sample), "output": None}
            continue
        shown = {name: sample.get(name) for name in ("input", "messages", "output")}
        shown = _resolve_attachments(shown, sample.get("attachments") or {})
        output, messages = shown["output"] or {}, shown["messages"]
        choices = output.get("choices") or [{}]
        # a question and its answer need no messages, unless these alone have choices or images
        is_more = sample.get("choices") or _has_images(shown["input"])
        has_more = isinstance(messages, list) and len(messages) > (1 if is_more else 2)
        yield {
            "id": _sample_id(sample),
            "output": output.get("completion") or _answer_text(choices[0].get("message")),
            "source": None if has_more else _text(shown["input"]),
            "references": _references(sample.get("target")),
            "system": output.get("model") or model,
            "group": sample["id"],
            "messages": messages if has_more else None,
            **_about_sample(sample),
        }


def _has_images(chat: Any) -> bool:
    contents = [
        message.get("content") for message in _as_list(chat) if isinstance(message, Mapping)
    ]
    parts = [part for content in contents for part in _as_list(content)]
    return any(isinstance(part, Mapping) and part.get("type") != "text" for part in parts)


def _answer_text(message: Any) -> str | None:
    """Return the text of a model's message, or else its calls of tools."""
    return _text(message) or calls_as_text(read_messages([message] if message else [])) or ""


def _prompt_fields(prompt: Any) -> dict[str, Any]:
    """Return a prompt as the source, or as messages if it is a chat or the JSON of one."""
    # lm-eval writes the JSON of a chat as the only item of a list
    is_item = isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str)
    chat = _parse(prompt[0] if is_item else prompt)
    if isinstance(chat, Mapping):
        chat = chat.get("messages", chat.get("contents"))
    return {"messages": chat} if looks_like_messages(chat) else {"source": _text(prompt)}


def _by_name(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name; the second value with a name is called `NAME 2`."""
    values: dict[str, Any] = {}
    for name, value in named:
        numbered = chain([name], (f"{name} {number}" for number in count(2)))
        values[next(unused for unused in numbered if unused not in values)] = value
    return values


def read_promptfoo(summary: Mapping[str, Any]) -> Iterator[ExportRow]:
    """Yield the results of promptfoo; `system` is the provider and the prompt.

    `group` is the first test with the same variables, or the same prompts if it has none:
    repetitions are numbered as tests.
    """
    inner = summary.get("results", summary)
    results = inner if isinstance(inner, list) else inner["results"]
    prompts = _number_prompts(results)
    has_prompts = len(set(prompts.values())) > 1
    prompts_of: dict[Any, set[str]] = {}
    for at, case in enumerate(results):
        prompts_of.setdefault(case.get("testIdx", at), set()).add(json.dumps(_prompt(case)))
    first_test: dict[str, Any] = {}
    for at, case in enumerate(results):
        test, prompt, name = case.get("testIdx", at), case.get("promptIdx", 0), _provider(case)
        parts = (case.get("gradingResult") or {}).get("componentResults") or ()
        named = case.get("namedScores") or {}
        total = {"score": case.get("score")} if _is_measured(case, parts or named) else {}
        response = case.get("response") or {}
        variables = case.get("vars") or (case.get("testCase") or {}).get("vars") or {}
        # promptfoo makes a session for each repetition
        repeated = {name: value for name, value in variables.items() if name != "sessionId"}
        test_key = json.dumps(repeated or sorted(prompts_of[test]), sort_keys=True)
        metadata = {**(case.get("metadata") or {}), **(response.get("metadata") or {})}
        # promptfoo adds metadata of its own, which are mostly empty
        about = {**{name: value for name, value in metadata.items() if value}, **variables}
        # promptfoo sums up metrics with one name
        scored = [(_assertion(part.get("assertion") or {}), part.get("score")) for part in parts]
        asserted = _by_name((metric, score) for metric, score in scored if metric not in named)
        yield {
            "id": f"{test}-{prompt}-{name}",
            "output": _as_answer(response.get("output")),
            **_prompt_fields(_prompt(case)),
            **_with_passages(about),
            "system": f"{name}, prompt {prompts[name, prompt]}" if has_prompts else name,
            "group": first_test.setdefault(test_key, test),
            "metrics": _numbers_in({**total, **asserted, **named}),
        }


def _prompt(result: Mapping[str, Any]) -> Any:
    return (result.get("prompt") or {}).get("raw")


def _provider(result: Mapping[str, Any]) -> Any:
    provider = result.get("provider") or {}
    if not isinstance(provider, Mapping):
        return provider
    return provider.get("label") or provider.get("id")


def _number_prompts(results: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, int], int]:
    """Return the number of each prompt, by provider and promptfoo's number of the column.

    promptfoo counts a prompt once for every provider. Prompts with one label have one id, so one
    provider's columns with that id are distinguished by their order.
    """
    columns = {(_provider(r), r.get("promptIdx", 0)): r.get("promptId") for r in results}
    seen: Counter[tuple[Any, Any]] = Counter()
    numbers: dict[tuple[Any, int], int] = {}
    number_of: dict[tuple[Any, int], int] = {}
    for (provider, column), prompt_id in sorted(columns.items(), key=lambda item: item[0][1]):
        # without ids the column is all that is known
        key = prompt_id or column
        numbers[provider, column] = number_of.setdefault((key, seen[provider, key]), len(number_of))
        seen[provider, key] += 1
    return numbers


def _is_measured(result: Mapping[str, Any], single: Any) -> bool:
    """Whether a score is more than the 1 of a test without assertions or the 0 of a failure."""
    if single:
        return True
    if (graded := result.get("gradingResult")) is not None:
        return bool(graded.get("reason") != "No assertions")
    # promptfoo can be told to leave the grading out of its files
    # 2: there is no answer, 1: an assertion failed; older files give no reason
    failed = result.get("failureReason") == 2
    answered = (result.get("response") or {}).get("output") is not None
    return answered and not failed and bool((result.get("testCase") or {}).get("assert"))


def _assertion(assertion: Mapping[str, Any]) -> str:
    return str(assertion.get("metric") or assertion.get("type") or "assertion")


def read_pydantic_evals(report: Mapping[str, Any]) -> Iterator[ExportRow]:
    """Yield the cases of a report of pydantic-evals; a failed one has no answer."""
    yield from map(_from_case, report["cases"])
    for failure in report.get("failures") or ():
        yield {"id": failure.get("name"), "output": None}


def read_deepeval(run: Mapping[str, Any]) -> Iterator[ExportRow]:
    """Yield the test cases of DeepEval, from a test run's file or from `evaluate()`'s results."""
    run = _in_snake_case(run.get("testRunData", run))  # the file of the latest run wraps it
    cases = run.get("test_cases", run.get("test_results")) or ()
    for at, case in enumerate([*cases, *(run.get("conversational_test_cases") or ())]):
        fields = _in_snake_case(case)
        turns, retrieved, ideal = (
            fields.get(name) or None for name in ("turns", "retrieval_context", "context")
        )
        about = {**(fields.get("additional_metadata") or fields.get("metadata") or {}),
                 **(fields.get("custom_column_key_values") or {})}  # fmt: skip
        passages = _with_passages({} if retrieved or ideal else about)
        context = retrieved or ideal or passages["context"]
        names = ("comments", "tags", "expected_tools", "user_description", "chatbot_role")
        beside = {name: fields.get(name) for name in names}
        beside["expected_context"] = ideal if retrieved else None
        measured = fields.get("metrics_data") or ()
        yield {
            "id": fields.get("name") or f"test_case_{at}",
            "output": _as_answer(fields.get("actual_output")),
            "tools_called": fields.get("tools_called"),
            "meta": {**{k: v for k, v in beside.items() if v}, **(passages["meta"] or about)},
            "source": _text(fields.get("scenario" if turns else "input")),
            "references": _references(
                fields.get("expected_outcome" if turns else "expected_output")
            ),
            "context": context
            if isinstance(context, list) and len(context) > 1
            else _text(context),
            "metrics": _numbers_in(
                _by_name((m.get("name", "score"), m.get("score")) for m in measured)
            ),
            "messages": turns,
        }


def _in_snake_case(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with `retrieval_context` for `retrievalContext`: DeepEval writes both."""
    return {_snake_case(name): value for name, value in values.items()}


def _snake_case(name: str) -> str:
    return re.sub("(?=[A-Z])", "_", name).lower()


_OF_THE_HARNESS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash",
}  # fmt: skip


def read_lm_eval(lines: Iterable[Mapping[str, Any]]) -> Iterator[ExportRow]:
    """Yield the samples of lm-evaluation-harness; of scored choices, the likeliest is the text."""
    for s in lines:
        # the harness has written requests, each prompt first, in two forms
        arguments = s.get("arguments") or ()
        items = arguments.values() if isinstance(arguments, Mapping) else arguments
        requests = [list(r.values()) if isinstance(r, Mapping) else list(r) for r in items]
        names = s.get("metrics") or [
            name for name in s if name not in _OF_THE_HARNESS and _number(s[name]) is not None
        ]
        filtered, answers = s.get("filter"), _answers(s, requests)
        for answer in answers:
            yield {
                "id": s["doc_id"] if filtered in (None, "none") else f"{s['doc_id']}-{filtered}",
                "output": answer,
                **(_prompt_fields(requests[0][0]) if requests else {}),
                "references": _references(_target(s, requests)),
                "group": s["doc_id"],
                **_with_passages(doc if isinstance(doc := s.get("doc"), Mapping) else {}),
                # those of repetitions are scores of all of them together
                "metrics": _numbers_in({name: s.get(name) for name in names})
                if len(answers) == 1
                else {},
            }


def _answers(sample: Mapping[str, Any], requests: list[list[Any]]) -> list[str | None]:
    """Return the answer to a sample, or those of its repetitions."""
    raw = sample.get("resps") or [None]
    answers = sample.get("filtered_resps") or raw
    if all(map(_is_likelihood, answers)):
        if len(answers) != len(requests):
            return [None]
        # Multiple choice in the harness is a likelihood per choice: the answer is the likeliest one
        best = max(range(len(requests)), key=lambda at: float(answers[at][0]))
        return [_text(requests[best][1])]
    texts, whole = (x[0] if isinstance(x[0], list) and x[0] else x[:1] for x in (answers, raw))
    # where a filter of the harness found nothing, the answer itself is in `resps`
    found = [
        whole[at] if text == "[invalid]" and at < len(whole) else text
        for at, text in enumerate(texts)
    ]
    return [text if isinstance(text, str) else None for text in found]


def _is_likelihood(answer: Any) -> bool:
    """Return whether an answer is a pair of a log-likelihood and of `is_greedy`, a boolean."""
    is_pair = isinstance(answer, list) and len(answer) == 2 and str(answer[1]) in ("True", "False")
    return is_pair and finite(str(answer[0])) is not None


def _target(sample: Mapping[str, Any], requests: list[list[Any]]) -> Any:
    """Return the target; for scored choices the harness records the index of the right one."""
    target = sample.get("target")
    index, is_choice = str(target), len({str(request[0]) for request in requests}) == 1
    if len(requests) < 2 or not is_choice or not index.isdecimal():
        return target
    return requests[int(index)][1] if int(index) < len(requests) else target


FORMATS: dict[str, Callable[[Any], Iterable[ExportRow]]] = {
    "inspect": read_inspect,
    "promptfoo": read_promptfoo,
    "deepeval": read_deepeval,
    "lm-eval": read_lm_eval,
    "pydantic-evals": read_pydantic_evals,
}
"""Readers by the name of the tool."""
_DAMAGED = (
    ArithmeticError, AttributeError, EOFError, LookupError, RuntimeError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors from files of another form: damaged archives, JSON of any depth or shape."""
_UNPACKED = 2**30
"""Bytes to which any archive may unpack; a larger one to a hundred times its own size."""
MAX_SAMPLE = 64 * 2**20
"""Bytes of a sample of Inspect, unpacked; a larger one is a mistake or an attack."""


class ImportedResults(NamedTuple):
    """The content of a result file."""

    rows: list[dict[str, Any]]
    """Texts with their scores as `metrics`, in our format."""
    empty: int
    """Number of results without a text, such as failed calls, which are left out."""


def read_results(form: str, path: str | Path) -> ImportedResults:
    """Read a result file of another tool, without a check that its rows are valid examples."""
    if form not in FORMATS:
        raise UnknownName("format of results", form, tuple(FORMATS))
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is not a regular file")
    try:
        imported = [_without_gaps(result) for result in FORMATS[form](_content(form, path))]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}: is not JSON ({error}); give the JSON that {form} writes"
        ) from error
    except (*_DAMAGED, _zip_reader().BadZipFile) as error:  # either module has its own
        if isinstance(error, NotImplementedError) and "zstd" in str(error):
            raise DataError(
                f"{path}: is compressed with zstd, which Python reads from 3.14 on; "
                "pip install 'textassay[inspect]', or write it as JSON first: "
                "inspect log convert --to json"
            ) from error
        raise DataError(
            f"{path}: is not a result file of {form}: {type(error).__name__}: {error}"
        ) from error
    rows = [row for row in imported if "output" in row or "messages" in row]
    if not rows:
        raise DataError(
            f"{path}: contains no results of {form} with an answer ({len(imported)} without one)"
        )
    _number_repeated_ids(rows)
    return ImportedResults(rows, len(imported) - len(rows))


def _without_gaps(result: ExportRow) -> dict[str, Any]:
    """Return a row without its empty fields; system and group become texts."""
    named = {
        name: str(result[name]) for name in ("system", "group") if result.get(name) is not None
    }
    fields = {**result, **named, "id": str(result["id"])}
    return {
        name: value
        for name, value in fields.items()
        if value not in (None, [], {}, "") or (name == "output" and value == "")
    }


def _content(form: str, path: Path) -> Any:
    if form == "inspect" and (path.suffix == ".eval" or zipfile.is_zipfile(path)):
        return _unzip(path)
    text = read_text(path)
    if form == "lm-eval" or (form == "promptfoo" and ".jsonl" in path.suffixes):
        # `splitlines` would also split at U+2028 and others, which JSON need not escape
        lines = [line for line in text.split("\n") if line.strip()]
        is_list = text.lstrip().startswith("[")
        values = json.loads(text) if is_list else [json.loads(line) for line in lines]
        return values if form == "lm-eval" else {"results": values}
    content = json.loads(text)
    if not isinstance(content, Mapping):
        raise DataError(f"{path}: is a JSON {type(content).__name__}; {form} writes one object")
    return content


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8 or UTF-16, which may be packed with gzip."""
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(path) as file:
                content = file.read(_UNPACKED + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path}: damaged gzip: {error}") from error
        if len(content) > _UNPACKED:
            raise DataError(f"{path}: unpacks to more than {_UNPACKED:,} bytes")
    return content.decode(json.detect_encoding(content), "surrogatepass")  # as `json.loads` does


def _unzip(path: Path) -> dict[str, Any]:
    """Return an Inspect log that is a zip file: a header, and a file per sample."""
    with _zip_reader().ZipFile(path) as archive:
        # A log of a run that was interrupted has no header yet, only the journal's start.
        names = archive.namelist()
        head = "header.json" if "header.json" in names else "_journal/start.json"
        sizes = [file.file_size for file in archive.infolist()]
        if max(sizes, default=0) > MAX_SAMPLE:
            raise DataError(f"{path}: contains a sample of more than {MAX_SAMPLE:,} bytes")
        if sum(sizes) > max(_UNPACKED, 100 * path.stat().st_size):
            raise DataError(f"{path}: unpacks to {sum(sizes):,} bytes, too many for a log")
        log: dict[str, Any] = json.loads(archive.read(head))
    names = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    log["samples"] = _samples(path, dict.fromkeys(names))
    return log


def _samples(path: Path, names: Iterable[str]) -> Iterator[Any]:
    """Yield samples one by one, as they are far larger than the texts that are kept."""
    with _zip_reader().ZipFile(path) as archive:
        for name in names:
            yield json.loads(archive.read(name))


def _zip_reader() -> ModuleType:
    """Return the module `zipfile`, with zstd if a package or this Python has it."""
    try:
        # Inspect compresses with zstd by default; the standard library reads it from 3.14 on
        return importlib.import_module("backports.zstd.zipfile")
    except ImportError:
        return zipfile


def _number_repeated_ids(rows: Iterable[dict[str, Any]]) -> None:
    """Number the ids that occur more than once, as ids of repeated calls do."""
    numbers: dict[str, Iterator[int]] = {}
    ids = {row["id"] for row in rows}
    for row in rows:
        if (id_ := row["id"]) in numbers:
            numbered = (f"{id_}~{number}" for number in numbers[id_])
            row["id"] = next(name for name in numbered if name not in ids)
            ids.add(row["id"])
        numbers.setdefault(id_, count(2))
