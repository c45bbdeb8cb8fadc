"""Thoughts are taken off answers before anything reads them, in whatever form they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.loopback import listening
from textassay.runtime import errors
from textassay.runtime.backends import openai_format
from textassay.runtime.backends.answers import (
    MAX_THOUGHT,
    NOT_ALIGNED,
    SplitThoughts,
    answer_tokens,
    bounded,
    read_usage,
    split_thought,
)
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.openai_format import (
    NO_DISTRIBUTION,
    choices_as_request,
    read_choices,
)
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.batches.providers import open_dialect
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

ASK = Request(messages=(ChatMessage(role="user", content="Rate it."),))
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
}

SPLIT = {
    "plain": ("Rating: 4", None, "Rating: 4"),
    "whole": ("<think>maybe 2</think>\n\n4", "maybe 2", "4"),
    "empty": ("<think>\n\n</think>\n\n4", "", "4"),
    "opened by the template": ("maybe 2</think>4", "maybe 2", "4"),
    "no thought at all": ("</think>4", "", "4"),
    "cut": ("<think>maybe 2", "maybe 2", ""),
    "cut in a second thought": ("<think>a</think>\n<think>b 2", "a\nb 2", ""),
    "nested": ("<think>a<think>b 1</think>c 2</think>4", "ab 1c 2", "4"),
    "opened twice": ("<think>\n<think>b 1</think>4", "b 1", "4"),
    "several": ("<think>a 1</think>\n<think>b 2</think>\n4", "a 1\nb 2", "4"),
    "the end quoted in the thought": (
        "<think>the </think> is odd: 1</think>4",
        "the  is odd: 1",
        "4",
    ),
    "one behind the answer": (
        "<think>a</think>Rating: 2<think>Rating: 5</think>",
        "a\nRating: 5",
        "Rating: 2",
    ),
    "an open tag in the answer": (
        "Rating: 2, as it has a <think> tag",
        None,
        "Rating: 2, as it has a <think> tag",
    ),
    "the same behind a thought": (
        "<think>a</think>Rating: 2: <think> is odd",
        "a",
        "Rating: 2: <think> is odd",
    ),
    "another name": ("<thinking>2?</thinking>4", "2?", "4"),
    "Magistral": ("[THINK]2?[/THINK]4", "2?", "4"),
    "Seed": ("<seed:think>2?</seed:think>4", "2?", "4"),
    "capitals": ("<THINK>2?</THINK>4", "2?", "4"),
    "gpt-oss": (
        "<|channel|>analysis<|message|>2?<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>",
        "analysis 2?  assistant",
        "4",
    ),
    "gpt-oss, JSON": ("<|channel|>final <|constrain|>json<|message|>{}", "", "{}"),
    "gpt-oss, cut": ("<|channel|>analysis<|message|>2", "analysis 2", ""),
    "gpt-oss without special tokens": ("analysisIs it 2?assistantfinal4", "Is it 2?", "4"),
    "words that look like tags": (
        "I think <b>4</b>, on second thought.",
        None,
        "I think <b>4</b>, on second thought.",
    ),
}


@pytest.mark.parametrize(("text", "thought", "answer"), SPLIT.values(), ids=SPLIT)
def test_a_text_splits_into_thought_and_answer(text: str, thought: str | None, answer: str) -> None:
    assert split_thought(text) == (thought, answer)


QUOTING = {
    "in a line": ("Rating: 2, for the text ends in </think> twice", None),
    "in marks": ('Rating: 2. The tag "</think>" is left over.', None),
    "behind a thought": ("<think>a\n</think>\nRating: 2. It has a </think> in it.", "a"),
    "a block": ("Rating: 2. The text <think>x</think> is no prose.", None),
}


@pytest.mark.parametrize(("text", "thought"), QUOTING.values(), ids=QUOTING)
def test_an_answer_may_quote_a_tag_of_the_judged_text(text: str, thought: str | None) -> None:
    """It keeps its rating."""
    judged = Request(prompt="Rate this: so <think>it</think> ends.</think>")
    found, answer = split_thought(text, judged)
    assert found == thought
    assert "Rating: 2" in answer


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "\n", "4", " "]), max_size=12))
def test_nothing_is_lost_or_invented(parts: list[str]) -> None:
    """Every letter is in the thought or in the answer, which splits no further."""
    text = "".join(parts)
    thought, answer = split_thought(text)

    def letters(text: str) -> list[str]:
        return sorted(text.replace("think", "").translate({ord(c): None for c in "</> \n"}))

    assert letters((thought or "") + answer) == letters(text)
    assert "</think>" not in answer
    assert split_thought(answer) == (None, answer)


def test_a_thought_is_bounded() -> None:
    """Beginning and end stay, and a mark says what is missing."""
    kept = bounded("a" * 30_000 + "b" * 30_000)
    assert len(kept) <= MAX_THOUGHT
    assert (kept[0], kept[-1]) == ("a", "b")
    assert "left out" in kept
    assert bounded("short") == "short"


def chat(**message: Any) -> dict[str, Any]:
    finish = message.pop("finish_reason", "stop")
    usage = message.pop("usage", {"prompt_tokens": 90, "completion_tokens": 400})
    return {"choices": [{"finish_reason": finish, "message": message}], "usage": usage}


SPENT = {
    "prompt_tokens": 90,
    "completion_tokens": 400,
    "completion_tokens_details": {"reasoning_tokens": 400},
}
UNFINISHED = Sample(text="", finish_reason="length")
THOUGHT = UNFINISHED.model_copy(update={"thought": "maybe 2"})
FOUR = Sample(text="4", thought="maybe 2")
CHATS = {
    "R01 room spent": (chat(content="", finish_reason="length", usage=SPENT), UNFINISHED),
    "R02 stopped with nothing": (chat(content=None, usage=SPENT), UNFINISHED),
    "R08 reasoning_content": (chat(content="\n\n4", reasoning_content="maybe 2"), FOUR),
    "R08 reasoning": (chat(content="4", reasoning="maybe 2"), FOUR),
    "R08 thinking of Ollama": (chat(content="4", thinking="maybe 2"), FOUR),
    "OpenRouter": (
        chat(
            content="4",
            reasoning=None,
            reasoning_details=[{"type": "reasoning.text", "text": "maybe 2"}],
        ),
        FOUR,
    ),
    "litellm": (
        chat(
            content="4",
            thinking_blocks=[{"type": "thinking", "thinking": "maybe 2", "signature": "x"}],
        ),
        FOUR,
    ),
    "R09 Mistral": (
        chat(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": "maybe 2"}]},
                {"type": "text", "text": "4"},
            ]
        ),
        FOUR,
    ),
    "Mistral, cut": (
        chat(
            content=[{"type": "thinking", "thinking": [{"type": "text", "text": "maybe 2"}]}],
            finish_reason="length",
        ),
        THOUGHT,
    ),
    "Mistral with a reference": (
        chat(content=[{"type": "text", "text": "4"}, {"type": "reference", "reference_ids": [1]}]),
        Sample(text="4"),
    ),
    "R10 no parser": (chat(content="<think>maybe 2</think>\n\n4"), FOUR),
    "R10 opened by the template": (chat(content="maybe 2</think>4"), FOUR),
    "R10 cut": (chat(content="<think>maybe 2", finish_reason="length"), THOUGHT),
    "vLLM, cut": (chat(content=None, reasoning="maybe 2", finish_reason="length"), THOUGHT),
    "thought and nothing else": (chat(content="", reasoning="maybe 2"), THOUGHT),
    "R12 llama-server, cut by its budget": (chat(content="</think>4"), Sample(text="4")),
    "R12 beside a thought": (chat(content="</think>4", reasoning_content="maybe 2"), FOUR),
    "an empty reasoning": (chat(content="4", reasoning="", reasoning_details=[]), Sample(text="4")),
}


@pytest.mark.parametrize(("payload", "sample"), CHATS.values(), ids=CHATS)
def test_thoughts_of_a_chat_are_kept_apart(payload: dict[str, Any], sample: Sample) -> None:
    """Parts are picked by their types, fields by their names; a thought never becomes an answer."""
    assert openai_format.read_response(payload, ASK, None).samples == (sample,)


@pytest.mark.parametrize(
    ("thought", "is_answer"),
    [('{"score": 4}', True), ('maybe {"score": 4}', False), ('{"score": 9}', False), ("4", False)],
)
def test_json_in_place_of_the_thought_is_an_answer_if_it_satisfies_the_schema(
    thought: str, is_answer: bool
) -> None:
    """R11: some servers bind the thought to the schema, and leave the answer empty."""
    payload = chat(content="", reasoning_content=thought)
    asked = ASK.model_copy(update={"json_schema": SCHEMA})
    (sample,) = openai_format.read_response(payload, asked, None).samples
    assert (sample.from_thought, sample.is_unfinished) == (is_answer, not is_answer)
    assert sample.text == (thought if is_answer else "")
    assert openai_format.read_response(payload, ASK, None).samples[0].is_unfinished


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"content": None, "refusal": "I cannot.", "reasoning": "hm"}, errors.ContentRefused),
        ({"content": None, "finish_reason": "content_filter"}, errors.ContentRefused),
        ({"content": None}, errors.MalformedResponse),
        (
            {"content": None, "reasoning": "a tool", "finish_reason": "tool_calls"},
            errors.MalformedResponse,
        ),
        ({"content": {"text": "4"}}, errors.MalformedResponse),
        ({"content": [4]}, errors.MalformedResponse),
        ({"content": [{"type": "text", "text": 4}]}, errors.MalformedResponse),
    ],
)
def test_what_is_no_answer_is_an_error(message: dict[str, Any], error: type[Exception]) -> None:
    """With what it cost."""
    with pytest.raises(error) as caught:
        openai_format.read_response(chat(**message), ASK, None)
    assert caught.value.usage.completion_tokens == 400


def test_a_thought_of_parts_without_end_is_left_out() -> None:
    """A server may nest what it likes."""
    nested: Any = "x"
    for _ in range(900):
        nested = [nested]
    payload = chat(content="4", reasoning=nested)
    assert openai_format.read_response(payload, ASK, None).samples == (Sample(text="4"),)


# --- batches ------------------------------------------------------------------------------------

R04 = {
    "stop_reason": "end_turn",
    "content": [
        {"type": "thinking", "thinking": "", "signature": "x"},
        {"type": "text", "text": "4"},
    ],
    "usage": {
        "input_tokens": 20,
        "cache_read_input_tokens": 1500,
        "cache_creation_input_tokens": 0,
        "output_tokens": 310,
    },
}
R06 = {
    "candidates": [
        {
            "finishReason": "STOP",
            "content": {"parts": [{"text": "maybe 2", "thought": True}, {"text": "4"}]},
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 90,
        "candidatesTokenCount": 1,
        "thoughtsTokenCount": 478,
        "totalTokenCount": 569,
    },
}
BATCHES = {
    "R04": ("anthropic/m", R04, Sample(text="4")),
    "R05": (
        "anthropic/m",
        R04 | {"content": R04["content"][:1], "stop_reason": "max_tokens"},
        UNFINISHED,
    ),
    "R05 ended": ("anthropic/m", R04 | {"content": R04["content"][:1]}, UNFINISHED),
    "R06": ("gemini/m", R06, FOUR),
    "R07": (
        "gemini/m",
        R06 | {"candidates": [{"finishReason": "MAX_TOKENS", "content": {"role": "model"}}]},
        UNFINISHED,
    ),
    "tags": (
        "anthropic/m",
        R04 | {"content": [{"type": "text", "text": "<thinking>maybe 2</thinking>\n4"}]},
        FOUR,
    ),
}


@pytest.mark.asyncio
@pytest.mark.parametrize(("name", "payload", "sample"), BATCHES.values(), ids=BATCHES)
async def test_thoughts_are_kept_apart_in_batches(name: str, payload: Any, sample: Sample) -> None:
    provider = open_dialect(name, api_base="http://127.0.0.1:9", api_key="k", endpoint=Endpoint())
    assert provider.read(payload, ASK).samples == (sample,)
    await provider.aclose()


@pytest.mark.asyncio
async def test_a_refusal_of_anthropic_is_no_answer() -> None:
    """R05."""
    provider = open_dialect(
        "anthropic/m", api_base="http://127.0.0.1:9", api_key="k", endpoint=Endpoint()
    )
    with pytest.raises(errors.ContentRefused) as caught:
        provider.read(R04 | {"content": [], "stop_reason": "refusal"}, ASK)
    assert caught.value.usage.prompt_tokens == 1520
    await provider.aclose()


EFFORTS = {
    "anthropic": (
        "anthropic/m",
        {"effort": "minimal"},
        {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}, "max_tokens": 4096},
    ),
    "anthropic, off": (
        "anthropic/m",
        {"effort": "none"},
        {"thinking": {"type": "disabled"}, "max_tokens": 4096},
    ),
    "anthropic, a budget": (
        "anthropic/m",
        {"thinking_tokens": 2048, "extra": {"output_config": {"x": 1}}, "json_schema": {}},
        {
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "max_tokens": 6144,
            "output_config": {"format": {"type": "json_schema", "schema": {}}, "x": 1},
        },
    ),
    "gemini": (
        "gemini/gemini-3.6-flash",
        {"effort": "max"},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}},
    ),
    "gemini 2.5": (
        "gemini/gemini-2.5-flash",
        {"effort": "none", "extra": {"generationConfig": {"topK": 3}, "labels": {}}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}, "topK": 3}, "labels": {}},
    ),
    "gemini, a budget": (
        "gemini/gemini-2.5-pro",
        {"thinking_tokens": 300},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 300}}},
    ),
    "openai": ("openai/m", {"extra": {"verbosity": "low"}}, {"model": "m", "verbosity": "low"}),
    "groq": ("groq/m", {"extra": {"service_tier": "flex"}}, {"model": "m", "service_tier": "flex"}),
    "together": ("together_ai/m", {"extra": {"reasoning": {}}}, {"model": "m", "reasoning": {}}),
}


@pytest.mark.asyncio
@pytest.mark.parametrize(("name", "fields", "sent"), EFFORTS.values(), ids=EFFORTS)
async def test_effort_and_further_fields_reach_the_rows_of_a_batch(
    name: str, fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    """No temperature is sent where it is left to the model."""
    provider = open_dialect(name, api_base="http://127.0.0.1:9", api_key="k", endpoint=Endpoint())
    request = ASK.model_copy(update={"temperature": None, **fields})
    row = openai_format.parse_json(provider.encode("key", request), where="")
    body = row.get("body") or row.get("params") or row["request"]
    kept = {key: value for key, value in body.items() if key not in ("messages", "contents")}
    assert kept == (
        sent if "gemini" in name or "max_tokens" not in sent else {"model": "m", **sent}
    )
    await provider.aclose()


# --- log-probabilities --------------------------------------------------------------------------


def tokens_of(*tokens: str, **top: float) -> dict[str, Any]:
    alternatives = [{"token": token, "logprob": logprob} for token, logprob in top.items()]
    return {
        "content": [{"token": t, "logprob": -0.5, "top_logprobs": alternatives} for t in tokens]
    }


ALIGNED = {
    "in fields": (("may", "be 4", "</think>", "\n\n", "4"), ["4"]),
    "one token with its line breaks": (("4", "</think>", "\n\n4"), ["\n\n4"]),
    "an end of text": (("2", "</think>", "4", "<|im_end|>"), ["4"]),
    "no thought among them": (("4",), ["4"]),
}


@pytest.mark.parametrize(("tokens", "left"), ALIGNED.values(), ids=ALIGNED)
def test_log_probabilities_are_those_of_the_answer(
    tokens: tuple[str, ...], left: list[str]
) -> None:
    """vLLM gives those of the thought as well."""
    payload = chat(content="4", reasoning="maybe 4")
    payload["choices"][0]["logprobs"] = tokens_of(*tokens, a=-0.1)
    (sample,) = openai_format.read_response(
        payload, ASK.model_copy(update={"logprobs": 1}), None
    ).samples
    assert [token.token for token in sample.logprobs or ()] == left


def test_parts_of_characters_are_found_behind_the_tag() -> None:
    assert answer_tokens(["4", "</thi", "nk>", "\n", "\ufffd", "\ufffd", "!"], "é!") == slice(4, 7)
    assert answer_tokens(["a", "</think>"], "") == slice(0, 0)


def test_log_probabilities_that_cannot_be_told_apart_are_refused() -> None:
    payload = chat(content="4", reasoning="maybe")
    payload["choices"][0]["logprobs"] = tokens_of("may", "be", "5")
    with pytest.raises(errors.CapabilityError, match=NOT_ALIGNED):
        openai_format.read_response(payload, ASK.model_copy(update={"logprobs": 1}), None)


CHOICES = ChoicesRequest(prompt="x", choices={"yes": ("Yes",), "no": ("No",)}, thought_allowance=50)


def test_choices_are_read_behind_the_thought() -> None:
    payload = {
        "choices": [
            {
                "text": "No?</think>Yes",
                "finish_reason": "length",
                "logprobs": {
                    "tokens": ["No?", "</think>", "Yes"],
                    "token_logprobs": [-0.1, -0.1, -0.2],
                    "top_logprobs": [{"No?": -0.1}, {"</think>": -0.1}, {"Yes": -0.2, "No": -1.8}],
                },
            }
        ]
    }
    request = choices_as_request(CHOICES)
    assert request.max_tokens == 51
    answer = read_choices(openai_format.read_response(payload, request, None), CHOICES)
    assert answer.logprobs == {"yes": -0.2, "no": -1.8}


def test_choices_that_the_thought_left_no_tokens_for_are_refused_by_name() -> None:
    """With what it cost, so that the request can be sent again with more of them."""
    payload = chat(content=None, finish_reason="length", usage=SPENT)
    request = ASK.model_copy(update={"logprobs": 20})
    with pytest.raises(errors.RequestRefused, match="before it answered") as caught:
        read_choices(openai_format.read_response(payload, request, None), CHOICES)
    assert caught.value.refusal == errors.Refusal("room", "max_tokens")
    assert caught.value.usage is not None
    assert caught.value.usage.completion_tokens == 400


@pytest.mark.parametrize(("alternatives", "refused"), [(20, True), (2, True), (1, False)])
def test_one_candidate_is_no_distribution(alternatives: int, refused: bool) -> None:
    """The newest models of OpenAI return the likeliest token alone, whatever was asked for."""
    token = TokenLogprob(token="Yes", logprob=0.0, top=(("Yes", 0.0),))
    response = Response(samples=(Sample(text="Yes", logprobs=(token,)),))
    request = CHOICES.model_copy(update={"alternatives": alternatives})
    if refused:
        with pytest.raises(errors.CapabilityError) as caught:
            read_choices(response, request)
        assert caught.value.args == (NO_DISTRIBUTION,)
    else:
        assert read_choices(response, request).logprobs == {"yes": 0.0, "no": None}


# --- models in this process ---------------------------------------------------------------------


@pytest.mark.asyncio
async def test_thoughts_in_the_text_of_any_model_are_taken_off() -> None:
    """With their tokens; other answers pass as they are."""
    spoken = ("<think>", "2?", "</think>", "\n", "4")
    logprobs = tuple(TokenLogprob(token=token, logprob=-0.5) for token in spoken)
    replies = [
        Response(samples=(Sample(text="".join(spoken), logprobs=logprobs), Sample(text="5"))),
        Sample(text="<think>so 3", finish_reason="length"),
        Sample(text="4 </think>", thought="taken off before"),
    ]
    model = SplitThoughts(ScriptedModel(replies))
    split, cut, whole = [(await model.generate(ASK)).samples for _ in replies]
    assert split == (Sample(text="4", thought="2?", logprobs=logprobs[4:]), Sample(text="5"))
    assert cut[0].is_unfinished
    assert cut[0].thought == "so 3"
    assert whole == (replies[2],)


@pytest.mark.asyncio
async def test_a_cut_thought_may_hold_no_tag() -> None:
    """Known once the model has shown a thought; other answers that are cut are answers."""
    cut = Sample(text="Rating: 2? No,", finish_reason="length")
    model = SplitThoughts(ScriptedModel([cut, "hm</think>Rating: 4", cut, "Rating: 5"]))
    first, whole, second, last = [(await model.generate(ASK)).samples[0] for _ in range(4)]
    assert (first, last) == (cut, Sample(text="Rating: 5"))
    assert whole == Sample(text="Rating: 4", thought="hm")
    assert second == Sample(text="", thought="Rating: 2? No,", finish_reason="length")


@pytest.mark.asyncio
async def test_an_error_with_a_status_of_success_is_no_answer() -> None:
    """R14: the gateway's upstream failed."""

    async def failing(_: web.Request) -> web.Response:
        error = {"message": "Provider returned error", "code": 502}
        return web.json_response({"error": error})

    async with listening(failing) as address:
        model = DirectModel("direct/m", api_base=f"{address}/v1")
        with pytest.raises(errors.ServerFailed):
            await model.generate(ASK)
        await model.aclose()


@pytest.mark.asyncio
async def test_a_connected_model_answers_without_its_thought(tmp_path: Path) -> None:
    from textassay.runtime.connected import connect

    async with connect(ScriptedModel(["<think>2?</think>4"]), cache=tmp_path) as model:
        assert (await model.generate(ASK)).samples == (Sample(text="4", thought="2?"),)
        assert (await model.generate(ASK)).samples == (Sample(text="4", thought="2?"),)


# --- usage --------------------------------------------------------------------------------------

USAGES = {
    "OpenAI": ({"usage": SPENT | {"total_tokens": 490}}, (90, 400, 400, 0, 0)),
    "OpenAI, cached": (
        {
            "usage": {
                "prompt_tokens": 90,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
            }
        },
        (90, 4, 0, 64, 8),
    ),
    "Responses": (
        {
            "usage": {
                "input_tokens": 90,
                "output_tokens": 16,
                "total_tokens": 106,
                "input_tokens_details": {"cached_tokens": 64},
                "output_tokens_details": {"reasoning_tokens": 16},
            }
        },
        (90, 16, 16, 64, 0),
    ),
    "R04 Anthropic": (R04, (1520, 310, 0, 1500, 0)),
    "Anthropic, written": (
        {
            "usage": {
                "input_tokens": 6,
                "cache_creation_input_tokens": 574,
                "cache_read_input_tokens": 20443,
                "output_tokens": 489,
                "output_tokens_details": {"thinking_tokens": 77},
            }
        },
        (21023, 489, 77, 20443, 574),
    ),
    "R06 Gemini": (R06, (90, 479, 478, 0, 0)),
    "Gemini's endpoint for OpenAI's format": (
        {"usage": {"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109}},
        (35, 74, 62, 0, 0),
    ),
    "R13 xAI": (
        {
            "usage": {
                "prompt_tokens": 716,
                "completion_tokens": 126,
                "total_tokens": 1009,
                "completion_tokens_details": {"reasoning_tokens": 167},
            }
        },
        (716, 293, 167, 0, 0),
    ),
    "DeepSeek": (
        {
            "usage": {
                "prompt_tokens": 90,
                "completion_tokens": 4,
                "total_tokens": 94,
                "prompt_cache_hit_tokens": 64,
                "prompt_cache_miss_tokens": 26,
            }
        },
        (90, 4, 0, 64, 0),
    ),
    "litellm for Anthropic": (
        {
            "usage": {
                "prompt_tokens": 1520,
                "completion_tokens": 310,
                "total_tokens": 1830,
                "cache_read_input_tokens": 1500,
                "cache_creation_input_tokens": 0,
                "prompt_tokens_details": {"cached_tokens": 1500},
            }
        },
        (1520, 310, 0, 1500, 0),
    ),
    "counts that contradict": (
        {
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "total_tokens": 1,
                "completion_tokens_details": {"reasoning_tokens": 8},
                "prompt_tokens_details": {"cached_tokens": "x"},
            }
        },
        (9, 4, 4, 0, 0),
    ),
}


@pytest.mark.parametrize(("payload", "counts"), USAGES.values(), ids=USAGES)
def test_usages_of_all_providers_mean_the_same(payload: Any, counts: tuple[int, ...]) -> None:
    """The whole prompt, all sampled tokens, and the parts of them."""
    usage = read_usage(payload, (1.0, 2.0))
    read = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens)
    assert (*read, usage.cached_prompt_tokens, usage.cache_write_tokens) == counts
    assert usage.cost == pytest.approx((counts[0] + 2 * counts[1]) / 1e6)


def test_cached_tokens_may_have_a_price_of_their_own() -> None:
    usage = read_usage(R04, (10.0, 20.0, 1.0))
    assert usage.cost == pytest.approx((20 * 10 + 1500 * 1 + 310 * 20) / 1e6)


@pytest.mark.parametrize(
    "payload", [None, {}, {"usage": {}}, {"usage": 3}, {"usageMetadata": {"trafficType": "x"}}]
)
def test_a_usage_without_counts_has_no_cost(payload: Any) -> None:
    usage = read_usage(payload, (1.0, 2.0))
    assert (usage.calls, usage.prompt_tokens, usage.cost) == (1, 0, None)
