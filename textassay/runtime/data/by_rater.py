"""Joins tables with one row per rater, or per rater and aspect, to one row per text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from textassay.runtime.chat_formats import short_repr
from textassay.runtime.column_names import ITEMS, RATERS, columns_named, plain_name
from textassay.runtime.data.cells import FieldError, cell_from_text, finite, json_cell
from textassay.runtime.data.material import OTHER_OUTPUT
from textassay.runtime.data.numerals import DecimalMark, PercentColumns
from textassay.runtime.data.ratings import RATER, LabelReader
from textassay.runtime.data.separated import Numbered, RowSource
from textassay.runtime.errors import DataError


class _Columns(NamedTuple):
    """The columns by which rows are joined."""

    id_: str
    rater: str
    aspect_and_value: Sequence[str]
    """The two columns of a table with a row per rating; empty without both."""
    names_text: bool
    """Whether `id_` is mapped to `id` or called so; any other may name a question, say."""
    is_rater_mapped: bool
    is_pair: bool


def one_row_per_example(
    table: RowSource,
    fields: Mapping[str, str],
    labels: LabelReader,
    fixed_columns: Callable[[Sequence[str]], Collection[str]],
) -> RowsByRater | None:
    """Return the table with a row per text if its rows name raters, else `None`.

    Such a table has a column of raters that is mapped to `rater`, or one that is named so and
    repeated values of `id` or another of `ITEMS`, and ratings in columns such as
    `human.coherence`, or in the columns `aspect` and `value`.
    `fixed_columns` names other columns with equal values in all rows of a text: if an item that is
    not called `id` has several texts, it is a question, say, and each row is a text.
    """
    first = next(iter(table.rows()), (0, None))[1]
    if not isinstance(first, Mapping) or "annotators" in first:
        return None
    columns = _find_columns(first, fields)
    if columns is None:
        return None
    is_sure = columns.is_rater_mapped or columns.aspect_and_value
    if is_sure or _texts_have_several_rows(table, columns, first, fixed_columns):
        return RowsByRater(table, columns, fields, labels, fixed_columns)
    return None


def _find_columns(first: Mapping[str, Any], fields: Mapping[str, str]) -> _Columns | None:
    """Return the columns of a table by its first row; `None` without raters or ids.

    Without ids, it is unknown which rows belong together.
    """
    unmapped = [key for key in first if isinstance(key, str) and key not in fields]

    def find(ours: str, names: Sequence[str]) -> str | None:
        mapped = [key for key, target in fields.items() if target == ours]
        return next((k for k in (*mapped, *columns_named(names, unmapped)) if k in first), None)

    id_, rater = find("id", ITEMS), find(RATER, RATERS)
    if id_ is None or rater is None:
        return None
    # `textassay ratings export csv` writes an aspect and its value in columns of these names
    long = columns_named(("aspect", "value"), unmapped)
    return _Columns(
        id_, rater, long if len(long) == 2 else (),
        names_text=fields.get(id_) == "id" or plain_name(id_) == "id",
        is_rater_mapped=fields.get(rater) == RATER,
        is_pair=OTHER_OUTPUT in {o.removeprefix("meta.") for o in (*fields.values(), *unmapped)},
    )  # fmt: skip


def _texts_have_several_rows(
    table: RowSource,
    columns: _Columns,
    first: Mapping[str, Any],
    fixed_columns: Callable[[Sequence[str]], Collection[str]],
) -> bool:
    """Return whether ids repeat, and no id that may name a question has rows with other texts."""
    try:
        others = [key for key in first if key != columns.rater]
        fixed = () if columns.names_text else fixed_columns(others)
    except FieldError:  # refused where rows are read, like rows of other kinds
        return False
    texts: dict[str, list[Any]] = {}
    repeats = False
    for _, row in table.rows():
        if not isinstance(row, Mapping):
            return False
        of_row = [row.get(key) for key in fixed]
        of_first = texts.setdefault(str(row.get(columns.id_)), of_row)
        if any(a and b and a != b for a, b in zip(of_row, of_first, strict=True)):
            return False
        repeats = repeats or of_first is not of_row
        if repeats and columns.names_text:
            break
    return repeats


class RowsByRater(RowSource):
    """The rows of a table joined by id.

    Every aspect has one rating per rater, in order of appearance.
    """

    def __init__(
        self,
        table: RowSource,
        columns: _Columns,
        fields: Mapping[str, str],
        labels: LabelReader,
        fixed_columns: Callable[[Sequence[str]], Collection[str]],
    ) -> None:
        self._table, self._fields = table, fields
        self._id, self._rater = columns.id_, columns.rater
        self._labels, self._fixed_columns = labels, fixed_columns
        self._aspect_and_value, self._is_pair = columns.aspect_and_value, columns.is_pair
        self._percents = PercentColumns()
        self.name = table.name
        self.unit = table.unit
        self.raters: tuple[str, ...] = ()  # in order of the ratings, once the rows are read
        # Ratings were read as numbers here, so joined rows are no longer text only.
        self.decimal: DecimalMark = table.decimal or "."
        self.fields = {
            key: ours
            for key, ours in fields.items()
            if ours != RATER and ours.partition(".")[0] not in ("human", "annotators")
        } | {self._id: "id"}
        """The part of the field map that applies to the joined rows."""

    def rows(self) -> Iterator[Numbered]:
        """Yield one row per text, at the place of its first row."""
        firsts: dict[str, tuple[int, dict[str, Any]]] = {}
        ratings: dict[str, dict[str, dict[str, Any]]] = {}
        raters: dict[str, None] = {}
        fixed: Collection[str] = ()
        for number, row in self._table.rows():
            id_, rater = self._read_id_and_rater(row, number)
            texts, rated = self._split(row, number)
            if not firsts:
                try:
                    fixed = self._fixed_columns(tuple(texts))
                except FieldError as error:
                    raise self.error(number, error) from None
            _, first = firsts.setdefault(id_, (number, texts))
            for key in fixed:
                if texts.get(key) and first.get(key) and texts[key] != first[key]:
                    problem = f"differs from an earlier row of {id_!r}; each text needs"
                    raise self.error(number, f"field {key!r}: {problem} an id of its own")
            of_text = ratings.setdefault(id_, {})
            if not rater.strip():
                if any(value is not None for value in rated.values()):
                    raise self.error(number, f"field {self._rater!r}: is empty; name the rater")
                continue
            raters.setdefault(rater)
            for aspect, value in rated.items():
                if rater in of_text.setdefault(aspect, {}):
                    raise self.error(number, f"rater {rater!r} rated {id_!r} before")
                of_text[aspect][rater] = value
        self.raters = tuple(raters)
        if raters and not any(ratings.values()):
            raise DataError(
                f"{self.name}: has a row for each rater ({self._rater!r}), and no column with"
                ' ratings; name it: fields={"COLUMN": "human.ASPECT"}'
            )
        for id_, (number, texts) in firsts.items():
            annotators = {
                aspect: [by_rater.get(rater) for rater in raters]
                for aspect, by_rater in ratings[id_].items()
            }
            yield number, {**texts, "annotators": annotators}

    @property
    def notices(self) -> tuple[str, ...]:
        return self._table.notices

    def state(self) -> object:
        return self._table.state()

    def _read_id_and_rater(self, row: Any, number: int) -> tuple[str, str]:
        """Return a row's text id and rater; `""` for a missing one."""
        if not isinstance(row, Mapping):
            raise self.error(number, f"is {short_repr(row)}, not an object with fields")
        id_, rater = (json_cell(key, row.get(key)) for key in (self._id, self._rater))
        if id_ in (None, ""):
            raise self.error(number, f"field {self._id!r}: is empty; give the id of the rated text")
        return str(id_), "" if rater is None else str(rater)

    def _split(self, row: Mapping[str, Any], number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a row without ratings and rater, and the ratings by aspect."""
        texts: dict[str, Any] = {}
        rated: dict[str, Any] = {}
        if self._aspect_and_value and row.keys() >= {*self._aspect_and_value}:
            row = {**row}
            aspect, value = map(row.pop, self._aspect_and_value)
            rated[str(aspect)] = self._number(f"value of {aspect}", value, number)
        for key, value in row.items():
            field, _, aspect = self._fields.get(key, key).partition(".")
            if field in ("human", "annotators") and aspect:
                rated[aspect] = self._number(key, value, number)
            elif field == "human" and isinstance(value, Mapping):
                for name, item in value.items():
                    rated[name] = self._number(f"human.{name}", item, number)
            elif key != self._rater:
                texts[key] = value
        return texts, rated

    def _is_label(self, text: str) -> bool:
        """Return whether a text is kept: in comparisons every word may name one of the texts."""
        is_word = self._is_pair and finite(text.replace(",", ".")) is None
        return is_word or self._labels.are_known(text)

    def _number(self, key: str, value: Any, number: int) -> Any:
        """Return a rating; words and lists become numbers when all rows are known."""
        try:
            value = json_cell(key, value)
            if value is None or self._labels.is_missing(value):
                return None
            if isinstance(value, str):
                percents = self._percents
                return cell_from_text(key, "human.", value, self._is_label, self.decimal, percents)
            return value if isinstance(value, list) else float(value)
        except FieldError as error:
            raise self.error(number, error) from None
        except TypeError:
            problem = f"field {key!r}: should be a number, not {value!r}"
            raise self.error(number, problem) from None
