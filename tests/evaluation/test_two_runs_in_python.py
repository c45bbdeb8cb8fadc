"""From a run to a comparison, to what got worse, and to a page, without the command line."""

import re

import pandas as pd
import pytest

from textassay import Run, evaluate
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.settings import Settings
from textassay.testing import ScriptedModel

OLD = [
    {
        "id": f"q{i}", "source": f"question {i // 4}", "output": f"Old answer, number {i}.",
        "system": "v1", "human.fluency": 1 + i % 5,
    }
    for i in range(24)
]  # fmt: skip
NEW = [
    {**row, "output": f"New answer, number {i}." if i % 3 else row["output"], "system": "v2"}
    for i, row in enumerate(OLD)
]


def rates(change):
    """A judge that rates by the number of the answer."""

    def reply(request):
        number = int(re.search(r"number (\d+)", request.text)[1])
        return f"Rating: {min(5, max(1, 1 + number % 5 + change(number)))}"

    return ScriptedModel(reply)


def worse_at_three(number):
    return -2 if number in (4, 8, 9) else 1 if number == 10 else 0


async def judged(rows, change=lambda number: 0, **more):
    return await evaluate(rows, method="llm-score", aspects="fluency", model=rates(change), **more)


@pytest.fixture(params=["folder", "read again", "memory", "frame"])
async def both(request, tmp_path):
    """The new run and the old one, from each place that a run may be in."""
    frame = pd.DataFrame if request.param == "frame" else list
    out = [None if request.param == "memory" else tmp_path / name for name in ("new", "old")]
    new, old = (
        await judged(frame(NEW), worse_at_three, out=out[0]),
        await judged(frame(OLD), out=out[1]),
    )
    return (Run(out[0]), Run(str(out[1]))) if request.param == "read again" else (new, old)


async def test_a_run_is_compared_with_another(both):
    new, old = both
    found = new.compare(old)
    [row] = found.rows
    assert (row.n, row.groups, row.wins, row.losses) == (24, 6, 1, 3)
    assert row.other_texts == 16
    assert found.to_pandas().loc[0, "difference"] == pytest.approx(row.a - row.b)
    assert "a - b" in str(found)
    assert "<table>" in found._repr_html_()


async def test_the_rows_that_got_worse_have_names(both):
    new, old = both
    changes = new.changes(old)
    assert [(row.id, row.change) for row in changes.worse] == [("q4", -2), ("q8", -2), ("q9", -2)]
    assert [row.id for row in changes.better] == ["q10"]
    table = changes.to_pandas()
    assert set(table.id) == {"q4", "q8", "q9", "q10"}
    assert set(table.system) == {"v2"}
    assert table.set_index("id").is_other_text.to_dict() == {
        "q4": True, "q8": True, "q9": False, "q10": True,
    }  # fmt: skip
    assert "worse on 3 scores, better on 1 and equal on 20" in str(changes)


async def test_rows_without_ids_in_common_cannot_be_named(tmp_path):
    without = [{name: cell for name, cell in row.items() if name != "id"} for row in OLD]
    changed = [{**row, "output": f"{row['output']} So it was."} for row in without]
    old = await judged(without, out=tmp_path / "old")
    new = await judged(changed, out=tmp_path / "new")
    assert "no id is on both sides" in str(new.changes(old))


async def test_scores_that_one_of_the_runs_lacks_are_counted():
    old = await judged(OLD)
    silent = ScriptedModel(lambda request: "No rating.")
    new = await evaluate(OLD, method="llm-score", aspects="fluency", model=silent)
    changes = new.changes(old)
    assert (len(changes), changes.unscored) == (0, 24)
    assert "without a score in one of the runs: 24" in str(changes)


@pytest.mark.parametrize("other", [None, pd.DataFrame(OLD), Run()])
async def test_what_is_no_run_is_refused_in_words(other, tmp_path):
    old = await judged(OLD[:2])
    with pytest.raises(DataError, match=r"is no run; give a Run|contains no scores"):
        old.compare(other)
    if isinstance(other, pd.DataFrame):
        with pytest.raises(DataError, match="DataFrame is no run"):
            old.report(tmp_path / "p.html", other)


async def test_a_run_writes_its_page(both, tmp_path):
    new, old = both
    path = new.report(tmp_path / "page.html", old, title="Two versions")
    page = path.read_text("utf-8")
    assert "Two versions" in page
    assert "New answer, number 4." in page
    assert "Old answer, number 4." in page
    assert str(tmp_path) not in page


async def test_ratings_of_a_data_frame_are_read_through_a_field_map(both, tmp_path):
    new, _ = both
    ratings = pd.DataFrame([{"id": row["id"], "output": row["output"], "coh": 3} for row in NEW])
    page = new.report(tmp_path / "p.html", human=ratings, fields={"coh": "human.fluency"})
    assert "people" in page.read_text("utf-8")


async def test_agreement_is_that_on_texts_that_both_judged(both):
    """A third of the texts is the same in both runs; the ratings of the others are of neither."""
    new, old = both
    found = new.compare(old)
    assert {one.n for one in found.agreement if "choice" not in one.coefficient} == {8}
    assert any("16 of 24 rated rows" in note.text for note in found.notes)


async def test_data_from_memory_are_kept_with_systems_sources_and_ratings(tmp_path):
    await judged(pd.DataFrame(OLD), out=tmp_path / "run")
    table = Run(tmp_path / "run").to_pandas(wide=True)
    assert set(table.system) == {"v1"}
    assert table["human.fluency"].tolist() == [row["human.fluency"] for row in OLD]


async def test_rows_are_not_kept_if_the_setting_says_so(tmp_path):
    await judged(OLD, out=tmp_path / "run", settings=Settings(keep_rows=False))
    assert not (tmp_path / "run" / "rows.jsonl").exists()
    with pytest.raises(ConfigurationError, match="does not record where its data are"):
        Run(tmp_path / "run").to_pandas()


async def test_data_of_a_file_are_not_kept_twice(tmp_path):
    pd.DataFrame(OLD).to_csv(tmp_path / "data.csv", index=False)
    await judged(tmp_path / "data.csv", out=tmp_path / "run")
    assert not (tmp_path / "run" / "rows.jsonl").exists()


async def test_lower_is_worse_only_where_high_is_good(tmp_path):
    from textassay import Aspect

    errors = Aspect(name="errors", definition="How many errors.", higher_is_better=False)

    async def run(change, name):
        return await evaluate(
            OLD, method="llm-score", aspects=[errors], model=rates(change), out=tmp_path / name
        )

    new, old = await run(worse_at_three, "new"), await run(lambda number: 0, "old")
    assert [row.id for row in new.changes(old).worse] == ["q10"]
    assert len(new.changes(old).better) == 3


async def test_ratings_with_ids_alone_leave_texts_in_their_sources(both):
    """Their intervals would be those of 24 sources where there are 6."""
    new, old = both
    ratings = pd.DataFrame([{"id": row["id"], "human.fluency": 3} for row in NEW])
    assert [row.groups for row in new.compare(old, human=ratings).rows] == [6]


@pytest.mark.parametrize("instruction", [None, "Answer the question."])
async def test_answers_without_ids_are_paired_by_their_questions(instruction):
    """A text that all rows share is no source."""
    rows = [{"source": instruction or f"question {i}", "output": f"number {i}."} for i in range(24)]
    new = await judged([{**row, "output": f"New {row['output']}"} for row in rows], worse_at_three)
    found = new.compare(await judged(rows))
    [row] = found.rows
    assert row.paired_by == (None if instruction else "source")
    assert (row.n, row.losses) == ((48, None) if instruction else (24, 3))
