"""The table of parameters: how each is sent, how servers write its name, how it is repaired.

Providers write one parameter in several ways, in bodies and in error messages. A row of
`PARAMETERS` describes one parameter; other fields of a body have their own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from textassay.runtime.base import Effort


@dataclass(frozen=True)
class Parameter:
    """One parameter."""

    name: str
    """Its name in refusals and in `ModelTraits`."""
    written: str
    """How servers write its name: a pattern in snake_case, whose underscores may be hyphens or
    spaces; empty if they only use ordinary words."""
    repair: Literal["drop", "number", "level", "words", "omit", "never"]
    """Repair after a refusal: the request gets its default, another number or another level; the
    prompt states it in words; it is no longer added to the body; or, if the user set it, the call
    fails.
    """
    sent_as: tuple[str, ...] = ()
    """Fields of bodies that carry it, if they differ from its name."""
    words: str = ""
    """Ordinary words for it, with lower priority than a name in the same message."""
    default: Any = None
    """The default of the request's field, which is not sent."""
    count: str = ""
    """The key of its limits in `ModelTraits.most` and `least`, if it is a number."""
    mark: Literal["none", "block", "key"] = "none"
    """The `Posting.prefix_mark` that sends it."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds the name; the group `word` matches if it is an ordinary word."""
        words = f"(?P<word>{self.words or '(?!)'})"
        either = f"{self.written}|{words}" if self.written else words
        return re.compile(
            r"(?<![\w-])(?:(?:generation_config|inference_config|body|options)\.)?"
            rf"(?:{either.replace('_', '[_ -]?')})(?![\w-])"
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
_THOUGHTS = r"reasoning|thinking|budget"

PARAMETERS: Final = (
    Parameter("temperature", "temperature", "drop"),
    Parameter("top_p", "top_p", "drop", default=1.0),
    Parameter("seed", "", "drop", words="(?:random_)?seed"),
    Parameter("stop", "stop_sequences?|stop_words?", "drop", words="stop", default=()),
    Parameter(
        "max_tokens",
        r"(?<!reasoning\.)max(?:imum)?_(?:(?:number_of_)?(?:completion_|output_)|new_)?tokens"
        r"(?:_to_sample)?|num_predict",
        "number", ("max_tokens", "max_completion_tokens", "max_output_tokens"), count="max_tokens",
    ),
    Parameter("n", "candidate_count", "number", words="n", default=1, count="n"),
    Parameter("top_logprobs", "top_logprobs?", "number", count="top_logprobs"),
    # a plain prompt's `logprobs` is the number
    Parameter(
        "logprobs", r"(?:response_)?logprobs?|log_prob(?:abilitie)?s", "number",
        ("logprobs", "include"), count="top_logprobs",
    ),
    Parameter(
        "json_schema",
        r"text\.format(?:\.\w+)*|output_(?:config\.)?format(?:\.\w+)*|response_format(?:\.\w+)*"
        r"|(?:response_)?json_schema|response_(?:json_)?schema|response_mime_type|json_mode"
        r"|structured_outputs?",
        "words", ("response_format", "text"),
    ),
    Parameter(
        "functions", "tools|tool_(?:choice|use|calling)|function_calling", "words",
        ("tools",), default=(),
    ),
    Parameter(
        "system",
        r"messages?(?:\[\d+\]|\.\d+|\[\])\.role"
        r"|(?:system|developer)['\"`]?_(?:role|message|prompt|instruction)s?"
        r"|roles?\b.{0,60}\b(?:system|developer)|(?:system|developer)\b.{0,40}\broles?"
        r"|must alternate",
        "words", ("role",),
    ),
    Parameter(
        "cache_control", r"(?:[\w.\[\]]+\.)?cache_control(?:\.\w+)*", "omit", mark="block",
    ),
    Parameter("prompt_cache_key", "prompt_cache_key", "omit", mark="key"),
    # before the efforts: if the body is unknown, a refused budget is this one
    Parameter("thinking", _BUDGET, "number", words=_THOUGHTS, count="thinking_tokens"),
    Parameter("reasoning_effort", _EFFORT, "level", words=_THOUGHTS),
    Parameter(
        "reasoning", f"{_EFFORT}|{_BUDGET}", "level", words=_THOUGHTS, count="thinking_tokens",
    ),
    Parameter("chat_template_kwargs", r"chat_template_kwargs(?:\.\w+)*|enable_thinking", "omit"),
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

BY_NAME: Final = {parameter.name: parameter for parameter in PARAMETERS}
OPTIONAL: Final = {p.name: p.default for p in PARAMETERS if p.repair == "drop"}
"""Optional parameters, with their defaults."""
MARKS: Final = {p.name: p.mark for p in PARAMETERS if p.mark != "none"}
"""Parameters that mark the beginning of a prompt for the provider's cache."""
SUSPECTS: Final = (*OPTIONAL, *(p.name for p in PARAMETERS if p.repair == "words"), *MARKS)
"""Parameters that probes leave out: no score depends on one of them alone."""
LOGPROBS: Final = tuple(p.name for p in PARAMETERS if p.count == "top_logprobs")
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
"""An unknown body, such as the row of a batch."""


def sent_parameters(body: Mapping[str, Any]) -> Iterator[tuple[Parameter, str, Any]]:
    """Yield the parameters of a body, each with its field and value."""
    for field, value in body.items():
        if field == "extra_body":  # litellm's name for fields that go into the body unchanged
            yield from sent_parameters(value)
        elif field in ("messages", "input"):
            yield from _in_messages(value)
        # all requests need these, so servers do not refuse them
        elif field not in ("model", "prompt", "stream", "store", "client"):
            unknown = Parameter(field, re.escape(snake_case(field)), "never")
            # `include` lists everything that is requested in addition to an answer
            is_own = field == "include" and value is not None and "logprobs" not in str(value)
            if isinstance(value, Mapping):  # {"effort": "low"}   {"budget_tokens": 1024}
                names = ("effort", "budget_tokens", "max_tokens")
                value = next((value[name] for name in names if name in value), None)
            yield unknown if is_own else _BY_FIELD.get(field, unknown), field, value


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
