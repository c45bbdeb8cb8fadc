"""Decides what of a run folder is trusted when its run is resumed.

A run folder may come from somebody else, and its manifest may have been edited. How the run goes on
(limits, time limits, prices) is taken from it; what could send a secret somewhere is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from textassay.evaluation.request import RunRequest
from textassay.evaluation.roles import in_every_role
from textassay.runtime.backends.by_name import EMBEDDED
from textassay.runtime.connected import ConnectedModel
from textassay.runtime.errors import ConfigurationError, RunFolderError
from textassay.runtime.model import Model
from textassay.runtime.settings import (
    OF_BATCHES,
    SHARED_BY_ROLES,
    EndpointSettings,
    Settings,
    is_redis,
)
from textassay.runtime.storage.cache_folder import is_cache_folder
from textassay.runtime.storage.group_commit import in_thread
from textassay.runtime.storage.run_folder import RunFolder

_OFFLINE = ("llamacpp", "transformers", "replay", EMBEDDED)
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1", None)
"""Hosts of a Redis here; a socket has none."""
_ENDPOINT = frozenset(EndpointSettings.model_fields)


async def resume_folder(path: Path, stack: AsyncExitStack) -> RunFolder:
    """Open the folder of a run that was begun; it is closed with the stack.

    Raises:
        RunFolderError: It holds no run, is in use, or its manifest is damaged.
        DataError: A line of its scores is damaged.
    """
    folder = await in_thread(lambda: RunFolder.resume(path), discard=RunFolder.close)
    stack.push_async_callback(folder.aclose)
    check_manifest(folder.path, folder.manifest)
    return folder


def check_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest whose parts are not of the kind that textassay writes.

    Raises:
        RunFolderError: It is damaged or was edited.
    """
    models = manifest.get("models")
    whole = isinstance(models, Mapping) and all(
        isinstance(model, Mapping)
        and isinstance(model.get("name"), str)
        and isinstance(model.get("identity"), Mapping)
        for model in models.values()
    )
    if not whole:
        raise _damaged(folder, "'models' does not name each model and its identity")
    try:
        Settings(**_mapping(manifest.get("settings")))
    except (TypeError, ValidationError) as error:
        raise _damaged(folder, f"'settings' cannot be used: {error}") from error


def settings_to_resume(
    folder: Path, manifest: Mapping[str, Any], request: RunRequest, given: Mapping[str, Any]
) -> Settings:
    """Return the settings of a resumed run: those of the run, replaced by what is given now.

    A cost limit holds for one session, unless that submitted batches only. Keys, headers,
    certificates and proxies are never taken from the manifest, nor is an address to which a key
    would be sent: a key that is named now, or one that litellm finds by itself. A server that is
    asked without any key is reached at the recorded address.

    Args:
        folder: The run folder.
        manifest: Its manifest.
        request: What the run does.
        given: Settings that were given for this session, by name.

    Raises:
        RunFolderError: The manifest is damaged.
        ConfigurationError: The run needs `--api-base` or `--api-key-env` once more.
    """
    check_manifest(folder, manifest)
    recorded = dict(_mapping(manifest["settings"]))
    roles = {role: dict(_mapping(own)) for role, own in recorded.get("roles", {}).items()}
    given_roles = given.get("roles") or {}
    for role, name in in_every_role(request.models, {**roles, **given_roles}).items():
        if name.partition("/")[0] in _OFFLINE:
            continue
        # what is given for a role replaces what is given for all, as in a run itself
        here = {**given, **given_roles.get(role, {})}
        _check_endpoint(folder, name, {**recorded, **roles.get(role, {})}, here)
    _check_places(folder, recorded, given)
    kept = {role: _without_secrets(own) for role, own in roles.items()}
    for role in kept:
        if "api_base" in given:  # the address that was given now is meant for all
            kept[role].pop("api_base", None)
    before = {**_without_secrets(recorded), "roles": kept}
    # A spent budget must not stop the resumed run at once. The sessions that submit and collect
    # batches are one piece of work, whose budget is not spent by submitting.
    if not before.get("submit_only"):
        before["max_cost"] = None
    before["submit_only"] = False  # who resumes wants to see the answers
    if given.get("cache") is not None or given.get("no_cache"):
        before |= {"cache": None, "no_cache": False}
    return Settings(**{**before, **given})


def _check_endpoint(
    folder: Path, name: str, recorded: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Refuse to send a key, including one that litellm finds, to an address from the manifest."""
    address, key = recorded.get("api_base"), recorded.get("api_key_env")
    is_direct = name.startswith(("direct/", "responses/"))
    if "://" in name and not is_direct:
        raise ConfigurationError(
            f"{folder}: the model {name!r} contains an address, which is never read from a run "
            "folder; resume the run in Python, with evaluate(..., resume=True)"
        )
    if recorded.get("endpoints") and not given.get("endpoints"):
        raise ConfigurationError(
            f"{folder} names several endpoints of {name!r}, and a run folder may come from anyone, "
            f"so they are not read from it. Give them again: textassay resume {folder} --config "
            "FILE"
        )
    missing = []
    sends_key = key is not None or not is_direct or _names_secret(given)
    if address is not None and sends_key and given.get("api_base") is None:
        missing.append(f"api_base={address!r}")
    if key is not None and not _names_secret(given):
        missing.append(f"api_key_env={key!r}")
    if missing:
        raise ConfigurationError(
            f"{folder} names the server or the key of {name!r}, and a run folder may come from "
            "anyone, so neither is read from it. If you trust this server with this key, give "
            f"them again: textassay resume {folder} {' '.join(missing)}"
        )


def _check_places(folder: Path, recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse a place for answers or limits, elsewhere or with a password, that is recorded only.

    Whoever has the Redis can give any answer in the model's name. A cache folder is made nowhere
    because a manifest says so.
    """
    for name in ("limits", "cache"):
        address = recorded.get(name)
        replaced = given.get(name) is not None or (name == "cache" and given.get("no_cache"))
        if address is None or replaced:
            continue
        if not is_redis(address):
            is_trusted = name == "limits" or is_cache_folder(Path(address))
        else:
            is_trusted = "${" not in address and urlsplit(address).hostname in _THIS_MACHINE
        if not is_trusted:
            raise ConfigurationError(
                f"{folder} names {address!r}, and a run folder may come from anyone, so it is not"
                " read from it. If you trust it, give it again:"
                f" textassay resume {folder} --{name} '{address}'"
            )


def _names_secret(given: Mapping[str, Any]) -> bool:
    """Return whether settings that are given now bring a key of their own."""
    return any(given.get(name) for name in ("api_key_env", "headers", "query", "client_cert"))


def _without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in settings.items()
        # an address alone is kept, since `_check_endpoint` has made sure that no key goes with it
        if name == "api_base" or (name not in _ENDPOINT and name != "endpoints")
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"not an object but {type(value).__name__}")
    return value


def _damaged(folder: Path, why: str) -> RunFolderError:
    return RunFolderError(f"{folder / 'manifest.json'} is damaged or was edited: {why}")


def settings_as_requested(settings: Settings, models: Mapping[str, Model]) -> Settings:
    """Return the settings with which `resume` asks the models that the caller connected."""
    own = {
        role: model.settings for role, model in models.items() if isinstance(model, ConnectedModel)
    }
    if not own:
        return settings
    # models that keep answers themselves, as those of `fit` do, keep their batches as well
    own_batches = {"batch", *OF_BATCHES} if settings.no_cache else set()
    unbatched = {name: Settings.model_fields[name].default for name in own_batches}
    first = next(iter(own.values()))
    if all(other == first for other in own.values()):
        of_the_run = SHARED_BY_ROLES - {"local", "transformers"}
        kept = {name: getattr(settings, name) for name in of_the_run}
        return first.model_copy(update={**kept, **unbatched})
    requested = {
        role: {
            name: value
            for name, value in given.model_dump(exclude_defaults=True).items()
            if name not in SHARED_BY_ROLES and name not in own_batches
        }
        for role, given in own.items()
    }
    return settings.model_copy(update={"roles": {**settings.roles, **requested}, **unbatched})


def recorded_identity(model: Model, recorded: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the recorded identity if the model differs from it in its address only, else `None`.

    A resumed run may reach the same model at another address (`--api-base`); its answers keep their
    keys.
    """
    if recorded is None:
        return None
    old, new = dict(recorded.get("identity", {})), dict(model.identity)
    same = {**old, "api_base": None} == {**new, "api_base": None}
    return old if same and old != new else None
