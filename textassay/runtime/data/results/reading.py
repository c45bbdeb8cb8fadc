"""Opens a result file of another tool and returns its texts and scores as rows in our format."""

from __future__ import annotations

import importlib
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.formats import MAX_LINE
from textassay.runtime.data.result_rows import ResultRow
from textassay.runtime.data.results.readers import (
    deepeval_rows,
    inspect_rows,
    lm_eval_rows,
    promptfoo_rows,
)
from textassay.runtime.errors import DataError, UnknownName

FORMATS: dict[str, Callable[[Any], Iterable[ResultRow]]] = {
    "inspect": inspect_rows,
    "promptfoo": promptfoo_rows,
    "deepeval": deepeval_rows,
    "lm-eval": lm_eval_rows,
}
"""Readers by the name of the tool."""


_DAMAGED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What a file of another form raises: encrypted or damaged archives, JSON of any depth or shape."""
_UNPACKED, _RATIO = 2**30, 100
"""Bytes to which any archive may unpack, and how many times its own size a larger one."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a result file holds.

    Attributes:
        rows: Texts with their scores as `metrics`, in our format.
        empty: Results without a text, such as those of failed calls, which are left out.
    """

    rows: list[ResultRow]
    empty: int


def read_results(form: str, path: str | Path) -> Imported:
    """Read a result file of another tool.

    Args:
        form: `inspect` (.eval or .json), `promptfoo` (.json or .jsonl), `deepeval` (.json) or
            `lm-eval` (samples_*.jsonl).
        path: The file.

    Raises:
        UnknownName: There is no such format.
        DataError: The file cannot be read, is of another format, or holds no texts.
    """
    if form not in FORMATS:
        raise UnknownName("format of results", form, tuple(FORMATS))
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is not a regular file")
    try:
        imported = list(FORMATS[form](_parsed(form, path)))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _DAMAGED as error:
        if isinstance(error, NotImplementedError) and "zstd" in str(error):
            raise DataError(
                f"{path}: is compressed with zstd, which Python reads from 3.14 on; "
                "pip install 'textassay[inspect]', or write it as JSON first: "
                "inspect log convert --to json"
            ) from error
        raise DataError(
            f"{path}: is not a result file of {form}: {type(error).__name__}: {error}"
        ) from error
    rows = _unique([row for row in imported if "output" in row or "messages" in row])
    if not rows:
        raise DataError(f"{path}: contains no results of {form} with a text")
    # Checked now, so that what is wrong is reported for the result file, not for a later copy of
    # it.
    Examples(rows).check()
    return Imported(rows, len(imported) - len(rows))


def _parsed(form: str, path: Path) -> Any:
    if form == "lm-eval" or path.suffix == ".jsonl":
        # `splitlines` would also split at U+2028 and others, which may stand in a JSON text as they
        # are
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        found = [json.loads(line) for line in lines if line.strip()]
        return found if form == "lm-eval" else {"results": found}
    if form == "inspect" and zipfile.is_zipfile(path):
        return _unzipped(path)
    return json.loads(path.read_bytes())  # of bytes, it finds out whether they are UTF-8 or UTF-16


def _unzipped(path: Path) -> dict[str, Any]:
    """Return an Inspect log that is a zip file: a header, and a file per sample."""
    with _zip_reader().ZipFile(path) as archive:
        # A log of a run that was interrupted has no header yet, only the journal's start.
        names = archive.namelist()
        head = "header.json" if "header.json" in names else "_journal/start.json"
        _refuse_bomb(path, archive.infolist())
        log: dict[str, Any] = json.loads(archive.read(head))
    names = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    log["samples"] = _samples(path, dict.fromkeys(names))
    return log


def _samples(path: Path, names: Iterable[str]) -> Iterator[Any]:
    """Yield samples one by one, as they hold far more than the texts that are kept of them."""
    with _zip_reader().ZipFile(path) as archive:
        for name in names:
            yield json.loads(archive.read(name))


def _refuse_bomb(path: Path, files: Iterable[zipfile.ZipInfo]) -> None:
    """Refuse an archive that unpacks to far more than it holds; no file yields more than it says.

    Raises:
        DataError: It does, or a file in it is longer than a line of data may be.
    """
    sizes = [file.file_size for file in files]
    if max(sizes, default=0) > MAX_LINE:
        raise DataError(f"{path}: contains a sample of more than {MAX_LINE:,} bytes")
    if sum(sizes) > max(_UNPACKED, _RATIO * path.stat().st_size):
        raise DataError(f"{path}: unpacks to {sum(sizes):,} bytes, far more than a log holds")


def _zip_reader() -> ModuleType:
    """Return the module `zipfile`, with zstd if a package or this Python has it."""
    try:
        # Inspect compresses with zstd by default; the standard library reads it from 3.14 on
        return importlib.import_module("backports.zstd.zipfile")
    except ImportError:
        return zipfile


def _unique(rows: list[ResultRow]) -> list[ResultRow]:
    """Number the ids that occur more than once, as those of repeated calls do."""
    seen: Counter[str] = Counter()
    taken = {row["id"] for row in rows}
    for row in rows:
        id_ = row["id"]
        seen[id_] += 1
        if seen[id_] > 1:
            while f"{id_}~{seen[id_]}" in taken:
                seen[id_] += 1
            row["id"] = f"{id_}~{seen[id_]}"
            taken.add(row["id"])
    return rows
