r"""Reads the rating in a judge's answer.

A rating is read where an answer states it, once, on the scale that was asked: in a field `score`,
`rating` or the aspect's name of a JSON object, or in prose, by the grammar of `grammar.py`. Several
statements must agree, and no number behind them may revise them: one that is set off, or is in the
same sentence, a brief one, or one with words such as `no, wait`. What follows a rating as a further
example of the prompt's template is another text's (`continuations.py`). An answer that names
another scale, in a field beside the score or in words, has no rating on ours. Any other answer
has no rating, and is requested again with a reminder of the form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from textassay.agents.reading.aspects import own_name, without_other_aspects
from textassay.agents.reading.continuations import (
    next_example,
    openers,
    without_cut_repetition,
)
from textassay.agents.reading.grammar import RankedNumber, chosen_of, readings_of
from textassay.agents.reading.json_fields import RatingField, read_json_fields
from textassay.agents.reading.notation import (
    blank_out,
    plain_text,
    turn_ends,
    with_digits,
    without_enumeration,
    write_as_numbers,
)
from textassay.agents.reading.outcomes import DECLINED, MAX_ANSWER, NoRating, Rating, RatingForm
from textassay.agents.reading.scales import scale_in_words, without_scales
from textassay.agents.reading.texts import rates_other_text
from textassay.agents.reading.values import (
    WINDOW,
    Statement,
    number_in,
    statement_of,
    value_pattern,
)
from textassay.agents.reading.words import NOUN, NUMBER, TEXTS
from textassay.lazy import lazy_alternatives, lazy_pattern
from textassay.runtime.declining import declines

_MAX_CACHED = 40
"""Characters of an answer that is likely to be given again, such as `4` or `Rating: 4`."""

_THOUGHT = lazy_pattern(r"(?s)<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)")
# a quotation of several lines
_BLOCK = lazy_pattern(
    r"(?m)^[ \t]*(?:[\"“][^\"“”\n]{1,400}\n[^\"“”]{0,2000}[\"”]|\"{3}\n[^\"]{1,2000}\"{3})[ \t]*$"
)
# Coherence: 4
_RATED_LINE = lazy_pattern(rf"(?i)\n[^\n:：]{{1,40}}[:：]\s*{NUMBER}")
# half of {"score": 4}
_OBJECT = lazy_pattern(r"\s*\{\s*(?:[\"'}]|\w+\s*:)")
# In lower case, and `\W` in place of `\b`, so that a search only stops between words.
_WITHDRAWN = lazy_alternatives(
    r"\W",
    # ignore that   disregard the 4   scrap my first score
    order=r"(?:disregard(?<!\bto\sdisregard)(?<!\bi\sdisregard)(?<!\bwill\sdisregard)"
    r"|ignore(?<!\bto\signore)(?<!\bi\signore)(?<!\bwill\signore)|retract|withdraw|scrap|take\sback)\s"
    r"(?:that\b|the\s\d+(?![^.!?]*\b(?:rating|score|grade)\b)|(?:the|my|this)\s(?:\w+\s)?(?:score|rating|number|grade|mark)(?!\sscale))",
    # no, scratch that   please cancel it   kindly discard this rating
    request=r"(?:(?:(?<=[.,;:!?–—-]\s)|(?<=[\n(])|please\s(?:to\s)?|kindly\s|no\s)(?:please\s(?:to\s)?)?"
    r"(?:forget|scratch|cancel|strike|discard|disregard|ignore))\s"
    r"(?:(?:that|it)(?=\W*\Z|\s?[.,!;:\n]|\s(?:from|and)\b)|(?:that|the|my|this)\s(?:\w+\s)?(?:score|rating|number|grade|mark)(?!\sscale)\b)",
    # I must retract it   I take that rating back
    retraction=r"i\s(?:now\s|must\s|have\sto\s)?(?:withdraw|retract|take\s(?:it|that|th\w+\s\w+|my\s\w+)\sback)\b",
    # no, that's wrong   that was for the other one   I read the wrong text
    slip=r"no,?\s(?:that|this|it)(?:['’]s|\sis|\swas)\s(?:wrong|not\sright|a\smistake)\b"
    r"|(?:that|this|\d)\swas\s(?:meant\s|intended\s)?for\s(?:another\b|(?:the|a)\s(?:other|previous|one\s(?:above|before)))"
    r"|i\s(?:\w+\s)?(?:read(?:ing)?|rated|took|look(?:ed|ing)\sat)\sthe\swrong\b|mixed\sup\sthe\stwo\b",
    # diese Note ziehe ich zurück   je retire cette note
    foreign=r"(?:zieh|nehm)e\s(?:\w+\s){1,4}zurück|je\s(?:la\s|le\s)?retire|j['’]annule|retiro\s(?:es[at]a?|mi|la)\s(?:not|punt|calif|valor)"
    r"|ritiro\s(?:il|quest\w|quel)\s(?:voto|punt)|отзываю|отменяю|отказываюсь\sот\sэтой",
    # Rating: 4 (retracted)   Status: withdrawn
    status=r"(?<=[\n(])\W{0,9}(?:status\W{1,9})?(?:retracted|withdrawn|revoked|void|superseded)(?=\W*\Z|[):\n])",
    # the 4 no longer stands
    fall=r"(?:can(?:no|['’])t|no\slonger)\sstands?\b",
    # I have to abstain
    abstention=r"i\s(?:must\s|have\sto\s)?abstain\b",
    # my earlier score no longer holds
    former=r"(?:old|former|earlier)\s(?:score|rating)\sno\slonger\b",
    # the rating above is therefore not valid
    invalid=r"(?:score|rating)\s(?:above\s)?is\s(?:\w+\s)?(?:no\slonger|not)\s(?:valid|correct|applicable)\b",
)
# in lower case
_UNDECIDED = lazy_alternatives(
    r"\b",
    # I am not sure which of the two is right   unsure between them
    unsure=r"(?:unsure|undecided|uncertain|not\s(?:sure|certain|clear))\s(?:about\s|as\sto\s)?"
    r"(?:which\s(?:of\s(?:the(?:se|m)?|those|both)(?:\stwo)?\s(?:is\b|should|to\b|applies|scores|ratings)|one\b|score|rating|number)|what\s(?:score|rating)|between\b)",
    # I cannot really decide   I couldn't tell you which
    unable=r"go(?:ing)?\sback\sand\sforth|(?:can(?:not|['’]t)|could(?:\snot|n['’]t))\s(?:\w+\s){0,2}?(?:decide|choose|settle|(?:tell|say)\s(?:\w+\s)?which|make\sup\smy)",
    # it is hard to decide between them
    choice=r"(?:decide|choose)\sbetween",
    # I leave it to the reader   let me know which
    for_reader=r"have\sto\s(?:tell\sme|know)|leave\s(?:it|the\s(?:\w+\s)?(?:choice|decision|call))\s(?:open|to\b)|(?:choose|pick)\swhichever|let\sme\sknow\swhich",
    # I cannot give you a score   I do not feel able to assign a rating
    declined=r"i\s(?:can(?:no|['’])t|cannot|won['’]t|will\snot|(?:am|feel|do)\s(?:\w+\s){0,3}?(?:unable|able|in\sa\sposition)\sto)\s(?:\w+\s){0,2}?"
    r"(?:give|assign|provide|offer)\s(?:(?:you|it|this|an?|any|the|final|overall)\s){0,4}(?:score|rating|grade|mark)(?!\s(?:of|for\s(?:its|the)|higher|above|on)\b)",
    # over de samenhang durf ik niets te zeggen
    silent=r"(?:niets\s(?:te\s)?zeggen|nichts\s(?:\w+\s)?sagen|rien\sdire|decir\snada|dire\snulla|dizer\snada)\b",
    # I would not presume to label it   I'd not want to decide that
    reserve=r"i(?:\swould|['’]d)\s(?:not\s(?:presume|dare|want|wish|like|care)\sto|prefer\snot\sto|rather\snot)\s(?:label|rate|score|judge|decide|commit|grade|choose|assess|evaluate)\b"
    r"(?![^.,;]*\b(?:lower|higher|more|less|better|worse|too|\d))",
    # it is not said which applies
    unclear=r"which\s(?:one\s)?(?:applies|counts)\b",
    # I would need to see the rest
    unread=r"to\s(?:see|read)\sthe\s(?:rest|full|whole)\b",
    # and so is a 3   both are fine   I keep going round in circles
    either=r"and\sso\s(?:is|does|would|might|could)\s(?:an?\s)?\d|both\s(?:(?:ratings|scores|numbers|positions|views|of\sthem)\s)?(?:are|seem|feel|would\sbe)\s(?:\w+\s)?"
    r"(?:fine|possible|defensible|reasonable|valid|right|plausible|justif\w+|fair|ok(?:ay)?)\b|round\sin\scircles",
    # cut off: the rating would be a
    end=r"(?:rating|score|grade|mark|verdict)\s(?:\w+\s){0,3}(?:is|be|of|as)(?:\san?)?\s*\Z",
    # or maybe a 3
    second_number=r"(?:though|or|maybe|but)\s(?:perhaps|maybe)\s(?:an?\s)?\d\W*\Z",
)
# the one to be rated is missing   this second text, in lower case
_ASKED_TEXT = lazy_pattern(
    rf"\b(?:(?:{TEXTS}|one|file)\b[^.!?\n]{{0,30}}\b(?:you\s(?:\w+\s)?asked|to\sbe\s(?:rated|evaluated|assessed|judged|scored))"
    rf"|this\s(?:(?:second|next|last|new)\s{TEXTS}|(?:second|next)\sone)"
    # The second one, which I'm supposed to rate, is longer
    rf"|(?:second|other|next|new)\s(?:one|version|{TEXTS})\b[^.!?\n]{{0,20}}\b(?:supposed|asked|meant)\sto\s\w+)\b"
)
_LACKING = lazy_pattern(
    r"\b(?:not|n['’]t|cannot|never|nothing|no\s(?:score|rating|number)|empty|missing|blank|lost|open|absent|elided|separate|n/a|later)\b|n['’]t\b"
)
_NOT_RATED = lazy_alternatives(
    "(?i)",
    # coherence was not really assessed
    english_verb=r"(?:\b(?:not|cannot|never)|n['’]t)\s(?:(?!quite|fully|easy|simple|trivial)\w+\s){0,3}?"
    r"(?:rate[ds]?|scored?|assess\w*|judged?|evaluated?|applicable|considered|look|gone?\sinto|say\s(?:any|much))\b",
    # coherence: n/a   coherence will follow
    english=r"\b(?:n/a|leave\s(?:\w+\s){0,2}?open|unscored|unrated|leave\s[^.,;]*\swithout\s(?:an?\s)?(?:score|rating|grade|mark|number)|say\snothing|no\s(?:score|rating)|separate\srun|will\s(?:follow|be\srated))\b",
    # wird nicht bewertet   zur Kohärenz kann ich nichts sagen
    german=r"\b(?:nichts\s\w*sagen|nicht\s(?:be\w+|ein\w+))",
    # ne peut pas être évaluée
    french=r"\bne\s(?:peut|peux)\spas\s(?:être\s)?(?:évalu|jug|not)",
    # no se puede evaluar
    spanish=r"\bno\s(?:se\s)?pued[eo]\s",
    # non si può valutare
    italian=r"\bnon\s(?:si\s)?p(?:osso|uò)\s",
    # die coherentie kan ik niet beoordelen   não posso avaliar
    dutch=r"\b(?:niet\s(?:be|in)\w+|geen\s(?:cijfer|oordeel|score))",
    portuguese=r"\bn[ãa]o\s(?:se\s)?(?:(?:posso|pode|consigo|dá)\s|avali)",
    # 连贯性无法判断   一貫性については判断できません   일관성은 평가할 수 없다
    cjk=r"(?:无法|無法|没法|不能|难以)\w{0,4}(?:[判评評打给給]|确定)|不[打评評予]分?|(?:判断|評価)(?:でき|は?し?ま?せ)|(?:평가|판단)할\s?수\s?없",
)
# 1. Overview   (2) Analysis
_NUMBERED_TITLE = lazy_pattern(r"\W*\d{1,2}[.)][ \t]+[^\W\d][^\n.!?:]*(?:\n|\Z)")
# final score: 3   let me lower my score to
_REPLACES = lazy_pattern(
    r"(?i)\b(?:final|revis\w+|correct(?:ed|ion)|updated?(?!\s\w+\sset\b)|adjust\w*|lower\w*|rais\w+|reduc\w+|chang\w+|new|settl\w+|stick\w*|on\sreflection|in\sthe\send)"
    r"\b(?![^\n]*\b(?:would|could|might|may|if)\b)[^\n.!?(),]{0,60}\Z"
)
# Rating:
_LABELED = lazy_pattern(r"[:=|]\W*\Z")
_DOUBT = lazy_pattern(
    r"(?i)\b(?:wait|but|actually|hmm+|however|reconsider\w*|reflection|too\s\w+|let\sme)\b"
)


class _Question(NamedTuple):
    """What the judge was asked."""

    scale: tuple[float, float]
    form: RatingForm
    own: str
    """Pattern of the aspect's name; empty for none."""
    labels: tuple[str, ...]


class _Prose(NamedTuple):
    """What an answer says outside JSON."""

    plain: str
    """The answer without markup, JSON and what is said of other aspects, with spaces in place."""
    numbers: list[RankedNumber]
    other_scale: str
    """Another scale than the asked one that it names; empty for none."""


def parse_rating(
    text: str,
    *,
    scale: tuple[float, float],
    form: RatingForm = "number",
    aspect: str | None = None,
    labels: tuple[str, ...] = (),
) -> Rating | NoRating:
    """Return the rating in `text`, or the reason why it has no rating.

    Never raises and never leaves the scale.

    Args:
        text: What the judge said.
        scale: Lowest and highest rating that was asked for.
        form: How the rating was asked for. A letter answers only `letters`, a number only the other
            two.
        aspect: Name of the judged aspect, which may label the rating.
        labels: Names of the letters from A on, which may stand beside or in place of them.
    """
    if len(text) <= _MAX_CACHED:
        return _parse_cached(text, scale, form, aspect, labels)
    left_out = max(0, len(text) - MAX_ANSWER)
    found = _parse(text[left_out:], scale, form, aspect, labels)
    if isinstance(found, Rating):
        return Rating(found.value, (found.span[0] + left_out, found.span[1] + left_out))
    return found


def _parse(
    text: str,
    scale: tuple[float, float],
    form: RatingForm,
    aspect: str | None,
    labels: tuple[str, ...],
) -> Rating | NoRating:
    if rating := _digits_alone(text, scale, form):
        return rating
    if "<think" in text:
        text = _THOUGHT.sub(lambda match: " " * len(match[0]), text)
    own = own_name(aspect, text)
    whole = _without_quotations(write_as_numbers(plain_text(text), scale, form))
    whole = without_cut_repetition(whole)
    question = _Question(scale, form, own, labels)
    # a blank before the next example is no rating: Rating: ____
    is_continuation = re.match(r"\s|(?:\w+:\s?)?__", text) is not None
    found = _read(whole, question)
    example = None if _is_element(text) else next_example(whole, own, is_continuation)
    if example is not None:
        before = whole[:example].rstrip(" \n#=-")
        first = _read(before, question)
        if (
            isinstance(first, Rating)
            and not _is_left_behind(whole, first, found)
            and not rates_other_text(whole, *first.span, first.span[1])
        ):
            return first
        is_continuation |= text.rstrip().endswith(":") or _begins_with_example(whole, own)
        begins = len(before.split()) <= 3 and is_continuation and _RATED_LINE.search(whole)
        if begins or (before.endswith(".") and _comes_again(whole, example)):
            return NoRating("NoScoreFound", "the answer rates another text than the asked one")
    is_unclear = isinstance(found, NoRating) and found.reason in ("Contradictory", "NoScoreFound")
    first_line, _, later = whole.strip().partition("\n")
    if later and (is_unclear or re.match(r"\W*(?:\w+\s?[:=])?\s*\d", first_line)):
        opening = _opening_verdict(text, whole, question, found)
        if opening is not None:
            return opening
    if is_unclear and form == "number" and (written := with_digits(text)) != text:
        return _parse(written, scale, form, aspect, labels)
    return (_rating_in_mark(text, scale) or found) if is_unclear and form == "number" else found


# 4   3.5/5   3 - Average   4 (good)   5;
_BARE = lazy_pattern(
    rf"(?i)(?P<value>\W{{0,4}}{NUMBER}(?:\s?/\s?\d+|\sstars)?)(?:\W*\Z|\s?[(–—,;\t|-](?!\s?\d).*)"
)


def _opening_verdict(
    text: str, whole: str, question: _Question, found: Rating | NoRating
) -> Rating | None:
    """Return the rating that an answer gives before it goes on with something else.

    None where the rating that was found stands before that.
    """
    begin = len(whole) - len(whole.lstrip())
    cuts = [one for one in sorted([*turn_ends(text), *openers(whole)]) if one > begin]
    # `{"score": 4}` may be revised by `{"score": 3}`
    cuts = [one for one in cuts if not whole[begin] == whole[one:].lstrip()[:1] == "{"]
    cut = next((one for one in cuts if not _continues_list(whole, one)), len(whole))
    if isinstance(found, Rating) and found.span[0] < cut:
        return None
    behind = whole[cut:].lstrip()
    # user   Rating: 2
    alone = rf"(?i)(?:\W*\w*\s*\n)?(?:\w+\s?[:=])?\s*{NUMBER}(?:\s?/\s?\d+)?\W*(?:\n|\Z)"
    if re.match(alone, behind):
        return None
    first = _read(whole[:cut].rstrip(), question) if behind else None
    if isinstance(first, Rating):
        return None if _is_left_behind(whole, first, found) else first
    # what continues the line of a prompt
    end = whole.find("\n", begin)
    head, rest = whole[: end + 1], whole[end + 1 : cut]
    bare = _BARE.fullmatch(head.rstrip())
    # 4, / or 3
    goes_on = re.match(r"(?i)\W*(?:or|and|maybe|perhaps|no)\b", rest)
    if bare is None or goes_on or _DOUBT.search(rest):
        return None
    first, again = _read(head, question), _read(rest, question)
    # 4, tone 5, style 2
    if (
        isinstance(first, NoRating)
        and cuts
        and re.match(r"[,|]", head[bare.end("value") :].lstrip())
    ):
        first = _read(head[: bare.end("value")], question)
    is_contested = isinstance(again, Rating) or again.reason == "Contradictory"
    return first if isinstance(first, Rating) and not is_contested else None


def _continues_list(plain: str, at: int) -> bool:
    """Return whether a line has the name of the first one with another number: `Text B: 4`."""
    # 5. It flows.   6. It ends well.
    items = [re.match(r"\s*\(?(\d{1,2})[.)]\s", one) for one in (plain[:40], plain[at : at + 40])]
    if items[0] and items[1] and int(items[0][1]) + 1 == int(items[1][1]):
        return True
    name = re.match(r"\W*([^\W\d_]+)[ _#(]{1,2}(?:\d{1,4}|[A-H])\b", plain[at : at + 40])
    first = rf"(?:\A|\n)\W*{name[1]}[ _#(]{{1,2}}(?:1|A)\b" if name else "(?!)"
    return re.compile(first).search(plain, 0, at) is not None


# [RESULT] 3   \boxed{4}
_MARKED = lazy_pattern(
    r"(?:\[RESULT\]\s{0,3}\(?|\\boxed\{\s?)(\d{1,3}(?:\.\d{1,2})?)(?:\)|\s?\})?[\s$.*]{0,9}(\Z)?"
)


# so the score is 3
_STATED = lazy_pattern(rf"(?i)\b{NOUN}\s{{0,2}}(?:is|was|[:=])\s{{0,2}}(\d{{1,3}}(?:\.\d{{1,2}})?)")


def _rating_in_mark(text: str, scale: tuple[float, float]) -> Rating | None:
    """Return the rating in the mark of a trained judge that ends an answer.

    It decides between the values that the reasoning before it weighs, but not against another mark
    or a score that the reasoning states.
    """
    marks = [*_MARKED.finditer(text)]
    if not marks or marks[-1][2] is None:
        return None
    stated = {float(value) for value in (*(mark[1] for mark in marks), *_STATED.findall(text))}
    value = float(marks[-1][1])
    is_rating = stated == {value} and scale[0] <= value <= scale[1]
    return Rating(value, marks[-1].span(1)) if is_rating else None


def _is_element(text: str) -> bool:
    """Return whether an answer is one element of XML, whose text is the asked one."""
    root = re.match(r"\s*<([a-zA-Z]\w*)", text)
    return bool(root and text.rstrip().endswith(f"</{root[1]}>") and text.count(f"<{root[1]}") == 1)


def _begins_with_example(plain: str, own: str) -> bool:
    """Return whether an answer begins with lines of material and a rating under its name."""
    rated = _RATED_LINE.search(plain)
    if rated is None or not own or not re.search(own, rated[0], re.IGNORECASE):
        return False
    lines = [line for line in plain[: rated.start()].split("\n") if line.strip()]
    return len(lines) > 1 and all(re.match(r"\w+(?: \d+)?:", line) for line in lines)


def _comes_again(plain: str, example: int) -> bool:
    """Return whether what an example begins with comes again behind its rating."""
    name = re.match(r"\W*([^\W\d_]+)", plain[example:])
    rated = _RATED_LINE.search(plain, example)
    if name is None or rated is None:
        return False
    return re.search(rf"\n[#* ]{{0,4}}{name[1]}\b[^\n:]{{0,9}}:", plain[rated.end() :]) is not None


def _is_left_behind(plain: str, first: Rating, last: Rating | NoRating) -> bool:
    """Return whether a value is a heading's number, or a later rating is its revision."""
    line = plain.rfind("\n", 0, first.span[0]) + 1
    if _NUMBERED_TITLE.match(plain, line):
        return True
    if isinstance(last, NoRating) or _REPLACES.search(plain, line, first.span[0]):
        return False
    lead = plain[plain.rfind("\n", 0, last.span[0]) + 1 : last.span[0]]
    return last != first and _REPLACES.search(lead[-WINDOW:]) is not None


def _read(whole: str, question: _Question) -> Rating | NoRating:
    """Return the rating of an answer without markup and quotations."""
    fields = read_json_fields(whole, *question)
    if isinstance(fields, NoRating):
        return fields
    prose = _read_prose(whole, fields, question)
    return prose if isinstance(prose, NoRating) else _decide(whole, fields, prose, question)


_parse_cached = lru_cache(maxsize=1024)(_parse)


def _digits_alone(text: str, scale: tuple[float, float], form: RatingForm) -> Rating | None:
    """Return the rating of an answer such as `4` or `Score: 4`.

    These need none of the grammar's patterns, which take some 20 ms to compile.
    """
    digits = text.strip().removeprefix("Score: ").removeprefix("Rating: ").removesuffix(".")
    if form == "number" and len(digits) < 4 and digits.isascii() and digits.isdigit():  # no year
        start = text.index(digits)
        if scale[0] <= int(digits) <= scale[1]:
            return Rating(float(digits), (start, start + len(digits)))
    return None


def _without_quotations(plain: str) -> str:
    """Return the text with quotations of several lines as spaces, unless it is nothing else."""
    if '"' not in plain and "“" not in plain:
        return plain
    rest = _BLOCK.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), plain)
    return rest if rest.strip() else plain


def _read_prose(whole: str, fields: list[RatingField], question: _Question) -> _Prose | NoRating:
    """Return the statements outside of JSON; `NoRating` for a letter with a wrong label."""
    scale, form, own, labels = question
    plain = blank_out(whole, [(field.start, field.end) for field in fields])
    if form == "letters" and labels:
        named = _without_label_names(plain, labels)
        if isinstance(named, NoRating):
            return named
        plain = named
    # half an object is not read as prose
    if not plain.strip() if fields else _OBJECT.match(plain):
        return _Prose(plain, [], "")
    if '"' in plain:
        plain = re.sub(r"\"(\w{1,30})\"(?=\s?:)", r" \1 ", plain)
    plain = without_other_aspects(plain, own, scale[1])
    plain, other_scale = without_scales(plain, scale, own)
    plain = without_enumeration(plain)
    numbers = _without_off_scale(readings_of(plain, form, own, scale[0]), *scale)
    return _Prose(plain, numbers, other_scale)


def _decide(
    whole: str, fields: list[RatingField], prose: _Prose, question: _Question
) -> Rating | NoRating:
    """Return the rating in the fields and the prose of an answer, or why there is none."""
    plain, own = prose.plain, question.own
    in_fields = [field.statement for field in fields if field.statement]
    in_prose, revising = chosen_of(prose.numbers)
    if not in_fields and not in_prose and (rating := _label_alone(plain, question)):
        return rating
    in_prose, denied = _not_denied(plain, in_prose), in_prose
    if denied and not in_prose:
        return NoRating("NoScoreFound", "the answer takes its rating back")
    statements = in_fields + _without_replaced(plain, in_prose, own)
    if not in_prose and not any(field.counts for field in fields):
        return _missing(whole, statements)
    is_named = any(one.owner == "aspect" for one in prose.numbers if one.statement in in_prose)
    if not in_fields and _is_left_open(plain, in_prose[-1].end, own, is_named=is_named):
        return NoRating("NoScoreFound", "the answer leaves the rating open")
    first = min(statement.span[0] for statement in statements)
    sentence = max(whole.rfind(sign, 0, first) for sign in ".!?\n") + 1
    withdrawn = [*_WITHDRAWN.finditer(f"\n{whole[sentence:].lower()}")]
    if withdrawn:
        at = sentence + withdrawn[-1].end() - 1
        numbers = [one for one in prose.numbers if one.statement.span[0] >= at]
        if not fields and 0 < len(numbers) < len(prose.numbers):
            return _decide(whole, [], prose._replace(numbers=numbers), question)
        if at > max(statement.span[0] for statement in statements):
            return NoRating("NoScoreFound", "the answer takes its rating back")
    # 4, leaning to 5, but let me leave it at 4
    again = [one.statement for one in prose.numbers if one.rank not in ("loose", "set off")]
    again = [one for one in again if one.value == statements[-1].value]
    end = max(statement.end for statement in in_fields + in_prose + again)
    later = [number for number in revising if number.span[0] >= end]
    other_scale = next((one.other_scale for one in fields if one.other_scale), prose.other_scale)
    return _agreed_rating(plain, statements, later, other_scale, question)


def _not_denied(plain: str, statements: list[Statement]) -> list[Statement]:
    """Return the ratings without those that it denies later, as in `so it is no 5`."""
    ends = {one.value: one.end for one in reversed(statements)}
    if not any(f"{value:g}" in plain[end:] for value, end in ends.items()):
        return statements
    denied = {
        number_in(match[1] or match[2]): match.start()
        for match in re.finditer(
            # it can't be a 5   so the 5 is not justified
            r"\b(?:(?:can(?:no|['’])t|cannot|isn['’]t|is\snot|(?<!why\s)not|no\slonger)\s(?:really\s)?(?:be\s)?an?"
            r"|so\sno)\s(\d{1,3}(?:\.\d)?)(?![\d/-]|[.,]\d|\s(?:out|for|by|because)\b)(?![^.!\n]{0,80}\?)"
            r"|\b(?:the|my|this|that)\s(?:(?:score|rating|grade|mark)\sof\s(?:an?\s)?)?(\d{1,3})"
            r"\s(?:is|was|does|do|can|should)(?:n['’]t|not|\snot|\sno\slonger)\b"
            # the 4 does not mean that it is perfect
            r"(?!\s(?:(?:mean|reflect\s(?:its|any|my|how)|imply|count|cover|consider|include|change|be\s(?:read|taken|seen))"
            r"|an?\b|for\b|about\b|due\b|because\b))",
            plain.lower(),
        )
    }
    return [one for one in statements if denied.get(one.value, 0) < one.end]


def _is_left_open(plain: str, end: int, own: str, *, is_named: bool) -> bool:
    """Return whether the judge is undecided, or says that the asked text or aspect is not rated.

    Args:
        plain: The answer without markup.
        end: Where the last number that may be its rating ends.
        own: Pattern of the aspect's name; empty for none.
        is_named: Whether the rating has the aspect's name beside it.
    """
    behind = plain[end:].lower()
    undecided = _UNDECIDED.search(behind) if " " in behind else None
    # The rating is 4. The rating is
    if undecided and not re.search(rf"{re.escape(undecided[0].strip())}\s\d", plain.lower()):
        return True
    # it might be a 4. [RESULT]   but not: The score is 4. [RESULT]
    is_empty = re.search(
        r"\n\W{0,9}(?:result|rating|score)\s?:\W{0,9}(?:(?:score|rating|result)\W{0,9})?\Z", behind
    )
    name = rf"(?i)(?:\b{NOUN}{f'|{own}' if own else ''})\s?(?:is|[:=])\W*\d"
    if is_empty and not re.search(name, plain):
        return True
    # [RESULT] 2 or 3
    between = re.search(r"\d\s?(?:or|to|and|[-–~])\s?(?:an?\s)?\d", behind)
    label = rf"(?:{NOUN}|final|overall)\s?[:=]\s?(?:between\s|either\s)?(?:an?\s)?\Z"
    if between and re.search(label, behind[: between.start()][-40:]):
        return True
    # of the aspect, or of nothing that has a name, I cannot give a rating
    declined = r"(?:无法|無法|不能|没法)(?:给出|进行)?(?:评分|打分|评价|评估|判断)"
    declined += r"|評価(?:は?でき(?:ません|ない)|しません)|撤回|收回|取り消し|철회"
    if not behind.isascii() and re.search(
        rf"(?:\A|[。！；,，])[^。！；,，性度]*(?:{declined})", behind
    ):
        return True
    sentences = re.findall(r"[^.!?;\n]+", behind) if _ASKED_TEXT.search(behind) else []
    mentions = [(_ASKED_TEXT.search(one), one) for one in sentences]
    names = ("this", "second", "other", "next", "new")
    if any(m and (m[0].startswith(names) or _LACKING.search(one)) for m, one in mentions):
        return True
    if not own or not re.search(own, plain, re.IGNORECASE):
        return False
    # on its style I would not commit myself. It is fluent, for which I give a 5
    *earlier, rated = re.split(r"[.!?;\n]\s", plain[:end])
    if (
        any("commit" in one and re.search(own, one, re.IGNORECASE) for one in earlier)
        and re.search(r"\bfor\s(?:which|that)\b", f"{rated}{behind[:12]}")
        and not re.search(own, rated, re.IGNORECASE)
    ):
        return True
    if is_named:
        return False
    return any(
        _NOT_RATED.search(sentence) and re.search(own, sentence, re.IGNORECASE)
        for sentence in re.split(r"[.!?;\n]", plain)
    )


def _without_off_scale(numbers: list[RankedNumber], low: float, high: float) -> list[RankedNumber]:
    """Leave out numbers off the scale that do not count as ratings beside one on the scale."""
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
        or (one.rank == "stated" and one.statement.top not in (None, high))
    ]


def _without_replaced(plain: str, statements: list[Statement], own: str) -> list[Statement]:
    """Return the ratings without those that a final or revised one of the same thing replaces."""
    if len(statements) < 2:
        return statements
    leads = [plain[plain.rfind("\n", 0, one.span[0]) + 1 : one.span[0]] for one in statements]
    last = [_REPLACES.search(lead[-WINDOW:]) is not None for lead in leads]
    if not last[-1]:
        return statements
    named = [bool(own) and re.search(own, lead, re.IGNORECASE) is not None for lead in leads]
    if any(named) and not named[-1]:
        return statements
    # `Rating: 2 ... Final rating: 5`, without a word of doubt between them
    is_labeled = _LABELED.search(leads[-2]) and not last[-2] and "final" in leads[-1].lower()
    if is_labeled and not _DOUBT.search(plain, statements[-2].end, statements[-1].span[0]):
        return statements
    return [one for one, replaces in zip(statements, last, strict=True) if replaces]


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


def _label_alone(plain: str, question: _Question) -> Rating | NoRating | None:
    """Return the label whose name is the first or the last line: `correct`, `Verdict: correct`."""
    lines = [line for line in plain.split("\n") if line.strip()]
    found = dict[int, tuple[int, int]]()
    for line in {0: lines[0], -1: lines[-1]}.values() if lines else ():
        for index, label in enumerate(question.labels):
            pattern = (
                rf"(?i)\W{{0,8}}(?:(?:(?:final|overall|my|the)\s)*{NOUN}\s{{0,3}}(?:[:=]|is)\W{{0,6}})?"
                rf"(?P<name>{re.escape(label)})\W{{0,6}}"
            )
            if match := re.fullmatch(pattern, line):
                start = plain.rindex(line)
                found[index] = (start + match.start("name"), start + match.end("name"))
    if len(found) > 1:
        return NoRating("Contradictory", "the answer states more than one rating")
    return next((Rating(question.scale[0] + index, span) for index, span in found.items()), None)


def _agreed_rating(
    plain: str,
    ratings: list[Statement],
    later: list[Statement],
    other_scale: str,
    question: _Question,
) -> Rating | NoRating:
    """Return the one rating that is stated, or why there is none.

    Args:
        plain: The answer without markup.
        ratings: Its ratings.
        later: The numbers that follow them, which may take a rating back.
        other_scale: The other scale that the answer names; empty for none.
        question: What the judge was asked.
    """
    rating, form, (low, high) = ratings[-1], question.form, question.scale
    if message := _contradiction(plain, ratings, question):
        return NoRating("Contradictory", message)
    if other_scale:
        message = f"the answer names another scale ({other_scale:.60}) than "
        return NoRating("OffScale", message + scale_in_words(question.scale, form))
    if rating.top not in (None, high) or not low <= rating.value <= high:
        shown = plain[slice(*rating.span)] if form == "letters" else f"{rating.value:g}"
        out_of = f" out of {rating.top:g}" if rating.top is not None else ""
        message = f"the rating {shown}{out_of} is off "
        return NoRating("OffScale", message + scale_in_words(question.scale, form))
    start = rating.span[0]
    dashes = ("-", "–", "—")
    if low < 0 < rating.value and plain[max(0, start - 4) : start].rstrip().endswith(dashes):
        return NoRating("Contradictory", "the rating may be negative, or follow a dash")
    for number in later:
        if low <= number.value <= high and number.value != rating.value:
            message = f"the rating {rating.value:g} is followed by another number, {number.value:g}"
            return NoRating("Contradictory", message)
    return Rating(rating.value, rating.span)


def _contradiction(plain: str, statements: list[Statement], question: _Question) -> str:
    """Return how the ratings of an answer contradict each other; empty for not at all."""
    if len({(one.value, one.top or question.scale[1]) for one in statements}) > 1:
        return "the answer states more than one rating"
    lines = [line.strip() for line in plain.split("\n") if line.strip()]
    pattern = value_pattern(question.form)
    if len(set(filter(pattern.fullmatch, lines))) > 1:
        return "several lines of the answer are different ratings"
    first = pattern.fullmatch(lines[0]) if lines else None
    if first and statement_of(first, question.scale[0]).value != statements[-1].value:
        return "the first line of the answer is another rating"
    # `[[9]], [[5]]`, of two texts
    mark = r"\w" if question.form == "letters" else r"\d{1,4}(?:\.\d)?"
    if "[[" in plain and len(set(re.findall(rf"\[\[\s?({mark})\s?\]\]", plain))) > 1:
        return "the answer marks more than one rating"
    return ""


def _missing(plain: str, statements: list[Statement]) -> NoRating:
    if not plain.strip():
        return NoRating("NoScoreFound", "the answer is empty")
    if not statements and declines(plain):
        return NoRating(DECLINED, "the judge declined to rate")
    return NoRating("NoScoreFound", "the answer contains no rating in a form that is read")
