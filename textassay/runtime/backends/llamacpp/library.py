"""The one file that imports llama_cpp: loads the shared library on first use and keeps what it logs.

llama.cpp says why a file was refused only in its log, so the log is caught here, per thread, and
handed to whoever raises the error. Nothing is printed: llama.cpp's own output on standard error is
switched off for the process.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import threading
from collections import deque
from pathlib import Path
from typing import Any

from textassay.runtime.errors import ConfigurationError

INSTALL = (
    'install it with `CMAKE_ARGS="-DGGML_NATIVE=OFF" pip install "textassay[llamacpp]"`, which compiles it and needs a '
    "C++ compiler (Debian, Ubuntu: apt-get install g++; macOS: xcode-select --install; Windows: Visual Studio Build "
    "Tools; docs/local-models.md has the lines for CUDA and Metal). Models behind an API need none of this, such as "
    "--model openai/gpt-4.1-mini"
)

_WARNING, _ERROR, _CONTINUED = 3, 4, 5
_lock = threading.Lock()
_loaded: Any = None
_callback: Any = None  # the C side keeps a bare pointer to it: must live as long as the process
_said: dict[int, deque[str]] = {}


def library() -> Any:
    """Return llama.cpp's C functions; the first call loads the shared library.

    Raises:
        ConfigurationError: llama-cpp-python is not installed, or does not load.
    """
    global _loaded, _callback
    with _lock:
        if _loaded is not None:
            return _loaded
        try:
            import llama_cpp.llama_cpp as functions
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"a local model needs llama-cpp-python, which is missing: {INSTALL}"
            ) from error
        except (OSError, RuntimeError) as error:
            raise ConfigurationError(
                f"llama-cpp-python does not load ({error}); {INSTALL}"
            ) from error
        _callback = functions.llama_log_callback(_keep)
        functions.llama_log_set(_callback, ctypes.c_void_p(0))
        functions.llama_backend_init()
        _loaded = functions
        return functions


def library_version() -> str:
    """Return llama-cpp-python's version without loading it.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        return importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigurationError(
            f"a local model needs llama-cpp-python, which is missing: {INSTALL}"
        ) from error


def offloads() -> bool:
    """Return whether this build of llama.cpp can use a GPU."""
    return bool(library().llama_supports_gpu_offload())


def gpu_in_sight() -> bool:
    """Return whether the machine has an NVIDIA or AMD GPU, as far as the device files tell."""
    return any(Path(device).exists() for device in ("/dev/nvidia0", "/dev/kfd"))


def has_amx() -> bool:
    """Return whether this build runs AMX kernels: with gcc 12 they crash on every quantised model."""
    return b"AMX_INT8 = 1" in library().llama_print_system_info()


def forget_log() -> None:
    """Drop what was logged on this thread so far."""
    _said.pop(threading.get_ident(), None)


def logged() -> str:
    """Return this thread's recent warnings and errors on one line, or an empty string."""
    lines = "".join(_said.pop(threading.get_ident(), ())).splitlines()
    return "; ".join(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _keep(level: int, text: bytes, _: Any) -> None:
    if level in (_WARNING, _ERROR, _CONTINUED):
        _said.setdefault(threading.get_ident(), deque(maxlen=40)).append(
            text.decode("utf-8", "replace")
        )
