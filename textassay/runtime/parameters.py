"""The parameters of a request: the one table of how they are sent, named and given up.

Providers write one parameter in several ways, in bodies and in what they say of them. A row of
`PARAMETERS` holds all that is known of one; whatever else a body has is known by its own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from textassay.runtime.messages import Effort

_MESSAGES = ("messages", "input")
_NOT_REFUSED = frozenset({"model", "prompt", "stream", "store", "client", *_MESSAGES})
"""Fields of a body that a request cannot be without, or that only carry others."""


@dataclass(frozen=True)
class Parameter:
    """One parameter."""

    name: str
    """Its name, as refusals and what is learned of a model have it."""
    written: str
    """How servers write its name: a pattern in snake_case, whose underscores may be hyphens or
    spaces; empty if there are ordinary words for it alone."""
    repair: Literal["drop", "number", "level", "words", "never"]
    """Its part in a request that is sent again: left out, another number, another level, words in
    the prompt; or the user asked for it, and the call fails."""
    sent_as: tuple[str, ...] = ()
    """Fields of bodies that carry it, if not its name."""
    words: str = ""
    """Ordinary words for it: other names in the same message come before them."""
    default: Any = None
    """The value of the field of a request that leaves it out."""
    count: str = ""
    """The field of `most` and `least` that holds its limits, for numbers."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds the name; the group `word` is one of the ordinary words."""
        words = f"(?P<word>{self.words or '(?!)'})"
        either = f"{self.written}|{words}" if self.written else words
        return re.compile(
            r"(?<![\w-])(?:(?:generation_config|inference_config|body|options)\.)?"
            rf"(?:{either.replace('_', '[_ -]?')})(?![\w-])"
        )


_CAPS = (
    r"(?<!reasoning\.)max(?:imum)?_(?:(?:number_of_)?(?:completion_|output_)|new_)?tokens(?:_to_sample)?"
    r"|num_predict"
)
_EFFORT = (
    r"reasoning(?:_|\.)effort|output_config\.effort|(?:reasoning_|thinking_|think_)?effort"
    r"(?:_levels?)?|think(?:ing)?_values?|reasoning_(?:values?|levels?)"
    r"|(?:thinking_config\.)?thinking_(?:level|budget)|thinking\.(?:\w+\.)*\w+"
    r"|(?:adaptive|extended|interleaved)_thinking"
)
_BUDGET = (
    r"thinking\.(?:\w+\.)*budget_tokens|budget_tokens|reasoning\.max_tokens|thinking\.\w+(?:\.\w+)?"
    r"|(?:adaptive|extended|interleaved)_thinking|(?:thinking_config\.)?(?:thinking_)?budget"
)
_SYSTEM = (
    r"messages?(?:\[\d+\]|\.\d+|\[\])\.role"
    r"|(?:system|developer)['\"`]?_(?:role|message|prompt|instruction)s?"
    r"|roles?\b.{0,60}\b(?:system|developer)|(?:system|developer)\b.{0,40}\broles?|must alternate"
)
_SCHEMA = (
    r"text\.format(?:\.\w+)*|output_(?:config\.)?format(?:\.\w+)*|response_format(?:\.\w+)*"
    r"|(?:response_)?json_schema|response_(?:json_)?schema|response_mime_type|json_mode"
    r"|structured_outputs?"
)
_THOUGHTS = r"reasoning|thinking|budget"

PARAMETERS: Final = (
    Parameter("temperature", "temperature", "drop"),
    Parameter("top_p", "top_p", "drop", default=1.0),
    Parameter("seed", "", "drop", words="(?:random_)?seed"),
    Parameter("stop", "stop_sequences?|stop_words?", "drop", words="stop", default=()),
    Parameter(
        "max_tokens", _CAPS, "number", ("max_tokens", "max_completion_tokens", "max_output_tokens"),
        count="max_tokens",
    ),
    Parameter("n", "candidate_count", "number", words="n", default=1, count="n"),
    Parameter("top_logprobs", "top_logprobs?", "number", count="top_logprobs"),
    # of a plain prompt it is the number
    Parameter(
        "logprobs", r"(?:response_)?logprobs?|log_prob(?:abilitie)?s", "number",
        ("logprobs", "include"), count="top_logprobs",
    ),
    Parameter("json_schema", _SCHEMA, "words", ("response_format", "text")),
    Parameter(
        "functions", "tools|tool_(?:choice|use|calling)|function_calling", "words",
        ("tools",), default=(),
    ),
    Parameter("system", _SYSTEM, "words", ("role",)),
    Parameter("cache_control", r"(?:[\w.\[\]]+\.)?cache_control(?:\.\w+)*", "drop"),
    # before the efforts: where it is not known which was sent, a budget is one of these
    Parameter("thinking", _BUDGET, "number", words=_THOUGHTS, count="thinking_tokens"),
    Parameter("reasoning_effort", _EFFORT, "level", words=_THOUGHTS),
    Parameter(
        "reasoning", f"{_EFFORT}|{_BUDGET}", "level", words=_THOUGHTS, count="thinking_tokens",
    ),
    Parameter("chat_template_kwargs", r"chat_template_kwargs(?:\.\w+)*|enable_thinking", "drop"),
    Parameter(
        "thinking_token_budget", "thinking_token_budget", "number", count="thinking_tokens",
    ),
    Parameter(
        "thinking_budget_tokens", "thinking_budget_tokens", "number", count="thinking_tokens",
    ),
    *(
        Parameter(name, name, "never", words="penalt(?:y|ies)")
        for name in ("presence_penalty", "frequency_penalty")
    ),
)  # fmt: skip
"""All that is known of parameters; what the user adds is known by its own name."""

BY_NAME: Final = {parameter.name: parameter for parameter in PARAMETERS}
OPTIONAL: Final = {p.name: p.default for p in PARAMETERS[:4]}
"""Parameters that a request can do without, with the value that leaves them out."""
THINKING_FIELDS: Final = frozenset(
    p.name for p in PARAMETERS if p.repair == "level" or p.count == "thinking_tokens"
)
"""Parameters that carry an effort, or a number of tokens for a thought."""
EFFORTS: Final[tuple[Effort | Literal["default"], ...]] = (
    "none", "minimal", "low", "medium", "high", "xhigh", "max", "default",
)  # fmt: skip
"""Levels of effort, from least to most; `default` is Qwen's word for switched on."""
_BY_FIELD = {field: p for p in PARAMETERS for field in p.sent_as or (p.name,)}

ANYTHING: Final[Mapping[str, Any]] = dict.fromkeys(_BY_FIELD)
"""In place of a body that is not known, such as the row of a batch that an error is about."""


def sent_parameters(body: Mapping[str, Any]) -> Iterator[tuple[Parameter, str, Any]]:
    """Yield the parameters of a body, each with its field and value."""
    for field, value in body.items():
        if field == "extra_body":  # litellm's own name for what goes into the body as it is
            yield from sent_parameters(value)
        elif field in _MESSAGES:
            yield from _in_messages(value)
        elif field not in _NOT_REFUSED:
            own = Parameter(field, re.escape(snake_case(field)), "never")
            yield _BY_FIELD.get(field, own), field, value


def _in_messages(messages: Any) -> Iterator[tuple[Parameter, str, Any]]:
    parts = [m for m in messages if isinstance(m, Mapping)] if isinstance(messages, list) else []
    if any(part.get("role") in ("system", "developer") for part in parts):
        yield BY_NAME["system"], "role", "system"
    blocks = [b for part in parts if isinstance(part.get("content"), list) for b in part["content"]]
    if any("cache_control" in block for block in blocks):
        yield BY_NAME["cache_control"], "cache_control", True


def snake_case(text: str) -> str:
    """Return a text in lower case, its camelCase names in snake_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", text).lower()
