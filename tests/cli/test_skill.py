"""The skill for coding agents: each command in it runs, and it is written where agents look."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import document, textassay, write_examples
from tests.loopback import in_thread
from textassay.cli.app import app
from textassay.cli.commands.skill import read_skill

ROOT = Path(__file__).parents[2]
SKILL = read_skill()
BLOCKS = re.findall(r"```console\n(.*?)```", SKILL, re.DOTALL)
COMMANDS = [line.removeprefix("$ ") for block in BLOCKS for line in block.splitlines()]


def reply(body: dict[str, Any], draw: int) -> str:
    """A rating, or the letter of a label."""
    text = str(body["messages"])
    if "letter of the label" in text:
        return '{"reason": "So.", "score": "B"}'
    # differs between texts, as rated ones must
    return f"Score: {1 + sum(map(int, re.findall('[0-9]', text))) % 5}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the skill names."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{at},{1 + at % 5},{1 + (at + at % 3) % 5}" for at in range(60)]
    (tmp_path / "answers.csv").write_text("\n".join(["id,judge,human", *lines]), encoding="utf-8")
    rows = [f"{at},It rained on day {at}.,It rained {at} times." for at in range(12)]
    (tmp_path / "data.csv").write_text("\n".join(["id,source,output", *rows]), encoding="utf-8")
    return tmp_path


def rate(folder: Path) -> None:
    """Make the run whose data have ratings."""
    texts = write_examples(folder / "rated.jsonl", 24)
    flags = ("-a", "coherence,fluency", "-m", "openai/gpt-4.1-mini", "-o", "runs/rated")
    textassay("score", texts, *flags).ok()


def test_each_command_of_the_skill_runs(folder, monkeypatch):
    """In order, as an agent would type them, against a server in place of the provider."""
    from examples.mock_server import Options, serve

    with in_thread(lambda: serve(Options(reply=reply))) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "a key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        for line in COMMANDS:
            name, *words = shlex.split(line)
            assert name == "textassay", line
            if "runs/rated" in words and not Path("runs/rated").exists():
                rate(folder)
            done = textassay(*words)
            assert done.code == 0, (line, done)
    assert {path.name for path in Path("runs").iterdir()} == {"a", "b", "jury", "rated"}
    assert Path("report.html").stat().st_size > 10_000


def test_the_skill_is_printed_and_installed(tmp_path):
    printed = textassay("skill").ok().out
    assert printed == SKILL
    textassay("skill", "--install", tmp_path / "skills").ok()
    path = tmp_path / "skills" / "textassay" / "SKILL.md"
    assert path.read_text("utf-8") == SKILL
    # the form that agents read: a name and a description of at most 1,024 characters
    head = re.match(r"---\nname: (\S+)\ndescription: (.+)\n---\n", SKILL)
    assert head is not None
    assert (head[1], len(head[2]) <= 1024) == ("textassay", True)


def test_the_names_in_the_skill_and_llms_txt_exist():
    from typer.main import get_command

    known = get_command(app).commands  # type: ignore[attr-defined]
    text = SKILL + (ROOT / "llms.txt").read_text("utf-8")
    named = set(re.findall(r"`textassay ([a-z-]+)", text))
    assert {"list", "resume", "skill"} <= named <= set(known)
    links = re.findall(r"\]\((docs/[\w.-]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_one_sentence_says_what_it_is_everywhere():
    from textassay.cli.app import PROMISE

    shown = " ".join(textassay("--help").ok().out.split())
    assert PROMISE in shown
    for file in ("pyproject.toml", "mkdocs.yml", "textassay/__init__.py"):
        assert PROMISE in (ROOT / file).read_text("utf-8"), file
    assert PROMISE in " ".join((ROOT / "llms.txt").read_text("utf-8").split())


def test_five_commands_come_first_in_the_help():
    shown = textassay("--help").ok().out
    first = shown.split("─ Start here ─")[1].split("╰")[0]
    assert re.findall(r"│ ([a-z-]+)  ", first) == [
        "check", "score", "compare", "report", "annotate"
    ]  # fmt: skip
    assert shown.count("─ More: ") == 4
    assert document("tools", "list")["rows"]
