"""Imports run one way: what `docs/architecture.md` draws, read from the code itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "textassay"

# A layer may import from the layers named beside it, and from itself.
ALLOWED = {
    "runtime": set(),
    "prompts": set(),
    "tools": {"runtime"},
    "learning": {"runtime"},
    "meta": {"runtime"},
    "agents": {"runtime", "prompts", "tools", "learning", "meta"},
    "methods": {"runtime", "prompts", "tools", "learning", "meta", "agents"},
    "evaluation": {"runtime", "prompts", "tools", "learning", "meta", "agents", "methods"},
    "workers": {"process", "runtime", "evaluation"},
    "cluster": {"runtime", "evaluation", "workers"},
    "calibration": {"runtime", "learning", "meta"},
    "fitting": {"runtime", "prompts", "learning", "meta", "agents", "methods", "evaluation"},
    "demo": {
        "runtime",
        "calibration",
        "tools",
        "learning",
        "meta",
        "methods",
        "evaluation",
        "fitting",
    },
    "stress": {
        "runtime",
        "tools",
        "learning",
        "meta",
        "agents",
        "methods",
        "evaluation",
        "calibration",
    },
    "cli": {
        "runtime",
        "prompts",
        "tools",
        "learning",
        "meta",
        "agents",
        "methods",
        "evaluation",
        "fitting",
        "calibration",
        "report",
        "listening",
        "process",
        "telemetry",
    }
    | {"demo", "annotate", "stress", "workers"},
    "annotate": {"listening", "runtime", "meta", "agents"},
    "report": {"listening", "runtime", "tools", "learning", "meta", "methods", "calibration"}
    | {"stress"},
    "testing": {"runtime"},
    "gates": {"runtime", "learning", "meta", "evaluation", "calibration"},
    "pytest_plugin": {"gates", "runtime"},
    "process": set(),
    "lazy": set(),
    "listening": set(),
    "observing": set(),
    "telemetry": {"runtime"},
    "display": set(),
    "table": set(),
    "version": set(),
    "__main__": {"cli"},
}
ONLY_THERE = {
    "litellm": "textassay/runtime/backends/litellm.py",
    "llama_cpp": "textassay/runtime/backends/llamacpp/library.py",
    "opentelemetry": "textassay/telemetry/tracing.py",
    "diskcache": "textassay/runtime/storage/answers.py",
    "redis": "textassay/runtime/storage/redis.py",
    "ray": "textassay/workers/ray.py",
}
ALLOWED_ANYWHERE = {"lazy", "observing", "display", "table", "version"}
# The rooms of runtime/, from the bottom up; a room may import from those before it and from itself.
ROOMS = (
    "contract",
    "data",
    "storage",
    "calls",
    "graph",
    "backends",
    "batches",
    "connected",
)
CONTRACT = {
    "chat_formats",
    "concurrency",
    "conversation",
    "errors",
    "images",
    "labels",
    "messages",
    "model",
    "rubric",
    "settings",
}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE) != Path("__init__.py"))


def layer_of(path: Path) -> str:
    """Return the first folder or module below the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[str]:
    """Return the dotted names of everything that a module imports, at any depth."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.append(node.module or "")
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    """A module imports from lower layers and its own, and heavy libraries only where they
    belong."""
    own = layer_of(path)
    assert own in ALLOWED, (
        f"{path.name}: which layer is this? Say so in tests/test_layers.py and docs/architecture.md"
    )
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        if top == "textassay" and rest:
            target = rest.split(".")[0]
            if target in ALLOWED:
                assert target == own or target in ALLOWED[own] | ALLOWED_ANYWHERE, (
                    f"{path}: {own} imports {name}"
                )
        if top in ONLY_THERE:
            assert path.relative_to(ROOT).as_posix().startswith(ONLY_THERE[top]), (
                f"{path}: imports {name}"
            )


def room_of(parts: list[str]) -> str:
    """Return the room of a dotted name below `textassay.runtime`."""
    return "contract" if parts[0] in CONTRACT else parts[0]


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "runtime").rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_rooms_of_runtime_import_downward(path: Path) -> None:
    """Only the contract and what connects a model stand beside the rooms; no room imports from
    one above it."""
    parts = list(path.relative_to(PACKAGE / "runtime").with_suffix("").parts)
    if parts == ["__init__"]:
        return
    own = room_of(parts)
    assert own in ROOMS, f"{path.name} stands in no room"
    for name in imports_of(path):
        target = name.removeprefix("textassay.runtime.").split(".")
        if name.startswith("textassay.runtime.") and room_of(target) in ROOMS:
            assert ROOMS.index(room_of(target)) <= ROOMS.index(own), f"{path}: {own} imports {name}"


def test_no_import_cycles() -> None:
    """The import graph of the package has no cycle, imports inside functions included."""
    import graphlib

    names = {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
        for p in MODULES
    }
    graph = {
        name: {i for i in imports_of(path) if i in names and i != name}
        for name, path in names.items()
    }
    for name in graph:
        graph[name] -= {parent for parent in graph if name.startswith(parent + ".")}
    list(graphlib.TopologicalSorter(graph).static_order())


def called_in(path: Path) -> set[str]:
    """Return the plain names that a file calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def test_the_wrappers_around_a_model_are_put_together_in_one_place() -> None:
    """`connected` alone, also for what goes through batches."""
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
    assert {name for place, name in made if place == "runtime/connected.py"} == wrappers
    assert {place for place, _ in made} == {"runtime/connected.py"}


def test_the_models_of_a_run_are_opened_in_one_place() -> None:
    """For runs, `fit` and the command line; the others ask one model that is not a run's."""
    connecting = {"connect", "connect_model"}
    assert {p.relative_to(PACKAGE).as_posix() for p in MODULES if called_in(p) & connecting} == {
        "runtime/connected.py",
        "evaluation/opening.py",
        "cli/commands/doctor.py",
        "cli/commands/demo.py",
        "gates/recording.py",
        "tools/learned_metrics.py",
    }


def test_import_is_light() -> None:
    """`import textassay` loads no model library, no numerics and no table library."""
    heavy = {
        "litellm",
        "llama_cpp",
        "torch",
        "transformers",
        "onnxruntime",
        "sklearn",
        "lightgbm",
        "pandas",
        "pyarrow",
    }
    heavy |= {"scipy", "numpy", "openai"}
    code = f"import sys, textassay; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def test_help_loads_no_methods() -> None:
    """`textassay score --help` answers before anything heavy is imported."""
    code = (
        "import sys; sys.argv = ['textassay', 'score', '--help']\n"
        "from textassay.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'aiohttp', 'jinja2', 'textassay.methods', 'textassay.tools') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "--method" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
