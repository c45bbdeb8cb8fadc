"""Whether a context fits into memory: asked before llama.cpp allocates it, since the kernel answers by killing."""

from __future__ import annotations

from pathlib import Path

from textassay.runtime.backends.llamacpp.engine import KvType
from textassay.runtime.backends.llamacpp.library import library
from textassay.runtime.backends.llamacpp.weights import Weights
from textassay.runtime.errors import ConfigurationError

_CGROUP = Path("/sys/fs/cgroup")


def check_memory(weights: Weights, *, n_ctx: int, sequences: int, kv: KvType) -> None:
    """Refuse a context whose keys and values cannot fit into the memory that is free now.

    Raises:
        ConfigurationError: It needs more than is free; the message has both figures.
    """
    needed = kv_bytes(weights, n_ctx=n_ctx, sequences=sequences, kv=kv)
    free = free_bytes()
    if free is not None and needed > free:
        raise ConfigurationError(
            f"a context of {n_ctx} tokens x {sequences} needs {needed / 2**30:.1f} GiB for keys and values, and "
            f"{free / 2**30:.1f} GiB are free: ask for a smaller n_ctx"
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
    """Return the memory this process may still take, or `None` where the system does not say (not Linux)."""
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
    return min(free, limit - used)


def _cgroup(name: str) -> int | None:
    try:
        text = (_CGROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
