"""Errors name parameters as Python does, and flags on the command line, from one message."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import textassay as package
from tests.cli.harness import textassay, write_examples
from textassay import connect, evaluate
from textassay.cli.exits import PARAMETERS, with_flags
from textassay.runtime.errors import ConfigurationError

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


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("max_cost= cannot be enforced", "--max-cost cannot be enforced"),
        ("give price=(IN, OUT), or", "give --price IN,OUT, or"),
        ("a limit (timeout=SECONDS)", "a limit (--set timeout=SECONDS)"),
        ("leave out seed=: it", "leave out --seed: it"),
        ("leave out batch=True.", "leave out --batch."),
        ("use n=20 or tools=nli,bleurt", "use --n 20 or --tools nli,bleurt"),
        ("with cache='/tmp/a b'", 'with --cache "/tmp/a b"'),
        ("declare missing=('(none)',)", "declare --missing (none)"),
        ("options={'form': 'letters'}", "--set form=letters"),
        ("options={'depth': 2}?", "--set depth=2?"),
        ("options={'ranges': {'bleu': [0, 1]}}", "--set ranges='{bleu = [0, 1]}'"),
        ('fields={NAME: "meta"} or so', "--field NAME=meta or so"),
        ("models={'a': NAME, 'b': NAME}", "--model a=NAME --model b=NAME"),
        ("--price=3, price==3 and /data/seed=3/x", "--price=3, price==3 and /data/seed=3/x"),
        (
            "leave steps=none and 'seed=3', or --set n=2",
            "leave steps=none and 'seed=3', or --set n=2",
        ),
        (
            "answered 400: “use n=20 or seed=3” (use n=20)",
            "answered 400: “use n=20 or seed=3” (use --n 20)",
        ),
        ("cut off: “ max_cost=5 and seed=", "cut off: “ max_cost=5 and seed="),
        ("said ' n=20' (\"it's n=2\"), so n=20", "said ' n=20' (\"it's n=2\"), so --n 20"),
        ("unclosed options={'a: 1", "unclosed --set {'a: 1"),
        ("no Python: price=(1 2)", "no Python: price=(1 2)"),
    ],
)
def test_the_command_line_prints_flags_for_parameters(python, typed):
    """Values, too, are written as they are typed."""
    assert with_flags(python) == typed


@given(st.text())
def test_texts_without_parameters_are_left_alone(text):
    """Whatever else they hold."""
    named = any(f"{name}=" in text for name in PARAMETERS)
    assert named or with_flags(text) == text


@given(st.sampled_from(sorted(PARAMETERS)), st.text("'\"(){}[],:=* ab\\\0", max_size=30))
def test_any_text_may_follow_a_parameter(name, text):
    """A server's words are no Python."""
    assert with_flags(f"{name}={text}")


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
    """Messages name parameters as Python does; the command line turns them into flags."""
    named = [text for text in texts_of(path) if FLAG.search(text) and not OTHERS.search(text)]
    assert not named
