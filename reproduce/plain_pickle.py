"""Reads pickles of plain data: containers, numbers and texts, and nothing that runs code.

Two data sets are published as pickles. Unpickling a file from elsewhere can run any code, so every
name in a pickle is refused, except the two with which NumPy writes a single number; these are
decoded here, without NumPy.
"""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

from textassay.runtime.errors import DataError

_FORMATS = {"f8": "d", "f4": "f", "i8": "q", "i4": "i", "b1": "?"}


class _NumberFormat:
    """Stands for `numpy.dtype`: keeps its code and its byte order."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = code, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"


def _number(number_format: object, raw: object) -> float | int | bool:
    """Stand for `numpy.core.multiarray.scalar`: one number from its bytes."""
    code = number_format.code if isinstance(number_format, _NumberFormat) else None
    if isinstance(raw, str):  # pickles of Python 2 hold bytes as text
        raw = raw.encode("latin-1")
    if code not in _FORMATS or not isinstance(number_format, _NumberFormat):
        raise pickle.UnpicklingError(f"a NumPy number of the kind {code!r}")
    if not isinstance(raw, bytes):
        raise pickle.UnpicklingError("a NumPy number without bytes")
    [value] = struct.unpack(number_format.order + _FORMATS[code], raw)
    found: float | int | bool = value
    return found


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # numpy 2 renamed the module; pickles name the one of the version that wrote them
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "scalar":
            return _number
        if (module, name) == ("numpy", "dtype"):
            return _NumberFormat
        # an allow-list: any other class or function could run code when it is rebuilt
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which may run code")


def read_plain_pickle(path: Path) -> Any:
    """Return the content of a pickle.

    Raises:
        DataError: It cannot be read, or has anything but plain data.
    """
    try:
        with path.open("rb") as file:
            # latin-1 maps every byte to a character, so bytes of Python 2 pickles survive
            return _Plain(file, encoding="latin-1").load()
    except (OSError, pickle.UnpicklingError, EOFError, struct.error) as error:
        raise DataError(f"{path} is not read: {error}") from error
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, MemoryError) as error:
        raise DataError(f"{path} is not a pickle of plain data: {error}") from error
