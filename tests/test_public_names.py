"""The public face: packages whose names docs and examples use, each resolved, and nothing private
beside them."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PUBLIC = (
    "agents", "calibration", "cluster", "demo", "gates", "learning", "meta", "methods", "prompts",
    "report", "runtime", "telemetry", "testing", "tools",
)  # fmt: skip
"""Packages that export what others may use; whatever lies deeper may move."""
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
IMPORT = re.compile(r"(?m)^(?:from textassay[\w.]* import [^(\n]+|import textassay[\w.]*)$")
NAMED = re.compile(rf"`(?:textassay\.)?((?:{'|'.join(PUBLIC)})(?:\.(?!json`|txt`|html`)\w+)+)`")


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
    """`__all__` is sorted out, resolves, and is what `dir` shows."""
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
    """Examples import from public packages, and no attribute of a package object that begins with
    an underscore."""
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
    """Its code cells, as those of the pages."""
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 3
    check_imports("\n".join(line for one in code for line in IMPORT.findall(one)), "tutorial")


def test_public_packages_are_imported_lazily() -> None:
    """`import textassay.agents` or `textassay.runtime` loads none of their modules."""
    code = (
        "import sys, textassay.agents, textassay.runtime\n"
        "print([m for m in sys.modules if m.startswith('textassay.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = ast.literal_eval(done.stdout)
    assert set(loaded) <= {f"textassay.{name}" for name in ("agents", "lazy", "runtime", "version")}
