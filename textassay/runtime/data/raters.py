"""Data with one row per rater: joins the rows of each text into one with all ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from textassay.runtime.data.aliases import RATERS
from textassay.runtime.data.cells import LabelReader
from textassay.runtime.data.tables import Numbered, Table
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example

RATER = "rater"
"""What a field map calls the column that says who rated."""


def rater_of(example: Example) -> str | None:
    """Return who gave an example's only rating, if a column of `RATERS` says so."""
    named = (example.meta.get(column) for column in RATERS)
    return next((str(name) for name in named if name not in (None, "")), None)


def one_row_per_example(
    table: Table, fields: Mapping[str, str], labels: LabelReader
) -> ByRater | None:
    """Return the table with a row per text if its rows say who rated, else `None`.

    Such a table has a column of `RATERS` (or one that the field map calls `rater`), an `id` that
    comes more than once, and ratings in columns such as `human.coherence`.

    Raises:
        DataError: The rows cannot be read.
    """
    first = next(iter(table.rows()), (0, None))[1]
    if not isinstance(first, Mapping) or "annotators" in first:
        return None
    id_ = next((key for key, ours in fields.items() if ours == "id"), "id")
    named = [key for key, ours in fields.items() if ours == RATER]
    rater = next((key for key in (*named, *RATERS) if key in first), None)
    # A column of raters without ids does not say which rows belong together.
    if rater is None or id_ not in first:
        return None
    seen: set[str] = set()
    for _, row in table.rows():
        key = str(row.get(id_))
        if key in seen:
            # At the first repeat: a table with one row per text and a rater's name needs no
            # joining.
            return ByRater(table, rater, id_, fields, labels)
        seen.add(key)
    return None


class ByRater:
    """The rows of a table joined by id.

    Every aspect has one rating per rater, in order of appearance.

    Attributes:
        fields: What is left of the field map for the joined rows.
    """

    def __init__(
        self, table: Table, rater: str, id_: str, fields: Mapping[str, str], labels: LabelReader
    ) -> None:
        """Take the table, the names of the columns for rater and id, and what knows labels."""
        self._table, self._rater, self._id, self._fields = table, rater, id_, fields
        self._labels = labels
        self.name = table.name
        self.unit: Literal["line", "row"] = table.unit
        # Ratings were read as numbers here, so joined rows are no longer text only.
        self.text_cells, self.is_plain, self.text_lists = False, False, True
        self.fields = {
            key: ours
            for key, ours in fields.items()
            if ours != RATER and ours.partition(".")[0] not in ("human", "annotators")
        }

    def rows(self) -> Iterator[Numbered]:
        """Yield one row per text, at the place of its first row.

        Raises:
            DataError: A rater rated a text twice, or a rating is no number.
        """
        firsts: dict[str, tuple[int, dict[str, Any]]] = {}
        ratings: dict[str, dict[str, dict[str, float | str | None]]] = {}
        raters: dict[str, None] = {}
        for number, row in self._table.rows():
            id_, rater = str(row[self._id]), str(row[self._rater])
            raters.setdefault(rater)
            texts, rated = self._split(row, number)
            firsts.setdefault(id_, (number, texts))
            of_text = ratings.setdefault(id_, {})
            for aspect, value in rated.items():
                if rater in of_text.setdefault(aspect, {}):
                    raise DataError(
                        f"{self.name}, {self._table.unit} {number}: rater {rater!r} rated {id_!r}"
                        " before"
                    )
                of_text[aspect][rater] = value
        for id_, (number, texts) in firsts.items():
            annotators = {
                aspect: [by_rater.get(rater) for rater in raters]
                for aspect, by_rater in ratings[id_].items()
            }
            yield number, {**texts, "annotators": annotators}

    def state(self) -> object:
        """Return the state of the table."""
        return self._table.state()

    def _split(
        self, row: Mapping[str, Any], number: int
    ) -> tuple[dict[str, Any], dict[str, float | str | None]]:
        """Return a row without ratings and rater, and the ratings by aspect."""
        texts: dict[str, Any] = {}
        rated: dict[str, float | str | None] = {}
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

    def _number(self, key: str, value: Any, number: int) -> float | str | None:
        if value is None or value == "" or value != value:
            return None
        if isinstance(value, str) and self._labels.are_known(value):
            return value  # becomes a number with those of the other rows
        try:
            return float(value)
        except (TypeError, ValueError):
            raise DataError(
                f"{self.name}, {self._table.unit} {number}, field {key!r}: should be a number, not"
                f" {value!r}"
            ) from None
