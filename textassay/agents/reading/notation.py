r"""Rewrites markup and signs as plain text: emphasis, tags, LaTeX, stars, boxes, fractions.

Every character keeps its place, so that the place of a rating in the answer is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from textassay.agents.reading.outcomes import RatingForm
from textassay.agents.reading.values import WINDOW
from textassay.agents.reading.words import NOUN, NUMBER, NUMBER_WORDS, NUMBERS_ELSEWHERE, any_of
from textassay.lazy import lazy_pattern

_STARS = lazy_pattern(r"(?P<full>(?:[★⭐🌟]\ufe0f?[ ]?){1,10})(?P<empty>(?:☆[ ]?){0,10})")
# Score ....... 4
_LEADER = lazy_pattern(r"[ \t]?(?<=[\w ])(?:\.{4,}|(?<=\s)\.{3}|_{3,})(?=[ \t]?\d)")
# Score: 40%
_PERCENT = lazy_pattern(
    r"(?m)((?:^|[:=]|\b(?:an?|at|is)\b|['’]s\b)[ \t]*\d{1,3}(?:\.\d{1,3})?[ \t]?)"
    r"(?:%|percent\b)(?=[ \t]*(?:$|[.,;(]|on\b))"
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "0123456789" * 2)


_LATEX = lazy_pattern(
    r"\\(?:text|mathrm|mathbf|textbf)\{(?P<words>[^{}\n]{0,60})\}|\\[dt]?frac\{(?P<top>\d{1,3})\}\{(?P<bottom>\d{1,3})\}"
    r"|\\[\[\]()]|\${1,2}(?=\\|\s|\Z)"
)


def _plain_latex(text: str) -> str:
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
        plain = re.sub(
            r"(?P<top>[⁰¹²³⁴-⁹])⁄(?P<bottom>[₀-₉])",
            lambda match: f"{match['top']}/{match['bottom']}".translate(_SUPERSCRIPTS),
            plain,
        )
    if scale[1] == 100 and ("%" in plain or "percent" in plain):
        if len(re.findall(r"\d+(?:\.\d+)?", plain)) == 1:
            plain = plain.replace("%", " ")
        plain = _PERCENT.sub(lambda match: match[1].ljust(len(match[0])), plain)
    if scale[1] <= 1 and ": ." in plain:
        plain = re.sub(r"(?<=:)[ ](?=\.\d)", "0", plain)  # Score: .5
    if "~~" in plain:
        plain = re.sub(r"~~[^~\n]{1,80}~~", lambda match: " " * len(match[0]), plain)
    if "\n===" in plain:
        plain = re.sub(r"(?m)^=+[ \t]*$", lambda match: " " * len(match[0]), plain)
    if "..." in plain or "___" in plain:
        plain = _LEADER.sub(lambda match: ":".rjust(len(match[0])), plain)
    if form == "number" and not plain.isascii():
        plain = _STARS.sub(lambda match: _count_signs(match, scale[1]), plain)
    if " point " in plain or scale[1] > 10:
        plain = _NUMBER_IN_WORDS.sub(_in_digits, plain)
    # A) 1   B) 2   C) 3   Answer: C) 3
    options = (
        r"(?m)^[ \t]*\(?[Aa][.)][ \t]*\d+[ \t]*(?:\n[ \t]*\(?[B-Gb-g][.)][ \t]*\d+[ \t]*$){2,7}"
    )
    if ("B" in plain or "b)" in plain) and (listed := re.search(options, plain)):
        plain = blank_out(plain, [listed.span()])
        answer = r"(?i)\b(?:answer|choice)(?:\sis)?\s?:?[ \t]*(\(?[A-G][.)])(?=[ \t]*\d)"
        chosen = re.compile(answer).search(plain, listed.end())
        is_first = not re.search(r"\d", plain[: listed.start()])
        plain = blank_out(plain, [chosen.span(1)]) if chosen and is_first else plain
    if "(" in plain:
        plain = _IN_FIGURES.sub(_without_figure, plain)
    if "[ ]" in plain or "☐" in plain or "( )" in plain or "⬜" in plain:
        plain = re.sub(
            rf"(?m)(?:(?:{_EMPTY}|[☒☑]|[(\[][xX][)\]]|[ ]{{2,4}})"
            r"[ \t]{0,3}\d{1,2}\b[ \t]{0,3}){3,11}$",
            _choose_in_row,
            _chosen_box(plain),
        )
    return plain


_EMPTY = r"(?:\( \)|\[ \]|[☐⬜◻○])"


def _choose_in_row(row: re.Match[str]) -> str:
    """Return a row of boxes with numbers as the one number that is ticked: `☐ 1 ☒ 2 ☐ 3`."""
    kept = re.sub(rf"{_EMPTY}[ \t]*\d{{1,2}}\b", lambda box: " " * len(box[0]), row[0])
    ticked = re.sub(r"[☒☑]|[(\[][xX][)\]]", lambda box: " " * len(box[0]), kept)
    return ticked if len(re.findall(r"\d+", ticked)) == 1 else row[0]


# six (6)
_IN_FIGURES = lazy_pattern(rf"(?i)\b(?P<word>{'|'.join(NUMBER_WORDS)})(?P<figure>\s\(\d{{1,2}}\))")


def _without_figure(match: re.Match[str]) -> str:
    is_same = NUMBER_WORDS[match["word"].lower()] == int(match["figure"].strip(" ()"))
    return match["word"] + " " * len(match["figure"]) if is_same else match[0]


# Note: vier   Je dirais quatre   ¡Un dos!   Een dikke acht dus!   10 üzerinden yedi
_NUMBER_ELSEWHERE = lazy_pattern(
    r"(?i)(?P<before>[^\W_]\s?[:：=]\s{0,3}"
    r"|\b(?:dirais|mettrais|donne(?:rais)?|pondría|diría|daría|doy|pongo|direi|darei|metterei|daria|diria|dou"
    r"|gebe|vergebe|geef|daję|przyznaję|ставлю|أعطيها|أعطيه|sage)\s(?:\w+\s)?|(?:üzerinden|में\sसे)\s"
    r"|(?:\A|[.!?¡]\s*|\n|,\s(?:also|donc|dus|so)\s)\W{0,3}(?:(?:ein|eine|un|une|um|uma|een)\s(?:\w+\s)?)?)"
    rf"(?P<word>{'|'.join(NUMBERS_ELSEWHERE)})"
    rf"(?=(?:\s(?:dus|also|donc))?\W*(?:[.!,;:。।\n]|\Z|\s(?P<of>von|sur|su|de|van|na|из|av|من)\s(?P<top>\w+)\b))"
)


def with_digits(text: str) -> str:
    """Return the text with the number words of other languages, as ratings have them, as digits."""

    def digits(match: re.Match[str]) -> str:
        value = f"{NUMBERS_ELSEWHERE[match['word'].lower()]}"
        return match["before"] + value.ljust(len(match["word"]))

    if NUMBERS_ELSEWHERE.keys().isdisjoint(re.findall(r"[^\s!-@¡¿«»“”।。：—]+", text.lower())):
        return text
    word = rf"(?P<word>{'|'.join(NUMBERS_ELSEWHERE)})"
    text = re.sub(rf"(?i)\b(?P<before>){word}(?=\s(?:üzerinden|में\sसे)\s)", digits, text)
    written = _NUMBER_ELSEWHERE.sub(digits, text)
    top = rf"(?i)(?P<before>\d\s+(?:von|sur|su|de|van|na|из|av|من)\s){word}\b"
    return re.sub(top, digits, written) if written != text else text


# sixty-five   a hundred   seven point five
_TENS_WORDS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER_IN_WORDS = lazy_pattern(
    rf"(?i)\b(?:(?P<tens>{'|'.join(_TENS_WORDS)})(?:[ -](?P<unit>{'|'.join(NUMBER_WORDS)})\b)?"
    rf"|(?P<whole>{'|'.join(NUMBER_WORDS)})\spoint\s(?P<tenth>{'|'.join(NUMBER_WORDS)})\b"
    r"|(?:an?|one)\shundred\b)"
)


def _in_digits(match: re.Match[str]) -> str:
    if match["whole"]:
        whole, tenth = (NUMBER_WORDS[match[name].lower()] for name in ("whole", "tenth"))
        return f"{whole:g}.{tenth:g}".ljust(len(match[0]))
    if match["tens"] is None:
        return "100".ljust(len(match[0]))
    tens = 10 * (_TENS_WORDS.index(match["tens"].lower()) + 2)
    unit = NUMBER_WORDS[match["unit"].lower()] if match["unit"] else 0
    return f"{tens + unit:g}".ljust(len(match[0]))


def _count_signs(match: re.Match[str], high: float) -> str:
    full, empty = (sum(sign in "★⭐🌟☆" for sign in match[name]) for name in ("full", "empty"))
    room = len(match[0])
    if not empty and high != 5:
        return match[0]
    line = match.string[max(0, match.start() - WINDOW) : match.start()].rpartition("\n")[2]
    of_top = r"(?:\sstars?)?(?:\s?/\s?\d+|\sout\sof\s\d+)?"
    if line.strip() and (
        (full == 1 and not empty) or re.search(rf"(?<![\d.]){full}{of_top}\W*\Z", line)
    ):
        return " " * room  # an ornament, or the same once more
    # ⭐⭐⭐ It was okay
    opens = full > 1 and not line.strip() and match.string[match.end() : match.end() + 1].isalpha()
    written = f"{full}/{full + empty}." if empty else f"{full}." if opens else str(full)
    return written.ljust(room) if len(written) <= room else match[0]


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


# **4**   __4__   `4`   \boxed{4}: signs that only emphasize
_MARKUP = lazy_pattern(
    # pictures, but for stars and boxes
    r"[*_`\u2600-\u2604\u2607-\u260f\u2613-\u27bf\U0001f300-\U0001f31e\U0001f320-\U0001faff]"
    # struck out
    r"|~~[^~\n]{1,80}~~"
    r"|\${0,2}\\boxed\{(?P<boxed>[^{}\n]{1,20})\}\${0,2}"
    r"|</?(?:b|i|u|em|strong|mark|p|span|div)>|<br\s?/?>"
)
# fullwidth and other forms of the same signs
_SAME = str.maketrans("➡➔➜➤\ufe0f（）：／＝【】０１２３４５６７８９", "→→→→ ():/= :0123456789")
# <|im_end|>   </s>   DeepSeek's with wide bars   <end_of_turn>: what some servers leave in
_SPECIAL = lazy_pattern(
    r"<[|｜][^<>|｜\s]{1,40}[|｜]>|</?s>|<(?:eos|bos|pad|eot)>|<(?:start|end)_of_turn>|\[/?INST\]"
)
# <score>4</score>   [RESULT] 4
_TAG = lazy_pattern(
    # <score id="2" max="3">2</score>
    r"(?i)<(?P<tag>[a-z]\w{0,30})(?P<attributes>(?:(?:\s{1,9}[\w-]{1,30}){1,3}=[\"'][^\"'<>\n]{0,80}[\"']){1,9})"
    r"\s?/?>(?=(?P<valued>\s*\d{1,3}(?:\.\d+)?(?:\s?/\s?\d+)?\s*</)?)"
    rf"|<(?P<close>/?)[a-z][\w -]{{0,30}}>|\[{NOUN}\](?!\()|\[\[{NOUN}\]\]"
    rf"|(?:\{{\{{{NOUN}\}}\}}|\{{{NOUN}\}})(?::(?=\s))?"
    rf"|\({NOUN}\)(?=\s?\d{{1,3}}\s*(?:\n|\Z))"
)


def plain_text(text: str) -> str:
    """Return the text with emphasis as spaces and tags as names on lines of their own.

    Every character stays at its place.
    """
    if "\\n" in text and "{" not in text and "\n" not in text.strip():
        text = re.sub(r"\\n(?![a-z])", " \n", text)  # escaped ends of lines
    if "【" in text:
        text = re.sub(r"【(\s?\d{1,3}(?:\.\d)?\s?)】", r" \1 ", text)
    written = text = _plain_latex(text if text.isascii() else text.translate(_SAME))
    if "<" in text or "[" in text or "{" in text or ") " in text:
        # Rating: <3>
        text = re.sub(
            r"(<{1,2})(\s?\d{1,3}(?:\.\d)?\s?)(>{1,2})",
            lambda match: " " * len(match[1]) + match[2] + " " * len(match[3]),
            text,
        )
        text = _SPECIAL.sub(lambda match: "\n" + " " * (len(match[0]) - 1), text)
        # before the tags: `<b>` is one
        text = _MARKUP.sub(_blank_out, text)
        return _TAG.sub(lambda match: _as_name(match, written), text)
    if text.isascii() and not any(sign in text for sign in "*_`~\\"):
        return text
    return _MARKUP.sub(_blank_out, text)


def turn_ends(text: str) -> list[int]:
    """Return where the end-of-turn tokens of an answer begin."""
    return [match.start() for match in _SPECIAL.finditer(text)]


def without_special_tokens(text: str) -> str:
    """Return the text without the end-of-turn tokens that some servers leave in."""
    return _SPECIAL.sub("", text)


def _as_name(match: re.Match[str], written: str) -> str:
    line = written[written.rfind("\n", 0, match.start()) + 1 : match.start()][-WINDOW:]
    in_code = line.count("`") % 2 and line.strip("` ")
    if line.count('"') % 2 or in_code:  # quoted
        return match[0]
    if match["tag"]:
        return _as_element(match)
    name = "" if match["close"] or len(match[0]) <= 4 else f"{match[0].strip('<[]>{}():')}:"
    return "\n" + name.rjust(len(match[0]) - 1)


def _as_element(match: re.Match[str]) -> str:
    """Return a tag with attributes as a name, with the limits of its value, if it rates nothing."""
    opening, is_valued = match[0], match["valued"] is not None
    pairs = {
        key.lower(): value
        for key, value in re.findall(r"\s([\w -]+)=[\"']([^\"']*)[\"']", match["attributes"])
    }
    # what an attribute numbers, weighs or limits
    numbering = any_of("id n no nr num number index idx order position step weight version count")
    limits = any_of("min max low high scale range out_of")
    subjects = ("name", "aspect", "criterion", "dimension", "metric")
    subject = next((pairs[key] for key in subjects if pairs.get(key)), "")
    numbers = [key for key, value in pairs.items() if re.match(r"\s*\d", value)]
    if not is_valued and not (subject or numbers):
        return opening
    no_value = rf"(?:.* )?{numbering}|(?:.* )?{limits}(?: .*)?"
    if not is_valued and not all(re.fullmatch(no_value, key) for key in numbers):
        numbered = rf"(?i)\s{numbering}=[\"'][^\"']*[\"']"
        return re.sub(numbered, lambda one: " " * len(one[0]), opening)
    limit = pairs.get("scale") or pairs.get("range") or ""
    if top := pairs.get("max") or pairs.get("out of"):
        limit = f"{pairs['min']}-{top}" if "min" in pairs else f"max {top}"
    name = f"\n{subject or match['tag']}{f' ({limit})' if limit and is_valued else ''}:"
    return name.ljust(len(opening))


def _blank_out(match: re.Match[str]) -> str:
    boxed = match["boxed"]
    if boxed is None:
        return " " * len(match[0])
    before = match.start("boxed") - match.start()
    return " " * before + boxed + " " * (match.end() - match.end("boxed"))


# (1) ...   Step 2: ...   Part (c): ...   Step 4 (rating): 2
_ENUMERATED = lazy_pattern(
    r"(?mi)^[ \t]*(?:(?:[-•*][ \t])?"
    r"(?:step|part|criterion|check|question|item|aspect|task|stage)[ \t]?[(]?(?P<step>\d{1,2})[)]?"
    r"(?P<titled>[ \t]*[(][^()\n\d]{1,60}[)])?[ \t]?[.:–-]?"
    r"|(?:#{1,6}[ \t]*|[(])(?P<number>\d{1,2})[).]"
    r"|\|[ \t]*(?P<row>\d{1,2})(?=[ \t]*\|[ \t]*[^\W\d]))(?=[ \t])"
)


def without_enumeration(plain: str) -> str:
    """Return the text without the numbers of its steps or items, if they count from 1."""
    marks = list(_ENUMERATED.finditer(plain)) if "1" in plain else []
    numbers = [int(mark["step"] or mark["number"] or mark["row"]) for mark in marks]
    if len(marks) < 2 or numbers != [*range(1, len(marks) + 1)]:
        return plain
    spans = [
        (mark.start(), mark.start("titled") if mark["titled"] else mark.end()) for mark in marks
    ]
    if marks[-1]["titled"]:
        title = marks[-1]["titled"].strip(" \t()")
        start = plain.index(title, marks[-1].start("titled"))
        spans[-1:] = [(spans[-1][0], start), (start + len(title), start + len(title) + 1)]
    return blank_out(plain, spans)


def blank_out(plain: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with spaces in place of spans, which are in order; lines stay."""
    pieces, at = list[str](), 0
    for start, end in spans:
        if start >= at:
            pieces += plain[at:start], re.sub(r"[^\n]", " ", plain[start:end])
            at = end
    return "".join([*pieces, plain[at:]])
