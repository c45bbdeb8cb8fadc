"""Examples and reports in the form in which they go between workers and the process of the run.

A cluster's own pickling calls a Python function for each object, and keeps a result of more than
100 kB in a store of its own, which costs more than the rest of the exchange. So reports go as
bytes: compressed, one is a fifteenth of its size, so it seldom is that large. Examples are left to
the cluster's own pickling, as they may hold objects of classes of the caller's program, which other
processes cannot import; but they go as their fields.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from typing import Any

from textassay.cluster.messages import Report
from textassay.evaluation.feed import FedExample
from textassay.runtime.messages import Example

PackedExample = FedExample | tuple[dict[str, Any], tuple[str, ...]]
"""An example as its fields; as it is, if it is of a class of the caller's."""


def pack(report: Report) -> bytes:
    """Return a report as bytes for `unpack`."""
    # level 1: three times as fast as the standard level; the result is a few percent larger
    return zlib.compress(pickle.dumps(report, pickle.HIGHEST_PROTOCOL), level=1)


def unpack(packed: bytes) -> Report:
    """Return the report that a worker of this run has packed.

    Only for what a worker sent: unpickling runs whatever the bytes say, and the workers of a
    cluster are trusted with the run's keys as it is.
    """
    report: Report = pickle.loads(zlib.decompress(packed))
    return report


def pack_examples(examples: Sequence[FedExample]) -> list[PackedExample]:
    """Return examples for `unpack_examples`, in a form that is pickled in an eighth of the time."""
    return [
        (vars(handed.example), handed.completed) if type(handed.example) is Example else handed
        for handed in examples
    ]


def unpack_examples(packed: Sequence[PackedExample]) -> list[FedExample]:
    """Return the examples that were packed."""
    return [
        each if isinstance(each, FedExample) else FedExample(Example(**each[0]), each[1])
        for each in packed
    ]
