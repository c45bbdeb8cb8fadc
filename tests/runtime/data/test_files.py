"""Files and tables: every format says the same, and what cannot be read is named with its place."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.data.rows import ROWS, complaint, lines, read, saved
from textassay.runtime.data import cells, separated
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Example


def all_formats(folder: Path) -> Iterator[tuple[str, Any]]:
    flat: list[dict[str, Any]] = [
        {"id": "a", "output": "one", "source": "s", "system": 1, "human.c": 3, "metrics.m": 0.5},
        {"id": "b", "output": "two\nlines", "source": None, "system": 2, "human.c": None,
         "metrics.m": 1e-3},
    ]  # fmt: skip
    nested: list[dict[str, Any]] = [
        {"id": "a", "output": "one", "source": "s", "system": "1", "human": {"c": 3.0},
         "metrics": {"m": 0.5}},
        {"id": "b", "output": "two\nlines", "system": "2", "metrics": {"m": 0.001}},
    ]  # fmt: skip
    text, bom = lines(*nested), b"\xef\xbb\xbf"
    frame = pd.DataFrame(flat)
    table = frame.to_csv(index=False)
    frame.to_parquet(folder / "data.parquet")
    yield "jsonl", saved(folder, text)
    yield "str path", str(folder / "data.jsonl")
    broken_lines = text.replace("\n", "\r\n\r\n  \r\n").encode()
    yield "jsonl with BOM, CRLF and blank lines", saved(folder, bom + broken_lines, "bom.ndjson")
    yield "no newline at the end", saved(folder, text.rstrip(), "torn.jsonl")
    yield "gzip", saved(folder, gzip.compress(text.encode()), "data.jsonl.gz")
    yield "json", saved(folder, f"[{','.join(text.splitlines())}]", "data.json")
    yield (
        "a list in an object",
        saved(folder, f'{{"version": 1, "data": [{",".join(text.splitlines())}]}}', "object.json"),
    )
    yield "csv", saved(folder, table, "data.csv")
    yield "csv as Excel saves it", saved(folder, bom + table.encode(), "excel.CSV")
    yield "csv.gz", saved(folder, gzip.compress(table.encode()), "data.csv.gz")
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
    """Has the used part of a data set of the `datasets` library, which is not a list."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows, self.column_names = rows, list(rows[0])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)


def test_all_formats_say_the_same(tmp_path: Path) -> None:
    """Equal examples and one digest, as often as they are iterated."""
    due = None
    for name, source in all_formats(tmp_path):
        examples = Examples(source)
        found = list(examples)
        rated = [(e.id, e.output, e.source, e.system, e.human.get("c")) for e in found]
        expected = [("a", "one", "s", "1", 3.0), ("b", "two\nlines", None, "2", None)]
        assert rated == expected, name
        assert list(examples) == found, name
        due = due or examples.check().digest
        assert examples.check().digest == due, name


FILES: list[tuple[str, str | bytes, str]] = [
    ("data.jsonl", '{"output": "Käse"}\n'.encode("latin-1"),
     "line 1: is not UTF-8 (byte 0xe4 at column 14); save the file as UTF-8"),
    ("data.csv", "output\n評價模型\n".encode("big5"), "line 2: is not UTF-8"),
    ("data.csv", "output\nKäse\n".encode() + "Käse\n".encode("latin-1"), "line 3: is not UTF-8"),
    ("data.csv", "output\nKäse\n".encode("latin-1") + "Käse\n".encode(),
     "line 3: is UTF-8, and a line above is not"),
    ("data.csv", "output,human.c\nx,good\n",
     "line 2, field 'human.c': should be a number or empty, not 'good'"),
    ("data.csv", "output,human.c\nx,nan\n",
     "line 2, field 'human.c': should be a finite number or empty, not 'nan'"),
    ("data.csv", 'output,human.c\n"a\nb",3\nx,inf\n', "line 4, field 'human.c': should be a"),
    ("data.csv", "output,human\nx,{\n", "line 2, field 'human': should be JSON"),
    ("data.csv", "output,b\nx,y,z\n",
     "line 2: has 3 cells, but the header has 2; quote cells that contain ','"),
    ("data.csv", "output,output\nx,y\n", "two columns are called 'output'"),
    ("data.csv", 'output,b\n\nx,"y\n', "line 3: broken CSV: unexpected end of data"),
    ("data.csv", "output\n", "contains no examples"),
    ("data.csv", "", "contains no examples"),
    ("data.csv", 'output,human.c\nx,"1,234"\n', "field 'human.c': '1,234' may be 1234 or 1.234"),
    ("data.csv", "output;human.c\nx;4/5\n", "not '4/5'; write the number alone"),
    ("data.csv", "output;human.c\nx;85 %\ny;90\n",
     "line 3, field 'human.c': is '90', and other rows are in percent"),
    ("data.csv", "output;human.c\nx;4,5;6\n",
     "line 2: has 3 cells, but the header has 2; quote cells that contain ';'"),
    ("data.csv", "output,,b\nx,left over,y\n", "line 2: has a cell in column 2, which has no name"),
    ("data.csv", "id,output,rater,human.c\na,x,ann,85%\na,x,bob,90\n",
     "line 3, field 'human.c': is '90', and other rows are in percent"),
    ("data.csv", "id,output,rater,human.c\na,x,ann,4\na,x,bob,-\n",
     "line 3, field 'human.c': should be a number or empty, not '-'; if it marks a missing value,"
     " declare missing="),
    ("data.csv", "output,human.c\nx,no idea\n", "field 'human.c': should be a number or empty,"),
    ("data.json", "[]", "contains no examples"),
    ("data.json", '{"output": "x"}', "is not a list of objects"),
    ("data.json", '{"a": [{"output": "x"}], "b": [{"output": "y"}]}', "is not a list of objects"),
    (
        "data.json",
        '{"output": "x", "messages": [{"role": "user", "content": "y"}]}',
        "is not a list of objects",
    ),
    ("data.json", '{"output": "x", "passages": [{"text": "y"}]}', "is not a list of objects"),
    ("data.json", '{"output": "x"}\n{"output": "y"}', "one object per line ends in .jsonl"),
    ("data.json", '[{"output": "x"}, {', "line 1: broken JSON"),
    ("data.ods", "", "unknown format"),
    ("data.parquet.gz", "", "unknown format"),
    ("data.jsonl.zst", b"\x28\xb5\x2f\xfd\x04", "is compressed with zstd; unpack it first"),
    ("data.csv", b"\x28\xb5\x2f\xfd\x04", "is compressed with zstd; unpack it first"),
    ("data.csv", gzip.compress(b"output\nx\n"), "is compressed with gzip; unpack it, or let its"),
    ("data.txt.gz", gzip.compress(b"x"), "is compressed with gzip; unpack it, or let its"),
    ("data.jsonl.bz2", bz2.compress(b"x"), "is compressed with bzip2; unpack it first"),
    ("data.json", lzma.compress(b"[]"), "is compressed with xz; unpack it first"),
    ("data.feather", b"ARROW1\0\0\xff\xff\xff\xff", "is an Arrow file; save it as .parquet"),
    ("data.arrow", b"\xff\xff\xff\xff\x78\0\0\0", "is an Arrow stream; save it as"),
    ("data.csv", b"PK\x03\x04\x14\0", "a zip archive or a workbook; unpack it, or save it as"),
    ("data.jsonl", '[\n{"output": "x"}\n]', "jq -c '.[]'"),
    ("data.jsonl", '{\n"output": "x"\n}', "jq -c ."),
    ("data.jsonl", "\n\n", "contains no examples"),
    ("data.jsonl.gz", lines(*ROWS), "damaged gzip after line 0"),
    ("data.jsonl.gz", gzip.compress(lines({"output": os.urandom(9000).hex()}).encode())[:-200],
     "damaged gzip after line"),
    ("data.parquet", "PAR?", "cannot be read as parquet"),
    ("data.xlsx", "PK?", "cannot be read as"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "shown"), FILES, ids=range(len(FILES)))
def test_a_bad_file_is_named_with_its_line(
    tmp_path: Path, name: str, content: str | bytes, shown: str
) -> None:
    """Rows of CSV are named by the line they start on; a torn archive is refused."""
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    assert shown in complaint(saved(tmp_path, content, name))


def test_paths_that_are_not_files_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, "")
    assert complaint(tmp_path) == f"{tmp_path}: is a folder; name a file in it, such as data.jsonl"
    assert "there is no such file" in complaint(tmp_path / "missing.jsonl")
    assert "there is no such file" in complaint("no\0where.jsonl")
    assert "cannot be read" in complaint("x" * 5000 + ".jsonl")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ([], "list: contains no examples"),
        ([3], "list, row 1: is a number, not an object with fields"),
        (["text"], "list, row 1: is text, not an object with fields"),
        ({"test": [], "train": []}, "or one of its entries ('test', 'train')"),
        (Example(output="x"), "Example contains no rows; give a path, a table, or a list of"),
        (3, "int contains no rows"),
        (
            pd.DataFrame([["x", "y"]], columns=["output", "output"]),
            "two columns are called 'output",
        ),
        (pd.DataFrame({"output": []}), "DataFrame: contains no examples"),
        (pd.DataFrame({"output": ["x", None]}), "DataFrame, row 2, field 'output': is missing"),
    ],
)
def test_data_without_examples_are_refused(source: Any, shown: str) -> None:
    """Tables and lists are named by their type, rows counted from 1."""
    assert shown in complaint(source)


def test_a_line_without_end_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(separated, "MAX_LINE", 2**19)
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b" " * 2**20)
    assert "line 1: is longer than" in complaint(path)


FIELDS = {"Nr": "id", "Text": "output", "Coh": "human.coherence"}
COMMAS = 'Nr,Text,Coh,metrics.m\n1,"It rained, then not.",4.5,0.25\n2,Sun; wind.,3.667,\n'
SEMICOLONS = 'Nr;Text;Coh;metrics.m\n1;It rained, then not.;4,5;0.25\n2;"Sun; wind.";3,667;\n'
TABS = "Nr\tText\tCoh\tmetrics.m\n1\tIt rained, then not.\t4.5\t0.25\n2\tSun; wind.\t3.667\t\n"


@pytest.mark.parametrize("text", [COMMAS, SEMICOLONS, TABS, "\ufeff\n" + SEMICOLONS])
def test_the_header_of_a_csv_file_says_what_separates_its_cells(tmp_path: Path, text: str) -> None:
    """Where semicolons do, numbers may have decimal commas."""
    examples = Examples(saved(tmp_path, text, "data.csv"), fields=FIELDS)
    assert [(one.id, one.output, one.human, one.metrics) for one in examples] == [
        ("1", "It rained, then not.", {"coherence": 4.5}, {"m": 0.25}),
        ("2", "Sun; wind.", {"coherence": 3.667}, {}),
    ]


def test_a_separator_inside_quotes_separates_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, '"Coh (poor; fair; good)",Text\n"4",x\n', "data.csv")
    (example,) = read(path, **{"Coh (poor; fair; good)": "human.c", "Text": "output"})
    assert (example.output, example.human) == ("x", {"c": 4.0})


CODE = "int x = 1;\nint y = 2;\n"
GRID = 'A ""grid"":\n| a | b |\n| c | d |'


@pytest.mark.parametrize("text", [CODE, GRID])
def test_lines_of_a_quoted_text_do_not_say_what_separates_cells(tmp_path: Path, text: str) -> None:
    """The next line of the text may look like a row, as in code and tables."""
    path = saved(tmp_path, f'output,human.c\n"{text}",4\nx,3\n', "data.csv")
    first, second = read(path)
    assert (first.output, first.human) == (text.replace('""', '"'), {"c": 4.0})
    assert (second.output, second.human) == ("x", {"c": 3.0})


@pytest.mark.parametrize("mark", [";", " |"])
def test_prose_in_a_single_column_is_not_a_table_below_a_title(tmp_path: Path, mark: str) -> None:
    texts = [f"It rained{mark} then not", f"Sun{mark} wind", f"Fog{mark} frost{mark} ice"]
    path = saved(tmp_path, "\n".join(["output", *texts]) + "\n", "data.csv")
    assert [one.output for one in read(path)] == texts


MARKED = [
    {"id": "a", "output": "N/A", "group": " n/a ", "human.coherence": "-", "human.fluency": 4,
     "annotators.tone.ann": "N/A", "annotators.tone.bob": 2, "note": "N/A"},
    {"id": "99", "output": "x", "group": "99", "human.coherence": 99, "human.fluency": "5",
     "annotators.tone.ann": 1, "annotators.tone.bob": "99.0", "note": ""},
]  # fmt: skip
DECLARED = [
    Example(id="a", output="N/A", human={"fluency": 4, "tone": 2}, annotators={"tone": (None, 2)},
            meta={"note": "N/A"}),
    Example(id="99", output="x", group="99", human={"fluency": 5, "tone": 1},
            annotators={"tone": (1, None)}, meta={"note": ""}),
]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "frame", "semicolons"])
def test_declared_marks_are_missing_values(tmp_path: Path, form: str) -> None:
    """Not in what is judged, nor in ids and notes; a mark that is a number, among ratings only."""
    frame = pd.DataFrame(MARKED)
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False, sep=";" if form == "semicolons" else ",")
    examples = Examples(frame if form == "frame" else path, missing=("N/A", "-", "99"))
    assert [one.model_copy(update={"human": {k: v for k, v in one.human.items() if v is not None}})
            for one in examples] == DECLARED  # fmt: skip


def test_marks_may_be_inside_objects_and_beside_labels() -> None:
    rows = [
        {"id": "a", "output": "x", "human": {"c": "N/A", "right": "yes"}, "source": "N/A"},
        {"id": "b", "output": "y", "human": {"c": 3, "right": "N/A"}, "metrics": {"m": "-"}},
        {"id": "c", "output": "z", "annotators": {"c": [3, "N/A"]}},
    ]
    first, second, third = Examples(rows, missing=["N/A", "-"])
    assert (first.human, first.source) == ({"c": None, "right": 1.0}, None)
    assert (second.human, second.metrics) == ({"c": 3.0, "right": None}, {"m": None})
    assert third.annotators == {"c": (3.0, None)}
    with pytest.raises(DataError, match=r"row 1, field 'human.c': .*declare missing=\('N/A',\)"):
        Examples(rows).check()
    with pytest.raises(ConfigurationError, match="takes a list of marks, not 'N/A'"):
        Examples(rows, missing="N/A")


def test_a_workbook_without_its_reader_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    words = "needs openpyxl: pip install 'textassay[xlsx]'"
    assert words in complaint(saved(tmp_path, "", "data.xlsx"))


def workbook(tmp_path: Path, **sheets: list[list[Any]]) -> Path:
    """Return a workbook of rows of cells by sheet."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    content = io.BytesIO()
    book.save(content)
    return saved(tmp_path, content.getvalue(), "data.xlsx")


def test_a_workbook_says_what_a_csv_file_does(tmp_path: Path) -> None:
    rows = [
        [],
        ["Nr", "Text", "Coh", "metrics.m", None],
        [1, "It rained, then not.", 4.5, 0.25],
        [None, None, None, None],
        [2, "Sun; wind.", "3.667", None],
    ]
    examples = Examples(workbook(tmp_path, Ratings=rows, Empty=[]), fields=FIELDS)
    plain = Examples(saved(tmp_path, COMMAS, "data.csv"), fields=FIELDS)
    assert list(examples) == list(plain)
    assert examples.check().digest == plain.check().digest


def test_an_index_without_a_name_is_left_out_of_a_workbook(tmp_path: Path) -> None:
    """`DataFrame.to_excel` writes one, as `to_csv` does."""
    book = workbook(tmp_path, A=[[None, "output", "human.c"], [0, "x", 4], [1, "y", 5]])
    assert [(one.output, one.human, one.meta) for one in Examples(book)] == [
        ("x", {"c": 4.0}, {}), ("y", {"c": 5.0}, {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sheets", "problem"),
    [
        ({"A": [["output"], ["x"]], "B": [["note"]]}, "2 sheets have cells ('A', 'B')"),
        ({"A": [["output"], ["x", "y"]]}, "row 2: has a cell in column 2, which has no name"),
        ({"A": [["output", "output"]]}, "two columns are called 'output'"),
        ({"A": [["output", "human.c"], ["x", "#N/A"]]}, "; if it marks a missing value, declare"),
        ({"A": []}, "contains no examples"),
    ],
)
def test_a_workbook_that_may_be_misread_is_refused(
    tmp_path: Path, sheets: dict[str, list[list[Any]]], problem: str
) -> None:
    assert problem in complaint(workbook(tmp_path, **sheets))


LISTS = {
    "JSON": '["It\'s one.", "Two"]',
    "Python": """["It's one.", 'Two']""",
    "a tuple": """("It's one.", 'Two')""",
    "numpy": """["It's one." 'Two']""",
    "numpy, over several lines": """["It's one."\n 'Two']""",
    "an array": """array(["It's one.", 'Two'], dtype=object)""",
    "missing ones": """["It's one.", nan, 'Two', None]""",
    "numpy's texts": """[np.str_("It's one."), np.str_('Two')]""",
    "a tuple of them": """(np.str_("It's one."), np.str_('Two'))""",
    "a set": """{'It\\'s one.', 'Two'}""",
    "a deque": """deque(["It's one.", 'Two'], maxlen=9)""",
    "numpy's newer texts": """array(["It's one.", 'Two'], dtype=StringDType(na_object=nan))""",
    "R": """c("It's one.", "Two")""",
    "pandas' own arrays": """<ArrowStringArray>\n["It's one.", 'Two']\nLength: 2, dtype: str""",
    "pandas' older arrays": """<StringArray>\n["It's one.",\n 'Two', <NA>]\nLength: 3, dtype: s""",
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_in_cells_are_read_as_they_are_written(tmp_path: Path, name: str) -> None:
    """References and passages alike, in CSV files, data frames, JSON and rows in memory."""
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerows([["output", "references", "contexts"], ["x", LISTS[name], LISTS[name]]])
    frame = pd.read_csv(path)
    frame.to_json(tmp_path / "data.jsonl", orient="records", lines=True)
    for source in (path, frame, tmp_path / "data.jsonl", frame.to_dict("records")):
        (example,) = read(source)
        assert example.references == ("It's one.", "Two")
        assert [passage.text for passage in example.passages] == ["It's one.", "Two"]


@pytest.mark.parametrize("text", ["[]", "()", "set()", "array([], dtype=object)", "[nan]"])
def test_an_empty_list_in_a_cell_is_no_reference(tmp_path: Path, text: str) -> None:
    path = saved(tmp_path, f'output,references,contexts\nx,"{text}","{text}"\n', "data.csv")
    (example,) = read(path)
    assert (example.references, example.context) == ((), None)


@pytest.mark.parametrize("listed", ['["a", "b"]', "['a', 'b']"])
def test_the_reference_of_a_list_is_a_list(tmp_path: Path, listed: str) -> None:
    """A model was told to answer with a list."""
    rows = [{"output": listed, "references": listed}]
    pd.DataFrame(rows).to_csv(tmp_path / "data.csv", index=False)
    for source in (tmp_path / "data.csv", pd.DataFrame(rows), rows):
        assert read(source)[0].references == (listed,)
    several = json.dumps([listed, '["c"]'])
    assert read([{**rows[0], "references": several}])[0].references == (listed, '["c"]')


@pytest.mark.parametrize("text", ["[0, 1]", "[unanswerable]", "['Tis it] so", '[{"a": 1}]'])
def test_a_text_in_json_that_is_no_list_of_texts_stays_a_text(text: str) -> None:
    (example,) = read([{"output": "x", "references": text, "context": text}])
    assert (example.references, example.context) == ((text,), text)


@pytest.mark.parametrize("given", [1967, [1967], ["1967"]])
def test_a_whole_number_is_a_reference(given: object) -> None:
    assert read([{"output": "x", "expected": given}])[0].references == ("1967",)


def test_numbers_in_a_list_of_references_stay_as_they_are_written(tmp_path: Path) -> None:
    path = saved(tmp_path, 'output,references\n1967,"[1967, 19.50, ""x""]"\n', "data.csv")
    assert read(path)[0].references == ("1967", "19.50", "x")


def test_documents_in_a_cell_are_passages_with_their_text(tmp_path: Path) -> None:
    cell = (
        "[Document(metadata={'source': 'a.pdf'}, page_content='One.'), Document(page_content='2')]"
    )
    path = saved(tmp_path, f'output,contexts\nx,"{cell}"\n', "data.csv")
    assert [passage.text for passage in read(path)[0].passages] == ["One.", "2"]


@pytest.mark.parametrize(
    "text", ["[1] says so", "[1] says so [2]", "(1967) it was", "{x}", "It's ['a']", "[a]b[c]"]
)
def test_a_text_with_brackets_is_a_text(tmp_path: Path, text: str) -> None:
    path = saved(tmp_path, f'output,references,contexts\nx,"{text}","{text}"\n', "data.csv")
    (example,) = read(path)
    assert (example.references, example.context) == ((text,), text)


@pytest.mark.parametrize(
    "text", ["['a' 'b' ... 'c']", "['a', 'b", "['a''b']", "['a'; 'b']", "[['a'], 'b']", "[<x>]"]
)
def test_a_list_that_cannot_be_read_is_refused_with_its_cell(tmp_path: Path, text: str) -> None:
    """Rather than glued together, or shown with its brackets."""
    path = saved(tmp_path, f'output,references\nx,"{text}"\n', "data.csv")
    message = complaint(path)
    assert message.startswith(f"{path}, line 2, field 'references': ")
    assert "list" in message


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), min_size=1))
def test_every_list_of_texts_that_python_or_numpy_prints_is_read_back(texts: list[str]) -> None:
    printed = [repr(texts), repr(tuple(texts)), f"[{' '.join(map(repr, texts))}]"]
    assert [cells.list_in_cell("x", one, are_texts=True) for one in printed] == [texts] * 3


def test_files_of_excel_and_old_macs_are_read(tmp_path: Path) -> None:
    """A first line that names the separator, and lines that end in a carriage return alone."""
    content = "sep=;\nid;output;human.c\na;x;4,5\n"
    (one,) = read(saved(tmp_path, content, "sep.csv"))
    assert (one.id, one.output, one.human) == ("a", "x", {"c": 4.5})
    (one, two) = read(saved(tmp_path, 'id,output\ra,"x\ny"\rb,z\r', "mac.csv"))
    assert (one.id, one.output, two.id, two.output) == ("a", "x\ny", "b", "z")


def test_a_named_index_of_a_data_frame_is_a_column() -> None:
    frame = pd.DataFrame({"output": ["x", "y"]}, index=pd.Index(["a", "b"], name="id"))
    assert [one.id for one in read(frame)] == ["a", "b"]
    assert len(frame.columns) == 1


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        ("output\nfür Señor Müller’s Café\n".encode("cp1252"),
         ("not UTF-8, read as Windows-1252 ('für'); if that is wrong, save it as UTF-8",)),
        (b"Results of May, draft\n\nid;output\na;x\n", ("row 1 ('Results of May, draft') was",)),
        ("output;human.c\nfür;4\n".encode("utf-16"), ()),
        (b"output\nHello, world\n", None),
    ],
)  # fmt: skip
def test_unusual_readings_are_said(
    tmp_path: Path, content: bytes, notes: tuple[str, ...] | None
) -> None:
    path = saved(tmp_path, content, "data.csv")
    if notes is None:
        assert "quote cells that contain ','" in complaint(path)
        return
    info = Examples(path).check()
    assert len(info.reading) == len(info.notices) == len(notes)
    for note, expected in zip(info.reading, notes, strict=True):
        assert note.startswith(f"{path}: {expected}")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Größe prüfen"), ("cp1252", "Voilà, l’élève a reçu sa leçon à Noël"),
        ("cp1252", "Não, são pães"), ("cp1252", "På norsk blir det ørret"),
        ("cp1252", "für Señor Müller"), ("cp1252", "5 × 3 = 15 €, 20 °C"),
        ("cp1252", "Það er þörf á því"), ("cp1250", "hodnocení člověka"),
        ("cp1250", "Zażółć gęślą jaźń"), ("cp1250", "Árvíztűrő tükörfúrógép"),
        ("cp1251", "Оценка человека, да или нет"), ("cp1251", "їжак і людина"),
        ("cp1253", "άνθρωπος, ναι ή όχι"), ("cp1254", "doğru yanlış ışık"),
        ("cp1257", "žmogaus įvertinimas"), ("cp932", "人間評価 はい いいえ"),
        ("cp949", "사람 평가 예 아니오"), ("gb2312", "人工评分 是 否"),
        # names of several languages, lone letters and signs in texts of the West
        ("cp1252", "Mr Sørensen met a friend of his near the old harbor of Málaga"),
        ("cp1252", "Muñoz, Inês"), ("cp1252", "naïve, Málaga"), ("cp1252", "É bom"),
        ("cp1252", "à"), ("cp1252", "50 m² and 3 m³"), ("cp1252", "5 µm, ½ cup, 2º"),
        ("cp1252", "Björk Guðmundsdóttir"),
    ],
)  # fmt: skip
def test_files_of_many_countries_are_read_in_their_encoding(
    tmp_path: Path, encoding: str, text: str
) -> None:
    (one,) = read(saved(tmp_path, f"output;id\n{text};a\n".encode(encoding), "data.csv"))
    assert one.output == text


def test_rows_that_begin_with_a_text_may_lack_their_last_verdicts(tmp_path: Path) -> None:
    rows = "this is fine,yes,no\nnot so good,yes\nbad answer here,no\nmore words here,yes,yes\n"
    path = saved(tmp_path, f"output,human.a,human.b\n{rows}", "data.csv")
    assert [len(one.human) for one in read(path)] == [2, 1, 1, 2]


def test_a_line_break_in_a_column_whose_first_cell_is_a_word_is_found(tmp_path: Path) -> None:
    rows = "so it is,ok\nthis is well,not as good\nthis one was cut,in the second\ncell of it,yes\n"
    text = "".join(f"{row},yes\n" for row in rows.splitlines()[:2])
    path = saved(tmp_path, f"output,why,human.c\n{text}{rows.split('good', 1)[1][1:]}", "data.csv")
    assert "line 5: seems to continue a text of the line above" in complaint(path)


def test_bars_within_a_quoted_cell_are_text(tmp_path: Path) -> None:
    (one, _) = read(saved(tmp_path, 'id|output\na|"x\n|y  |  z"\nb|w\n', "data.csv"))
    assert one.output == "x\n|y  |  z"


def test_a_table_in_markdown_is_read(tmp_path: Path) -> None:
    text = "| id | output | human.c |\n|:---|:-:|--:|\n| a | x | 4 |\n| b | y | 5 |\n"
    rows = [(one.id, one.output, one.human) for one in read(saved(tmp_path, text, "data.csv"))]
    assert rows == [("a", "x", {"c": 4}), ("b", "y", {"c": 5})]


SPREADSHEETS: dict[str, tuple[bytes, Any]] = {
    "semicolons and decimal commas": (b"id;output;human.c\na;x;4,5\n", 4.5),
    "tabs": (b"id\toutput\thuman.c\na\tx\t4.5\n", 4.5),
    "a byte order mark": ("\ufeffid,output,human.c\na,x,4.5\n".encode(), 4.5),
    "Excel's sep= line": (b'"sep=,"\r\nid,output,human.c\r\na,x,4.5\r\n', 4.5),
    "lines of an old Mac": (b"id,output,human.c\ra,x,4.5\r", 4.5),
    "German words": (b"id;output;human.c\na;x;Ja\n", 1.0),
    "German booleans": (b"id;output;human.c\na;x;FALSCH\n", 0.0),
    "blank lines": (b"\n\nid,output,human.c\n\na,x,4.5\n\n", 4.5),
    "quoted headings": (b'"id","output","human.c"\n"a","x","4.5"\n', 4.5),
    "headings with blanks": (b" id , output ,human.c\na,x, 4.5 \n", 4.5),
    "UTF-16": ("id\toutput\thuman.c\na\tx\t4.5\n".encode("utf-16"), 4.5),
    "UTF-16 without a mark": ("id,output,human.c\na,x,4.5\n".encode("utf-16-be"), 4.5),
    "UTF-32": ("id,output,human.c\na,x,4.5\n".encode("utf-32"), 4.5),
    "UTF-32 without a mark": ("id,output,human.c\na,x,4.5\n".encode("utf-32-le"), 4.5),
    "percentages": (b"id;output;human.c\na;x;85 %\n", 0.85),
    "percentages with commas": (b"id;output;human.c\na;x;12,5%\n", 0.125),
    "bars": (b"id|output|human.c\na|x|4.5\n", 4.5),
    "a title": (b"Results of May;;\n;;\nid;output;human.c\na;x;4,5\n", 4.5),
    "two titles": (b"Results\nby Anna\n\nid,output,human.c\na,x,4.5\n", 4.5),
    "empty columns": (b"id,output,human.c,,\na,x,4.5,,\n", 4.5),
    "empty cells too many": (b"id,output,human.c\na,x,4.5,,\n", 4.5),
    "empty rows": (b"id,output,human.c\n,,\na,x,4.5\n,,\n", 4.5),
    "a row of blanks": (b"id,output,human.c\na,x,4.5\n   \n", 4.5),
    "a quoted cell of several lines": (b'note,id,output,human.c\n"a;b\nc;d",a,x,4.5\n', 4.5),
    "an index without a name": (b",id,output,human.c\n0,a,x,4.5\n", 4.5),
    "a long minus": ("id,output,human.c\na,x,\u22124.5\n".encode(), -4.5),
    "German thousands": (b"id;output;human.c\na;x;1.234,5\n", 1234.5),
    "Swiss thousands": (b"id,output,human.c\na,x,1'234\n", 1234.0),
    "French thousands": ("id;output;human.c\na;x;1\u202f234,5\n".encode(), 1234.5),
    "millions": (b'id,output,human.c\na,x,"1,234,567"\n', 1234567.0),
    "thousands with a comma": (b'id,output,human.c\na,x,"1,234"\n', "may be 1234 or 1.234"),
    "a fraction": (b"id,output,human.c\na,x,4/5\n", "write the number alone"),
    "a mark of a missing value": (b"id,output,human.c\na,x,N/A\n", "missing=('N/A',)"),
    "decimal commas between commas": (b'id,output,human.c\na,x,"4,5"\n', 4.5),
    "a cell too many": (b"id,output\na,x,y\n", "has 3 cells, but the header has 2"),
    "an empty cell left out": (b"id,output,human.c,note\na,x,4.5\n", 4.5),
    "a text cut in two": (b"id,output,human.c\na,It rained\nall day,4\n", "continue a text"),
    "a text cut in three": (
        b"id,output,human.c\na,It rained\nall day\nand night,4\n",
        "line 3, field",
    ),
    "a text cut in the first column": (b"output,human.c\nIt rained\nall day,4\n", "continue a"),
    "a text cut in the last column": (
        b"id,human.c,output\na,4.5,It rained\nall day\n",
        "line 3: seems to continue",
    ),
    "a comment cut before a comma": (
        b"id,output,note\na,x,It rained\nall day, and night\n",
        "line 3: seems to continue",
    ),
    "no comments on questions": (
        b"question,id,output,human.c,note\nWhat is it?,a,x,4.5\n",
        4.5,
    ),
    "an output left out": (b"id,human.c,output\na,4.5\n", "field 'output': is missing"),
    "a column twice": (b"id,output,output\na,x,y\n", "two columns are called 'output'"),
}


@pytest.mark.parametrize("name", SPREADSHEETS)
def test_spreadsheets_of_many_kinds_are_read_or_refused_with_what_helps(
    tmp_path: Path, name: str
) -> None:
    content, expected = SPREADSHEETS[name]
    path = saved(tmp_path, content, "data.csv")
    if isinstance(expected, str):
        assert expected in complaint(path)
        return
    (example,) = read(path)
    assert (example.id, example.output, example.human) == ("a", "x", {"c": expected})


def test_rows_that_end_early_lack_their_last_cells_which_a_notice_counts(tmp_path: Path) -> None:
    content = (
        b"id,output,human.a,human.b\nr1,It rained,4\nr2,It snowed\nr3,It hailed,2,3\nr4,Sun,,1\n"
    )
    path = saved(tmp_path, content, "data.csv")
    found = Examples(path)
    (notice,) = found.check().notices
    assert notice.endswith(
        "2 rows lack the last cells, which count as missing (the first at line 2)"
    )
    assert [example.human for example in found] == [
        {"a": 4.0},
        {},
        {"a": 2.0, "b": 3.0},
        {"b": 1.0},
    ]


@pytest.mark.parametrize(("cells", "outputs"), [
    (['"Hi" he said', "plain"], ['"Hi" he said', "plain"]),
    (['"He said', 'not quoted"', "third"], ['"He said', 'not quoted"', "third"]),
    (["5\" tall", '"'], ["5\" tall", '"']),
    (['"It ""rained"""', "plain"], ['It "rained"', "plain"]),
    (['"two\nlines"', "plain"], ["two\nlines", "plain"]),
    (['"a\ttab"', "plain"], ["a\ttab", "plain"]),
])  # fmt: skip
def test_quotation_marks_in_files_with_tabs_are_text_or_enclose_cells(
    tmp_path: Path, cells: list[str], outputs: list[str]
) -> None:
    """Two rows whose texts have one mark each must not become one row."""
    table = "id\toutput\tn\n" + "".join(f"{at}\t{cell}\t4\n" for at, cell in enumerate(cells))
    data = Examples(saved(tmp_path, table, "data.tsv"))
    assert [one.output for one in data] == outputs
    are_text = cells == outputs and any('"' in cell for cell in cells)
    notes = [n for n in data.check().notices if "quotation marks are read as text" in n]
    assert bool(notes) == are_text


def test_quotation_marks_of_a_quoted_header_enclose_all_cells(tmp_path: Path) -> None:
    table = '"id"\t"output"\n"a"\t"he said ""so"""\n"b"\t"not "so" "\n'
    assert "line 3: broken CSV" in complaint(saved(tmp_path, table, "data.tsv"))


@pytest.mark.parametrize("content", [
    {"id": {"0": "a", "1": "b"}, "output": {"0": "x", "1": "y"}},
    {"0": {"id": "a", "output": "x"}, "1": {"id": "b", "output": "y"}},
    {"a": {"response": "x"}, "b": {"response": "y"}},
    {"response": {"a": "x", "b": "y"}, "id": {"a": "a", "b": "b"}},
    {"columns": ["id", "output"], "index": [0, 1], "data": [["a", "x"], ["b", "y"]]},
    {"schema": {"fields": []}, "data": [{"id": "a", "output": "x"}, {"id": "b", "output": "y"}]},
    {"documents": [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]},
])  # fmt: skip
def test_json_is_read_as_pandas_writes_it(tmp_path: Path, content: dict[str, Any]) -> None:
    """By column, by index, apart from the names; and texts by id."""
    rows = read(saved(tmp_path, json.dumps(content), "data.json"))
    assert [(one.id, one.output) for one in rows] == [("a", "x"), ("b", "y")]


def test_no_row_of_a_column_of_json_is_lost(tmp_path: Path) -> None:
    columns = {"input": {"1": "p"}, "output": {"1": "x", "2": "y"}}
    rows = read(saved(tmp_path, json.dumps(columns), "data.json"))
    assert [(one.source, one.output) for one in rows] == [("p", "x"), (None, "y")]


@pytest.mark.parametrize("content", [
    {"meta": {"model": "m"}, "info": {"a": 1}}, {"columns": ["id"], "data": [["a", "x"]]},
    {"turns": [{"speaker": "A", "text": "x"}]}, {"conversations": [{"from": "gpt", "value": "x"}]},
    {"id": "a", "passages": [{"text": "x"}]}, {"references": [{"text": "x"}]},
])  # fmt: skip
def test_other_objects_are_no_tables(tmp_path: Path, content: dict[str, Any]) -> None:
    assert "is not a list of objects" in complaint(saved(tmp_path, json.dumps(content), "d.json"))
