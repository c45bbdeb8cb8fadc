"""What the demo prints and how it shows its progress, drawn for 80 columns."""

from __future__ import annotations

import math
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from textassay.cli.console import REDRAW_SECONDS, Style
from textassay.demo.pipeline import FITTED, NODES, RECIPES, DemoFolder, WatchSession, left_out
from textassay.demo.results import (
    ASPECT,
    EXAMPLE,
    JUDGE,
    MISLED,
    RATED,
    WITH_EVIDENCE,
    ComparisonLine,
    Decided,
    TaskComparison,
    TaskResult,
    Treatments,
)
from textassay.estimation import AnnotatorTest
from textassay.evaluation.progress import Progress, display_progress
from textassay.evaluation.session import Session
from textassay.report.examples import ShownScore, show
from textassay.report.page import join_runs
from textassay.report.source import open_data, open_run
from textassay.report.terminal import score_evidence
from textassay.runtime.messages import Usage
from textassay.table import Column, Table, indent, plain_table, printable, to_terminal
from textassay.version import __version__

MAX_HEADING = 9
"""Characters of a column's heading, so that the six aspects of dialogue fit into 80 columns."""
NOT_ABOVE = "x"
"""Mark of a coefficient that is not above the best trivial measure's."""


def treatments_table(treatments: Treatments, units: dict[str, str]) -> RichTable:
    """Draw means by what was done to the texts."""
    table = plain_table("", *treatments.systems, "")
    for name, values in treatments.rows.items():
        unit = Text(units.get(name, "rating"), style="dim")
        table.add_row(name, *map(_number, values), unit, style="bold" if name not in units else "")
    table.columns[-1].justify = "left"
    return table


def task_agreement_table(comparison: TaskComparison) -> RichTable:
    """Draw Spearman's rho of trivial measures and judges, each beside the best trivial measure."""
    table = plain_table("", *map(heading, comparison.aspects))
    for line in comparison.lines:
        if not line.trivial and table.rows and comparison.lines[len(table.rows) - 1].trivial:
            table.add_section()
        cells = (_cell(comparison, line, aspect) for aspect in comparison.aspects)
        gaps = "" if line.n == comparison.examples else f" (n {line.n})"
        table.add_row(Text(f"{line.name}{gaps}", style="italic" if line.trivial else ""), *cells)
    return table


def _cell(comparison: TaskComparison, line: ComparisonLine, aspect: str) -> Text:
    """Return a coefficient, with room for the mark behind it whether it is there or not."""
    if aspect not in line.spearman:  # not judged: neither above nor below
        return Text("-  ")
    value = _number(line.spearman[aspect])
    if line.trivial:
        return Text(f"{value}  ", style="bold" if comparison.is_bar(line, aspect) else "")
    if comparison.beats(line, aspect):
        return Text(f"{value}  ", style="green")
    return Text(f"{value} {NOT_ABOVE}", style="yellow")


def heading(aspect: str) -> str:
    """Return an aspect's name, shortened to the width of a column's heading."""
    return aspect if len(aspect) <= MAX_HEADING else f"{aspect[: MAX_HEADING - 1]}."


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:z.2f}"


def shown_example(layout: DemoFolder) -> dict[str, ShownScore]:
    """Read what several methods say of one aspect of one example, by name of the method."""
    found = {}
    for name in WITH_EVIDENCE:
        run = open_run(layout.run(layout.tasks[0], name))
        row, data = run.table.read_all().row(EXAMPLE, ASPECT), open_data(run, None)
        assert row is not None  # the demo has scored all of its texts
        found[name] = show(run, data, join_runs([run], [data], {}), row)
    return found


def evidence(shown: Mapping[str, ShownScore]) -> RenderableType:
    """Return the text that was judged, and below it what each method says of it and why."""
    example = next(iter(shown.values())).example
    text = "" if example is None else example.output
    parts: list[RenderableType] = [indent(Text(printable(text), style="italic")), Text()]
    for name, one in shown.items():
        parts += [Text(name, style="bold"), indent(score_evidence(one)), Text()]
    return Group(*parts)


RATERS = (
    "The ratings are the project's own, not people's: the author's, and two blind passes by "
    "language models that saw a text, its article and the definitions only. They show what the "
    "command does, not what the judge is worth."
)

_WIDTH = 78
"""Columns of a terminal of 80 beside the margin."""
_MEANS = (
    Column("aspect", ""), Column("judge", "judge", "number", 1),
    Column("ratings", "ratings", "interval", 1), Column("both", "both", "interval", 1),
    Column("all", "all", "number", 2), Column("error", "off by", "number", 2),
    Column("calibrated", "calibrated", "number", 2),
)  # fmt: skip
_TESTS = (
    Column("aspect", ""), Column("omega", "omega", "number", 2), Column("rho", "rho", "number", 2),
    Column("constant", "constant", "number"), Column("constant_omega", "omega", "number", 2),
    Column("constant_rho", "rho", "number", 2),
    Column("over_constant", "rho - constant's", "interval", 2), Column("may_stand_in", ""),
)  # fmt: skip


def decisions(decided: Sequence[Decided]) -> RenderableType:
    """Return the tables and their summaries in words."""
    rows = [
        (one.estimate.human, one.estimate.judge_only.value, one.estimate.labels_only,
         one.estimate.corrected, one.all_ratings, one.error, one.calibrated_error)
        for one in decided
    ]  # fmt: skip
    first = decided[0].estimate
    return Group(
        Text(f"{JUDGE}: {first.n} texts, {first.rated} of {RATED} sources rated", style="bold"),
        indent(to_terminal(Table(_MEANS, rows), _WIDTH)),
        Text(
            f"\nMeans of the scores, of the ratings of {RATED} sources, of both together, and of"
            " all our ratings. With so few sources intervals are wide, as they must be. `off by`"
            " is the mean distance of a score from our rating, before and after calibration.\n"
        ),
        *_annotator_tests([one.annotator_test for one in decided]),
    )


def _annotator_tests(tests: Sequence[AnnotatorTest]) -> list[RenderableType]:
    """Return the table of the alternative annotator test, and what it says in words."""
    rows = [
        (one.human, one.test.judge.omega, one.test.judge.rho,
         " ".join(f"{value:g}" for value in one.test.constant_values), one.test.constant.omega,
         one.test.constant.rho, one.test.over_constant, "yes" if one.test.may_stand_in else "no")
        for one in tests
    ]  # fmt: skip
    first = tests[0].test
    able = [one.human for one in tests if one.test.may_stand_in]
    verdict = f"on {', '.join(able)}" if able else f"on none of {len(tests)} aspects"
    what = (
        f"May {JUDGE} stand in for a rater? {first.n} texts of {first.groups} sources,"
        f" {first.raters} raters"
    )
    return [
        Text(what, style="bold"),
        indent(to_terminal(Table(_TESTS, rows), _WIDTH)),
        Text(
            "\nThe alternative annotator test with the source as the unit: against how many of the"
            " raters the judge wins (omega), how often it is as near to the others as the rater"
            " left out (rho), and the same of always giving the best constant. `yes` needs omega"
            " of .5 and a rho above the constant's beyond chance."
        ),
        Text(f"It may stand in {verdict}.", style="bold"),
        Text(f"{RATERS}\n"),
    ]


@contextmanager
def demo_steps(count: int, style: Style) -> Iterator[WatchSession]:
    """Show how the demo goes inside the block; yield what watches each of its steps."""
    done = 0
    with ExitStack() as stack:
        bar = None
        if style == "auto" and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(),
                TimeElapsedColumn(),
            )  # fmt: skip
            # removed at the end: what is printed next takes its place
            bar = ProgressBar(*columns, console=Console(stderr=True), transient=True)
            stack.enter_context(bar).add_task("", total=count)

        @asynccontextmanager
        async def watch(task: str, name: str, session: Session) -> AsyncIterator[None]:
            nonlocal done
            title = f"{task}: {name}"

            def redraw(now: Progress) -> None:
                share = now.done / now.total if now.total else 0.0
                if bar is not None:
                    bar.update(TaskID(0), description=f"{title:28}", completed=done + share)

            async with display_progress(
                lambda: session.engine.progress, redraw, seconds=REDRAW_SECONDS
            ):
                yield
            done += 1
            now = session.engine.progress
            # in a log a line per finished step is enough; a redrawn bar would be thousands of lines
            if bar is None and style != "none":
                line = f"{done}/{count} {title}, {now.done} texts in {now.seconds:.1f} s"
                print(line, file=sys.stderr, flush=True)  # noqa: T201

        yield watch


FILES = (
    ("data/", "the texts and our ratings"),
    ("runs/TASK/NAME/", "a run each; scores.jsonl has every score with its evidence"),
    ("evaluators/TASK/", "what was learned; report.txt says how well"),
    ("agreement.json", "the tables of 2 and 3"),
)


def opening() -> RenderableType:
    """Return what is said before anything is asked."""
    what = ": the whole pipeline on this machine, without network or key."
    return Group(
        Text.assemble((f"textassay {__version__}", "bold"), what),
        Text(
            "The judge is a very small language model that comes with the package: it shows how "
            "the methods work, but its scores are not reliable. The texts and the ratings are "
            "ours, written for this demo.\n"
        ),
    )


def report(
    results: Sequence[TaskResult], shown: Mapping[str, ShownScore], decided: Sequence[Decided]
) -> RenderableType:
    """Return the tables and their summaries in words."""
    return Group(
        _title("1. Scores", "means by what was done to the texts on purpose"),
        Text(f"{what_works(results)}\n", style="bold"),
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
        _title("4. Evidence", f"why {EXAMPLE} got what it got"),
        evidence(shown),
        _title("5. Decisions", "what people would say on average, from scores and some ratings"),
        _note(
            "The other ratings are kept aside to look at; docs/estimation.md describes every step."
        ),
        decisions(decided),
    )


def what_works(results: Sequence[TaskResult]) -> str:
    """Return how many pairs of texts each method orders as our ratings do, and what misleads it."""
    found: dict[str, list[tuple[float, int]]] = {}
    for result in results:
        for name, counts in result.in_order.items():
            found.setdefault(name, []).append(counts)
    shares = {
        name: sum(right for right, _ in counts) / pairs
        for name, counts in found.items()
        if (pairs := sum(count for _, count in counts))
    }
    ranked = sorted(shares.items(), key=lambda one: -one[1])
    listed = ", ".join(f"{name} {share:.0%}" for name, share in ranked)
    wrong, sources = (sum(one) for one in zip(*(r.misled for r in results), strict=True))
    return (
        f"Of two texts about one source, the better one by our ratings scores higher: {listed}"
        " (50 % by chance). What misleads the model are copied words:"
        f" {JUDGE} rates {MISLED[2]} ones above the clean text on {MISLED[0]} in {wrong} of"
        f" {sources} sources."
    )


def _about_embeddings() -> str:
    if missing := ", ".join(recipe.name for recipe in left_out()):
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
    units, compared = {recipe.name: recipe.unit for recipe in RECIPES}, result.comparison
    what = f"{compared.task}, {result.treatments.aspect} ({compared.examples} texts)"
    return [Text(what, style="bold"), indent(treatments_table(result.treatments, units)), Text()]


def _agreement(comparison: TaskComparison) -> list[RenderableType]:
    what = f"{comparison.task}: {comparison.examples} texts about {comparison.groups} sources"
    by_chance = f"By chance, 19 of 20 would lie within {chance(comparison.examples):.2f} of 0."
    words = Text(f"{verdict([comparison])} {by_chance}")
    table = task_agreement_table(comparison)
    return [Text(what, style="bold"), indent(table), indent(words), Text()]


def verdict(comparisons: Sequence[TaskComparison]) -> str:
    """Report on how many aspects each judge beats the best trivial measure, if on any."""
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
        indent(files),
        Text(
            f"\nThe model was asked {usage.calls} times; {usage.cached_calls} further answers came"
            f" from the cache. This took {seconds:.0f} s.\n"
        ),
        _title("7. Next", "the same with a real model, whose key is in the environment"),
    )


def commands(layout: DemoFolder, program: str) -> tuple[str, ...]:
    """Return what to try next, as it is typed."""
    task = layout.tasks[0]
    data = shlex.quote(str(layout.data(task)))
    how = f"--task {task} --model openai/gpt-4.1-mini"
    return (
        f"{program} score {data} --method g-eval {how} --out my-run",
        f"{program} meta my-run {data}",
        f"{program} fit {data} --method hd-eval {how} --out my-judge --dry-run",
    )
