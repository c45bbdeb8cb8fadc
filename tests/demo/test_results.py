"""What comes out of the demo, and its tables of 80 columns: no number where there is none."""

import io
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from textassay.agreement import spearman
from textassay.cli.demo_report import (
    chance,
    heading,
    task_agreement_table,
    treatments_table,
    verdict,
)
from textassay.demo.pipeline import FITTED, MARK, RECIPES, DemoFolder
from textassay.demo.results import (
    ComparisonLine,
    TaskComparison,
    Treatments,
    by_treatment,
    compare_with_ratings,
    in_order,
    misled,
)
from textassay.methods.library import tasks
from textassay.runtime.errors import RunFolderError
from textassay.runtime.messages import Example
from textassay.table import indent

RATINGS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
IDS = [f"e{i}" for i in range(6)]


def examples(**human: list[float]) -> list[Example]:
    rated = human or {"quality": RATINGS}
    return [
        Example(
            id=id_,
            output="A text.",
            group=f"g{i // 3}",
            system="good" if i % 2 else "bad",
            human={name: values[i] for name, values in rated.items()},
        )
        for i, id_ in enumerate(IDS)
    ]


def recorded(values: list[float | None]) -> dict[str, float | None]:
    return dict(zip(IDS, values, strict=True))


def test_a_judge_must_beat_the_best_trivial_measure_whichever_its_sign():
    """A measure that orders the texts backwards is as hard to beat as one that orders them well."""
    backwards = [-value for value in RATINGS]
    nearly = [2.0, 1.0, 3.0, 4.0, 5.0, 6.0]
    length = recorded([1, 1, 1, 1, 1, 2])
    trivial = {"length": length, "novelty": recorded(backwards)}
    judged = {"judge": {"quality": recorded(nearly)}, "oracle": {"quality": recorded(RATINGS)}}
    found = compare_with_ratings("any", examples(), trivial, judged)
    assert found.bar("quality") == pytest.approx(1.0)
    novelty = next(line for line in found.lines if line.name == "novelty")
    assert novelty.spearman["quality"] == pytest.approx(-1.0)
    assert found.is_bar(novelty, "quality")
    assert [found.won(line) for line in found.judges] == [[], []]
    weaker = compare_with_ratings("any", examples(), {"length": length}, {"j": judged["judge"]})
    assert weaker.won(weaker.judges[0]) == ["quality"]
    assert weaker.bar("quality") == pytest.approx(spearman([1, 1, 1, 1, 1, 2], RATINGS))


def test_what_is_undefined_or_missing_beats_nothing_and_is_no_number():
    """A constant judge has no coefficient; an aspect that a judge does not judge is left out."""
    rated, trivial = examples(quality=RATINGS, fluency=RATINGS), {"length": recorded([3.0] * 6)}
    half = {"fluency": recorded([1, 2, 3, None, None, None])}
    judged = {"judge": {"quality": recorded([2.0] * 6)}, "half": half}
    found = compare_with_ratings("any", rated, trivial, judged)
    judge, half = found.judges
    assert judge.spearman == {"quality": None}
    assert found.bar("quality") == 0.0
    assert found.won(judge) == []
    assert (list(half.spearman), half.n) == (["fluency"], 3)
    assert found.won(half) == ["fluency"]


@given(
    st.lists(st.sampled_from([None, -1.0, -0.5, 0.0, 0.2, 0.9]), min_size=1, max_size=4),
    st.floats(-1, 1),
)
def test_beating_means_above_every_trivial_measure(trivial, value):
    lines = [ComparisonLine(f"t{i}", True, {"a": rho}, 6) for i, rho in enumerate(trivial)]
    judge = ComparisonLine("judge", False, {"a": value}, 6)
    found = TaskComparison("any", ("a",), 6, 2, (*lines, judge))
    assert found.beats(judge, "a") == all(
        value > abs(rho) for rho in [*trivial, 0.0] if rho is not None
    )


def test_as_json_it_says_what_was_won():
    found = compare_with_ratings(
        "any", examples(), {"length": recorded([1] * 6)}, {"judge": {"quality": recorded(RATINGS)}}
    )
    shown = found.as_dict()
    assert (shown["examples"], shown["groups"], shown["level"]) == (6, 2, "dataset")
    assert shown["lines"] == [
        {"name": "length", "trivial": True, "n": 6, "spearman": {"quality": None}},
        {"name": "judge", "trivial": False, "n": 6, "spearman": {"quality": pytest.approx(1.0)},
         "beats_best_trivial": ["quality"]},
    ]  # fmt: skip


def test_means_by_treatment_leave_out_what_has_no_score():
    """The ratings stand first, systems in the order of the data; no score at all is no mean."""
    judged = {
        "judge": {"quality": recorded([1.0, 2.0, None, 4.0, 3.0, 6.0])},
        "mute": {"quality": recorded([None, 1.0, None, 1.0, None, 1.0])},
        "other": {"fluency": recorded(RATINGS)},
    }
    found = by_treatment("quality", examples(), judged)
    assert found.systems == ("bad", "good")
    assert found.rows == {"our rating": (3.0, 4.0), "judge": (2.0, 4.0), "mute": (None, 1.0)}


def test_pairs_in_order_are_of_one_source_and_rated_unequally():
    texts = examples(quality=[1.0, 2.0, 3.0, 4.0, 4.0, 5.0])
    scores = {"quality": recorded([1.0, 3.0, 2.0, None, 7.0, 7.0]), "fluency": recorded(RATINGS)}
    assert in_order(texts, scores) == (2.5, 4)


def test_a_judge_is_misled_where_garbled_words_score_higher():
    texts = [
        Example(id=f"{group}-{system}", output="A text.", group=group, system=system)
        for group in "abc"
        for system in ("lead", "garbled", "wrong")
    ]
    values = {"a-lead": 3.0, "a-garbled": 4.0, "b-lead": 3.0, "b-garbled": 2.0, "c-lead": 5.0}
    assert misled(texts, {"coherence": values}) == (1, 2)
    assert misled(texts, {"fluency": values}) == (0, 0)


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
    found = comparison(task, {recipe.name: -0.31 for recipe in RECIPES} | {FITTED: -0.25})
    lines = drawn(indent(task_agreement_table(found)))
    assert max(map(len, lines)) <= 80
    assert len(lines) == 1 + 1 + len(RECIPES) + 1
    assert all(heading(aspect) in lines[0] for aspect in found.aspects)
    assert lines[-1].count("-0.25 x") == len(found.aspects)


def test_marks_stand_where_a_judge_is_not_above_the_best_trivial_measure():
    """What is undefined is a dash and marked, what is not judged a dash alone; gaps are told."""
    found = comparison("data-to-text", {"good": 0.51, "even": 0.5, "none": None})
    one = ComparisonLine("one", False, {found.aspects[0]: 0.6}, 15)
    found = TaskComparison(found.task, found.aspects, 30, 6, (*found.lines, one))
    assert [line.split() for line in drawn(task_agreement_table(found))[1:]] == [
        ["length", "-0.50", "-0.50", "-0.50"],
        ["good", "0.51", "0.51", "0.51"],
        ["even", *["0.50", "x"] * 3],
        ["none", *["-", "x"] * 3],
        ["one", "(n", "15)", "0.60", "-", "-"],
    ]


def test_words_name_who_wins_where_and_who_nowhere():
    one = comparison("data-to-text", {"a": 0.6, "b": 0.1})
    two = comparison("dialogue", {"a": 0.1, "b": 0.1})
    some = "Above the best trivial measure on some of"
    assert verdict([one, two]) == f"{some} 9 aspects: a on 3; on none: b."
    assert verdict([comparison("dialogue", {"a": 0.6})]) == f"{some} 6 aspects: a on 6."
    assert verdict([two]) == "Above the best trivial measure on none of 6 aspects: a, b."


def test_chance_is_what_unrelated_rankings_reach():
    draw = random.Random(1)
    found = [abs(spearman(list(range(30)), draw.sample(range(30), 30)) or 0.0) for _ in range(2000)]
    assert sum(rho > chance(30) for rho in found) / len(found) == pytest.approx(0.05, abs=0.015)


def test_means_by_treatment_show_units_and_gaps():
    rows = {"our rating": (5.0, 1.0), "gptscore": (0.25, None)}
    found = Treatments("quality", ("full", "wrong"), rows)
    lines = drawn(treatments_table(found, {"gptscore": "nats/token"}))
    assert [line.split() for line in lines] == [
        ["full", "wrong"],
        ["our", "rating", "5.00", "1.00", "rating"],
        ["gptscore", "0.25", "-", "nats/token"],
    ]


MODEL = {"name": "embedded", "sha256": "a"}


def test_a_new_folder_is_made_and_an_earlier_demo_is_gone_on_with(tmp_path):
    DemoFolder(tmp_path).open(MODEL)  # an empty folder will do
    layout = DemoFolder(tmp_path / "new" / "demo")
    layout.open(MODEL)
    kept = layout.run("dialogue", "g-eval")
    kept.mkdir(parents=True)
    layout.open(MODEL)
    assert kept.is_dir()
    assert json.loads((layout.folder / MARK).read_bytes())["model"] == MODEL


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(
        RunFolderError, match="contains something else; give --out a folder that is new or empty"
    ):
        DemoFolder(tmp_path).open(MODEL)
    with pytest.raises(RunFolderError, match="contains something else"):
        DemoFolder(tmp_path / "thesis.txt").open(MODEL)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_demo_of_another_model_or_a_damaged_mark_is_refused(tmp_path):
    DemoFolder(tmp_path).open(MODEL)
    with pytest.raises(
        RunFolderError, match=r"another model or another version .* give --out a new folder"
    ):
        DemoFolder(tmp_path).open({**MODEL, "sha256": "b"})
    (tmp_path / MARK).write_text("{")
    with pytest.raises(RunFolderError, match=r"demo\.json cannot be read"):
        DemoFolder(tmp_path).open(MODEL)
