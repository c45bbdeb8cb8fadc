r"""Values in a text: the numbers, letters and stars that may be a rating.

A number is bare if it stands for itself: it counts, numbers and measures nothing, and belongs to no
name, date, sum or range.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from textassay.agents.reading.outcomes import RatingForm
from textassay.agents.reading.words import (
    CHINESE_NUMBERS,
    CJK,
    FITTING,
    HALF,
    LETTER,
    NO_NOUN,
    NOUN,
    NUMBER,
    NUMBER_WORDS,
    REASONS,
    TOP,
    UNIT,
)
from textassay.lazy import lazy_alternatives, lazy_pattern


class Statement(NamedTuple):
    """A rating that an answer states, on the scale or not."""

    value: float
    top: float | None
    """What it is out of, if the answer says so."""
    span: tuple[int, int]
    """Start and end of the value in the answer, in characters."""
    end: int
    """Where the value ends with all that belongs to it, such as `out of 5`."""


_VALUES: dict[RatingForm, str] = {
    "number": (
        rf"(?<!{LETTER})(?<![.,%$€£])(?P<value>{NUMBER})"
        rf"(?:{TOP}{UNIT}|{UNIT}(?!{LETTER}))"
    ),
    # an `I` by itself is the judge more often than the ninth letter
    "letters": r"(?<![\w.,'’])(?P<value>[A-Za-z])(?![\w'’])(?P<top>)",
    "stars": (
        rf"(?<!{LETTER})(?<![.,%$€£])(?P<value>{NUMBER})(?:{TOP})?{UNIT}(?!\w)"
        r"|(?P<glyphs>(?:[★⭐🌟][\ufe0f ]?){1,10})☆{0,10}"
    ),
}
WINDOW = 240
"""Characters before a number in which the clause that leads up to it begins, and behind it in which
its sentence ends; a sentence that is longer has no rating at that place. It bounds the time of long
lines: of 5,400 answers written for tests, four times as many read the same ratings, and a quarter
invents 23 in place of 14."""


@lru_cache(maxsize=8)
def value_pattern(form: RatingForm) -> re.Pattern[str]:
    """Return the pattern of a value in a form, with the groups `value` (or `glyphs`) and `top`."""
    return re.compile(rf"(?i){_VALUES[form]}")


# a number, with what is before it, in lower case
_BEGINS_NUMBER = lazy_pattern(
    rf"[\W{CJK}](?:\d|{'|'.join(NUMBER_WORDS)}|[一二三四五六七八九十](?=[分星点]))"
)


def lower_of(text: str) -> str:
    """Return the text in lower case, with every character at its place."""
    return text.replace("İ", "I").lower()


def places_of_numbers(plain: str) -> list[int]:
    """Return the places of an answer where a number may begin, in order."""
    return [match.start() for match in _BEGINS_NUMBER.finditer(f"\n{lower_of(plain)}")]


def values_at(plain: str, places: Sequence[int], end: int, form: RatingForm) -> list[re.Match[str]]:
    """Return the values that begin at places of a sentence; other ones than numbers from one on."""
    pattern = value_pattern(form)
    if form != "number":
        return list(pattern.finditer(plain, places[0], end))
    found, at = list[re.Match[str]](), 0
    for place in places:
        signed = plain[place - 1 : place] in ("-", "+", "−")
        value = (signed and pattern.match(plain, place - 1, end)) or pattern.match(
            plain, place, end
        )
        if value and place >= at:
            found.append(value)
            at = value.end()
    return found


def statement_of(match: re.Match[str], low: float) -> Statement:
    """Return the statement of a matched value."""
    held = match.groupdict()
    if held.get("glyphs"):
        stars = sum(sign not in "\ufe0f " for sign in held["glyphs"])
        return Statement(float(stars), None, match.span("glyphs"), match.end())
    label = held["value"]
    if label.isascii() and label.isalpha() and len(label) == 1:
        value = low + ord(label.upper()) - ord("A")
    else:
        value = number_in(label)
    top = held["top"]
    return Statement(value, number_in(top) if top else None, match.span("value"), match.end())


def number_in(text: str) -> float:
    """Return the number that digits or a word stand for."""
    whole, *half = _AND_HALF.split(text.lower())
    word = NUMBER_WORDS.get(whole, CHINESE_NUMBERS.get(whole))
    number = float(whole.replace(",", ".").replace("−", "-")) if word is None else word
    return number + (0.5 if half else 0.0)


_AND_HALF = lazy_pattern(HALF)


def is_quoted(plain: str, line: int, at: int) -> bool:
    """Return whether a place lies inside quotation marks that opened on its line."""
    before = plain[line:at]
    # „so“
    if before.count("“") - before.count("„") > before.count("”") or before.count(
        "«"
    ) > before.count("»"):
        return True
    return before.count('"') % 2 == 1 and '"' in plain[at : at + WINDOW]


# 4 errors   4-word   40%   4 of the
_COUNTS = lazy_pattern(
    rf"(?i)(?:\s(?:or|to|and)\s{NUMBER}(?=[ ]))?"  # 1 or 2 errors
    r"(?:[ \t-]?(?:[%°‰€$£]|[ap]\.?m\b|\d+-[a-z]|per\s?cent\b|of\s(?!\d)|in\s\d|to\sthe\s\d)"
    rf"|(?<=[\w\])\"” ])[ \t-](?!{NO_NOUN}\b|{REASONS}|{NOUN}\s?[:：=])[^\W\d_])"
)
# $4   #4   v_4   >4   x = 4   the second of two: 3-4   5 - 4
_SIGN_BEFORE = lazy_pattern(
    r"(?:(?<![#\n])#\s?|[$€£§¶№/_+×÷^~@\\½¼¾]\s?|[½¼¾]\sof\s|(?<![=>\n-])[<>≤≥]=?\s?|[^\W\d_]-|:\d"
    r"|\d\s?[:到至~～–-]\s?|\d\s?[-–+×÷*]\s|(?<!\w)[a-z]\s?[=<>≤]\s?)\Z"
)
# what is counted through: sentence 3, step 2, aged 4, 3 goals to 4   the top 4   all 4
_COUNTED_BEFORE = lazy_alternatives(
    r"\b",
    things=r"(?:sentence|paragraph|step|line|point|section|part|page|chapter|criteria|criterion|item"
    r"|figure|table|question|claim|fact|example|turn|version|day|source|number|no\.?"
    r"|dialogue|problem|task|reference|year|week|month|round|stage|phase|footnote|rater|annotator|reviewer|season"
    r"|age|aged|grade"
    # German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian
    r"|kapitel|seite|absatz|abbildung|tabelle|abschnitt|zeile|chapitre|paragraphe|ligne|tableau"
    r"|cap[ií]tulo|p[aá]gina|p[aá]rrafo|par[aá]grafo|figura|tabla|tabela|secci[oó]n|seção|línea|linha"
    r"|capitolo|paragrafo|sezione|riga|tabella|hoofdstuk|alinea|bladzijde|rozdzia[łl]\w*|stron[aiy]"
    r"|akapit\w*|глав[аеуы]|страниц[аеуы]|абзац\w?|рисун\w+)s?\s?\Z",
    all=r"(?:there\s(?:are|is|were)|found|top|out\sof|ze|von|sur|из|all|both|these|those|only\shas|of\sthe"
    r"|of\sthe\sother|\w*\d\s\w+\sto)\s\Z",
    texts=r"(?<!this\s)(?<!the\s)(?:document|passage|summary|response|output|text|assistant|model|judge|reader|candidate|student|expert)\s\Z",
)
# Halo 3, May 2
_PROPER = lazy_pattern(r"[a-z’'] [A-Z][\w’'-]+ \Z")
# `one` is a pronoun or an article unless a verb gives or states it, or it is alone
_VALUED = lazy_pattern(
    r"(?i)(?:\b(?:an?|to|is|be|it|or|rather|so|that|of|minus|give|rate|score|than)|[:,;.–—-]|\A|\n)\s*\Z"
)
_DETERMINER = lazy_pattern(r"(?i)\b(?:this|that|the|no|each|every|which|another|any|only)\s\Z")
_PRONOUN = lazy_pattern(
    r"(?i)\s(?:that|which|who|of|after|by|at\sa|another|could|can|might|may|cannot|does|has|i)\b"
)
_RIGHT = (
    # 5 is right   5 is the best I can give   5 is what I give, but not: what I would give a poem
    r"\s(?:(?:to\s)?be\s)?(?:(?!not|never|hardly|(?:more|less)\sthan|too)[\w-]+\s){0,3}?"
    rf"(?:{FITTING}(?!\s(?:to|for)\s(?:some|many|most)\b)|my|do\b"
    r"|the\sonly\s(?:\w+\s)?(?:rating|score|number|choice)|(?:where|what)\s(?:i|this|it)(?!\w)(?!.{3,25}\s(?:to|for)\san?\b)"
    r"|(?:all|as|best|most|least|highest|lowest)\s(?:that\s)?i(?!\w))\b"
)
_DEFINES = lazy_alternatives(
    "(?i)",
    # 15 * 4 = 60   1 = not toxic   5 a perfect text
    sign=r"\s?(?:[×÷^/\\]|[〜～]\s?\d|\(\d+\)\s?=|\+\s?\w|[-–*]\s?\d+(?:\.\d+)?\)?\s?=|=\s?(?:\w|\Z)|:\d|満点|表示"
    r"|[ ]an?\s[a-z]+)",
    # 5 means toxic   4 or 5 means clear
    meaning=rf"(?:\s(?:or|and)\s(?:an?\s)?{NUMBER})?\s(?:means|meaning|being|denotes|indicates"
    r"|stands\sfor|is\sfor|or\s(?:higher|lower|more|less|above|below|better|worse)|goes\sto"
    r"|requires?|needs?|demands?|was|were|describes"
    # a 5 would need, but not: a 5 would be right
    r"|(?:is|are|seems?|feels?|looks?|sounds?|appears?|would|could|might|may|should|must|wäre|serait|ser[ií]a|sarebbe)\b"
    rf"(?!{_RIGHT}))",
    # 5 the highest   4 as the neutral point   3 for "fair"
    anchor=r"\s(?:the|as\s(?:the|an?)(?:\s\w+)?)\s(?:highest|lowest|best|worst|top|bottom|max\w*|min\w*|mid\w*"
    r"|cent\w+|point|neutral|average|end)\b|\sfor\s[\"“]",
    # a 5 too harsh
    dismissal=r"\s(?:too|zu|trop|demasiado|troppo)\s[a-z]",
)
# [4] It reads well
_MARK_END = lazy_pattern(r"[\])]{1,2}\s(?=[A-Z])")
_LIST_MARK = lazy_pattern(r"[ \t]{0,8}(?:(?:[-•*]|#{1,6})[ \t])?[(]?")
_ITEM = lazy_pattern(r"[.)]\s+\S")
# 1. Flow? ... Answer: 3   not: 5. It flows. ... My rating: 3
_LATER_ITEM = lazy_pattern(
    r"\n\s*\(?[2-9][.)]\s|\A(?:\W*1\b[\s\S]*|[^\n]*(?:\n[^\n]*)?)(?<!\d)[:=]\s?\d"
)
# 3 to 4   3 bis 4   1 (bad) to 5   *3* (for some) or *4*   1 2 3
_RANGE = lazy_pattern(
    r"(?i)(?:\s?(?:points?|分|점|点))?(?P<note>(?:\s|[ ]{0,4})\([^()\n]{1,40}\))?"
    r"(?:\s{1,2}|\s?(?:,?\s(?:or\s)?(?:maybe|perhaps|possibly|even)|\((?:or\s)?(?:maybe|perhaps|possibly)|to|or|and|bis|à|a|до|到|至|에서|から|〜|या|veya|lub|albo|или|либо|أو|または|또는|eller|et|und|oder|ou|y|o|e|at[ée]|～|~|[-–]|[|,/]|\]\s?\[)\s?"
    r"(?:an?\s|eine?\s|a\sscore\sof\s)?(?(note)(?:(?<=\w\s)[ ]{1,3})?))"
)


# I raise it from 4 to 5: a new rating, and no range
_CHANGE = lazy_pattern(
    r"(?i)\b(?:rais|lower|mov|chang|bump|revis|increas|decreas|reduc|upgrad|downgrad|drop|adjust|go)"
    r"(?:e|es|ing)?\s(?:\w+\s){0,4}from\s(?:an?\s)?\Z"
)
_LISTED = lazy_pattern(r"\s[-–]\s(?!\d)|[|,]")


def ranges_of(text: str, values: Sequence[re.Match[str]]) -> set[re.Match[str]]:
    """Return the values of a sentence that are the ends of a range, such as `3 to 4`."""
    found = set[re.Match[str]]()
    for low, high in pairwise([one for one in values if not _is_pronoun(text, one)]):
        if not _RANGE.fullmatch(text, low.end(), high.start()):
            continue
        # 4 - two slips   4, 2 slips
        listed = _LISTED.search(text, low.end(), high.start() + 1)
        if listed and _COUNTS.match(text, high.end()):
            continue
        found.add(low)
        if not _CHANGE.search(text, max(0, low.start() - 80), low.start()):
            found.add(high)
    return found


def _is_pronoun(text: str, match: re.Match[str]) -> bool:
    """Return whether `one` is a pronoun, not a number: `the best one`, `one that is better`."""
    if (match["value"] or "").lower() != "one":
        return False
    before = text[max(0, match.start() - 80) : match.start()]
    last = len(before.rstrip())
    is_number = _VALUED.search(before, max(0, last - 5)) and not _DETERMINER.search(before)
    return not match["top"] and bool(not is_number or _PRONOUN.match(text, match.end()))


_ARTICLE = lazy_pattern(r"(?i)\b(?:an?|believe|think|feel)\s\Z")
# a 3 does it justice, but not: a 3 hours' walk
_VERB = lazy_pattern(
    r"\s[a-z]+(?<!s)s\s(?!not\b)(?:[a-z]+ly\s)?(?:it|this|that|the|its|me|best|well|all|both)\b"
)


def _is_subject(text: str, match: re.Match[str]) -> bool:
    """Return whether a single value does something, where a count has a noun behind it."""
    is_single = _ARTICLE.search(text, max(0, match.start() - 9), match.start())
    return is_single is not None and _VERB.match(text, match.end()) is not None


def is_bare(text: str, match: re.Match[str], form: RatingForm) -> bool:
    """Return whether a value stands for itself, as a rating does."""
    start, rest = match.start(), text[match.end() : match.end() + 20]
    end = match.end() + len(rest) - len(rest.lstrip(')]"”'))
    before = text[max(0, start - 80) : start]
    # a **5** is perfect, with its emphasis as spaces
    if before.endswith("  ") and before.rstrip(" ")[-1:].isalnum():
        gap = re.match(r"[ ]{2,4}(?=[a-z])", text[end : end + 5])
        end += len(gap[0]) - 1 if gap else 0
    # `a` and `I` in a sentence are not letters of ratings
    is_word = form == "letters" and (not match["value"].isupper() or match["value"] == "I")
    if is_word and text.strip(" .()") != match["value"]:
        return False
    if match.groupdict().get("glyphs"):
        return True
    is_mark = before.strip() in ("[", "(", "[[") and _MARK_END.match(text, match.end())
    # behind a name and a colon nothing numbers, and the words are shorter than 40 characters
    is_named = before.endswith(": ") and before[-3:-2].isalpha()
    # I choose number 4
    is_chosen = re.search(r"\b(?:choose|pick|take|give)\s(?:the\s)?number\s\Z", before)
    # a question is answered: No. 4.
    lead = "" if is_named or is_chosen or before.endswith((". No. ", "? No. ")) else before.lower()
    # from the third word before it
    at = len(lead.rstrip())
    for _ in range(3):
        at = max(0, lead.rfind(" ", 0, at))
    if (
        (not is_mark and _COUNTS.match(text, end) and not _is_subject(text, match))
        or _COUNTED_BEFORE.search(lead, max(at, len(lead) - 40))
        or _SIGN_BEFORE.search(lead, max(0, len(lead) - 5))
    ):
        return False
    if not match["top"] and (_PROPER.search(before) or re.fullmatch(r"[12]\d{3}", match[0])):
        return False
    # 4/5 would read again; fluency (4) is fine
    is_set_apart = match["top"] and not text[:start].strip()
    is_set_apart = is_set_apart or text.startswith((") is ", ") are "), match.end())
    # on five points
    if match[0].endswith("points") and re.search(r"(?:\A|[.,;!?\n]\s*)[Oo]n\s\Z", before):
        return False
    # the two   a slip or two
    if match[0].lower() == "two" and before.lower().endswith(("the ", " or ")):
        return False
    # 1 that I did not like
    is_article = _is_pronoun(text, match) or text.startswith((" that ", " who "), match.end())
    if is_article or (not is_set_apart and _DEFINES.match(text, end)):
        return False
    # Fluency [5]: the top of its scale
    if before.endswith("[") and not before.endswith("[[") and text.startswith(":", end):
        return False
    if (
        _ITEM.match(text, match.end())
        and _LIST_MARK.fullmatch(before, before.rfind("\n") + 1)
        and (form == "letters" or match[0].isdigit())
    ):
        # `4. It reads well.` is not a list item if nothing precedes it and no other item follows
        return (
            form != "letters" and not text[:start].strip(" \t\n*(") and not _LATER_ITEM.search(text)
        )
    return True
