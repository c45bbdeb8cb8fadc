"""The command line: its commands, how each registers itself, and the root of the application."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterator, Sequence
from enum import StrEnum
from functools import wraps
from importlib import import_module
from inspect import cleandoc, signature
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from textassay.cli.console import own_messages
from textassay.cli.exits import COMMAND_PARAMETERS, exits
from textassay.cli.syntax import expand_groups
from textassay.runtime.errors import nearest
from textassay.version import __version__

COMMANDS = {
    "check": "check", "score": "score", "compare": "compare", "report": "show",
    "annotate": "annotate",
    "resume": "resume", "merge": "resume", "fit": "fit", "tools": "score", "demo": "demo",
    "agreement": "compare", "alt-test": "compare", "calibrate": "estimate",
    "estimate": "estimate", "label-plan": "estimate", "rank": "compare",
    "stress": "stress", "view": "show", "show": "show", "ratings": "annotate",
    "import": "annotate", "export": "export", "skill": "skill",
    "list": "methods", "draft": "methods", "graph": "methods", "doctor": "doctor", "cache": "cache",
}  # fmt: skip
"""Commands and groups by name, with the module of `textassay.cli.commands` that registers them when
it is imported. The help shows the first five first.
"""

CommandFunction = Callable[..., int | None]

PROMISE = "Can you trust your LLM judge? textassay measures it against people, and makes it better."
"""First line of the help, of the package and of the documentation."""


class Heading(StrEnum):
    """Headings of the list of commands, in the order in which they are shown."""

    FIRST = "Start here"
    SCORING = "More: score texts and learn from ratings"
    DECIDING = "More: from scores to decisions"
    LOOKING = "More: look and exchange ratings"
    MAKING = "More: methods, models and files"


class _PlainSwitches:
    """Shows switches without the type `<bool>`, including typer's own."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with nothing in the place of a switch's value."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class Command(_PlainSwitches, TyperCommand):
    """A command whose help shows switches plainly, and whose options may take several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read `--jury A B C` as `--jury A --jury B --jury C`.

        The values of an option shown as `NAME...` end at the next flag or file name.
        """
        several = {
            name
            for param in self.params
            if str(getattr(param, "metavar", "") or "").endswith("...")
            for name in param.opts
            if name.startswith("-")
        }
        return super().parse_args(ctx, list(_one_by_one(args, several)))


class Commands(_PlainSwitches, TyperGroup):
    """Draws help in panels, and prints usage errors as plain lines without a frame."""

    def __init__(self, **attributes: Any) -> None:
        """Make the group; typer formats errors like the help of the outermost group."""
        super().__init__(**{**attributes, "rich_markup_mode": None})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; suggest the most similar one if there is none."""
        if self.get_command(ctx, args[0]) is None:
            if ctx.parent is None and Path(args[0]).exists():
                kind = "folder" if Path(args[0]).is_dir() else "file"
                command_line = shlex.join(["textassay", "check", *args])
                ctx.fail(f"{args[0]!r} is a {kind}, not a command. Did you mean: {command_line}")
            if near := nearest(args[0], self.commands):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help in panels."""
        # set only while the help is drawn: with it on, typer would also draw usage errors in a
        # frame, which breaks lines that scripts read
        self.rich_markup_mode = "rich"
        try:
            super().format_help(ctx, formatter)
        finally:
            self.rich_markup_mode = None


def _one_by_one(args: Sequence[str], several: Container[str]) -> Iterator[str]:
    """Yield arguments with an option of several values repeated before each value."""
    option, has_value = "", False
    for argument in args:
        if argument.startswith("-"):
            option, has_value = (argument if argument in several else ""), False
            yield argument
        elif not option:
            yield argument
        elif not has_value:
            has_value = True
            yield argument
        elif Path(argument).is_file():
            option = ""
            yield argument
        else:
            yield from (option, argument)


def new_app(name: str, text: str) -> typer.Typer:
    """Return an empty application, or one for a group of commands."""
    return typer.Typer(
        name=name,
        help=text,
        cls=Commands,
        no_args_is_help=True,
        # our own handler turns errors into a message and a status; typer's would print locals,
        # which may hold keys
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


_app = new_app("textassay", PROMISE)
_groups: dict[str, typer.Typer] = {}


def group(name: str, text: str, *, panel: Heading) -> None:
    """Make a group of commands, such as `cache`, once."""
    _groups[name] = new_app(name, text)
    _app.add_typer(_groups[name], name=name, rich_help_panel=panel)


def command(
    name: str, *, panel: Heading | None = None, group: str | None = None, asks_models: bool = False
) -> Callable[[CommandFunction], CommandFunction]:
    """Register a function as a command.

    Its parameters are the flags (see `flags`), its docstring is the help, which ends with examples,
    and its return value is the exit status; errors become a message and a status (see `exits`).
    """
    home = _app if group is None else _groups[group]

    def register(function: CommandFunction) -> CommandFunction:
        spread = expand_groups(function)
        COMMAND_PARAMETERS.update(signature(spread).parameters)

        @wraps(spread)
        def run(**flags: Any) -> None:
            # every command returns here, so none ends with a traceback or a status of its own
            with own_messages(), exits():
                raise typer.Exit(spread(**flags) or 0)

        # the docstring is also the help, so they cannot differ
        text, _, examples = cleandoc(function.__doc__ or "").partition("\n\nExamples:\n")
        # lines are folded at the width of the terminal, not at the width of the source
        paragraphs = (part.replace("\n", " ") for part in text.split("\n\n"))
        home.command(
            name,
            cls=Command,
            help=escape_markup("\n\n".join(paragraphs)),
            epilog=escape_markup(_epilog(examples, asks_models)),
            rich_help_panel=panel,
        )(run)
        return function

    return register


def escape_markup(text: str) -> str:
    """Return text with brackets escaped for rich's markup."""
    return text.replace("[", r"\[")


def _epilog(examples: str, asks_models: bool) -> str:
    # an example longer than a line of code continues with a deeper indentation
    lines = dedent(examples).replace("\n    ", " ").splitlines()
    parts = ["Examples:\n" + "\n".join(f"  {line}" for line in lines)] if lines else []
    return "\n\n".join([*parts, *([statuses()] if asks_models else [])])


def statuses() -> str:
    """Return the exit statuses of commands that ask models, one a line."""
    meanings = {
        0: "success: everything is scored",
        1: "finished, but something is unscored (the reasons are printed), or a gate fails",
        2: "wrong arguments, configuration or data; no model was called",
        3: "stopped early (budget, interrupt, wrong key, no server); resume continues it",
        4: "a gate (--fail-above, --fail-below, --require) is inconclusive",
        141: "the reader of the output closed the pipe",
    }
    return "\n".join(["Exit status:", *(f"  {code:<3}  {why}" for code, why in meanings.items())])


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"textassay {__version__}")
        raise typer.Exit


@_app.callback(help=PROMISE, epilog=escape_markup(statuses()))
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the flags of the whole application."""


app: typer.Typer
"""The application with all commands; `__getattr__` registers them on first access."""


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the application with the command that a command line names, or with all commands.

    Lists of commands, groups and suggestions for a misspelled name need all commands.
    """
    # typer reads the signatures of all registered commands, which takes longer than any of them
    # takes to import
    if list(arguments) != ["--version"]:
        module_named = COMMANDS.get(arguments[0]) if arguments else None
        for module in [module_named] if module_named else dict.fromkeys(COMMANDS.values()):
            import_module(f"textassay.cli.commands.{module}")
    return _app


def __getattr__(name: str) -> Any:
    """Return the application with all of its commands as `app`."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return application()
