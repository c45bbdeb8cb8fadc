"""`textassay tools`: assistant evaluators listed, and run into a run folder without any model."""

import pytest

from tests.cli.harness import document, read_json, rows_of, textassay, write_lines

ROWS = [
    {"id": "a", "output": "The cat sat.", "source": "The cat sat on the mat.",
     "references": ["The cat sat there."]},
    {"id": "b", "output": "A dog ran."},
]  # fmt: skip


@pytest.fixture
def data(tmp_path):
    return write_lines(tmp_path / "data.jsonl", ROWS)


@pytest.fixture
def config(tmp_path):
    """A file that describes two tools."""
    path = tmp_path / "tools.toml"
    path.write_text('[tools.lower]\nkind = "bleu"\nlowercase = true\n[tools.length]\n')
    return path


def score(data, run, *more):
    return textassay("tools", "score", data, "--out", run, "--progress", "none", *more)


def test_list_says_what_each_tool_measures():
    shown = textassay("tools", "list").ok().out
    assert "rouge1 (0 to 1)" in shown
    found = document("tools", "list")["rows"]
    assert {"kind", "scale", "installed", "extra", "description"} <= set(found[0])
    assert all(f"{row['kind']} (" in shown for row in found)


def test_score_makes_a_run_and_abstains_where_an_input_is_missing(data, run):
    """What has no reference is abstained with the reason, never 0; the run resumes."""
    assert score(data, run, "--tools", "rouge,length").code == 1
    found = {(row["id"], row["aspect"]): row for row in rows_of(run)}
    assert found["a", "rouge1"]["value"] == pytest.approx(6 / 7)
    assert found["a", "rouge1"]["how"] == "tool"
    assert (found["b", "rouge1"]["value"], found["b", "rouge1"]["outcome"]) == (None, "abstained")
    assert found["b", "length"]["value"] == 3
    assert textassay("resume", run, "--progress", "none").code == 1
    assert len(found) == len(rows_of(run)) == 8


def test_tools_that_a_file_describes_are_used_under_their_names(data, config, run, tmp_path):
    """All, or those that --tools names beside others; a resumed run needs the file no more."""
    some = ("--tools", "lower,chrf")
    assert score(data, tmp_path / "some", "--config", config, *some).code == 1
    assert {row["aspect"] for row in rows_of(tmp_path / "some")} == {"lower", "chrf"}
    assert score(data, run, "--config", config).code == 1
    assert {row["aspect"] for row in rows_of(run)} == {"lower", "length"}
    tools = read_json(run / "manifest.json")["spec"]["tools"]
    assert tools == ["lower=bleu?lowercase=True", "length=length"]
    fused = ("--method", "fusion-eval", "--set", "fusion=avg", "--tools", "lower", "--dry-run")
    textassay("score", data, *fused, "--config", config).ok()
    config.unlink()
    assert textassay("resume", run, "--progress", "none").code == 1


@pytest.mark.parametrize(
    ("tools", "said"),
    [("nonsense", "nonsense"), ("", "--tools a,b"), ("rouge,rouge1", "two tools are called")],
)
def test_unknown_tools_are_refused(data, run, tools, said):
    done = score(data, run, "--tools", tools)
    assert (done.code, said in done.err, run.exists()) == (2, True, False), done.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[tools.mine]\nkind = 3", "kind and model must be strings"),
        ('[tools.mine]\nkind = "blue"', "blue"),
        ('[tools.mine]\nkind = "bleu"\nmodle = "x"', "modle"),
        ('[tools.mine]\nkind = "bleu"\nlowercase = [true]', "not a single value"),
        ('[tools.mine]\nkind = "nli"\nmodel = "a?b"', "cannot be called"),
        ('method = "g-eval"\ntools = ["length"]', "method"),
    ],
)
def test_a_file_that_describes_no_tools_is_refused(data, run, tmp_path, content, said):
    config = tmp_path / "mine.toml"
    config.write_text(content)
    done = score(data, run, "--config", config)
    assert (done.code, said in done.err, run.exists()) == (2, True, False), done.err
