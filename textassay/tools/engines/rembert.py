"""Published BLEURT checkpoints (Sellam et al. 2020; Pu et al. 2021) in transformers classes.

BLEURT-20 and its distilled sizes are RemBERT: embeddings narrower than the layers, with a
projection between; the older ones are plain BERT. Both end in a pooled first token and one linear
output. The converted checkpoints on the Hub differ in the names of their parameters alone
(`bleurt.encoder.embedding_projection.weight`, ...), which are mapped while they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.files import ModelFiles

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
    """Return the regressor: a RemBERT or BERT sequence classifier with the checkpoint's weights.

    `options` are passed to `from_pretrained`.
    """
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
