"""The one file that imports llama_cpp.

Loads the shared library on first use and keeps what it logs.

llama.cpp says why a file was refused only in its log, so the log is caught here, per thread, and
handed to whoever raises the error. Nothing is printed: llama.cpp's own output on standard error is
switched off for the process.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.metadata
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textassay.runtime.errors import ConfigurationError

BEHIND_API = "model='openai/gpt-4.1-mini'"
"""A model that needs no file and no compiler, as messages name it."""
INSTALL = (
    'install it with `CMAKE_ARGS="-DGGML_NATIVE=OFF" pip install "textassay[llamacpp]"`, which'
    " compiles it and needs a C++ compiler (Debian, Ubuntu: apt-get install g++; macOS:"
    " xcode-select --install; Windows: Visual Studio Build Tools; docs/local-models.md has the"
    " lines for CUDA and Metal). Models behind an API need none of this, such as " + BEHIND_API
)

# ggml's log levels; a continued message carries no level of its own and may belong to either.
_WARNING, _ERROR, _CONTINUED = 3, 4, 5
_SPINCOUNT = "3000"
_GPU_DEVICE = 1  # GGML_BACKEND_DEVICE_TYPE_GPU
_SPIN_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
_lock = threading.Lock()
_loaded: Any = None
_callback: Any = None  # the C side keeps a bare pointer to it: must live as long as the process
_log_lines: dict[int, deque[str]] = {}


def library() -> Any:
    """Return llama.cpp's C functions; the first call loads the shared library."""
    global _loaded, _callback
    with _lock:
        if _loaded is not None:
            return _loaded
        try:
            with _short_spins():
                import llama_cpp.llama_cpp as functions
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"a local model needs llama-cpp-python, which is missing: {INSTALL}"
            ) from error
        except (OSError, RuntimeError) as error:
            raise ConfigurationError(
                f"llama-cpp-python does not load ({error}); {INSTALL}"
            ) from error
        atexit.register(_close_null_files)
        _callback = functions.llama_log_callback(_keep)
        functions.llama_log_set(_callback, ctypes.c_void_p(0))
        functions.llama_backend_init()
        _loaded = functions
        return functions


def _close_null_files() -> None:
    """Close what llama_cpp opens on import, so that Python does not warn of it at exit."""
    module = sys.modules.get("llama_cpp._utils")
    for name in ("outnull_file", "errnull_file"):
        if (file := getattr(module, name, None)) is not None:
            file.close()


@contextmanager
def _short_spins() -> Iterator[None]:
    """Let OpenMP threads spin for microseconds, not milliseconds, unless the user chose otherwise.

    By default libgomp's threads burn their core while they wait for each other, and on a machine
    that others use too they wait for a thread that has no core: two threads took 5 to 12 times as
    long as one. libgomp reads the variable once, when it is loaded, so it is set for the import
    alone and no other library or child process sees it.
    """
    if any(name in os.environ for name in _SPIN_VARIABLES):
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _SPINCOUNT
    try:
        yield
    finally:
        os.environ.pop("GOMP_SPINCOUNT", None)


def library_version() -> str:
    """Return llama-cpp-python's version without loading it."""
    try:
        return importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigurationError(
            f"a local model needs llama-cpp-python, which is missing: {INSTALL}"
        ) from error


def offloads() -> bool:
    """Return whether this build of llama.cpp can use a GPU."""
    return bool(library().llama_supports_gpu_offload())


def gpu_in_sight(devices: Path = Path("/dev")) -> bool:
    """Return whether the machine has an NVIDIA or AMD GPU, as far as the device files tell.

    A container may hold any one of several GPUs (`nvidia3` alone), and WSL2 has `dxg` instead.
    """
    numbered = any(path.name[6:].isdigit() for path in devices.glob("nvidia*"))
    return numbered or any((devices / name).exists() for name in ("kfd", "dxg"))


def free_gpu_bytes() -> int | None:
    """Return the memory that is free on all GPUs that llama.cpp uses, or `None` if it uses none."""
    library()
    import llama_cpp._ggml

    ggml = llama_cpp._ggml.libggml
    # llama_cpp declares no types for these, and ctypes would cut returned pointers down to an int.
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    size = ctypes.POINTER(ctypes.c_size_t)
    ggml.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, size, size]
    free_bytes = []
    for index in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(index)
        if ggml.ggml_backend_dev_type(device) == _GPU_DEVICE:
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
            free_bytes.append(free.value)
    return sum(free_bytes) if free_bytes else None


def has_amx() -> bool:
    """Return whether this build runs AMX kernels.

    With gcc 12 they crash on every quantized model.
    """
    return b"AMX_INT8 = 1" in library().llama_print_system_info()


def forget_log() -> None:
    """Drop what was logged on this thread so far."""
    _log_lines.pop(threading.get_ident(), None)


def logged() -> str:
    """Return this thread's recent warnings and errors on one line, or an empty string."""
    lines = "".join(_log_lines.pop(threading.get_ident(), ())).splitlines()
    return "; ".join(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _keep(level: int, text: bytes, _: Any) -> None:
    if level in (_WARNING, _ERROR, _CONTINUED):
        _log_lines.setdefault(threading.get_ident(), deque(maxlen=40)).append(
            text.decode("utf-8", "replace")
        )
