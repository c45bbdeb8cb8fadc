"""P(yes): equations 1 and 3, the order of sub-questions, and answers that cannot be used."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.agents.answerer import Answerer, AnswersInOrder, p_yes
from textassay.agents.ask import Ask
from textassay.agents.prompt_template import Profile, PromptTemplate
from textassay.agents.questions import SentenceQuestions
from textassay.methods.decomp_eval import read_questions
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.prefixes import current_chain
from textassay.runtime.errors import CapabilityError, ServerFailed
from textassay.runtime.messages import Answer, Example, SubQuestion
from textassay.runtime.model import Capabilities, ChoicesResponse

BOOK, _ = read_questions()
TASK = tasks.load("general", ["coherence"])
EXAMPLE = Example(id="x", output="One. Two. Three.", source="In.")

pytestmark = pytest.mark.asyncio


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
    return Ask(model, "decomp_eval", TASK, **fields)


async def question_set():
    return await SentenceQuestions(PromptTemplate("decomp_eval", TASK), BOOK)(
        EXAMPLE, TASK.aspects[0]
    )


async def ask(*pairs, **fields):
    asked = await question_set()
    return await Answerer(to(says(*pairs)), book=BOOK, **fields)(asked.question, asked)


async def test_p_yes_is_renormalised_and_the_mass_is_kept():
    reply = await ask((0.6, 0.2))
    assert reply.answer.p_yes == pytest.approx(0.75)
    assert reply.answer.mass == pytest.approx(0.8)
    assert reply.answer.yes
    assert reply.usage.calls == 1


async def test_a_tie_is_no():
    reply = await ask((0.3, 0.3))
    assert (reply.answer.p_yes, reply.answer.yes) == (0.5, False)


@given(st.floats(-700, 0), st.floats(-700, 0))
async def test_p_yes_is_a_probability_on_the_side_of_the_likelier_answer(yes, no):
    value = p_yes(yes, no)
    assert 0 <= value <= 1
    assert value + p_yes(no, yes) == pytest.approx(1)
    question = SubQuestion(text="?", sentence="", index=0)
    if abs(yes - no) > 1e-12:
        assert Answer(question=question, p_yes=value).yes == (yes > no)


async def test_answers_join_the_prompt_of_the_next_question_in_order():
    chains = []
    model = says((0.9, 0.1), (0.2, 0.2), (0.1, 0.2), (0.8, 0.1), chains=chains)
    asked = await question_set()
    replies = await AnswersInOrder(Answerer(to(model), book=BOOK))(asked)
    one, two, three = (question.text for question in asked.subquestions)
    first, second, third, last = (request.text for request in model.requests)
    assert first.endswith(f"\n{one}")
    assert second == f"{first} Yes\n{two}"
    assert third == f"{second} No\n{three}"
    assert last == f"{third} No\n{asked.question.text}"
    assert [answer.yes for answer in replies.answers] == [True, False, False, True]
    assert [has_next for _, has_next in chains] == [True, True, True, False]
    [chain] = {chain for chain, _ in chains}
    assert chain.ended


async def test_the_question_about_the_whole_is_not_asked_where_the_sentences_make_the_score():
    chains = []
    model = says((0.9, 0.1), (0.2, 0.2), (0.1, 0.2), chains=chains)
    asked = await question_set()
    summed = asked.model_copy(update={"form": asked.form.model_copy(update={"value": "sum"})})
    replies = await AnswersInOrder(Answerer(to(model), book=BOOK))(summed)
    assert len(model.requests) == len(replies.answers) == 3
    assert [has_next for _, has_next in chains] == [True, True, False]


async def test_no_more_is_asked_after_a_question_without_an_answer():
    chains = []
    model = says((0.9, 0.1), (None, None), chains=chains)
    replies = await AnswersInOrder(Answerer(to(model), book=BOOK))(await question_set())
    assert len(model.requests) == len(replies.items) == 2
    assert len(replies.answers) == 1
    assert replies.problem.type == "NoLabelMass"
    assert chains[-1][0].ended


async def test_an_answer_that_is_not_reported_counts_as_nothing_beside_a_likely_one():
    reply = await ask((0.7, None))
    assert (reply.answer.p_yes, reply.unreported) == (1.0, "no")
    reply = await ask((None, 0.7))
    assert (reply.answer.p_yes, reply.unreported) == (0.0, "yes")


@pytest.mark.parametrize("pair", [(None, None), (0.05, None), (None, 0.05)])
async def test_too_little_is_known_where_the_only_reported_answer_is_unlikely(pair):
    reply = await ask(pair)
    assert (reply.answer, reply.problem.type) == (None, "NoLabelMass")


async def test_equation_3_holds_for_any_mass_unless_a_least_one_is_asked_for():
    assert (await ask((0.003, 0.001))).answer.p_yes == pytest.approx(0.75)
    reply = await ask((0.003, 0.001), least_mass=0.5)
    assert reply.answer is None
    assert "probability 0.004 for 'judge', less than 0.5" in reply.problem.message


async def test_chat_and_plain_prompts_say_the_same_and_take_the_same_spellings():
    chat, plain = says((0.5, 0.1)), says((0.5, 0.1))
    asked = await question_set()
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
    await AnswersInOrder(Answerer(to(model), book=book))(await question_set())
    assert model.requests[1].choices["no"] == ("nein", "Nein", " nein", " Nein")
    assert "? Ja\n" in model.requests[1].text
    assert model.requests[0].text.startswith("Antworte.\n")


async def test_a_truncated_source_is_told():
    model = ScriptedModel(
        choices=lambda _: ChoicesResponse(logprobs={"yes": -0.1, "no": -3.0}, truncated_tokens=7)
    )
    asked = await question_set()
    assert (await Answerer(to(model), book=BOOK)(asked.question, asked)).truncated_tokens == 7
    assert model.requests[0].truncatable == EXAMPLE.source


async def test_a_model_that_cannot_is_refused_before_it_is_asked():
    with pytest.raises(CapabilityError, match="log-probabilities of given choices"):
        Answerer(to(ScriptedModel([], capabilities=Capabilities(choices=False))))


async def test_errors_of_the_model_pass_through():
    asked = await question_set()
    with pytest.raises(ServerFailed):
        await Answerer(to(ScriptedModel(choices=lambda _: ServerFailed("down"))))(
            asked.question, asked
        )
