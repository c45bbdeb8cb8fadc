"""Help, flags made of settings, what a start imports, and how the process ends."""

from __future__ import annotations

import ast
import asyncio
import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field
from typer.main import get_command

import textassay as package
from tests.cli.harness import read_json, score, textassay
from textassay.cli.app import COMMANDS, app
from textassay.cli.exits import run_async
from textassay.cli.flags import RUNTIME, read_flags
from textassay.cli.syntax import Flags, expand_groups
from textassay.runtime.base import Message
from textassay.runtime.garbage import start_gc
from textassay.runtime.settings import (
    FLAGGED,
    OF_ROLES,
    SETTABLE,
    TABLES,
    Flag,
    Settings,
    descriptions,
    flag_of,
)

ROOT = Path(__file__).parents[2]


def words(text: str) -> str:
    """The text without frames, folds and padding."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_every_setting_is_a_flag_or_a_key_of_set():
    """No setting is out of reach, if only in the table of a role, and none has two names."""
    assert {*FLAGGED, *SETTABLE, *TABLES, *OF_ROLES} == set(Settings.model_fields)
    assert not set(FLAGGED) & set(SETTABLE)
    assert descriptions(Settings).keys() == Settings.model_fields.keys()


@pytest.mark.parametrize("command", ["score", "resume", "fit"])
def test_commands_that_ask_models_have_every_flag_of_the_settings(command):
    shown = words(textassay(command, "--help").out)
    for name in FLAGGED:
        flag = flag_of(Settings, name)
        assert isinstance(flag, Flag)
        assert f"--{name.replace('_', '-')} {flag.short}".rstrip() in shown
        assert flag.panel in shown
        assert " ".join(descriptions(Settings)[name].split()).split(". ")[0].rstrip(".") in shown


def options(command):
    """The options of a command and of the commands below it, with the command's name."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from ((f"{name} {path}".strip(), option) for path, option in options(inner))
    yield from (("", option) for option in command.params if option.param_type_name == "option")


def test_help_says_a_default_once():
    """A field's default is added to its help, so its docstring leaves it out."""
    helps = [(path, one.opts[0], one.help or "") for path, one in options(get_command(app))]
    assert [one for one in helps if one[2].count("(default") > 1] == []


def test_every_flag_that_takes_a_list_may_repeat_and_says_so():
    typed = [(path, one) for path, one in options(get_command(app)) if one.opts != ["--help"]]
    listed = [(path, one) for path, one in typed if (one.metavar or "") in ("A,B", "NAME,GLOB*")]
    names = {"--aspects", "--features", "--level", "--replace", "--tests", "--tools"}
    assert {one.opts[0] for _, one in listed} == names
    assert [(path, one.opts) for path, one in listed if not one.multiple] == []
    # `--set allow_change=true` of commands without further keys has nothing to repeat
    several = [one for _, one in typed if one.multiple and one.metavar != "allow_change=true"]
    assert [one.opts for one in several if "repeat" not in one.help.casefold()] == []
    read = read_flags({"aspects": ["tone", "fluency, relevance"], "tools": ["nli", "rouge"]})
    assert read == {"aspects": ("tone", "fluency", "relevance"), "tools": ("nli", "rouge")}


def test_a_flag_of_the_settings_reaches_the_run(server, data, run):
    flags = ("-m", "direct/mock", "--api-base", server.url, "-a", "fluency", "-c", "3", "-o", run)
    textassay("score", data, "--method", "llm-score", *flags).ok()
    assert read_json(run / "manifest.json")["settings"]["concurrency"] == 3


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_groups_examples_and_exit_statuses(flag):
    shown = textassay("score", flag).ok().out
    assert "textassay score data.jsonl --method g-eval" in words(shown)
    for panel in ("Judging", "Server", "Limits and budget", "Cache"):
        assert f"─ {panel} ─" in shown
    assert "3 stopped early" in words(shown)
    assert not re.search(r"<(bool|int|float|list)", shown)


def test_version_and_help_go_to_standard_output():
    version = textassay("--version")
    assert (version.code, version.out) == (0, f"textassay {package.__version__}\n")
    shown = textassay("--help").ok().out
    assert all(command in shown for command in COMMANDS)
    assert "--install-completion" in shown


def test_what_is_not_given_is_not_in_the_group():

    def function(*, given: Annotated[Flags, RUNTIME]) -> Flags:
        return given

    empty = {**dict.fromkeys(FLAGGED), "no_cache": False}
    assert expand_groups(function)(**{**empty, "rpm": 5.0}) == {"rpm": 5.0}


def test_usage_errors_are_plain_lines():
    """They can be read by a script; the nearest name is suggested, and no other."""
    for typed in ("scroe", "scor"):
        wrong = textassay(typed)
        assert wrong.code == 2
        assert wrong.err.endswith("Did you mean 'score'?\n")
    assert "│" not in textassay("score", "--modle", "x").err


class Described(Message):
    """A class whose docstring ends in what looks like a field.

    last: 1
    """

    first: int = 1
    """One line."""
    second: Annotated[
        str,
        Field(min_length=0),
    ] = ""
    """Two lines
    of text."""
    third: float = 0.0

    def fourth(self) -> int:
        """A method and no field."""
        number: int = self.first
        """No field either."""
        return number


class Heir(Described):
    """Inherits what it does not describe itself."""

    third: float = 0.0
    """Described here."""


def test_fields_are_described_by_the_docstrings_below_them() -> None:
    assert descriptions(Described) == {"first": "One line.", "second": "Two lines\nof text."}
    assert descriptions(Heir) == {**descriptions(Described), "third": "Described here."}
    assert descriptions(type("Typed", (Described,), {})) == descriptions(Described)


UNUSED = {
    "litellm", "openai", "llama_cpp", "torch", "transformers", "onnxruntime", "numpy", "scipy",
    "pandas", "pyarrow", "lightgbm", "sklearn", "nltk", "sacrebleu", "rouge_score",
    "tenacity",
}  # fmt: skip
OF_OTHERS = (
    "textassay.learning", "textassay.agreement", "textassay.fitting", "textassay.estimation",
    "textassay.report", "textassay.demo", "textassay.methods.fitted", "textassay.tools.registry",
    "textassay.tools.engines", "textassay.runtime.batches", "textassay.runtime.backends.local",
    "textassay.runtime.backends.litellm", "textassay.runtime.backends.replay",
    "textassay.methods.g_eval", "textassay.methods.hd_eval",
    "textassay.methods.checklist",
)  # fmt: skip
PROGRAM = """
import gc, sys
from textassay.cli import main
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
sys.argv = ["textassay", *sys.argv[1:]]
before = gc.get_threshold()[0]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
seen = {"opened": opened, "modules": sorted(sys.modules), "frozen": gc.get_freeze_count()}
print({**seen, "held_off": gc.get_threshold()[0] > before}, file=sys.stderr)
"""


def python(program: str, *typed: object, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program that succeeds, in a process of its own."""
    command, environment = [sys.executable, "-c", program, *map(str, typed)], dict(os.environ)
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def start_of(*arguments: object, folder: Path) -> dict[str, Any]:
    """Return what a command opens and imports, and how many objects it keeps from the collector."""
    seen: dict[str, Any] = ast.literal_eval(
        python(PROGRAM, *arguments, folder=folder).stderr.splitlines()[-1]
    )
    return seen


def test_a_run_with_a_direct_model_imports_only_what_it_uses(server, tmp_path) -> None:
    """One method of a dozen, one backend of five, and no library for tables or learning."""
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"id": "a", "output": "A text."}))
    flags = ("--method", "llm-score", "--aspects", "fluency", "--model", "direct/mock")
    flags = (*flags, "--api-base", server.url, "--out", "run", "--progress", "none")
    seen = start_of("score", data, *flags, folder=tmp_path)
    found = set(seen["modules"])
    assert (tmp_path / "run" / "scores.jsonl").read_text().count("\n") == 1
    assert not found & UNUSED
    assert not [name for name in found if name.startswith(OF_OTHERS)]
    assert "textassay.methods.llm_score" in found
    # what the imports made is never looked at by the garbage collector
    assert seen["frozen"] > 50_000
    # what pydantic's search for plugins would read of every installed package
    assert not [name for name in seen["opened"] if name.endswith("entry_points.txt")]
    libraries = read_json(tmp_path / "run" / "manifest.json")["libraries"]
    assert libraries == {name: version(name) for name in ("litellm", "pydantic", "aiohttp")}


def test_help_imports_nothing_that_a_run_asks_with(tmp_path) -> None:
    seen = start_of("score", "--help", folder=tmp_path)
    heavy = {"aiohttp", "jinja2", "filelock", "numpy", "textassay.methods", "textassay.tools"}
    assert not set(seen["modules"]) & heavy
    assert seen["held_off"]


def test_a_host_keeps_its_garbage_collector() -> None:
    """What is frozen is never freed, so only a process of the command line's own freezes."""
    before = gc.get_threshold(), gc.get_freeze_count()
    start_gc()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
    python(
        "import gc; before = gc.get_threshold(); import textassay; textassay.evaluate\n"
        "from textassay.cli import main; assert gc.get_threshold() == before"
    )


def test_commands_run_on_uvloop_where_it_is_installed() -> None:

    async def loop() -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    installed = importlib.util.find_spec("uvloop") is not None
    assert run_async(loop()) == ("uvloop" if installed else "asyncio")


def test_a_command_line_loads_its_own_command_alone() -> None:
    """And all commands where it names none; rich, which only printing needs, comes later."""
    program = (
        "import sys; from textassay.cli.app import application; application(sys.argv[1:])\n"
        "import textassay.evaluation.session\n"
        "assert not sys.argv[1:] or not [n for n in sys.modules if n.partition('.')[0] == 'rich']\n"
        "print(*[name for name in sys.modules if name.startswith('textassay.cli.commands.')])"
    )

    def loaded(*typed: str) -> set[str]:
        return {name.rpartition(".")[2] for name in python(program, *typed).stdout.split()}

    assert loaded("score", "--help") == {"score"}
    assert loaded("label-plan") == {"estimate"}
    assert loaded() == set(COMMANDS.values())


def test_modules_register_the_commands_that_are_listed_for_them() -> None:
    names = {info.name for info in (*app.registered_commands, *app.registered_groups)}
    assert names == set(COMMANDS)


def test_a_reader_that_goes_away_does_not_crash_the_command(server, data, run):
    """The status that shells report; the export fails while answers are read, help in rich."""
    score(data, run, server, aspects="fluency").ok()
    for command in (("--help",), ("cache", "export", run)):
        read, write = os.pipe()
        os.close(read)  # before the command begins, so that it cannot be faster
        done = subprocess.run(
            [sys.executable, "-m", "textassay", *map(str, command)],
            stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
        os.close(write)
        assert (done.stderr, done.returncode) == ("", 141), command
