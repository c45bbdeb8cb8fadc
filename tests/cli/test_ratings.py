"""`textassay ratings import|export`."""

import json

from tests.cli.harness import textassay


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
