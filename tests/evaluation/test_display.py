"""What results show in a notebook: every number, no script, and nothing of a text that is
markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser

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
from textassay.calibration import estimate_means, join_columns, read_judged, scales_of
from textassay.meta import agreement_table
from textassay.meta.people import People
from textassay.methods.fitted.evaluator import Evaluator
from textassay.runtime.data import Examples
from textassay.runtime.errors import DataError

HOSTILE = "</td><script>alert(1)</script> | $x$ `code`"
ROWS = [
    {
        "id": f"x{i}",
        "output": f"Text {i}.",
        "system": f"M{i % 2}",
        "group": f"g{i // 2}",
        "human": {"fluency": 1 + i % 5},
    }
    for i in range(30)
]
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


@pytest.mark.asyncio
@pytest.mark.parametrize("folder", [True, False])
async def test_a_run_shows_means_and_its_first_scores(tmp_path, folder):
    """Texts of the judge are text, whatever is in them."""
    run = await judged(out=tmp_path / "run" if folder else None)
    bundle = run._repr_mimebundle_()
    cells = Cells(bundle["text/html"])
    assert cells.tags <= ALLOWED
    assert f"{run.summary()['aspects']['fluency']['mean']:.3f}" in cells.texts
    assert any("10 more not shown" in text for text in cells.texts)
    assert any("<script>" in text for text in cells.texts)
    assert "<script" not in bundle["text/html"] + bundle["text/markdown"]
    assert "29 scored, 1 invalid" in bundle["text/plain"]


@pytest.mark.asyncio
async def test_decisions_and_agreement_show_their_intervals(tmp_path):
    """The numbers are those of `as_dict`."""
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
    """As mermaid where that is drawn, and as a table of its wires."""

    async def write(example: Example) -> Score | Failure:
        raise NotImplementedError

    graph = Graph("one", input=Assignment, nodes=[Node("n", write, example="example")], output="n")
    bundle = graph._repr_mimebundle_()
    assert bundle["text/vnd.mermaid"] == graph.to_mermaid()
    assert "```mermaid" in bundle["text/markdown"]
    assert "example" in Cells(bundle["text/html"]).texts


@pytest.mark.asyncio
async def test_scores_go_to_any_data_frame():
    """pandas, polars and arrow hold the same, gaps included, with types that do not depend on the
    rows."""
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


class Split:
    """What a Hugging Face `Dataset` is to us: rows and the names of columns."""

    def __init__(self, rows):
        self.rows, self.column_names = rows, list(rows[0])

    def __iter__(self):
        return iter(self.rows)


def test_a_data_set_dict_of_one_split_is_that_split():
    """Of several, one must be named."""
    assert Examples({"test": Split(ROWS)}).check().count == 30
    with pytest.raises(DataError, match=r"'train', 'test'"):
        Examples({"train": Split(ROWS), "test": Split(ROWS)})


@pytest.mark.asyncio
async def test_results_print_as_tables():
    """Also the summary, which is a dictionary all the same; intervals come unasked."""
    run = await judged()
    summary = run.summary()
    assert str(summary).splitlines()[1].split() == ["aspect", "scored", "mean"]
    assert json.loads(json.dumps(summary)) == dict(summary)
    assert str(run).startswith(str(summary))
    table = agreement_table(run, Examples(ROWS))
    assert str(table).splitlines()[0] == "agreement with people"
    assert table.rows[0].agreement.ci is not None
