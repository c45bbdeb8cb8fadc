r"""Writes ratings in signs as the numbers that they stand for: stars, boxes, fractions, halves.

Every character stays at its place, so that the place of a rating in the answer is known.
"""

from __future__ import annotations

import re
from itertools import pairwise

from textassay.agents.reading.grammar import RatingForm
from textassay.agents.reading.words import NOUN, NUMBER
from textassay.lazy import lazy_pattern

_STARS = lazy_pattern(r"(?P<full>(?:[★⭐🌟]\ufe0f?[ ]?){0,10})(?P<empty>(?:☆[ ]?){0,10})")
# 4️⃣
_KEYCAP = lazy_pattern("\ufe0f?\u20e3")
# Score ....... 4
_LEADER = lazy_pattern(r"[ \t]?(?<=[\w ])(?:\.{4,}|(?<=\s)\.{3}|_{3,})(?=[ \t]?\d)")
_FRACTION = lazy_pattern(r"(?P<top>[⁰¹²³⁴-⁹])⁄(?P<bottom>[₀-₉])")
_INTEGERS = lazy_pattern(r"\d+(?:\.\d+)?")
# Score: 40%
_PERCENT = lazy_pattern(r"(?m)((?:^|[:=])[ \t]*\d{1,3}(?:\.\d{1,3})?[ \t]?)%(?=[ \t]*(?:$|[.,;(]))")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "0123456789" * 2)


_LATEX = lazy_pattern(
    r"\\(?:text|mathrm|mathbf|textbf)\{(?P<words>[^{}\n]{0,60})\}|\\[dt]?frac\{(?P<top>\d{1,3})\}\{(?P<bottom>\d{1,3})\}"
    r"|\\[\[\]()]|\${1,2}(?=\\|\s|\Z)"
)


def plain_latex(text: str) -> str:
    """Return the text with the commands around words and fractions as spaces."""
    return _LATEX.sub(_of_latex, text) if "\\" in text else text


def _of_latex(match: re.Match[str]) -> str:
    if match["top"]:
        return f"{match['top']}/{match['bottom']}".ljust(len(match[0]))
    if match["words"] is None:
        return " " * len(match[0])
    before = match.start("words") - match.start()
    return " " * before + match["words"] + " " * (match.end() - match.end("words"))


def write_as_numbers(plain: str, scale: tuple[float, float], form: RatingForm) -> str:
    """Return the text with signs replaced by numbers; letters are left as they are."""
    if form == "letters":
        return plain
    if "⁄" in plain:
        plain = _FRACTION.sub(
            lambda match: f"{match['top']}/{match['bottom']}".translate(_SUPERSCRIPTS), plain
        )
    if scale[1] == 100 and "%" in plain:
        alone = len(_INTEGERS.findall(plain)) == 1
        plain = plain.replace("%", " ") if alone else _PERCENT.sub(r"\1 ", plain)
    if "\u20e3" in plain:
        plain = _KEYCAP.sub(lambda match: " " * len(match[0]), plain)
    if "..." in plain or "___" in plain:
        plain = _LEADER.sub(lambda match: ":".rjust(len(match[0])), plain)
    if form == "number" and any(sign in plain for sign in "★⭐🌟"):
        plain = _STARS.sub(lambda match: _counted(match, scale[1]), plain)
    if "[" in plain or "(" in plain:
        plain = _ROW.sub(_chosen_of_row, plain)
    if any(box in plain for box in ("[ ]", "☐", "( )")):
        plain = _chosen_box(plain)
    return plain


def _counted(match: re.Match[str], high: float) -> str:
    full, empty = (sum(sign in "★⭐🌟☆" for sign in match[name]) for name in ("full", "empty"))
    room = len(match[0])
    if not full or (not empty and high != 5):
        return match[0]
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    if full == 1 and not empty and line.strip():
        return " " * room  # an ornament
    if _NUMBER_NEXT.match(match.string, match.end()):
        return " " * room  # an ornament
    if not empty:
        return str(full).ljust(room) if len(str(full)) <= room else match[0]
    written = f"{full}/{full + empty}."
    return written.ljust(room) if len(written) <= room else match[0]


_NUMBER_NEXT = lazy_pattern(r"\s{0,4}\d")
# 1 --- 2 --- 3 --- [4] --- 5
_STEP = r"[ \t]{0,3}(?:[-–—=.·|/]{1,6}|,)?[ \t]{1,3}"
_ROW = lazy_pattern(
    rf"(?<![^\n])[ \t]*(?:\d{{1,3}}{_STEP}){{0,10}}(?P<chosen>[\[(]\s?\d{{1,3}}\s?[\])])"
    rf"(?:{_STEP}\d{{1,3}}){{0,10}}[ \t]*(?![^\n])"
)


def _chosen_of_row(match: re.Match[str]) -> str:
    numbers = [int(number) for number in re.findall(r"\d+", match[0])]
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) < 3 or steps != {1}:
        return match[0]
    start, end = (at - match.start() for at in match.span("chosen"))
    chosen = re.sub(r"\D", " ", match["chosen"])
    return " " * start + chosen + " " * (len(match[0]) - end)


_BOX = lazy_pattern(
    r"(?m)^[ \t]*(?:[-+][ \t])?(?P<box>\[[ xX✓✔]\]|[☐☑☒✅✔]|\([ xX]\))[ \t]*"
    rf"(?P<value>{NUMBER})(?P<rest>[^\w\n][^\n]*)?$"
)


def _chosen_box(plain: str) -> str:
    """Return the text with one ticked box of several as `Score: 2`, the others as spaces."""
    boxes = list(_BOX.finditer(plain))
    ticked = [box for box in boxes if re.search(r"[xX✓✔☑☒✅]", box["box"])]
    if len(boxes) < 2 or len(ticked) != 1:
        return plain
    pieces, at = list[str](), 0
    for box in boxes:
        start, end = box.span("value")
        kept = box["value"] if box is ticked[0] else " " * (end - start)
        pieces += [plain[at : box.start()], " " * (start - box.start()), kept]
        pieces.append(" " * (box.end() - end))
        at = box.end()
    return "".join([*pieces, plain[at:]])


# Fluency: 5/5 - fine   | Fluency | 5 | fine |   1. Fluency (1-5): 5
_NAMED = (
    r"[ \t]*(?:(?:[-•+|]|#{{1,6}}|\d{{1,2}}[.)])[ \t]*){{0,2}}(?P<name>{name})[ \t]*"
    r"(?:\([^()\n]{{0,20}}\)[ \t]*)?(?:[:：=|→–—-])[ \t]*(?P<value>{number})"
    r"(?=[ \t]*(?:/[ \t]*\d|out\sof|[|,;.(–-](?:\D|$)|$))[^\n]*"
)
# they speak of the same rating once more, or of another one of the same aspect
_AGAIN = lazy_pattern(
    rf"(?i).*\b(?:{NOUN}|overall|final|total|correct(?:ion|ed)?|revised|updated?|edit(?:ed)?|actually"
    r"|no|wait|so|now|rather|better|or|hmm|max(?:imum)?|min(?:imum)?|scale|range|out|best|highest|lowest|top|change[ds]?|average|mean|conclusion|verdict)\b.*"
)


_TOTAL = lazy_pattern(r"(?i)(?:overall|average|mean|total)(?:\s(?:score|rating))?")


# Fluency: 4, Style: 3
_PAIR = rf"[^\W\d_][^\n:：=,;()\d]{{0,40}}[:：=][ \t]?{NUMBER}(?:/\d+)?"
_PAIRS = lazy_pattern(rf"(?mi)^[ \t]*{_PAIR}(?:[ \t]?[,;][ \t]?{_PAIR}){{1,12}}[ \t]*[.;]?[ \t]*$")


def _own_pair(line: str, own: str) -> str:
    """Return a line of pairs with the pairs of other aspects as spaces."""
    pairs = re.split(r"([,;])", line)
    mine = [re.match(rf"(?i)\s*{own}(?:\s{NOUN})?\s?[:：=]", pair) is not None for pair in pairs]
    if sum(mine) != 1 or any(_AGAIN.fullmatch(pair) for pair in pairs):
        return line
    return "".join(
        pair if kept else " " * len(pair) for pair, kept in zip(pairs, mine, strict=True)
    )


def without_other_aspects(plain: str, own: str) -> str:
    """Return the text without the ratings of other aspects in a list that names the asked one."""
    if not own:
        return plain
    if "," in plain or ";" in plain:
        plain = _PAIRS.sub(lambda match: _own_pair(match[0], own), plain)
    if "\n" not in plain:
        return plain
    any_name = r"[^\W\d_][^\n:：=|→()\d]{0,40}?"
    lines = list(re.finditer(rf"(?mi)^{_NAMED.format(name=any_name, number=NUMBER)}$", plain))
    is_own = re.compile(rf"(?i){own}(?:\s{NOUN})?")
    if sum(is_own.fullmatch(line["name"].strip()) is not None for line in lines) != 1:
        return plain
    others = [
        line
        for line in lines
        if not is_own.search(line["name"]) and not _AGAIN.fullmatch(line["name"])
    ]
    if len(others) > 1:  # a total of all of them
        others = [
            line for line in lines if line in others or _TOTAL.fullmatch(line["name"].strip())
        ]
    pieces, at = list[str](), 0
    for line in others:
        pieces += plain[at : line.start()], " " * (line.end() - line.start())
        at = line.end()
    return "".join([*pieces, plain[at:]])
