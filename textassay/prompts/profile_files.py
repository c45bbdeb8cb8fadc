"""The profiles that come with the package: how models are asked that do not follow the prompts of papers."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "profiles"

PROFILES = ("embedded",)
"""Names of the profiles that come with the package; each is for the model of the same name."""


def profile_folder(name: str) -> Path:
    """Return the folder of one of `PROFILES`.

    Raises:
        KeyError: There is no such profile.
    """
    if name not in PROFILES:
        raise KeyError(name)
    return _FOLDER / name
