"""What a cell of a flat table or a value of a row says, by the field it stands for."""

from __future__ import annotations

import ast
import math
from typing import Any

import orjson

from textassay.runtime.data.json_values import short_repr, to_json_value
from textassay.runtime.labels import LabelSets, known_pair, number_of

KEYED = ("human", "metrics", "annotators", "meta")
"""Fields that hold values by name; `human.coherence` is one value of `human`."""


LISTED = frozenset({"context", "passages", "messages", "images", "tools", "tools_called"})
"""Fields that may be lists of objects, which flat files hold as text."""


_NUMERIC = frozenset({int, float, type(None)})
_BOOLEAN = ("false", "true")


class FieldError(ValueError):
    """A row that makes no example."""

    def __init__(self, field: str | None, problem: str) -> None:
        """Keep which field it is about; `None` for the row as a whole."""
        super().__init__(problem if field is None else f"field {field!r}: {problem}")


class LabelReader:
    """Reads labels among ratings as numbers: known pairs such as pass and fail, and declared ones.

    The values of one name are all of one kind: a 4 beside a yes would be on another scale.
    """

    def __init__(self, declared: LabelSets | None = None) -> None:
        """Take the labels of aspects by name."""
        self._declared = {name: tuple(labels) for name, labels in (declared or {}).items()}
        self._words = {word.casefold() for labels in self._declared.values() for word in labels}
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._rated: dict[str, set[str]] = {}

    def are_known(self, text: str) -> bool:
        """Return whether a text is a label of any aspect."""
        return known_pair(text) is not None or text.strip().casefold() in self._words

    def numbers(self, field: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a field with labels as numbers; what is no label stays as it is.

        Raises:
            FieldError: Earlier values of the same name are of another kind.
        """
        rated = self._rated.setdefault(field, set())
        if rated.issuperset(values) and _NUMERIC.issuperset(map(type, values.values())):
            return values
        return {
            name: [self._number(field, name, one) for one in value]
            if isinstance(value, list | tuple) and field == "annotators"
            else self._number(field, name, value)
            for name, value in values.items()
        }

    def _number(self, field: str, name: str, value: Any) -> Any:
        where = f"{field}.{name}"
        if not isinstance(value, str | bool):
            if type(value) in _NUMERIC and value not in (0, 1, None):
                self._rated[field].add(name)
                self._refuse_mixed(field, name, value)
            return value
        if isinstance(value, str) and (declared := self._declared.get(name)) is not None:
            number = number_of(value, declared)
            if number is not None:
                return float(number)
            raise FieldError(where, f"should be one of {', '.join(declared)}, not {value!r}")
        if (found := known_pair(value)) is None:
            return value
        pair, number = found
        known = self._pairs.setdefault((field, name), pair)
        if known != pair and _BOOLEAN not in (known, pair):
            earlier = " or ".join(known)
            raise FieldError(where, f"is {value!r}, and {earlier} in another row")
        self._refuse_mixed(field, name, value)
        return float(number)

    def _refuse_mixed(self, field: str, name: str, value: Any) -> None:
        pair = self._pairs.get((field, name))
        if pair is not None and name in self._rated[field]:
            kinds = f"{' or '.join(pair)} in some rows and a number other than 0 and 1 in others"
            raise FieldError(f"{field}.{name}", f"is {kinds}; this one has {value!r}")


def cell_from_text(key: str, name: str, text: str, labels: LabelReader) -> Any:
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
        return text if labels.are_known(text) else _number(key, text)
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


def _number(key: str, text: str) -> float:
    try:
        # Python reads "1_000" as a number; in data it is a code.
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        raise FieldError(key, f"should be a number or empty, not {short_repr(text)}") from None
    if not math.isfinite(number):
        raise FieldError(key, f"should be a finite number or empty, not {short_repr(text)}")
    return number


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
