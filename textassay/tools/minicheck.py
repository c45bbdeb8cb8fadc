"""MiniCheck (Tang et al. 2024, arXiv 2404.10774): does a document support a claim?

The models are trained on single claims against chunks of a document; the best chunk counts. Their
inputs are one text with an end mark between document and claim, not the usual pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.engine import Array, Encoding, Engine, EngineName, labels
from textassay.tools.nli import NLI, softmax_at
from textassay.tools.sentences import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.unieval import p_yes

DEFAULT_MINICHECK = "lytang/MiniCheck-DeBERTa-v3-Large"
"""The model used if none is named."""
SUPPORTED, UNSUPPORTED = "1", "0"
"""Answers of the encoder-decoder model."""


class MiniCheck(NLI):
    """Probability that the source supports the output, sentence by sentence."""

    kind: ClassVar[str] = "minicheck"
    measures: ClassVar[str] = "support"

    def __init__(
        self,
        name: str = "minicheck",
        model: str = DEFAULT_MINICHECK,
        *,
        reads: Literal["labels", "answer"] = "labels",
        window_tokens: int = 400,
        engine: EngineName = "auto",
        device: str = "auto",
        batch_tokens: int = 8192,
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            model: A folder or a Hub id with a revision: a classifier of two labels, or an
                encoder-decoder.
            reads: Whether the model is a classifier (RoBERTa, DeBERTa) or answers with 1 or 0
                (Flan-T5).
            window_tokens: Longest chunk of the source.
            engine: `transformers`, `onnx`, or `auto`; an encoder-decoder runs on transformers.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            batch_tokens: Most tokens in a batch, padding included.
            splitter: Finds sentences.
        """
        super().__init__(
            name,
            model,
            window="tokens",
            window_tokens=window_tokens,
            overlap=0,
            engine="transformers" if reads == "answer" else engine,
            device=device,
            batch_tokens=batch_tokens,
            splitter=splitter,
        )
        self.reads = reads
        if reads == "answer":
            # on the instance, since it depends on the model and not on the kind of tool
            self.head = "answer"  # type: ignore[misc]
        self.description = (
            "Probability, 0 to 1, that the source (fact and conversation in dialogue) supports what"
            " the output says, by a model trained on claims and documents; the best chunk of the"
            " source for each output sentence, averaged over sentences. Low: contradicted or made"
            " up."
        )

    def settings(self) -> Mapping[str, object]:
        """Model, windows and what is read."""
        return {**super().settings(), "reads": self.reads}

    def reader(self, engine: Engine) -> Callable[[Array], float]:
        """Return what turns a model's logits into the probability of support.

        Raises:
            ConfigurationError: The model does not have two labels, or does not know the answers.
        """
        label = self.runner.label
        if self.reads == "answer":
            # "0" alone may be two tokens, of which the first is read as in the authors' code
            yes, no = (engine.tokenizer.encode_plain(word) for word in (SUPPORTED, UNSUPPORTED))
            unknown = engine.tokenizer.unknown
            if not yes or not no or unknown in (yes[0], no[0]) or yes[0] == no[0]:
                raise ConfigurationError(
                    f"the vocabulary of {label} does not distinguish 1 from 0, so it is not a "
                    "MiniCheck model"
                )
            return lambda logits: p_yes(float(logits[yes[0]]), float(logits[no[0]]))
        known = labels(engine.config)
        # a config.json without labels stands for transformers' default, LABEL_0 and LABEL_1
        if known and len(known) != 2:
            names = ", ".join(known.values())
            raise ConfigurationError(
                f"{label} does not have two labels (it has {names}), so it is not a MiniCheck "
                "classifier; an NLI model goes with the tool nli, MiniCheck-Flan-T5 with "
                "reads=answer"
            )
        return lambda logits: softmax_at(logits, 1)

    def encode(self, engine: Engine, premise: str, hypothesis: str) -> Encoding:
        """Return document and claim as one text with an end mark between them."""
        tokenizer = engine.tokenizer
        claim = tokenizer.encode_plain(hypothesis)
        if self.reads == "answer":
            end = engine.config.get("eos_token_id")
            if not isinstance(end, int):
                raise ConfigurationError(f"config.json of {self.runner.label} has no eos_token_id")
            ids = [*tokenizer.encode_plain(f"predict: {premise}"), end, *claim, end]
        else:
            # [CLS] document [SEP], then claim [SEP] in the same segment
            first = tokenizer.encode(premise).ids
            ids = [*first, *claim, first[-1]]
        return Encoding(tuple(ids), (0,) * len(ids), (0,) * len(ids))
