"""`fit --features` and `fit --scores` as a user meets them: command line in, evaluator folder out,
scores again."""

import io
import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.fitting.made_texts import rows_of, write
from textassay import evaluate_sync
from textassay.cli.app import app
from textassay.cli.progress import show_steps
from textassay.learning import group_codes, split_rows
from textassay.runtime.storage.run_files import latest_scores, read_manifest


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data.jsonl", rows_of())


def run(*args):
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    return done.exit_code, done.output


HALF = ("--train-fraction", "0.5")
"""One fit in place of six, for tests that are not about the report."""


def fit(data, out, *flags):
    return run("fit", data, "--out", out, *flags)


def fit_ridge(data, out, *flags):
    return fit(data, out, "--features", "*", "--aggregator", "ridge", *flags)


def score(data, method, out, *flags):
    return run("score", data, "--method", method, "--out", out, "--progress", "none", *flags)


def report_of(out):
    return json.loads((out / "report.json").read_text())


def test_features_chosen_by_globs_make_an_evaluator_that_scores_without_a_model(data, tmp_path):
    status, said = fit(
        data, tmp_path / "ev", "--features", "judge-0/*,judge-[1-4]/*", "--aggregator", "ridge"
    )
    assert status == 0, said
    assert "clarity, 120 held-out rows" in said
    report = report_of(tmp_path / "ev")
    assert list(report["features"]) == [
        "judge-0/clarity", "judge-1/charm", "judge-2/clarity", "judge-3/charm", "judge-4/clarity"
    ]  # fmt: skip
    status, said = score(data, tmp_path / "ev", tmp_path / "run")
    assert status == 0, said
    scores = list(latest_scores(tmp_path / "run"))
    assert {s.aspect for s in scores} == {"clarity", "charm"}
    assert {s.how for s in scores} == {"fused"}
    assert {s.aspect: s.scale for s in scores} == {"clarity": (1, 5), "charm": (0, 10)}
    assert run("resume", tmp_path / "run", "--progress", "none")[0] == 0
    one = evaluate_sync(rows_of(4), method=str(tmp_path / "ev"), aspects=["charm"])
    assert {s.aspect for s in one} == {"charm"}
    names = [file.name for file in (tmp_path / "ev").iterdir()]
    assert sorted(names) == ["evaluator.json", "report.json", "report.txt"]
    status, said = fit(data, tmp_path / "ev", "--features", "*")
    assert (status, "already contains an evaluator" in said) == (2, True)


def test_a_live_line_tells_what_is_being_done(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    with show_steps("auto") as tell:
        tell("learned 1 of 6 times")
        tell("measuring agreement")
    assert "measuring agreement" in shown.getvalue()
    monkeypatch.setattr(sys, "stderr", shown := io.StringIO())
    for style in ("plain", "none"):
        with show_steps(style) as tell:
            tell("measuring agreement")
    assert shown.getvalue() == ""  # a line in ten seconds


def test_evidence_adds_up_to_the_score(data, tmp_path):
    for name in ("ridge", "lightgbm", "auto", "mlp"):
        out = tmp_path / name
        assert fit(data, out, "--features", "*", *HALF, "--aggregator", name)[0] == 0
        for score in evaluate_sync(rows_of(5, per_group=1), method=str(out)):
            told = {one["text"]: one["contribution"] for one in score.evidence}
            assert "judge-2/clarity" in told
            assert sum(told.values()) == pytest.approx(score.value, abs=1e-9)
        [first, *_] = evaluate_sync(rows_of(2), method=str(out), options={"top": 2})
        assert len(first.evidence) == 4
        assert sum(one["contribution"] for one in first.evidence) == pytest.approx(
            first.value, abs=1e-9
        )


def test_evidence_tells_what_was_clipped_and_what_the_system_did(tmp_path):
    rows, noise = rows_of(240), np.random.default_rng(0).normal(size=240, scale=4)
    for number, row in enumerate(rows):
        row["system"] = f"s{number % 4}"
        row["human"]["clarity"] = min(5, max(1, row["human"]["clarity"] + number % 4 - 1.5))
        row["metrics"] |= {"length": float(number % 33), "vague": number % 4 + noise[number]}
    data = write(tmp_path / "data.jsonl", rows)
    status, said = fit_ridge(data, tmp_path / "ev")
    assert status == 0, said
    assert "means of 4 systems" in said
    report = report_of(tmp_path / "ev")
    assert report["aspects"]["clarity"]["learning"]["systems"]["used"]
    far = {**rows[0], "metrics": {**rows[0]["metrics"], "length": 9000.0}}
    for row, name in ((far, "s0"), ({**far, "system": "unseen"}, None)):
        score = next(
            s for s in evaluate_sync([row], method=str(tmp_path / "ev")) if s.aspect == "clarity"
        )
        by_text = {one["text"]: one for one in score.evidence}
        assert by_text["length"]["value"] == 9000
        assert by_text["length"]["clipped_to"] == 32
        assert "clipped_to" not in by_text["judge-0/clarity"]
        assert (f"(system {name})" in by_text) == (name is not None)
        total = sum(one["contribution"] for one in score.evidence)
        assert total == pytest.approx(score.value, abs=1e-9)


def test_several_files_of_scores_are_joined_by_id(data, tmp_path):
    rows = rows_of()
    for name, judges in (("first", (0, 1)), ("second", (0, 3))):
        lines = [
            {"id": row["id"], "aspect": aspect, "value": row["metrics"][f"judge-{judge}/{own}"]}
            for row in reversed(rows)
            for aspect, judge, own in (
                ("clarity", judges[0], "clarity"),
                ("charm", judges[1], "charm"),
            )
        ]
        write(tmp_path / f"{name}.jsonl", lines)
    files = (tmp_path / "first.jsonl", tmp_path / "second.jsonl")
    status, said = fit(data, tmp_path / "ev", "--scores", *files, "--aggregator", "ridge")
    assert status == 0, said
    report = report_of(tmp_path / "ev")
    assert list(report["features"]) == [
        "first/clarity",
        "first/charm",
        "second/clarity",
        "second/charm",
    ]
    status, said = score(data, tmp_path / "ev", tmp_path / "run")
    assert status == 2
    assert "'first/clarity'" in said
    assert not (tmp_path / "run").exists()
    given = json.dumps([str(file) for file in files])
    flags = ("--set", f"scores={given}")
    status, said = score(data, tmp_path / "ev", tmp_path / "run", *flags)
    assert status == 0, said
    assert read_manifest(tmp_path / "run")["spec"]["options"]["scores"] == [
        str(file) for file in files
    ]


def test_a_run_folder_is_a_file_of_scores(data, tmp_path):
    fit_ridge(data, tmp_path / "ev")
    score(data, tmp_path / "ev", tmp_path / "run")
    status, said = fit(
        data, tmp_path / "second", "--scores", f"old={tmp_path / 'run'}", "--aggregator", "ridge"
    )
    assert status == 0, said
    report = report_of(tmp_path / "second")
    assert list(report["features"]) == ["old/clarity", "old/charm"]


def test_labels_without_an_order_matter_only_if_they_are_chosen(data, tmp_path):
    fit_ridge(data, tmp_path / "ev")
    score(data, tmp_path / "ev", tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    charm = next(one for one in manifest["method"]["aspects"] if one["name"] == "charm")
    charm["labels"] = {"dry": "", "warm": "", "odd": ""}
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    learn = ("--scores", f"old={tmp_path / 'run'}", "--aggregator", "ridge", *HALF)
    status, said = fit(data, tmp_path / "second", *learn, "--aspects", "clarity")
    assert status == 0, said
    report = report_of(tmp_path / "second")
    assert list(report["features"]) == ["old/clarity"]
    for chosen in ((), ("--aspects", "charm")):
        status, said = fit(data, tmp_path / "third", *learn, *chosen)
        assert (status, "'charm' have no order" in " ".join(said.split())) == (2, True), said


def test_the_split_keeps_sources_together_and_follows_the_seed(data, tmp_path):
    reports = []
    for name, flags in (("a", ()), ("b", ()), ("c", ("--seed", 1)), ("d", ("--split", "row"))):
        fit(
            data,
            tmp_path / name,
            "--features",
            "*",
            "--aggregator",
            "ridge",
            "--train-fraction",
            0.25,
            *flags,
        )
        reports.append(report_of(tmp_path / name))
    same, again, seeded, by_row = reports
    assert same["split"]["train"] == {"rows": 30, "groups": 5}
    assert same["held_out"] == again["held_out"]
    assert same["held_out"] != seeded["held_out"]
    assert by_row["split"]["by"] == "row"
    assert by_row["split"]["train"]["rows"] == 30
    # rows of all 20 sources are on both sides, and what is said of them is over those 20
    assert 10 < by_row["split"]["train"]["groups"] <= 20
    assert by_row["held_out"]["aspects"]["clarity"]["groups"] == 20


def test_of_several_aggregators_the_one_with_the_least_error_over_training_folds_is_kept(
    data, tmp_path
):
    names = ("tree", "ridge", "avg")
    flags = [flag for name in names for flag in ("--aggregator", name)]
    assert fit(data, tmp_path / "ev", "--features", "*", *HALF, *flags)[0] == 0
    report = report_of(tmp_path / "ev")
    errors = report["aggregators"]["cross_validated_error"]
    assert set(errors) == set(names)
    assert report["aggregators"]["chosen"] == min(errors, key=errors.get) == "ridge"
    # means of sources are used or not, which has tests of its own
    assert {*report["held_out"]["aspects"]["charm"]["agreement"]} - {"evaluator with pool"} == {
        "evaluator", "best single", "avg", "corrw", "tree"
    }  # fmt: skip


def test_gaps_count_as_the_training_mean_and_a_row_without_features_is_not_scored(data, tmp_path):
    fit_ridge(data, tmp_path / "ev")
    [full, *_], [gap, *_], [none, *_] = ([row] for row in rows_of(3))
    gap["metrics"].pop("judge-0/clarity")
    none["metrics"] = {"other": 1.0}
    scores = {
        (s.id, s.aspect): s for s in evaluate_sync([full, gap, none], method=str(tmp_path / "ev"))
    }
    told = next(one for one in scores["r1", "clarity"].evidence if one["text"] == "judge-0/clarity")
    assert told["value"] is None
    assert told["contribution"] == pytest.approx(0, abs=1e-12)
    abstained = scores["r2", "clarity"]
    assert (abstained.outcome, abstained.value, abstained.error.type) == (
        "abstained",
        None,
        "NoFeatures",
    )


def test_criteria_scored_for_some_rows_only_are_learnt_from_and_told(tmp_path):
    rows = rows_of(240)
    for i, row in enumerate(rows):
        if i % 3:
            del row["metrics"]["judge-0/clarity"]
        if i < 12:
            row["metrics"] = {}
    status, said = fit_ridge(write(tmp_path / "d.jsonl", rows), tmp_path / "ev")
    assert status == 0, said
    assert "left out: 12 rated rows without any feature" in said
    assert "features that fewer than half of the rows have: judge-0/clarity 3" in said
    report = report_of(tmp_path / "ev")
    assert 0.3 < report["features"]["judge-0/clarity"]["coverage"] < 0.37
    assert report["features"]["judge-1/charm"]["coverage"] == 1
    for row in rows:
        row["metrics"].pop("judge-0/clarity", None)
    bare = write(tmp_path / "bare.jsonl", rows)
    status, said = score(bare, tmp_path / "ev", tmp_path / "run")
    assert status == 2, said
    assert "'judge-0/clarity'" in said


def test_held_out_rows_decide_nothing(data, tmp_path):
    """Other ratings of the held-out rows change the report's figures, and nothing of what was
    learnt."""
    rows = rows_of()
    half = ("--features", "*", "--train-fraction", 0.5)
    fit(data, tmp_path / "ev", *half)
    train = split_rows(group_codes(row["group"] for row in rows), 0.5, seed=0)
    for row, learnt_from in zip(rows, train, strict=True):
        if not learnt_from:
            row["human"] = {
                "clarity": 6 - row["human"]["clarity"],
                "charm": 10 - row["human"]["charm"],
            }
    fit(write(tmp_path / "other.jsonl", rows), tmp_path / "other", *half)
    first, second = (
        json.loads((tmp_path / name / "evaluator.json").read_text()) for name in ("ev", "other")
    )
    assert first["aggregator"] == second["aggregator"]
    singles = [
        report_of(tmp_path / name)["held_out"]["aspects"]["charm"]["agreement"]
        for name in ("ev", "other")
    ]
    assert singles[0]["best single"]["feature"] == singles[1]["best single"]["feature"]
    assert singles[0]["evaluator"]["pearson"] > 0.5 > -0.5 > singles[1]["evaluator"]["pearson"]


BAD = {
    "one group": (lambda row, i: row.update(group="g"), "at least 2 groups"),
    "constant ratings": (
        lambda row, i: row["human"].update(charm=3), "'charm': people rated every row 3",
    ),
    "no ratings": (lambda row, i: row.pop("human"), "contains no human ratings"),
    "no metrics": (
        lambda row, i: row.pop("metrics"),
        "no feature '*', as neither the data (columns metrics.NAME) nor --scores",
    ),
    "two scales": (
        lambda row, i: row["human"].update(
            charm=row["human"]["charm"] / 10 if i < 60 else 1 + row["human"]["charm"]
        ),
        "'charm' is rated on two scales",
    ),
    "leakage": (
        lambda row, i: row["metrics"].update(copy=2 * row["human"]["charm"] - 1),
        "leakage: 'copy'",
    ),
    "few rows": (lambda row, i: i % 30 and row.pop("human"), "at least 5 needed"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_data_are_told(what, tmp_path):
    spoil, message = BAD[what]
    rows = rows_of()
    for i, row in enumerate(rows):
        spoil(row, i)
    status, said = fit_ridge(write(tmp_path / "bad.jsonl", rows), tmp_path / "ev")
    assert (status, message in " ".join(said.split())) == (2, True), said
    assert not (tmp_path / "ev").exists()


FLAGS = {
    "nothing to learn from": ((), "--features NAME,GLOB* or --scores FILE"),
    "unknown aggregator": (("--features", "*", "--aggregator", "svm"), "unknown aggregator 'svm'"),
    "unknown feature": (("--features", "bleu"), "unknown feature 'bleu'"),
    "unknown aspect": (("--features", "*", "--aspects", "wit"), "'wit'"),
    "fraction": (("--features", "*", "--train-fraction", "1.5"), "between 0 and 1"),
    "model": (("--features", "*", "--model", "embedded"), "--model needs --method hd-eval"),
    "off the scale": (("--features", "*", "--scale", "charm=1,5"), "off the scale 1 to 5"),
    "scale": (("--features", "*", "--scale", "charm"), "--scale takes ASPECT=LOW,HIGH"),
}


@pytest.mark.parametrize("what", FLAGS)
def test_bad_flags_are_told(what, data, tmp_path):
    flags, message = FLAGS[what]
    status, said = fit(data, tmp_path / "ev", *flags)
    assert (status, message in said) == (2, True), said


def test_scores_of_other_data_are_told(data, tmp_path):
    lines = [{"id": f"other{i}", "aspect": "clarity", "value": i} for i in range(9)]
    status, said = fit(data, tmp_path / "ev", "--scores", write(tmp_path / "s.jsonl", lines))
    assert (status, "no id of the scores occurs" in said) == (2, True), said


def test_an_evaluator_changed_by_hand_or_of_a_newer_version_is_refused(data, tmp_path):
    fit_ridge(data, tmp_path / "ev")
    file = tmp_path / "ev" / "evaluator.json"
    good = json.loads(file.read_text())
    for content, message in (
        (json.dumps({**good, "format": 2}), "has format 2"),
        (json.dumps({**good, "features": ["a", *good["features"][1:]]}), "was edited or damaged"),
        (json.dumps({**good, "digest": "0"}), "was edited or damaged"),
        ("{", "cannot be read"),
        (None, "contains no evaluator.json"),
    ):
        file.unlink() if content is None else file.write_text(content)
        status, said = score(data, tmp_path / "ev", tmp_path / "run")
        assert (status, message in said) == (2, True), said


def test_what_does_not_go_with_an_evaluator_is_told(data, tmp_path):
    fit_ridge(data, tmp_path / "ev")
    for flags, message in (
        (("--model", "direct/x", "--api-base", "http://127.0.0.1:9/v1"), "asks no model"),
        (("--task", "dialogue"), "brings its own task"),
        (("--n", "3"), "unknown setting 'n'"),
        (("--aspects", "wit"), "unknown aspect of the evaluator 'wit'"),
    ):
        status, said = score(data, tmp_path / "ev", tmp_path / "run", *flags)
        assert status == 2, said
        assert message in said


def test_aspects_on_different_scales_and_rated_in_different_rows_are_learnt_each_by_itself(
    tmp_path,
):
    rows = rows_of(240)
    for i, row in enumerate(rows):
        row["human"].pop("clarity" if i % 2 else "charm")
    status, said = fit_ridge(write(tmp_path / "d.jsonl", rows), tmp_path / "ev")
    assert status == 0, said
    report = report_of(tmp_path / "ev")
    for aspect in ("clarity", "charm"):
        assert report["aspects"][aspect]["learning"]["rows"] == 120
        assert report["held_out"]["aspects"][aspect]["n"] == 120
    values = [
        s.value
        for s in evaluate_sync(rows_of(50, seed=3), method=str(tmp_path / "ev"))
        if s.aspect == "charm"
    ]
    assert np.ptp(values) > 2


def test_a_score_does_not_depend_on_the_rows_that_are_judged_beside_it(data, tmp_path):
    """Rows in work at once are computed together; the bits are those of each alone."""
    for name in ("auto", "mlp"):
        fit(data, tmp_path / name, "--features", "*", *HALF, "--aggregator", name)
        rows = rows_of(12, seed=5)
        together = {(s.id, s.aspect): s for s in evaluate_sync(rows, method=str(tmp_path / name))}
        for row in rows[:3]:
            for score in evaluate_sync([row], method=str(tmp_path / name)):
                beside = together[score.id, score.aspect]
                assert (score.value, score.evidence) == (beside.value, beside.evidence)


def test_new_systems_leave_out_systems_and_pool_the_texts_to_judge(tmp_path):
    """Judges err on single texts, so a system's mean over the texts to be judged tells more."""
    rng = np.random.default_rng(3)
    quality = rng.normal(0, 1, 40)

    def rows(systems, documents):
        for system in systems:
            for document in range(documents):
                rating = float(np.clip(3 + quality[system], 1, 5))
                metrics = {f"judge-{j}": rating + 2 * rng.normal() for j in range(3)}
                yield {
                    "id": f"{system}-{document}",
                    "output": f"text {system} {document}",
                    "system": f"s{system}",
                    "group": f"g{document}",
                    "human": {"quality": rating},
                    "metrics": metrics,
                }

    data = write(tmp_path / "data.jsonl", list(rows(range(30), 24)))
    new = write(tmp_path / "new.jsonl", judged := list(rows(range(30, 40), 12)))
    flags = ("--features", "judge-*", "--aggregator", "ridge")
    status, said = fit(data, tmp_path / "ev", *flags, "--new-systems")
    assert status == 0, said
    assert "over folds that leave out sources and systems" in said
    ratings = np.array([row["human"]["quality"] for row in judged])

    def agreement(**options):
        run = evaluate_sync(str(new), method=str(tmp_path / "ev"), options=options)
        value = {score.id: score.value for score in run}
        return float(np.corrcoef([value[row["id"]] for row in judged], ratings)[0, 1]), run

    (alone, _), (pooled, run_) = agreement(), agreement(pool=str(new))
    assert pooled > alone + 0.05
    assert "|pool:" in next(iter(run_)).signature
    assert fit(data, tmp_path / "known", *flags)[0] == 0
    status, said = run(
        "score",
        new,
        "--method",
        tmp_path / "known",
        "--out",
        tmp_path / "r",
        "--set",
        f"pool={new}",
    )
    assert status == 2
    assert "--new-systems" in said
    assert fit(data, tmp_path / "h", "--method", "hd-eval", "-m", "x/y", "--new-systems")[0] == 2


def test_a_pool_compares_texts_with_the_others_about_their_source(tmp_path):
    """Judges rate all texts about a source too high or too low; people do not."""
    rng = np.random.default_rng(0)

    def rows(sources):
        for source in sources:
            shift = 1.5 * rng.normal()
            for text in range(6):
                rating = float(np.clip(3 + rng.normal(), 1, 5))
                yield {
                    "id": f"{source}-{text}",
                    "output": f"text {text}",
                    "source": f"source {source}",
                    "human": {"quality": rating},
                    "metrics": {f"j{j}": rating + shift + 0.5 * rng.normal() for j in range(2)},
                }

    data = write(tmp_path / "data.jsonl", list(rows(range(40))))
    new = write(tmp_path / "new.jsonl", judged := list(rows(range(40, 60))))
    status, said = fit(data, tmp_path / "ev", "--features", "j*", "--aggregator", "ridge")
    assert status == 0, said
    assert "quality: the means of 40 sources take part where a pool of texts is given" in said
    report = report_of(tmp_path / "ev")
    agreement = report["held_out"]["aspects"]["quality"]["agreement"]
    assert agreement["evaluator with pool"]["pearson"] > agreement["evaluator"]["pearson"] + 0.1
    ratings = [row["human"]["quality"] for row in judged]

    def run_with(**options):
        method = str(tmp_path / "ev")
        run = evaluate_sync(str(new), method=method, aspects=["quality"], options=options)
        return {score.id: score for score in run}

    def r(scores):
        return np.corrcoef([scores[row["id"]].value for row in judged], ratings)[0, 1]

    alone, pooled = run_with(), run_with(pool=str(new))
    assert r(pooled) > r(alone) + 0.1
    score = pooled["40-0"]
    assert sum(one["contribution"] for one in score.evidence) == pytest.approx(score.value)
    assert any(one["text"] == "(means of the source)" for one in score.evidence)
    # without a pool a text is judged as if there were no others
    [single] = evaluate_sync(judged[:1], method=str(tmp_path / "ev"))
    assert single.value == alone["40-0"].value


def rated_by_one_each(texts=240, raters=8):
    """Rows with one rating each, by raters of different severity, and a judge that sees quality."""
    rng = np.random.default_rng(0)
    severity = np.linspace(-1.2, 1.2, raters)
    for i in range(texts):
        quality, rater = rng.normal(), int(rng.integers(raters))
        yield {
            "id": f"r{i}",
            "output": f"text {i}",
            "annotator": f"ann{rater}",
            "human": {"clarity": float(np.clip(round(3 + 0.6 * quality - severity[rater]), 1, 5))},
            "metrics": {"judge": quality + rng.normal()},
        }


def test_the_severity_of_known_raters_is_taken_off_and_added_back(tmp_path):
    rows = list(rated_by_one_each())
    data = write(tmp_path / "data.jsonl", rows)
    status, said = fit(
        data, tmp_path / "ev", "--features", "judge", "--raters", "model", "--aggregator", "ridge"
    )
    assert status == 0, said
    assert "severity of raters: " in said
    told = report_of(tmp_path / "ev")["raters"]["clarity"]
    severities = {one["rater"]: one["severity"] for one in told["raters"]}
    assert severities["ann7"] - severities["ann0"] == pytest.approx(2.4, abs=0.7)
    held_out = {name: by["mean"]["pearson"] for name, by in told["held_out"].items()}
    assert held_out["model, rater added back"] > held_out["mean"] + 0.15
    known = {score.id: score for score in evaluate_sync(rows[:20], method=str(tmp_path / "ev"))}
    nobody = [{**row, "annotator": None} for row in rows[:20]]
    for row, score in zip(rows, evaluate_sync(nobody, method=str(tmp_path / "ev")), strict=False):
        rated = known[row["id"]]
        parts = {one["text"]: one["contribution"] for one in rated.evidence}
        severity = severities[row["annotator"]]
        assert parts[f"(rater {row['annotator']})"] == pytest.approx(-severity)
        assert sum(parts.values()) == pytest.approx(rated.value, abs=1e-9)
        low, high = rated.scale
        assert rated.value == pytest.approx(min(max(score.value - severity, low), high), abs=1e-9)


def test_a_rater_model_is_reported_beside_the_plain_mean(tmp_path):
    rows = rows_of(annotators={})
    rng = np.random.default_rng(5)
    for row in rows:
        for aspect, low, high in (("clarity", 1, 5), ("charm", 0, 10)):
            raters = rng.permutation(4)[:2]
            given = row["human"][aspect] + np.array([1.0, 0.3, -0.3, -1.0]) * (high - low) / 4
            rated = [float(np.clip(round(v), low, high)) for v in given]
            row["annotators"] = {
                **row["annotators"],
                aspect: [rated[r] if r in raters else None for r in range(4)],
            }
        del row["human"]
    data = write(tmp_path / "data.jsonl", rows)
    flags = ("--features", "*", "--aggregator", "ridge", "--raters", "model")
    status, said = fit(data, tmp_path / "ev", *flags)
    assert status == 0, said
    report = report_of(tmp_path / "ev")["raters"]["clarity"]
    severities = [one["severity"] for one in report["raters"]]
    assert severities == sorted(severities)  # the first rater is the mildest
    assert set(report["held_out"]) == {"model", "mean"}
    assert all(0 < by["model"]["pearson"] < 1 for by in report["held_out"].values())
    status, said = fit(write(tmp_path / "one.jsonl", rows_of()), tmp_path / "no", *flags)
    assert status == 2
    assert "single raters" in said
