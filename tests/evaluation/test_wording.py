"""Errors name parameters as Python does, and flags on the command line, from one message."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import pytest

import textassay as package
from tests.cli.harness import textassay, write_examples
from textassay import connect, evaluate
from textassay.cli.exits import _typed
from textassay.runtime.errors import (
    ConfigurationError,
    as_python,
    as_typed,
    option,
    parameter,
    quoted,
)

ROWS = [{"output": "x"}]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("expected", "here", "typed"),
    [
        ({"model": "direct/x"}, "needs api_base=,", "needs --api-base,"),
        (
            {},
            "give one with model=NAME or model={'scorer': NAME}",
            "--model NAME or --model scorer=NAME",
        ),
    ],
)
async def test_each_reads_its_own_names(tmp_path, expected, here, typed):
    """The same mistake, made in Python and typed."""
    with pytest.raises(ConfigurationError) as refused:
        await evaluate(ROWS, method="llm-score", **expected)
    assert here in str(refused.value)
    assert "--" not in str(refused.value)
    flags = [part for name, value in expected.items() for part in (f"--{name}", value)]
    data = write_examples(tmp_path / "data.jsonl", 1)
    command = ("score", data, "--method", "llm-score", *flags, "--dry-run")
    shown = (await asyncio.to_thread(textassay, *command)).err  # it has a loop of its own
    assert typed in shown
    assert here not in shown


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


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# of other programs, and commands that are quoted whole
OTHERS = re.compile(
    r"pip install|xcode-select|inspect log|textassay (score|resume|calibrate|merge|tree)"
    r"|--textassay|^ --revision $|^--of-"
)
PACKAGE = Path(package.__file__).parent
COMMAND_LINE = ("cli", "demo", "pytest_plugin")


def texts_of(path):
    """The strings of a module that are no docstrings, those of one message joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings, of attributes too
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            skipped = {id(k.value) for k in node.keywords if k.arg == "typed"}
            documented |= skipped
        if id(node) in documented:
            continue
        if isinstance(node, ast.JoinedStr):
            documented |= {id(part) for part in node.values}
            yield "".join(str(p.value) for p in node.values if isinstance(p, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in COMMAND_LINE
    ],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_the_library_names_no_flags(path):
    """Messages mark parameters with `parameter`, which the command line turns into flags."""
    named = [text for text in texts_of(path) if FLAG.search(text) and not OTHERS.search(text)]
    assert not named


def test_an_error_that_quotes_another_keeps_its_marks():
    """So that the command line reads flags in both."""
    inner = ConfigurationError(f"give {parameter('timeout', '9')}")
    outer = ConfigurationError(f"stopped: {quoted(inner)}, {option('form', 'letters')}")
    assert str(outer) == "stopped: give timeout=9, options={'form': 'letters'}"
    assert outer.typed(_typed) == "stopped: give --set timeout=9, --set form=letters"
