"""How models are asked: limits, attempts, time limits, budget and cache: how a run goes, never what it yields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from textassay.runtime.messages import Message

Positive = Annotated[float, Field(gt=0)]


class LocalSettings(Message):
    """How a local model is loaded. Unlike the rest, these may change answers; they are part of a model's identity."""

    n_ctx: int | None = Field(default=None, ge=1)
    """Longest prompt and answer together, in tokens; the model's own, at most 8192, where not
    given."""
    n_gpu_layers: int | None = Field(default=None, ge=-1)
    """Layers on the GPU, -1 for all; by default all that the build can put there."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of one evaluation; as many as this process may use where not given."""
    mode: Literal["exact", "throughput"] = "exact"
    """`exact`: the same bits whatever else is asked; `throughput`: several sequences in one batch,
    for GPUs."""
    kv: Literal["f16", "f32"] = "f16"
    """Type of the cached keys and values."""
    truncate: Literal["error", "source"] | None = None
    """What to do with a prompt that does not fit: refuse it (`error`, the default), or cut the
    source, which the score then tells (`source`, the default of the embedded model)."""


class Settings(Message):
    """One frozen set of run-time settings, handed down from the top."""

    api_base: str | None = None
    """Base address of the server, ending in `/v1` where the server's documentation writes it so."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; litellm finds its providers' own without
    it."""
    concurrency: int = Field(default=64, ge=1)
    """Most calls in flight to one model; fewer are used while the server asks for that. For a local
    model, which queues calls itself, only how many examples are in work."""
    rpm: Positive | None = None
    """Most requests a minute; `None` for no limit."""
    tpm: Positive | None = None
    """Most tokens a minute, prompt and answer together; `None` for no limit."""
    attempts: int = Field(default=6, ge=1)
    """Most times one call is tried in all."""
    timeout: Positive = 120.0
    """Seconds that one attempt may take, queueing not counted."""
    total_timeout: Positive = 900.0
    """Seconds that one call may take over all attempts and waits."""
    max_cost: Positive | None = None
    """US dollars after which the run stops, resumable."""
    price: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] | None = None
    """US dollars for a million prompt tokens and for a million sampled tokens, where they are not
    known."""
    cache: Path | None = None
    """Folder of the answers' cache; `None` keeps answers in the run folder, where there is one."""
    no_cache: bool = False
    """Keep no answers on disk at all."""
    local: LocalSettings = LocalSettings()
    """How a local model is loaded."""

    @model_validator(mode="after")
    def _one_kind_of_cache(self) -> Self:
        if self.no_cache and self.cache is not None:
            raise ValueError("cache and no_cache exclude each other")
        return self
