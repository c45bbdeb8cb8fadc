"""Questions by aspect and sentence: the paper's tables, templates, and what an example must
have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.prompt_template import PromptTemplate
from textassay.agents.questions import (
    QuestionForm,
    QuestionTable,
    SentenceQuestions,
    for_sentence,
    templated,
)
from textassay.methods.decomp_eval import read_questions
from textassay.methods.library import tasks
from textassay.prompts import TASKS
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, Example

BOOK, _ = read_questions()
SOUP = (
    "Wow that's a lot of soup. Are you talking about the Fort-Reno Concert? I heard flasher "
    "will perform there."
)
WHOLE = Example(
    id="x", output=SOUP, source="A: Hi.", context="A fact.", references=("", "First.", "Second.")
)

# DecompEval, tables 8 to 10, as (task, aspect): (inputs, question, sub-question).
TABLES = {
    ("summarization", "coherence"): (
        "document summary",
        "Is this a coherent summary to the document?",
        "Is this summary sentence t x_t a coherent summary to the document?",
    ),
    ("summarization", "consistency"): (
        "claim document",
        "Is this claim consistent with the document?",
        "Is this claim sentence t x_t consistent with the document?",
    ),
    ("summarization", "fluency"): (
        "paragraph",
        "Is this a fluent paragraph?",
        "Is this paragraph sentence t x_t a fluent paragraph?",
    ),
    ("summarization", "relevance"): (
        "summary reference",
        "Is this summary relevant to the reference?",
        "Is this summary sentence t x_t relevant to the reference?",
    ),
    ("dialogue", "naturalness"): (
        "dialogue history response",
        "Is this response natural to the dialogue history?",
        "Is this response sentence t x_t natural to the dialogue history?",
    ),
    ("dialogue", "coherence"): (
        "dialogue history response",
        "Is this a coherent response given the dialogue history?",
        "Is this response sentence t x_t a coherent response given the dialogue history?",
    ),
    ("dialogue", "engagingness"): (
        "dialogue history fact response",
        "Is this an engaging response according to the dialogue history and fact?",
        "Is this response sentence t x_t an engaging response according to the dialogue history "
        "and fact?",
    ),
    ("dialogue", "groundedness"): (
        "response fact",
        "Is this response consistent with knowledge in the fact?",
        "Is this response sentence t x_t consistent with knowledge in the fact?",
    ),
    ("dialogue", "understandability"): (
        "dialogue history response",
        "Is this an understandable response given the dialogue history?",
        "Is this response sentence t x_t an understandable response given the dialogue history?",
    ),
    ("data-to-text", "naturalness"): (
        "utterance",
        "Is this a fluent utterance?",
        "Is this utterance sentence t x_t a fluent utterance?",
    ),
    ("data-to-text", "informativeness"): (
        "sentence reference",
        "Is this sentence informative according to the reference?",
        "Is this sentence t x_t informative according to the reference?",
    ),
}


@pytest.mark.parametrize(("task", "aspect"), TABLES)
def test_inputs_and_questions_are_those_of_the_papers_tables(task, aspect):
    inputs, question, subquestion = TABLES[task, aspect]
    form = BOOK.tasks[task][aspect][0]
    assert " ".join(form.inputs.values()) == inputs
    assert form.question == question
    assert form.subquestion.replace("{number}", "t").replace("{sentence}", "x_t") == subquestion


@pytest.mark.parametrize(("task", "aspect"), TABLES)
def test_a_sub_question_made_from_a_question_reads_as_in_the_papers_tables(task, aspect):
    form = BOOK.tasks[task][aspect][0]
    assert for_sentence(form.question, form.inputs["output"]) == form.subquestion


@pytest.mark.parametrize("name", [name for name in TASKS if name in BOOK.tasks])
def test_every_built_in_aspect_has_its_question_in_the_book(name):
    task = tasks.load(name)
    for aspect in task.aspects:
        assert [form.question for form in BOOK.forms(task, aspect)][:1] == [aspect.question]


def test_scores_over_sentences_are_those_of_section_4_2():
    over = {
        (t, a): f.value for t, book in BOOK.tasks.items() for a, fs in book.items() for f in fs[:1]
    }
    assert {key for key in TABLES if over[key] == "average"} == {
        ("summarization", "consistency"),
        ("summarization", "fluency"),
    }
    assert {key for key in TABLES if over[key] == "sum"} == {("dialogue", "engagingness")}


@pytest.mark.parametrize(
    ("question", "made"),
    [
        ("Is this text funny?", "Is this text sentence {number} {sentence} funny?"),
        (
            "Is this overall a good text?",
            "Is this text sentence {number} {sentence} overall a good text?",
        ),
        (
            "Would a child like it?",
            "Consider text sentence {number} {sentence} alone. Would a child like it?",
        ),
        (
            "Is this joke funny?",
            "Consider text sentence {number} {sentence} alone. Is this joke funny?",
        ),
    ],
)
def test_a_users_own_question_becomes_one_about_a_sentence(question, made):
    assert for_sentence(question, "text") == made


def test_an_aspect_without_a_question_is_asked_about_by_a_template_that_shows_its_definition():
    task = tasks.load("general")
    form = templated(task, Aspect(name="suspense", definition="how much one wants to read on."))
    assert form.question == "Is this text good in terms of suspense?"
    assert (
        form.subquestion == "Is this text sentence {number} {sentence} good in terms of suspense?"
    )
    assert form.definition == "suspense: how much one wants to read on."
    bad = templated(task, Aspect(name="toxicity", definition="insults.", higher_is_better=False))
    assert bad.question == "Is this text marked by toxicity?"


def test_an_aspect_that_asks_something_else_keeps_its_question_unless_the_users_book_has_one():
    task = tasks.load("summarization", ["fluency"])
    own = task.aspects[0].model_copy(update={"question": "Is this summary easy to read?"})
    assert BOOK.forms(task, own) == ()
    form = QuestionForm(
        inputs={"output": "text"}, question="Good?", subquestion="Good: {sentence}?"
    )
    assert QuestionTable(tasks={"summarization": {"fluency": (form,)}}).forms(task, own) == (form,)


@pytest.mark.asyncio
async def test_one_sub_question_a_sentence_in_order():
    task = tasks.load("dialogue", ["coherence"])
    question_set = await SentenceQuestions(PromptTemplate("decomp_eval", task), BOOK)(
        WHOLE, task.aspects[0]
    )
    assert [q.text for q in question_set.subquestions] == [
        'Is this response sentence 1 "Wow that\'s a lot of soup." a coherent response given the '
        "dialogue history?",
        'Is this response sentence 2 "Are you talking about the Fort-Reno Concert?" a coherent '
        "response given the "
        "dialogue history?",
        'Is this response sentence 3 "I heard flasher will perform there." a coherent response '
        "given the dialogue "
        "history?",
    ]
    assert [q.index for q in question_set.subquestions] == [0, 1, 2]
    assert [part["label"] for part in question_set.texts] == ["dialogue history", "response"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("task", "aspect", "without", "kind"),
    [
        ("summarization", "relevance", {"references": ("", " ")}, "MissingReferences"),
        ("data-to-text", "informativeness", {"references": ()}, "MissingReferences"),
        ("summarization", "coherence", {"source": " "}, "MissingSource"),
        ("dialogue", "groundedness", {"context": None}, "MissingContext"),
        ("dialogue", "coherence", {"output": " \n"}, "EmptyOutput"),
    ],
)
async def test_nothing_is_asked_about_a_text_that_is_not_there(task, aspect, without, kind):
    loaded = tasks.load(task, [aspect])
    question_set = await SentenceQuestions(PromptTemplate("decomp_eval", loaded), BOOK)(
        WHOLE.model_copy(update=without), loaded.aspects[0]
    )
    assert question_set.missing.type == kind
    assert (question_set.form, question_set.subquestions) == (None, ())


@pytest.mark.asyncio
async def test_the_first_of_several_references_that_is_not_blank_is_shown():
    task = tasks.load("summarization", ["relevance"])
    question_set = await SentenceQuestions(PromptTemplate("decomp_eval", task), BOOK)(
        WHOLE, task.aspects[0]
    )
    assert "First." in question_set.texts[1]["text"]
    assert not any("Second." in part["text"] for part in question_set.texts)


@pytest.mark.asyncio
async def test_engagingness_without_a_fact_is_not_asked_about_the_fact():
    task = tasks.load("dialogue", ["engagingness"])
    question_set = await SentenceQuestions(PromptTemplate("decomp_eval", task), BOOK)(
        WHOLE.model_copy(update={"context": None}), task.aspects[0]
    )
    assert (
        question_set.form.question
        == "Is this an engaging response according to the dialogue history?"
    )
    assert question_set.form.value == "sum"


@pytest.mark.asyncio
async def test_a_shared_prefix_shows_every_aspect_the_same_texts_first():
    task = tasks.load("summarization")
    ask = SentenceQuestions(PromptTemplate("decomp_eval", task, layout="shared-prefix"), BOOK)
    sets = [await ask(WHOLE, aspect) for aspect in task.aspects]
    assert len({repr(question_set.texts[:3]) for question_set in sets}) == 1
    assert [part["label"] for part in sets[0].texts] == ["source text", "context", "summary"]
    assert [part["label"] for part in sets[3].texts] == [
        "source text",
        "context",
        "summary",
        "reference",
    ]
    assert sets[1].names == (
        {"label": "summary", "name": "claim"},
        {"label": "source text", "name": "document"},
    )


@pytest.mark.asyncio
@given(output=st.text(alphabet=st.sampled_from('ab. \n"<>/?Yes'), max_size=60))
async def test_no_sentence_can_close_what_stands_around_it(output):
    task = tasks.load("general", ["coherence"])
    question_set = await SentenceQuestions(PromptTemplate("decomp_eval", task), BOOK)(
        Example(id="x", output=output), task.aspects[0]
    )
    for question in question_set.subquestions:
        assert "\n" not in question.text
        inside = question.text.removeprefix(f"Is this text sentence {question.index + 1} ")
        inside = inside.removesuffix(" a coherent text?")
        if inside.startswith('"'):
            assert inside.count('"') == 2
        else:
            tag = inside.split(">", 1)[0] + ">"
            assert inside.count(tag.replace("<", "</")) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "[[tasks.a.b]]\nquestion = 'Q?'\nsubquestion = '{sentence}'",
            r"tasks.a.b.0.inputs: Field required",
        ),
        (
            "[[tasks.a.b]]\ninputs = {source='s'}\nquestion='Q'\nsubquestion='{sentence}'",
            "the output is missing",
        ),
        (
            "[[tasks.a.b]]\ninputs = {output='s'}\nquestion='Q'\nsubquestion='S'",
            r"it needs \{sentence\}",
        ),
        (
            "[[tasks.a.b]]\ninputs={output='s',x='y'}\nquestion='Q'\nsubquestion='{sentence}'",
            "unknown text 'x'",
        ),
        ("yes = []", "yes: "),
        ("nope = 1", "nope: "),
        ("= 1", "cannot be read"),
    ],
)
def test_a_file_of_questions_that_is_wrong_is_refused_with_file_and_key(tmp_path, content, problem):
    path = tmp_path / "mine.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"mine\.toml.*{problem}"):
        read_questions(str(path))


def test_a_file_of_questions_that_is_missing_is_named():
    with pytest.raises(ConfigurationError, match=r"no-such\.toml does not exist"):
        read_questions("no-such.toml")
