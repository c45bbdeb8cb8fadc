"""The demo's tables fit into 80 columns, say in words what they show, and put no number where there
is none."""

import io
import random

import pytest
from rich.console import Console, RenderableType

from textassay.cli.demo_report import (
    chance,
    heading,
    task_agreement_table,
    treatments_table,
    verdict,
)
from textassay.demo.pipeline import FITTED, RECIPES
from textassay.demo.results import ComparisonLine, TaskComparison, Treatments
from textassay.display import indented
from textassay.meta import spearman
from textassay.methods.library import tasks


def drawn(renderable: RenderableType, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def comparison(task: str, judges: dict[str, float | None], n: int = 30) -> TaskComparison:
    aspects = tuple(aspect.name for aspect in tasks.load(task).aspects)
    lines = [ComparisonLine("length", True, dict.fromkeys(aspects, -0.5), n)]
    lines += [
        ComparisonLine(name, False, dict.fromkeys(aspects, rho), n) for name, rho in judges.items()
    ]
    return TaskComparison(task, aspects, 30, 6, tuple(lines))


@pytest.mark.parametrize("task", ["summarization", "dialogue", "data-to-text"])
def test_every_row_is_one_line_of_80_columns(task):
    """The longest name, the most aspects, marks behind all numbers."""
    found = comparison(task, {recipe.name: -0.31 for recipe in RECIPES} | {FITTED: -0.25})
    lines = drawn(indented(task_agreement_table(found)))
    assert max(map(len, lines)) <= 80
    assert len(lines) == 1 + 1 + len(RECIPES) + 1
    assert all(heading(aspect) in lines[0] for aspect in found.aspects)
    assert lines[-1].count("-0.25 x") == len(found.aspects)


def test_marks_stand_where_a_judge_is_not_above_the_best_trivial_measure():
    """At its size is not above it; what is undefined is a dash, and marked too."""
    found = comparison("data-to-text", {"good": 0.51, "even": 0.5, "none": None})
    trivial, good, even, none = drawn(task_agreement_table(found))[1:]
    assert trivial.split() == ["length", "-0.50", "-0.50", "-0.50"]
    assert good.split() == ["good", "0.51", "0.51", "0.51"]
    assert even.split() == ["even", *["0.50", "x"] * 3]
    assert none.split() == ["none", *["-", "x"] * 3]


def test_an_aspect_that_is_not_judged_has_no_mark():
    found = comparison("data-to-text", {"one": 0.6})
    line = found.lines[1]
    aspect = found.aspects[0]
    only = ComparisonLine(line.name, False, {aspect: line.spearman[aspect]}, line.n)
    drawn_ = drawn(
        task_agreement_table(
            TaskComparison(found.task, found.aspects, 30, 6, (found.lines[0], only))
        )
    )
    assert drawn_[-1].split() == ["one", "0.60", "-", "-"]


def test_rows_that_lack_scores_tell_how_many_there_are():
    found = comparison("data-to-text", {"half": 0.6}, n=15)
    assert "half (n 15)" in drawn(task_agreement_table(found))[-1]


def test_words_name_who_wins_where_and_who_nowhere():
    """Aspects are counted over tasks."""
    one, two = (
        comparison("data-to-text", {"a": 0.6, "b": 0.1}),
        comparison("dialogue", {"a": 0.1, "b": 0.1}),
    )
    some = "Above the best trivial measure on some of"
    assert verdict([one, two]) == f"{some} 9 aspects: a on 3; on none: b."
    assert verdict([comparison("dialogue", {"a": 0.6})]) == f"{some} 6 aspects: a on 6."
    assert verdict([two]) == "Above the best trivial measure on none of 6 aspects: a, b."


def test_chance_is_what_unrelated_rankings_reach():
    """Against rankings drawn at random."""
    draw = random.Random(1)
    found = [abs(spearman(list(range(30)), draw.sample(range(30), 30)) or 0.0) for _ in range(2000)]
    assert sum(rho > chance(30) for rho in found) / len(found) == pytest.approx(0.05, abs=0.015)


def test_means_by_treatment_show_units_and_gaps():
    """The ratings first; a method without any score there has a dash."""
    found = Treatments(
        "quality", ("full", "wrong"), {"our rating": (5.0, 1.0), "gptscore": (0.25, None)}
    )
    lines = drawn(treatments_table(found, {"gptscore": "nats/token"}))
    assert [line.split() for line in lines] == [
        ["full", "wrong"],
        ["our", "rating", "5.00", "1.00", "rating"],
        ["gptscore", "0.25", "-", "nats/token"],
    ]
