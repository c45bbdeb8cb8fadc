"""Reads text files as rows whose values commas, semicolons, tabs or bars separate.

Spreadsheets write such files in UTF-8, UTF-16 and the encoding of their country, with titles above
the header, empty columns and rows, and a line that names the separator. It does not interpret
cells, and imports little, since `textassay check` reads its tables with it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import IO, Any, Literal

from textassay.lazy import lazy_pattern
from textassay.runtime.data.numerals import DecimalMark, read_numeral
from textassay.runtime.errors import DataError

Numbered = tuple[int, Any]
"""The number of a row, counted from 1, and the row."""


class RowSource(ABC):
    """Rows that can be iterated more than once."""

    name: str
    """Name of the rows in errors."""
    unit: Literal["line", "row"] = "row"
    """Unit in which errors count rows, such as `line`."""
    is_plain = False
    """Whether every value is known to be a JSON value."""
    decimal: DecimalMark | None = None
    """Decimal mark of the numbers that cells hold as text.

    `None` where no number, list or object is written as text.
    """

    @abstractmethod
    def rows(self) -> Iterator[Numbered]:
        """Yield the rows, from the start."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notes on how the rows were read; complete after the last row."""
        return ()

    def state(self) -> object:
        """Return a value that changes if the rows may have changed; the same for rows in memory."""
        return None

    def error(self, number: int, problem: object) -> DataError:
        """Return the error about a row, or about one of its fields."""
        joint = ", " if str(problem).startswith("field") else ": "
        return DataError(f"{self.name}, {self.unit} {number}{joint}{problem}")

    def unnamed_column(self, number: int, column: int) -> DataError:
        """Return the error about a row that has a cell in a column without a name."""
        problem = f"has a cell in column {column}, which has no name"
        return self.error(number, f"{problem}; name the column, or empty it")


def _number_duplicates(names: Iterable[str], notes: dict[str, None]) -> Iterator[str]:
    """Yield the names of columns, the second `score` as `score (2)`, and add a note on it."""
    count = Counter[str]()
    for name in names:
        count[name] += bool(name)
        if count[name] < 2:
            yield name
            continue
        yield (numbered := f"{name} ({count[name]})")
        notes[f"two columns are called {name!r}; the second is read as {numbered!r}"] = None


def check_unique_columns(names: Iterable[str], where: str) -> None:
    """Refuse a table in which one of two columns would hide the other."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{where}: two columns are called {name!r}; rename one")
        seen.add(name)


MAX_LINE = 64 * 2**20
"""Maximum bytes of a line, unpacked; a longer line is a mistake or an attack."""


class _WideLines:
    """The lines of a file in UTF-16 or UTF-32, in UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._text = io.TextIOWrapper(file, encoding, newline="")

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line."""
        return self._text.readline(size).encode("utf-8", "surrogatepass")


def _recode(file: IO[bytes]) -> IO[bytes] | _WideLines:
    """Return a file in UTF-16 or UTF-32, which may lack a byte order mark, as one in UTF-8."""
    head = file.read(4)
    file.seek(0)
    # Excel writes UTF-16 as Unicode Text, PowerShell by default. Texts in UTF-8 have no NUL, and
    # the first character of a table is seldom beyond Latin-1.
    if head in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return _WideLines(file, "utf-32")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _WideLines(file, "utf-16")
    if b"\0" in head[:2]:
        width, order = 32 if head.count(0) == 3 else 16, "be" if head[:1] == b"\0" else "le"
        return _WideLines(file, f"utf-{width}-{order}")
    return file


def what_it_is(path: Path) -> str:
    """Return what a file is, with advice, if it is known not to be text; empty for text.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(16)
    unpack = "unpack it first"
    convert = "save it as .parquet or .csv, or give its table in Python"
    kinds = {
        b"\x28\xb5\x2f\xfd": ("compressed with zstd", unpack),
        b"\xfd7zXZ\0": ("compressed with xz", unpack),
        b"BZh91AY&SY": ("compressed with bzip2", unpack),
        b"\x1f\x8b": (
            "compressed with gzip",
            "unpack it, or let its name end in .jsonl.gz or .csv.gz",
        ),
        b"PK\x03\x04": ("a zip archive or a workbook", "unpack it, or save it as .xlsx"),
        b"\xd0\xcf\x11\xe0": ("a workbook of old Excel", "save it as .xlsx"),
        b"PAR1\x15": ("a parquet file", "let its name end in .parquet"),
        b"ARROW1\0\0": ("an Arrow file", convert),
        b"\xff\xff\xff\xff": ("an Arrow stream", convert),
        b"SQLite format 3\0": ("an SQLite database", convert),
    }
    known = next((kind for begin, kind in kinds.items() if head.startswith(begin)), None)
    return f"is {'; '.join(known)}" if known else ""


class TableFile(RowSource):
    """A regular file."""

    unit: Literal["line", "row"] = "line"

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self._notes: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(f"{self.name}: {note}" for note in self._notes)

    def state(self) -> object:
        try:
            status = self.path.stat()
        except OSError as error:
            raise DataError(f"{self.name}: cannot be read: {error.strerror}") from error
        return status.st_size, status.st_mtime_ns

    def _open(self) -> IO[bytes]:
        if self.path.suffix.lower() == ".gz":
            # A GzipFile has every method of IO[bytes] that is used here.
            return gzip.open(self.path, "rb")  # type: ignore[return-value]
        if binary := what_it_is(self.path):
            raise DataError(f"{self.name}: {binary}")
        return self.path.open("rb")

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines in UTF-8, or as they are, without a byte order mark."""
        number = 0
        try:
            with self._open() as opened:
                file = _recode(opened)
                # Bounded: a compressed file of kilobytes can unpack to one line of gigabytes.
                while line := file.readline(MAX_LINE + 1):
                    number += 1
                    if len(line) > MAX_LINE:
                        raise DataError(
                            f"{self.name}, line {number}: is longer than {MAX_LINE >> 20} MiB; "
                            "every line is one example"
                        )
                    yield number, line if number > 1 else line.removeprefix(codecs.BOM_UTF8)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{self.name}: damaged gzip after line {number}: {error}") from error
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name}: broken {error.encoding[:6].upper()} after line {number}: {error}"
            ) from error
        except OSError as error:
            raise DataError(f"{self.name}: cannot be read: {error.strerror or error}") from error

    def _decode(self, number: int, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise self._not_utf8(number, line, error) from None

    def _not_utf8(self, number: int, line: bytes, error: UnicodeDecodeError) -> DataError:
        byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        return DataError(
            f"{self.name}, line {number}: is not UTF-8 ({byte}); save the file as UTF-8 (in"
            " Excel: CSV UTF-8)"
        )


_SEPARATORS = ",;\t|"
_QUOTED = lazy_pattern(rf'(?:(?<=[{_SEPARATORS}])|^)"(?:[^"]|"")*(?P<end>"?)')
_SEPARATOR_LINE = lazy_pattern(r'"?sep=(.)"?[,;\t]*')
"""The first line of files for Excel, which names the separator of cells."""
_OTHER_ENCODING = lazy_pattern(
    r"[^\W\d_][¡-©¬-³¶¸¹¼-¿×÷†‡‰‹›™‚„№]+[^\W\d_]|[À-ÖØ-öø-ÿ]{4}|[a-zß-öø-ÿ][À-ÖØ-ÞŠŒŽŸ][a-zß-öø-ÿ]"
    r"|[a-z][Ͱ-ӿ]|[Ͱ-ӿ][a-z]|[ά-ώ][Ά-Ω]|[а-ё][Ѐ-Я]|·[Ͱ-ӿ]|‚.‚|[a-z][ŠŒŽŸ]|\b[ьъЬЪ]"
    r"|[a-z][ぁ-힣]+[a-z]|[\x80-\x9f\ue000-\uf8ff�]"
)
"""Signs of a wrong encoding: symbols, accented capitals, runs of accented letters and letters of
two scripts within a word."""
_LETTERS = (
    ("cp1252", "äöüß", "àâæçéèêëîïôœùûüÿ", "áéíñóúü", "àáâãçéêíóôõú", "àèéìîòù", "àçèéíïòóúü",
     "æøåéô", "åäöé"),
    ("cp1250", "ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"),
    ("cp1254", "çğıöşüâî\u0307"),
    ("cp1257", "ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž"),
    ("cp949", "가-힣"),
    ("cp1251", "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "абвгґдежзийіїєклмнопрстуфхцчшщьюя"),
    ("cp1253", "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ"),
    ("cp932", "ぁ-ゖァ-ヺー々一-龠Ａ-Ｚａ-ｚ"),
    ("gb2312", "一-龥"),
    ("cp1252", "áðéíóúýþæö"),
)  # fmt: skip
"""Encodings that spreadsheets write, each with the letters beyond ASCII of its languages; Icelandic
comes last, since Turkish looks like it."""
_WORD = lazy_pattern(r"(?:(?<!\d)[ªº¹²³¼½¾](?=[a-z])|[^\W\d_ªº¹²³¼½¾µ])+")
"""Words; the signs in 2º, 5 µm², ½ and a footnote¹ are not letters."""


def _guess_encoding(head: bytes) -> str:
    """Return the encoding in which all letters beyond ASCII belong to one language.

    In Windows-1252 each word may belong to another one, such as names in an English text.
    """
    for encoding, *alphabets in _LETTERS:
        text = head.decode(encoding, "replace")
        every = _WORD.findall(text)
        words = [word.lower() for word in every if not word.isascii()]
        letters = "".join(words)
        # in such a word of a Latin script at least a third of the letters are plain
        long = "".join(word for word in words if len(word) > 1)
        is_plain = alphabets[0] > "Ͱ" or 3 * sum(map(str.isascii, long)) >= len(long)
        fits = _belongs(letters, alphabets)
        if encoding == "cp1252" and not fits:
            # Czech is full of words that might be Danish or Italian by their letters, so that these
            # count only where such words are rare
            first_alphabets = alphabets if 6 * len(words) <= len(every) else alphabets[:3]
            fits = all(_belongs(word, first_alphabets) for word in words)
        if fits and is_plain and not _OTHER_ENCODING.search(text):
            return encoding
    return "cp1252"


def _belongs(letters: str, alphabets: Iterable[str]) -> bool:
    """Return whether one alphabet has all letters beyond ASCII."""
    beyond = "".join({letter for letter in letters if not letter.isascii()})
    return any(re.fullmatch(f"[{alphabet}]*", beyond) for alphabet in alphabets)


_HEAD = 6
"""Lines among which the header is looked for, below titles."""


class Csv(TableFile):
    """Values separated by commas, semicolons, tabs or bars, with a header.

    Cells may hold line breaks, rows are named by their first line. Spreadsheets write semicolons
    where the comma is the decimal mark, so that there numbers may have one. A file that is not
    UTF-8 is read in the encoding in which its letters belong to one language.
    """

    is_plain = True

    def __init__(
        self, path: Path, delimiter: str = "", *, numbers_duplicates: bool = False
    ) -> None:
        super().__init__(path)
        self._numbers_duplicates = numbers_duplicates
        if delimiter:
            self._delimiter = delimiter

    @cached_property
    def _delimiter(self) -> str:
        first = next((line for line in self._text_lines() if line.strip()), "")
        if stated := _SEPARATOR_LINE.fullmatch(first.strip("\r\n")):
            return stated[1]
        rows = (row for row in _without_quoted(self._text_lines()) if row.strip())
        header, *others = [*islice(rows, _HEAD)] or [""]
        # a blank follows a mark in the texts of a single column
        plain = [header, *(re.sub(rf"[{_SEPARATORS}](?=[ ])", "", row) for row in others)]
        best = [max(_SEPARATORS, key=line.count) for line in plain]
        # what separates a title's words does not occur in the line below it
        for separator, line, below in zip(best, plain, plain[1:], strict=False):
            if separator in line and separator in below:
                return separator
        return best[0]

    def _text_lines(self) -> Iterator[str]:
        """Yield the lines, which may end in a carriage return alone, as on old Macs."""
        encoding = "ascii"
        for number, line in self._lines():
            text = ""
            if line.isascii():
                text = line.decode("ascii")
            else:
                try:
                    text, line_encoding = line.decode(), "utf-8"
                except UnicodeDecodeError as error:
                    line_encoding = self._local_encoding
                    text = line.decode(line_encoding, "replace")
                    if encoding == "utf-8" or _OTHER_ENCODING.search(text):
                        raise self._not_utf8(number, line, error) from None
                if encoding not in ("ascii", line_encoding):
                    raise DataError(
                        f"{self.name}, line {number}: is UTF-8, and a line above is not; save the"
                        " file as UTF-8"
                    )
                encoding = line_encoding
            if "\r" in text[:-2]:
                yield from re.split(r"(?<=\r)(?!\n)", text)
            else:
                yield text

    @cached_property
    def _local_encoding(self) -> str:
        lines = [*islice((line for _, line in self._lines() if not line.isascii()), 200)]
        encoding = _guess_encoding(b"".join(lines))
        words = _WORD.findall(b"".join(lines).decode(encoding, "replace"))
        word = next((word for word in words if not word.isascii()), "")
        example = f" ({word!r})" if word else ""
        name = encoding.replace("cp125", "Windows-125")
        self._notes[f"not UTF-8, read as {name}{example}; if that is wrong, save it as UTF-8"] = (
            None
        )
        return encoding

    @property
    def decimal(self) -> DecimalMark:  # type: ignore[override]
        return "," if self._delimiter == ";" else "."

    @cached_property
    def _quoting(self) -> Literal[0, 3]:
        """Whether quotation marks enclose cells.

        In files with tabs they are text if the header has none, every line has as many cells as the
        header, and a cell begins with one but is not enclosed.
        """
        if self._delimiter != "\t":
            return csv.QUOTE_MINIMAL
        width, are_text = 0, False
        for line in self._text_lines():
            cells = line.rstrip("\r\n").split("\t")
            if not width and any(map(_begins_quoted, cells)):
                return csv.QUOTE_MINIMAL
            width = width or len(cells)
            if len(cells) != width and line.strip():
                return csv.QUOTE_MINIMAL
            are_text = are_text or not all(map(_is_enclosed, filter(_begins_quoted, cells)))
        return csv.QUOTE_NONE if are_text else csv.QUOTE_MINIMAL

    def rows(self) -> Iterator[Numbered]:
        # the module's only limit is global, and texts may be long
        csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
        rows = below_titles(self._cells(), self._notes)
        header: Sequence[str] = ()
        short: list[int] = []
        broken = _BrokenRows(0)
        for start, cells in rows:
            if not header:
                header = [cell.strip() for cell in cells]
                if self._numbers_duplicates:
                    header = [*_number_duplicates(header, self._notes)]
                check_unique_columns(filter(None, header), self.name)
                broken = _BrokenRows(len(header))
                continue
            if len(header) > 1 and not any(cell.strip() for cell in cells):
                continue
            if broken.add(cells[: len(header)]):
                cut = "seems to continue a text of the line above; quote cells that contain a line"
                raise self.error(start, f"{cut} break, or write the empty cells at the end of rows")
            if len(cells) < len(header):
                short.append(start)
            if any(cell.strip() for cell in cells[len(header) :]):
                wide = f"has {len(cells)} cells, but the header has {len(header)}; quote cells that"
                raise self.error(start, f"{wide} contain {self._delimiter!r}")
            row: dict[str, str | None] = dict(zip_longest(header, cells[: len(header)]))
            if "" in row:
                del row[""]
                # pandas' index is in a first column without a name
                for at, (name, cell) in enumerate(zip(header[1:], cells[1:], strict=False), 2):
                    if not name and cell.strip():
                        raise self.unnamed_column(start, at)
            yield start, row
        if short:
            lack = f"{len(short):,} rows lack" if len(short) > 1 else "a row lacks"
            note = f"{lack} the last cells, which count as missing (the first at line {short[0]})"
            self._notes[note] = None

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of rows that have any, with the number of their first line."""
        # Strict: lenient reading turns a stray quotation mark into one cell of a thousand lines.
        lines = self._text_lines()
        if self._delimiter == "|":
            lines = _without_markdown(lines)
        quoting = self._quoting
        if quoting == csv.QUOTE_NONE:
            self._notes["quotation marks are read as text, since not all enclose a cell"] = None
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True, quoting=quoting)
        start = 1
        try:
            for cells in reader:
                # one column may hold empty texts
                filled = any(cell.strip() for cell in cells) or len(cells) == 1
                stated = start == 1 and _SEPARATOR_LINE.fullmatch(self._delimiter.join(cells))
                if filled and not stated:
                    yield start, cells
                # A row is named by its first line; cells may hold line breaks.
                start = reader.line_num + 1
        except csv.Error as error:
            how = "double the quotation marks within a text, and put no space beside the outer ones"
            raise self.error(start, f"broken CSV: {error}; {how}") from error


class _BrokenRows:
    """Finds rows that a line break within a text has cut into several short ones.

    Spreadsheets and scripts leave out empty cells at the end of a row, so that a short row alone
    proves nothing.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._joined = 0
        """Number of cells of the short rows above, counting parts of a cut cell as one; 0 without
        such rows."""
        self._end = ""
        """The last cell above."""
        self._begin_with_ids = True
        """Whether no whole row above begins with a text of several words."""
        self._texts: set[int] = set()
        """Columns in which one of the first whole rows has such a text."""
        self._looked_at = 0
        """Number of whole rows whose columns are in `_texts`; a hundred suffice, and all would take
        time."""

    def add(self, cells: Sequence[str]) -> bool:
        """Return whether a row seems to continue the row above, or the short ones above it."""
        # ids have no space, so a row that begins with an id does not continue a text
        has_words = " " in cells[0].strip()
        goes_on = has_words and not _is_numeral(self._end)
        is_piece = self._joined and goes_on
        joined = self._joined - 1 + len(cells)
        # a text was cut only in a column that has texts; rows that begin with a text and lack a
        # last verdict look alike
        is_text = not self._texts or self._joined - 1 in self._texts
        if is_piece and is_text and joined == self._width:
            return True
        if len(cells) == self._width:
            self._begin_with_ids &= not has_words
            if self._looked_at < 100:
                self._looked_at += 1
                self._texts.update(at for at, cell in enumerate(cells) if " " in cell.strip())
        elif goes_on and not self._joined and self._begin_with_ids and self._end.strip():
            # the text in the last cell of a whole row may have been cut, too
            return True
        if not is_piece or joined > self._width:
            joined = len(cells)
        self._joined = joined if joined < self._width else 0
        self._end = cells[-1]
        return False


def _without_markdown(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines; in a Markdown table without spaces around bars and the rule below names."""
    is_below_header = is_markdown = False
    for line in lines:
        if not is_below_header and "|" in line:
            is_below_header, is_markdown = True, line[0] == line.rstrip()[-1] == "|"
        if not is_markdown or not line.startswith("|"):
            yield line
        elif line.strip(" |:-\r\n"):
            yield "|".join(map(str.strip, line.split("|")))


def _without_quoted(lines: Iterable[str]) -> Iterator[str]:
    """Yield rows without their quoted cells, which may hold line breaks."""
    row, is_open = "", False
    for line in lines:
        text = f'"{line}' if is_open else line  # what goes on is quoted from its beginning
        ends = [quoted["end"] for quoted in _QUOTED.finditer(text)]
        is_open = bool(ends) and not ends[-1]
        row += _QUOTED.sub("", text)
        if not is_open:
            yield row
            row = ""
    yield row


def _begins_quoted(cell: str) -> bool:
    return cell.startswith('"')


def _is_enclosed(cell: str) -> bool:
    """Return whether quotation marks enclose a cell that begins with one, doubled within it."""
    return cell.endswith('"') and len(cell) > 1 and '"' not in cell[1:-1].replace('""', "")


def below_titles(
    rows: Iterator[tuple[int, Sequence[Any]]], notes: dict[str, None]
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows from the header on; titles above it are named in `notes`.

    The header is the first of six rows with two names or more, no number, and more than half as
    many cells as any row below it, if the row below it has two cells or more.
    """
    head = list(islice(rows, _HEAD))
    filled = [[cell for cell in cells if _is_filled(cell)] for _, cells in head]
    widths = list(map(len, filled))
    wide = (at for at, width in enumerate(widths) if width > 1 and 2 * width > max(widths[at:]))
    at = next(wide, 0)
    is_header = all(map(_is_name, filled[at])) if at else False
    titles = head[:at] if is_header and sum(widths[at + 1 : at + 2]) > 1 else []
    for number, cells in titles:
        title = next(str(cell) for cell in cells if _is_filled(cell)).strip()
        notes[f"row {number} ({title[:40]!r}) was taken for a title"] = None
    yield from chain(head[len(titles) :], rows)


def _is_filled(cell: Any) -> bool:
    return cell is not None and bool(str(cell).strip())


def _is_name(cell: Any) -> bool:
    return isinstance(cell, str) and not _is_numeral(cell)


def _is_numeral(text: str) -> bool:
    return read_numeral(text, ",") is not None
