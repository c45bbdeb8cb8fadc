"""What a start of `textassay score` imports: nothing that the run does not use."""

from __future__ import annotations

import ast
import asyncio
import gc
import importlib.util
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from textassay.cli.app import COMMANDS, app
from textassay.cli.exits import run_async
from textassay.process import start_gc

ROOT = Path(__file__).parents[2]
UNUSED = {
    "litellm", "openai", "llama_cpp", "torch", "transformers", "onnxruntime", "numpy", "scipy",
    "pandas", "pyarrow", "lightgbm", "sklearn", "nltk", "sacrebleu", "rouge_score", "redis",
    "tenacity",
}  # fmt: skip
OF_OTHERS = (
    "textassay.learning", "textassay.meta", "textassay.fitting", "textassay.calibration",
    "textassay.report", "textassay.demo", "textassay.methods.fitted", "textassay.tools.registry",
    "textassay.tools.engines", "textassay.runtime.batches", "textassay.runtime.backends.llamacpp",
    "textassay.runtime.backends.transformers", "textassay.runtime.backends.local",
    "textassay.runtime.backends.litellm",
    "textassay.runtime.backends.replay", "textassay.runtime.calls.redis_limits",
)  # fmt: skip
PROGRAM = """
import gc, sys
from textassay.cli import main
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
sys.argv = ["textassay", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
frozen = gc.get_freeze_count()
print({"opened": opened, "modules": sorted(sys.modules), "frozen": frozen}, file=sys.stderr)
"""


def start_of(*arguments: str, folder: Path) -> dict[str, Any]:
    """Return what a command opens and imports, and how many objects it keeps from the collector."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = ast.literal_eval(done.stderr.splitlines()[-1])
    return seen


@pytest.mark.asyncio
async def test_a_run_with_a_direct_model_imports_only_what_it_uses(mock_server, tmp_path) -> None:
    """One method of a dozen, one backend of five, and no library for tables or learning."""
    server = await mock_server()
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"id": "a", "output": "A text."}))
    seen = await asyncio.to_thread(
        start_of,
        *("score", str(data), "--method", "llm-score", "--aspects", "fluency", "--model",
            "direct/mock"),
        *("--api-base", server.url, "--out", "run", "--progress", "none"),
        folder=tmp_path,
    )  # fmt: skip
    found = set(seen["modules"])
    assert (tmp_path / "run" / "scores.jsonl").read_text().count("\n") == 1
    assert not found & UNUSED
    # what the imports made is never looked at by the garbage collector
    assert seen["frozen"] > 50_000
    # what pydantic's search for plugins would read of every installed package
    assert not [name for name in seen["opened"] if name.endswith("entry_points.txt")]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    used = ("litellm", "pydantic", "aiohttp")
    assert manifest["libraries"] == {name: version(name) for name in used}
    assert not [name for name in found if name.startswith(OF_OTHERS)]
    methods = {name for name in found if name.startswith("textassay.methods.")}
    assert "textassay.methods.llm_score" in methods
    assert not methods & {
        f"textassay.methods.{name}" for name in ("g_eval", "hd_eval", "checklist")
    }


def test_help_imports_nothing_that_a_run_asks_with(tmp_path) -> None:
    """Only a command that will ask imports the client beside the rest."""
    modules = set(start_of("score", "--help", folder=tmp_path)["modules"])
    assert not modules & {"aiohttp", "jinja2", "filelock"}


def test_a_host_keeps_its_garbage_collector() -> None:
    """What is frozen is never freed, so only a process of the command line's own freezes."""
    before = gc.get_threshold(), gc.get_freeze_count()
    start_gc()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_commands_run_on_uvloop_where_it_is_installed() -> None:
    """And on Python's own event loop elsewhere."""

    async def loop() -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    installed = importlib.util.find_spec("uvloop") is not None
    assert run_async(loop()) == ("uvloop" if installed else "asyncio")


def loaded(*typed: str) -> set[str]:
    """Return the modules of commands that a command line loads."""
    program = (
        "import sys; from textassay.cli.app import application; application(sys.argv[1:])\n"
        "print(*[name for name in sys.modules if name.startswith('textassay.cli.commands.')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, *typed], env=environment, check=True, capture_output=True
    )
    return {name.rpartition(".")[2] for name in done.stdout.decode().split()}


def test_a_command_line_loads_its_own_command_alone() -> None:
    """And all commands where it names none."""
    assert loaded("score", "--help") == {"score"}
    assert loaded("label-plan") == {"estimate"}
    for others in ((), ("--help",), ("scroe",)):
        assert loaded(*others) == set(COMMANDS.values())


def test_modules_register_the_commands_that_are_listed_for_them() -> None:
    """So that a command is found by what was typed."""
    names = {info.name for info in (*app.registered_commands, *app.registered_groups)}
    assert names == set(COMMANDS)


def test_what_a_run_prints_with_is_imported_after_it() -> None:
    """rich takes a tenth of the imports, and nothing is printed before the first question."""
    program = (
        "import sys, textassay.cli.app as app\n"
        "app.application(['score'])\n"
        "import textassay.cli.scoring\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'rich']"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
