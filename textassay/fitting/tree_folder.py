"""The folder of an alignment, which `fit` fills and resumes.

OUT/fit.json        the request; the same command resumes an alignment that was stopped
OUT/layers/N.json   the tree as it stood at layer N
OUT/layers/N/       the run that rated the nodes of layer N
OUT/answers/        answers of models, unless a cache is named
OUT/evaluator.json  written last, with the report
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from textassay.agents.decomposer import Decomposition
from textassay.fitting.fit_from_scores import check_out
from textassay.methods.fitted.evaluator import is_evaluator
from textassay.runtime.errors import DataError, RunFolderError, parameter
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Json
from textassay.runtime.settings import Settings
from textassay.runtime.storage.files import write_json

PLAN, LAYERS, ANSWERS = "fit.json", "layers", "answers"


def open_folder(out: Path, plan: Json) -> None:
    """Begin an alignment in a new folder, or check that the one in it is the same.

    Args:
        out: The folder.
        plan: What must not change between two calls, as JSON values.

    Raises:
        RunFolderError: It holds an evaluator, something else, or another alignment, or cannot be
            written to.
    """
    file = out / PLAN
    if is_evaluator(out) or not file.exists():
        check_out(out)
        try:
            (out / LAYERS).mkdir(parents=True, exist_ok=True)
            write_json(file, plan)
        except OSError as error:
            raise RunFolderError(f"the folder {out} cannot be written to: {error}") from error
        return
    try:
        before = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file} cannot be read: {error}") from error
    for key, value in plan.items():
        if before.get(key) != value:
            raise RunFolderError(
                f"{out} contains another alignment: its {key} is {before.get(key)!r}, not "
                f"{value!r}; choose another folder for {parameter('out')}"
            )


def note_saved_progress(error: DataError, out: Path, settings: Settings) -> None:
    """Add to a learning error that the paid ratings are kept, and what to change."""
    error.add_note(
        f"the model's ratings are kept in {out / LAYERS}; only learning from them failed"
    )
    error.add_note(
        "to continue, fit again in this folder with another aggregator, such as ridge or avg;"
    )
    if not settings.no_cache:
        error.add_note(
            f"or, with more rated rows or another task, with a new folder and the cache "
            f"{settings.cache or out / ANSWERS}: what was asked before is not asked again"
        )


def read_parts(file: Path, aspects: Sequence[Aspect]) -> list[Decomposition]:
    """Read the parts of criteria, as one layer of an alignment keeps them.

    Raises:
        RunFolderError: The file was edited, or its criteria are others than were found to matter.
    """
    try:
        decompositions = [
            Decomposition.model_validate(one) for one in json.loads(file.read_bytes())
        ]
    except (OSError, ValueError, TypeError) as error:
        raise RunFolderError(
            f"{file} cannot be read: {error}; delete it to ask for the parts again"
        ) from error
    # another aggregator can rank other criteria first; their parts must not be taken for these
    if [one.of.id for one in decompositions] != [aspect.id for aspect in aspects]:
        before, now = (
            ", ".join(ids)
            for ids in ([one.of.id for one in decompositions], [aspect.id for aspect in aspects])
        )
        raise RunFolderError(
            f"{file} contains the parts of {before}, but {now} are to be decomposed; delete the"
            " layers from there on, or choose another folder"
        )
    return decompositions
