"""Data sets: what is read from where, what fields mean, and what a bad row is told."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import time
import tracemalloc
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime.data.dataset import Examples, read_examples
from textassay.runtime.data.formats import MAX_BLANK_LINES, MAX_LINE
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example

DATA = Path(os.environ.get("TEXTASSAY_DATA") or Path(__file__).parents[3] / "shared" / "data")

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "output": "one",
        "source": "s",
        "references": ["r", "q"],
        "system": "M0",
        "group": "g",
        "human": {"c": 3},
    },
    {
        "id": "b",
        "output": "",
        "human": {"c": None, "f": 2.5},
        "metrics": {"rouge1": 0.35},
        "extra": [1, {"x": None}],
    },
    {
        "id": "c",
        "output": 'drei\nZeilen, mit "allem" ä 🙂',
        "annotators": {"c": [3, None, 2]},
        "context": "k",
    },
]


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def saved(folder: Path, content: str | bytes, name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(source: Any, **fields: str) -> list[Example]:
    return list(read_examples(source, fields=fields or None))


def complaint(source: Any, fields: dict[str, str] | None = None) -> str:
    with pytest.raises(DataError) as caught:
        read_examples(source, fields=fields).check()
    return str(caught.value)


# what comes out


def test_a_line_is_an_example(tmp_path: Path) -> None:
    """All fields arrive; what is unknown is kept in meta."""
    first, second, third = read(saved(tmp_path, lines(*ROWS)))
    assert first == Example(
        id="a",
        output="one",
        source="s",
        references=("r", "q"),
        system="M0",
        group="g",
        human={"c": 3.0},
    )
    assert second.human == {"c": None, "f": 2.5}
    assert second.meta == {"extra": [1, {"x": None}]}
    assert (third.output, third.annotators, third.context) == (
        ROWS[2]["output"],
        {"c": (3.0, None, 2.0)},
        "k",
    )


def test_check_tells_what_is_there(tmp_path: Path) -> None:
    """Counts by field, aspect and metric."""
    info = Examples(saved(tmp_path, lines(*ROWS))).check()
    assert (info.count, info.human, info.metrics) == (3, {"c": 2, "f": 1}, {"rouge1": 1})
    assert info.present == {"source": 1, "context": 1, "references": 1, "system": 1, "group": 1}
    assert (info.has_groups, info.has_systems, len(info.digest)) == (True, True, 64)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"output": st.text()},
            optional={
                "source": st.none() | st.text(),
                "references": st.lists(st.text()),
                "human": st.dictionaries(
                    st.text(), st.none() | st.floats(allow_nan=False, allow_infinity=False)
                ),
                "other": st.recursive(
                    st.none() | st.booleans() | st.text(), st.lists, max_leaves=5
                ),
            },
        ),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_written_is_read(rows: list[dict[str, Any]]) -> None:
    """Rows in memory, and the examples made of them, give the same examples and the same digest
    again."""
    numbered = [{"id": str(i), **row} for i, row in enumerate(rows)]
    once = Examples(numbered)
    again = Examples(list(once))
    dumped = Examples([example.model_dump() for example in once])
    assert list(once) == list(again) == list(dumped)
    assert once.check().digest == again.check().digest == dumped.check().digest


def all_formats(folder: Path) -> Iterator[tuple[str, Any]]:
    flat: list[dict[str, Any]] = [
        {"id": "a", "output": "one", "source": "s", "system": 1, "human.c": 3, "metrics.m": 0.5},
        {
            "id": "b",
            "output": "two\nlines",
            "source": None,
            "system": 2,
            "human.c": None,
            "metrics.m": 1e-3,
        },
    ]
    nested: list[dict[str, Any]] = [
        {
            "id": "a",
            "output": "one",
            "source": "s",
            "system": "1",
            "human": {"c": 3.0},
            "metrics": {"m": 0.5},
        },
        {"id": "b", "output": "two\nlines", "system": "2", "metrics": {"m": 0.001}},
    ]
    text = lines(*nested)
    frame = pd.DataFrame(flat)
    buffer = io.StringIO()
    frame.to_csv(buffer, index=False)
    frame.to_parquet(folder / "data.parquet")
    yield "jsonl", saved(folder, text)
    yield "str path", str(folder / "data.jsonl")
    yield (
        "jsonl with BOM, CRLF and blank lines",
        saved(
            folder, b"\xef\xbb\xbf" + text.replace("\n", "\r\n\r\n  \r\n").encode(), "bom.ndjson"
        ),
    )
    yield "no newline at the end", saved(folder, text.rstrip(), "torn.jsonl")
    yield "gzip", saved(folder, gzip.compress(text.encode()), "data.jsonl.gz")
    yield "csv", saved(folder, buffer.getvalue(), "data.csv")
    yield (
        "csv as Excel saves it",
        saved(folder, b"\xef\xbb\xbf" + buffer.getvalue().encode(), "excel.CSV"),
    )
    yield "csv.gz", saved(folder, gzip.compress(buffer.getvalue().encode()), "data.csv.gz")
    yield "tsv", saved(folder, frame.to_csv(index=False, sep="\t"), "data.tsv")
    yield "parquet", folder / "data.parquet"
    yield "pandas", frame
    yield "pandas records", frame.to_dict("records")
    yield "pandas of objects", frame.astype(object)
    yield "pandas of nullable types", frame.convert_dtypes()
    yield "arrow", pa.Table.from_pylist(flat)
    yield "arrow of structs", pa.Table.from_pylist(nested)
    yield "polars", PolarsLike(flat)
    yield "data set", HuggingFaceLike(nested)
    yield "dicts", flat
    yield "examples", [Example(**row) for row in nested]
    yield "tuple", tuple(nested)
    yield "generator", (row for row in nested)


class PolarsLike:
    """Has what is used of a polars data frame."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows, self.columns = rows, list(rows[0])

    def iter_rows(self, *, named: bool = False) -> Iterator[Any]:
        return iter(self._rows) if named else (tuple(row.values()) for row in self._rows)


class HuggingFaceLike:
    """Has what is used of a data set of the `datasets` library, which is no list."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows, self.column_names = rows, list(rows[0])

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


def test_all_formats_say_the_same(tmp_path: Path) -> None:
    """Equal data in any format give equal examples and one digest, as often as they are
    iterated."""
    wanted = None
    for name, source in all_formats(tmp_path):
        examples = Examples(source)
        found = list(examples)
        rated = [
            (
                e.id,
                e.output,
                e.source,
                e.system,
                {k: v for k, v in e.human.items() if v is not None},
            )
            for e in found
        ]
        assert rated == [("a", "one", "s", "1", {"c": 3.0}), ("b", "two\nlines", None, "2", {})], (
            name
        )
        assert list(examples) == found, name
        wanted = wanted or examples.check().digest
        assert examples.check().digest == wanted, name


def test_the_digest_depends_on_content_and_order(tmp_path: Path) -> None:
    """Order of keys and spelling of numbers do not matter; a changed text, rating or order does."""
    base = (
        Examples(
            [{"id": "a", "output": "x", "human": {"c": 3, "d": 1}}, {"id": "b", "output": "y"}]
        )
        .check()
        .digest
    )
    same: list[dict[str, Any]] = [
        {"human": {"d": 1.0, "c": 3.0}, "output": "x", "id": "a"},
        {"output": "y", "id": "b", "source": None},
    ]
    assert Examples(same).check().digest == base
    assert Examples(same[::-1]).check().digest != base
    assert Examples([{**same[0], "human": {"d": 1, "c": 2}}, same[1]]).check().digest != base


def test_an_id_is_made_of_the_content(tmp_path: Path) -> None:
    """Rows without ids get the same id in any format, and the same as an `Example` of their
    texts."""
    expected = Example(output="x", references=("r",)).id
    assert read([{"output": "x", "references": ["r"]}])[0].id == expected
    assert read([{"output": "x", "reference": "r"}])[0].id == expected
    assert read(saved(tmp_path, "response,reference\nx,r\n", "data.csv"))[0].id == expected


def test_a_five_megabyte_text_and_an_empty_one_are_data(tmp_path: Path) -> None:
    """Length is no error, in lines and in cells."""
    long = "word " * 1_000_000
    assert [
        len(e.output) for e in read(saved(tmp_path, lines({"output": long}, {"output": ""})))
    ] == [5_000_000, 0]
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "output"], ["a", long], ["b", ""]])
    assert [len(e.output) for e in read(path)] == [5_000_000, 0]


@pytest.mark.parametrize(
    "name", ["summeval", "topical_chat", "sfres", "bagel", "realsumm", "newsroom", "openmeva"]
)
def test_benchmark_data_are_read(name: str) -> None:
    """Every row of the published data has human ratings, a group and a system."""
    paths = list((DATA / name).glob(f"{name}.jsonl*"))
    if not paths:
        pytest.skip(f"no benchmark data in {DATA}; set TEXTASSAY_DATA")
    info = Examples(paths[0]).check()
    assert set(info.human.values()) == {info.count}
    assert info.present["group"] == info.present["system"] == info.count


# what fields mean


@pytest.mark.parametrize(
    "alias", ["response", "hypothesis", "summary", "prediction", "actual_output", "system_output"]
)
def test_aliases_of_the_output(alias: str) -> None:
    """Names of other tools are understood."""
    assert read([{alias: "x"}])[0].output == "x"


@pytest.mark.parametrize("alias", ["document", "input", "article", "question", "prompt"])
def test_aliases_of_the_source(alias: str) -> None:
    """Names of other tools are understood."""
    assert read([{"output": "x", alias: "s"}])[0].source == "s"


@pytest.mark.parametrize(
    "alias", ["reference", "expected", "expected_output", "target", "ground_truth"]
)
@pytest.mark.parametrize(
    ("value", "wanted"), [("r", ("r",)), (["r", "q"], ("r", "q")), (None, ()), ([], ())]
)
def test_aliases_of_the_references(alias: str, value: Any, wanted: tuple[str, ...]) -> None:
    """One text and a list of texts are both fine."""
    assert read([{"output": "x", alias: value}])[0].references == wanted


def test_a_field_map_goes_before_names_and_aliases() -> None:
    """What the map does not want as the output is kept in meta, and so is what it sends there."""
    row = {"output": "old", "answer": "new", "coh": 2, "input": "i", "reference": "r"}
    fields = {
        "answer": "output",
        "coh": "human.coherence",
        "input": "meta",
        "reference": "meta.gold",
    }
    (example,) = read([row], **fields)
    assert (example.output, example.human, example.source) == ("new", {"coherence": 2.0}, None)
    assert example.meta == {"output": "old", "input": "i", "gold": "r"}


def test_our_own_name_goes_before_an_alias() -> None:
    """The alias is kept in meta."""
    (example,) = read([{"summary": "s", "output": "o", "references": ["r"], "reference": "q"}])
    assert (example.output, example.references, example.meta) == (
        "o",
        ("r",),
        {"summary": "s", "reference": "q"},
    )


def test_two_aliases_need_a_decision() -> None:
    """Neither is taken by guess; the map decides, and the other goes to meta."""
    rows = [{"response": "r", "summary": "s"}]
    assert complaint(rows) == (
        "list, row 1, field 'summary': means 'output', and so does 'response'; "
        "rename one, or choose one with the field map"
    )
    (example,) = read(rows, summary="output")
    assert (example.output, example.meta) == ("s", {"response": "r"})


def test_numbers_as_names_become_text() -> None:
    """Ids, groups and systems may be whole numbers."""
    (example,) = read([{"id": 7, "output": "x", "group": np.int64(3), "system": 2.0}])
    assert (example.id, example.group, example.system) == ("7", "3", "2")


def test_values_from_memory_become_what_json_holds() -> None:
    """Numpy and pandas values, dates and decimals are converted; NaN, NaT and NA are missing."""
    row = {
        "output": "x",
        "human.a": np.float32(1.5),
        "human.b": float("nan"),
        "human.c": pd.NA,
        "human.d": Decimal("2.5"),
        "annotators": {"a": np.array([1, 2])},
        "when": pd.NaT,
        "day": date(2024, 5, 1),
        "list": np.array(["a", "b"], dtype=object),
        "source": float("nan"),
    }
    (example,) = read([row])
    assert (example.human, example.annotators) == ({"a": 1.5, "d": 2.5}, {"a": (1.0, 2.0)})
    assert example.meta == {"when": None, "day": "2024-05-01", "list": ["a", "b"]}
    assert example.source is None


def test_cells_of_a_csv_file_are_read_as_what_their_column_is(tmp_path: Path) -> None:
    """Numbers in `human.` and `metrics.`, lists in references and annotators, text in the rest;
    empty is missing."""
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "output",
                "references",
                "human.c",
                "human.f",
                "annotators.c",
                "metrics.m",
                "note",
                "id",
                "human",
            ]
        )
        writer.writerow(["1", '["r", "q"]', "3", "", "[1, null]", " 0.5 ", "4", "", '{"g": 2}'])
        writer.writerow(["2", "[1] says so", "", "", "", "1e-3", "", "7", ""])
    first, second = read(path)
    assert (first.output, first.references, first.meta) == ("1", ("r", "q"), {"note": "4"})
    assert (first.human, first.annotators, first.metrics) == (
        {"c": 3.0, "g": 2.0},
        {"c": (1.0, None)},
        {"m": 0.5},
    )
    assert (second.id, second.references, second.human, second.meta) == (
        "7",
        ("[1] says so",),
        {},
        {"note": ""},
    )


def test_the_callers_rows_are_left_alone() -> None:
    """Merging columns into `human` changes no dict of the caller."""
    row = {"output": "x", "human": {"a": 1}, "human.b": 2, "meta": {"k": 1}, "other": 3}
    before = json.dumps(row)
    assert read([row])[0].human == {"a": 1.0, "b": 2.0}
    assert json.dumps(row) == before


# what a bad row is told

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
    '{"output": "x", "human": {"c": true}}': "line 2, field 'human.c': should be a number, not "
    "True",
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


@pytest.mark.parametrize(("line", "told"), BAD_LINES.items())
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: str, told: str) -> None:
    """File, line, field, and what is wrong, in one short message."""
    path = saved(tmp_path, f'{{"id": "ok", "output": "fine"}}\n{line}\n')
    message = complaint(path)
    assert message.startswith(f"{path}, {told}")
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
    ("content", "told"),
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
        ("a;b\nx;y\n", "cells seem to be separated by semicolons"),
        ("output\n", "contains no examples"),
        ("", "contains no examples"),
    ],
)
def test_a_bad_csv_file_is_named_with_its_line(tmp_path: Path, content: str, told: str) -> None:
    """Rows are named by the line they start on."""
    assert told in complaint(saved(tmp_path, content, "data.csv"))


@pytest.mark.parametrize(
    ("source", "told"),
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
def test_what_holds_no_examples_is_refused(source: Any, told: str) -> None:
    """Tables and lists are named by their type, rows counted from 1."""
    assert told in complaint(source)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """The message says what to do."""
    saved(tmp_path, "")
    assert complaint(tmp_path) == f"{tmp_path}: is a folder; name a file in it, such as data.jsonl"
    assert "there is no such file" in complaint(tmp_path / "missing.jsonl")
    assert "there is no such file" in complaint("no\0where.jsonl")
    assert "cannot be read" in complaint("x" * 5000 + ".jsonl")
    assert "contains no examples" in complaint(saved(tmp_path, "[]", "data.json"))
    assert "unknown format" in complaint(saved(tmp_path, "", "data.xlsx"))
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
    told = (
        "list, rows 1 and 2: have no ids and equal content; give each row an 'id', or keep one "
        "of them"
    )
    assert complaint([row, row]) == told
    assert complaint([Example(**row), Example(**row)]) == told


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


# streams


def test_nothing_is_yielded_of_a_file_with_a_bad_last_line(tmp_path: Path) -> None:
    """The whole file is checked before the first example is given out."""
    examples = iter(Examples(saved(tmp_path, lines(*ROWS, {"output": 3}))))
    with pytest.raises(DataError, match="line 4"):
        next(examples)


def test_a_file_that_changes_after_the_check_is_refused(tmp_path: Path) -> None:
    """Scores of two versions of a file do not mix."""
    path = saved(tmp_path, lines(*ROWS))
    examples = Examples(path)
    stream = iter(examples)
    next(stream)
    saved(tmp_path, lines(*ROWS, {"output": "more"}))
    with pytest.raises(DataError, match="has changed since it was checked"):
        list(stream)
    with pytest.raises(DataError, match="has changed since it was checked"):
        next(iter(examples))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Ten times the rows take little more memory."""

    def peak(rows: int) -> int:
        text = "".join(
            f'{{"id": "{i}", "output": "text number {i}", "human": {{"c": 3}}}}\n'
            for i in range(rows)
        )
        examples = Examples(saved(tmp_path, text))
        del text
        tracemalloc.start()
        try:
            assert sum(1 for _ in examples) == rows
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(6_000) - peak(1_000) < 64 * 5_000


def test_rows_with_ever_new_fields_are_fine(tmp_path: Path) -> None:
    """What is remembered of the shape of rows is bounded and does not change what is read."""
    rows = [{"id": str(i), "output": "x", f"field{i}": i} for i in range(600)]
    assert [e.meta for e in read(saved(tmp_path, lines(*rows)))] == [
        {f"field{i}": i} for i in range(600)
    ]


def test_reading_is_fast(tmp_path: Path) -> None:
    """Some ten thousand short rows a second (the bound is loose for busy machines)."""
    row = {
        "output": "The cat sat on the mat.",
        "source": "A cat sat.",
        "system": "M1",
        "human": {"coherence": 3},
    }
    examples = Examples(saved(tmp_path, lines(*({"id": str(i), **row} for i in range(5_000)))))
    start = time.process_time()
    assert examples.check().count == 5_000
    assert 5_000 / (time.process_time() - start) > 4_000


@pytest.mark.parametrize("depth", [260, 900, 1020, 100_000])
def test_a_row_that_is_nested_too_deeply_is_named(tmp_path: Path, depth: int) -> None:
    """Of the two limits of the parser and the writer neither ends in a traceback."""
    path = tmp_path / "deep.jsonl"
    deep = "[" * depth + "]" * depth
    path.write_text('{"output": "fine"}\n{"output": "deep", "extra": ' + deep + "}\n")
    with pytest.raises(DataError, match=r"deep\.jsonl, line 2"):
        Examples(path).check()


def test_a_row_of_many_unknown_fields_takes_as_long_as_it_is(tmp_path: Path) -> None:
    """Each goes to `meta`; what the caller gave is not changed."""
    row = {"output": "a", "meta": {"own": 1}} | {f"field{i}": i for i in range(100_000)}
    (example,) = Examples([row])
    assert len(example.meta) == 100_001
    assert row["meta"] == {"own": 1}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b" " * (MAX_LINE + 1), "line 1: is longer than"),
        (b"\n" * (MAX_BLANK_LINES + 2), "blank lines"),
    ],
    ids=["one line", "blank lines"],  # else the megabytes themselves
)
def test_a_bomb_is_told_and_not_unpacked(tmp_path: Path, content: bytes, told: str) -> None:
    """Blanks without end on one line, or lines without end: reading stops at a bound."""
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content)
        file.write(content)
    with pytest.raises(DataError, match=told):
        Examples(path).check()
