"""Whether a context fits into memory.

Asked before llama.cpp allocates it, since the kernel answers by killing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from textassay.runtime.backends.llamacpp.engine import KvType
from textassay.runtime.backends.llamacpp.library import free_gpu_bytes, library
from textassay.runtime.backends.llamacpp.weights import Weights
from textassay.runtime.errors import ConfigurationError

_CGROUP = Path("/sys/fs/cgroup")


def check_memory(
    weights: Weights,
    *,
    n_ctx: int,
    sequences: int,
    kv: KvType,
    gpu_layers: int = 0,
    free: Callable[[], int | None] | None = None,
    free_on_gpu: Callable[[], int | None] = free_gpu_bytes,
) -> None:
    """Refuse a context whose keys and values cannot fit into the memory that is free now.

    Args:
        weights: The model, loaded: its own memory is taken already.
        n_ctx: Tokens of context for each sequence.
        sequences: Number of sequences.
        kv: Type of the keys and values.
        gpu_layers: Layers on the GPU, -1 for all; their keys and values lie there too.
        free: Returns how many bytes of memory are free; by default `free_bytes`.
        free_on_gpu: The same for the GPUs.

    Raises:
        ConfigurationError: It needs more than is free; the message has both figures.
    """
    needed = kv_bytes(weights, n_ctx=n_ctx, sequences=sequences, kv=kv)
    layers = library().llama_model_n_layer(weights.handle)
    # Keys and values of a layer lie where the layer does.
    share = (min(gpu_layers, layers) if gpu_layers >= 0 else layers) / max(1, layers)
    context = f"a context of {n_ctx} tokens x {sequences}"
    _check(
        context, needed * (1 - share), (free or free_bytes)(), "smaller n_ctx or fewer sequences"
    )
    if share:
        place = "smaller n_ctx, fewer sequences or fewer n_gpu_layers"
        _check(f"{context} on the GPU", needed * share, free_on_gpu(), place)


def _check(context: str, needed: float, free: int | None, instead: str) -> None:
    if free is not None and needed > free:
        raise ConfigurationError(
            f"{context} needs {needed / 2**30:.1f} GiB for keys and values, and "
            f"{free / 2**30:.1f} GiB are free: ask for a {instead}"
        )


def kv_bytes(weights: Weights, *, n_ctx: int, sequences: int, kv: KvType) -> int:
    """Return the bytes that keys and values of a full context take."""
    lib, model, metadata = library(), weights.handle, weights.metadata
    architecture = metadata.get("general.architecture", "")
    head = lib.llama_model_n_embd(model) // max(1, lib.llama_model_n_head(model))
    key = int(metadata.get(f"{architecture}.attention.key_length", head))
    value = int(metadata.get(f"{architecture}.attention.value_length", head))
    per_token = lib.llama_model_n_layer(model) * lib.llama_model_n_head_kv(model) * (key + value)
    return int(per_token * (4 if kv == "f32" else 2) * n_ctx * sequences)


def free_bytes() -> int | None:
    """Return the bytes that this process can still allocate, or `None` if not on Linux."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    free = next(
        (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None
    )
    limit = _cgroup("memory.max")
    used = _cgroup("memory.current")
    if free is None or limit is None or used is None:
        return free
    # A container is killed at its own limit, however much the machine has left.
    return min(free, limit - used)


def _cgroup(name: str) -> int | None:
    try:
        text = (_CGROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
