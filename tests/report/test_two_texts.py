"""The page of two runs: each with its own texts and ratings, and differences in one direction."""

import html
import json
import re

import pytest

from tests.pictures import png_uri
from tests.report.test_headline import words_of
from textassay import Run
from textassay.report import write_report
from textassay.report.page import build_content, join_runs
from textassay.report.source import open_both, open_runs
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.digests import text_digest
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Score
from textassay.runtime.storage.run_folder import RunFolder


def write_run(tmp_path, name, rows, values, *, path="data.jsonl", task="/home/somebody/rules.toml"):
    """A run over a file of its own."""
    data = tmp_path / f"{name}-{path}"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    examples = Examples(data)
    manifest = {
        "models": {}, "method": {"name": "llm-score"},
        "spec": {"method": "llm-score", "data": str(data), "task": task},
        "data": {"path": str(data), "digest": examples.check().digest, "count": len(rows)},
    }  # fmt: skip
    folder = RunFolder.create(tmp_path / name)
    folder.write_manifest(manifest)
    folder.append(
        Score(
            id=example.id, aspect="fluency", value=value, scale=(1, 5), signature="judge",
            text_digest=text_digest(example),
        )
        for example, value in zip(examples, values, strict=True)
    )  # fmt: skip
    folder.write_summary()
    folder.close()
    return tmp_path / name


def rows(version, *, count=40, ratings=True):
    rated = {"human": {"fluency": 3}} if ratings else {}
    return [
        {"id": f"q{i}", "output": f"{version} answer to question {i}.", **rated}
        for i in range(count)
    ]


@pytest.fixture
def runs(tmp_path):
    """A new version without ratings, and the old one, which people rated like the judge."""
    old = rows("Old")
    for i, row in enumerate(old):
        row["human"] = {"fluency": 1 + i % 5}
    new = rows("New", ratings=False)
    return (
        write_run(tmp_path, "new", new, [1.0 + (i * 3) % 5 for i in range(40)]),
        write_run(tmp_path, "old", old, [1.0 + i % 5 for i in range(40)]),
    )


def content_of(*folders, human=None):
    opened = open_runs(folders)
    for run in opened:
        run.table.read_all()
    data = open_both(opened, human, {})
    return build_content(opened, data, join_runs(opened, data, {}), {}, packed=0)


@pytest.mark.parametrize("turned", [False, True])
def test_ratings_are_those_of_the_run_whose_texts_were_rated(runs, turned):
    """In either order of the runs, only the old one is compared with people."""
    content = content_of(*(reversed(runs) if turned else runs))
    [agreement] = content.agreement
    assert [(one.run, round(one.value.value, 3)) for one in agreement.judges] == [("old", 1.0)]
    assert content.estimates.of_agreement == []


def test_both_texts_are_shown_under_their_verdicts(runs, tmp_path):
    write_report(list(runs), tmp_path / "page.html")
    page = words_of((tmp_path / "page.html").read_text("utf-8"))
    assert re.search(r"Text of A\s+New answer to question \d+\.\s+Text of B\s+Old answer", page)


def test_a_text_that_both_judged_is_shown_once(tmp_path):
    same = rows("Same")
    folders = [
        write_run(tmp_path, name, same, [1.0 + (i * step) % 5 for i in range(40)])
        for name, step in (("one", 1), ("two", 3))
    ]
    write_report(folders, tmp_path / "page.html")
    assert "Text of B" not in words_of((tmp_path / "page.html").read_text("utf-8"))


def test_equal_texts_about_other_images_are_told(tmp_path):
    folders = [
        write_run(
            tmp_path, str(red), [{**r, "images": png_uri(red)} for r in rows("Same")], [3] * 40
        )
        for red in (1, 2)
    ]
    [note] = Run(folders[0]).compare(folders[1]).notes
    assert note.text.startswith("40 texts have another source, or other passages, images or")


@pytest.mark.parametrize("other", [{}, {"references": "Other."}, {"context": "Other."}])
def test_equal_texts_with_other_references_or_without_passages_are_told(other, tmp_path):
    folders = [
        write_run(tmp_path, name, [{**row, **more} for row in rows("Same")], [3] * 40)
        for name, more in (
            ("one", {"references": "Same."}),
            ("two", other or {"references": "Same."}),
        )
    ]
    assert len(Run(folders[0]).compare(folders[1]).notes) == bool(other)


@pytest.mark.parametrize("field", ["source", "context"])
def test_a_text_that_was_made_from_something_else_is_shown_with_both(field, tmp_path):
    """The comparison says so: equal answers to other questions are no second opinion."""
    folders = [
        write_run(
            tmp_path,
            name,
            [{**row, field: f"{name} {row['id']}"} for row in rows("Same")],
            [3] * 40,
        )
        for name in ("one", "two")
    ]
    write_report(folders, tmp_path / "page.html")
    page = words_of((tmp_path / "page.html").read_text("utf-8"))
    assert re.search(r"one q\d+\s+Source of the text of B\s.*?two q\d", page)
    [note] = Run(folders[0]).compare(folders[1]).notes
    assert note.text.startswith("40 texts have another source, or other passages, images or")


def test_head_and_list_subtract_in_one_direction(runs):
    opened = open_runs(runs)
    for run in opened:
        run.table.read_all()
    joined = join_runs(opened, open_both(opened, None, {}), {})
    [row] = content_of(*runs).estimates.of_runs
    assert joined.changes.mean() == pytest.approx(row.difference.value)


def test_ratings_of_other_texts_are_counted_and_own_texts_stay(runs, tmp_path):
    new, _ = runs
    content = content_of(new, human=tmp_path / "old-data.jsonl")
    assert content.agreement == []
    assert any(
        "40 rows of old-data.jsonl have other texts" in one for one in content.headline.points
    )
    assert content.examples.shown[0].example.output.startswith("New answer")


def test_ratings_without_texts_are_beside_the_texts_of_the_run(runs, tmp_path):
    """A table of ids and ratings is enough, on the page of a run as in `agreement`."""
    new, _ = runs
    table = tmp_path / "ratings.csv"
    table.write_text("id,human.fluency\n" + "".join(f"q{i},{1 + i % 5}\n" for i in range(40)))
    content = content_of(new, human=table)
    assert len(content.agreement[0].judges) == 1
    assert any("40 rated rows have no text" in one for one in content.headline.points)
    assert content.examples.shown[0].example.output.startswith("New answer")


def test_no_path_is_on_the_page(runs, tmp_path):
    write_report(list(runs), tmp_path / "page.html", title="Two")
    page = html.unescape((tmp_path / "page.html").read_text("utf-8"))
    assert str(tmp_path) not in page
    assert "/home/somebody" not in page
    assert "rules.toml" in page


def test_runs_without_a_folder_are_refused_in_words(tmp_path):
    class InMemory:
        folder = None

    with pytest.raises(ConfigurationError, match=r"run\.report"):
        write_report(InMemory(), tmp_path / "page.html")


@pytest.mark.parametrize("shared", [0, 1, 30])
def test_systems_that_share_a_few_sources_are_compared_over_all_of_theirs(tmp_path, shared):
    texts, values = [], []
    for source in range(80):
        for system in ("A", "B") if source < shared else ("A",) if source % 2 else ("B",):
            place = {"system": system, "group": f"g{source}"}
            texts.append({"id": f"{system}{source}", "output": f"{system} {source}.", **place})
            values.append(1.0 + (source * 7) % 4 + (system == "A"))
    content = content_of(write_run(tmp_path, "run", texts, values))
    [table] = content.estimates.differences
    [row] = table.rows
    named = dict(zip((column.name for column in table.columns), row, strict=True))
    assert named["n"] == 80
    assert named.get("unpaired", 0) == 80 - shared
    assert named["difference"].low > 0
