"""From scores to decisions: fixed JSON, folders bound to their judge, two judges, refusals."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests.cli import harness
from tests.cli.harness import document, read_lines, textassay, write_examples, write_lines
from textassay.agreement.joined import People
from textassay.estimation import compare_runs
from textassay.estimation.columns import Judged
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
    assert (whole["warnings"], whole["mean_over"]) == ([], "sources")
    keys = {"aspect", "a", "b", "value", "low", "high", "p", "p_holm"}
    assert set(found["differences"][0]) == keys
    by_pair = {(one["a"], one["b"]): one for one in found["differences"]}
    assert max(by_pair["a", "b"]["p_holm"], by_pair["a", "c"]["p_holm"]) < 0.005
    assert all(one["p_holm"] >= one["p"] for one in found["differences"])
    assert systems[0]["rank"] == [1, 1]
    table = textassay("estimate", world["scores"], world["data"])
    assert ("corrected" in table.out, "drawn by chance" in table.err) == (True, True)
    only = write_lines(world["dir"] / "rated.jsonl", world["rows"][:45])
    idle = "every row of the data is rated, so the judge adds nothing"
    assert idle in textassay("estimate", world["scores"], only).messages
    assert idle not in table.messages
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
    """Over 5 % without a score: counted, with their possible effect on the mean."""
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
    assert "each with the same probability" in done.messages
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
    assert coefficients == {"pearson", "spearman", "kendall", "choice", "choice, strict"}
    middle = str(row["difference"])
    for limit, code in (("0.2", 0), (middle, 4), ("1.5", 1)):
        arguments = ("compare", file, world["scores"], world["data"], "--fail-below", limit)
        assert textassay(*arguments).code == code


def test_data_sets_with_scores_are_compared_by_their_own_sources(world):
    """Texts, systems, subsets and ratings are theirs, too, without naming the data again."""
    files = [
        write_lines(
            world["dir"] / f"{name}.jsonl",
            [
                {**row, "metrics": {"tone": line["value"] + shift}}
                for row, line in zip(world["rows"], world["lines"], strict=True)
            ],
        )
        for name, shift in (("first", 0.5), ("second", 0))
    ]
    row = document("compare", *files)["rows"][0]
    assert (row["n"], row["groups"]) == (120, 40)
    two = document("compare", files[0], "--systems", "a", "b")["rows"][0]
    assert (two["n"], two["groups"]) == (40, 40)
    assert len(document("compare", *files, "--by", "system")["subsets"]) == 3


@pytest.mark.parametrize("limit", ["nan", "inf", "-inf"])
def test_a_gate_takes_a_number(world, limit):
    command = ("compare", world["scores"], world["scores"], "--fail-below", limit)
    textassay(*command).ends(2, "--fail-below takes a number")


def test_a_gate_on_no_aspect_is_refused(world):
    command = ("compare", world["scores"], world["scores"], "-a", "", "--fail-below", "0")
    textassay(*command).ends(2, "no aspect is named")


def test_a_gate_fails_where_a_low_score_is_good_and_rises(tmp_path):
    """More texts with hate are worse, though a - b is above 0."""
    few, many = (
        write_lines(
            tmp_path / f"{share}.jsonl",
            [
                {"id": f"t{at}", "aspect": "hate", "value": at % 10 < share, "scale": [0, 1]}
                for at in range(60)
            ],
        )
        for share in (1, 6)
    )
    gated = ("--task", "safety", "--fail-below", "-0.1")
    textassay("compare", many, few, *gated).ends(1, "(b - a of hate: lower is better) fails")
    textassay("compare", few, many, *gated).ends(0, "holds")
    assert textassay("compare", many, few, "--fail-below", "-0.1").code == 0


def test_alt_test_of_words_is_that_of_their_codes(tmp_path):
    """With `match` labels are compared as they are, as published, and not one by one."""
    rng = np.random.default_rng(2)
    true = rng.integers(0, 4, 90)
    given = [
        [None if rng.random() < 0.1 else int(at if rng.random() < 0.7 else rng.integers(0, 4))
         for _ in range(3)]
        for at in true
    ]  # fmt: skip
    judge = np.where(rng.random(90) < 0.8, true, rng.integers(0, 4, 90)).tolist()
    words = ("spam", "bug", "praise", "question")

    def tested(name, label):
        rows = [
            {"id": f"x{at}", "output": f"Text {at}.",
             "annotators": {"intent": [None if one is None else label(one) for one in own]}}
            for at, own in enumerate(given)
        ]  # fmt: skip
        lines = [
            {"id": f"x{at}", "aspect": "intent", "value": label(one)}
            for at, one in enumerate(judge)
        ]
        data = write_lines(tmp_path / f"{name}_data.jsonl", rows)
        scores = write_lines(tmp_path / f"{name}.jsonl", lines)
        return "alt-test", scores, data, "--metric", "match"

    of_words, of_codes = tested("words", words.__getitem__), tested("codes", int)
    [word], [code] = (document(*one)["rows"] for one in (of_words, of_codes))
    assert 0 < code["rho"] < 1
    for name in ("score", "n", "omega", "rho", "passes", "over_constant", "may_stand_in"):
        assert word[name] == code[name], name
    assert any(f"       {name}  " in textassay(*of_words).ok().out for name in words)
    assert "--metric match tests the labels as given" in textassay(*of_words[:-2]).ok().messages


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
    assert "after every batch" in textassay(*plan, "--labels", out).ok().messages
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
def test_bad_input_is_an_error_and_never_a_number(world, change, words):
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
        assert (done.code, done.out, words in done.messages) == (2, "", True), (command, done.err)
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
    assert (done.code, done.out, words in done.messages) == (2, "", True), done.err


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
    assert (done.code, "textassay compare RUN --systems A B" in done.messages) == (2, True)


def test_a_table_of_scores_and_ratings_is_given_once(world):
    """Also with columns of the user's own, and only if it has both."""
    values = {line["id"]: line["value"] for line in world["lines"]}
    rows = [
        {
            **{name: row[name] for name in ("id", "group", "output")},
            "Judge": values[row["id"]],
            "Person": float(np.mean(row["annotators"]["tone"])) if "annotators" in row else None,
        }
        for row in world["rows"]
    ]
    table = write_lines(world["dir"] / "table.jsonl", rows)
    fields = ("--field", "Judge=metrics.tone", "--field", "Person=human.tone")
    once = textassay("estimate", table, *fields)
    assert once.out == textassay("estimate", table, table, *fields).out
    assert "correction" in once.out
    assert "ppi++" in once.out
    for command in (
        ("agreement",), ("calibrate", "--out", world["dir"] / "maps"),
        ("label-plan", "--half-width", "0.1"),
    ):  # fmt: skip
        assert textassay(*command, table, *fields).code == 0
    textassay("estimate", table).ends(2, "--field COLUMN=metrics.NAME")
    textassay("estimate", table, *fields[:2]).ends(2, "the data contain no human ratings")
    textassay("estimate", world["scores"]).ends(2, "give DATA after")


def test_two_tables_share_one_field_map(world):
    """Columns of scores are of the first, all others of the second; both may map ids and texts."""
    rated = [row for row in world["rows"] if "annotators" in row]
    values = {line["id"]: line["value"] for line in world["lines"]}
    names = {"key": "id", "reply": "output"}
    texts = [{theirs: row[ours] for theirs, ours in names.items()} for row in rated]
    judge, people = (
        write_lines(
            world["dir"] / f"{name}.jsonl",
            [
                {**text, name: value(row), "group": row["group"]}
                for text, row in zip(texts, rated, strict=True)
            ],
        )
        for name, value in (
            ("Judge", lambda row: values[row["id"]]),
            ("Person", lambda row: float(np.mean(row["annotators"]["tone"]))),
        )
    )
    fields = ["--field", "key=id", "--field", "reply=output", "--field", "Person=human.tone"]
    command = ("estimate", judge, people, *fields)
    [row] = document(*command, "--field", "Judge=metrics.tone")["rows"]
    assert (row["n"], row["rated"], row["groups"]) == (45, 45, 15)
    textassay(*command).ends(2, "--field COLUMN=metrics.NAME")
    textassay(*command, "--field", "Juge=metrics.tone").ends(2, "no row has the field 'Juge'")
    joined = ("agreement", judge, "--ratings", people, "--field", "Judge=metrics.tone")
    textassay(*joined).ends(2, f"{people} contains no ratings")


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


def write_run(folder, rows, values):
    """A run of a metric that is recorded in the rows, made by the command."""
    folder.mkdir(exist_ok=True)
    data = write_lines(folder / "data.jsonl", rows)
    textassay("tools", "score", data, "--tools", "length", "-o", folder / "run").ok()
    path = folder / "run" / "scores.jsonl"
    write_lines(path, [{**line, "value": values[line["id"]]} for line in read_lines(path)])
    return folder / "run"


def sample(week, sources, seed, level=3.0):
    """Two systems' texts of each source, and scores that vary more between sources than within."""
    rng = np.random.default_rng(seed)
    rows, values = [], {}
    for at in range(sources):
        base = level + rng.normal(0, 1)
        for system, more in (("a", 0.5), ("b", 0.0)):
            id_ = f"{week}-{at}-{system}"
            text = f"Text {at} of {system} in {week}."
            rows.append({"id": id_, "group": f"{week}-{at}", "system": system, "output": text})
            values[id_] = base + more + rng.normal(0, 0.2)
    return rows, values


def test_two_runs_are_paired_by_the_sources_of_their_data(tmp_path):
    """What DATA gives, the run's own data give; moved away, the output says what is missing."""
    rows, values = sample("w", 20, 0)
    one = write_run(tmp_path / "one", rows, values)
    shutil.copytree(one, two := tmp_path / "two")
    found = document("compare", one, two)
    assert (found["rows"][0]["n"], found["rows"][0]["groups"]) == (40, 20)
    assert found == document("compare", one, two, tmp_path / "one" / "data.jsonl")
    (tmp_path / "one" / "data.jsonl").unlink()
    found = document("compare", one, two)
    assert found["rows"][0]["groups"] == 40
    assert any("give DATA to pair by source" in note for note in found["notes"])


def test_two_systems_of_one_run(tmp_path):
    rows, values = sample("w", 30, 1)
    run = write_run(tmp_path / "one", rows, values)
    found = document("compare", run, "--systems", "a", "b")
    [row] = found["rows"]
    assert (row["paired_by"], row["n"], row["groups"]) == ("source", 30, 30)
    assert found["systems"] == ["a", "b"]
    # sources differ by 1 and systems within them by .2: unpaired, the interval would be wide
    assert 0.4 < row["low"] < row["difference"] < row["high"] < 0.6
    assert row["p"] < 0.001
    assert row["wins"] > 25
    assert "a is a, b is b" in " ".join(found["notes"])
    gated = textassay(
        "compare", run, "--systems", "b", "a", "--fail-below", "0", "--weight", "texts"
    )
    assert gated.code == 1
    assert "sources have the same weight, not texts" in gated.messages


def test_two_weeks_are_independent_samples(tmp_path):
    (old, before), (new, after) = sample("w1", 40, 2), sample("w2", 30, 3, level=1.0)
    runs = [
        write_run(tmp_path / name, rows, values)
        for name, rows, values in (("new", new, after), ("old", old, before))
    ]
    done = textassay("compare", *runs, "--json").ok()
    [row] = json.loads(done.out)["rows"]
    assert (row["paired_by"], row["n"], row["groups"], row["wins"]) == (None, 140, 70, None)
    assert row["high"] < -1 < 0.5 < row["high"] - row["low"]
    assert row["p"] < 0.001
    assert "two independent samples" in done.messages
    assert "independent samples" in textassay("compare", *runs).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "compare takes two runs, or one run and --systems A B"),
        (("run", "data.jsonl", "data.jsonl", "--systems", "a", "b"), "takes one run and"),
        (("run", "--systems", "a", "z"), "unknown system of the data 'z'"),
        (("run", "other.jsonl"), "the runs share no id on 'length'"),
        (("run", "named.jsonl"), "share no aspect"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(tmp_path, arguments, words):
    rows, values = sample("w", 3, 1)
    run = write_run(tmp_path / "one", rows, values)
    for name, aspect in (("other", "length"), ("named", "width")):
        scored = {"id": "x", "aspect": aspect, "value": 1}
        write_lines(run.parent / f"{name}.jsonl", [scored])
    paths = [run.parent / one if one.endswith(("run", ".jsonl")) else one for one in arguments]
    textassay("compare", *paths).ends(2, words)


def test_intervals_of_independent_samples_hold_what_they_promise():
    """600 draws of 12 and 30 sources with one to five texts each, and no difference."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(600):
        sides, groups = [], {}
        for side, sources in (("a", 12), ("b", 30)):
            judged = Judged()
            for at in range(sources):
                level = rng.normal(0, 1)
                for text in range(rng.integers(1, 6)):
                    groups[f"{side}{at}-{text}"] = f"{side}{at}"
                    judged.values[f"{side}{at}-{text}"] = level + rng.normal(0, 1)
            sides.append({"tone": judged})
        people = People([{"id": id_, "group": group} for id_, group in groups.items()])
        [row] = compare_runs(*sides, people, unpaired=True)
        held += row.difference.low <= 0 <= row.difference.high
    assert 0.93 <= held / 600 <= 0.98


ROWS = [(f"g{at // 3}", f"{at}") for at in range(60)]


@pytest.fixture
def rated(tmp_path):
    """20 sources of three texts each, all rated by two raters who differ."""
    return write_lines(
        tmp_path / "rated.jsonl",
        [
            {"id": id_, "group": group, "output": "w " * (3 + int(id_) % 4),
             "annotators": {"tone": [1 + int(id_) % 5, 1 + (int(id_) + int(id_) // 7) % 5]}}
            for group, id_ in ROWS
        ],
    )  # fmt: skip


def scores(path, value=lambda at: 1 + at % 5, **fields):
    return write_lines(
        path,
        [
            {"id": id_, "aspect": "tone", "value": value(int(id_)), "scale": [1, 5],
             "signature": "judge-1", **fields}
            for _, id_ in ROWS
        ],
    )  # fmt: skip


def test_a_file_of_two_judges_is_refused(tmp_path, rated):
    """Its mean would be of neither; a line that was replaced since is of no judge."""
    one = scores(tmp_path / "one.jsonl")
    rows = read_lines(one)
    lines = [{**row, "signature": f"judge-{at % 2}"} for at, row in enumerate(rows)]
    mixed = write_lines(tmp_path / "mixed.jsonl", lines)
    for command, which in (
        (("compare", mixed, one, rated), " (the scores of the first run)"),
        (("compare", one, mixed, rated), " (the scores of the second run)"),
        (("agreement", mixed, rated), ""),
    ):
        done = textassay(*command)
        assert (done.code, done.out) == (2, "")
        assert "of 'tone' come from 2 different judges ('judge-0'; 'judge-1')" in done.messages
        assert f"split them into one file per judge{which}" in done.messages
    again = write_lines(tmp_path / "again.jsonl", lines + rows)
    assert document("agreement", again, rated) == document("agreement", one, rated)


def test_compare_subtracts_nothing_across_scales(tmp_path, rated):
    """A 4 of 5 minus a .8 of 1 is undefined; agreement with people is still compared."""
    one = scores(tmp_path / "one.jsonl")
    other = scores(
        tmp_path / "other.jsonl", lambda at: (at % 5) / 4, scale=[0, 1], signature="judge-2"
    )
    done = textassay("compare", one, other, rated, "--json").ok()
    found = json.loads(done.out)
    row = found["rows"][0]
    empty = ("difference", "low", "high", "p", "p_holm", "wins", "ties", "losses")
    assert [row[name] for name in empty] == [None] * len(empty)
    assert (row["a"], row["b"]) == (3, 0.5)
    assert found["agreement"][0]["difference"] == pytest.approx(0)
    assert "scores from 1 to 5, the other from 0 to 1, so a - b is meaningless" in done.messages
    textassay("compare", one, other, rated, "--fail-below", "0").ends(4, "inconclusive")


@pytest.mark.parametrize(
    ("sources", "apart", "interval", "status"),
    [(2, 1, None, 4), (5, 1, None, 4), (6, 1, 1, 0), (2, 0, 0, 0), (1, 1, None, 4)],
)
def test_a_few_sources_that_differ_by_the_same_give_no_interval(
    tmp_path, sources, apart, interval, status
):
    """It would have length 0; where nothing differs at all, a gate holds."""
    files = [
        write_lines(
            tmp_path / name,
            [{"id": str(at), "aspect": "f", "value": 2 + at / 10 + add} for at in range(sources)],
        )
        for name, add in (("a.jsonl", apart), ("b.jsonl", 0))
    ]
    done = textassay("compare", *files, "--fail-below", "0", "--json")
    row = json.loads(done.ends(status).out)["rows"][0]
    expected = [None, None] if interval is None else pytest.approx([interval] * 2)
    assert [row["low"], row["high"]] == expected
    assert ("that all differ equally" in done.messages) == (status == 4 and sources > 1)


def test_estimate_gives_no_interval_of_sources_that_are_all_equal(tmp_path):
    """A judge that gives one system 5 throughout, and systems that people rate one apart."""
    systems = [(at, at // 2, "AB"[at % 2]) for at in range(60)]
    rated = write_lines(
        tmp_path / "rated.jsonl",
        [{"id": str(at), "output": "x", "group": str(source), "system": name,
          "human": {"f": 1 + source % 4 + (name == "A")}} for at, source, name in systems],
    )  # fmt: skip
    judged = write_lines(
        tmp_path / "scores.jsonl",
        [{"id": str(at), "aspect": "f", "scale": [1, 5],
          "value": 1 + source % 5 if name == "A" else 5} for at, source, name in systems],
    )  # fmt: skip
    found = document("estimate", judged, rated, "--by", "system")
    by_system = {row["system"]: row["judge_only"] for row in found["rows"]}
    assert by_system["B"] == {"value": 5, "low": None, "high": None}
    assert by_system["A"]["low"] < by_system["A"]["value"] == 3
    [difference] = found["differences"]
    assert (difference["value"], difference["low"], difference["high"]) == (1, None, None)


def test_compare_says_why_there_is_no_agreement(tmp_path, rated):
    one, other = scores(tmp_path / "one.jsonl"), scores(tmp_path / "two.jsonl", lambda at: 3)
    rows = read_lines(rated)
    bare = write_lines(tmp_path / "bare.jsonl", [{**row, "annotators": {}} for row in rows])
    assert "no ratings in the data" in textassay("compare", one, one, bare).messages
    assert "agreement is undefined" in textassay("compare", one, other, rated).messages
    same = write_lines(
        tmp_path / "same.jsonl", [{**r, "annotators": {"tone": [3, 3]}} for r in rows]
    )
    assert "agreement is undefined" in textassay("compare", one, one, same).messages
    assert "undefined" not in textassay("compare", one, one, rated).messages


def test_meta_says_why_raters_have_no_agreement(tmp_path, rated):
    one = scores(tmp_path / "one.jsonl")
    rows = read_lines(rated)
    for annotators, words in (
        ({"tone": [3]}, "only one rater"),
        ({"tone": [3, 3]}, "alpha is undefined"),
    ):
        file = write_lines(
            tmp_path / "d.jsonl", [{**row, "annotators": annotators} for row in rows]
        )
        textassay("agreement", one, file, "--raters").ends(0, words)
    means = [
        {k: v for k, v in row.items() if k != "annotators"} | {"human": {"tone": 3}} for row in rows
    ]
    done = textassay("agreement", one, write_lines(tmp_path / "m.jsonl", means), "--raters")
    assert (done.code, done.out, "no single ratings" in done.messages) == (2, "", True)
    assert "alpha" not in textassay("agreement", one, rated, "--raters").messages


@pytest.mark.parametrize("change", [{"output": None}, {"output": ...}])
def test_meta_needs_no_texts(tmp_path, rated, change):
    """Ids and ratings suffice, here one row per rater: nothing else is looked at."""
    one = scores(tmp_path / "one.jsonl")
    rows = read_lines(rated)
    bare = [{k: v for k, v in {**row, **change}.items() if v is not ...} for row in rows]
    expected = textassay("agreement", one, rated, "--json").out
    assert (
        textassay("agreement", one, write_lines(tmp_path / "b.jsonl", bare), "--json").out
        == expected
    )
    by_rater = [
        {k: v for k, v in row.items() if k != "annotators"} | {"rater": name, "human.tone": rating}
        for row in bare
        for name, rating in zip("xy", row["annotators"]["tone"], strict=True)
    ]
    done = textassay("agreement", one, write_lines(tmp_path / "long.jsonl", by_rater), "--json")
    assert (done.code, done.out) == (0, expected), done.err


def test_label_plan_says_that_everything_is_rated(tmp_path, rated):
    """The half-width is the ratings' own, never 0, and nothing is left to draw."""
    one = scores(tmp_path / "one.jsonl", lambda at: 1 + at % 5 + at % 3 / 10)
    plan = ("label-plan", one, rated, "--half-width", "0.01")
    done = textassay(*plan).ends(0, "all 60 rows are rated, so nothing is left to draw")
    assert "all rated" in done.out
    row = json.loads(textassay(*plan, "--json").out)["rows"][0]
    assert row["half_width"] == row["with_all"] > 0.1
    assert row["more"] is None
    none = textassay(*plan, "--next", "5", "-o", tmp_path / "next.jsonl")
    assert (none.code, "0 scored rows are unrated" in none.messages) == (2, True)
    assert not (tmp_path / "next.jsonl").exists()


def test_prompts_that_have_changed_are_refused_unasked(tmp_path, server):
    """One word of a prompt: no calibration of before fits, and no run is resumed or compared."""
    profile, rates = tmp_path / "mine", "Rate {{ bare.output }} from 1 to 5. Score:"
    profile.mkdir()
    prompts = 'format = 1\nask = "chat"\n\n[prompts]\nllm_score = "rate.jinja"\n'
    (profile / "profile.toml").write_text(prompts)
    (profile / "rate.jinja").write_text(rates)
    examples, aspects = write_examples(tmp_path / "examples.jsonl", 40), {"aspects": "coherence"}
    ask = ("-t", "summarization", "--set", f"profile={profile}", "--progress", "none")
    run, cal, stress = (tmp_path / name for name in ("run", "cal", "stress"))
    harness.score(examples, run, server, *ask, **aspects).ok()
    rows = [{**r, "human": {"coherence": 1 + at % 5}} for at, r in enumerate(read_lines(examples))]
    textassay("calibrate", run, write_lines(tmp_path / "rated.jsonl", rows), "-o", cal).ok()
    stressed = harness.flags(examples, stress, server, *ask, "--tests", "padded", **aspects)
    done = textassay("stress", *stressed[1:], "--limit", 6)
    assert (stress / "stress.json").is_file(), done.err
    # a file of another name, since this process has read the first one
    (profile / "anew.jinja").write_text(f"Please {rates.replace('Rate', 'rate')}")
    (profile / "profile.toml").write_text(prompts.replace("rate.jinja", "anew.jinja"))
    before, use = server.counters.requests, ("--calibration", cal)
    done = harness.score(examples, tmp_path / "no", server, *ask, *use, **aspects)
    assert (done.code, "another judge, prompt or setting" in done.messages) == (2, True)
    for folder in (run, stress):
        done = textassay("resume", folder, "--api-base", server.url, "--progress", "none")
        assert (done.code, "prompt" in done.messages) == (2, True), done.out
    assert server.counters.requests == before
    later = tmp_path / "later"
    harness.score(examples, later, server, *ask, **aspects).ok()
    done = textassay("calibrate", later, "--apply", cal, "-o", tmp_path / "applied")
    assert (done.code, (tmp_path / "applied").exists()) == (2, False)
    assert "the runs have different judges or settings" in textassay("compare", run, later).messages
