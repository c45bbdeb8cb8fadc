"""What a built-in method consists of, as CONTRIBUTING lists it: one message says all that is
missing."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from textassay import ScriptedModel
from textassay.agents.prompt_template import IN_SENTENCES
from textassay.cli.flags import read_models, read_set
from textassay.methods import METHODS, PromptMethod, build
from textassay.methods.by_name import TOOLS
from textassay.methods.method import CheckedOptions, PromptOptions, RatingOptions
from textassay.runtime.model import Capabilities

ROOT = Path(__file__).parents[2]
PROMPTS = ROOT / "textassay" / "prompts"
TABLES = ("On the command line and in Python", "What each costs")
"""Sections of docs/methods.md whose tables have a row for each method."""


def text(path: str) -> str:
    """Return the text of a file of the project."""
    return (ROOT / path).read_text(encoding="utf-8")


def undocumented(options: type[CheckedOptions]) -> list[str]:
    """Return the options that no string literal below their field describes."""
    source = "".join(
        inspect.getsource(base)
        for base in options.__mro__
        if base.__module__.startswith("textassay")
    )
    described = set(
        re.findall(
            r'(?m)^    (\w+): .*(?:\n(?! {4}\w+:| {4}"""| {4}@| {4}def).*)*\n    """', source
        )
    )
    return sorted(set(options.model_fields) - described)


def unlisted(method: Any) -> list[str]:
    """Return the options of a method's own that its section of docs/methods.md does not name."""
    shared = {*RatingOptions.model_fields, *PromptOptions.model_fields}
    section = text("docs/methods.md").partition(f"\n## `{method.name}`\n")[2].partition("\n## ")[0]
    own = sorted(set(method.Options.model_fields) - shared)
    return [name for name in own if f"`{name}`" not in section and f"{name}=" not in section]


def knows_sentences(name: str, known: Collection[str] = IN_SENTENCES) -> bool:
    """Return whether a prompt that names its aspect inside a sentence is known to do so."""
    prompt = PROMPTS / f"{name}.jinja"
    words = prompt.read_text("utf-8") if prompt.is_file() else ""
    return name in known or not re.search(r"[a-z] \{\{ aspect\.name \}\}", words)


def missing(method: Any) -> list[str]:
    """Return what a method lacks, each a file with what belongs there."""
    name, prompt = method.name, PROMPTS / f"{method.prompt}.jinja"
    docs, story = text("docs/methods.md"), inspect.getdoc(method) or ""
    table, costs = (docs.partition(f"\n## {title}\n")[2].partition("\n## ")[0] for title in TABLES)
    row = f"\n| `{name}` |"
    source = Path(inspect.getfile(method))
    source = source.relative_to(ROOT) if source.is_relative_to(ROOT) else source
    tests = [p for p in (ROOT / "tests/methods").glob("test_*.py") if p.name != Path(__file__).name]
    expected = {
        f"{source}: a docstring with the source (arXiv ... or ours)": bool(
            re.search(r"arXiv|\b[Oo]urs\b|CoAScore, section", story)
        ),
        f"{source}: `Options`, each with a line on what it does": not undocumented(method.Options),
        f"textassay/prompts/{prompt.name}: a first line {{# paper and section, or ours #}}": (
            prompt.is_file() and prompt.read_text(encoding="utf-8").startswith("{#")
        ),
        f"textassay/agents/prompt_template.py: {method.prompt!r} in IN_SENTENCES": knows_sentences(
            method.prompt
        ),
        "textassay/methods/by_name.py: a line in METHODS": METHODS.get(name) is method,
        f"docs/methods.md: a section that names `{name}`": bool(
            re.search(rf"(?m)^#+ .*`{re.escape(name)}`", docs)
        ),
        f"docs/methods.md: the options {unlisted(method)} in that section": not unlisted(method),
        f"docs/methods.md: the row of `{name}` under {TABLES[0]!r}": row in table,
        f"docs/methods.md: the row of `{name}` under {TABLES[1]!r} (python -m "
        "benchmarks.method_costs)": row in costs,
        f"docs/decision-models.md: `{name}` in the table under 'Methods'": bool(
            re.search(rf"(?m)^\| .*`{re.escape(name)}`", text("docs/decision-models.md"))
        ),
        f"README.md: `{name}` among the methods": f"`{name}`" in text("README.md"),
        "tests/methods/golden_requests.json: its requests (python "
        "tests/methods/test_golden_requests.py)": (
            f'"{name} scripted' in text("tests/methods/golden_requests.json")
        ),
        f"tests/methods/: a test that names {name!r}": any(
            f'"{name}"' in p.read_text(encoding="utf-8") for p in tests
        ),
    }
    return [what for what, there in expected.items() if not there]


@pytest.mark.parametrize("name", METHODS)
def test_a_built_in_method_is_complete(name: str) -> None:
    """Everything in one message, so that a contributor need not find out file by file."""
    lacks = missing(METHODS[name])
    # not an assertion: pytest would print the list a second time, cut in the middle
    if lacks:
        listed = "\n".join(f"  {what}" for what in lacks)
        pytest.fail(f"the method {name!r} lacks {len(lacks)} things:\n{listed}", pytrace=False)


def test_every_method_has_its_section() -> None:
    """By name, in the order of their names."""
    lines = text("docs/methods.md").splitlines()
    sections = [line.removeprefix("## ").strip("`") for line in lines if line.startswith("## `")]
    assert sections == sorted(METHODS)


def test_every_method_in_a_file_is_registered() -> None:
    """A file without its line in `METHODS` would otherwise pass every test."""
    files = sorted((ROOT / "textassay/methods").glob("*.py"))
    of_class = re.compile(r'(?m)^    name = "([^"]+)"')
    named = {n: path.name for path in files for n in of_class.findall(path.read_text("utf-8"))}
    unknown = {name: path for name, path in named.items() if name not in {*METHODS, TOOLS}}
    assert not unknown, f"textassay/methods/by_name.py: no line in METHODS for {unknown}"


def test_one_message_lists_all_that_a_new_method_lacks() -> None:
    """A class by itself: each place that remains is named."""

    class Nothing(PromptMethod):
        name = "nothing"
        prompt = "nothing"
        Options = CheckedOptions

    files = {what.partition(":")[0] for what in missing(Nothing)}
    assert {Path(file).name for file in files} == {
        Path(__file__).name, "nothing.jinja", "by_name.py", "methods.md", "decision-models.md",
        "README.md", "golden_requests.json", "methods",
    }  # fmt: skip


def test_a_prompt_that_names_its_aspect_inside_a_sentence_is_registered() -> None:
    """An aspect called `overall` would not be a noun there; a heading names any."""
    assert [prompt for prompt in IN_SENTENCES if not (PROMPTS / f"{prompt}.jinja").is_file()] == []
    files = (path.stem for path in PROMPTS.glob("[!_]*.jinja"))
    assert [name for name in files if not knows_sentences(name)] == []
    assert (knows_sentences("llm_score", ()), knows_sentences("g_eval", ())) == (False, True)


ROWS = re.findall(
    r"(?m)^\| `([\w-]+)` \| `(--method [^`]+)` \| `(method=[^`]+)` \|$", text("docs/methods.md")
)


def able_judge(name: str) -> ScriptedModel:
    able = Capabilities(n=True, logprobs=True, choices=True, continuation=True)
    return ScriptedModel([], name=name, capabilities=able)


@pytest.mark.parametrize(("name", "flags", "given"), ROWS)
def test_flags_and_arguments_mean_the_same(name, flags, given):
    """Each flag has its argument, and the method takes them."""
    scope = {"judge": able_judge("A"), "other": able_judge("B")}
    called = eval(f"dict({given})", scope)
    words = shlex.split(flags)
    typed = dict[str, list[str]]()
    for flag, value in zip(words[::2], words[1::2], strict=True):
        typed.setdefault(flag, []).append(value)
    options = read_set(typed.get("--set", ()))
    if "--n" in typed:
        options["n"] = int(typed["--n"][0])
    assert typed["--method"] == [called["method"]] == [name]
    assert options == called.get("options", {})
    assert "".join(typed.get("--tools", ())) == ",".join(called.get("tools", ()))
    model = called.get("model", scope["judge"])
    if "--model" in typed:
        assert read_models(typed["--model"]) == {role: m.name for role, m in model.items()}
    build(name, model, task="summarization", options=called.get("options"),
          tools=called.get("tools", ()))  # fmt: skip
