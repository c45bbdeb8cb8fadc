"""What CONTRIBUTING lists for a built-in tool, backend, task and command.

One message per thing says all that it lacks.

Methods have a test of their own, `tests/methods/test_adding_a_method.py`.
"""

from __future__ import annotations

import inspect
import re
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import textassay.tools
from textassay.cli.app import COMMANDS, app
from textassay.prompts import TASKS
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
        pytest.fail(f"{what} lacks {len(lacks)} things:\n{listed}", pytrace=False)


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
