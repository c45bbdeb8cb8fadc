"""The documentation site: nothing is missing from it, and it is built without a warning,
offline."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import textassay
from textassay.cli.app import COMMANDS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The gathered pages, beside a copy of the site's configuration."""
    folder = tmp_path_factory.mktemp("site")
    script = ROOT / "scripts" / "docs_pages.py"
    subprocess.run([sys.executable, script, folder / "build" / "docs"], check=True, cwd=ROOT)
    (folder / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text("utf-8"), "utf-8")
    return folder


def test_every_page_is_in_the_navigation(site):
    pages = site / "build" / "docs"
    there = {page.relative_to(pages).as_posix() for page in pages.rglob("*.md")}
    listed = set(
        re.findall(r": ([\w/.-]+\.md)$", (site / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    )
    assert listed == there


def test_the_reference_has_every_command_and_name(site):
    """It is made from the help and the docstrings, so it cannot say something else."""
    commands = (site / "build" / "docs" / "reference" / "cli.md").read_text("utf-8")
    assert "## textassay score" in commands
    assert "`--max-cost`" in commands
    assert commands.count("\n## textassay ") >= len(COMMANDS)
    pages = sorted((site / "build" / "docs" / "reference").glob("textassay*.md"))
    names = "".join(page.read_text("utf-8") for page in pages)
    for name in ("textassay.evaluate", "textassay.Run", "textassay.estimation.estimate_means"):
        assert f"## {name}\n" in names
    assert textassay.evaluate.__doc__.splitlines()[0] in names
    # one page per module
    assert [page.stem for page in pages if page.read_text("utf-8").count("\n# ") > 0] == []
    assert "## textassay.estimation." not in pages[0].read_text("utf-8")
    # signatures are read as they are called: no line runs off the page, no inner machinery
    blocks = re.findall(r"```python\n(.*?)\n```", names, re.DOTALL)
    long = [line for block in blocks for line in block.splitlines() if len(line) > 120]
    assert long == []
    assert not re.search(r"Annotated|ForwardRef|object at 0x|NoneType", "".join(blocks))


def test_the_tutorial_is_a_page(site):
    """Each cell of the notebook, in order; its code runs in the test of the notebook."""
    page = (site / "build" / "docs" / "tutorial.md").read_text("utf-8")
    cells = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text("utf-8"))["cells"]
    places = [page.index("".join(cell["source"])) for cell in cells]
    assert places == sorted(places)
    assert page.count("```python\n") == sum(cell["cell_type"] == "code" for cell in cells)
    overview = (site / "build/docs/index.md").read_text("utf-8")
    assert "[Tutorial notebook](tutorial.md)" in overview
    assert "](data.md#passages)" in overview


@pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None, reason="zensical is not installed"
)
def test_the_site_is_built_strictly_and_needs_no_network(site):
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "-f", "mkdocs.yml"],
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    built = list((site / "build" / "site").rglob("*.html"))
    assert len(built) > 20
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]+src="?https?://'
        r'|<link[^>]+rel="?(?:stylesheet|preconnect)[^>]+href="?https?://'
    )
    assert [page.name for page in built if loads.search(page.read_text("utf-8"))] == []
