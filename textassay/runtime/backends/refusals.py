"""Finds out which parameter of a request a server refuses, and what it takes instead.

No two servers use the same words, and the words change, but names do not. So `read_refusal` looks
for the names of the parameters that were sent (in the error's field or its message), and then for
what differs from the value that was sent: a number, levels of effort, another name. A message that
names a parameter and has no such sign refuses the parameter itself.

Patterns that are used once are written where they are used: errors are rare, and `re` keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from textassay.lazy import lazy_pattern
from textassay.runtime.backends.error_bodies import FAULTS, ErrorBody, read_error
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
    """Where the name begins; -1 in the error's field `param`."""
    end: int
    is_plain: bool
    """Whether it is certainly a name: it is quoted, precedes `=` or `:`, or begins the message."""
    is_word: bool
    """Whether it is an ordinary word without quotes."""


def read_refusal(status: int, body: bytes | str, sent: Mapping[str, Any]) -> Refusal | None:
    """Return which parameter of a body a server refuses; `None` if its error is not a refusal.

    Only parameters that were sent can be refused, and only values other than the sent one offered.
    """
    # gateways pass a provider's refusal on with a status of success
    if status not in (200, 400, 403, 404, 416, 422):
        return None
    error = read_error(body)
    text = _normalize(error.message)
    if text.startswith("<"):
        return None  # a page of a firewall or gateway
    mentions = _find_mentions(error.param, text, sent)
    if status == 403:  # the user's own fields may have names that are words of the message
        mentions = [m for m in mentions if m.parameter.repair != "never"]
    if status == 404:
        # OpenRouter finds no provider that takes tools
        is_router = "no endpoints found" in text
        names = {mention.parameter.name for mention in mentions}
        return Refusal("drop", "functions") if is_router and "functions" in names else _api(text)
    if _is_other_fault(error, text, mentions):
        return None
    if not mentions:
        return _unnamed_level(text, sent) or _api(text)
    first = mentions[0]
    is_cap = any(mention.parameter.name == "max_tokens" for mention in mentions)
    if is_cap and re.search(r"\bbudget_tokens\b|\breasoning\.max_tokens\b", text):
        return Refusal("room", "max_tokens")
    match first.parameter.repair:
        case "level":
            found = _level(first, text)
        case "number":
            found = _number(first, text)
        case _:
            found = None
    return found or _drop(mentions, text)


def _normalize(message: str) -> str:
    """Return the beginning of a message in lower case, with names in snake_case.

    Addresses, statuses and quotations of the request are removed: their words say nothing.
    """
    # a server may quote the whole request further on
    text = re.sub(r"(?i)https?://\S+", "", message[:2000])
    text = snake_case(text.translate(dict.fromkeys(map(ord, "‘’“”"), "'")))
    text = re.sub(
        r"\d+ validation errors?(?: for \w+)?:?\s|error code: \d{3}\b|\[\d{3}\]:?"
        r"|['\"]code['\"]: ?['\"]?\d{3}\b",
        " ",
        text,
    )
    # the supported range is from 1 (inclusive) to 8193 (exclusive) (Vertex)
    text = re.sub(r"(?<![\d.])(\d+) \(exclusive\)", lambda found: str(int(found[1]) - 1), text)
    # pydantic quotes the request, with words of the judged text
    return re.split(r"['\"]input['\"]:|\binput_value=", text, maxsplit=1)[0].strip()


def _find_mentions(param: str, text: str, sent: Mapping[str, Any]) -> list[_Mention]:
    """Return the parameters that were sent and that the error names, the likeliest first."""
    named = snake_case(param)
    found = []
    for parameter, field, value in sent_parameters(sent):
        if named == field or parameter.pattern.fullmatch(named):
            found.append(_Mention(parameter, field, value, -1, -1, True, False))
        for match in parameter.pattern.finditer(text):
            start, end = match.span()
            before, behind = text[:start][-1:], text[end : end + 1]
            is_marked = before in ("'", '"', "`") or behind in ("'", '"', "`", "=", ":")
            is_word = bool(match["word"]) and not is_marked
            is_plain = (is_marked or start == 0) and not is_word
            found.append(_Mention(parameter, field, value, start, end, is_plain, is_word))
    return sorted(found, key=lambda m: (m.is_word, m.start))


# --- errors about something else ----------------------------------------------------------------

_OTHER_CODE = lazy_pattern(
    r"context_length|context_size|content_filter|model_not_found|rate_limit|api_key|authentication"
    r"|overloaded|\b(?:401|402|404|408|409|429|5\d\d)\b",
    re.I,
)
# These refuse a parameter, even if the message has words of another fault.
_PLAIN = lazy_pattern(
    r"(?:unsupported|unknown|unrecognized|unexpected|extra)[_ ](?:\w+ )?(?:parameter|argument|field"
    r"|value|name|key|input)|extra_forbidden|integer_(?:above|below)"
    r"|does(?: not|n't) support (?:the )?parameter"
)
# API key not valid   Failed to call a function   temperature: Field required
_OTHER_FAULT = lazy_pattern(
    r"api[ _-]?key|tool_use_failed|json_validate_failed"
    r"|does not exist|not found\b|rate limit|invalid[ _]model\b"
    r"|request (?:is )?too large|reduce the length"
    r"|field required|missing (?:required )?(?:parameter|argument|field|propert)"
    r"|: (?:is )?required\b"
)


def _is_other_fault(error: ErrorBody, text: str, mentions: Sequence[_Mention]) -> bool:
    """Return whether the error is about the text, the account or the model."""
    if _OTHER_CODE.search(error.codes):
        return True
    both = f"{error.codes.lower()} {text}"
    # parameter `temperature` does not exist: the parameter, not the model
    is_gone = r"['\"`]? (?:does not exist|not found|(?:cannot|could not) be found)\b"
    if _PLAIN.search(both) or any(re.match(is_gone, text[m.end :]) for m in mentions if m.end >= 0):
        return False
    context = FAULTS["context"].search(text)
    # "exceeds the maximum ... tokens" may be about the cap as well as the context
    cap = r"max(?:imum)?[_ -](?:\w+[_ -])?tokens|num_predict"
    if context and not (context[0].startswith("exceed") and re.search(cap, text)):
        return True
    if FAULTS["quota"].search(text) or FAULTS["quota code"].search(error.codes):
        return True
    return any(one.search(both) for one in (FAULTS["filter"], FAULTS["key"], _OTHER_FAULT))


# --- the API ------------------------------------------------------------------------------------


def _api(text: str) -> Refusal | None:
    """Return the refusal of a model that is served under another path only."""
    target = ""
    named = r"\b(?:v1/)?(chat[/ ]completions|completions?|responses)(?: (?:api|endpoint))?\b"
    cue = (
        r"\b(not|unsupported|instead of|rather than)\b|(n't)\b"
        r"|\b(?:only|use|mean|via|through|try|switch|send|available)\b"
    )
    for match in re.finditer(named, text):
        if not re.search(r"/|api|endpoint", match[0]):
            continue  # the ordinary word
        cues = list(re.finditer(cue, text[max(0, match.start() - 40) : match.start()]))
        if cues and not (cues[-1][1] or cues[-1][2]):
            path = match[1].replace(" ", "/")
            target = f"/v1/{path if path != 'completion' else 'completions'}"
    return Refusal("api", "model", instead=target) if target else None


# --- levels -------------------------------------------------------------------------------------

_LEVEL = rf"['\"`]?\b(?:{'|'.join(EFFORTS)}|disabled?|auto|off|on)\b['\"`]?"
_LEVELS = lazy_pattern(rf"{_LEVEL}(?:\s*(?:,\s*(?:and|or)\b|,|/|\||\band\b|\bor\b)\s*{_LEVEL})*")
# 'low' and 'medium' are not supported   does not support 'low', 'medium'   invalid values: 'low'
_NOUN = r"(?: (?:of |for )?['\"`]?\w*(?:effort|value|level|setting|reasoning|thinking)\w*['\"`]?)*"
_DENIED_AFTER = lazy_pattern(
    rf"{_NOUN}(?: (?:is|are|was|were)(?: all| both)?)?"
    r" (?:not\b|no longer\b|un(?:supported|available|known)\b|invalid\b|disabled\b|refused\b"
    r"|rejected\b|deprecated\b|cannot\b|can't\b|isn't\b|aren't\b|(?:may|must) not\b)"
)
_DENIED_BEFORE = lazy_pattern(
    r"(?:(?:\bnot|n't) (?:support|accept|allow|permit|take|know)(?:ed|ing|s)?|\b(?:not|never) be"
    rf"|\b(?:unsupported|invalid|disallowed|unavailable|unknown)){_NOUN}(?: are| is)?[\s:(]*$"
)


def _level(first: _Mention, text: str) -> Refusal | None:
    """Return the refusal of a level of effort, with the levels that the message offers."""
    value = _effort_in(first.value)
    if isinstance(first.value, Mapping) and value is None:
        return _number(first, text)
    offered, denied = _find_levels(text, value)
    if not offered and any(level != value for level in denied):
        offered = {level for level in EFFORTS[:-1] if level not in denied and level != value}
    # without thoughts: the parameter is known, as it is for every model that thinks
    is_value = value in (None, "none") or re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", text)
    if not offered and (not is_value or (value is None and _PLAIN.search(text))):
        return None
    return _effort_refusal(first.parameter, offered)


def _effort_refusal(parameter: Parameter, offered: Collection[str]) -> Refusal:
    return Refusal("effort", parameter.name, values=tuple(e for e in EFFORTS if e in offered))


def _effort_in(value: Any) -> Any:
    return value.get("effort") if isinstance(value, Mapping) else value


def _find_levels(text: str, sent: Any) -> tuple[set[str], set[str]]:
    """Return the levels that a message offers, and the levels that it says are not taken."""
    offered: set[str] = set()
    denied: set[str] = set()
    for match in _LEVELS.finditer(text):
        levels = [word for word in re.findall(r"\w+", match[0]) if word in EFFORTS]
        is_word = len(levels) == 1 and match[0][0] not in "'\"`"
        if _DENIED_AFTER.match(text, match.end()) or _DENIED_BEFORE.search(text[: match.start()]):
            denied.update(() if is_word else levels)
        elif sent in levels:
            continue  # a list that has the level that was sent is of refused ones
        elif levels and re.match(r"\W*(?:or|and) (?:below|lower|less)", text[match.end() :]):
            offered.update(EFFORTS[EFFORTS.index("low") : EFFORTS.index(levels[-1]) + 1])
        elif not is_word:
            offered.update(levels)
    return offered, denied


def _unnamed_level(text: str, sent: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal of a level if a message offers several without naming the parameter."""
    for parameter, _, value in sent_parameters(sent):
        if parameter.repair == "level" and value is not None:
            offered, _ = _find_levels(text, _effort_in(value))
            if len(offered) > 1:
                return _effort_refusal(parameter, offered)
    return None


# --- numbers ------------------------------------------------------------------------------------

_NUMBER = lazy_pattern(r"(?<![\w./-])(?<!\w\[)(-?\d+(?:[,_]\d{3})*(?:\.\d+)?)(?![\w%/]|\.\d|-\w)")
_BOUND = lazy_pattern(
    r"[<>\u2264\u2265]|\b(?:max(?:imum)?|min(?:imum)?|bound|(?:at|the) (?:\w+ )?(?:most|least)"
    r"|limit\w*"
    r"|range|between|from|up to|exceed\w*|above|below|over|under|beyond|less|more|fewer|greater"
    r"|larger|lower|higher|smaller|largest|smallest|as high|only|cap\w*|ceiling|must|should"
    r"|outside|expected|too \w+|at least|not enough)\b"
)
# Could not finish the message because max_tokens was reached. Please try again with higher
_SPENT = lazy_pattern(
    r"\b(?:finish|unfinished|completed?\b|reached|hit\b|exhausted|ran out|run out|used up|cut off"
    r"|stopped|truncated|higher|larger|greater|bigger|increase|raise|more tokens|incomplete"
    r"|insufficient)"
)


def _number(first: _Mention, text: str) -> Refusal | None:
    """Return the refusal of a number, or of the name of `max_tokens`; or that it was too small."""
    limit = _nearest_bound(text, _number_in(first.value))
    is_cap = first.parameter.name == "max_tokens"
    if limit is not None:
        return Refusal("range", first.parameter.name, limit=limit)
    if not is_cap:
        return None
    if _SPENT.search(text):
        return Refusal("room", "max_tokens")
    names = set(re.findall(r"(?<!\w)max_(?:completion_)?tokens\b", text))
    if len(names) == 2 or (names and first.field not in names):
        return Refusal("rename", "max_tokens", instead=max(names - {first.field}))
    return None


def _number_in(value: Any) -> float | None:
    """Return the number that was sent; `None` if it is unknown."""
    if isinstance(value, Mapping):
        value = value.get("budget_tokens", value.get("max_tokens"))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _nearest_bound(text: str, sent: float | None) -> float | None:
    """Return the number in a message that is nearest to the one that was sent."""
    text = re.sub(r"(?<![\w.-])(\d+)(?:\s?[-\u2013]\s?|\.\.+)(\d+)(?![\w-])", r"\1 to \2", text)
    if not _BOUND.search(text):
        return None
    found = [(float(re.sub("[,_]", "", m[1])), text[: m.start()]) for m in _NUMBER.finditer(text)]
    if sent is None:  # the row of a batch
        is_least = re.search(r">=|\u2265|\b(?:below|at least|minimum|too small)\b", text)
        pick = max if is_least else min
        return pick((value for value, _ in found if value > 1), default=None)
    others = [(value, before) for value, before in found if value != sent]
    if not others:
        return None
    value, before = min(others, key=lambda pair: abs(pair[0] - sent))
    # must be less than 4097
    less = r"(?:(?<![<>=])<|\b(?:less|lower|smaller|fewer) than|\bbelow)\s*$"
    if value < sent and re.search(less, before):
        return value - 1
    more = r"(?:(?<![<>=])>|\b(?:more|higher|larger|greater) than|\babove)\s*$"
    if value > sent and re.search(more, before):
        return value + 1
    return value


# --- the parameter itself -----------------------------------------------------------------------

# unknown   Extra inputs are not permitted   doesn't   only 1 is allowed   please omit
_DENIAL = lazy_pattern(
    r"\bun(?:supported|known|recogni[sz]ed|expected|available)\b|\bextra\b|\binvalid\b|n't\b"
    r"|\b(?:no|not|cannot|never|only|drop|unable|error|without|fixed|blocked|must be|lacks?|off"
    r"|nothing|needed|incorrect|requires --|alternate)\b"
    r"|\b(?:deprecated|forbid|removed?|refus|reject|disallow|disabled|illegal|ignore|omit"
    r"|leave out|prohibited|incompatible)"
)


def _drop(mentions: Sequence[_Mention], text: str) -> Refusal | None:
    """Return the refusal of a parameter, whatever its value."""
    first = mentions[0]
    # a server that takes only one of the two, or neither, which its next refusal shows
    if {m.parameter.name for m in mentions[:2]} == {"temperature", "top_p"}:
        return Refusal("drop", "top_p")
    # without a denial nearby it may be a word of a quoted text
    around = text[max(0, first.start - 80) : first.end + 80]
    if not first.is_plain and not _DENIAL.search(around):
        return None
    return Refusal("drop", first.parameter.name)
