"""What a model can really do: every ability probed by asking, none assumed from a name.

Knows no backend. A probe ends in a `Finding`; errors that any request would meet (no such model, a
wrong key, nothing listening) are not findings and are raised.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from textassay.runtime.calls.adaptation import EFFORTS, Adaptation, AdaptingModel, adaptation_of
from textassay.runtime.calls.budget import estimate_tokens
from textassay.runtime.errors import (
    AnswerUnfinished,
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    ModelError,
    NothingListening,
    RequestRefused,
)
from textassay.runtime.messages import Effort, Message
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


Form = Callable[..., Request]
"""Makes a request of a text, or a short one, and fields, in the form that a model accepts."""


def as_chat(text: str | None = None, **fields: object) -> Request:
    """Return a chat."""
    messages = _CHAT if text is None else (ChatMessage(role="user", content=text),)
    return Request.model_validate({"messages": messages, **fields})


def as_prompt(text: str | None = None, **fields: object) -> Request:
    """Return a plain prompt."""
    return Request.model_validate({"prompt": _PROMPT if text is None else text, **fields})


Observed = tuple[ProbeResult, str]
"""Verdict and detail of a finding."""
Probe = Callable[[Model, Form], Awaitable[Observed]]


async def _text(model: Model, request: Request) -> str:
    return (await model.generate(request)).samples[0].text


async def _answers_chat(model: Model, form: Form) -> Observed:
    text = await _text(model, as_chat(max_tokens=8))
    return "yes", f"answers messages ({len(text)} characters)"


async def _answers_prompt(model: Model, form: Form) -> Observed:
    text = await _text(model, as_prompt(max_tokens=4))
    return "yes", f"continues a plain prompt ({len(text)} characters)"


async def _several(model: Model, form: Form) -> Observed:
    request = form(n=2, temperature=1.0, max_tokens=4)
    count = len((await model.generate(request)).samples)
    verdict: ProbeResult = "yes" if count == 2 else "no"
    return verdict, f"{count} of 2 samples came back from one request"


async def _varies(model: Model, form: Form) -> Observed:
    """Three samples at temperature 1: a server that ignores the temperature gives one text."""
    request = form(temperature=1.0, max_tokens=24)
    draws = [request.model_copy(update={"draw": draw}) for draw in range(3)]
    different = len({await _text(model, draw) for draw in draws})
    if different > 1:
        return "yes", f"{different} different texts in 3 samples at temperature 1"
    return "unknown", (
        "3 samples at temperature 1 are equal: samples may add nothing to one answer, "
        "as when the server ignores the temperature"
    )


async def _seeded(model: Model, form: Form) -> Observed:
    # Several other seeds: two of them may give the same short answer by chance.
    first, again, other, third = [
        await _text(model, form(temperature=1.0, max_tokens=24, seed=seed)) for seed in (7, 7, 8, 9)
    ]
    if first != again:
        return "no", "equal seeds gave different answers"
    if first == other == third:
        return "unknown", "different seeds gave equal answers too"
    return "yes", "equal seeds gave equal answers, others differed"


async def _tells_logprobs(model: Model, form: Form) -> Observed:
    sampled = await _sampled_logprobs(model, form(max_tokens=2, logprobs=5))
    if not sampled:
        return "no", "no log-probabilities came with the answer"
    if not is_distribution(sampled):
        return "no", "only the sampled token came back, without alternatives: no distribution"
    first = sampled[0]
    chances = [math.exp(logprob) for _, logprob in first.top]
    # Above 1 in sum: some servers return logits or scaled scores under this name.
    if math.fsum(chances) > 1.01 or first.logprob > 0.01:
        return "wrong", f"alternatives add up to {math.fsum(chances):.3f}"
    return "yes", (
        f"{len(first.top)} of 5 alternatives per token, with {math.fsum(chances):.3f} of the"
        " probability"
    )


async def _json(model: Model, form: Form) -> Observed:
    text = await _text(model, form(max_tokens=64, json_schema=_SCHEMA))
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        return "wrong", f"the answer is not JSON: {text[:40]!r}"
    # Valid JSON is not enough: many servers accept a schema and only ask the model for JSON.
    kept = isinstance(answer, dict) and list(answer) == ["rating"] and answer["rating"] in (1, 2, 3)
    detail = "satisfies the schema" if kept else f"breaks the schema: {text[:40]!r}"
    detail = f"the answer {detail}"
    adaptation = adaptation_of(model)
    if adaptation is not None and "json_schema" in adaptation.learned.unsent:
        return "no", f"schemas are refused; asked for in words, {detail}"
    return ("yes" if kept else "wrong"), detail


async def _choices(model: Model, form: Form) -> Observed:
    scorer = scoring(model, "choices")
    short = form()
    choices = {"yes": ("yes", "Yes"), "no": ("no", "No")}
    answer = await scorer.choices(
        ChoicesRequest(messages=short.messages, prompt=short.prompt, choices=choices)
    )
    known = {label: lp for label, lp in answer.logprobs.items() if lp is not None}
    if not known:
        return "no", "neither yes nor no is among what is reported"
    total = math.fsum(map(math.exp, known.values()))
    verdict: ProbeResult = "yes" if total <= 1.001 else "wrong"
    return verdict, f"{' and '.join(known)} have {total:.3g} of the probability"


async def _continues(model: Model, form: Form) -> Observed:
    """Teacher forcing: two greedy tokens must get the log-probabilities they were sampled with."""
    scorer = scoring(model, "continuation")
    sampled = await _sampled_logprobs(model, Request(prompt=_PROMPT, max_tokens=2, logprobs=1))
    tokens = [token.token for token in sampled]
    text = "".join(tokens)
    if len(tokens) == 2 and "\ufffd" not in text:
        request = ContinuationRequest(prompt=_PROMPT, continuation=text)
        given = await scorer.continuation(request)
        # Text may be tokenized otherwise than it was sampled; then there is nothing to compare.
        if [token.token for token in given.tokens] == tokens:
            return _aligned(sampled, given.tokens)
    return await _greedy_is_likeliest(model)


def _aligned(sampled: Sequence[TokenLogprob], given: Sequence[TokenLogprob]) -> Observed:
    off = max(abs(one.logprob - other.logprob) for one, other in zip(sampled, given, strict=True))
    if off <= TOLERANCE:
        return "yes", (
            f"two given tokens have the log-probabilities they were sampled with (within {off:.2g})"
        )
    return "wrong", (
        f"given text is off by {off:.2f} from what the same tokens were sampled with: positions do"
        " not line up"
    )


async def _greedy_is_likeliest(model: Model) -> Observed:
    """Check without log-probabilities that the greedily sampled token is likelier than others."""
    scorer = scoring(model, "continuation")
    greedy = await _text(model, as_prompt(max_tokens=1))
    if not greedy or "\ufffd" in greedy:
        detail = "log-probabilities come back, but there is no greedy token to compare them with"
        return "unknown", detail
    words = list(dict.fromkeys((greedy, " zebra", " seven", " of", " and", " quickly")))
    requests = [ContinuationRequest(prompt=_PROMPT, continuation=word) for word in words]
    firsts = [(await scorer.continuation(one)).tokens[0].logprob for one in requests]
    if max(firsts[1:]) > firsts[0] + TOLERANCE:
        return "wrong", (
            f"another word gets a higher log-probability than the greedy {greedy!r}: positions do"
            " not line up"
        )
    return "yes", f"the greedy {greedy!r} is likelier than {len(words) - 1} other words"


async def _context(model: Model, form: Form) -> Observed:
    stated = model.capabilities.context_length
    if stated is None:
        return "unknown", "the model does not state one"
    if stated > MAX_PROBE:
        return "unknown", f"{stated} tokens stated, too long to probe"
    # Common words are one token each, so this is just longer than the stated length.
    longer = form(" one two three four" * (stated // 4 + 2), max_tokens=1)
    try:
        response = await model.generate(longer)
    except RequestRefused:
        return "yes", f"{stated} tokens stated, and more are refused"
    return "wrong", (
        f"{stated} tokens stated, but a longer prompt was answered ({response.usage.prompt_tokens}"
        " tokens counted)"
    )


async def _sampled_logprobs(model: Model, request: Request) -> tuple[TokenLogprob, ...]:
    return (await model.generate(request)).samples[0].logprobs or ()


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


ThinkingProbe = Callable[[AdaptingModel, Form], Awaitable[Observed]]

_PUZZLE = (
    "A bat and a ball cost 1.10 together. The bat costs 1.00 more than the ball. What does the ball"
    " cost? Answer with the number alone."
)
_FEW: Final = 64
"""Tokens of an answer of which only matters whether it is refused, and whether it shows a thought;
some servers take no fewer than 16."""
ENDS: Final = (EFFORTS[0], EFFORTS[-1])
"""Levels of effort that are probed; a refusal names the others."""
_LONG = "The committee met again, read the letters, and wrote down what had been said. " * 150
"""Longer than the shortest prompt that providers keep, which is 1,024 to 4,096 tokens."""


async def _thinks(model: AdaptingModel, form: Form) -> Observed:
    response = await model.generate(form(_PUZZLE, max_tokens=_FEW))
    usage, sample = response.usage, response.samples[0]
    # some APIs show no thought and count none apart, but bill it
    hidden = usage.completion_tokens - estimate_tokens(sample.text)
    if usage.reasoning_tokens:
        detail = f"{usage.reasoning_tokens:,} tokens of thought before a short answer"
    elif sample.thought:
        thought = estimate_tokens(sample.thought)
        detail = f"about {thought:,} tokens of thought before a short answer, not counted apart"
    elif hidden > _FEW:
        detail = f"about {hidden:,} tokens before a short answer, which are not shown"
    else:
        return "no", "no thought before a short answer"
    return "yes", detail


async def _parameters(model: AdaptingModel, form: Form) -> Observed:
    """Send what methods and settings send; what is refused is left out of the next attempt."""
    request = form(
        "Is water wet?", max_tokens=_FEW, temperature=0.5, top_p=0.9, seed=7, stop=("###",)
    )
    if request.messages:
        system = ChatMessage(role="system", content="Answer with yes or no.")
        request = request.model_copy(update={"messages": (system, *request.messages)})
    await model.generate(request)
    # those of the other probes, too: log-probabilities, schemas, several samples
    learned = model.adaptation.learned
    refused = [f"takes no {name}" for name in learned.unsent]
    refused += [f"takes {name} up to {limit}" for name, limit in learned.most.items()]
    refused += [f"takes {name} from {limit}" for name, limit in learned.least.items()]
    detail = "; ".join(refused) or "refuses no temperature, top_p, seed, stop or system message"
    return ("no" if refused else "yes"), detail


async def _effort(model: AdaptingModel, form: Form) -> Observed:
    """Ask at both ends of the scale, with few tokens: a long thought is cut off."""
    if "api_base" not in model.identity:
        return "no", "models of this process take no effort"
    named: tuple[str, ...] = ()
    taken: list[str] = []
    switches_off = ""
    for level in ENDS:
        try:
            response = await _at_effort(model, form, level)
        except RequestRefused as error:
            named = named or tuple(error.refusal.values if error.refusal else ())
            continue
        taken.append(level)
        if level == "none":
            switches_off = "; " + (
                "none does not switch thinking off"
                if response is None or response.is_unfinished or response.usage.reasoning_tokens
                else "none gives no thought"
            )
    if not (named or taken):
        return "no", "every level is refused"
    if not named and len(taken) == len(ENDS):
        levels = "refuses neither none nor max, and may ignore both"
    else:
        levels = f"takes {', '.join(level for level in EFFORTS if level in (*named, *taken))}"
    return "yes", levels + switches_off


async def _at_effort(model: AdaptingModel, form: Form, level: Effort) -> Response | None:
    """Return the answer; `None` if its thought was cut off."""
    # without the user's own level, which would replace this one
    sampling = model.adaptation.sampling.model_copy(
        update={"effort": None, "thinking_tokens": None}
    )
    request = form(_PUZZLE, max_tokens=_FEW, effort=level)
    sent = Adaptation(model.wrapped, sampling).fit(request)
    sent = sent.model_copy(update={"max_tokens": _FEW, "thought_allowance": 0})
    while True:
        try:
            return await model.wrapped.generate(sent)
        except AnswerUnfinished:
            return None
        except RequestRefused as error:
            if error.refusal is not None and error.refusal.kind == "room":
                return None
            # servers of open models have a switch beside the levels
            if len(sent.thinking_fields) < 2:
                raise
            sent = sent.model_copy(update={"thinking_fields": sent.thinking_fields[1:]})


async def _caching(model: AdaptingModel, form: Form) -> Observed:
    request = form(_LONG, max_tokens=_FEW)
    if request.messages:  # some providers keep only what is marked
        request = request.model_copy(update={"shared_prefix": len(_LONG)})
    await model.generate(request)
    usage = (await model.generate(request)).usage
    cached, prompt = usage.cached_prompt_tokens, usage.prompt_tokens
    if not cached:
        return "no", "an equal long prompt a moment later was not reported as cached"
    return "yes", f"{cached:,} of {prompt:,} tokens of an equal prompt a moment later were cached"


THINKING_PROBES: dict[str, ThinkingProbe] = {
    "thinks": _thinks,
    "effort": _effort,
    "caching": _caching,
    # the last: it also says what the others were refused
    "parameters": _parameters,
}


async def examine(model: Model) -> list[Finding]:
    """Probe all abilities, one after the other, with about a dozen short requests.

    A model whose requests are adapted is also probed for thoughts, parameters, effort and caching.
    """
    findings: list[Finding] = []
    refused: FatalModelError | None = None
    form: Form = as_chat
    for ability, probe in PROBES.items():
        try:
            finding = await _probed(ability, probe(model, form))
        except FatalModelError as error:
            # one of the two forms of a prompt, or an address of its own, may be what is missing
            refused = error if ability == "chat" else refused
            finding = Finding(ability=ability, verdict="no", detail=str(error))
        if ability == "prompt" and finding.verdict != "yes" and refused is not None:
            raise refused  # nothing is answered
        if ability == "prompt" and finding.verdict == "yes" and findings[0].verdict != "yes":
            form = as_prompt
        findings.append(finding)
    if not isinstance(model, AdaptingModel):
        return findings
    answers = any(one.ability in ("chat", "prompt") and one.verdict == "yes" for one in findings)
    for ability, thinking_probe in THINKING_PROBES.items():
        began = time.monotonic()
        findings.append(await _probed(ability, thinking_probe(model, form)))
        if ability == "thinks" and answers and findings[-1].verdict != "unknown":
            seconds = f"{time.monotonic() - began:.1f} s for a short answer"
            findings.append(Finding(ability="latency", verdict="yes", detail=seconds))
    return findings


async def examine_batches(model: Model) -> list[Finding]:
    """Probe what batches may lack: chats, and then all else side by side, as a batch takes long."""
    first, *others = IN_BATCHES
    chat = await _probed(first, PROBES[first](model, as_chat))
    form = as_chat if chat.verdict == "yes" else as_prompt
    results = await asyncio.gather(*(_probed(name, PROBES[name](model, form)) for name in others))
    return [
        item.model_copy(update={"ability": f"batch {item.ability}"}) for item in (chat, *results)
    ]


def plain_text(heading: str, findings: Sequence[Finding]) -> str:
    """Return findings as lines for a terminal below a heading, abilities aligned."""
    width = max(len(finding.ability) for finding in findings)
    lines = [f"  {one.ability:{width}}  {one.verdict:7}  {one.detail}" for one in findings]
    return "\n".join([heading, *lines])


async def _probed(ability: str, probe: Awaitable[Observed]) -> Finding:
    try:
        verdict, detail = await probe
    # These would meet every probe alike: one clear error says more than ten findings.
    except (FatalModelError, NothingListening):
        raise
    except (CapabilityError, ConfigurationError, RequestRefused) as error:
        verdict, detail = "no", str(error)
    except ModelError as error:
        verdict, detail = "unknown", f"the probe failed: {type(error).__name__}: {error}"
    return Finding(ability=ability, verdict=verdict, detail=detail)
