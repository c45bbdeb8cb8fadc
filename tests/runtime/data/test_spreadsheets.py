"""Files that spreadsheets write: separators, decimal commas, workbooks; and marks of missing
values, which people type into them."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Example

FIELDS = {"Nr": "id", "Text": "output", "Coh": "human.coherence"}
COMMAS = 'Nr,Text,Coh,metrics.m\n1,"It rained, then not.",4.5,0.25\n2,Sun; wind.,3.667,\n'
SEMICOLONS = 'Nr;Text;Coh;metrics.m\n1;It rained, then not.;4,5;0.25\n2;"Sun; wind.";3,667;\n'
TABS = "Nr\tText\tCoh\tmetrics.m\n1\tIt rained, then not.\t4.5\t0.25\n2\tSun; wind.\t3.667\t\n"


def saved(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [COMMAS, SEMICOLONS, TABS, "\ufeff\n" + SEMICOLONS])
def test_the_header_of_a_csv_file_says_what_separates_its_cells(tmp_path, text):
    """Where semicolons do, numbers may have decimal commas."""
    examples = Examples(saved(tmp_path, text), fields=FIELDS)
    assert [(one.id, one.output, one.human, one.metrics) for one in examples] == [
        ("1", "It rained, then not.", {"coherence": 4.5}, {"m": 0.25}),
        ("2", "Sun; wind.", {"coherence": 3.667}, {}),
    ]
    plain = saved(tmp_path, COMMAS, "plain.csv")
    assert examples.check().digest == Examples(plain, fields=FIELDS).check().digest


def test_a_separator_inside_quotes_separates_nothing(tmp_path):
    header = '"Coh (poor; fair; good)",Text'
    fields = {"Coh (poor; fair; good)": "human.c", "Text": "output"}
    (example,) = Examples(saved(tmp_path, f'{header}\n"4",x\n'), fields=fields)
    assert (example.output, example.human) == ("x", {"c": 4.0})


def test_one_row_per_rater_may_have_decimal_commas(tmp_path):
    text = "id;output;rater;human.c\na;x;ann;4,5\na;x;bob;3\nb;y;ann;\n"
    first, second = Examples(saved(tmp_path, text))
    assert first.annotators == {"c": (4.5, 3.0)}
    assert second.human == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("output,human.c\nx,'4,5'\n", "line 2: has 3 cells"),
        ('output,human.c\nx,"4,5"\n', "line 2, field 'human.c': .* not '4,5'; write it with a"),
        ("output;human.c\nx;1.234,5\n", "line 2, field 'human.c': should be a number .* '1.234,5'"),
        ("output;human.c\nx;4,5;\n", "line 2: has 3 cells, .* quote cells that contain ';'"),
        (
            "id,output,rater,human.c\na,x,ann,4\na,x,bob,-\n",
            "line 3, field 'human.c': .* not '-'; if it marks a missing value, declare missing=",
        ),
        ("output,human.c\nx,no idea\n", "field 'human.c': should be a number or empty, not 'no i"),
    ],
)
def test_what_is_no_number_is_refused(tmp_path, text, problem):
    with pytest.raises(DataError, match=problem):
        Examples(saved(tmp_path, text)).check()


ROWS = [
    {
        "id": "a",
        "output": "N/A",
        "group": " n/a ",
        "human.coherence": "-",
        "human.fluency": 4,
        "annotators.tone.ann": "N/A",
        "annotators.tone.bob": 2,
        "note": "N/A",
    },
    {
        "id": "99",
        "output": "x",
        "group": "99",
        "human.coherence": 99,
        "human.fluency": "5",
        "annotators.tone.ann": 1,
        "annotators.tone.bob": "99.0",
        "note": "",
    },
]
DECLARED = [
    Example(
        id="a",
        output="N/A",
        human={"fluency": 4, "tone": 2},
        annotators={"tone": (None, 2)},
        meta={"note": "N/A"},
    ),
    Example(
        id="99",
        output="x",
        group="99",
        human={"fluency": 5, "tone": 1},
        annotators={"tone": (1, None)},
        meta={"note": ""},
    ),
]


@pytest.mark.parametrize("form", ["csv", "frame", "semicolons"])
def test_declared_marks_are_missing_values(tmp_path, form):
    """Not in what is judged, nor in ids and notes; a mark that is a number, among ratings only."""
    frame = pd.DataFrame(ROWS)
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False, sep=";" if form == "semicolons" else ",")
    source = frame if form == "frame" else path
    examples = list(Examples(source, missing=("N/A", "-", "99")))
    assert [one.model_copy(update={"human": {k: v for k, v in one.human.items() if v is not None}})
            for one in examples] == DECLARED  # fmt: skip


def test_marks_may_stand_inside_objects_and_beside_labels():
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


def test_one_row_per_rater_may_have_marks(tmp_path):
    text = "id,output,rater,human.c\na,x,ann,N/A\na,x,bob,3\n"
    (example,) = Examples(saved(tmp_path, text), missing=["n/a"])
    assert example.annotators == {"c": (None, 3.0)}


def test_a_workbook_without_its_reader_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"needs openpyxl: pip install 'textassay\[xlsx\]'"):
        Examples(saved(tmp_path, "", "data.xlsx")).check()


def workbook(tmp_path, **sheets):
    """Return a workbook of rows of cells by sheet."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    path = tmp_path / "data.xlsx"
    book.save(path)
    return path


def test_a_workbook_says_what_a_csv_file_does(tmp_path):
    rows = [
        [],
        ["Nr", "Text", "Coh", "metrics.m", None],
        [1, "It rained, then not.", 4.5, 0.25],
        [None, None, None, None],
        [2, "Sun; wind.", "3.667", None],
    ]
    examples = Examples(workbook(tmp_path, Ratings=rows, Empty=[]), fields=FIELDS)
    plain = saved(tmp_path, COMMAS)
    assert list(examples) == list(Examples(plain, fields=FIELDS))
    assert examples.check().digest == Examples(plain, fields=FIELDS).check().digest


@pytest.mark.parametrize(
    ("sheets", "problem"),
    [
        ({"A": [["output"], ["x"]], "B": [["note"]]}, "2 sheets have cells \\('A', 'B'\\)"),
        ({"A": [["output"], ["x", "y"]]}, "row 2: the cell in column 2 is in no column that has"),
        ({"A": [["output", "output"]]}, "two columns are called 'output'"),
        ({"A": [["output", "human.c"], ["x", "#N/A"]]}, "row 2, field 'human.c': .* declare miss"),
        ({"A": []}, "contains no examples"),
    ],
)
def test_a_workbook_that_may_be_misread_is_refused(tmp_path, sheets, problem):
    with pytest.raises(DataError, match=problem):
        Examples(workbook(tmp_path, **sheets)).check()


def test_what_is_no_workbook_is_refused(tmp_path):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    with pytest.raises(DataError, match="cannot be read as"):
        Examples(saved(tmp_path, "PK?", "data.xlsx")).check()
