"""Every ready task runs on the methods that support its aspects, and says what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import textassay
from examples.mock_replies import reply_to
from tests.cli.harness import served
from tests.cli.harness import textassay as textassay_command
from tests.dry_answers import DryAnswers
from tests.methods.judging import CHOICES, scores_of
from tests.pictures import png_uri
from textassay import Example, ScriptedModel
from textassay.methods import METHODS, YesNoMethod, build
from textassay.methods.library import tasks
from textassay.prompts import READY_TASKS
from textassay.runtime.errors import ConfigurationError

GUIDE = Path(__file__).parents[2] / "docs" / "tasks.md"
CALLS = [
    {"role": "system", "content": "Confirm before you book."},
    {"role": "user", "content": "Is there a train to Bath?"},
    {"role": "assistant", "tool_calls": [{"id": "c1", "name": "trains", "args": {"to": "Bath"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "noon, 2 seats"},
    {"role": "assistant", "content": "Yes, at noon. Shall I book?"},
]
TALK = [{"messages": CALLS}]
RAG = [
    {
        "question": "When was it?", "contexts": ["It was in 1967.", "It rained all day."],
        "answer": "It was in 1967.", "reference": "In 1967, on a Sunday.",
    }
]  # fmt: skip
TEXT = [{"source": "Fix the typo.", "output": "This is all of it."}]
ROWS: dict[str, Any] = {
    "rag": RAG,
    "rag-reference": RAG,
    "conversation": TALK,
    "conversation-turn": TALK,
    "agent": TALK,
    "safety": TEXT,
    "code-review": TEXT,
}
RATING = ("llm-score", "g-eval", "checklist", "decomp-eval", "coascore")
CASES = [
    *((task, method) for task in READY_TASKS for method in RATING[: 2 if task == "safety" else 5]),
    ("rag", "claims"),
]


def reply(body: dict[str, Any], draw: int) -> str:
    """Answer as the mock server does, and what that does not know: questions, and letters."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    if "Write a checklist" in prompt:
        return "1. First: Is it so?\n2. Second: Is it so throughout?"
    if "\nClaim:\n" in prompt:
        return '{"quote": "It was in 1967.", "answer": "yes"}'
    if "\nA. no: " in prompt:
        return "It is not.\nAnswer: A"
    return reply_to(body, prompt, draw, "score")


@pytest.mark.parametrize(("task", "method"), CASES)
async def test_a_ready_task_runs(task: str, method: str) -> None:
    """Against a server, with data in the form that other tools write; every score has a value."""
    unit: Any = "turn" if task == "conversation-turn" else None
    with served(reply=reply) as server:
        async with textassay.connect("direct/mock", api_base=server.url) as model:
            run = await textassay.evaluate(
                ROWS[task], method=method, task=task, model=model, unit=unit
            )
    assert [score.error for score in run.scores] == [None] * len(run.scores)
    assert len(run.scores) == (1 if method == "claims" else len(tasks.load(task).aspects))


@pytest.mark.parametrize("task", READY_TASKS)
def test_a_ready_task_says_what_was_measured(task: str) -> None:
    """In its file, in the list of tasks and in the guide, in the same words."""
    measured = tasks.load(task).measured
    guide = " ".join(GUIDE.read_text(encoding="utf-8").split())
    entry = guide.partition(f"- `{task}`: ")[2]
    assert measured
    assert measured in " ".join(textassay_command("list", "tasks", task).out.split())
    assert entry.replace("`", "").partition("Agreement with people:* ")[2].startswith(measured)


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("gptscore", "claims")])
async def test_every_method_shows_the_references_of_a_task_with_some(method: str) -> None:
    """Or else refuses: a judge that lacks it would rate something else. Without a name for them in
    the task they are not shown, since a judge of groundedness could take them for evidence."""
    example = Example(
        id="x", references=["In 1967.", "On a Sunday."], source="When?", output="Then.",
        meta={"output_b": "Now."},
    )  # fmt: skip
    for task in ("rag", "rag-reference"):
        model = DryAnswers(
            choices=lambda request: dict.fromkeys(request.choices, -2.0),
        )
        tools = ["coverage"] if method == "fusion-eval" else ()
        built = build(method, model, task=task, tools=tools)
        await scores_of(built, example)
        about = [request.text for request in model.requests if example.output in request.text]
        asks_yes_or_no = method == "decomp-eval" or isinstance(built, YesNoMethod)
        wanted = example.references[: 1 if asks_yes_or_no else 2]
        shown = [text for text in about if all(one in text for one in wanted)]
        assert about
        assert shown == (about if task == "rag-reference" else [])


@pytest.mark.parametrize(
    ("method", "options", "problem"),
    [
        ("gptscore", {}, "gptscore does not show them as such"),
        ("claims", {}, "claims does not show them as such"),
        ("decomp-eval", {"profile": CHOICES}, "profile 'choices' does not"),
    ],
)
def test_what_shows_no_reference_refuses_a_task_with_one(
    method: str, options: dict[str, Any], problem: str
) -> None:
    model = ScriptedModel(choices={"yes": -0.1, "no": -2.4})
    with pytest.raises(ConfigurationError, match=f"shows references, and {problem}"):
        build(method, model, task="rag-reference", options=options)


async def test_a_reference_is_evidence_where_it_is_shown() -> None:
    """A quotation from it is found; P(yes) is asked beside it."""
    example = Example(id="x", references=["It was on a Sunday."], output="Then.")
    questions = "1. First: Is it so?"

    def answer(request: Any) -> str:
        return questions if "Write a checklist" in request.text else (
            '{"quote": "It was on a Sunday", "answer": "no"}'
        )  # fmt: skip

    method = build("checklist", ScriptedModel(answer), task="rag-reference")
    [score, _] = await scores_of(method, example)
    assert (score.value, score.evidence[0]["found_in"]) == (0.0, "reference")
    model = ScriptedModel(choices={"yes": -0.1, "no": -2.4})
    method = build("decomp-eval", model, task="rag-reference")
    await scores_of(method, example)
    assert model.requests
    assert all("It was on a Sunday." in request.text for request in model.requests)


@pytest.mark.parametrize("method", ["llm-score", "pairwise"])
async def test_data_without_references_are_refused_where_the_task_shows_them(method: str) -> None:
    rows = [*RAG, {"output": "x", "source": "Why?"}]
    with pytest.raises(ConfigurationError, match=r"shows references, and 1 of 2 examples of list"):
        await textassay.evaluate(rows, method=method, task="rag-reference",
                                 model=ScriptedModel(["1"]))  # fmt: skip


async def test_turns_have_no_references_to_show() -> None:
    says = [("user", "Why?"), ("assistant", "So."), ("user", "And?"), ("assistant", "Then.")]
    row = {"messages": [{"role": role, "content": text} for role, text in says],
           "references": ["It was so."]}  # fmt: skip
    with pytest.raises(ConfigurationError, match="only its last turn has them, and the unit is 't"):
        await textassay.evaluate([row], method="llm-score", task="rag-reference", unit="turn",
                                 model=ScriptedModel(["1"]))  # fmt: skip


@pytest.mark.parametrize(
    ("task", "needing", "other"),
    [
        ("summarization", "consistency", "fluency"),
        ("translation", "adequacy", "fluency"),
        ("translation", "accuracy", "overall"),
        ("code-review", "correctness", "tone"),
        ("code-review", "coverage", "tone"),
    ],
)
async def test_what_is_compared_with_a_source_has_no_score_without_one(task, needing, other):
    """An image or a context can be the source, but not a conversation of the answer alone; another
    column can be mapped to it."""
    rows = [
        {"id": "none", "output": "It is closed.", "source": " ", "story": "The museum is closed."},
        {"id": "alone", "messages": [{"role": "assistant", "content": "It is closed."}]},
        {"id": "seen", "output": "It is closed.", "images": [png_uri()]},
        {"id": "read", "output": "It is closed.", "context": "The museum is closed."},
    ]
    judge = ScriptedModel(lambda request: "Score: 4")
    run = await textassay.evaluate(
        rows, method="llm-score", task=task, aspects=[needing, other], model=judge
    )
    found = {(s.id, s.aspect): s.error.type if s.error else s.value for s in run}
    assert found.pop(("none", needing)) == found.pop(("alone", needing)) == "MissingSource"
    assert set(found.values()) == {4}
    message = next(score.error.message for score in run if score.error and score.id == "none")
    assert message.endswith("; if story contains it, map it: fields={NAME: 'source'}")
    assert "The museum is closed." in judge.requests[-1].text


@pytest.mark.parametrize(
    "context", ["The museum is closed.", ["The museum is closed.", "It rains."]]
)
async def test_a_context_is_the_source_of_a_question_that_names_the_source(context):
    rows = [{"output": "It is closed.", "context": context}]
    judge = ScriptedModel(lambda request: "Yes")
    [score] = await textassay.evaluate(
        rows, method="decomp-eval", task="summarization", aspects=["consistency"], model=judge
    )
    assert score.value == 1
    assert "The museum is closed." in judge.requests[-1].text.partition("document: ")[2]
