"""Answers of judges in a test suite: recorded once, replayed without a key.

FOLDER/                         a cache folder of answers
FOLDER/models/NAME-DIGEST.json  what each model is, so that a replay needs neither key nor server
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from textassay.evaluation.api import ModelsByRole
from textassay.runtime.backends.by_name import load_backend
from textassay.runtime.backends.replay import RecordedModel
from textassay.runtime.calls.budget import Budget
from textassay.runtime.connected import ConnectedModel, connect
from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.messages import Usage
from textassay.runtime.model import Capabilities, Model
from textassay.runtime.settings import Settings
from textassay.runtime.storage.cache_folder import prepare
from textassay.runtime.storage.files import read_regular, write_json

RecordingMode = Literal["record", "replay", "live"]
"""`record` asks what has no recorded answer, `replay` asks nothing, `live` asks everything."""
MODELS = "models"


class Judge:
    """The judges of one test session.

    How they are asked, where answers are kept, what they cost.
    """

    def __init__(self, mode: RecordingMode, folder: Path, *, max_cost: float | None = None) -> None:
        """Store how models are asked.

        Args:
            mode: Whether answers are recorded, replayed, or neither.
            folder: Where answers are kept.
            max_cost: The most that the session may cost, in US dollars.
        """
        self.mode: RecordingMode = mode
        self.folder, self.max_cost = folder, max_cost
        self.usage = Usage()
        # one budget for the session: the limit is on the test suite, not on each test
        self._budget = Budget(max_cost)

    @asynccontextmanager
    async def models(
        self, given: ModelsByRole | None, settings: Settings | None
    ) -> AsyncIterator[tuple[dict[str, Model] | None, Settings | None]]:
        """Open the models of one evaluation.

        Yields:
            The models by role, and the run's own settings.

        Raises:
            ConfigurationError: Nothing is recorded for a model, or its price is not known although
                there is a cap.
        """
        if given is None:
            yield None, None
            return
        roles = given if isinstance(given, Mapping) else {"": given}
        async with AsyncExitStack() as stack:
            opened = {
                role: await self._opened(model, (settings or Settings()).for_role(role), stack)
                for role, model in roles.items()
            }
            cached = self.mode == "record" and any(
                isinstance(model, ConnectedModel) for model in opened.values()
            )
            yield opened, Settings(cache=self.folder) if cached else None

    async def _opened(self, model: str | Model, settings: Settings, stack: AsyncExitStack) -> Model:
        name = model if isinstance(model, str) else model.name
        # in replay no backend is opened at all, so neither its package nor a key has to be there
        if self.mode == "replay" and not name.startswith("replay/"):
            recorded = self._recorded(name, settings)
            stack.push_async_callback(recorded.aclose)
            return recorded
        if isinstance(model, ConnectedModel):
            connected = model
        else:
            if isinstance(model, str):
                await load_backend(model)
            # the session's folder is the only cache: a second one would answer before anything is
            # recorded
            plain = settings.model_copy(update={"cache": None, "max_cost": None})
            connected = connect(model, settings=plain, budget=self._budget)
            if isinstance(model, str):  # an object of the caller's stays open
                await stack.enter_async_context(connected)
        # a limit that cannot be computed would never be reached
        if self.max_cost is not None and connected.price is None:
            raise ConfigurationError(
                f"--textassay-max-cost cannot be enforced: the price of {name!r} is not known; "
                "give settings=Settings(price=(IN, OUT)), US dollars per million tokens"
            )
        if self.mode == "record":
            self._remember(name, settings, connected)
        return connected

    def _remember(self, name: str, settings: Settings, model: Model) -> None:
        entry = {
            "name": model.name,
            "identity": dict(model.identity),
            # kept beside the identity: in replay methods choose their prompts by what the model
            # can do
            "capabilities": model.capabilities.model_dump(mode="json"),
        }
        file = self._file(name, settings)
        try:
            # an unchanged file is not written, so that recording again leaves no change to commit
            if file.is_file() and json.loads(read_regular(file)) == json.loads(json.dumps(entry)):
                return
            # before anything else lies in the folder, for a cache refuses folders of others
            prepare(self.folder)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, entry)
        except OSError as error:
            raise StorageError(f"{file} cannot be written: {error}") from error

    def _recorded(self, name: str, settings: Settings) -> RecordedModel:
        file = self._file(name, settings)
        try:
            entry: dict[str, Any] = json.loads(read_regular(file))
            capabilities = Capabilities(**entry["capabilities"])
            return RecordedModel(entry["name"], entry["identity"], capabilities, self.folder)
        except FileNotFoundError:
            raise ConfigurationError(
                f"no answers of {name!r} are recorded in {self.folder}; run the tests once with "
                "--textassay=record and commit that folder"
            ) from None
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{file} cannot be used: {error}") from error

    def _file(self, name: str, settings: Settings) -> Path:
        # the same name at another address may be another model
        whole = f"{name}\n{settings.api_base or ''}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        return self.folder / MODELS / f"{re.sub(r'[^A-Za-z0-9.-]+', '-', name)[-60:]}-{digest}.json"
