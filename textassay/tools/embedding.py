"""Similarity of two texts: cosine of their embeddings, by a sentence encoder or static vectors.

Whole texts, or sentence by sentence: the best counterpart of each sentence, averaged. Whole-text
cosines say little about summaries; sentence-wise ones agree with people about twice as well
(docs/tools.md has the figures). Reads how tokens are pooled, and how long an input may be, from the
folder, as sentence-transformers writes it, and refuses folders with further layers that it would
have to leave out.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines import PACKAGED_VECTORS, Array, Engine, Head, StaticEngine
from textassay.tools.model_tool import ComparingOptions, ComparingTool, f1_score, unit, windowed
from textassay.tools.tool import Abstention, Measurement

DEFAULT_SENTENCE_ENCODER = (
    "sentence-transformers/all-MiniLM-L6-v2@c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
)
"""The encoder used if none is named; 22 million parameters, Apache-2.0, English. With
`engine=static` it is the vectors of the package wordllama."""

MAX_VECTORS = 8192
"""Texts, or sentences, whose vectors a tool remembers: sources come back with every system."""

Pooling = Literal["mean", "cls"]
Per = Literal["text", "sentence"]
"""What is embedded: whole texts, or their sentences."""

SentenceMeasure = Literal["p", "r", "f", "min"]
"""Of sentence-wise cosines: mean over the output's sentences of the best one of the other text
(precision), the same the other way round (recall), their harmonic mean, or the output's sentence
that is supported least."""


class Embedding(ComparingTool):
    """Cosine of sentence embeddings.

    Args:
        model: A sentence encoder: a folder, a Hub id with a revision, or `wordllama`; by
            default `DEFAULT_SENTENCE_ENCODER`, with `engine="static"` `wordllama`.
        per: Whether whole texts are compared, or each sentence with its best counterpart.
        measure: With `per="sentence"`: `p` (default), `r`, `f` or `min`, see
            `SentenceMeasure`.
        pooling: How tokens become one vector; `auto` reads it from the folder, which means the
            mean if it says nothing.

    Raises:
        ConfigurationError: `measure` is given, and whole texts are compared.
    """

    kind: ClassVar[str] = "embedding"
    head: ClassVar[Head] = "encode"

    def __init__(
        self,
        name: str = "embedding",
        model: str | None = None,
        *,
        per: Per = "text",
        measure: SentenceMeasure | None = None,
        pooling: Literal["auto", "mean", "cls"] = "auto",
        **options: Unpack[ComparingOptions],
    ) -> None:
        is_static = options.get("engine") == "static"
        default = PACKAGED_VECTORS if is_static else DEFAULT_SENTENCE_ENCODER
        super().__init__(name, model or default, **options)
        if measure is not None and per == "text":
            raise ConfigurationError(
                f"{name}: measure={measure} needs per=sentence; whole texts have one cosine"
            )
        self.pooling, self.per, self.measure_ = pooling, per, measure or "p"
        self._vectors: dict[str, Array | None] = {}
        self.scale = (-1.0, 1.0)
        other = {
            "auto": "closest reference (the source if there is no reference)",
            "references": "closest reference",
            "source": "the source",
            "context": "the context",
        }[self.against]
        self.description = _description(per, self.measure_, other)

    def settings(self) -> Mapping[str, object]:
        """Model, pooling, and what is compared."""
        known = {**super().settings(), "pooling": self.pooling}
        if self.per == "text":
            return known
        return {
            **known,
            "per": self.per,
            "measure": self.measure_,
            "splitter": self.splitter.signature,
        }

    async def compare(
        self, engine: Engine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Return the highest value over targets."""
        if self.per == "sentence":
            return await self._compare_sentences(engine, output, texts, against)
        vectors = await self._embed(engine, [output, *texts])
        if vectors[0] is None or not any(other is not None for other in vectors[1:]):
            return self._no_tokens()
        return Measurement(
            value=max(float(vectors[0] @ other) for other in vectors[1:] if other is not None),
            signature_parts={"against": against},
        )

    async def _compare_sentences(
        self, engine: Engine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Match the output's sentences with those of every target and keep the highest value."""
        split = [self.splitter.split(text) for text in (output, *texts)]
        vectors = iter(await self._embed(engine, [s for sentences in split for s in sentences]))
        embedded = [
            [(s, vector) for s in sentences if (vector := next(vectors)) is not None]
            for sentences in split
        ]
        mine, others = embedded[0], [other for other in embedded[1:] if other]
        if not mine or not others:
            return self._no_tokens()
        tables = [
            np.stack([v for _, v in mine]) @ np.stack([v for _, v in other]).T for other in others
        ]
        values = [sentence_value(table, self.measure_) for table in tables]
        best = max(range(len(values)), key=values.__getitem__)
        table, other = tables[best], others[best]
        return Measurement(
            value=values[best],
            explanation=f"{len(mine)} sentences against {len(other)}",
            evidence=tuple(
                {
                    "text": sentence,
                    "cosine": float(table[i].max()),
                    "closest": other[int(table[i].argmax())][0],
                }
                for i, (sentence, _) in enumerate(mine)
            ),
            signature_parts={"against": against},
        )

    def _no_tokens(self) -> Abstention:
        return Abstention(
            type="NoTokens",
            message=f"{self.name}: the model's vocabulary has no word of one of the texts",
        )

    async def _embed(self, engine: Engine, texts: Sequence[str]) -> list[Array | None]:
        """Return a vector of length 1 for each text, `None` for one without any known token."""
        known = {text: self._vectors[text] for text in texts if text in self._vectors}
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        if fresh:
            known.update(zip(fresh, await self._embed_fresh(engine, fresh), strict=True))
        for text, vector in known.items():
            # Taken out and put in again, so that the first of the dict is the one unused for
            # longest.
            self._vectors.pop(text, None)
            self._vectors[text] = vector
        while len(self._vectors) > MAX_VECTORS:
            del self._vectors[next(iter(self._vectors))]
        return [known[text] for text in texts]

    async def _embed_fresh(self, engine: Engine, texts: Sequence[str]) -> list[Array | None]:
        if isinstance(engine, StaticEngine):
            # a look into a table is cheaper than a place in a queue
            return await asyncio.to_thread(lambda: [static_vector(engine, text) for text in texts])
        folder = engine.files.folder
        pooling, longest = await asyncio.to_thread(
            lambda: (read_pooling(folder, engine.label, self.pooling), max_seq_length(folder))
        )
        parts = await asyncio.to_thread(
            lambda: [windowed(engine, text, self.splitter, longest=longest) for text in texts]
        )
        answers = iter(await self.ask(engine, [encoding for part in parts for encoding in part]))
        states = [[next(answers) for _ in part] for part in parts]
        return [pool(one, pooling) if any(map(len, one)) else None for one in states]


def static_vector(engine: StaticEngine, text: str) -> Array | None:
    """Return the mean of the tokens' vectors, at length 1; `None` if the table knows no token."""
    encoding = engine.tokenizer.encode(text)
    return pool(engine.evaluate([encoding]), "mean") if len(encoding) else None


def sentence_value(cosines: NDArray[np.float32], measure: SentenceMeasure) -> float:
    """Return one value for cosines, shape `(sentences of the output, sentences of the other)`."""
    forth, back = (cosines.max(axis=axis).astype(np.float64) for axis in (1, 0))
    if measure == "min":
        return float(forth.min())
    precision, recall = math.fsum(forth) / len(forth), math.fsum(back) / len(back)
    return {"p": precision, "r": recall, "f": f1_score(precision, recall)}[measure]


def max_seq_length(folder: Path) -> int | None:
    """Return the longest input that a sentence encoder was trained for, special tokens included."""
    path = folder / "sentence_bert_config.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_bytes()).get("max_seq_length")
    except (ValueError, AttributeError) as error:
        raise ConfigurationError(f"{str(path)!r} is not a JSON object: {error}") from None
    if content is None:
        return None
    if not isinstance(content, int) or content < 3:
        raise ConfigurationError(f"{str(path)!r}: max_seq_length cannot be {content!r}")
    return content


def _description(per: Per, measure: SentenceMeasure, other: str) -> str:
    if per == "text":
        return (
            f"Likeness in topic and meaning of output and {other}: cosine of sentence embeddings,"
            " -1 to 1; higher is closer. Coarse: misses negation and small facts."
        )
    what = {
        "p": f"how close each sentence of the output is to the nearest one of {other}, on average",
        "r": f"how close each sentence of {other} is to the nearest one of the output, on average",
        "f": f"harmonic mean of how close the sentences of output and {other} are to their nearest",
        "min": f"how close the output's least supported sentence is to the nearest one of {other}",
    }[measure]
    return (
        f"Sentence-wise likeness in meaning: {what}; cosine of embeddings, -1 to 1; higher is"
        " closer. Misses negation and small facts."
    )


def pool(states: list[Array], pooling: Pooling) -> Array:
    """Return the mean, at length 1, of all tokens of windows, or of their first tokens (`cls`)."""
    rows = np.concatenate(states) if pooling == "mean" else np.stack([s[0] for s in states])
    return unit(rows.mean(axis=0))


def read_pooling(folder: Path, label: str, requested: Literal["auto", "mean", "cls"]) -> Pooling:
    """Return how a sentence encoder pools, from the files of sentence-transformers beside it."""
    modules = folder / "modules.json"
    if modules.is_file():
        kinds = [
            str(module["type"]).rpartition(".")[2] for module in json.loads(modules.read_bytes())
        ]
        # A dense layer after pooling, say: without it the vectors would be others than the model's.
        if odd := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
            raise ConfigurationError(
                f"{label} has further layers ({', '.join(odd)}), which this tool does not run"
            )
    if requested != "auto":
        return requested
    # Where sentence-transformers writes it; transformers' own files say nothing of pooling.
    config = folder / "1_Pooling" / "config.json"
    if not config.is_file():
        return "mean"
    found: dict[str, Any] = json.loads(config.read_bytes())
    # Older versions of sentence-transformers wrote one flag for each way of pooling.
    on = [name for name in found if name.startswith("pooling_mode_") and found[name] is True]
    if found.get("pooling_mode") == "mean" or on == ["pooling_mode_mean_tokens"]:
        return "mean"
    if found.get("pooling_mode") == "cls" or on == ["pooling_mode_cls_token"]:
        return "cls"
    raise ConfigurationError(
        f"{label} pools by {', '.join(on) or 'nothing known'}; known: mean and cls"
    )
