"""`textassay tools`: assistant evaluators listed, and run into a run folder without any model."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from textassay.cli.app import app

ROW = {
    "id": "a",
    "output": "The cat sat.",
    "source": "The cat sat on the mat.",
    "references": ["The cat sat there."],
}
BARE = {"id": "b", "output": "A dog ran."}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(BARE)}\n", encoding="utf-8")
    return path


def rows(folder: Path) -> dict[tuple[str, str], dict[str, object]]:
    found = map(json.loads, (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines())
    return {(row["id"], row["aspect"]): row for row in found}


def test_list_tells_what_each_tool_measures() -> None:
    """Every kind has its range, and those that lack an extra say which."""
    done = CliRunner().invoke(app, ["tools", "list"])
    assert done.exit_code == 0
    assert "rouge1 (0 to 1)" in done.stdout
    assert "nli (0 to 1)" in done.stdout


def test_score_makes_a_run_and_abstains_where_an_input_is_missing(
    data: Path, tmp_path: Path
) -> None:
    """Rows have `how` tool; what has no reference is abstained with the reason, never 0; the run
    resumes."""
    out = tmp_path / "run"
    arguments = [
        "tools",
        "score",
        str(data),
        "--tools",
        "rouge,length",
        "--out",
        str(out),
        "--progress",
        "none",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    found = rows(out)
    assert found["a", "rouge1"]["value"] == pytest.approx(6 / 7)
    assert found["a", "rouge1"]["how"] == "tool"
    assert found["b", "rouge1"]["value"] is None
    assert found["b", "rouge1"]["outcome"] == "abstained"
    assert found["b", "length"]["value"] == 3
    assert len(found) == 8
    again = CliRunner().invoke(app, ["resume", str(out), "--progress", "none"])
    assert again.exit_code == 1
    assert len((out / "scores.jsonl").read_text(encoding="utf-8").splitlines()) == 8


@pytest.mark.parametrize(
    ("tools", "said"),
    [("nonsense", "nonsense"), ("", "--tools a,b"), ("rouge,rouge1", "two tools are called")],
)
def test_what_is_no_tool_is_refused(data: Path, tmp_path: Path, tools: str, said: str) -> None:
    """The message names it, the exit status is 2 and no folder is made."""
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app, ["tools", "score", str(data), "--tools", tools, "--out", str(out)]
    )
    assert done.exit_code == 2
    assert said in done.stderr
    assert not out.exists()


def test_tools_that_a_file_describes_are_used_under_their_names(data: Path, tmp_path: Path) -> None:
    """All of them, or those that --tools names beside others; a resumed run needs the file no
    more."""
    config, out = tmp_path / "tools.toml", tmp_path / "run"
    config.write_text(
        '[tools.lower]\nkind = "bleu"\nlowercase = true\n[tools.length]\n', encoding="utf-8"
    )
    arguments = ["tools", "score", str(data), "--config", str(config), "--progress", "none"]
    assert CliRunner().invoke(app, [*arguments, "--out", str(out)]).exit_code == 1
    assert {aspect for _, aspect in rows(out)} == {"lower", "length"}
    assert json.loads((out / "manifest.json").read_text())["spec"]["tools"] == [
        "lower=bleu?lowercase=True",
        "length=length",
    ]
    config.unlink()
    again = CliRunner().invoke(app, ["resume", str(out), "--progress", "none"])
    assert (again.exit_code, len(rows(out))) == (1, 4)


def test_named_tools_are_looked_for_in_the_file_first(data: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "tools.toml", tmp_path / "run"
    config.write_text(
        '[tools.lower]\nkind = "bleu"\nlowercase = true\n[tools.length]\n', encoding="utf-8"
    )
    arguments = [
        "tools",
        "score",
        str(data),
        "--config",
        str(config),
        "--progress",
        "none",
        "--out",
        str(out),
    ]
    CliRunner().invoke(app, [*arguments, "--tools", "lower,chrf"])
    assert {aspect for _, aspect in rows(out)} == {"lower", "chrf"}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("kind = 3", "kind and model must be strings"),
        ('kind = "blue"', "blue"),
        ('kind = "bleu"\nmodle = "x"', "modle"),
        ('kind = "bleu"\nlowercase = [true]', "not a single value"),
        ('kind = "nli"\nmodel = "a?b"', "cannot be called"),
    ],
)
def test_a_table_that_describes_no_tool_is_refused(
    data: Path, tmp_path: Path, table: str, said: str
) -> None:
    config, out = tmp_path / "tools.toml", tmp_path / "run"
    config.write_text(f"[tools.mine]\n{table}\n", encoding="utf-8")
    arguments = ["tools", "score", str(data), "--config", str(config), "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, said in done.stderr, out.exists()) == (2, True, False), done.stderr


def test_a_file_cannot_say_another_method(data: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "tools.toml", tmp_path / "run"
    config.write_text('method = "g-eval"\ntools = ["length"]\n', encoding="utf-8")
    done = CliRunner().invoke(
        app, ["tools", "score", str(data), "--config", str(config), "--out", str(out)]
    )
    assert (done.exit_code, "method" in done.stderr, out.exists()) == (2, True, False), done.stderr
