"""README, docs/tasks.md and CONTRIBUTING: what they print runs as it stands."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Annotated, Any

from examples.mock_server import MockServer
from tests.benchmark_data import benchmark
from tests.cli.harness import document, rows_of, served, textassay, write_lines
from tests.decision_server import Decisions, deciding_in_thread
from tests.guides.running import blocks_of
from tests.report.runs import write_run
from textassay import Example, Settings
from textassay.agents.reading.outcomes import Rating
from textassay.agents.reading.ratings import parse_rating
from textassay.cli.app import app
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.messages import Assignment, Score
from textassay.runtime.settings import Flag, Positive
from textassay.testing import check_model

ROOT = Path(__file__).parents[1]


README = (ROOT / "README.md").read_text(encoding="utf-8")


def readme_blocks(language: str) -> list[str]:
    """Return the README's blocks of one language, in order; a shell's have none."""
    return [found.text for found in blocks_of(ROOT / "README.md") if found.language == language]


def run_in_a_shell(command: str, folder: Path) -> str:
    """Run lines as a reader pastes them, in a folder of their own; return what they print."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_commands_print_what_the_readme_shows(tmp_path: Path) -> None:
    """As they are pasted, but for the installation; `...` marks lines that are left out."""
    install, *rest = readme_blocks("shell")[0].splitlines()
    assert install.startswith("pip install .")
    printed = run_in_a_shell("\n".join(rest), tmp_path).splitlines()
    shown = [line for line in readme_blocks("text")[0].splitlines() if line != "..."]
    places = [printed.index(line) for line in shown]
    assert places[0] == 0
    assert [printed[place] for place in sorted(places)] == shown


def test_the_first_command_is_among_the_first_hundred_words() -> None:
    assert "textassay check answers.csv" in " ".join(README.split()[:100])


def test_the_readme_is_short() -> None:
    """Without the list of methods, which `make methods` writes."""
    words = len(re.sub(r"(?s)(?<=\nMethods: ).*?(?=\s\(\[methods\])", "", README).split())
    assert words < 890, f"README.md has {words} words: move some of them to a page in docs/"


async def test_python_example(
    mock_server: Callable[..., Awaitable[MockServer]], tmp_path: Path
) -> None:
    """The code block, against a server on this machine in place of the provider."""
    code = readme_blocks("python")[0]
    row = {"output": "A summary of the text.", "source": "A text that is longer than its summary."}
    (tmp_path / "data.jsonl").write_text(json.dumps(row), encoding="utf-8")
    server = await mock_server()
    known = {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": server.url, "PYTHONPATH": str(ROOT)}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, **known},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 scored" in done.stdout
    assert (tmp_path / "runs" / "python" / "scores.jsonl").exists()


async def test_the_graph_of_the_readme_takes_the_median_and_passes_on_what_is_missing() -> None:
    """With three jurors whose replies are given."""
    jury = defined(readme_blocks("python")[1])["jury"]
    task = tasks.load("summarization", ["fluency"])
    example = Example(id="x", source="A cat sat on a mat.", output="A cat sat.")
    for replies, expected in (((2, 5, 3), 3.0), ((2, "good", 3), None)):
        models = [
            ScriptedModel(lambda request, reply=reply: f"Rating: {reply}", name=f"m{reply}")
            for reply in replies
        ]
        [score] = await jury(*models).run(Assignment(example=example, aspects=task.aspects))
        assert score.value == expected
        assert (score.outcome == "scored") == (expected is not None)


def test_a_sentence_is_scored_by_any_model_and_by_a_decision_model(tmp_path, monkeypatch) -> None:
    """Against servers on this machine in place of the providers."""
    decisions, chat = (
        shlex.split(line.removeprefix("$ ")) for line in readme_blocks("console")[0].splitlines()
    )
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "data.jsonl", [json.loads(readme_blocks("json")[0])])
    with deciding_in_thread(Decisions()) as address:
        decisions[decisions.index("--api-base") + 1] = address
        textassay(*decisions[1:]).ok()
    (run,) = (tmp_path / "runs").iterdir()
    assert {row["outcome"] for row in rows_of(run)} == {"scored"}
    chat[chat.index("openai/gpt-4.1-mini")] = "direct/judge"
    with served(reply=lambda body, draw: "Rating: 2") as judge:
        textassay(*chat[1:], "--api-base", judge.url, "--out", "runs/chat").ok()
    assert [row["value"] for row in rows_of(Path("runs/chat"))] == [2]


def test_the_commands_of_the_readme_score_compare_and_show(tmp_path, monkeypatch) -> None:
    """On the data of the page, with a server on this machine in place of the provider."""
    monkeypatch.chdir(tmp_path)
    row = json.loads(readme_blocks("json")[0])
    texts = [{**row, "id": f"a{at}", "group": f"doc-{at}"} for at in range(6)]
    write_lines(tmp_path / "data.jsonl", texts)
    with served(reply=lambda body, draw: "Rating: 2") as judge:
        for line in readme_blocks("console")[1].splitlines():
            command = line.removeprefix("$ ").replace("openai/gpt-4.1-mini", "direct/judge")
            words = shlex.split(command)
            asks = ["--api-base", judge.url] if words[1] == "score" else []
            textassay(*words[1:], *asks).ok()
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_figures_of_gpt_4_follow_from_its_recorded_answers(tmp_path: Path) -> None:
    """Read as a run reads them; ROUGE and length are measured by `recorded_judges`."""
    answers = {
        (row["id"], row["dimension"]): row["raw"][0]
        for row in benchmark("summeval/predictions_llm_judges.jsonl.gz")
        if (row["judge"], row["prompt"]) == ("gpt-4-0314", "rts")
    }
    judged = {id_ for id_, _ in answers}
    rows = [row for row in benchmark("summeval/summeval.jsonl.gz") if row["id"] in judged]
    texts = [{**row, "metrics": {}} for row in rows]
    scores, first = [], dict[str, str]()
    for row in rows:
        # of equal texts, which some systems copied, only the first is asked about
        asked = first.setdefault(row["output"], row["id"])
        for aspect in ("coherence", "consistency", "fluency", "relevance"):
            found = parse_rating(answers[asked, aspect], scale=(1, 5), aspect=aspect)
            value = found.value if isinstance(found, Rating) else None
            scores.append({"id": row["id"], "aspect": aspect, "value": value, "scale": [1, 5]})
    files = (
        write_lines(tmp_path / "scores.jsonl", scores), write_lines(tmp_path / "data.jsonl", texts)
    )  # fmt: skip

    def by_aspect(command: str, *flags: object) -> dict[str, dict[str, Any]]:
        rows = document(command, *files, *flags)["rows"]
        return {row["aspect" if "aspect" in row else "score"]: row for row in rows}

    rhos = by_aspect("agreement", "--level", "group", "--bootstrap", 0)
    may, means = by_aspect("alt-test"), by_aspect("estimate")
    page = (ROOT / "docs" / "agreement.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"^\| (\w+) \| (\S+) \[.*?\] \| \S+ \| \S+ \| (\S+) \| (\S+) \| (\S+) \|$", page, re.M
    )
    assert shown == [
        (
            aspect,
            f"{rhos[aspect]['spearman']:.3f}",
            "**yes**" if may[aspect]["may_stand_in"] else "no",
            f"{means[aspect]['judge_only']['value']:.3f}",
            f"{means[aspect]['labels_only']['value']:.3f}",
        )
        for aspect in sorted(rhos, key=lambda one: -rhos[one]["spearman"])
    ]
    unread = sum(score["value"] is None for score in scores)
    assert f"{unread} answers contain no usable rating" in " ".join(page.split())


GUIDE = (Path(__file__).parents[1] / "docs" / "tasks.md").read_text(encoding="utf-8")


def guide_blocks(language):
    """All blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_every_block_of_the_guide_runs(tmp_path, monkeypatch):
    """The files are taken, the commands exit 0, the Python gives scores on its own scales."""
    monkeypatch.chdir(tmp_path)
    (Path("support.toml")).write_text(guide_blocks("toml")[0], encoding="utf-8")
    (Path("replies.jsonl")).write_text(guide_blocks("json")[0], encoding="utf-8")
    with served(reply=lambda body, draw: "Rating: 2") as judge:
        for line in "".join(guide_blocks("console")).splitlines():
            words = shlex.split(line.removeprefix("$ ").replace("$URL", judge.url))
            assert words[0] == "textassay"
            done = textassay(*words[1:])
            assert done.code == 0, done
    scales = {row["aspect"]: row["scale"] for row in rows_of(Path("runs/support"))}
    assert scales == {"helpfulness": [1, 5], "tone": [1, 3], "jargon": [0, 10]}
    assert {row["aspect"] for row in rows_of(Path("runs/tone"))} == {"tone"}
    assert {row["aspect"] for row in rows_of(Path("runs/plain"))} == {"beginner-can-follow-reply"}
    assert {row["aspect"] for row in rows_of(Path("runs/two"))} == {"plain", "tone"}
    scope: dict[str, object] = {}
    for block in guide_blocks("python"):
        exec(compile(block, "docs/tasks.md", "exec"), scope)
    asyncio.run(scope["main"](ScriptedModel(lambda request: "Rating: 2")))
    assert {row["aspect"] for row in rows_of(Path("runs/brevity"))} == {"tone", "brevity"}
    run = asyncio.run(scope["measure"]())
    assert [score.value for score in run] == [4.0, 5.0]


def test_the_guide_names_every_key():
    keys = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", "".join(keys)))
    known = {*tasks._TASK_KEYS, *tasks._ASPECT_KEYS}
    assert named == known


BLOCKS = blocks_of(Path(__file__).parents[1] / "CONTRIBUTING.md")


def block(words: str, language: str = "python") -> str:
    """Return the one block of the page that has these words."""
    (found,) = (b.text for b in BLOCKS if b.language == language and words in b.text)
    return found


def defined(source: str, **given: Any) -> dict[str, Any]:
    """Return the names that a module with this source defines."""
    names: dict[str, Any] = {"__name__": "printed", **given}
    exec(compile(source, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    return names


def test_no_line_of_code_is_too_long_for_the_linter():
    lines = [line for one in BLOCKS if one.language == "python" for line in one.text.splitlines()]
    assert lines
    assert [line for line in lines if len(line) > 100] == []


def test_the_command_names_what_has_no_value(tmp_path, monkeypatch):
    # what the page adds is taken away again
    monkeypatch.setattr(app, "registered_commands", [*app.registered_commands])
    defined(block("def unscored"))
    scored = Score(id="a", aspect="fluency", value=4.0)
    empty = Score.unscored("EmptyOutput", "there is no text", id="b", aspect="fluency")
    run = write_run(tmp_path / "run", [scored, empty])
    told = textassay("unscored", run)
    assert (told.code, told.out) == (1, "b fluency: abstained\n")
    assert textassay("unscored", tmp_path).code == 2


async def test_the_tool_measures_and_abstains():
    tool = defined(block("class Capitals"))["Capitals"]()
    assert (await tool.score(Example(id="x", output="Ab"))).value == 0.5
    assert (await tool.score(Example(id="x", output="12"))).outcome == "abstained"


async def test_the_backend_passes_all_checks():
    await check_model(defined(block("class MyModel"))["MyModel"])


def test_the_settings_are_a_flag_and_a_key():
    fields = indent(dedent(block("patience: Positive")), "    ")
    names = {"Settings": Settings, "Positive": Positive, "Flag": Flag}
    source = f"class Extended(Settings):\n{fields}"
    extended = defined(source, Annotated=Annotated, **names)["Extended"]
    known = extended.model_fields
    assert any(isinstance(mark, Flag) for mark in known["brisk"].metadata)
    assert not any(isinstance(mark, Flag) for mark in known["patience"].metadata)
    assert extended(patience=2, brisk=True).brisk is True
