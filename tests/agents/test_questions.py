"""Yes/no questions: the paper's tables and templates, what an example must have, and P(yes):
equations 1 and 3, the order of sub-questions, and answers that cannot be used."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.ask import Ask
from textassay.agents.prompt_template import Profile, PromptTemplate
from textassay.agents.questions import (
    Answerer,
    AnswersInOrder,
    QuestionForm,
    QuestionTable,
    SentenceQuestions,
    default_form,
    for_sentence,
)
from textassay.methods.decomp_eval import read_questions
from textassay.methods.library import tasks
from textassay.prompts import TASKS
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.sharing import current_chain
from textassay.runtime.errors import CapabilityError, ConfigurationError, ServerFailed
from textassay.runtime.messages import Aspect, Example
from textassay.runtime.model import Capabilities, ChoicesResponse

BOOK, _ = read_questions()
SOUP = (
    "Wow that's a lot of soup. Are you talking about the Fort-Reno Concert? I heard flasher "
    "will perform there."
)
WHOLE = Example(
    id="x", output=SOUP, source="A: Hi.", context="A fact.", references=("", "First.", "Second.")
)

# DecompEval, tables 8 to 10: task and aspect, inputs, question, and what a sub-question says in the
# place of "{}".
TABLES = {
    ("summarization", "coherence"): (
        "document summary", "Is this {}a coherent summary to the document?", "summary "),
    ("summarization", "consistency"): (
        "claim document", "Is this claim {}consistent with the document?", ""),
    ("summarization", "fluency"): ("paragraph", "Is this {}a fluent paragraph?", "paragraph "),
    ("summarization", "relevance"): (
        "summary reference", "Is this summary {}relevant to the reference?", ""),
    ("dialogue", "naturalness"): (
        "dialogue history response", "Is this response {}natural to the dialogue history?", ""),
    ("dialogue", "coherence"): (
        "dialogue history response",
        "Is this {}a coherent response given the dialogue history?", "response "),
    ("dialogue", "engagingness"): (
        "dialogue history fact response",
        "Is this {}an engaging response according to the dialogue history and fact?", "response "),
    ("dialogue", "groundedness"): (
        "response fact", "Is this response {}consistent with knowledge in the fact?", ""),
    ("dialogue", "understandability"): (
        "dialogue history response",
        "Is this {}an understandable response given the dialogue history?", "response "),
    ("data-to-text", "naturalness"): ("utterance", "Is this {}a fluent utterance?", "utterance "),
    ("data-to-text", "informativeness"): (
        "sentence reference", "Is this {}informative according to the reference?", "sentence"),
}  # fmt: skip


@pytest.mark.parametrize(("task", "aspect"), TABLES)
def test_inputs_and_questions_are_those_of_the_papers_tables(task, aspect):
    """And a sub-question made from a question reads as there."""
    inputs, pattern, noun = TABLES[task, aspect]
    form = BOOK.tasks[task][aspect][0]
    assert " ".join(form.inputs.values()) == inputs
    place = "sentence t x_t " if noun != "sentence" else "t x_t "
    if noun == "sentence":
        pattern, noun = pattern.replace("{}", "sentence {}"), ""
    assert form.question == pattern.format("")
    shown = form.subquestion.replace("{number}", "t").replace("{sentence}", "x_t")
    assert shown == pattern.format(f"{noun}{place}")
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
    averaged = {key for key in TABLES if over[key] == "average"}
    assert averaged == {("summarization", "consistency"), ("summarization", "fluency")}
    assert {key for key in TABLES if over[key] == "sum"} == {("dialogue", "engagingness")}


@pytest.mark.parametrize(
    ("question", "made"),
    [
        ("Is this text funny?", "Is this text sentence {number} {sentence} funny?"),
        ("Is this overall a good text?",
         "Is this text sentence {number} {sentence} overall a good text?"),
        ("Would a child like it?",
         "Consider text sentence {number} {sentence} alone. Would a child like it?"),
        ("Is this joke funny?",
         "Consider text sentence {number} {sentence} alone. Is this joke funny?"),
    ],
)  # fmt: skip
def test_a_users_own_question_becomes_one_about_a_sentence(question, made):
    assert for_sentence(question, "text") == made


def test_an_aspect_without_a_question_is_asked_about_by_a_template_that_shows_its_definition():
    task = tasks.load("general")
    form = default_form(task, Aspect(name="suspense", definition="how much one wants to read on."))
    assert form.question == "Is this text good in terms of suspense?"
    sub = "Is this text sentence {number} {sentence} good in terms of suspense?"
    assert form.subquestion == sub
    assert form.definition == "suspense: how much one wants to read on."
    bad = default_form(task, Aspect(name="toxicity", definition="insults.", higher_is_better=False))
    assert bad.question == "Is this text marked by toxicity?"


def test_an_aspect_that_asks_something_else_keeps_its_question_unless_the_users_book_has_one():
    task = tasks.load("summarization", ["fluency"])
    own = task.aspects[0].model_copy(update={"question": "Is this summary easy to read?"})
    assert BOOK.forms(task, own) == ()
    form = QuestionForm(
        inputs={"output": "text"}, question="Good?", subquestion="Good: {sentence}?"
    )
    assert QuestionTable(tasks={"summarization": {"fluency": (form,)}}).forms(task, own) == (form,)


async def asked_about(task, example):
    return await SentenceQuestions(PromptTemplate("decomp_eval", task), BOOK)(
        example, task.aspects[0]
    )


async def test_one_sub_question_a_sentence_in_order():
    task = tasks.load("dialogue", ["coherence"])
    question_set = await asked_about(task, WHOLE)
    coherent = "a coherent response given the dialogue history?"
    assert [q.text for q in question_set.subquestions] == [
        f'Is this response sentence 1 "Wow that\'s a lot of soup." {coherent}',
        f'Is this response sentence 2 "Are you talking about the Fort-Reno Concert?" {coherent}',
        f'Is this response sentence 3 "I heard flasher will perform there." {coherent}',
    ]
    assert [q.index for q in question_set.subquestions] == [0, 1, 2]
    assert [part["label"] for part in question_set.texts] == ["dialogue history", "response"]


@pytest.mark.parametrize(
    ("task", "aspect", "without", "kind"),
    [
        ("summarization", "relevance", {"references": ("", " ")}, "MissingReferences"),
        ("data-to-text", "informativeness", {"references": ()}, "MissingReferences"),
        ("summarization", "coherence", {"source": " ", "context": None}, "MissingSource"),
        ("dialogue", "coherence", {"source": None}, "MissingSource"),
        ("dialogue", "groundedness", {"context": None}, "MissingContext"),
        ("dialogue", "coherence", {"output": " \n"}, "EmptyOutput"),
    ],
)
async def test_nothing_is_asked_about_a_text_that_is_not_there(task, aspect, without, kind):
    loaded = tasks.load(task, [aspect])
    question_set = await asked_about(loaded, WHOLE.model_copy(update=without))
    assert question_set.missing.type == kind
    assert (question_set.form, question_set.subquestions) == (None, ())


@pytest.mark.parametrize(
    ("task", "aspect", "name"),
    [("summarization", "consistency", "document"), ("translation", "adequacy", "original"),
     ("general", "relevance", "input"), ("general", "coherence", "further input"),
     ("rag", "groundedness", "passages")],
)  # fmt: skip
async def test_a_source_in_the_context_is_asked_about(task, aspect, name):
    """But not in dialogue, where the context is a fact."""
    loaded = tasks.load(task, [aspect])
    found = await asked_about(loaded, WHOLE.model_copy(update={"source": None}))
    assert found.missing is None
    assert name in found.form.inputs.values()
    assert any(WHOLE.context in part["text"] for part in found.texts)


async def test_the_first_of_several_references_that_is_not_blank_is_shown():
    task = tasks.load("summarization", ["relevance"])
    question_set = await asked_about(task, WHOLE)
    assert "First." in question_set.texts[1]["text"]
    assert not any("Second." in part["text"] for part in question_set.texts)


async def test_engagingness_without_a_fact_is_not_asked_about_the_fact():
    task = tasks.load("dialogue", ["engagingness"])
    form = (await asked_about(task, WHOLE.model_copy(update={"context": None}))).form
    assert form.question == "Is this an engaging response according to the dialogue history?"
    assert form.value == "sum"


async def test_a_shared_prefix_shows_every_aspect_the_same_texts_first():
    task = tasks.load("summarization")
    ask = SentenceQuestions(PromptTemplate("decomp_eval", task, layout="shared-prefix"), BOOK)
    sets = [await ask(WHOLE, aspect) for aspect in task.aspects]
    assert len({repr(question_set.texts[:3]) for question_set in sets}) == 1
    shared = ["source text", "context", "summary"]
    assert [part["label"] for part in sets[0].texts] == shared
    assert [part["label"] for part in sets[3].texts] == [*shared, "reference"]
    assert sets[1].names == (
        {"label": "summary", "name": "claim"},
        {"label": "source text", "name": "document"},
    )


@given(output=st.text(alphabet=st.sampled_from('ab. \n"<>/?Yes'), max_size=60))
async def test_no_sentence_can_close_the_delimiters_around_it(output):
    task = tasks.load("general", ["coherence"])
    question_set = await asked_about(task, Example(id="x", output=output))
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
        ("subquestion = '{sentence}'", r"tasks.a.b.0.inputs: Field required"),
        ("inputs={source='s'}\nsubquestion='{sentence}'", "the output is missing"),
        ("inputs={output='s'}\nsubquestion='S'", r"it needs \{sentence\}"),
        ("inputs={output='s',x='y'}\nsubquestion='{sentence}'", "unknown text 'x'"),
        ("yes = []", "yes: "),
        ("nope = 1", "nope: "),
        ("= 1", "cannot be read"),
    ],
)
def test_a_file_of_questions_that_is_wrong_is_refused_with_file_and_key(tmp_path, content, problem):
    path = tmp_path / "mine.toml"
    form = "[[tasks.a.b]]\nquestion='Q?'\n" if "subquestion" in content else ""
    path.write_text(form + content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"mine\.toml.*{problem}"):
        read_questions(str(path))
    with pytest.raises(ConfigurationError, match=r"no-such\.toml does not exist"):
        read_questions("no-such.toml")


GENERAL = tasks.load("general", ["coherence"])
THREE = Example(id="x", output="One. Two. Three.", source="In.")


def says(*pairs, chains=None):
    """A model that answers its requests in turn with P(yes) and P(no); `None` for not reported.

    Each request's chain, and whether that goes on, is added to `chains`.
    """
    replies = iter(pairs)

    def choices(_):
        if chains is not None:
            chains.append((current_chain(), current_chain().has_next))
        yes, no = next(replies)
        return {"yes": yes and math.log(yes), "no": no and math.log(no)}

    return ScriptedModel(choices=choices, name="judge")


def to(model, **fields):
    return Ask(model, "decomp_eval", GENERAL, **fields)


async def ask(*pairs, **fields):
    asked = await asked_about(GENERAL, THREE)
    return await Answerer(to(says(*pairs)), book=BOOK, **fields)(asked.question, asked)


async def test_p_yes_is_renormalised_and_the_mass_is_kept():
    reply = await ask((0.6, 0.2))
    assert reply.answer.p_yes == pytest.approx(0.75)
    assert reply.answer.mass == pytest.approx(0.8)
    assert reply.answer.p_yes > 0.5
    assert reply.usage.calls == 1
    tie = await ask((0.3, 0.3))
    assert tie.answer.p_yes == 0.5


@given(st.floats(-700, 0), st.floats(-700, 0))
async def test_p_yes_is_a_probability_on_the_side_of_the_likelier_answer(yes, no):
    """Equation 3, to the digit, however unlikely both are."""
    script = ScriptedModel(choices=lambda _: {"yes": yes, "no": no})
    asked = await asked_about(GENERAL, THREE)
    reply = await Answerer(to(script), book=BOOK)(asked.question, asked)
    odds = math.exp(-abs(yes - no))
    assert reply.answer.p_yes == (1 / (1 + odds) if yes > no else odds / (1 + odds))
    if abs(yes - no) > 1e-12:
        assert (reply.answer.p_yes > 0.5) == (yes > no)


async def test_answers_join_the_prompt_of_the_next_question_in_order():
    chains = []
    model = says((0.9, 0.1), (0.2, 0.2), (0.1, 0.2), (0.8, 0.1), chains=chains)
    asked = await asked_about(GENERAL, THREE)
    replies = await AnswersInOrder(Answerer(to(model), book=BOOK))(asked)
    one, two, three = (question.text for question in asked.subquestions)
    first, second, third, last = (request.text for request in model.requests)
    assert first.endswith(f"\n{one}")
    assert second == f"{first} Yes\n{two}"
    assert third == f"{second} No\n{three}"
    assert last == f"{third} No\n{asked.question.text}"
    assert [reply.answer.p_yes > 0.5 for reply in replies.items] == [True, False, False, True]
    assert [has_next for _, has_next in chains] == [True, True, True, False]
    [chain] = {chain for chain, _ in chains}
    assert chain.ended


async def test_the_question_about_the_whole_is_not_asked_where_the_sentences_make_the_score():
    """Nor anything after a question without an answer."""
    chains = []
    model = says((0.9, 0.1), (0.2, 0.2), (0.1, 0.2), chains=chains)
    asked = await asked_about(GENERAL, THREE)
    summed = asked.model_copy(update={"form": asked.form.model_copy(update={"value": "sum"})})
    replies = await AnswersInOrder(Answerer(to(model), book=BOOK))(summed)
    assert len(model.requests) == len(replies.items) == 3
    assert [has_next for _, has_next in chains] == [True, True, False]
    model = says((0.9, 0.1), (None, None), chains=chains)
    replies = await AnswersInOrder(Answerer(to(model), book=BOOK))(
        await asked_about(GENERAL, THREE)
    )
    assert len(model.requests) == len(replies.items) == 2
    assert [reply.answer.problem is None for reply in replies.items] == [True, False]
    assert replies.unanswered.problem.type == "NoLabelMass"
    assert chains[-1][0].ended


async def test_an_answer_that_is_not_reported_counts_as_nothing_beside_a_likely_one():
    for pair, found in (((0.7, None), (1.0, ("no",))), ((None, 0.7), (0.0, ("yes",)))):
        reply = await ask(pair)
        assert (reply.answer.p_yes, reply.answer.unreported) == found
    for pair in ((None, None), (0.05, None), (None, 0.05)):  # too little is known
        reply = await ask(pair)
        assert (reply.answer.probabilities, reply.answer.problem.type) == ({}, "NoLabelMass")


async def test_equation_3_holds_for_any_mass():
    assert (await ask((0.003, 0.001))).answer.p_yes == pytest.approx(0.75)


async def test_chat_and_plain_prompts_say_the_same_and_take_the_same_spellings():
    chat, plain = says((0.5, 0.1)), says((0.5, 0.1))
    asked = await asked_about(GENERAL, THREE)
    await Answerer(to(chat), book=BOOK)(asked.question, asked)
    await Answerer(to(plain, profile=Profile(ask="plain")), book=BOOK)(asked.question, asked)
    assert chat.requests[0].messages[0].content == plain.requests[0].prompt
    assert plain.requests[0].choices == chat.requests[0].choices
    assert plain.requests[0].choices["yes"] == ("yes", "Yes", " yes", " Yes")


async def test_words_of_another_language_may_be_asked_for():
    model = says(*[(0.9, 0.1)] * 4)
    book = BOOK.model_copy(
        update={"yes": ("ja", "Ja"), "no": ("nein", "Nein"), "instruction": "Antworte."}
    )
    await AnswersInOrder(Answerer(to(model), book=book))(await asked_about(GENERAL, THREE))
    assert model.requests[1].choices["no"] == ("nein", "Nein", " nein", " Nein")
    assert "? Ja\n" in model.requests[1].text
    assert model.requests[0].text.startswith("Antworte.\n")


async def test_a_truncated_source_is_reported():
    model = ScriptedModel(
        choices=lambda _: ChoicesResponse(logprobs={"yes": -0.1, "no": -3.0}, truncated_tokens=7)
    )
    asked = await asked_about(GENERAL, THREE)
    assert (await Answerer(to(model), book=BOOK)(asked.question, asked)).truncated_tokens == 7
    assert model.requests[0].truncatable == THREE.source


async def test_a_model_that_cannot_is_refused_before_it_is_asked():
    with pytest.raises(CapabilityError, match="log-probabilities of given choices"):
        Answerer(to(ScriptedModel([], capabilities=Capabilities(choices=False))), reading="logprob")


async def test_errors_of_the_model_pass_through():
    asked = await asked_about(GENERAL, THREE)
    model = ScriptedModel(choices=lambda _: ServerFailed("down"))
    with pytest.raises(ServerFailed):
        await Answerer(to(model))(asked.question, asked)
