"""Digests of the agents of a graph: of their code and the values that it uses.

A graph with a changed rule gives other scores, although its drawing is the same. The digest covers,
for every agent: the source text of functions, lambdas and classes, or the byte code where there is
no source; defaults, values in closures, arguments of a `partial`, and attributes of objects; the
global names that the code mentions, and so the functions of its own modules that it calls; the
source of its own modules that it imports when it runs; and the constants on wires. Code of Python,
of installed packages and of textassay is represented by its name: the signature of a score contains
textassay's version. A model is represented by its name and identity.

The digest is equal in every process that runs the same code, and on every version of Python if the
source is available. A changed comment in a function changes the digest, and so does an attribute
that differs between processes, such as a start time.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib.util
import inspect
import os
import re
import string
import sysconfig
import textwrap
import types
import warnings
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel

from textassay.runtime.graph import Each, Fixed, Graph, Node

_SIMPLE = (bool, int, float, complex, str, type(None), type(Ellipsis), type(NotImplemented))


def code_digests(graph: Graph) -> dict[str, str]:
    """Return 6 hex digits for each node's agent, by the node's name."""
    return {node.name: _digest(_Describer().node(node)) for node in graph.nodes}


def models_in(graph: Graph) -> tuple[str, ...]:
    """Return the names of the models that the agents of a graph hold, sorted."""
    describer = _Describer()
    for node in graph.nodes:
        describer.node(node)
    return tuple(sorted(describer.models))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


class _Describer:
    """Describes agents and values as text, each object once."""

    def __init__(self) -> None:
        self.models: set[str] = set()
        self._seen: dict[int, tuple[int, Any]] = {}
        """Number by identity, with the object itself, so that its identity is not reused."""
        self._depth = 0

    def node(self, node: Node) -> str:
        """Describe a node: its agent and the wires."""
        wires = (f"{name}={self._wire(wire)}" for name, wire in sorted(node.wires.items()))
        return f"{node.name}: {self.value(node.agent)} ({', '.join(wires)})"

    def _wire(self, wire: object) -> str:
        if isinstance(wire, Fixed):
            return f"fixed {self.value(wire.value)}"
        return f"each {wire.wire}" if isinstance(wire, Each) else str(wire)

    def value(self, value: Any) -> str:
        """Describe a value by its content, or by its type if nothing else is known."""
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{value.name} {self.value(value.value)}"
        if isinstance(value, _SIMPLE):
            return self._with_class(value, repr(value))
        if isinstance(value, bytes | bytearray | PurePath):
            return str(value)
        if isinstance(value, re.Pattern):  # its `repr` is cut
            return f"pattern {value.pattern!r} {value.flags}"
        if id(value) in self._seen:
            return f"#{self._seen[id(value)][0]}"
        self._seen[id(value)] = (len(self._seen), value)
        # each level takes four or five of the thousand calls that Python allows
        if self._depth >= 50:
            return type(value).__qualname__
        self._depth += 1
        try:
            return self._describe_parts(value)
        finally:
            self._depth -= 1

    def _describe_parts(self, value: Any) -> str:
        items = vars(value) if isinstance(value, types.SimpleNamespace) else value
        if value is os.environ:  # differs between terminals
            return "environ"
        if isinstance(items, Mapping):
            # in the same order in every process, since an object is described at its first mention
            ordered = sorted(items.items(), key=lambda pair: self._describe_alone(pair[0]))
            pairs = (f"{self.value(key)}: {self.value(item)}" for key, item in ordered)
            text = f"{{{', '.join(pairs)}}}"
            if isinstance(value, defaultdict):
                text += f" or {self.value(value.default_factory)}"
        elif isinstance(items, set | frozenset):
            text = f"{{{', '.join(map(self.value, sorted(items, key=self._describe_alone)))}}}"
        elif isinstance(items, list | tuple | deque):
            text = f"[{', '.join(map(self.value, items))}]"
        else:
            return self._object(value)
        return self._with_class(value, text)

    def _with_class(self, value: Any, text: str) -> str:
        """Return the text of a value, with its class if the user made it, such as one of `dict`."""
        kind = type(value)
        is_plain = kind in _SIMPLE or _is_installed(inspect.getmodule(kind))
        return text if is_plain else f"{self.value(kind)} {text}"

    def _describe_alone(self, value: Any) -> str:
        """Describe an item of a set without remembering it; `str` may have an address or a set."""
        if isinstance(value, _SIMPLE):
            return repr(value)
        alone = _Describer()
        alone._seen, alone._depth = dict(self._seen), self._depth
        return alone.value(value)

    def _object(self, value: Any) -> str:
        if isinstance(value, Graph):
            return f"graph {value.to_mermaid()} {' '.join(map(self.node, value.nodes))}"
        if isinstance(value, functools.partial):
            bound = self.value([value.func, value.args, value.keywords])
            return f"partial {bound}"
        if isinstance(value, types.MethodType):
            return f"method {self.value(value.__func__)} of {self.value(value.__self__)}"
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:
            return f"{type(value).__qualname__} of {self.value(wrapped)}"
        if inspect.isroutine(value):
            return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        name, identity = getattr(value, "name", None), getattr(value, "identity", None)
        if isinstance(name, str) and isinstance(identity, Mapping):
            self.models.add(name)
            return f"model {name} {self.value(identity)}"
        return f"{self.value(type(value))} {self._state(value)}"

    def _state(self, value: Any) -> str:
        """Describe the attributes of an object that was made by the user or by this package."""
        if isinstance(value, BaseModel):
            return self.value({name: getattr(value, name) for name in type(value).model_fields})
        if is_dataclass(value):
            return self.value({i.name: getattr(value, i.name, None) for i in fields(value)})
        if hasattr(value, "to_numpy"):  # a table, whose `repr` is cut and depends on the terminal
            labels = list(getattr(value, "columns", ())), getattr(value, "index", ())
            return self.value([value.to_numpy().tolist(), labels])
        dtype = getattr(value, "dtype", None)
        if hasattr(value, "tobytes") and not getattr(dtype, "hasobject", False):  # an array
            raw = hashlib.sha256(value.tobytes()).hexdigest()
            return f"{getattr(value, 'shape', '')} {dtype} {raw}"
        if hasattr(value, "tolist"):  # a tensor, or an array of objects, whose bytes are addresses
            return self.value(value.tolist())
        if isinstance(signature := getattr(value, "signature", None), str):
            return signature
        module = inspect.getmodule(type(value))
        if module is not None and module.__name__.startswith("textassay."):
            # such as `once(rule)`, without its remembered calls
            inner = getattr(value, "__dict__", {}).items()
            return self.value({k: v for k, v in inner if callable(v) or isinstance(v, _SIMPLE)})
        if _is_installed(module):
            inner = getattr(value, "__dict__", {}).items()
            # such as a template's, which jinja compiles from its text
            functions = {k: v for k, v in inner if isinstance(v, types.FunctionType)}
            return f"{_describe_installed(value)} {self.value(functions)}"
        names = [name for kind in type(value).__mro__ for name in _slots(kind)]
        state = {name: getattr(value, name) for name in names if hasattr(value, name)}
        return self.value(state | getattr(value, "__dict__", {}))

    def _function(self, function: types.FunctionType) -> str:
        named = f"{function.__module__}.{function.__qualname__}"
        if _is_known(function.__code__.co_filename):
            # functions inside built-in decorators may be the user's
            values = [*_closure(function).values()] if function.__closure__ else []
            return f"{named} {self.value(values)}" if values else named
        uses: dict[str, Any] = {
            "defaults": function.__defaults__,
            "keywords": function.__kwdefaults__,
            "closure": _closure(function),
            "globals": self._globals(function),
        }
        return f"function {_source(function.__code__)} {self.value(uses)}"

    def _globals(self, function: types.FunctionType) -> dict[str, Any]:
        """Return the global values that a function mentions, also in the user's modules.

        The modules are global, in the closure, or in one of these. Modules that are imported when
        the function runs are represented by their source.
        """
        mentioned = sorted({name for code in _codes(function.__code__) for name in code.co_names})
        items = {n: function.__globals__[n] for n in mentioned if n in function.__globals__}
        values = deque([*items.values(), *_closure(function).values()])
        followed: set[str] = set()
        while values:
            module = values.popleft()
            if not isinstance(module, types.ModuleType) or _is_installed(module):
                continue
            if module.__name__ not in followed:
                followed.add(module.__name__)
                inside = {name: vars(module)[name] for name in mentioned if name in vars(module)}
                items |= {f"{module.__name__}.{name}": value for name, value in inside.items()}
                values.extend(inside.values())
        package = function.__globals__.get("__package__") or ""
        return items | _imported_sources(function.__code__, package)

    def _class(self, kind: type) -> str:
        named = f"{kind.__module__}.{kind.__qualname__}"
        if _is_installed(inspect.getmodule(kind)):
            return named
        try:
            source = _plain(inspect.getsource(kind))
        except (OSError, TypeError):
            source = named
        methods = {
            name: _unwrap(member)
            for name, member in vars(kind).items()
            if isinstance(_unwrap(member), types.FunctionType)
        }
        constants = {
            name: member
            for name, member in vars(kind).items()
            if isinstance(member, (*_SIMPLE, list, tuple, dict, set, frozenset))
            and not (name.startswith("__") and name.endswith("__"))
            and not name.startswith("_abc_")
        }
        bases = [base for base in kind.__bases__ if base is not object]
        return f"class {source} {self.value([methods, constants, bases])}"


def _describe_installed(value: Any) -> str:
    """Describe an object of an installed class that is its value, such as a number or a date.

    Such classes define equality or pickling. The state of other classes, such as clients, may
    differ between processes; so may the state of objects with a `repr` such as
    `<Logger judge (INFO)>`.
    """
    if isinstance(value, string.Template):
        return value.template
    kind: Any = type(value)
    is_value = kind.__eq__ is not object.__eq__ or kind.__reduce__ is not object.__reduce__
    if isinstance(value, Iterator) or not is_value or kind.__repr__ is object.__repr__:
        return ""
    text = repr(value)
    return "" if text.startswith("<") or " at 0x" in text else text


def _unwrap(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", getattr(member, "func", member))


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _closure(function: types.FunctionType) -> dict[str, Any]:
    """Return the values in a function's closure by name, without empty cells."""
    values = {}
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            continue
    return values


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield code and the code of its inner functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imported_sources(code: types.CodeType, package: str) -> dict[str, str]:
    """Return digests of the user's modules that code imports, by name, also from one another.

    The modules are read and not executed, since the code may never get to the import.
    """
    digests: dict[str, str] = {}
    importing = deque([(code, package)])
    while importing:
        for name in _imports(*importing.popleft()):
            for module, spec in _own_specs(name):
                read = getattr(spec.loader, "get_data", None)
                if module in digests or not spec.origin or not read:
                    continue
                is_package = spec.submodule_search_locations is not None
                package = module if is_package else module.rpartition(".")[0]
                # a file that cannot be read, or that is not code in Python, imports nothing
                unusable = (OSError, SyntaxError, ValueError, RecursionError)
                with contextlib.suppress(*unusable), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    content = read(spec.origin)
                    digests[module] = hashlib.sha256(content).hexdigest()
                    code = compile(content, spec.origin, "exec", dont_inherit=True)
                    importing.append((code, package))
    return digests


def _imports(code: types.CodeType, package: str) -> Iterator[str]:
    """Yield the names of modules that code imports, and of attributes that may be modules."""
    for inner in _codes(code):
        steps = [step for step in dis.get_instructions(inner) if step.opname != "EXTENDED_ARG"]
        for at, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level, names = steps[at - 2].argval, steps[at - 1].argval
                with contextlib.suppress(ImportError):  # relative to no package
                    module = importlib.util.resolve_name("." * level + step.argval, package)
                    yield from (module, *(f"{module}.{name}" for name in names or ()))


def _own_specs(name: str) -> Iterator[tuple[str, ModuleSpec]]:
    """Yield a module that the user wrote, by name, after the packages that it is in."""
    module, *parts = name.split(".")
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # a module that was not imported from a file
        return
    while spec and not (spec.has_location and _is_known(spec.origin or "")):
        yield module, spec
        if not parts:
            return
        # not `find_spec` of the whole name, which executes the packages
        spec = PathFinder.find_spec(parts[0], [*(spec.submodule_search_locations or ())])
        module = f"{module}.{parts.pop(0)}"


def _source(code: types.CodeType) -> str:
    """Return the source text of code, or the byte code without a source."""
    try:
        # of the code, since the source of a function may be the decorated one
        return _plain(inspect.getsource(code))
    except (OSError, TypeError):
        return _describe_bytes(code)


def _describe_bytes(code: types.CodeType) -> str:
    constants = (
        _describe_bytes(constant) if isinstance(constant, types.CodeType) else _constant(constant)
        for constant in code.co_consts
    )
    names = f"{code.co_varnames} {code.co_names}"
    return f"{code.co_name} {names} {code.co_code.hex()} [{', '.join(constants)}]"


def _constant(value: object) -> str:
    # the order of a set of texts differs between processes
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _plain(source: str) -> str:
    """Return source text without its indent and trailing spaces."""
    return "\n".join(line.rstrip() for line in textwrap.dedent(source).strip().splitlines())


def _is_installed(module: types.ModuleType | None) -> bool:
    """Return whether a module is Python's, an installed package's, or this package's."""
    if module is None:
        return False
    # a folder without `__init__.py` has no file
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return module.__name__ != "__main__" if path is None else _is_known(path)


@functools.lru_cache(maxsize=4096)
def _is_known(filename: str) -> bool:
    """Return whether a file of code belongs to Python, an installed package or this package."""
    if filename.startswith("<"):  # typed in, or written by the user
        return filename.startswith("<frozen")
    path, places = Path(filename).resolve(), sysconfig.get_paths()
    # of the user, of the system, or of another environment on the path
    if not {"site-packages", "dist-packages"}.isdisjoint(path.parts):
        return True
    installed = (places[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    folders = (Path(__file__).parents[1], *(Path(place).resolve() for place in installed))
    return any(map(path.is_relative_to, folders))
