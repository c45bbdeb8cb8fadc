"""Answers from what a recorded run was answered; sends no requests and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

from pydantic import ValidationError

from textassay.runtime.calls.adaptation import Adaptation
from textassay.runtime.calls.cache import KeptDecisions, decode_answer
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
    """Stands in for the model that a run asked, under the same name.

    The scores of a replay compare with the run's. Its answers, kept in a cache folder, are opened
    when they are first asked for.
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
        """Keep what the model is.

        Args:
            name: Its name.
            identity: What its answers were stored under.
            capabilities: What it was known to do.
            answers: The folder of its answers.
            sampling: The settings with which it is asked now.
            recorded: The settings with which it was asked, for messages.
            made: By which method and options it was asked, for messages.
        """
        self.name, self.identity, self.capabilities = name, identity, capabilities
        self._answers, self._key = RecordedAnswers(answers), identity_bytes(identity)
        self._sampling, self._recorded, self._made = sampling or Sampling(), recorded, made

    @classmethod
    def of_run(cls, folder: Path, settings: Settings) -> Self:
        """Return the one model that a run asked, if it kept its answers in a folder."""
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
            recorded=tuple(_recorded_sampling(folder, manifest).values()),
            made=_made_by(manifest),
        )

    def new_adaptation(self) -> Adaptation:
        """Return how requests were adapted, with what was learned of the model."""
        adaptation = Adaptation(self, self._sampling)
        learned = self.value_of(adaptation.store_key)
        if learned is not None:
            adaptation.restore(learned)
        return adaptation

    def value_of(self, key: str) -> bytes | None:
        """Return what the run kept under a key, such as what it learned of the model."""
        return self._answers.get(key)

    def _find(self, request: AnyRequest) -> AnyResponse:
        # The recorded identity, not one made here: the key must be the one under which the run kept
        # it.
        key = request_key(self._key, request)
        value = self._answers.get(key)
        if value is None:
            raise self._refusal(request)
        try:
            return decode_answer(value)
        except ValueError as error:
            raise self._unusable(key, error) from error

    def _unusable(self, key: str, error: ValueError) -> StorageError:
        return StorageError(
            f"the kept answer {key} in {self._answers.place} cannot be used: {error}"
        )

    def _refusal(self, request: AnyRequest) -> RequestRefused:
        start = request.text[:80].encode("unicode_escape").decode("ascii")
        return RequestRefused(
            f"{self._answers.place} contains no answer of {self.name} to this "
            f"request{self._difference}{self._made} (it begins {start!r}); a replay answers only"
            " what was asked with the same prompt, sampling and model"
        )

    @property
    def _difference(self) -> str:
        """How the settings of now differ from those of the recording, in words."""
        if not self._recorded or self._sampling in self._recorded:
            return ""
        there = " or ".join(dict.fromkeys(map(_in_words, self._recorded)))
        return f": it was asked with {there}, and now with {_in_words(self._sampling)}"

    async def generate(self, request: Request, posting: Posting = PLAIN) -> Response:
        """Return the recorded answer; refuse what the run never asked."""
        return cast(Response, self._find(request))

    async def choices(self, request: ChoicesRequest, posting: Posting = PLAIN) -> ChoicesResponse:
        """Return the recorded answer."""
        return cast(ChoicesResponse, self._find(request))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the recorded answer."""
        return cast(ContinuationResponse, self._find(request))

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return the recorded answers, of questions that were asked in other company, too."""
        if not self.capabilities.independent_questions:
            return cast(DecisionResponse, self._find(request))
        group = decision_group(self._key, request)
        try:
            kept = KeptDecisions(request, self._answers.get_group(group))
        except ValueError as error:
            raise self._unusable(f"{group}/", error) from error
        if kept.lacking:
            raise self._refusal(request)
        return kept.respond()

    async def aclose(self) -> None:
        """Close the files; safe to call twice."""
        await self._answers.aclose()


def with_recorded_sampling(name: str, settings: Settings, role: str = "") -> Settings:
    """Return settings with effort, sampling and further fields of the run that `name` replays.

    What is set already stays. Other models keep their settings.

    Raises:
        RunFolderError: The manifest of that run is damaged.
    """
    recorded = _recorded_by_role(name)
    if not recorded:
        return settings
    # a role that the run did not have is asked as the model that answered for all of them
    fields = recorded.get(role, recorded.get("", Sampling())).fields
    return settings.model_copy(update={**fields, **Sampling.of(settings).fields})


def roles_of_replay(name: str) -> list[str]:
    """Return the roles that the run which `name` replays asked in another way than the rest."""
    recorded = _recorded_by_role(name)
    general = recorded.get("", Sampling())
    return [role for role, sampling in recorded.items() if sampling != general]


def _recorded_by_role(name: str) -> dict[str, Sampling]:
    prefix, _, folder = name.partition("/")
    if prefix != "replay" or not folder:
        return {}
    return _recorded_sampling(Path(folder), read_manifest(Path(folder)))


def _recorded_sampling(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Sampling]:
    """Return by role how a run asked its models."""
    try:
        return {
            role: Sampling(**model.get("sampling", {}))
            for role, model in manifest["models"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"{folder / MANIFEST} does not say how its models were asked: {error}"
        ) from error


def _made_by(manifest: Mapping[str, Any]) -> str:
    """Return in words the method and options that may differ from those of now."""
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(options := spec.get("options"), Mapping):
        return ""
    given = "".join(f", {name}={json.dumps(value)}" for name, value in options.items())
    return f"; the run had method={spec.get('method')}{given}"


def _in_words(sampling: Sampling) -> str:
    fields = (f"{name}={json.dumps(value)}" for name, value in sampling.fields.items())
    return ", ".join(fields) or "the settings of its method"
