"""Reads tables as people write them: separators, encodings, percent, fractions, yes and no.

A column of cells becomes numbers or words; any other cell is missing, and a missing value is never
a number. Cells such as `n/a` or `error` are missing.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from textassay.agreement.labels import MAX_LABELS
from textassay.checking import vocabulary
from textassay.runtime.data.numerals import AmbiguousNumber, DecimalMark, read_numeral
from textassay.runtime.data.separated import Csv, RowSource
from textassay.runtime.errors import DataError
from textassay.runtime.labels import PAIRS

TableColumnKind = Literal["number", "words", "text", "empty"]

_YES, _NO = vocabulary.words("yes"), vocabulary.words("no")
_WITH_UNIT = re.compile(
    r"(?P<value>[+-]?\d+(?:\.\d+)?)\s*"
    r"(?:(?:/|out of|of|von|sur|de|su)\s*(?P<top>\d+(?:\.\d+)?)"
    r"|(?:stars?|sterne?|étoiles?|estrellas?|points?|pts?|punkte?|puntos?)\.?)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:(?:final\s+)?(?:score|rating|grade|note|wertung|punkte)\s*[:=]\s*)?\[{0,2}"
    r"(?P<value>[+-]?\d+(?:\.\d+)?)\]{0,2}(?:\s*[-–—:(=.]+\s*\D+)?",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"(?:not|nicht|non|no|pas|un|in|im|ir|dis|mis)[\s_-]*(?P<rest>\w.*)")


@dataclass(frozen=True, slots=True)
class CellReader:
    """One column, read."""

    name: str
    kind: TableColumnKind
    values: list[float | str | None]
    """Numbers, or words in lower case; `None` for unusable cells."""
    top: float | None = None
    """Upper end of the scale that the cells name, such as `4/5` and `80 %`."""
    unusable: int = 0
    """Number of filled cells that are not a number in a column of numbers."""
    example: str = ""
    """The first of them."""
    ambiguous: str = ""
    """Why a cell could be one of two numbers."""

    @property
    def filled(self) -> list[float | str]:
        """The values that are not missing."""
        return [value for value in self.values if value is not None]


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table with its original cells."""

    name: str
    columns: dict[str, list[Any]]
    decimal: DecimalMark = "."
    """Decimal mark of numbers written as text."""
    notes: tuple[str, ...] = ()
    """Notes on unusual decisions in reading the table."""
    is_own: bool = False
    """Whether other commands would read another table: rows were joined or left out, or columns
    renamed.
    """
    shown: Mapping[str, str] = field(default_factory=dict)
    """Names in results of columns made from several rows: the rater, or the judge."""

    @property
    def length(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), []))


def read_table(source: Any) -> RawTable:
    """Read a file, a data frame or rows; nested fields become columns such as `human.quality`.

    Args:
        source: A path of CSV, TSV, JSON Lines, JSON, Parquet or Excel (also `.gz`), or any input of
            `textassay.Examples`.

    Raises:
        DataError: It cannot be read, or has no rows.
    """
    table: RowSource
    is_path = isinstance(source, str | PathLike)
    if is_path and str(source).lower().removesuffix(".gz").endswith(
        (".csv", ".tsv", ".txt", ".md")
    ):
        table = Csv(Path(source), numbers_duplicates=True)
    else:
        from textassay.runtime.data.files import open_table

        table = open_table(source)
    rows = [dict(row) if isinstance(row, Mapping) else {} for _, row in table.rows()]
    if not rows:
        raise DataError(f"{table.name}: contains no rows")
    if isinstance(table, Csv):
        _check_header(table.name, list(rows[0]))
    notes = list(table.notices)
    names = rows[0].keys()
    is_own = any(f"{name} (2)" in names for name in names)
    while len(rows) > 1 and (word := _total(rows)):
        rows.pop()
        notes.append(f"{table.name}: the last row ({word!r}) sums up the others and is left out")
        is_own = True
    return RawTable(table.name, _flatten(rows), table.decimal or ".", tuple(notes), is_own)


def _total(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the first word of the last row if it names a sum or a mean of the others."""
    name, cell = next(((name, cell) for name, cell in rows[-1].items() if _text(cell)), ("", ""))
    word = _text(cell)
    is_total = word.casefold().rstrip(": ") in vocabulary.words("totals")
    return word if is_total and all(_text(row.get(name)) != word for row in rows[:-1]) else ""


def _check_header(name: str, names: Sequence[str]) -> None:
    # without the number added to repeated names
    header = [name.casefold().partition(" (")[0] for name in names]
    if header and all(read_numeral(name, ",") or name in _YES | _NO for name in header):
        raise DataError(
            f"{name}: the first row ({', '.join(header[:6])}) contains values instead of names; "
            "write the names of the columns above it, such as judge and human"
        )


def _flatten(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns; `{"human": {"quality": 4}}` becomes `human.quality`."""
    columns: dict[str, list[Any]] = {}
    for at, row in enumerate(rows):
        for name, value in _leaves(row):
            column = columns.setdefault(name, [])
            column.extend([None] * (at - len(column)))
            column.append(value)
    length = max(map(len, columns.values()), default=0)
    for column in columns.values():
        column.extend([None] * (length - len(column)))
    return columns


def _leaves(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of a row: each field of an object, each rating of a list."""
    for key, value in row.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        elif items := _ratings_in(value, are_ratings=bool(above)):
            # `human.1` would be the aspect 1 of textassay's format
            numbered = (f".{at}" if above else f"[{at}]" for at in range(1, len(items) + 1))
            yield from _leaves(dict(zip(numbered, items, strict=True)), name)
        else:
            yield name, value


def _ratings_in(value: Any, *, are_ratings: bool) -> Sequence[Any]:
    """Return the items of a list of ratings, also written as text; empty for other cells."""
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        from textassay.runtime.data.cells import list_or_text

        value = list_or_text(value)
        if len(value) == 1:  # some judges write `[4]`
            return ()
    elif hasattr(value, "tolist"):  # an array of a data frame
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return ()
    return value if are_ratings or all(map(_is_rating, value)) else ()


def _is_rating(item: Any) -> bool:
    """Return whether an item of a list is a rating, or an object that has one."""
    if isinstance(item, Mapping):
        return any(isinstance(value, int | float) for value in item.values())
    return item is None or isinstance(item, int | float) or str(item).casefold() in _YES | _NO


def read_cells(name: str, cells: Sequence[Any], decimal: DecimalMark = ".") -> CellReader:
    """Read the cells of one column: numbers, words, or long texts.

    Args:
        name: The column.
        cells: Its cells.
        decimal: Decimal mark of the table's numbers; the column's own mark has priority.
    """
    texts = [_text(cell) for cell in cells]
    # cells repeat: each spelling is read once
    counts = Counter(filter(None, texts))
    missing = vocabulary.words("missing")
    filled = {text: n for text, n in counts.items() if text.casefold() not in missing}
    if not filled:
        return CellReader(name, "empty", [None] * len(cells))
    answers = {text: n for text, n in filled.items() if not _is_unscored(text, filled)}
    decimal = _decimal_mark(answers, decimal)
    ambiguous: list[str] = []
    numbers = {text: _number(text, decimal, ambiguous) for text in answers}
    numbers_by_text = {text: number for text, number in numbers.items() if number is not None}
    usable, total = sum(answers[text] for text in numbers_by_text), sum(answers.values())
    tops = {top for _, top in numbers_by_text.values()}
    # if four of five cells are numbers, the others count as missing; all must have one scale: "4/5"
    # and "4/10" are two scales, and plain numbers have none
    if not usable or usable < 0.8 * total or len(tops) > 1:
        return _words(name, texts, answers)
    values = [numbers_by_text[text][0] if text in numbers_by_text else None for text in texts]
    wrong = next((text for text in answers if text not in numbers_by_text), "")
    return CellReader(
        name, "number", list(values), tops.pop(), total - usable, wrong[:40],
        ambiguous[0] if ambiguous else "",
    )  # fmt: skip


def is_plain(cells: Iterable[Any]) -> bool:
    """Return whether every cell is empty, a number, a boolean or a word of a known pair.

    All commands read such cells; other cells are understood by a check alone.
    """
    words = {word for pair in PAIRS for word in pair}
    return all(
        not text or read_numeral(text, ",") is not None or text.casefold() in words
        for text in set(map(_text, cells))
    )


def _text(cell: Any) -> str:
    """Return a cell as text, emoji without skin tones; empty if it is a missing value."""
    if isinstance(cell, float) and math.isnan(cell):
        return ""
    if type(cell).__name__ in ("NoneType", "NAType", "NaTType", "list", "tuple", "dict"):
        return ""
    if hasattr(cell, "dtype") and hasattr(cell, "item"):  # a number of numpy
        cell = cell.item()
    text = str(cell).strip()
    # a skin tone, or the emoji variation selector
    return text if text.isascii() else re.sub("[\ufe0f\U0001f3fb-\U0001f3ff]", "", text)


def _is_unscored(text: str, filled: Iterable[str]) -> bool:
    plain = text.casefold().strip("<>[]. ")
    if plain not in vocabulary.words("unscored"):
        return False
    # `invalid` beside `valid` is a verdict
    opposite = next((pair[1] for pair in PAIRS if pair[0] == plain), None)
    return opposite is None or all(other.casefold() != opposite for other in filled)


def _decimal_mark(texts: Iterable[str], decimal: DecimalMark) -> DecimalMark:
    """Return the decimal mark of a column: beside `4,5`, `4,125` is not four thousand."""
    # a comma that does not separate thousands
    comma = r"(?<![\d,])(?:0,\d+|\d+,(?:\d{1,2}|\d{4,}))(?![\d,])"
    has_comma = any(re.search(comma, text) for text in texts)
    return "," if has_comma and not any(re.search(r"\d\.\d", text) for text in texts) else decimal


def _number(
    text: str, decimal: DecimalMark, ambiguous: list[str]
) -> tuple[float, float | None] | None:
    """Return a number and the top of the scale written beside it (`None` without one)."""
    try:
        numeral = read_numeral(text, decimal)
    except AmbiguousNumber as error:
        ambiguous.append(str(error))
        numeral = read_numeral(text, ",")
    if numeral is not None and math.isfinite(numeral.value):
        return numeral.value, 1.0 if numeral.is_percent else None
    plain = re.sub(r"(?<=\d),(?=\d)", ".", text) if decimal == "," else text
    plain = plain.replace("\u2212", "-").replace("\u00a0", " ").strip()
    if match := _WITH_UNIT.fullmatch(plain):
        return float(match["value"]), float(match["top"]) if match["top"] else None
    stars = plain.rstrip("☆")
    if stars and not stars.strip("★⭐*"):
        return float(len(stars)), None
    if match := _NAMED.fullmatch(plain):
        return float(match["value"]), None
    return None


def _words(name: str, texts: Sequence[str], answers: Mapping[str, int]) -> CellReader:
    plain = {text: text.casefold().rstrip(".!").strip() for text in answers}
    words = set(plain.values())
    # `none` is a gap in a column of yes and no, and a grade in one of none, minor and major
    if "none" in words and (words - {"none"}) <= (_YES | _NO):
        plain = {text: word for text, word in plain.items() if word != "none"}
        words.discard("none")
    values = [plain.get(text) for text in texts]
    longest = max(map(len, words), default=0)
    # a longer cell is a text, not a category
    is_label = len(words) <= MAX_LABELS and longest <= 60
    # in a column of names or texts most cells are different
    is_label = is_label and (len(words) <= 3 or 2 * len(words) <= sum(answers.values()))
    kind: TableColumnKind = ("words" if words else "empty") if is_label else "text"
    return CellReader(name, kind, list(values))


def polarity(words: Iterable[str]) -> dict[str, int]:
    """Return the words that mean no (0) and yes (1); empty unless all words mean one of them.

    `not supported` means no because `supported` does not, `not hallucinated` means yes.
    """
    distinct = set(words)
    meant = {word: _meaning(word, distinct) for word in distinct}
    meaningful = {word: meaning for word, meaning in meant.items() if meaning is not None}
    return meaningful if len(meaningful) == len(meant) else {}


def are_grades(words: Iterable[str]) -> bool:
    """Return whether one column has two different words for yes or for no, such as `ok` and `good`.

    Spellings of one word, such as `y` and `yes`, count as one.
    """
    distinct = sorted({_plain_word(word) for word in words})
    meant = {word: _meaning(word, set(distinct)) for word in distinct}
    return any(
        meant[a] == meant[b] and not (a.startswith(b) or b.startswith(a))
        for at, a in enumerate(distinct)
        for b in distinct[:at]
    )


def are_names(cells: CellReader) -> bool:
    """Return whether a column has words other than yes and no."""
    return cells.kind == "words" and not polarity(map(str, set(cells.filled)))


class WordSteps(NamedTuple):
    """Columns whose words became numbers, if they are steps of one scale."""

    columns: Sequence[CellReader]
    note: str = ""
    """The number of each word, as a note."""


def read_steps(columns: Sequence[CellReader]) -> WordSteps:
    """Return columns of words such as `agree` or `B+` as numbers from 1 to 5.

    All words must belong to one scale, and there must be at least three: the distance between two
    is unknown. Columns of numbers from 1 to 5 may be beside them.
    """
    in_words = [{str(value) for value in name.filled} for name in columns if name.kind == "words"]
    words = set().union(*in_words)
    steps = _steps_of(in_words)
    if len(words) < 3 or not steps or not all(map(_has_steps, columns)):
        return WordSteps(columns)
    listed = ", ".join(f"{word!r} {steps[word]:g}" for word in sorted(words, key=steps.__getitem__))
    numbers = [
        replace(name, kind="number", top=5.0, values=_numbers(name, steps)) for name in columns
    ]
    return WordSteps(numbers, f"words are read as steps from 1 to 5: {listed}")


def _has_steps(cells: CellReader) -> bool:
    """Return whether cells are words, or may be steps written as numbers."""
    if cells.kind != "number":
        return cells.kind == "words"
    return all(1 <= float(value) <= 5 for value in cells.filled)


def _numbers(cells: CellReader, steps: Mapping[str, float]) -> list[float | str | None]:
    return [steps.get(str(value), value) for value in cells.values]


def _steps_of(columns: Sequence[set[str]]) -> Mapping[str, float]:
    """Return the step of each word on the scale that contains all words; empty if there is none.

    No column has two words for one step: they would be steps of a finer scale.
    """
    words = set().union(*columns)
    grades = vocabulary.grades()
    # `a`, `b` and `c` alone may be options of a question
    if words <= grades.keys() and any(word == "f" or word[1:] for word in words):
        return grades
    fitting = (scale for scale in vocabulary.scales() if words <= scale.keys())
    return next((scale for scale in fitting if all(map(partial(_differ, scale), columns))), {})


def _differ(scale: Mapping[str, int], words: set[str]) -> bool:
    return len({scale[word] for word in words}) == len(words)


def _plain_word(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _meaning(word: str, others: set[str]) -> int | None:
    plain = re.sub(r"[\s_-]+", " ", word).strip()
    if plain in _YES or plain in _NO:
        return int(plain in _YES)
    if plain in ("1", "1.0", "0", "0.0"):
        return int(float(plain))
    match = _NEGATION.fullmatch(plain)
    if match is None:
        opposites = [o for o in others if (m := _NEGATION.fullmatch(o)) and m["rest"] == plain]
        return 1 if opposites else None
    rest = match["rest"]
    if rest in _YES or rest in _NO:
        return int(rest in _NO)
    return 0 if rest in others else None
