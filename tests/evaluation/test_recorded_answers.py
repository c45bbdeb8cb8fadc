"""Real answers of GPT-4 and GPT-3.5, served again: what we read from them is what was recorded."""

from __future__ import annotations

import pytest

from tests.benchmark_data import benchmark
from textassay import evaluate
from textassay.runtime.settings import Settings

DOCUMENTS = 5
FORMS = {("gpt-4-0314", "rts"): "number", ("gpt-3.5-turbo-0301", "rts"): "number",
         ("gpt-3.5-turbo-0301", "mcq"): "letters",
         ("gpt-3.5-turbo-0301", "stareval"): "stars"}  # fmt: skip


def recorded(judge, prompt, dimension):
    """The first examples that a judge has rated, and its answers and their means by example."""
    said = {
        row["id"]: row
        for row in benchmark("summeval/predictions_llm_judges.jsonl.gz")
        if (row["judge"], row["prompt"], row["dimension"]) == (judge, prompt, dimension)
    }
    rows = [row for row in benchmark("summeval/summeval.jsonl.gz") if row["id"] in said]
    groups = list(dict.fromkeys(row["group"] for row in rows))[:DOCUMENTS]
    rows = list(
        {row["output"]: row for row in rows if row["group"] in groups}.values()
    )  # some systems copy the lead
    return rows, {row["id"]: said[row["id"]] for row in rows}


@pytest.mark.parametrize("dimension", ["coherence", "fluency"])
@pytest.mark.parametrize(("judge", "prompt"), FORMS)
async def test_values_equal_the_record(mock_server, judge, prompt, dimension):
    """Answers in a clear form are read as their authors read them; nearly all have one."""
    rows, said = recorded(judge, prompt, dimension)
    by_text = {row["output"].strip(): row["id"] for row in rows}

    def reply(body, draw):
        asked = body["messages"][-1]["content"]
        (found,) = [number for text, number in by_text.items() if f"\n{text}\n" in asked]
        return said[found]["raw"][0]

    server = await mock_server(reply=reply)
    run = await evaluate(
        rows, method="llm-score", task="summarization", aspects=[dimension], model="direct/judge",
        settings=Settings(api_base=server.url),
        options={"form": FORMS[judge, prompt], "parse_retries": 0},
    )  # fmt: skip
    found = {score.id: score.value for score in run}
    recorded_once = {number: row for number, row in said.items() if len(row["raw"]) == 1}
    unequal = [
        (number, row["raw"], found[number], row["mean"])
        for number, row in recorded_once.items()
        if found[number] not in (None, row["mean"])
    ]
    assert unequal == []
    assert len(recorded_once) > 5 * DOCUMENTS
    unread = [row["raw"] for number, row in recorded_once.items() if found[number] is None]
    assert len(unread) <= 0.04 * len(recorded_once), unread
