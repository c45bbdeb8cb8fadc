"""The tables that come with the package: words that a method puts into its prompts, by task and aspect."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "tables"

TABLES = ("decomp_eval", "gptscore", "gptscore_aspects")
"""Names of the tables that come with the package."""


def table_file(name: str) -> Path:
    """Return where the file of one of `TABLES` stands.

    Raises:
        KeyError: There is no such table.
    """
    if name not in TABLES:
        raise KeyError(name)
    return _FOLDER / f"{name}.toml"
