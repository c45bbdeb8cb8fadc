"""Ids that are reused from an earlier text are those of tokenizing the whole text."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="needs the extra llamacpp")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded_model import needs_embedded
from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.local.llamacpp import Loader, find_embedded
from textassay.runtime.backends.local.model import LocalRules
from textassay.runtime.backends.local.prefix_encoder import MAX_REMEMBERED, PrefixEncoder
from textassay.runtime.errors import RequestRefused
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


def outcome(encode, text):
    """Return the ids, or what was said in refusing."""
    try:
        return encode(text).tolist()
    except RequestRefused as refused:
        return str(refused)


class Counting:
    """A file's vocabulary that counts the characters it is asked to tokenize."""

    def __init__(self, weights) -> None:
        self._weights = weights
        self.characters = 0

    def __getattr__(self, name):
        return getattr(self._weights, name)

    def encode(self, text):
        self.characters += len(text)
        return self._weights.encode(text)


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
    opened = Loader(LocalRules("m", "error"), str(path), settings)()
    yield opened
    opened.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, st.integers(0, 400), st.integers(0, 5)), min_size=2, max_size=8))
def test_ids_are_those_of_the_whole_text(loaded, parts):
    """Whatever was tokenized before, and wherever two texts part."""
    encoder = PrefixEncoder(loaded.weights)
    assert encoder.has_borders
    asked = [""]
    for text, kept, which in parts:
        asked.append(asked[which % len(asked)][:kept] + text)
    for text in [*asked, *reversed(asked)]:
        assert outcome(encoder.encode, text) == outcome(loaded.weights.encode, text)


@settings(max_examples=40, deadline=None)
@given(texts, texts)
def test_text_after_a_prompt_is_tokenized_with_it(loaded, before, after):
    """A form behind a prompt has the ids that it has in the whole text."""
    prompt = loaded.tokenizer.prompt(ContinuationRequest(prompt=before, continuation="x"))
    assert np.array_equal(
        prompt.encode_with(after), [*loaded.weights.head, *loaded.weights.encode(before + after)]
    )


def test_criteria_of_a_source_cost_their_own_characters(loaded):
    """Sources that are asked about in turn are tokenized once each; the oldest are forgotten."""
    vocabulary = Counting(loaded.weights)
    encoder = PrefixEncoder(vocabulary)
    assert encoder.has_borders
    draw = random.Random(3)
    sources = [" ".join(draw.choices(["the", "summary", "is", "good"], k=300)) for _ in range(50)]
    for source in sources:
        encoder.encode(f"{source}\nRate it.")
    vocabulary.characters = 0
    for criterion in ("Is it fluent?", "Is it relevant?", "Is it coherent?", "Is it true?"):
        for source in sources:
            encoder.encode(f"{source}\n{criterion}")
    assert vocabulary.characters < 200 * 40
    for number in range(MAX_REMEMBERED + 10):
        encoder.encode(f"{number} {sources[0]}")
    assert len(encoder._encoded) == len(encoder._texts) == MAX_REMEMBERED


@pytest.mark.parametrize("piece", [b"e t", b"e ", "é ".encode()])
def test_a_vocabulary_that_crosses_a_border_has_none(loaded, piece):
    """Then every text is tokenized whole."""

    class Crossing(Counting):
        def piece(self, token):
            return piece if token == 300 else self._weights.piece(token)

    vocabulary = Crossing(loaded.weights)
    encoder = PrefixEncoder(vocabulary)
    assert not encoder.has_borders
    assert encoder.last_border("the summary is good") == 0
    text = "the summary is good " * 20
    encoder.encode(text)
    encoder.encode(text + "and fluent")
    assert vocabulary.characters == 2 * len(text) + len("and fluent")


def test_a_tokenizer_that_counts_words_is_found_out(loaded):
    """A vocabulary whose pieces look harmless is still tried."""

    class Odd(Counting):
        def encode(self, text):
            ids = super().encode(text)
            return ids if len(text) % 2 else ids[::-1]

    assert not PrefixEncoder(Odd(loaded.weights)).has_borders
