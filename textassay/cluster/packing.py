"""Reports as bytes, as they go from workers to the process that holds the run.

A cluster's own pickling calls a Python function for each object, and keeps a result of more than
100 kB in a store of its own, which costs more than the rest of the exchange. Compressed, a report
is a fifteenth of its size, so it seldom is that large.

Instructions are left to the cluster's own pickling: their examples may be of classes of the
caller's program, which other processes cannot import.
"""

from __future__ import annotations

import pickle
import zlib

from textassay.cluster.messages import Report


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
