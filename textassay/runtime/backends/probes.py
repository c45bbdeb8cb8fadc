"""The probes of `doctor`: one function per ability, each with a few short requests.

Knows the two protocols of a model and no backend. A probe returns a `Finding`; what its requests
raise is the caller's to interpret.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from textassay.runtime.calls.adapting import adaptation_of
from textassay.runtime.errors import RequestRefused
from textassay.runtime.messages import Message
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Json,
    Model,
    Request,
    Response,
    TokenLogprob,
    is_distribution,
    scoring,
)

ProbeResult = Literal["yes", "no", "wrong", "unknown"]

TOLERANCE = 0.05
"""Two ways to the same log-probability may differ by this much (quantized models on servers that
batch)."""

MAX_PROBE = 40_000
"""Context lengths above this many tokens are reported as the model states them: probing would cost
too much."""

_PROMPT = "The colours of the rainbow are red, orange, yellow, green,"
_CHAT = (ChatMessage(role="user", content="Is water wet? Answer with yes or no."),)
_SCHEMA: Json = {
    "type": "object",
    "properties": {"rating": {"type": "integer", "enum": [1, 2, 3]}},
    "required": ["rating"],
    "additionalProperties": False,
}


class Finding(Message):
    """What one probe found."""

    ability: str
    """What was probed, such as `continuation`."""
    verdict: ProbeResult
    """`wrong`: it is offered, and gives wrong results; `unknown`: the probe could not tell."""
    detail: str
    """What was seen, in one sentence."""


class Form(Protocol):
    """Makes a request in the form that a model accepts."""

    def __call__(self, text: str | None = None, **fields: object) -> Request:
        """Return a request with this text, or a short one, and these fields."""
        ...


def as_chat(text: str | None = None, **fields: object) -> Request:
    """Return a chat."""
    messages = _CHAT if text is None else (ChatMessage(role="user", content=text),)
    return Request.model_validate({"messages": messages, **fields})


def as_prompt(text: str | None = None, **fields: object) -> Request:
    """Return a plain prompt."""
    return Request.model_validate({"prompt": _PROMPT if text is None else text, **fields})


Probe = Callable[[Model, Form], Awaitable[Finding]]


async def _answers_chat(model: Model, form: Form) -> Finding:
    response = await model.generate(Request(messages=_CHAT, max_tokens=8))
    return Finding(
        ability="chat",
        verdict="yes",
        detail=f"answers messages ({len(response.samples[0].text)} characters)",
    )


async def _answers_prompt(model: Model, form: Form) -> Finding:
    response = await model.generate(Request(prompt=_PROMPT, max_tokens=4))
    return Finding(
        ability="prompt",
        verdict="yes",
        detail=f"continues a plain prompt ({len(response.samples[0].text)} characters)",
    )


async def _several(model: Model, form: Form) -> Finding:
    request = form(n=2, temperature=1.0, max_tokens=4)
    count = len((await model.generate(request)).samples)
    verdict: ProbeResult = "yes" if count == 2 else "no"
    return Finding(
        ability="n", verdict=verdict, detail=f"{count} of 2 samples came back from one request"
    )


async def _varies(model: Model, form: Form) -> Finding:
    """Three samples at temperature 1: a server that ignores the temperature gives one text."""
    request = form(temperature=1.0, max_tokens=24)
    texts: list[str] = []
    for draw in range(3):
        response = await model.generate(request.model_copy(update={"draw": draw}))
        texts.append(response.samples[0].text)
    if len(set(texts)) > 1:
        detail = f"{len(set(texts))} different texts in 3 samples at temperature 1"
        return Finding(ability="temperature", verdict="yes", detail=detail)
    detail = (
        "3 samples at temperature 1 are equal: samples may add nothing to one answer, "
        "as when the server ignores the temperature"
    )
    return Finding(ability="temperature", verdict="unknown", detail=detail)


async def _seeded(model: Model, form: Form) -> Finding:
    async def text(seed: int | None) -> str:
        request = form(temperature=1.0, max_tokens=24, seed=seed)
        return (await model.generate(request)).samples[0].text

    # Several other seeds: two of them may give the same short answer by chance.
    first, again, other, third = await text(7), await text(7), await text(8), await text(9)
    if first != again:
        return Finding(ability="seed", verdict="no", detail="equal seeds gave different answers")
    if first == other == third:
        return Finding(
            ability="seed", verdict="unknown", detail="different seeds gave equal answers too"
        )
    return Finding(
        ability="seed", verdict="yes", detail="equal seeds gave equal answers, others differed"
    )


async def _tells_logprobs(model: Model, form: Form) -> Finding:
    sampled = await _sampled_logprobs(model, form(max_tokens=2, logprobs=5))
    if not sampled:
        return Finding(
            ability="logprobs", verdict="no", detail="no log-probabilities came with the answer"
        )
    if not is_distribution(sampled):
        return Finding(
            ability="logprobs",
            verdict="no",
            detail="only the sampled token came back, without alternatives: no distribution",
        )
    first = sampled[0]
    chances = [math.exp(logprob) for _, logprob in first.top]
    # Above 1 in sum: some servers return logits or scaled scores under this name.
    if math.fsum(chances) > 1.01 or first.logprob > 0.01:
        return Finding(
            ability="logprobs",
            verdict="wrong",
            detail=f"alternatives add up to {math.fsum(chances):.3f}",
        )
    detail = (
        f"{len(first.top)} of 5 alternatives per token, with {math.fsum(chances):.3f} of the"
        " probability"
    )
    return Finding(ability="logprobs", verdict="yes", detail=detail)


async def _json(model: Model, form: Form) -> Finding:
    response = await model.generate(form(max_tokens=64, json_schema=_SCHEMA))
    text = response.samples[0].text
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        return Finding(
            ability="json_schema", verdict="wrong", detail=f"the answer is not JSON: {text[:40]!r}"
        )
    # Valid JSON is not enough: many servers accept a schema and only ask the model for JSON.
    kept = isinstance(answer, dict) and list(answer) == ["rating"] and answer["rating"] in (1, 2, 3)
    detail = (
        "the answer satisfies the schema"
        if kept
        else f"the answer breaks the schema: {text[:40]!r}"
    )
    adaptation = adaptation_of(model)
    if adaptation is not None and "json_schema" in adaptation.learned.unsent:
        detail = f"schemas are refused; asked for in words, {detail}"
        return Finding(ability="json_schema", verdict="no", detail=detail)
    return Finding(ability="json_schema", verdict="yes" if kept else "wrong", detail=detail)


async def _choices(model: Model, form: Form) -> Finding:
    scorer = scoring(model, "choices")
    forms = {"yes": ("yes", "Yes"), "no": ("no", "No")}
    chat = form().messages
    request = (
        ChoicesRequest(messages=chat, choices=forms)
        if chat
        else ChoicesRequest(prompt=_PROMPT, choices=forms)
    )
    answer = await scorer.choices(request)
    known = [label for label, logprob in answer.logprobs.items() if logprob is not None]
    if not known:
        return Finding(
            ability="choices", verdict="no", detail="neither yes nor no is among what is reported"
        )
    total = math.fsum(
        math.exp(logprob) for logprob in answer.logprobs.values() if logprob is not None
    )
    verdict: ProbeResult = "yes" if total <= 1.001 else "wrong"
    return Finding(
        ability="choices",
        verdict=verdict,
        detail=f"{' and '.join(known)} have {total:.3g} of the probability",
    )


async def _continues(model: Model, form: Form) -> Finding:
    """Teacher forcing: two greedy tokens must get the log-probabilities they were sampled with."""
    scorer = scoring(model, "continuation")
    sampled = await _sampled_logprobs(model, Request(prompt=_PROMPT, max_tokens=2, logprobs=0))
    if sampled and len(sampled) == 2 and "\ufffd" not in "".join(token.token for token in sampled):
        given = await scorer.continuation(
            ContinuationRequest(
                prompt=_PROMPT, continuation="".join(token.token for token in sampled)
            )
        )
        # Text may be tokenized otherwise than it was sampled; then there is nothing to compare.
        if [token.token for token in given.tokens] == [token.token for token in sampled]:
            return _aligned(sampled, given.tokens)
    return await _greedy_is_likeliest(model)


def _aligned(sampled: Sequence[TokenLogprob], given: Sequence[TokenLogprob]) -> Finding:
    off = max(abs(one.logprob - other.logprob) for one, other in zip(sampled, given, strict=True))
    if off <= TOLERANCE:
        detail = (
            f"two given tokens have the log-probabilities they were sampled with (within {off:.2g})"
        )
        return Finding(ability="continuation", verdict="yes", detail=detail)
    detail = (
        f"given text is off by {off:.2f} from what the same tokens were sampled with: positions do"
        " not line up"
    )
    return Finding(ability="continuation", verdict="wrong", detail=detail)


async def _greedy_is_likeliest(model: Model) -> Finding:
    """Check that the greedily sampled token is likelier than other words.

    For models that return no log-probabilities to compare with.
    """
    scorer = scoring(model, "continuation")
    greedy = (await model.generate(Request(prompt=_PROMPT, max_tokens=1))).samples[0].text
    if not greedy or "\ufffd" in greedy:
        detail = "log-probabilities come back, but there is no greedy token to compare them with"
        return Finding(ability="continuation", verdict="unknown", detail=detail)
    words = [
        greedy,
        *(word for word in (" zebra", " seven", " of", "!", " quickly") if word != greedy),
    ]
    firsts = [
        (await scorer.continuation(ContinuationRequest(prompt=_PROMPT, continuation=word)))
        .tokens[0]
        .logprob
        for word in words
    ]
    if max(firsts[1:]) > firsts[0] + TOLERANCE:
        detail = (
            f"another word gets a higher log-probability than the greedy {greedy!r}: positions do"
            " not line up"
        )
        return Finding(ability="continuation", verdict="wrong", detail=detail)
    detail = f"the greedy {greedy!r} is likelier than {len(words) - 1} other words"
    return Finding(ability="continuation", verdict="yes", detail=detail)


async def _context(model: Model, form: Form) -> Finding:
    stated = model.capabilities.context_length
    if stated is None:
        return Finding(
            ability="context_length", verdict="unknown", detail="the model does not state one"
        )
    if stated > MAX_PROBE:
        return Finding(
            ability="context_length",
            verdict="unknown",
            detail=f"{stated} tokens stated, too long to probe",
        )
    # Common words are one token each, so this is just longer than the stated length.
    longer = form(" one two three four" * (stated // 4 + 2), max_tokens=1)
    try:
        response = await model.generate(longer)
    except RequestRefused:
        return Finding(
            ability="context_length",
            verdict="yes",
            detail=f"{stated} tokens stated, and more are refused",
        )
    detail = (
        f"{stated} tokens stated, but a longer prompt was answered ({response.usage.prompt_tokens}"
        " tokens counted)"
    )
    return Finding(ability="context_length", verdict="wrong", detail=detail)


async def _sampled_logprobs(model: Model, request: Request) -> tuple[TokenLogprob, ...]:
    response: Response = await model.generate(request)
    return response.samples[0].logprobs or ()


PROBES: dict[str, Probe] = {
    "chat": _answers_chat,
    "prompt": _answers_prompt,
    "n": _several,
    "temperature": _varies,
    "seed": _seeded,
    "logprobs": _tells_logprobs,
    "json_schema": _json,
    "choices": _choices,
    "continuation": _continues,
    "context_length": _context,
}
IN_BATCHES = ("chat", "n", "logprobs", "json_schema")
"""Abilities that a provider's batches may lack although its single calls have them."""
