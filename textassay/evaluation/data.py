"""Opens the examples of a run as its spec says."""

from __future__ import annotations

from typing import Any

from textassay.evaluation.spec import RunSpec
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.pairs import Paired


def open_examples(source: Any, spec: RunSpec) -> Examples:
    """Open the data with the spec's field map, paired if that is asked for.

    Raises:
        DataError: There is nothing to read.
    """
    data = Examples(source, fields=spec.fields or None)
    return data if spec.pair is None else Examples(Paired(data))
