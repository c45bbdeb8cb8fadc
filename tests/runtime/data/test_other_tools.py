"""Result files of other tools become examples with metrics.

The files in tests/fixtures were written by the tools themselves.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import textassay
from tests.pictures import png_uri
from tests.runtime.data.rows import EXPORTS, FIXTURES, complaint
from textassay.estimation import read_judged
from textassay.runtime.data import Examples, other_tools
from textassay.runtime.data.other_tools import read_promptfoo, read_results
from textassay.runtime.errors import DataError, UnknownName

FILES = FIXTURES / "results"


def examples(form, name):
    """Return the examples of a file by id, and how many results had no text."""
    found = read_results(form, FILES / name)
    return {example.id: example for example in Examples(found.rows)}, found.empty


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json"])
def test_inspect(name):
    """A log compressed with zstd, as Inspect writes it by default, and one in JSON."""
    if name == "inspect.eval" and sys.version_info < (3, 14):
        pytest.importorskip("backports.zstd")
    rows, empty = examples("inspect", name)
    assert (set(rows), empty) == ({"fr", "fr#2", "2", "2#2"}, 0)
    assert rows["fr"].output == "The capital is Paris."
    assert rows["fr"].metrics == {"match": 1, "rubric.tone": 0.5, "rubric.length": 2.1}
    assert rows["2#2"].metrics["match"] == 0
    assert (rows["2#2"].group, rows["2#2"].references) == ("2", ("Rhine", "Elbe"))
    assert {row.system for row in rows.values()} == {"mockllm/model"}


@pytest.mark.parametrize("name", ["promptfoo.json", "promptfoo.jsonl"])
def test_promptfoo(name):
    """Of three tests with two prompts one failed: it has no text, and is counted."""
    rows, empty = examples("promptfoo", name)
    assert (len(rows), empty) == (4, 2)
    first = rows["0-1-answerer"]
    assert (first.output, first.system) == ("The capital is Paris.", "answerer, prompt 1")
    assert (first.source, first.group) == ("Answer: What is the capital of France?", "0")
    assert first.metrics == {"score": 0.7625, "icontains": 1, "Length": 0.525}
    assert rows["1-0-answerer"].metrics == {"score": 1, "equals": 1}


def test_promptfoo_with_two_providers():
    """Prompts are numbered across providers; a test without an assertion has no score."""
    rows, empty = examples("promptfoo", "promptfoo-providers.json")
    assert (len(rows), empty) == (10, 2)
    assert {(row.system, row.source.split(":")[0]) for row in rows.values()} == {
        (f"{provider}, prompt {number}", begin)
        for provider in ("answerer", "echo")
        for number, begin in enumerate(["In one sentence", "Answer"])
    }
    assert rows["0-3-echo"].metrics == {"score": 0.475, "icontains": 0, "Length": 0.95}
    assert rows["2-2-echo"].metrics == {}


def test_promptfoo_without_parts_of_the_grading():
    """A score counts only if something was asserted and answered."""
    unanswered = {"score": 0, "testCase": {"assert": [{"type": "equals"}]}}
    asserted = unanswered | {"response": {"output": "x"}}
    results = [
        {"score": 0.4, "gradingResult": {"score": 0.4, "reason": "too short"}},
        {"score": 1, "gradingResult": {"score": 1, "reason": "No assertions"}},
        asserted | {"score": 0.3},
        {"score": 1, "response": {"output": "x"}, "testCase": {}},
        asserted | {"failureReason": 2},
        unanswered | {"response": {}, "error": "No output", "failureReason": 0},
        unanswered | {"response": {"output": None}, "error": "No output"},
        unanswered | {"response": {"error": "API 500"}, "error": "API 500"},
        asserted | {"response": {"output": ""}},
    ]
    rows = read_promptfoo({"results": [one | {"provider": "p"} for one in results]})
    found = [row["metrics"] for row in rows]
    assert found == [{"score": 0.4}, {}, {"score": 0.3}, *[{}] * 5, {"score": 0}]


def test_prompts_of_promptfoo_with_one_id_are_distinguished():
    """By their columns; the same prompt has one number under every provider."""
    ids = ("same", "same", "x")
    results = [
        {"promptIdx": column, "promptId": ids[column % 3], "provider": "ab"[column // 3]}
        for column in range(6)
    ]
    assert [row["system"] for row in read_promptfoo({"results": results})] == [
        f"{name}, prompt {number}" for name in "ab" for number in range(3)
    ]


@pytest.mark.parametrize("name", ["run", "latest", "results"])
def test_deepeval(name):
    """In each of its three files; a metric that raised an error has no score."""
    rows, _ = examples("deepeval", f"deepeval-{name}.json")
    assert rows["test_case_0"].metrics == {"Word Overlap": 1, "Strict": 1}
    assert rows["second"].metrics == {"Word Overlap": 0}
    assert (rows["second"].output, rows["second"].references) == ("It is Lyon", ("Paris",))
    assert rows["second"].context == "Paris is the capital of France."


def test_lm_eval():
    """Generated texts once per filter; of choices the likeliest, and the right one's text."""
    rows, _ = examples("lm-eval", "lm-eval-generated.jsonl")
    assert set(rows) == {"0-strict", "1-strict", "0-letters", "1-letters"}
    assert rows["1-strict"].source == "Q: Name a river of Germany.\nA:"
    assert rows["1-strict"].references == ("Rhine",)
    assert rows["1-strict"].metrics == {"exact_match": 0}
    rows, _ = examples("lm-eval", "lm-eval-choices.jsonl")
    assert (rows["0"].output, rows["0"].references) == (" Lyon", (" Paris",))
    assert rows["1"].metrics == {"acc": 0, "acc_norm": 0}


def test_conversations_of_inspect_and_deepeval_keep_their_turns(tmp_path):
    """With calls and passages; what was long stands in its place."""
    export = EXPORTS["inspect"]
    log = {"eval": {}, "samples": [export.row]}
    (sample,) = Examples(read_results("inspect", write(tmp_path / "log.json", log)).rows)
    assert [text for text in export.shown if text not in sample.source] == []
    export = EXPORTS["deepeval-turns"]
    turns = {k: v for k, v in export.row.items() if k != "expected_outcome"}
    case = {"name": "one", "input": "Q", "actualOutput": "A", "retrievalContext": ["P", "R"]}
    turns |= {"name": "chat", "expectedOutcome": "Bought.", "metricsData": []}
    run = {"testCases": [case], "conversationalTestCases": [turns]}
    found = read_results("deepeval", write(tmp_path / "run.json", run))
    one, chat = Examples(found.rows)
    assert (one.context, found.empty) == ("[passage 1] P\n\n[passage 2] R", 0)
    assert (chat.id, chat.output, chat.references) == ("chat", "Done: seat 14.", ("Bought.",))
    assert [text for text in export.shown if text not in f"{chat.source}{chat.context}"] == []
    assert Examples(tmp_path / "run.json").check().count == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ragas_single", ("When was it?", "It was in 1967.", "It rained a lot.", "In 1967.")),
        ("ragas_multi", ("Weather in Paris?", "weather(", "18 degrees cloudy", "It is 18")),
        ("deepeval_single", ("shoes don't fit?", "within 30 days.", "Keep the box.", "You have")),
        ("deepeval_conv", ("Can I return them?", "Yes, within", "Full refund", "You are welcome")),
        ("openinference", ("Weather in Paris?", "weather(", "18 degrees cloudy", "It is 18")),
    ],
)
def test_data_sets_and_traces_load_as_they_are(name, said):
    """Without a field map; every turn, call and passage is shown."""
    files = sorted((FIXTURES / "exports").glob(f"{name}.*"))
    assert files
    for file in files:
        first = next(iter(Examples(file)))
        shown = "\n".join(filter(None, (first.source, first.context, first.output)))
        assert all(words in shown for words in said), (file.name, shown)


def test_the_command_writes_what_score_and_meta_read(tmp_path):
    done = textassay(
        "import", "promptfoo", FILES / "promptfoo.json", "--out", tmp_path / "data.jsonl"
    )
    assert (done.code, done.out) == (0, "")
    assert "wrote 4 examples" in done.err
    assert "2 results without an answer" in done.err
    assert read_judged(tmp_path / "data.jsonl")["score"].values["1-0-answerer"] == 1
    for name in ("data.csv", "data.json", "data.jsonl.gz"):
        out = ("--out", tmp_path / name)
        said = textassay("import", "promptfoo", FILES / "promptfoo.json", *out).ends(2)
        assert "is written as JSON Lines; call it such as data.jsonl" in said.err
        assert not (tmp_path / name).exists()


def archive(path, content, size=1):
    """Write an Inspect log as a zip file of equal samples."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("header.json", '{"eval": {}}')
        for at in range(size):
            written.writestr(f"samples/{at}.json", content)
    return path


def damaged(path, old, new):
    """Replace bytes of an Inspect log."""
    content = archive(path, "{}").read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


ENTRY = b"PK\x01\x02\x14\x03\x14\x00"
EMPTY = zlib.compress(b"{}", wbits=-15)
DEEP = "[" * 100_000 + "]" * 100_000
NESTED = json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize(
    ("form", "make", "reason"),
    [
        ("lm-eval", lambda path: path.write_text(DEEP), "not a result file"),
        ("promptfoo", lambda path: path.write_text(DEEP), "not a result file"),
        ("inspect", lambda path: archive(path, DEEP), "not a result file"),
        ("deepeval", lambda path: write(path, {"testCases": [{"name": "x", "input": NESTED}]}),
         "no results|not a result file"),
        ("inspect", lambda path: damaged(path, ENTRY + b"\0", ENTRY + b"\1"), "encrypted"),
        ("inspect", lambda path: damaged(path, b"\0\0\x08\0", b"\0\0\x61\0"), "compression"),
        ("inspect", lambda path: damaged(path, EMPTY, b"\xff\xff\xff\xff"), "zlib.error|: error"),
        ("inspect", lambda path: archive(path, b" " * 2**21), "a sample of more than"),
        ("inspect", lambda path: archive(path, b" " * 2**20, size=9), "too many for a log"),
        ("inspect", lambda path: os.mkfifo(path), "not a regular file"),
        ("inspect", lambda path: None, "cannot be read"),
        ("promptfoo", lambda path: write(path, {"rows": 3}), "promptfoo"),
        ("inspect", lambda path: write(path, {"rows": 3}), "contains no results of inspect"),
    ],
    ids=range(13),
)  # fmt: skip
def test_files_of_another_form_damaged_and_hostile_ones_are_refused(
    tmp_path, form, make, reason, monkeypatch
):
    """With the file and what is wrong, whatever the parsers raise."""
    monkeypatch.setattr(other_tools, "MAX_SAMPLE", 2**20)
    monkeypatch.setattr(other_tools, "_UNPACKED", 2**23)
    path = tmp_path / "log.json"
    make(path)
    with pytest.raises(DataError, match=rf"log.json: .*({reason})"):
        read_results(form, path)


@pytest.mark.parametrize("as_cell", [lambda value: value, json.dumps, str])
def test_spans_are_read_from_cells_of_any_form(as_cell):
    """As objects, as JSON, and as pandas writes them to CSV."""
    asked, said = 'What\'s "it"?', "It is 7."
    [example] = Examples([{
        "attributes.llm.input_messages": as_cell(
            [{"message.role": "user", "message.content": asked}]),
        "attributes.llm.output_messages": as_cell(
            [{"message.role": "assistant", "message.content": said}]),
        "attributes.retrieval.documents": as_cell(
            [{"document.content": "A fact.", "document.id": "d"}]),
    }])  # fmt: skip
    assert (asked in example.source, example.output) == (True, said)
    assert [passage.id for passage in example.passages] == ["d"]


def test_choices_and_long_texts_of_inspect_are_shown(tmp_path):
    """The prompt alone lists the choices; long texts are kept beside the messages."""
    asked = "Which?\nA) one\nB) two"
    messages = [
        {"role": "user", "content": "attachment://q"},
        {"role": "assistant", "content": "attachment://a"},
    ]
    log = {"samples": [
        {"id": 1, "input": "attachment://q", "messages": messages, **choices,
         "output": {"model": "m", "choices": [{"message": messages[1]}]},
         "attachments": {"q": asked, "a": "B"}}
        for choices in ({}, {"choices": ["one"]}, {"choices": ["one"], "messages": []})
    ]}  # fmt: skip
    for example in Examples(read_results("inspect", write(tmp_path / "log.json", log)).rows):
        assert (asked in example.source, example.output) == (True, "B")


def test_images_of_inspect_are_kept(tmp_path):
    """Also those of a question that the model answered at once."""
    asked = {"role": "user", "content": [{"type": "text", "text": "What is it?"},
                                         {"type": "image", "image": "attachment://i"}]}  # fmt: skip
    said = {"role": "assistant", "content": "A dot."}
    log = {"samples": [{"id": 1, "input": [asked], "messages": [asked, said],
                        "output": {"model": "m", "choices": [{"message": said}]},
                        "attachments": {"i": png_uri()}}]}  # fmt: skip
    [example] = Examples(read_results("inspect", write(tmp_path / "log.json", log)).rows)
    assert (example.output, len(example.images)) == ("A dot.", 1)
    assert "What is it?" in example.source


def test_a_log_that_was_cut_off_is_refused_in_words(tmp_path):
    content = (FILES / "inspect.eval").read_bytes()
    (tmp_path / "log.eval").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"log.eval: is not a result file of inspect: .*zip"):
        read_results("inspect", tmp_path / "log.eval")


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(UnknownName, match="inspect, promptfoo, deepeval, lm-eval"):
        read_results("ragas", tmp_path)


def sample(id_="a", output="b", **more):
    """Return a row of lm-eval, in the form of its earlier versions."""
    row = {"doc_id": id_, "target": "4", "arguments": [["Q: 2+2\nA:", {"until": ["\n"]}]],
           "resps": [[output]], "filtered_resps": [output], "acc": 1.0}  # fmt: skip
    return row | more


def lm_eval(path, *rows, start="", end="\n"):
    text = end.join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(start + text, encoding="utf-8")
    return read_results("lm-eval", path).rows


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_texts_with_line_separators_of_other_kinds_are_whole(tmp_path, start):
    """JSON may hold them as they are."""
    text = "one\u2028two\u0085three"
    rows = lm_eval(tmp_path / "s.jsonl", sample("a", text), sample(), start=start, end="\r\n")
    assert [row["output"] for row in rows] == [text, "b"]
    assert rows[0]["metrics"] == {"acc": 1}


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz", "s.json"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_samples_of_lm_eval_are_read_in_any_container(tmp_path, name, encoding):
    """Lines, packed lines and a list; a chat is the only item of a list, as JSON."""
    chat = [{"role": "user", "content": "2+2?"}]
    requests = {"gen_args_0": {"arg_0": [json.dumps(chat)], "arg_1": {}}}
    rows = [sample(arguments=requests), sample("b")]
    text = json.dumps(rows) if name == "s.json" else "\n".join(map(json.dumps, rows))
    content = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = read_results("lm-eval", tmp_path / name).rows
    assert [row["id"] for row in found] == ["a", "b"]
    assert (found[0]["messages"], found[1]["source"]) == (chat, "Q: 2+2\nA:")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_of_other_encodings_are_read(tmp_path, encoding):
    """As JSON lets readers distinguish them."""
    path = tmp_path / "log.json"
    path.write_text((FILES / "inspect.json").read_text("utf-8"), encoding=encoding)
    assert len(read_results("inspect", path).rows) == 4


def test_a_score_that_is_not_a_number_of_ours_is_left_out(tmp_path):
    """Beside the others of its text."""
    row = sample(metrics=["exact_match", "f1"], exact_match=10**400, f1=0.5)
    assert lm_eval(tmp_path / "s.jsonl", row)[0]["metrics"] == {"f1": 0.5}


def test_ids_are_numbered_around_those_that_exist(tmp_path):
    rows = lm_eval(tmp_path / "s.jsonl", sample(), sample(), sample("a~2"), sample())
    assert [row["id"] for row in rows] == ["a", "a~3", "a~2", "a~4"]


def written(folder: Path, content: Any, name: str = "results.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def promptfoo(*outputs: Any, **more: Any) -> dict[str, Any]:
    results = [
        {"testIdx": at, "provider": {"id": "m"}, "prompt": {"raw": "Q?"}, "response": response,
         **more}
        for at, response in enumerate(outputs)
    ]  # fmt: skip
    return {"results": {"version": 3, "results": results}}


def test_every_answer_of_promptfoo_is_kept(tmp_path: Path) -> None:
    """Objects, lists, numbers, booleans and empty texts are answers; failed calls have none."""
    given = [{"a": 1, "text": "é"}, ["x"], 42, 0.5, True, False, "", "plain"]
    responses = [*({"output": one} for one in given), {"error": "500"}, {"output": None}]
    found = read_results("promptfoo", written(tmp_path, promptfoo(*responses)))
    assert [row["output"] for row in found.rows] == [
        '{"a": 1, "text": "é"}', '["x"]', "42", "0.5", "true", "false", "", "plain",
    ]  # fmt: skip
    assert found.empty == 2


FUNCTION = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALL = {"type": "function_call", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ([FUNCTION], "f({})"),
        ({"role": "assistant", "content": "I look.", "tool_calls": [FUNCTION]}, "I look.\nf({})"),
        ([{"functionCall": {"name": "f", "args": {}}}], "f({})"),
        ([{"text": "I look."}, {"functionCall": {"name": "f", "args": {}}}], "I look.\nf({})"),
        ({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]}, "f()"),
        ({"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}, "f({})"),
        ({"role": "assistant", "content": [{"toolUse": {"name": "f", "input": {}}}]}, "f({})"),
        ([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "I look."},
          {"type": "tool_use", "id": "c", "name": "f", "input": {}}], "I look.\nf({})"),
        ([CALL], "f({})"),
        ([{"role": "assistant", "content": "I look."}, CALL], "I look.\nf({})"),
        ([CALL, {"type": "function_call_output", "output": "2"}], "f({})"),
        ([{"type": "web_search_call", "id": "w"}, {"role": "assistant", "content": "So."}], "So."),
        ({"role": "assistant", "content": "Noon."}, "Noon."),
        ({"role": "assistant", "content": ""}, ""),
        ({"choices": [{"message": {"role": "assistant", "content": text}}
                      for text in ("Noon.", "Night.")]}, "Noon."),
        ({"answer": "noon"}, '{"answer": "noon"}'),
        ({"content": {"answer": "noon"}}, '{"content": {"answer": "noon"}}'),
        ([{"name": "f"}], '[{"name": "f"}]'),
        ([{"text": "one"}, {"text": "two"}], '[{"text": "one"}, {"text": "two"}]'),
        ({"type": "phone_call", "number": 3}, '{"type": "phone_call", "number": 3}'),
        ({"document": {"text": "one"}}, '{"document": {"text": "one"}}'),
    ],
)  # fmt: skip
def test_calls_of_tools_in_answers_are_calls(tmp_path: Path, output: Any, text: str) -> None:
    """In the forms of the providers, which promptfoo keeps; other JSON stays JSON."""
    (row,) = read_results("promptfoo", written(tmp_path, promptfoo({"output": output}))).rows
    assert row["output"] == text


def test_repeated_tests_of_promptfoo_are_one_group_by_their_variables(tmp_path: Path) -> None:
    summary = promptfoo(*[{"output": f"x{n}"} for n in range(4)])
    for at, one in enumerate(summary["results"]["results"]):
        one["vars"] = {"topic": f"t{at % 2}", "context": "A fact.", "sessionId": f"s{at}"}
    rows = read_results("promptfoo", written(tmp_path, summary)).rows
    assert [row["group"] for row in rows] == ["0", "1", "0", "1"]
    assert {(row["context"], row["meta"]["topic"]) for row in rows} == {
        ("A fact.", "t0"), ("A fact.", "t1"),
    }  # fmt: skip


def test_passages_that_a_provider_of_promptfoo_found_are_the_context(tmp_path: Path) -> None:
    response = {"output": "x", "metadata": {"documents": ["A fact."], "route": "a"}}
    (row,) = read_results("promptfoo", written(tmp_path, promptfoo(response))).rows
    assert (row["context"], row["meta"]) == ("A fact.", {"route": "a"})


@pytest.mark.parametrize("content", ["", [], [{"type": "reasoning", "reasoning": "hm"}]])
def test_an_empty_answer_in_a_log_of_inspect_is_an_answer(content):
    answer = {"role": "assistant", "content": content}
    output = {"model": "m", "choices": [{"message": answer}], "completion": ""}
    asked = [{"role": "user", "content": "When?"}, answer]
    sample = {"id": 1, "input": "When?", "target": "x", "messages": asked, "output": output}
    [example] = Examples([sample])
    assert example.output == ""
    assert "When?" in example.source


def test_failed_samples_of_inspect_are_left_out(tmp_path: Path) -> None:
    """Words that the data set gave the assistant are not its answer; passages are kept."""
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
                {"role": "user", "content": "Weather?"}]  # fmt: skip
    failed = {"id": "f", "input": messages, "messages": messages, "target": "",
              "output": {"choices": [], "completion": ""}, "error": {"message": "x"}}  # fmt: skip
    good = {"id": "g", "input": "Weather?", "target": "rain",
            "output": {"choices": [{}], "completion": "Rain."},
            "metadata": {"passages": ["It rains."], "level": 2}}  # fmt: skip
    path = written(tmp_path, {"eval": {}, "samples": [failed, good]})
    found = read_results("inspect", path)
    assert (found.empty, [row["id"] for row in found.rows]) == (1, ["g"])
    assert (found.rows[0]["context"], found.rows[0]["meta"]) == ("It rains.", {"level": 2})
    rows = [{**failed, "scores": {}, "epoch": 1}]
    assert "is from a failed sample" in complaint(rows)


def test_answers_of_the_harness_are_those_of_the_model(tmp_path: Path) -> None:
    """An empty one is kept; where a filter found nothing, the text is what the model said."""
    lines = [
        {"doc_id": 0, "resps": [["It is 7."]], "filtered_resps": ["[invalid]"], "filter": "strict"},
        {"doc_id": 1, "resps": [[""]], "filtered_resps": [""], "exact_match": 0.0},
        {"doc_id": 2, "resps": [["7", "8"]], "arguments": [["Q?", {}]]},
        {"doc_id": 3, "resps": [["yes", "no"]], "filtered_resps": [["yes", "no"]],
         "arguments": [["Q?", {}]], "doc": {"question": "Q?", "passage": "A fact."}},
    ]  # fmt: skip
    path = written(tmp_path, "\n".join(map(json.dumps, lines)), "samples.jsonl")
    found = read_results("lm-eval", path)
    assert [row["output"] for row in found.rows] == ["It is 7.", "", "7", "8", "yes", "no"]
    assert (found.empty, found.rows[4]["context"]) == (0, "A fact.")
    assert found.rows[4]["meta"] == {"question": "Q?"}
    assert [row["group"] for row in found.rows] == ["0", "1", "2", "2", "3", "3"]


def test_what_deepeval_should_have_retrieved_is_not_a_passage(tmp_path: Path) -> None:
    """Called tools and metadata are kept; without retrieval, `context` is what there is."""
    case = {"name": "a", "input": "Q?", "actualOutput": "A.", "context": ["Ideal."],
            "toolsCalled": [{"name": "find", "inputParameters": {"q": 1}}],
            "expectedTools": [{"name": "look"}],
            "additionalMetadata": {"level": 2}}  # fmt: skip
    alone = {"name": "c", "actualOutput": "A.", "customColumnKeyValues": {"passages": ["Own."]},
             "additionalMetadata": None, "metadata": {"level": 3}}  # fmt: skip
    cases = [{**case, "retrievalContext": ["Got."]}, {**case, "name": "b"}, alone]
    first, second, third = Examples(
        read_results("deepeval", written(tmp_path, {"testCases": cases})).rows
    )
    assert (first.context, second.context, third.context) == ("Got.", "Ideal.", "Own.")
    assert third.meta == {"level": 3}
    assert first.meta == {
        "expected_tools": [{"name": "look"}], "expected_context": ["Ideal."], "level": 2,
    }  # fmt: skip
    assert "find(" in str(first.source)


@pytest.mark.parametrize("name", ["goldens.json", "goldens.jsonl", "goldens.csv"])
def test_a_golden_without_an_answer_is_refused_in_every_format(tmp_path: Path, name: str) -> None:
    golden = {"input": "Q?", "actual_output": None, "retrieval_context": "x"}
    content = "input,actual_output,retrieval_context\nQ?,,x\n"
    if name.endswith("json"):
        content = json.dumps([golden])
    elif name.endswith("jsonl"):
        content = json.dumps(golden) + "\n"
    assert "the golden has no answer yet" in complaint(written(tmp_path, content, name))
    rows = [{**golden, "actual_output": ""}]
    assert [one.output for one in Examples(rows, fields={"actual_output": "output"})] == [""]


def test_evaluations_of_other_tools_are_read_as_rows(tmp_path: Path) -> None:
    """Phoenix, MLflow and pydantic-evals, with their scores as metrics."""
    phoenix = {"input": "Q?", "output": "A.", "reference": "R.", "ok_execution_details": {"s": 1},
               "ok_score": {"name": "ok", "score": 0.5, "explanation": "x"}}  # fmt: skip
    mlflow = {"trace_id": "t1", "trace": "{}", "request": '{"question": "Q?", "context": "F."}',
              "response": "A.", "ok/value": 0.5, "ok/rationale": "x",
              "expected_response/value": "R."}  # fmt: skip
    case = {"name": "c1", "inputs": {"question": "Q?", "context": "F."}, "output": "A.",
            "expected_output": "R.", "metadata": None, "labels": {},
            "scores": {"ok": {"name": "ok", "value": 0.5, "reason": None}},
            "assertions": {"is": {"value": True}}, "metrics": {"cost": 2}}  # fmt: skip
    report = written(tmp_path, {"name": "r", "cases": [case]})
    for source in ([phoenix], [mlflow], report):
        (example,) = Examples(source)
        assert (example.source, example.output, example.references) == ("Q?", "A.", ("R.",))
        assert example.metrics["ok"] == 0.5
        assert example.context in (None, "F.")
    assert example.metrics == {"ok": 0.5, "is": 1.0, "cost": 2.0}


def test_texts_of_mlflow_may_be_json_and_an_expected_number_is_no_score() -> None:
    trace = {"trace_id": "t1", "trace": "{}", "request": '"Q?"', "response": '"In 1967."',
             "expected_response/value": "1967", "ok/value": "yes"}  # fmt: skip
    (example,) = Examples([trace])
    assert (example.source, example.output, example.references) == ("Q?", "In 1967.", ("1967",))
    assert example.metrics == {"ok": 1.0}


def test_traces_of_mlflow_have_assessments_by_judges_and_people(tmp_path: Path) -> None:
    """As `search_traces` returns them, also in a CSV file, where a cell holds them as Python does.

    Raters keep their names, replaced assessments do not count, and all are kept.
    """

    def assessment(name: str, value: Any, rater: str = "", **more: Any) -> dict[str, Any]:
        source = {"source_type": "HUMAN" if rater else "LLM_JUDGE", "source_id": rater or "m"}
        return {"assessment_name": name, "source": source, "feedback": {"value": value}, **more}

    truth = {"assessment_name": "expected_response", "source": {"source_type": "HUMAN"},
             "expectation": {"value": "1967"}}  # fmt: skip
    assessments = [
        [
            assessment("ok", "yes"),
            assessment("ok", 4, "ann"),
            assessment("ok", 1, "bob@x.org", valid=False),
            truth,
        ],
        [
            assessment("ok", "no"),
            assessment("ok", 3, "bob@x.org"),
            assessment("note", "why not?", "ann"),
        ],
        [],
    ]
    chat = {"messages": [{"role": "user", "content": "When?"}]}
    answer = {"choices": [{"message": {"role": "assistant", "content": "In 1967."}}]}
    rows = [
        {"trace_id": f"t{at}", "trace": "{}", "request": json.dumps(chat),
         "response": json.dumps(answer), "assessments": own}
        for at, own in enumerate(assessments)
    ]  # fmt: skip
    path = tmp_path / "traces.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for source in (rows, path):
        examples = Examples(source)
        first, second, third = examples
        assert (first.output, first.references) == ("In 1967.", ("1967",))
        assert str(first.source).endswith("user: When?")
        assert [one.metrics for one in (first, second, third)] == [{"ok": 1.0}, {"ok": 0.0}, {}]
        assert (first.annotators, second.annotators) == ({"ok": (4.0,)}, {"ok": (None, 3.0)})
        assert examples.rater_names("ok") == ("ann", "bob@x_org")
        assert len(first.meta["assessments"]) == 4


def test_assessments_of_another_form_are_left_out_and_other_tables_keep_their_columns() -> None:
    """A table with `trace_id`, `request` and `response` alone may be anybody's."""
    trace = {"trace_id": "t", "request": '"When?"', "response": '"In 1967."'}
    unusable = ("good", ["good", 4, None], [{"feedback": {"value": 4}}], 4, None)
    rows = [trace | {"trace_id": f"t{at}", "assessments": a} for at, a in enumerate(unusable)]
    assert [example.output for example in Examples(rows)] == ["In 1967."] * len(rows)
    for choices in ([None], "abc"):
        row = trace | {"assessments": [], "response": json.dumps({"choices": choices})}
        assert Examples([row]).check().count == 1
    rated = trace | {"output": "In 1967.", "human.quality": 4, "system": "a"}
    (example,) = Examples([rated])
    assert (example.human, example.system) == ({"quality": 4.0}, "a")


@pytest.mark.parametrize("write", [str, json.dumps])
def test_requests_and_responses_of_mlflow_in_cells(write: Any) -> None:
    message = {"role": "user", "content": "Q?"}
    answer = {"choices": [{"message": {"role": "assistant", "content": "In 1967."}}]}
    row = {
        "request": write({"messages": [message]}),
        "response": write(answer),
        "assessments": "[]",
    }
    (example,) = Examples([{"trace_id": "t", **row}])
    assert (example.messages[0].content, example.output) == ("Q?", "In 1967.")


@pytest.mark.parametrize("written", [str, json.dumps])
def test_scores_of_phoenix_in_cells_are_read(tmp_path: Path, written: Callable[..., str]) -> None:
    path = tmp_path / "evaluated.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["input", "output", "ok_execution_details", "ok_score"])
        score = {"name": "ok", "score": 0.5, "label": None}
        writer.writerow(["Q?", "A.", written({"status": "COMPLETED"}), written(score)])
    (example,) = Examples(path)
    assert (example.metrics, example.meta["ok"]["name"]) == ({"ok": 0.5}, "ok")


def test_scores_with_one_name_are_all_kept(tmp_path: Path) -> None:
    """Two assertions of a kind, two metrics of a name; promptfoo sums up a name of its user's."""
    summary = promptfoo({"output": "x"})
    (one,) = summary["results"]["results"]
    parts = [("llm-rubric", 1, None), ("llm-rubric", 0, None), ("contains", 0.5, "own")]
    one["gradingResult"] = {"componentResults": [
        {"score": score, "assertion": {"type": kind, **({"metric": metric} if metric else {})}}
        for kind, score, metric in parts
    ]}  # fmt: skip
    one |= {"score": 0.5, "namedScores": {"own": 0.7}}
    (row,) = read_results("promptfoo", written(tmp_path, summary)).rows
    assert row["metrics"] == {"score": 0.5, "llm-rubric": 1, "llm-rubric 2": 0, "own": 0.7}
    scores = (("Tone", 0.9), ("Tone", 0.1), ("Tone 2", 0.3))
    metrics = [{"name": name, "score": score} for name, score in scores]
    case = {"name": "a", "input": "Q?", "actualOutput": "A.", "metricsData": metrics}
    (row,) = read_results("deepeval", written(tmp_path, {"testCases": [case]})).rows
    assert row["metrics"] == {"Tone": 0.9, "Tone 2": 0.1, "Tone 2 2": 0.3}


def test_repeated_tests_without_variables_are_one_group_by_their_prompt(tmp_path: Path) -> None:
    summary = promptfoo(*[{"output": f"x{n}"} for n in range(6)])
    for at, one in enumerate(summary["results"]["results"]):
        # two prompts in each test; the third test repeats the first
        one |= {"testIdx": at // 2, "promptIdx": at % 2, "vars": {},
                "prompt": {"raw": f"Question {at // 2 % 2}, prompt {at % 2}?"}}  # fmt: skip
    rows = read_results("promptfoo", written(tmp_path, summary)).rows
    assert [row["group"] for row in rows] == ["0", "0", "1", "1", "0", "0"]


def test_prompts_that_are_chats_are_messages(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "When?"}]
    summary = promptfoo({"output": "In 1967."})
    summary["results"]["results"][0]["prompt"] = {"raw": json.dumps(chat)}
    asked = {"arg_0": json.dumps(chat), "arg_1": {}}
    line = {"doc_id": 0, "arguments": {"gen_args_0": asked}, "resps": [["In 1967."]]}
    for form, content in (("promptfoo", summary), ("lm-eval", json.dumps(line))):
        (example,) = Examples(read_results(form, written(tmp_path, content)).rows)
        assert "[system] Be brief." in str(example.source)
        assert "user: When?" in str(example.source)


def test_an_answer_of_inspect_that_is_a_call_is_its_text(tmp_path: Path) -> None:
    """Scores other than numbers are kept in `meta`; pass and fail are 1 and 0."""
    call = {"id": "1", "function": "find", "arguments": {"q": "cup"}}
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    sample = {"id": 1, "epoch": 1, "input": "When?", "target": "1967",
              "messages": [{"role": "user", "content": "When?"}, called],
              "output": {"model": "m", "choices": [{"message": called}], "completion": ""},
              "scores": {"a": {"value": "PASS"}, "b": {"value": ["C", "I"]}}}  # fmt: skip
    (row,) = read_results("inspect", written(tmp_path, {"eval": {}, "samples": [sample]})).rows
    assert row["output"] == 'find({"q": "cup"})'
    assert (row["metrics"], row["meta"]) == ({"a": 1.0}, {"scores": {"b": ["C", "I"]}})
    (read,) = Examples([sample])
    assert (read.output, read.metrics) == (row["output"], row["metrics"])
    assert read.meta["scores"] == {"b": ["C", "I"]}


@pytest.mark.parametrize(("documents", "passages"), [
    ([{"pageContent": "It was."}], 1), ([{"text": "It was."}, "It rained."], 2),
    ([{"unknown": 1}], 0),
])  # fmt: skip
def test_variables_with_passages_of_unknown_form_are_kept_in_meta(
    tmp_path: Path, documents: list[Any], passages: int
) -> None:
    summary = promptfoo({"output": "x"})
    summary["results"]["results"][0]["vars"] = {"documents": documents}
    (example,) = Examples(read_results("promptfoo", written(tmp_path, summary)).rows)
    assert len(example.passages) == passages
    assert example.meta == ({} if passages else {"documents": documents})


def test_reports_of_pydantic_evals_are_imported_and_failures_are_counted(tmp_path: Path) -> None:
    case = {"name": "c1", "inputs": "Q?", "output": {"answer": "A."}, "expected_output": None,
            "metadata": None, "labels": {}, "metrics": {}, "assertions": {"is": {"value": True}},
            "attributes": {"route": "a"},
            "scores": {"ok": {"name": "ok", "value": 0.5}}}  # fmt: skip
    report = {"name": "r", "cases": [case], "failures": [{"name": "c2", "error_message": "x"}]}
    found = read_results("pydantic-evals", written(tmp_path, report))
    (row,) = found.rows
    assert (row["output"], row["source"], found.empty) == ('{"answer": "A."}', "Q?", 1)
    assert row["metrics"] == {"ok": 0.5, "is": 1.0}
    assert row["meta"] == {"attributes": {"route": "a"}}


@pytest.mark.parametrize("form", ["inspect", "promptfoo", "deepeval", "pydantic-evals"])
def test_a_list_in_the_place_of_a_report_is_refused_in_words(tmp_path: Path, form: str) -> None:
    with pytest.raises(DataError, match=f"is a JSON list; {form} writes one object"):
        read_results(form, written(tmp_path, [{"a": 1}]))


def test_a_file_that_is_not_json_is_refused_in_words(tmp_path: Path) -> None:
    """promptfoo also writes CSV and YAML."""
    path = written(tmp_path, "q,[openai:m] Q\nx,[PASS] plain\n", "results.csv")
    with pytest.raises(DataError, match=r"is not JSON .*; give the JSON that promptfoo writes"):
        read_results("promptfoo", path)
