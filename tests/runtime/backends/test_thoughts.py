"""Thoughts are taken off answers before anything reads them, in whatever form they come; and what
an answer cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textassay.runtime.api import connect
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.backends.thoughts import (
    MAX_THOUGHT,
    SplitThoughts,
    answer_tokens,
    cut_middle,
    split_thought,
)
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.model import ChatMessage, Request, Response, Sample, TokenLogprob

ASK = Request(messages=(ChatMessage(role="user", content="Rate it."),))

# fmt: off
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
    "the end quoted in the thought": ("<think>the </think> is odd: 1</think>4", "the  is odd: 1",
                                      "4"),
    "one behind the answer": ("<think>a</think>Rating: 2<think>Rating: 5</think>", "a\nRating: 5",
                              "Rating: 2"),
    "an open tag in the answer": ("Rating: 2, as it has a <think> tag", None,
                                  "Rating: 2, as it has a <think> tag"),
    "the same behind a thought": ("<think>a</think>Rating: 2: <think> is odd", "a",
                                  "Rating: 2: <think> is odd"),
    "another name": ("<thinking>2?</thinking>4", "2?", "4"),
    "Magistral": ("[THINK]2?[/THINK]4", "2?", "4"),
    "Seed": ("<seed:think>2?</seed:think>4", "2?", "4"),
    "capitals": ("<THINK>2?</THINK>4", "2?", "4"),
    "gpt-oss": ("<|channel|>analysis<|message|>2?<|end|><|start|>assistant<|channel|>final"
                "<|message|>4<|return|>", "analysis 2?  assistant", "4"),
    "gpt-oss, JSON": ("<|channel|>final <|constrain|>json<|message|>{}", "", "{}"),
    "gpt-oss, cut": ("<|channel|>analysis<|message|>2", "analysis 2", ""),
    "gpt-oss without special tokens": ("analysisIs it 2?assistantfinal4", "Is it 2?", "4"),
    "words that look like tags": ("I think <b>4</b>, on second thought.", None,
                                  "I think <b>4</b>, on second thought."),
}
# fmt: on


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
    kept = cut_middle("a" * 30_000 + "b" * 30_000)
    assert len(kept) <= MAX_THOUGHT
    assert (kept[0], kept[-1]) == ("a", "b")
    assert "left out" in kept
    assert cut_middle("short") == "short"


def test_parts_of_characters_are_found_behind_the_tag() -> None:
    assert answer_tokens(["4", "</thi", "nk>", "\n", "\ufffd", "\ufffd", "!"], "é!") == slice(4, 7)
    assert answer_tokens(["a", "</think>"], "") == slice(0, 0)


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


async def test_a_cut_thought_may_hold_no_tag() -> None:
    """Known once the model has shown a thought; other answers that are cut are answers."""
    cut = Sample(text="Rating: 2? No,", finish_reason="length")
    model = SplitThoughts(ScriptedModel([cut, "hm</think>Rating: 4", cut, "Rating: 5"]))
    first, whole, second, last = [(await model.generate(ASK)).samples[0] for _ in range(4)]
    assert (first, last) == (cut, Sample(text="Rating: 5"))
    assert whole == Sample(text="Rating: 4", thought="hm")
    assert second == Sample(text="", thought="Rating: 2? No,", finish_reason="length")


async def test_a_connected_model_answers_without_its_thought(tmp_path: Path) -> None:
    async with connect(ScriptedModel(["<think>2?</think>4"]), cache=tmp_path) as model:
        assert (await model.generate(ASK)).samples == (Sample(text="4", thought="2?"),)
        assert (await model.generate(ASK)).samples == (Sample(text="4", thought="2?"),)


# ---- usage ----


def chat(prompt: Any, completion: Any, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


# fmt: off
ANTHROPIC = {"usage": {"input_tokens": 20, "cache_read_input_tokens": 1500,
                       "cache_creation_input_tokens": 0, "output_tokens": 310}}
USAGES = {
    "OpenAI": (chat(90, 400, total_tokens=490,
                    completion_tokens_details={"reasoning_tokens": 400}), (90, 400, 400, 0, 0)),
    "OpenAI, cached": (chat(90, 4, prompt_tokens_details={
        "cached_tokens": 64, "cache_write_tokens": 8}), (90, 4, 0, 64, 8)),
    "Responses": ({"usage": {
        "input_tokens": 90, "output_tokens": 16, "total_tokens": 106,
        "input_tokens_details": {"cached_tokens": 64},
        "output_tokens_details": {"reasoning_tokens": 16}}}, (90, 16, 16, 64, 0)),
    "R04 Anthropic": (ANTHROPIC, (1520, 310, 0, 1500, 0)),
    "Anthropic, written": ({"usage": {
        "input_tokens": 6, "cache_creation_input_tokens": 574, "cache_read_input_tokens": 20443,
        "output_tokens": 489, "output_tokens_details": {"thinking_tokens": 77}}},
        (21023, 489, 77, 20443, 574)),
    "R06 Gemini": ({"usageMetadata": {
        "promptTokenCount": 90, "candidatesTokenCount": 1, "thoughtsTokenCount": 478,
        "totalTokenCount": 569}}, (90, 479, 478, 0, 0)),
    "Gemini's endpoint for OpenAI's format": (chat(35, 12, total_tokens=109), (35, 74, 62, 0, 0)),
    "R13 xAI": (chat(716, 126, total_tokens=1009,
                     completion_tokens_details={"reasoning_tokens": 167}), (716, 293, 167, 0, 0)),
    "DeepSeek": (chat(90, 4, total_tokens=94, prompt_cache_hit_tokens=64,
                      prompt_cache_miss_tokens=26), (90, 4, 0, 64, 0)),
    "litellm for Anthropic": (chat(
        1520, 310, total_tokens=1830, cache_read_input_tokens=1500, cache_creation_input_tokens=0,
        prompt_tokens_details={"cached_tokens": 1500}), (1520, 310, 0, 1500, 0)),
    "counts that contradict": (chat(
        9, 4, total_tokens=1, completion_tokens_details={"reasoning_tokens": 8},
        prompt_tokens_details={"cached_tokens": "x"}), (9, 4, 4, 0, 0)),
    "no count of the prompt": (chat(None, 1), (0, 1, 0, 0, 0)),
}
# fmt: on


@pytest.mark.parametrize(("payload", "counts"), USAGES.values(), ids=USAGES)
def test_usages_of_all_providers_mean_the_same(payload: Any, counts: tuple[int, ...]) -> None:
    """The whole prompt, all sampled tokens, and the parts of them."""
    usage = read_usage(payload, (1.0, 2.0))
    read = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens)
    assert (*read, usage.cached_prompt_tokens, usage.cache_write_tokens) == counts
    assert usage.cost == pytest.approx((counts[0] + 2 * counts[1]) / 1e6)


def test_cached_tokens_may_have_a_price_of_their_own() -> None:
    usage = read_usage(ANTHROPIC, (10.0, 20.0, 1.0))
    assert usage.cost == pytest.approx((20 * 10 + 1500 * 1 + 310 * 20) / 1e6)


@pytest.mark.parametrize(
    "payload",
    [
        *(None, {}, {"usage": {}}, {"usage": 3}, {"usageMetadata": {"trafficType": "x"}}),
        *(chat(shown, 1) for shown in (2**63, -1, 1e300, "many", True, {})),
        *(chat(0, 0, total_tokens=0), chat(None, None)),
    ],
)
def test_a_usage_without_counts_or_with_absurd_ones_has_no_cost(payload: Any) -> None:
    usage = read_usage(payload, (1.0, 2.0))
    assert (usage.calls, usage.prompt_tokens, usage.cost) == (1, 0, None)
