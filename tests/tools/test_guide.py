"""The guide's example runs, and the guide shows what the example holds."""

import asyncio
import inspect
from pathlib import Path

from examples import own_tool
from textassay.tools import KINDS

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")


def test_the_example_runs_and_prints_what_it_should(capsys):
    """Faithful, invented, and without a source."""
    asyncio.run(own_tool.main())
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert [rest for _, tool, rest in lines if tool == "numbers_kept"] == [
        "1.00",
        "0.50",
        "abstained: MissingSource",
    ]
    assert len(lines) == 9


def test_the_guide_shows_the_example_and_every_kind():
    """Line by line."""
    for line in inspect.getsource(own_tool.numbers_kept.function).splitlines():
        if '"""' not in line:
            assert line in GUIDE
    for kind in KINDS:
        assert f"`{kind}`" in GUIDE
