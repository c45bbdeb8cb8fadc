"""What raters are asked, and what a browser may see."""

from dataclasses import replace

import pytest

from textassay.annotate.ratings import (
    CollectedRatings,
    RaterAnswer,
    Visit,
    rating_rows,
    read_sampled,
)
from textassay.annotate.study import Guidelines, RatingQuestion, Study
from textassay.methods.library import tasks
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Aspect, Example

TONE = Aspect(name="tone", definition="whether the tone is even.", scale=(1, 5))
POLITE = Aspect(
    name="polite", definition="politeness.", scale=(0, 1), question="Is the reply polite?"
)


def examples(groups: int = 3, systems: int = 2, **extra: object) -> list[Example]:
    """Return `groups` sources with one output per system, whose ids name the system."""
    return [
        Example(
            id=f"doc-{group}-SECRET{system}",
            output=f"Output {group} of some system, number {system}.",
            source=f"Source {group}.",
            system=f"SECRET{system}",
            group=f"doc-{group}",
            metrics={"judge/tone": 4.875},
            meta=dict(extra),
        )
        for group in range(groups)
        for system in range(systems)
    ]


def study(items: list[Example] | None = None, **design: object) -> Study:
    """Return a study of two aspects, without repeated items unless asked for."""
    design.setdefault("repeat_share", 0.0)
    return Study(items or examples(), tasks.load("general", [TONE, POLITE]), **design)


@pytest.mark.parametrize(
    ("scale", "kind", "values"),
    [
        ((1, 5), "buttons", (1, 2, 3, 4, 5)),
        ((1, 10), "buttons", tuple(range(1, 11))),
        ((0, 1), "yes-no", (0, 1)),
        ((0, 100), "number", (0, 100)),
        ((0, 0.5), "number", (0, 0.5)),
    ],
)
def test_the_scale_decides_how_a_question_is_answered(scale, kind, values):
    """Buttons for a few whole ratings, yes or no for 0 and 1, a number otherwise."""
    question = RatingQuestion.of(Aspect(name="a", definition="b", scale=scale), paired=False)
    assert (question.kind, question.values) == (kind, values)
    assert study().questions[1].definition == "Is the reply polite?"


LABELED = [
    Aspect(name="ok", definition="b", labels={"pass": "all is right", "fail": "it is wrong"}),
    Aspect(name="intent", definition="b", labels={"order": "", "complaint": "", "question": ""}),
    Aspect(
        name="topics", definition="b", multiple=True, labels={"an invoice": "", "refund": "money"}
    ),
]


def test_labels_are_chosen_by_their_names():
    """A button for each, or a box where several may apply."""
    one, _, several = (RatingQuestion.of(aspect, paired=False) for aspect in LABELED)
    assert (one.kind, one.values) == ("labels", (0, 1))
    assert one.labels == (("fail", "it is wrong"), ("pass", "all is right"))
    assert (several.kind, several.values) == ("several", (0, 1))
    assert several.names == ("topics/an-invoice", "topics/refund")
    assert several.labels == (("an invoice", ""), ("refund", "money"))


async def test_ratings_of_labels_name_them_and_are_read_again(tmp_path):
    """Nothing is coded by hand, neither by raters nor by who reads their ratings."""
    labeled = Study([Example(id="x", output="It is so.")], tasks.load("general", LABELED))
    key = labeled.keys[0]
    said = [(1, 2, 0, 1), (1, 0, None, None), (0, 2, 0, 0)]
    async with CollectedRatings(labeled, tmp_path / "journal.jsonl") as ratings:
        for ok, intent, invoice, refund in said:
            rater, _ = await ratings.add_rater()
            checked = labeled.check(
                {"ok": ok, "intent": intent, "topics/an-invoice": invoice, "topics/refund": refund}
            )
            await ratings.record(Visit(rater.name, key), RaterAnswer(checked, 1, 1.0, 0))
        (row,) = rating_rows(ratings.snapshot())
    assert row["annotators"] == {
        "ok": ["pass", "pass", "fail"],
        "intent": ["question", "order", "question"],
        "topics": [["refund"], None, []],
    }
    assert row["human"]["intent"] == "question"
    scales = {aspect.name: aspect.label_scale for aspect in LABELED}
    (read,) = Examples([row], labels=scales)
    assert read.annotators["intent"] == (2, 0, 2)
    assert read.annotators["topics/refund"] == (1, None, 0)
    assert read.human == {
        "ok": pytest.approx(2 / 3), "intent": 2, "topics/an-invoice": 0, "topics/refund": 0.5,
    }  # fmt: skip


GUIDELINES = Guidelines("guide.md", "# Tone\n\n<b>5</b>: even throughout.")


async def test_ratings_say_under_which_guidelines_they_were_given(tmp_path):
    """By name and digest, which a reader keeps; under another text a new file is begun."""
    told = study(guidelines=GUIDELINES)
    assert told.browser_view()["guidelines"]["text"] == GUIDELINES.text
    async with CollectedRatings(told, tmp_path / "journal.jsonl") as ratings:
        rater, _ = await ratings.add_rater()
        answer = RaterAnswer({"tone": 4.0, "polite": 1.0}, 1, 1.0, 0)
        await ratings.record(Visit(rater.name, told.keys[0]), answer)
        (row,) = rating_rows(ratings.snapshot())
    assert row["guidelines"] == {"name": "guide.md", "digest": GUIDELINES.digest}
    (read,) = Examples([row])
    assert read.meta["guidelines"] == row["guidelines"]
    changed = replace(GUIDELINES, text="Be strict.")
    for other in (study(), study(guidelines=changed)):
        with pytest.raises(DataError, match="guidelines"):
            CollectedRatings(other, tmp_path / "journal.jsonl")
    renamed = study(guidelines=replace(GUIDELINES, name="moved.md"))
    async with CollectedRatings(renamed, tmp_path / "journal.jsonl") as again:
        assert len(again.answers) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [(b" \n", "are empty"), (b"\xff\xfe", "cannot be read"), (None, "cannot be read")],
)
def test_guidelines_that_say_nothing_are_refused(tmp_path, content, words):
    """Before anybody rates."""
    path = tmp_path / "guide.md"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=words):
        Guidelines.read(path)


def test_a_set_is_rated_as_a_whole():
    """Values for only some of the labels do not count as an answer."""
    labeled = Study([Example(id="x", output="It is so.")], tasks.load("general", LABELED[2:]))
    with pytest.raises(DataError, match="'topics' do not cover all labels"):
        labeled.check({"topics/an-invoice": 1, "topics/refund": None})


def test_half_a_surrogate_can_be_sent():
    """Text that has no UTF-8 form is shown with a replacement character."""
    shown = study([Example(id="a", output="broken \ud800 text")])
    assert shown.browser_item(shown.keys[0])["outputs"][0]["text"] == "broken ? text"


@pytest.mark.parametrize(
    ("ratings", "words"),
    [
        ({"tone": 6, "polite": 1}, "tone"),
        ({"tone": True, "polite": 1}, "tone"),
        ({"tone": "4", "polite": 1}, "tone"),
        ({"tone": 2.5, "polite": 1}, "tone"),
        ({"tone": 4}, "are missing the aspect 'polite'"),
        ({"tone": 4, "polite": 1, "x": 1}, "unknown aspect 'x'"),
        ([4, 1], "an object"),
    ],
)
def test_answers_off_the_question_are_refused(ratings, words):
    """A rating that is not offered is refused."""
    with pytest.raises(DataError, match=words):
        study().check(ratings)
    assert study().check({"tone": None, "polite": 0}) == {"tone": None, "polite": 0.0}


def test_comparisons_show_both_texts_and_not_which_is_which():
    """The two texts come in the order that chance gave."""
    pair = study([Example(id="a", output="Left.", meta={"output_b": "Right."})])
    straight, swapped = (pair.browser_item(pair.keys[0], swapped=s) for s in (False, True))
    assert [part["text"] for part in straight["outputs"]] == ["Left.", "Right."]
    assert [part["text"] for part in swapped["outputs"]] == ["Right.", "Left."]
    assert {question.kind for question in pair.questions} == {"choice"}


def test_mixed_comparisons_are_refused():
    """A study asks one kind of question."""
    items = [Example(id="a", output="x", meta={"output_b": "y"}), Example(id="b", output="x")]
    with pytest.raises(ConfigurationError, match="two studies"):
        study(items)


def test_a_missing_second_text_of_a_table_is_not_a_text(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("id,output,output_b\na,x,y\nb,x\n")
    with pytest.raises(ConfigurationError, match="some do not"):
        study(list(Examples(path)))
    path.write_text("id,output,output_b\na,x\nb,x\n")
    assert not study(list(Examples(path))).paired


def test_only_sampled_examples_are_rated():
    """Ids that were sampled but are not in the data are an error that names one."""
    items = examples()
    chosen = study(items, probabilities={items[3].id: 0.5, items[1].id: 0.25})
    assert [example.id for example in chosen.examples] == [items[1].id, items[3].id]
    with pytest.raises(DataError, match="'nowhere'"):
        study(items, probabilities={"nowhere": 0.5})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"sampling_probability": 0.5}', "plan.jsonl:1: needs an id and a sampling_probability"),
        ('{"id": "a"}', "plan.jsonl:1: needs an id and a sampling_probability"),
        ('{"id": "a", "sampling_probability": 0}', "plan.jsonl:1: .*'a'.* at most 1, not 0"),
        ('{"id": "a", "sampling_probability": 1, "rated": true}', "lists no examples to rate"),
    ],
)
def test_a_plan_without_usable_lines_is_refused(line, problem, tmp_path):
    path = tmp_path / "plan.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(DataError, match=problem):
        read_sampled(path)
