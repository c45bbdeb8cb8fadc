"""Sentences by NLTK's Punkt model for English, as several papers cut them.

Needs the extra `nltk` and its data.
"""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import version
from typing import Any

from textassay.runtime.errors import ConfigurationError


class NltkSplitter:
    """Splits as `nltk.sent_tokenize` does.

    Raises:
        ConfigurationError: NLTK or its data `punkt_tab` is missing.
    """

    def __init__(self) -> None:
        """Load the model, so that missing data is an error before any model is called."""
        self._model = self._load()

    @cached_property
    def signature(self) -> str:
        """`nltk-` with NLTK's version."""
        return f"nltk-{version('nltk')}"

    def split(self, text: str) -> list[str]:
        """Return the sentences of a text; see `SentenceSplitter`."""
        sentences: list[str] = self._model.tokenize(text)
        return [stripped for sentence in sentences if (stripped := sentence.strip())]

    @staticmethod
    def _load() -> Any:
        try:
            from nltk.tokenize import PunktTokenizer
        except ImportError as error:
            raise ConfigurationError(
                "sentences=nltk needs NLTK: pip install 'textassay[nltk]'"
            ) from error
        try:
            return PunktTokenizer("english")
        except LookupError as error:
            raise ConfigurationError(
                "sentences=nltk needs NLTK's data: python -m nltk.downloader punkt_tab"
            ) from error
