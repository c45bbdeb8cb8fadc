"""Reads agents' parameters and results from annotations, and checks whether one type fits another.

It handles Python's type annotations and pydantic's fields, and does not depend on graphs.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from textassay.runtime.errors import GraphError

LISTS = (list, tuple, collections.abc.Sequence)
"""Types of lists, whose items are passed to agents one by one."""


UNANNOTATED: Any = inspect.Parameter.empty
"""The type of a parameter without an annotation."""


class Signature(NamedTuple):
    """Parameters and result of an agent."""

    parameters: Mapping[str, Any]
    """Type by name."""
    required: frozenset[str]
    """Parameters without a default."""
    others: Any
    """Type of further keyword arguments; `None` if there may be none."""
    result: Any
    """Type of the awaited result."""
    failure_depth: int = 0
    """Depth of lists in the result that may contain a `Failure` without naming it in the type."""


def signature_of(agent: Callable[..., Awaitable[Any]]) -> Signature:
    """Read a function, a `functools.partial` or an object with `async def __call__`.

    An object may provide its own signature, such as a graph, in an attribute `signature`.
    """
    if isinstance(signature := getattr(agent, "signature", None), Signature):
        return signature
    function = _function_of(agent)
    try:
        # Types come from the function, parameters from the agent: a `partial` has bound some of
        # them, and a bound method its `self`.
        hints = get_type_hints(function)
        parameters = inspect.signature(agent).parameters
    except (NameError, TypeError, ValueError) as error:
        raise GraphError(
            f"its annotations cannot be read: {error}; their types must be names of its module"
        ) from error
    if "return" not in hints:
        raise GraphError("its result has no type; annotate it")
    result = hints["return"]
    if not inspect.iscoroutinefunction(function):
        if get_origin(result) not in (collections.abc.Awaitable, collections.abc.Coroutine):
            raise GraphError("it is not async; declare it, or its __call__, with `async def`")
        result = get_args(result)[-1]
    types_by_name: dict[str, Any] = {}
    required, others = set(), None
    for name, parameter in parameters.items():
        hint = hints.get(name, UNANNOTATED)
        if parameter.kind is parameter.VAR_KEYWORD:
            others = hint
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            types_by_name[name] = hint
            if parameter.default is parameter.empty:
                required.add(name)
        elif parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise GraphError(
                f"its parameter {name!r} is positional-only; arguments are passed by name"
            )
    return Signature(types_by_name, frozenset(required), others, result)


def _function_of(agent: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(agent, functools.partial) or not inspect.isroutine(agent):
        inner = agent.func if isinstance(agent, functools.partial) else _inner_agent(agent)
        if inner is None:
            break
        agent = inner
    if inspect.isroutine(agent):
        return agent
    if isinstance(agent, type) or not callable(agent):
        raise GraphError(
            f"{agent!r} is not an agent; give an async function or an object with `async def "
            "__call__`"
        )
    return type(agent).__call__


def _inner_agent(agent: Any) -> Callable[..., Any] | None:
    """Return the agent inside of an object that calls it, such as `once(agent)`."""
    return getattr(agent, "__dict__", {}).get("__wrapped__")


def _plain(hint: Any) -> Any:
    """Return the type inside `Annotated`, an alias or a type variable; `None` becomes its type."""
    while True:
        if get_origin(hint) is typing.Annotated:
            hint = get_args(hint)[0]
        elif isinstance(hint, TypeVar):
            hint = Union[hint.__constraints__] if hint.__constraints__ else (hint.__bound__ or Any)  # noqa: UP007
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif get_origin(hint) in (typing.Final, typing.Required, typing.NotRequired):
            hint = get_args(hint)[0]
        else:
            return type(None) if hint is None else hint


def members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type alone."""
    hint = _plain(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(member for part in get_args(hint) for member in members(part))
    return (hint,)


def without(hint: Any, unwanted: type) -> Any:
    """Return the type without one member of its union; other types are unchanged."""
    remaining = tuple(member for member in members(hint) if member is not unwanted)
    return Union[remaining] if remaining else hint  # noqa: UP007  # built at run time


def item_of(hint: Any) -> Any:
    """Return the type of the items of a list, tuple or sequence, `None` for anything else."""
    items = []
    for member in members(hint):
        origin, arguments = get_origin(member) or member, get_args(member)
        if member is Any:
            items.append(Any)
        elif (
            not isinstance(origin, type)
            or not issubclass(origin, LISTS)
            or issubclass(origin, str | bytes)
        ):
            return None
        else:
            items.append(_items_of(origin, arguments))
    return Union[tuple(items)]  # noqa: UP007


def _items_of(origin: Any, arguments: tuple[Any, ...]) -> Any:
    if not arguments:
        return Any
    if isinstance(origin, type) and issubclass(origin, tuple):
        return Union[tuple(a for a in arguments if a is not Ellipsis)]  # noqa: UP007
    return arguments[0]


def contents_of(hint: Any) -> Any:
    """Return the type of the items of containers, also in a union; `None` without containers."""
    items = [
        _items_of(get_origin(member), get_args(member))
        for member in members(hint)
        if get_args(member)
    ]
    return Union[tuple(items)] if items else None  # noqa: UP007


def type_of_value(value: Any) -> Any:
    """Return the narrowest known type of a constant."""
    return Literal[value] if isinstance(value, str | bytes | int) else type(value)


def field_of(hint: Any, name: str) -> Any:
    """Return the annotated type of a field or property."""
    types = []
    for member in members(hint):
        if member is Any:
            types.append(Any)
            continue
        owner = get_origin(member) or member
        source, key = owner, name
        # a field of a typed dict may be called like a method of dict
        attribute = None if is_typed_dict(owner) else inspect.getattr_static(owner, name, None)
        if isinstance(attribute, property | functools.cached_property):
            source, key = (
                attribute.fget if isinstance(attribute, property) else attribute.func,
                "return",
            )
        try:
            types.append(get_type_hints(source)[key])
        except (KeyError, NameError, TypeError) as error:
            raise AttributeError(name) from error
    return Union[tuple(types)]  # noqa: UP007


def is_typed_dict(hint: Any) -> bool:
    """Return whether a type is a `TypedDict`, whose fields are keys."""
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__total__")


def fits(actual: Any, expected: Any) -> bool:
    """Return whether every value of type `actual` may be passed as `expected`.

    Containers are covariant, since messages are immutable; int fits float; text is not a sequence
    of texts. A protocol that cannot be checked by class is accepted.
    """
    actual_members, expected_members = members(actual), members(expected)
    if Any in actual_members or Any in expected_members or object in expected_members:
        return True
    return all(any(_fits(a, e) for e in expected_members) for a in actual_members)


def _fits(actual: Any, expected: Any) -> bool:
    if actual == expected:
        return True
    if get_origin(actual) is Literal:
        values = get_args(actual)
        if get_origin(expected) is Literal:
            return set(values) <= set(get_args(expected))
        return all(_fits(type(value), expected) for value in values)
    if hasattr(expected, "__supertype__"):  # a NewType accepts only itself
        return hasattr(actual, "__supertype__") and fits(actual.__supertype__, expected)
    if hasattr(actual, "__supertype__"):
        return fits(actual.__supertype__, expected)
    actual_class, expected_class = get_origin(actual) or actual, get_origin(expected) or expected
    if is_typed_dict(expected_class):
        return _has_fields_of(actual_class, expected_class)
    if expected_class is float and actual_class is int:
        return True
    if not isinstance(actual_class, type) or not isinstance(expected_class, type):
        return False
    try:
        # Raises TypeError for protocols with attributes, which cannot be recognized by class.
        if not issubclass(actual_class, expected_class):
            return False
    except TypeError:
        return True
    return _arguments_fit(actual_class, get_args(actual), expected_class, get_args(expected))


def _has_fields_of(actual: Any, expected: Any) -> bool:
    """Return whether a value may be passed as a typed dict; a plain `dict` is accepted."""
    if not is_typed_dict(actual):
        return actual is dict
    actual_fields, expected_fields = get_type_hints(actual), get_type_hints(expected)
    required = expected.__required_keys__
    if not required <= actual.__required_keys__:
        return False
    shared = actual_fields.keys() & expected_fields.keys()
    return all(fits(actual_fields[key], expected_fields[key]) for key in shared)


def _arguments_fit(
    actual_class: type, actual: tuple[Any, ...], expected_class: type, expected: tuple[Any, ...]
) -> bool:
    if not expected:
        return True
    # In Python a text is a sequence of texts, but in place of a list it is always a mistake.
    if issubclass(actual_class, str | bytes):
        return False
    callables: tuple[Any, ...] = (type, collections.abc.Callable)
    if not actual or actual_class in callables or expected_class in callables:
        return True
    if issubclass(actual_class, tuple) and Ellipsis not in actual:
        if issubclass(expected_class, tuple) and Ellipsis not in expected:
            return len(actual) == len(expected) and all(map(fits, actual, expected))
        return all(fits(item, expected[0]) for item in actual)
    if issubclass(actual_class, tuple):
        return (not issubclass(expected_class, tuple) or Ellipsis in expected) and fits(
            actual[0], expected[0]
        )
    return all(map(fits, actual, expected))


def classes_of(hint: Any) -> tuple[type, ...]:
    """Return classes for `isinstance` that every value of the type passes, ignoring its items."""
    classes: set[type] = set()
    for member in members(hint):
        while hasattr(member, "__supertype__"):
            member = member.__supertype__
        if get_origin(member) is Literal:
            classes.update(type(value) for value in get_args(member))
            continue
        owner = get_origin(member) or member
        if is_typed_dict(owner):
            owner = dict
        try:
            # The only way to find out whether a type can be checked is to try it.
            isinstance(None, owner)
        except TypeError:  # Any, a protocol of attributes
            return (object,)
        classes.update({float, int} if owner is float else {owner})
    return (object,) if object in classes else tuple(classes)


def type_name(hint: Any) -> str:
    """Return a type as a person would write it, without modules."""
    hint = _plain(hint)
    if len(members(hint)) > 1:
        return " | ".join(type_name(member) for member in members(hint))
    if hint is type(None):
        return "None"
    if hint is Ellipsis:
        return "..."
    if isinstance(hint, list):
        return f"[{', '.join(map(type_name, hint))}]"
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    owner = get_origin(hint) or hint
    name = getattr(owner, "__name__", str(owner))
    if not arguments:
        return name
    return f"{name}[{', '.join(map(type_name, arguments))}]"
