"""Finds what an answer says about the asked aspect among its ratings of several aspects."""

from __future__ import annotations

import re
from functools import lru_cache

from textassay.agents.reading.notation import blank_out
from textassay.agents.reading.scales import HAS_NUMBER
from textassay.agents.reading.tables import with_own_cell
from textassay.agents.reading.words import NOUN, NUMBER, QUALITY
from textassay.lazy import lazy_pattern


def own_name(aspect: str | None, plain: str) -> str:
    """Return the pattern of the aspect's name by which an answer calls it; empty for no aspect.

    A judge shortens `translation adequacy` to `Adequacy`, and names `understandability` with
    `Understandable: 1`. The first of `_names_of` that the answer has is the name.
    """
    names = _names_of(aspect or "")
    written = plain.replace("_", " ") if len(names) > 1 else plain
    for name, label in names:
        if label.search(written):
            return name
    lower = plain.lower()
    known = next((words for one, words in _ELSEWHERE.items() if one in (aspect or "").lower()), "")
    return next((word for word in known.split() if word in lower), names[0][0])


_ELSEWHERE = {
    "coherence": "kohärenz cohérence coherencia coerência coerenza 连贯性 連貫性 一貫性 일관성",
    "consistency": "konsistenz consistencia consistência coerenza 一致性 一貫性 整合性 일관성",
    "correctness": "korrektheit richtigkeit exactitude justesse corrección correção correttezza"
    " 正确性 正確性 正確さ 정확성",
    "engaging": "unterhaltungswert attrait interés interesse coinvolgimento 趣味性 吸引力 魅力"
    " 흥미",
    "fluency": "flüssigkeit sprachfluss fluidité fluidez fluência fluidità scorrevolezza"
    " 流畅性 流畅度 流暢性 流暢さ 유창성",
    "grounded": "fundiertheit ancrage fundamentación fundamentação 有据性 依据性 根拠性",
    "helpful": "nützlichkeit hilfsbereitschaft utilité utilidad utilidade utilità"
    " 有用性 有帮助性 有益性 役立ち度 유용성",
    "natural": "natürlichkeit naturel naturalidad naturalidade naturalezza 自然度 自然性 自然さ",
    "quality": "gesamtqualität qualität qualité calidad qualidade qualità 质量 品質 품질",
    "relevance": "relevanz pertinence relevancia pertinencia relevância pertinenza rilevanza"
    " 相关性 相關性 関連性 관련성",
}
"""Names in other languages of the aspects that judges are most often asked for."""


# severity of the error, honnêteté des limites
_OF = r"\s(?:of|in|to|for|with|de|des|du|da|do|della|di|der|des|van|von)\s(?:the\s|la\s|l['’])?"
_VAGUE = r"appropriateness|quality|level|degree|amount|extent|impression"
"""Aspects are also called by the word beside these: `tone appropriateness` is `Tone: 4`."""


@lru_cache(maxsize=256)
def _names_of(aspect: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the names of an aspect with the patterns of their places, the most telling first."""
    called = re.sub(r"[\s_*`-]+", " ", aspect.lower()).strip()
    # tone (politeness)
    two = re.fullmatch(r"(?P<name>[^()]{2,}?) \((?P<other>[^()\d]{2,40})\)", called)
    wholes = [two["name"], two["other"]] if two else [called]
    shorter, labels, rated = list[str](), list[str](), list[str]()
    for name in wholes:
        if re.search(r"[,/&]|\b(?:and|or|und|et|y|e)\b", name):
            continue
        head, *rest = re.split(_OF, name)
        beside, _, last = head.rpartition(" ")
        if rest:
            shorter += [" ".join([head, *rest]), head]
        # not `following` of `instruction following`
        if beside and not re.fullmatch(rf"(?i){NOUN}|\w+ing|{_VAGUE}", last):
            shorter.append(last)
        if beside and not rest:
            shorter.append(f"{last} of the {beside}")
        if re.fullmatch(_VAGUE, last):
            labels += [last, *([beside] if beside else rest)]
        if name.startswith("overall"):
            labels.append("total")
        if name.endswith(("ingness", "fulness", "lessness")):
            labels.append(name.removesuffix("ness"))
        elif name.endswith("ness"):
            rated.append(name.removesuffix("ness"))
        if name.endswith("ingness"):
            labels.append(f"{name.removesuffix('ingness')}ement")
        if name.endswith("bility"):
            labels.append(f"{name.removesuffix('ility')}le")
    # a name in the plural is a count: `Citations: 4`
    labels = [name for name in labels if not name.endswith("s") or name.endswith("ness")]
    anywhere = (
        r"(?i)(?:(?:^|[^\w\s])\s*|\b(?:the|an?|its|of|for|on|in|and|is|put|rate|scoring)\s|\n\s*)"
    )
    at_label = r"(?im)(?:^|[|,;.\"\[{>#•*+-]|\d[.)])[ \t\"*]*"
    closed = rf"(?:\s{NOUN})?[\s\"*(\])]{{0,4}}(?:[:：=|→–]|[1-9]\d?/)"
    first = "|".join(map(_pattern_of, wholes))
    return (
        (first if len(wholes) == 1 else f"(?:{first})", re.compile(rf"(?i){first}")),
        *((_pattern_of(n), re.compile(rf"{anywhere}{_pattern_of(n)}(?!\w)")) for n in shorter),
        *((_pattern_of(n), re.compile(rf"{at_label}{_pattern_of(n)}{closed}")) for n in labels),
        *(
            (_pattern_of(n), re.compile(rf"{at_label}{_pattern_of(n)}{closed}[\s\"*(\[]{{0,4}}\d"))
            for n in rated
        ),
    )


def _pattern_of(name: str) -> str:
    """Return the pattern of a name, in any case and with spaces, `-` or `_` in it."""
    pattern = r"[\s-]{1,3}".join(map(re.escape, name.split()))
    # judges shorten `overall quality`
    return re.sub(r"\Aoverall(.+)", r"over-?all(?:\1)?", pattern)


@lru_cache(maxsize=256)
def _name_pattern(own: str) -> re.Pattern[str]:
    return re.compile(rf"(?i){own}(?:\s{NOUN})?")


def without_other_aspects(plain: str, own: str, top: float) -> str:
    """Return the text without the ratings of other aspects beside the asked one.

    Covers pairs (`Fluency: 4, Style: 3`), rows of a table, and sections under headings; the grammar
    gives other numbers their owners.
    """
    if not own:
        return plain
    name = _name_pattern(own)
    if not name.search(plain):
        return plain
    if any(sign in plain for sign in ":：=→>/"):
        plain = _PAIRS.sub(lambda match: _own_pair(match[0], own), plain)
    if "\n" not in plain:
        return plain
    plain = with_own_cell(plain, name, top)
    return blank_out(plain, _other_sections(plain, name))


def is_own(name: str, own: re.Pattern[str]) -> bool:
    """Return whether a name is the aspect's, or names it beside others: `Fluency and Style`."""
    return any(map(own.fullmatch, (name, *re.split(r"\s?(?:[,/&]|\band\b)\s?", name))))


# Fluency: 4, Style: 3   Fluency: 4. Style: 3.   (Fluency: 4) (Style: 3)   Fluency 4/5, style 3/5
_PAIR = (
    rf"[(]?[^\W\d_][^\n:：=→,;.()\d]{{0,40}}"
    rf"(?:[ \t]?(?:[:：=→]|->)[ \t]?{NUMBER}(?:[ \t]?/[ \t]?\d+)?"
    rf"|[ \t]{NUMBER}/\d+(?:[ \t]?\([^()\d]{{0,60}}\))?)[)]?"
)
_PAIRS = lazy_pattern(
    rf"(?mi)^[ \t]*{_PAIR}(?:(?:[,;][ \t]*|[ \t]?[,;.|][ \t]+|[ \t]+){_PAIR}){{1,12}}"
    r"[ \t]*[.;]?[ \t]*$"
)
# they speak of the same rating once more, or of another one of the same aspect
_AGAIN = lazy_pattern(
    rf"(?i).*\b(?:{NOUN}|overall|final|total|correct(?:ion|ed)?|revised|updated?|edit(?:ed)?|actually"
    r"|max(?:imum)?|min(?:imum)?|scale|range|average|mean|conclusion|verdict|no|wait|so|now|rather"
    r"|better|or|hmm|out|best|highest|lowest|top|but|however|sorry|oops|scratch|meant?|second|again"
    r"|reconsider\w*|reflection|errat\w+|amend\w*|human|user|change[ds]?)\b.*"
)


def _own_pair(line: str, own: str) -> str:
    """Return a line of pairs with the pairs of other aspects as spaces."""
    pairs = list(re.finditer(rf"(?i){_PAIR}", line))
    mine = [
        re.match(rf"(?i)[(\s]*{own}(?:\s{NOUN})?\s?[:：=→\d-]", pair[0]) is not None
        for pair in pairs
    ]
    if sum(mine) != 1 or any(_AGAIN.fullmatch(pair[0]) for pair in pairs):
        return line
    pair = pairs[mine.index(True)]
    start, end = pair.start() + pair[0].startswith("("), pair.end() - pair[0].startswith("(")
    return " " * start + line[start:end] + " " * (len(line) - end)


# ## Fluency   **Fluency:**   2. Fluency (1-5)   # Rating: Fluency   Criterion: Fluency
_HEADING = lazy_pattern(
    r"(?mi)^[ \t]*+(?:(?P<mark>#{1,6}(?:[ \t]*\d{1,2}[.)])?|\d{1,2}[.)]|[A-H][.)]|[-•]"
    r"|\[(?=[^\]\n]+\]))[ \t]*+)?"
    r"(?:(?:for|regarding)[ \t]+)?"
    rf"(?:(?:{NOUN}|(?P<called>criteri(?:a|on)|aspect|dimension|metric))[ \t]*(?:of|for|:)[ \t]*)?"
    r"(?P<name>[^\W\d_][^\n:：=|→().!?\d\]]{0,40}?)\]?[ \t]*+"
    r"(?:\([^()\n]{0,40}\)[ \t]*+)?(?P<colon>[:：])?[ \t]*+$"
)
_QUALITY = lazy_pattern(rf"(?i){QUALITY}")
_TITLE = "title"
"""Kind of a heading without a mark: a few words."""


def _mark_of(plain: str, heading: re.Match[str]) -> str:
    """Return the kind of mark that makes a line a heading; empty if it is not a heading."""
    mark = re.sub(r"\w", "1", heading["mark"] or "")
    if mark not in ("", "-") or heading["colon"] or heading["called"]:
        return mark or ":"
    # a few words, as in the name of an aspect, below an empty line or at the beginning
    is_apart = plain[max(0, heading.start() - 2) : heading.start()] in ("", "\n\n")
    return _TITLE if is_apart and not mark and len(heading["name"].split()) <= 3 else ""


def _other_sections(plain: str, own: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return the sections under the names of other aspects, beside one under the asked name."""
    headings = [
        (heading.start(), mark, heading["name"].strip())
        for heading in _HEADING.finditer(plain)
        if (mark := _mark_of(plain, heading))
    ]
    marks = [mark for _, mark, name in headings if is_own(name, own) and not _AGAIN.fullmatch(name)]
    headings = [heading for heading in headings if heading[1] in marks]
    ends = [start for start, *_ in headings[1:]] + [len(plain)]
    # what is below `Scores` is about all aspects
    sections = [
        (heading, end)
        for heading, end in zip(headings, ends, strict=False)
        if not _AGAIN.fullmatch(heading[2])
    ]
    siblings = [heading for heading, _ in sections]
    first = next((n for n, (_, _, name) in enumerate(siblings) if is_own(name, own)), 0)
    rated = [HAS_NUMBER.search(plain, start, end) is not None for (start, *_), end in sections]
    # below a few words without a sign a rating may be taken back, unless they are in a list
    in_list = first > 0 or len(siblings) - first > 2
    in_list = in_list or (bool(marks) and _QUALITY.fullmatch(siblings[-1][2]) is not None)
    if marks and marks[0] == _TITLE and not (in_list and all(rated)) and rated[first]:
        return []
    return [(start, end) for (start, _, name), end in sections if not is_own(name, own)]
