"""How large a page gets, and what it holds of a very large run."""

import numpy as np

from benchmarks.report_large import write_run
from textassay.report import write_report
from textassay.report.joined import Joined
from textassay.report.rows import MAX_ROWS, selected
from textassay.report.texts import clipped


def test_scores_take_little_room(tmp_path):
    """2,000 scores with words and evidence take no more than 125 bytes each, beside the
    sections."""
    run = write_run(tmp_path, 2_000)
    write_report([run], tmp_path / "report.html", human=tmp_path / "data.jsonl")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    packed = page[page.index('<script type="text/plain"') : page.rindex("<script>")]
    assert len(packed) < 2_000 * 125


def test_very_large_runs_keep_extremes():
    """Of more than 200,000 scores the page holds the ends of each order, and of the rest some by
    chance."""
    count = MAX_ROWS + 50_000
    nothing, values = np.full(count, np.nan), np.arange(count, dtype=float)
    sizes = values[::-1] / count
    joined = Joined(values, nothing, nothing, sizes, {}, nothing, nothing, np.zeros(count, bool))
    rows = selected(joined, count)
    assert len(rows) == len(set(rows.tolist())) == MAX_ROWS
    assert set(range(20_000)) <= set(rows.tolist())
    assert set(range(count - 20_000, count)) <= set(rows.tolist())
    assert (rows == selected(joined, count)).all()
    assert len(selected(joined, MAX_ROWS)) == MAX_ROWS


def test_cut_texts_say_so():
    """A text that was cut says how much is missing."""
    assert clipped("a" * 30, 10) == "a" * 10 + " [... 20 more characters]"
    assert clipped("short", 10) == "short"
