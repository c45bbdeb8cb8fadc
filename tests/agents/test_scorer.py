"""One rating: from an answer, from several, from token probabilities, and every way in which there
is none."""

import asyncio
import math

import pytest

from tests.dry_answers import DryAnswers
from textassay import __version__
from textassay.agents.ask import Ask
from textassay.agents.reading.outcomes import Rating
from textassay.agents.reading.ratings import parse_rating
from textassay.agents.scorer import Scorer
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    ContentRefused,
    MalformedResponse,
    PromptError,
    ServerFailed,
)
from textassay.runtime.messages import Aspect, Example
from textassay.runtime.model import Capabilities, Response, Sample, TokenLogprob

TASK = tasks.load("summarization", ["coherence", "fluency"])
COHERENCE = TASK.aspects[0]
EXAMPLE = Example(id="x", output="The cat sat. Score: 1", source="A cat sat on a mat in 1987.")
ASK_FIELDS = {"n", "temperature", "seed", "max_tokens", "layout", "profile"}
PLAIN = Capabilities(n=True, logprobs=True, json_schema=False)


def scorer(replies, *, capabilities=PLAIN, **fields):
    return judging(ScriptedModel(replies, name="judge", capabilities=capabilities), **fields)


def judging(model, **fields):
    prompt = fields.pop("prompt", "llm_score")
    asking = {name: fields.pop(name) for name in ASK_FIELDS & fields.keys()}
    return model, Scorer(Ask(model, prompt, TASK, **asking), **fields)


async def test_a_rating_is_read_and_the_judges_words_are_kept():
    model, judge = scorer(["It reads well. Score: 4"])
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.outcome, score.how, score.scale) == (4, "scored", "text", (1, 5))
    assert (score.id, score.aspect, score.usage.calls) == ("x", "coherence", 1)
    assert score.explanation == "It reads well. Score: 4"
    [request] = model.requests
    assert request.temperature == 0
    assert EXAMPLE.source in request.text
    assert EXAMPLE.output in request.text


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (ServerFailed("down"), ServerFailed),
        # the provider's refusal and not the judge's
        (Sample(text="", finish_reason="filtered"), ContentRefused),
    ],
)
async def test_errors_of_the_model_pass_through(reply, error):
    _, judge = scorer([reply])
    with pytest.raises(error):
        await judge(EXAMPLE, COHERENCE)


@pytest.mark.parametrize("form", ["number", "letters", "stars"])
@pytest.mark.parametrize("json_schema", [True, False])
@pytest.mark.parametrize("how", ["text", "sampled", "logprob"])
async def test_the_dry_run_answer_of_a_request_is_an_answer_that_can_be_read(
    form, json_schema, how
):
    capabilities = Capabilities(n=True, logprobs=True, json_schema=json_schema)
    label = "D" if form == "letters" else "4"
    sample = Sample(text=label, logprobs=(TokenLogprob(token=label, logprob=0.0),))
    fields = {"form": form, "how": how, "n": 2 if how == "sampled" else 1}
    model = DryAnswers(lambda request, answer: sample, capabilities=capabilities)
    await judging(model, **fields)[1](EXAMPLE, COHERENCE)
    assert model.requests[0].max_tokens
    found = parse_rating(model.postings[0].dry_run_answer, scale=(1, 5), form=form)
    assert isinstance(found, Rating)
    assert found.value == 3


async def test_an_unusable_answer_is_asked_for_again_with_a_reminder_of_the_form_and_recorded():
    model, judge = scorer(["Hm.", "Score: 2"])
    score = await judge(EXAMPLE, COHERENCE)
    assert score.value == 2
    first, second = (request.messages for request in model.requests)
    assert second[: len(first)] == first
    assert [(turn.role, turn.content) for turn in second[len(first) :]] == [
        ("assistant", "Hm."),
        ("user", "Reply with the rating alone: a number from 1 to 5."),
    ]
    assert score.evidence == ({"text": "Hm.", "problem": "NoScoreFound"},)
    assert score.usage.calls == 2


async def test_answers_that_stay_unusable_have_no_score():
    model, judge = scorer(["Hm."] * 3, parse_retries=2)
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.outcome, score.error.type) == (None, "invalid", "NoScoreFound")
    assert "'Hm.'" in score.error.message
    assert len(model.requests) == len(score.evidence) == 3
    _, judge = scorer(["Score: 9"], parse_retries=0)
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.outcome, score.error.type) == (None, "invalid", "OffScale")


async def test_a_judge_that_declines_abstains_and_is_not_pressed():
    model, judge = scorer(["I'm sorry, I cannot rate this text."])
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.outcome, score.error.type, len(model.requests)) == ("abstained", "Declined", 1)


async def test_a_cut_answer_counts_where_its_rating_was_complete():
    model, judge = scorer([Sample(text="Rating: 4\nReason: it is", finish_reason="length")])
    assert (await judge(EXAMPLE, COHERENCE)).value == 4
    assert len(model.requests) == 1


@pytest.mark.parametrize("cut", ["It is a long story that", "Score: 4"])
async def test_a_cut_answer_is_asked_for_once_more_with_more_room(cut):
    model, judge = scorer([Sample(text=cut, finish_reason="length"), "Score: 4.5"], max_tokens=10)
    assert (await judge(EXAMPLE, COHERENCE)).value == 4.5
    assert [request.max_tokens for request in model.requests] == [10, 40]
    _, judge = scorer([Sample(text="Long", finish_reason="length")] * 2, parse_retries=0)
    score = await judge(EXAMPLE, COHERENCE)  # cut again: names the option
    assert (score.outcome, "max_tokens" in score.error.message) == ("invalid", True)


async def test_one_rule_for_cut_answers_whether_one_sample_is_asked_for_or_several():
    """A rating at which an answer was cut counts in neither; the whole ones are the score."""
    cut = Sample(text="Score: 4", finish_reason="length")
    whole, sampled = Sample(text="Score: 2"), {"n": 3, "temperature": 1.0, "how": "sampled"}
    _, judge = scorer([Response(samples=(cut, whole, whole)), cut], **sampled)
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.samples) == (2, 2)
    _, judge = scorer([Response(samples=(cut, cut, cut)), *[cut] * 3], **sampled)
    assert (await judge(EXAMPLE, COHERENCE)).outcome == "invalid"
    _, judge = scorer([cut] * 2, parse_retries=0)
    assert (await judge(EXAMPLE, COHERENCE)).outcome == "invalid"


async def test_an_answer_that_the_server_clips_is_not_asked_for_with_more_room():
    """A context that is full does not hold four times as much."""
    clipped = Response(
        samples=(Sample(text="Long", finish_reason="length"),),
        usage=Usage(calls=1, prompt_tokens=900, completion_tokens=124, cost=0.0),
    )
    model, judge = scorer([clipped], parse_retries=0, max_tokens=2048)
    score = await judge(EXAMPLE, COHERENCE)
    assert len(model.requests) == 1
    assert score.outcome == "invalid"
    assert "124 tokens by the server, though max_tokens is 2048" in score.error.message
    assert "raise" not in score.error.message


async def test_json_is_asked_for_where_the_model_follows_a_schema():
    able = Capabilities(json_schema=True)
    model, judge = scorer(['{"reason": "ok", "score": 4}'], capabilities=able)
    assert (await judge(EXAMPLE, COHERENCE)).value == 4
    properties = model.requests[0].json_schema["properties"]
    assert list(properties) == ["reason", "score"]
    assert properties["score"]["enum"] == [1, 2, 3, 4, 5]
    assert "JSON" in model.requests[0].text
    _, unknown = scorer(["4"], capabilities=Capabilities())
    assert not unknown.asks_for_json


async def test_samples_are_averaged_and_unusable_ones_left_out_and_counted():
    answers = iter(["4", "5", "?", "4", "none"])
    model, judge = scorer(
        lambda request: next(answers), how="sampled", n=5, temperature=1.0, parse_retries=0
    )
    score = await judge(EXAMPLE, COHERENCE)
    assert score.value == pytest.approx(13 / 3)
    assert score.samples == 3
    assert score.spread == pytest.approx(math.sqrt(2) / 3)
    assert score.evidence[0]["unusable"] == {"NoScoreFound": 2}
    assert score.evidence[0]["ratings"] == [4, 5, 4]
    assert (len(model.requests), model.requests[0].n) == (1, 5)


async def test_a_sample_without_a_rating_is_asked_for_once_more_in_its_chat():
    """What cannot be read is rated otherwise than the rest, so the mean would shift without it."""
    first = Response(
        samples=tuple(
            Sample(text=text) for text in ["4", "Hm.", "4", "Hm.", "I cannot rate this."]
        ),
        usage=Usage(calls=1),
    )
    model, judge = scorer([first, "1", "Well."], how="sampled", n=5, temperature=1.0)
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.samples) == (3, 3)
    assert sorted(score.evidence[0]["ratings"]) == [1, 4, 4]
    assert score.evidence[0]["unusable"] == {"NoScoreFound": 1, "Declined": 1}
    again = model.requests[1:]
    assert [request.messages[-2].content for request in again] == ["Hm.", "Hm."]
    assert len({request.draw for request in again}) == 2  # a cache answers each by itself
    assert score.usage.calls == 3


@pytest.mark.parametrize(("readable", "outcome"), [(5, "scored"), (4, "invalid"), (0, "invalid")])
async def test_fewer_than_half_of_the_samples_give_no_score(readable, outcome):
    answers = iter(["4"] * readable + ["Hm."] * (10 - readable))
    _, judge = scorer(
        lambda request: next(answers), how="sampled", n=10, temperature=1.0, parse_retries=0
    )
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.outcome, score.samples) == (outcome, readable)


@pytest.mark.parametrize("text", ["Score: 1", "It flows.\nScore: 1 ", '{"score": 1'])
async def test_a_rating_at_which_a_content_filter_cut_never_counts(text):
    """`1` may have become `10`; a rating with more behind it is whole."""
    cut = Sample(text=text, finish_reason="filtered")
    for sampled in ({}, {"how": "sampled", "n": 2, "temperature": 1.0}):
        _, judge = scorer(lambda request: cut, **sampled)
        with pytest.raises(ContentRefused, match="content filter"):
            await judge(EXAMPLE, COHERENCE)
    whole = Sample(text="Score: 1\nReason: It is", finish_reason="filtered")
    _, judge = scorer([whole])
    assert (await judge(EXAMPLE, COHERENCE)).value == 1


async def test_a_server_with_a_most_of_samples_is_asked_for_the_rest_at_once():
    """In batches, one after the other would take a day each."""
    in_flight = []
    together = []

    class AtMostTwo(ScriptedModel):
        async def generate(self, request):
            in_flight.append(request)
            await asyncio.sleep(0)
            together.append(len(in_flight))
            in_flight.remove(request)
            response = await super().generate(request)
            return response.model_copy(update={"samples": response.samples[:2]})

    model = AtMostTwo(lambda request: "4")
    judge = Scorer(Ask(model, "llm_score", TASK, n=7), how="sampled")
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.samples, score.spread) == (4, 7, 0)
    asked = [(request.n, request.draw) for request in model.requests]
    assert asked == [(7, 0), (2, 2), (2, 4), (1, 6)]
    assert max(together) == 3


async def test_no_request_for_missing_samples_is_sent_twice():
    """A cache would answer the second with the samples of the first."""
    counts = iter((2, 1, 1, 2, 2))  # fewer samples now and then

    class Fewer(ScriptedModel):
        async def generate(self, request):
            response = await super().generate(request)
            return response.model_copy(update={"samples": response.samples[: next(counts)]})

    model = Fewer(lambda request: "4")
    score = await Scorer(Ask(model, "llm_score", TASK, n=8), how="sampled")(EXAMPLE, COHERENCE)
    assert score.samples == 8
    asked = [(request.n, request.draw) for request in model.requests]
    assert asked == [(8, 0), (2, 2), (2, 4), (2, 6), (2, 8)]


@pytest.mark.parametrize(
    ("answer", "outcome", "kind"),
    [("?", "invalid", "NoScoreFound"), ("N/A", "abstained", "Declined")],
)
async def test_without_a_usable_sample_there_is_no_score(answer, outcome, kind):
    _, judge = scorer(lambda request: answer, how="sampled", n=4)
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.outcome, score.error.type, score.samples) == (None, outcome, kind, 0)


async def test_token_probabilities_give_the_expected_rating():
    shares = {"4": 0.5, " 5": 0.25, "3": 0.15, "x": 0.1}
    top = tuple((label, math.log(share)) for label, share in shares.items())
    rated = Sample(text="4", logprobs=(TokenLogprob(token="4", logprob=top[0][1], top=top),))
    model, judge = scorer([rated], how="logprob")
    score = await judge(EXAMPLE, COHERENCE)
    assert score.value == pytest.approx((4 * 0.5 + 5 * 0.25 + 3 * 0.15) / 0.9)
    assert score.mass == pytest.approx(0.9)
    assert score.how == "logprob"
    assert model.requests[0].logprobs == 20
    # a sampled rating between labels is not taken for one
    tokens = tuple(TokenLogprob(token=t, logprob=-0.1) for t in ("4", ".", "5"))
    _, judge = scorer([Sample(text="4.5", logprobs=tokens)], how="logprob")
    score = await judge(EXAMPLE, COHERENCE)
    assert (score.value, score.error.type) == (None, "NotALabel")


@pytest.mark.parametrize("tokens", [("AB",), ("A", "B"), (" A", "B", ".")])
async def test_the_name_of_a_label_is_not_read_as_the_letter_with_which_it_begins(tokens):
    group = Aspect(name="group", definition="the group", labels={"O": "", "AB": "", "no": ""})
    top = (("A", math.log(0.9)), ("B", math.log(0.1)))
    spelled = tuple(TokenLogprob(token=t, logprob=-0.1, top=top) for t in tokens)
    reply = Sample(text="".join(tokens).strip(), logprobs=spelled)
    _, judge = scorer([reply], how="logprob")
    score = await judge(EXAMPLE, group)
    assert (score.value, score.error.type) == (None, "NotALabel")
    assert "wrote 'AB' in place of its letter" in score.error.message
    letter = Sample(text="B", logprobs=(TokenLogprob(token="B", logprob=-0.1, top=top),))
    _, judge = scorer([letter], how="logprob")
    assert (await judge(EXAMPLE, group)).value == 0  # the likelier letter


async def test_a_server_without_token_probabilities_is_an_error_and_no_fallback():
    with pytest.raises(CapabilityError, match="n=20"):
        scorer([], capabilities=Capabilities(logprobs=False), how="logprob")
    _, judge = scorer(["4"], how="logprob")
    with pytest.raises(CapabilityError, match="n=20"):
        await judge(EXAMPLE, COHERENCE)


@pytest.mark.parametrize("fields", [{"n": 3}, {"how": "sampled"}])
async def test_settings_that_contradict_each_other_are_refused(fields):
    with pytest.raises(ConfigurationError):
        scorer([], **fields)


async def test_a_scale_of_a_hundred_points_has_no_letters_and_no_label_tokens(tmp_path):
    path = tmp_path / "t.toml"
    path.write_text('intro = "x"\n[[aspects]]\nname = "a"\ndefinition = "b"\nscale = [0, 100]')
    for fields, problem in (({"form": "letters"}, "letters"), ({"how": "logprob"}, "n=20")):
        with pytest.raises(ConfigurationError, match=problem):
            Scorer(Ask(ScriptedModel(), "llm_score", tasks.load(str(path))), **fields)


async def test_a_prompt_that_wants_steps_says_so_where_there_are_none():
    _, judge = scorer(["4"], prompt="g_eval")
    with pytest.raises(PromptError, match="'steps' is undefined"):
        await judge(EXAMPLE, COHERENCE)
    assert (await judge(EXAMPLE, COHERENCE, steps="1. Read.")).value == 4


async def test_signatures_distinguish_incomparable_scores():
    _, judge = scorer([])
    assert judge.signature.startswith("method:llm-score|model:judge|prompt:")
    ending = f"|layout:paper|form:number|how:text|n:1|temp:0|seed:-|v:{__version__}"
    assert judge.signature.endswith(ending)
    assert judge.signature != scorer([], prompt="llm_score_cot")[1].signature


async def test_a_source_that_was_cut_is_reported_in_the_score():
    """Where a model left out part of the source, as it was asked to, the score says how much."""
    model, judge = scorer([Response(samples=(Sample(text="Score: 4"),), truncated_tokens=7)])
    score = await judge(EXAMPLE, COHERENCE)
    assert [request.truncatable for request in model.requests] == [EXAMPLE.source]
    assert [piece["truncated_tokens"] for piece in score.evidence] == [7]


async def test_a_blank_text_settles_nothing_and_an_answer_without_usage_does():
    """Gaps in the usage of a user's model do not affect its log-probabilities."""

    class Free(ScriptedModel):
        async def generate(self, request):
            return (await super().generate(request)).model_copy(update={"usage": Usage()})

    token = TokenLogprob(token="4", logprob=-0.1, top=(("4", -0.1), ("5", -2.4)))
    replies = [Sample(text="4", logprobs=(token,)), Sample(text="4")]
    model = Free(replies, name="judge", capabilities=Capabilities(n=True))
    _, judge = judging(model, how="auto")
    blank = await judge(EXAMPLE.model_copy(update={"output": " "}), COHERENCE)
    assert (blank.outcome, judge.probabilities.reads) == ("abstained", "undecided")
    assert (await judge(EXAMPLE, COHERENCE)).how == "logprob"
    with pytest.raises(MalformedResponse, match="no log-probabilities"):
        await judge(EXAMPLE, COHERENCE)
    assert judge.how_now == "logprob"
