"""The requests to servers, the same for recording their answers and for reading these back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Request,
)

MESSAGES = (ChatMessage(role="user", content="Is the summary good? Answer yes or no."),)
PROMPT = "question: is the summary fluent? answer:"
# begin the likeliest answers of the tiny random model that was recorded
CHAT_LABELS = {"J": ("J",), "i": ("i",)}
PROMPT_LABELS = {"rate": (" rate",), "5": ("5",)}
SCHEMA = {
    "type": "object",
    "properties": {"rating": {"type": "integer"}},
    "required": ["rating"],
    "additionalProperties": False,
}

Ask = Callable[[Any], Awaitable[Any]]

QUESTIONS: dict[str, Ask] = {
    "chat": lambda model: model.generate(Request(messages=MESSAGES, max_tokens=6)),
    "samples": lambda model: model.generate(
        Request(messages=MESSAGES, max_tokens=6, n=3, temperature=1.0)
    ),
    "chat logprobs": lambda model: model.generate(
        Request(messages=MESSAGES, max_tokens=3, logprobs=2)
    ),
    "chat choices": lambda model: model.choices(
        ChoicesRequest(messages=MESSAGES, choices=CHAT_LABELS)
    ),
    "schema": lambda model: model.generate(
        Request(messages=MESSAGES, max_tokens=24, json_schema=SCHEMA)
    ),
    "prompt logprobs": lambda model: model.generate(
        Request(prompt=PROMPT, max_tokens=3, logprobs=2)
    ),
    "prompt choices": lambda model: model.choices(
        ChoicesRequest(prompt=PROMPT, choices=PROMPT_LABELS)
    ),
    "continuation": lambda model: model.continuation(
        ContinuationRequest(prompt=PROMPT, continuation=" it is good.")
    ),
    "continuation of characters": lambda model: model.continuation(
        ContinuationRequest(prompt="the “summary” – né 😀:", continuation=" it is “good” 😀 é.")
    ),
    "too long": lambda model: model.generate(
        Request(messages=(ChatMessage(role="user", content="word " * 3000),), max_tokens=6)
    ),
}
"""Requests by name. `wrong model` and `wrong key` are the first one with another model or key."""
