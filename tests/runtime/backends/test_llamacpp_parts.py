"""The parts of llama.cpp's backend that need no model: batches, sampling, grammar text, cutting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime.backends.local.json_grammar import json_grammar
from textassay.runtime.backends.local.llamacpp_engine import (
    MIN_LIMIT,
    MIN_ROWS,
    first_output,
    plan_batches,
    reusable,
)
from textassay.runtime.backends.local.model import LocalRules, fit_to_context
from textassay.runtime.backends.local.scoring import Sampler, nucleus
from textassay.runtime.errors import ConfigurationError, ContextTooLong
from textassay.runtime.model import ContinuationRequest


@given(st.data())
def test_no_batch_is_small_and_every_output_comes_once(data):
    """Batches cover what is not kept, stay within their limits, and hold at least eight rows and
    outputs."""
    length = data.draw(st.integers(1, 1500))
    first = data.draw(st.integers(0, length - 1))
    kept = reusable(data.draw(st.integers(0, length)), first, length)
    batch = data.draw(st.integers(MIN_LIMIT, 600))
    outputs = data.draw(st.integers(MIN_LIMIT, batch))
    chunks = plan_batches(kept, first, length, batch=batch, outputs=outputs)
    assert [c.start for c in chunks] == [kept, *[c.stop for c in chunks[:-1]]]
    assert chunks[-1].stop == length
    positions = [position for c in chunks for position in range(c.output, c.stop)]
    assert positions == list(range(first_output(first, length), length))
    assert first in positions
    for chunk in chunks:
        assert chunk.stop - chunk.start <= batch
        assert chunk.stop - chunk.output <= outputs
        if length >= MIN_ROWS:
            assert chunk.stop - chunk.start >= MIN_ROWS
            assert chunk.stop - chunk.output == 0 or chunk.stop - chunk.output >= MIN_ROWS


DEEP: dict[str, object] = {"type": "string"}
for _ in range(300):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "not a JSON type"),
        ({"type": "object", "properties": {"a": 3}}, "#/properties/a is 3"),
        ({"type": "object", "required": ["a"]}, "must list names"),
        ({"enum": []}, "at least one"),
        ({"$ref": "#/$defs/x"}, "does not exist"),
        ({"$ref": "https://example.org"}, "same schema"),
        ({"type": "string", "pattern": "a+"}, "pattern, which is not supported"),
        ({"allOf": [{"type": "string"}]}, "allOf"),
        ({"type": "integer", "minimum": 3}, "lower and an upper"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no number lies between"),
        ({"type": "number", "minimum": 0.5, "maximum": 2}, "whole and not negative"),
        ({"type": "integer", "minimum": True, "maximum": 2}, "is not a number"),
        ({"type": "array", "minItems": 2_000_000}, "from 0 to 1000"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "below minLength"),
        ({"const": float("nan")}, "not a JSON value"),
        (DEEP, "deep"),
    ],
)
def test_a_schema_that_a_grammar_cannot_keep_is_refused_by_name(schema, words):
    """The error names the place and what is wrong there."""
    with pytest.raises(ConfigurationError, match="JSON schema") as caught:
        json_grammar(schema)
    assert words in str(caught.value)


def test_bounds_become_the_numbers_between_them():
    """Integers are listed, and enum values are escaped twice: once for JSON, once for the
    grammar."""
    assert '"2" | "3" | "4"' in json_grammar(
        {"type": "integer", "minimum": 2, "exclusiveMaximum": 5}
    )
    assert '"\\"a\\\\\\"b\\""' in json_grammar({"enum": ['a"b']})


@given(
    st.lists(st.floats(0, 100, width=32), min_size=1, max_size=2000).filter(any),
    st.floats(0.01, 0.999),
)
def test_the_nucleus_is_that_of_a_full_sort(weights, top_p):
    """Whatever the number of candidates looked at first, and however many are equal."""
    row = np.array(weights, np.float32)
    order = np.argsort(-row, kind="stable")
    held = np.cumsum(row[order], dtype=np.float64)
    due = top_p * float(row.sum(dtype=np.float64))
    expected = order[: max(1, int((held - row[order] < due).sum()))]
    assert nucleus(row, top_p).tolist() == expected.tolist()


@pytest.mark.parametrize("top_p", [1.0, 0.6])
def test_picks_follow_the_probabilities(top_p):
    """Frequencies of 20,000 picks against softmax, cut to the nucleus; no pick outside of it."""
    row = np.log(np.array([0.05, 0.4, 0.25, 0.2, 0.1], np.float32))
    expected = (
        np.array([0.05, 0.4, 0.25, 0.2, 0.1]) if top_p == 1 else np.array([0, 0.4, 0.25, 0, 0])
    )
    sampler = Sampler(temperature=1.0, top_p=top_p, seed=(3, 0), grammar=None)
    counts = np.bincount([sampler.pick(row) for _ in range(20_000)], minlength=5)
    assert counts / 20_000 == pytest.approx(expected / expected.sum(), abs=0.015)


def test_a_tiny_temperature_picks_the_best():
    row = np.array([1.0, 3.0, 2.0], np.float32)
    for temperature in (1e-3, 1e-30, 1e-300):
        sampler = Sampler(temperature=temperature, top_p=0.9, seed=(1, 0), grammar=None)
        assert {sampler.pick(row) for _ in range(20)} == {1}


RULES = LocalRules("m", "source")
WORDS = st.text(st.sampled_from("ab\n") | st.characters(codec="utf-8"), min_size=1, max_size=50)


def asked(source: str) -> ContinuationRequest:
    return ContinuationRequest(prompt=f"«{source}»", continuation="x", truncatable=source)


def beginnings(source: str) -> list[str]:
    """What may be kept: what ends with a word, or in one that is longer than 40."""
    ends = [place for place in range(1, len(source)) if source[place].isspace()]
    inside = [p for p in range(len(source)) if not any(p - 40 <= end <= p for end in ends)]
    return [source[:place] for place in [*ends, *inside]]


@given(
    st.lists(WORDS, min_size=1, max_size=30).map(" ".join), st.integers(2, 200), st.integers(1, 9)
)
def test_the_longest_beginning_that_fits_is_kept(source, limit, dear):
    """Whatever characters weigh, so also where a guess from their mean is far off."""

    def length(text: str) -> int:
        return sum(dear if character in "a " else 1 for character in text)

    request = asked(source)
    tried: list[str] = []

    def plan(cut: ContinuationRequest) -> str:
        tried.append(cut.prompt)
        return cut.prompt

    if length(request.prompt) <= limit:
        assert fit_to_context(request, plan, length, limit=limit, rules=RULES) == (
            request.prompt,
            0,
        )
        return
    fitting = [f"«{kept}»" for kept in beginnings(source) if length(f"«{kept}»") <= limit]
    if not fitting:
        with pytest.raises(ContextTooLong, match="even without the source"):
            fit_to_context(request, plan, length, limit=limit, rules=RULES)
        return
    found, left_out = fit_to_context(request, plan, length, limit=limit, rules=RULES)
    assert found == max(fitting, key=len)
    assert left_out == length(request.prompt) - length(found)
    assert len(tried) == len(set(tried))


def test_prose_is_cut_with_few_tokenizations():
    """A bisection over the ends of 800 words."""
    source = " ".join(f"{'word' * (1 + number % 3)}{number}" for number in range(800))
    tried: list[str] = []

    def plan(cut: ContinuationRequest) -> str:
        tried.append(cut.prompt)
        return cut.prompt

    def length(text: str) -> int:
        return len(text.split()) + len(text) // 9

    found, _ = fit_to_context(asked(source), plan, length, limit=700, rules=RULES)
    assert 695 < length(found) <= 700
    assert len(tried) <= 12
