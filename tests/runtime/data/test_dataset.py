"""Data sets: what is read from where, and how a large file is read."""

from __future__ import annotations

import csv
import gzip
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.data.rows import DATA, ROWS, lines, read, saved
from tests.work import opcodes
from textassay.runtime.data.dataset import FEW, MAX_KEPT_BYTES, Examples, _first_repeat
from textassay.runtime.data.tables import MAX_BLANK_LINES, MAX_LINE
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example


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
    assert (info.has_groups, len(info.digest)) == (True, 64)


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
    due = None
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
        due = due or examples.check().digest
        assert examples.check().digest == due, name


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
    """Beyond what is kept of a small file, more rows take little more memory."""
    text = "x" * 4_000

    def peak(rows: int) -> int:
        path = tmp_path / f"{rows}.jsonl"
        with path.open("w") as file:
            for at in range(rows):
                file.write(f'{{"id": "{at}", "output": "{text}", "human": {{"c": 3}}}}\n')
        examples = Examples(path)
        tracemalloc.start()
        try:
            assert sum(1 for _ in examples) == rows
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    fills = MAX_KEPT_BYTES // len(text)
    less, more = peak(fills), peak(fills + 3_000)
    assert more < 1.25 * MAX_KEPT_BYTES
    assert more - less < 64 * 3_000


def test_a_small_file_is_read_once_and_a_large_one_again(tmp_path: Path) -> None:
    """Examples that fit are the same objects each time; others are made anew from the file."""

    def first_two(rows: list[dict[str, Any]]) -> tuple[Example, Example]:
        examples = Examples(saved(tmp_path, lines(*rows)))
        return next(iter(examples)), next(iter(examples))

    one, again = first_two([*ROWS])
    assert one is again
    too_many = MAX_KEPT_BYTES // 2**20 + 1
    one, again = first_two([{"id": str(at), "output": "x" * 2**20} for at in range(too_many)])
    assert one == again
    assert one is not again


def test_rows_with_ever_new_fields_are_fine(tmp_path: Path) -> None:
    """What is remembered of the shape of rows is bounded and does not change what is read."""
    rows = [{"id": str(i), "output": "x", f"field{i}": i} for i in range(600)]
    assert [e.meta for e in read(saved(tmp_path, lines(*rows)))] == [
        {f"field{i}": i} for i in range(600)
    ]


def test_reading_a_row_is_cheap(tmp_path: Path) -> None:
    """A short row takes some 650 instructions of Python; the parser and pydantic are not Python."""
    row = {
        "output": "The cat sat on the mat.",
        "source": "A cat sat.",
        "system": "M1",
        "human": {"coherence": 3},
    }

    def instructions(count: int) -> int:
        path = saved(tmp_path, lines(*({"id": str(i), **row} for i in range(count))))
        return opcodes(lambda: Examples(path).check())

    assert (instructions(700) - instructions(200)) / 500 < 1_300


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
    ("content", "shown"),
    [
        (b" " * (MAX_LINE + 1), "line 1: is longer than"),
        (b"\n" * (MAX_BLANK_LINES + 2), "blank lines"),
    ],
    ids=["one line", "blank lines"],  # else the megabytes themselves
)
def test_a_bomb_is_told_and_not_unpacked(tmp_path: Path, content: bytes, shown: str) -> None:
    """Blanks without end on one line, or lines without end: reading stops at a bound."""
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content)
        file.write(content)
    with pytest.raises(DataError, match=shown):
        Examples(path).check()


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_the_first_repeat_is_found_among_any_number_of_ids(count: int) -> None:
    """Few ids are compared in a set, and more by numpy, which takes more memory than few ids."""
    ids = [number.to_bytes(16, "big") for number in range(count)]
    assert _first_repeat(bytearray(b"".join(ids))) is None
    ids[-1], ids[50] = ids[3], ids[7]
    assert _first_repeat(bytearray(b"".join(ids))) == (7, 50)


@pytest.mark.parametrize("rows", [3, 17])
@pytest.mark.parametrize(("start", "stop"), [(0, 2), (1, 3), (2, None), (3, 3), (0, None)])
def test_a_part_is_a_slice_of_all(tmp_path: Path, rows: int, start: int, stop: int | None) -> None:
    """Whether the examples were kept or are read again, and with blank lines between the rows."""
    texts = [
        lines({"id": str(at), "output": "x" * (2**20 if rows > 16 else 1)}) for at in range(rows)
    ]
    examples = Examples(saved(tmp_path, "\n".join(texts)))
    assert [each.id for each in examples.part(start, stop)] == [
        str(at) for at in range(rows)[start:stop]
    ]


def test_a_part_of_a_file_that_changed_is_refused_at_its_end(tmp_path: Path) -> None:
    """Even if the rows behind the part are the ones that changed."""
    path = saved(tmp_path, lines(*ROWS))
    part = Examples(path).part(0, 1)
    next(part)
    saved(tmp_path, lines(*ROWS, {"output": "more"}))
    with pytest.raises(DataError, match="has changed since it was checked"):
        next(part)
