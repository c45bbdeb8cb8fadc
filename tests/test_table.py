"""Tables on terminals of any width, in HTML, Markdown and JSON, each with its notes."""

import json
import re
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from textassay.table import (
    Alert,
    Column,
    Estimate,
    Note,
    ResultRow,
    Table,
    any_known,
    column,
    part,
    stack_tables,
    table_of,
    to_csv,
    to_html,
    to_json,
    to_latex,
    to_markdown,
    to_terminal,
    to_text,
    with_noun,
)

COLUMNS = (
    Column("aspect", "aspect"), Column("n", "n", "count"), Column("a", "a", "number"),
    Column("difference", "a - b", "interval"), Column("p", "p", "p"),
    Column("share", "wins", "share"), Column("picture", "drawn", "picture"),
    Column("verdict", "verdict"),
)  # fmt: skip
ROW = (
    "coherence", 1440, 4.6179, Estimate(1.8331, 1.479, 2.187), 0.0004, 0.74, "<svg/>", "holds"
)  # fmt: skip
CELLS = ("coherence", "1,440", "4.618", "1.833 [1.479, 2.187]", "0.0004", "74%", "holds")
NOTE = Note("5 rows have no score: <b>|", warning=True)
TABLE = Table(COLUMNS, [ROW, ROW], (NOTE, NOTE), title="Runs")


def printed(width, table=TABLE):
    """What such a table looks like there."""
    console = Console(width=width, color_system=None)
    with console.capture() as caught:
        console.print(to_terminal(table, width))
    return caught.get()


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_figures_are_never_cut(width):
    """Half a number is another number: a narrow terminal gets rows as paragraphs."""
    shown = printed(width)
    assert max(map(len, shown.splitlines())) <= width
    for cell in CELLS:
        pattern = rf"(?<![\d.,]){re.escape(cell)}(?![\d.])"
        assert len(re.findall(pattern, shown)) == 2, cell


def test_a_wide_terminal_gets_a_row_each():
    """A title, a heading and one line per row; figures below each other from the right."""
    title, heading, first, _ = printed(200).rstrip("\n").split("\n")
    assert title == "Runs"
    assert heading.index("a - b") + len("a - b") == first.index("2.187]") + len("2.187]")
    assert heading.index("aspect") == first.index("coherence") == 0
    assert "a - b 1.833 [1.479, 2.187]" in printed(60)


def test_wide_characters_keep_columns_apart():
    rows = [("流暢", 1), ("fluency", 2)]
    table = Table((Column("aspect", "aspect"), Column("n", "n", "count")), rows)
    assert printed(40, table).splitlines() == ["aspect   n", "流暢     1", "fluency  2"]


def test_an_undefined_figure_is_never_a_number():
    """A dash in any rendering; without an interval the value alone; a word stands as it is."""
    table = Table(COLUMNS[1:4], [(None, None, Estimate(1.0)), (Alert("refused"), 2.0, None)])
    assert to_text(table).splitlines()[1:] == ["      -      -  1.000", "refused  2.000      -"]
    assert "| - | - | 1.000 |" in to_markdown(table)
    assert '>–</td><td style="text-align:right">–</td>' in to_html(table)
    assert '<span class="flag">refused</span>' in to_html(table, page=True)


def test_a_small_p_value_is_a_bound():
    """No p-value is printed as 0."""
    table = Table((Column("p", "p", "p"),), [(1e-9,), (0.00006,)])
    assert to_text(table).split() == ["p", "<0.0001", "0.0001"]


def test_notes_are_printed_with_their_figures():
    assert to_text(TABLE).count(NOTE.text) == 1
    assert to_html(TABLE).count("<p>5 rows have no score: &lt;b&gt;|</p>") == 1
    assert to_html(TABLE, page=True).count('<p class="notice">5 rows') == 1
    assert to_markdown(TABLE).endswith("\n\n- 5 rows have no score: &lt;b&gt;\\|\n")
    assert json.loads(to_json({"rows": []}, [TABLE])) == {"rows": [], "notes": [NOTE.text]}


def test_only_html_shows_pictures():
    hostile = Table(COLUMNS[:1], [("</td><script>\x1b[2J",)])
    assert "<td><svg/></td>" in to_html(TABLE)
    assert "svg" not in to_text(TABLE) + to_markdown(TABLE)
    assert "<script>" not in to_html(hostile) + to_markdown(hostile)
    assert "\x1b" not in to_text(hostile)


def test_tables_of_several_aspects_are_stacked():
    other = Table(COLUMNS, [ROW], (Note("b"),), title="Runs")
    first, second = stack_tables([TABLE, other, Table(COLUMNS, [ROW])])
    assert (len(first.rows), first.notes) == (3, (NOTE, Note("b")))
    assert (len(second.rows), second.title) == (1, "")


def test_columns_come_and_go():
    table = TABLE.without("n", "p").with_column(Column("x", "x"), ["1", "2"], after="aspect")
    assert [column.name for column in table.columns[:3]] == ["aspect", "x", "a"]
    assert [row[1] for row in table.rows] == ["1", "2"]


@dataclass(frozen=True, slots=True)
class Found:
    """Figures that several kinds of rows have."""

    n: int = field(metadata=column("texts", "count"))
    mean: Estimate = field(
        metadata=column("mean", "interval") | column("half", "number", name="h", cell="half")
    )

    @property
    def half(self):
        return self.mean.half_width


@dataclass(frozen=True, slots=True)
class Judged(ResultRow):
    judge: str = field(metadata=column("judge", cell=lambda row: row.judge.upper()))
    found: Found = field(metadata=part(Found))
    left_out: int = field(default=0, metadata=column("left out", "count", when=any))
    people: float | None = field(default=None, metadata=column("people", when=any_known))


FOUND = Found(1200, Estimate(3.0, 2.0, 4.0))


def test_fields_declare_the_columns_of_every_format():
    table = table_of(Judged, [Judged("a", FOUND)], (NOTE,), "Judges")
    header, row = to_csv(table).splitlines()
    assert (header, row) == ("judge,n,mean,mean_low,mean_high,h", "A,1200,3.0,2.0,4.0,1.0")
    for draw in (to_text, to_html, to_markdown, to_latex):
        drawn = draw(table)
        places = [drawn.index(heading) for heading in ("judge", "texts", "mean", "half")]
        assert places == sorted(places)
        assert "1,200" in drawn


def test_json_has_every_field_and_those_of_parts_beside_them():
    assert Judged("a", FOUND).as_dict() == {
        "judge": "a", "n": 1200, "mean": {"value": 3.0, "low": 2.0, "high": 4.0},
        "left_out": 0, "people": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, ["judge", "n", "mean", "h"]),
        ({"left_out": 3}, ["judge", "n", "mean", "h", "left_out"]),
        ({"people": 0.0}, ["judge", "n", "mean", "h", "people"]),
    ],
)
def test_a_column_is_left_out_if_it_says_nothing_about_any_row(given, shown):
    table = table_of(Judged, [Judged("a", FOUND), Judged("b", FOUND, **given)])
    assert [one.name for one in table.columns] == shown
    assert all(len(row) == len(shown) for row in table.rows)


def test_a_table_without_rows_has_its_columns_and_notes():
    table = table_of(Found, [], (NOTE,))
    assert [one.heading for one in table.columns] == ["texts", "mean", "half"]
    assert (list(table.rows), table.notes) == ([], (NOTE,))


@pytest.mark.parametrize("ends", [(), (1.0, None), (None, 1.0)])
def test_an_estimate_without_an_interval_is_neither_above_nor_below(ends):
    found = Estimate(2.0, *ends)
    assert not found.is_above(-9.0)
    assert not found.is_below(9.0)
    assert found.ends == ()


def test_the_whole_interval_decides_on_which_side_of_a_limit_it_is():
    found = Estimate(2.0, 1.0, 3.0)
    assert (found.is_above(0.9), found.is_above(1.0)) == (True, False)
    assert (found.is_below(3.1), found.is_below(3.0)) == (True, False)


def test_nouns_agree_with_their_number() -> None:
    """One is one, and criteria have their own plural."""
    assert [with_noun(1, "text"), with_noun(0, "text")] == ["1 text", "0 texts"]
    assert [with_noun(1, "criterion"), with_noun(2000, "criterion")] == [
        "1 criterion",
        "2,000 criteria",
    ]
