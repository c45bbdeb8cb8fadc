"""The table of docs/methods.md: each method is built alike by its flags and by its arguments."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from textassay import ScriptedModel
from textassay.cli import arguments
from textassay.methods import METHODS, build
from textassay.runtime.model import Capabilities

DOCS = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
ROWS = re.findall(r"(?m)^\| `([\w-]+)` \| `(--method [^`]+)` \| `(method=[^`]+)` \|$", DOCS)


def judge(name: str) -> ScriptedModel:
    able = Capabilities(n=True, logprobs=True, choices=True, continuation=True)
    return ScriptedModel([], name=name, capabilities=able)


def test_every_method_has_a_row():
    assert [name for name, _, _ in ROWS] == list(METHODS)


@pytest.mark.parametrize(("name", "flags", "given"), ROWS)
def test_flags_and_arguments_mean_the_same(name, flags, given):
    """Each flag has its argument, and the method takes them."""
    scope = {"judge": judge("A"), "other": judge("B")}
    called = eval(f"dict({given})", scope)
    words = shlex.split(flags)
    typed = dict[str, list[str]]()
    for flag, value in zip(words[::2], words[1::2], strict=True):
        typed.setdefault(flag, []).append(value)
    options = arguments.settings(typed.get("--set", ()))
    if "--n" in typed:
        options["n"] = int(typed["--n"][0])
    assert typed["--method"] == [called["method"]] == [name]
    assert options == called.get("options", {})
    assert "".join(typed.get("--tools", ())) == ",".join(called.get("tools", ()))
    model = called.get("model", scope["judge"])
    if "--model" in typed:
        assert arguments.models(typed["--model"]) == {role: m.name for role, m in model.items()}
    build(name, model, task="summarization", options=called.get("options"),
          tools=called.get("tools", ()))  # fmt: skip
