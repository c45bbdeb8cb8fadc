"""Reads lists out of what a model said: named things with definitions, and statements.

Takes JSON (`[{"name": ..., "definition": ...}]`, `{"Logical flow": "..."}`), numbered lists,
bullets, headings with text below, tables and plain `Name: definition` lines; statements have
numbers or bullets, or are a JSON list. What cannot be used is reported: entries without a name or
definition, repeats, entries that are not wanted, and those above the number that was asked for.
Prose around a list is ignored; prose instead of a list gives no entries.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from textassay.agents.reading.json_in_prose import find_json, normalize_key
from textassay.agents.reading.outcomes import MAX_ANSWER, MAX_QUOTED
from textassay.lazy import lazy_pattern
from textassay.runtime.base import Json
from textassay.runtime.labels import slug

_MAX_NAME = 80
"""Characters of an item that may be a name; a longer one is a sentence."""
_MAX_DEFINITION = 1_000
"""Characters of a definition that are kept, as each prompt about the aspect repeats it."""


# --- names of things that are known

# Fluency (1-3)
_PARENTHESES = lazy_pattern(r"\([^()]{0,60}\)|\[[^\[\]]{0,60}\]")
# score-of-fluency, fluency-score: slugs of "Score of fluency" and "Fluency score"
_AFFIX = lazy_pattern(r"\A(?:score|rating)-(?:of|for)-|-(?:scores?|ratings?|values?|evaluator)\Z")


def slugs_of(name: str) -> tuple[str, ...]:
    """Return the slugs under which a name may be known, the most literal one first.

    Judges number a name, copy its scale from the prompt, and add `score` to it.
    """
    plain = re.sub(r"\A\W*\d{1,3}[.):]", "", name)
    short = slug(_PARENTHESES.sub(" ", plain))
    return slug(name), slug(plain), short, _AFFIX.sub("", short)


def matching(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a name such as `SUM_BLEURT` or `Sum Bleurt score` stands for."""
    by_slug = {slug(item): item for item in known}
    return next((by_slug[one] for one in slugs_of(name) if one in by_slug), None)


# --- names with definitions


class ListItem(NamedTuple):
    """One thing of a list."""

    name: str
    definition: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What an answer lists."""

    entries: tuple[ListItem, ...]
    """Usable entries in order; their slugs differ."""
    dropped: tuple[Json, ...] = ()
    """`{text, problem}` for each entry that is not used."""


def parse_listing(text: str, *, most: int | None = None, unwanted: Iterable[str] = ()) -> Listing:
    """Return the entries of a list.

    Never raises; linear in the text, of which the first 40,000 characters are read.
    """
    # unpaired surrogates are replaced: UTF-16 pairs whole ones up
    reply = text[:MAX_ANSWER].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    items = _from_json(reply) or _from_table(reply) or _from_lines(reply)
    entries: list[ListItem] = []
    dropped: list[Json] = []
    problems = {slug(name): "the criterion itself" for name in unwanted}
    for raw_name, raw_definition in items:
        entry = ListItem(_name(raw_name), _definition(raw_definition))
        problem = problems.get(slug(entry.name), "")
        if not re.search(r"[^\W_]", entry.name) or len(entry.name) > _MAX_NAME:
            problem = "no name"
        elif not re.search(r"[^\W_]", entry.definition):
            problem = "no definition"
        elif not problem and len(entries) == most:
            problem = "surplus"
        if problem:
            quoted = f"{raw_name}: {raw_definition}".strip()[:MAX_QUOTED]
            dropped.append({"text": quoted, "problem": problem})
        else:
            entries.append(entry)
            problems[slug(entry.name)] = "duplicate"
    return Listing(tuple(entries), tuple(dropped))


def _name(raw: str) -> str:
    # "Relevance (1-5)"
    plain = re.sub(r"\s*\([^()]{0,60}\d[^()]{0,60}\)\s*\Z", "", " ".join(raw.split()))
    return plain.strip(" \t*_`\"'“”‘’«»[]{}<>#:：")


_META = r"(?:definition|description|meaning|explanation|criteri(?:on|a)|question)"


def _definition(raw: str) -> str:
    plain = " ".join(re.sub(r"\*\*|__|`", "", raw).split())
    # "Definition: whether it flows" -> "whether it flows"
    plain = re.sub(rf"(?i)\A[\s*_:：–—-]{{0,6}}{_META}\s{{0,3}}[:：]\s{{0,3}}", "", plain)
    return plain.strip(' \t*_:：–—-"“”')[:_MAX_DEFINITION]


_NAME_KEYS = (
    "name", "aspect", "criterion", "criteria", "metric", "title", "sub_criterion", "subcriterion",
)  # fmt: skip
_DEFINITION_KEYS = ("definition", "description", "explanation", "meaning", "question")


def _from_json(text: str) -> list[tuple[str, str]]:
    """Return the entries of the first JSON in an answer that lists any."""
    objects: list[tuple[str, str]] = []
    for part in find_json(text):
        value = _unwrap(part.value)
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            return [_json_entry(item) for item in value]
        if isinstance(value, dict):
            if _field(value, _NAME_KEYS) is None:
                return [(key, _text(held)) for key, held in value.items()]
            objects.append(_json_entry(value))  # one object per line
    return objects


def _unwrap(value: Any) -> Any:
    """Return the list or object in fields without siblings: `{"result": {"aspects": [...]}}`."""
    while isinstance(value, dict) and len(value) == 1:
        (inner,) = value.values()
        if not isinstance(inner, list | dict):
            break
        value = inner
    return value


def _json_entry(item: Any) -> tuple[str, str]:
    if not isinstance(item, dict):
        return (item, "") if isinstance(item, str) else ("", repr(item))
    name = _field(item, _NAME_KEYS)
    if name is None and len(item) == 1:
        return next((key, _text(held)) for key, held in item.items())
    return name if isinstance(name, str) else "", _text(_field(item, _DEFINITION_KEYS))


def _text(held: Any) -> str:
    found = _field(held, _DEFINITION_KEYS) if isinstance(held, dict) else held
    return found if isinstance(found, str) else ""


def _field(item: dict[str, Any], keys: tuple[str, ...]) -> Any:
    by_key = {normalize_key(key): held for key, held in item.items()}
    return next((by_key[key] for key in keys if key in by_key), None)


# | # | Aspect | Definition |
_HEADER = lazy_pattern(
    r"(?i)\A\W*(?:#|no\.?|number|name|(?:sub-?)?(?:aspect|criteri(?:on|a)|metric)s?)?\W*\Z"
)


def _from_table(text: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for row in re.findall(r"(?m)^[^\S\n]{0,8}\|(.*)\|[^\S\n]*$", text):
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) > 2 and re.fullmatch(r"\W*\d{0,3}\W*", cells[0]):
            cells = cells[1:]
        if len(cells) > 1 and not _HEADER.match(cells[0]):
            rows.append((cells[0], cells[1]))
    return rows


# "## 1. Fluency", "1) Fluency: ...", "- Fluency: ...", "Fluency: ..."
_LINE = lazy_pattern(
    r"(?P<indent>[ \t]{0,40})(?:(?P<heading>#{1,6}\s{0,3}(?:\(?\d{1,3}[.):]\s{0,3})?)"
    r"|(?P<bold>[*_]{0,2})(?P<number>\(?\d{1,3}[.):、]\s{0,3})|(?P<bullet>[-*•‣·–]\s{1,3}))?"
    r"(?P<rest>.*)"
)
# **Fluency** whether it reads well   Fluency: whether it reads well   Fluency - whether ...
_PAIR = lazy_pattern(
    r"(?P<bold>(?:\*\*|__)[^*_\n]{1,100}(?:\*\*|__))[ \t]{0,4}(?::[ \t]{0,4})?[:：–—-]?(?P<more>.*)"
    r"|(?P<name>[^:：.!?\n]{1,100}?)(?:\s{0,3}：|(?:\s{0,3}:|\s{1,3}[-–—])(?=\s|$))(?P<definition>.*)"
)
# "Definition: ..." below a heading defines its entry and is not an entry itself
_LABEL = lazy_pattern(
    rf"(?i)^\W{{0,6}}(?:{_META}|examples?|scores?|ratings?|scale|reason|note)\W{{0,6}}\Z"
)


class _ListLine(NamedTuple):
    kind: str
    """`heading`, `number`, `bullet` or `plain`."""
    indent: int
    name: str
    definition: str
    whole: str
    """The line without its mark."""


def _from_lines(text: str) -> list[tuple[str, str]]:
    # First which kind of line opens an entry, then the entries: within numbered entries, bullets
    # are part of the definition.
    lines = [_read_line(line) for line in text.splitlines()]
    kind, indent = _kind_of_entries([line for line in lines if line.name])
    items: list[list[str]] = []
    continues = False
    for line in lines:
        opens = line.kind == kind and line.indent <= indent and not _LABEL.match(line.name)
        if opens and line.whole and (line.name or kind != "plain"):
            items.append([line.name, line.definition if line.name else line.whole])
            continues = True
        elif not line.whole:
            # a definition may follow a heading after a blank line
            continues = bool(items) and not items[-1][1]
        elif line.indent < indent:  # a title between two groups of entries
            continues = False
        elif items and (continues or line.kind != "plain"):
            items[-1][1] += " " + line.whole
    return [(name, definition) for name, definition in items]


def _kind_of_entries(lines: list[_ListLine]) -> tuple[str, int]:
    """Return the kind of line that opens an entry, and how far at most it is indented."""
    marked = [line for line in lines if line.kind != "plain" and not _LABEL.match(line.name)]
    # entries with their definition on the same line are the surest sign
    surest = [line for line in marked if line.definition] or marked
    if not surest:
        return "plain", 0
    counted = Counter(line.kind for line in surest)
    kind = max(("heading", "number", "bullet"), key=lambda kind: counted[kind])
    return kind, min(line.indent for line in marked if line.kind == kind)


def _read_line(line: str) -> _ListLine:
    match = _LINE.match(line)
    assert match is not None  # the pattern takes any line
    kind = next((kind for kind in ("heading", "number", "bullet") if match[kind]), "plain")
    rest = ((match["bold"] or "") + match["rest"]).strip()  # "**1. Relevance**: ..."
    name, definition = "", ""
    if pair := _PAIR.match(rest):
        name = pair["bold"] or pair["name"]
        definition = (pair["more"] or pair["definition"] or "").strip()
        if kind == "plain" and not definition:  # "Here are five aspects:"
            name = ""
    elif kind != "plain" and len(rest) <= _MAX_NAME and not re.search(r"[.!?]\Z", rest):
        name = rest
    return _ListLine(kind, len(match["indent"].expandtabs(4)), name, definition, rest)


# --- statements

# "1. ", "(2) ", "3) ", "- ", "* "
_ITEM = lazy_pattern(r"^\s*(?:\(?\d{1,3}[.):]|[-*\u2022\u2013])\s+(?P<text>\S.*)$")
_NOTHING = lazy_pattern(r"(?i)^\W*(?:none|no (?:claims|statements|facts)|n/a)\b[^\n]{0,60}$")


def parse_statements(text: str, *, cut: bool = False) -> tuple[str, ...] | None:
    """Return the statements of a list in order, without repeats."""
    reply = text[:MAX_ANSWER]
    found = _statements_from_json(reply)
    if found is None:
        found = [item["text"] for line in reply.splitlines() if (item := _ITEM.match(line))]
        if not found:
            return () if _NOTHING.match(reply.strip()) else None
    statements = [" ".join(one.split()).strip("\"'*_ ") for one in (found[:-1] if cut else found)]
    # "1. None" is a list of one entry that says there are none
    if len(statements) == 1 and _NOTHING.match(statements[0]):
        return ()
    kept = {one.casefold(): one for one in reversed(statements) if re.search(r"[^\W_]", one)}
    return tuple(reversed(kept.values()))


def _statements_from_json(reply: str) -> list[str] | None:
    """Return the texts of the last JSON list of texts; `None` if there is none."""
    values = [_unwrap(part.value) for part in find_json(reply)]
    lists = [
        value
        for value in values
        if isinstance(value, list) and all(isinstance(one, str) for one in value)
    ]
    # reasoning models draft a list before they decide
    return lists[-1] if lists else None
