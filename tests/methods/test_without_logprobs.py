"""Methods that read probabilities, of servers that send log-probabilities, none, or one candidate:
what is asked, what scores say of it, and what an option that was typed forbids."""

import asyncio
import json
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
from textassay.runtime.calls.adaptation import KNOWN
from textassay.runtime.calls.logprobs_or_samples import SAMPLES
from textassay.runtime.errors import CapabilityError
from textassay.runtime.messages import Example
from textassay.runtime.model import Capabilities, Sample
from textassay.runtime.settings import Settings

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
        self.only = ""  # a part of the prompts that get no log-probabilities
        self.times = None  # or the requests, counted from 0
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
        lacks = self.only in json.dumps(body["messages"])
        if self.times is not None:
            lacks = len(self.useless) - 1 in self.times
        if body.get("logprobs") and lacks and self.logprobs in REFUSALS:
            status, message, parameter = REFUSALS[self.logprobs]
            error = {"message": message, "type": "invalid_request_error", "param": parameter}
            return web.json_response({"error": {**error, "code": None}}, status=status)
        prompt = body["messages"][-1]["content"]
        words = ["Yes", "Yes", "Yes", "Yes", "No"] if prompt.rstrip().endswith("?") else ["4"]
        n = body.get("n", 1)
        choices = [self._choice(body, words[at % len(words)], lacks) for at in range(n)]
        usage = {"prompt_tokens": 50, "completion_tokens": 1 + 90 * self.thinks}
        if self.thinks:
            usage["completion_tokens_details"] = {"reasoning_tokens": 90}
        return web.json_response({"choices": choices, "usage": usage, "model": "judge"})

    def _choice(self, body, word, lacks):
        cap = body.get("max_completion_tokens") or body.get("max_tokens") or 10_000
        message = {"role": "assistant", "content": word}
        if self.thinks:
            message["reasoning"] = "It may be a 2, or no."
            if cap < 91:
                message["content"] = ""
                return {"index": 0, "message": message, "finish_reason": "length"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        how = self.logprobs if lacks else "sent"
        if body.get("logprobs") and how != "absent":
            top = {word: -0.2, "No" if word == "Yes" else "5": math.log(1 - math.exp(-0.2))}
            given = [{"token": token, "logprob": logprob} for token, logprob in top.items()]
            token = {**given[0], "top_logprobs": given}
            if how == "one-candidate":
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


async def scored(judge, method, *, concurrency=8, cache=None, **options):
    """Return the scores of all rows on one aspect."""
    async with connect("direct/judge", api_base=judge.url, concurrency=concurrency) as model:
        run = await evaluate(
            ROWS,
            method=method,
            task="summarization",
            aspects=["consistency"],
            model=model,
            options=METHODS[method] | options,
            settings=None if cache is None else Settings(cache=cache),
        )
    return list(run.scores)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lack", LACKS)
async def test_samples_take_the_place_of_log_probabilities(method, lack):
    """One request finds it out and a harmless one confirms it, however many are in flight; every
    score says what was done."""
    async with serve(lack) as judge:
        scores = await scored(judge, method)
    assert len(judge.useless) == 2
    assert judge.useless[1]["messages"][-1]["content"].startswith("Is water wet?")
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
    assert len(judge.useless) == 2
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
async def test_an_explicit_choice_is_never_replaced(method, lack):
    """The run stops when a harmless request has confirmed it."""
    async with serve(lack) as judge:
        with pytest.raises(CapabilityError):
            await scored(judge, method, reading="logprob")
    assert len(judge.bodies) == 2


@pytest.mark.parametrize("concurrency", [1, 3, 64])
@pytest.mark.parametrize("place", [0, 2, 5])
@pytest.mark.parametrize("lack", LACKS)
@pytest.mark.parametrize("method", METHODS)
async def test_answers_to_one_text_without_log_probabilities_are_an_error_of_that_text_alone(
    method, lack, place, concurrency
):
    """Whatever its place, and however many calls are in flight."""
    async with serve(lack) as judge:
        judge.only = f"slept {place} times"
        scores = await scored(judge, method, concurrency=concurrency)
    assert all("how:sampled" not in score.signature for score in scores)
    by_id = {score.id: score for score in scores}
    bad = by_id.pop(f"x{place}")
    assert (bad.outcome, bad.error.type) == ("error", "MalformedResponse")
    assert "in 3 attempts" in bad.error.message
    assert {score.outcome for score in by_id.values()} == {"scored"}
    assert not [body for body in judge.bodies if not body.get("logprobs")]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("lack", LACKS)
async def test_a_single_answer_without_log_probabilities_is_asked_for_again(lack, place):
    """As of a gateway with a provider among others that sends none."""
    async with serve(lack) as judge:
        judge.times = (place,)
        scores = await scored(judge, "decomp-eval")
    assert {(score.outcome, score.how) for score in scores} == {("scored", "logprob")}


async def test_another_run_with_the_same_cache_reads_log_probabilities_again(tmp_path):
    """What one text did not get is not learned of the model."""
    async with serve("absent") as judge:
        for cached in (0, 5):
            KNOWN.clear()  # as in another process
            judge.only = "slept 0 times"
            scores = await scored(judge, "g-eval", cache=tmp_path / "cache")
            read = [score for score in scores if score.outcome == "scored"]
            assert [score.how for score in read] == ["logprob"] * 5
            assert sum(score.usage.cached_calls for score in read) == cached


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
    """Unusable ones are left out and counted; if most of them are there is no number."""
    answers = (answers * SAMPLES)[:SAMPLES]
    words = iter(answers)
    able = Capabilities(n=False, choices=False, thinks=False)
    model = ScriptedModel(lambda request: Sample(text=next(words)), capabilities=able)
    task = tasks.load("general", ["coherence"])
    ask = Ask(model, "decomp_eval", task)

    async def judged():
        example = Example(id="x", output="One.", source="In.")
        prepare = SentenceQuestions(ask.template, decompose=False)
        asked = await prepare(example, task.aspects[0])
        replies = await AnswersInOrder(Answerer(ask))(asked)
        return await YesNoAggregator("m|how:auto|v")(example, task.aspects[0], asked, replies)

    found = asyncio.run(judged())
    declined = {answer for answer in answers if answer in UNUSABLE} == {UNUSABLE[1]}
    answers = [answer for answer in answers if answer not in UNUSABLE]
    yes, usable = sum("yes" in answer.casefold() for answer in answers), len(answers)
    assert found.how == "sampled"
    if 2 * usable < SAMPLES:
        assert (found.value, found.outcome) == (None, "abstained" if declined else "invalid")
    else:
        assert (found.value, found.samples) == (pytest.approx(yes / usable), usable)
        assert found.spread == pytest.approx(math.sqrt(found.value * (1 - found.value)))
