"""Answers from the recorded answers of a run; sends no requests and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

from pydantic import ValidationError

from textassay.runtime.calls.adaptation import Adaptation
from textassay.runtime.calls.cache import StoredDecisions, decode_answer
from textassay.runtime.calls.call import (
    PLAIN,
    Posting,
    PostingModel,
    decision_group,
    identity_bytes,
    request_key,
)
from textassay.runtime.calls.traits import Sampling
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
from textassay.runtime.questions import DecisionRequest, DecisionResponse
from textassay.runtime.settings import Settings
from textassay.runtime.storage.answers import RecordedAnswers
from textassay.runtime.storage.run_files import ANSWERS, MANIFEST, read_manifest


class RecordedModel(PostingModel):
    """Answers like the model of a recorded run, under its name.

    The scores of a replay compare with the run's. The folder of answers is opened with the first
    request.
    """

    price = (0.0, 0.0)
    """A replay costs nothing."""

    def __init__(
        self,
        name: str,
        identity: Mapping[str, Any],
        capabilities: Capabilities,
        answers: Path,
        *,
        sampling: Sampling | None = None,
        recorded: Sequence[Sampling] = (),
        made: str = "",
    ) -> None:
        """Keep the facts about the model.

        Args:
            name: Its name.
            identity: The identity in the keys of its answers.
            capabilities: Its recorded abilities.
            answers: The folder of its answers.
            sampling: The sampling settings of now.
            recorded: The sampling settings of the recording, for messages.
            made: Method and options of the recording, for messages.
        """
        self.name, self.identity, self.capabilities = name, identity, capabilities
        self._answers, self._key = RecordedAnswers(answers), identity_bytes(identity)
        self._sampling, self._recorded, self._made = sampling or Sampling(), recorded, made

    @classmethod
    def of_run(cls, folder: Path, settings: Settings) -> Self:
        """Return the only model of a run that stored its answers."""
        manifest = read_manifest(folder)
        try:
            models = {str(model["name"]): model for model in manifest["models"].values()}
            capabilities = {
                name: Capabilities(**model.get("capabilities", {}))
                for name, model in models.items()
            }
            identities = {name: dict(model["identity"]) for name, model in models.items()}
            cache = manifest["settings"]["cache"]
            answers = Path(cache or folder / ANSWERS)
        except (AttributeError, KeyError, TypeError, ValueError, ValidationError) as error:
            raise RunFolderError(
                f"{folder / MANIFEST} does not say which models were asked: {error}"
            ) from error
        if len(models) != 1:
            raise ConfigurationError(
                f"replay/{folder}: the run asked {len(models)} models; a replay needs exactly one"
            )
        if cache is False:
            raise ConfigurationError(
                f"replay/{folder}: the run kept no answers, so none can be replayed; judge again"
                " with a cache"
            )
        (name,) = models
        return cls(
            name,
            identities[name],
            capabilities[name],
            answers,
            sampling=Sampling.of(settings),
            recorded=tuple(_read_sampling(folder, manifest).values()),
            made=_describe_method(manifest),
        )

    def new_adaptation(self) -> Adaptation:
        """Return the adaptation of requests, with the recorded traits of the model."""
        adaptation = Adaptation(self, self._sampling)
        if learned := self._answers.get(adaptation.store_key):
            adaptation.restore(learned)
        return adaptation

    def _find(self, request: AnyRequest) -> AnyResponse:
        # with the recorded identity, as in the keys of the run
        key = request_key(self._key, request)
        value = self._answers.get(key)
        if not value:
            raise self._refusal(request)
        try:
            return decode_answer(value)
        except ValueError as error:
            raise self._unusable(key, error) from error

    def _unusable(self, key: str, error: ValueError) -> StorageError:
        return StorageError(
            f"the stored answer {key} in {self._answers.place} cannot be used: {error}"
        )

    def _refusal(self, request: AnyRequest) -> RequestRefused:
        start = request.text[:80].encode("unicode_escape").decode("ascii")
        return RequestRefused(
            f"{self._answers.place} contains no answer of {self.name} to this "
            f"request{self._difference}{self._made} (it begins {start!r}); a replay answers only"
            " requests with the same prompt, sampling and model"
        )

    @property
    def _difference(self) -> str:
        """The difference between the settings of now and of the recording, in words."""
        if not self._recorded or self._sampling in self._recorded:
            return ""
        there = " or ".join(dict.fromkeys(map(_in_words, self._recorded)))
        return f": it was asked with {there}, and now with {_in_words(self._sampling)}"

    async def generate(self, request: Request, posting: Posting = PLAIN) -> Response:
        """Return the recorded answer; refuse requests that the run did not send."""
        return cast(Response, self._find(request))

    async def choices(self, request: ChoicesRequest, posting: Posting = PLAIN) -> ChoicesResponse:
        return cast(ChoicesResponse, self._find(request))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        return cast(ContinuationResponse, self._find(request))

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return the recorded answers, also of questions that were asked beside others."""
        if not self.capabilities.independent_questions:
            return cast(DecisionResponse, self._find(request))
        group = decision_group(self._key, request)
        try:
            recorded = StoredDecisions(request, self._answers.get_group(group))
        except ValueError as error:
            raise self._unusable(f"{group}/", error) from error
        if recorded.lacking:
            raise self._refusal(request)
        return recorded.respond()

    async def aclose(self) -> None:
        """Close the files; safe to call twice."""
        await self._answers.aclose()


def with_recorded_sampling(name: str, settings: Settings, role: str = "") -> Settings:
    """Return settings with effort, sampling and further fields of the run that `name` replays.

    Settings that are given stay. Models of other names keep their settings.

    Raises:
        RunFolderError: The manifest of that run is damaged.
    """
    recorded = _sampling_by_role(name)
    if not recorded:
        return settings
    # a role that the run did not have gets the settings of the general model
    fields = recorded.get(role, recorded.get("", Sampling())).fields
    return settings.model_copy(update={**fields, **Sampling.of(settings).fields})


def roles_of_replay(name: str) -> list[str]:
    """Return the roles whose settings differ from the general ones in the run of a replay."""
    recorded = _sampling_by_role(name)
    general = recorded.get("", Sampling())
    return [role for role, sampling in recorded.items() if sampling != general]


def _sampling_by_role(name: str) -> dict[str, Sampling]:
    prefix, _, folder = name.partition("/")
    if prefix != "replay" or not folder:
        return {}
    return _read_sampling(Path(folder), read_manifest(Path(folder)))


def _read_sampling(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Sampling]:
    """Return the sampling settings of a run by role."""
    try:
        return {
            role: Sampling(**model.get("sampling", {}))
            for role, model in manifest["models"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"{folder / MANIFEST} does not say how its models were asked: {error}"
        ) from error


def _describe_method(manifest: Mapping[str, Any]) -> str:
    """Return method and options of a run in words."""
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(options := spec.get("options"), Mapping):
        return ""
    listing = "".join(f", {name}={json.dumps(value)}" for name, value in options.items())
    return f"; the run had method={spec.get('method')}{listing}"


def _in_words(sampling: Sampling) -> str:
    fields = (f"{name}={json.dumps(value)}" for name, value in sampling.fields.items())
    return ", ".join(fields) or "the settings of its method"
