"""What `import textassay` gives, and what it costs."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import textassay
from tests.waiting import HANGS_AFTER

ROOT = Path(__file__).parents[1]
DOCUMENTED = {
    "Aspect", "AspectTree", "Example", "Graph", "Score", "connect", "evaluate", "evaluate_sync",
    "learning", "meta", "methods", "stream", "tools",
}  # fmt: skip
HEAVY = (
    "litellm",
    "aiohttp",
    "pydantic",
    "numpy",
    "scipy",
    "sklearn",
    "lightgbm",
    "pandas",
    "typer",
    "rich",
    "openai",
)


def run(program: str, folder: Path) -> str:
    """Run a program in an empty folder and return what it printed; it must print no warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=folder, capture_output=True, text=True,
        timeout=HANGS_AFTER, env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_what_the_design_promises_is_there():
    """Names are sorted, exist, are documented, and `dir` shows them."""
    assert set(textassay.__all__) >= DOCUMENTED
    assert textassay.__all__ == sorted(textassay.__all__)
    assert set(textassay.__all__) <= set(dir(textassay))
    for name in textassay.__all__:
        thing = getattr(textassay, name)
        assert name == "__version__" or inspect.getdoc(thing), name


def test_the_score_command_starts_without_scipy(tmp_path: Path):
    """A run without a calibration does not wait for what only calibrations need."""
    seen = run("import sys, textassay.cli.scoring; print('scipy' in sys.modules)", tmp_path)
    assert seen.strip() == "False"


def test_other_names_are_an_attribute_error():
    """A typing mistake is told at once."""
    with pytest.raises(AttributeError, match="has no attribute 'evalute'"):
        textassay.evalute  # noqa: B018


def test_importing_is_quick_and_touches_nothing(tmp_path):
    """Few modules, no heavy library, no environment read or changed, no file written, no
    network."""
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


def test_connecting_and_evaluating_never_import_litellm_for_other_models(tmp_path):
    """Whoever asks a server of their own does not wait for it."""
    program = (
        "import sys, textassay\n"
        "from textassay.runtime.backends.scripted import ScriptedModel\n"
        "textassay.connect('direct/judge', api_base='http://127.0.0.1:9/v1')\n"
        "model = ScriptedModel(lambda request: 'Rating: 3')\n"
        "textassay.evaluate_sync([{'output': 'x'}], method='llm-score', model=model)\n"
        "print(sorted({'litellm', 'openai', 'pandas', 'sklearn', 'lightgbm', 'torch'} & "
        "set(sys.modules)))\n"
    )
    assert run(program, tmp_path) == "[]\n"
