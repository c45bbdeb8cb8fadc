"""Data sets: what is said of a bad row, a bad file and a bad field map."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.runtime.data.rows import ROWS, complaint, lines, saved
from textassay.runtime.messages import Example

BAD_LINES = {
    '{"output": "x"': "line 2: broken JSON: ",
    "[1, 2]": "line 2: is a list, not an object with fields",
    "3": "line 2: is a number, not an object with fields",
    '{"source": "x"}': "line 2, field 'output': is missing; fields: source; rename one to "
    "'output', or map it",
    '{"output": null}': "line 2, field 'output': is missing",
    '{"summary": 3}': "line 2, field 'summary': should be text, not 3",
    '{"output": ["x"]}': "line 2, field 'output': should be text, not ['x']",
    '{"output": "x", "human": {"c": "good"}}': "line 2, field 'human.c': should be a number, not "
    "'good'",
    '{"output": "x", "human.c": "3"}': "line 2, field 'human.c': should be a number, not '3'",
    '{"output": "x", "human": 3}': "line 2, field 'human': should be an object with names and "
    "values, not 3",
    '{"output": "x", "human": {"c": 3}, "human.c": 3}': "line 2, field 'human.c': is in 'human' as "
    "well",
    '{"output": "x", "human": {"c": NaN}}': "line 2, field 'human.c': nan is not a finite number; "
    "use null",
    '{"output": "x", "metrics": {"c": -Infinity}}': "line 2, field 'metrics.c': -inf is not a "
    "finite number",
    '{"output": "x", "other": [0, 1e999]}': "line 2, field 'other.1': inf is not a finite number",
    '{"output": "x \\ud800"}': "line 2, field 'output': contains \\ud800 at character 2, half of a "
    "surrogate pair",
    '{"output": "x", "a": {"\\udc00": 1}}': "line 2, field 'a.\\udc00': contains \\udc00 at "
    "character 0",
    '{"output": "x", "annotators": {"c": 3}}': "line 2, field 'annotators.c': should be a list, "
    "not 3",
    '{"output": "x", "annotators": {"c": [3, "y"]}}': "line 2, field 'annotators.c.1': should be a "
    "number, not 'y'",
    '{"output": "x", "reference": [3]}': "line 2, field 'reference.0': should be text, not 3",
    '{"output": "x", "id": ""}': "line 2, field 'id': should not be empty",
    '{"output": "x", "id": 1.5}': "line 2, field 'id': should be text, not 1.5",
    "[" * 2000: "line 2: broken JSON: ",
}


@pytest.mark.parametrize(("line", "shown"), BAD_LINES.items())
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: str, shown: str) -> None:
    """File, line, field, and what is wrong, in one short message."""
    path = saved(tmp_path, f'{{"id": "ok", "output": "fine"}}\n{line}\n')
    message = complaint(path)
    assert message.startswith(f"{path}, {shown}")
    assert len(message) < len(str(path)) + 300


def test_bytes_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    """Latin-1 files are told apart from broken JSON, in lines and in cells."""
    assert complaint(saved(tmp_path, '{"output": "Käse"}\n'.encode("latin-1"))).endswith(
        "line 1: is not UTF-8 (byte 0xe4 at column 14); save the file as UTF-8"
    )
    assert "line 3: is not UTF-8" in complaint(
        saved(tmp_path, "output\nx\nKäse\n".encode("latin-1"), "data.csv")
    )


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (
            "output,human.c\nx,good\n",
            "line 2, field 'human.c': should be a number or empty, not 'good'",
        ),
        (
            "output,human.c\nx,nan\n",
            "line 2, field 'human.c': should be a finite number or empty, not 'nan'",
        ),
        ('output,human.c\n"a\nb",3\nx,inf\n', "line 4, field 'human.c': should be a finite number"),
        ("output,human\nx,{\n", "line 2, field 'human': should be JSON"),
        (
            "output,b\nx,y,z\n",
            "line 2: has 3 cells, but the header has 2; quote cells that contain ','",
        ),
        ("output,output\nx,y\n", "two columns are called 'output'"),
        ('output,b\n\nx,"y\n', "line 3: broken CSV: unexpected end of data"),
        ("output\n", "contains no examples"),
        ("", "contains no examples"),
    ],
)
def test_a_bad_csv_file_is_named_with_its_line(tmp_path: Path, content: str, shown: str) -> None:
    """Rows are named by the line they start on."""
    assert shown in complaint(saved(tmp_path, content, "data.csv"))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ([], "list: contains no examples"),
        ([3], "list, row 1: is a number, not an object with fields"),
        (["text"], "list, row 1: is text, not an object with fields"),
        (
            [{"output": "x", "human": {"c": float("inf")}}],
            "row 1, field 'human': should be a finite number",
        ),
        (
            [{"output": "x", "blob": b"1"}],
            "row 1, field 'blob': contains bytes, which JSON cannot hold",
        ),
        (
            [{"output": "x", "big": 2**70}],
            "row 1, field 'big': contains a number of more than 64 bits",
        ),
        ([{"output": "\ud800"}], "row 1, field 'output': contains \\ud800 at character 0"),
        (
            [Example(output="\ud800", id="a")],
            "row 1, field 'output': contains \\ud800 at character 0",
        ),
        (
            [Example(output="x", meta={"k": float("nan")})],
            "row 1, field 'meta': should be a finite number",
        ),
        ([{3: "x"}], "row 1: has the field name 3, which is not text"),
        ({"test": [], "train": []}, "or one of its entries ('test', 'train')"),
        (
            Example(output="x"),
            "Example contains no rows; give a path, a table, or a list of examples",
        ),
        (3, "int contains no rows"),
        (
            pd.DataFrame([["x", "y"]], columns=["output", "output"]),
            "two columns are called 'output'",
        ),
        (pd.DataFrame({"output": []}), "DataFrame: contains no examples"),
        (pd.DataFrame({"output": ["x", None]}), "DataFrame, row 2, field 'output': is missing"),
    ],
)
def test_what_holds_no_examples_is_refused(source: Any, shown: str) -> None:
    """Tables and lists are named by their type, rows counted from 1."""
    assert shown in complaint(source)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """The message says what to do."""
    saved(tmp_path, "")
    assert complaint(tmp_path) == f"{tmp_path}: is a folder; name a file in it, such as data.jsonl"
    assert "there is no such file" in complaint(tmp_path / "missing.jsonl")
    assert "there is no such file" in complaint("no\0where.jsonl")
    assert "cannot be read" in complaint("x" * 5000 + ".jsonl")
    assert "contains no examples" in complaint(saved(tmp_path, "[]", "data.json"))
    assert "unknown format" in complaint(saved(tmp_path, "", "data.ods"))
    assert "jq -c '.[]'" in complaint(saved(tmp_path, '[\n{"output": "x"}\n]'))
    assert "jq -c ." in complaint(saved(tmp_path, '{\n"output": "x"\n}'))
    assert "contains no examples" in complaint(saved(tmp_path, "\n\n"))
    assert "cannot be read as parquet" in complaint(saved(tmp_path, "PAR?", "data.parquet"))


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    """A torn archive is no shorter data set."""
    whole = gzip.compress(lines(*({"output": os.urandom(50).hex()} for _ in range(100))).encode())
    assert "damaged gzip after line" in complaint(saved(tmp_path, whole[:-200], "data.jsonl.gz"))
    assert "damaged gzip after line 0" in complaint(saved(tmp_path, lines(*ROWS), "data.jsonl.gz"))


def test_equal_ids_are_refused_with_both_lines(tmp_path: Path) -> None:
    """Blank lines count; the first repeat is told."""
    path = saved(
        tmp_path,
        '{"id": "a", "output": "1"}\n\n{"id": "b", "output": "2"}\n{"id": "a", "output": "3"}\n'
        * 2,
    )
    assert complaint(path) == f"{path}, lines 1 and 4, field 'id': both are 'a'; ids must be unique"


@pytest.mark.parametrize(
    "row", [{"output": "x", "source": "s", "references": ["r"]}, {"output": "x"}]
)
def test_equal_content_without_ids_is_refused(row: dict[str, Any]) -> None:
    """The message says that the rows are the same, not that ids nobody gave are."""
    shown = (
        "list, rows 1 and 2: have no ids and equal content; give each row an 'id', or keep one "
        "of them"
    )
    assert complaint([row, row]) == shown
    assert complaint([Example(**row), Example(**row)]) == shown


def test_field_maps_that_lead_nowhere_are_refused() -> None:
    """A field that does not exist, one that no row has, and a map the wrong way round."""
    assert "'a' leads to 'outptu', which is not a field" in complaint(
        [{"output": "x"}], {"a": "outptu"}
    )
    assert "did you mean {'answer': 'output'}?" in complaint(
        [{"output": "x"}], {"output": "answer"}
    )
    assert "which is not a field" in complaint([{"output": "x"}], {"a": "source.b"})
    assert "no row has the field 'b' that the field map names" in complaint(
        [{"output": "x"}], {"b": "source"}
    )
