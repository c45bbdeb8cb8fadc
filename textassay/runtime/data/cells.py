"""What a cell of a flat table or a value of a row says, by the field it stands for."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Iterable
from typing import Any

import orjson

from textassay.runtime.data.json_values import short_repr, to_json_value
from textassay.runtime.data.tables import Decimal
from textassay.runtime.labels import LabelSets, known_pair, member_name, number_of

KEYED = ("human", "metrics", "annotators", "meta")
"""Fields that hold values by name; `human.coherence` is one value of `human`."""


LISTED = frozenset({
    "context", "passages", "messages", "images", "tools", "tools_called", "rubric",
})  # fmt: skip
"""Fields that may be lists of objects, which flat files hold as text."""


_LONGEST_MARK = 20
"""Characters of what an error takes for a mark of a missing value."""
_NUMERIC = frozenset({int, float, type(None)})
_BOOLEAN = ("false", "true")
_FIELD_OF = {"annotators": "human"}
MAX_CATEGORIES = 200
"""Most different words that are read as categories."""


class FieldError(ValueError):
    """A row that makes no example."""

    def __init__(self, field: str | None, problem: str) -> None:
        """Keep which field it is about; `None` for the row as a whole."""
        super().__init__(problem if field is None else f"field {field!r}: {problem}")


class LabelReader:
    """Reads labels among ratings as numbers: known pairs such as pass and fail, and declared ones.

    The values of one name are all of one kind: a 4 beside a yes would be on another scale. Of an
    aspect several of whose labels may apply, a list of labels becomes 0 or 1 for each label.

    Attributes:
        categories: Words that are no declared labels, by their numbers, if these are read.
        categorical: Fields (`human`, also of single raters, or `metrics`) and names that have such
            words.
        missing: Marks of missing values, as they were declared.
    """

    def __init__(
        self,
        declared: LabelSets | None = None,
        missing: Iterable[str] = (),
        *,
        any_word: bool = False,
    ) -> None:
        """Take the labels of aspects by name, and the marks of missing values.

        Args:
            declared: The labels.
            missing: The marks.
            any_word: Whether any other word is a category, too. All names share one numbering, so
                that the labels of a judge and of people are the same.
        """
        self._declare_missing(missing)
        self._declared = dict(declared or {})
        self._words = {word.casefold() for scale in self._declared.values() for word in scale.names}
        self._sets = {name for name, scale in self._declared.items() if scale.multiple}
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._rated: dict[str, set[str]] = {}
        self._any_word = any_word
        self.categories: dict[str, str] = {}
        self.categorical: set[tuple[str, str]] = set()

    def _declare_missing(self, missing: Iterable[str]) -> None:
        self.missing = tuple(missing)
        marks = {mark.strip().casefold() for mark in self.missing}
        self._codes = {number for mark in marks if (number := _finite(mark)) is not None}
        self._marks = {mark for mark in marks if _finite(mark) is None}

    def marking(self, missing: Iterable[str]) -> LabelReader:
        """Return a reader of the same labels and categories with other marks of missing values."""
        other = copy.copy(self)
        other._declare_missing(missing)
        return other

    @property
    def voted(self) -> frozenset[str]:
        """Names of the aspects whose labels have no order, so that raters have no mean."""
        declared = {name for name, scale in self._declared.items() if scale.is_nominal}
        return frozenset(declared | {name for field, name in self.categorical if field == "human"})

    def pair(self, field: str, name: str) -> tuple[str, str] | None:
        """Return the words for no and yes that the values of a name are; `None` if none are."""
        found = {self._pairs.get((field, name)), self._pairs.get(("annotators", name))}
        return next((pair for pair in found if pair not in (None, _BOOLEAN)), None)

    def is_missing(self, value: Any, *, is_rating: bool = True) -> bool:
        """Return whether a value is a mark of a missing one, in any case.

        A mark that is a number, such as 99, is one among ratings only, however it is written.
        """
        if isinstance(value, str):
            mark = value.strip().casefold()
            if mark in self._marks:
                return True
            return is_rating and bool(self._codes) and _finite(mark) in self._codes
        return is_rating and type(value) in _NUMERIC and value in self._codes

    def are_known(self, text: str) -> bool:
        """Return whether a text is a label of any aspect, or several of them."""
        if self._any_word and not _is_number(text.replace(",", ".")):
            return True
        listed = self._sets and (text.lstrip().startswith("[") or ";" in text)
        return bool(
            listed or known_pair(text) is not None or text.strip().casefold() in self._words
        )

    def numbers(self, field: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a field with labels as numbers; what is no label stays as it is.

        Raises:
            FieldError: Earlier values of the same name are of another kind.
        """
        if not self._sets.isdisjoint(values):
            values = self._by_member(field, values)
        rated = self._rated.setdefault(field, set())
        if (
            not self._codes
            and self._declared.keys().isdisjoint(values)
            and rated.issuperset(values)
            and _NUMERIC.issuperset(map(type, values.values()))
        ):
            return values
        return {
            name: [self._number(field, name, one) for one in value]
            if isinstance(value, list | tuple) and field == "annotators"
            else self._number(field, name, value)
            for name, value in values.items()
        }

    def _by_member(self, field: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return values with 0 or 1 for each label in place of lists of labels."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if name not in self._sets:
                found[name] = value
                continue
            where, labels = f"{field}.{name}", self._declared[name].names
            sets = (
                [self._members(where, one, labels) for one in value or ()]
                if field == "annotators"
                else self._members(where, value, labels)
            )
            for at, label in enumerate(labels):
                found[member_name(name, label)] = (
                    [None if one is None else one[at] for one in sets]
                    if isinstance(sets, list)
                    else None if sets is None else sets[at]
                )  # fmt: skip
        return found

    def _members(self, where: str, value: Any, labels: tuple[str, ...]) -> tuple[float, ...] | None:
        if value is None or self.is_missing(value, is_rating=False):
            return None
        names = _listed_labels(value)
        numbers = [number_of(name, labels) for name in names or () if isinstance(name, str)]
        if names is None or len(numbers) < len(names) or None in numbers:
            raise FieldError(
                where, f"should be a list of {', '.join(labels)}, not {short_repr(value)}"
            )
        return tuple(float(at in numbers) for at in range(len(labels)))

    def _number(self, field: str, name: str, value: Any) -> Any:
        where = f"{field}.{name}"
        if self.is_missing(value):
            return None
        if not isinstance(value, str | bool):
            self._check_position(field, name, value)
            if value is not None and (_FIELD_OF.get(field, field), name) in self.categorical:
                raise FieldError(where, f"is {short_repr(value)}, and a word in another row")
            if type(value) in _NUMERIC and value not in (0, 1, None):
                self._rated[field].add(name)
                self._refuse_mixed(field, name, value)
            return value
        if isinstance(value, str) and (declared := self._declared.get(name)) is not None:
            number = number_of(value, declared.names)
            if number is not None:
                return float(number)
            raise FieldError(where, f"should be one of {', '.join(declared.names)}, not {value!r}")
        if (found := known_pair(value)) is None:
            return self._category(field, name, str(value)) if self._any_word else value
        pair, number = found
        known = self._pairs.setdefault((field, name), pair)
        if known != pair and _BOOLEAN not in (known, pair):
            earlier = " or ".join(known)
            raise FieldError(where, f"is {value!r}, and {earlier} in another row")
        self._refuse_mixed(field, name, value)
        return float(number)

    def _check_position(self, field: str, name: str, value: Any) -> None:
        """Refuse a number among people's labels that is no position of one, nor a mean of these."""
        declared = self._declared.get(name)
        if declared is None or field == "metrics" or type(value) not in (int, float):
            return
        is_mean = field == "human" and not declared.is_nominal
        if 0 <= value <= len(declared.names) - 1 and (is_mean or value == int(value)):
            return
        known = ", ".join(f"{at} ({word})" for at, word in enumerate(declared.names))
        raise FieldError(
            f"{field}.{name}", f"should be a label or its position, {known}, not {value:g}"
        )

    def _category(self, field: str, name: str, word: str) -> float | str:
        if not word.strip() or _is_number(word):
            return word
        if name in self._rated[field] or (field, name) in self._pairs:
            raise FieldError(
                f"{field}.{name}",
                f"is {short_repr(word)}, and a number, yes or no in another row; name its labels in"
                f" the task's aspect{advice(word)}",
            )
        self.categorical.add((_FIELD_OF.get(field, field), name))
        plain = word.strip().casefold()
        self.categories.setdefault(plain, word.strip())
        if len(self.categories) > MAX_CATEGORIES:
            raise FieldError(
                f"{field}.{name}",
                f"has {len(self.categories)} different words, which are no categories",
            )
        return float(list(self.categories).index(plain))

    def _refuse_mixed(self, field: str, name: str, value: Any) -> None:
        pair = self._pairs.get((field, name))
        if pair is not None and name in self._rated[field]:
            kinds = f"{' or '.join(pair)} in some rows and a number other than 0 and 1 in others"
            raise FieldError(f"{field}.{name}", f"is {kinds}; this one has {value!r}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed_labels(value: Any) -> list[Any] | None:
    """Return the labels in a list, in one as JSON, or between semicolons; `None` if it is none."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return [part.strip() for part in value.split(";") if part.strip()]
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return list(value) if isinstance(value, list | tuple) else None


def cell_from_text(
    key: str, name: str, text: str, labels: LabelReader, decimal: Decimal = "."
) -> Any:
    """Return what a cell of a flat table says.

    `None` if it is empty and the field may be missing; a label is left as it is.

    Raises:
        FieldError: It is not what the field holds.
    """
    # An empty output is an output (and is judged as such); every other empty cell is a missing
    # value.
    if name == "output" or name.startswith("meta."):
        return text
    if not text.strip():
        return None
    if name in ("human.", "metrics."):
        return text if labels.are_known(text) else number_in(key, text, decimal)
    if name == "references":
        return _listed(text)
    if name in LISTED or (name == "source" and text.lstrip()[:2] == "[{"):
        return _listed_objects(text)
    if name in KEYED or name == "annotators.":
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise FieldError(key, f"should be JSON, not {short_repr(text)} ({error.msg})") from None
    return text


def number_in(key: str, text: str, decimal: Decimal = ".") -> float:
    """Return the number that a cell holds as text.

    Args:
        key: The column.
        text: The cell.
        decimal: The decimal mark; where it is a comma, a point is understood as well.

    Raises:
        FieldError: It is no finite number.
    """
    # "1.234,5" stays as it is, which is no number
    plain = text.replace(",", ".") if decimal == "," and "." not in text else text
    try:
        # Python reads "1_000" as a number; in data it is a code.
        number = float(plain) if "_" not in plain else math.nan
    except ValueError:
        raise FieldError(
            key, f"should be a number or empty, not {short_repr(text)}{advice(text)}"
        ) from None
    if not math.isfinite(number):
        raise FieldError(key, f"should be a finite number or empty, not {short_repr(text)}")
    return number


def advice(text: str) -> str:
    """Say what to do about text where a number should be."""
    if _finite(text.replace(",", ".")) is not None:
        return "; write it with a decimal point (cells separated by semicolons may have commas)"
    if len(text) > _LONGEST_MARK:
        return ""
    return f"; if it marks a missing value, declare missing=({text!r},)"


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _listed(text: str) -> Any:
    """Return the references in a cell: a JSON list of texts, or else one text."""
    if text.lstrip().startswith("["):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
    return text


def _listed_objects(text: str) -> Any:
    """Return the list in a cell, as JSON or as Python writes it, or else the text."""
    if not text.lstrip().startswith("["):
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = ast.literal_eval(text.strip())  # what Ragas writes into .csv
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
    return value if isinstance(value, list) else text


def json_cell(key: Any, value: Any) -> Any:
    """Return a value from memory as what JSON can hold; `None` for NaN.

    Raises:
        FieldError: It cannot be expressed in JSON.
    """
    if type(value) is float and value != value:
        return None
    try:
        return to_json_value(value, top=True)
    except ValueError as error:
        raise FieldError(str(key), str(error)) from None
