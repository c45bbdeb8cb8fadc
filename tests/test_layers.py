"""Imports run one way: what `docs/architecture.md` draws, read from the code itself."""

import ast
import graphlib
import re
import sys
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

from scripts.house import repeated_types

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "textassay"

# A layer may import from the layers named beside it, and from itself.
ALLOWED = {
    "runtime": set(),
    "prompts": set(),
    "tools": {"runtime"},
    "learning": {"runtime"},
    "agreement": {"runtime"},
    "agents": {"runtime", "prompts", "tools", "learning", "agreement"},
    "methods": {"runtime", "prompts", "tools", "learning", "agreement", "agents"},
    "evaluation": {
        "runtime", "prompts", "tools", "learning", "agreement", "agents", "methods", "estimation",
        "report",
    },
    "workers": {"runtime", "evaluation"},
    "evaluation/api.py": {
        "runtime", "agents", "methods", "tools", "evaluation", "workers",
    },
    "estimation": {"runtime", "learning", "agreement"},
    "checking": {"runtime", "learning", "agreement", "estimation"},
    "fitting": {"runtime", "prompts", "learning", "agreement", "agents", "methods", "evaluation"},
    "demo": {
        "runtime", "tools", "learning", "agreement", "methods", "evaluation", "estimation",
        "fitting", "checking",
    },
    "stress": {
        "runtime", "prompts", "tools", "learning", "agreement", "agents", "methods", "evaluation",
        "estimation",
    },
    "cli": {
        "runtime", "prompts", "tools", "learning", "agreement", "agents", "methods", "evaluation",
        "workers", "estimation", "checking", "fitting", "demo", "stress", "annotate", "report",
        "listening", "telemetry", "exporting",
    },
    "annotate": {"runtime", "agreement", "agents", "listening"},
    "report": {
        "runtime", "tools", "learning", "agreement", "methods", "estimation", "checking",
        "listening",
    },
    "exporting": {"runtime", "evaluation", "estimation"},
    "testing": {"runtime"},
    "gates": {"runtime", "learning", "agreement", "evaluation", "estimation"},
    "pytest_plugin": {"runtime", "gates"},
    "lazy": set(),
    "listening": {"runtime"},
    "telemetry": {"runtime"},
    "arrays": set(),
    "table": set(),
    "version": set(),
    "__main__": {"cli"},
}  # fmt: skip
ONLY_THERE = {
    "litellm": "textassay/runtime/backends/litellm.py",
    "llama_cpp": "textassay/runtime/backends/local/llamacpp_library.py",
    "opentelemetry": "textassay/telemetry/tracing.py",
    "diskcache": "textassay/runtime/storage/answer_database.py",
    "ray": "textassay/workers/ray.py",
}
ALLOWED_ANYWHERE = {"arrays", "lazy", "table", "version"}
# The rooms of runtime/, from the bottom up; a room may import from those before it and from itself.
ROOMS = ("contract", "data", "storage", "calls", "graph", "backends", "batches", "stack", "api")
CONTRACT = {
    "agent_types", "base", "chat_formats", "column_names", "concurrency", "conversation",
    "declining", "errors", "garbage", "images", "labels", "literals", "messages", "model",
    "parameters", "questions", "rubric", "settings",
}  # fmt: skip
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE) != Path("__init__.py"))


def layer_of(path: Path) -> str:
    """Return the first folder or module below the package; `evaluate` itself is above workers."""
    inside = path.relative_to(PACKAGE)
    if inside.as_posix() in ALLOWED:
        return inside.as_posix()
    return inside.parts[0].removesuffix(".py")


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports_of(path: Path) -> list[str]:
    """Return the dotted names of everything that a module imports, at any depth."""
    names: list[str] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.append(node.module or "")
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def test_every_package_that_is_imported_is_declared() -> None:
    """In pyproject.toml, and not only as a dependency of a dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    declared = {re.split(r"[^\w.-]", name)[0].replace("-", "_") for name in needed}
    imported = {name.partition(".")[0] for path in MODULES for name in imports_of(path)}
    undeclared = imported - sys.stdlib_module_names - {"textassay"} - declared
    # `opentelemetry-api` and `llama-cpp-python` have other names as modules; a table and a
    # notebook bring the last two
    assert undeclared == {"opentelemetry", "llama_cpp", "IPython", "pandas"}


def test_imports_point_down() -> None:
    """From lower layers and the own one, and heavy libraries only where they belong."""
    for path in MODULES:
        own = layer_of(path)
        unknown = "which layer is this? Say so in tests/test_layers.py and docs/architecture.md"
        assert own in ALLOWED, f"{path.name}: {unknown}"
        allowed = {own} | ALLOWED[own] | ALLOWED_ANYWHERE
        for name in imports_of(path):
            top, _, rest = name.partition(".")
            target = rest.split(".")[0] if top == "textassay" else ""
            assert target not in ALLOWED or target in allowed, f"{path}: {own} imports {name}"
            place = ONLY_THERE.get(top, "")
            assert path.relative_to(ROOT).as_posix().startswith(place), f"{path}: imports {name}"


def room_of(parts: list[str]) -> str:
    """Return the room of a dotted name below `textassay.runtime`."""
    return "contract" if parts[0] in CONTRACT else parts[0]


def test_rooms_of_runtime_import_downward() -> None:
    """No room imports from one above it."""
    for path in (PACKAGE / "runtime").rglob("*.py"):
        parts = list(path.relative_to(PACKAGE / "runtime").with_suffix("").parts)
        if parts == ["__init__"]:
            continue
        own = room_of(parts)
        assert own in ROOMS, f"{path.name} stands in no room"
        for name in imports_of(path):
            room = room_of(name.removeprefix("textassay.runtime.").split("."))
            if name.startswith("textassay.runtime.") and room in ROOMS:
                assert ROOMS.index(room) <= ROOMS.index(own), f"{path}: {own} imports {name}"


NAMES = {
    ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
    for p in MODULES
}
LONGEST_CHAIN = 13
"""Modules that a reader may have to open one behind the other."""


@cache
def chain_from(name: str) -> list[str]:
    """Return the longest chain of modules that are loaded with one, which it begins with."""
    top = ast.parse(NAMES[name].read_text(encoding="utf-8")).body
    loaded = {
        f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in NAMES else node.module
        for node in top
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    chains = (chain_from(other) for other in sorted(loaded & NAMES.keys()))
    return [name, *max(chains, key=len, default=[])]


def test_chains_of_imports_are_short() -> None:
    """What a module loads itself; imports inside functions are not counted."""
    longest = max((chain_from(name) for name in sorted(NAMES)), key=len)
    assert len(longest) <= LONGEST_CHAIN, " -> ".join(longest)


def test_a_name_of_a_class_or_an_alias_is_defined_once() -> None:
    """So that a reader who knows a name knows what it is in every module."""
    assert repeated_types([nodes_of(path) for path in PACKAGE.rglob("*.py")]) == []


def test_no_import_cycles() -> None:
    """The import graph of the package has no cycle, imports inside functions included."""
    graph = {
        name: {i for i in imports_of(path) if i in NAMES and i != name}
        for name, path in NAMES.items()
    }
    for name in graph:
        graph[name] -= {parent for parent in graph if name.startswith(parent + ".")}
    list(graphlib.TopologicalSorter(graph).static_order())


def called_in(path: Path) -> set[str]:
    """Return the plain names that a file calls."""
    calls = (node.func for node in nodes_of(path) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def test_the_wrappers_around_a_model_are_put_together_in_one_place() -> None:
    wrappers = {
        node.name
        for path in (PACKAGE / "runtime" / "calls").glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        and "Wrapper" in {base.id for base in node.bases if isinstance(base, ast.Name)}
    }
    assert len(wrappers) > 10
    made = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in MODULES
        for name in called_in(path) & wrappers
    }
    assert {name for place, name in made if place == "runtime/stack.py"} == wrappers
    assert {place for place, _ in made} == {"runtime/stack.py"}
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert {name for name in wrappers if f"`{name}`" not in architecture} == set()


def test_the_models_of_a_run_are_opened_in_one_place() -> None:
    """For runs, `fit` and the command line; the others ask one model that is not a run's."""
    connecting = {"connect", "connect_model"}
    assert {p.relative_to(PACKAGE).as_posix() for p in MODULES if called_in(p) & connecting} == {
        "runtime/api.py",
        "evaluation/opening.py",
        "cli/commands/doctor.py",
        "cli/commands/demo.py",
        "gates.py",
        "tools/probability.py",
    }
