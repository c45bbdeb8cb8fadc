"""A text cut at a border has the ids of the whole text."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="needs the extra llamacpp")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded_model import needs_embedded
from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.local.llamacpp import Loader, find_embedded
from textassay.runtime.backends.local.model import Rules
from textassay.runtime.backends.local.tokens import Borders
from textassay.runtime.model import ContinuationRequest
from textassay.runtime.settings import LocalSettings

# fmt: off
WORDS = [
    "the summary is good", "don't", "isn't", "1234567", "3.14", "e.g.", "“quoted”", "—", "...", "x",
    "кошка и собака", "straße über", "中文字", "naïve", "İstanbul", "😀", "a\u0301b", "▁", "\u3000",
    "\xa0", "\n", "\n\n", "\t", "  ", "   ", " ", "", "<|end|>", "<s>", "http://a.b/c?d=e",
    "camelCase", "\x00",
]
# fmt: on
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=12), min_size=1, max_size=40).map(
    " ".join
)


class Changed:
    """A file's vocabulary with another piece or other ids."""

    def __init__(self, weights) -> None:
        self._weights = weights

    def __getattr__(self, name):
        return getattr(self._weights, name)


@pytest.fixture(
    scope="module", params=["bpe", "spm", pytest.param("embedded", marks=needs_embedded)]
)
def loaded(request, tmp_path_factory):
    """A file of each kind of vocabulary."""
    if request.param == "embedded":
        path = find_embedded()
    else:
        shape = Shape(tokenizer=request.param, vocabulary=2000, bos=True)
        path = write_model(tmp_path_factory.mktemp("gguf") / "model.gguf", shape).path
    settings = LocalSettings(n_gpu_layers=0, threads=1)
    opened = Loader(Rules("m", "error"), str(path), settings)()
    yield opened
    opened.close()


@settings(max_examples=40, deadline=None)
@given(texts, st.integers(0, 400))
def test_both_parts_have_the_ids_of_the_whole(loaded, text, length):
    """Wherever a border is."""
    borders, encode = Borders(loaded.weights), loaded.weights.encode
    assert borders.exist
    border = borders.last(text[:length])
    if border:
        parts = [encode(text[:border]), encode(borders.after(text, border))]
        assert np.array_equal(np.concatenate(parts), encode(text))


@settings(max_examples=40, deadline=None)
@given(texts, texts)
def test_what_follows_a_prompt_is_tokenized_with_it(loaded, before, after):
    """A form behind a prompt has the ids that it has in the whole text."""
    prompt = loaded.tokenizer.prompt(ContinuationRequest(prompt=before, continuation="x"))
    head = [loaded.weights.bos] if loaded.weights.adds_bos else []
    assert np.array_equal(
        prompt.followed_by(after), [*head, *loaded.weights.encode(before + after)]
    )


@pytest.mark.parametrize("piece", [b"e t", b"e ", "é ".encode()])
def test_a_vocabulary_that_crosses_a_border_has_none(loaded, piece):
    """Then a text is never cut."""

    class Crossing(Changed):
        def piece(self, token):
            return piece if token == 300 else self._weights.piece(token)

    borders = Borders(Crossing(loaded.weights))
    assert not borders.exist
    assert borders.last("the summary is good") == 0


def test_a_tokenizer_that_counts_words_is_found_out(loaded):
    """A vocabulary whose pieces look harmless is still tried."""

    class Odd(Changed):
        def encode(self, text):
            ids = self._weights.encode(text)
            return ids if len(text) % 2 else ids[::-1]

    assert not Borders(Odd(loaded.weights)).exist
