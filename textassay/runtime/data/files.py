"""Reads files and tables as streams of rows.

JSON Lines, JSON, CSV, parquet, workbooks, data frames, arrow tables and plain iterables; errors
name file and line. The meaning of cells and fields is not known here.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from textassay.runtime.chat_formats import short_repr
from textassay.runtime.data.cells import to_json_value
from textassay.runtime.data.material import meaning_of
from textassay.runtime.data.numerals import DecimalMark
from textassay.runtime.data.separated import (
    Csv,
    Numbered,
    RowSource,
    TableFile,
    below_titles,
    check_unique_columns,
    what_it_is,
)
from textassay.runtime.errors import DataError


class Rows(RowSource):
    """Rows in memory, which `start` iterates from the beginning each time."""

    def __init__(
        self, name: str, start: Callable[[], Iterable[Any]], decimal: DecimalMark | None = None
    ) -> None:
        self.name, self._start, self.decimal = name, start, decimal

    def rows(self) -> Iterator[Numbered]:
        return enumerate(self._start(), start=1)


def _frame_rows(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas data frame."""
    columns = list(map(str, frame.columns))
    # `itertuples` without names keeps columns whose names are not identifiers
    for cells in frame.itertuples(index=False, name=None):
        yield dict(zip(columns, cells, strict=True))


def _batch_rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of arrow's record batches."""
    for batch in batches:
        yield from batch.to_pylist()


_BATCH = 256
"""Rows of a columnar file that are in memory as Python objects at a time."""


def open_table(source: Any) -> RowSource:
    """Return the rows behind a path, a data frame, an arrow table, a data set or an iterable.

    Rows are not read yet, except that an iterator is copied into a list, as it can be iterated only
    once.
    """
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source))
    kind = type(source).__name__
    # Recognized by their methods, so that neither pandas nor polars nor arrow need be installed;
    # all of them may have been read from CSV.
    if hasattr(source, "itertuples") and hasattr(source, "columns"):
        # levels of the index may have names, such as `id`
        named = [n for n in source.index.names if n is not None and n not in source.columns]
        frame = source.reset_index(level=named) if named else source
        check_unique_columns(map(str, frame.columns), kind)
        return Rows(kind, lambda: _frame_rows(frame), ".")
    if hasattr(source, "iter_rows") and hasattr(source, "columns"):
        return Rows(kind, lambda: source.iter_rows(named=True), ".")
    if hasattr(source, "to_batches") and hasattr(source, "schema"):
        return Rows(kind, lambda: _batch_rows(source.to_batches(max_chunksize=_BATCH)), ".")
    if isinstance(source, Mapping):
        parts = list(source.values())
        if len(parts) == 1 and hasattr(parts[0], "column_names"):  # a DatasetDict of one split
            return open_table(parts[0])
        splits = ", ".join(map(repr, list(source)[:8]))
        raise DataError(
            f"{kind}: give a list of examples, or one of its entries ({splits}), not a mapping"
        )
    if not isinstance(source, Iterable) or isinstance(source, bytes | BaseModel):
        hint = "; call collect() first" if hasattr(source, "collect") else ""
        hint = hint or ("; read it into a list first" if hasattr(source, "__aiter__") else "")
        raise DataError(
            f"{kind} contains no rows; give a path, a table, or a list of examples or dicts{hint}"
        )
    rows = list(source) if iter(source) is source else source
    return Rows(kind, lambda: rows)


class JsonLines(TableFile):
    """One JSON object per line; blank lines are left out."""

    is_plain = True

    def rows(self) -> Iterator[Numbered]:
        """Yield the value on each line, object or not."""
        loads = orjson.loads
        for number, line in self._lines():
            try:
                row = loads(line)
            except orjson.JSONDecodeError as error:
                if not line.strip():
                    continue
                problem = _why_broken(self._decode(number, line), error, first=number == 1)
                raise self.error(number, problem) from None
            yield number, row


def _why_broken(line: str, error: orjson.JSONDecodeError, *, first: bool) -> str:
    """Return why a line is refused: the field of a wrong number or text, or the place."""
    try:
        row = json.loads(line)  # takes NaN and half surrogates, so that they can be found
    except (ValueError, RecursionError):
        hint = "; every line must be one whole object"
        if first and line.lstrip().startswith("["):
            hint += " (for a file that is one list, use: jq -c '.[]' FILE)"
        elif first and line.strip() == "{":
            hint += " (for a file of indented objects, use: jq -c . FILE)"
        return f"broken JSON: {error.msg} at column {error.colno}{hint}"
    with suppress(RecursionError):  # nested so deeply that only the place is known
        for path, value in _leaves(row, ""):
            if isinstance(value, float) and not math.isfinite(value):
                return (
                    f"field '{path}': {value!r} is not a finite number; use null if it is missing"
                )
            try:
                to_json_value(value)
            except ValueError as problem:
                return f"field '{path}': {problem}"
    return f"{error.msg} at column {error.colno}"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            shown_key = (
                key.encode("ascii", "backslashreplace").decode() if not key.isprintable() else key
            )
            yield f"{path}.{shown_key}".lstrip("."), key
            yield from _leaves(item, f"{path}.{shown_key}".lstrip("."))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}.{number}")
    else:
        yield path, value


_LISTS = (
    "samples", "testCases", "conversationalTestCases", "test_cases", "test_results", "goldens",
    "cases", "rows",
)  # fmt: skip
"""Keys of the objects in other tools' JSON files: Inspect in `samples`, DeepEval in
`testCases`, pydantic-evals in `cases`."""


def _rows_of_frame(items: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows in pandas' `to_json` formats `columns`, `index` and `split`.

    An object of objects by id has the format `index`. Empty for any other object.
    """
    names, rows = items.get("columns"), items.get("data")
    if isinstance(names, list) and isinstance(rows, list):
        are_rows = all(isinstance(row, list) and len(row) == len(names) for row in rows)
        return [dict(zip(names, row, strict=True)) for row in rows] if are_rows else []
    inner = [value for value in items.values() if isinstance(value, dict)]
    if not inner or len(inner) < len(items):
        return []
    if all(map(str.isdecimal, inner[0])) or _names_output(items):
        index = dict.fromkeys(chain(*inner))
        return [{name: column.get(at) for name, column in items.items()} for at in index]
    return [{"id": name, **row} for name, row in items.items()] if _names_output(inner[0]) else []


def _names_output(keys: Iterable[str]) -> bool:
    return any(meaning_of(key)[0] == "output" for key in keys)


def _is_part(item: Any) -> bool:
    """Return whether an item may be a message, a passage or the like."""
    return isinstance(item, dict) and not item.keys().isdisjoint(
        ("text", "content", "role", "from")
    )


def _iter_lists(items: Any) -> Any:
    """Return the list of a file, or the lists of an object, one after the other."""
    if not isinstance(items, dict):
        return items
    if rows := _rows_of_frame(items):
        return rows
    inner = items.get("testRunData", items)  # DeepEval's latest run
    lists = [inner[key] for key in _LISTS if isinstance(inner.get(key), list)]
    if not any(lists):
        # such as `data` of SQuAD; beside another list nothing says which has the examples, and an
        # object with messages or passages is an example itself
        named = {key: value for key, value in inner.items() if value and isinstance(value, list)}
        lists = list(named.values())
        fields = {meaning_of(key)[0] for key in named} - {""}
        others = {meaning_of(key)[0] for key in inner.keys() - named}
        # `documents` and `outputs` may hold examples as well
        has_parts = fields.isdisjoint(("context", "output")) and any(map(_is_part, chain(*lists)))
        is_example = fields and (has_parts or not others.isdisjoint(("id", "output", "source")))
        if len(lists) != 1 or is_example or not all(isinstance(item, dict) for item in lists[0]):
            return items
    return [row for rows_of_list in lists for row in rows_of_list] if any(lists) else items


class JsonList(TableFile):
    """One JSON list of objects, or an object with such a list, read as a whole."""

    unit = "row"
    is_plain = True

    def rows(self) -> Iterator[Numbered]:
        lines = [self._decode(number, line) for number, line in self._lines()]
        try:
            items = orjson.loads("".join(lines))
        except orjson.JSONDecodeError as error:
            # the first object is whole if something follows it
            is_lines = "after document" in error.msg
            hint = "; a file with one object per line ends in .jsonl" if is_lines else ""
            raise DataError(
                f"{self.name}, line {error.lineno}: broken JSON: {error.msg} at column"
                f" {error.colno}{hint}"
            ) from None
        items = _iter_lists(items)
        if not isinstance(items, list):
            raise DataError(
                f"{self.name}: is not a list of objects, nor one object that holds such a list;"
                " a file with one object per line ends in .jsonl"
            )
        yield from enumerate(items, start=1)


class Parquet(TableFile):
    """A parquet file, read in small batches."""

    unit = "row"

    def rows(self) -> Iterator[Numbered]:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise DataError(
                f"{self.name}: parquet needs pyarrow: pip install 'textassay[parquet]'"
            ) from error
        try:
            with pyarrow.parquet.ParquetFile(self.path) as file:
                check_unique_columns(file.schema_arrow.names, self.name)
                yield from enumerate(_batch_rows(file.iter_batches(batch_size=_BATCH)), start=1)
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(
                f"{self.name}: cannot be read as parquet: {short_repr(str(error))}"
            ) from error


class Xlsx(TableFile):
    """The only sheet with cells of a workbook; its first row with cells is the header.

    Numbers are as the spreadsheet shows them. A formula has its value from when the workbook was
    saved.
    """

    unit = "row"
    decimal = "."

    def rows(self) -> Iterator[Numbered]:
        """Yield the rows as mappings; empty rows are left out."""
        try:
            import openpyxl
        except ImportError as error:
            raise DataError(
                f"{self.name}: .xlsx needs openpyxl: pip install 'textassay[xlsx]'"
            ) from error
        try:
            with closing(openpyxl.load_workbook(self.path, read_only=True, data_only=True)) as book:
                filled = [sheet for sheet in book.worksheets if any(_fill_rows(sheet))]
                tables = [sheet for sheet in filled if _is_table(sheet)]
                if len(filled) > len(tables) == 1:
                    self._notes[
                        f"read the sheet {tables[0].title!r}, the only one with a table"
                    ] = None
                    filled = tables
                if len(filled) > 1:
                    titles = ", ".join(repr(sheet.title) for sheet in filled)
                    raise DataError(
                        f"{self.name}: {len(filled)} sheets have cells ({titles}); save the one"
                        " with the examples as a file of its own"
                    )
                for sheet in filled:
                    # closed with the book, which would otherwise stay open while an error refers to
                    # it
                    with closing(_fill_rows(sheet)) as rows:
                        yield from self._name_cells(rows)
        # parsers of XML raise syntax errors
        except (OSError, KeyError, ValueError, SyntaxError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{self.name}: cannot be read as .xlsx: {short_repr(str(error))}"
            ) from error

    def _name_cells(self, rows: Iterator[tuple[int, Sequence[Any]]]) -> Iterator[Numbered]:
        header: list[str] = []
        for number, cells in below_titles(rows, self._notes):
            if not header:
                header = ["" if cell is None else str(cell).strip() for cell in cells]
                check_unique_columns(filter(None, header), self.name)
                continue
            # the first may be pandas' index
            for at, cell in enumerate(cells[1:], start=2):
                if cell is not None and (at > len(header) or not header[at - 1]):
                    raise self.unnamed_column(number, at)
            # a row may end before its last empty cells
            padded = (*cells, *[None] * (len(header) - len(cells)))
            yield number, {name: cell for name, cell in zip(header, padded, strict=False) if name}


def _fill_rows(sheet: Any) -> Generator[tuple[int, Sequence[Any]]]:
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        if any(cell is not None for cell in cells):
            yield number, cells


def _is_table(sheet: Any) -> bool:
    """Return whether any row has two cells, unlike remarks."""
    return any(sum(cell is not None for cell in cells) > 1 for _, cells in _fill_rows(sheet))


_FORMATS: dict[str, type[TableFile]] = {
    ".json": JsonList,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".csv": Csv,
    ".parquet": Parquet,
    ".xlsx": Xlsx,
}


def _short_path(path: Path) -> str:
    """Return a path for an error message, shortened if it is so long that it is probably data."""
    text = str(path)
    return repr(text) if len(text) <= 300 else short_repr(text)


def _open_file(path: Path) -> RowSource:
    suffix = _suffix(path)
    # these two formats are compressed already
    is_packed_twice = suffix in (".parquet", ".xlsx") and path.suffix.lower() == ".gz"
    try:
        if path.is_dir():
            inside = ", ".join(
                sorted(child.name for child in path.iterdir() if _suffix(child) in _FORMATS)[:5]
            )
            raise DataError(
                f"{path}: is a folder; name a file"
                + (f" in it, such as {inside}" if inside else "")
            )
        if not path.is_file():
            raise DataError(
                f"{_short_path(path)}: there is no such file"
                if not path.exists()
                else f"{path}: is not a file"
            )
        if suffix not in (*_FORMATS, ".tsv") or is_packed_twice:
            binary = "" if is_packed_twice else what_it_is(path)
            raise DataError(
                f"{path}: {binary}"
                if binary
                else f"{path}: unknown format; give .jsonl, .jsonl.gz, .json, .csv, .csv.gz, .tsv,"
                " .parquet or .xlsx"
            )
    except OSError as error:
        raise DataError(f"{_short_path(path)}: cannot be read: {error.strerror}") from error
    return Csv(path, "\t") if suffix == ".tsv" else _FORMATS[suffix](path)


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix
