"""The alternative annotator test: the published table, and the constant beside it."""

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from tests.cli.harness import document, textassay, write_lines
from textassay.estimation.alt_test import alt_test
from textassay.runtime.errors import DataError

JUDGES = ("gemini_flash", "gemini_pro", "gpt-4o", "llama-31", "gpt-4o-mini", "mistral-v03")
PUBLISHED = {
    ("wax", 0.1, "match"): ".38/.69 .50/.74 .50/.73 .00/.57 .00/.59 .00/.50",
    ("lgbteen", 0.2, "match"): ".25/.71 .00/.67 .75/.77 .00/.72 .75/.76 .25/.75",
    ("mtbench", 0.2, "match"): ".00/.72 .00/.76 .00/.77 .00/.69 .00/.74 .00/.68",
    ("summeval", 0.2, "rmse"): ".00/.46 .00/.44 .00/.48 .00/.58 .00/.54 .00/.62",
}
ASPECTS = ("coherence", "consistency", "fluency", "relevance")


def recorded(name, judge, aspect=None):
    """Scores, ratings with gaps, and sources of a recorded judge; all aspects pooled by default."""
    scores, ratings, groups = [], [], {}
    codes = []
    for row in benchmark(f"alttest/{name}.jsonl.gz"):
        for label, given in row["annotators"].items():
            if aspect in (None, label):
                key = judge if name != "summeval" else f"{judge}/{label}"
                value = row["metrics"].get(key)
                scores.append(np.nan if value is None else value)
                ratings.append([np.nan if one is None else one for one in given])
                codes.append(groups.setdefault(row.get("group"), len(groups)))
    return np.array(scores), np.array(ratings), np.array(codes)


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case[0])
def test_every_published_cell_comes_out(case):
    """24 cells of Calderon et al.'s table at two decimals, rows independent."""
    name, epsilon, metric = case
    cells = []
    for judge in JUDGES:
        scores, ratings, _ = recorded(name, judge)
        found = alt_test(scores, ratings, epsilon=epsilon, metric=metric).judge
        cells.append(f"{found.omega:.2f}/{found.rho:.2f}".replace("0.", "."))
    assert " ".join(cells) == PUBLISHED[case]


@pytest.mark.parametrize(
    ("aspect", "omega", "rho"),
    [*zip(ASPECTS, (1, 0, 0, 0), (0.752, 0.438, 0.210, 0.503), strict=True)],
)
def test_by_aspect_and_beside_the_constant(aspect, omega, rho):
    """GPT-4o on SummEval passes on coherence alone; the constant passes on all four."""
    scores, ratings, groups = recorded("summeval", "gpt-4o", aspect)
    found = alt_test(scores, ratings, groups)
    assert (found.judge.omega, round(found.judge.rho, 3)) == (omega, rho)
    assert found.groups == 100
    assert found.constant.passes
    assert found.may_stand_in == (aspect == "coherence")


def test_a_judge_that_never_reads_passes_the_published_test_and_may_not_stand_in():
    """4, 5, 5, 4 by aspect, where all six judges fail; and Mistral, which writes fives."""
    tables = [recorded("summeval", "gpt-4o", aspect) for aspect in ASPECTS]
    ratings = np.concatenate([ratings for _, ratings, _ in tables])
    constant = np.repeat([4.0, 5.0, 5.0, 4.0], 1600)
    found = alt_test(constant, ratings, strata=np.repeat(np.arange(4), 1600))
    assert (found.judge.passes, found.constant.passes, found.may_stand_in) == (True, True, False)
    found = alt_test(*recorded("summeval", "mistral-v03", "consistency"))
    assert (found.judge.passes, found.may_stand_in) == (True, False)
    assert round(found.judge.rho, 3) == 0.875


def test_sources_as_the_unit_never_make_p_smaller_for_copies():
    """Copying every item within its source changes nothing; as independent rows p would fall."""
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, 60).astype(float)
    ratings = np.clip(truth[:, None] + rng.integers(-1, 2, (60, 3)), 1, 5)
    scores = np.clip(truth + rng.integers(-1, 2, 60), 1, 5)
    once = alt_test(scores, ratings, np.arange(60))
    many = alt_test(
        np.repeat(scores, 4), np.repeat(ratings, 4, axis=0), np.repeat(np.arange(60), 4)
    )
    for a, b in zip(once.judge.per_rater, many.judge.per_rater, strict=True):
        assert a.p == pytest.approx(b.p)


def test_few_sources_that_all_agree_prove_little():
    """The judge is as near as every rater in each text: of three sources that may be chance."""
    ratings = np.tile([[3.0, 3.0, 3.0], [4.0, 4.0, 4.0]], (30, 1))
    for sources, omega in ((3, 0), (10, 1)):
        judge = alt_test(ratings[:, 0], ratings, np.arange(60) % sources).judge
        assert (judge.per_rater[0].p, judge.omega) == (0.5**sources, omega)


@pytest.mark.parametrize(
    ("rows", "raters", "sources", "says"),
    [(40, 1, 40, "2 raters"), (20, 3, 20, "30 scored items"), (40, 3, 1, "one source")],
)
def test_ratings_that_cannot_be_tested_are_refused(rows, raters, sources, says):
    scores = np.arange(float(rows))
    with pytest.raises(DataError, match=says):
        alt_test(scores, np.stack([scores] * raters, axis=1), np.arange(rows) % sources)


def rated_by_five(judge_like=0.8):
    """Forty texts, five raters of whom the last is severe, and a judge; ratings from 1 to 5."""
    rng = np.random.default_rng(3)
    quality = rng.normal(3, 1, 40)
    bias = (0, 0, 0, 0, -1)
    raters = [np.clip(np.round(quality + b + rng.normal(0, 0.7, 40)), 1, 5) for b in bias]
    judge = np.clip(np.round(quality + rng.normal(0, judge_like, 40)), 1, 5)
    return judge, np.stack(raters, axis=1)


def test_raters_that_are_replaced_together_are_compared_with_those_who_stay():
    judge, ratings = rated_by_five()
    found = alt_test(judge, ratings, replaced=(0, 4))
    assert [one.rater for one in found.judge.per_rater] == [1, 5]
    assert found.judge.needed == 1
    # without the other replaced rater, each stands where a plain test of four has it
    for rater, other in ((0, 4), (4, 0)):
        alone = alt_test(judge, np.delete(ratings, other, axis=1))
        name = rater + 1 if rater < other else rater
        [own] = [one for one in alone.judge.per_rater if one.rater == name]
        [ours] = [one for one in found.judge.per_rater if one.rater == rater + 1]
        assert (ours.n, ours.rho, ours.p) == (own.n, own.rho, own.p)
    severe = found.judge.per_rater[1]
    assert severe.severity > 0.5 > abs(found.judge.per_rater[0].severity)
    # who wins against one of two may not replace both
    wins = [one.wins for one in found.judge.per_rater]
    assert found.judge.passes == all(wins)
    with pytest.raises(DataError, match="no rater is left"):
        alt_test(judge, ratings, replaced=range(5))


def written(path, form):
    """The ratings of five named raters, as columns, rows of raters, or a list with names."""
    judge, ratings = rated_by_five()
    names = ["ann", "bob", "cy", "dee", "eve"]
    rows = []
    for at, (score, own) in enumerate(zip(judge.tolist(), ratings.tolist(), strict=True)):
        about = {"id": f"t{at}", "output": "a text", "metrics": {"tone": score}}
        by_name = dict(zip(names, own, strict=True))
        if form == "columns":
            rows.append(about | {f"annotators.tone.{name}": one for name, one in by_name.items()})
        elif form == "mapped":
            rows.append(about | by_name)
        elif form == "rows":
            rows += [about | {"rater": n, "human.tone": one} for n, one in by_name.items()]
        else:
            rows.append(about | {"annotators": {"tone": own}, "raters": names})
    return write_lines(path, rows)


@pytest.mark.parametrize("form", ["columns", "mapped", "rows", "list"])
def test_raters_keep_their_names(form, tmp_path):
    data = written(tmp_path / "data.jsonl", form)
    names = ["ann", "bob", "cy", "dee", "eve"]
    maps = [f"{name}=annotators.tone" for name in names] if form == "mapped" else []
    flags = [word for one in maps for word in ("--field", one)]
    arguments = ("alt-test", data, data, *flags, "--scale", "tone=1,5")
    (row,) = document(*arguments)["rows"]
    assert [one["name"] for one in row["per_rater"]] == names
    (row,) = document(*arguments, "--replace", "bob,eve")["rows"]
    assert [one["name"] for one in row["per_rater"]] == ["bob", "eve"] == row["replaced"]
    done = textassay(*arguments, "--replace", "bob", "--replace", "eve")
    assert "replaced bob, eve; each is compared with the raters who stay" in done.err
    assert "replaced bob; each is compared" in textassay(*arguments, "--replace", "bob").err
    (row,) = document(*arguments, "--replace", "2,eve,bob")["rows"]
    assert [one["name"] for one in row["per_rater"]] == ["bob", "eve"] == row["replaced"]
    textassay(*arguments, "--replace", "zoe").ends(2, "zoe")
    textassay(*arguments, "--replace", "6").ends(2, "6")


@pytest.mark.parametrize(("largest", "said"), [(4, False), (300, True)])
def test_a_source_with_most_of_the_texts_is_named(largest, said, tmp_path):
    """It is worth little more than one source, so that a perfect judge fails, too."""
    rows = [
        {"id": f"{source}-{at}", "group": f"g{source}", "output": f"t{source}-{at}",
         "annotators": {"q": [1 + at % 5, 1 + at % 5, 1 + (at + source) % 5]},
         "metrics": {"q": 1 + at % 5}}
        for source in range(30)
        for at in range(largest if source == 0 else 4)
    ]  # fmt: skip
    done = textassay("alt-test", *[write_lines(tmp_path / "data.jsonl", rows)] * 2)
    assert ("30 are worth" in done.messages) == said
