"""Learning from recorded scores: what is learned and reported, what is refused, scores again."""

import io
import json
import sys

import numpy as np
import pytest

from tests.cli.harness import textassay
from tests.fitting.made_texts import rows_of, write
from textassay import Fit, evaluate_sync, fit_sync
from textassay.cli.progress import show_steps
from textassay.learning import group_codes, split_rows
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError
from textassay.runtime.storage.run_files import latest_scores, read_manifest

HALF = {"train_fraction": 0.5}
"""One fit in place of six, for tests that are not about the report."""


def learn(rows, out=None, **arguments):
    return fit_sync(rows, out=out, **{"features": "*", "aggregator": "ridge", **arguments})


def total(evidence):
    return sum(one["contribution"] for one in evidence)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data.jsonl", rows_of())


def test_the_command_makes_an_evaluator_that_scores_without_a_model(data, tmp_path):
    out, chosen = tmp_path / "ev", ("--features", "judge-0/*,judge-[1-4]/*")
    done = textassay("fit", data, "--out", out, *chosen, "--aggregator", "ridge")
    assert done.code == 0, done.err
    assert "clarity, 120 held-out rows" in done.out
    report = json.loads((out / "report.json").read_text())
    assert list(report["features"]) == [
        "judge-0/clarity", "judge-1/charm", "judge-2/clarity", "judge-3/charm", "judge-4/clarity"
    ]  # fmt: skip
    quiet, run = ("--progress", "none"), tmp_path / "run"
    done = textassay("score", data, "--method", out, "--out", run, *quiet)
    assert done.code == 0, done.err
    scores = list(latest_scores(run))
    assert {(s.aspect, s.how, s.scale) for s in scores} == {
        ("clarity", "fused", (1, 5)), ("charm", "fused", (0, 10))
    }  # fmt: skip
    assert textassay("resume", run, *quiet).code == 0
    one = evaluate_sync(rows_of(4), method=str(out), aspects=["charm"])
    assert {s.aspect for s in one} == {"charm"}
    files = ["evaluator.json", "held_out.jsonl", "report.json", "report.txt"]
    assert sorted(path.name for path in out.iterdir()) == files
    done = textassay("fit", data, "--out", out, "--features", "*")
    assert (done.code, "already contains an evaluator" in done.err) == (2, True)


@pytest.mark.parametrize("split", [{}, HALF])
def test_the_scores_of_held_out_rows_are_kept_and_give_the_reported_agreement(split, tmp_path):
    rows = {row["id"]: row for row in rows_of()}
    found = learn(list(rows.values()), tmp_path / "ev", **split)
    lines = [json.loads(line) for line in (tmp_path / "ev/held_out.jsonl").read_text().splitlines()]
    for aspect, one in found.report["held_out"]["aspects"].items():
        own = [line for line in lines if line["aspect"] == aspect]
        assert len({line["id"] for line in own}) == len(own) == one["n"]
        assert (len(own) < len(rows)) == bool(split)
        human = np.array([rows[line["id"]]["human"][aspect] for line in own])
        ratings, folds = (
            np.array([line["evidence"][0][name] for line in own]).T for name in ("ratings", "folds")
        )
        assert ratings.mean(axis=0) == pytest.approx([line["value"] for line in own])
        r = [
            sum(np.corrcoef(x[k == i], human[k == i])[0, 1] * (k == i).mean() for i in set(k))
            for x, k in zip(ratings, folds, strict=True)
        ]
        assert np.mean(r) == pytest.approx(one["agreement"]["evaluator"]["pearson"])
    data = write(tmp_path / "data.jsonl", rows.values())
    done = textassay("agreement", tmp_path / "ev/held_out.jsonl", data, "--json")
    assert {row["n"] for row in json.loads(done.out)["rows"]} == {len(lines) / 2}
    again = Fit.load(tmp_path / "ev")
    again.save(tmp_path / "copy")
    copy, kept = ((tmp_path / name / "held_out.jsonl").read_bytes() for name in ("copy", "ev"))
    assert copy == kept
    (tmp_path / "ev/held_out.jsonl").unlink()
    with pytest.raises(RunFolderError, match=r"held_out\.jsonl"):
        Fit.load(tmp_path / "ev")


def test_a_live_line_shows_what_is_being_done(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for shown, styles in ((Terminal(), ("auto",)), (io.StringIO(), ("plain", "none"))):
        monkeypatch.setattr(sys, "stderr", shown)
        for style in styles:
            with show_steps(style) as step:
                step("learned 1 of 6 times")
                step("measuring agreement")
        assert ("measuring agreement" in shown.getvalue()) == isinstance(shown, Terminal)


@pytest.mark.parametrize("name", ["ridge", "lightgbm", "auto", "mlp"])
def test_evidence_adds_up_to_a_score_that_does_not_depend_on_the_rows_beside_it(name, tmp_path):
    """Rows in work at once are computed together; the bits are those of each alone."""
    found = learn(rows_of(), tmp_path / "ev", aggregator=name, **HALF)
    rows = rows_of(12, seed=5)
    together = {(s.id, s.aspect): s for s in evaluate_sync(rows, method=found)}
    for score in together.values():
        assert "judge-2/clarity" in {one["text"] for one in score.evidence}
        assert total(score.evidence) == pytest.approx(score.value, abs=1e-9)
    for row in rows[:3]:
        for score in evaluate_sync([row], method=found):
            beside = together[score.id, score.aspect]
            assert (score.value, score.evidence) == (beside.value, beside.evidence)


def test_evidence_shows_what_was_clipped_and_what_the_system_did(tmp_path):
    rows, noise = rows_of(240), np.random.default_rng(0).normal(size=240, scale=4)
    for number, row in enumerate(rows):
        row["system"] = f"s{number % 4}"
        row["human"]["clarity"] = min(5, max(1, row["human"]["clarity"] + number % 4 - 1.5))
        row["metrics"] |= {"length": float(number % 33), "vague": number % 4 + noise[number]}
    found = learn(rows, tmp_path / "ev")
    assert "means of 4 systems" in found.text
    assert found.report["aspects"]["clarity"]["learning"]["systems"]["used"]
    far = {**rows[0], "metrics": {**rows[0]["metrics"], "length": 9000.0}}
    for row, name in ((far, "s0"), ({**far, "system": "unseen"}, None)):
        [score] = [s for s in evaluate_sync([row], method=found) if s.aspect == "clarity"]
        by_text = {one["text"]: one for one in score.evidence}
        assert (by_text["length"]["value"], by_text["length"]["clipped_to"]) == (9000, 32)
        assert "clipped_to" not in by_text["judge-0/clarity"]
        assert (f"(system {name})" in by_text) == (name is not None)
        assert total(score.evidence) == pytest.approx(score.value, abs=1e-9)


def test_several_files_of_scores_are_joined_by_id(data, tmp_path):
    for name, judges in (("first", (0, 1)), ("second", (0, 3))):
        lines = [
            {"id": row["id"], "aspect": aspect, "value": row["metrics"][f"judge-{judge}/{own}"]}
            for row in reversed(rows_of())
            for aspect, judge, own in zip(
                ("clarity", "charm"), judges, ("clarity", "charm"), strict=True
            )
        ]
        write(tmp_path / f"{name}.jsonl", lines)
    files = [str(tmp_path / f"{name}.jsonl") for name in ("first", "second")]
    found = learn(data, tmp_path / "ev", features=(), scores=files)
    names = [f"{name}/{aspect}" for name in ("first", "second") for aspect in ("clarity", "charm")]
    assert list(found.report["features"]) == names
    run = tmp_path / "run"
    with pytest.raises(ConfigurationError, match="'first/clarity'"):
        evaluate_sync(data, method=found, out=run)
    assert not run.exists()
    evaluate_sync(data, method=found, out=run, options={"scores": files})
    assert read_manifest(run)["spec"]["options"]["scores"] == files
    other = [{"id": f"other{i}", "aspect": "clarity", "value": i} for i in range(9)]
    with pytest.raises(DataError, match="no id of the scores occurs"):
        learn(data, features=(), scores=write(tmp_path / "s.jsonl", other))


def test_labels_without_an_order_are_a_feature_each(data, tmp_path):
    """A run folder is a file of scores."""
    found = learn(data, tmp_path / "ev", **HALF)
    run = tmp_path / "run"
    evaluate_sync(data, method=found, out=run)
    sources = {"old": run}
    found = learn(data, features=(), scores=sources, **HALF)
    assert list(found.report["features"]) == ["old/clarity", "old/charm"]
    manifest = json.loads((run / "manifest.json").read_text())
    charm = next(one for one in manifest["method"]["aspects"] if one["name"] == "charm")
    charm["labels"] = {"dry": "", "warm": "", "odd": ""}
    (run / "manifest.json").write_text(json.dumps(manifest))
    lines = [
        {**row, "value": sum(map(ord, row["id"])) % 3} if row["aspect"] == "charm" else row
        for row in map(json.loads, (run / "scores.jsonl").read_text().splitlines())
    ]
    write(run / "scores.jsonl", lines)
    found = learn(data, features=(), scores=sources, aspects=["clarity"], **HALF)
    labels = [f"old/charm/{label}" for label in ("dry", "warm", "odd")]
    assert list(found.report["features"]) == ["old/clarity", *labels]


def test_the_split_keeps_sources_together_and_follows_the_seed():
    same, again, seeded, by_row = (
        learn(rows_of(), train_fraction=0.25, **arguments).report
        for arguments in ({}, {}, {"seed": 1}, {"split": "row"})
    )
    assert same["split"]["train"] == {"rows": 30, "groups": 5}
    assert same["held_out"] == again["held_out"]
    assert same["held_out"] != seeded["held_out"]
    assert (by_row["split"]["by"], by_row["split"]["train"]["rows"]) == ("row", 30)
    # rows of all 20 sources are on both sides, and what is said of them is over those 20
    assert 10 < by_row["split"]["train"]["groups"] <= 20
    assert by_row["held_out"]["aspects"]["clarity"]["groups"] == 20


@pytest.mark.parametrize(
    ("material", "grouped_by", "groups"),
    [
        ({"context": "document {}"}, "source", 20),
        ({"source": "What is in it?", "images": ["https://a.org/{}.png"]}, "source", 20),
        ({"source": "Write a haiku."}, "row", 120),
    ],
)
def test_sources_are_those_of_the_other_commands(material, grouped_by, groups):
    """A context without a source, or an image, is one; an instruction for all texts is none."""
    rows = [
        {name: value for name, value in row.items() if name != "group"}
        | json.loads(json.dumps(material).replace("{}", row["group"]))
        for row in rows_of()
    ]
    split = learn(rows, train_fraction=0.5).report["split"]
    assert split["by"] == grouped_by
    assert split["train"]["groups"] + split["held_out"]["groups"] == groups


def test_of_several_aggregators_the_one_with_the_least_error_over_training_folds_is_kept():
    names = ("tree", "ridge", "avg")
    report = learn(rows_of(), aggregator=names, **HALF).report
    errors = report["aggregators"]["cross_validated_error"]
    assert set(errors) == set(names)
    assert report["aggregators"]["chosen"] == min(errors, key=errors.get) == "ridge"
    # means of sources are used or not, which has tests of its own
    assert {*report["held_out"]["aspects"]["charm"]["agreement"]} - {"evaluator with pool"} == {
        "evaluator", "best single", "avg", "corrw", "tree"
    }  # fmt: skip


def test_gaps_count_as_the_training_mean_and_a_row_without_features_is_not_scored(tmp_path):
    found = learn(rows_of(), tmp_path / "ev", **HALF)
    [full, gap, none] = rows_of(3)
    gap["metrics"].pop("judge-0/clarity")
    none["metrics"] = {"other": 1.0}
    scores = {(s.id, s.aspect): s for s in evaluate_sync([full, gap, none], method=found)}
    evidence = scores["r1", "clarity"].evidence
    [one] = [one for one in evidence if one["text"] == "judge-0/clarity"]
    assert (one["value"], one["contribution"]) == (None, pytest.approx(0, abs=1e-12))
    gone = scores["r2", "clarity"]
    assert (gone.outcome, gone.value, gone.error.type) == ("abstained", None, "NoFeatures")


def test_criteria_scored_for_some_rows_only_are_learned_from_and_reported(tmp_path):
    """As are aspects that are rated in different rows, on different scales."""
    rows = rows_of(240)
    for i, row in enumerate(rows):
        row["human"].pop("clarity" if i % 2 else "charm")
        if i % 3:
            del row["metrics"]["judge-0/clarity"]
        if i < 12:
            row["metrics"] = {}
    found = learn(rows, tmp_path / "ev")
    assert "left out: 12 rated rows without any feature" in found.text
    assert "features that fewer than half of the rows have: judge-0/clarity 3" in found.text
    assert 0.3 < found.report["features"]["judge-0/clarity"]["coverage"] < 0.37
    assert found.report["features"]["judge-1/charm"]["coverage"] == 1
    # the best single feature of clarity is measured beside the others, so its gaps are left out
    counts = {name: one["n"] for name, one in found.report["held_out"]["aspects"].items()}
    assert counts == {"clarity": 38, "charm": 114}
    scores = evaluate_sync(rows_of(50, seed=3), method=found)
    assert np.ptp([score.value for score in scores if score.aspect == "charm"]) > 2
    for row in rows:
        row["metrics"].pop("judge-0/clarity", None)
    with pytest.raises(ConfigurationError, match="'judge-0/clarity'"):
        evaluate_sync(rows, method=found)


def test_held_out_rows_decide_nothing():
    rows = rows_of()
    first = learn(rows, aggregator="auto", **HALF)
    train = split_rows(group_codes(row["group"] for row in rows), 0.5, seed=0)
    for row, is_learned_from in zip(rows, train, strict=True):
        if not is_learned_from:
            row["human"] = {name: high - row["human"][name]
                            for name, high in (("clarity", 6), ("charm", 10))}  # fmt: skip
    second = learn(rows, aggregator="auto", **HALF)
    assert first.evaluator.aggregator == second.evaluator.aggregator
    one, other = (
        found.report["held_out"]["aspects"]["charm"]["agreement"] for found in (first, second)
    )
    assert one["best single"]["feature"] == other["best single"]["feature"]
    assert one["evaluator"]["pearson"] > 0.5 > -0.5 > other["evaluator"]["pearson"]


BAD = {
    "one group": (lambda row, i: row.update(group="g"), "at least 2 groups"),
    "constant ratings": (
        lambda row, i: row["human"].update(charm=3), "'charm': people rated every row 3",
    ),
    "no ratings": (lambda row, i: row.pop("human"), "contains no human ratings"),
    "no metrics": (lambda row, i: row.pop("metrics"), "no feature '*', as neither the data"),
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
def test_bad_data_are_refused(what, tmp_path):
    spoil, message = BAD[what]
    rows = rows_of()
    for i, row in enumerate(rows):
        spoil(row, i)
    with pytest.raises((ConfigurationError, DataError)) as refused:
        learn(rows, tmp_path / "ev")
    assert message in " ".join(str(refused.value).split())
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
def test_bad_flags_are_refused(what, data, tmp_path):
    flags, message = FLAGS[what]
    done = textassay("fit", data, "--out", tmp_path / "ev", *flags)
    assert (done.code, message in " ".join(done.err.split())) == (2, True), done.err


def test_what_does_not_go_with_an_evaluator_or_was_changed_by_hand_is_refused(data, tmp_path):
    out = tmp_path / "ev"
    learn(data, out, **HALF)

    def check(message, *flags):
        done = textassay("score", data, "--method", out, "--out", tmp_path / "run", *flags)
        assert (done.code, message in done.err) == (2, True), done.err

    check("asks no model", "--model", "direct/x", "--api-base", "http://127.0.0.1:9/v1")
    check("brings its own task", "--task", "dialogue")
    check("this method takes no n", "--n", "3")
    check("unknown aspect of the evaluator 'wit'", "--aspects", "wit")
    file = out / "evaluator.json"
    good = json.loads(file.read_text())
    for content, message in (
        (json.dumps({**good, "format": 2}), "has format 2"),
        (json.dumps({**good, "features": ["a", *good["features"][1:]]}), "was edited or damaged"),
        (json.dumps({**good, "digest": "0"}), "was edited or damaged"),
        ("{", "cannot be read"),
        (None, "contains no evaluator.json"),
    ):
        file.unlink() if content is None else file.write_text(content)
        check(message)


def correlation(run, rows):
    value = {score.id: score.value for score in run}
    ratings = [row["human"]["quality"] for row in rows]
    return float(np.corrcoef([value[row["id"]] for row in rows], ratings)[0, 1])


def test_new_systems_leave_out_systems_and_pool_the_texts_to_judge(tmp_path):
    """Judges err on single texts, so a system's mean over the texts to be judged says more."""
    rng = np.random.default_rng(3)
    quality = rng.normal(0, 1, 40)

    def rows(systems, documents):
        for system in systems:
            for document in range(documents):
                rating = float(np.clip(3 + quality[system], 1, 5))
                yield {
                    "id": f"{system}-{document}", "output": f"text {system} {document}",
                    "system": f"s{system}", "group": f"g{document}", "human": {"quality": rating},
                    "metrics": {f"judge-{j}": rating + 2 * rng.normal() for j in range(3)},
                }  # fmt: skip

    data = list(rows(range(30), 24))
    new = write(tmp_path / "new.jsonl", judged := list(rows(range(30, 40), 12)))
    found = learn(data, tmp_path / "ev", new_systems=True)
    assert "over folds that leave out sources and systems" in found.text
    alone = evaluate_sync(new, method=found)
    pooled = evaluate_sync(new, method=found, options={"pool": str(new)})
    assert correlation(pooled, judged) > correlation(alone, judged) + 0.05
    assert "|pool:" in next(iter(pooled)).signature
    known = learn(data, tmp_path / "known", **HALF)
    with pytest.raises(ConfigurationError, match="new_systems"):
        evaluate_sync(new, method=known, options={"pool": str(new)})


def test_a_pool_compares_texts_with_the_others_about_their_source(tmp_path):
    """Judges rate all texts about a source too high or too low; people do not."""
    rng = np.random.default_rng(0)

    def rows(sources):
        for source in sources:
            shift = 1.5 * rng.normal()
            for text in range(6):
                rating = float(np.clip(3 + rng.normal(), 1, 5))
                yield {
                    "id": f"{source}-{text}", "output": f"text {text}",
                    "source": f"source {source}", "human": {"quality": rating},
                    "metrics": {f"j{j}": rating + shift + 0.5 * rng.normal() for j in range(2)},
                }  # fmt: skip

    data = list(rows(range(40)))
    new = write(tmp_path / "new.jsonl", judged := list(rows(range(40, 60))))
    found = learn(data, tmp_path / "ev")
    said = "quality: the means of 40 sources take part where a pool of texts is given"
    assert said in " ".join(found.text.split())
    agreement = found.report["held_out"]["aspects"]["quality"]["agreement"]
    assert agreement["evaluator with pool"]["pearson"] > agreement["evaluator"]["pearson"] + 0.1
    alone = evaluate_sync(new, method=found)
    pooled = evaluate_sync(new, method=found, options={"pool": str(new)})
    assert correlation(pooled, judged) > correlation(alone, judged) + 0.1
    [score] = [score for score in pooled if score.id == "40-0"]
    assert total(score.evidence) == pytest.approx(score.value)
    assert any(one["text"] == "(means of the source)" for one in score.evidence)
    # without a pool a text is judged as if there were no others
    [single] = evaluate_sync(judged[:1], method=found)
    assert single.value == {score.id: score.value for score in alone}["40-0"]
