"""Single flags and groups of them, with which commands declare their parameters.

Imports nothing of textassay, so that a command that needs no run starts fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer

Flags = dict[str, Any]
"""The flags of a group that the user typed, by the names of their parameters."""


def option(metavar: str, text: str, *names: str, panel: str | None = None, **limits: Any) -> Any:
    """Return a flag that takes a value, named after its parameter unless `names` are given."""
    return typer.Option(*names, metavar=metavar or None, help=text, rich_help_panel=panel, **limits)


def switch(name: str, text: str) -> Any:
    """Return a flag without a value."""
    return typer.Option(name, help=text)


def argument(metavar: str, text: str) -> Any:
    """Return a positional argument."""
    return typer.Argument(metavar=metavar, help=text)


Seed = Annotated[int, option("N", "Random seed.")]
AsJson = Annotated[bool, switch("--json", "Print one JSON document.")]


class GroupColumn:
    """Flags that several commands take together; marks the one parameter that receives them."""

    def __init__(self, **flags: Any) -> None:
        self.flags = flags

    def parameters(self) -> list[inspect.Parameter]:
        """Return the flags as the parameters of a function."""
        return [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                # None and not the setting's default, to distinguish typed flags, which win over a
                # config file
                default=False if get_args(flag)[0] is bool else None,
                annotation=flag,
            )
            for name, flag in self.flags.items()
        ]

    def __or__(self, other: GroupColumn) -> GroupColumn:
        # a flag in both groups raises a TypeError here, at import, and not when a user types it
        return GroupColumn(**self.flags, **other.flags)


def drop_unset(flags: Mapping[str, Any]) -> Flags:
    """Return the flags that were typed; typer passes `None`, `False` or `[]` for the others."""
    return {
        name: value
        for name, value in flags.items()
        if value is not None and value is not False and value != []
    }


def expand_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with each parameter annotated with a `GroupColumn` spread into flags."""
    # annotations are strings under `from __future__ import annotations`; this resolves them
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, GroupColumn] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        group = next((mark for mark in get_args(hint)[1:] if isinstance(mark, GroupColumn)), None)
        if group is None:
            parameters.append(parameter.replace(annotation=hint))
        else:
            groups[parameter.name] = group
            parameters += group.parameters()

    @wraps(function)
    def spread(**flags: Any) -> Any:
        collected = {
            name: drop_unset({flag: flags.pop(flag) for flag in group.flags})
            for name, group in groups.items()
        }
        return function(**flags, **collected)

    # typer reads both the signature and the annotations
    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {item.name: item.annotation for item in parameters}
    return spread
