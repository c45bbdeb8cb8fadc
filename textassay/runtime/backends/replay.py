"""Answers from what a recorded run was answered; sends no requests and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast

from pydantic import ValidationError

from textassay.runtime.calls.cache import (
    decision_keys,
    decode_answer,
    identity_bytes,
    request_key,
)
from textassay.runtime.errors import (
    ConfigurationError,
    RequestRefused,
    RunFolderError,
    StorageError,
)
from textassay.runtime.model import (
    AnyRequest,
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Request,
    Response,
)
from textassay.runtime.questions import DecisionRequest, DecisionResponse, combined
from textassay.runtime.settings import is_redis
from textassay.runtime.storage.answers import RecordedAnswers
from textassay.runtime.storage.run_files import ANSWERS, MANIFEST, read_manifest


class RecordedModel:
    """Stands in for the model that a run asked, under the same name.

    The scores of a replay compare with the run's. Its answers, kept in a cache folder, are opened
    when they are first asked for.
    """

    price = (0.0, 0.0)
    """A replay costs nothing."""

    def __init__(
        self, name: str, identity: Mapping[str, Any], capabilities: Capabilities, answers: Path
    ) -> None:
        self.name, self.identity, self.capabilities = name, identity, capabilities
        self._answers, self._key = RecordedAnswers(answers), identity_bytes(identity)

    @classmethod
    def of_run(cls, folder: Path) -> Self:
        """Return the one model that a run asked, if it kept its answers in a folder."""
        manifest = read_manifest(folder)
        try:
            models = {str(model["name"]): model for model in manifest["models"].values()}
            capabilities = {
                name: Capabilities(**model.get("capabilities", {}))
                for name, model in models.items()
            }
            identities = {name: dict(model["identity"]) for name, model in models.items()}
            settings = manifest["settings"]
            cache, none_kept = settings["cache"], settings["no_cache"]
            answers = folder / ANSWERS if cache is None else Path(cache)
        except (AttributeError, KeyError, TypeError, ValueError, ValidationError) as error:
            raise RunFolderError(
                f"{folder / MANIFEST} does not say which models were asked: {error}"
            ) from error
        if len(models) != 1:
            raise ConfigurationError(
                f"replay/{folder}: the run asked {len(models)} models; a replay needs exactly one"
            )
        if none_kept:
            raise ConfigurationError(
                f"replay/{folder}: the run kept no answers (no_cache=True), so none can be replayed"
            )
        if is_redis(cache):
            raise ConfigurationError(
                f"replay/{folder}: the run kept its answers in Redis; a replay reads a folder. Run "
                f"the method again with cache={cache!r}, which asks for nothing that is there"
            )
        (name,) = models
        return cls(name, identities[name], capabilities[name], answers)

    def value_of(self, key: str) -> bytes | None:
        """Return what the run kept under a key, such as what it learned of the model."""
        return self._answers.get(key)

    def _find(self, request: AnyRequest) -> AnyResponse:
        # The recorded identity, not one made here: the key must be the one under which the run kept
        # it.
        return self._at(request_key(self._key, request), request)

    def _at(self, key: str, request: AnyRequest) -> AnyResponse:
        value = self._answers.get(key)
        if value is not None:
            try:
                return decode_answer(value)
            except ValueError as error:
                raise StorageError(
                    f"the kept answer {key} in {self._answers.place} cannot be used: {error}"
                ) from error
        start = request.text[:80].encode("unicode_escape").decode("ascii")
        raise RequestRefused(
            f"{self._answers.place} contains no answer of {self.name} to this request (it begins "
            f"{start!r}); a replay answers only what was asked with the same prompt, sampling and "
            "model"
        )

    async def generate(self, request: Request) -> Response:
        """Return the recorded answer; refuse what the run never asked."""
        return cast(Response, self._find(request))

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the recorded answer."""
        return cast(ChoicesResponse, self._find(request))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the recorded answer."""
        return cast(ContinuationResponse, self._find(request))

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return the recorded answers, of questions that were asked in other company, too."""
        if not self.capabilities.independent_questions:
            return cast(DecisionResponse, self._find(request))
        keys = decision_keys(self._key, request, together=False)
        found = [cast(DecisionResponse, self._at(key, request)) for key in keys]
        return combined([one.answers[0] for one in found], found)

    async def aclose(self) -> None:
        """Close the files; safe to call twice."""
        await self._answers.aclose()
