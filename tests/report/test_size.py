"""How large a page gets, and what it holds of a very large run."""

import base64
import gzip
import json
import re

import numpy as np
import pytest

from benchmarks.report_large import write_run
from textassay.report import write_report
from textassay.report.evidence import clipped
from textassay.report.examples import MAX_ROWS, selected
from textassay.report.source import Joined
from textassay.runtime.errors import ConfigurationError


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


def unpacked(page):
    """The list of scores that a page holds."""
    found = re.search(r'<script type="text/plain" id="index">(.*?)</script>', page, re.DOTALL)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_a_page_that_holds_a_part_says_so(tmp_path):
    """How many of how many and which; sections are of all scores, the list of the chosen ones."""
    run = write_run(tmp_path, 800)
    whole, part = tmp_path / "whole.html", tmp_path / "part.html"
    write_report([run], whole, human=tmp_path / "data.jsonl")
    write_report([run], part, human=tmp_path / "data.jsonl", max_rows=160)
    pages = [page.read_text(encoding="utf-8") for page in (whole, part)]
    notice = (
        "This page holds 160 of 800 scores: the largest disagreements and changes, the lowest "
        "and highest values, and a random sample of the rest."
    )
    assert [notice in page for page in pages] == [False, True]
    assert ["scores.jsonl" in page for page in pages] == [False, True]
    everything, listed = map(unpacked, pages)
    assert (len(everything["value"]), len(listed["value"]), listed["total"]) == (800, 160, 800)
    gaps = [
        sorted((abs(v - h) for v, h in zip(one["value"], one["human"], strict=True)), reverse=True)
        for one in (everything, listed)
    ]
    assert gaps[1][:20] == gaps[0][:20]
    ends = [sorted(one["value"]) for one in (everything, listed)]
    assert (ends[1][:20], ends[1][-20:]) == (ends[0][:20], ends[0][-20:])
    with pytest.raises(ConfigurationError, match="max_rows= must be at least 0, not -1"):
        write_report([run], tmp_path / "none.html", human=tmp_path / "data.jsonl", max_rows=-1)
    # a sample by chance, not only extremes
    assert gaps[1][-1] < gaps[0][400]
    before = [page[: page.index('id="texts"')] for page in pages]
    assert before[0].split("<body")[1] == before[1].split("<body")[1]


def test_cut_texts_say_so():
    """A text that was cut says how much is missing."""
    assert clipped("a" * 30, 10) == "a" * 10 + " [... 20 more characters]"
    assert clipped("short", 10) == "short"
