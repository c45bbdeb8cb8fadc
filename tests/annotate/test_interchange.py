"""Ratings from and to other annotation tools."""

import csv
import gzip
import json
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.annotate.test_study import examples
from tests.pictures import png_uri
from textassay.annotate import interchange
from textassay.methods.library import tasks
from textassay.runtime.conversation import ConversationMessage
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError, UnknownName
from textassay.runtime.messages import Aspect, Example

LABEL_STUDIO = json.dumps([{
    "id": 7,
    "data": {"id": "doc-0-SECRET0", "output": "x"},
    "annotations": [
        {"completed_by": 3, "result": [
            {"from_name": "tone", "type": "choices", "value": {"choices": ["4"]}},
            {"from_name": "flow", "type": "rating", "value": {"rating": 2}},
        ]},
        {"completed_by": {"id": 9}, "result": [
            {"from_name": "tone", "type": "choices", "value": {"choices": ["5"]}},
        ]},
        {"completed_by": 4, "was_cancelled": True, "result": []},
    ],
}])  # fmt: skip
CSV = "id,aspect,rater,value\ndoc-0-SECRET0,tone,ann,4\ndoc-0-SECRET0,tone,bob,5\n"
CSV += "doc-0-SECRET0,flow,ann,2\ndoc-0-SECRET0,flow,bob,\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    ("form", "text"),
    [("label-studio", LABEL_STUDIO), ("csv", CSV), ("csv", CSV.replace(",", ";"))],
)
def test_every_tool_says_the_same(form, text, encoding, pack, tmp_path):
    """Raters become pseudonyms in a fixed order; a missing rating is a gap, not a number."""
    path = tmp_path / ("export.gz" if pack is gzip.compress else "export")
    path.write_bytes(pack(text.encode(encoding)))
    [row] = interchange.read(form, path).rows
    assert row == {
        "id": "doc-0-SECRET0",
        "human": {"tone": 4.5, "flow": 2.0},
        "annotators": {"tone": [4.0, 5.0], "flow": [2.0, None]},
        "raters": ["r1", "r2"],
    }
    [full] = interchange.with_examples([row], examples())
    assert full["output"].startswith("Output 0")


def _label_studio(*answers):
    results = [
        [{"from_name": name, "value": {"choices": labels}} for name, labels in answer.items()]
        for answer in answers
    ]
    given = [{"completed_by": at, "result": result} for at, result in enumerate(results)]
    return [{"data": {"id": "x"}, "annotations": given}]


def test_labels_come_back_by_their_names(tmp_path):
    """One label, or several of which one or none was chosen."""
    labeled = [
        Aspect(name="tone", definition="t", labels={"rude": "", "plain": "", "kind": ""}),
        Aspect(name="topics", definition="t", multiple=True, labels={"bill": "", "refund": ""}),
    ]
    task = tasks.load("general", labeled)
    written = interchange.write(
        "label-studio", [Example(id="x", output="A.")], task, tmp_path / "tasks"
    )
    questions = "".join(path.read_text() for path in written)
    assert all(f'"{word}"' in questions for word in ("plain", "refund", "none of these"))
    path = tmp_path / "export.json"
    answers = [
        {"tone": ["kind"], "topics": ["bill", "refund"]},
        {"tone": ["rude"], "topics": ["bill"]},
        {"tone": ["kind"], "topics": ["none of these"]},
    ]
    path.write_text(json.dumps(_label_studio(*answers)))
    [row] = interchange.read("label-studio", path).rows
    assert row["annotators"] == {
        "tone": ["kind", "rude", "kind"], "topics": [["bill", "refund"], ["bill"], []],
    }  # fmt: skip
    assert row["human"] == {"tone": "kind"}


TEXTS = st.text("ab \n", min_size=1, max_size=5).filter(str.strip)
CALLED = st.builds(
    lambda name, given: [
        {"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": name, "arguments": given}}
        ]},
        {"role": "tool", "tool_call_id": "1", "content": ""},
    ],
    st.sampled_from("fg"), st.sampled_from(["{}", '{"a": 1}']),
)  # fmt: skip
MESSAGE = st.builds(
    lambda role, text: [{"role": role, "content": text}],
    st.sampled_from(["system", "user", "assistant", "critic"]), TEXTS,
)  # fmt: skip
MATERIAL = st.fixed_dictionaries({"id": TEXTS, "output": TEXTS}, optional={
    "source": TEXTS,
    "references": st.lists(TEXTS, max_size=2),
    "messages": st.lists(st.one_of(MESSAGE, CALLED), max_size=3).map(lambda some: [*chain(*some)]),
    "passages": st.lists(
        st.fixed_dictionaries({"text": TEXTS}, optional={"id": TEXTS, "score": st.floats(0, 1)}),
        max_size=2,
    ),
    "images": st.just([png_uri(1), "https://example.org/a.png"]),
    "rubric": st.lists(
        st.fixed_dictionaries({"criterion": TEXTS}, optional={
            "points": st.sampled_from([1, 2.5]), "tags": st.lists(TEXTS), "human": st.booleans(),
        }),
        max_size=2,
    ),
    "metrics": st.dictionaries(st.sampled_from(["bleu"]), st.floats(0, 1)),
    "policy": TEXTS, "note": TEXTS, "raters": st.just(["r1", "r2"]),
})  # fmt: skip
"""Rows with everything that an example can have."""


@given(MATERIAL)
def test_rated_rows_are_read_as_the_examples_that_were_rated(row):
    """Calls, passages, images and criteria included, and fields that the field map sent to meta."""
    sent = {name: "meta" for name in ("policy",) if name in row}
    (example,) = Examples([row], fields=sent)
    rated = {"id": example.id, "annotators": {"tone": [4.0]}, "raters": ["r1"]}
    (written,) = interchange.with_examples([rated], [example])
    (again,) = Examples([json.loads(json.dumps(written))])
    expected = {
        "human": {"tone": 4.0}, "annotators": {"tone": (4.0,)},
        "meta": {**example.meta, "raters": ["r1"]},
    }  # fmt: skip
    assert again == example.model_copy(update=expected)


def test_conversations_of_earlier_files_are_read():
    """Their messages have no content where there is nothing in it."""
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "calls": [{"name": "f", "arguments": "{}", "id": "1"}]},
        {"role": "tool", "call_id": "1"},
    ]
    (example,) = Examples([{"id": "a", "output": "done", "messages": messages}])
    assert example.messages == tuple(ConversationMessage(**one) for one in messages)


@pytest.mark.parametrize(
    ("value", "rating"),
    [("4", 4.0), (" 4.5 ", 4.5), ("3 stars", "3 stars"), ("a; b", ["a", "b"]), ("", None)],
)
def test_words_in_a_table_stay_words(value, rating, tmp_path):
    """A label that begins with a number is not read as a number; an empty cell is a gap."""
    path = tmp_path / "ratings.csv"
    path.write_text(f"id,aspect,rater,value\na,tone,ann,{value}\n")
    [row] = interchange.read("csv", path).rows
    assert row["annotators"] == {"tone": [rating]}


@pytest.mark.parametrize("form", ["label-studio", "csv"])
@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"id": 1}]', "a,b\n1,2\n"])
def test_files_that_are_not_exports_are_refused(form, text, tmp_path):
    """The message names the file and the format."""
    path = tmp_path / "export"
    path.write_text(text)
    with pytest.raises(DataError, match=r"export|no ratings|column"):
        interchange.read(form, path)


def test_a_damaged_archive_is_refused_in_words(tmp_path):
    (tmp_path / "export.gz").write_bytes(gzip.compress(LABEL_STUDIO.encode())[:40])
    with pytest.raises(DataError, match="damaged gzip"):
        interchange.read("label-studio", tmp_path / "export.gz")


def test_unknown_formats_and_ids_are_named(tmp_path):
    """With what there is."""
    with pytest.raises(UnknownName, match="label-studio"):
        interchange.read("labelstudio", tmp_path)
    with pytest.raises(DataError, match="'nowhere'"):
        interchange.with_examples([{"id": "nowhere"}], examples())


@pytest.mark.parametrize("form", ["csv", "label-studio"])
def test_exported_tasks_are_blind_and_say_what_labels_mean(form, tmp_path):
    """Systems and scores stay behind."""
    tone = Aspect(name="tone", definition="t", labels={"rude": "it insults", "plain": ""})
    task = tasks.load("summarization", ["fluency", tone])
    named = [example.model_copy(update={"id": f"e{n}"}) for n, example in enumerate(examples())]
    written = interchange.write(form, named, task, tmp_path / "tasks")
    text = "".join(path.read_text() for path in written)
    assert all(words in text for words in ("Output 0 of some", "fluency", "it insults"))
    assert not any(words in text for words in ("SECRET", "4.875"))


def test_a_written_table_comes_back_with_its_ratings(tmp_path):
    """Raters fill in their names and values; a text that looks like a formula stays a text."""
    task = tasks.load("summarization", ["fluency"])
    items = [Example(id=f"e{n}", output="=1+1", source="A source.") for n in range(2)]
    [path] = interchange.write("csv", items, task, tmp_path / "tasks")
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["output"] for row in table] == ["'=1+1"] * 2
    with path.open("w", newline="") as file:
        filled = csv.DictWriter(file, list(table[0]))
        filled.writeheader()
        filled.writerows({**row, "rater": "ann", "value": 4} for row in table)
    rows = interchange.read("csv", path).rows
    assert [(row["id"], row["human"]) for row in rows] == [
        (f"e{n}", {"fluency": 4.0}) for n in (0, 1)
    ]


def _result(name, kind, **value):
    return {"from_name": name, "type": kind, "value": value}


BESIDE = [
    _result("comment", "textarea", text=["Reads well."]),
    _result("spans", "labels", start=0, end=4, labels=["Error"]),
    _result("when", "datetime", datetime="2026-01-01"),
    {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"},
    _result("order", "ranker", ranker=["b", "a"]),
]


@pytest.mark.parametrize(
    ("result", "rating"),
    [
        (_result("q", "rating", rating=4), 4.0),
        (_result("q", "number", number=7), 7.0),
        (_result("q", "choices", choices=["kind"]), "kind"),
        (_result("q", "pairwise", selected="left"), 1.0),
        (_result("q", "pairwise", selected="right"), 0.0),
        (_result("q", "taxonomy", taxonomy=[["form", "style"], ["form", "rhyme"]]),
         ["form/style", "form/rhyme"]),
    ],
)  # fmt: skip
def test_annotations_that_are_not_ratings_are_left_out_and_counted(result, rating, tmp_path):
    """Comments, spans, dates, relations and orders are beside ratings; texts hold U+2028."""
    path = tmp_path / "export.json"
    task = {"id": 5, "data": {"id": "d1", "text": "a\u2028b"},
            "annotations": [{"completed_by": 1, "result": [result, *BESIDE]}]}  # fmt: skip
    for text in (json.dumps([task]), json.dumps(task, ensure_ascii=False) + "\n"):
        path.write_text(text, encoding="utf-8")
        rows, [note] = interchange.read("label-studio", path)
        assert rows[0]["annotators"] == {"q": [rating]}
        for left_out in ("comment (textarea): 1", "spans (labels): 1", "relations: 1"):
            assert left_out in note


@pytest.mark.parametrize("name", ["id", "email", "username"])
def test_raters_are_known_by_any_of_their_names(name, tmp_path):
    path = tmp_path / "export.json"
    annotations = [
        {
            "completed_by": {name: one, "first_name": ""},
            "result": [_result("q", "rating", rating=at)],
        }
        for at, one in enumerate(["a@x", "b@x"])
    ]
    path.write_text(json.dumps([{"id": 5, "data": {}, "annotations": annotations}]))
    assert interchange.read("label-studio", path).rows[0]["annotators"] == {"q": [0.0, 1.0]}


def test_ratings_of_regions_do_not_rate_their_text(tmp_path):
    """Neither replaces the other in silence; what a rater says again does, and it is said."""
    path = tmp_path / "export.json"
    regions = [_result("q", "rating", rating=one, start=one) for one in (4, 2)]
    task = {"id": 5, "data": {}, "annotations": [
        {"completed_by": 1, "result": [*regions, _result("r", "rating", rating=1)]},
        {"completed_by": 1, "result": [_result("r", "rating", rating=3)]},
    ]}  # fmt: skip
    path.write_text(json.dumps([task]))
    rows, notes = interchange.read("label-studio", path)
    assert (rows[0]["id"], rows[0]["annotators"]) == ("5", {"r": [3.0]})
    assert notes[0].endswith("q (of regions): 2")
    assert notes[1].startswith("ids are the numbers of Label Studio's tasks")
    assert notes[2].endswith("the last of their ratings counts (1)")


def test_exports_with_a_column_for_each_question_are_read(tmp_path):
    """JSON-MIN, CSV and TSV put the number of a task in the place of our id."""
    written = interchange.write(
        "label-studio", [Example(id="e1", output="A.")], tasks.load("general"), tmp_path / "tasks"
    )
    [task] = json.loads(written[0].read_text())
    # as label_studio_sdk.converter 2.1.2 writes <Rating>, <Number>, <Choices> and two regions
    columns = {**task["data"], "id": 9, "annotator": 3, "annotation_id": 4, "lead_time": 1.5,
               "fluency": [{"rating": 4}], "words": [{"number": 7}], "plain": 3,
               "tone": {"choices": ["a", "b"]}, "clear": "yes", "comment": "Too long.",
               "notes": ["Too long.", "And rude."],
               "parts": [{"start": 0, "end": 2, "rating": 1}, {"start": 3, "end": 5, "rating": 2}],
               }  # fmt: skip
    (tmp_path / "min.json").write_text(json.dumps([columns]))
    cells = {name: json.dumps(value) if isinstance(value, dict | list) else value
             for name, value in columns.items()}  # fmt: skip
    for name, delimiter in (("export.csv", ","), ("export.tsv", "\t")):
        with (tmp_path / name).open("w", newline="") as file:
            rows = csv.DictWriter(file, list(cells), delimiter=delimiter)
            rows.writeheader()
            rows.writerow(cells)
    for name in ("min.json", "export.csv", "export.tsv"):
        rows, notes = interchange.read("label-studio", tmp_path / name)
        assert rows[0]["id"] == "e1"
        assert rows[0]["annotators"] == {
            "fluency": [4.0], "words": [7.0], "plain": [3.0], "tone": [["a", "b"]],
            "clear": ["yes"],
        }  # fmt: skip
        assert "comment (texts and regions): 1" in notes[0]
        assert "parts (texts and regions): 1" in notes[0]
        assert "notes (texts and regions): 1" in notes[0]


@pytest.mark.parametrize(("word", "advised"), [("4/5", "the number alone"), ("N/A", "missing=")])
def test_words_among_numbers_are_refused_with_their_place(word, advised, tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(f'id,aspect,rater,value\na,tone,ann,4\nb,tone,ann,"{word}"\n')
    with pytest.raises(DataError, match=f"the example 'b' is rated {word!r} on 'tone'") as caught:
        interchange.read("csv", path)
    assert advised in str(caught.value)
    path.write_text('id,aspect,rater,value\na,tone,ann,"1,234"\n')
    with pytest.raises(DataError, match="line 2, field 'value': '1,234' may be 1234"):
        interchange.read("csv", path)
    path.write_text("id,aspect,rater,value\na,tone,ann,85%\na,tone,bob,90\n")
    with pytest.raises(DataError, match="line 3, field 'value': is '90', and other rows are in"):
        interchange.read("csv", path)
    path.write_text("id;aspect;rater;value\na;tone;ann;4,5\n")
    assert interchange.read("csv", path).rows[0]["annotators"] == {"tone": [4.5]}


@pytest.mark.parametrize(
    "place", [{"start": 0, "end": 4}, {"x": 1.0, "y": 2.0}, {"ranges": []}, {"points": [[1, 2]]}]
)
def test_a_rating_of_one_region_is_none_of_the_text(place, tmp_path):
    """Neither as JSON nor in the columns of JSON-MIN."""
    path = tmp_path / "export.json"
    results = [_result("fluency", "rating", rating=4), _result("q", "rating", rating=2, **place)]
    whole = {"id": 5, "data": {}, "annotations": [{"completed_by": 1, "result": results}]}
    column = {"id": 5, "fluency": 4, "q": [{"rating": 2, **place}], "annotator": 1}
    for task in (whole, column):
        path.write_text(json.dumps([task]))
        rows, notes = interchange.read("label-studio", path)
        assert rows[0]["annotators"] == {"fluency": [4.0]}
        assert "q (" in notes[0]


def test_annotations_without_an_annotator_are_all_kept(tmp_path):
    results = [{"result": [_result("q", "rating", rating=one)]} for one in (4, 2)]
    path = tmp_path / "export.json"
    path.write_text(json.dumps([{"id": 5, "data": {}, "annotations": results}]))
    rows, notes = interchange.read("label-studio", path)
    assert rows[0]["annotators"] == {"q": [4.0, 2.0]}
    assert "annotators have no names: the first of each text count as one" in notes


def test_two_texts_with_one_id_are_refused(tmp_path):
    """The ratings of one would count for the other."""
    tasks = [
        {"id": n, "data": {"id": "same", "text": text},
         "annotations": [{"completed_by": 1, "result": [_result("q", "rating", rating=n)]}]}
        for n, text in enumerate(("One.", "Another."), start=1)
    ]  # fmt: skip
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    with pytest.raises(DataError, match="two tasks have the id 'same' and different data"):
        interchange.read("label-studio", path)
