"""Finds the code blocks of a page, and runs them as a reader would, in a folder written for it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import random
import re
import shlex
import shutil
import tomllib
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path
from typing import Any

from typer.main import get_command

from tests.cli.harness import textassay
from textassay.cli.app import app
from textassay.runtime.messages import Example

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ASKS = ("score", "doctor", "stress", "fit", "draft", "resume")
"""Commands that ask a model, which here is at an address of its own."""
LONG = (
    "demo", "annotate", "view", "--processes", "--cluster", "rubric",
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
    """Replacements for placeholders of the page, and for models and servers elsewhere."""
    statuses: tuple[int, ...] = (0,)
    """Allowed exit statuses of a command without a comment."""
    scope: dict[str, Any] = field(default_factory=dict)

    def run(self, block: Block) -> None:
        """Run a block; raises if anything in it does not work."""
        # MODEL, CHEAP and the like are placeholders for the reader's model
        text = re.sub(r"(--model (?:\w+=)?)[A-Z]{3,}\b", r"\1direct/judge", block.text)
        for placeholder, meant in self.names.items():
            if block.language == "python" and placeholder.startswith("openai/"):
                continue  # asked through litellm, at the address in OPENAI_BASE_URL
            text = re.sub(rf"(?<![\w-]){re.escape(placeholder)}(?![\w-])", meant, text)
        known = Block(block.page, block.line, block.language, text)
        getattr(self, f"run_{block.language}")(known)

    def run_shell(self, block: Block) -> None:
        """Run each command; it must exit with 0, or with the status that its comment names."""
        for given, comment in block.commands():
            # a variable in front, such as CMAKE_ARGS=..., is for the reader's shell
            words = list(dropwhile(re.compile(r"[A-Z_]+=").match, given))
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
                case ["printf", text, ">", name]:
                    (self.folder / name).write_text(text.replace("\\n", "\n"), encoding="utf-8")
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
        """Skip blocks that are only for reading: a drawing, an output."""

    def run_python(self, block: Block) -> None:
        """Execute the block, which may use `await` at its top level, as in a notebook."""
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
    if found.submodule_search_locations is not None:
        found = find_spec(f"{module}.__main__")
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


@dataclass(frozen=True)
class Block:
    """A fenced block: its language (`shell` if the page names none), its text and its line."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        """Return where the block is."""
        return f"{self.page}:{self.line} ({self.language})"

    def commands(self) -> list[tuple[list[str], str]]:
        """Return the words and the comment of each command."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        found = []
        for line in joined.splitlines():
            command, _, comment = line.removeprefix("$ ").partition(" #")
            if command.strip():
                found.append((shlex.split(command), comment.strip()))
        return found


def blocks_of(page: Path) -> list[Block]:
    """Return all blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text.count("\n", 0, found.start()) + 1, found[1] or "shell", found[2])
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def indented(page: Path) -> list[str]:
    """Return the lines that Markdown reads as a block because they are indented."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    return re.findall(r"(?<=\n\n)    \S.*", text)


ASPECTS = ("coherence", "consistency", "fluency", "relevance")


def write_folder(folder: Path, url: str) -> None:
    """Write the files that the guides assume: rated texts, judged runs, a calibration."""
    rng = random.Random(7)
    rows = [_row(source, system, rng) for source in (*range(11), 17) for system in range(4)]
    unrated = [{k: row[k] for k in row if k not in ("human", "annotators")} for row in rows]
    _write(folder / "data.jsonl", rows)
    _write(folder / "all_rated.jsonl", rows)
    _write(folder / "rated.jsonl", rows[:32] + unrated[32:])
    _write(folder / "new.jsonl", unrated[:6])
    (folder / "judge.toml").write_text(
        f'method = "llm-score"\ntask = "summarization"\nmodel = "direct/judge"\n'
        f'api_base = "{url}"\n'
        'aspects = "fluency"\n',
        encoding="utf-8",
    )
    done = textassay(
        "score", folder / "data.jsonl", "--method", "g-eval", "--task", "summarization",
        "--model", "direct/judge", "--api-base", url, "--out", folder / "runs" / "first",
    )  # fmt: skip
    assert done.code == 0, done.err
    for name in ("second", "a", "new", "old"):
        shutil.copytree(folder / "runs" / "first", folder / "runs" / name)
    shutil.copy(folder / "runs" / "first" / "scores.jsonl", folder / "scores.jsonl")
    rated = (folder / "scores.jsonl", folder / "rated.jsonl")
    for name in ("cal", "calibrations/gpt-4o"):
        done = textassay("calibrate", *rated, "--out", folder / name)
        assert done.code == 0, done.err


def _row(source: int, system: int, rng: random.Random) -> dict[str, object]:
    raters = {aspect: [rng.randint(1, 5) for _ in range(3)] for aspect in ASPECTS}
    return {
        "id": f"doc-{source}-M{system}",
        "output": f"Text {source} of system {system} says that it rained on {3 + source} days.",
        "source": f"It rained in place {source} on {3 + source} days, and the river rose.",
        "references": [f"It rained on {3 + source} days."],
        "system": f"M{system}",
        "group": f"doc-{source}",
        "human": {aspect: sum(given) / 3 for aspect, given in raters.items()},
        "annotators": raters,
        "metrics": {
            **{f"gpt-4/{aspect}": rng.uniform(1, 5) for aspect in ASPECTS},
            "rouge1": rng.random(),
        },
    }


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
