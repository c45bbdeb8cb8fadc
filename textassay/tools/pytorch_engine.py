"""The engine of the extra `nli`: PyTorch and transformers, on a GPU when there is one.

It also reads published BLEURT checkpoints (Sellam et al. 2020; Pu et al. 2021) in transformers
classes. BLEURT-20 and its distilled sizes are RemBERT: embeddings narrower than the layers, with a
projection between; the older ones are plain BERT. Both end in a pooled first token and one linear
output. The converted checkpoints on the Hub differ in the names of their parameters alone
(`bleurt.encoder.embedding_projection.weight`, ...), which are mapped while they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from textassay.runtime.backends.transformers.engine import (
    ENCODER,
    device_named,
    quiet,
    read_tokenizer,
    read_weights,
    unreadable,
)
from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines import Array, Encoding, Engine, Head, ModelFiles, Tokenizer, pad
from textassay.tools.tool import need

# No defaults for these: a size that is guessed wrong would only show as a parameter of another
# shape.
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "vocab_size",
)
_OPTIONAL = ("layer_norm_eps", "max_position_embeddings", "num_labels", "type_vocab_size")
_DEFAULTS = {"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_labels": 1}
_AUTO_CLASSES: dict[Head, str] = {
    "classify": "AutoModelForSequenceClassification",
    "encode": "AutoModel",
    "answer": "AutoModelForSeq2SeqLM",
    "likelihood": "AutoModelForSeq2SeqLM",
}
_ALL_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_READ_BY_ENCODER = ("input_ids", "attention_mask")
_HEAD_WORDS: dict[Head, str] = {
    "classify": "a sequence-classification head",
    "encode": ENCODER,
    "answer": "an encoder and a decoder",
    "likelihood": "an encoder and a decoder",
}


def is_bleurt(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is that of a converted BLEURT checkpoint."""
    return config.get("model_type") == "bleurt"


def bleurt_tokenizer(transformers: Any, folder: Path) -> Any:
    """Return the class of a checkpoint's tokenizer, whose own name transformers does not know."""
    if (folder / "tokenizer.json").is_file():
        return transformers.PreTrainedTokenizerFast
    spm = (folder / "spm.model").is_file()
    return transformers.DebertaV2Tokenizer if spm else transformers.BertTokenizer


def load_bleurt(transformers: Any, files: ModelFiles, **options: Any) -> Any:
    """Return the regressor: a RemBERT or BERT sequence classifier with the checkpoint's weights."""
    narrow = files.config.get("embedding_size")
    settings = _settings(transformers, files)
    if narrow is None:
        regressor = transformers.BertForSequenceClassification
        config = transformers.BertConfig(**settings)
        names = {r"^bleurt\.": "bert."}
    else:
        regressor = transformers.RemBertForSequenceClassification
        config = transformers.RemBertConfig(
            **settings, input_embedding_size=int(narrow), output_embedding_size=int(narrow)
        )
        names = {
            r"^bleurt\.encoder\.embedding_projection": "rembert.encoder.embedding_hidden_mapping_in",  # noqa: E501
            r"^bleurt\.": "rembert.",
        }
    model, report = regressor.from_pretrained(
        files.folder,
        config=config,
        key_mapping=names,
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # reported below, in our words
        **options,
    )
    _refuse_faults(report, files.label)
    return model


def _refuse_faults(report: Mapping[str, Any], label: str) -> None:
    """Refuse a checkpoint unless exactly the parameters of the model were read from it."""
    faults = [f"{name} is missing" for name in sorted(report["missing_keys"])]
    faults += [
        f"{name} is unknown"
        for name in sorted(report["unexpected_keys"])
        if not name.endswith("position_ids")  # older files hold this buffer
    ]
    faults += [
        f"{name} has shape {tuple(theirs)} rather than {tuple(ours)}"
        for name, theirs, ours in sorted(report["mismatched_keys"])
    ]
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise ConfigurationError(
            f"the weights of {label} do not fit a BLEURT regressor: {'; '.join(faults[:3])}{more}"
        )


def _settings(transformers: Any, files: ModelFiles) -> dict[str, Any]:
    """Return what `config.json` says in the words of `BertConfig` and `RemBertConfig`, checked."""
    config = {**_DEFAULTS, **files.config}
    try:
        settings: dict[str, Any] = {name: int(config[name]) for name in _SIZES}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"config.json of {files.label} is missing a size: {error}"
        ) from None
    width, heads = settings["hidden_size"], settings["num_attention_heads"]
    if width % heads:
        raise ConfigurationError(
            f"config.json of {files.label}: hidden_size {width} is not a multiple of {heads} heads"
        )
    settings |= {name: config[name] for name in _OPTIONAL if name in config}
    known = transformers.activations.ACT2FN
    activation = str(config.get("hidden_act", "gelu"))
    if activation not in known:
        raise ConfigurationError(
            f"unknown activation {activation!r} in config.json; known: {', '.join(known)}"
        )
    return {**settings, "hidden_act": activation}


class PytorchEngine(Engine):
    """A model in PyTorch, in single precision."""

    name = "transformers"

    def __init__(
        self, files: ModelFiles, head: Head, *, device: str = "auto", layer: int | None = None
    ) -> None:
        """`device` is `cpu`, `cuda`, `cuda:1`, `mps`; `auto` takes a GPU when there is one.

        `layer` is the one whose states `encode` returns, 0 being the embeddings; the last if
        `None`.
        """
        super().__init__(files, head)
        self.torch = need("torch", extra="nli", what="the transformers engine")
        self.transformers = need("transformers", extra="nli", what="the transformers engine")
        self.layer = layer
        self._place = repr(str(files.folder))
        self.device = device_named(self.torch, device)
        with quiet(self.transformers):
            self.tokenizer, self._input_names = self._tokenizer()
            # Evaluation mode: dropout would make every score another one.
            self.model = self._model().to(self.device).eval()

    def evaluate(self, batch: Sequence[Encoding]) -> list[Array]:
        """Answer a batch; see `Engine.evaluate`."""
        with self.torch.inference_mode():
            if self.head == "likelihood":
                return self._likelihood(batch)
            names = _READ_BY_ENCODER if self.head == "answer" else self._input_names
            output = self._forward(self._inputs(batch, names)).float().cpu().numpy()
        return self._unpadded(output, batch)

    def _inputs(self, batch: Sequence[Encoding], names: Iterable[str]) -> dict[str, Any]:
        padded = pad(batch, self._pad_id)
        return {name: self.torch.from_numpy(padded[name]).to(self.device) for name in names}

    def _likelihood(self, batch: Sequence[Encoding]) -> list[Array]:
        """Return the log-probabilities of the tokens of each second text."""
        parts = [_segments(encoding) for encoding in batch]
        inputs = self._inputs([first for first, _ in parts], _READ_BY_ENCODER)
        targets = self._inputs([second for _, second in parts], ("input_ids",))["input_ids"]
        # Each model shifts by its own rule (T5 begins with the padding, BART with the end mark).
        shifted = self.model.prepare_decoder_input_ids_from_labels(labels=targets)
        # the padding of a text stands behind its tokens, which never see it
        logits = self.model(**inputs, decoder_input_ids=shifted).logits.float()
        logprobs = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0].cpu().numpy()
        return [logprobs[row, : len(second)] for row, (_, second) in enumerate(parts)]

    def _forward(self, inputs: dict[str, Any]) -> Any:
        if self.head == "classify":
            return self.model(**inputs).logits
        if self.head == "answer":
            shape = (len(inputs["input_ids"]), 1)
            start = self.model.config.decoder_start_token_id
            first = self.torch.full(shape, start, device=self.device)
            return self.model(**inputs, decoder_input_ids=first).logits[:, 0]
        if self.layer is None:
            return self.model(**inputs).last_hidden_state
        states = self.model(**inputs, output_hidden_states=True).hidden_states
        if not 0 <= self.layer < len(states):
            raise ConfigurationError(
                f"{self.files.label} has layers 0 to {len(states) - 1}, not {self.layer}"
            )
        return states[self.layer]

    def _tokenizer(self) -> tuple[Tokenizer, Sequence[str]]:
        folder, bleurt = self.files.folder, is_bleurt(self.files.config)
        if not (folder / "tokenizer.json").is_file() and any(folder.glob("*.model")):
            need("sentencepiece", extra="nli", what=f"the tokenizer of {self.files.label}")
        kind = bleurt_tokenizer(self.transformers, folder) if bleurt else None
        tokenizer = read_tokenizer(self.transformers, folder, self._place, kind=kind)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ConfigurationError(
                f"the tokenizer of {self.files.label} has no fast form (tokenizer.json)"
            )
        names = tokenizer.model_input_names
        return Tokenizer(backend), _ALL_INPUTS if bleurt else [n for n in names if n in _ALL_INPUTS]

    def _model(self) -> Any:
        needs = _HEAD_WORDS[self.head]
        if not is_bleurt(self.files.config):
            kind = getattr(self.transformers, _AUTO_CLASSES[self.head])
            return read_weights(
                kind, self.files.folder, self._place, needs=needs, dtype=self.torch.float32
            )
        if self.head != "classify":
            raise ConfigurationError(
                f"{self.files.label} is a BLEURT regressor and has no use but `bleurt`"
            )
        try:
            return load_bleurt(self.transformers, self.files, dtype=self.torch.float32)
        except ConfigurationError:
            raise
        except Exception as error:  # whatever a damaged file makes the libraries raise
            raise unreadable(needs, self._place, error) from error


def _segments(encoding: Encoding) -> tuple[Encoding, Encoding]:
    """Return the two texts of an encoding."""
    cut = encoding.types.index(1)
    first, second = (
        Encoding(encoding.ids[part], encoding.types[part], encoding.special[part])
        for part in (slice(0, cut), slice(cut, None))
    )
    return first, second
