"""The table of costs: a dry run's counts for each method equal the server's counts and the
sent to it."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import pytest

import textassay
from benchmarks.method_costs import COMMAND, TOOLS, cost_of, dry_run, judged, table_of
from examples.mock_replies import reply_to
from examples.mock_server import MockServer, prompt_of
from tests.dry_answers import DryAnswers
from tests.methods.judging import mock_reply, scores_of
from tests.pictures import png_uri
from textassay.demo import BUNDLED_TASKS, data_file
from textassay.methods import METHODS, build
from textassay.methods.library import plans, tasks, trees
from textassay.runtime.calls.budget import estimate_tokens
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Aspect, Example

DOCS = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
A_TENTH = 0.1
UPPER_BOUND = ("agent-judge",)
"""Methods that end when they know enough: a dry run counts the most that they may ask."""
HINT = (
    "a dry run assumes other answers than the mock server sends: give requests a dry_run_answer as "
    "long as real answers are, and have examples/mock_replies.py (_as_asked) answer the prompt so"
)
SOME = 5
"""Examples of a task that the server is asked about."""


class Heard:
    """The prompt tokens that a server received, by our tokenizer."""

    def __init__(self, server: MockServer) -> None:
        self.tokens = 0
        server.listener = self

    def __call__(self, body: dict[str, Any]) -> None:
        sent = (
            "\n".join(message["content"] for message in body["messages"])
            if "messages" in body
            else body["prompt"]
        )
        self.tokens += estimate_tokens(sent)


@pytest.mark.parametrize("task", BUNDLED_TASKS)
@pytest.mark.parametrize("method", METHODS)
async def test_a_dry_run_foretells_what_the_server_receives(method, task, mock_server):
    """Calls exactly, prompt tokens within a tenth, completion tokens as a bound."""
    examples, tools = judged(method, task, SOME), TOOLS.get(method, ())
    foretold = await dry_run(examples, method, task, tools=tools)
    server = await mock_server(reply=mock_reply(method))
    heard = Heard(server)
    async with textassay.connect("direct/mock", api_base=server.url) as model:
        run = await textassay.evaluate(examples, method=method, task=task, model=model, tools=tools)
    usage = run.summary()["usage"]
    assert server.counters.requests == usage["calls"]
    if method in UPPER_BOUND:
        assert usage["calls"] < foretold.calls
        assert heard.tokens < foretold.prompt
    else:
        assert usage["calls"] == foretold.calls, HINT
        assert foretold.prompt == pytest.approx(heard.tokens, rel=A_TENTH), HINT
    assert usage["completion_tokens"] <= foretold.completion, HINT


@pytest.mark.parametrize("method", METHODS)
async def test_the_docs_have_what_an_example_costs(method):
    """Their row is the one that the command prints, over all examples of a task."""
    row = table_of([await cost_of(method, "summarization")]).splitlines()[-1]
    assert row in DOCS, "docs/methods.md is behind; run make methods"
    assert COMMAND in DOCS


async def test_dry_runs_expect_what_models_wrote_for_the_papers_at_its_length():
    """G-Eval's steps (figure 1), criteria of HD-Eval's tree, Fusion-Eval's steps for each."""
    task = tasks.load("summarization")
    criteria = [f"{n.name}: {n.definition}" for n in trees.load("summarization", task) if n.parent]
    plan = plans.load("summeval", task, ("nli", "bleurt", "sum_bleurt"))
    planned = re.findall(r"(?m)^ ?- (.+)", plan.text.partition("**Criteria & Steps**")[2])
    written = {
        "g-eval": "\n".join(task.steps["coherence"]),
        "coascore": "\n".join((criteria * 10)[:10]),
        "fusion-eval": "\n".join(planned),
    }
    for method, words in written.items():
        model = DryAnswers()
        built = build(method, model, task="summarization", tools=TOOLS.get(method, ()))
        await scores_of(built, Example(id="x", output="y"))
        ratio = estimate_tokens(model.postings[0].dry_run_answer) / estimate_tokens(words)
        assert 0.7 < ratio < 2, method


@pytest.mark.parametrize(("depth", "calls"), [(2, 2 * (1 + 12 * 5)), (3, 2 * (1 + 4 + 12 * 21))])
async def test_a_tree_that_the_model_grows_is_foretold_layer_by_layer(depth, calls, mock_server):
    """Two criteria of 4 parts each, and 4 parts of these: every node once an example, whatever its
    depth."""

    def reply(body: dict[str, Any], draw: int) -> str:
        prompt = body["messages"][-1]["content"]
        if "numbered list" not in prompt:
            return "3"
        sides = [f"{i}. Side {i} of {zlib.crc32(prompt.encode()):x}: {shown}" for i in range(1, 5)]
        return "\n".join(sides)

    shown = "whether the translation does well in what is meant by it, as far as a reader can tell."
    server = await mock_server(reply=reply)
    heard = Heard(server)
    options = {"tree": "model", "depth": depth, "children": 4}
    flags = {"aspects": ["adequacy", "fluency"], "options": options}
    foretold = await dry_run(
        list(Examples(data_file("translation"))), "hd-eval", "translation", **flags
    )
    async with textassay.connect("direct/mock", api_base=server.url) as model:
        path = data_file("translation")
        await textassay.evaluate(path, method="hd-eval", task="translation", model=model, **flags)
    assert foretold.calls == server.counters.requests == calls
    assert foretold.prompt == pytest.approx(heard.tokens, rel=A_TENTH)


async def test_questions_that_the_model_writes_are_foretold(mock_server):
    """Each is asked of every example; a dry run that took none for a question counted one call."""

    def reply(body: dict[str, Any], draw: int) -> str:
        if "yes/no questions" in body["messages"][-1]["content"]:
            return "\n".join(f"{i}. Part {i}: Does it rain in part {i}?" for i in range(1, 6))
        return "No."

    server = await mock_server(reply=reply)
    examples = [Example(id=f"x{i}", output=f"It rains {i}.", source="Rain.") for i in range(5)]
    flags = {"aspects": ["relevance"], "options": {"parse_retries": 0}}
    foretold = await dry_run(examples, "checklist", "general", **flags)
    async with textassay.connect("direct/mock", api_base=server.url) as model:
        await textassay.evaluate(examples, method="checklist", task="general", model=model, **flags)
    assert foretold.calls == server.counters.requests == 1 + 5 * 5


def rows(count: int = 4, **more: Any) -> list[dict[str, Any]]:
    """Rows with a question, passages and an answer of their own, and `more`."""
    return [
        {
            "id": f"x{at}",
            "group": f"g{at // 2}",
            "source": f"What happened on day {at}?",
            "context": [f"On day {at} it rained.", "Nothing else is known."],
            "output": f"It rained on day {at}. Nothing else happened on that day.",
            **more,
        }
        for at in range(count)
    ]


def rubrics() -> list[dict[str, Any]]:
    """Rows whose rubrics differ in length; one has none."""
    criteria = [{"criterion": f"Says {word}", "points": 2} for word in ("when", "where", "why")]
    return [{**row, "rubric": criteria[:at]} for at, row in enumerate(rows()) if at] + rows(1)


def chats() -> list[dict[str, Any]]:
    """Conversations of two turns."""
    roles = ("user", "assistant")
    return [
        {"id": f"c{at}", "messages": [{"role": role, "content": f"{role} {at} {turn}"}
                                      for turn in range(2) for role in roles]}
        for at in range(3)
    ]  # fmt: skip


WHETHER = Aspect(
    name="ok", definition="whether it is right.", labels={"fail": "", "pass": ""},
    question="Is it right?",
)  # fmt: skip
TOPIC = Aspect(name="topic", definition="what it is.", labels={"rain": "", "sun": "", "snow": ""})
TOPICS = Aspect(
    name="topics", definition="what it is.", multiple=True, labels={"rain": "", "sun": ""}
)
LABELED = [WHETHER, TOPIC, TOPICS]
VARIANTS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "questions": ("checklist", rows, {"task": "rag"}),
    "joint": ("checklist", rows, {"task": "rag", "options": {"calls": "joint"}}),
    "checklist, p-yes": ("checklist", rows, {"task": "rag", "options": {"answers": "p-yes"}}),
    "rubric": ("checklist", rubrics, {"options": {"checklist": "rubric"}}),
    "joint rubric": (
        "checklist", rubrics, {"options": {"checklist": "rubric", "calls": "joint"}}
    ),
    "claims, p-yes": ("claims", rows, {"task": "rag", "options": {"verify": "p-yes"}}),
    "labels": ("llm-score", rows, {"aspects": LABELED}),
    "labels, probabilities": ("g-eval", rows, {"aspects": LABELED}),
    "labels, jury": ("jury", rows, {"aspects": LABELED}),
    "labels, yes or no": ("decomp-eval", rows, {"aspects": [WHETHER]}),
    "labels, agent": ("agent-judge", rows, {"aspects": LABELED}),
    "images": ("llm-score", lambda: rows(image=png_uri()), {"task": "rag"}),
    "samples": ("llm-score", rows, {"task": "rag", "options": {"n": 5, "temperature": 1.0}}),
    "sampled probabilities": ("g-eval", rows, {"task": "rag", "options": {"n": 5}}),
    "turns": ("llm-score", chats, {"task": "conversation-turn", "unit": "turn"}),
    "a grown tree": ("hd-eval", rows, {"task": "rag"}),
    "a written plan": ("fusion-eval", rows, {"task": "general", "tools": ["length"]}),
    "chains": ("coascore", rows, {"task": "rag"}),
}  # fmt: skip


def answers_in_form(body: dict[str, Any], draw: int) -> str:
    """Answer as the mock server does, and questions as questions."""
    prompt = prompt_of(body)
    if written := re.search(r"checklist to judge one aspect of the [^:]+: (\w+)\.", prompt):
        # equal questions on two aspects would be asked once
        asked = ("order", "truth", "style", "length", "tone")
        return "\n".join(
            f"{at}. {word}: Is the {word} of {written[1]} right?"
            for at, word in enumerate(asked, 1)
        )
    if "Evaluation Form (letters ONLY)" in prompt:
        return "A"
    return reply_to(body, prompt, draw, "score")


@pytest.mark.parametrize("variant", VARIANTS)
async def test_a_dry_run_counts_every_call_of_every_way_to_judge(variant, mock_server):
    """Written questions, rubrics of rows, labels, images, samples, turns: no request is missing."""
    method, examples, given = VARIANTS[variant]
    given = {"task": "general", **given}
    foretold = await dry_run(examples(), method, **given)
    server = await mock_server(reply=answers_in_form)
    async with textassay.connect("direct/any", api_base=server.url) as model:
        await textassay.evaluate(examples(), method=method, model=model, **given)
    if method in UPPER_BOUND:
        assert server.counters.requests <= foretold.calls
    else:
        assert server.counters.requests == foretold.calls
