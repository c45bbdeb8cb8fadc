"""What a built-in method consists of, as CONTRIBUTING lists it: one message names all that is
missing; `make methods` writes what follows from the class."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from scripts.method_pages import complete, read_pages
from textassay import ScriptedModel
from textassay.cli.flags import read_models, read_set
from textassay.methods import (
    METHODS,
    AnswerMethod,
    PromptMethod,
    RatingMethod,
    SamplingOptions,
    YesNoMethod,
    build,
    tasks,
)
from textassay.methods.by_name import TOOLS
from textassay.methods.library.profiles import REPLACEABLE
from textassay.methods.method import CheckedOptions, PromptOptions, RatingOptions
from textassay.methods.pairwise import Pairwise
from textassay.runtime import Aspect, Assignment, Capabilities, Example, Node, Score
from textassay.runtime.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
PROMPTS = ROOT / "textassay" / "prompts"


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


def missing(method: Any) -> list[str]:
    """Return what a method lacks, each a file with what belongs there."""
    name, prompt = method.name, PROMPTS / f"{method.prompt}.jinja"
    story = inspect.getdoc(method) or ""
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
        "textassay/methods/by_name.py: a line in METHODS": METHODS.get(name) is method,
        f"textassay/methods/library/profiles.py: {method.prompt!r} in REPLACEABLE": (
            method.prompt in REPLACEABLE or not issubclass(method, RatingMethod)
        ),
        f"docs/methods.md: the options {unlisted(method)} in its section": not unlisted(method),
        "tests/methods/golden_requests.json: its requests (make methods)": (
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
        pytest.fail(f"the method {name!r} still lacks:\n{listed}", pytrace=False)


def test_the_pages_name_every_method() -> None:
    pages = read_pages()
    behind = [page for page, words in complete(pages).items() if words != pages[page]]
    assert not behind, f"run make methods, which adds the methods that are missing in {behind}"
    lines = text("docs/methods.md").splitlines()
    sections = [line.removeprefix("## ").strip("`") for line in lines if line.startswith("## `")]
    assert sections == sorted(METHODS)


def test_a_new_method_gets_its_rows_and_its_section(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of names; a second call changes nothing."""

    class Lucid(YesNoMethod):
        """P(yes) to a question; ours."""

        name = "zz-lucid"

    class Quoting(Pairwise):
        """Compares quotations; ours."""

        name = "zz-quoting"
        no_decisions = "it writes"

    monkeypatch.setitem(METHODS, "zz-lucid", Lucid)
    monkeypatch.setitem(METHODS, "zz-quoting", Quoting)
    pages = complete(read_pages())
    assert complete(pages) == pages
    readme, guide, decisions = pages.values()
    assert "`zz-lucid`, `zz-quoting` ([methods](docs/methods.md))." in " ".join(readme.split())
    assert "\n## `zz-lucid`\n\nP(yes) to a question; ours.\n\n## `zz-quoting`\n" in guide
    assert "\n## `zz-quoting`\n\nCompares quotations; ours.\n\n## Your own method\n" in guide
    row = '| `zz-lucid` | `--method zz-lucid` | `method="zz-lucid"` |\n'
    assert row + "| `zz-quoting` |" in guide
    assert "\n| `zz-lucid` | yes/no for each aspect | 1 | - |\n" in decisions
    assert "\n| `zz-quoting` | - | - | refused: it writes |\n" in decisions


def test_every_method_in_a_file_is_registered() -> None:
    """A file without its line in `METHODS` would otherwise pass every test."""
    files = sorted((ROOT / "textassay/methods").glob("*.py"))
    of_class = re.compile(r'(?m)^    name = "([^"]+)"')
    named = {n: path.name for path in files for n in of_class.findall(path.read_text("utf-8"))}
    unknown = {name: path for name, path in named.items() if name not in {*METHODS, TOOLS}}
    assert not unknown, f"textassay/methods/by_name.py: no line in METHODS for {unknown}"


def test_one_message_lists_all_that_a_new_method_lacks() -> None:
    """A class by itself: each place that remains is named."""

    class Nothing(RatingMethod):
        name = "nothing"
        prompt = "nothing"

    files = {what.partition(":")[0] for what in missing(Nothing)}
    assert {Path(file).name for file in files} == {
        Path(__file__).name, "nothing.jinja", "by_name.py", "golden_requests.json", "methods",
            "profiles.py",
    }  # fmt: skip


def test_a_class_that_lacks_a_member_names_it() -> None:
    """When it is defined, rather than at its first score."""
    lacks = "the method 'unread' is incomplete: define read, dry_run_answer, prompt"
    with pytest.raises(TypeError, match=lacks):

        class Unread(AnswerMethod):
            name = "unread"

    with pytest.raises(TypeError, match="the method 'bare' is incomplete: define nodes"):

        class Bare(PromptMethod):
            name = "bare"
            prompt = "llm_score"


async def test_a_question_that_names_no_aspect_is_asked_about_one() -> None:
    """Its scores on several aspects would be equal."""

    class Same(YesNoMethod):
        name = "same"
        question = "Is this {output} good?"

    judge = ScriptedModel(lambda _: "Yes")
    with pytest.raises(ConfigurationError, match=r"for fluency, relevance, so that .* {aspect}"):
        Same(judge, tasks.load("summarization", ["fluency", "relevance"]))
    method = Same(judge, tasks.load("summarization", ["fluency"]))
    example = Example(id="x", source="A cat sat.", output="It sat.")
    [score] = await method.graph.run(Assignment(example=example, aspects=method.aspects))
    assert score.value == 1
    assert "Is this summary good?" in judge.requests[-1].text


def test_a_question_of_a_method_is_no_question_about_labels() -> None:
    """Yes would count as the second label; an aspect's own question means it."""

    class Printable(YesNoMethod):
        name = "printable"
        question = "Is the {aspect} of this {output} good enough to print it?"

    class Plain(YesNoMethod):
        name = "plain"

    toxic = Aspect(name="toxic", definition="insults", question="Is it toxic?",
                   labels={"fine": "no insults", "toxic": "insults"})  # fmt: skip
    task = tasks.load("summarization", [toxic])
    assert Plain(ScriptedModel([]), task).aspects[0].labels == toxic.labels
    with pytest.raises(ConfigurationError, match="'toxic' has labels, and printable"):
        Printable(ScriptedModel([]), task)


def test_a_method_without_a_request_says_how_to_sign() -> None:

    class Constant(PromptMethod):
        name = "constant"
        prompt = "llm_score"

        def nodes(self):
            return [Node("scores", no_scores, example="input.example")]

    built = Constant(ScriptedModel([]), tasks.load("summarization", ["fluency"]))
    with pytest.raises(TypeError, match=r"'constant' prepares no request by `ask`: call `sign`"):
        built.describe()


async def no_scores(example: Example) -> list[Score]:
    return []


async def test_an_option_that_is_set_is_in_the_signature() -> None:
    """Options of a method need no further code; sampling and prompts have their own places."""

    class Options(SamplingOptions):
        strict: bool = True
        top: int = 3
        n: int = 3
        how: str = "long"
        method: str = "a"

    class Strict(AnswerMethod):
        name = "strict"
        prompt = "llm_score"
        dry_run_answer = "1"

        def read(self, answer, example):
            return 1.0

    Strict.Options = Options
    task = tasks.load("summarization", ["fluency"])

    def facts_with(**options):
        built = Strict(ScriptedModel([]), task, Options(**options))
        return built.signature.partition("|layout:paper|")[2].rpartition("|v:")[0]

    assert facts_with() == "how:text|n:1|temp:0|seed:-"
    assert facts_with(strict=False, seed=7) == "how:text|n:1|temp:0|seed:7|strict:False"
    assert facts_with(top=5, parse_retries=0) == "how:text|n:1|temp:0|seed:-|top:5"
    # options with the names of facts about the request
    assert facts_with(n=5, how="brief") == "how:text|n:1|temp:0|seed:-|option-n:5|option-how:brief"
    assert facts_with(method="b").endswith("|method:b")


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
