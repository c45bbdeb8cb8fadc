"""What a run gives: tables in the order of the data, data frames, and views of a notebook."""

from __future__ import annotations

import asyncio
import json
from html.parser import HTMLParser

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from textassay import (
    Aspect,
    Assignment,
    Example,
    Failure,
    Graph,
    Node,
    Run,
    Score,
    ScriptedModel,
    evaluate,
)
from textassay.agreement import agreement_table
from textassay.agreement.joined import People
from textassay.estimation import estimate_means, join_columns, read_judged, scales_of
from textassay.methods.fitted.evaluator import Evaluator
from textassay.runtime.data import Examples
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import Settings

HOSTILE = "</td><script>alert(1)</script> | $x$ `code`"
ROWS = [
    {"id": f"x{i}", "output": f"Text {i}.", "system": f"M{i % 2}", "group": f"g{i // 2}",
     "human": {"fluency": 1 + i % 5}}
    for i in range(30)
]  # fmt: skip
ALLOWED = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


class Cells(HTMLParser):
    """Reads a table as a sanitizer would leave it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"scope", "style"}

    def handle_data(self, data):
        self.texts.append(data)


async def judged(**more) -> Run:
    def reply(request):
        number = int(request.text.split("Text ")[1].split(".")[0])
        return f"{HOSTILE}\nRating: {1 + (number * 7) % 5}" if number != 3 else "no idea"

    model = ScriptedModel(reply)
    return await evaluate(ROWS, method="llm-score", aspects=["fluency"], model=model, **more)


@pytest.mark.parametrize("folder", [True, False])
async def test_a_run_shows_means_and_its_first_scores(tmp_path, folder):
    run = await judged(out=tmp_path / "run" if folder else None)
    bundle = run._repr_mimebundle_()
    cells = Cells(bundle["text/html"])
    assert cells.tags <= ALLOWED
    assert f"{run.summary()['aspects']['fluency']['mean']:.3f}" in cells.texts
    assert any("10 more not shown" in text for text in cells.texts)
    assert any("<script>" in text for text in cells.texts)
    assert "<script" not in bundle["text/html"] + bundle["text/markdown"]
    assert "29 scored, 1 invalid" in bundle["text/plain"]


@pytest.mark.parametrize("folder", [True, False])
async def test_a_run_gives_the_scores_of_one_text(tmp_path, folder):
    run = await judged(out=tmp_path / "run" if folder else None)
    assert run["x3"] == {score.aspect: score for score in run if score.id == "x3"}
    assert run["x3"]["fluency"].outcome == "invalid"
    assert "x3" in run
    assert run.scores[0] in run
    assert "x99" not in run
    with pytest.raises(KeyError, match="no score has the id 'x99'"):
        run["x99"]


async def test_decisions_and_agreement_show_their_intervals(tmp_path):
    run = await judged(out=tmp_path / "run")
    table = agreement_table(run, Examples(ROWS), levels=["dataset"], bootstrap=50)
    row = table.as_dict()["rows"][0]
    (low, high), shown = row["ci"]["pearson"], Cells(table._repr_html_()).texts
    assert f"{row['pearson']:.3f} [{low:.3f}, {high:.3f}]" in shown
    (columns,) = join_columns(read_judged(tmp_path / "run"), People(ROWS))
    found = estimate_means(columns, scales=scales_of(columns, {}), by_system=True)
    value = found.rows[0].labels_only
    assert any(text.startswith(f"{value.value:.3f} [") for text in Cells(found._repr_html_()).texts)
    assert f"{value.value:.3f}" in found._repr_markdown_()


def test_an_evaluator_shows_what_it_was_fitted_to():
    """Its aspects, its aggregator and what it reads; a name that is markup stays text."""
    evaluator = Evaluator(
        kind="recorded",
        aspects=(Aspect(name="fluency", definition="Reads well."),),
        features=("length", HOSTILE),
        aggregator={"name": "linear"},
    )
    bundle = evaluator._repr_mimebundle_()
    cells = Cells(bundle["text/html"])
    assert cells.tags <= ALLOWED
    assert {"fluency", "linear", "2", "length", HOSTILE} <= set(cells.texts)
    assert "<script" not in bundle["text/html"] + bundle["text/markdown"]


def test_a_graph_draws_itself():

    async def write(example: Example) -> Score | Failure:
        raise NotImplementedError

    graph = Graph("one", input=Assignment, nodes=[Node("n", write, example="example")], output="n")
    bundle = graph._repr_mimebundle_()
    assert bundle["text/vnd.mermaid"] == graph.to_mermaid()
    assert "```mermaid" in bundle["text/markdown"]
    assert "example" in Cells(bundle["text/html"]).texts


async def test_scores_go_to_any_data_frame():
    run = await judged()
    frame, table = run.to_pandas(), pa.table(run)
    polars = run.to_polars()
    assert table.column_names == list(frame.columns) == polars.columns
    assert polars["value"].to_list() == table["value"].to_pylist()
    assert polars["value"].null_count() == 1
    assert pl.DataFrame(run).equals(polars)
    assert (
        table.schema.field("error").type
        == pa.table(Run(folder=None, examples=[])).schema.field("error").type
    )
    wide = run.to_polars(wide=True)
    assert wide["human.fluency"].to_list() == [row["human"]["fluency"] for row in ROWS]


async def test_results_print_as_tables():
    """Also the summary, which is a dictionary all the same; intervals come unasked."""
    run = await judged()
    summary = run.summary()
    assert str(summary).splitlines()[1].split() == ["aspect", "scored", "mean"]
    assert json.loads(json.dumps(summary)) == dict(summary)
    assert str(run).startswith(str(summary))
    table = agreement_table(run, Examples(ROWS))
    assert str(table).splitlines()[0] == "agreement with people"
    assert table.rows[0].agreement.ci


TWELVE = [
    {"id": f"x{i}", "output": f"Text {i}.", "system": f"M{i % 2}", "group": "g",
     "human": {"fluency": i}}
    for i in range(12)
]  # fmt: skip


async def judged_late(examples, **more):
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


@pytest.mark.parametrize("folder", [True, False])
async def test_rows_come_in_the_order_of_the_data(tmp_path, folder):
    """So that a column may be set beside the data; ratings and names are joined."""
    run = await judged_late(TWELVE, out=tmp_path / "run" if folder else None)
    table = run.to_pandas()
    assert table[table.aspect == "fluency"].id.tolist() == [row["id"] for row in TWELVE]
    assert table[table.aspect == "fluency"].human.tolist() == list(range(12))
    assert table[table.aspect == "coherence"].human.isna().all()
    assert table.system.tolist()[:4] == ["M0", "M0", "M1", "M1"]


async def test_the_wide_form_has_a_row_per_example():
    table = (await judged_late(TWELVE)).to_pandas(wide=True)
    assert table.id.tolist() == [row["id"] for row in TWELVE]
    assert set(table.columns) == {"id", "system", "group", "coherence", "fluency", "human.fluency"}
    assert table["human.fluency"].tolist() == list(range(12))
    assert table.coherence.isna().sum() == 1
    assert pd.isna(table.set_index("id").coherence["x3"])


async def test_a_run_read_from_its_folder_finds_its_data(tmp_path):
    path = tmp_path / "data.csv"
    rows = pd.DataFrame([{**row, "human.fluency": i} for i, row in enumerate(TWELVE)])
    rows.drop(columns="human").to_csv(path, index=False)
    await judged_late(path, out=tmp_path / "run")
    again = Run(folder=tmp_path / "run").to_pandas(wide=True)
    assert again["human.fluency"].tolist() == list(range(12))
    settings = Settings(keep_rows=False)
    await judged_late(TWELVE, out=tmp_path / "memory", settings=settings)
    other = Run(folder=tmp_path / "memory")
    with pytest.raises(ConfigurationError, match="data="):
        other.to_pandas()
    assert len(other.to_pandas(data=TWELVE)) == 24
