"""The manifest of a run: its request, method, models, data and versions."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from textassay.evaluation.request import RunRequest, in_every_role
from textassay.methods.library.profiles import with_absolute_path as absolute_profile
from textassay.methods.method import Method
from textassay.prompts import TASKS
from textassay.prompts import files as prompt_files
from textassay.runtime.backends.by_name import EMBEDDED
from textassay.runtime.backends.http_errors import public_address
from textassay.runtime.calls.adaptation import adaptation_of
from textassay.runtime.calls.call import unwrap
from textassay.runtime.concurrency import in_thread
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import ConfigurationError, RunFolderError
from textassay.runtime.model import Model
from textassay.runtime.settings import EndpointSettings, OneOfEndpoints, Settings
from textassay.runtime.storage.answer_admin import is_cache_folder
from textassay.runtime.storage.files import digest_of
from textassay.runtime.storage.run_files import FORMAT, MANIFEST
from textassay.runtime.storage.run_folder import RunFolder
from textassay.version import __version__

PATHS = ("ratings", "pool")
"""Options that are always paths."""


def build_manifest(
    request: RunRequest,
    method: Method,
    models: Mapping[str, Model],
    data: DataInfo,
    settings: Settings,
) -> dict[str, Any]:
    """Return the manifest: everything to repeat the run, and the environment; never a key."""
    return {
        "format": FORMAT,
        "textassay": __version__,
        "python": platform.python_version(),
        "libraries": {
            name: _installed_version(name) for name in ("litellm", "pydantic", "aiohttp")
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "spec": request.recorded,
        "method": method.describe(),
        **({"files": files} if (files := _kept_files(request)) else {}),
        "signature": method.signature,
        "models": {role: _record(model) for role, model in models.items()},
        "data": {
            "path": request.data,
            "digest": data.digest,
            "count": data.count,
            **({"images": data.images, "image_files": data.image_files} if data.images else {}),
            **({"unseen": data.unseen} if data.unseen else {}),
            **({"notices": list(data.notices)} if data.notices else {}),
        },
        # run folders are shared, so a manifest never contains secrets, or headers that may contain
        # them
        "settings": _public(settings).model_dump(mode="json"),
    }


def _kept_files(request: RunRequest) -> dict[str, str]:
    """Return the texts of the user's files that determine the requests, by path."""
    named = [request.task, *(v for name, v in request.options.items() if name not in PATHS)]
    by_path: dict[str, str] = {}
    for path in named:
        # tasks, trees and prompts; ratings and examples, which may be large, have other suffixes
        if not isinstance(path, str) or not path.endswith((".jinja", ".toml", ".json")):
            continue
        if not Path(path).is_file():
            continue
        if path.endswith(".jinja"):
            # with included files beside it; files of the package are named without a folder
            texts = prompt_files(path)
            by_path |= {name: text for name, text in texts.items() if Path(name).is_absolute()}
        elif Path(path).stat().st_size <= 2**20:  # a larger file is not just a task or a tree
            by_path[path] = Path(path).read_text(encoding="utf-8")
    return by_path


@contextmanager
def with_kept_files(request: RunRequest, manifest: Mapping[str, Any]) -> Iterator[RunRequest]:
    """Return the request with copies of files that have changed since, or are gone.

    The copies have the content that the run read, and exist inside the block.
    """
    recorded = manifest.get("files", {})
    current = {path: Path(path).read_text("utf-8") for path in recorded if Path(path).is_file()}
    if current == recorded:
        yield request
        return
    with TemporaryDirectory() as place:
        copies: dict[str, str] = {}
        for path, text in recorded.items():
            # included files are beside their prompt; a foreign manifest cannot name another place
            folder = Path(place) / digest_of({"folder": str(Path(path).parent)})
            folder.mkdir(exist_ok=True)
            copies[path] = str(folder / Path(path).name)
            Path(copies[path]).write_text(text, encoding="utf-8")
        options = {
            name: copies.get(value, value) if isinstance(value, str) else value
            for name, value in request.options.items()
        }
        task = request.task if request.task is None else copies.get(request.task, request.task)
        yield request.model_copy(update={"task": task, "options": options})


def describe_later_changes(
    manifest: Mapping[str, Any], method: Method, data: DataInfo
) -> list[str]:
    """Return in words which parts of a run have changed since."""
    before, now = manifest.get("method", {}), method.describe()
    changed = ["the data"] if manifest.get("data", {}).get("digest") != data.digest else []
    parts = {"task": "the task", "prompts": "the prompts", "profile": "the profile"}
    inner = [words for name, words in parts.items() if before.get(name) != now.get(name)]
    # an evaluator, a tree or a version of the package, say
    if not inner and manifest.get("signature") != method.signature:
        inner = ["the method"]
    return [*changed, *inner]


def _installed_version(name: str) -> str:
    """Return the version of a library."""
    package = distribution(name)
    # `version` parses the whole metadata as an e-mail, including the README
    stated = re.search(r"^Version: (\S+)", package.read_text("METADATA") or "", re.MULTILINE)
    return package.version if stated is None else stated[1]


def with_absolute_paths(request: RunRequest) -> RunRequest:
    """Return the request with absolute paths, so that the run can be resumed from any folder."""
    paths = {
        "calibration": request.calibration is not None,
        "data": request.data is not None,
        "task": _is_path(request.task),
        "method": Path(request.method).is_dir() and _is_evaluator(request.method),
    }
    models = {role: _absolute_replay(name) for role, name in request.models.items()}
    options = {name: _absolute_option(name, value) for name, value in request.options.items()}
    absolute = {
        name: _absolute(getattr(request, name)) for name, is_path in paths.items() if is_path
    }
    return request.model_copy(update={**absolute, "models": models, "options": options})


def _is_evaluator(folder: str) -> bool:
    # imports everything that learning needs
    from textassay.methods.fitted.evaluator import is_evaluator

    return is_evaluator(folder)


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _is_path(task: str | None) -> bool:
    return (
        task is not None and task not in TASKS and (task.endswith(".toml") or Path(task).is_file())
    )


def _absolute_replay(name: str) -> str:
    prefix, _, path = name.partition("/")
    return f"replay/{_absolute(path)}" if prefix == "replay" and path else name


def _absolute_option(name: str, value: Any) -> Any:
    """Return an option that names a prompt, a tree, a plan or examples with its absolute path."""
    if name == "scores":
        from textassay.methods.fitted.evaluator import with_absolute_paths as absolute_score_files

        return tuple(absolute_score_files([value] if isinstance(value, str) else value))
    if name == "profile":
        return absolute_profile(value)
    endings = (".jinja", ".toml", ".json", ".jsonl", ".jsonl.gz")
    is_path = isinstance(value, str) and (name in PATHS or value.endswith(endings))
    return _absolute(value) if is_path else value


def _record(model: Model) -> dict[str, Any]:
    # wrappers support more than the backend, and the requests depend on it
    capabilities = unwrap(model).capabilities.model_dump(mode="json")
    record = {"name": model.name, "identity": dict(model.identity), "capabilities": capabilities}
    adaptation = adaptation_of(model)
    sampling = {} if adaptation is None else adaptation.sampling.fields
    # a replay sends the run's requests, whether its settings or a connected model determined them
    return record | ({"sampling": sampling} if sampling else {})


def _public(settings: Settings) -> Settings:
    """Return the settings with an absolute path, and endpoints without secrets."""
    address = None if settings.api_base is None else public_address(settings.api_base)
    places = tuple(OneOfEndpoints(**place) for place in _places(settings.endpoints))
    cache = settings.cache.absolute() if isinstance(settings.cache, Path) else settings.cache
    unrecorded = set(EndpointSettings.model_fields) - {"api_base", "api_key_env"}
    defaults = EndpointSettings().model_dump(include=unrecorded)
    roles = {
        role: {
            name: public_address(value) if name == "api_base" else value
            for name, value in overrides.items()
            if name not in unrecorded and name != "endpoints"
        }
        | ({"endpoints": _places(overrides["endpoints"])} if overrides.get("endpoints") else {})
        for role, overrides in settings.roles.items()
    }
    return settings.model_copy(
        update={
            **defaults,
            "api_base": address,
            "cache": cache,
            "endpoints": places,
            "roles": roles,
        }
    )


def _places(endpoints: Iterable[OneOfEndpoints | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each endpoint's address and its share of the requests."""
    places = []
    for place in endpoints:
        endpoint = place if isinstance(place, OneOfEndpoints) else OneOfEndpoints(**place)
        address = None if endpoint.api_base is None else public_address(endpoint.api_base)
        places.append({"api_base": address, "weight": endpoint.weight})
    return places


def check_same_run(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to resume a run whose scores would not be comparable."""
    if change := describe_change(old, new):
        raise RunFolderError(
            f"this run cannot be resumed because {change}; start a new run in another folder"
        )


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return in words why the scores of two manifests are incomparable; may be empty."""
    # the signature comes last: it changes with all others, which describe the difference better
    changes = (
        _difference(_comparable(entry, old.get(entry)), _comparable(entry, new.get(entry)), entry)
        for entry in ("data", "method", "models", "signature")
    )
    return next(filter(None, changes), "")


def _comparable(entry: str, value: Any) -> Any:
    """Return the part of a manifest's entry that all sessions of a run must share."""
    if entry == "data" and isinstance(value, Mapping):
        # the path may differ between machines; scores depend on the content
        return value.get("digest")
    if entry == "models" and isinstance(value, Mapping):
        models = {
            role: {key: model.get(key) for key in ("name", "identity")}
            for role, model in value.items()
        }
        # the general model is listed in roles with settings of their own
        return {r: m for r, m in models.items() if not r or m != models.get("")}
    return value


def _difference(before: Any, after: Any, where: str) -> str:
    """Describe the first difference of two JSON values; empty if they are equal."""
    if before == after:
        return ""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [*before, *(key for key in after if key not in before)]
        changes = (
            _difference(before.get(key), after.get(key), f"{where} {key}".rstrip()) for key in keys
        )
        return next(filter(None, changes), "")
    if where == "data":
        return "the data have changed"
    # the digests of the code of a graph's nodes
    node = where.removeprefix("method code ")
    if node != where and before and after:
        return f"the code of node {node!r}, or a value that it uses, has changed"
    return f"its {where} changed from {before!r} to {after!r}"


async def open_folder(path: Path, stack: AsyncExitStack, *, resume: bool) -> RunFolder:
    """Make the folder of a run, or open the folder to resume; it is closed with the stack."""
    opened = RunFolder.resume if resume else RunFolder.create
    folder = await in_thread(lambda: opened(path), discard=RunFolder.close)
    stack.push_async_callback(folder.aclose)
    if resume:
        check_manifest(folder.path, folder.manifest)
    return folder


def check_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest with parts that textassay does not write."""
    models = manifest.get("models")
    whole = isinstance(models, Mapping) and all(
        isinstance(model, Mapping)
        and isinstance(model.get("name"), str)
        and isinstance(model.get("identity"), Mapping)
        for model in models.values()
    )
    if not whole:
        raise _damage_error(folder, "'models' does not name each model and its identity")
    try:
        Settings(**_mapping(manifest.get("settings")))
    except (TypeError, ValidationError) as error:
        raise _damage_error(folder, f"'settings' cannot be used: {error}") from error


def settings_to_resume(
    folder: Path, manifest: Mapping[str, Any], request: RunRequest, new: Mapping[str, Any]
) -> Settings:
    """Return the settings of a resumed run: its recorded settings, overridden by new ones.

    A cost limit applies to one session, unless that only submitted batches. Keys, headers,
    certificates and proxies are never read from the manifest, and neither is an address to which a
    key would be sent, whether named now or found by litellm. A server without a key is reached at
    the recorded address.
    """
    check_manifest(folder, manifest)
    recorded = dict(_mapping(manifest["settings"]))
    roles = {role: dict(_mapping(table)) for role, table in recorded.get("roles", {}).items()}
    new_roles = new.get("roles") or {}
    for role, name in in_every_role(request.models, {**roles, **new_roles}).items():
        if name.partition("/")[0] in ("llamacpp", "transformers", "replay", EMBEDDED):
            continue
        # a setting of a role overrides a general one, as in a run
        here = {**new, **new_roles.get(role, {})}
        _check_endpoint(folder, name, {**recorded, **roles.get(role, {})}, here)
    _check_cache(folder, recorded, new)
    public_roles = {role: _without_secrets(overrides) for role, overrides in roles.items()}
    for role in public_roles:
        if "api_base" in new:  # the new address applies to all roles
            public_roles[role].pop("api_base", None)
    before = {**_without_secrets(recorded), "roles": public_roles}
    # a spent budget must not stop the resumed run at once; sessions that submit and collect batches
    # share one budget, which submitting does not spend
    if not before.get("submit_only"):
        before["max_cost"] = None
    before["submit_only"] = False  # a resumed run collects the answers
    return Settings(**{**before, **new})


def _check_endpoint(
    folder: Path, name: str, recorded: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    """Refuse to send a key, including one that litellm finds, to an address from the manifest."""
    address, key = recorded.get("api_base"), recorded.get("api_key_env")
    is_direct = name.startswith(("direct/", "responses/"))
    if "://" in name and not is_direct:
        raise ConfigurationError(
            f"{folder}: the model {name!r} contains an address, which is never read from a run "
            "folder; resume the run in Python, with “evaluate(..., resume=True)”"
        )
    if recorded.get("endpoints") and not new.get("endpoints"):
        raise ConfigurationError(
            f"{folder} names several endpoints of {name!r}, and a run folder may come from anyone, "
            f"so they are not read from it. Give them again: textassay resume {folder} --config "
            "FILE"
        )
    missing = []
    sends_key = key is not None or not is_direct or _names_secret(new)
    if address is not None and sends_key and new.get("api_base") is None:
        missing.append(f"api_base={address!r}")
    if key is not None and not _names_secret(new):
        missing.append(f"api_key_env={key!r}")
    if missing:
        raise ConfigurationError(
            f"{folder} names the server or the key of {name!r}, and a run folder may come from "
            "anyone, so neither is read from it. If you trust this server with this key, give "
            f"them again: textassay resume {folder} {' '.join(missing)}"
        )


def _check_cache(folder: Path, recorded: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse a recorded folder of answers that does not exist."""
    place = recorded.get("cache")
    if not place or new.get("cache") is not None or is_cache_folder(Path(place)):
        return
    raise ConfigurationError(
        f"{folder} names {place!r}, and a run folder may come from anyone, so it is not"
        " read from it. If you trust it, give it again:"
        f" textassay resume {folder} --cache '{place}'"
    )


def _names_secret(new: Mapping[str, Any]) -> bool:
    """Return whether the new settings contain a key."""
    return any(new.get(name) for name in ("api_key_env", "headers", "query", "client_cert"))


def _without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in settings.items()
        # the address is kept, since `_check_endpoint` ensures that no key is sent to it
        if name == "api_base" or (name not in EndpointSettings.model_fields and name != "endpoints")
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"not an object but {type(value).__name__}")
    return value


def _damage_error(folder: Path, why: str) -> RunFolderError:
    return RunFolderError(f"{folder / MANIFEST} is damaged or was edited: {why}")


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
