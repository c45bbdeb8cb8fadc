"""`textassay ratings import|export`."""

import json

from tests.cli.harness import textassay
from textassay.methods.library import tasks
from textassay.runtime.data import Examples


def test_csv_becomes_our_format_and_texts_are_joined(tmp_path):
    """What people rated elsewhere can be used by every command that reads ratings."""
    data, export = tmp_path / "data.jsonl", tmp_path / "ratings.csv"
    data.write_text(json.dumps({"id": "a", "output": "It rained."}) + "\n")
    export.write_text("id,aspect,rater,value\na,fluency,ann,4\na,fluency,bob,2\n")
    out = tmp_path / "ratings.jsonl"
    done = textassay("ratings", "import", "csv", export, "--data", data, "-o", out)
    assert done.code == 0, done.err
    [row] = [json.loads(line) for line in out.read_text().splitlines()]
    assert row["output"] == "It rained."
    assert (row["human"], row["annotators"]) == ({"fluency": 3.0}, {"fluency": [4.0, 2.0]})


def test_a_wrong_format_is_named(tmp_path):
    """With the formats that there are; nothing is written."""
    export = tmp_path / "x.json"
    export.write_text("[]")
    done = textassay("ratings", "import", "labelstudio", export, "-o", tmp_path / "out.jsonl")
    assert done.code == 2
    assert "label-studio" in done.err
    assert not (tmp_path / "out.jsonl").exists()


TASK = """
name = "support"
intro = "You will be given a message."
[[aspects]]
name = "topics"
definition = "what it is about."
labels = {billing = "an invoice", refund = "money back"}
multiple = true
[[aspects]]
name = "stars"
definition = "how good it is."
labels = {"1 star" = "", "2 stars" = "", "3 stars" = ""}
ordered = true
"""


def test_a_task_tells_the_labels_of_what_is_imported_and_exported(tmp_path):
    """Labels that begin with a number keep their place, and an unknown one is refused."""
    task, data, export = (tmp_path / name for name in ("task.toml", "data.jsonl", "ratings.csv"))
    task.write_text(TASK)
    data.write_text(json.dumps({"id": "a", "output": "x", "human": {"topics": ["refund"]}}) + "\n")
    tables = tmp_path / "tables"
    done = textassay("ratings", "export", "csv", data, "--task", task, "-o", tables)
    assert done.code == 0, done.err
    head = "id,aspect,rater,value\n"
    export.write_text(f"{head}a,stars,ann,2 stars\na,stars,bob,2 stars\na,topics,ann,refund\n")
    out = tmp_path / "rated.jsonl"
    told = ("--data", data, "--task", task, "-o", out)
    done = textassay("ratings", "import", "csv", export, *told)
    assert done.code == 0, done.err
    labels = {one.name: one.label_scale for one in tasks.load(task).aspects}
    [example] = Examples(out, labels=labels)
    assert example.annotators["stars"] == (1, 1)
    export.write_text(f"{head}a,stars,ann,4 stars\n")
    done = textassay("ratings", "import", "csv", export, *told)
    assert done.code == 2
    assert "'a', field 'annotators.stars': should be one of 1 star" in " ".join(done.err.split())
