"""What CONTRIBUTING lists for a built-in tool, backend, task and command; its methods run.

One message per thing says all that it lacks. What a built-in method lacks is in
`tests/methods/test_adding_a_method.py`.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Callable
from functools import partial
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import textassay.tools
from tests.guides.running import blocks_of
from tests.methods.judging import scores_of
from tests.test_public_api import check_imports
from textassay.cli.app import COMMANDS, app
from textassay.methods import METHODS, build
from textassay.prompts import TASKS
from textassay.runtime import Capabilities, Example, ScriptedModel
from textassay.runtime.backends.by_name import BACKENDS, FORMS
from textassay.tools import KINDS

ROOT = Path(__file__).parents[1]


def text(*patterns: str) -> str:
    """Return the text of all files that match, but for this one."""
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return "\n".join(path.read_text("utf-8") for path in paths if path != Path(__file__))


def lacks_of_tool(kind: str, factory: Any) -> list[str]:
    """Return what a kind of tool lacks, each a file with what belongs there."""
    made = factory.func if isinstance(factory, partial) else factory
    source = Path(inspect.getfile(made)).relative_to(ROOT)
    rows = [line for line in text("docs/tools.md").splitlines() if line.startswith("| `")]
    tests = text("tests/tools/test_*.py")
    expected = {
        f"{source}: a docstring": bool(inspect.getdoc(made)),
        f"{source}: a constructor that takes name=": (
            "name" in inspect.signature(factory).parameters
        ),
        f"textassay/tools/__init__.py: {made.__name__} in the imports, _NAMES_IN and __all__": (
            made.__name__ in textassay.tools.__all__
        ),
        f"docs/tools.md: `{kind}` in the table of tools": any(f"`{kind}`" in row for row in rows),
        f"tests/tools/: a test of {made.__name__} or {kind!r}": (
            f"{made.__name__}(" in tests or f'"{kind}' in tests
        ),
    }
    return [what for what, there in expected.items() if not there]


def lacks_of_backend(prefix: str) -> list[str]:
    """Return what a backend lacks."""
    expected = {
        f"textassay/runtime/backends/by_name.py: a form in FORMS that begins {prefix}/": any(
            form.startswith(f"{prefix}/") for form in FORMS
        ),
        f"docs/: a page that names `{prefix}/`": f"{prefix}/" in text("docs/*.md"),
        f"tests/: a test that names {prefix}/": f"{prefix}/" in text("tests/**/*.py"),
    }
    return [what for what, there in expected.items() if not there]


def lacks_of_task(name: str) -> list[str]:
    """Return what a task lacks."""
    expected = {
        f"textassay/prompts/tasks/{name}.toml": (
            ROOT / "textassay/prompts/tasks" / f"{name}.toml"
        ).is_file(),
        f"docs/tasks.md: `{name}`": f"`{name}`" in text("docs/tasks.md"),
    }
    return [what for what, there in expected.items() if not there]


def names_with_json(name: str) -> list[str]:
    """Return the command if it has `--json`, or those of its group that have."""
    command = get_command(app).commands.get(name)
    inner = getattr(command, "commands", {})
    named = {f"{name} {one}": its for one, its in inner.items()} or {name: command}
    return [
        one
        for one, its in named.items()
        if any("--json" in p.opts for p in getattr(its, "params", ()))
    ]


def lacks_of_command(name: str) -> list[str]:
    """Return what a command lacks."""
    place = "tests/cli/test_methods_command.py"
    listed = text(place)
    unlisted = [one for one in names_with_json(name) if f'"{one}"' not in listed]
    expected = {
        f"{place}: the list in test_every_command_with_a_table_speaks_json lacks"
        f" {', '.join(unlisted)}": not unlisted,
        f"docs/ or README.md: `textassay {name}`": (
            f"textassay {name}" in text("docs/*.md", "README.md")
        ),
        f"tests/: a test that runs {name!r}": f'"{name}"' in text("tests/**/*.py"),
    }
    return [what for what, there in expected.items() if not there]


def fail_if_incomplete(what: str, lacks: list[str]) -> None:
    """Fail with all that is missing in one message."""
    # not an assertion: pytest would print the list a second time, cut in the middle
    if lacks:
        listed = "\n".join(f"  {x}" for x in lacks)
        pytest.fail(f"{what} still lacks:\n{listed}", pytrace=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_built_in_tool_is_complete(kind: str) -> None:
    fail_if_incomplete(f"the tool {kind!r}", lacks_of_tool(kind, KINDS[kind]))


def test_every_tool_in_a_file_is_registered() -> None:
    of_kind = re.compile(r'(?m)^    kind(?:: ClassVar\[str\])? = "(\w+)"')
    files = sorted((ROOT / "textassay/tools").glob("*.py"))
    kinds = {kind: file.name for file in files for kind in of_kind.findall(file.read_text("utf-8"))}
    assert {"nli", "bleu", "readability"} <= kinds.keys()
    # `rouge` is registered as `rouge1`, `rouge2`, ...
    unknown = {k: file for k, file in kinds.items() if not any(one.startswith(k) for one in KINDS)}
    assert not unknown, f"textassay/tools/registry.py: no line in KINDS for {unknown}"


def test_every_backend_task_and_command_in_a_file_is_registered() -> None:
    package = ROOT / "textassay"
    sources = {path: path.read_text("utf-8") for path in package.rglob("*.py")}
    together = "".join(sources.values())
    unopened = [
        path.name
        for path in (package / "runtime/backends").glob("[!_]*.py")
        if not re.search(rf"\bbackends\b.* {path.stem}\b|backends\.{path.stem}\b", together)
    ]
    assert not unopened, f"textassay/runtime/backends/by_name.py: BACKENDS lacks {unopened}"
    tasks = {path.stem for path in (package / "prompts/tasks").glob("*.toml")}
    assert tasks == set(TASKS), "textassay/prompts/__init__.py: TASKS differs from the files"
    declared = re.compile(r'(?m)^@command\("([\w-]+)"(?!.*group=)|^group\("([\w-]+)"')
    commands = {
        name: path.stem
        for path in (package / "cli/commands").glob("*.py")
        for name in filter(None, chain(*declared.findall(sources[path])))
    }
    assert commands == COMMANDS, "textassay/cli/app.py: COMMANDS differs from the files"


@pytest.mark.parametrize("prefix", BACKENDS)
def test_a_backend_is_complete(prefix: str) -> None:
    fail_if_incomplete(f"the backend {prefix!r}", lacks_of_backend(prefix))


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_complete(task: str) -> None:
    fail_if_incomplete(f"the task {task!r}", lacks_of_task(task))


@pytest.mark.parametrize("command", get_command(app).commands)
def test_a_command_is_complete(command: str) -> None:
    fail_if_incomplete(f"the command {command!r}", lacks_of_command(command))


def test_one_message_lists_all_that_a_new_thing_lacks() -> None:

    class Newest:
        """A tool without anything."""

    lacks = lacks_of_tool("newest-of-all", Newest)
    assert [what.partition(":")[0] for what in lacks] == [
        "tests/test_recipes.py", "textassay/tools/__init__.py", "docs/tools.md", "tests/tools/",
    ]  # fmt: skip
    assert len(lacks_of_backend("newest-of-all")) == 3
    assert len(lacks_of_task("newest-of-all")) == 2
    assert len(lacks_of_command("newest-of-all")) == 2


def test_a_command_with_json_is_listed_as_such() -> None:
    """Those of a group by both names."""
    assert names_with_json("score") == ["score"]
    assert names_with_json("cache") == ["cache info", "cache verify", "cache clear"]
    assert names_with_json("tree") == []


BLOCKS = blocks_of(ROOT / "CONTRIBUTING.md")
RECIPES = ("MyScore", "Publishable", "FaultlessShare", "TwoScore")
EXAMPLE = Example(id="x", source="A cat sat on a mat.", output="A cat sat. It slept. It woke.")


def block(words: str, language: str = "python") -> str:
    """Return the one block of CONTRIBUTING that has these words."""
    (found,) = (b.text for b in BLOCKS if b.language == language and words in b.text)
    return found


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Returns a function that does what a recipe says: the module, its line, its prompt."""

    def write(name: str, prompt_words: str = "") -> Any:
        module = tmp_path / f"{name.lower()}.py"
        module.write_text(block(f"class {name}("), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        method = getattr(importlib.import_module(module.stem), name)
        if prompt_words:
            prompt = tmp_path / f"{method.prompt}.jinja"
            prompt.write_text(block(prompt_words, "jinja"), encoding="utf-8")
            method.prompt = str(prompt)
        monkeypatch.setitem(METHODS, method.name, method)
        return method

    return write


def fluency_of(name: str, judge: ScriptedModel, **options: Any) -> Any:
    return build(name, judge, task="summarization", aspects=["fluency"], options=options)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_of_a_method_imports_public_names(name: str) -> None:
    check_imports(block(f"class {name}("), f"CONTRIBUTING, {name}")


async def test_the_recipe_of_a_rating_passes_its_test(register) -> None:
    register("MyScore", "Which problems does")
    names: dict[str, Any] = {}
    exec(block("async def test_the_rating_is_read"), names)
    await names["test_the_rating_is_read"]()


async def test_the_recipe_of_a_yes_no_question_gives_its_probability(register) -> None:
    """By log-probabilities, or by the share of yes among answers; the signature says which."""
    register("Publishable")
    shares = {"yes": math.log(0.6), "no": math.log(0.2)}
    able = Capabilities(choices=True)
    judge = ScriptedModel([], choices=lambda request: shares, capabilities=able)
    method = fluency_of("publishable", judge)
    [score] = await scores_of(method, EXAMPLE)
    assert score.value == pytest.approx(0.75, abs=1e-6)
    assert (score.how, score.scale, method.aspects[0].scale) == ("logprob", (0, 1), (0, 1))
    assert score.signature in method.signatures
    assert "Is the fluency of this summary good enough to publish it?" in score.evidence[0]["text"]
    answers = cycle(["Yes.", "No.", "No.", "Yes, it is."])
    writing = ScriptedModel(lambda request: next(answers))
    [score] = await scores_of(fluency_of("publishable", writing), EXAMPLE)
    assert (score.how, score.value, score.samples) == ("sampled", pytest.approx(0.5), 20)


async def test_the_recipe_of_another_answer_reads_it_or_asks_again(register) -> None:
    register("FaultlessShare", "Which of them have a fault")
    replies = iter(
        ["Well.", "Faulty: 2", "Faulty: 7", "Faulty: none.", "Eh.", "I cannot judge it."]
    )
    judge = ScriptedModel(lambda request: next(replies))
    method = fluency_of("faultless-share", judge)
    scores = [(await scores_of(method, EXAMPLE))[0] for _ in range(3)]
    assert [score.value for score in scores] == [pytest.approx(2 / 3), 1.0, None]
    assert [score.outcome for score in scores] == ["scored", "scored", "abstained"]
    assert [piece["problem"] for piece in scores[1].evidence] == ["OffScale"]
    assert {score.usage.calls for score in scores} == {2}
    assert "3. It woke." in judge.requests[0].text
    assert "in the form that I asked for" in judge.requests[1].text
    [blank] = await scores_of(method, EXAMPLE.model_copy(update={"output": " "}))
    assert (blank.outcome, blank.error.type, len(judge.requests)) == ("abstained", "EmptyOutput", 6)
    assert all(score.signature == method.signature for score in (*scores, blank))


async def test_the_recipe_of_several_steps_averages_two_ratings(register) -> None:
    register("TwoScore", "Which problems does")

    def reply(request: Any) -> str:
        return "Score: 4" if "Which problems" in request.messages[-1].content else "Score: 2"

    method = fluency_of("two-score", ScriptedModel(reply))
    [score] = await scores_of(method, EXAMPLE)
    values = [part["value"] for part in score.evidence]
    assert (score.value, values, score.how, score.usage.calls) == (3.0, [4.0, 2.0], "fused", 2)
    assert score.signature == method.signature
