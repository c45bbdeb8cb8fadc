"""Agreement beside trivial measures: what counts as better than them, and means by what was done to
the texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.demo.results import (
    ComparisonLine,
    TaskComparison,
    by_treatment,
    compare_with_ratings,
    in_order,
    misled,
)
from textassay.meta import spearman
from textassay.runtime.messages import Example

RATINGS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
IDS = [f"e{i}" for i in range(6)]


def examples(**human: list[float]) -> list[Example]:
    rated = human or {"quality": RATINGS}
    return [
        Example(
            id=id_,
            output="A text.",
            group=f"g{i // 3}",
            system="good" if i % 2 else "bad",
            human={name: values[i] for name, values in rated.items()},
        )
        for i, id_ in enumerate(IDS)
    ]


def recorded(values: list[float | None]) -> dict[str, float | None]:
    return dict(zip(IDS, values, strict=True))


def test_a_judge_must_beat_the_best_trivial_measure_whichever_its_sign():
    """A measure that orders the texts backwards is as hard to beat as one that orders them well."""
    backwards = [-value for value in RATINGS]
    nearly = [2.0, 1.0, 3.0, 4.0, 5.0, 6.0]
    found = compare_with_ratings(
        "any",
        examples(),
        {"length": recorded([1, 1, 1, 1, 1, 2]), "novelty": recorded(backwards)},
        {"judge": {"quality": recorded(nearly)}, "oracle": {"quality": recorded(RATINGS)}},
    )
    assert found.bar("quality") == pytest.approx(1.0)
    novelty = next(line for line in found.lines if line.name == "novelty")
    assert novelty.spearman["quality"] == pytest.approx(-1.0)
    assert found.is_bar(novelty, "quality")
    assert [found.won(line) for line in found.judges] == [[], []]
    weaker = compare_with_ratings(
        "any",
        examples(),
        {"length": recorded([1, 1, 1, 1, 1, 2])},
        {"j": {"quality": recorded(nearly)}},
    )
    assert weaker.won(weaker.judges[0]) == ["quality"]
    assert weaker.bar("quality") == pytest.approx(spearman([1, 1, 1, 1, 1, 2], RATINGS))


def test_what_is_undefined_or_missing_beats_nothing_and_is_no_number():
    """A constant judge has no coefficient; an aspect that a judge does not judge is left out."""
    found = compare_with_ratings(
        "any",
        examples(quality=RATINGS, fluency=RATINGS),
        {"length": recorded([3.0] * 6)},
        {
            "judge": {"quality": recorded([2.0] * 6)},
            "half": {"fluency": recorded([1, 2, 3, None, None, None])},
        },
    )
    judge, half = found.judges
    assert judge.spearman == {"quality": None}
    assert found.bar("quality") == 0.0
    assert found.won(judge) == []
    assert (list(half.spearman), half.n) == (["fluency"], 3)
    assert found.won(half) == ["fluency"]


@given(
    st.lists(st.sampled_from([None, -1.0, -0.5, 0.0, 0.2, 0.9]), min_size=1, max_size=4),
    st.floats(-1, 1),
)
def test_beating_means_above_every_trivial_measure(trivial, value):
    """The bar lies at the largest size; a judge at it or below has not won."""
    lines = [ComparisonLine(f"t{i}", True, {"a": rho}, 6) for i, rho in enumerate(trivial)]
    judge = ComparisonLine("judge", False, {"a": value}, 6)
    found = TaskComparison("any", ("a",), 6, 2, (*lines, judge))
    assert found.beats(judge, "a") == all(
        value > abs(rho) for rho in [*trivial, 0.0] if rho is not None
    )


def test_as_json_it_says_what_was_won():
    found = compare_with_ratings(
        "any", examples(), {"length": recorded([1] * 6)}, {"judge": {"quality": recorded(RATINGS)}}
    )
    shown = found.as_dict()
    assert (shown["examples"], shown["groups"], shown["level"]) == (6, 2, "dataset")
    assert shown["lines"] == [
        {"name": "length", "trivial": True, "n": 6, "spearman": {"quality": None}},
        {
            "name": "judge",
            "trivial": False,
            "n": 6,
            "spearman": {"quality": pytest.approx(1.0)},
            "beats_best_trivial": ["quality"],
        },
    ]


def test_means_by_treatment_leave_out_what_has_no_score():
    """The ratings stand first, systems in the order of the data; no score at all is no mean."""
    judged = {
        "judge": {"quality": recorded([1.0, 2.0, None, 4.0, 3.0, 6.0])},
        "mute": {"quality": recorded([None, 1.0, None, 1.0, None, 1.0])},
        "other": {"fluency": recorded(RATINGS)},
    }
    found = by_treatment("quality", examples(), judged)
    assert found.systems == ("bad", "good")
    assert found.rows == {"our rating": (3.0, 4.0), "judge": (2.0, 4.0), "mute": (None, 1.0)}


def test_pairs_in_order_are_of_one_source_and_rated_unequally():
    """Of g0 all three pairs, of g1 one, whose scores are equal: half in order."""
    texts = examples(quality=[1.0, 2.0, 3.0, 4.0, 4.0, 5.0])
    scores = {"quality": recorded([1.0, 3.0, 2.0, None, 7.0, 7.0]), "fluency": recorded(RATINGS)}
    assert in_order(texts, scores) == (2.5, 4)


def test_a_judge_is_misled_where_garbled_words_score_higher():
    """A source without either of the two scores does not count."""
    texts = [
        Example(id=f"{group}-{system}", output="A text.", group=group, system=system)
        for group in "abc"
        for system in ("lead", "garbled", "wrong")
    ]
    values = {"a-lead": 3.0, "a-garbled": 4.0, "b-lead": 3.0, "b-garbled": 2.0, "c-lead": 5.0}
    assert misled(texts, {"coherence": values}) == (1, 2)
    assert misled(texts, {"fluency": values}) == (0, 0)
