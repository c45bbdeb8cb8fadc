"""Help, flags made of `Settings`, and the ways to start the command line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from typer.main import get_command

from tests.cli.harness import textassay
from textassay.cli import arguments
from textassay.cli.app import COMMANDS, app
from textassay.cli.flags import RUNTIME, Given, expanded
from textassay.runtime.settings import FLAGGED, OF_ROLES, SETTABLE, TABLES, Flag, Settings, flag_of

COMMANDS_PATH = Path(__file__).parents[2] / "textassay" / "cli" / "commands"


def words(text: str) -> str:
    """The text without frames, folds and padding."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_every_setting_is_a_flag_or_a_key_of_set():
    """No setting is out of reach, if only in the table of a role, and none has two names."""
    assert {*FLAGGED, *SETTABLE, *TABLES, *OF_ROLES} == set(Settings.model_fields)
    assert not set(FLAGGED) & set(SETTABLE)
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize("command", ["score", "resume", "fit"])
def test_commands_that_ask_models_have_every_flag_of_the_settings(command):
    """Name, value and help are the setting's."""
    shown = words(textassay(command, "--help").out)
    for name in FLAGGED:
        flag, field = flag_of(Settings, name), Settings.model_fields[name]
        assert isinstance(flag, Flag)
        assert f"--{name.replace('_', '-')} {flag.short}".rstrip() in shown
        assert flag.panel in shown
        assert " ".join((field.description or "").split()).split(". ")[0].rstrip(".") in shown


def options(command):
    """The options of a command and of the commands below it, with the command's name."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from ((f"{name} {path}".strip(), option) for path, option in options(inner))
    yield from (("", option) for option in command.params if option.param_type_name == "option")


def test_every_flag_that_takes_a_list_may_repeat_and_says_so():
    """One rule for all commands: none of the lists replaces those before it."""
    typed = [(path, one) for path, one in options(get_command(app)) if one.opts != ["--help"]]
    listed = [(path, one) for path, one in typed if (one.metavar or "") in ("A,B", "NAME,GLOB*")]
    assert {one.opts[0] for _, one in listed} == {
        "--aspects", "--features", "--level", "--tests", "--tools",
    }  # fmt: skip
    assert [(path, one.opts) for path, one in listed if not one.multiple] == []
    # `--set allow_change=true` of commands without further keys has nothing to repeat
    several = [one for _, one in typed if one.multiple and one.metavar != "allow_change=true"]
    assert [one.opts for one in several if "repeat" not in one.help.casefold()] == []
    read = arguments.read({"aspects": ["tone", "fluency, relevance"], "tools": ["nli", "rouge"]})
    assert read == {"aspects": ("tone", "fluency", "relevance"), "tools": ("nli", "rouge")}


def test_a_flag_of_the_settings_reaches_the_run(server, data, run):
    """Short and long forms."""
    flags = ("-m", "direct/mock", "--api-base", server.url, "-a", "fluency", "-c", "3", "-o", run)
    assert textassay("score", data, "--method", "llm-score", *flags, "--no-cache").code == 0
    assert '"concurrency": 3' in (run / "manifest.json").read_text()
    assert not (run / "answers").exists()


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_groups_examples_and_exit_statuses(flag):
    """No type of Python leaks, and nothing is cut."""
    shown = textassay("score", flag)
    assert shown.code == 0
    assert "textassay score data.jsonl --method g-eval" in words(shown.out)
    for panel in ("Judging", "Server", "Limits and budget", "Cache"):
        assert f"─ {panel} ─" in shown.out
    assert "3 stopped early" in words(shown.out)
    assert not re.search(r"<(bool|int|float|list)", shown.out)


def test_no_command_lists_many_flags_by_hand():
    """Groups are shared; what one command alone has is short."""
    for path in COMMANDS_PATH.glob("*.py"):
        for header in re.findall(r"^def \w+\((.*?)^\) ->", path.read_text(), re.S | re.M):
            assert len(re.findall(r"^    \w+: ", header, re.M)) <= 12, path.name
    assert {path.stem for path in COMMANDS_PATH.glob("*.py")} - {"__init__"} == set(
        COMMANDS.values()
    )


def test_what_is_not_given_is_not_in_the_group():
    """Defaults are the settings', not the flags'."""

    def function(*, given: Annotated[Given, RUNTIME]) -> Given:
        return given

    spread = expanded(function)
    empty = dict.fromkeys(FLAGGED)
    assert spread(**{**empty, "no_cache": False, "rpm": 5.0}) == {"rpm": 5.0}


def test_usage_errors_are_plain_lines():
    """They can be read by a script; the nearest name is suggested, and no other."""
    for typed in ("scroe", "scor"):
        wrong = textassay(typed)
        assert wrong.code == 2
        assert wrong.err.endswith("Did you mean 'score'?\n")
    assert "│" not in textassay("score", "--modle", "x").err


def test_the_module_is_the_command():
    """`python -m textassay`."""
    done = subprocess.run(
        [sys.executable, "-m", "textassay", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("textassay ")


def test_completion_can_be_installed():
    """Shells are offered a script."""
    assert "--install-completion" in textassay("--help").out
