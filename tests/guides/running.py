"""Runs code blocks as a reader of the page would, in the folder that `reader` writes."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import shutil
import tomllib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from typer.main import get_command

from tests.cli.harness import textassay
from tests.guides.blocks import ROOT, Block
from textassay.cli.app import app
from textassay.runtime.messages import Example

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ASKS = ("score", "doctor", "stress", "fit", "plan", "tree", "resume")
"""Commands that ask a model, which here is at an address of its own."""
LONG = (
    "demo", "annotate", "view", "--processes", "--cluster", "rubric", "cascade", "--escalate",
)  # fmt: skip
"""Words of commands that take minutes, serve a page, need another machine, many ratings or ratings
that agree with the judge: their flags are checked here. They run in `make demo`,
tests/annotate/test_page.py, tests/report/test_gallery.py, tests/cli and tests/workers, and
tests/fitting."""
ENTRY_POINTS = ("textassay.methods", "textassay.models", "textassay.tools")


@dataclass
class Reader:
    """Runs the blocks of one page in one folder; names of Python stay from block to block."""

    folder: Path
    url: str
    names: dict[str, str]
    """What stands for a placeholder of the page, or for a model or server that is elsewhere."""
    statuses: tuple[int, ...] = (0,)
    """What a command without a comment may exit with."""
    scope: dict[str, Any] = field(default_factory=dict)

    def run(self, block: Block) -> None:
        """Run a block; raises if anything in it does not work."""
        # MODEL, CHEAP and the like stand for a model of the reader's
        text = re.sub(r"(--model (?:\w+=)?)[A-Z]{3,}\b", r"\1direct/judge", block.text)
        for placeholder, meant in self.names.items():
            if block.language == "python" and placeholder.startswith("openai/"):
                continue  # asked through litellm, at the address in OPENAI_BASE_URL
            text = re.sub(rf"(?<![\w-]){re.escape(placeholder)}(?![\w-])", meant, text)
        known = Block(block.page, block.line, block.language, text)
        getattr(self, f"run_{block.language}")(known)

    def run_shell(self, block: Block) -> None:
        """Run each command; it must exit with 0, or with the status that its comment names."""
        for words, comment in block.commands():
            match words:
                case ["textassay", *arguments]:
                    self._command(arguments, comment)
                case ["python", "-m", "reproduce", "convert", data_set, *_]:
                    # with the originals, which are not here; tests/reproduce converts small ones
                    from reproduce.converters import DATA_SETS

                    assert data_set in DATA_SETS
                case ["python", "-m", "reproduce", *arguments]:
                    from reproduce.command import main

                    assert main(arguments) in self.statuses, words
                case ["python", "-m", module, *arguments]:
                    _flags_exist(module, arguments)
                case ["pip", "install", *packages]:
                    _extras_exist(packages)
                case ["make", target]:
                    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.M)
                case ["mkdir", name]:
                    (self.folder / name).mkdir()
                case ["pytest", *flags]:
                    assert flags == ["--junitxml=junit.xml"]
                case _:
                    raise AssertionError(f"no rule for {words}")

    run_console = run_shell

    def run_yaml(self, block: Block) -> None:
        """Run the steps of a CI job."""
        lines = [line.removeprefix("- run: ") + "\n" for line in block.text.splitlines()]
        self.run_shell(Block(block.page, block.line, "shell", "".join(lines)))

    def run_json(self, block: Block) -> None:
        """Read examples: objects one after the other, which may have several lines."""
        rest, decoder = block.text.strip(), json.JSONDecoder()
        while rest:
            fields, end = decoder.raw_decode(rest)
            assert Example.model_validate(fields).output
            rest = rest[end:].lstrip()

    def run_text(self, block: Block) -> None:
        """Leave alone what is there to be read: a drawing, an output."""

    def run_python(self, block: Block) -> None:
        """Execute the block; `await` may stand at its top, as in a notebook."""
        code = compile(
            block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        # a coroutine only if the block awaits something
        made = eval(code, self.scope)
        if inspect.iscoroutine(made):
            asyncio.run(made)

    def run_toml(self, block: Block) -> None:
        """Check the group of an entry point; all other files are read by a function of the page."""
        found = tomllib.loads(block.text)
        (group,) = found["project"]["entry-points"]
        assert group in ENTRY_POINTS

    def _command(self, words: list[str], comment: str) -> None:
        name = words[0]
        if set(words) & set(LONG):
            get_command(app).commands[name].make_context(name, words[1:])  # type: ignore[attr-defined]
            return
        if "direct/judge" in " ".join(words) and name in ASKS:
            words = [*words, "--api-base", self.url]
        for flag in ("--out", "-o"):
            # blocks show alternatives that write to the same place
            if flag in words and name != "resume":
                _remove(self.folder / words[words.index(flag) + 1])
        done = textassay(*words)
        told = re.search(r"exit status (\d)", comment)
        assert done.code in ((int(told[1]),) if told else self.statuses), (words, done)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _extras_exist(packages: list[str]) -> None:
    for extra in re.findall(r"\[([\w,]+)\]", " ".join(packages)):
        assert extra in PROJECT["optional-dependencies"], extra


def _flags_exist(module: str, arguments: list[str]) -> None:
    """Check that a program, which may take minutes, still has the flags of its command."""
    found = find_spec(module)
    assert found is not None, module
    assert found.origin is not None, module
    source = Path(found.origin).read_text(encoding="utf-8")
    # programs of one kind share a module that reads their arguments
    for shared in re.findall(r"^from (benchmarks\.\w+) import", source, re.MULTILINE):
        spec = find_spec(shared)
        assert spec is not None, shared
        assert spec.origin is not None, shared
        source += Path(spec.origin).read_text(encoding="utf-8")
    for word in arguments:
        assert not word.startswith("--") or f'"{word}"' in source, (module, word)
