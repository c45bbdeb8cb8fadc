"""What the demo prints: tables of scores and agreement, what they say in words, evidence, and what is next."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from textassay.cli.console import indented, printable
from textassay.cli.demo_evidence import evidence
from textassay.cli.demo_tables import NOT_ABOVE, agreement_table, treatments_table
from textassay.demo.comparison import Comparison
from textassay.demo.layout import Layout
from textassay.demo.recipes import FITTED, NODES, RECIPES, TASKS
from textassay.demo.results import Shown, TaskResult
from textassay.runtime.messages import Usage
from textassay.version import __version__

FILES = (
    "data/             the texts and our ratings",
    "runs/TASK/NAME/   a run each: manifest.json, scores.jsonl (every score with its evidence), summary.json",
    f"evaluators/TASK/  what `textassay fit` learnt from runs/TASK/{NODES.name}; report.txt says how well",
    "agreement.json    the tables of 2 and 3",
)


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
        parts += [
            Text(what, style="bold"),
            indented(treatments_table(result.treatments, units)),
            Text(),
        ]
    parts += [
        _title("2. Agreement", "Spearman's rho with the ratings that we gave, over all texts of a task"),
        _legend(),
    ]
    for result in results:
        parts += _agreement(result.comparison)
    parts += [Text(f"All tasks together: {verdict([result.comparison for result in results])}\n", style="bold")]
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
    table = indented(agreement_table(found))
    return [Text(what, style="bold"), table, indented(Text(in_words(found))), Text()]


def in_words(found: Comparison) -> str:
    """Say which judges beat the best trivial measure where, which do nowhere, and what chance would do."""
    by_chance = f"With {found.examples} texts, chance stays within {chance(found.examples):.2f} 19 times in 20."
    return f"{verdict([found])} {by_chance}"


def verdict(found: Sequence[Comparison]) -> str:
    """Say on how many aspects each judge beats the best trivial measure, and which judges do on none."""
    aspects = sum(len(one.aspects) for one in found)
    won: Counter[str] = Counter()
    for one in found:
        won.update({line.name: len(one.won(line)) for line in one.judges})
    some = [f"{name} on {count}" for name, count in won.items() if count]
    none = [name for name, count in won.items() if not count]
    said = [f"Of {aspects} aspects, above the best trivial measure: {', '.join(some)}."] if some else []
    if none:
        said.append(f"Above it on none{'' if some else f' of {aspects} aspects'}: {', '.join(none)}.")
    return " ".join(said)


def chance(count: int) -> float:
    """Return the size of rho that two unrelated rankings of so many texts exceed once in twenty times, about."""
    return 1.96 / math.sqrt(count - 1)


def closing(layout: Layout, asked: Usage, seconds: float) -> RenderableType:
    """Return where everything is."""
    return Group(
        _title("5. Where things are", printable(str(layout.folder))),
        indented(Text("\n".join(FILES))),
        Text(
            f"\n{asked.calls} answers of the model, {asked.cached_calls} used again from the cache; {seconds:.0f} s.\n"
        ),
        _title("6. Next", "the same with a real model, whose key is in the environment"),
    )


def commands(layout: Layout, program: str) -> tuple[str, ...]:
    """Return what to try next, as it is typed.

    Args:
        layout: The demo's folder.
        program: How textassay is called here.
    """
    task = TASKS[0]
    data = shlex.quote(str(layout.data(task)))
    return (
        f"{program} score {data} --method g-eval --task {task} --model openai/gpt-4.1-mini --out my-run",
        f"{program} meta my-run {data}",
        f"{program} fit {data} --method hd-eval --task {task} --model openai/gpt-4.1-mini --out my-judge --dry-run",
    )
