"""Ratings belong to texts: a rating of another text under the same id is never a run's."""

import json

import pytest

from textassay import evaluate
from textassay.agreement import agreement_table
from textassay.estimation import People, join_columns, rank_systems, read_judged
from textassay.runtime.data import Examples
from textassay.runtime.data.digests import sources_by_id, text_digest
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example
from textassay.testing import ScriptedModel


def week(number, count=12, **more):
    return [
        {"id": f"q{i}", "output": f"Answer {i} of week {number}.", **more} for i in range(count)
    ]


def rated(rows):
    return [{**row, "human.fluency": 1 + i % 5} for i, row in enumerate(rows)]


async def judged(tmp_path, rows, name="run"):
    replies = iter(range(10_000))
    model = ScriptedModel(lambda request: f"Rating: {1 + next(replies) % 5}")
    out = tmp_path / name
    return await evaluate(rows, method="llm-score", aspects="fluency", model=model, out=out)


def digest(**fields):
    return text_digest(Example(id="x", **{"output": "", **fields}))


@pytest.mark.parametrize(
    "other",
    [
        "It rained\nall  day.",
        " It rained all day. ",
        "It rained all day.\r\n",
        "It\u00a0rained all day.",
    ],
)
def test_texts_that_differ_in_white_space_are_the_same(other):
    assert digest(output="It rained all day.") == digest(output=other)


def test_texts_in_both_unicode_forms_are_the_same():
    assert digest(output="Zürich") == digest(output="Zu\u0308rich")


@pytest.mark.parametrize(
    "other",
    [
        {"output": "It snowed."},
        {"output": "It rained"},
        {"output": "It rained.", "meta": {"output_b": "It snowed."}},
        {"output": "It rained.", "messages": [{"role": "user", "content": "Hello"}]},
    ],
)
def test_other_texts_comparisons_and_conversations_are_distinguished(other):
    assert digest(output="It rained.") != digest(**other)


def test_conversations_with_the_same_last_answer_are_distinguished():
    def chat(question):
        turns = [("user", question), ("assistant", "Goodbye.")]
        return digest(
            output="Goodbye.", messages=[{"role": role, "content": said} for role, said in turns]
        )

    assert chat("Cancel it.") != chat("Book it.")


async def test_a_run_knows_the_digest_of_each_text(tmp_path):
    run = await judged(tmp_path, week(1))
    examples = {example.id: example for example in Examples(week(1))}
    assert all(score.text_digest == text_digest(examples[score.id]) for score in run)


async def test_ratings_of_other_texts_are_refused_if_nothing_is_left(tmp_path):
    run = await judged(tmp_path, week(2))
    with pytest.raises(DataError, match="other texts than were judged: 12 rows"):
        join_columns(read_judged(run.folder), People(rated(week(1))))
    for scores in (run, run.folder):
        with pytest.raises(DataError, match="other texts than were judged"):
            agreement_table(scores, rated(week(1)))


async def test_ratings_of_some_other_texts_are_left_out_and_counted(tmp_path):
    run = await judged(tmp_path, week(2))
    data = rated([*week(1)[:5], *week(2)[5:]])
    [columns] = join_columns(read_judged(run.folder), People(data))
    assert columns.ids == [f"q{i}" for i in range(5, 12)]
    assert (len(columns.other_texts), columns.unknown, columns.unjudged) == (5, 0, 0)
    assert any("5 rows of the data have other texts" in note.text for note in columns.notes())
    table = agreement_table(run.folder, data)
    assert table.rows[0].agreement.n == 7
    assert table.as_dict()["other_texts"] == 5
    assert any("5 rows" in note.text for part in table.tables() for note in part.notes)


async def test_ratings_without_texts_belong_to_the_score_with_their_id(tmp_path):
    run = await judged(tmp_path, week(2))
    ratings = [{"id": row["id"], "human.fluency": 3 + i % 2} for i, row in enumerate(week(2))]
    [columns] = join_columns(read_judged(run.folder), People(ratings))
    assert (len(columns.ids), columns.other_texts, columns.without_text) == (12, (), 12)
    assert any("12 rated rows have no text" in note.text for note in columns.notes())
    assert agreement_table(run, ratings).without_text == 12


async def test_a_rating_without_a_text_is_not_of_two_texts_with_its_id(tmp_path):
    """Of two runs that judged other texts under some ids, one of them was not rated."""
    new = await judged(tmp_path, [*week(1)[:8], *week(2)[8:]], "new")
    old = await judged(tmp_path, week(1), "old")
    ratings = [{"id": row["id"], "human.fluency": 3 + i % 2} for i, row in enumerate(week(1))]
    found = new.compare(old, human=ratings)
    assert {row.n for row in found.agreement} == {8}
    assert any("4 of 12 rated rows" in note.text for note in found.notes)
    assert {row.n for row in old.compare(old, human=ratings).agreement} == {12}


def test_scores_without_texts_belong_to_the_ratings_with_their_id(tmp_path):
    file = tmp_path / "scores.jsonl"
    lines = [{"id": f"q{i}", "aspect": "fluency", "value": i} for i in range(12)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [columns] = join_columns(read_judged(file), People(rated(week(1))))
    assert (len(columns.ids), columns.other_texts) == (12, ())


def test_metrics_of_other_texts_are_not_joined(tmp_path):
    """A data set with metrics has its texts, like a run."""
    rows = [{**row, "metrics": {"fluency": i}} for i, row in enumerate(week(2))]
    judge = read_judged(Examples(rows))
    with pytest.raises(DataError, match="other texts"):
        join_columns(judge, People(rated(week(1))))


async def test_comparisons_of_other_texts_are_not_ranked(tmp_path):
    def pairs(number):
        return [
            {
                "id": f"p{i}", "output": f"First {i} {number}", "output_b": f"Second {i} {number}",
                "system": "A", "system_b": "B", "group": f"g{i}",
            }
            for i in range(6)
        ]  # fmt: skip

    model = ScriptedModel(lambda request: '{"winner": "first"}')
    run = await evaluate(
        pairs(2), method="pairwise", aspects="fluency", model=model, out=tmp_path / "run"
    )
    scored = [score for score in run if score.value is not None]
    assert all(score.text_digest for score in run)
    with pytest.raises(DataError, match="other texts"):
        rank_systems(run.folder, Examples(pairs(1)))
    if scored:
        [ranking] = rank_systems(run.folder, Examples([*pairs(1)[:2], *pairs(2)[2:]]))
        assert len(ranking.other_texts) == 2


@pytest.mark.parametrize(
    "material",
    [
        {"source": "sentence {}"},
        {"source": "What is in it?", "images": ["https://a.org/{}.png"]},
        {"context": "document {}"},
        {"messages": [{"role": "user", "content": "question {}"}]},
    ],
)
def test_equal_sources_are_one_source_without_a_group(material):
    rows = [
        {"id": f"x{i}", "output": f"text {i}",
         **json.loads(json.dumps(material).replace("{}", str(i % 4)))}
        for i in range(16)
    ]  # fmt: skip
    named = sources_by_id(Examples(rows))
    assert len(set(named.values())) == 4
    assert len(set(People(rows).groups)) == 4


@pytest.mark.parametrize("source", [None, "Write a haiku."])
def test_a_source_that_all_rows_have_says_nothing_of_which_belong_together(source):
    rows = [{"id": f"x{i}", "output": f"text {i}", "source": source} for i in range(8)]
    assert set(sources_by_id(Examples(rows)).values()) == {None}
    assert not People(rows).has_groups


def test_groups_go_before_sources():
    rows = [
        {"id": f"x{i}", "output": f"text {i}", "source": f"sentence {i % 4}", "group": f"g{i % 2}"}
        for i in range(16)
    ]
    assert set(sources_by_id(Examples(rows)).values()) == {"g0", "g1"}


@pytest.mark.parametrize(
    ("before", "now", "count"),
    [
        ({"source": "When was it?"}, {"source": "Where was it?"}, 4),
        ({"context": ["It was in May."]}, {"context": ["It was in June."]}, 4),
        ({"context": ["It was in May."]}, {"context": ["It was in May.", "It rained."]}, 4),
        ({"source": "When?", "context": ["In May."]}, {"source": "When?", "context": ["May."]}, 4),
        ({"source": "Was it in Zürich?"}, {"source": "Was  it in\nZu\u0308rich?\r\n"}, 0),
        ({"source": "When?", "context": ["In May."]}, {"source": "When?"}, 0),
        ({"source": "When was it?"}, {}, 0),
    ],
)
async def test_ratings_of_a_text_with_another_source_are_used_and_counted(
    tmp_path, before, now, count
):
    """They belong to the judged text; whether the source matters depends on the aspect."""
    run = await judged(tmp_path, week(1, **now))
    ratings = rated([*week(1, **before)[:4], *week(1, **now)[4:]])
    unrated = [{**row, "id": f"u{row['id']}"} for row in week(1, **before)]
    table = agreement_table(run.folder, [*ratings, *unrated])
    assert (table.rows[0].agreement.n, table.other_texts) == (12, ())
    assert table.as_dict().get("other_sources", 0) == count
    [columns] = join_columns(read_judged(run.folder), People(ratings, judged=run.judged))
    assert columns.other_sources == count
    page = tmp_path / "page.html"
    run.report(page, human=ratings)
    assert ("4 rated rows have the judged text with another source" in page.read_text()) == (
        count == 4
    )
    for notes in (columns.notes(), [note for one in table.tables() for note in one.notes]):
        said = [note for note in notes if "another source" in note.text]
        assert [note.text.split()[0] for note in said] == ["4"] * bool(count)
        assert all(note.warning for note in said)


def test_a_conversation_that_the_judge_saw_shortened_is_no_other_source():
    """A text is identified by all of it; the question beside it may differ."""
    chat = [
        {"role": "user", "content": "Look it up."},
        {"role": "tool", "content": "word " * 2000},
        {"role": "assistant", "content": "Done."},
    ]
    rows = [{"id": f"q{i}", "messages": chat, "question": "Who?"} for i in range(3)]
    short = Examples(rows, conversation_chars=1000, needs_output=False)
    others = [{**row, "question": "Where?"} for row in rows]
    marks = [People(data, judged=short).of_other_source for data in (rated(rows), rated(others))]
    assert marks == [[False] * 3, [True] * 3]
