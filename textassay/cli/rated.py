"""The examples that a command holds scores against.

DATA, or those of the run, with its field map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from textassay.cli import arguments
from textassay.cli.commands.score import score_keys
from textassay.evaluation.spec import RunSpec, spec_of
from textassay.meta.score_files import read_labels
from textassay.meta.table import labels_of_people
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.pairs import Paired
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.runtime.storage.run_files import MANIFEST, read_manifest


def rated_examples(
    scores: Path,
    data: Path | None,
    given: Mapping[str, Any],
    *,
    needs_output: bool = True,
    aspect_map: Iterable[str] = (),
) -> Examples:
    """Open the examples that scores belong to.

    Args:
        scores: Run folder, or a file of scores.
        data: The data; `None` for those that the run was made of.
        given: The flags `config` and `field`, which together are the field map. Without one, the
            data of a run are read with the map of the run.
        needs_output: Whether a row without an output is an error.
        aspect_map: Texts `SCORE=HUMAN`: which ratings may be the labels of which score.

    Raises:
        ConfigurationError: There are no data, or the map does not fit.
    """
    # the config file of the run may be given here too, so all of its keys are allowed
    fields = arguments.with_config(given, score_keys())[0].get("fields")
    spec = _spec(scores)
    if data is None:
        if spec is None or spec.data is None:
            raise ConfigurationError(
                f"{scores} does not record where its data are; give DATA after {scores}"
            )
        data = Path(spec.data)
    labels = labels_of_people(read_labels(scores), aspect_map)
    # the run's map is meant for the run's file; another file may have other columns
    if spec is None or not _same(data, spec):
        return Examples(data, fields=fields or None, needs_output=needs_output, labels=labels)
    return Examples(
        data,
        fields=(spec.fields if fields is None else fields) or None,
        needs_output=needs_output,
        unit=spec.unit,
        conversation_chars=spec.conversation_chars,
        labels=labels,
    )


def compared_examples(
    scores: Path, data: Path | None, given: Mapping[str, Any], pair: str | None
) -> Iterable[Example]:
    """Open the comparisons that scores belong to, see `rated_examples`.

    Args:
        scores: Run folder, or a file of scores.
        data: The data; `None` for those that the run was made of.
        given: The flags `config` and `field`.
        pair: `system` to pair the systems of each group; `None` does so if the run did.

    Raises:
        ConfigurationError: There are no data, or the map does not fit.
    """
    examples, spec = rated_examples(scores, data, given), _spec(scores)
    if pair is None and (spec is None or spec.pair is None):
        return examples
    return Paired(examples)


def _spec(scores: Path) -> RunSpec | None:
    return spec_of(read_manifest(scores)) if (scores / MANIFEST).is_file() else None


def _same(data: Path, spec: RunSpec) -> bool:
    return spec.data is not None and data.absolute() == Path(spec.data).absolute()
