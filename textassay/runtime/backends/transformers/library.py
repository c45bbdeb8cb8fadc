"""Shared by all uses of torch and transformers: device, quiet loading, wording of errors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from textassay.runtime.errors import ConfigurationError


def device_named(torch: Any, device_: str) -> Any:
    """Return a device that works: `cpu`, `cuda`, `cuda:1`, `mps`; `auto` prefers a GPU.

    Raises:
        ConfigurationError: It cannot be used.
    """
    if device_ == "auto":
        device_ = "cuda" if torch.cuda.is_available() else "cpu"
        if device_ == "cpu" and torch.backends.mps.is_available():
            device_ = "mps"
    try:
        device = torch.device(device_)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigurationError(
            f"device {device_!r} cannot be used: {str(error).splitlines()[0]}"
        ) from error
    return device


def reason_of(error: Exception) -> str:
    """Return the first line of what a library says about a file that it cannot read."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Keep progress bars and load reports off the terminal.

    What matters in them is checked and raised by those who load.
    """
    log = transformers.utils.logging
    level, bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bar:
            log.enable_progress_bar()
