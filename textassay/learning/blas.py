"""Limits the threads of linear algebra during fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_blas_lock = Lock()
_blas_users = 0
_blas_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let linear algebra use one thread during fits.

    The matrices are so small that several threads wait up to thirty times as long as they work. The
    limit applies to the whole process, so the last of several concurrent fits restores it.
    """
    global _blas_users, _blas_limit
    from threadpoolctl import threadpool_limits

    with _blas_lock:
        if not _blas_users:
            _blas_limit = threadpool_limits(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if not _blas_users:
                _blas_limit.restore_original_limits()
