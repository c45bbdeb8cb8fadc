"""One field map in every command that reads data, and the data of a run found by themselves."""

from __future__ import annotations

import csv
import json

import pytest

from tests.cli.harness import textassay, verdicts

MAP = {"item": "id", "reply": "output", "who": "system", "coh": "human.fluency"}


@pytest.fixture
def table(tmp_path):
    """A CSV with names of its own."""
    path = tmp_path / "own.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(MAP)
        writer.writerows([f"i{i}", f"Text {i}.", f"M{i % 2}", 1 + i % 5] for i in range(6))
    return path


def as_flags():
    """The map as flags."""
    return [part for theirs, ours in MAP.items() for part in ("--field", f"{theirs}={ours}")]


def as_file(tmp_path):
    """The map in a config file."""
    path = tmp_path / "map.toml"
    path.write_text("[fields]\n" + "".join(f'{k} = "{v}"\n' for k, v in MAP.items()))
    return path


def scored(server, table, run, *more):
    """Score the table."""
    flags = (
        "--method",
        "llm-score",
        "-m",
        "direct/mock",
        "--api-base",
        server.url,
        "-a",
        "fluency",
    )
    return textassay("score", table, *flags, "-o", run, *more)


def test_meta_finds_the_data_of_the_run_and_its_map(server, table, run, tmp_path):
    """Without DATA, and with it; the ids are those of the map."""
    assert scored(server, table, run, *as_flags()).code == 0
    found = [textassay("meta", run, *data, "--json", "--bootstrap", 0) for data in ([], [table])]
    assert found[0].code == 0, found[0].err
    assert found[0].out == found[1].out
    assert json.loads(found[0].out)["rows"][0]["n"] == 6


def test_flags_and_file_say_the_same(server, table, run, tmp_path):
    """For score, meta and fit; a flag goes before the file."""
    config = as_file(tmp_path)
    assert scored(server, table, run, "--config", config).code == 0
    assert scored(server, table, tmp_path / "other", *as_flags()).code == 0
    assert verdicts(run) == verdicts(tmp_path / "other")
    copy = table.with_name("copy.csv")
    copy.write_bytes(table.read_bytes())
    for fields in (["--config", config], as_flags()):
        assert textassay("meta", run, copy, *fields, "--bootstrap", 0).code == 0
    wrong = textassay(
        "fit", copy, "--features", "x*", "--field", "nothing=output", "-o", tmp_path / "e"
    )
    assert "nothing" in wrong.err


def test_levels_may_be_listed(server, table, run):
    """As aspects may."""
    assert scored(server, table, run, *as_flags()).code == 0
    done = textassay("meta", run, "--level", "dataset,system", "--json", "--bootstrap", 0)
    assert [row["level"] for row in json.loads(done.out)["rows"]] == ["dataset", "system"]


def test_moved_data_are_named_to_resume(server, table, run):
    """The content must be the same; the map is the run's."""
    assert scored(server, table, run, *as_flags(), "--limit", 3).code == 0
    moved = table.rename(table.with_name("moved.csv"))
    lost = textassay("resume", run, "--api-base", server.url)
    assert (lost.code, "own.csv" in lost.err) == (2, True)
    done = textassay("resume", run, "--data", moved, "--api-base", server.url)
    assert done.code == 0, done.err
    moved.write_text(moved.read_text().replace("Text 1", "Text X"))
    assert (
        "data have changed"
        in textassay("resume", run, "--data", moved, "--api-base", server.url).err
    )


def test_scores_without_a_run_need_data(tmp_path):
    """A file of scores does not tell where its data are."""
    path = tmp_path / "scores.jsonl"
    path.write_text('{"id": "a", "aspect": "fluency", "value": 1}\n')
    done = textassay("meta", path)
    assert (done.code, "give DATA after" in done.err) == (2, True)
