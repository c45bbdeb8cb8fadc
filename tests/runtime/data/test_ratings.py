"""People's ratings: labels read as numbers, and ratings of several people in all their forms."""

import io
import json
import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.data.rows import complaint
from textassay.agreement.records import read_judge
from textassay.runtime.column_names import RATERS
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.ratings import LabelReader, WithRatings
from textassay.runtime.errors import DataError
from textassay.runtime.labels import LabelScale
from textassay.runtime.messages import Example

TONE = {"tone": LabelScale(("rude", "plain", "kind"), ordered=True)}


def rated(*ratings, **fields):
    return [
        {"id": str(at), "output": "x", "human": {"tone": rating}, **fields}
        for at, rating in enumerate(ratings)
    ]


def numbers(rows, **options):
    return [example.human.get("tone") for example in Examples(rows, **options)]


@pytest.mark.parametrize(
    ("ratings", "expected"),
    [
        ((True, False), [1, 0]),
        (("pass", " Fail", None), [1, 0, None]),
        (("yes", False), [1, 0]),
        ((1, "yes", 0), [1, 1, 0]),
        (("correct", "Incorrect"), [1, 0]),
    ],
)
def test_booleans_and_known_words_are_read_as_numbers(ratings, expected):
    assert numbers(rated(*ratings)) == expected


def tone(*names, ordered=True):
    return {"tone": LabelScale(names, ordered=ordered)}


@pytest.mark.parametrize(
    ("labels", "ratings", "expected"),
    [
        (TONE, ("Kind", "rude", "plain", 2, 0.5), [2, 0, 1, 2, 0.5]),
        (tone("no", "partial", "yes"), (True, "False", "partial"), [2, 0, 1]),
        (tone("yes", "partial", "no"), (True, False), [0, 2]),
        (tone("fail", "pass"), (True, "false", "Pass"), [1, 0, 1]),
        (tone("1", "2", "3", "4"), (1, 3.0, "4", "2.0", 2.5), [0, 2, 3, 1, 1.5]),
        (tone("2", "1", "0"), (0, 1, 2), [2, 1, 0]),
        (tone("1", "2", "5"), (5, 2), [2, 1]),
        (tone("1", "2", "unclear", ordered=False), (1, "unclear"), [0, 2]),
    ],
)
def test_labels_of_an_aspect_are_matched_by_name_before_position(labels, ratings, expected):
    assert numbers(rated(*ratings), labels=labels) == expected


def test_numerals_are_the_same_labels_in_every_place_and_format(tmp_path):
    labels = tone("1", "2", "3", "4")
    (row,) = rated(1.5)  # as `annotate` writes a mean of positions beside the labels
    row |= {"annotators": {"tone": ["2", 3]}, "metrics": {"tone": 4, "other": 4}}
    (example,) = Examples([row], labels=labels)
    assert (example.human["tone"], example.annotators["tone"]) == (1.5, (1, 2))
    assert example.metrics == {"tone": 3, "other": 4}
    file = tmp_path / "data.csv"
    file.write_text("id,output,human.tone,human.other\na,x,1,1\nb,x,4.0,4\n")
    flat = [one.human for one in Examples(file, labels=labels)]
    assert flat == [{"tone": 0, "other": 1}, {"tone": 3, "other": 4}]
    scores = tmp_path / "scores.jsonl"
    lines = [{"value": 3}, {"value": 3, "signature": ""}, {"value": "3"}]
    lines = [{"id": str(at), "aspect": "tone", **line} for at, line in enumerate(lines)]
    scores.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_judge(scores, LabelReader(labels))["tone"] == {"0": 2, "1": 3, "2": 2}


def test_metrics_and_single_raters_may_be_labels():
    rows = [
        {
            "id": "a",
            "output": "x",
            "metrics": {"judge": "pass"},
            "annotators": {"right": ["yes", "no", None, True]},
            "annotators.tone.ann": "kind",
            "annotators.tone.bob": "plain",
        }
    ]
    (example,) = Examples(rows, labels=TONE)
    assert example.metrics == {"judge": 1}
    assert example.annotators == {"right": (1, 0, None, 1), "tone": (2, 1)}
    assert example.human == {"right": pytest.approx(2 / 3), "tone": 1.5}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"Note Anna": "annotators.c.anna", "Note Ben": "annotators.c.ben"}, ("anna", "ben")),
        ({"Note Anna": "annotators.c", "Note Ben": "annotators.c"}, ("Note Anna", "Note Ben")),
        ({"Note Anna": "annotators.c.anna"}, ("anna",)),
    ],
)
def test_columns_are_mapped_to_raters_who_may_be_named(tmp_path, fields, names):
    file = tmp_path / "data.csv"
    file.write_text("id;output;Note Anna;Note Ben\na;x;4,5;3\nb;y;;2\n")
    data = Examples(file, fields=fields)
    rows = [(4.5, 3), (None, 2)]
    read = [one.annotators.get("c") for one in data]
    assert read == [row[: len(names)] if any(row[: len(names)]) else None for row in rows]
    assert data.rater_names("c") == names


def test_one_number_for_all_raters_is_refused_with_the_field_of_one_rater():
    data = Examples([{"id": "a", "output": "x", "note": 4}], fields={"note": "annotators.c"})
    with pytest.raises(
        DataError, match=r"a list, not 4; the column of one rater is annotators\.ASPECT\.RATER"
    ):
        data.check()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,output,human.tone\na,x,kind\nb,x,\nc,x,rude\n", [2, None, 0]),
        ("id,output,rater,human.tone\na,x,ann,kind\na,x,bob,plain\nb,x,ann,rude\n", [1.5, 0]),
    ],
)
def test_labels_are_written_in_flat_files(tmp_path, text, expected):
    file = tmp_path / "data.csv"
    file.write_text(text)
    assert numbers(file, labels=TONE) == expected


TOPICS = {"tone": LabelScale(("billing", "tone of voice"), multiple=True)}


def test_several_labels_are_yes_or_no_of_each(tmp_path):
    rows = rated(["Billing"], [], ["tone of voice", "billing"], None)
    rows[3]["annotators"] = {"tone": [["billing"], None, []]}
    read = list(Examples(rows, labels=TOPICS))
    assert [one.human.get("tone/billing") for one in read] == [1, 0, 1, 0.5]
    assert [one.human.get("tone/tone-of-voice") for one in read] == [0, 0, 1, 0]
    assert read[3].annotators["tone/billing"] == (1, None, 0)
    file = tmp_path / "data.csv"
    file.write_text("id,output,human.tone\na,x,billing; Tone of voice\nb,x,\nc,x,[]\nd,x,billing\n")
    flat = [one.human for one in Examples(file, labels=TOPICS)]
    assert flat == [
        {"tone/billing": 1, "tone/tone-of-voice": 1}, {},
        {"tone/billing": 0, "tone/tone-of-voice": 0}, {"tone/billing": 1, "tone/tone-of-voice": 0},
    ]  # fmt: skip


def test_raters_vote_on_labels_without_an_order():
    scale = {"tone": LabelScale(("rude", "plain", "kind"))}
    rows = rated(None, None)
    rows[0]["annotators"] = {"tone": ["kind", "rude", "kind"]}
    rows[1]["annotators"] = {"tone": ["kind", "rude"]}
    assert numbers(rows, labels=scale) == [2, None]


def test_any_word_may_be_a_category():
    reader = LabelReader(any_word=True)
    assert numbers(rated("kind", "Rude", "kind "), labels=reader) == [0, 1, 0]
    assert reader.categories == {("human", "tone"): {"kind": "kind", "rude": "Rude"}}


@pytest.mark.parametrize(
    ("ratings", "labels", "problem"),
    [
        (("pass", "yes"), {}, "row 2, field 'human.tone': is 'yes', and fail or pass in another"),
        ((4, "yes"), {}, "row 2, field 'human.tone': is no or yes in some rows and a number other"),
        (("yes", 4), {}, "row 2, field 'human.tone': is no or yes in some rows and a number other"),
        ((5, True), {}, "row 2, field 'human.tone': is false or true in some rows and a number"),
        (("kind",), {}, "row 1, field 'human.tone': should be a number, not 'kind'"),
        (("cold",), TONE, "row 1, field 'human.tone': should be one of rude, plain, kind, not"),
        ((True,), TONE, "row 1, field 'human.tone': should be one of rude, plain, kind, not True"),
        ((True,), tone("good", "bad"), "should be one of good, bad, not True"),
        (("N/A",), TONE, "should be one of rude, plain, kind, not 'N/A'; if it marks a missing"),
        ((0,), tone("1", "2", "3"), "should be one of 1, 2, 3, not 0"),
        ((2.5,), tone("1", "2", "5"), "should be one of 1, 2, 5, not 2.5"),
        ((3,), tone("1", "2", "unclear"), "should be one of 1, 2, unclear, not 3"),
        (
            (0.4,),
            tone("a", "b", "c", ordered=False),
            r"a label or its position, 0 \(a\), 1 \(b\), 2",
        ),
        ((["pricing"],), TOPICS, "row 1, field 'human.tone': should be a list of billing, tone of"),
        ((3,), TOPICS, "row 1, field 'human.tone': should be a list of billing"),
        (("kind", 2), None, "row 2, field 'human.tone': is 2, and a word in another row"),
        ((2, "kind"), None, "row 2, field 'human.tone': is 'kind', and a number, yes or no in"),
        ((1, "kind"), None, "row 2, field 'human.tone': is 'kind', and a number, yes or no in"),
        (("kind", "N/A"), None, "row 2, field 'human.tone': is 'N/A' among labels; if it marks a"),
        (("-", "kind"), None, "row 1, field 'human.tone': is '-' among labels; if it marks"),
        (("yes", "maybe"), None, "row 2, field 'human.tone': is 'maybe', and a number, yes or no"),
        (("maybe", "yes"), None, "row 2, field 'human.tone': is 'yes', and another word in"),
        (tuple(map("w{}".format, range(300))), None, "has 201 different words"),
    ],
)
def test_ratings_that_may_be_misread_are_refused(ratings, labels, problem):
    """By the labels of an aspect; `None` for a reader to which any word is a label."""
    labels = LabelReader(any_word=True) if labels is None else labels
    with pytest.raises(DataError, match=problem):
        numbers(rated(*ratings), labels=labels)


@given(
    st.lists(st.sampled_from([True, "no", "kind", "cold", 0, 1, 2, 4, 0.5, None]), min_size=1),
    st.randoms(),
    st.sampled_from([{}, TONE]),
    st.booleans(),
)
def test_files_of_scores_and_data_are_read_by_one_rule_in_any_order(
    tmp_path_factory, values, random, declared, any_word
):
    def read(some, place):
        rows = [{"id": str(at), "output": "x", place: {"tone": one}} for at, one in some]
        lines = [{"id": str(at), "aspect": "tone", "value": one} for at, one in some]
        file = tmp_path_factory.mktemp("scores") / "scores.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        try:
            reader = LabelReader(declared, any_word=any_word)
            if place == "value":
                return read_judge(file, reader)["tone"]
            return {one.id: one.metrics["tone"] for one in Examples(rows, labels=reader)}
        except DataError:
            return None

    numbered = list(enumerate(values))
    found = read(numbered, "metrics")
    assert read(numbered, "value") == found
    other = read(random.sample(numbered, len(numbered)), "value")
    if (
        found is None or other is None or not any_word
    ):  # which numbers words get is a matter of order
        assert other == found


# raters

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
b,Two.,bob,
b,Two.,cy,4
"""


def read(source, **options):
    """Return ratings and means by id."""
    return {
        example.id: (example.annotators.get("coherence"), example.human.get("coherence"))
        for example in Examples(source, **options)
    }


@pytest.mark.parametrize("kind", ["path", "frame", "nullable"])
@pytest.mark.parametrize(
    ("text", "fields"), [(WIDE, MAP), (NAMED, None), (LISTS, None), (LONG, None)]
)
def test_every_form_of_ratings_says_the_same(tmp_path, text, fields, kind):
    """From a file and from the data frame that pandas makes of it; the mean follows."""
    path = tmp_path / "data.csv"
    path.write_text(text)
    frame = pd.read_csv(io.StringIO(text))
    source = {"path": path, "frame": frame, "nullable": frame.convert_dtypes()}[kind]
    expected = {"a": ((3.0, 1.0, 2.0), 2.0), "b": ((5.0, None, 4.0), 4.5)}
    assert read(source, fields=fields) == expected
    assert Examples(source, fields=fields).check().human == {"coherence": 2}


def test_one_row_per_rater_may_have_decimal_commas_and_marks(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("id;output;rater;human.coherence\na;x;ann;4,5\na;x;bob;N/A\nb;y;ann;\n")
    assert read(path, missing=["n/a"]) == {"a": ((4.5, None), 4.5), "b": ((None, None), None)}


def test_a_mean_that_is_given_stays_and_one_that_follows_is_not_data():
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
    unnamed = [{"": row["id"]} | {k: v for k, v in row.items() if k != "id"} for row in rows]
    assert read(unnamed, fields=fields | {"": "id"}) == {"a": ((1.0, 3.0), 2.0)}
    apart = [rows[0], {**rows[1], "id": "b"}]
    assert read(apart, fields=fields) == {"a": ((1.0, None), 1.0), "b": ((None, 3.0), 3.0)}
    with pytest.raises(DataError, match="the rows have no 'id'"):
        Examples([{"output": "x", "who": "ann", "coh": 1}], fields=fields).check()


@pytest.mark.parametrize("cells", [{}, {"who": None, "coh": None}, {"who": "", "coh": math.nan}])
def test_a_map_of_raters_fits_rows_that_nobody_rated_yet(cells):
    rows = [{"id": id_, "output": "x", **cells} for id_ in "ab"]
    examples = Examples(rows, fields={"who": "rater", "coh": "human.coherence"})
    assert [(one.human, one.annotators) for one in examples] == [({}, {})] * 2
    assert set(examples.check().unused_map) == (set() if cells else {"coh"})


@pytest.mark.parametrize("name", ["ID", "item_id", "textId", "uid"])
def test_the_column_of_rated_texts_may_have_another_name(name):
    rows = [
        {name: "a", "output": "x", "labeler": who, "human.coherence": rating}
        for who, rating in (("ann", 1), ("bob", 3))
    ]
    assert read(rows) == {"a": ((1.0, 3.0), 2.0)}


@pytest.mark.parametrize("who", ["user", "annotator"])
@pytest.mark.parametrize("text", ["output", "system"])
@pytest.mark.parametrize("item", ["qid", "item", "sample_id", "uid"])
def test_an_item_with_several_texts_is_no_text(item, text, who):
    rows = [
        {item: "q", "output": "y", text: f"x{n}", who: "ann", "human.coherence": n} for n in (1, 2)
    ]
    assert list(read(rows).values()) == [(None, 1.0), (None, 2.0)]


def test_ratings_by_name_are_those_of_columns():
    ratings = [{"ann": 1, "bob": 2}, {"bob": 2, "ann": 1}, {"bob": 3, "c.d": 4}]
    rows = [
        {"output": f"x{at}", "annotators": {"c": by, "d": [5]}} for at, by in enumerate(ratings)
    ]
    data = Examples(rows)
    assert [e.annotators["c"] for e in data] == [(1, 2), (1, 2), (None, 3, 4)]
    assert data.rater_names("c") == ("ann", "bob", "c_d")
    assert {e.annotators["d"] for e in data} == {(5,)}


def test_raters_keep_their_places_in_rows_that_lack_some_or_have_another_order():
    for names in (("c.ann", "c.bob"), ("r1", "r2")):
        ann, bob = (name.replace("c.", "annotators.c.") for name in names)
        fields = {name: "annotators.c" for name in names if "." not in name}
        rows = [{"output": "x", ann: 1, bob: 2}, {"output": "y", bob: 2, ann: 1},
                {"output": "z", bob: 2}, {"output": "v", ann: 1}]  # fmt: skip
        found = [example.annotators["c"] for example in Examples(rows, fields=fields)]
        assert found == [(1, 2), (1, 2), (None, 2), (1, None)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, "row 2: rater 'ann' rated 'a' before"),
        ({"rater": None}, "row 2, field 'rater': is empty; name the rater"),
        ({"rater": " "}, "row 2, field 'rater': is empty; name the rater"),
        ({"id": None}, "row 2, field 'id': is empty; give the id of the rated text"),
        (
            {"rater": "bob", "output": "y"},
            "row 2, field 'output': differs from an earlier row",
        ),
        (
            {"rater": "bob", "system": "B"},
            "row 2, field 'system': differs from an earlier row",
        ),
    ],
)
def test_a_row_of_a_rater_that_does_not_fit_is_named(changed, message):
    """Two texts under one id would lose one of them, and unnamed raters would be taken for one."""
    row = {"id": "a", "output": "x", "system": "A", "rater": "ann", "human.c": 1}
    last = {**row, "rater": "cy"}
    for second in ({**row, **changed}, {k: v for k, v in {**row, **changed}.items() if v}):
        with pytest.raises(DataError, match=message):
            Examples([row, second, last]).check()


def test_a_row_of_no_rater_may_be_of_the_text_alone():
    row = {"id": "a", "output": "x"}
    rows = [{**row, "rater": None, "human.c": None}, {**row, "rater": "ann", "human.c": 1}]
    assert [one.annotators for one in Examples(rows)] == [{"c": (1,)}]
    with pytest.raises(DataError, match="row 2: is "):
        Examples([{**row, "rater": "ann"}, 5]).check()


def test_a_column_of_raters_without_repeated_ids_is_a_field_like_others():
    rows = [{"id": n, "output": "x", "annotator": "ann", "human": {"c": 1}} for n in "ab"]
    assert [example.meta for example in Examples(rows)] == [{"annotator": "ann"}] * 2


def text_rated(id_, **fields):
    return Example(id=id_, output=f"Text {id_}.", **fields)


def test_ratings_of_further_files_are_joined_by_id():
    """Each file keeps its columns in every text; its sampling probability comes along."""
    data = [text_rated("a"), text_rated("b", annotators={"tone": (5,)}), text_rated("c")]
    one = [text_rated("a", annotators={"tone": (1, None)}, meta={"sampling_probability": 0.5})]
    two = [text_rated("b", annotators={"tone": (2,)}), text_rated("c", human={"tone": 4})]
    files = {"one.jsonl": list(Examples(one)), "two.jsonl": list(Examples(two))}
    a, b, c = Examples(WithRatings(Examples(data), files))
    assert (a.human, a.annotators) == ({"tone": 1}, {"tone": (1, None, None)})
    assert a.meta == {"sampling_probability": 0.5}
    assert (b.human, b.annotators) == ({"tone": 3.5}, {"tone": (None, None, 2, 5)})
    assert c.human == {"tone": 4}


@pytest.mark.parametrize(
    ("ratings", "words"),
    [
        (
            text_rated("z", human={"tone": 4}),
            "1 rated examples are not in the data, such as 'z' of f",
        ),
        (text_rated("a", human={"tone": 4}), "a mean without single ratings"),
    ],
)
def test_ratings_that_cannot_be_joined_are_refused(ratings, words):
    data = [text_rated("a", annotators={"tone": (5, 4)})]
    with pytest.raises(DataError, match=words):
        list(WithRatings(Examples(data), {"f": Examples([ratings])}))


@pytest.mark.parametrize("column", [*RATERS, "Annotator", "Rater ID", "workerId"])
def test_the_column_of_raters_is_found_in_any_case_with_any_separators(column):
    rows = [{"id": "a", "output": "x", column: who, "human.coherence": rating}
            for who, rating in (("ann", 4), ("bob", 5))]  # fmt: skip
    data = Examples(rows)
    assert [one.annotators for one in data] == [{"coherence": (4.0, 5.0)}]
    assert data.rater_names("coherence") == ("ann", "bob")


def test_of_two_columns_that_may_name_raters_the_surer_one_does():
    """In chats, a user may be who asked."""
    rows = [{"id": "a", "output": "x", "user": "eve", "annotator": who, "human.coherence": 4}
            for who in ("ann", "bob")]  # fmt: skip
    data = Examples(rows)
    data.check()
    assert data.rater_names("coherence") == ("ann", "bob")


def test_a_user_is_a_rater_only_of_rows_with_one_id():
    """Otherwise the judge does not see a column that it may be meant to see, which is reported."""
    data = Examples([{"id": n, "output": "x", "user": "ann", "human.c": 1} for n in "ab"])
    assert data.check().unseen == {"user": 2}


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ({"worker": "ann"}, {"user": "context"}),
        ({"user_id": "ann"}, {"user": "meta"}),
        ({"annotator": "ann", "expert": "eve"}, {"user": "source", "expert": "rater"}),
    ],
)
def test_a_mapped_column_is_no_rater(columns, fields):
    rated = {"id": "a", "output": "x", "user": "Why?", "human.c": 1}
    data = Examples([rated | columns, rated | dict.fromkeys(columns, "bob")], fields=fields)
    [example] = data
    assert example.annotators == {"c": (1, 1)}
    assert "Why?" in (example.context, example.source, example.meta.get("user"))
    assert data.rater_names("c") == (list(columns.values())[-1], "bob")


def test_a_table_whose_raters_and_ids_are_mapped_elsewhere_is_not_joined():
    rows = [{"id": n, "assistant": "x", "user": "q", "aspect": "tone", "value": "fine"}
            for n in "ab"]  # fmt: skip
    read_rows = list(Examples(rows, fields={"assistant": "output", "user": "source"}))
    assert [(one.source, one.meta["value"]) for one in read_rows] == [("q", "fine")] * 2
    rows = [{"id": "g", "output": n, "rater": "ann", "human.c": 1} for n in "xy"]
    assert [one.group for one in Examples(rows, fields={"id": "group"})] == ["g", "g"]


@pytest.mark.parametrize(
    "header", ["id,aspect,rater,value", "ID,Aspect,Rater,Value", "Text ID,aspect,annotator,value"]
)
def test_tables_with_a_row_for_each_rater_and_aspect_lose_no_rating(header, tmp_path):
    """As `textassay ratings export csv` writes them, or people do."""
    path = tmp_path / "long.csv"
    path.write_text(f"{header},output\na,tone,ann,4,x\na,tone,bob,2,x\n"
                    "a,use,ann,80%,x\nb,use,bob,,y\n")  # fmt: skip
    first, second = Examples(path)
    assert (first.id, second.id) == ("a", "b")
    assert first.annotators == {"tone": (4.0, 2.0), "use": (0.8, None)}
    assert (first.human, second.human) == ({"tone": 3.0, "use": 0.8}, {})


def test_rows_of_raters_without_ratings_are_refused():
    """Joined by id, all rows but the first of each text would be gone."""
    rows = [{"id": "a", "output": "x", "rater": who, "grade": 4} for who in ("ann", "bob")]
    with pytest.raises(DataError, match=r'no column with ratings; name it: .*"human.ASPECT"'):
        Examples(rows).check()
    (rated,) = Examples(rows, fields={"grade": "human.tone"})
    assert rated.annotators["tone"] == (4, 4)


def test_equal_texts_with_one_id_may_be_of_several_raters():
    rows = [{"id": "a", "output": "x", "who": who, "human.c": 4} for who in ("ann", "bob")]
    with pytest.raises(DataError, match=r'map their column: .*"COLUMN": "rater"'):
        Examples(rows).check()


def test_no_rating_is_lost_where_two_raters_have_one_name() -> None:
    """A dot separates aspect and rater in the names of columns, so it becomes an underscore."""
    row = {"output": "x", "annotators": {"c": {"a.x": 3, "a_x": 1}}}
    with pytest.raises(DataError, match=r"row 1, field 'annotators.c': has a second rater 'a_x'"):
        list(Examples([row]))


RATERS_FIRST: list[tuple[dict[str, Any], str]] = [
    ({"annotators": {"r1": {"coherence": 4}}}, "annotators.r1"),
    ({"annotators": {"rater_1": {"c": 4}, "rater_2": {"c": 5}}}, "annotators.rater_"),
    ({"annotators": {"0": {"c": 4}, "1": {"d": 5}}}, "annotators."),
    ({"human": {"c": 4.5}, "annotators": {"ann": {"c": 4}, "bob": {"c": 5}}}, "annotators."),
    ({"human.c": 4.5, "annotators": {"ann": {"c": 4}}}, "annotators.ann"),
]


@pytest.mark.parametrize(("row", "field"), RATERS_FIRST)
def test_raters_before_aspects_are_refused(row: dict[str, Any], field: str) -> None:
    """They would be read as aspects."""
    refusal = complaint([{"id": "a", "output": "x", **row}])
    assert f"field '{field}" in refusal
    assert "aspects come first: {" in refusal


@pytest.mark.parametrize(
    "row",
    [
        {"annotators": {"coherence": {"r1": 4}}},
        {"annotators": {"c": {"ann": 4}, "d": {"bob": 4}}},
        {"annotators": {"r1": {"r1": 4, "r2": 5}}},
        {"human": {"c": 4.5}, "annotators": {"d": {"ann": 4}}},
        {"human": {"c": 4.5}, "annotators": {"c": {"ann": 4}}},
        {"annotators.r1.ann": 4},
    ],
)
def test_aspects_before_raters_are_read(row: dict[str, Any]) -> None:
    """Whatever their names are."""
    (example,) = Examples([{"id": "a", "output": "x", **row}])
    assert all(len(ratings) <= 2 for ratings in example.annotators.values())
    assert example.annotators
