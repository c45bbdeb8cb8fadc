"""The plans of Fusion-Eval that come with the package: those that its appendix prints."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "plans"

PLANS = ("summeval", "topical-chat")
"""Names of the plans that come with the package."""


def plan_file(name: str) -> Path:
    """Return where the file of one of `PLANS` stands.

    Raises:
        KeyError: There is no such plan.
    """
    if name not in PLANS:
        raise KeyError(name)
    return _FOLDER / f"{name}.toml"
