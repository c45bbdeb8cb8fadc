"""Rows of data sets, and the messages of reading them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example

DATA = Path(os.environ.get("TEXTASSAY_DATA") or Path(__file__).parents[3] / "shared" / "data")
FIXTURES = Path(__file__).parents[2] / "fixtures"


class Export(NamedTuple):
    """A row as another tool writes it, the parts that a judge must see, and the judged text."""

    row: dict[str, Any]
    shown: list[str]
    output: str


EXPORTS = {
    name: Export(**found)
    for name, found in json.loads((FIXTURES / "exports/rows.json").read_text("utf-8")).items()
}
ROWS: list[dict[str, Any]] = [
    {"id": "a", "output": "one", "source": "s", "references": ["r", "q"], "system": "M0",
     "group": "g", "human": {"c": 3}},
    {"id": "b", "output": "", "human": {"c": None, "f": 2.5}, "metrics": {"rouge1": 0.35},
     "extra": [1, {"x": None}]},
    {"id": "c", "output": 'drei\nZeilen, mit "allem" ä 🙂', "annotators": {"c": [3, None, 2]},
     "context": "k"},
]  # fmt: skip


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def saved(folder: Path, content: str | bytes, name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(source: Any, /, **fields: str) -> list[Example]:
    return list(Examples(source, fields=fields or None))


def complaint(source: Any, fields: dict[str, str] | None = None) -> str:
    with pytest.raises(DataError) as caught:
        Examples(source, fields=fields).check()
    return str(caught.value)
