"""Likeness of two texts as the cosine of their embeddings, over any sentence encoder.

Reads how tokens are pooled from the folder, as sentence-transformers writes it, and refuses folders
with further layers that it would have to leave out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from textassay.runtime.errors import ConfigurationError
from textassay.tools.bertscore import unit
from textassay.tools.comparing import Against, ComparingTool
from textassay.tools.engines.engine import Array, Engine, EngineName, Head
from textassay.tools.sentences import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.states import windowed
from textassay.tools.tool import Measurement

DEFAULT_SENTENCE_ENCODER = (
    "sentence-transformers/all-MiniLM-L6-v2@c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
)
"""The encoder used where none is named; 22 million parameters, Apache-2.0, English."""

Pooling = Literal["mean", "cls"]


class Embedding(ComparingTool):
    """Cosine of sentence embeddings."""

    kind: ClassVar[str] = "embedding"
    head: ClassVar[Head] = "encode"

    def __init__(
        self,
        name: str = "embedding",
        model: str = DEFAULT_SENTENCE_ENCODER,
        *,
        pooling: Literal["auto", "mean", "cls"] = "auto",
        against: Against = "auto",
        engine: EngineName = "auto",
        device: str = "auto",
        batch_tokens: int = 8192,
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            model: A sentence encoder: a folder or a Hub id with a revision.
            pooling: How tokens become one vector; `auto` reads it from the folder, which means the
                mean where it says nothing.
            against: `references`, `source`, or `auto` for references where there are any and else
                the source.
            engine: `transformers`, `onnx`, or `auto`.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            batch_tokens: Most tokens in a batch, padding included.
            splitter: Finds sentences, where a text must be read in windows.
        """
        super().__init__(
            name,
            model,
            against=against,
            splitter=splitter,
            engine=engine,
            device=device,
            batch_tokens=batch_tokens,
        )
        self.pooling = pooling
        self.scale = (-1.0, 1.0)
        self.description = (
            "Likeness in topic and meaning of output and closest reference (the source where there is no reference): "
            "cosine of sentence embeddings, -1 to 1; higher is closer. Coarse: misses negation and small facts."
        )

    def settings(self) -> Mapping[str, object]:
        """Model and pooling."""
        return {**super().settings(), "pooling": self.pooling}

    async def compare(
        self, engine: Engine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement:
        """Return the highest cosine over targets."""
        pooling = await asyncio.to_thread(
            pooling_of, engine.files.folder, self.runner.label, self.pooling
        )
        judged, *others = await self._embed(engine, [output, *texts], pooling)
        return Measurement(
            value=max(float(judged @ other) for other in others), marks={"against": against}
        )

    async def _embed(self, engine: Engine, texts: list[str], pooling: Pooling) -> list[Array]:
        parts = await asyncio.to_thread(
            lambda: [windowed(engine, text, self.splitter) for text in texts]
        )
        answers = iter(
            await self.ask(engine, [encoding for part in parts for encoding in part.encodings])
        )
        return [pool([next(answers) for _ in part.encodings], pooling) for part in parts]


def pool(states: list[Array], pooling: Pooling) -> Array:
    """Return one vector of length 1 for a text that was read in windows.

    Args:
        states: Arrays of shape `(tokens, width)`, one per window, special tokens included.
        pooling: `mean` over the tokens of all windows, or the mean of the windows' first tokens.
    """
    rows = np.concatenate(states) if pooling == "mean" else np.stack([s[0] for s in states])
    return unit(rows.mean(axis=0))


def pooling_of(folder: Path, label: str, wanted: Literal["auto", "mean", "cls"]) -> Pooling:
    """Return how a sentence encoder pools, from the files that sentence-transformers writes beside it.

    Args:
        folder: The model's folder.
        label: What to call the model in an error.
        wanted: What the user asked for; `auto` asks the folder.

    Raises:
        ConfigurationError: It has layers after pooling, or pools in a way that is not known here.
    """
    modules = folder / "modules.json"
    if modules.is_file():
        kinds = [
            str(module["type"]).rpartition(".")[2] for module in json.loads(modules.read_bytes())
        ]
        if odd := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
            raise ConfigurationError(
                f"{label} has further layers ({', '.join(odd)}), which this tool does not run"
            )
    if wanted != "auto":
        return wanted
    config = folder / "1_Pooling" / "config.json"
    if not config.is_file():
        return "mean"
    said: dict[str, Any] = json.loads(config.read_bytes())
    if said.get("pooling_mode") in ("mean", "cls"):
        return "mean" if said["pooling_mode"] == "mean" else "cls"
    on = [key for key, value in said.items() if key.startswith("pooling_mode_") and value is True]
    if on == ["pooling_mode_mean_tokens"]:
        return "mean"
    if on == ["pooling_mode_cls_token"]:
        return "cls"
    raise ConfigurationError(
        f"{label} pools by {', '.join(on) or 'nothing known'}; known: mean and cls"
    )
