"""What answers in the format of OpenAI mean, edge by edge."""

from __future__ import annotations

import json
import math

import pytest

from tests.benchmark_data import benchmark
from textassay.agents.reading.json_in_prose import find_json
from textassay.runtime import errors
from textassay.runtime.backends import openai_format
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    Function,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

CHAT = Request(messages=(ChatMessage(role="user", content="x"),), n=3)
LOOK = Function(name="f", description="Look.", parameters={"type": "object"})
OFFERING = Request(messages=CHAT.messages, functions=(LOOK,))


def message(content: object, reason: str = "stop", **more: object) -> dict[str, object]:
    return {"finish_reason": reason, "message": {"role": "assistant", "content": content, **more}}


def read(*choices: object, request: Request = CHAT) -> Response:
    return openai_format.read_response({"choices": list(choices)}, request, None)


def test_samples_without_text_are_left_out_where_others_have_one():
    """Two of three are an answer."""
    response = read(message("a"), message(None), message("c", "length"))
    assert [(s.text, s.finish_reason) for s in response.samples] == [("a", "stop"), ("c", "length")]


def test_hidden_reasoning_that_used_up_the_allowance_is_an_empty_answer():
    """Asking again would cost the same and give the same."""
    assert read(message(None, "length")).samples == (Sample(text="", finish_reason="length"),)


def test_filtered_text_that_is_there_is_kept():
    """The filter cut the answer short."""
    assert read(message("half an ans", "content_filter")).samples[0].finish_reason == "filtered"


def test_a_declined_answer_is_refused_content():
    """The message holds a refusal in place of content."""
    with pytest.raises(errors.ContentRefused, match="I cannot"):
        read(message(None, refusal="I cannot."))


def test_unknown_reasons_to_finish_are_other():
    """A new word of a server is no error."""
    assert read(message("a", "tired")).samples[0].finish_reason == "other"


def test_calls_of_functions_are_read_as_words_and_kept_as_they_came():
    """Also beside a text and a thought, whose fields are sent back; empty fields are not."""
    called = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    bare = {"id": "2", "function": {"name": "g", "arguments": ""}}
    said = message("I look.", "tool_calls", tool_calls=[called, bare], reasoning_content="Hm.",
                   refusal=None, thinking_blocks=[])  # fmt: skip
    [sample] = read(said, request=OFFERING).samples
    assert (sample.finish_reason, sample.thought) == ("stop", "Hm.")
    assert sample.text == (
        '{"name": "f", "arguments": {"a": 1}}\n{"name": "g", "arguments": {}}\nI look.'
    )
    assert sample.native == {
        "role": "assistant", "content": "I look.", "tool_calls": [called, bare],
        "reasoning_content": "Hm.",
    }  # fmt: skip
    alone = message(None, "tool_calls", tool_calls=[called])
    [sample] = read(alone, request=OFFERING).samples
    assert sample.text == '{"name": "f", "arguments": {"a": 1}}'
    assert read(message("a", tool_calls=None), request=OFFERING).samples[0].native is None
    with pytest.raises(errors.MalformedResponse, match="no text"):  # nobody offered it
        read(alone)


def test_recorded_calls_of_every_provider_are_read():
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


def test_native_messages_are_sent_only_where_functions_are_offered():
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


def test_a_missing_usage_leaves_the_cost_unknown():
    """Nothing is invented."""
    usage = openai_format.read_response({"choices": [message("a")]}, CHAT, (1.0, 1.0)).usage
    assert (usage.calls, usage.prompt_tokens, usage.cost) == (1, 0, None)


@pytest.mark.parametrize(
    "payload",
    [
        *[
            None,
            [],
            "x",
            {},
            {"choices": None},
            {"choices": [1]},
            {"choices": [{}]},
            {"choices": [{"message": "x"}]},
        ],
        *[{"choices": [message(5)]}, {"choices": "abc"}],
    ],
)
def test_any_other_shape_is_malformed(payload):
    """Whatever a server sends, the error is ours."""
    with pytest.raises(errors.MalformedResponse):
        openai_format.read_response(payload, CHAT, (1.0, 1.0))


@pytest.mark.parametrize(
    "content", [[{"token": "a"}], [{"token": "a", "logprob": None}], [{"token": 1, "logprob": -1}]]
)
def test_broken_log_probabilities_are_malformed(content):
    """A token without its number is no answer."""
    with pytest.raises(errors.MalformedResponse):
        read(
            message("a") | {"logprobs": {"content": content}},
            request=CHAT.model_copy(update={"logprobs": 2}),
        )


def first_token(**alternatives: float) -> Response:
    top = tuple((token.replace("_", " "), math.log(p)) for token, p in alternatives.items())
    token = TokenLogprob(token=top[0][0], logprob=top[0][1], top=top)
    return Response(samples=(Sample(text=token.token, logprobs=(token,)),))


def ask(**choices: tuple[str, ...]) -> ChoicesRequest:
    return ChoicesRequest(prompt="x", choices=choices)


def test_forms_with_and_without_a_space_are_summed():
    """Yes is the sum of its four forms, no more."""
    response = first_token(Yes=0.4, _Yes=0.2, yes=0.1, _no=0.05, Yesterday=0.15)
    answer = openai_format.read_choices(response, ask(yes=("yes", "Yes"), no=("No", "no")))
    assert math.exp(answer.logprobs["yes"]) == pytest.approx(0.7)
    assert math.exp(answer.logprobs["no"]) == pytest.approx(0.05)
    assert answer.mass == pytest.approx(0.75)


def test_what_is_not_reported_is_unknown():
    """Not zero, not a floor."""
    assert (
        openai_format.read_choices(first_token(A=0.9, B=0.1), ask(a=("A",), c=("C",))).logprobs["c"]
        is None
    )


@pytest.mark.parametrize(
    ("alternatives", "choices"),
    [
        ({"in": 0.6, "A": 0.4}, {"bad": ("incoherent",), "a": ("A",)}),
        ({"1": 0.9, "2": 0.1}, {"one": ("1",), "two": ("2",), "ten": ("10",)}),
        ({"A": 0.9, "B": 0.1}, {"a": ("A",), "long": ("not at all",)}),
    ],
)
def test_a_choice_of_several_tokens_is_an_error(alternatives, choices):
    """The first part of a choice must not count as another, nor as nothing."""
    with pytest.raises(errors.CapabilityError, match="more than one token"):
        openai_format.read_choices(first_token(**alternatives), ask(**choices))


def test_the_beginning_that_is_reported_is_named():
    """Whoever reads the message sees which token stands in the way."""
    with pytest.raises(errors.CapabilityError, match=r"begins with 'in' at a probability of 0\.6"):
        openai_format.read_choices(
            first_token(**{"in": 0.6, "A": 0.4}), ask(bad=("incoherent",), a=("A",))
        )


def test_a_part_of_a_character_begins_no_choice():
    """llama_cpp.server shows a token that is a piece of a character as an empty one."""
    answer = openai_format.read_choices(
        first_token(**{"": 0.9, "maybe": 0.1}), ask(yes=("yes",), no=("no",))
    )
    assert answer.logprobs == {"yes": None, "no": None}


def test_an_unlikely_beginning_is_no_evidence():
    """A label stays readable when a piece of another is merely possible."""
    answer = openai_format.read_choices(
        first_token(A=0.99, i=0.001), ask(a=("A",), bad=("incoherent",))
    )
    assert answer.logprobs["bad"] is None


def test_two_labels_with_one_form_are_a_mistake():
    """A token cannot count for both."""
    with pytest.raises(errors.ConfigurationError, match="share the form"):
        openai_format.read_choices(first_token(A=1.0), ask(a=("A",), b=(" A",)))


def echo(
    tokens: list[str], logprobs: list[float | None], offsets: list[int], text: str
) -> dict[str, object]:
    given = {"tokens": tokens, "token_logprobs": logprobs, "text_offset": offsets}
    return {"choices": [{"text": text, "logprobs": given}]}


def test_a_continuation_is_cut_at_its_border():
    """The sampled token after it is left out."""
    payload = echo(["It", " is", " so", "."], [None, -1.0, -2.0, -9.0], [0, 2, 5, 8], "It is so.")
    tokens = openai_format.read_continuation(payload, "It is", " so")
    assert [(t.token, t.logprob) for t in tokens] == [(" so", -2.0)]


def test_a_mark_for_the_beginning_of_the_text_is_skipped():
    """Some servers list it, and count it in the places."""
    payload = echo(["<s>", "It", " is"], [None, -1.0, -2.0], [0, 3, 5], "It is")
    assert [t.token for t in openai_format.read_continuation(payload, "It", " is")] == [" is"]


def test_bytes_of_a_character_may_be_several_tokens():
    """Places decide where the texts of tokens cannot."""
    payload = echo(["It", " \ufffd", "\ufffd"], [None, -1.0, -2.0], [0, 2, 3], "It \u20ac")
    assert len(openai_format.read_continuation(payload, "It", " \u20ac")) == 2


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (echo([" so"], [-1.0], [0], " so"), "does not echo"),
        ({"choices": [{"text": "It is so", "logprobs": None}]}, "without its log-probabilities"),
        (echo(["It i", "s so"], [None, -1.0], [0, 4], "It is so"), "spans the border"),
        (echo(["It is", " so"], [None, -1.0], [2, 5], "It is so"), "do not cover"),
        (echo(["It is", " no"], [None, -1.0], [0, 5], "It is so"), "is not the text"),
    ],
)
def test_doubtful_places_are_never_summed(payload, said):
    """Either the tokens are exactly those of the text or there is no number."""
    with pytest.raises((errors.CapabilityError, errors.RequestRefused), match=said):
        openai_format.read_continuation(payload, "It is", " so")
