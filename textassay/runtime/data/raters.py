"""Ratings of one text in several places: joins them into one example with all of them.

Rows of one table, one per rater, and files of ratings beside the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from textassay.runtime.data.aliases import RATERS
from textassay.runtime.data.label_reader import LabelReader
from textassay.runtime.data.tables import Numbered, Table
from textassay.runtime.data.values import FieldError, number_in
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example

RATER = "rater"
"""What a field map calls the column that says who rated."""
SAMPLING_PROBABILITY = "sampling_probability"
"""Field of a row: the probability with which it was drawn to be rated."""


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
        self.decimal, self.is_plain = table.decimal or ".", False
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
        ratings: dict[str, dict[str, dict[str, float | str | list[Any] | None]]] = {}
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
    ) -> tuple[dict[str, Any], dict[str, float | str | list[Any] | None]]:
        """Return a row without ratings and rater, and the ratings by aspect."""
        texts: dict[str, Any] = {}
        rated: dict[str, float | str | list[Any] | None] = {}
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

    def _number(self, key: str, value: Any, number: int) -> float | str | list[Any] | None:
        if value is None or value == "" or value != value or self._labels.is_missing(value):
            return None
        if isinstance(value, list) or (isinstance(value, str) and self._labels.are_known(value)):
            return value  # becomes a number with those of the other rows
        try:
            return number_in(key, value, self.decimal) if isinstance(value, str) else float(value)
        except FieldError as error:
            problem = str(error)
        except TypeError:
            problem = f"field {key!r}: should be a number, not {value!r}"
        raise DataError(f"{self.name}, {self._table.unit} {number}, {problem}")


class WithRatings:
    """Examples with the ratings of further files, joined by id, whenever they are iterated.

    Means over raters of several files are left to `Examples`.

    Raters of two files are two raters, in the order of the files; those of the data come last.

    Args:
        examples: The data.
        files: The rated examples of each file, by its name; only ratings and sampling
            probabilities are taken from them.

    Raises:
        DataError: When iterated: a rated example is not in the data, or ratings of an example
            cannot be combined, because one of two is a mean without single ratings.
    """

    def __init__(self, examples: Iterable[Example], files: Mapping[str, Iterable[Example]]) -> None:
        self._examples = examples
        self._files = {name: {one.id: one for one in rows} for name, rows in files.items()}
        self._widths = [_widths(rows.values()) for rows in self._files.values()]

    def __iter__(self) -> Iterator[Example]:
        left = {id_: name for name, rows in self._files.items() for id_ in rows}
        for example in self._examples:
            left.pop(example.id, None)
            yield self._joined(example)
        for id_, name in left.items():
            raise DataError(
                f"{len(left)} rated examples are not in the data, such as {id_!r} of {name}; give"
                " the data that were rated"
            )

    def _joined(self, example: Example) -> Example:
        rated = [rows.get(example.id) for rows in self._files.values()]
        if not any(rated):
            return example
        human, annotators = dict(example.human), dict(example.annotators)
        for aspect in {name: None for one in rated if one for name in one.human}:
            given = [one for one in (*rated, example) if one and _is_rated(one, aspect)]
            if len(given) > 1 and not all(one.annotators.get(aspect) for one in given):
                raise DataError(
                    f"the example {example.id!r} has ratings of {aspect!r} in two files, and one"
                    " is a mean without single ratings ('annotators'); leave out one of them"
                )
            single = self._columns(rated, example, aspect)
            if single:
                annotators[aspect] = tuple(single)
            if len(given) == 1:
                human[aspect] = given[0].human[aspect]
            elif single:
                human[aspect] = None  # `Examples` makes it of all raters
        meta = dict(example.meta)
        for one in rated:
            if one and SAMPLING_PROBABILITY in one.meta:
                meta[SAMPLING_PROBABILITY] = one.meta[SAMPLING_PROBABILITY]
        return example.model_copy(update={"human": human, "annotators": annotators, "meta": meta})

    def _columns(
        self, rated: Sequence[Example | None], example: Example, aspect: str
    ) -> list[float | None]:
        """Return an example's single ratings: as many columns of each file in every example."""
        columns: list[float | None] = []
        for one, widths in zip(rated, self._widths, strict=True):
            own = one.annotators.get(aspect, ()) if one else ()
            columns += [*own, *[None] * (widths.get(aspect, 0) - len(own))]
        return [*columns, *example.annotators.get(aspect, ())]


def _widths(rated: Iterable[Example]) -> dict[str, int]:
    widths: dict[str, int] = {}
    for one in rated:
        for aspect, ratings in one.annotators.items():
            widths[aspect] = max(widths.get(aspect, 0), len(ratings))
    return widths


def _is_rated(example: Example, aspect: str) -> bool:
    given = (example.human.get(aspect), *example.annotators.get(aspect, ()))
    return any(rating is not None for rating in given)
