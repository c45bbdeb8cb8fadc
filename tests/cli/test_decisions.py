"""The commands from scores to decisions: fixed JSON, folders that are bound to their judge, and
refusals that help."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.harness import textassay, write_examples
from textassay.runtime.storage.run_files import latest_scores

SOURCES, SYSTEMS = 40, ("a", "b", "c")


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def judged(rng, quality, shift=0.0):
    return float(np.clip(round(quality * 0.8 + shift + rng.normal(0, 0.6)), 1, 5))


@pytest.fixture
def world(tmp_path):
    """40 sources under three systems; 15 sources rated by three raters; a judge that is a point too
    low."""
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
        "data": lines(tmp_path / "data.jsonl", rows),
        "scores": lines(tmp_path / "scores.jsonl", scores),
    }


def run_folder(world, name="run"):
    """The scores as a run."""
    folder = world["dir"] / name
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "spec": {"method": "g-eval"}}))
    lines(folder / "scores.jsonl", world["lines"])
    return folder


def test_estimate_prints_the_fixed_document(world):
    """Keys as documented; judge, labels and both side by side; differences by pair with Holm."""
    done = textassay("estimate", world["scores"], world["data"], "--by", "system", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    whole, *systems = found["rows"]
    keys = (
        "aspect human system n groups rated rated_groups judge_only labels_only corrected "
        "lambda worth"
    )
    for key in keys.split():
        assert key in whole
    assert (whole["n"], whole["groups"], whole["rated"], whole["rated_groups"]) == (120, 40, 45, 15)
    assert whole["system"] is None
    assert [row["system"] for row in systems] == list(SYSTEMS)
    assert whole["judge_only"]["high"] < whole["corrected"]["low"]
    assert 0 <= whole["lambda"] <= 1
    assert set(found["differences"][0]) == {
        "aspect",
        "a",
        "b",
        "value",
        "low",
        "high",
        "p",
        "p_holm",
    }
    by_pair = {(one["a"], one["b"]): one for one in found["differences"]}
    assert max(by_pair["a", "b"]["p_holm"], by_pair["a", "c"]["p_holm"]) < 0.005
    assert all(one["p_holm"] >= one["p"] for one in found["differences"])
    assert systems[0]["rank"] == [1, 1]


def test_a_table_says_what_it_assumes(world):
    """Without --json: a table, and the assumptions on standard error."""
    done = textassay("estimate", world["scores"], world["data"])
    assert "corrected" in done.out
    assert "drawn by chance" in done.err


def test_what_a_mean_is_over_can_be_chosen(world):
    """Sources or texts, in the document and in the line; two numbers where sizes are unequal."""
    # ten sources have three texts, the others one
    kept = [row for row in world["rows"] if row["system"] == "a" or len(row["id"]) == 3]
    data = lines(world["dir"] / "uneven.jsonl", kept)
    for command in (("estimate", world["scores"]), ("compare", world["scores"], world["scores"])):
        found = {}
        for weight in ("sources", "texts"):
            done = textassay(*command, data, "--weight", weight, "--json")
            assert done.code == 0, done.err
            row = json.loads(done.out)["rows"][0]
            assert row["over"] == weight
            assert any(f"over {weight}" in note for note in json.loads(done.out)["notes"])
            found[weight] = row["labels_only"]["value"] if "labels_only" in row else row["a"]
        assert found["sources"] != found["texts"]
        done = textassay(*command, data, "--weight", "rows")
        assert (done.code, "unknown weight 'rows'" in done.err) == (2, True)


def test_mostly_equal_ratings_are_warned_of(world):
    """In the row, and as a note; all rows together first, and the systems in one sentence."""
    for at, row in enumerate(world["rows"]):
        if "annotators" in row:
            row["annotators"] = {"tone": [5, 5, 5 if at % 15 else 3]}
    data = lines(world["dir"] / "top.jsonl", world["rows"])
    done = textassay("estimate", world["scores"], data, "--by", "system", "--json")
    document = json.loads(done.out)
    [warning] = document["rows"][0]["warnings"]
    assert "93% of the ratings are 5" in warning
    assert f"tone: {warning}" in document["notes"]
    assert sum("too few sources for the intervals of a, b, c" in n for n in document["notes"]) == 1
    plain = json.loads(textassay("estimate", world["scores"], world["data"], "--json").out)
    assert plain["rows"][0]["warnings"] == []


def test_labels_chosen_by_hand_have_no_interval(world):
    """Said with --labels chosen: values and no intervals."""
    done = textassay("estimate", world["scores"], world["data"], "--labels", "chosen", "--json")
    row = json.loads(done.out)["rows"][0]
    assert row["corrected"]["low"] is row["labels_only"]["high"] is None
    assert row["corrected"]["value"] is not None


def test_a_system_outside_the_labelled_range_is_refused(world):
    """A policy whose scores no rating supports has no corrected value, and the reason is told."""
    bad = [
        {"id": f"{s}-bad", "group": f"g{s}", "system": "bad", "output": "x"} for s in range(SOURCES)
    ]
    scores = [
        {"id": row["id"], "aspect": "tone", "value": 0.2, "signature": "judge-1", "scale": [0, 5]}
        for row in bad
    ]
    old = [{**row, "scale": [0, 5]} for row in world["lines"]]
    data = lines(world["dir"] / "d2.jsonl", [*world["rows"], *bad])
    file = lines(world["dir"] / "s2.jsonl", [*old, *scores])
    done = textassay("estimate", file, data, "--by", "system", "--json")
    found = {row["system"]: row for row in json.loads(done.out)["rows"]}
    assert found["bad"]["corrected"]["value"] is None
    assert "100% of its scores lie outside" in found["bad"]["refused"]
    assert found["a"]["refused"] is None
    assert all("bad" not in (one["a"], one["b"]) for one in json.loads(done.out)["differences"])


def test_unscored_rows_are_a_stratum_with_bounds(world):
    """Over 5 % without a score: counted, and what they could do to the mean is told."""
    for row in world["lines"][::8]:
        row |= {"value": None, "outcome": "abstained"}
    file = lines(world["dir"] / "s3.jsonl", world["lines"])
    row = json.loads(textassay("estimate", file, world["data"], "--json").out)["rows"][0]
    assert row["n"] == 105
    missing = row["unscored"]
    assert (missing["n"], missing["share"]) == (15, 0.125)
    assert missing["worst_case"] < row["corrected"]["low"] < row["corrected"]["high"]
    assert row["corrected"]["high"] < missing["best_case"]


def test_calibrate_and_apply(world):
    """The folder reads back; a calibrated run has three more fields and its values as they were."""
    out, second = world["dir"] / "cal", world["dir"] / "run2"
    run = run_folder(world)
    done = textassay("calibrate", run, world["data"], "-o", out)
    assert done.code == 0, done.err
    assert "mean width" in done.out
    assert {path.name for path in out.iterdir()} == {
        "calibration.json",
        "report.json",
        "report.txt",
    }
    done = textassay("calibrate", run, "--apply", out, "-o", second)
    assert done.code == 0, done.err
    scores = list(latest_scores(second))
    assert [score.value for score in scores] == [row["value"] for row in world["lines"]]
    inside = [score for score in scores if not score.outside]
    assert len(inside) > 100
    for score in inside:
        assert score.low <= score.calibrated <= score.high
    for score in scores:
        if score.outside:
            assert score.calibrated is score.low is score.high is None
    again = textassay("estimate", run, world["data"], "--calibration", out)
    assert "learned again across sources" in again.err


def test_a_calibration_is_bound_to_its_judge(world):
    """Another signature is refused, and allow_change=true says that it is known to differ."""
    out = world["dir"] / "cal"
    assert textassay("calibrate", world["scores"], world["data"], "-o", out).code == 0
    world["lines"] = [{**row, "signature": "judge-2"} for row in world["lines"]]
    other = run_folder(world)
    done = textassay("calibrate", other, "--apply", out, "-o", world["dir"] / "no")
    assert done.code == 2
    assert "judge-1" in done.err
    assert not (world["dir"] / "no").exists()
    allowed = ("--set", "allow_change=true")
    assert (
        textassay("calibrate", other, "--apply", out, "-o", world["dir"] / "yes", *allowed).code
        == 0
    )


def test_an_edited_calibration_is_refused(world):
    """The digest is over all of it."""
    out = world["dir"] / "cal"
    textassay("calibrate", world["scores"], world["data"], "-o", out)
    file = out / "calibration.json"
    file.write_text(file.read_text().replace('"coverage": 0.9', '"coverage": 0.8'))
    done = textassay("calibrate", run_folder(world), "--apply", out, "-o", world["dir"] / "no")
    assert (done.code, "digest differs" in done.err) == (2, True)


def test_compare_and_its_gate(world):
    """Paired by source; the gate is 0, 1 or 4 by where the interval lies."""
    better = [{**row, "value": min(5.0, row["value"] + 1)} for row in world["lines"]]
    file = lines(world["dir"] / "better.jsonl", better)
    done = textassay("compare", file, world["scores"], world["data"], "--json")
    row = json.loads(done.out)["rows"][0]
    assert list(row)[:13] == [
        "aspect", "n", "groups", "a", "b", "p", "p_holm", "wins", "ties", "losses", "difference",
        "low", "high",
    ]  # fmt: skip
    assert (row["n"], row["groups"], row["losses"]) == (120, 40, 0)
    assert row["p"] < 0.001
    agreement = json.loads(done.out)["agreement"]
    assert {one["coefficient"] for one in agreement} == {"pearson", "spearman", "kendall"}
    middle = str(row["difference"])
    for limit, code in (("0.2", 0), (middle, 4), ("1.5", 1)):
        arguments = ("compare", file, world["scores"], world["data"], "--fail-below", limit)
        assert textassay(*arguments).code == code


def test_alt_test_prints_the_fixed_document(world):
    """Keys as documented, the constant and the number of words beside, and people's own
    agreement."""
    rng = np.random.default_rng(1)
    for row in world["rows"]:
        row["annotators"] = {"tone": rng.integers(1, 6, 3).tolist()}
    data = lines(world["dir"] / "all.jsonl", world["rows"])
    done = textassay("alt-test", world["scores"], data, "--json")
    row = json.loads(done.out)["rows"][0]
    keys = "score human n raters groups epsilon metric omega rho passes constant per_rater"
    for key in keys.split():
        assert key in row
    assert set(row["per_rater"][0]) >= {"rater", "n", "rho", "p"}
    assert {"value", "omega", "rho"} <= set(row["constant"])
    assert (row["raters"], row["groups"]) == (3, 40)
    assert "words" in row["trivial"]
    assert row["agreement"]["alpha"]["interval"] < 0.3
    alone = json.loads(
        textassay("alt-test", world["scores"], data, "--rows-independent", "--json").out
    )
    assert alone["rows"][0]["groups"] is None


def test_label_plan_draws_and_its_probabilities_are_used(world):
    """The file holds what to rate next, and `estimate --labels FILE` weighs by it."""
    out = world["dir"] / "next.jsonl"
    done = textassay(
        "label-plan",
        world["scores"],
        world["data"],
        "--half-width",
        "0.1",
        "--next",
        20,
        "-o",
        out,
        "--json",
    )
    row = json.loads(done.out)["rows"][0]
    assert row["rated"] == 45
    assert row["half_width"] > row["with_all"]
    plan = [json.loads(line) for line in out.read_text().splitlines()]
    new = [one for one in plan if not one["rated"]]
    assert len(new) == 20
    assert len({one["id"] for one in plan}) == 65
    assert all(0 < one["sampling_probability"] <= 1 for one in plan)
    done = textassay("estimate", world["scores"], world["data"], "--labels", out)
    assert done.code == 0, done.err
    assert "with the probabilities in the data" in done.err
    # a further plan goes on from it once the ratings are there
    ratings = {row["id"]: row for row in world["rows"]}
    for one in new:
        ratings[one["id"]]["human"] = {"tone": 3}
    data, further = lines(world["dir"] / "more.jsonl", ratings.values()), world["dir"] / "2.jsonl"
    flags = ("--half-width", 0.1, "--next", 10, "-o", further, "--labels")
    done = textassay("label-plan", world["scores"], data, *flags, "chosen")
    assert done.code == 2
    assert "no probability of having been drawn" in " ".join(done.err.split())
    done = textassay("label-plan", world["scores"], data, *flags, out)
    assert done.code == 0, done.err
    assert "after every batch" in " ".join(done.err.split())
    later = {
        row["id"]: row["sampling_probability"]
        for row in map(json.loads, further.read_text().splitlines())
    }
    assert len(later) == 75
    assert all(later[one["id"]] >= one["sampling_probability"] for one in new)


def changed(world, name, **fields):
    return lines(world["dir"] / name, [{**row, **fields} for row in world["rows"]])


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("no ratings", "no human ratings"),
        ("seven labels", "only 7 rows"),
        ("one group", "belong to one source"),
        ("off the scale", "lie outside 1 to 5"),
        ("constant people", "people gave 3 to every rated row"),
        ("constant judge", "gives 3 to every rated row"),
        ("other ids", "no id occurs in both"),
        ("two judges", "2 different judges"),
        ("not a number", "nan is not a finite number"),
        ("bad probability", "sampling_probability must be above 0"),
    ],
)
def test_bad_input_is_told_and_never_a_number(world, case, words):
    """Each with exit status 2, what is wrong, and nothing on standard output."""
    rows, scores = world["rows"], world["lines"]
    if case == "no ratings":
        rows = [{k: v for k, v in row.items() if k != "annotators"} for row in rows]
    elif case == "seven labels":
        for row in rows[7:]:
            row.pop("annotators", None)
    elif case == "one group":
        rows = [{**row, "group": "only"} for row in rows]
    elif case == "off the scale":
        rows[3]["annotators"] = {"tone": [7, 7, 7]}
    elif case == "constant people":
        for row in rows[:45]:
            row["annotators"] = {"tone": [3, 3, 3]}
    elif case == "constant judge":
        scores = [{**row, "value": 3.0} for row in scores]
    elif case == "other ids":
        scores = [{**row, "id": "x" + row["id"]} for row in scores]
    elif case == "two judges":
        scores = [{**row, "signature": str(at % 2)} for at, row in enumerate(scores)]
    elif case == "not a number":
        scores[0]["value"] = float("nan")
    else:
        rows[0]["sampling_probability"] = 0
    data = lines(world["dir"] / "bad-data.jsonl", rows)
    file = lines(world["dir"] / "bad-scores.jsonl", scores)
    folder = world["dir"] / "cal"
    for command in (
        ("estimate", file, data, "--json"),
        ("estimate", file, data, "--by", "system"),
        ("calibrate", file, data, "-o", folder),
        ("label-plan", file, data, "--half-width", "0.1"),
    ):
        done = textassay(*command)
        assert (done.code, done.out) == (2, ""), command
        assert words in done.err.replace("\n", " "), command
    assert not folder.exists()


def test_estimate_by_system_without_ratings_names_what_can_be_compared(world):
    """Two systems of a run can be compared by the judge's scores alone."""
    unrated = [{k: v for k, v in row.items() if k not in ("human", "annotators")}
               for row in world["rows"]]  # fmt: skip
    data = lines(world["dir"] / "unrated.jsonl", unrated)
    done = textassay("estimate", world["scores"], data, "--by", "system")
    assert done.code == 2
    assert "textassay compare RUN --systems A B" in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"annotators": {}}, "no human ratings"),
        ({"annotators": {"tone": [9, 9, 9]}}, "lie outside 1 to 5"),
        ({"annotators": {"tone": [3, None, None]}}, "it needs 2 raters"),
        ({"annotators": {}, "human": {"tone": 3}}, "no single ratings"),
        ({"group": "only", "annotators": {"tone": [3, 4, 3]}}, "belong to one source"),
    ],
)
def test_alt_test_refuses_what_it_cannot_test(world, change, words):
    """Ratings that are missing, off the scale, of one rater, means, or of one source."""
    data = changed(world, "alt.jsonl", **change)
    done = textassay("alt-test", world["scores"], data)
    assert (done.code, done.out) == (2, "")
    assert words in done.err.replace("\n", " ")


def test_labels_chosen_promise_nothing_in_a_calibration_either(world):
    """Said in the report and on standard error."""
    out = world["dir"] / "cal"
    done = textassay("calibrate", world["scores"], world["data"], "-o", out, "--labels", "chosen")
    assert done.code == 0, done.err
    assert "is not promised" in (out / "report.txt").read_text()
    assert "chosen by hand" in done.err
    plain = textassay("calibrate", world["scores"], world["data"], "-o", world["dir"] / "plain")
    assert "each with the same probability" in plain.err.replace("\n", " ")


def test_compare_refuses_runs_that_do_not_meet(world):
    """No common aspect, no common id: said with what each has."""
    for field, words in (("aspect", "share no aspect"), ("id", "share no id")):
        other = [{**row, field: "x" + row[field]} for row in world["lines"]]
        file = lines(world["dir"] / f"{field}.jsonl", other)
        done = textassay("compare", file, world["scores"])
        assert (done.code, words in done.err) == (2, True)


def test_alt_test_refuses_one_rater(world):
    """The test leaves a rater out, so one is not enough."""
    for row in world["rows"][:45]:
        row["annotators"] = {"tone": [3 + len(row["id"]) % 2]}
    data = lines(world["dir"] / "one.jsonl", world["rows"])
    done = textassay("alt-test", world["scores"], data)
    assert (done.code, "it needs 2 raters" in done.err.replace("\n", " ")) == (2, True)


def test_metrics_of_a_data_set_are_scores(world):
    """Any column of numbers: the file of recorded metrics itself, rows without texts too."""
    rows = [
        {k: v for k, v in row.items() if k != "output"} | {"metrics": {"mine": score["value"]}}
        for row, score in zip(world["rows"], world["lines"], strict=True)
    ]
    data = lines(world["dir"] / "metrics.jsonl", rows)
    done = textassay("estimate", data, data, "--aspect-map", "mine=tone", "--json")
    assert json.loads(done.out)["rows"][0]["rated"] == 45


def test_score_applies_a_calibration_as_it_goes(tmp_path, server):
    """`score --calibration` and calibrating the finished run give the same rows; another judge is
    refused unasked."""
    data = write_examples(tmp_path / "data.jsonl", 40)
    ask = (
        "--method",
        "llm-score",
        "-a",
        "coherence",
        "-m",
        "direct/mock",
        "--api-base",
        server.url,
    )
    first, cal, second = (tmp_path / name for name in ("first", "cal", "second"))
    assert textassay("score", data, *ask, "-o", first).code == 0
    scored = list(latest_scores(first))
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    values = {score.id: score.value for score in scored}
    assert len(set(values.values())) > 1
    for at, row in enumerate(rows):
        row["human"] = {"coherence": float(np.clip(values[row["id"]] - 0.5 + at % 3 / 2, 1, 5))}
    assert textassay("calibrate", first, lines(tmp_path / "rated.jsonl", rows), "-o", cal).code == 0
    done = textassay("score", data, *ask, "-o", second, "--calibration", cal)
    assert done.code == 0, done.err
    third = tmp_path / "third"
    assert textassay("calibrate", first, "--apply", cal, "-o", third).code == 0
    fourth = ("-o", tmp_path / "fourth", "--processes", "2")
    assert textassay("score", data, *ask, "--calibration", cal, *fourth).code == 0
    ends = [
        {score.id: (score.calibrated, score.low, score.high) for score in latest_scores(run)}
        for run in (second, third, tmp_path / "fourth")
    ]
    assert ends[0] == ends[1] == ends[2]
    assert all(low <= value <= high for value, low, high in ends[0].values())
    before = server.counters.requests
    other = textassay(
        "score", data, *ask, "-o", tmp_path / "no", "--calibration", cal, "--temperature", "0.3"
    )
    assert other.code == 2
    assert "another judge, prompt or setting" in other.err
    assert server.counters.requests == before
    assert not (tmp_path / "no").exists()
