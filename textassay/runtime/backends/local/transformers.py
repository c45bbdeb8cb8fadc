"""`TransformersModel`: a model of the transformers library, in this process.

Tools that run such models share the functions that read them (device, number format, tokenizer,
weights).

Rows of a batch are padded on the left, so that their last positions, whose logits are wanted, are
aligned. A prefix of all rows is evaluated once. A prompt that several texts follow goes through an
encoder once.
"""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from textassay.runtime.backends.local.files import folder_digest, locate_folder
from textassay.runtime.backends.local.model import (
    LoadedModel,
    LocalModel,
    LocalResponse,
    LocalRules,
    ModelTask,
    Truncate,
)
from textassay.runtime.backends.local.scoring import (
    Evaluation,
    Generation,
    PartialAnswer,
    PromptIds,
)
from textassay.runtime.backends.local.templates import ChatTemplate, PromptTokenizer
from textassay.runtime.backends.local.tokens import Ids, Vocabulary
from textassay.runtime.backends.local.work_queue import LengthOrder, WorkQueue
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    TextassayError,
)
from textassay.runtime.model import Prompted, PromptedRequest, Request, Response
from textassay.runtime.settings import TransformersSettings

NO_LIMIT = 2**31 - 1
"""The length of a model whose positions are relative: no threshold, but more than any text has."""
ENCODER = "an encoder"
"""The `needs` of `read_weights` for a model whose hidden states are read."""


def device_named(torch: Any, name: str) -> Any:
    """Return a device that works: `cpu`, `cuda`, `cuda:1`, `mps`; `auto` prefers a GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        if name == "cpu" and torch.backends.mps.is_available():
            name = "mps"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigurationError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}"
        ) from error
    return device


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Keep progress bars and load reports off the terminal."""
    log = transformers.utils.logging
    level, bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bar:
            log.enable_progress_bar()


class TransformersVocabulary(Vocabulary):
    """The vocabulary of a fast tokenizer: text to token ids and back.

    Evaluated text is data: the name of a control token inside it stays text.
    """

    def __init__(self, tokenizer: Any, *, label: str) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ConfigurationError(
                f"the tokenizer of {label} has no fast form (tokenizer.json), which textassay needs"
            )
        self.tokenizer = tokenizer
        self._backend = backend
        self.size = int(backend.get_vocab_size())
        self._added = backend.get_added_tokens_decoder()
        begins, self.end_mark = self._added_tokens("x")
        self.head = begins[:1]
        eos = tokenizer.eos_token_id
        self.end_ids = frozenset([eos] if isinstance(eos, int) else [])
        added = self._added.items()
        self.special_texts = {token.content: number for number, token in added if token.content}
        self.always_parsed = [token.content for _, token in added if not token.special]
        description = json.loads(backend.to_str())
        # pairs are merged (BPE), and nothing rewrites the text before that
        is_bpe = description["model"]["type"] == "BPE"
        self.merges_pairs = is_bpe and description.get("normalizer") is None
        self._byte_level = '"type": "ByteLevel"' in json.dumps(description.get("decoder"))

    def strips(self, token: int) -> tuple[bool, bool]:
        return bool(self._added[token].lstrip), bool(self._added[token].rstrip)

    def _encode_valid(self, text: str) -> Ids:
        # Set each time: the backend is shared with transformers, which sets it for its own calls.
        self._backend.encode_special_tokens = True
        self._backend.no_truncation()
        self._backend.no_padding()
        return np.array(self._backend.encode(text, add_special_tokens=False).ids, np.int32)

    def piece(self, token: int, *, special: bool = True) -> bytes:
        if token in self._added and self._added[token].special and not special:
            return b""
        name = self._backend.id_to_token(token)
        if not name:  # a row of a padded output layer without a token
            return b""
        if token in self._added:
            return str(name).encode()
        if self._byte_level:
            letters = byte_letters()
            return bytes(letters[c] for c in name if c in letters)
        # SentencePiece's vocabularies have a name for each byte
        if match := re.fullmatch("<0x([0-9A-Fa-f]{2})>", name):
            return bytes([int(match[1], 16)])
        return str(name).replace("\u2581", " ").encode()

    def _added_tokens(self, text: str) -> tuple[list[int], list[int]]:
        """Return the ids that the tokenizer's own template puts before and after a text."""
        plain = self._backend.encode(text, add_special_tokens=False).ids
        whole = self._backend.encode(text, add_special_tokens=True).ids
        for start in range(len(whole) - len(plain) + 1):
            if whole[start : start + len(plain)] == plain:
                return whole[:start], whole[start + len(plain) :]
        return [], []


@cache
def byte_letters() -> dict[str, int]:
    """Return the byte for each letter in which byte-level BPE spells it (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + number): byte for number, byte in enumerate(others)}


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"models of the transformers library need {name}: pip install "
            "'textassay[transformers]' (on a machine without a GPU install torch's CPU build first)"
        ) from error


def _config(folder: Path, label: str) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"config.json of {label} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ConfigurationError(f"config.json of {label} is not an object")
    return config


def _length(config: dict[str, Any], requested: int | None, label: str) -> int:
    """Return the longest sequence; models with relative positions (T5) set no limit themselves."""
    relative = "relative_attention_num_buckets" in config
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    lengths = [config[name] for name in names if isinstance(config.get(name), int)]
    longest = NO_LIMIT if relative or not lengths else min(lengths)
    if requested and requested > longest:
        raise ConfigurationError(f"n_ctx of {label} is at most {longest}, not {requested}")
    return requested or longest


def _number_format(torch: Any, dtype: str, device: Any) -> Any:
    if dtype != "auto":
        return getattr(torch, dtype)
    # half precision is slow on most CPUs, and less accurate
    return torch.float32 if device and device.type == "cpu" else "auto"


def read_tokenizer(transformers: Any, folder: Path, label: str, *, kind: Any = None) -> Any:
    """Return the tokenizer in a model's folder; `kind` is its class, by default the library's."""
    # without any of these transformers invents a tokenizer that knows no word
    files = (
        *("tokenizer.json", "vocab.txt", "spm.model", "spiece.model"),
        *("sentencepiece.bpe.model", "tokenizer.model", "vocab.json"),
    )
    if not any((folder / name).is_file() for name in files):
        raise ConfigurationError(
            f"{label} has no tokenizer: {str(folder)!r} contains no {', no '.join(files)}"
        )
    try:
        return (kind or transformers.AutoTokenizer).from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the libraries raise anything for damaged files
        raise unreadable("the tokenizer", label, error) from error


def read_weights(kind: Any, folder: Path, label: str, *, needs: str, **options: Any) -> Any:
    """Return a model of the class `kind` from a folder, unless its file lacks weights.

    `needs` names the weights in messages; `options` are passed on.
    """
    try:
        model, report = kind.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, **options
        )
    except Exception as error:  # the libraries raise anything for damaged or foreign files
        raise unreadable(needs, label, error) from error
    # Missing weights are filled with random numbers; the pooler of an encoder is not used.
    missing = [name for name in report["missing_keys"] if needs != ENCODER or "pooler" not in name]
    if missing:
        raise ConfigurationError(
            f"{label} is a model without {needs}: its weights lack {', '.join(sorted(missing)[:3])}"
        )
    return model


def unreadable(part: str, label: str, error: Exception) -> ConfigurationError:
    """Return the error of a file that a library cannot read, with the first line of its message."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ConfigurationError(f"cannot read {part} of {label}: {reason}")


PLAIN_TEMPLATE = "{% for m in messages %}{{ m.content }}{{ '\n\n' if not loop.last }}{% endfor %}"
"""Template of encoder-decoder models without one of their own: FLAN-T5 and others were trained on
plain instructions."""


class EncodedPrompt:
    """A prompt for an encoder; the decoder reads and writes only the text after it."""

    def __init__(
        self, tokenizer: PromptTokenizer, end_mark: Sequence[int], start: int, request: Prompted
    ) -> None:
        self._tokenizer = tokenizer
        prompt = tokenizer.prompt(request).ids
        self.encoded: Ids = np.concatenate([prompt, np.array(end_mark, np.int32)])
        self.ids: Ids = np.array([start], np.int32)

    def encode_with(self, text: str) -> Ids:
        """Return the decoder's ids of a text, which need no leading space there."""
        return np.concatenate([self.ids, self._tokenizer.plain(text.lstrip(" "))])


class LoadedTransformers(LoadedModel):
    """A loaded model on its thread: evaluates sequences in batches."""

    def __init__(
        self, rules: LocalRules, spec: str, settings: TransformersSettings, n_ctx: int | None
    ) -> None:
        """Find, or download, a model and load it; raises the errors of `LocalModel.open`."""
        folder, label = locate_folder(spec), rules.name
        self.digest = folder_digest(folder)
        torch, transformers = self._torch, _ = _library("torch"), _library("transformers")
        config = _config(folder, label)
        self.is_encoder_decoder = bool(config.get("is_encoder_decoder"))
        kind = "AutoModelForSeq2SeqLM" if self.is_encoder_decoder else "AutoModelForCausalLM"
        device_map = settings.device_map
        place = None if device_map else device_named(torch, settings.device)
        with quiet(transformers):
            vocabulary = TransformersVocabulary(
                read_tokenizer(transformers, folder, label), label=label
            )
            model = read_weights(
                getattr(transformers, kind),
                folder,
                label,
                needs="a language model's weights",
                dtype=_number_format(torch, settings.dtype, place),
                **({"device_map": device_map} if device_map else {}),
            )
        # In evaluation mode: dropout would make each score a random number.
        self._model = model = (model.to(place) if place else model).eval()
        self.device = place or model.device  # of inputs
        self.description = {
            "class": type(model).__name__,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": str(model.device.type),
            "library": f"transformers {transformers.__version__}, torch {torch.__version__}",
        }
        self.length = _length(config, n_ctx, label)
        accepted = inspect.signature(type(model).forward).parameters
        self._takes_positions = "position_ids" in accepted
        # Without it, logits of all positions are computed: gigabytes for long prompts and large
        # vocabularies.
        self._keeps_logits = "logits_to_keep" in accepted
        self._vocabulary_size = int(model.config.get_text_config().vocab_size)
        self._batch_tokens = settings.batch_tokens
        self._evaluated_tokens = 0  # padding left out
        tokenizer = PromptTokenizer(
            vocabulary,
            ChatTemplate(
                vocabulary.tokenizer.chat_template
                or (PLAIN_TEMPLATE if self.is_encoder_decoder else None),
                file=label,
                bos=vocabulary.tokenizer.bos_token or "",
                eos=vocabulary.tokenizer.eos_token or "",
            ),
        )
        tokenize: Callable[[Prompted], PromptIds] = tokenizer.prompt
        if self.is_encoder_decoder:
            self.start = model.config.decoder_start_token_id
            if not isinstance(self.start, int):
                raise ConfigurationError(f"config.json of {label} names no decoder_start_token_id")
            tokenize = partial(EncodedPrompt, tokenizer, vocabulary.end_mark, self.start)
        # some models have no length that bounds an answer
        super().__init__(rules, vocabulary, tokenize, limit=self.length, longest_answer=1024)

    @property
    def evaluated_tokens(self) -> int:
        return self._evaluated_tokens

    def run(
        self, tasks: Sequence[ModelTask], abandoned: Callable[[], bool]
    ) -> list[LocalResponse | TextassayError]:
        """Evaluate a batch; if memory runs out, its halves."""
        try:
            with self._torch.inference_mode():
                return self.answers(tasks, self._score, self._write)
        except self._torch.OutOfMemoryError as error:
            if len(tasks) == 1:
                raise ConfigurationError(
                    f"memory runs out for one request: {str(error).splitlines()[0]}; use dtype="
                    "float16 or bfloat16, device_map=auto, or a smaller n_ctx"
                ) from error
        # Outside of the `except`: its traceback would keep the tensors of the failed batch.
        half = len(tasks) // 2
        return [*self.run(tasks[:half], abandoned), *self.run(tasks[half:], abandoned)]

    def close(self) -> None:
        """Nothing to do: the memory goes with the last reference."""

    def _score(self, sequences: Sequence[Evaluation]) -> None:
        """Fill in the wanted log-probabilities of all sequences."""
        for batch in self._batches(sequences):
            if self.is_encoder_decoder:
                self._score_seq2seq(batch)
            else:
                self._score_causal(batch)

    def _write(self, generations: Sequence[Generation]) -> None:
        """Write the samples of all generations together, step by step."""
        drafts = [draft for generation in generations for draft in generation.begin()]
        owners = [n for n, generation in enumerate(generations) for _ in generation.drafts]
        _Generator(self, [generation.ids for generation in generations], owners).run(drafts)

    # ---- scoring ----

    def _batches(self, sequences: Sequence[Evaluation]) -> Iterator[list[Evaluation]]:
        """Yield batches of similar lengths whose padded tokens and logits stay within bounds."""
        batch: list[Evaluation] = []
        # By length, so that padding is small, and by ids, so that neighbors share their beginnings.
        for sequence in sorted(sequences, key=lambda entry: (entry.length, bytes(entry.ids))):
            longest = max(entry.length for entry in [*batch, sequence])
            rows = max(entry.predicted for entry in [*batch, sequence])
            count = len(batch) + 1
            full = count * longest > self._batch_tokens
            # 256 MB in single precision
            if batch and (full or count * rows * self._vocabulary_size > 2**26):
                yield batch
                batch = []
            batch.append(sequence)
        if batch:
            yield batch

    def _score_causal(self, batch: list[Evaluation]) -> None:
        ids = [sequence.ids for sequence in batch]
        shared = self._shared_tokens(batch)
        past = None
        if shared:
            tokens, mask = self._pad([ids[0][:shared]])
            past = self._forward(tokens, mask, use_cache=True).past_key_values
            past.batch_repeat_interleave(len(batch))
        rest = [row[shared:] for row in ids]
        self._evaluated_tokens += shared + sum(map(len, rest))
        width = max(sequence.predicted for sequence in batch)
        tokens, mask = self._pad(rest)
        output = self._forward(tokens, mask, past=past, shared=shared, keep=width)
        logits = output.logits[:, -width:]
        for number, sequence in enumerate(batch):
            self._take(sequence, logits[number, width - sequence.predicted :])

    def _shared_tokens(self, batch: Sequence[Evaluation]) -> int:
        """Return how many leading tokens all rows share, 0 if too few for a pass of their own."""
        if len(batch) < 2:
            return 0
        # Never past the first wanted position: logits of the shared part are not computed.
        limit = min(sequence.first for sequence in batch)
        first = batch[0].ids
        for sequence in batch[1:]:
            same = first[:limit] == sequence.ids[:limit]
            limit = int(np.argmin(same)) if not same.all() else limit
        return limit if limit >= 16 else 0

    def _score_seq2seq(self, batch: list[Evaluation]) -> None:
        hidden, mask, rows = self._encode([sequence.encoded for sequence in batch])
        tokens, _ = self._pad([sequence.ids for sequence in batch], left=False)
        self._evaluated_tokens += sum(len(sequence.ids) for sequence in batch)
        # no position sees the padding after it, so the decoder needs no mask
        logits = self._decode(hidden[rows], mask[rows], tokens).logits
        for number, sequence in enumerate(batch):
            first, last = sequence.first, len(sequence.ids)
            self._take(sequence, logits[number, first:last])

    def _take(self, evaluation: Evaluation, logits: Any) -> None:
        """Store the wanted tokens' log-probabilities, from logits (positions, vocabulary)."""
        logits = logits.float()
        totals = logits.logsumexp(dim=-1)
        if not bool(totals.isfinite().all()):
            raise FatalModelError(
                "the model computes NaN or infinite logits: its weights or its number format are "
                "broken (dtype=float32 shows which)"
            )
        # All at once: an operation per token takes longer than a small model's own pass.
        counts = [len(targets) for targets in evaluation.targets]
        rows_and_ids = np.repeat(np.arange(len(counts)), counts), np.concatenate(evaluation.targets)
        places, index = (
            self._torch.as_tensor(numbers.astype(np.int64), device=logits.device)
            for numbers in rows_and_ids
        )
        logprobs = (logits[places, index] - totals[places]).double().cpu().numpy()
        evaluation.logprobs.extend(np.split(logprobs, np.cumsum(counts)[:-1]))

    # ---- passes ----

    def _encode(self, prompts: Sequence[Ids]) -> tuple[Any, Any, Any]:
        """Return hidden states and mask of the distinct prompts, and each row's index in them."""
        distinct: dict[bytes, int] = {}
        for prompt in prompts:
            distinct.setdefault(prompt.tobytes(), len(distinct))
        unique = [np.frombuffer(key, np.int32) for key in distinct]
        tokens, mask = self._pad(unique, left=False)
        self._evaluated_tokens += sum(map(len, unique))
        encoder = self._model.get_encoder()
        hidden = encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        rows = [distinct[prompt.tobytes()] for prompt in prompts]
        return hidden, mask, self._torch.as_tensor(rows, device=hidden.device)

    def _decode(self, hidden: Any, mask: Any, tokens: Any, *, past: Any = None) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return self._model(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
            attention_mask=mask,
            decoder_input_ids=tokens,
            past_key_values=past,
            use_cache=past is not None,
        )

    def _forward(
        self,
        tokens: Any,
        mask: Any,
        *,
        past: Any = None,
        shared: int = 0,
        keep: int = 1,
        use_cache: bool = False,
    ) -> Any:
        """Run a decoder-only model with `shared` tokens ahead in the cache of every row."""
        if shared:
            before = mask.new_ones((len(mask), shared))
            mask = self._torch.cat([before, mask], dim=1)
        more: dict[str, Any] = {}
        if self._takes_positions:
            # Counted from each row's first real token: padding on the left would shift learned
            # positions.
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
            more["position_ids"] = positions[:, -tokens.shape[1] :]
        if self._keeps_logits:
            more["logits_to_keep"] = keep
        return self._model(
            input_ids=tokens,
            attention_mask=mask,
            past_key_values=past,
            use_cache=use_cache or past is not None,
            **more,
        )

    def _pad(self, rows: Sequence[Ids], *, left: bool = True) -> tuple[Any, Any]:
        """Return rows as one tensor of ids, shape (n, longest), and its mask."""
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        for number, row in enumerate(rows):
            place = slice(longest - len(row), longest) if left else slice(0, len(row))
            ids[number, place], mask[number, place] = row, 1
        device = self.device
        return self._torch.as_tensor(ids, device=device), self._torch.as_tensor(mask, device=device)


class _Generator:
    """Writes answers of several requests together, one token per step and row."""

    def __init__(
        self, engine: LoadedTransformers, prompts: Sequence[Ids], owners: Sequence[int]
    ) -> None:
        self._engine, self._prompts, self._owners = engine, prompts, list(owners)
        self._torch = engine._torch

    def run(self, drafts: Sequence[PartialAnswer]) -> None:
        """Grow all drafts to their ends; finished rows leave the batch."""
        logits = self._begin()
        alive = list(range(len(drafts)))
        while True:
            rows = logits.float().cpu().numpy()
            unfinished = [row for row, draft in enumerate(alive) if drafts[draft].grow(rows[row])]
            if not unfinished:
                return
            # Finished rows leave the batch: otherwise each row would cost as much as the longest
            # answer.
            if len(unfinished) < len(alive):
                self._select(unfinished)
                alive = [alive[row] for row in unfinished]
            logits = self._step([drafts[draft].tokens[-1] for draft in alive])

    def _begin(self) -> Any:
        """Evaluate each prompt once; return the logits that follow, one row per answer."""
        engine, torch = self._engine, self._torch
        index = torch.as_tensor(self._owners, device=engine.device)
        if engine.is_encoder_decoder:
            from transformers import DynamicCache, EncoderDecoderCache

            hidden, mask, rows = engine._encode(self._prompts)
            self._hidden, self._mask = hidden[rows[index]], mask[rows[index]]
            self._past = EncoderDecoderCache(DynamicCache(), DynamicCache())
            start = engine.start
            tokens = torch.full((len(index), 1), start, device=engine.device)
            return self._decode(tokens)
        tokens, mask = engine._pad(self._prompts)
        engine._evaluated_tokens += int(mask.sum())
        output = engine._forward(tokens, mask, use_cache=True)
        self._past, self._mask = output.past_key_values, mask[index]
        self._past.batch_select_indices(index)
        return output.logits[index, -1]

    def _step(self, tokens: Iterable[int]) -> Any:
        engine = self._engine
        new = self._torch.as_tensor(list(tokens), device=engine.device)[:, None]
        engine._evaluated_tokens += len(new)
        if engine.is_encoder_decoder:
            return self._decode(new)
        self._mask = self._torch.cat([self._mask, self._mask.new_ones((len(new), 1))], dim=1)
        output = engine._forward(new, self._mask, past=self._past)
        self._past = output.past_key_values
        return output.logits[:, -1]

    def _decode(self, tokens: Any) -> Any:
        output = self._engine._decode(self._hidden, self._mask, tokens, past=self._past)
        self._past = output.past_key_values
        return output.logits[:, -1]

    def _select(self, rows: Sequence[int]) -> None:
        index = self._torch.as_tensor(rows, device=self._engine.device)
        self._past.batch_select_indices(index)
        self._mask = self._mask[index]
        if self._engine.is_encoder_decoder:
            self._hidden = self._hidden[index]


class TransformersModel(LocalModel[LoadedTransformers]):
    """A model of the transformers library on one thread of its own.

    The first use, or `open`, loads it.

    It may be decoder-only (GPT-2, OPT, Llama, ...) or an encoder-decoder (T5, FLAN-T5, BART, ...).
    Requests that wait are evaluated in batches of similar lengths; a score depends on its batch
    by rounding alone (below 1e-4 in float32).

    The log-probabilities of a continuation do not include the end mark that an encoder-decoder
    model would write after it.

    Args:
        name: The name the user gave, such as `transformers/google/flan-t5-xl`.
        spec: A folder, or `REPOSITORY[@REVISION]` of the Hugging Face hub.
        n_ctx: Longest sequence in tokens; by default the model's own.
        truncate: `source` cuts a request's `truncatable` text if the request is too long; `error`
            refuses it.
        **settings: Fields of `TransformersSettings`.
    """

    _follows_schemas = False

    def __init__(
        self,
        name: str,
        spec: str,
        *,
        n_ctx: int | None = None,
        truncate: Truncate = "error",
        **settings: Any,
    ) -> None:
        loading = TransformersSettings(**settings)
        self._rules, self._n_ctx = LocalRules(name, truncate), n_ctx
        queue = WorkQueue[LoadedTransformers, PromptedRequest, LocalResponse](
            partial(LoadedTransformers, self._rules, spec, loading, n_ctx),
            LengthOrder(batch_tokens=loading.batch_tokens),
            name=name,
        )
        super().__init__(name, queue)

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that determines a score: content of the files, number format, device and library.

        Known once the model is open.
        """
        model = self._require_loaded()
        return {
            "backend": "transformers",
            "files": model.digest,
            **model.description,
            "n_ctx": model.length if model.length != NO_LIMIT else None,
            "truncate": self._rules.truncate,
            "seed": None,  # part of the keys of stored answers
        }

    @property
    def _context_length(self) -> int | None:
        length = self._engine.length if self._engine else self._n_ctx
        return None if length == NO_LIMIT else length

    async def generate(self, request: Request) -> Response:
        """Return `n` sampled answers; a JSON schema is refused."""
        if request.json_schema is not None:
            raise CapabilityError(
                f"model {self.name!r} cannot follow a JSON schema; use llamacpp/ or a server"
            )
        return await super().generate(request)
