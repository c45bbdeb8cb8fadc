"""Commands from scores to decisions: fixed JSON, folders bound to their judge, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli import harness
from tests.cli.harness import document, read_lines, textassay, write_examples, write_lines
from textassay.runtime.storage.run_files import latest_scores

SOURCES, SYSTEMS = 40, ("a", "b", "c")


def judged(rng, quality, shift=0.0):
    return float(np.clip(round(quality * 0.8 + shift + rng.normal(0, 0.6)), 1, 5))


@pytest.fixture
def world(tmp_path):
    """40 sources under three systems, 15 rated by three raters; a judge that is a point too low."""
    rng = np.random.default_rng(0)
    scores, rows = [], []
    for source in range(SOURCES):
        level = rng.normal(3.6, 0.7)
        for at, system in enumerate(SYSTEMS):
            quality = level + (0.9, 0.0, 0.0)[at] + rng.normal(0, 0.4)
            id_ = f"{source}-{system}"
            row = {"id": id_, "group": f"g{source}", "system": system, "output": "w " * (5 + at)}
            if source < 15:
                given = np.clip(np.round(quality + rng.normal(0, 0.4, 3)), 1, 5)
                row["annotators"] = {"tone": given.tolist()}
            rows.append(row)
            scores.append(
                {"id": id_, "aspect": "tone", "value": judged(rng, quality), "scale": [1, 5],
                 "outcome": "scored", "signature": "judge-1"}
            )  # fmt: skip
    return {
        "dir": tmp_path,
        "rows": rows,
        "lines": scores,
        "data": write_lines(tmp_path / "data.jsonl", rows),
        "scores": write_lines(tmp_path / "scores.jsonl", scores),
    }


def run_folder(world, name="run"):
    """The scores as a run."""
    folder = world["dir"] / name
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "spec": {"method": "g-eval"}}))
    write_lines(folder / "scores.jsonl", world["lines"])
    return folder


def test_estimate_prints_the_fixed_document(world):
    found = document("estimate", world["scores"], world["data"], "--by", "system")
    whole, *systems = found["rows"]
    keys = "aspect human system n groups rated rated_groups judge_only labels_only corrected"
    assert set(whole) >= {*keys.split(), "lambda", "worth"}
    assert (whole["n"], whole["groups"], whole["rated"], whole["rated_groups"]) == (120, 40, 45, 15)
    assert [row["system"] for row in (whole, *systems)] == [None, *SYSTEMS]
    assert whole["judge_only"]["high"] < whole["corrected"]["low"]
    assert 0 <= whole["lambda"] <= 1
    assert whole["warnings"] == []
    keys = {"aspect", "a", "b", "value", "low", "high", "p", "p_holm"}
    assert set(found["differences"][0]) == keys
    by_pair = {(one["a"], one["b"]): one for one in found["differences"]}
    assert max(by_pair["a", "b"]["p_holm"], by_pair["a", "c"]["p_holm"]) < 0.005
    assert all(one["p_holm"] >= one["p"] for one in found["differences"])
    assert systems[0]["rank"] == [1, 1]
    table = textassay("estimate", world["scores"], world["data"])
    assert ("corrected" in table.out, "drawn by chance" in table.err) == (True, True)
    chosen = document("estimate", world["scores"], world["data"], "--labels", "chosen")["rows"][0]
    assert chosen["corrected"]["low"] is chosen["labels_only"]["high"] is None
    assert chosen["corrected"]["value"] is not None


def test_mostly_equal_ratings_are_warned_of(world):
    """In the row, and as a note; all rows together first, and the systems in one sentence."""
    for at, row in enumerate(world["rows"]):
        if "annotators" in row:
            row["annotators"] = {"tone": [5, 5, 5 if at % 15 else 3]}
    data = write_lines(world["dir"] / "top.jsonl", world["rows"])
    found = document("estimate", world["scores"], data, "--by", "system")
    [warning] = found["rows"][0]["warnings"]
    assert "93% of the ratings are 5" in warning
    assert f"tone: {warning}" in found["notes"]
    assert sum("too few sources for the intervals of a, b, c" in n for n in found["notes"]) == 1


def test_unscored_rows_are_a_stratum_with_bounds(world):
    """Over 5 % without a score: counted, and what they could do to the mean is told."""
    for row in world["lines"][::8]:
        row |= {"value": None, "outcome": "abstained"}
    file = write_lines(world["dir"] / "s3.jsonl", world["lines"])
    row = document("estimate", file, world["data"])["rows"][0]
    assert row["n"] == 105
    missing = row["unscored"]
    assert (missing["n"], missing["share"]) == (15, 0.125)
    assert missing["worst_case"] < row["corrected"]["low"] < row["corrected"]["high"]
    assert row["corrected"]["high"] < missing["best_case"]


def test_calibrate_and_apply(world):
    """The folder reads back; a calibrated run has three more fields and its values as they were."""
    out, second = world["dir"] / "cal", world["dir"] / "run2"
    run = run_folder(world)
    done = textassay("calibrate", run, world["data"], "-o", out).ok()
    assert "mean width" in done.out
    assert "each with the same probability" in done.said
    files = {"calibration.json", "report.json", "report.txt"}
    assert {path.name for path in out.iterdir()} == files
    textassay("calibrate", run, "--apply", out, "-o", second).ok()
    scores = list(latest_scores(second))
    assert [score.value for score in scores] == [row["value"] for row in world["lines"]]
    inside = [score for score in scores if not score.outside]
    assert len(inside) > 100
    assert all(score.low <= score.calibrated <= score.high for score in inside)
    for score in scores:
        if score.outside:
            assert score.calibrated is score.low is score.high is None
    again = textassay("estimate", run, world["data"], "--calibration", out)
    assert "learned again across sources" in again.err


def test_a_calibration_is_bound_to_its_judge_and_to_itself(world):
    """Another signature is refused unless `allow_change=true`, an edited file always."""
    out, allowed = world["dir"] / "cal", ("--set", "allow_change=true")
    chosen = textassay("calibrate", world["scores"], world["data"], "-o", out, "--labels", "chosen")
    assert "chosen by hand" in chosen.ok().err
    assert "is not promised" in (out / "report.txt").read_text()
    world["lines"] = [{**row, "signature": "judge-2"} for row in world["lines"]]
    asked = ("calibrate", run_folder(world), "--apply", out, "-o")
    textassay(*asked, world["dir"] / "no").ends(2, "judge-1")
    textassay(*asked, world["dir"] / "yes", *allowed).ok()
    file = out / "calibration.json"
    file.write_text(file.read_text().replace('"coverage": 0.9', '"coverage": 0.8'))
    textassay(*asked, world["dir"] / "no", *allowed).ends(2, "digest differs")
    assert not (world["dir"] / "no").exists()


def test_compare_and_its_gate(world):
    better = [{**row, "value": min(5.0, row["value"] + 1)} for row in world["lines"]]
    file = write_lines(world["dir"] / "better.jsonl", better)
    found = document("compare", file, world["scores"], world["data"])
    row = found["rows"][0]
    assert list(row)[:13] == [
        "aspect", "n", "groups", "a", "b", "p", "p_holm", "wins", "ties", "losses", "difference",
        "low", "high",
    ]  # fmt: skip
    assert (row["n"], row["groups"], row["losses"]) == (120, 40, 0)
    assert row["p"] < 0.001
    coefficients = {one["coefficient"] for one in found["agreement"]}
    assert coefficients == {"pearson", "spearman", "kendall"}
    middle = str(row["difference"])
    for limit, code in (("0.2", 0), (middle, 4), ("1.5", 1)):
        arguments = ("compare", file, world["scores"], world["data"], "--fail-below", limit)
        assert textassay(*arguments).code == code


def test_alt_test_prints_the_fixed_document(world):
    rng = np.random.default_rng(1)
    for row in world["rows"]:
        row["annotators"] = {"tone": rng.integers(1, 6, 3).tolist()}
    data = write_lines(world["dir"] / "all.jsonl", world["rows"])
    row = document("alt-test", world["scores"], data)["rows"][0]
    keys = "score human n raters groups epsilon metric omega rho passes constant per_rater"
    assert set(row) >= set(keys.split())
    assert set(row["per_rater"][0]) >= {"rater", "n", "rho", "p"}
    assert {"value", "omega", "rho"} <= set(row["constant"])
    assert (row["raters"], row["groups"]) == (3, 40)
    assert "words" in row["trivial"]
    assert row["agreement"]["alpha"]["interval"] < 0.3
    alone = document("alt-test", world["scores"], data, "--rows-independent")
    assert alone["rows"][0]["groups"] is None


def test_label_plan_draws_and_its_probabilities_are_used(world):
    """The file holds what to rate next, and `estimate --labels FILE` weighs by it."""
    out, further = world["dir"] / "next.jsonl", world["dir"] / "2.jsonl"
    plan = ("label-plan", world["scores"], world["data"], "--half-width", "0.1")
    row = document(*plan, "--next", 20, "-o", out)["rows"][0]
    assert row["rated"] == 45
    assert row["half_width"] > row["with_all"]
    drawn = read_lines(out)
    new = [one for one in drawn if not one["rated"]]
    assert (len(new), len({one["id"] for one in drawn})) == (20, 65)
    assert all(0 < one["sampling_probability"] <= 1 for one in drawn)
    done = textassay("estimate", world["scores"], world["data"], "--labels", out).ok()
    assert "with the probabilities in the data" in done.err
    # a further plan goes on from it once the ratings are there
    ratings = {row["id"]: row for row in world["rows"]}
    for one in new:
        ratings[one["id"]]["human"] = {"tone": 3}
    data = write_lines(world["dir"] / "more.jsonl", ratings.values())
    plan = ("label-plan", world["scores"], data, "--half-width", 0.1, "--next", 10, "-o", further)
    done = textassay(*plan, "--labels", "chosen").ends(2, "no probability of having been drawn")
    assert "after every batch" in textassay(*plan, "--labels", out).ok().said
    later = {row["id"]: row["sampling_probability"] for row in read_lines(further)}
    assert len(later) == 75
    assert all(later[one["id"]] >= one["sampling_probability"] for one in new)


def no_ratings(rows, scores):
    for row in rows:
        row.pop("annotators", None)


def constant_judge(rows, scores):
    for row in scores:
        row["value"] = 3.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (no_ratings, "no human ratings"),
        (constant_judge, "gives 3 to every rated row"),
        (lambda rows, scores: rows[3].update(annotators={"tone": [7] * 3}), "lie outside 1 to 5"),
        (lambda rows, scores: scores[0].update(signature="other"), "2 different judges"),
        (lambda rows, scores: rows[0].update(sampling_probability=0), "must be above 0"),
    ],
)
def test_bad_input_is_told_and_never_a_number(world, change, words):
    change(world["rows"], world["lines"])
    data = write_lines(world["dir"] / "bad-data.jsonl", world["rows"])
    file = write_lines(world["dir"] / "bad-scores.jsonl", world["lines"])
    folder = world["dir"] / "cal"
    for command in (
        ("estimate", file, data, "--by", "system", "--json"),
        ("calibrate", file, data, "-o", folder),
        ("label-plan", file, data, "--half-width", "0.1"),
    ):
        done = textassay(*command)
        assert (done.code, done.out, words in done.said) == (2, "", True), (command, done.err)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"annotators": {}}, "no human ratings"),
        ({"annotators": {"tone": [3, None, None]}}, "it needs 2 raters"),
        ({"annotators": {}, "human": {"tone": 3}}, "no single ratings"),
        ({"group": "only", "annotators": {"tone": [3, 4, 3]}}, "belong to one source"),
    ],
)
def test_alt_test_refuses_what_it_cannot_test(world, change, words):
    """Ratings that are missing, off the scale, of one rater, means, or of one source."""
    rows = [{**row, **change} for row in world["rows"]]
    done = textassay("alt-test", world["scores"], write_lines(world["dir"] / "alt.jsonl", rows))
    assert (done.code, done.out, words in done.said) == (2, "", True), done.err


def test_metrics_of_a_data_set_are_scores(world):
    """Any column of numbers: the file of recorded metrics itself, rows without texts too."""
    rows = [
        {k: v for k, v in row.items() if k != "output"} | {"metrics": {"mine": score["value"]}}
        for row, score in zip(world["rows"], world["lines"], strict=True)
    ]
    data = write_lines(world["dir"] / "metrics.jsonl", rows)
    found = document("estimate", data, data, "--aspect-map", "mine=tone")
    assert found["rows"][0]["rated"] == 45
    # without ratings two systems of a run can be compared by the judge's scores alone
    bare = write_lines(world["dir"] / "bare.jsonl", [{**row, "annotators": {}} for row in rows])
    done = textassay("estimate", world["scores"], bare, "--by", "system")
    assert (done.code, "textassay compare RUN --systems A B" in done.said) == (2, True)


def test_score_applies_a_calibration_as_it_goes(tmp_path, server):
    data, before = write_examples(tmp_path / "data.jsonl", 40), {"aspects": "coherence"}
    first, cal = tmp_path / "first", tmp_path / "cal"
    harness.score(data, first, server, **before).ok()
    values = {score.id: score.value for score in latest_scores(first)}
    assert len(set(values.values())) > 1
    rows = read_lines(data)
    for at, row in enumerate(rows):
        row["human"] = {"coherence": float(np.clip(values[row["id"]] - 0.5 + at % 3 / 2, 1, 5))}
    rated = write_lines(tmp_path / "rated.jsonl", rows)
    textassay("calibrate", first, rated, "-o", cal).ok()
    runs, use = [tmp_path / name for name in ("second", "third", "fourth")], ("--calibration", cal)
    harness.score(data, runs[0], server, *use, **before).ok()
    textassay("calibrate", first, "--apply", cal, "-o", runs[1]).ok()
    harness.score(data, runs[2], server, *use, "--processes", 2, **before).ok()
    ends = [
        {score.id: (score.calibrated, score.low, score.high) for score in latest_scores(run)}
        for run in runs
    ]
    assert ends[0] == ends[1] == ends[2]
    assert all(low <= value <= high for value, low, high in ends[0].values())
    asked = server.counters.requests
    other = harness.score(data, tmp_path / "no", server, *use, "--temperature", "0.3", **before)
    assert (other.code, "another judge, prompt or setting" in other.err) == (2, True)
    assert (server.counters.requests, (tmp_path / "no").exists()) == (asked, False)
