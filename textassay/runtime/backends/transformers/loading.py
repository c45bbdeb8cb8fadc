"""Reads models of the transformers library into memory: device, number format, tokenizer, weights.

Shared with the tools that run such models.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from textassay.runtime.backends.local.tokens import Ids
from textassay.runtime.errors import ConfigurationError, RequestRefused

DType = Literal["auto", "float32", "float16", "bfloat16"]
NO_LIMIT = 2**31 - 1
"""The length of a model whose positions are relative."""
ENCODER = "an encoder"
"""What `read_weights` needs of a model whose hidden states are read."""
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "spm.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "vocab.json",
)
# <0x0A>: how SentencePiece's vocabularies name a byte that is part of no other token
_BYTE = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")


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
    """Keep progress bars and load reports off the terminal.

    What matters in them is checked and raised by those who load.
    """
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


class Vocabulary:
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
        begins = self._added_around("x")[0]
        self.bos = begins[0] if begins else None
        self.adds_bos = bool(begins)
        self.end_mark = self._added_around("x")[1]
        eos = tokenizer.eos_token_id
        self.eos = eos if isinstance(eos, int) else None
        self.end_ids = frozenset(() if self.eos is None else (self.eos,))

    @property
    def special_texts(self) -> Mapping[str, int]:
        """Text of each token that was added to the vocabulary, with its id."""
        return {token.content: number for number, token in self._added.items() if token.content}

    @cached_property
    def always_parsed(self) -> tuple[str, ...]:
        """Texts of added tokens that are not special: they are taken for the token in any text."""
        return tuple(token.content for token in self._added.values() if not token.special)

    def strips(self, token: int) -> tuple[bool, bool]:
        """Return whether a special token swallows the white space before it, and after it."""
        return bool(self._added[token].lstrip), bool(self._added[token].rstrip)

    @cached_property
    def merges_pairs(self) -> bool:
        """Whether tokens are merged from pairs (BPE) and nothing rewrites the text before that."""
        parsed = json.loads(self._backend.to_str())
        return bool(parsed["model"]["type"] == "BPE" and parsed.get("normalizer") is None)

    def encode(self, text: str) -> Ids:
        """Return the ids of plain text: nothing is added, no special token is read out of it."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestRefused(
                f"the text is not valid Unicode: {error.reason} at character {error.start}"
            ) from error
        # Set each time: the backend is shared with transformers, which sets it for its own calls.
        self._backend.encode_special_tokens = True
        self._backend.no_truncation()
        self._backend.no_padding()
        return np.array(self._backend.encode(text, add_special_tokens=False).ids, np.int32)

    def text(self, token: int) -> str:
        """Return a token's text, for people."""
        return self.piece(token, special=True).decode("utf-8", "replace")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes that a token adds to a text; none for a special one unless asked for."""
        if token in self._added and self._added[token].special and not special:
            return b""
        name = self._backend.id_to_token(token)
        if name is None:  # rows of a padded output layer that stand for no token
            return b""
        if token in self._added:
            return str(name).encode()
        if self._byte_level:
            return bytes(_BYTES[c] for c in name if c in _BYTES)
        if match := _BYTE.match(name):
            return bytes([int(match[1], 16)])
        return str(name).replace("\u2581", " ").encode()

    @cached_property
    def _byte_level(self) -> bool:
        return self._kind("decoder", "ByteLevel")

    @cached_property
    def _description(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self._backend.to_str())
        return {name: parsed.get(name) for name in ("pre_tokenizer", "decoder")}

    def _kind(self, part: str, kind: str) -> bool:
        return f'"type": "{kind}"' in json.dumps(self._description[part])

    def _added_around(self, text: str) -> tuple[list[int], list[int]]:
        """Return the ids that the tokenizer's own template puts before and after a text."""
        plain = self._backend.encode(text, add_special_tokens=False).ids
        whole = self._backend.encode(text, add_special_tokens=True).ids
        for start in range(len(whole) - len(plain) + 1):
            if whole[start : start + len(plain)] == plain:
                return whole[:start], whole[start + len(plain) :]
        return [], []


def _byte_letters() -> dict[str, int]:
    """Return the byte for each letter in which byte-level BPE spells it (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + number): byte for number, byte in enumerate(others)}


_BYTES = _byte_letters()


@dataclass(frozen=True)
class LoadedTransformer:
    """A model in memory."""

    torch: Any
    model: Any
    """The module, in evaluation mode."""
    vocabulary: Vocabulary
    is_encoder_decoder: bool
    start: int | None
    """Token that begins the decoder's text; `None` for decoder-only models."""
    length: int
    """Longest sequence in tokens, `NO_LIMIT` if positions are relative."""
    device: Any
    """Where inputs go."""
    description: dict[str, Any]
    """What the identity says of it."""


def load(
    folder: Path,
    *,
    label: str,
    dtype: DType,
    device: str,
    device_map: str | None,
    n_ctx: int | None,
) -> LoadedTransformer:
    """Load a model from its folder, which holds config.json, weights and tokenizer; blocks."""
    torch, transformers = (_library(name) for name in ("torch", "transformers"))
    config = _config(folder, label)
    encoder_decoder = bool(config.get("is_encoder_decoder"))
    place = None if device_map else device_named(torch, device)
    kind = "AutoModelForSeq2SeqLM" if encoder_decoder else "AutoModelForCausalLM"
    with quiet(transformers):
        vocabulary = Vocabulary(read_tokenizer(transformers, folder, label), label=label)
        model = read_weights(
            getattr(transformers, kind),
            folder,
            label,
            needs="a language model's weights",
            dtype=_number_format(torch, dtype, place),
            **({"device_map": device_map} if device_map else {}),
        )
    if place is not None:
        model = model.to(place)
    # Without it dropout would make each score a random number.
    model.eval()
    start = model.config.decoder_start_token_id if encoder_decoder else None
    if encoder_decoder and not isinstance(start, int):
        raise ConfigurationError(f"config.json of {label} names no decoder_start_token_id")
    return LoadedTransformer(
        torch=torch,
        model=model,
        vocabulary=vocabulary,
        is_encoder_decoder=encoder_decoder,
        start=start,
        length=_length(config, n_ctx, label),
        device=model.device if place is None else place,
        description={
            "class": type(model).__name__,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": str(model.device.type),
            "library": f"transformers {transformers.__version__}, torch {torch.__version__}",
        },
    )


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
    """Return the longest sequence.

    Models with relative positions (T5) set no limit by themselves.
    """
    relative = "relative_attention_num_buckets" in config
    known = [config[name] for name in _LENGTHS if isinstance(config.get(name), int)]
    own = NO_LIMIT if relative or not known else min(known)
    if requested is not None and requested > own:
        raise ConfigurationError(f"n_ctx of {label} is at most {own}, not {requested}")
    return requested or own


def _number_format(torch: Any, dtype: DType, device: Any) -> Any:
    if dtype != "auto":
        return getattr(torch, dtype)
    # half precision is slow on most CPUs, and costs accuracy that nobody asked to lose
    return torch.float32 if device is not None and device.type == "cpu" else "auto"


def read_tokenizer(transformers: Any, folder: Path, label: str, *, kind: Any = None) -> Any:
    """Return the tokenizer in a model's folder; `kind` is its class, by default the library's."""
    # without any of these transformers makes up a tokenizer that knows no word
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        raise ConfigurationError(
            f"{label} has no tokenizer: {str(folder)!r} contains no {', no '.join(_VOCABULARIES)}"
        )
    try:
        return (kind or transformers.AutoTokenizer).from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever a damaged file makes the libraries raise
        raise unreadable("the tokenizer", label, error) from error


def read_weights(kind: Any, folder: Path, label: str, *, needs: str, **options: Any) -> Any:
    """Return a model of the class `kind` from a folder, unless its file lacks weights.

    `needs` says what the weights must be of; `options` are passed on.
    """
    try:
        model, report = kind.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, **options
        )
    except Exception as error:  # whatever a damaged or foreign file makes the libraries raise
        raise unreadable(needs, label, error) from error
    # What a file lacks is filled with random numbers; a pooler of an encoder is read by nobody.
    missing = [name for name in report["missing_keys"] if needs != ENCODER or "pooler" not in name]
    if missing:
        raise ConfigurationError(
            f"{label} is a model without {needs}: its weights lack {', '.join(sorted(missing)[:3])}"
        )
    return model


def unreadable(what: str, label: str, error: Exception) -> ConfigurationError:
    """Return the error of a file that a library cannot read, with the library's first line."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ConfigurationError(f"cannot read {what} of {label}: {reason}")
