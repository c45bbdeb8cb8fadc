"""The wire format of OpenAI-compatible servers: writes bodies of requests, reads answers.

Pure functions from our messages to JSON values and back, also for probabilities of choices and of
given texts. Uses no network, status or key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import orjson
from pydantic import ValidationError

from textassay.runtime.backends.thoughts import (
    answer_tokens,
    read_answer,
    read_parts,
    thought_beside,
)
from textassay.runtime.backends.usage import is_object, read_usage
from textassay.runtime.base import Json, Price, Usage
from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    ContentRefused,
    MalformedResponse,
    NoLogprobs,
    PageAnswered,
    Refusal,
    RequestRefused,
)
from textassay.runtime.images import Image
from textassay.runtime.model import (
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    FinishReason,
    Prompted,
    Request,
    Response,
    Sample,
    TokenLogprob,
    is_distribution,
    log_sum,
)

UNUSABLE = (
    *(MalformedResponse, ContentRefused, NoLogprobs),
    *(ValidationError, TypeError, AttributeError, KeyError, ValueError),
)
"""Errors that reading an unusable answer may raise, since its parts may be of any type."""


def read_finish_reason(reason: object) -> FinishReason:
    """Return why an answer ended, by the word of its server."""
    word = _plain_reason(reason)
    if word in ("stop", "eostoken"):
        return "stop"
    # Mistral; Cohere; Anthropic
    limits = ("length", "maxtokens", "maxoutputtokens", "modellength", "errorlimit")
    if word in (*limits, "modelcontextwindowexceeded"):
        return "length"
    # OpenAI; Gemini; Bedrock; Anthropic, Zhipu; Cohere
    filters = (
        *("contentfilter", "safety", "recitation", "blocklist", "prohibitedcontent", "spii"),
        *("guardrailintervened", "contentfiltered", "refusal", "sensitive", "errortoxic"),
    )
    return "filtered" if word in filters else "other"


def _plain_reason(reason: object) -> str:
    """Return a reason's letters: MAX_TOKENS (Gemini), ContentFilter, content_filter: RECITATION."""
    return "".join(filter(str.isalpha, str(reason).lower().partition(":")[0]))


def sampling_fields(request: Request, posting: Posting = PLAIN) -> Json:
    """Return the fields of a body, or of a call, that set the sampling, without defaults."""
    body: Json = {}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.n > 1:
        body["n"] = request.n
    if request.top_p < 1:
        body["top_p"] = request.top_p
    if request.max_tokens:
        body[posting.cap_field] = posting.most_tokens(request)
    if request.seed is not None:
        # The same seed would give each further draw the text of the first.
        body["seed"] = request.seed + request.draw
    if request.stop:
        body["stop"] = list(request.stop)
    if request.logprobs is not None:
        if request.messages:
            body["logprobs"], body["top_logprobs"] = True, request.logprobs
        else:
            body["logprobs"] = request.logprobs
    if request.json_schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": schema_field(request)}
    if request.functions:
        body["tools"] = [{"type": "function", "function": dict(f)} for f in request.functions]
    return (
        body | prefix_fields(request, posting) | _thinking_fields(request, posting) | request.extra
    )


def schema_field(request: Request) -> Json:
    """Return the field with the JSON schema of the answer."""
    return {"name": "answer", "schema": request.json_schema, "strict": True}


def prefix_fields(request: Prompted, posting: Posting) -> Json:
    """Return the field that names the shared beginning of the prompt, if the provider takes it."""
    if posting.prefix_mark != "key":
        return {}
    digest = hashlib.sha256(posting.prefix_of(request).encode("utf-8", "surrogatepass"))
    return {"prompt_cache_key": digest.hexdigest()[:16]}


def _thinking_fields(request: Request, posting: Posting) -> Json:
    """Return the fields that limit the thought, in the forms that the server takes."""
    if not posting.thinking_fields:
        return {}
    effort, tokens = request.effort, request.thinking_tokens
    forms: Json = {
        "reasoning_effort": effort,
        # Qwen and GLM read the first, DeepSeek and Granite the second
        "chat_template_kwargs": {"enable_thinking": False, "thinking": False},
        "reasoning": {"effort": effort} if tokens is None else {"max_tokens": tokens},
        "thinking": {"type": "enabled", "budget_tokens": tokens},
        "thinking_token_budget": tokens,
        "thinking_budget_tokens": tokens,
    }
    return {name: forms[name] for name in posting.thinking_fields}


def merge_bodies(body: Json, extra: Json) -> Json:
    """Return a body with further fields; where both have an object, with the fields of both."""
    both = {
        name: body[name] | value
        for name, value in extra.items()
        if isinstance(value, dict) and isinstance(body.get(name), dict)
    }
    return body | extra | both


def prompt_fields(request: Prompted, posting: Posting = PLAIN) -> Json:
    """Return the field that holds the chat or the prompt."""
    if request.prompt is not None:
        return {"prompt": request.prompt}
    messages: list[Json] = [{"role": m.role, "content": m.content} for m in request.messages]
    if isinstance(request, Request) and request.functions:
        pairs = zip(request.messages, messages, strict=True)
        messages = [part for message, plain in pairs for part in message.native or (plain,)]
    if posting.prefix_mark == "block":
        text = request.messages[-1].content
        parts = (text[: posting.shared_prefix], text[posting.shared_prefix :])
        messages[-1]["content"] = [{"type": "text", "text": part} for part in parts if part]
        messages[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    if request.images:
        put_images(messages, request.images, text_part, _image_part)
    return {"messages": messages}


def put_images(
    messages: list[Json],
    images: Iterable[Image],
    text_part: Callable[[str], Json],
    image_part: Callable[[Image], Json],
    field: str = "content",
) -> None:
    """Put images before the text of the user's first message, each after its number."""
    holder = next((message for message in messages if message["role"] == "user"), messages[-1])
    texts = holder[field] if isinstance(holder[field], list) else [text_part(holder[field])]
    image_parts = [part for i in images for part in (text_part(f"{i.label}:"), image_part(i))]
    holder[field] = [*image_parts, *texts]


def text_part(text: str) -> Json:
    """Return a text as a part of a message."""
    return {"type": "text", "text": text}


def _image_part(image: Image) -> Json:
    return {"type": "image_url", "image_url": {"url": image.place}}


def read_response(payload: Any, request: Request, price: Price | None) -> Response:
    """Return the samples of an answer to a chat or completion request, with their cost."""
    usage = read_usage(payload, price)
    try:
        choices = choices_of(payload)
        if not choices or not isinstance(choices, list | Sequence):
            raise MalformedResponse("the answer has no choices")
        answers = [_sample(c, request, usage) for c in drop_broken_off(choices[: request.n])]
        samples = tuple(filter(None, answers))
        if not samples:
            raise _without_text(choices)
        return Response(samples=samples, usage=usage, model=payload.get("model"))
    except UNUSABLE as error:
        raise_unusable(error, usage)


def choices_of(payload: Any) -> Any:
    """Return the choices of an answer.

    Raises:
        PageAnswered: It is no answer of a model.
    """
    if not is_object(payload) or "choices" not in payload:
        raise PageAnswered(
            "the answer is not one of a model: it has no choices (check api_base=: most often it"
            " ends in /v1)"
        )
    return payload["choices"]


def drop_broken_off(choices: Sequence[Json]) -> list[Json]:
    """Return the complete choices: the number in a fragment may not be the rating."""
    # OpenRouter and Mistral, vLLM and SGLang, DeepSeek, Zhipu, gateways
    broken_off = (
        *("error", "abort", "insufficientsystemresource", "networkerror", "cancelled", "canceled"),
        *("timeout", "aborted", "incomplete", "interrupted", "failed"),
    )
    complete = [c for c in choices if _plain_reason(c.get("finish_reason")) not in broken_off]
    if choices and not complete:
        reason = choices[0]["finish_reason"]
        raise MalformedResponse(f"the server broke the answer off (finish_reason {reason!a})")
    return complete


def raise_unusable(error: Exception, usage: Usage) -> NoReturn:
    """Turn an `UNUSABLE` error into one of ours, with the cost of the answer."""
    if isinstance(error, MalformedResponse | ContentRefused | NoLogprobs):
        error.usage = usage
        raise error
    reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    malformed = MalformedResponse(f"the answer is not in the format of the API: {reason}")
    malformed.usage = usage
    raise malformed from error


def _sample(choice: Mapping[str, Any], request: Request, usage: Usage) -> Sample | None:
    """Return one sample, or `None` if it has no text."""
    reason = choice.get("finish_reason")
    message = choice["message"] if request.messages else choice
    text, thought = read_parts(message.get("content" if request.messages else "text"))
    called = message.get("tool_calls") if request.functions else None
    finish = read_finish_reason(reason)
    if not text and not called and (finish == "filtered" or _refusal_in(message)):
        return None
    thought = thought_beside(message) if thought is None else thought
    answer = read_answer(text, thought, finish, request, usage)
    if called:
        # calls come first: the text may begin like JSON without being JSON
        parts = [*map(_call_in_words, called), *([answer.text] if answer and answer.text else [])]
        return Sample(
            text="\n".join(parts),
            finish_reason="stop" if reason == "tool_calls" else finish,
            thought=answer.thought if answer else None,
            native=_native(message),
        )
    if not answer or not (reason or answer.text.strip() or answer.thought):
        return None
    return with_logprobs(answer, text, choice.get("logprobs"), request, usage)


def _call_in_words(call: Mapping[str, Any]) -> str:
    """Return a call of a function as a model without functions may write it."""
    function = call["function"]
    arguments = function.get("arguments") or "{}"
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return f'{{"name": {orjson.dumps(function["name"]).decode()}, "arguments": {text}}}'


def _native(message: Mapping[str, Any]) -> Json:
    """Return the fields of an answer with calls that are sent back to the server.

    Some providers refuse a call without the thought, and its signature, that led to it.
    """
    thoughts = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
    names = ("tool_calls", *thoughts, "extra_content")
    fields = {name: message[name] for name in names if message.get(name)}
    return {"role": "assistant", "content": message.get("content") or "", **fields}


def with_logprobs(
    answer: Sample, text: str | None, logprobs: Any, request: Request, usage: Usage
) -> Sample:
    """Return an answer with the log-probabilities of its tokens if they are wanted."""
    if request.logprobs is None or answer.from_thought:
        return answer
    is_chat = bool(request.messages)
    has_thought = answer.thought is not None or answer.text != text
    # Without any thought, these are tokens that show no text, such as a part of a character.
    if answer.is_unfinished and (logprobs is None or has_thought or usage.reasoning_tokens):
        return answer.model_copy(update={"logprobs": ()})
    tokens = read_logprobs(logprobs, is_chat, answer.text, follow_thought=has_thought)
    if tokens and request.logprobs > 1 and not is_distribution(tokens):
        raise _no_logprobs(
            "the likeliest token alone, without alternatives, which gives no distribution"
        )
    # takes half the time of a copy with an update
    return Sample(
        text=answer.text,
        finish_reason=answer.finish_reason,
        thought=answer.thought,
        logprobs=tokens,
    )


def _no_logprobs(content: str) -> NoLogprobs:
    return NoLogprobs(
        f"the model returned {content}; use a model that sends them, or samples if the method takes"
        " them: n=20"
    )


def _refusal_in(message: Mapping[str, Any]) -> Any:
    return message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")


def _without_text(choices: Sequence[Mapping[str, Any]]) -> MalformedResponse | ContentRefused:
    refusals = [_refusal_in(choice.get("message") or {}) for choice in choices]
    if any(refusals):
        return declined_error(next(filter(None, refusals)))
    if any(read_finish_reason(c.get("finish_reason")) == "filtered" for c in choices):
        return ContentRefused("the provider's content filter left no text")
    return MalformedResponse(
        f"the answer contains no text (finish_reason {choices[0].get('finish_reason')!a})"
    )


def declined_error(refusal: object) -> ContentRefused:
    """Return the error of a model that answers with a refusal."""
    return ContentRefused(f"the model declined to answer: {' '.join(str(refusal).split())[:200]!a}")


def read_logprobs(
    logprobs: Any, chat: bool, text: str, *, follow_thought: bool
) -> tuple[TokenLogprob, ...]:
    """Return the tokens of one choice with their log-probabilities."""
    tokens = None
    if isinstance(logprobs, Mapping):
        # llama-server answers completions in the shape of chats, so the field decides, not the path
        chat = bool(logprobs.get("content")) or (chat and not logprobs.get("tokens"))
        tokens = logprobs.get("content" if chat else "tokens")
    if not tokens:
        if logprobs is not None and not text:
            return ()
        raise _no_logprobs("no log-probabilities")
    part = slice(None)
    if follow_thought:
        part = answer_tokens([t["token"] for t in tokens] if chat else tokens, text)
    if chat:
        return tuple(
            _token_logprob(
                t["token"],
                t["logprob"],
                [(a["token"], a["logprob"]) for a in t.get("top_logprobs") or ()],
            )
            for t in tokens[part]
        )
    top = logprobs.get("top_logprobs") or [None] * len(tokens)
    three = zip(tokens[part], logprobs["token_logprobs"][part], top[part], strict=True)
    return tuple(_token_logprob(token, p, [*(top or {}).items()]) for token, p, top in three)


def _token_logprob(token: str, logprob: Any, alternatives: list[tuple[str, Any]]) -> TokenLogprob:
    if logprob is None:  # it may be among the alternatives
        logprob = dict(alternatives).get(token)
    return TokenLogprob(token=token, logprob=check_logprob(logprob), top=_likeliest(alternatives))


def _likeliest(alternatives: Iterable[tuple[str, Any]]) -> tuple[tuple[str, float], ...]:
    # an impossible token: vLLM writes -9999, others null (SGLang) or -Infinity, which gateways from
    # Protobuf put in quotes
    impossible = (None, -math.inf, "-inf", "-Infinity")
    checked = (
        (token, -9999.0 if value in impossible else check_logprob(value))
        for token, value in alternatives
    )
    return tuple(sorted(checked, key=lambda pair: -pair[1]))


def check_logprob(value: Any) -> float:
    """Return a reported log-probability, at most 0, after checking it."""
    # servers that compute in half precision round 0 to as much as 0.001
    if type(value) not in (float, int) or not -math.inf < value <= 1e-3:
        raise ValueError(f"{str(value)[:40]!a} is not a valid log-probability")
    return min(0.0, float(value))


def choices_as_request(request: ChoicesRequest) -> Request:
    """Return the request for one token whose alternatives include the choices."""
    shared = {name: getattr(request, name) for name in Prompted.model_fields}
    return Request(**shared, max_tokens=1, logprobs=request.alternatives)


def read_choices(response: Response, request: ChoicesRequest) -> ChoicesResponse:
    """Return the probabilities of choices from the alternatives of the answer's first token.

    A surface form may follow one space, as tokenizers write words.
    """
    labels = _labels_by_form(request.choices)
    sample = response.samples[0]
    if sample.is_unfinished and not sample.logprobs:
        raise out_of_tokens(response)
    tokens = sample.logprobs
    if not tokens or not tokens[0].top:
        raise _no_logprobs("no log-probabilities")
    first, top = tokens[0], tokens[0].top
    # Some servers leave the sampled token out of its own alternatives.
    if all(token != first.token for token, _ in top):
        top = (*top, (first.token, first.logprob))
    by_label: dict[str, list[float]] = {label: [] for label in request.choices}
    for token, logprob in top:
        if (form := _bare(token)) in labels:
            by_label[labels[form]].append(logprob)
    for label, form_logprobs in by_label.items():
        if not form_logprobs:
            _check_one_token(label, request.choices[label], top)
    return ChoicesResponse(
        logprobs={label: log_sum(form_logprobs) for label, form_logprobs in by_label.items()},
        follows_thought=sample.thought is not None,
        usage=response.usage,
        model=response.model,
    )


def out_of_tokens(response: Response) -> RequestRefused:
    """Return the error that asks for more tokens."""
    error = RequestRefused(
        "the model reached its token limit before it answered: it spent all tokens on its thought"
    )
    error.refusal = Refusal("room", "max_tokens")
    error.usage = response.usage
    return error


def _labels_by_form(choices: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for label, forms in choices.items():
        for form in map(_bare, forms):
            if labels.setdefault(form, label) != label:
                raise ConfigurationError(
                    f"the choices {labels[form]!r} and {label!r} share the form {form!r}"
                )
    return labels


def _bare(token: str) -> str:
    """Return the token without the one space, or the sign for it, that begins a word."""
    return token[1:] if token[:1] in (" ", "\u2581", "\u0120") and len(token) > 1 else token


def _check_one_token(label: str, forms: tuple[str, ...], top: Sequence[tuple[str, float]]) -> None:
    """Raise if an unreported choice may span several tokens, the first of which is reported."""
    bare = [_bare(form) for form in forms]
    # some servers show a part of a character as "", with which every form would begin
    beginnings = [
        (token, math.exp(logprob))
        for token, logprob in top
        if _bare(token) and any(f != _bare(token) and f.startswith(_bare(token)) for f in bare)
    ]
    spaced = all(any(c.isspace() for c in form) for form in bare)
    # below a hundredth, the choice changes no probability that is read
    if spaced or math.fsum(share for _, share in beginnings) >= 0.01:
        reason = "its forms contain spaces"
        if beginnings:
            token, share = max(beginnings, key=lambda pair: pair[1])
            reason = (
                f"the model begins with {token!r} at a probability of {share:.3g}, "
                "and no whole form is reported"
            )
        raise CapabilityError(
            f"the choice {label!r} seems to take more than one token of this model ({reason}), so"
            " its probability cannot be read from one token; use choices of one token "
            "(options={'form': 'letters'}) or samples, if the method takes them: n=20"
        )


def echo_fields(request: ContinuationRequest, where: str, *, takes_prompts: bool = True) -> Json:
    """Return the fields that ask for an echo of prompt and continuation, and one new token.

    Some servers read 0 new tokens as no limit.
    """
    if request.prompt is None or not takes_prompts:
        raise CapabilityError(
            f"{where} can score the likelihood of a text only after a plain prompt, not a chat"
        )
    # Sent as one text, since the server tokenizes it as a whole; the tokens' offsets show where the
    # continuation begins.
    full = request.prompt + request.continuation
    return {"prompt": full, "temperature": 0.0, "echo": True, "logprobs": 1, "max_tokens": 1}


def read_continuation(payload: Any, prompt: str, continuation: str) -> tuple[TokenLogprob, ...]:
    """Return the tokens of `continuation` from a completion that echoes both texts."""
    full = prompt + continuation
    try:
        choice = payload["choices"][0]
        given_logprobs, text = choice.get("logprobs"), choice.get("text") or ""
    except (LookupError, TypeError, AttributeError) as error:
        raise MalformedResponse("the answer has no choices") from error
    # Without an echo, the log-probabilities belong to new text.
    if not text.startswith(full):
        raise CapabilityError(
            "the server does not echo prompts, so it cannot score the likelihood of a given text"
        )
    tokens, logprobs, offsets = (
        (given_logprobs or {}).get(k) or [] for k in ("tokens", "token_logprobs", "text_offset")
    )
    if not tokens or not len(tokens) == len(logprobs) == len(offsets):
        raise CapabilityError("the server echoes the prompt without its log-probabilities")
    if tokens[0] and not full.startswith(tokens[0]):
        # the mark for the beginning of a text, which counts in offsets
        shift = (offsets[1] if len(offsets) > 1 else len(full)) - offsets[0]
        tokens, logprobs = tokens[1:], logprobs[1:]
        offsets = [offset - shift for offset in offsets[1:]]
    try:
        return _align_tokens(tokens, logprobs, offsets, full, len(prompt))
    except (TypeError, ValueError) as error:
        raise MalformedResponse(f"the answer is not in the format of the API: {error}") from error


def _align_tokens(
    tokens: Sequence[str],
    logprobs: Sequence[float | None],
    offsets: Sequence[int],
    full: str,
    start: int,
) -> tuple[TokenLogprob, ...]:
    """Return the tokens from `start` to the end, after checking that all tokens tile `full`."""
    ends = [*offsets[1:], offsets[-1] + len(tokens[-1])] if offsets else []
    if (
        not offsets
        or offsets[0] != 0
        or any(end < begin for begin, end in zip(offsets, ends, strict=True))
    ):
        raise CapabilityError(
            "the offsets of the echoed tokens do not cover the prompt, so they cannot be trusted"
        )
    if start not in offsets:
        place = max(i for i, offset in enumerate(offsets) if offset < start)
        raise RequestRefused(
            f"the token {tokens[place]!a} spans the border between prompt and continuation; begin "
            "the continuation with the space and end the prompt without one"
        )
    continuation: list[TokenLogprob] = []
    for token, logprob, begin, end in zip(tokens, logprobs, offsets, ends, strict=True):
        # After the echo comes the one token that had to be sampled.
        if begin >= len(full):
            break
        # a part of a character is shown in several ways
        is_part = not token or "\ufffd" in token or token.startswith("bytes:")
        if not is_part and token != full[begin:end]:
            raise RequestRefused(
                f"the echoed token {token!a} at character {begin} is not the text there, "
                f"{full[begin:end]!a}, so its log-probability cannot be trusted"
            )
        if begin < start:
            continue
        if logprob is None:
            raise CapabilityError(
                "the server gives no log-probability for the first token: the prompt is empty"
            )
        continuation.append(TokenLogprob(token=token, logprob=check_logprob(logprob)))
    return tuple(continuation)
