"""Data sets: what the fields of a row mean."""

from __future__ import annotations

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.pictures import png, png_uri
from tests.runtime.data.rows import complaint, lines, read, saved


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


def test_headings_of_spreadsheets_are_understood() -> None:
    """Capitals and spaces do not matter, except in names of ratings and in what the map says."""
    row = {"ID": "a", "Article": "s", "Summary": "o", "Doc ID": "g", "Model": "M", "Human": 4}
    (example,) = read([row])
    assert (example.id, example.source, example.output) == ("a", "s", "o")
    assert (example.group, example.system, example.meta) == ("g", "M", {"Human": 4})
    (example,) = read([row], Article="context", Summary="source", Model="output")
    assert (example.context, example.source, example.output) == ("s", "o", "M")
    assert complaint([{"Source": "a", "source": "b", "output": "c"}]) == (
        "list, row 1, field 'source': means 'source', and so does 'Source'; "
        "rename one, or choose one with the field map"
    )


@pytest.mark.parametrize(
    "alias", ["reference", "expected", "expected_output", "target", "ground_truth"]
)
@pytest.mark.parametrize(
    ("value", "expected"), [("r", ("r",)), (["r", "q"], ("r", "q")), (None, ()), ([], ())]
)
def test_aliases_of_the_references(alias: str, value: Any, expected: tuple[str, ...]) -> None:
    """One text and a list of texts are both fine."""
    assert read([{"output": "x", alias: value}])[0].references == expected


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
    (example,) = read([{"summary": "s", "output": "o", "references": ["r"], "reference": "r"}])
    assert (example.output, example.references, example.meta) == (
        "o",
        ("r",),
        {"summary": "s", "reference": "r"},
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


MARKDOWN = "As ![this](i0.png) shows, i0.png and no.png."


@pytest.mark.parametrize(
    ("row", "field", "problem"),
    [
        ({"output": "i0.png\n"}, "output", "is the path of the image i0.png"),
        ({"context": ["A fact.", "i0.png"]}, "context", "is the path of the image i0.png"),
        ({"contexts": "i0.png"}, "contexts", "is the path of the image i0.png"),
        ({"response": "i0.png"}, "response", "is the path of the image i0.png"),
        ({"reference": ["i0.png"]}, "reference", "is the path of the image i0.png"),
        ({"input": "i0.png"}, "input", "is the path of the image i0.png"),
        ({"messages": [{"role": "user", "content": "i0.png"}], "output": "x"}, "messages",
         "is the path of the image i0.png"),
        ({"input": png_uri()}, "input", "holds an image as text"),
        ({"context": [png_uri()]}, "context", "holds an image as text"),
        ({"context": ["no.png"], "input": "no.png", "reference": "no.png"}, "", ""),
        ({"response": MARKDOWN, "input": MARKDOWN, "context": [MARKDOWN]}, "", ""),
        ({"input": "i0.png", "images": ["i0.png"]}, "", ""),
        ({"response": "A data:image/png;base64,... is an address."}, "", ""),
    ],
)  # fmt: skip
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
    assert complaint(path).endswith(
        f"field {field!r}: {problem}, which would not be shown as an image; give it in the field"
        " 'images'"
    )


def test_the_callers_rows_are_left_alone() -> None:
    """Merging columns into `human` changes no dict of the caller."""
    row = {"output": "x", "human": {"a": 1}, "human.b": 2, "meta": {"k": 1}, "other": 3}
    before = json.dumps(row)
    assert read([row])[0].human == {"a": 1.0, "b": 2.0}
    assert json.dumps(row) == before
