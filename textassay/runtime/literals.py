"""Reads lists, tuples, arrays and objects as Python and numpy print them.

`DataFrame.to_csv` writes a column of lists in this form: `['a', 'b']`, `('a', nan)`, `['a' 'b']`,
`array(['a'], dtype=object)`, `[Document(page_content='a')]`. No code is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from textassay.lazy import lazy_pattern

_STRING = lazy_pattern(r"""[uU]?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)
_NUMBER = lazy_pattern(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAME = lazy_pattern(r"[A-Za-z_][\w.]*|<NA>")
_WORDS = {
    "True": True, "False": False, "true": True, "false": False, "None": None, "null": None,
    "nan": None, "NaN": None, "NA": None, "<NA>": None, "NaT": None,
}  # fmt: skip
"""Words for values; all marks of missing values are null."""


class LiteralError(ValueError):
    """A text that is not a literal, with the first wrong character."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(f"{problem} at character {at + 1}")


def parse_literal(text: str, number: Callable[[str], Any] = float) -> Any:
    """Return the value of a text as Python or numpy prints it; tuples and sets become lists.

    Args:
        text: The whole text, which may span several lines.
        number: Makes a value of a numeral.

    Raises:
        LiteralError: The text is something else, or more than one value.
    """
    parser = _Parser(text, number)
    value = parser.value(0)
    parser.skip_space()
    if parser.at < len(text):
        raise LiteralError(parser.at, f"unexpected {text[parser.at]!r} after the end")
    return value


class _Parser:
    def __init__(self, text: str, number: Callable[[str], Any]) -> None:
        self.text, self.at, self._number = text, 0, number

    def skip_space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def value(self, depth: int) -> Any:
        self.skip_space()
        if depth > 100:  # the parser calls itself for each list
            raise LiteralError(self.at, "nested too deeply")
        start = self.text[self.at : self.at + 1]
        if start in ("[", "("):
            return self._items("]" if start == "[" else ")", depth)
        if start == "{":
            return self._braces(depth)
        if match := _STRING.match(self.text, self.at):
            self.at = match.end()
            return self._string(match[1])
        if match := _NUMBER.match(self.text, self.at):
            self.at = match.end()
            return self._number(match[0])
        if match := _NAME.match(self.text, self.at):
            self.at = match.end()
            if self.text[self.at : self.at + 1] == "(":
                return self._call(match[0], depth)
            if match[0] in _WORDS:
                return _WORDS[match[0]]
            self.at = match.start()
        raise self._unexpected_error()

    def _unexpected_error(self) -> LiteralError:
        character = repr(self.text[self.at]) if self.at < len(self.text) else "end"
        return LiteralError(self.at, f"unexpected {character}")

    def _string(self, quoted: str) -> str:
        try:
            return str(ast.literal_eval(quoted if "\n" not in quoted else _escape(quoted)))
        except (ValueError, SyntaxError):
            raise LiteralError(self.at, "broken escape in a text that ends") from None

    def _items(self, closing: str, depth: int) -> list[Any]:
        """Read items between commas, or numpy's between blanks."""
        self.at += 1
        items: list[Any] = []
        while not self._ends(closing, is_first=not items, or_blank=True):
            items.append(self.value(depth + 1))
        return items

    def _braces(self, depth: int) -> Any:
        """Read an object, or a set."""
        start = self.at
        self.at += 1
        entries: dict[str, Any] = {}
        while not self._ends("}", is_first=not entries):
            key = self.value(depth + 1)
            self.skip_space()
            if not entries and not self.text.startswith(":", self.at):
                self.at = start
                return self._items("}", depth)
            entries[str(key)] = self._after(":", depth)
        return entries

    def _call(self, function: str, depth: int) -> Any:
        """Read a printed call: a value in it, such as a list, or fields by name; `c` is R's."""
        self.at += 1
        values: list[Any] = []
        fields: dict[str, Any] = {}
        while not self._ends(")", is_first=not values and not fields):
            self.skip_space()
            name = _NAME.match(self.text, self.at)
            if name and self.text[name.end() : name.end() + 1] == "=":
                self.at = name.end()
                if name[0] == "dtype":
                    self._skip_dtype()
                else:
                    fields[name[0]] = self._after("=", depth)
            else:
                values.append(self.value(depth + 1))
        if not fields and (function == "c" or not values):
            return values
        # deque(['a'], maxlen=5)
        if len(values) == 1 and (not fields or isinstance(values[0], list)):
            return values[0]
        if fields and not values:
            return fields
        raise self._unexpected_error()

    def _skip_dtype(self) -> None:
        match = re.compile(r"=\s*(?:[\w.]+(?:\([^)]*\))?|'[^']*')").match(self.text, self.at)
        if not match:
            raise self._unexpected_error()
        self.at = match.end()

    def _after(self, mark: str, depth: int) -> Any:
        self.skip_space()
        if not self.text.startswith(mark, self.at):
            raise self._unexpected_error()
        self.at += 1
        return self.value(depth + 1)

    def _ends(self, closing: str, *, is_first: bool, or_blank: bool = False) -> bool:
        """Step over a comma (or a blank), or over the end, and return whether it was the end."""
        before = self.at
        self.skip_space()
        if not is_first and self.text.startswith(",", self.at):
            self.at += 1
            self.skip_space()
            or_blank = True  # a comma may precede the end
        if self.text.startswith(closing, self.at):
            self.at += 1
            return True
        # 'a''b' may be one text in which a quotation mark was doubled
        if not is_first and not (or_blank and self.at > before):
            raise self._unexpected_error()
        return False


def _escape(quoted: str) -> str:
    """Return a quoted text with its line breaks escaped, so that Python can read it."""
    return quoted.replace("\\\n", "").replace("\r", "\\r").replace("\n", "\\n")
