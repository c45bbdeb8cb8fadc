"""What the demo prints: tables of scores and agreement, what they say in words, evidence, and what is next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from textassay.cli.console import printable
from textassay.cli.demo_evidence import evidence
from textassay.cli.demo_tables import NOT_ABOVE, agreement_table, treatments_table
from textassay.demo.comparison import Comparison
from textassay.demo.layout import Layout
from textassay.demo.recipes import FITTED, NODES, RECIPES, TASKS
from textassay.demo.results import Shown, TaskResult
from textassay.runtime.messages import Usage
from textassay.version import __version__

LEFT = (0, 0, 0, 2)


def opening() -> RenderableType:
    """Return what is said before anything is asked."""
    return Group(
        Text.assemble(
            (f"textassay {__version__}", "bold"), ": the whole pipeline on this machine, without network or key."
        ),
        Text(
            "The judge is a very small language model that comes with the package: it shows how the methods work, "
            "and is nothing to rely on. The texts and the ratings are ours, written for this demo.\n"
        ),
    )


def report(results: Sequence[TaskResult], shown: Shown) -> RenderableType:
    """Return the tables and what they say."""
    units = {recipe.name: recipe.unit for recipe in RECIPES}
    parts: list[RenderableType] = [_title("1. Scores", "means by what was done to the texts on purpose")]
    for result in results:
        what = f"{result.comparison.task}, {result.treatments.aspect} ({result.comparison.examples} texts)"
        parts += [Text(what, style="bold"), Padding(treatments_table(result.treatments, units), LEFT, expand=False), Text()]
    parts += [
        _title("2. Agreement", "Spearman's rho with the ratings that we gave, over all texts of a task"),
        _legend(),
    ]
    for result in results:
        parts += _agreement(result.comparison)
    parts += [_title("3. Learning from ratings", f"HD-Eval's criteria weighed by `textassay fit`: {FITTED}")]
    for result in results:
        parts += _agreement(result.held_out, small=True)
    parts += [_title("4. Evidence", f"why {printable(shown.example.id)} got what it got"), evidence(shown)]
    return Group(*parts)


def _title(title: str, what: str) -> Text:
    return Text.assemble((title, "bold cyan"), f": {what}\n")


def _legend() -> Text:
    return Text(
        "Trivial measures stand first: words of the output, share of its word pairs that the source has not, ROUGE-L "
        f"with the reference. {NOT_ABOVE} marks what is not above the best of them, whichever its sign.\n",
        style="dim",
    )


def _agreement(found: Comparison, *, small: bool = False) -> list[RenderableType]:
    what = f"{found.task}: {found.examples} texts about {found.groups} sources"
    if small:
        what += " that nothing was learnt from"
    table = Padding(agreement_table(found), LEFT, expand=False)
    return [Text(what, style="bold"), table, Padding(Text(in_words(found)), LEFT, expand=False), Text()]


def in_words(found: Comparison) -> str:
    """Say which judges beat the best trivial measure where, and which do nowhere."""
    won = {line.name: found.won(line) for line in found.judges}
    some = [f"{name} on {len(aspects)} of {len(found.aspects)}" for name, aspects in won.items() if aspects]
    none = [name for name, aspects in won.items() if not aspects]
    said = []
    if some:
        said.append(f"Above the best trivial measure: {', '.join(some)} aspects.")
    if none:
        said.append(f"On no aspect above it: {', '.join(none)}.")
    return f"{' '.join(said)} By chance alone rho reaches {chance(found.examples):.2f} once in twenty times."


def chance(count: int) -> float:
    """Return the size of rho that two unrelated rankings of so many texts exceed once in twenty times, about."""
    return 1.96 / math.sqrt(count - 1)


def closing(layout: Layout, usage: Usage, seconds: float) -> RenderableType:
    """Return where everything is and what to do next."""
    data = layout.data(TASKS[0])
    commands = (
        f"textassay score {data} --method g-eval --task summarization --model openai/gpt-4.1-mini --out my-run",
        f"textassay meta my-run {data}",
    )
    return Group(
        _title("5. Where things are", printable(str(layout.folder))),
        Padding(_files(), LEFT, expand=False),
        Text(
            f"\n{usage.calls} calls of the model and {usage.cached_calls} answers from the cache in {seconds:.0f} s.\n"
        ),
        _title("6. Next", "the same with a real model (its key in the environment), and held against the ratings"),
        *(Padding(Text(printable(command), overflow="fold"), LEFT, expand=False) for command in commands),
        Text("\nYour own texts: one JSON object a line with output, source, references and human; see README.md."),
    )


def _files() -> Text:
    lines = (
        "data/            the texts and our ratings",
        "runs/TASK/NAME/  a run each: manifest.json, scores.jsonl (every score with its evidence), summary.json",
        f"evaluators/TASK/ what `textassay fit` learnt from runs/TASK/{NODES.name}: report.txt",
        "agreement.json   the tables of 2 and 3",
    )
    return Text("\n".join(lines))
