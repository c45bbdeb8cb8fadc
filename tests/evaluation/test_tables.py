"""Scores as tables: in the order of the data, joined with what was judged."""

from __future__ import annotations

import asyncio

import pandas as pd
import pytest

from textassay import Run, ScriptedModel, evaluate
from textassay.runtime.errors import ConfigurationError

ROWS = [
    {
        "id": f"x{i}",
        "output": f"Text {i}.",
        "system": f"M{i % 2}",
        "group": "g",
        "human": {"fluency": i},
    }
    for i in range(12)
]


async def judged(examples, **more):
    """Rate coherence and fluency; later examples are answered first."""
    last = asyncio.Event()

    async def reply(request):
        if "Text 11." in request.text:
            last.set()
        if "Text 0." in request.text:
            await last.wait()
        return "Rating: 4" if "Text 3." not in request.text else "no idea"

    model = ScriptedModel(reply)
    expected = {"method": "llm-score", "aspects": ["coherence", "fluency"], "model": model}
    return await evaluate(examples, **expected, **more)


@pytest.mark.asyncio
@pytest.mark.parametrize("folder", [True, False])
async def test_rows_come_in_the_order_of_the_data(tmp_path, folder):
    """So that a column may be set beside the data; ratings and names are joined."""
    run = await judged(ROWS, out=tmp_path / "run" if folder else None)
    table = run.to_pandas()
    assert table[table.aspect == "fluency"].id.tolist() == [row["id"] for row in ROWS]
    assert table[table.aspect == "fluency"].human.tolist() == list(range(12))
    assert table[table.aspect == "coherence"].human.isna().all()
    assert table.system.tolist()[:4] == ["M0", "M0", "M1", "M1"]


@pytest.mark.asyncio
async def test_the_wide_form_has_a_row_per_example():
    """A missing score is a gap, not a number."""
    table = (await judged(ROWS)).to_pandas(wide=True)
    assert table.id.tolist() == [row["id"] for row in ROWS]
    assert set(table.columns) == {"id", "system", "group", "coherence", "fluency", "human.fluency"}
    assert table["human.fluency"].tolist() == list(range(12))
    assert table.coherence.isna().sum() == 1
    assert pd.isna(table.set_index("id").coherence["x3"])


@pytest.mark.asyncio
async def test_a_run_read_from_its_folder_finds_its_data(tmp_path):
    """By the manifest; data from memory must be given."""
    path = tmp_path / "data.csv"
    pd.DataFrame([{**row, "human.fluency": i, "human": None} for i, row in enumerate(ROWS)]).drop(
        columns="human"
    ).to_csv(path, index=False)
    await judged(path, out=tmp_path / "run")
    again = Run(folder=tmp_path / "run").to_pandas(wide=True)
    assert again["human.fluency"].tolist() == list(range(12))
    await judged(ROWS, out=tmp_path / "memory")
    other = Run(folder=tmp_path / "memory")
    with pytest.raises(ConfigurationError, match="data="):
        other.to_pandas()
    assert len(other.to_pandas(data=ROWS)) == 24
