"""Reads people's ratings: labels as numbers, and ratings of one text from several files.

`by_rater` reads tables with a row per rater.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import orjson

from textassay.runtime.chat_formats import short_repr
from textassay.runtime.column_names import names_rater
from textassay.runtime.data.cells import FieldError, advice, finite
from textassay.runtime.data.numerals import NumeralError, read_numeral
from textassay.runtime.errors import DataError
from textassay.runtime.labels import (
    BOOLEAN,
    LabelScale,
    LabelSets,
    find_pair,
    member_name,
    number_of,
)
from textassay.runtime.messages import Example

_USUAL_MARKS = frozenset({
    "n/a", "na", "n.a.", "nan", "#n/a", "none", "null", "nil", "empty", "-", "--", "–", "—", "?",
    ".",
})  # fmt: skip
"""Usual marks of missing values, which are not categories among undeclared words."""
_NUMERIC = frozenset({int, float, type(None)})


class LabelReader:
    """Reads labels among ratings as numbers: known pairs such as pass and fail, and declared ones.

    A declared label is recognized by its name: a number is the label with this numeral; true and
    false are the labels of a known pair. Only if no label is a numeral, a number is the position of
    a label. All values of one name must be of one kind, since a 4 beside a yes would be on another
    scale. If several labels may apply, a list of labels becomes 0 or 1 for each label.
    """

    def __init__(
        self,
        declared: LabelSets | None = None,
        missing: Iterable[str] = (),
        *,
        any_word: bool = False,
    ) -> None:
        self._declare_missing(missing)
        self.declared = dict(declared or {})
        """The labels that were declared, by name."""
        self._words = {word.casefold() for scale in self.declared.values() for word in scale.names}
        self._sets = {name for name, scale in self.declared.items() if scale.multiple}
        # words for the labels of a name; names whose numbers are positions of labels; names with
        # other numbers
        self._words_of: dict[tuple[str, str], tuple[str, ...]] = {}
        self._positions: set[tuple[str, str]] = set()
        self._rated: dict[str, set[str]] = {}
        self._any_word = any_word
        self.categories: dict[tuple[str, str], dict[str, str]] = {}
        """Words that are not declared labels, if these are read, by field (`human`, also of single
        raters, or `metrics`) and name: in lower case and as written, in the order of their
        numbers."""

    def _declare_missing(self, missing: Iterable[str]) -> None:
        self.missing = tuple(missing)
        """Declared marks of missing values."""
        marks = {mark.strip().casefold() for mark in self.missing}
        self._codes = {number for mark in marks if (number := finite(mark)) is not None}
        self._marks = {mark for mark in marks if finite(mark) is None}

    def marking(self, missing: Iterable[str]) -> LabelReader:
        """Return a reader of the same labels and categories with other marks of missing values."""
        other = copy.copy(self)
        other._declare_missing(missing)
        return other

    @property
    def voted(self) -> frozenset[str]:
        """Names of the aspects whose labels have no order, so that raters have no mean."""
        declared = {name for name, scale in self.declared.items() if scale.is_nominal}
        return frozenset(declared | {name for field, name in self.categories if field == "human"})

    def pair(self, field: str, name: str) -> tuple[str, str] | None:
        """Return the words for no and yes among the values of a name; `None` without them."""
        for words in (self._words_of.get((field, name)), self._words_of.get(("annotators", name))):
            if words and words != BOOLEAN and len(words) == 2:
                return words[0], words[1]
        return None

    def unordered_labels(self, field: str, name: str) -> tuple[str, ...]:
        """Return the unordered labels among the values of a name so far; may be empty."""
        if (scale := self.declared.get(name)) is not None:
            return scale.names if scale.is_nominal else ()
        return tuple(self.categories.get((field, name), {}).values())

    def are_words(self, field: str, name: str) -> bool:
        """Return whether values of a name were labels so far."""
        return (field, name) in self._words_of

    def is_missing(self, value: Any, *, is_rating: bool = True) -> bool:
        """Return whether a value marks a missing value, ignoring case.

        A number, such as 99, is a mark among ratings only, in any spelling.
        """
        if isinstance(value, str):
            mark = value.strip().casefold()
            if mark in self._marks:
                return True
            return is_rating and bool(self._codes) and finite(mark) in self._codes
        return is_rating and type(value) in _NUMERIC and value in self._codes

    def are_known(self, text: str) -> bool:
        """Return whether a text is a label of any aspect, or several labels."""
        if self._any_word and not _is_numeral(text):
            return True
        listed = self._sets and (text.lstrip().startswith("[") or ";" in text)
        # numerals are read as numbers, since the same text may be a number of another aspect
        is_word = text.strip().casefold() in self._words and finite(text) is None
        return bool(listed or find_pair(text) or is_word)

    def has_numerals(self, name: str) -> bool:
        """Return whether a label of an aspect is a number."""
        declared = self.declared.get(name, LabelScale(()))
        return any(finite(label) is not None for label in declared.names)

    def numbers(
        self, field: str, values: dict[str, Any], *, are_positions: bool = False
    ) -> dict[str, Any]:
        """Return the values of a field with labels as numbers; other values stay unchanged."""
        if are_positions and _NUMERIC.issuperset(map(type, values.values())):
            return values
        if not self._sets.isdisjoint(values):
            values = self._by_member(field, values)
        rated = self._rated.setdefault(field, set())
        if (
            not self._codes
            and self.declared.keys().isdisjoint(values)
            and rated.issuperset(values)
            and _NUMERIC.issuperset(map(type, values.values()))
        ):
            return values
        return {
            name: [self._number(field, name, rating) for rating in value]
            if isinstance(value, list | tuple) and field == "annotators"
            else self._number(field, name, value)
            for name, value in values.items()
        }

    def _by_member(self, field: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return values with 0 or 1 for each label in place of lists of labels."""
        by_member: dict[str, Any] = {}
        for name, value in values.items():
            if name not in self._sets:
                by_member[name] = value
                continue
            where, labels = f"{field}.{name}", self.declared[name].names
            sets = (
                [self._members(where, labels_of_rater, labels) for labels_of_rater in value or ()]
                if field == "annotators"
                else self._members(where, value, labels)
            )
            for at, label in enumerate(labels):
                by_member[member_name(name, label)] = (
                    [members[at] for members in sets] if isinstance(sets, list) else sets[at]
                )
        return by_member

    def _members(self, where: str, value: Any, labels: tuple[str, ...]) -> tuple[float | None, ...]:
        if value is None or self.is_missing(value, is_rating=False):
            return (None,) * len(labels)
        chosen_labels = _parse_labels(value)
        places = [_place(label, labels, only_by_name=True) for label in chosen_labels or ()]
        if chosen_labels is None or None in places:
            raise FieldError(
                where, f"should be a list of {', '.join(labels)}, not {short_repr(value)}"
            )
        return tuple(float(at in places) for at in range(len(labels)))

    def _number(self, field: str, name: str, value: Any) -> Any:
        where = f"{field}.{name}"
        if self.is_missing(value):
            return None
        if (declared := self.declared.get(name)) is not None and value is not None:
            return self._of_declared(field, name, value, declared)
        if not isinstance(value, str | bool):
            if value is not None and self._is_categorical(field, name):
                raise FieldError(where, f"is {short_repr(value)}, and a word in another row")
            if type(value) in _NUMERIC and value is not None:
                self._note_number(field, name, value, is_label=value in (0, 1))
            return value
        if not (pair_and_number := find_pair(value)):
            return self._category(field, name, str(value)) if self._any_word else value
        if self._is_categorical(field, name):
            raise FieldError(
                where,
                f"is {value!r}, and another word in another row; name its labels in the task's"
                " aspect",
            )
        pair, number = pair_and_number
        earlier_pair = self._words_of.setdefault((field, name), pair)
        if earlier_pair != pair and BOOLEAN not in (earlier_pair, pair):
            earlier = " or ".join(earlier_pair)
            raise FieldError(where, f"is {value!r}, and {earlier} in another row")
        self._check_one_kind(field, name, value)
        return float(number)

    def _is_categorical(self, field: str, name: str) -> bool:
        return _category_key(field, name) in self.categories

    def _of_declared(self, field: str, name: str, value: Any, scale: LabelScale) -> Any:
        """Return the position of a label, or a mean of positions if the labels have an order."""
        labels, last = scale.names, len(scale.names) - 1
        if not isinstance(value, str | bool | int | float):
            return value
        place = _place(value, labels)
        if place is not None and not isinstance(value, str | bool):
            is_mean = field != "annotators" and not scale.is_nominal
            is_label = 0 <= place <= last and (is_mean or place == int(place))
            # a judge's scores may be mapped to two labels
            if is_label or (field == "metrics" and last == 1):
                self._note_number(field, name, value, is_label=is_label)
                return place
        elif place is not None:
            self._words_of.setdefault((field, name), labels)
            self._check_one_kind(field, name, value)
            return place
        if isinstance(value, str | bool) or self.has_numerals(name):
            problem = f"should be one of {', '.join(labels)}, not {value!r}"
            problem += advice(value) if isinstance(value, str) else ""
        else:
            listing = ", ".join(f"{at} ({word})" for at, word in enumerate(labels))
            problem = f"should be a label or its position, {listing}, not {value:g}"
        raise FieldError(f"{field}.{name}", problem)

    def _category(self, field: str, name: str, word: str) -> float | str:
        if not word.strip() or _is_number(word):
            return word
        if is_usual_mark(word):
            raise FieldError(
                f"{field}.{name}",
                f"is {word!r} among labels{advice(word)}; if it is a label, a task with the labels"
                f" says so (task=FILE)",
            )
        at = (field, name)
        if name in self._rated[field] or at in self._positions or at in self._words_of:
            raise FieldError(
                f"{field}.{name}",
                f"is {short_repr(word)}, and a number, yes or no in another row; name its labels in"
                f" the task's aspect{advice(word)}",
            )
        words = self.categories.setdefault(_category_key(field, name), {})
        plain = word.strip().casefold()
        words.setdefault(plain, word.strip())
        if len(words) > 200:  # so many different words are texts
            raise FieldError(
                f"{field}.{name}", f"has {len(words)} different words, too many for categories"
            )
        return float(list(words).index(plain))

    def _note_number(self, field: str, name: str, value: float, *, is_label: bool) -> None:
        """Record whether a number is the position of a label."""
        if is_label:
            self._positions.add((field, name))
        else:
            self._rated[field].add(name)
            self._check_one_kind(field, name, value)

    def _check_one_kind(self, field: str, name: str, value: Any) -> None:
        words = self._words_of.get((field, name))
        if words and name in self._rated[field]:
            numbers = "0 and 1" if len(words) == 2 else f"0 to {len(words) - 1}"
            kinds = f"{' or '.join(words)} in some rows and a number other than {numbers} in others"
            raise FieldError(f"{field}.{name}", f"is {kinds}; this one has {value!r}")


def _category_key(field: str, name: str) -> tuple[str, str]:
    """Return the key of `LabelReader.categories`: single raters use the words of their means."""
    return "human" if field == "annotators" else field, name


def is_usual_mark(text: str) -> bool:
    """Return whether a text usually marks a missing value, such as `N/A`."""
    # folding the case of a long text takes time
    return len(plain := text.strip()) <= 5 and plain.casefold() in _USUAL_MARKS


def _is_numeral(text: str) -> bool:
    """Return whether a text is a number, NaN or infinite."""
    try:
        return read_numeral(text) is not None or _is_number(text)
    except NumeralError:
        return True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _place(value: Any, labels: Sequence[str], *, only_by_name: bool = False) -> float | None:
    """Return the position of a label, or of a number between labels; `None` without one."""
    if isinstance(value, str | bool) and (number := number_of(value, labels)) is not None:
        return float(number)
    numerals = [finite(label) for label in labels]
    only_by_name = only_by_name or isinstance(value, str)
    value = finite(value) if isinstance(value, str) else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value in numerals:
        return float(numerals.index(value))
    if only_by_name:
        return None
    numbers = [number for number in numerals if number is not None]
    if not numbers:
        return float(value)
    if len(numbers) < len(labels):
        return None
    # a mean of raters, or of a judge's probabilities, if the labels have equal steps
    steps = [after - before for before, after in pairwise(numbers)]
    is_even = steps[0] and all(math.isclose(step, steps[0]) for step in steps)
    return (value - numbers[0]) / steps[0] if is_even else None


def _parse_labels(value: Any) -> list[Any] | None:
    """Return the labels in a list, in JSON, separated by semicolons or in a number, else `None`."""
    if type(value) in (int, float):
        return [value]
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return [part.strip() for part in value.split(";") if part.strip()]
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return list(value) if isinstance(value, list | tuple) else None


RATER = "rater"
"""Name of the column of raters in field maps."""
SAMPLING_PROBABILITY = "sampling_probability"
"""Field of a row: the probability with which it was drawn to be rated."""


def rater_of(example: Example) -> str | None:
    """Return the rater of an example's only rating, if a column names one."""
    named = (name for column, name in example.meta.items() if names_rater(column))
    return next((str(name) for name in named if name not in (None, "")), None)


class WithRatings:
    """Examples with the ratings of further files, joined by id at each iteration.

    Means over raters of several files are left to `Examples`.

    Raters of two files are two raters, in the order of the files; raters of the data come last.
    """

    def __init__(
        self,
        examples: Iterable[Example],
        files: Mapping[str, Iterable[Example]],
        other_texts: Mapping[str, Collection[str]] = {},
    ) -> None:
        """Join files of ratings to examples.

        Args:
            examples: The data.
            files: Rated examples by the name of their file.
            other_texts: Ids of the examples of each file whose text differs from the data's, so
                that their ratings are left out.
        """
        self.examples = examples
        self._files = {
            name: {row.id: row for row in rows if row.id not in other_texts.get(name, ())}
            for name, rows in files.items()
        }
        self._widths = [_widths(rows.values()) for rows in self._files.values()]
        self._sources = [*files.values(), examples]

    def rater_names(self, aspect: str) -> tuple[str, ...]:
        """Return the raters of an aspect by name, raters of the data last; empty if not known."""
        widths = [width_of[aspect] for width_of in self._widths]
        names = [read_names(source, aspect) for source in self._sources]
        is_named = all(len(n) == width for n, width in zip(names, widths, strict=False))
        return tuple(chain.from_iterable(names)) if is_named else ()

    def __iter__(self) -> Iterator[Example]:
        unused = {id_: name for name, rows in self._files.items() for id_ in rows}
        for example in self.examples:
            unused.pop(example.id, None)
            yield self._join(example)
        for id_, name in unused.items():
            raise DataError(
                f"{len(unused)} rated examples are not in the data, such as {id_!r} of {name}; give"
                " the data that were rated"
            )

    def _join(self, example: Example) -> Example:
        rated = [rows.get(example.id) for rows in self._files.values()]
        if not any(rated):
            return example
        human, annotators = dict(example.human), dict(example.annotators)
        for aspect in {name: None for rows in rated if rows for name in rows.human}:
            with_ratings = [row for row in (*rated, example) if row and _is_rated(row, aspect)]
            if len(with_ratings) > 1 and not all(r.annotators.get(aspect) for r in with_ratings):
                raise DataError(
                    f"the example {example.id!r} has ratings of {aspect!r} in two files, and one"
                    " is a mean without single ratings ('annotators'); leave out one of them"
                )
            single = self._columns(rated, example, aspect)
            if single:
                annotators[aspect] = tuple(single)
            if len(with_ratings) == 1:
                human[aspect] = with_ratings[0].human[aspect]
            elif single:
                human[aspect] = None  # `Examples` computes it from all raters
        meta = dict(example.meta)
        for row in rated:
            if row and SAMPLING_PROBABILITY in row.meta:
                meta[SAMPLING_PROBABILITY] = row.meta[SAMPLING_PROBABILITY]
        groups = (row.group for row in (example, *rated) if row and row.group is not None)
        update = {"human": human, "annotators": annotators, "meta": meta}
        return example.model_copy(update={**update, "group": next(groups, None)})

    def _columns(
        self, rated: Sequence[Example | None], example: Example, aspect: str
    ) -> list[float | None]:
        """Return an example's single ratings: as many columns of each file in every example."""
        columns: list[float | None] = []
        for row, widths in zip(rated, self._widths, strict=True):
            ratings = row.annotators.get(aspect, ()) if row else ()
            columns += [*ratings, *[None] * (widths[aspect] - len(ratings))]
        return [*columns, *example.annotators.get(aspect, ())]


def read_names(examples: Iterable[Example], aspect: str) -> tuple[str, ...]:
    """Return the raters of an aspect by name; empty if they are unknown."""
    return tuple(getattr(examples, "rater_names", lambda _: ())(aspect))


def _widths(rated: Iterable[Example]) -> Counter[str]:
    widths: Counter[str] = Counter()
    for example in rated:
        widths |= Counter({aspect: len(ratings) for aspect, ratings in example.annotators.items()})
    return widths


def _is_rated(example: Example, aspect: str) -> bool:
    ratings = (example.human.get(aspect), *example.annotators.get(aspect, ()))
    return any(rating is not None for rating in ratings)
