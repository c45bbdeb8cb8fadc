"""Methods on decision models: as few requests as limits allow, and every value the server's own."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import textassay
from tests.decision_server import Decisions, serve_decisions, shares_of
from textassay.agents.typed_questions import QuestionBatcher
from textassay.evaluation.api import open_evaluation
from textassay.methods import build
from textassay.methods.method import traits_of
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.errors import ConfigurationError, NoLogprobs
from textassay.runtime.messages import Assignment, Example, Score
from textassay.runtime.model import Capabilities, Request
from textassay.runtime.questions import DecisionRequest, NamedText, Question, refused_answer
from textassay.tools.tool import Tool

EXAMPLE = Example(
    id="x",
    source="A cat sat on a mat. It slept.",
    output="A cat slept. It sat on a mat.",
    meta={"output_b": "A dog slept."},
)
LABELS = """
name = "note"
intro = "You will be given a note."
[[aspects]]
name = "tone"
definition = "how it sounds."
labels = {plain = "neither", angry = "it shouts", ironic = "it means the reverse"}
[[aspects]]
name = "risk"
definition = "how risky it is."
labels = {low = "", medium = "", high = ""}
ordered = true
"""
Json = dict[str, Any]


@asynccontextmanager
async def connected(
    server: Decisions, form: str = "systemone", **settings: Any
) -> AsyncIterator[Any]:
    async with (
        serve_decisions(server) as address,
        textassay.connect(f"{form}/judge", api_base=address, **settings) as model,
    ):
        yield model


async def scores_on(
    server: Decisions, method: str, example: Example = EXAMPLE, *, task: Any = "summarization",
    form: str = "systemone", aspects: Any = None, tools: Any = (), **options: Any,
) -> list[Score]:  # fmt: skip
    async with connected(server, form) as model:
        built = build(method, model, task=task, aspects=aspects, options=options, tools=tools)
        scores = await built.graph.run(Assignment(example=example, aspects=built.aspects))
    return list(scores)


def sent(server: Decisions) -> list[tuple[Json, list[float]]]:
    """Return every question that came, with the probabilities that the server gave."""
    answers = []
    for body in server.requests:
        material = body.get("input", body.get("state"))
        questions = body["questions"]
        for question in questions.values() if isinstance(questions, dict) else questions:
            if question["type"] in ("noul", "predicate"):
                options = ["yes", "no"]
            elif "choices" in question:
                options = [choice["value"] for choice in question["choices"]]
            elif isinstance(question.get("criteria"), dict):
                options = list(question["criteria"])
            else:
                levels = question.get("levels") or question["criteria"]
                options = [str(level) for level in range(len(levels))]
            answers.append((question, shares_of(f"{material}()", question, options)))
    return answers


def shares(server: Decisions, *words: str) -> list[float]:
    """Return the probabilities of the one question that has all these words."""
    [found] = [p for q, p in sent(server) if all(word in q["instructions"] for word in words)]
    return found


def mean_of(p: list[float], low: float = 1, high: float = 5) -> float:
    """Return the mean of levels that are evenly spaced."""
    return low + (high - low) * math.fsum(i * x for i, x in enumerate(p)) / (len(p) - 1)


@pytest.mark.parametrize("form", ["systemone", "decisions"])
@pytest.mark.parametrize("method", ["decide", "llm-score", "g-eval", "jury"])
async def test_every_aspect_is_a_rating_and_a_text_is_one_request(method, form):
    server = Decisions()
    scores = await scores_on(server, method, form=form)
    assert len(server.requests) == 1
    assert len(scores) == 4
    for score in scores:
        expected = mean_of(shares(server, f" on {score.aspect}"))
        assert score.value == pytest.approx(expected, abs=1e-9)
    assert sum(score.usage.calls for score in scores) == 1
    assert all("|joint:4-" in score.signature for score in scores)  # nothing is promised of it


@pytest.mark.parametrize("method", ["decide", "llm-score", "hd-eval", "checklist"])
async def test_signatures_say_beside_which_aspects_an_aspect_was_asked(method):
    server = Decisions()
    together = (["fluency"], ["fluency", "coherence"], ["fluency", "relevance"])
    found = set[str]()
    for aspects in together:
        scores = await scores_on(server, method, aspects=aspects)
        [signature] = {score.signature for score in scores}
        assert f"|joint:{len(aspects)}-" in signature
        found.add(signature)
    assert len(found) == len(together)


async def test_all_nodes_of_a_tree_are_one_request():
    server = Decisions()
    scores = await scores_on(server, "hd-eval")
    assert len(server.requests) == 1
    assert len(sent(server)) == 25  # the roots are rated, too
    leaves = {q["instructions"]: mean_of(p) for q, p in sent(server)}
    rated = [piece for score in scores for piece in score.evidence if "value" in piece]
    assert rated
    assert all(min(abs(piece["value"] - v) for v in leaves.values()) < 1e-9 for piece in rated)


@pytest.mark.parametrize(("most", "requests"), [(25, 1), (24, 2), (10, 3)])
async def test_limits_divide_questions_and_change_no_value(most, requests):
    whole = await scores_on(Decisions(), "hd-eval")
    server = Decisions(most_questions=most)
    async with connected(server) as model:
        built = build("hd-eval", model, task="summarization")
        for text in ("x", "y"):  # the first request shows the limit
            before = len(server.requests)
            example = EXAMPLE.model_copy(update={"id": text})
            scores = await built.graph.run(Assignment(example=example, aspects=built.aspects))
            assert [s.value for s in scores] == pytest.approx([s.value for s in whole])
    assert len(server.requests) - before in (requests, 0)


@pytest.mark.parametrize("method", ["decide", "llm-score", "g-eval"])
async def test_labels_are_choices_by_name(method, tmp_path):
    path, server = tmp_path / "note.toml", Decisions()
    path.write_text(LABELS, encoding="utf-8")
    [tone, risk] = await scores_on(server, method, task=str(path))
    of_tone, of_risk = shares(server, "Tone: "), shares(server, "Risk: ")
    assert tone.value == of_tone.index(max(of_tone))
    assert risk.value == pytest.approx(of_risk[1] + 2 * of_risk[2])
    assert len(server.requests) == 1


READY = {
    "rag": ("decide", {"passages": [{"id": "p1", "text": "A cat sat on a mat."}]}),
    "conversation": ("decide", {"messages": [
        {"role": "user", "content": "Where is the cat?"},
        {"role": "assistant", "content": "On the mat."}]}),
    "agent": ("decide", {"messages": [
        {"role": "user", "content": "Where is the cat?"},
        {"role": "assistant", "content": "On the mat."}]}),
    "safety": ("decide", {}),
}  # fmt: skip


@pytest.mark.parametrize("task", READY)
async def test_ready_tasks_are_judged_by_typed_questions(task):
    method, fields = READY[task]
    given = {"id": "x", "source": "Where is the cat?", "output": "On the mat.", **fields}
    example = Example(**given)
    server = Decisions()
    scores = await scores_on(server, method, example, task=task)
    scored = [score for score in scores if score.value is not None]
    assert scored
    assert len(server.requests) == 1
    for score in scored:
        assert score.how == "decision"
        low, high = score.scale
        assert low <= score.value <= high


async def test_an_aspect_that_needs_passages_abstains_without_any():
    server = Decisions()
    async with serve_decisions(server) as address:
        run = await textassay.evaluate(
            [EXAMPLE], method="decide", task="rag", model="systemone/judge",
            settings=textassay.Settings(api_base=address, cache=None),
        )  # fmt: skip
    by_aspect = {score.aspect: score for score in run}
    lacking = [score for score in by_aspect.values() if score.outcome == "abstained"]
    assert lacking
    assert {score.error.type for score in lacking} == {"MissingContext"}


async def test_a_decision_model_is_one_more_juror():
    server = Decisions()
    writer = ScriptedModel(lambda request: "Rating: 5", name="w")
    async with connected(server) as model:
        built = build("jury", {"juror1": model, "juror2": writer}, task="summarization",
                      aspects=["coherence"])  # fmt: skip
        [score] = await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects))
    assert score.value == pytest.approx((mean_of(sent(server)[0][1]) + 5) / 2)


async def test_a_checklist_is_the_mean_of_p_yes():
    server = Decisions()
    scores = await scores_on(server, "checklist")
    assert len(server.requests) == 1
    by_aspect = {score.aspect: score for score in scores}
    answers = [piece for piece in by_aspect["coherence"].evidence if "p_yes" in piece]
    expected = [shares(server, piece["text"])[0] for piece in answers]
    assert [piece["p_yes"] for piece in answers] == pytest.approx(expected)
    assert by_aspect["coherence"].value == pytest.approx(math.fsum(expected) / len(expected))


POINTS = {f"Says {what}": points for what, points in [
    ("who slept", 1.0), ("where", 2.0), ("when", 3.0), ("why it slept", 2.0), ("a name", -1.0),
    ("something wrong", -2.0),
]}  # fmt: skip


@pytest.mark.parametrize("output", ["A cat slept.", "It sat on a mat.", "A dog barked.", "Nein."])
async def test_a_rubric_of_the_row_is_asked_in_one_request(output):
    """The score is the expected share of points; the evidence also has the likely points."""
    server = Decisions()
    rubric = [{"criterion": text, "points": points} for text, points in POINTS.items()]
    example = Example(id="x", source=EXAMPLE.source, output=output, rubric=rubric)
    [score] = await scores_on(server, "checklist", example, checklist="rubric", total="raw")
    assert len(server.requests) == 1
    p_yes = {text: shares(server, text)[0] for text in POINTS}
    given = {piece["text"]: piece["p_yes"] for piece in score.evidence if "p_yes" in piece}
    assert given == pytest.approx(p_yes)
    expected = math.fsum(POINTS[text] * p for text, p in p_yes.items())
    assert score.value == pytest.approx(expected / 8)
    likely = math.fsum(POINTS[text] for text, p in p_yes.items() if p > 0.5)
    assert (
        f"expected; {likely:g} with the criteria that are likely met" in score.evidence[-1]["text"]
    )


async def test_all_claims_are_verified_in_one_request():
    server = Decisions()
    [score] = await scores_on(server, "claims", split="sentences", support="probability")
    expected = [shares(server, f"Claim: {s}")[0] for s in ("A cat slept.", "It sat on a mat.")]
    assert score.value == pytest.approx(math.fsum(expected) / 2)
    assert len(server.requests) == 1


async def test_decomp_eval_asks_about_all_sentences_at_once():
    server = Decisions()
    scores = {s.aspect: s for s in await scores_on(server, "decomp-eval")}
    assert len(server.requests) == 1
    fluent = [p[0] for q, p in sent(server) if "a fluent paragraph" in q["instructions"]]
    assert scores["fluency"].value == pytest.approx(math.fsum(fluent) / 2)
    [whole] = [
        p[0] for q, p in sent(server)
        if "coherent" in q["instructions"] and "sentence" not in q["instructions"]
    ]  # fmt: skip
    assert scores["coherence"].value == pytest.approx(whole)
    assert "|order:independent|" in scores["coherence"].signature


@pytest.mark.parametrize("ties", [False, True])
async def test_a_comparison_is_the_mean_of_both_orders(ties):
    server = Decisions()
    scores = await scores_on(server, "pairwise", aspects=["coherence"], ties=ties)
    assert len(server.requests) == 2
    forth, back = [
        (p, body["state"]["Summary A"])
        for body, (_, p) in zip(server.requests, sent(server), strict=True)
    ]
    if forth[1] != EXAMPLE.output:
        forth, back = back, forth
    half = [(p[2] / 2 if ties else 0.0) for p in (forth[0], back[0])]
    expected = (forth[0][0] + half[0] + back[0][1] + half[1]) / 2
    assert scores[0].value == pytest.approx(expected)
    flips = (forth[0][0] > forth[0][1]) != (back[0][1] > back[0][0])
    assert any(piece.get("flipped") for piece in scores[0].evidence) == flips


async def test_related_aspects_are_a_request_before():
    server = Decisions()
    scores = await scores_on(server, "coascore", variant="inter")
    assert len(server.requests) == 2
    for score in scores:
        assert score.value == pytest.approx(
            mean_of(shares(server, f" on {score.aspect}", "relevant"))
        )


class Length(Tool):
    """Counts words."""

    name = "length"
    description = "number of words"
    scale = (0.0, 100.0)
    higher_is_better = True
    signature = "length"

    async def score(self, example: Example) -> Score:
        return Score(id=example.id, aspect=self.name, value=float(len(example.output.split())),
                     scale=self.scale)  # fmt: skip


async def test_scores_of_tools_are_shown_beside_the_texts():
    server = Decisions()
    scores = await scores_on(server, "fusion-eval", tools=[Length()], plan="none")
    assert len(server.requests) == 1
    assert server.requests[0]["state"]["length score"].startswith("8 (number of words; 0 to 100")
    for score in scores:
        assert score.value == pytest.approx(
            mean_of(shares(server, f" on {score.aspect}", "Rate the"))
        )
        assert score.how == "decision"


# what a server may do wrong, and what becomes of the score


def _first_rating(change: Callable[[Json], Any]) -> Callable[[Json], None]:
    def spoil(payload: Json) -> None:
        change(next(iter(payload["answers"].values())))

    return spoil


MALFORMED: dict[str, Callable[[Json], Any]] = {
    "no number": lambda a: a["probabilities"].update({"0": None}),
    "text": lambda a: a["probabilities"].update({"0": "0.2"}),
    "too much": lambda a: a["probabilities"].update({"0": a["probabilities"]["0"] + 0.2}),
    "negative": lambda a: a["probabilities"].update({"0": -0.1}),
    "an option less": lambda a: a["probabilities"].pop("0"),
    "an option more": lambda a: a["probabilities"].update({"9": 0.0}),
    "another kind": lambda a: (a.clear(), a.update(type="noul", noul=0.4)),
}


@pytest.mark.parametrize("fault", MALFORMED)
@pytest.mark.parametrize("method", ["decide", "llm-score", "g-eval"])
async def test_a_malformed_answer_is_invalid_and_leaves_the_others(method, fault):
    server = Decisions(spoil=_first_rating(MALFORMED[fault]))
    first, *others = await scores_on(server, method)
    assert (first.outcome, first.value) == ("invalid", None)
    assert first.error is not None
    assert first.error.message
    assert all(score.outcome == "scored" for score in others)


REFUSING = {
    "decide": {}, "llm-score": {}, "g-eval": {}, "hd-eval": {}, "decomp-eval": {},
    "checklist": {}, "claims": {"split": "sentences"}, "pairwise": {},
    "coascore": {"variant": "inter"}, "jury": {},
}  # fmt: skip


@pytest.mark.parametrize("method", REFUSING)
async def test_a_refused_question_is_not_a_number(method):
    """One question that the model refuses; scores without it are what they were."""
    asked = list[Question]()

    def answers(request: Any) -> list[Any]:
        given = list[Any]()
        for question in request.questions:
            if not asked:
                asked.append(question)
            if question == asked[0]:
                given.append(refused_answer("the model refuses this question"))
            else:
                given.append(dict.fromkeys(question.names, 1 / len(question.names)))
        return given

    model = ScriptedModel(decide=answers)
    built = build(method, model, task="summarization", options=REFUSING[method])
    scores = await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects))
    touched = [score for score in scores if score.outcome != "scored"]
    if method in ("decide", "llm-score", "g-eval", "pairwise"):
        assert [score.outcome for score in touched] == ["abstained"]
        assert "refuses" in touched[0].error.message
    assert all(score.value is None for score in touched)
    assert all(score.error is not None for score in touched)


async def test_a_second_run_and_a_resumed_one_ask_nothing(tmp_path):
    server = Decisions()
    examples = [EXAMPLE, EXAMPLE.model_copy(update={"id": "y", "output": "It slept."})]
    async with serve_decisions(server) as address:
        settings = textassay.Settings(api_base=address, cache=str(tmp_path / "cache"))
        asked: dict[str, Any] = {"method": "hd-eval", "task": "summarization",
                                 "model": "systemone/judge", "settings": settings}  # fmt: skip
        first = await textassay.evaluate(examples, **asked, out=tmp_path / "run")
        assert len(server.requests) == 2
        again = await textassay.evaluate(examples, **asked)
        resumed = await textassay.evaluate(examples, **asked, out=tmp_path / "run", resume=True)
    assert len(server.requests) == 2
    assert [s.value for s in resumed] == [s.value for s in first]
    assert [s.value for s in first] == [s.value for s in again]
    assert [s.signature for s in first] == [s.signature for s in again]


@pytest.mark.parametrize("is_chat", [False, True])
@pytest.mark.parametrize("method", ["decide", "llm-score", "hd-eval", "pairwise"])
async def test_a_resumed_run_asks_the_whole_set_of_questions_that_may_influence_each_other(
    method, is_chat, tmp_path
):
    """Only the missing score is written, and it is the one that a run without errors has."""
    examples = [EXAMPLE.model_copy(update={"output": text}) for text in ("It slept.", "It ran.")]
    examples[1] = examples[1].model_copy(update={"id": "y"})
    server, chatting = Decisions(leak=True), json_judge()
    async with serve_decisions(server) as address:
        asked: dict[str, Any] = {"method": method, "task": "summarization"}
        if is_chat:
            asked |= {"model": chatting, "options": {"profile": "typed"}}
        else:
            asked |= {"model": "systemone/judge", "settings": {"api_base": address}}
        whole = await textassay.evaluate(examples, **asked, out=tmp_path / "whole")
        counts = [len(server.requests), len(chatting.requests)]
        lines = (tmp_path / "whole" / "scores.jsonl").read_text().splitlines()
        run = tmp_path / "run"
        shutil.copytree(tmp_path / "whole", run)
        problem = {"type": "ServerFailed", "message": "overloaded"}
        lost = json.loads(lines[1]) | {"outcome": "error", "value": None, "error": problem}
        (run / "scores.jsonl").write_text("\n".join([lines[0], json.dumps(lost), *lines[2:], ""]))
        resumed = await textassay.evaluate(examples, **asked, out=run, resume=True)
        assert [len(server.requests), len(chatting.requests)] == counts  # the answers are stored
    values = [{(score.id, score.aspect): score.value for score in one} for one in (whole, resumed)]
    assert values[0] == values[1]
    written = (run / "scores.jsonl").read_text().splitlines()[len(lines) :]
    assert [json.loads(line)["aspect"] for line in written] == [lost["aspect"]]


def texts(output: str) -> tuple[NamedText, ...]:
    return (NamedText(name="summary", text=output),)


class HeldModel(ScriptedModel):
    """Answers yes with .75 once its gate is open."""

    def __init__(self) -> None:
        super().__init__(
            decide=lambda request: [{"yes": 0.75, "no": 0.25} for _ in request.questions]
        )
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    async def decide(self, request: Any) -> Any:
        self.begun.set()
        await self.gate.wait()
        return await super().decide(request)


async def test_a_cancelled_leader_hands_over_to_those_who_wait():
    model = HeldModel()
    batcher = QuestionBatcher(model)
    first, second = Question.yes_no("First?"), Question.yes_no("Second?")
    leader = asyncio.ensure_future(batcher.ask(first, texts("It slept.")))
    follower = asyncio.ensure_future(batcher.ask(second, texts("It slept.")))
    await model.begun.wait()
    leader.cancel()
    await asyncio.sleep(0)
    model.gate.set()
    answered = await asyncio.wait_for(follower, 5)
    assert answered.answer.p_yes == 0.75
    assert answered.usage.calls == 1  # paid for once, by who is left
    with pytest.raises(asyncio.CancelledError):
        await leader


async def test_a_question_that_comes_late_gets_a_request_of_its_own():
    model = HeldModel()
    batcher = QuestionBatcher(model)
    first = asyncio.ensure_future(batcher.ask(Question.yes_no("First?"), texts("A.")))
    await model.begun.wait()
    late = asyncio.ensure_future(batcher.ask(Question.yes_no("Late?"), texts("A.")))
    await asyncio.sleep(0)
    model.gate.set()
    answered = [await first, await late]
    assert [one.usage.calls for one in answered] == [1, 1]
    assert [[q.text for q in r.questions] for r in model.requests] == [["First?"], ["Late?"]]


@pytest.mark.parametrize("method", REFUSING)
async def test_no_score_depends_on_the_examples_that_are_judged_at_the_same_time(method):
    """Whatever examples share: the source, the text, or both."""
    shared = [EXAMPLE]
    for name, output in (("y", "A dog barked. It left."), ("z", EXAMPLE.output)):
        shared.append(EXAMPLE.model_copy(update={"id": name, "output": output}))
    values = list[list[float | None]]()
    for examples in ([EXAMPLE], shared):
        server = Decisions(leak=True)
        async with connected(server) as model:
            built = build(method, model, task="summarization", options=REFUSING[method])
            runs = [
                built.graph.run(Assignment(example=example, aspects=built.aspects))
                for example in examples
            ]
            scores, *_ = await asyncio.gather(*runs)
        values.append([score.value for score in scores])
    assert values[0] == values[1]


@pytest.mark.parametrize(("name", "requests"), [("jev-latest", 1), ("judge", 2)])
async def test_claims_of_several_examples_share_a_request_where_no_question_influences_another(
    name, requests
):
    server = Decisions()
    other = EXAMPLE.model_copy(update={"id": "y", "output": "A dog barked."})
    async with (
        serve_decisions(server) as address,
        textassay.connect(f"systemone/{name}", api_base=address) as model,
    ):
        options = {"split": "sentences"}
        built = build("claims", model, task="summarization", options=options)
        runs = [
            built.graph.run(Assignment(example=example, aspects=built.aspects))
            for example in (EXAMPLE, other)
        ]
        scores = [score for found in await asyncio.gather(*runs) for score in found]
    assert {score.outcome for score in scores} == {"scored"}
    assert len(server.requests) == requests


async def test_only_the_questions_that_are_not_under_way_get_a_further_request():
    model = HeldModel()
    batcher = QuestionBatcher(model)
    one, two, three = (Question.yes_no(f"{name}?") for name in ("One", "Two", "Three"))
    first = asyncio.ensure_future(batcher.ask_all([one, two], texts("A.")))
    await model.begun.wait()
    late = asyncio.ensure_future(batcher.ask_all([three, two, three], texts("A.")))
    await asyncio.sleep(0)
    model.gate.set()
    answered = [*await first, *await late]
    assert [[q.text for q in r.questions] for r in model.requests] == [["One?", "Two?"], ["Three?"]]
    assert [reply.answer.p_yes for reply in answered] == [0.75] * 5
    assert [reply.usage.calls for reply in answered] == [1, 0, 1, 0, 0]


@pytest.mark.parametrize("method", ["decide", "hd-eval", "llm-score"])
async def test_all_aspects_in_one_call_get_the_scores_of_one_call_each(method):
    options = {"hd-eval": {"output": "nodes"}}.get(method, {})
    together = await scores_on(Decisions(), method, **options)
    async with connected(Decisions()) as model:
        built = build(method, model, task="summarization", options=options)
        alone = [
            await built.graph.run(Assignment(example=EXAMPLE, aspects=(aspect,)))
            for aspect in built.aspects
        ]
    free = Usage()
    assert [one.model_copy(update={"usage": free}) for one in together] == [
        one.model_copy(update={"usage": free}) for [one] in alone
    ]
    assert sum(one.usage.calls for one in together) == 1


@pytest.mark.parametrize("output", ["aspects", "nodes"])
async def test_a_request_that_fails_is_an_error_on_every_aspect(output):
    server = Decisions(spoil=lambda body: b'{"object": ')
    async with serve_decisions(server) as address:
        run = await textassay.evaluate(
            [EXAMPLE], method="hd-eval", task="summarization", model="systemone/judge",
            settings={"api_base": address, "attempts": 1}, options={"output": output},
        )  # fmt: skip
    assert {score.outcome for score in run} == {"error"}
    assert {score.error.type for score in run} == {"MalformedResponse"}
    assert all(score.evidence for score in run) == (output == "aspects")  # each node's own error


WRITERS = [
    ("claims", {}, "claims: take options"),
    ("coascore", {}, "chains of aspects"),
    ("hd-eval", {"tree": "model"}, "a tree of criteria"),
    ("g-eval", {"steps": "auto"}, "evaluation steps"),
    ("fusion-eval", {}, "a plan"),
    ("checklist", {"checklist": "model"}, "write"),
    ("agent-judge", {}, "looks nothing up"),
    ("llm-score-cot", {}, "no chain of thought"),
    ("gptscore", {}, "no log-probabilities"),
    ("decide", {"n": 3}, "n"),
    ("llm-score", {"n": 3}, "n=3 has no effect"),
    ("fusion-eval", {"n": 3, "plan": "none"}, "n=3 has no effect"),
    ("llm-score", {"temperature": 0.5}, "temperature=0.5 has no effect"),
]


@pytest.mark.parametrize(("method", "options", "reason"), WRITERS)
def test_methods_that_need_words_are_refused_before_anything_is_asked(method, options, reason):
    model = ScriptedModel(decide=lambda request: [])
    tools = [Length()] if method == "fusion-eval" else ()
    with pytest.raises(ConfigurationError, match=reason):
        build(method, model, task="summarization", options=options, tools=tools)
    assert not model.requests


def writes(request: Any) -> str:
    """Write the requested list, one line each."""
    return "\n".join(f"{i}. Part {i}: how good part {i} is." for i in range(1, 6))


@pytest.mark.parametrize(
    ("method", "role", "options"),
    [("claims", "splitter", {}), ("coascore", "decomposer", {"n_aspects": 5}),
     ("hd-eval", "decomposer", {"tree": "model"}), ("g-eval", "steps", {})],
)  # fmt: skip
async def test_a_chat_model_writes_and_a_decision_model_judges(method, role, options):
    judge = ScriptedModel(
        decide=lambda r: [dict.fromkeys(q.names, 1 / len(q.names)) for q in r.questions], name="d"
    )
    writer = ScriptedModel(writes, name="w", capabilities=Capabilities(n=True))
    built = build(method, {"": judge, role: writer}, task="summarization", aspects=None
                  if method == "claims" else ["coherence"], options=options)  # fmt: skip
    scores = await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects))
    assert [score.outcome for score in scores] == ["scored"]
    assert writer.requests


@pytest.mark.parametrize(("method", "asked"), [("decide", DecisionRequest), ("llm-score", Request)])
async def test_a_model_that_chats_too_decides_for_decide_alone(method: str, asked: type) -> None:
    """As `openai/gpt-6-luna`: methods that write ask it as a chat model."""
    model = ScriptedModel(
        lambda _: "Score: 4",
        decide=lambda request: [{"1": 0, "2": 0, "3": 0, "4": 0, "5": 1}] * len(request.questions),
    )
    run = await textassay.evaluate(
        [{"id": "x", "source": "It rained.", "output": "Rain."}],
        method=method, task="summarization", aspects=["coherence"], model=model,
    )  # fmt: skip
    assert {type(request) for request in model.requests} == {asked}
    assert [score.value for score in run.scores] == [5.0 if method == "decide" else 4.0]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("decomp-eval", {}),
        ("checklist", {"answers": "p-yes"}),
        ("claims", {"verify": "p-yes", "split": "sentences"}),
    ],
)
async def test_scores_of_a_model_that_chats_and_decides_carry_a_signature_of_the_method(
    method: str, options: dict[str, Any]
) -> None:
    model = ScriptedModel(
        lambda _: "yes",
        decide=lambda request: [{"yes": 1, "no": 0}] * len(request.questions),
        choices=lambda request: dict.fromkeys(request.choices, -1.0),
    )
    built = build(method, {"": model}, task="summarization", aspects=None
                  if method == "claims" else ["coherence"], options=options)  # fmt: skip
    scores = await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects))
    assert {score.signature for score in scores} <= set(traits_of(built).signatures)


async def test_a_dry_run_settles_nothing_for_the_run_after_it() -> None:
    """Both ask through one connection, whose model sends no probabilities."""
    scripted = ScriptedModel(lambda _: "yes", choices=lambda _: NoLogprobs("never"))
    wanted: dict[str, Any] = {"task": "summarization", "aspects": ["coherence"]}
    rows = [{"id": "x", "source": "It rained.", "output": "Rain."}]
    async with textassay.connect(scripted) as model:
        given = {"method": "decomp-eval", "model": model, **wanted}
        async with open_evaluation(rows, dry=True, **given) as session:
            assert [score.how async for score in session.engine.scores()] == ["logprob"]
        run = await textassay.evaluate(rows, **given)
    assert [(score.value, score.how) for score in run.scores] == [(1.0, "sampled")]


def json_judge(lacks: str = "", name: str = "scripted", **abilities: Any) -> ScriptedModel:
    """A chat model that gives the last answer to each question in one JSON object."""

    def write(request: Request) -> str:
        assert request.json_schema is not None
        asked = request.json_schema["properties"]
        return json.dumps({q: one["enum"][-1] for q, one in asked.items() if q != lacks})

    able = {"logprobs": False, "choices": False, "json_schema": True, "thinks": False}
    return ScriptedModel(write, name=name, capabilities=Capabilities(**{**able, **abilities}))


async def typed_scores(model: ScriptedModel, method: str, **options: Any) -> list[Score]:
    given = options if method == "decide" else {"profile": "typed", **options}
    built = build(method, model, task="summarization", options=given)
    return list(await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects)))


@pytest.mark.parametrize(
    ("method", "options", "requests", "value"),
    [
        ("decide", {}, 1, 5),
        ("llm-score", {}, 1, 5),
        ("g-eval", {"steps": "none"}, 1, 5),
        ("hd-eval", {}, 1, 5),
        ("checklist", {}, 1, 0),
        ("claims", {"split": "sentences"}, 1, 0),
        ("decomp-eval", {}, 1, 0),
        ("pairwise", {}, 2, None),
    ],
)
async def test_a_chat_model_answers_all_questions_of_a_text_in_one_json_object(
    method, options, requests, value
):
    model = json_judge()
    scores = await typed_scores(model, method, **options)
    assert len(model.requests) == requests
    assert {request.n for request in model.requests} == {1}
    assert {request.temperature for request in model.requests} == {0}
    scored = [score for score in scores if score.value is not None]
    assert scored
    if value is not None:
        assert {score.value for score in scored} == {value}
    assert all("|joint" in score.signature for score in scored)
    given = options if method == "decide" else {"profile": "typed", **options}
    known = traits_of(build(method, model, task="summarization", options=given)).signatures
    assert {score.signature for score in scored} <= set(known)


async def test_decide_needs_no_option_for_one_json_object_and_profile_none_asks_for_samples():
    [score, *_] = await typed_scores(json_judge(), "decide")
    assert (score.how, score.samples, score.spread, score.evidence) == ("text", None, None, ())
    assert "|how:text|words:" in score.signature
    assert "|joint:4-" in score.signature
    model = ScriptedModel(lambda _: "4", capabilities=json_judge().capabilities)
    [sampled, *_] = await typed_scores(model, "decide", profile="none")
    assert (sampled.how, sampled.samples, sampled.value) == ("sampled", 20, 4)
    assert len(model.requests) == 4
    assert not any("joint" in score.signature for score in [sampled])


async def test_decide_asks_a_model_that_chats_and_decides_for_decisions():
    """So do other methods, with the profile; the model's own answers need no words."""
    for method in ("decide", "llm-score"):
        model = ScriptedModel(
            lambda _: "never",
            decide=lambda r: [{n: float(n == q.names[-1]) for n in q.names} for q in r.questions],
        )
        scores = await typed_scores(model, method)
        assert {(score.how, score.value) for score in scores} == {("decision", 5)}
        assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("written", "outcomes"),
    [
        ("I can't help with rating this.", ["abstained"] * 4),
        ('{"error": "I cannot assist with that request."}', ["abstained"] * 4),
        ("null", ["abstained"] * 4),
        ('{"q1": null, "q2": "4", "q3": "refused", "q4": "N/A"}',
         ["abstained", "scored", "abstained", "abstained"]),
        ('{"q1": "I\'m sorry, I cannot rate this.", "q2": "Declined.", "q3": "4"}',
         ["abstained", "abstained", "scored", "invalid"]),
        ('{"q1": "not applicable", "q2": "no idea", "q3": "", "q4": []}',
         ["abstained", "invalid", "invalid", "invalid"]),
        ("The text refuses to say more.", ["invalid"] * 4),
    ],
)  # fmt: skip
async def test_a_refusal_in_words_or_of_a_question_in_the_object_is_abstained(written, outcomes):
    able = json_judge().capabilities
    scores = await typed_scores(ScriptedModel(lambda _: written, capabilities=able), "decide")
    assert [score.outcome for score in scores] == outcomes
    types = {score.error.type for score in scores if score.outcome == "abstained"}
    assert types <= {"Declined"}  # as from a judge that writes


@pytest.mark.parametrize("roles", [("juror1", "juror2"), ("juror", "juror7")])
async def test_every_juror_answers_all_questions_of_a_text_in_one_json_object(roles):
    models = {role: json_judge(name=role) for role in roles}
    built = build("jury", models, task="summarization", options={"profile": "typed"})
    scores = await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects))
    assert [score.value for score in scores] == [5, 5, 5, 5]
    assert [len(model.requests) for model in models.values()] == [1, 1]


@pytest.mark.parametrize(
    ("method", "options", "requests"),
    [
        ("decide", {}, 2),
        ("llm-score", {}, 2),
        ("llm-score", {"parse_retries": 0}, 1),
        ("hd-eval", {"parse_retries": 3}, 4),
    ],
)
async def test_an_unusable_json_answer_is_requested_again_as_often_as_others(
    method, options, requests
):
    model = ScriptedModel(lambda _: "Hm.", capabilities=json_judge().capabilities)
    scores = await typed_scores(model, method, **options)
    assert len(model.requests) == requests
    assert {score.outcome for score in scores} == {"invalid"}
    assert len(scores[0].evidence) >= requests - 1


async def test_a_question_that_a_json_object_leaves_out_is_invalid_and_the_others_count():
    scores = await typed_scores(json_judge(lacks="q2"), "decide")
    assert [score.outcome for score in scores] == ["scored", "invalid", "scored", "scored"]
    tree = await typed_scores(json_judge(lacks="q2"), "hd-eval", output="nodes")
    assert [score.outcome for score in tree].count("invalid") == 1


async def test_a_profile_of_typed_questions_reads_log_probabilities_where_there_are_some():
    asked = list[Any]()

    def logprobs(request: Any) -> dict[str, float]:
        asked.append(request)
        return dict.fromkeys(request.choices, -math.log(len(request.choices)))

    model = ScriptedModel(["never"], choices=logprobs)
    scores = await typed_scores(model, "llm-score")
    assert [score.value for score in scores] == [3, 3, 3, 3]
    assert len(asked) == 4
    assert {score.how for score in scores} == {"logprob"}
    assert not any("joint" in score.signature for score in scores)


async def test_methods_and_options_that_need_written_answers_refuse_typed_questions():
    with pytest.raises(ConfigurationError, match="profile=typed"):
        build("gptscore", json_judge(), task="summarization", options={"profile": "typed"})
    with pytest.raises(ConfigurationError, match="n=3 has no effect"):
        build("llm-score", json_judge(), task="summarization", options={"profile": "typed", "n": 3})
    for method, others in {"pairwise": {}, "fusion-eval": {"plan": "none"}}.items():
        for name, value in {"temperature": 0.5, "seed": 3, "max_tokens": 99}.items():
            options = {"profile": "typed", name: value, **others}
            with pytest.raises(ConfigurationError, match=f"{name}={value} has no effect"):
                build(method, json_judge(), task="summarization", options=options)
    # the plan is written
    options = {"profile": "typed", "seed": 3}
    build("fusion-eval", json_judge(), task="summarization", options=options, tools=["rouge"])


WITH_RETRIES = {
    "llm-score": {}, "g-eval": {"steps": "none"}, "jury": {}, "hd-eval": {}, "pairwise": {},
    "checklist": {}, "claims": {"split": "sentences"}, "coascore": {"variant": "inter"},
    "fusion-eval": {"plan": "none"},
}  # fmt: skip


@pytest.mark.parametrize("method", WITH_RETRIES)
async def test_answers_of_a_decision_model_are_not_repeated(method):
    """A chat model's JSON object is, and so is what another role writes."""
    tools = [Length()] if method == "fusion-eval" else ()
    decides = ScriptedModel(decide=lambda _: [])

    def make(models: Any, **options: Any) -> None:
        build(method, models, task="summarization", options=options, tools=tools)

    for name in ("parse_retries", "seed"):
        with pytest.raises(ConfigurationError, match=f"{name}=3 has no effect"):
            make(decides, **WITH_RETRIES[method], **{name: 3})
    make(json_judge(), profile="typed", parse_retries=3, **WITH_RETRIES[method])
    with pytest.raises(ConfigurationError, match="seed=3 has no effect"):
        make(json_judge(), profile="typed", seed=3, **WITH_RETRIES[method])
    writing = {"hd-eval": {"tree": "model"}, "checklist": {"checklist": "model"}, "claims": {},
               "coascore": {}}  # fmt: skip
    if method in writing:
        both = {"scorer": decides, "": ScriptedModel(["1. Is it?"])}
        make(both, parse_retries=3, **writing[method])


async def test_only_the_judge_gets_typed_questions_and_another_role_of_the_model_writes():
    steps = ["1. Read the text."] * 4

    def reply(request: Request) -> str:
        if request.json_schema is None:
            return steps.pop()
        return json.dumps(dict.fromkeys(request.json_schema["properties"], "5"))

    able = Capabilities(logprobs=False, choices=False, json_schema=True, thinks=False)
    model = ScriptedModel(reply, capabilities=able)
    scores = await typed_scores(model, "g-eval")
    assert not steps
    assert [score.value for score in scores] == [5, 5, 5, 5]
    assert "1. Read the text." in str(model.requests[-1])
