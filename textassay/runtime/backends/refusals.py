"""Finds the parameter of a request that a server refuses, and the value that it takes instead.

No two servers use the same words, and the words change, but names do not. So `read_refusal` looks
for the names of the parameters that were sent (in the error's field or its message), and then for
what differs from the value that was sent: a number, levels of effort, another name. A message that
names a parameter and has no such sign refuses the parameter itself. If no parameter is found,
`AdaptingModel` probes for it, so there are no rules here for rare words.

Patterns that are used once are written where they are used: errors are rare, and `re` keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from textassay.runtime.backends.error_bodies import FAULTS, STATUSES, ErrorBody, read_error
from textassay.runtime.errors import Refusal
from textassay.runtime.parameters import EFFORTS, Parameter, sent_parameters, snake_case


class _Mention(NamedTuple):
    """The name of a parameter that was sent, where a message has it."""

    parameter: Parameter
    field: str
    """The field of the body that carries the parameter."""
    value: Any
    """The value that was sent."""
    start: int
    """Position of the name in the message; -1 in the error's field `param`."""
    is_plain: bool
    """Whether it is certainly a name: it is quoted, precedes `=` or `:`, or begins the message."""
    is_word: bool
    """Whether it is an ordinary word without quotes."""


def read_refusal(status: int, body: bytes | str, request: Mapping[str, Any]) -> Refusal | None:
    """Return the parameter of a body that a server refuses; `None` if its error is not a refusal.

    Only parameters that were sent can be refused, and only values other than the sent one offered.
    """
    if status not in STATUSES["parameter"]:
        return None
    error = read_error(body)
    text = _normalize(error.message)
    if text.startswith(("<!doctype", "<html")):
        return None  # a page of a firewall or gateway
    # OpenRouter finds no provider that takes tools
    if status == 404 and "no endpoints found" not in text:
        return _other_api(text)
    if _is_other_fault(error, text):
        return None
    mentions = _find_mentions(error.param, text, request)
    if status == 403:  # the user's own fields may have names that are words of the message
        mentions = [m for m in mentions if m.parameter.repair != "never"]
    if not mentions:
        return _unnamed_level(text, request) or _other_api(text)
    first = mentions[0]
    refusal = None
    if first.parameter.repair == "level" and not isinstance(first.value, int):
        refusal = _level(first, text)
    elif first.parameter.repair in ("level", "number"):
        refusal = _number(first, text)
    return refusal or _drop(mentions, text)


def _normalize(message: str) -> str:
    """Return the beginning of a message in lower case, with names in snake_case.

    Addresses, statuses and quotations of the request are removed: their words say nothing.
    """
    # a server may quote the whole request further on
    text = re.sub(r"(?i)https?://\S+", "", message[:2000])
    text = snake_case(text.translate(dict.fromkeys(map(ord, "‘’“”"), "'")))
    statuses = r"error code: \d{3}\b|\[\d{3}\]:?|['\"]code['\"]: ?['\"]?\d{3}\b"
    text = re.sub(rf"\d+ validation errors?(?: for \w+)?:?\s|{statuses}", " ", text)
    # pydantic quotes the request, with words of the judged text
    return re.split(r"['\"]input['\"]:|\binput_value=", text, maxsplit=1)[0].strip()


def _find_mentions(param: str, text: str, request: Mapping[str, Any]) -> list[_Mention]:
    """Return the parameters that were sent and that the error names, the likeliest first."""
    named = snake_case(param)
    mentions = []
    for parameter, field, value in sent_parameters(request):
        if named == field or parameter.pattern.fullmatch(named):
            mentions.append(_Mention(parameter, field, value, -1, True, False))
        for match in parameter.pattern.finditer(text):
            start, end = match.span()
            before, after = text[:start][-1:], text[end : end + 1]
            is_marked = before in ("'", '"', "`") or after in ("'", '"', "`", "=", ":")
            is_word = bool(match["word"]) and not is_marked
            is_plain = (is_marked or start == 0) and not is_word
            mentions.append(_Mention(parameter, field, value, start, is_plain, is_word))
    return sorted(mentions, key=lambda m: (m.is_word, m.start))


_NEGATION = (
    r"(?:n't|\b(?:no|not|cannot|never|without|lacks?|invalid"
    r"|un(?:supported|known|recognized|expected|available)|(?:deprecated|disabled|forbid|refuse|reject)\w*)\b)"
)


def _drop(mentions: Sequence[_Mention], text: str) -> Refusal | None:
    """Return the refusal of a parameter with any value."""
    first = mentions[0]
    # a server that takes only one of the two, or neither, which its next refusal shows
    if {m.parameter.name for m in mentions[:2]} == {"temperature", "top_p"}:
        return Refusal("drop", "top_p")
    # without a denial nearby it may be a word of a quoted text
    around = text[max(0, first.start - 80) : first.start + 100]
    # Extra inputs are not permitted   only 1 is allowed   please omit
    denial = rf"{_NEGATION}|\b(?:only|extra|fixed|off|must|requires|remove|omit|ignore|drop|error)"
    is_refused = first.is_plain or re.search(denial, around)
    return Refusal("drop", first.parameter.name) if is_refused else None


def _is_other_fault(error: ErrorBody, text: str) -> bool:
    """Return whether the error is about the text, the account or the model."""
    codes = (
        r"(?i)context_length|context_size|content_filter|model_not_found|rate_limit|api_key"
        r"|authentication|overloaded|\b(?:401|402|404|408|409|429|5\d\d)\b"
    )
    if re.search(codes, error.codes):
        return True
    both = f"{error.codes.lower()} {text}"
    # the unknown parameter may be called `moderation`
    if re.search(r"(?:unsupported|unknown|unexpected)[_ ](?:parameter|argument|field)", both):
        return False
    context = FAULTS["context"].search(text)
    # "exceeds the maximum ... tokens" may be about the cap as well as the context
    cap = r"max(?:imum)?[_ -](?:\w+[_ -])?tokens|num_predict"
    if context and not (context[0].startswith("exceed") and re.search(cap, text)):
        return True
    if FAULTS["quota"].search(text) or FAULTS["quota code"].search(error.codes):
        return True
    # API key not valid   Failed to call a function   temperature: Field required
    other = (
        r"api[ _-]?key|tool_use_failed|json_validate_failed"
        r"|does not exist|not found\b|rate limit|invalid[ _]model\b"
        r"|request (?:is )?too large|reduce the length"
        r"|field required|missing (?:required )?(?:parameter|argument|field|propert)"
        r"|: (?:is )?required\b"
    )
    return bool(
        FAULTS["filter"].search(both) or FAULTS["key"].search(both) or re.search(other, both)
    )


def _other_api(text: str) -> Refusal | None:
    """Return the refusal of a model that is served through the Responses API only."""
    # is only supported in v1/responses and not in v1/chat/completions   send it to /v1/responses
    served = (
        r"\b(?:only|use|mean|via|through|try|switch|send|available)\b"
        r"(?:(?!\bnot\b|n't|instead of|rather than).){0,40}"
        r"\b(?:v1/responses|responses (?:api|endpoint))\b"
    )
    return Refusal("api", "model") if re.search(served, text) else None


def _level(first: _Mention, text: str) -> Refusal | None:
    """Return the refusal of a level of effort, with the levels that the message offers."""
    value, offered = first.value, _offered_levels(text, first.value)
    # effort none: the model thinks, so it knows the parameter, and refuses the level
    is_value = value in (None, "none") or re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", text)
    is_level = offered or is_value
    return Refusal("effort", first.parameter.name, values=offered) if is_level else None


def _offered_levels(text: str, value: Any) -> tuple[str, ...]:
    """Return the levels of effort that a message offers."""
    offered: set[str] = set()
    level = rf"['\"`]?\b(?:{'|'.join(EFFORTS)})\b['\"`]?"
    for match in re.finditer(rf"{level}(?:[\s,/|]+(?:(?:and|or)\s+)?{level})*", text):
        levels = re.findall(r"[a-z]{3,}", match[0])
        before = re.split(r"[.;(]", text[: match.start()])[-1][-40:]
        after = re.split(r"[.;:,(]", text[match.end() :])[0][:40]
        if value in levels or re.search(_NEGATION, before) or re.search(_NEGATION, after):
            continue  # these levels are denied
        if re.match(r"\W*(?:or|and) (?:below|lower|less)", text[match.end() :]):
            offered.update(EFFORTS[EFFORTS.index("low") : EFFORTS.index(levels[-1]) + 1])
        elif len(levels) > 1 or match[0][0] in "'\"`":  # else it may be an ordinary word
            offered.update(levels)
    return tuple(level for level in EFFORTS if level in offered)


def _unnamed_level(text: str, request: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal of a level if a message offers several without naming the parameter."""
    for parameter, _, value in sent_parameters(request):
        offered = _offered_levels(text, value) if parameter.repair == "level" and value else ()
        if len(offered) > 1:
            return Refusal("effort", parameter.name, values=offered)
    return None


def _number(first: _Mention, text: str) -> Refusal | None:
    """Return the refusal of a number, or of the name of `max_tokens`; or that it was too small."""
    name = first.parameter.name
    limit = _nearest_number(text, first.value)
    if limit is not None:
        return Refusal("range", name, limit=limit)
    if name != "max_tokens":
        return None
    # Could not finish the message because max_tokens was reached. Please try again with higher
    spent = (
        r"\b(?:finish|complete|reached|exhausted|ran out|stopped|higher|increase|raise|greater"
        r"|more tokens|budget_tokens)"
    )
    if re.search(spent, text):
        return Refusal("room", name)
    names = set(re.findall(r"(?<!\w)max_(?:completion_)?tokens\b", text))
    return Refusal("rename", name) if names - {first.field} else None


def _nearest_number(text: str, sent_value: Any) -> float | None:
    """Return the number in a message that is nearest to the one that was sent, if it is another."""
    bound = (
        r"[<>\u2264\u2265]|\b(?:max|min|most|least|limit|range|between|exceed|above|below|over|less"
        r"|more|greater|large|low|high|small|only|must|should|caps?\b|ceiling|up to|not enough)"
    )
    if not re.search(bound, text):
        return None
    # 1-8192   0..1
    text = re.sub(r"(?<![\w.-])(\d+)(?:\s?[-\u2013]\s?|\.\.+)(\d+)(?![\w-])", r"\1 to \2", text)
    numbers = r"(?<![\w./-])(?<!\w\[)(-?\d+(?:[,_]\d{3})*(?:\.\d+)?)(?![\w%/]|\.\d|-\w)"
    pairs = [(float(re.sub("[,_]", "", m[1])), m) for m in re.finditer(numbers, text)]
    if type(sent_value) not in (int, float):  # the row of a batch
        least = r">=|\u2265|\b(?:below|at least|minimum|too small)\b"
        pick = max if re.search(least, text) else min
        return pick((value for value, _ in pairs if value > 1), default=None)
    others = [(value, match) for value, match in pairs if value != sent_value]
    if not others:
        return None
    value, match = min(others, key=lambda pair: abs(pair[0] - sent_value))
    # must be less than 4097   from 1 (inclusive) to 8193 (exclusive)
    less = r"(?:(?<![<>=])<|\b(?:less|lower|smaller|fewer) than|\bbelow)\s*$"
    before, after = text[: match.start()], text[match.end() :]
    is_excluded = re.search(less, before) or after.startswith(" (exclusive)")
    return value - 1 if is_excluded and value < sent_value else value
