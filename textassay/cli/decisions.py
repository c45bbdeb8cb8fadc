"""What the commands from scores to decisions share: how they read scores, data and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textassay.calibration.columns import Columns, People, join_columns, read_judged, read_plan
from textassay.cli import arguments
from textassay.meta.score_files import read_labels
from textassay.meta.table import labels_of_people
from textassay.runtime.errors import ConfigurationError, UnknownName

CHOSEN, RANDOM = "chosen", "random"


def read_columns(
    scores: Path, data: Path, aspect_map: Sequence[str], labels: str = RANDOM
) -> tuple[list[Columns], People]:
    """Read scores and data, and join them."""
    declared = labels_of_people(read_labels(scores), aspect_map)
    judged, people = read_judged(scores), People(data, declared)
    # any other word is the file of a label plan; a misspelled one fails as a missing file
    plan = None if labels in (RANDOM, CHOSEN) else read_plan(labels)
    return join_columns(judged, people, aspect_map, plan=plan), people


def allow_change(given: Mapping[str, Any]) -> bool:
    """Read `--set allow_change=true`, the one setting of these commands."""
    chosen = arguments.settings(given.get("set") or ())
    for name in chosen:
        if name != "allow_change":
            raise UnknownName("setting", name, ["allow_change"])
    value = chosen.get("allow_change", False)
    if not isinstance(value, bool):
        raise ConfigurationError(f"--set allow_change must be true or false, not {value!r}")
    return value


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is none."""
    if not 0 < confidence < 1:
        raise ConfigurationError(f"--confidence must be between 0 and 1, not {confidence!r}")
