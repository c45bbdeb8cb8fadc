"""Result files of other tools, as those tools write them, become examples with metrics."""

from __future__ import annotations

import json
import os
import zipfile
import zlib

import pytest

from tests.cli.harness import textassay
from tests.runtime.data.exports import EXPORTS
from textassay.calibration import read_judged
from textassay.runtime.data import Examples
from textassay.runtime.data.results import read_results
from textassay.runtime.data.tables import MAX_LINE
from textassay.runtime.errors import DataError, UnknownName

INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {"task": "qa", "model": "openai/gpt-4.1-mini"},
    "samples": [
        {
            "id": 7,
            "epoch": epoch,
            "input": [{"role": "user", "content": [{"type": "text", "text": "Who?"}]}],
            "target": ["Ada", "Ada Lovelace"],
            "output": {
                "model": "gpt-4.1-mini",
                "choices": [{"message": {"role": "assistant", "content": answer}}],
                "completion": answer,
            },
            "scores": {
                "match": {"value": verdict, "answer": answer},
                "rubric": {"value": {"tone": 0.5, "none": None}},
            },
        }
        for epoch, answer, verdict in ((1, "Ada", "C"), (2, "Bob", "I"))
    ],
}
PROMPTFOO = {
    "evalId": "eval-1",
    "results": {
        "version": 3,
        "results": [
            {
                "testIdx": at,
                "promptIdx": 0,
                "vars": {"text": "long"},
                "prompt": {"raw": "Summarize: long", "label": "p"},
                "provider": {"id": "openai:gpt-4.1", "label": ""},
                "response": {"output": output} if output else {},
                "score": score,
                "success": score == 1,
                "namedScores": {"Tone": 0.25},
                "gradingResult": {
                    "componentResults": [
                        {"pass": True, "score": 1, "assertion": {"type": "llm-rubric"}}
                    ]
                },
            }
            for at, (output, score) in enumerate((("Short.", 1), ("Shorter.", 0.5), (None, 0)))
        ],
    },
}
DEEPEVAL = {
    "testCases": [
        {
            "name": "test_case_0",
            "input": "Who?",
            "actualOutput": "Ada",
            "expectedOutput": "Ada Lovelace",
            "retrievalContext": ["One.", "Two."],
            "metricsData": [
                {"name": "Answer Relevancy", "score": 0.75, "success": True},
                {"name": "Bias", "score": None, "error": "no answer"},
            ],
        }
    ]
}
LM_EVAL = [
    {
        "doc_id": 0,
        "doc": {"question": "2+2"},
        "target": "4",
        "arguments": {"gen_args_0": {"arg_0": "Q: 2+2\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [["4"]],
        "filtered_resps": ["4"],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": "a",
        "exact_match": 1.0,
    },
    {
        "doc_id": 1,
        "doc": {},
        "target": 1,
        "arguments": [["Sky is", " red"], ["Sky is", " blue"]],
        "resps": [[[-5.0, False]], [[-0.5, True]]],
        "filtered_resps": [[-5.0, False], [-0.5, True]],
        "acc": 1.0,
    },
]


def write(path, value, *, lines=False):
    text = "\n".join(map(json.dumps, value)) if lines else json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return path


def test_inspect_logs_in_both_of_their_formats(tmp_path):
    """Letters are numbers, epochs are texts of one group, and a dict of scores is several."""
    plain = read_results("inspect", write(tmp_path / "log.json", INSPECT))
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({**INSPECT, "samples": None}))
        for sample in INSPECT["samples"]:
            archive.writestr(f"samples/7_epoch_{sample['epoch']}.json", json.dumps(sample))
    assert read_results("inspect", tmp_path / "log.eval") == plain
    first, second = Examples(plain.rows)
    assert (first.output, first.source, first.references) == (
        "Ada",
        "Who?",
        ("Ada", "Ada Lovelace"),
    )
    assert (first.id, second.id, first.group, second.group) == ("7", "7#2", "7", "7")
    assert first.metrics == {"match": 1, "rubric.tone": 0.5}
    assert second.metrics["match"] == 0
    assert first.system == "gpt-4.1-mini"


def test_conversations_of_inspect_and_deepeval_keep_their_turns(tmp_path):
    """With calls and passages; none is left out, and what was long stands in its place."""
    log = {"eval": {}, "samples": [EXPORTS["inspect"][0]]}
    found = read_results("inspect", write(tmp_path / "log.json", log))
    (sample,) = Examples(found.rows)
    assert [text for text in EXPORTS["inspect"][1] if text not in sample.source] == []
    turns = {k: v for k, v in EXPORTS["deepeval-turns"][0].items() if k != "expected_outcome"}
    run = {
        "testCases": [
            {"name": "one", "input": "Q", "actualOutput": "A", "retrievalContext": ["P", "R"]}
        ],
        "conversationalTestCases": [
            {**turns, "name": "chat", "expectedOutcome": "Bought.", "metricsData": []}
        ],
    }
    found = read_results("deepeval", write(tmp_path / "run.json", run))
    one, chat = Examples(found.rows)
    assert (one.context, found.empty) == ("[passage 1] P\n\n[passage 2] R", 0)
    assert (chat.id, chat.output, chat.references) == ("chat", "Done: seat 14.", ("Bought.",))
    texts = EXPORTS["deepeval-turns"][1]
    assert [text for text in texts if text not in f"{chat.source}{chat.context}"] == []
    assert Examples(write(tmp_path / "run.json", run)).check().count == 2


def test_promptfoo_results(tmp_path):
    """A failed call has no text and is left out, not scored 0."""
    found = read_results("promptfoo", write(tmp_path / "results.json", PROMPTFOO))
    assert found.empty == 1
    first, _ = Examples(found.rows)
    assert (first.output, first.system, first.group) == ("Short.", "openai:gpt-4.1", "0")
    assert first.metrics == {"score": 1, "llm-rubric": 1, "Tone": 0.25}


def test_deepeval_runs_in_both_of_their_spellings(tmp_path):
    """A metric that failed has no score."""
    found = read_results("deepeval", write(tmp_path / "run.json", DEEPEVAL))
    (one,) = Examples(found.rows)
    assert (one.output, one.references) == ("Ada", ("Ada Lovelace",))
    assert one.metrics == {"Answer Relevancy": 0.75}
    case = {**DEEPEVAL["testCases"][0]}
    snake = {"name": case["name"], "input": "Who?", "actual_output": "Ada",
             "expected_output": "Ada Lovelace", "retrieval_context": ["One.", "Two."],
             "metrics_data": case["metricsData"]}  # fmt: skip
    again = read_results("deepeval", write(tmp_path / "results.json", {"test_results": [snake]}))
    assert again == found


def test_lm_eval_samples(tmp_path):
    """Generated texts as they are; of weighed choices the likeliest."""
    found = read_results("lm-eval", write(tmp_path / "samples.jsonl", LM_EVAL, lines=True))
    first, second = Examples(found.rows)
    assert (first.output, first.source, first.references) == ("4", "Q: 2+2\nA:", ("4",))
    assert (second.output, second.metrics) == (" blue", {"acc": 1})


def test_the_command_writes_what_score_and_meta_read(tmp_path):
    """And their scores can be calibrated and compared like a run's."""
    file = write(tmp_path / "results.json", PROMPTFOO)
    done = textassay("import", "promptfoo", file, "--out", tmp_path / "data.jsonl")
    assert (done.code, done.out) == (0, "")
    assert "wrote 2 examples" in done.err
    assert "1 results without a text" in done.err
    assert read_judged(tmp_path / "data.jsonl")["score"].values == {
        "0-0-openai:gpt-4.1": 1,
        "1-0-openai:gpt-4.1": 0.5,
    }


def test_a_file_of_another_format_says_so(tmp_path):
    """With the file and what is wrong."""
    file = write(tmp_path / "run.json", {"rows": 3})
    with pytest.raises(DataError, match=r"run.json: .*promptfoo"):
        read_results("promptfoo", file)
    with pytest.raises(DataError, match="contains no results of inspect"):
        read_results("inspect", file)
    with pytest.raises(UnknownName, match="inspect, promptfoo, deepeval, lm-eval"):
        read_results("ragas", file)
    with pytest.raises(DataError, match="cannot be read"):
        read_results("inspect", tmp_path / "none.json")


def sample(id_="a", output="b", **more):
    """A row of lm-eval."""
    return {**LM_EVAL[0], "doc_id": id_, "filtered_resps": [output], **more}


def archive(path, content, size=1):
    """Write an Inspect log as a zip file of equal samples."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("header.json", json.dumps({**INSPECT, "samples": None}))
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
    ("form", "write_file", "reason"),
    [
        ("lm-eval", lambda path: path.write_text(DEEP), "not a result file"),
        ("promptfoo", lambda path: path.write_text(DEEP), "not a result file"),
        ("inspect", lambda path: archive(path, DEEP), "not a result file"),
        (
            "deepeval",
            lambda path: write(path, {"testCases": [{"name": "x", "input": NESTED}]}),
            "no results|not a result file",
        ),
        ("inspect", lambda path: damaged(path, ENTRY + b"\0", ENTRY + b"\1"), "encrypted"),
        ("inspect", lambda path: damaged(path, b"\0\0\x08\0", b"\0\0\x61\0"), "compression"),
        ("inspect", lambda path: damaged(path, EMPTY, b"\xff\xff\xff\xff"), "zlib.error|: error"),
        ("inspect", lambda path: archive(path, b" " * (MAX_LINE + 1)), "a sample of more than"),
        ("inspect", lambda path: archive(path, b" " * 2**24, size=65), "far more than a log holds"),
        ("inspect", lambda path: os.mkfifo(path), "not a regular file"),
    ],
    ids=range(10),
)
def test_damaged_and_hostile_files_are_refused(tmp_path, form, write_file, reason):
    """With the file and what is wrong, whatever the parsers raise."""
    path = tmp_path / "log.json"
    write_file(path)
    with pytest.raises(DataError, match=rf"log.json: .*({reason})"):
        read_results(form, path)


def test_texts_with_line_separators_of_other_kinds_are_whole(tmp_path):
    """JSON may hold them as they are."""
    text = "one\u2028two\u0085three"
    path = tmp_path / "samples.jsonl"
    rows = [json.dumps(sample("a", text), ensure_ascii=False), json.dumps(sample("b"))]
    for start in ("", "\ufeff"):
        path.write_text(start + "\r\n".join(rows), encoding="utf-8")
        outputs = [row["output"] for row in read_results("lm-eval", path).rows]
        assert outputs == [text, "b"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_of_other_encodings_are_read(tmp_path, encoding):
    """As JSON says how to tell them."""
    path = tmp_path / "log.json"
    path.write_text(json.dumps(INSPECT), encoding=encoding)
    assert len(read_results("inspect", path).rows) == 2


def test_a_score_that_is_no_number_of_ours_is_none(tmp_path):
    """Beside the others of its text."""
    rows = [sample(metrics=["exact_match", "f1"], exact_match=10**400, f1=0.5)]
    path = write(tmp_path / "samples.jsonl", rows, lines=True)
    [row] = read_results("lm-eval", path).rows
    assert row["metrics"] == {"f1": 0.5}


def test_ids_are_numbered_around_those_that_exist(tmp_path):
    """The number must not make it equal to another."""
    rows = [sample("a"), sample("a"), sample("a~2"), sample("a")]
    path = write(tmp_path / "samples.jsonl", rows, lines=True)
    ids = [row["id"] for row in read_results("lm-eval", path).rows]
    assert ids == ["a", "a~3", "a~2", "a~4"]
