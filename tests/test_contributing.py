"""The recipes of CONTRIBUTING work as printed: a method, a tool, a backend and two settings."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Annotated, Any

import pytest

import textassay.methods
from tests.guides.running import blocks_of
from textassay import Example, Settings
from textassay.runtime.settings import LIMITS, Flag, Positive
from textassay.testing import check_model

BLOCKS = blocks_of(Path(__file__).parents[1] / "CONTRIBUTING.md")

pytestmark = pytest.mark.asyncio


def block(words: str, language: str = "python") -> str:
    """Return the one block of the page that has these words."""
    (found,) = (b.text for b in BLOCKS if b.language == language and words in b.text)
    return found


def defined(source: str, **given: Any) -> dict[str, Any]:
    """Return the names that a module with this source defines."""
    names: dict[str, Any] = {"__name__": "printed", **given}
    exec(compile(source, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    return names


async def test_no_line_of_code_is_too_long_for_the_linter():
    lines = [line for one in BLOCKS if one.language == "python" for line in one.text.splitlines()]
    assert lines
    assert [line for line in lines if len(line) > 100] == []


async def test_the_method_passes_its_test(tmp_path, monkeypatch):
    prompt = tmp_path / "my_score.jinja"
    prompt.write_text(block("_material.jinja", "jinja"), encoding="utf-8")
    method = defined(block("class MyScore"))["MyScore"]
    # stands for the line in METHODS and for the folder of prompts
    method.prompt = str(prompt)
    monkeypatch.setitem(textassay.methods.METHODS, method.name, method)
    await defined(block("async def test_"))["test_the_rating_is_read"]()


async def test_the_tool_measures_and_abstains():
    tool = defined(block("class Capitals"))["Capitals"]()
    assert (await tool.score(Example(id="x", output="Ab"))).value == 0.5
    assert (await tool.score(Example(id="x", output="12"))).outcome == "abstained"


async def test_the_backend_passes_all_checks():
    await check_model(defined(block("class MyModel"))["MyModel"])


async def test_the_settings_are_a_flag_and_a_key():
    fields = indent(dedent(block("patience: Positive")), "    ")
    extended = defined(
        f"class Extended(Settings):\n{fields}",
        Settings=Settings,
        Positive=Positive,
        LIMITS=LIMITS,
        Flag=Flag,
        Annotated=Annotated,
    )["Extended"]
    known = extended.model_fields
    assert any(isinstance(mark, Flag) for mark in known["brisk"].metadata)
    assert not any(isinstance(mark, Flag) for mark in known["patience"].metadata)
    assert extended(patience=2, brisk=True).brisk is True
