"""The figures of the fit report, compared with the same figures found another way."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.coverage.fitting import FEATURE_DRAWS, few_ratings, with_new
from benchmarks.coverage.tally import tally
from tests.fitting.made_texts import rows_of
from textassay.agreement import compare, correlate, pearson
from textassay.agreement.correlation import pair_up
from textassay.agreement.intervals import resample, standard_error, t_quantile, to_z
from textassay.fitting.api import fit_sync
from textassay.fitting.feature_table import rating_scales
from textassay.fitting.fit_from_scores import read_recorded
from textassay.fitting.held_out import experts, measure_held_out, resamples_for, steps
from textassay.fitting.learn import ChosenAggregator, Fitter, Unseen, cross_fit
from textassay.fitting.read_table import read_table
from textassay.fitting.report import report_text
from textassay.fitting.request import FitFromScores
from textassay.learning import Aggregator, group_codes, split_rows
from textassay.learning.splits import folds
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError

ASPECTS = ("clarity", "charm")
COEFFICIENTS = ("pearson", "spearman", "kendall")


def fitted(rows, **how):
    return fit_sync(rows, features=("*",), aggregator="ridge", **how)


@pytest.fixture(scope="module")
def full():
    rows = rows_of(240)
    rng = np.random.default_rng(0)
    for row in rows:
        row["annotators"] = {
            "charm": [float(np.clip(row["human"]["charm"] + e, 0, 10)) for e in rng.normal(size=3)]
        }
    return rows, fitted(rows, report="full", train_fraction=0.5).report


def arrays(rows):
    names = list(rows[0]["metrics"])
    x = np.array([[row["metrics"][name] for name in names] for row in rows])
    y = np.array([[row["human"][aspect] for aspect in ASPECTS] for row in rows])
    return names, x, y, group_codes(row["group"] for row in rows)


def test_agreement_is_that_of_an_aggregator_that_saw_the_other_sources(full):
    rows, report = full
    names, x, y, groups = arrays(rows)
    train = split_rows(groups, 0.5, seed=0)
    predicted = aggregator_of(rows, train).predict(x[~train])
    for at, aspect in enumerate(ASPECTS):
        found = report["held_out"]["aspects"][aspect]
        ours = correlate(
            predicted[:, at], y[~train, at], groups=groups[~train].tolist(), bootstrap=1000
        )
        entry = found["agreement"]["evaluator"]
        assert all(entry[name] == getattr(ours, name) for name in COEFFICIENTS)
        assert entry["ci"]["kendall"] == list(ours.ci["kendall"].ends)
        single = found["agreement"]["best single"]["feature"]
        other = compare(
            predicted[:, at],
            x[~train, names.index(single)],
            y[~train, at],
            groups=groups[~train].tolist(),
        ).pearson
        difference = found["evaluator_minus"]["best single"]["pearson"]
        assert difference["difference"] == other.difference.value
        assert (difference["p"], difference["ci"]) == (other.p, list(other.difference.ends))
        assert difference["significant"] == (other.p < 0.05)
    by_aspect = [one["agreement"] for one in report["held_out"]["aspects"].values()]
    mean = np.mean([one["evaluator"]["pearson"] for one in by_aspect])
    assert report["held_out"]["mean"]["evaluator"]["pearson"] == pytest.approx(mean)


def aggregator_of(rows, chosen):
    names, x, y, groups = arrays(rows)
    aggregator = Aggregator("ridge", scales={"clarity": (1, 5), "charm": (0, 10)})
    return aggregator.fit(
        x[chosen], y[chosen], groups=groups[chosen], feature_names=names, target_names=ASPECTS
    )


def test_all_rows_are_learned_from_and_each_is_measured_by_what_has_not_seen_its_source():
    rows = rows_of(120)
    _, x, y, groups = arrays(rows)
    found = fitted(rows)
    everything = np.ones(len(rows), bool)
    shipped = Aggregator.from_dict(found.evaluator.aggregator)
    assert (shipped.predict(x) == aggregator_of(rows, everything).predict(x)).all()
    assert found.report["split"]["train"] == found.report["split"]["held_out"]
    assert (found.report["split"]["folds"], found.report["split"]["repeats"]) == (5, 2)
    by_repeat = []
    for repeat in range(2):
        fold = folds(groups, 5, seed=repeat)
        measured, sizes = [], []
        for number in range(5):
            inside = fold == number
            predicted = aggregator_of(rows, ~inside).predict(x[inside])
            each = zip(predicted.T, y[inside].T, strict=True)
            measured.append([np.corrcoef(p, h)[0, 1] for p, h in each])
            sizes.append(inside.sum())
        by_repeat.append(np.average(measured, axis=0, weights=sizes))
    for at, aspect in enumerate(ASPECTS):
        entry = found.report["held_out"]["aspects"][aspect]
        own = [one[at] for one in by_repeat]
        assert entry["agreement"]["evaluator"]["pearson"] == pytest.approx(np.mean(own), abs=1e-9)
        assert entry["n"] == 120
    assert "each of them 2 times, in 5 folds by group, seed 0" in report_text(found.report)


def test_what_a_fold_learned_from_does_not_lower_agreement():
    """Each fold's predictions start from a mean that is lower where the fold's own is higher."""
    entry, raw = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = rows_of(120, seed=seed)
        for row in rows:
            row["metrics"] = {f"noise-{i}": float(rng.normal()) for i in range(3)}
        entry.append(fitted(rows).report["held_out"]["mean"]["evaluator"]["pearson"])
        _, x, y, groups = arrays(rows)
        fold, predicted = folds(groups, 5, seed=0), np.empty(y.shape)
        for number in range(5):
            inside = fold == number
            predicted[inside] = aggregator_of(rows, ~inside).predict(x[inside])
        raw.append(np.mean([np.corrcoef(predicted.T[i], y.T[i])[0, 1] for i in (0, 1)]))
    assert np.mean(entry) > np.mean(raw) + 0.05


def test_an_aspect_that_is_rated_on_few_sources_is_measured_over_all_folds_together():
    """With 12 rated sources, a fold has too few of them for a coefficient of its own."""
    rows = rows_of(240)
    names = list(dict.fromkeys(row["group"] for row in rows))
    for row in rows:
        if row["group"] not in names[:12]:
            del row["human"]["charm"]
    table = read_table(Examples(rows), patterns=("*",))
    fitter = Fitter(rating_scales(table, {}), 0, 1)
    choice, unseen = cross_fit(["ridge"], table, fitter, lambda _: None, repeats=1)
    found = measure_held_out(choice, unseen, fitter)["aspects"]["charm"]["agreement"]["evaluator"]
    at = table.aspects.index("charm")
    predicted, people = unseen.by_evaluator()[:, at], table.human[:, at]
    rated = ~np.isnan(people)
    assert len(np.unique(table.groups[rated])) == 12 < len(np.unique(table.groups)) / 2
    assert found["pearson"] == pytest.approx(pearson(predicted[rated], people[rated]))


def test_intervals_of_a_cross_fitted_report_allow_for_what_was_learned_from():
    """Nadeau and Bengio: twice five folds have 1 / 10 + 1 / 4 of the variance of one fold."""
    rows = rows_of(40, per_group=1)
    entry = fitted(rows).report["held_out"]["aspects"]["charm"]
    table = read_table(Examples(rows), patterns=("*",))
    _, unseen = cross_fit(["ridge"], table, Fitter(rating_scales(table, {}), 0, 1), lambda _: None)
    at = table.aspects.index("charm")
    drawn = [
        resample(
            pair_up(unseen.by_evaluator(repeat)[:, at], table.human[:, at]), "dataset",
            resamples=resamples_for(40), seed=0,
        )
        for repeat in (0, 1)
    ]  # fmt: skip
    least = {"pearson": 1 / 37, "spearman": 1.06 / 37, "kendall": 0.437 / 36}
    for name in COEFFICIENTS:
        error = standard_error(to_z(np.mean([one[name] for one in drawn], axis=0)), 40)
        wide = t_quantile(39, 0.95) * max(error, least[name] ** 0.5) * (5 * (1 / 10 + 1 / 4)) ** 0.5
        found = entry["agreement"]["evaluator"]
        assert np.diff(np.arctanh(found["ci"][name])) == pytest.approx(2 * wide)
    single = entry["agreement"]["best single"]
    column = table.features[:, table.names.index(single["feature"])]
    alone = correlate(column, table.human[:, at], bootstrap=1000)
    assert single["ci"]["pearson"] == pytest.approx(list(alone.ci["pearson"].ends))


def test_a_cross_fitted_report_of_twenty_ratings_holds_what_the_evaluator_reaches():
    """Of these 15 intervals 12 would hold it if they did not allow for the learning."""
    found = tally(few_ratings(20, with_new(FEATURE_DRAWS["good criteria as"])), 15)
    assert found["pearson"].draws == 15
    assert found["pearson"].held >= 14


def test_ratings_that_are_mostly_equal_have_a_note():
    rows = rows_of(60, per_group=1)
    for i, row in enumerate(rows):
        if i % 10:
            row["human"]["charm"] = 5.0
    found = fitted(rows)
    assert "charm: 90% of the ratings are 5" in found.text
    assert found.report["held_out"]["aspects"]["clarity"]["note"] is None


def test_a_fold_without_which_nothing_can_be_learned_is_left_out():
    """Ratings of charm vary in one group only, which the other folds' rows need."""
    rows = rows_of(60, per_group=12)
    for row in rows:
        if row["group"] != "g0":
            row["human"]["charm"] = 5.0
    found = fitted(rows).report["held_out"]["aspects"]["clarity"]
    assert found["n"] < 60
    assert found["coverage"] == pytest.approx(found["n"] / 60)


def test_importance_finds_the_judges_that_carry_the_ratings(full):
    _, report = full
    for kind in ("permutation", "shap"):
        names = [one["feature"] for one in report["importance"][kind]]
        assert {name.partition("/")[0] for name in names[:3]} == {"judge-0", "judge-1", "judge-2"}
    for one in report["importance"]["permutation"]:
        low, high = one["ci"]
        assert low <= one["mean"] <= high
        assert (low > 0) == (one["feature"][: len("judge-0")] in ("judge-0", "judge-1", "judge-2"))
        assert set(one["by_aspect"]["charm"]) == {"mean", "sd", "ci"}


def test_no_p_value_is_shown_below_what_the_resamples_can_show(full):
    _, report = full
    found = report["held_out"]["aspects"]["charm"]
    assert found["resamples"] == 1000
    assert found["evaluator_minus"]["avg"]["pearson"]["p"] < 2 / 1001
    assert "(<0.002*)" in report_text(report)
    assert [resamples_for(rows) for rows in (0, 5_000, 10_000, 10**6)] == [1000, 1000, 500, 100]


def test_more_data_and_more_criteria_help_until_they_do_not(full):
    _, report = full
    data = {row["fraction"]: row["ridge"]["pearson"] for row in report["data_efficiency"]}
    assert set(data) == {0.05, 0.1, 0.25, 0.5, 0.75, 1.0}
    assert data[1.0]["mean"] > data[0.1]["mean"]
    criteria = report["criteria_efficiency"]
    assert [row["count"] for row in criteria] == [1, 2, 3, 4, 6, 8]
    assert steps(20) == [1, 2, 3, 4, 6, 8, 12, 16, 20]
    assert criteria[2]["pearson"] > criteria[0]["pearson"] + 0.1
    assert criteria[5]["pearson"] == pytest.approx(criteria[2]["pearson"], abs=0.03)
    whole = report["held_out"]["mean"]["evaluator"]["pearson"]
    assert criteria[-1]["pearson"] == pytest.approx(whole)
    assert report["data_efficiency"][-1]["ridge"]["pearson"]["mean"] == pytest.approx(whole)


def test_a_part_too_small_to_learn_from_says_so():
    report = fitted(rows_of(60), report="full").report
    smallest = report["data_efficiency"][0]["ridge"]
    assert smallest["seeds"] < 3
    assert "at least 2 groups" in smallest["failed"]


def test_experts_are_held_against_each_other_and_against_the_evaluator(full):
    rows, report = full
    assert set(report["experts"]) == {"charm"}
    found = report["experts"]["charm"]
    train = split_rows(arrays(rows)[3], 0.5, seed=0)
    ratings = np.array([row["annotators"]["charm"] for row in rows])[~train]
    assert set(found["pairs"]) == {"1-2", "1-3", "2-3"}
    assert found["pairs"]["1-3"]["pearson"] == pytest.approx(
        np.corrcoef(ratings[:, 0], ratings[:, 2])[0, 1]
    )
    others = ratings[:, 1:].mean(axis=1)
    assert found["one_with_the_others"]["pearson"] > found["mean_of_pairs"]["pearson"]
    assert np.corrcoef(ratings[:, 0], others)[0, 1] == pytest.approx(
        found["one_with_the_others"]["pearson"], abs=0.05
    )


def test_ranking_counts_items_whose_rank_is_peoples(full):
    rows, report = full
    names, x, y, groups = arrays(rows)
    train = split_rows(groups, 0.5, seed=0)
    entry = report["ranking"]["charm"]["best single"]
    column = x[:, names.index(entry["feature"])]
    hits = [
        sum(column[j] > column[i] for j in np.flatnonzero(groups == groups[i]))
        == sum(y[j, 1] > y[i, 1] for j in np.flatnonzero(groups == groups[i]))
        for i in np.flatnonzero(~train)
    ]
    assert entry["items"] == 120
    assert entry["share"] == pytest.approx(np.mean(hits))
    assert report["ranking"]["charm"]["evaluator"]["share"] > entry["share"]


def test_the_report_is_json_without_nan_and_reads_as_text(full):
    _, report = full
    json.dumps(report, allow_nan=False)
    text = report_text(report)
    for words in ("charm, 120 held-out rows", "best single: judge-", "share of the training rows",
                  "annotators", "growth of the squared error when shuffled"):  # fmt: skip
        assert words in text
    # whole and without the aggregator
    whole, averaged = report["ablations"]
    assert (whole["without"], averaged["without"]) == ("nothing", "aggregator")
    assert averaged["pearson"] < whole["pearson"] - 0.1


def test_an_average_that_cannot_be_fitted_leaves_the_rest_of_the_report():
    rows = rows_of()
    for row in rows:
        row["metrics"] = {name: -value for name, value in row["metrics"].items()}
    fit = fitted(rows)
    found = fit.report["held_out"]["aspects"]["charm"]
    assert "does not rise" in found["agreement"]["avg"]["failed"]
    assert found["agreement"]["best single"]["turned_round"] is True
    assert found["agreement"]["best single"]["pearson"] > 0.3
    assert re.search(r"best single: judge-\d+/charm, reversed", report_text(fit.report))
    assert {*found["evaluator_minus"]} - {"evaluator with pool"} == {
        "best single", "best single, chosen in each fold", "corrw"
    }  # fmt: skip


RIVALS = ("linear", "ridge", "tree")


def cross_fitted(
    names: tuple[str, ...], signal: float, seed: int = 0, threads: int = 1
) -> tuple[ChosenAggregator, Unseen]:
    """Cross-fit aggregators on 60 rows of 20 sources, four features that follow the ratings."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=60)
    features = signal * quality[:, None] + rng.normal(size=(60, 4))
    rows = [
        {"id": str(i), "output": "-", "group": str(i // 3), "human": {"q": quality[i]},
         "metrics": {f"f{k}": value for k, value in enumerate(features[i])}}
        for i in range(60)
    ]  # fmt: skip
    table = read_recorded(Examples(rows), FitFromScores(features=("f*",))).table
    return cross_fit(names, table, Fitter({"q": (-5.0, 5.0)}, 0, threads), lambda _: None)


def figure(unseen: Unseen) -> float:
    return pearson(unseen.by_evaluator()[:, 0], unseen.rows.human[:, 0]) or 0.0


def test_experts_are_compared_on_all_rows_and_the_evaluator_on_those_it_predicts():
    _, unseen = cross_fitted(("ridge", "avg"), 1.0)
    ratings = np.random.default_rng(1).normal(size=(60, 2))
    rows = replace(unseen.rows, annotators={"q": ratings})
    unseen = Unseen(rows, (unseen.repeats[0][1:],))  # the first fold's rows have no prediction
    predicted = unseen.by_evaluator()[:, 0]
    there = ~np.isnan(predicted)
    assert 0 < there.sum() < 60
    found = experts(unseen)["q"]
    among = pytest.approx(pearson(*ratings.T))
    assert (found["pairs"]["1-2"]["pearson"], found["pairs"]["1-2"]["n"]) == (among, 60)
    assert found["mean_of_pairs"]["pearson"] == among
    assert found["one_with_the_others"]["pearson"] == among
    with_one = [pearson(predicted[there], one[there]) for one in ratings.T]
    assert found["evaluator_with_one"]["pearson"] == pytest.approx(np.mean(with_one))
    assert found["evaluator_with_the_mean"]["n"] == there.sum()


@pytest.mark.parametrize("names", [RIVALS, ("auto",)])
def test_choosing_where_nothing_can_be_learned_finds_nothing(names):
    """The best of three over all folds, chosen with all errors in view, would be above 0."""
    seeds = range(6 if len(names) > 1 else 3)
    assert np.mean([figure(cross_fitted(names, 0.0, seed)[1]) for seed in seeds]) < 0.05


def test_the_error_of_what_is_shipped_is_that_of_the_report():
    """The weights of a fold come from fewer errors than those of what is shipped."""
    choice, unseen = cross_fitted(("auto",), 1.0)
    notes = choice.aggregator.notes_["q"]
    human = unseen.rows.human[:, 0]
    entry = np.mean((unseen.by_evaluator()[:, 0] - human) ** 2) / human.var()
    assert notes["held_out_error"]["blend"] == pytest.approx(entry, rel=0.1)
    for fold in unseen.repeats[0]:
        weights = fold.choice.aggregator.notes_["q"]["weights"]
        assert sum(weights.values()) == pytest.approx(1.0)
        assert weights != notes["weights"]


def test_the_result_does_not_depend_on_threads():
    one, two = (cross_fitted(("auto", "ridge"), 1.0, threads=threads) for threads in (1, 2))
    assert one[0].as_dict() == two[0].as_dict()
    assert np.array_equal(one[1].by_evaluator(), two[1].by_evaluator())


def test_what_cannot_be_learned_without_a_fold_is_not_chosen():
    """Features fall as the ratings rise, so non-negative weights are all 0."""
    choice, unseen = cross_fitted(("nnls", "ridge"), -2.0)
    assert choice.chosen == "ridge"
    assert "nnls" in choice.failed
    assert {fold.choice.chosen for fold in unseen.repeats[0]} == {"ridge"}
    with pytest.raises(DataError, match="every feature the weight 0"):
        cross_fitted(("nnls",), -2.0)


def interchangeable(count=200, seed=0):
    """Rows of features that agree with people alike, so that folds choose different ones."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=count)
    return [
        {"id": f"r{i}", "group": f"g{i // 4}", "human": {"charm": float(quality[i])},
         "metrics": {f"m{k}": float(quality[i] + 2 * rng.normal()) for k in range(6)}}
        for i in range(count)
    ]  # fmt: skip


def test_a_single_feature_has_its_own_figure_under_its_name():
    """And what each fold chose, which is another thing, has a row that says so."""
    rows = interchangeable()
    report = fit_sync(rows, features="m*", aggregator="ridge").report
    found = report["held_out"]["aspects"]["charm"]
    single, chosen = (
        found["agreement"][name] for name in ("best single", "best single, chosen in each fold")
    )
    assert len(chosen["chosen"]) > 1  # else nothing is mixed here
    column = [row["metrics"][single["feature"]] for row in rows]
    own = correlate(column, [row["human"]["charm"] for row in rows])
    assert single["pearson"] == pytest.approx(own.pearson)
    assert single["spearman"] == pytest.approx(own.spearman)
    assert chosen["pearson"] < single["pearson"]
    minus = found["evaluator_minus"]["best single"]["pearson"]["difference"]
    evaluator = found["agreement"]["evaluator"]["pearson"]
    assert minus == pytest.approx(evaluator - single["pearson"])
    entry = fit_sync(rows, features="m*", aggregator="ridge", report="full").report["ranking"]
    assert entry["charm"]["best single"]["feature"] == single["feature"]


@pytest.mark.parametrize(("count", "few"), [(40, True), (296, True), (300, False)])
def test_few_ratings_are_warned_of_and_shown_beside_shuffled_ones(count, few):
    found = fit_sync(interchangeable(count), features="m*", aggregator="ridge")
    aspect = found.report["held_out"]["aspects"]["charm"]
    assert ("train_fraction=0.5" in found.text) == few
    assert ("ratings shuffled" in found.text) == few
    assert ("shuffled" in aspect) == few
    halves = fit_sync(interchangeable(count), features="m*", aggregator="ridge", train_fraction=0.5)
    assert "fewer than 300" not in halves.text
    assert "ratings shuffled" not in halves.text


def test_a_cross_fitted_evaluator_is_never_called_worse():
    """Twenty ratings of noise: the pooled predictions agree less than nothing with people."""
    below = 0
    for seed in range(4):
        rows = interchangeable(20, seed)
        rng = np.random.default_rng(seed)
        for row in rows:
            row["human"]["charm"] = float(rng.normal())
        found = fit_sync(rows, features="m*", aggregator="ridge").report["held_out"]
        aspect = found["aspects"]["charm"]
        for one in aspect["evaluator_minus"].values():
            for delta in one.values():
                if delta["difference"] is not None and delta["difference"] < 0:
                    below += 1
                    assert delta["p"] is None
                    assert delta["significant"] is None
        assert aspect["shuffled"]["pearson"] < 0.35
    assert below > 5


def test_below_forty_ratings_the_report_says_whether_the_plain_mean_does_as_well():
    few = fit_sync(interchangeable(36), features="m*", aggregator="ridge")
    assert "36 ratings are few to learn weights from: they do not show" in few.text
    assert "aggregator=avg" in few.text
    # one feature is nearly as good as the ratings, and the others are noise
    clear, rng = interchangeable(36), np.random.default_rng(1)
    for row in clear:
        row["metrics"] = {f"m{k}": float(3 * rng.normal()) for k in range(1, 6)}
        row["metrics"]["m0"] = row["human"]["charm"] + 0.2 * float(rng.normal())
    shown = fit_sync(clear, features="m*", aggregator="ridge").text
    assert "learned weights are better than the plain mean of the features" in shown
    more = fit_sync(interchangeable(40), features="m*", aggregator="ridge")
    assert "few to learn weights" not in more.text


def test_systems_have_means_of_unrated_texts():
    """Ten rows of each system are needed, and only four are rated."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(160):
        system = i % 8
        quality = rng.normal() + system / 2
        row = {"id": f"r{i}", "group": f"g{i // 8}", "system": f"s{system}",
               "metrics": {f"m{k}": quality + 2 * rng.normal() for k in range(3)}}  # fmt: skip
        if i < 32:
            row["human"] = {"charm": quality}
        rows.append(row)
    rated = [row for row in rows if "human" in row]
    for data, known in ((rated, False), (rows, True)):
        learning = fit_sync(data, features="m*", aggregator="ridge").report["aspects"]["charm"]
        assert (learning["learning"].get("systems") is not None) == known
    assert learning["learning"]["systems"]["known"] == 8


@pytest.mark.parametrize(
    ("rating_of_text", "has_choices"),
    [
        (lambda q, at: at == q % 3, True),  # one best text
        (lambda q, at: at != q % 3, False),  # two
        (lambda q, at: 2 * (at == q % 3), False),  # a grade
        (lambda q, at: at == 0 and q % 4 > 0, False),  # none of some
    ],
)
def test_sources_with_one_best_text_have_the_share_of_right_choices(rating_of_text, has_choices):
    rng = np.random.default_rng(3)
    rows = [
        {"id": f"q{q}-{at}", "group": f"q{q}", "human": {"best": float(rating_of_text(q, at))},
         "metrics": {"good": float(at == q % 3) + 0.4 * rng.normal(), "noise": rng.normal()}}
        for q in range(40) for at in range(3)
    ]  # fmt: skip
    fit = fit_sync(rows, features=("*",), aggregator="ridge")
    assert ("choices" in fit.report["held_out"]) == has_choices
    assert ("of sources with one best text" in fit.text) == has_choices
    if has_choices:
        assert 0.75 < fit.report["held_out"]["choices"]["value"] <= 1
