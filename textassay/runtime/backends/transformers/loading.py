"""Reads a model of the transformers library into memory.

Class, number format, device, tokenizer, limits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from textassay.runtime.backends.transformers.library import device_named, quiet, reason_of
from textassay.runtime.backends.transformers.vocabulary import Vocabulary
from textassay.runtime.errors import ConfigurationError

DType = Literal["auto", "float32", "float16", "bfloat16"]
_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
NO_LIMIT = 2**31 - 1
_VOCABULARIES = ("tokenizer.json", "vocab.json", "spiece.model", "tokenizer.model", "vocab.txt")


@dataclass(frozen=True)
class LoadedTransformer:
    """A model in memory.

    Attributes:
        torch: The library.
        model: The module, in evaluation mode.
        vocabulary: Its tokenizer.
        is_encoder_decoder: Whether prompts go through an encoder.
        start: Token that begins the decoder's text; `None` for decoder-only models.
        length: Longest sequence in tokens; `NO_LIMIT` if positions are relative.
        device: Where inputs go.
        description: What the identity says of it.
    """

    torch: Any
    model: Any
    vocabulary: Vocabulary
    is_encoder_decoder: bool
    start: int | None
    length: int
    device: Any
    description: dict[str, Any]


def load(
    folder: Path,
    *,
    label: str,
    dtype: DType,
    device: str,
    device_map: str | None,
    n_ctx: int | None,
) -> LoadedTransformer:
    """Load a model from its folder; blocks.

    Args:
        folder: Holds config.json, weights and tokenizer.
        label: The model's name, for error messages.
        dtype: Number format; `auto` is the file's own on a GPU and float32 on a CPU.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        device_map: How accelerate spreads the layers, such as `auto`; in place of `device`.
        n_ctx: Longest sequence, at most the model's own.

    Raises:
        ConfigurationError: The extra is missing, or the files are not a usable language model.
    """
    torch, transformers = (_library(name) for name in ("torch", "transformers"))
    config = _config(folder, label)
    encoder_decoder = bool(config.get("is_encoder_decoder"))
    place = None if device_map else device_named(torch, device)
    number = _number_format(torch, dtype, place)
    with quiet(transformers):
        vocabulary = Vocabulary(_tokenizer(transformers, folder, label), label=label)
        model = _model(
            transformers, folder, label, encoder_decoder, dtype=number, device_map=device_map
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


def _tokenizer(transformers: Any, folder: Path, label: str) -> Any:
    # without any of these transformers makes up a tokenizer that knows no word
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        raise ConfigurationError(
            f"{label} has no tokenizer: its folder contains none of {', '.join(_VOCABULARIES)}"
        )
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever a damaged file makes the libraries raise
        raise _unreadable("the tokenizer", label, error) from error


def _model(
    transformers: Any,
    folder: Path,
    label: str,
    encoder_decoder: bool,
    *,
    dtype: Any,
    device_map: str | None,
) -> Any:
    name = "AutoModelForSeq2SeqLM" if encoder_decoder else "AutoModelForCausalLM"
    more = {"device_map": device_map} if device_map else {}
    try:
        model, report = getattr(transformers, name).from_pretrained(
            folder, local_files_only=True, dtype=dtype, output_loading_info=True, **more
        )
    except Exception as error:  # whatever a damaged or foreign file makes the libraries raise
        raise _unreadable("the weights", label, error) from error
    if report["missing_keys"]:  # what a file lacks is filled with random numbers
        lacking = ", ".join(sorted(report["missing_keys"])[:3])
        raise ConfigurationError(
            f"{label} is not a language model with these weights, which lack {lacking}"
        )
    return model


def _unreadable(what: str, label: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{what} of {label} cannot be read: {reason_of(error)}")
