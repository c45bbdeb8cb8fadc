"""What the fields of a row mean, and what is said of a bad one."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest

from tests.pictures import png, png_uri
from tests.runtime.data.rows import complaint, lines, read, saved
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Example

ALIASES = [
    *((name, "x", "output", "x") for name in ("response", "hypothesis", "summary", "prediction",
                                              "actual_output", "system_output", "text", "answer")),
    *((name, "s", "source", "s") for name in ("document", "input", "article", "prompt")),
    *((name, value, "references", found)
      for name in ("reference", "expected", "expected_output", "target", "ground_truth")
      for value, found in (("r", ("r",)), (["r", "q"], ("r", "q")), (None, ()), ([], ()))),
    ("version", "v2", "system", "v2"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "field", "found"), ALIASES)
def test_names_of_other_tools_are_understood(name: str, value: Any, field: str, found: Any) -> None:
    (example,) = read([{name: value} if field == "output" else {"output": "x", name: value}])
    assert getattr(example, field) == found


def test_headings_of_spreadsheets_are_understood() -> None:
    """Capitals and spaces do not matter, except in names of ratings and in what the map says."""
    row = {"ID": "a", "Article": "s", "Summary": "o", "Doc ID": "g", "Model": "M", "Human": 4}
    (example,) = read([row])
    assert (example.id, example.source, example.output) == ("a", "s", "o")
    assert (example.group, example.system, example.meta) == ("g", "M", {"Human": 4})
    (example,) = read([row], Article="context", Summary="source", Model="output")
    assert (example.context, example.source, example.output) == ("s", "o", "M")
    assert complaint([{"Source": "a", "source": "b", "output": "c"}]) == (
        "list, row 1, field 'source': means 'source', and so does 'Source'; choose one, such as"
        ' fields={"source": "source"}; if it is something else, leave it out:'
        ' fields={"source": "meta"}'
    )


@pytest.mark.parametrize(
    ("row", "output", "meta"),
    [
        ({"answer": "x", "question": "q"}, "x", {}),
        ({"text": "long", "summary": "x"}, "x", {}),
        ({"text": "x", "reply": "y"}, "y", {}),
        ({"answer": "gold", "model_answer": "x"}, "x", {"answer": "gold"}),
        ({"output": "x", "candidate": "y"}, "x", {"candidate": "y"}),
        ({"output": "x", "summary": "s"}, "x", {"summary": "s"}),
        ({"output": "x", "references": ["r"], "reference": "r"}, "x", {"reference": "r"}),
        ({"output": "x", "model": "m", "model_id": "m-1"}, "x", {"model_id": "m-1"}),
        ({"output": "x", "group": "g", "document_id": "d"}, "x", {"document_id": "d"}),
    ],
)
def test_the_clearest_name_wins_and_the_others_are_kept(
    row: dict[str, Any], output: str, meta: dict[str, Any]
) -> None:
    """A column such as `text` is the output only if no other column is."""
    (example,) = read([row])
    assert (example.output, example.meta) == (output, meta)
    assert example.source not in meta.values()


def test_a_field_map_goes_before_names_and_aliases() -> None:
    """What the map does not want as the output is kept in meta, and so is what it sends there."""
    row = {"output": "old", "answer": "new", "coh": 2, "input": "i", "reference": "r"}
    fields = {"answer": "output", "coh": "human.coherence", "input": "meta"}
    (example,) = read([row], **fields, reference="meta.gold")
    assert (example.output, example.human, example.source) == ("new", {"coherence": 2.0}, None)
    assert example.meta == {"output": "old", "input": "i", "gold": "r"}


@pytest.mark.parametrize("name", ["Übersetzung", "réponse", "Ответ й", "답변", "größe ä ö"])
def test_a_field_map_finds_a_name_whose_accents_are_written_otherwise(name: str) -> None:
    forms = [normalize(form, name) for form in ("NFC", "NFD")]
    for mapped, written in permutations(forms):
        (example,) = read([{written: "A text.", "note": "n"}], **{mapped: "output"})
        assert example.output == "A text."
        (example,) = read([{mapped: "A text.", written: "Other."}], **{mapped: "output"})
        assert example.output == ("Other." if mapped == written else "A text.")


def test_two_aliases_need_a_decision() -> None:
    """Neither is taken by guess; the map decides, and the other goes to meta."""
    rows = [{"response": "r", "summary": "s"}]
    assert complaint(rows) == (
        "list, row 1, field 'summary': means 'output', and so does 'response'; choose one, such as"
        ' fields={"summary": "output"}; if it is something else, leave it out:'
        ' fields={"summary": "meta"}'
    )
    (example,) = read(rows, summary="output")
    assert (example.output, example.meta) == ("s", {"response": "r"})


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"a": "outptu"}, "'a' leads to 'outptu', which is not a field"),
        ({"output": "answer"}, "did you mean {'answer': 'output'}?"),
        ({"a": "source.b"}, "which is not a field"),
        ({"b": "source"}, "no row has the field 'b' that the field map names"),
    ],
)
def test_field_maps_that_lead_nowhere_are_refused(fields: dict[str, str], shown: str) -> None:
    assert shown in complaint([{"output": "x"}], fields)


def test_values_from_memory_become_what_json_holds() -> None:
    """Numpy and pandas values, dates and decimals are converted; NaN, NaT and NA are missing."""
    row = {
        "id": 7, "output": "x", "group": np.int64(3), "system": 2.0, "source": float("nan"),
        "human.a": np.float32(1.5), "human.b": float("nan"), "human.c": pd.NA,
        "human.d": Decimal("2.5"), "annotators": {"a": np.array([1, 2])}, "when": pd.NaT,
        "day": date(2024, 5, 1), "list": np.array(["a", "b"], dtype=object),
    }  # fmt: skip
    (example,) = read([row])
    assert (example.id, example.group, example.system) == ("7", "3", "2")
    assert (example.human, example.annotators) == ({"a": 1.5, "d": 2.5}, {"a": (1.0, 2.0)})
    assert example.meta == {"when": None, "day": "2024-05-01", "list": ["a", "b"]}
    assert example.source is None


def test_an_empty_group_or_system_is_a_missing_one_as_an_empty_cell_is() -> None:
    """Rows with it would be one source, so that no interval were valid."""
    rows = [{"id": str(at), "output": "x", "group": blank, "system": blank}
            for at, blank in enumerate(("", " ", None))]  # fmt: skip
    data = Examples(rows)
    assert {(one.group, one.system) for one in data} == {(None, None)}
    assert data.check().digest == Examples([{**row, "group": None} for row in rows]).check().digest


def test_cells_of_a_csv_file_are_read_as_what_their_column_is(tmp_path: Path) -> None:
    """Numbers in `human.` and `metrics.`, lists in references and annotators; empty is missing."""
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([
            ["output", "references", "human.c", "human.f", "annotators.c", "metrics.m", "note",
             "id", "human"],
            ["1", '["r", "q"]', "3", "", "[1, null]", " 0.5 ", "4", "", '{"g": 2}'],
            ["2", "[1] says so", "", "", "", "1e-3", "", "7", ""],
        ])  # fmt: skip
    first, second = read(path)
    assert (first.output, first.references, first.meta) == ("1", ("r", "q"), {"note": "4"})
    assert (first.human, first.metrics) == ({"c": 3.0, "g": 2.0}, {"m": 0.5})
    assert first.annotators == {"c": (1.0, None)}
    assert (second.id, second.references) == ("7", ("[1] says so",))
    assert (second.human, second.meta) == ({}, {"note": ""})


def test_the_callers_rows_are_left_alone() -> None:
    """Merging columns into `human` changes no dict of the caller."""
    row = {"output": "x", "human": {"a": 1}, "human.b": 2, "meta": {"k": 1}, "other": 3}
    row |= {"annotators": {"a": [1]}, "annotators.c.ann": 4}
    before = json.dumps(row)
    (example,) = read([row])
    assert example.human == {"a": 1.0, "b": 2.0, "c": 4.0}
    assert example.annotators == {"a": (1.0,), "c": (4.0,)}
    assert json.dumps(row) == before


BAD_LINES = {
    '{"output": "x"': ": broken JSON: ",
    "[1, 2]": ": is a list, not an object with fields",
    "3": ": is a number, not an object with fields",
    '{"source": "x"}': ", field 'output': is missing; fields: source; rename one to 'output', or"
    " map it",
    '{"output": null}': ", field 'output': is missing",
    '{"summary": 3}': ", field 'summary': should be text, not 3",
    '{"output": ["x"]}': ", field 'output': should be text, not ['x']",
    '{"output": "x", "human": {"c": "good"}}': ", field 'human.c': should be a number, not 'good'",
    '{"output": "x", "human.c": "3"}': ", field 'human.c': should be a number, not '3'",
    '{"output": "x", "human": {"c": [4, 5]}}': ", field 'human.c': should be a number,"
    " not [4, 5]; the ratings of several people are a list in annotators.c, or one column",
    '{"output": "x", "human": {"c": {"ann": 4}}}': ", field 'human.c': should be a number, not"
    " {'ann': 4}; the ratings of several people",
    '{"output": "x", "human": {"c": {"n": 4, "why": "so"}}}': ", field 'human.c': should be a"
    " number, not {'n': 4, 'why': 'so'}; map a part of it, such as"
    ' fields={"human.c.n": "human.c"}',
    '{"output": "x", "human": 3}': ", field 'human': should be an object with names",
    '{"output": "x", "human": {"c": 3}, "human.c": 3}': ", field 'human.c': is in 'human' as well",
    '{"output": "x", "human": {"c": NaN}}': ", field 'human.c': nan is not a finite number; use"
    " null",
    '{"output": "x", "metrics": {"c": -Infinity}}': ", field 'metrics.c': -inf is not a finite",
    '{"output": "x", "other": [0, 1e999]}': ", field 'other.1': inf is not a finite number",
    '{"output": "x \\ud800"}': ", field 'output': contains \\ud800 at character 2, half of a"
    " surrogate pair",
    '{"output": "x", "a": {"\\udc00": 1}}': ", field 'a.\\udc00': contains \\udc00 at character 0",
    '{"output": "x", "meta": "m"}': ", field 'meta': should be an object with names",
    '{"output": "x", "annotators": "a", "annotators.c.ann": 3}': ", field 'annotators': is text",
    '{"output": "x", "annotators": {"c": [3]}, "annotators.c.ann": 3}': ", field 'annotators.c':"
    " is in 'annotators' as well",
    '{"output": "x", "human": {"c": 1}, "annotators": [3]}': ", field 'annotators': should be an"
    " object",
    '{"output": "x", "annotators": {"c": 3}}': ", field 'annotators.c': should be a list, not 3",
    '{"output": "x", "annotators": {"c": [3, "y"]}}': ", field 'annotators.c.1': should be a"
    " number, not 'y'",
    '{"output": "x", "gold": {"text": ["a"]}}': ", field 'gold': should be a list, not {'text':"
    """ ['a']}; map a part of it, such as fields={"gold.text": "references"}""",
    '{"output": "x", "reference": [3.5]}': ", field 'reference.0': should be text, not 3.5",
    '{"output": "x", "id": ""}': ", field 'id': should not be empty",
    '{"output": "x", "id": 1.5}': ", field 'id': should be text, not 1.5",
    "[" * 2000: ": broken JSON: ",
}


@pytest.mark.parametrize(("line", "shown"), BAD_LINES.items())
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: str, shown: str) -> None:
    """File, line, field, and what is wrong, in one short message."""
    path = saved(tmp_path, f'{{"id": "ok", "output": "fine"}}\n{line}\n')
    message = complaint(path)
    assert message.startswith(f"{path}, line 2{shown}")
    assert len(message) < len(str(path)) + 300


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"output": "x", "human": {"c": float("inf")}}, "'human': should be a finite number"),
        ({"output": "x", "blob": b"1"}, "'blob': contains bytes, which JSON does not support"),
        ({"output": "x", "big": 2**70}, "'big': contains a number of more than 64 bits"),
        ({"output": "\ud800"}, "'output': contains \\ud800 at character 0"),
        (Example(output="\ud800", id="a"), "'output': contains \\ud800 at character 0"),
        (Example(output="x", meta={"k": float("nan")}), "'meta': should be a finite number"),
        ({3: "x"}, "row 1: has the field name 3, which is not text"),
    ],
)
def test_a_bad_row_in_memory_is_named_with_its_field(row: Any, shown: str) -> None:
    assert (f"row 1, field {shown}" if shown[0] == "'" else shown) in complaint([row])


@pytest.mark.parametrize("column", ["references", "reference", "blob"])
def test_a_value_that_meta_cannot_keep_either_is_not_to_be_mapped_there(column: str) -> None:
    message = complaint([{"output": "x", column: {"a"}}])
    assert message.endswith("JSON does not support; convert it or leave the field out")


MARKDOWN = "As ![this](i0.png) shows, i0.png and no.png."
PATH, CONTENT = "is the path of the image i0.png", "holds an image as text"


@pytest.mark.parametrize(
    ("row", "field", "problem"),
    [
        ({"output": "i0.png\n"}, "output", PATH),
        ({"context": ["A fact.", "i0.png"]}, "context", PATH),
        ({"contexts": "i0.png"}, "contexts", PATH),
        ({"response": "i0.png"}, "response", PATH),
        ({"reference": ["i0.png"]}, "reference", PATH),
        ({"input": "i0.png"}, "input", PATH),
        ({"messages": [{"role": "user", "content": "i0.png"}], "output": "x"}, "messages", PATH),
        ({"input": png_uri()}, "input", CONTENT),
        ({"context": [png_uri()]}, "context", CONTENT),
        ({"context": ["no.png"], "input": "no.png", "reference": "no.png"}, "", ""),
        ({"response": MARKDOWN, "input": MARKDOWN, "context": [MARKDOWN]}, "", ""),
        ({"input": "i0.png", "images": ["i0.png"]}, "", ""),
        ({"response": "A data:image/png;base64,... is an address."}, "", ""),
    ],
)
def test_an_image_in_the_place_of_a_text_is_refused(
    row: dict[str, Any], field: str, problem: str, tmp_path: Path
) -> None:
    """A path of an image that is there, and its content; a text that mentions one is a text."""
    (tmp_path / "i0.png").write_bytes(png())
    row = row if "output" in row or "response" in row else {"output": "x", **row}
    path = saved(tmp_path, lines(row))
    if not field:
        assert len(read(path)) == 1
        return
    assert (
        f"field {field!r}: {problem}, which would not be shown as an image; give it in the field"
        " 'images'"
    ) in complaint(path)


NESTED = {"id": "a", "inputs": {"question": "When?", "chunks": ["It was."], "lang": "en"},
          "outputs": {"answer": "In 1967."}, "scores": {"tone": 4},
          "choices": [{"turns": ["first", "second"]}]}  # fmt: skip
PATHS = {"inputs.question": "source", "inputs.chunks": "context", "outputs.answer": "output",
         "scores.tone": "human.tone", "choices.0.turns.1": "references"}  # fmt: skip


@pytest.mark.parametrize("form", ["rows", "csv", "python"])
def test_a_field_map_reaches_into_objects(tmp_path: Path, form: str) -> None:
    """LangSmith, Braintrust, Weave, Opik and MT-Bench; tables hold objects as JSON or Python."""
    source: Any = [NESTED]
    if form != "rows":
        write = json.dumps if form == "csv" else str
        table = io.StringIO()
        writer = csv.writer(table)
        writer.writerow(NESTED)
        writer.writerow([one if isinstance(one, str) else write(one) for one in NESTED.values()])
        source = saved(tmp_path, table.getvalue(), "data.csv")
    data = Examples(source, fields=PATHS)
    (example,) = data
    assert (example.source, example.output) == ("When?", "In 1967.")
    assert [one.text for one in example.passages] == ["It was."]
    assert (example.human, example.references) == ({"tone": 4.0}, ("second",))
    assert list(data.check().unseen) == ["inputs", "choices"]  # what is left of them is said
    assert example.meta["inputs"] == {"lang": "en"}


def test_a_path_that_leads_nowhere_is_refused_as_a_column_is() -> None:
    assert "no row has the field 'inputs.q'" in complaint([NESTED], {**PATHS, "inputs.q": "group"})


def test_names_inside_objects_are_shown_where_an_output_is_missing() -> None:
    assert "fields: id, inputs.question, inputs.chunks" in complaint([NESTED])
    row = {"input": {"question": "When?"}, "output": "x"}
    assert 'fields={"input.question": "source"}' in complaint([row])
    row = {"input": "When?", "output": {"answer": "x", "n": 1}}
    assert 'fields={"output.answer": "output"}' in complaint([row])


@pytest.mark.parametrize(("column", "field"), [
    ("human", "human.NAME"), ("metrics", "metrics.NAME"), ("annotators", "annotators.NAME"),
])  # fmt: skip
@pytest.mark.parametrize("value", ["4.5", "yes"])
def test_one_value_in_the_place_of_values_by_name_is_refused_with_what_to_do(
    tmp_path: Path, column: str, field: str, value: str
) -> None:
    path = saved(tmp_path, f"output,{column}\nx,{value}\n", "data.csv")
    assert f'fields={{"{column}": "{field}"}}' in complaint(path)
    if column == "human":
        assert read(path, **{column: "human.tone"})[0].human["tone"] in (4.5, 1.0)
    assert read(path, **{column: "meta"})[0].meta == {column: value}
