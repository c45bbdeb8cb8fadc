"""The trees of aspects that come with the package: the case studies that HD-Eval publishes."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "trees"

TREES = ("dialogue", "summarization", "data-to-text")
"""Names of the trees that come with the package; each is for the task of the same name."""


def tree_file(name: str) -> Path:
    """Return where the file of one of `TREES` stands.

    Raises:
        KeyError: There is no such tree.
    """
    if name not in TREES:
        raise KeyError(name)
    return _FOLDER / f"{name}.toml"
