"""Methods that read probabilities, of servers that send log-probabilities, none, or one candidate:
what is asked, what scores say of it, and what an option that was typed forbids."""

import asyncio
import math
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.harness import rows_of, score, served, write_lines
from tests.cli.harness import textassay as command
from tests.loopback import listening
from textassay import connect, evaluate
from textassay.agents.ask import Ask
from textassay.agents.questions import Answerer, AnswersInOrder, SentenceQuestions, YesNoAggregator
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import CapabilityError
from textassay.runtime.messages import Example
from textassay.runtime.model import Capabilities, Sample

ROWS = [
    {"id": f"x{at}", "source": "A cat sat on a mat.", "output": f"A cat slept {at} times."}
    for at in range(6)
]
METHODS = {
    "g-eval": {"steps": "none"},
    "decomp-eval": {},
    "checklist": {"answers": "p-yes"},
    "claims": {"split": "sentences", "verify": "p-yes"},
}
LACKS = ("refused-400", "refused-403", "absent", "one-candidate")
REFUSALS = {
    "refused-400": (
        400,
        "Unsupported parameter: 'logprobs' is not supported with this model.",
        "logprobs",
    ),
    "refused-403": (403, "You are not allowed to request logprobs from this model", None),
}


class Judge:
    """An OpenAI-compatible server that rates with 4 and says yes in four of five answers."""

    def __init__(self, logprobs="sent", thinks=False):
        self.logprobs, self.thinks = logprobs, thinks
        self.bodies = []
        self.url = ""

    @property
    def useless(self):
        """Requests for log-probabilities."""
        return [body for body in self.bodies if body.get("logprobs")]

    async def answer(self, request):
        body = await request.json()
        self.bodies.append(body)
        await asyncio.sleep(0)
        if body.get("logprobs") and self.logprobs in REFUSALS:
            status, message, parameter = REFUSALS[self.logprobs]
            error = {"message": message, "type": "invalid_request_error", "param": parameter}
            return web.json_response({"error": {**error, "code": None}}, status=status)
        prompt = body["messages"][-1]["content"]
        words = ["Yes", "Yes", "Yes", "Yes", "No"] if prompt.rstrip().endswith("?") else ["4"]
        choices = [self._choice(body, words[at % len(words)]) for at in range(body.get("n", 1))]
        usage = {"prompt_tokens": 50, "completion_tokens": 1 + 90 * self.thinks}
        if self.thinks:
            usage["completion_tokens_details"] = {"reasoning_tokens": 90}
        return web.json_response({"choices": choices, "usage": usage, "model": "judge"})

    def _choice(self, body, word):
        cap = body.get("max_completion_tokens") or body.get("max_tokens") or 10_000
        message = {"role": "assistant", "content": word}
        if self.thinks:
            message["reasoning"] = "It may be a 2, or no."
            if cap < 91:
                message["content"] = ""
                return {"index": 0, "message": message, "finish_reason": "length"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        if body.get("logprobs") and self.logprobs != "absent":
            top = {word: -0.2, "No" if word == "Yes" else "5": math.log(1 - math.exp(-0.2))}
            given = [{"token": token, "logprob": logprob} for token, logprob in top.items()]
            token = {**given[0], "top_logprobs": given}
            if self.logprobs == "one-candidate":
                token["top_logprobs"] = given[:1]
            choice["logprobs"] = {"content": [token]}
        return choice


@asynccontextmanager
async def serve(*how):
    """A judge that listens while the block lasts."""
    judge = Judge(*how)

    async def answer(request):
        return await judge.answer(request)

    async with listening(answer) as address:
        judge.url = f"{address}/v1"
        yield judge


async def scored(judge, method, **options):
    """Return the scores of all rows on one aspect."""
    async with connect("direct/judge", api_base=judge.url, concurrency=8) as model:
        run = await evaluate(
            ROWS,
            method=method,
            task="summarization",
            aspects=["consistency"],
            model=model,
            options=METHODS[method] | options,
        )
    return list(run.scores)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lack", LACKS)
async def test_samples_take_the_place_of_log_probabilities(method, lack):
    """One request finds it out, however many are in flight; every score says what was done."""
    async with serve(lack) as judge:
        scores = await scored(judge, method)
    assert len(judge.useless) == 1
    assert {score.outcome for score in scores} == {"scored"}
    assert all("|how:sampled|n:20|temp:1|" in score.signature for score in scores)
    if method in ("g-eval", "decomp-eval"):
        assert {(score.how, score.samples) for score in scores} == {("sampled", 20)}
    sampled = [body for body in judge.bodies if not body.get("logprobs")]
    assert {body["temperature"] for body in sampled} == {1.0}
    value = {"g-eval": 4.0, "claims": 1.0}.get(method, 0.8)
    assert all(score.value == pytest.approx(value) for score in scores)


@pytest.mark.parametrize("method", METHODS)
async def test_fewer_samples_of_a_model_that_thinks(method):
    """A first sample shows that it does; a thought is kept as evidence and never read."""
    async with serve("refused-400", True) as judge:
        scores = await scored(judge, method)
    assert len(judge.useless) == 1
    assert all("|how:sampled|n:5|temp:1|" in score.signature for score in scores)
    thoughts = [piece["thought"] for piece in scores[0].evidence if "thought" in piece]
    assert thoughts[:1] == ["It may be a 2, or no."]


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("method", METHODS)
async def test_usable_log_probabilities_are_read(method, thinks):
    """Behind a thought, too; nothing is sampled."""
    async with serve("sent", thinks) as judge:
        scores = await scored(judge, method)
    assert len(judge.useless) == len(judge.bodies)
    assert {score.outcome for score in scores} == {"scored"}
    assert all("how:sampled" not in score.signature for score in scores)
    assert all("how:auto" not in score.signature for score in scores)


@pytest.mark.parametrize("method", ["g-eval", "decomp-eval"])
@pytest.mark.parametrize("lack", LACKS)
async def test_what_was_asked_for_explicitly_is_never_replaced(method, lack):
    """The run stops at the request that finds it out."""
    async with serve(lack) as judge:
        with pytest.raises(CapabilityError):
            await scored(judge, method, reading="logprob")
    assert len(judge.bodies) == 1


@pytest.mark.parametrize(
    ("name", "options"), [("gptscore", []), ("decomp-eval", ["--set", "reading=logprob"])]
)
def test_a_server_without_log_probabilities_stops_a_run_and_names_what_would_do(
    name, options, tmp_path
):
    data = write_lines(tmp_path / "data.jsonl", ROWS[:1])
    flags = ["--method", name, "--task", "summarization", "--model", "direct/mock", *options]
    with served(omit_logprobs=True) as server:
        done = command("score", data, *flags, "--api-base", server.url, "--out", tmp_path / name)
    assert done.code in (2, 3)
    assert "log-probabilities" in done.err


async def test_a_run_is_resumed_under_the_same_signature_and_costs_nothing_twice(tmp_path):
    """The manifest says `how:auto` before and after; what was learned is remembered."""
    rows = [{"id": str(at), "source": "S", "output": "O"} for at in range(3)]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "run"
    async with serve("absent") as judge:
        first = await asyncio.to_thread(
            score, data, out, judge.url, "--task", "summarization", "--progress", "none", "--cache",
            tmp_path / "cache", method="decomp-eval", model="direct/judge", aspects="coherence",
        )  # fmt: skip
        told = "log-probabilities if direct/judge sends usable ones, else 20 samples"
        assert told in first.ok().err
        write_lines(out / "scores.jsonl", rows_of(out)[:-1])
        paid = len(judge.bodies)
        (await asyncio.to_thread(command, "resume", out, "--api-base", judge.url)).ok()
        assert len(judge.bodies) == paid


UNUSABLE = ("hm", "I cannot say yes or no.")


@given(st.lists(st.sampled_from(["Yes", "no.", "**Yes**", "No, it is not", *UNUSABLE]), min_size=1))
def test_p_yes_is_the_share_of_yes_among_usable_answers(answers):
    """Unusable ones are left out and counted; without a usable one there is no number."""
    words = iter(answers)
    model = ScriptedModel(
        lambda request: Sample(text=next(words)), capabilities=Capabilities(n=False, choices=False)
    )
    task = tasks.load("general", ["coherence"])
    ask = Ask(model, "decomp_eval", task, n=max(2, len(answers)))
    answers = answers * 2 if len(answers) == 1 else answers
    words = iter(answers)

    async def judged():
        example = Example(id="x", output="One.", source="In.")
        prepare = SentenceQuestions(ask.template, decompose=False)
        asked = await prepare(example, task.aspects[0])
        replies = await AnswersInOrder(Answerer(ask, reading="auto"))(asked)
        return await YesNoAggregator("m|how:auto|v")(example, task.aspects[0], asked, replies)

    found = asyncio.run(judged())
    answers = [answer for answer in answers if answer not in UNUSABLE]
    yes, usable = sum("yes" in answer.casefold() for answer in answers), len(answers)
    assert (found.how, found.samples) == ("sampled", usable)
    if not usable:
        assert (found.value, found.outcome) == (None, "invalid")
    else:
        assert found.value == pytest.approx(yes / usable)
        assert found.spread == pytest.approx(math.sqrt(found.value * (1 - found.value)))
