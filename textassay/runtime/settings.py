"""How models are asked: limits, attempts, time limits, budget and cache: how a run goes, never what it yields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from textassay.runtime.messages import Message

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]

SHARED_BY_ROLES = frozenset({"max_cost", "cache", "no_cache", "local", "roles"})
"""Settings that all models of a run share."""


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


class EndpointSettings(Message):
    """How a server is reached: address, key, headers, certificates and proxy.

    Only the names of the variables that hold secrets are kept, never the secrets: a value of
    `headers`, `query` or `proxy` may name environment variables as `${NAME}`, which are replaced
    when the model is connected.
    """

    api_base: str | None = None
    """Base address of the server, ending in `/v1` if the server's documentation writes it so. A
    query in it is sent with every request."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; litellm finds its providers' own without
    it."""
    api_key_header: str | None = None
    """Header that carries the key as it is, such as `api-key`, instead of `Authorization: Bearer`."""
    api_version: str | None = None
    """Sent as the query parameter `api-version`, as Azure's gateways ask for it."""
    headers: dict[str, str] = {}
    """Further headers of every request; values may hold `${NAME}` of environment variables."""
    query: dict[str, str] = {}
    """Further query parameters of every request; values may hold `${NAME}`."""
    ca: Path | None = None
    """PEM file of certificate authorities to trust, instead of those of the system."""
    client_cert: Path | None = None
    """PEM file of the certificate that identifies this client to the server (mutual TLS)."""
    client_key: Path | None = None
    """PEM file of the private key of `client_cert`, if it is not in the same file."""
    proxy: str | None = None
    """Address of the proxy to use; by default what `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say."""


class Settings(EndpointSettings):
    """One frozen set of run-time settings, handed down from the top."""

    concurrency: int = Field(default=64, ge=1)
    """Most calls in flight to one model; fewer are used while the server asks for that. For a local
    model, which queues calls itself, only how many examples are in work."""
    rpm: Positive | None = None
    """Most requests a minute; `None` for no limit."""
    tpm: Positive | None = None
    """Most tokens a minute, prompt and answer together; `None` for no limit."""
    attempts: int = Field(default=6, ge=1)
    """Most times one call is tried in all, the first included."""
    timeout: Positive = 120.0
    """Seconds that one attempt may take, queueing not counted."""
    total_timeout: Positive = 900.0
    """Seconds that one call may take over all attempts and waits."""
    outage_wait: NotNegative = 300.0
    """Seconds to wait, with growing pauses, for a server that has answered before and then fails
    every call, before the run stops, resumable; 0 to stop at once."""
    failure_limit: int = Field(default=20, ge=1)
    """Failed calls in a row, without any answer in between, after which the run stops, resumable."""
    max_answer_bytes: int = Field(default=32 * 2**20, ge=1024)
    """Longest answer of a server that is read, in bytes, as sent and unpacked; a longer one is a
    malformed answer."""
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
    roles: dict[str, dict[str, Any]] = {}
    """Settings that differ for the model of one role, by role: any of the fields above but the
    budget and the cache, which all models share. `[models.ROLE]` tables of a config file."""

    def for_role(self, role: str) -> Settings:
        """Return the settings of the model that serves `role`, without those of other roles.

        Raises:
            ValidationError: A setting of the role has a wrong value.
        """
        own = self.roles.get(role, {})
        return type(self)(**{**self.model_dump(exclude={"roles"}), **own})

    @model_validator(mode="after")
    def _roles_name_settings(self) -> Self:
        for role, own in self.roles.items():
            known = sorted(set(type(self).model_fields) - SHARED_BY_ROLES)
            for name in own:
                if name not in known:
                    raise ValueError(
                        f"models.{role}: unknown setting {name!r}; known: {', '.join(known)}"
                    )
            self.for_role(role)
        return self

    @model_validator(mode="after")
    def _one_kind_of_cache(self) -> Self:
        if self.no_cache and self.cache is not None:
            raise ValueError("cache and no_cache exclude each other")
        return self
