"""The requests and answers of a run's models, or the requests that a run would send.

Runs store answers under digests of requests, so the method runs again over the examples: it builds
its requests, and the run's cache answers them. A request that is not in the cache has no answer,
and requests that depend on this answer may differ from the original ones.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

from textassay.evaluation.engine import unmet_needs
from textassay.evaluation.manifest import describe_later_changes, with_kept_files
from textassay.evaluation.request import RunRequest, request_from_manifest, with_kept_rows
from textassay.evaluation.session import open_session
from textassay.evaluation.sources import select_examples
from textassay.methods.method import traits_of
from textassay.runtime.calls.adaptation import Adaptation
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.calls.traits import Sampling
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Assignment
from textassay.runtime.model import (
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ContinuationRequest,
    Model,
    Prompted,
)
from textassay.runtime.questions import DecisionRequest
from textassay.runtime.settings import Settings
from textassay.runtime.storage.run_files import ANSWERS, check_present, read_manifest

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Exchange:
    """One request and its answers."""

    id: str
    """Example for which it was first sent; requests for a whole run, such as steps, come with the
    first example.
    """
    model: str
    prompt: tuple[dict[str, str], ...]
    """Messages of the chat, or one plain prompt under the role `prompt`."""
    answers: tuple[str, ...] | None
    """Answers of the model, one per sample; `None` if the cache has no answer."""
    logprobs: dict[str, float | None] | None = None
    """Log-probability of each given choice, or of the given continuation, if requested."""
    thoughts: tuple[str | None, ...] = ()
    """The model's thought before each answer, if recorded."""

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "thoughts" or value}


class Recorder(Wrapper):
    """Records every request and answer."""

    def __init__(self, wrapped: Model, exchanges: list[Exchange]) -> None:
        super().__init__(wrapped)
        self._exchanges = exchanges

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        response = await ask(call)
        was_cached = not response.usage.calls  # counted calls were not in the cache
        self._exchanges.append(_exchange(self.name, call.request, response if was_cached else None))
        return response


class RecordedIdentity:
    """Identity and capabilities of a model, from the entry of a manifest; it cannot be asked."""

    def __init__(self, recorded: Mapping[str, Any], settings: Settings) -> None:
        self.name: str = recorded["name"]
        self._settings = settings
        self.identity: Mapping[str, Any] = recorded["identity"]
        self.capabilities = Capabilities(**recorded["capabilities"])

    def new_adaptation(self) -> Adaptation:
        """Return an adaptation that sends the run's settings, as in the keys of answers."""
        return Adaptation(self, Sampling.of(self._settings))

    async def generate(self, request: Any) -> Any:
        """Raise `ConfigurationError`: a recorded identity answers nothing."""
        raise ConfigurationError(f"{self.name!r} is not asked when a run is read back")

    choices = continuation = decide = generate

    async def aclose(self) -> None:
        """Do nothing, since nothing is open."""


def exchanges_of_run(
    folder: Path,
    ids: Collection[str] = (),
    *,
    data: Any = None,
    reading: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Exchange, None]:
    """Return the prompts and answers of a run, example by example, in the order of the data.

    For all examples, or for `ids`. A caller that stops before the end must close the generator,
    which keeps the run's cache open.
    """
    manifest = read_manifest(folder)
    request = request_from_manifest(manifest)
    if data is None:
        request = with_kept_rows(request, folder)
        data = request.data
        if data is None:
            raise ConfigurationError(
                f"{folder}: the run's data came from memory; give them as data="
            )
        check_present(data)
    recorded = Settings(**manifest["settings"])
    models: dict[str, Model] = {
        role: RecordedIdentity(entry, recorded.for_role(role))
        for role, entry in manifest["models"].items()
    }
    # only the run's own cache: its settings may name a server, which must not be called here
    settings = Settings(cache=_cache_of(folder, manifest))
    changes = {"settings": settings, **(reading or {})}
    return _repeat_requests(data, request.model_copy(update=changes), models, ids, manifest)


async def _repeat_requests(
    source: Any,
    request: RunRequest,
    models: Mapping[str, Model],
    ids: Collection[str],
    manifest: Mapping[str, Any],
) -> AsyncGenerator[Exchange, None]:
    """Yield the exchanges of a run, with its original files, and log changes since then."""
    with with_kept_files(request, manifest) as as_it_was:
        async with aclosing(_dry_run(source, as_it_was, models, ids, run=manifest)) as exchanges:
            async for exchange in exchanges:
                yield exchange


def exchanges_ahead(request: RunRequest, count: int) -> AsyncGenerator[Exchange, None]:
    """Return the requests of a run for the first `count` examples that it judges."""
    # nothing is written, so the folder may exist or be unnamed
    return _dry_run(request.data, request.model_copy(update={"out": None}), {}, count=count)


async def _dry_run(
    source: Any,
    request: RunRequest,
    models: Mapping[str, Model],
    ids: Collection[str] = (),
    count: int | None = None,
    run: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Exchange, None]:
    exchanges: list[Exchange] = []
    unseen = set(ids)

    def observe(model: Model) -> Model:
        return Recorder(model, exchanges)

    async with open_session(source, request, models=models, dry=True, observe=observe) as session:
        examples, aspects = cast("Examples", session.examples), tuple(session.method.aspects)
        needs = traits_of(session.method).needs
        if run is not None:
            for part in describe_later_changes(run, session.method, session.data):
                _log.warning("%s changed since the run, which may have sent other prompts", part)
        total = session.data.count
        judged, _ = select_examples(examples, total, limit=request.limit, shard=request.shard)
        for example in islice(judged, count):
            if ids:
                if not unseen:
                    break
                if example.id not in unseen:
                    continue
                unseen.remove(example.id)
            # requests of an earlier example belong to that example
            exchanges.clear()
            assignment = Assignment(example=example, aspects=aspects)
            unmet = unmet_needs(assignment, session.method, needs)
            remaining = tuple(aspect for aspect in aspects if aspect.label not in unmet)
            if remaining:
                await session.method.graph.run(Assignment(example=example, aspects=remaining))
            for exchange in exchanges:
                yield replace(exchange, id=example.id)
    if unseen:
        raise UnknownName("example", min(unseen), [])


def _cache_of(folder: Path, manifest: Mapping[str, Any]) -> Path | None:
    """Return the run's cache if it exists; no cache is created."""
    recorded = manifest.get("settings", {}).get("cache")
    cache = Path(recorded) if recorded else folder / ANSWERS
    return cache if cache.is_dir() else None


def _exchange(model: str, request: Prompted | DecisionRequest, response: Any) -> Exchange:
    if isinstance(request, DecisionRequest):
        return _exchange_of_decisions(model, request, response)
    turns = [{"role": turn.role, "content": turn.content} for turn in request.messages]
    if request.images:
        named = "\n".join(f"{image.label}: {image.name}" for image in request.images)
        turns.insert(0, {"role": "images", "content": named})
    prompt = tuple(turns) or ({"role": "prompt", "content": request.prompt or ""},)
    if response is None:
        return Exchange("", model, prompt, None)
    if isinstance(request, ChoicesRequest):
        return Exchange("", model, prompt, (), logprobs=dict(response.logprobs))
    if isinstance(request, ContinuationRequest):
        total = sum(token.logprob for token in response.tokens)
        return Exchange("", model, prompt, (), logprobs={request.continuation: total})
    answers = tuple(sample.text for sample in response.samples)
    thoughts = tuple(sample.thought for sample in response.samples)
    return Exchange("", model, prompt, answers, thoughts=thoughts if any(thoughts) else ())


def _exchange_of_decisions(model: str, request: DecisionRequest, response: Any) -> Exchange:
    """Return a decision model's exchange: each text, then each question with its options."""
    turns = [{"role": text.name, "content": text.text} for text in request.texts]
    for number, question in enumerate(request.questions, start=1):
        options = [f"{o.name}: {o.meaning}" if o.meaning else o.name for o in question.options]
        turns.append({"role": f"q{number}", "content": "\n".join([question.text, *options])})
    if response is None:
        return Exchange("", model, tuple(turns), None)
    answers = tuple(
        answer.problem.message
        if answer.problem is not None
        else ", ".join(f"{name} {p:.6g}" for name, p in answer.probabilities.items())
        for answer in response.answers
    )
    return Exchange("", model, tuple(turns), answers)
