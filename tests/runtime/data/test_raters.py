"""Ratings of several people: lists, columns, one row per rater, and the means that follow."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.ratings import WithRatings
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example

WIDE = "id,output,r1,r2,r3\na,One.,3,1,2\nb,Two.,5,,4\n"
MAP = {"r1": "annotators.coherence", "r2": "annotators.coherence", "r3": "annotators.coherence"}
NAMED = WIDE.replace(
    "r1,r2,r3", "annotators.coherence.ann,annotators.coherence.bob,annotators.coherence.cy"
)
LISTS = 'id,output,annotators.coherence\na,One.,"[3, 1, 2]"\nb,Two.,"[5, null, 4]"\n'
LONG = """id,output,worker_id,human.coherence
a,One.,ann,3
b,Two.,ann,5
a,One.,bob,1
a,One.,cy,2
b,Two.,cy,4
"""


def read(source, **options):
    """Return ratings and means by id."""
    return {
        example.id: (example.annotators.get("coherence"), example.human.get("coherence"))
        for example in Examples(source, **options)
    }


@pytest.mark.parametrize("kind", ["path", "frame"])
@pytest.mark.parametrize(
    ("text", "fields"), [(WIDE, MAP), (NAMED, None), (LISTS, None), (LONG, None)]
)
def test_every_form_of_ratings_says_the_same(tmp_path, text, fields, kind):
    """From a file and from the data frame that pandas makes of it; the mean follows."""
    path = tmp_path / "data.csv"
    path.write_text(text)
    source = path if kind == "path" else pd.read_csv(io.StringIO(text))
    expected = {"a": ((3.0, 1.0, 2.0), 2.0), "b": ((5.0, None, 4.0), 4.5)}
    assert read(source, fields=fields) == expected
    assert Examples(source, fields=fields).check().human == {"coherence": 2}


def test_one_row_per_rater_may_have_decimal_commas_and_marks(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("id;output;rater;human.coherence\na;x;ann;4,5\na;x;bob;N/A\nb;y;ann;\n")
    assert read(path, missing=["n/a"]) == {"a": ((4.5, None), 4.5), "b": ((None, None), None)}


def test_a_mean_that_is_given_stays_and_one_that_follows_is_no_data():
    """Some people weigh raters; a run that was made without means can be resumed."""
    rows = [{"id": "a", "output": "x", "annotators.c": [1, 2], "human.c": 1.9}]
    assert next(iter(Examples(rows))).human == {"c": 1.9}
    rows = [{"id": "a", "output": "x", "annotators": {"c": [1, 2]}}]
    given = [{**rows[0], "human": {"c": 1.5}}]
    assert Examples(rows).check().digest != Examples(given).check().digest


def test_the_column_of_raters_can_be_mapped():
    rows = [
        {"id": "a", "output": "x", "who": who, "coh": rating}
        for who, rating in (("ann", 1), ("bob", 3))
    ]
    fields = {"who": "rater", "coh": "human.coherence"}
    assert read(rows, fields=fields) == {"a": ((1.0, 3.0), 2.0)}
    with pytest.raises(DataError, match="comes once per rater"):
        Examples(rows[:1], fields=fields).check()


def test_a_rater_who_rates_twice_is_named():
    rows = [{"id": "a", "output": "x", "rater": "ann", "human.c": n} for n in (1, 2)]
    with pytest.raises(DataError, match="row 2: rater 'ann' rated 'a' before"):
        Examples(rows).check()


def test_a_column_of_raters_without_repeated_ids_is_a_field_like_others():
    rows = [{"id": n, "output": "x", "annotator": "ann", "human": {"c": 1}} for n in "ab"]
    assert [example.meta for example in Examples(rows)] == [{"annotator": "ann"}] * 2


def rated(id_, **fields):
    return Example(id=id_, output=f"Text {id_}.", **fields)


def test_ratings_of_further_files_are_joined_by_id():
    """Each file keeps its columns in every text; its sampling probability comes along."""
    data = [rated("a"), rated("b", annotators={"tone": (5,)}), rated("c")]
    one = [rated("a", annotators={"tone": (1, None)}, meta={"sampling_probability": 0.5})]
    two = [rated("b", annotators={"tone": (2,)}), rated("c", human={"tone": 4})]
    files = {"one.jsonl": list(Examples(one)), "two.jsonl": list(Examples(two))}
    a, b, c = Examples(WithRatings(Examples(data), files))
    assert (a.human, a.annotators) == ({"tone": 1}, {"tone": (1, None, None)})
    assert a.meta == {"sampling_probability": 0.5}
    assert (b.human, b.annotators) == ({"tone": 3.5}, {"tone": (None, None, 2, 5)})
    assert c.human == {"tone": 4}


@pytest.mark.parametrize(
    ("ratings", "words"),
    [
        (rated("z", human={"tone": 4}), "1 rated examples are not in the data, such as 'z' of f"),
        (rated("a", human={"tone": 4}), "a mean without single ratings"),
    ],
)
def test_ratings_that_cannot_be_joined_are_refused(ratings, words):
    data = [rated("a", annotators={"tone": (5, 4)})]
    with pytest.raises(DataError, match=words):
        list(WithRatings(Examples(data), {"f": Examples([ratings])}))
