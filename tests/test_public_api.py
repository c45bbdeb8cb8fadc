"""What `import textassay` gives and costs; the names that docs and examples use are public."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

import textassay
from tests.waiting import HANGS_AFTER
from textassay.lazy import lazy_pattern

ROOT = Path(__file__).parents[1]
DOCUMENTED = {
    "Aspect", "AspectTree", "Example", "Graph", "Score", "agreement", "check", "connect",
    "estimation", "evaluate", "evaluate_sync", "learning", "methods", "stream", "tools",
}  # fmt: skip
HEAVY = (
    "litellm", "aiohttp", "pydantic", "numpy", "scipy", "sklearn", "lightgbm", "pandas", "typer",
    "rich", "openai", "pyarrow", "torch", "transformers", "onnxruntime", "llama_cpp",
)  # fmt: skip


def run(program: str, folder: Path) -> str:
    """Run a program in an empty folder and return what it printed; it must print no warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=folder, capture_output=True, text=True,
        timeout=HANGS_AFTER, env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_promised_names_exist():
    assert set(textassay.__all__) >= DOCUMENTED
    assert textassay.__all__ == sorted(textassay.__all__)
    assert set(textassay.__all__) <= set(dir(textassay))
    for name in textassay.__all__:
        thing = getattr(textassay, name)
        assert name == "__version__" or inspect.getdoc(thing), name


def test_other_names_are_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'evalute'"):
        textassay.evalute  # noqa: B018


def test_importing_is_quick_and_touches_nothing(tmp_path):
    """Few modules, no heavy library, environment unchanged, no file written, no network."""
    program = (
        "import os, sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append((event, args)))\n"
        "before = dict(os.environ)\n"
        "known = len(sys.modules)\n"
        "import textassay\n"
        "assert dict(os.environ) == before\n"
        "written = [a for e, a in seen if e == 'open' and isinstance(a[1], str) and set(a[1]) & "
        "set('wax+')]\n"
        "assert not [a for a in written if '__pycache__' not in str(a[0])], written\n"
        "assert not [e for e, _ in seen if e.startswith(('socket.', 'subprocess.'))]\n"
        f"assert not set({HEAVY!r}) & set(sys.modules)\n"
        "print(len(sys.modules) - known)\n"
    )
    assert int(run(program, tmp_path)) < 90
    assert list(tmp_path.iterdir()) == []


PUBLIC = (
    "agents", "agreement", "demo", "estimation", "exporting", "gates", "learning", "methods",
    "prompts", "report", "runtime", "telemetry", "testing", "tools",
)  # fmt: skip
"""Packages that export what others may use; whatever lies deeper may move."""
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
IMPORT = re.compile(r"(?m)^(?:from textassay[\w.]* import [^(\n]+|import textassay[\w.]*)$")
NAMED = re.compile(
    rf"(?:`|(?<=[ (]))(?:textassay\.)?((?:{'|'.join(PUBLIC)})(?:\.(?!json`|txt`|html`)\w+)+)[`(]"
)


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of every import from textassay."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textassay"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.startswith("textassay"))


def check_imports(code: str, where: object) -> None:
    """Hold the imports of a piece of code to public modules and names."""
    for module, name in imports_of(code):
        parts = module.split(".")[1:]
        assert not parts or (len(parts) == 1 and parts[0] in PUBLIC), (
            f"{where}: {module} is not public; export {name} from textassay.{parts[0]}"
        )
        if name:
            package = importlib.import_module(module)
            assert name in package.__all__, f"{where}: {module} does not export {name}"


@pytest.mark.parametrize("package", PUBLIC)
def test_every_exported_name_is_there(package: str) -> None:
    module = importlib.import_module(f"textassay.{package}")
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None, f"textassay.{package}.{name}"
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        # an imported submodule would take the place of a name that is made on first use
        if found.name in module.__all__:
            importlib.import_module(f"textassay.{package}.{found.name}")
            modules = {"errors"} if package == "runtime" else set()
            assert (found.name in modules) == isinstance(getattr(module, found.name), ModuleType)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_touch_nothing_private(path: Path) -> None:
    code = path.read_text(encoding="utf-8")
    check_imports(code, path.name)
    tree = ast.parse(code)
    private = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match(r"_(?!_)", node.attr)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    assert not private, f"{path.name} touches {', '.join(sorted(private))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_on_a_page_resolve(page: Path) -> None:
    """Every `package.name` in the text, and every import in a code block, is there and public."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        check_imports("\n".join(IMPORT.findall(block)), page.name)
    for dotted in NAMED.findall(text):
        found: object = importlib.import_module("textassay")
        for part in dotted.split("."):
            # a package need not load its modules, and other tests may have done so
            if isinstance(found, ModuleType) and not hasattr(found, part):
                with suppress(ModuleNotFoundError):
                    importlib.import_module(f"{found.__name__}.{part}")
            assert hasattr(found, part), f"{page.name}: there is no textassay.{dotted}"
            found = getattr(found, part)


def test_the_tutorial_imports_public_names() -> None:
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 3
    check_imports("\n".join(line for one in code for line in IMPORT.findall(one)), "tutorial")


def test_public_packages_are_imported_lazily(tmp_path: Path) -> None:
    """`import textassay.agents` or `textassay.runtime` loads none of their modules."""
    code = (
        "import sys, textassay.agents, textassay.runtime\n"
        "print([m for m in sys.modules if m.startswith('textassay.')])"
    )
    loaded = ast.literal_eval(run(code, tmp_path))
    assert set(loaded) <= {f"textassay.{name}" for name in ("agents", "lazy", "runtime", "version")}


def test_a_lazy_pattern_is_compiled_on_first_use() -> None:
    pattern = lazy_pattern(r"(?P<number>\d+)", re.IGNORECASE)
    assert pattern.sub("#", "a 1 b 22") == "a # b #"
    assert pattern.search is pattern.search
    assert [match["number"] for match in pattern.finditer("1 22")] == ["1", "22"]
    assert (pattern.pattern, pattern.groups) == (r"(?P<number>\d+)", 1)
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("")
