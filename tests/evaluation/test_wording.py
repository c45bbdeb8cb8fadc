"""Errors name parameters as Python does, and flags on the command line, from one message."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.harness import textassay, write_examples
from textassay import connect, evaluate
from textassay.runtime.errors import ConfigurationError, as_python, as_typed, parameter

ROWS = [{"output": "x"}]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("wanted", "here", "typed"),
    [
        ({"model": "direct/x"}, "needs api_base=,", "needs --api-base,"),
        (
            {},
            "give one with model=NAME or model={'scorer': NAME}",
            "--model NAME or --model scorer=NAME",
        ),
    ],
)
async def test_each_reads_its_own_names(tmp_path, wanted, here, typed):
    """The same mistake, made in Python and typed."""
    with pytest.raises(ConfigurationError) as refused:
        await evaluate(ROWS, method="llm-score", **wanted)
    assert here in str(refused.value)
    assert "--" not in str(refused.value)
    flags = [part for name, value in wanted.items() for part in (f"--{name}", value)]
    data = write_examples(tmp_path / "data.jsonl", 1)
    command = ("score", data, "--method", "llm-score", *flags, "--dry-run")
    told = (await asyncio.to_thread(textassay, *command)).err  # it has a loop of its own
    assert typed in told
    assert here not in told


def test_a_key_that_is_not_set_is_named_as_the_parameter():
    """Not as a flag."""
    with pytest.raises(ConfigurationError, match=r"^api_key_env= names NO_SUCH_KEY"):
        connect("direct/x", api_base="http://127.0.0.1:9/v1", api_key_env="NO_SUCH_KEY")


def test_texts_of_others_are_left_alone():
    """Only what was marked is translated."""
    text = "the model said n=20 and --price"
    assert as_python(text) == as_typed(text, str.upper) == text
    marked = f"use {parameter('price', '(in, out)', typed='IN,OUT')}!"
    assert as_python(marked) == "use price=(in, out)!"
    assert as_typed(marked, lambda name: f"--{name}") == "use --price IN,OUT!"
