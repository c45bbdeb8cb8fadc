"""Every example of composing runs offline and shows what the guide says of it."""

import asyncio
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "compose.md").read_text(encoding="utf-8")
SHOWN = {
    "jury": r"bridge-lead +[1-5](\.\d)?\n(.*\n)*.*abstained: the jurors say \[",
    "cascade": r"36 scores: 36 requests to the cheap judge, "
    r"([1-9]|[12]\d|3[0-5]) to the strong one",
    "best_of": r"(\w+: \w+ \(total \d+\.0, 0 without a score\)\n){6}",
    "own_agent": r"36 scores; steps written 1 time; the judge saw "
    r"\['1\. Read the text\.', '2\. Say it aloud\.'\]",
    "with_tool": r"36 scores(.*\n)+.*numbers_kept.*",
    "replay": r"again_from_run: same values: True; requests in both runs together: 36\n"
    r"again_from_answers: same values: True; requests in both runs together: 36\n",
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_example_runs(name, capsys):
    asyncio.run(import_module(f"examples.compose.{name}").main())
    assert re.search(SHOWN[name], capsys.readouterr().out)


def test_the_guide_shows_every_example_as_it_is():
    """The guide's code blocks are parts of the examples, and each example is named."""
    sources = {
        name: (ROOT / "examples" / "compose" / f"{name}.py").read_text(encoding="utf-8")
        for name in SHOWN
    }
    for name in sources:
        assert f"`examples/compose/{name}.py`" in GUIDE
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        assert any(block.strip() in source for source in sources.values()), block
