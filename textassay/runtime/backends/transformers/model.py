"""`TransformersModel`.

Answers prompts and scores given text by the transformers library, in process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from textassay.runtime.backends.batching import Batcher
from textassay.runtime.backends.llamacpp.chat import ChatTemplate
from textassay.runtime.backends.llamacpp.fitting import Truncate
from textassay.runtime.backends.llamacpp.tokens import GGUFTokenizer
from textassay.runtime.backends.transformers.engine import TransformersEngine
from textassay.runtime.backends.transformers.loading import NO_LIMIT, DType, LoadedTransformer, load
from textassay.runtime.backends.transformers.source import folder_digest, locate
from textassay.runtime.backends.transformers.tasks import (
    Rules,
    ScoringTask,
    WritingTask,
    plan_choices,
    plan_continuation,
    run,
)
from textassay.runtime.errors import CapabilityError, ConfigurationError, ModelClosed
from textassay.runtime.model import (
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    InProcessModel,
    Request,
    Response,
)

BATCH_TOKENS = 8192
PLAIN_TEMPLATE = "{% for m in messages %}{{ m.content }}{{ '\n\n' if not loop.last }}{% endfor %}"
"""How messages become a prompt of an encoder-decoder model without a template of its own: FLAN-T5
and its like were trained on plain instructions."""


class TransformersModel(InProcessModel):
    """A model of the transformers library on one thread of its own.

    The first use, or `open`, loads it.

    Decoder-only models (GPT-2, OPT, Llama, ...) and encoder-decoder models (T5, FLAN-T5, BART,
    ...). Requests that wait are evaluated in batches of like lengths; a score depends on its batch
    by rounding alone (below 1e-4 in float32).

    A continuation's log-probabilities are of its own tokens; the end mark that an encoder-decoder
    model would write after it is not among them.

    Args:
        name: The name the user gave, such as `transformers/google/flan-t5-xl`.
        spec: A folder, or `REPOSITORY[@REVISION]` of the Hugging Face hub.
        dtype: Number format; `auto` is the file's own on a GPU and float32 on a CPU.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, `mps`.
        device_map: Spreads the layers over several devices, such as `auto`; needs accelerate.
        batch_tokens: Most tokens in one batch, padding included.
        n_ctx: Longest sequence in tokens; by default the model's own.
        truncate: `source` cuts a request's `truncatable` text if the request is too long; `error`
            refuses it.
        seed: Seed for requests that bring none of their own.
    """

    def __init__(
        self,
        name: str,
        spec: str,
        *,
        dtype: DType = "auto",
        device: str = "auto",
        device_map: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        n_ctx: int | None = None,
        truncate: Truncate = "error",
        seed: int | None = None,
    ) -> None:
        self._name, self._spec = name, spec
        self._dtype, self._device, self._device_map = dtype, device, device_map
        self._batch_tokens, self._n_ctx = batch_tokens, n_ctx
        self._rules = Rules(name, truncate, seed)
        self._opening = asyncio.Lock()
        self._loaded: LoadedTransformer | None = None
        self._engine: TransformersEngine | None = None
        self._batcher: Batcher[Any, Any, Any] | None = None
        self._digest = ""
        self._closed = False

    @property
    def name(self) -> str:
        """The name the user gave."""
        return self._name

    @property
    def identity(self) -> Mapping[str, Any]:
        """What determines a score: the files' content, number format, kind of device and library.

        Raises:
            ConfigurationError: The model is not open.
        """
        if self._loaded is None:
            raise ConfigurationError(
                f"model {self._name!r} is not open: its files decide what it is (await"
                " model.open())"
            )
        return {
            "backend": "transformers",
            "files": self._digest,
            **self._loaded.description,
            "n_ctx": self._loaded.length if self._loaded.length != NO_LIMIT else None,
            "truncate": self._rules.truncate,
            "seed": self._rules.seed,
        }

    @property
    def capabilities(self) -> Capabilities:
        """Everything but JSON schemas, and a length that is known once the model is open."""
        length = self._n_ctx if self._loaded is None else self._loaded.length
        return Capabilities(
            n=True,
            logprobs=True,
            json_schema=False,
            seed=True,
            choices=True,
            continuation=True,
            context_length=None if length == NO_LIMIT else length,
        )

    @property
    def evaluated_tokens(self) -> int:
        """Tokens evaluated so far; what the rows of a batch share counts once."""
        return 0 if self._engine is None else self._engine.evaluated_tokens

    async def open(self) -> Self:
        """Find, or download, the model and load it; does nothing if that is done.

        Raises:
            ModelNotFound: There is no such folder or repository.
            NothingListening: It must be downloaded, and the hub cannot be reached.
            ConfigurationError: The extra is missing, or it is not a usable language model.
            ModelClosed: The model is closed.
        """
        async with self._opening:
            self._check_open()
            if self._loaded is None:
                folder = await asyncio.to_thread(locate, self._spec)
                # Hashing and loading read gigabytes, so neither may run on the event loop.
                digest = await asyncio.to_thread(folder_digest, folder)
                loaded = await asyncio.to_thread(self._load, folder)
                self._check_open()
                self._start(loaded, digest)
        return self

    def _load(self, folder: Path) -> LoadedTransformer:
        return load(
            folder,
            label=self._name,
            dtype=self._dtype,
            device=self._device,
            device_map=self._device_map,
            n_ctx=self._n_ctx,
        )

    def _start(self, loaded: LoadedTransformer, digest: str) -> None:
        vocabulary = loaded.vocabulary
        plain = PLAIN_TEMPLATE if loaded.is_encoder_decoder else None
        template = ChatTemplate(
            vocabulary.tokenizer.chat_template or plain,
            file=self._name,
            bos=vocabulary.tokenizer.bos_token or "",
            eos=vocabulary.tokenizer.eos_token or "",
        )
        tokenizer = GGUFTokenizer(vocabulary, template)  # type: ignore[arg-type]  # has what is needed
        engine = TransformersEngine(loaded, batch_tokens=self._batch_tokens)
        self._loaded, self._engine, self._digest = loaded, engine, digest
        self._batcher = Batcher(
            partial(self._task, loaded, tokenizer),
            partial(self._answer, engine),
            length=lambda task: task.length,
            batch_tokens=self._batch_tokens,
            name=self._name,
        )

    def _task(
        self,
        loaded: LoadedTransformer,
        tokenizer: GGUFTokenizer,
        request: Request | ChoicesRequest | ContinuationRequest,
    ) -> ScoringTask[Any] | WritingTask:
        """Tokenize a request; its own errors are its own."""
        if isinstance(request, Request):
            return WritingTask(self._rules, loaded, tokenizer, request)
        plan = plan_choices if isinstance(request, ChoicesRequest) else plan_continuation
        return ScoringTask(self._rules, loaded, tokenizer, request, plan)

    @staticmethod
    def _answer(
        engine: TransformersEngine, tasks: Sequence[ScoringTask[Any] | WritingTask]
    ) -> list[Any]:
        """Evaluate a batch; if memory runs out, its halves."""
        try:
            return run(engine, tasks)
        except engine.loaded.torch.OutOfMemoryError as error:
            if len(tasks) == 1:
                raise ConfigurationError(
                    f"memory runs out for one request: {str(error).splitlines()[0]}; use dtype="
                    "float16 or bfloat16, device_map=auto, or a smaller n_ctx"
                ) from error
        # Outside of the `except`: its traceback would hold on to the tensors of the batch that
        # failed.
        half = len(tasks) // 2
        return [
            *TransformersModel._answer(engine, tasks[:half]),
            *TransformersModel._answer(engine, tasks[half:]),
        ]

    def _check_open(self) -> None:
        if self._closed:
            raise ModelClosed(f"model {self._name!r} is closed")

    async def generate(self, request: Request) -> Response:
        """Return `n` sampled answers.

        Raises:
            CapabilityError: A JSON schema is asked for.
            ConfigurationError: Messages were given and the model has no chat template, or extra
                fields were given.
            ContextTooLong: Prompt and answer do not fit.
            ModelClosed: The model is closed.
        """
        if request.json_schema is not None:
            raise CapabilityError(
                f"model {self._name!r} cannot follow a JSON schema; use llamacpp/ or a server"
            )
        if request.extra:
            raise ConfigurationError(
                f"a local model takes no extra fields, and was given {', '.join(request.extra)}"
            )
        return cast(Response, await self._ask(request))

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the log of each choice's probability to come next, summed over its forms.

        Raises:
            RequestRefused: A form adds no token, or belongs to two choices.
            ContextTooLong: The prompt does not fit.
            ModelClosed: The model is closed.
        """
        return cast(ChoicesResponse, await self._ask(request))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the log-probabilities of the tokens of a given text after a prompt.

        Raises:
            RequestRefused: The text adds no token, or nothing stands before its first.
            ContextTooLong: Prompt and text do not fit.
            ModelClosed: The model is closed.
        """
        return cast(ContinuationResponse, await self._ask(request))

    async def _ask(self, request: Request | ChoicesRequest | ContinuationRequest) -> Any:
        # Cheap once it is open: only an uncontended lock is taken.
        await self.open()
        assert self._batcher is not None
        [answer] = await self._batcher.ask([request])
        return answer

    async def aclose(self) -> None:
        """Stop the thread and free the model; safe to call twice."""
        self._closed = True
        if self._batcher is not None:
            await self._batcher.aclose()
        self._batcher = self._engine = self._loaded = None
