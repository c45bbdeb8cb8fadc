"""Published BLEURT checkpoints (Sellam et al., 2020; Pu et al., 2021) as a PyTorch module of our own.

BLEURT-20 and its distilled sizes are RemBERT-style encoders: embeddings narrower than the layers,
with a projection between; the older ones are plain BERT. Both end in a pooled first token and one
linear output. Parameters carry the names of the converted checkpoints on the Hub
(`bleurt.encoder.embedding_projection.weight`, ...). transformers has no class for this layout, and
the package that had one no longer imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.extras import need
from textassay.tools.engines.files import ModelFiles


def is_bleurt(config: Mapping[str, Any]) -> bool:
    """Tell whether a configuration is that of a converted BLEURT checkpoint."""
    return config.get("model_type") == "bleurt"


def build_bleurt(torch: Any, files: ModelFiles) -> Any:
    """Return the regressor as a module from `input_ids`, `attention_mask`, `token_type_ids` to an object with `logits`.

    Args:
        torch: The torch module.
        files: Folder with `config.json` and weights.

    Raises:
        ConfigurationError: A parameter is missing, unknown, or of another shape.
    """
    module = _module(torch, files.config, files)
    weights = {
        name: tensor
        for name, tensor in _read(torch, files).items()
        if not name.endswith("position_ids")
    }
    try:
        module.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise ConfigurationError(
            f"the weights of {files.label} do not fit a BLEURT regressor:"
            f" {' '.join(str(error).split())[:300]}"
        ) from error
    return module.float()


def _read(torch: Any, files: ModelFiles) -> dict[str, Any]:
    if not files.weights:
        raise ConfigurationError(
            f"{str(files.folder)!r} holds no weights (model.safetensors or pytorch_model.bin)"
        )
    weights: dict[str, Any] = {}
    for path in files.weights:
        if path.suffix == ".safetensors":
            safetensors = need("safetensors.torch", extra="nli", what="reading BLEURT weights")
            weights |= safetensors.load_file(path)
        else:
            weights |= torch.load(
                path, map_location="cpu", weights_only=True
            )  # no pickled code is run
    return weights


def _module(torch: Any, config: Mapping[str, Any], files: ModelFiles) -> Any:
    nn = torch.nn
    try:
        width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        inner, layers = int(config["intermediate_size"]), int(config["num_hidden_layers"])
        vocabulary, positions = (
            int(config["vocab_size"]),
            int(config.get("max_position_embeddings", 512)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"config.json of {files.label} lacks a size: {error}") from None
    narrow, segments = (
        int(config.get("embedding_size") or width),
        int(config.get("type_vocab_size", 2)),
    )
    epsilon, activation = float(config.get("layer_norm_eps", 1e-12)), _activation(torch, config)
    if width % heads:
        raise ConfigurationError(
            f"config.json of {files.label}: hidden_size {width} is no multiple of {heads} heads"
        )

    class SelfAttention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

        def forward(self, x: Any, mask: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                part(x).view(batch, length, heads, width // heads).transpose(1, 2)
                for part in (self.query, self.key, self.value)
            )
            found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return found.transpose(1, 2).reshape(batch, length, width)

    class Residual(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.dense, self.LayerNorm = nn.Linear(size, width), nn.LayerNorm(width, eps=epsilon)

        def forward(self, x: Any, before: Any) -> Any:
            return self.LayerNorm(self.dense(x) + before)

    def named(**parts: Any) -> Any:
        """Group modules under the names that the checkpoints use."""
        group = nn.Module()
        for name, part in parts.items():
            group.add_module(name, part)
        return group

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.attention = named(self=SelfAttention(), output=Residual(width))
            self.intermediate = named(dense=nn.Linear(width, inner))
            self.output = Residual(inner)

        def forward(self, x: Any, mask: Any) -> Any:
            x = self.attention.output(self.attention.self(x, mask), x)
            return self.output(activation(self.intermediate.dense(x)), x)

    class Bleurt(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            encoder = named(layer=nn.ModuleList(Layer() for _ in range(layers)))
            if config.get("embedding_size") is not None:
                encoder.add_module("embedding_projection", nn.Linear(narrow, width))
            self.bleurt = named(
                embeddings=named(
                    word_embeddings=nn.Embedding(vocabulary, narrow),
                    position_embeddings=nn.Embedding(positions, narrow),
                    token_type_embeddings=nn.Embedding(segments, narrow),
                    LayerNorm=nn.LayerNorm(narrow, eps=epsilon),
                ),
                encoder=encoder,
                pooler=named(dense=nn.Linear(width, width)),
            )
            self.classifier = nn.Linear(width, int(config.get("num_labels", 1)))

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            embeddings, encoder = self.bleurt.embeddings, self.bleurt.encoder
            places = torch.arange(input_ids.shape[1], device=input_ids.device)
            x = embeddings.word_embeddings(input_ids) + embeddings.token_type_embeddings(
                token_type_ids
            )
            x = embeddings.LayerNorm(x + embeddings.position_embeddings(places))
            if hasattr(encoder, "embedding_projection"):
                x = encoder.embedding_projection(x)
            mask = attention_mask[:, None, None, :].bool()
            for layer in encoder.layer:
                x = layer(x, mask)
            pooled = torch.tanh(self.bleurt.pooler.dense(x[:, 0]))
            return SimpleNamespace(logits=self.classifier(pooled))

    with torch.device("meta"):  # sizes only; the checkpoint brings the numbers
        module = Bleurt()
    return module.to_empty(device="cpu")


def _activation(torch: Any, config: Mapping[str, Any]) -> Any:
    functional = torch.nn.functional
    known = {
        "gelu": functional.gelu,
        "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "relu": functional.relu,
        "silu": functional.silu,
        "swish": functional.silu,
    }
    name = str(config.get("hidden_act", "gelu"))
    if name not in known:
        raise ConfigurationError(
            f"unknown activation {name!r} in config.json; known: {', '.join(known)}"
        )
    return known[name]
