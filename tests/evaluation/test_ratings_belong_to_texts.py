"""A rating belongs to an id and the judged text, wherever scores and ratings are joined."""

import json
import unicodedata

import pytest

from tests.report.test_two_texts import write_run
from textassay import Run, fit_sync
from textassay.agreement import agreement_table
from textassay.exporting import export_scores
from textassay.gates import check_mean
from textassay.report.server import LiveRun
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError

OTHER = range(30)
"""Rows whose text is replaced; people liked what the judge did not there."""


def judged_rows():
    return [
        {"id": f"q{i}", "output": f"Réponse {i} of the week.", "human": {"fluency": 1 + i % 5}}
        for i in range(60)
    ]


CHANGES = {
    "another text": lambda row: "The answer of next week.",
    "one more word": lambda row: f"{row['output']} Indeed.",
    "the next row's text": lambda row: f"Réponse {int(row['id'][1:]) + 1} of the week.",
}
SAME = {
    "white space": lambda row: row["output"].replace(" ", "\n  "),
    "decomposed accents": lambda row: unicodedata.normalize("NFD", row["output"]),
}


def changed(change):
    return [
        {**row, "output": change(row), "human": {"fluency": 5 - i % 5}} if i in OTHER else row
        for i, row in enumerate(judged_rows())
    ]


@pytest.fixture
def run(tmp_path):
    values = [3.0 if i % 7 == 0 else 1.0 + i % 5 for i in range(60)]
    return write_run(tmp_path, "run", judged_rows(), values)


def file_of(tmp_path, rows):
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def in_agreement(run, data):
    [row] = agreement_table(run, data, bootstrap=0).rows
    return row.agreement.n


def in_comparison(run, data):
    return Run(run).compare(run, human=data).agreement[0].n


def in_fit(run, data):
    report = fit_sync(data, scores=[run], aggregator="avg").report
    if other := report["data"].get("other_texts"):
        assert other == len(OTHER)
    return report["split"]["train"]["rows"]


def in_data_frame(run, data):
    return int(Run(run).to_pandas(data=data)["human"].notna().sum())


def in_wide_data_frame(run, data):
    return int(Run(run).to_pandas(data=data, wide=True)["human.fluency"].notna().sum())


ROADS = [in_agreement, in_comparison, in_fit, in_data_frame, in_wide_data_frame]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_ratings_of_another_text_are_left_out(run, tmp_path, road, change):
    assert road(run, file_of(tmp_path, changed(change))) == 60 - len(OTHER)


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_another_way_to_write_a_text_is_not_another_text(run, tmp_path, road, change):
    rows = [{**row, "output": change(row)} for row in judged_rows()]
    assert road(run, file_of(tmp_path, rows)) == 60


def test_fit_says_that_the_scores_are_of_other_texts(run, tmp_path):
    rows = [{**row, "output": "Another text."} for row in judged_rows()]
    with pytest.raises(DataError, match="60 have another text than was scored under their id"):
        fit_sync(file_of(tmp_path, rows), scores=[run], aggregator="avg")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_gate_hears_no_ratings_of_texts_that_were_not_judged(run, change):
    """The data of the run changed since: their ratings would speak against the gate."""
    file_of(run.parent, changed(change)).replace(run.parent / "run-data.jsonl")
    assert "people's ratings" not in str(check_mean(Run(run), "fluency", 2.0))
    below = str(check_mean(Run(run), "fluency", 5.0).texts)
    assert "next week" not in below
    assert "Indeed" not in below


@pytest.mark.parametrize("form", ["inspect", "promptfoo", "mlflow", "langfuse"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_score_is_exported_for_a_text_that_was_not_judged(run, tmp_path, form, change):
    data = Examples(changed(change))
    with pytest.raises(DataError, match="a different text from the judged one under the id 'q0'"):
        export_scores(run, form, tmp_path / "scores.js", data=data)


def test_a_page_that_follows_a_run_leaves_out_ratings_of_other_texts(run, tmp_path):
    """Which texts are judged is known only when their scores come."""
    scores = run / "scores.jsonl"
    lines = scores.read_bytes().splitlines(keepends=True)
    scores.write_bytes(b"".join(lines[40:]))
    (run / "summary.json").unlink()
    live = LiveRun(run, data=file_of(tmp_path, changed(CHANGES["another text"])))
    assert not live.data.other_texts
    scores.write_bytes(b"".join(lines[40:] + lines[:40]))
    live.news(0, 0)
    assert len(live.data.other_texts) == len(OTHER)
    # in their place are the texts and ratings that the run judged
    assert live.data.ratings("fluency") == {f"q{i}": 1.0 + i % 5 for i in range(60)}
