"""The alternative annotator test: the published table, and the constant beside it."""

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from textassay.calibration.alternative_annotator import alt_test
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


def test_what_never_reads_passes_the_published_test_and_may_not_stand_in():
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
def test_what_cannot_be_tested_is_refused(rows, raters, sources, says):
    scores = np.arange(float(rows))
    with pytest.raises(DataError, match=says):
        alt_test(scores, np.stack([scores] * raters, axis=1), np.arange(rows) % sources)
