"""The wire format of OpenAI's Responses API: writes bodies of requests, reads answers.

Pure functions, as in `openai_format`. The API gives one answer to a request, and has no fields for
seeds and stop sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textassay.runtime.backends import http_errors
from textassay.runtime.backends.openai_format import (
    UNUSABLE,
    declined_error,
    merge_bodies,
    prefix_fields,
    put_images,
    raise_unusable,
    read_finish_reason,
    schema_field,
    with_logprobs,
)
from textassay.runtime.backends.thoughts import read_answer, read_parts
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.base import Json, Price
from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.errors import (
    CapabilityError,
    ContentRefused,
    MalformedResponse,
    Refusal,
    RequestRefused,
)
from textassay.runtime.images import Image
from textassay.runtime.model import Capabilities, FinishReason, Request, Response

PATH = "/responses"
CAPABILITIES = Capabilities(n=False, seed=False, continuation=False, images=None)


def request_fields(request: Request, posting: Posting = PLAIN) -> Json:
    """Return the fields of a body except the model's name; raises what `check` raises."""
    check(request, posting)
    body: Json = {
        "input": [{"role": m.role, "content": m.content} for m in request.messages],
        # otherwise the provider keeps prompt and answer for later requests to refer to
        "store": False,
    }
    if request.images:
        put_images(body["input"], request.images, _text_part, _image_part)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p < 1:
        body["top_p"] = request.top_p
    if most := posting.most_tokens(request):
        body["max_output_tokens"] = max(16, most)  # the least that the API takes
    if request.effort:
        body["reasoning"] = {"effort": request.effort}
    elif request.thinking_tokens is not None:
        body["reasoning"] = {"max_tokens": request.thinking_tokens}
    if request.logprobs is not None:
        body["top_logprobs"] = request.logprobs
        body["include"] = ["message.output_text.logprobs"]
    if request.json_schema is not None:
        body["text"] = {"format": {"type": "json_schema", **schema_field(request)}}
    return merge_bodies(body | prefix_fields(request, posting), request.extra)


def _text_part(text: str) -> Json:
    return {"type": "input_text", "text": text}


def _image_part(image: Image) -> Json:
    return {"type": "input_image", "image_url": image.place}


def check(request: Request, posting: Posting = PLAIN) -> None:
    """Refuse requests that the API does not take."""
    if request.prompt is not None:
        raise CapabilityError(
            "the Responses API takes chats only; direct/NAME with api_base= takes plain prompts"
        )
    # OpenRouter alone takes a number of tokens here, and no server another field for an effort
    fields = ["reasoning"]
    setting = "number of thinking tokens"
    if request.effort:
        fields, setting = ["reasoning", "reasoning_effort"], f"effort {request.effort}"
    is_set = request.effort or request.thinking_tokens is not None
    if is_set and not set(fields) & set(posting.thinking_fields or fields[1:]):
        raise CapabilityError(f"the Responses API of this server takes no {setting}; leave it out")
    for name in ("seed", "stop", "functions"):  # the prompt describes functions in words instead
        if getattr(request, name) not in (None, ()):
            refused = RequestRefused(f"the Responses API has no parameter {name!r}")
            refused.refusal = Refusal("drop", name)
            raise refused


def read_response(payload: Any, request: Request, price: Price | None) -> Response:
    """Return the one sample of an answer, with its cost."""
    usage = read_usage(payload, price)
    try:
        if payload.get("error"):  # in a row of a batch
            raise http_errors.from_error_payload(payload, http_errors.ServerName("the model"))
        parts = _parts_of(payload["output"])
        text, thought = read_parts(parts)
        finish = _finish_reason(payload)
        broken_off = ("queued", "in_progress", "incomplete", "cancelled", "failed")
        if finish == "other" and payload["status"] in broken_off:
            raise MalformedResponse(
                f"the server broke the answer off (status {payload['status']!a})"
            )
        if not text:
            refusals = [part["refusal"] for part in parts if part.get("type") == "refusal"]
            if refusals:
                raise declined_error(refusals[0])
            if finish == "filtered":
                raise ContentRefused("the provider's content filter left no text")
        answer = read_answer(text, thought, finish, request, usage)
        if not answer:
            status = payload.get("status")
            raise MalformedResponse(f"the answer contains no text (status {status!a})")
        tokens = [token for part in parts for token in part.get("logprobs") or ()]
        logprobs = {"content": tokens} if tokens else None
        sample = with_logprobs(answer, text, logprobs, request, usage)
        return Response(samples=(sample,), usage=usage, model=payload.get("model"))
    except UNUSABLE as error:
        raise_unusable(error, usage)


def _parts_of(output: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the parts of all messages, and thoughts as parts among them."""
    parts: list[Mapping[str, Any]] = []
    for item in output:
        if item["type"] == "reasoning":
            parts.append(item)
        elif item["type"] == "message" and item.get("phase") == "commentary":
            parts.append({"type": "reasoning", "content": item["content"]})
        elif item["type"] == "message":
            parts += item["content"]
    return parts


def _finish_reason(payload: Mapping[str, Any]) -> FinishReason:
    if payload.get("status") == "incomplete":
        return read_finish_reason((payload.get("incomplete_details") or {}).get("reason"))
    return "stop" if payload.get("status") in ("completed", None) else "other"
