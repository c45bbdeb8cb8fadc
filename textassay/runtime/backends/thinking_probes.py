"""The probes of `doctor` for what differs among servers: thoughts, parameters, effort, caching.

Sent as a run sends its requests, so that a refusal is repaired, and said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from textassay.runtime.backends.probes import Finding, Form
from textassay.runtime.calls.adaptation import EFFORTS, Adaptation
from textassay.runtime.calls.adapting import AdaptingModel
from textassay.runtime.calls.token_estimates import estimate_tokens
from textassay.runtime.errors import AnswerUnfinished, RequestRefused
from textassay.runtime.model import ChatMessage, Effort, Response

ThinkingProbe = Callable[[AdaptingModel, Form], Awaitable[Finding]]

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


async def _thinks(model: AdaptingModel, form: Form) -> Finding:
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
        return Finding(ability="thinks", verdict="no", detail="no thought before a short answer")
    return Finding(ability="thinks", verdict="yes", detail=detail)


async def _parameters(model: AdaptingModel, form: Form) -> Finding:
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
    return Finding(ability="parameters", verdict="no" if refused else "yes", detail=detail)


async def _effort(model: AdaptingModel, form: Form) -> Finding:
    """Ask at both ends of the scale, with few tokens: a long thought is cut off."""
    if "api_base" not in model.identity:
        detail = "models of this process take no effort"
        return Finding(ability="effort", verdict="no", detail=detail)
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
        return Finding(ability="effort", verdict="no", detail="every level is refused")
    if named:
        levels = f"takes {', '.join(level for level in EFFORTS if level in (*named, *taken))}"
    else:
        levels = f"takes {taken[0]}"
        if len(taken) == len(ENDS):
            levels = "refuses neither none nor max, and may ignore both"
    return Finding(ability="effort", verdict="yes", detail=levels + switches_off)


async def _at_effort(model: AdaptingModel, form: Form, level: Effort) -> Response | None:
    """Return the answer; `None` if its thought was cut off.

    Raises:
        RequestRefused: The level is not taken.
    """
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


async def _caching(model: AdaptingModel, form: Form) -> Finding:
    request = form(_LONG, max_tokens=_FEW)
    if request.messages:  # some providers keep only what is marked
        request = request.model_copy(update={"shared_prefix": len(_LONG)})
    await model.generate(request)
    usage = (await model.generate(request)).usage
    cached, prompt = usage.cached_prompt_tokens, usage.prompt_tokens
    if not cached:
        detail = "an equal long prompt a moment later was not reported as cached"
        return Finding(ability="caching", verdict="no", detail=detail)
    detail = f"{cached:,} of {prompt:,} tokens of an equal prompt a moment later were cached"
    return Finding(ability="caching", verdict="yes", detail=detail)


THINKING_PROBES: dict[str, ThinkingProbe] = {
    "thinks": _thinks,
    "effort": _effort,
    "caching": _caching,
    # the last: it also says what the others were refused
    "parameters": _parameters,
}
