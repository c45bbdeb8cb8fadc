r"""Reads the rating out of what a judge said.

A rating is read where an answer states it, once, on the scale that was asked: in a field `score`,
`rating` or the aspect's name of a JSON object, or in prose, by the grammar of `grammar.py`. Several
statements must agree, and no number behind them may revise them: one that is set off, or is in the
same sentence, a brief one, or one with words such as `no, wait`. An answer that names another
scale, in a field beside the score or in words, has none of ours. Everything else is no
rating, and is asked for again with a reminder of the form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from textassay.agents.reading.aspects import own_name, without_other_aspects
from textassay.agents.reading.grammar import RankedNumber, chosen_of, readings_of
from textassay.agents.reading.json_fields import read_json_fields
from textassay.agents.reading.notation import (
    blank_out,
    plain_text,
    without_enumeration,
    write_as_numbers,
)
from textassay.agents.reading.outcomes import DECLINED, NoRating, Rating
from textassay.agents.reading.scales import scale_in_words, without_scales
from textassay.agents.reading.values import WINDOW, RatingForm, Statement, value_pattern
from textassay.agents.reading.words import NOUN, TEXTS
from textassay.lazy import lazy_pattern
from textassay.runtime.declining import declines

MAX_ANSWER = 40_000
"""Characters of a longer answer that are read, at its end."""
_SHORT = 40
"""Characters of an answer that is likely to be given again."""


def parse_rating(
    text: str,
    *,
    scale: tuple[float, float],
    form: RatingForm = "number",
    aspect: str | None = None,
    labels: tuple[str, ...] = (),
) -> Rating | NoRating:
    """Return the rating that `text` gives, or why there is none.

    Never raises and never leaves the scale.

    Args:
        text: What the judge said.
        scale: Lowest and highest rating that was asked for.
        form: How the rating was asked for. A letter answers only `letters`, a number only the other
            two.
        aspect: Name of the judged aspect, which may label the rating.
        labels: Names of the letters from A on, which may stand beside or in place of them.
    """
    if len(text) <= _SHORT:
        return _parse_again(text, scale, form, aspect, labels)
    left_out = max(0, len(text) - MAX_ANSWER)
    found = _parse(text[left_out:], scale, form, aspect, labels)
    if isinstance(found, Rating):
        return Rating(found.value, (found.span[0] + left_out, found.span[1] + left_out))
    return found


# a quotation of several lines
_BLOCK = lazy_pattern(
    r"(?m)^[ \t]*(?:[\"“][^\"“”\n]{1,400}\n[^\"“”]{0,2000}[\"”]|\"{3}\n[^\"]{1,2000}\"{3})[ \t]*$"
)
_THOUGHT = lazy_pattern(r"(?s)<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)")
# In lower case, and `\W` in place of `\b`, so that a search only stops between words.
_WITHDRAWN = lazy_pattern(
    r"\W(?:(?:(?=[di])(?<!\bto\s)(?<!\bi\s)(?<!\bwill\s)(?:disregard|ignore)|retract|withdraw|scrap|take\sback)\s(?:that\b|the\s\d+(?![^.!?]*\b(?:rating|score|grade)\b)|(?:the|my|this)\s(?:\w+\s)?(?:score|rating|number|grade|mark)(?!\sscale))"
    r"|i\s(?:now\s|must\s|have\sto\s)?(?:withdraw|retract|take\s(?:it|that|th\w+\s\w+|my\s\w+)\sback)\b"
    r"|(?:can(?:no|['’])t|no\slonger)\sstands?\b"
    r"|i\s(?:must\s|have\sto\s)?abstain\b|(?:old|former|earlier)\s(?:score|rating)\sno\slonger\b"
    r"|(?:score|rating)\s(?:above\s)?is\s(?:\w+\s)?(?:no\slonger|not)\s(?:valid|correct|applicable)\b)"
)


# I am not sure which of the two is right; I leave it to the reader
_UNDECIDED = lazy_pattern(
    r"(?i)\b(?:(?:unsure|undecided|uncertain|not\s(?:sure|certain|clear))\s(?:about\s|as\sto\s)?"
    r"(?:which\s(?:of\s(?:the(?:se|m)?|those|both)(?:\stwo)?\s(?:is\b|should|to\b|applies|scores|ratings)"
    r"|one\b|score|rating|number)|what\s(?:score|rating)|between\b)"
    r"|(?:can(?:not|['’]t)|could(?:\snot|n['’]t))\s(?:\w+\s){0,2}?(?:decide|choose|(?:tell|say)\s(?:\w+\s)?which|make\sup\smy)"
    r"|(?:decide|choose)\sbetween|have\sto\s(?:tell\sme|know)|leave\s(?:it|the\s(?:choice|decision))\s(?:open|to\b)"
    r"|(?:choose|pick)\swhichever|let\sme\sknow\swhich|to\s(?:see|read)\sthe\s(?:rest|full|whole)\b|(?:though|or|maybe|but)\s(?:perhaps|maybe)\s(?:an?\s)?\d\W*\Z)"
)
# the one to be rated is missing; coherence was not assessed
_ASKED_TEXT = lazy_pattern(
    rf"(?i)\b(?:(?:{TEXTS}|one|file)\b[^.!?\n]{{0,30}}\b(?:you\s(?:\w+\s)?asked|to\sbe\s(?:rated|evaluated|assessed|judged|scored))"
    rf"|this\s(?:second|next|last|new)\s{TEXTS})\b"
)
_LACKING = lazy_pattern(
    r"(?i)\b(?:not|n['’]t|cannot|never|nothing|no\s(?:score|rating|number)|empty|missing|blank|lost|open|absent|elided|separate|n/a|later)\b|n['’]t\b"
)
_NOT_RATED = lazy_pattern(
    r"(?i)(?:\b(?:not|cannot|never)|n['’]t)\s(?:(?!quite|fully)\w+\s){0,3}?"
    r"(?:rate[ds]?|scored?|assess\w*|judged?|evaluated?|applicable|considered|look|gone?\sinto|say\s(?:any|much))\b"
    r"|\b(?:n/a|leave\s(?:it\s)?open|say\snothing|no\s(?:score|rating)|separate\srun|will\s(?:follow|be\srated))\b"
    r"|\b(?:nichts\s\w*sagen|nicht\s(?:be\w+|ein\w+))|\bne\s(?:peut|peux)\spas\s(?:être\s)?(?:évalu|jug|not)"
    r"|\bno\s(?:se\s)?pued[eo]\s|\bnon\s(?:si\s)?p(?:osso|uò)\s"
)


def _is_left_open(plain: str, end: int, own: str, *, is_named: bool) -> bool:
    """Return whether the judge is undecided, or says that the asked text or aspect is not rated.

    Args:
        plain: The answer without markup.
        end: Where the last number that may be its rating ends.
        own: Pattern of the aspect's name; empty for none.
        is_named: Whether the rating has the aspect's name beside it.
    """
    behind = plain[end:].lower()
    if " " in behind and _UNDECIDED.search(behind):
        return True
    mentions = [(_ASKED_TEXT.search(one), one) for one in re.findall(r"[^.!?;\n]+", behind)]
    if any(m and (m[0].startswith("this") or _LACKING.search(one)) for m, one in mentions):
        return True
    if not own or is_named or not re.search(own, plain, re.IGNORECASE):
        return False
    return any(
        _NOT_RATED.search(sentence) and re.search(own, sentence, re.IGNORECASE)
        for sentence in re.split(r"[.!?;\n]", plain)
    )


_OBJECT = lazy_pattern(r"\s*\{\s*(?:[\"'}]|\w+\s*:)")


def _parse(
    text: str,
    scale: tuple[float, float],
    form: RatingForm,
    aspect: str | None,
    labels: tuple[str, ...],
) -> Rating | NoRating:
    # `4` and `Score: 4` need none of the grammar's patterns, which take some 20 ms to compile
    digits = text.strip().removeprefix("Score: ").removeprefix("Rating: ").removesuffix(".")
    if form == "number" and len(digits) < 4 and digits.isascii() and digits.isdigit():  # no year
        start = text.index(digits)
        if scale[0] <= int(digits) <= scale[1]:
            return Rating(float(digits), (start, start + len(digits)))
    if "<think" in text:
        text = _THOUGHT.sub(lambda match: " " * len(match[0]), text)
    own, whole = own_name(aspect, text), write_as_numbers(plain_text(text), scale, form)
    if '"' in whole or "“" in whole:
        rest = _BLOCK.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), whole)
        whole = rest if rest.strip() else whole
    fields = read_json_fields(whole, scale, form, own, labels)
    if isinstance(fields, NoRating):
        return fields
    plain = blank_out(whole, [(field.start, field.end) for field in fields])
    other = next((field.other for field in fields if field.other), "")
    if form == "letters" and labels:
        named = _without_label_names(plain, labels)
        if isinstance(named, NoRating):
            return named
        plain = named
    stated = [field for field in fields if field.statement is not None]
    read, in_words = list[RankedNumber](), ""
    # half an object is not read as prose
    if (not fields and not _OBJECT.match(plain)) or (fields and plain.strip()):
        plain = without_other_aspects(re.sub(r"\"(\w{1,30})\"(?=\s?:)", r" \1 ", plain), own)
        plain, in_words = without_scales(plain, scale, own)
        plain = without_enumeration(plain)
        read = _without_counts(list(readings_of(plain, form, own, scale[0])), scale)
    prose, revising = chosen_of(read)
    if labels and not stated and not prose and (rating := _label_alone(plain, labels, scale)):
        return rating
    statements = [f.statement for f in stated if f.statement]
    statements += _without_replaced(plain, prose, own)
    if not prose and not any(field.counts for field in stated):
        return _missing(whole, statements)
    is_named = any(one.owner == "aspect" for one in read if one.statement in prose)
    if prose and not stated and _is_left_open(plain, prose[-1].end, own, is_named=is_named):
        return NoRating("NoScoreFound", "the answer leaves the rating open")
    end = max([*(field.end for field in stated), *(statement.end for statement in prose)])
    last = max(statement.span[0] for statement in statements)
    sentence = max(whole.rfind(sign, 0, last) for sign in ".!?\n") + 1
    if _WITHDRAWN.search(f"\n{whole[sentence:].lower()}"):
        return NoRating("NoScoreFound", "the answer takes its rating back")
    behind = [number for number in revising if number.span[0] >= end]
    return _settle(plain, statements, behind, scale, form, other or in_words)


def _without_counts(numbers: list[RankedNumber], scale: tuple[float, float]) -> list[RankedNumber]:
    """Return the numbers without those off the scale that are no ratings beside one on it."""
    low, high = scale
    is_rated = any(
        one.rank in ("stated", "said", "closing") and low <= one.statement.value <= high
        for one in numbers
    )
    return [
        one
        for one in numbers
        if low <= one.statement.value <= high
        or one.rank == "loose"
        or (one.rank != "set off" and (one.owner == "aspect" or not is_rated))
    ]


# final score: 3   let me lower my score to
_REPLACES = lazy_pattern(
    r"(?i)\b(?:final|revis\w+|correct(?:ed|ion)|updated?|adjust\w*|lower\w*|rais\w+|reduc\w+|chang\w+|new|settl\w+|stick\w*|on\sreflection|in\sthe\send)"
    r"\b(?![^\n]*\b(?:would|could|might|may|if)\b)[^\n.!?(),]{0,60}\Z"
)


_LABELED = lazy_pattern(r"[:=|]\W*\Z")
_DOUBT = lazy_pattern(
    r"(?i)\b(?:wait|but|actually|hmm+|however|reconsider\w*|reflection|too\s\w+|let\sme)\b"
)


def _without_replaced(plain: str, statements: list[Statement], own: str) -> list[Statement]:
    """Return the ratings without those that a final or revised one of the same thing replaces."""
    if len(statements) < 2:
        return statements
    leads = [plain[plain.rfind("\n", 0, one.span[0]) + 1 : one.span[0]] for one in statements]
    last = [_REPLACES.search(lead[-WINDOW:]) is not None for lead in leads]
    if not any(last) or not last[-1]:
        return statements
    named = [bool(own) and re.search(own, lead, re.IGNORECASE) is not None for lead in leads]
    if any(named) and not named[-1]:
        return statements
    # `Rating: 2 ... Final rating: 5`, without a word of doubt between them
    is_labeled = _LABELED.search(leads[-2]) and not last[-2] and "final" in leads[-1].lower()
    if is_labeled and not _DOUBT.search(plain, statements[-2].end, statements[-1].span[0]):
        return statements
    return [one for one, replaces in zip(statements, last, strict=True) if replaces]


# A judge who says no more than `4` or `Rating: 4` says it many times.
_parse_again = lru_cache(maxsize=1024)(_parse)


def _without_label_names(plain: str, labels: Sequence[str]) -> str | NoRating:
    """Return the text with the name behind a label's letter left out: `C: correct`, `C (correct)`.

    A letter with the name of another label chooses neither.
    """
    names = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    spans = list[tuple[int, int]]()
    last = chr(ord("A") + len(labels) - 1)
    # a sign between them, for `A good answer` begins with an article
    sign = r"(?:[)\].]\s?[:=–(\[\"-]?|\s?[:=–(\[\"-])"
    pattern = (
        rf"(?<!\w)(?P<letter>[A-{last}])(?P<named>{sign}\s?[\"“]?(?P<name>(?i:{names})))"
        r"(?!\w)(?P<close>[)\]\"”]*)"
    )
    for match in re.finditer(pattern, plain):
        if match["name"].lower() != labels[ord(match["letter"]) - ord("A")].lower():
            return NoRating(
                "Contradictory",
                f"the answer names the letter {match['letter']} and the label {match['name']!r}",
            )
        spans.append((match.start("named"), match.end("close")))
    return blank_out(plain, spans)


def _label_alone(
    plain: str, labels: Sequence[str], scale: tuple[float, float]
) -> Rating | NoRating | None:
    """Return the label whose name is the first or the last line: `correct`, `Verdict: correct`."""
    lines = [line for line in plain.split("\n") if line.strip()]
    found = dict[int, tuple[int, int]]()
    for line in {0: lines[0], -1: lines[-1]}.values() if lines else ():
        for index, label in enumerate(labels):
            pattern = (
                rf"(?i)\W{{0,8}}(?:(?:(?:final|overall|my|the)\s)*{NOUN}\s{{0,3}}(?:[:=]|is)\W{{0,6}})?"
                rf"(?P<name>{re.escape(label)})\W{{0,6}}"
            )
            if match := re.fullmatch(pattern, line):
                start = plain.rindex(line)
                found[index] = (start + match.start("name"), start + match.end("name"))
    if len(found) > 1:
        return NoRating("Contradictory", "the answer states more than one rating")
    return next((Rating(scale[0] + index, span) for index, span in found.items()), None)


def _settle(
    plain: str,
    statements: list[Statement],
    behind: list[Statement],
    scale: tuple[float, float],
    form: RatingForm,
    other: str,
) -> Rating | NoRating:
    """Return the one rating that is stated, or why there is none.

    Args:
        plain: The answer without markup.
        statements: Its ratings.
        behind: The numbers that follow them, which may take a rating back.
        scale: Lowest and highest rating.
        form: How the rating was asked for.
        other: The other scale that the answer names; empty for none.
    """
    rating = statements[-1]
    low, high = scale
    if len({(one.value, one.top or high) for one in statements}) > 1:
        return NoRating("Contradictory", "the answer states more than one rating")
    start, stop = rating.span
    lines = (line.strip() for line in plain.split("\n"))
    if len({line for line in lines if value_pattern(form).fullmatch(line)}) > 1:
        return NoRating("Contradictory", "several lines of the answer are different ratings")
    # `[[9]], [[5]]`, of two texts
    if "[[" in plain and len(set(re.findall(r"\[\[\s?(\w{1,4}(?:\.\d)?)\s?\]\]", plain))) > 1:
        return NoRating("Contradictory", "the answer marks more than one rating")
    if other:
        return NoRating(
            "OffScale",
            f"the answer names another scale ({other:.60}) than {scale_in_words(scale, form)}",
        )
    if rating.top not in (None, high) or not low <= rating.value <= high:
        shown = plain[start:stop] if form == "letters" else f"{rating.value:g}"
        out_of = f" out of {rating.top:g}" if rating.top is not None else ""
        return NoRating(
            "OffScale", f"the rating {shown}{out_of} is off {scale_in_words(scale, form)}"
        )
    if low < 0 < rating.value and _DASH.search(plain, max(0, start - 4), start):
        return NoRating("Contradictory", "the rating may be negative, or stand behind a dash")
    for number, *_ in behind:
        if low <= number <= high and number != rating.value:
            return NoRating(
                "Contradictory", f"{number:g} follows the rating {rating.value:g} by itself"
            )
    return Rating(rating.value, rating.span)


# Score - 1
_DASH = lazy_pattern(r"[-–—]\s*\Z")


def _missing(plain: str, statements: list[Statement]) -> NoRating:
    if not plain.strip():
        return NoRating("NoScoreFound", "the answer is empty")
    if not statements and declines(plain):
        return NoRating(DECLINED, "the judge declined to rate")
    return NoRating("NoScoreFound", "the answer contains no rating in a form that is read")
