"""`TransformersModel`: a model of the transformers library, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.runtime.backends.local.files import folder_digest, locate_folder
from textassay.runtime.backends.local.model import (
    AnyRequest,
    AnyResponse,
    LocalModel,
    RequestReader,
    Rules,
    Task,
    Truncate,
    run_tasks,
)
from textassay.runtime.backends.local.scoring import Prompt
from textassay.runtime.backends.local.tokens import ChatTemplate, Ids, PromptTokenizer
from textassay.runtime.backends.local.work_queue import LengthOrder, WorkQueue
from textassay.runtime.backends.transformers.engine import (
    NO_LIMIT,
    LoadedTransformer,
    TransformersEngine,
    load,
)
from textassay.runtime.errors import CapabilityError, ConfigurationError, TextassayError
from textassay.runtime.model import Capabilities, Prompted, Request, Response
from textassay.runtime.settings import TransformersSettings

MAX_ANSWER = 1024
"""Longest answer in tokens, if the request names none: some models have no length to bound it."""
PLAIN_TEMPLATE = "{% for m in messages %}{{ m.content }}{{ '\n\n' if not loop.last }}{% endfor %}"
"""How messages become a prompt of an encoder-decoder model without a template of its own: FLAN-T5
and its like were trained on plain instructions."""


class EncodedPrompt:
    """A prompt that goes through an encoder: what follows it is all that the decoder writes."""

    def __init__(self, loaded: LoadedTransformer, tokenizer: PromptTokenizer, prompt: Ids) -> None:
        assert loaded.start is not None
        self._tokenizer = tokenizer
        self.encoded = np.concatenate([prompt, np.array(loaded.vocabulary.end_mark, np.int32)])
        self.ids: Ids = np.array([loaded.start], np.int32)

    def followed_by(self, text: str) -> Ids:
        """Return the decoder's ids for a text.

        A leading space is dropped, since the decoder's text begins here.
        """
        return np.concatenate([self.ids, self._tokenizer.plain(text.lstrip(" "))])


@dataclass
class LoadedModel:
    """A loaded model on its thread."""

    loaded: LoadedTransformer
    engine: TransformersEngine
    reader: RequestReader
    digest: str

    @property
    def evaluated_tokens(self) -> int:
        """Tokens evaluated so far; what the rows of a batch share counts once."""
        return self.engine.evaluated_tokens

    def prepare(self, request: AnyRequest) -> Task:
        """Tokenize a request."""
        return self.reader.read(request)

    def run(
        self, tasks: Sequence[Task], abandoned: Callable[[], bool]
    ) -> list[AnyResponse | TextassayError]:
        """Evaluate a batch; if memory runs out, its halves."""
        try:
            return run_tasks(tasks, self.engine.score, self.engine.generate)
        except self.loaded.torch.OutOfMemoryError as error:
            if len(tasks) == 1:
                raise ConfigurationError(
                    f"memory runs out for one request: {str(error).splitlines()[0]}; use dtype="
                    "float16 or bfloat16, device_map=auto, or a smaller n_ctx"
                ) from error
        # Outside of the `except`: its traceback would hold on to the tensors of the batch that
        # failed.
        half = len(tasks) // 2
        return [*self.run(tasks[:half], abandoned), *self.run(tasks[half:], abandoned)]

    def close(self) -> None:
        """Nothing to do: the memory goes with the last reference."""


@dataclass(frozen=True)
class Loader:
    """Finds, or downloads, a model and loads it with these options when called."""

    rules: Rules
    spec: str
    settings: TransformersSettings
    n_ctx: int | None

    def __call__(self) -> LoadedModel:
        """Load, or raise what `LocalModel.open` raises."""
        folder = locate_folder(self.spec)
        digest = folder_digest(folder)
        loaded = load(folder, self.settings, label=self.rules.name, n_ctx=self.n_ctx)
        vocabulary = loaded.vocabulary
        plain = PLAIN_TEMPLATE if loaded.is_encoder_decoder else None
        template = ChatTemplate(
            vocabulary.tokenizer.chat_template or plain,
            file=self.rules.name,
            bos=vocabulary.tokenizer.bos_token or "",
            eos=vocabulary.tokenizer.eos_token or "",
        )
        tokenizer = PromptTokenizer(vocabulary, template)

        def tokenize(request: Prompted) -> Prompt:
            prompt = tokenizer.prompt(request)
            if loaded.is_encoder_decoder:
                return EncodedPrompt(loaded, tokenizer, prompt.ids)
            return prompt

        reader = RequestReader(
            self.rules, vocabulary, tokenize, limit=loaded.length, longest_answer=MAX_ANSWER
        )
        engine = TransformersEngine(loaded, batch_tokens=self.settings.batch_tokens)
        return LoadedModel(loaded, engine, reader, digest)


class TransformersModel(LocalModel[LoadedModel]):
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
        n_ctx: Longest sequence in tokens; by default the model's own.
        truncate: `source` cuts a request's `truncatable` text if the request is too long; `error`
            refuses it.
        seed: Seed for requests that bring none of their own.
        **settings: Fields of `TransformersSettings`.
    """

    def __init__(
        self,
        name: str,
        spec: str,
        *,
        n_ctx: int | None = None,
        truncate: Truncate = "error",
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        own = TransformersSettings(**settings)
        self._loader = Loader(Rules(name, truncate, seed), spec, own, n_ctx)
        queue = WorkQueue[LoadedModel, AnyRequest, AnyResponse](
            self._loader, LengthOrder(batch_tokens=own.batch_tokens), name=name
        )
        super().__init__(name, queue)

    @property
    def identity(self) -> Mapping[str, Any]:
        """What determines a score: the files' content, number format, kind of device and library.

        Known once the model is open.
        """
        model = self._loaded()
        return {
            "backend": "transformers",
            "files": model.digest,
            **model.loaded.description,
            "n_ctx": model.loaded.length if model.loaded.length != NO_LIMIT else None,
            "truncate": self._loader.rules.truncate,
            "seed": self._loader.rules.seed,
        }

    @property
    def capabilities(self) -> Capabilities:
        """Everything but JSON schemas, and a length that is known once the model is open."""
        length = self._loader.n_ctx if self._engine is None else self._engine.loaded.length
        return Capabilities(
            n=True,
            logprobs=True,
            json_schema=False,
            seed=True,
            choices=True,
            continuation=True,
            functions=False,
            context_length=None if length == NO_LIMIT else length,
        )

    async def generate(self, request: Request) -> Response:
        """Return `n` sampled answers; a JSON schema is refused."""
        if request.json_schema is not None:
            raise CapabilityError(
                f"model {self.name!r} cannot follow a JSON schema; use llamacpp/ or a server"
            )
        return await super().generate(request)
