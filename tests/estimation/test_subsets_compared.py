"""Two runs compared by the values of a field of the data."""

import json

import numpy as np
import pytest

from tests.cli.harness import document, textassay, write_lines
from textassay import Example, Run, Score
from textassay.estimation.means import holm


@pytest.fixture
def files(tmp_path):
    """Two runs on three topics, of which the first run judged no text on law with success."""
    rng = np.random.default_rng(0)
    topics = ["health", "law", "sport"]
    rows = [
        {"id": f"t{at}", "group": f"g{at // 2}", "output": f"text {at}", "topic": topics[at % 3],
         "system": "mn"[at // 2 % 2], "human": {"good": int(rng.integers(1, 6)), "ok": at % 5 % 2}}
        for at in range(120)
    ]  # fmt: skip
    lines = {"a": [], "b": []}
    for row in rows:
        for name, own in lines.items():
            better = 0.8 * (name == "a" and row["topic"] == "health")
            value = row["human"]["good"] + better + rng.normal(0, 1)
            if name == "a" and row["topic"] == "law":
                value = None
            own.append({"id": row["id"], "aspect": "good", "value": value})
            own.append({"id": row["id"], "aspect": "ok", "value": int(rng.integers(0, 2))})
    written = [write_lines(tmp_path / f"{name}.jsonl", own) for name, own in lines.items()]
    return *written, write_lines(tmp_path / "data.jsonl", rows), rows


def only(path, ids, out):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return write_lines(out, [one for one in lines if one["id"] in ids])


def without_holm(rows):
    return [{key: value for key, value in row.items() if key != "p_holm"} for row in rows]


def test_each_subset_is_compared_as_if_it_were_alone(files, tmp_path):
    *runs, data, rows = files
    found = document("compare", *runs, data, "--by", "topic")
    assert found["by"] == "topic"
    assert list(found["subsets"]) == ["health", "law", "sport"]
    ids = {row["id"] for row in rows if row["topic"] == "health"}
    parts = [only(path, ids, tmp_path / f"part-{path.name}") for path in (*runs, data)]
    alone, own = document("compare", *parts), found["subsets"]["health"]
    assert without_holm(own["rows"]) == without_holm(alone["rows"])
    assert without_holm(own["agreement"]) == alone["agreement"]
    # and the whole is as without subsets
    whole = document("compare", *runs, data)
    assert (found["rows"], found["agreement"]) == (whole["rows"], whole["agreement"])


def test_p_values_are_adjusted_over_subsets(files):
    *runs, data, _ = files
    found = document("compare", *runs, data, "--by", "topic")["subsets"]
    rows = [row for one in found.values() for row in one["rows"]]
    assert [row["p_holm"] for row in rows] == holm([row["p"] for row in rows])
    family = [
        row
        for one in found.values()
        for row in one["agreement"]
        if (row["aspect"], row["coefficient"]) == ("ok", "accuracy")
    ]
    assert len(family) == 3
    assert [row["p_holm"] for row in family] == holm([row["p"] for row in family])


def test_a_subset_that_cannot_be_compared_is_named_and_left_out(files):
    *runs, data, _ = files
    found = document("compare", *runs, data, "--by", "topic")
    assert [row["aspect"] for row in found["subsets"]["law"]["rows"]] == ["ok"]
    assert "good: topic law has no text with a score in both runs" in found["notes"]
    printed = textassay("compare", *runs, data, "--by", "topic").ok()
    assert "differences of a and b, paired by source, by topic" in printed.out
    assert "p (Holm): adjusted over all aspects and subsets" in printed.err


def test_two_systems_of_one_run_are_compared_by_a_field(files):
    _, run, data, rows = files
    found = document("compare", run, data, "--systems", "m", "n", "--by", "topic")
    assert found["systems"] == ["m", "n"]
    counts = {name: one["rows"][0]["n"] for name, one in found["subsets"].items()}
    assert sum(counts.values()) == len(rows) == found["rows"][0]["n"]
    assert found["subsets"]["sport"]["agreement"] == []


def test_runs_with_data_of_their_own_are_divided_each_by_its_own():
    """Two weeks of traffic: no text in common, and a topic that came up in one of them."""

    def run(week, topics):
        examples, scores = [], []
        for at in range(30):
            id_ = f"{week}{at}"
            topic = {"topic": topics[at % len(topics)]}
            examples.append(Example(id=id_, output=f"{week} {at}", meta=topic))
            scores.append(Score(id=id_, aspect="good", value=1.0 + at % 5))
        return Run(scores=scores, examples=examples)

    found = run("old", ["health"]).compare(run("new", ["health", "law"]), by="topic")
    assert list(found.subsets) == ["health"]
    assert found.subsets["health"].rows[0].paired_by is None
    assert "law has no text" in str(found)


@pytest.mark.parametrize(
    ("field", "with_data", "says"),
    [("absent", True, "a field that no example has"), ("topic", False, "give DATA")],
)
def test_a_field_that_divides_nothing_is_refused(files, field, with_data, says):
    *runs, data, _ = files
    textassay("compare", *runs, *([data] if with_data else []), "--by", field).ends(2, says)
