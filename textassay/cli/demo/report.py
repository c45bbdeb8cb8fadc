"""What the demo prints.

Tables of scores and agreement, what they say in words, evidence, and what is next.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from textassay.cli.console import indented, plain_table
from textassay.cli.demo.decisions import decisions
from textassay.cli.demo.evidence import evidence
from textassay.cli.demo.tables import NOT_ABOVE, task_agreement_table, treatments_table
from textassay.demo.folder import FITTED, NODES, RECIPES, DemoFolder, left_out
from textassay.demo.results import Decided, ShownExample, TaskComparison, TaskResult
from textassay.display import printable
from textassay.runtime.messages import Usage
from textassay.version import __version__

FILES = (
    ("data/", "the texts and our ratings"),
    ("runs/TASK/NAME/", "a run each; scores.jsonl has every score with its evidence"),
    ("evaluators/TASK/", "what was learned; report.txt says how well"),
    ("agreement.json", "the tables of 2 and 3"),
)


def opening() -> RenderableType:
    """Return what is said before anything is asked."""
    return Group(
        Text.assemble(
            (f"textassay {__version__}", "bold"),
            ": the whole pipeline on this machine, without network or key.",
        ),
        Text(
            "The judge is a very small language model that comes with the package: it shows how "
            "the methods work, but its scores are not reliable. The texts and the ratings are "
            "ours, written for this demo.\n"
        ),
    )


def report(
    results: Sequence[TaskResult], shown: ShownExample, decided: Sequence[Decided]
) -> RenderableType:
    """Return the tables and their summaries in words."""
    return Group(
        _title("1. Scores", "means by what was done to the texts on purpose"),
        _note("Units differ between methods, so compare along a row."),
        *(part for result in results for part in _scores(result)),
        _title("2. Agreement", "Spearman's rho with our ratings, over all texts of a task"),
        _note(
            "Trivial measures come first: words of the output, share of its word pairs that are "
            f"not in the source, ROUGE-L with the reference. {NOT_ABOVE} marks what is not above "
            "the best of them, whichever its sign. "
            f"{_about_embeddings()}"
        ),
        *(part for result in results for part in _agreement(result.comparison)),
        Text(f"All tasks: {verdict([result.comparison for result in results])}\n", style="bold"),
        _title("3. Learning from ratings", "`textassay fit` weighs HD-Eval's criteria"),
        _note(
            "Learned from the texts of three sources, judged on those of the other three: few, but"
            f" enough to show how it is done. {NODES.method} is the plain mean of the criteria,"
            f" {FITTED} what was learned."
        ),
        *(part for result in results for part in _agreement(result.held_out)),
        _title("4. Evidence", f"why {printable(shown.example.id)} got what it got"),
        evidence(shown),
        _title("5. Decisions", "what people would say on average, from scores and some ratings"),
        _note(
            "The other ratings are kept aside to look at; docs/decisions.md describes every step."
        ),
        decisions(decided),
    )


def _about_embeddings() -> str:
    missing = ", ".join(recipe.name for recipe in left_out())
    if missing:
        return f"{missing} is left out: it needs pip install 'textassay[static]'."
    return (
        "embedding asks no judge: it matches the sentences of text and reference by word vectors, "
        "one number for every aspect."
    )


def _title(title: str, what: str) -> Text:
    return Text.assemble((title, "bold cyan"), f": {what}\n")


def _note(words: str) -> Text:
    return Text(f"{words}\n", style="dim")


def _scores(result: TaskResult) -> list[RenderableType]:
    units = {recipe.name: recipe.unit for recipe in RECIPES}
    what = (
        f"{result.comparison.task}, {result.treatments.aspect} ({result.comparison.examples} texts)"
    )
    return [Text(what, style="bold"), indented(treatments_table(result.treatments, units)), Text()]


def _agreement(comparison: TaskComparison) -> list[RenderableType]:
    what = f"{comparison.task}: {comparison.examples} texts about {comparison.groups} sources"
    by_chance = f"By chance, 19 of 20 would lie within {chance(comparison.examples):.2f} of 0."
    words = Text(f"{verdict([comparison])} {by_chance}")
    return [
        Text(what, style="bold"),
        indented(task_agreement_table(comparison)),
        indented(words),
        Text(),
    ]


def verdict(comparisons: Sequence[TaskComparison]) -> str:
    """Report on how many aspects each judge beats the best trivial measure.

    Judges that beat it on none are named.
    """
    aspects = sum(len(one.aspects) for one in comparisons)
    won: Counter[str] = Counter()
    for one in comparisons:
        won.update({line.name: len(one.won(line)) for line in one.judges})
    some = ", ".join(f"{name} on {count}" for name, count in won.items() if count)
    # judges that beat nothing are named too: the demo must not show only what works
    none = ", ".join(name for name, count in won.items() if not count)
    if not some:
        return f"Above the best trivial measure on none of {aspects} aspects: {none}."
    return (
        f"Above the best trivial measure on some of {aspects} aspects:"
        f" {some}{f'; on none: {none}' if none else ''}."
    )


def chance(count: int) -> float:
    """Return the rho that unrelated rankings of this many texts exceed in about 5 % of cases."""
    # the standard error of Spearman's rho under independence is 1 / sqrt(n - 1)
    return 1.96 / math.sqrt(count - 1)


def closing(layout: DemoFolder, usage: Usage, seconds: float) -> RenderableType:
    """Return where everything is."""
    files = plain_table("", "", left=2)
    for file, what in FILES:
        files.add_row(file, what)
    return Group(
        _title("6. Where things are", printable(str(layout.folder))),
        indented(files),
        Text(
            f"\nThe model was asked {usage.calls} times; {usage.cached_calls} further answers came"
            f" from the cache. This took {seconds:.0f} s.\n"
        ),
        _title("7. Next", "the same with a real model, whose key is in the environment"),
    )


def commands(layout: DemoFolder, program: str) -> tuple[str, ...]:
    """Return what to try next, as it is typed.

    Args:
        layout: The demo's folder.
        program: How textassay is called here.
    """
    task = layout.tasks[0]
    data = shlex.quote(str(layout.data(task)))
    return (
        (
            f"{program} score {data} --method g-eval --task {task} --model openai/gpt-4.1-mini"
            " --out my-run"
        ),
        f"{program} meta my-run {data}",
        (
            f"{program} fit {data} --method hd-eval --task {task} --model openai/gpt-4.1-mini --out"
            " my-judge --dry-run"
        ),
    )
