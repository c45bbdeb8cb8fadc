"""Keyword arguments of the public functions: an unknown one is an error that names the nearest."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from textwrap import fill
from typing import Any, ParamSpec, TypeVar, cast, get_type_hints

from textassay.runtime.errors import UnknownParameter
from textassay.runtime.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


def strict_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse unknown keyword arguments as `UnknownParameter`, before anything else happens.

    Python's own `TypeError` names the nearest parameter from 3.13 on only, and one misspelled limit
    (`max_cots=1`) can cost money.
    """
    parameters = inspect.signature(function).parameters
    takes_keywords = [
        name for name, item in parameters.items() if item.kind is not inspect.Parameter.VAR_KEYWORD
    ]

    def check(keywords: dict[str, Any]) -> None:
        for name in keywords:
            if name not in takes_keywords:
                raise UnknownParameter(function.__name__, name, takes_keywords)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def checked_async(*args: P.args, **keywords: P.kwargs) -> Any:
            check(keywords)
            return await function(*args, **keywords)

        return cast("Callable[P, R]", checked_async)

    @wraps(function)
    def checked(*args: P.args, **keywords: P.kwargs) -> R:
        check(keywords)
        return function(*args, **keywords)

    return checked


def takes_arguments_of(
    source: Callable[P, Any],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Show and check the parameters of another function, whose names, types and defaults they are.

    For a function that only passes its arguments on, such as one that is not async.
    """

    def decorate(function: Callable[..., R]) -> Callable[P, R]:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(source).replace(return_annotation=returned)

        @wraps(function)
        def bound(*args: P.args, **keywords: P.kwargs) -> R:
            # so that a missing argument is reported in the caller's terms
            signature.bind(*args, **keywords)
            return function(*args, **keywords)

        shown = cast("Any", bound)
        shown.__signature__ = signature
        return strict_keywords(bound)

    return decorate


def takes_settings(function: Callable[P, R]) -> Callable[P, R]:
    """Show every field of `Settings` as a parameter of a function that takes them as `**overrides`.

    Signature and docstring are made from `Settings`, the one place of names, types, defaults and
    help; an unknown name is refused.
    """
    signature = inspect.signature(function)
    own = [
        item
        for item in signature.parameters.values()
        if item.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    types = get_type_hints(Settings)  # plain types, without their limits
    settings = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=item.get_default(call_default_factory=True),
            annotation=types[name],
        )
        for name, item in Settings.model_fields.items()
    ]
    lines = [
        fill(
            f"{name}: {' '.join((item.description or '').split())}",
            width=100,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
        )
        for name, item in Settings.model_fields.items()
    ]
    shown = cast("Any", function)
    # For editors and `help`; the call itself still goes through `**overrides`.
    shown.__signature__ = signature.replace(parameters=[*own, *settings])
    # Python 3.13 strips the indentation of docstrings, earlier versions keep it
    shown.__doc__ = inspect.cleandoc(function.__doc__ or "").replace(
        "    **overrides: Fields of `Settings`.", "\n".join(lines)
    )
    return strict_keywords(function)
