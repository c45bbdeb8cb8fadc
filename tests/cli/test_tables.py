"""Tables on terminals of any width."""

import re

import pytest
from rich.console import Console

from textassay.cli.decisions import table

COLUMNS = ("aspect", "n", "sources", "a", "b", "a - b", "p", "wins")
ROW = ("coherence", "144", "24", "4.618", "2.785", "1.833 [1.479, 2.187]", "0.0004", "106")


def printed(width):
    """What such a table looks like there."""
    console = Console(width=width, color_system=None)
    with console.capture() as caught:
        grid = table(*COLUMNS)
        grid.add_row(*ROW)
        grid.add_row(*ROW)
        console.print(grid)
    return caught.get()


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_figures_are_never_cut(width):
    """Half a number is another number: a narrow terminal gets rows as paragraphs."""
    shown = printed(width)
    assert max(map(len, shown.splitlines())) <= width
    for cell in ROW:
        pattern = rf"(?<![\d.]){re.escape(cell)}(?![\d.])"
        assert len(re.findall(pattern, shown)) == 2, cell


def test_a_wide_terminal_gets_a_row_each():
    """A heading and one line per row."""
    assert len(printed(200).strip().splitlines()) == 3
    assert "a - b 1.833 [1.479, 2.187]" in printed(60)
