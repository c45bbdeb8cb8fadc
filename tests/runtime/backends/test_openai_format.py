"""What is sent, and what answers mean, in the format of OpenAI's chats and completions."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.benchmark_data import benchmark
from textassay.agents.reading.json_in_prose import find_json
from textassay.runtime import errors
from textassay.runtime.backends import openai_format
from textassay.runtime.backends.openai_format import (
    choices_as_request,
    read_choices,
    read_continuation,
    read_response,
)
from textassay.runtime.calls.call import Posting
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    Function,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

CHAT = Request(messages=(ChatMessage(role="user", content="Rate it."),), n=3)
LOOK = Function(name="f", description="Look.", parameters={"type": "object"})
OFFERING = Request(messages=CHAT.messages, functions=(LOOK,))
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
}
SPENT = {
    "prompt_tokens": 90,
    "completion_tokens": 400,
    "completion_tokens_details": {"reasoning_tokens": 400},
}


def message(content: Any, reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {"finish_reason": reason, "message": {"role": "assistant", "content": content, **more}}


def read(
    *choices: Any, request: Request = CHAT, usage: Any = None, **fields: Any
) -> tuple[Sample, ...]:
    payload = {"choices": list(choices), "usage": usage}
    return openai_format.read_response(
        payload, request.model_copy(update=fields), (1.0, 1.0)
    ).samples


def thinking(text: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text}


# fmt: off
UNFINISHED = Sample(text="", finish_reason="length")
THOUGHT = Sample(text="", finish_reason="length", thought="maybe 2")
FOUR = Sample(text="4", thought="maybe 2")
MISTRAL = [thinking([{"type": "text", "text": "maybe 2"}]), {"type": "text", "text": "4"}]
NESTED: Any = "x"
for _ in range(900):
    NESTED = [NESTED]
ANSWERS = {
    "text that a filter cut short": (message("half an ans", "content_filter"),
                                     Sample(text="half an ans", finish_reason="filtered")),
    "a filter of Gemini": (message("half an ans", "SAFETY"),
                           Sample(text="half an ans", finish_reason="filtered")),
    "a filter with its reason": (message("half an ans", "content_filter: RECITATION"),
                                 Sample(text="half an ans", finish_reason="filtered")),
    "a filter of Bedrock": (message("half an ans", "guardrail_intervened"),
                            Sample(text="half an ans", finish_reason="filtered")),
    "a filter of Anthropic": (message("half an ans", "refusal"),
                              Sample(text="half an ans", finish_reason="filtered")),
    "a filter of Cohere": (message("half an ans", "ERROR_TOXIC"),
                           Sample(text="half an ans", finish_reason="filtered")),
    "a limit of Cohere": (message("half an ans", "ERROR_LIMIT"),
                          Sample(text="half an ans", finish_reason="length")),
    "a filter in other spellings": (message("half an ans", "ContentFilter"),
                                    Sample(text="half an ans", finish_reason="filtered")),
    "a limit of Anthropic": (message("half an ans", "model_context_window_exceeded"),
                             Sample(text="half an ans", finish_reason="length")),
    "a limit in capitals": (message("half an ans", "MAX_TOKENS"),
                            Sample(text="half an ans", finish_reason="length")),
    "an unknown reason to end": (message("a", "tired"), Sample(text="a", finish_reason="other")),
    "R02 stopped with nothing": (message(None), UNFINISHED),
    "R08 reasoning_content": (message("\n\n4", reasoning_content="maybe 2"), FOUR),
    "R08 reasoning": (message("4", reasoning="maybe 2"), FOUR),
    "R08 thinking of Ollama": (message("4", thinking="maybe 2"), FOUR),
    "OpenRouter": (message("4", reasoning=None, reasoning_details=[
        {"type": "reasoning.text", "text": "maybe 2"}]), FOUR),
    "litellm": (message("4", thinking_blocks=[{**thinking("maybe 2"), "signature": "x"}]), FOUR),
    "R09 Mistral": (message(MISTRAL), FOUR),
    "Mistral, cut": (message(MISTRAL[:1], "length"), THOUGHT),
    "Mistral with a reference": (message([MISTRAL[1], {"type": "reference", "reference_ids": [1]}]),
                                 Sample(text="4")),
    "R10 no parser": (message("<think>maybe 2</think>\n\n4"), FOUR),
    "R10 opened by the template": (message("maybe 2</think>4"), FOUR),
    "R10 cut": (message("<think>maybe 2", "length"), THOUGHT),
    "vLLM, cut": (message(None, "length", reasoning="maybe 2"), THOUGHT),
    "thought and nothing else": (message("", reasoning="maybe 2"), THOUGHT),
    "R12 llama-server, cut by its budget": (message("</think>4"), Sample(text="4")),
    "R12 beside a thought": (message("</think>4", reasoning_content="maybe 2"), FOUR),
    "an empty reasoning": (message("4", reasoning="", reasoning_details=[]), Sample(text="4")),
    "parts without end": (message("4", reasoning=NESTED), Sample(text="4")),
}
# fmt: on


@pytest.mark.parametrize(("choice", "sample"), ANSWERS.values(), ids=ANSWERS)
def test_what_answers_mean(choice: dict[str, Any], sample: Sample) -> None:
    """Thoughts are picked by types of parts and names of fields, and never become an answer."""
    usage = SPENT if sample == UNFINISHED else None
    assert read(choice, usage=usage) == (sample,)


@pytest.mark.parametrize("reason", ["abort", "aborted", "INCOMPLETE", "network-error", "Cancelled"])
def test_an_answer_that_the_server_broke_off_is_no_answer(reason: str) -> None:
    with pytest.raises(errors.MalformedResponse, match=f"broke the answer off.*{reason}"):
        read(message("Score: 1", reason))


def test_samples_without_text_are_left_out_where_others_have_one() -> None:
    """Two of four are an answer, and one that hidden reasoning left empty."""
    broken_off = message("b", "abort")
    found = read(message("a"), message(None), broken_off, message("c", "length"), n=4)
    assert [(s.text, s.finish_reason) for s in found] == [("a", "stop"), ("c", "length")]
    assert read(message(None, "length")) == (UNFINISHED,)


@pytest.mark.parametrize(
    ("thought", "is_answer"),
    [('{"score": 4}', True), ('maybe {"score": 4}', False), ('{"score": 9}', False), ("4", False)],
)
def test_json_in_place_of_the_thought_is_an_answer_if_it_satisfies_the_schema(
    thought: str, is_answer: bool
) -> None:
    """R11: some servers bind the thought to the schema, and leave the answer empty."""
    choice = message("", reasoning_content=thought)
    (sample,) = read(choice, json_schema=SCHEMA)
    assert (sample.from_thought, sample.is_unfinished) == (is_answer, not is_answer)
    assert sample.text == (thought if is_answer else "")
    assert read(choice)[0].is_unfinished


CALLED = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        *(
            (payload, errors.MalformedResponse)
            for payload in ({"choices": None}, {"choices": "abc"})
        ),
        *(
            ({"choices": [choice]}, errors.MalformedResponse)
            for choice in (
                *(1, {}, {"message": "x"}, message(5), message(None), message({"text": "4"})),
                message(None, "tool_calls", reasoning="a tool"),
                message(None, tool_calls=[CALLED]),  # nobody offered it
                *(message([4]), message([{"type": "text", "text": 4}])),
            )
        ),
        ({"choices": [message(None, refusal="I cannot.", reasoning="hm")]}, errors.ContentRefused),
        ({"choices": [message(None, "content_filter")]}, errors.ContentRefused),
        ({"choices": [message("", "PROHIBITED_CONTENT")]}, errors.ContentRefused),
        *(
            (payload, errors.PageAnswered)
            for payload in (
                *(None, [], "ok", 4, True, {}),
                *({"status": "ok"}, {"detail": "Not Found"}, {"success": False}),
            )
        ),
    ],
)
def test_what_is_not_an_answer_is_an_error(payload: Any, error: type[errors.ModelError]) -> None:
    """Whatever a server sends the error is ours, and says what it cost."""
    if isinstance(payload, dict):
        payload = {**payload, "usage": {"prompt_tokens": 9, "completion_tokens": 400}}
    with pytest.raises(error) as caught:
        openai_format.read_response(payload, CHAT, (1.0, 1.0))
    assert caught.value.usage is not None
    assert caught.value.usage.completion_tokens == (400 if isinstance(payload, dict) else 0)


# ---- functions ----


def test_calls_of_functions_are_read_as_words_and_kept_as_they_came() -> None:
    """Also beside a text and a thought, whose fields are sent back; empty fields are not."""
    bare = {"id": "2", "function": {"name": "g", "arguments": ""}}
    kept = {"tool_calls": [CALLED, bare], "reasoning_content": "Hm."}
    said = message("I look.", "tool_calls", refusal=None, thinking_blocks=[], **kept)
    [sample] = read(said, request=OFFERING)
    assert (sample.finish_reason, sample.thought) == ("stop", "Hm.")
    assert sample.text == (
        '{"name": "f", "arguments": {"a": 1}}\n{"name": "g", "arguments": {}}\nI look.'
    )
    assert sample.native == {"role": "assistant", "content": "I look.", **kept}
    [alone] = read(message(None, "tool_calls", tool_calls=[CALLED]), request=OFFERING)
    assert alone.text == '{"name": "f", "arguments": {"a": 1}}'
    assert read(message("a", tool_calls=None), request=OFFERING)[0].native is None


def test_recorded_calls_of_every_provider_are_read() -> None:
    """Each call is an object with the name and the arguments that it has, in order."""
    count = 0
    for row in benchmark("provider-answers/answers.jsonl.gz"):
        choices = row["body"].get("choices") if row["kind"] == "chat" else None
        said = (choices or [{}])[0].get("message") or {}
        if not said.get("tool_calls") or "opaque characters" in json.dumps(said["tool_calls"]):
            continue
        [sample] = openai_format.read_response(row["body"], OFFERING, None).samples
        functions = [call["function"] for call in said["tool_calls"]]
        found = [one.value for one in find_json(sample.text)][: len(functions)]
        assert [(one["name"], one["arguments"]) for one in found] == [
            (one["name"], json.loads(one["arguments"] or "{}")) for one in functions
        ], sample.text
        assert sample.native is not None
        assert sample.native["tool_calls"] == said["tool_calls"]
        count += 1
    assert count > 50


def test_native_messages_are_sent_only_where_functions_are_offered() -> None:
    """Else the same chat is sent in words."""
    native = ({"role": "assistant", "content": "", "tool_calls": []},)
    chat = (*CHAT.messages, ChatMessage(role="assistant", content="words", native=native))
    plain = Request(messages=chat)
    offering = plain.model_copy(update={"functions": (LOOK,)})
    assert openai_format.prompt_fields(plain)["messages"][1]["content"] == "words"
    assert openai_format.prompt_fields(offering)["messages"][1] == native[0]
    assert "tools" not in openai_format.sampling_fields(plain)
    assert openai_format.sampling_fields(offering)["tools"] == [
        {"type": "function", "function": dict(LOOK)}
    ]


NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
SOME = {"prompt_tokens": 50, "completion_tokens": 1, "total_tokens": 51}


@pytest.mark.parametrize("text", ["", " ", "\n", None])
@pytest.mark.parametrize(
    ("finish", "usage"), [(None, NOTHING), ("stop", NOTHING), ("stop", None), (None, SOME)]
)
def test_a_blank_answer_without_a_token_has_no_rating(text: Any, finish: Any, usage: Any) -> None:
    """It is asked for again; before, it was the judge's last word."""
    payload = {"choices": [message(text) | {"finish_reason": finish}], "usage": usage}
    with pytest.raises(errors.MalformedResponse, match="no text"):
        openai_format.read_response(payload, CHAT, None)


@pytest.mark.parametrize("text", ["", " "])
def test_a_judge_may_answer_nothing(text: str) -> None:
    payload = {"choices": [message(text)], "usage": SOME}
    (sample,) = openai_format.read_response(payload, CHAT, None).samples
    assert sample.text == text


# ---- log-probabilities ----


def with_tokens(choice: Any, *tokens: str, top: Any = (("a", -0.1),)) -> Any:
    alternatives = [{"token": token, "logprob": logprob} for token, logprob in top]
    content = [{"token": t, "logprob": -0.5, "top_logprobs": alternatives} for t in tokens]
    return choice | {"logprobs": {"content": content}}


@pytest.mark.parametrize("value", [None, -math.inf, "-Infinity", "-inf", -9999.0, 5e-4])
def test_an_alternative_that_cannot_come_is_read(value: float | str | None) -> None:
    """As SGLang, Python's json module, Protobuf and vLLM write it; half precision exceeds 0."""
    choice = with_tokens(message("a"), "a", top=[("b", value), ("a", -0.5)])
    (sample,) = read(choice, logprobs=2)
    assert sample.logprobs is not None
    expected = {"a": -0.5, "b": 0.0 if value == 5e-4 else -9999.0}
    assert dict(sample.logprobs[0].top) == expected
    legacy = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5, "b": value}]}
    [token] = openai_format.read_logprobs(legacy, False, "a", follow_thought=False)
    assert dict(token.top) == expected


def test_the_log_probability_of_a_token_may_be_among_its_alternatives_alone() -> None:
    shown = {"token": "a", "logprob": None, "top_logprobs": [{"token": "a", "logprob": -0.5}]}
    [token] = openai_format.read_logprobs({"content": [shown]}, True, "a", follow_thought=False)
    assert token.logprob == -0.5


@pytest.mark.parametrize(
    "content",
    [
        *([{"token": "a"}], [{"token": 1, "logprob": -1}]),
        # before, a score came of a number above 0, or an OverflowError
        *([{"token": "a", "logprob": value}] for value in (None, 0.5, 800.0, "x", True)),
        *(
            [{"token": "a", "logprob": -1, "top_logprobs": [{"token": "a", "logprob": value}]}]
            for value in (0.5, 800.0, "x", True, math.nan)
        ),
    ],
)
def test_broken_log_probabilities_are_malformed(content: Any) -> None:
    with pytest.raises(errors.MalformedResponse):
        read(message("a") | {"logprobs": {"content": content}}, logprobs=2)


@pytest.mark.parametrize(
    ("tokens", "left"),
    [
        (("may", "be 4", "</think>", "\n\n", "4"), ["4"]),
        (("4", "</think>", "\n\n4"), ["\n\n4"]),
        (("2", "</think>", "4", "<|im_end|>"), ["4"]),
        (("4",), ["4"]),
        (("may", "be", "5"), None),
    ],
)
def test_log_probabilities_are_those_of_the_answer(tokens: Any, left: list[str] | None) -> None:
    """vLLM sends the thought's as well; where they cannot be separated, there are none."""
    choice = with_tokens(message("4", reasoning="maybe 4"), *tokens)
    if left is None:
        with pytest.raises(errors.CapabilityError, match="tokens of the answer cannot be found"):
            read(choice, logprobs=1)
    else:
        (sample,) = read(choice, logprobs=1)
        assert [token.token for token in sample.logprobs or ()] == left


# ---- choices ----


def first_token(**alternatives: float) -> Response:
    top = tuple((token.replace("_", " "), math.log(p)) for token, p in alternatives.items())
    token = TokenLogprob(token=top[0][0], logprob=top[0][1], top=top)
    return Response(samples=(Sample(text=token.token, logprobs=(token,)),))


def ask(**choices: tuple[str, ...]) -> ChoicesRequest:
    return ChoicesRequest(prompt="x", choices=choices)


@pytest.mark.parametrize(
    ("alternatives", "choices", "found"),
    [
        # the sum of all forms, with and without a space, and no more
        ({"Yes": 0.4, "_Yes": 0.2, "yes": 0.1, "_no": 0.05, "Yesterday": 0.15},
         {"yes": ("yes", "Yes"), "no": ("No", "no")}, {"yes": 0.7, "no": 0.05}),
        # what is not reported is unknown: not zero, not a floor
        ({"A": 0.9, "B": 0.1}, {"a": ("A",), "c": ("C",)}, {"a": 0.9, "c": None}),
        # llama_cpp.server shows a token that is a piece of a character as an empty one
        ({"": 0.9, "maybe": 0.1}, {"yes": ("yes",), "no": ("no",)}, {"yes": None, "no": None}),
        # a label stays readable when a piece of another is merely possible
        ({"A": 0.99, "i": 0.001}, {"a": ("A",), "bad": ("incoherent",)}, {"a": 0.99, "bad": None}),
    ],
)  # fmt: skip
def test_probabilities_of_choices(alternatives: Any, choices: Any, found: Any) -> None:
    answer = read_choices(first_token(**alternatives), ask(**choices)).logprobs
    shown = {label: lp if lp is None else math.exp(lp) for label, lp in answer.items()}
    assert shown == {label: p if p is None else pytest.approx(p) for label, p in found.items()}


@pytest.mark.parametrize(
    ("alternatives", "choices", "said"),
    [
        ({"in": 0.6, "A": 0.4}, {"bad": ("incoherent",), "a": ("A",)},
         r"more than one token.*begins with 'in' at a probability of 0\.6"),
        ({"1": 0.9, "2": 0.1}, {"one": ("1",), "two": ("2",), "ten": ("10",)}, "more than one"),
        ({"A": 0.9, "B": 0.1}, {"a": ("A",), "long": ("not at all",)}, "more than one token"),
        ({"A": 1.0}, {"a": ("A",), "b": (" A",)}, "share the form"),
    ],
)  # fmt: skip
def test_choices_with_the_same_first_token_are_an_error(
    alternatives: Any, choices: Any, said: str
) -> None:
    """The first part of a choice must not count as another, nor as nothing, nor a token twice."""
    with pytest.raises(errors.ConfigurationError, match=said):
        read_choices(first_token(**alternatives), ask(**choices))


CHOICES = ask(yes=("Yes",), no=("No",))


def test_choices_are_read_behind_the_thought() -> None:
    tokens = {
        "tokens": ["No?", "</think>", "Yes"],
        "token_logprobs": [-0.1, -0.1, -0.2],
        "top_logprobs": [{"No?": -0.1}, {"</think>": -0.1}, {"Yes": -0.2, "No": -1.8}],
    }
    choice = {"text": "No?</think>Yes", "finish_reason": "length", "logprobs": tokens}
    request = choices_as_request(CHOICES)
    assert openai_format.sampling_fields(request, Posting(allowance=50))["max_tokens"] == 51
    response = openai_format.read_response({"choices": [choice]}, request, None)
    assert read_choices(response, CHOICES).logprobs == {"yes": -0.2, "no": -1.8}


def test_choices_that_the_thought_left_no_tokens_for_are_refused_by_name() -> None:
    """With what it cost, so that the request can be sent again with more of them."""
    payload = {"choices": [message(None, "length")], "usage": SPENT}
    request = CHAT.model_copy(update={"logprobs": 20})
    with pytest.raises(errors.RequestRefused, match="before it answered") as caught:
        read_choices(openai_format.read_response(payload, request, None), CHOICES)
    assert caught.value.refusal == errors.Refusal("room", "max_tokens")
    assert caught.value.usage is not None
    assert caught.value.usage.completion_tokens == 400


@pytest.mark.parametrize(("alternatives", "refused"), [(20, True), (2, True), (1, False)])
def test_one_candidate_is_not_a_distribution(alternatives: int, refused: bool) -> None:
    """The newest models of OpenAI return the likeliest token alone, whatever was asked for."""
    request = CHOICES.model_copy(update={"alternatives": alternatives})
    tokens = {"tokens": ["Yes"], "token_logprobs": [0.0], "top_logprobs": [{"Yes": 0.0}]}
    choice = {"text": "Yes", "logprobs": tokens, "finish_reason": "length"}
    sent = choices_as_request(request)
    if refused:
        with pytest.raises(errors.CapabilityError, match="the likeliest token alone"):
            read_response({"choices": [choice]}, sent, None)
    else:
        response = read_response({"choices": [choice]}, sent, None)
        assert read_choices(response, request).logprobs == {"yes": 0.0, "no": None}


# ---- continuations ----


def echo(tokens: list[str], offsets: list[int], text: str) -> dict[str, Any]:
    """What a server echoes; the n-th token has the log-probability -n."""
    logprobs = [None, *(-float(n) for n in range(1, len(tokens)))]
    given = {"tokens": tokens, "token_logprobs": logprobs, "text_offset": offsets}
    return {"choices": [{"text": text, "logprobs": given}]}


@pytest.mark.parametrize(
    ("payload", "prompt", "text", "tokens"),
    [
        # the sampled token behind it is left out
        (echo(["It", " is", " so", "."], [0, 2, 5, 8], "It is so."), "It is", " so",
         [(" so", -2.0)]),
        # some servers list the mark for the beginning of a text, and count it in the places
        (echo(["<s>", "It", " is"], [0, 3, 5], "It is"), "It", " is", [(" is", -2.0)]),
        # tokens of a part of a character: places decide where texts cannot
        (echo(["It", " \ufffd", "\ufffd"], [0, 2, 3], "It \u20ac"), "It", " \u20ac",
         [(" \ufffd", -1.0), ("\ufffd", -2.0)]),
        # llama_cpp.server shows the bytes of a curly quote as empty tokens at its place
        (echo(["a", " ", "", "", "“", "so", "", "", "”", ":", " plain", "\n"],
              [0, 1, 2, 2, 2, 3, 5, 5, 5, 6, 7, 13], "a “so”: plain\n"), "a “so”:", " plain",
         [(" plain", -10.0)]),
    ],
)  # fmt: skip
def test_a_continuation_is_cut_at_its_border(
    payload: Any, prompt: str, text: str, tokens: Any
) -> None:
    found = read_continuation(payload, prompt, text)
    assert [(token.token, token.logprob) for token in found] == tokens


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (echo([" so"], [0], " so"), "does not echo"),
        ({"choices": [{"text": "It is so", "logprobs": None}]}, "without its log-probabilities"),
        (echo(["It i", "s so"], [0, 4], "It is so"), "spans the border"),
        (echo(["It is", " so"], [2, 5], "It is so"), "do not cover"),
        (echo(["It is", " so"], [None, 5], "It is so"), "do not cover"),
        (echo(["It is", " no"], [0, 5], "It is so"), "is not the text"),
    ],
)
def test_doubtful_places_are_never_summed(payload: Any, said: str) -> None:
    """Either the tokens are exactly those of the text or there is no number."""
    with pytest.raises((errors.CapabilityError, errors.RequestRefused), match=said):
        read_continuation(payload, "It is", " so")
