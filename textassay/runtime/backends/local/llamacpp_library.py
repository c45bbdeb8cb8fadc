"""The one file that imports llama_cpp: the shared library, its log, and loaded model files.

llama.cpp gives the reason for refusing a file only in its log, so the log is collected here, per
thread, and added to the error that is raised. llama.cpp's own output on standard error is switched
off for the process.

Any thread may tokenize and spell with loaded weights (llama.h: "The API is thread-safe"); loading
and freeing is the owner thread's. Checks come before calls, since llama.cpp aborts the process
where Python would raise.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.metadata
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from textassay.runtime.backends.local.tokens import Ids, Vocabulary
from textassay.runtime.errors import ConfigurationError, ModelNotFound, RequestRefused

BEHIND_API = "model='openai/gpt-4.1-mini'"
"""A model that needs no file and no compiler, for messages."""
INSTALL = (
    'install it with `CMAKE_ARGS="-DGGML_NATIVE=OFF" pip install "textassay[llamacpp]"`, which'
    " compiles it and needs a C++ compiler (Debian, Ubuntu: apt-get install g++; macOS:"
    " xcode-select --install; Windows: Visual Studio Build Tools; docs/local-models.md has the"
    " lines for CUDA and Metal). Models behind an API need none of this, such as " + BEHIND_API
)

_lock = threading.Lock()
_callback: Any = None  # the C side keeps a bare pointer to it: must live as long as the process
_log_lines: dict[int, deque[str]] = {}


def library() -> Any:
    """Return llama.cpp's C functions; the first call loads the shared library."""
    with _lock:
        return _load()


@cache
def _load() -> Any:
    global _callback
    try:
        with _short_spins():
            import llama_cpp.llama_cpp as functions
    except ModuleNotFoundError as error:
        raise _missing() from error
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"llama-cpp-python does not load ({error}); {INSTALL}") from error
    atexit.register(_close_null_files)
    _callback = functions.llama_log_callback(_keep)
    functions.llama_log_set(_callback, ctypes.c_void_p(0))
    functions.llama_backend_init()
    return functions


def _missing() -> ConfigurationError:
    return ConfigurationError(f"a local model needs llama-cpp-python, which is missing: {INSTALL}")


def _close_null_files() -> None:
    """Close the files that llama_cpp opens on import; Python would warn of them at exit."""
    module = sys.modules.get("llama_cpp._utils")
    for name in ("outnull_file", "errnull_file"):
        if file := getattr(module, name, None):
            file.close()


@contextmanager
def _short_spins() -> Iterator[None]:
    """Let OpenMP threads spin for microseconds, not milliseconds, unless the user chose otherwise.

    By default libgomp's threads burn their core while they wait for each other, and on a machine
    that others use too they wait for a thread that has no core: two threads took 5 to 12 times as
    long as one. libgomp reads the variable once, when it is loaded, so it is set for the import
    alone and no other library or child process sees it.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "3000"
    try:
        yield
    finally:
        os.environ.pop("GOMP_SPINCOUNT", None)


def library_version() -> str:
    """Return llama-cpp-python's version without loading it."""
    try:
        return importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError as error:
        raise _missing() from error


def offloads() -> bool:
    """Return whether this build of llama.cpp can use a GPU."""
    return bool(library().llama_supports_gpu_offload())


def gpu_in_sight(devices: Path = Path("/dev")) -> bool:
    """Return whether the machine has an NVIDIA or AMD GPU, as far as the device files show.

    A container may hold any one of several GPUs (`nvidia3` alone), and WSL2 has `dxg` instead.
    """
    numbered = any(path.name[6:].isdigit() for path in devices.glob("nvidia*"))
    return numbered or any((devices / name).exists() for name in ("kfd", "dxg"))


def free_gpu_bytes() -> float:
    """Return the memory that is free on all GPUs that llama.cpp uses; infinite if it uses none."""
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
        if ggml.ggml_backend_dev_type(device) == 1:  # GGML_BACKEND_DEVICE_TYPE_GPU
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
            free_bytes.append(free.value)
    return sum(free_bytes) if free_bytes else math.inf


def has_amx() -> bool:
    """Return whether this build has AMX kernels, which crash on quantized models under gcc 12."""
    return b"AMX_INT8 = 1" in library().llama_print_system_info()


def forget_log() -> None:
    """Drop this thread's log."""
    _log_lines.pop(threading.get_ident(), None)


def recent_log() -> str:
    """Return this thread's recent warnings and errors on one line, or an empty string."""
    lines = "".join(_log_lines.pop(threading.get_ident(), ())).splitlines()
    return "; ".join(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _keep(level: int, text: bytes, _: Any) -> None:
    # warnings, errors, and continued messages, which may belong to either
    if level in (3, 4, 5):
        _log_lines.setdefault(threading.get_ident(), deque(maxlen=40)).append(
            text.decode("utf-8", "replace")
        )


KvType = Literal["f16", "f32"]


class Weights(Vocabulary):
    """One loaded GGUF file."""

    def __init__(
        self, path: Path, *, gpu_layers: int, check_tensors: bool, repack: bool = False
    ) -> None:
        """Load the file; of a split model, `path` is its first part.

        With `repack` weights are repacked for this CPU: up to a third faster for some
        quantizations, but rows then round differently by their place in a batch.
        """
        if not path.is_file():
            raise ModelNotFound(
                f"there is no model file {str(path)!r}" + (" (a folder)" if path.is_dir() else "")
            )
        with path.open("rb") as file:
            # llama.cpp's own message for a foreign file names magic numbers and versions.
            if file.read(4) != b"GGUF":
                raise ConfigurationError(
                    f"{str(path)!r} is not a GGUF file: it does not begin with the letters GGUF"
                )
        self.path, self._lib = path, library()
        forget_log()
        params = self._lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.check_tensors = check_tensors
        params.use_extra_bufts = repack and not has_amx()
        self.handle = self._lib.llama_model_load_from_file(str(path).encode(), params)
        if not self.handle:
            raise ConfigurationError(
                f"llama.cpp cannot load {str(path)!r}: {recent_log() or 'it gives no reason'}"
            )
        try:
            self._read()
        except ConfigurationError:
            self.close()
            raise

    def _read(self) -> None:
        lib, model = self._lib, self.handle
        self.vocabulary = lib.llama_model_get_vocab(model)
        kind = lib.llama_vocab_type(self.vocabulary)
        self.size = int(lib.llama_vocab_n_tokens(self.vocabulary))
        if kind == lib.LLAMA_VOCAB_TYPE_NONE or self.size < 1:
            raise ConfigurationError(
                f"{str(self.path)!r} contains no vocabulary, so no text can be given to it"
            )
        architecture = self.metadata.get("general.architecture", "")
        causal = self.metadata.get(f"{architecture}.attention.causal", "true") != "false"
        encodes, decodes = lib.llama_model_has_encoder(model), lib.llama_model_has_decoder(model)
        if encodes or not decodes or not causal:
            raise ConfigurationError(
                f"{str(self.path)!r} is a {architecture!r} model, which does not predict the next"
                " token; take a decoder-only language model"
            )
        if lib.llama_model_is_diffusion(model):
            raise ConfigurationError(
                f"{str(self.path)!r} is a diffusion model: it has no next-token probabilities"
            )
        self.trained_context = int(lib.llama_model_n_ctx_train(model))
        self.merges_pairs = kind in (lib.LLAMA_VOCAB_TYPE_BPE, lib.LLAMA_VOCAB_TYPE_SPM)
        self.end_ids = frozenset(
            i for i in range(self.size) if lib.llama_vocab_is_eog(self.vocabulary, i)
        )
        bos, eos = lib.llama_vocab_bos(self.vocabulary), lib.llama_vocab_eos(self.vocabulary)
        self.bos, self.eos = (self.text(i) if 0 <= i < self.size else "" for i in (bos, eos))
        begins = lib.llama_vocab_get_add_bos(self.vocabulary) and 0 <= bos < self.size
        self.head = [bos] if begins else []
        user_defined = lib.LLAMA_TOKEN_ATTR_USER_DEFINED
        kinds = lib.LLAMA_TOKEN_ATTR_CONTROL | lib.LLAMA_TOKEN_ATTR_UNKNOWN | user_defined
        attributes = [lib.llama_vocab_get_attr(self.vocabulary, i) for i in range(self.size)]
        texts = {
            i: lib.llama_vocab_get_text(self.vocabulary, i)
            for i in range(self.size)
            if attributes[i] & kinds
        }
        self.special_texts = {
            text.decode("utf-8", "replace"): i for i, text in texts.items() if text
        }
        # llama.cpp reads these as the token even in plain text
        self.always_parsed = tuple(
            text for text, i in self.special_texts.items() if attributes[i] & user_defined
        )

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The file's scalar metadata as text, arrays left out."""
        lib, model = self._lib, self.handle
        values = {}
        for index in range(lib.llama_model_meta_count(model)):
            key = self._meta(lib.llama_model_meta_key_by_index, index)
            values[key] = self._meta(lib.llama_model_meta_val_str_by_index, index)
        return values

    def _meta(self, read: Any, index: int) -> str:
        value = _read_buffer(lambda buffer, size: read(self.handle, index, buffer, size), 1024)
        return value.decode("utf-8", "replace")

    @cached_property
    def quantisation(self) -> str:
        """llama.cpp's description of size and quantization, such as `llama 8B Q4_K - Medium`."""
        describe = self._lib.llama_model_desc
        description = _read_buffer(lambda buffer, size: describe(self.handle, buffer, size), 256)
        return description.decode("utf-8", "replace")

    def strips(self, token: int) -> tuple[bool, bool]:
        attributes = self._lib.llama_vocab_get_attr(self.vocabulary, token)
        return bool(attributes & self._lib.LLAMA_TOKEN_ATTR_LSTRIP), bool(
            attributes & self._lib.LLAMA_TOKEN_ATTR_RSTRIP
        )

    def _encode_valid(self, text: str) -> Ids:
        data = text.encode()
        # A token has at least a byte; the rest is for a space that is put in front.
        room = len(data) + 16
        buffer = np.empty(room, np.int32)
        pointer = buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        count = self._lib.llama_tokenize(
            self.vocabulary, data, len(data), pointer, room, False, False
        )
        if count < 0:
            raise RequestRefused(
                f"llama.cpp cannot tokenize the text of {len(data)} bytes (code {count})"
            )
        return buffer[:count].copy()

    def piece(self, token: int, *, special: bool = True) -> bytes:
        spell, vocabulary = self._lib.llama_token_to_piece, self.vocabulary
        return _read_buffer(
            lambda buffer, size: spell(vocabulary, token, buffer, size, 0, special), 64
        )

    def close(self) -> None:
        """Free the model; safe to call twice."""
        if self.handle:
            self._lib.llama_model_free(self.handle)
            self.handle = None


def _read_buffer(write: Callable[[Any, int], int], size: int) -> bytes:
    """Return the bytes that a function of llama.cpp writes into a buffer.

    If the buffer is too small, the function returns the length that it needs, some as a negative
    number, and is called again with a larger one.
    """
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = abs(write(buffer, size))
        if length < size:
            return buffer.raw[:length]
        size = length + 1


def kv_bytes(weights: Weights, *, n_ctx: int, sequences: int, kv: KvType) -> int:
    """Return the bytes that keys and values of a full context take."""
    lib, model, metadata = library(), weights.handle, weights.metadata
    architecture = metadata.get("general.architecture", "")
    head = lib.llama_model_n_embd(model) // max(1, lib.llama_model_n_head(model))
    key = int(metadata.get(f"{architecture}.attention.key_length", head))
    value = int(metadata.get(f"{architecture}.attention.value_length", head))
    per_token = lib.llama_model_n_layer(model) * lib.llama_model_n_head_kv(model) * (key + value)
    return int(per_token * (4 if kv == "f32" else 2) * n_ctx * sequences)


def free_bytes(meminfo: Path = Path("/proc/meminfo")) -> float:
    """Return the bytes that this process can still allocate; infinite if Linux does not say."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:
        return math.inf
    available = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    free = min(available, default=math.inf)  # WSL 1 and some containers do not report it
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (
            (group / name).read_text(encoding="ascii").strip()
            for name in ("memory.max", "memory.current")
        )
    except OSError:
        return free
    # A container is killed at its own limit, however much memory the machine has.
    return min(free, int(limit) - int(used)) if limit.isdigit() else free


def check_memory(
    weights: Weights,
    *,
    n_ctx: int,
    sequences: int,
    kv: KvType,
    gpu_layers: int = 0,
    free: Callable[[], float] = free_bytes,
    free_on_gpu: Callable[[], float] = free_gpu_bytes,
) -> None:
    """Refuse a context whose keys and values do not fit into the free memory.

    To be called after the weights are loaded, and before llama.cpp allocates the context: the
    kernel may kill the process. Keys and values of `gpu_layers` layers are on the GPU (-1 for all).
    """
    needed = kv_bytes(weights, n_ctx=n_ctx, sequences=sequences, kv=kv)
    layers = library().llama_model_n_layer(weights.handle)
    share = (min(gpu_layers, layers) if gpu_layers >= 0 else layers) / max(1, layers)
    context = f"a context of {n_ctx} tokens x {sequences}"
    _check(context, needed * (1 - share), free(), "smaller n_ctx or fewer sequences")
    if share:
        place = "smaller n_ctx, fewer sequences or fewer n_gpu_layers"
        _check(f"{context} on the GPU", needed * share, free_on_gpu(), place)


def _check(context: str, needed: float, free: float, instead: str) -> None:
    if needed > free:
        raise ConfigurationError(
            f"{context} needs {needed / 2**30:.1f} GiB for keys and values, and "
            f"{free / 2**30:.1f} GiB are free: ask for a {instead}"
        )
