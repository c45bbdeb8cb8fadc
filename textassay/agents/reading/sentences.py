r"""Sentences of an answer, and the numbers in them that may be ratings of the asked aspect.

A number of a sentence is left out if it counts or measures something (`values.py`), if it is an end
of a range (`3 to 4`), if the sentence is a quotation, an example or a question, and if it is the
value of another name than the rating's or the aspect's: `Style: 4`, `Assistant 2: 4`.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Literal

from textassay.agents.reading.outcomes import RatingForm
from textassay.agents.reading.values import (
    WINDOW,
    is_bare,
    is_quoted,
    places_of_numbers,
    ranges_of,
    values_at,
)
from textassay.agents.reading.words import (
    FOREIGN,
    JUDGES,
    LETTER,
    LOOK,
    NOUN,
    NUMBER_WORDS,
    QUALITY,
    RATING,
    REASONS,
    TEXTS,
)
from textassay.lazy import lazy_pattern

SIGNS = " \t\n*#-•>.:→=([\"'“”)]|!`"
"""Signs around a number that opens or closes a sentence."""

# a sentence's last sign, and what is between it and the next one
_ENDS = (
    r"(?<=[。！？；।])|(?<=\n)\n*"
    r"|(?<=[.!?;])(?<!\bvs\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bno\.)(?<!\bca\.)(?<!\bapprox\.)"
    r"[\"'”’)\]]{0,2}[ \t]+"
)
_BREAK = lazy_pattern(rf"[.!?;。！？；।\n](?:{_ENDS})")
_BREAK_BEFORE_LABELS = lazy_pattern(
    rf"[.!?;。！？；।\n \t](?:{_ENDS}|(?<=[ \t])(?:[ \t]{{0,2}}(?=\w++\s?[:：])(?={REASONS})"
    # Style: 4 | Depth: 3
    r"|\|[ \t](?=[^\W\d_][^|\n]{0,40}[:→])))"
)
# Reason: ...   Comment: ...
_EXPLANATION = lazy_pattern(rf"\W*+(?=\w++\s?[:：])(?:{REASONS}|(?i:{NOUN})\s?[:：])")
# Perhaps a 4?   So maybe 3.   Somewhere around 4 out of 5, I guess.   not: Perhaps a 4? Or a 3?
TENTATIVE = lazy_pattern(
    r"(?i)\W*(?:(?:if\s[^,.\n]{1,40}|(?P<hedge>perhaps|maybe|probably|possibly|arguably|somewhere"
    r"|i\s(?:guess|suppose|think))|so|well|then|overall|thus|or\sso|roughly|about|around|only|just"
    rf"|something\slike|an?(?:\s(?:low|high|weak|solid|strong|good))?"
    rf"|\d(?:[.,]?\d)*+(?:\s?/\s?\d+)?|out\sof|{'|'.join(NUMBER_WORDS)})"
    r"(?:,?[ ]|(?=[?.!;\n]|\Z)))+(?:[?.!;]++|(?=\n)|\Z)(?(hedge)|(?!))"
    r"\s*+(?!(?:or|but|wait|let|hmm|no|not|actually|i\s(?:can|could|need|would)\w*)\b)"
)


class Sentence:
    """A sentence of an answer, or a line without an end."""

    def __init__(self, among: Sentences, index: int, places: Sequence[int] = ()) -> None:
        self.plain, self.own = among.plain, among.own
        self.start, self.end = among.bounds[index]
        self.text = self.plain[self.start : self.end]
        self.places = places
        """Where its values may begin."""
        self.line = self.plain.rfind("\n", 0, self.start) + 1
        """Where its line begins."""
        self.is_first = index == 0
        self._is_end = index == len(among.bounds) - 1 or self.end >= among.last_word

    @property
    def is_last(self) -> bool:
        """Whether nothing but an explanation under its own name follows."""
        return self._is_end or _EXPLANATION.match(self.plain, self.end) is not None

    @cached_property
    def above(self) -> str:
        """The last line above that is not empty."""
        above = self.plain[max(0, self.line - WINDOW) : self.line].rstrip()
        return above[above.rfind("\n") + 1 :]

    @cached_property
    def is_tentative(self) -> bool:
        """Whether it is nothing but a number with words such as `perhaps`, beside other ones."""
        is_brief = len(self.text) < WINDOW and not (self.is_first and self.is_last)
        return is_brief and TENTATIVE.match(self.plain, self.start) is not None

    def names_aspect(self, text: str) -> bool:
        """Return whether a part of the answer has the aspect's name."""
        return bool(self.own) and _name_pattern(self.own).search(text) is not None

    @property
    def topic(self) -> Literal["aspect", "other", "", "same"]:
        """Whether a name at its beginning says that it is about the asked aspect or another one.

        `same` is the topic of the sentence before it, which is in its line or in the line above.
        """
        begins_line = self.start == self.line
        label = _LABEL.match(self.plain, self.start, self.end)
        opening = label or _TOPIC.match(self.text)
        if opening is None:
            return "" if begins_line else "same"
        name = opening["name"].strip()
        if self.names_aspect(name):
            return "aspect"
        if QUALITY_NAME.search(name) or (not label and opening["about"]):
            return "other"
        if begins_line and _SUMS_UP.fullmatch(name):
            return ""
        if name.lower() in ("first", "second", "third", "fourth", "fifth", "finally"):
            return "same"
        if _EXPLANATION.match(self.text):
            return "same"
        if names_rating(name):
            is_apart = begins_line and self.plain[: self.start].endswith("\n\n")
            return "" if is_apart else "same"
        if JUDGE.search(name):
            return "" if begins_line else "same"
        if label and len(name.split()) <= 3:
            return "other"
        return "" if begins_line else "same"

    def without_aspect(self, text: str) -> str:
        return _name_pattern(self.own).sub(" it ", text) if self.own else text


@lru_cache(maxsize=256)
def _name_pattern(own: str) -> re.Pattern[str]:
    return re.compile(rf"(?i)(?<!{LETTER}){own}")


class Sentences:
    """The sentences of a text, each made when it is needed, for most of them have no number."""

    def __init__(self, plain: str, own: str) -> None:
        """Args: `own` is the pattern of the aspect's name; empty for none."""
        self.plain, self.own = plain, own
        bounds, at = list[tuple[int, int]](), 0
        has_labels = ":" in plain or "：" in plain or "|" in plain
        for match in (_BREAK_BEFORE_LABELS if has_labels else _BREAK).finditer(plain):
            bounds.append((at, match.start() + (not match[0][0].isspace())))
            at = match.end()
        bounds.append((at, len(plain)))
        self.bounds = [(start, end) for start, end in bounds if plain[start:end].strip()]
        self.last_word = len(plain.rstrip(SIGNS))

    def with_values(self, form: RatingForm) -> Iterator[tuple[int, Sentence]]:
        """Yield the sentences that may have a value in a form, each with its index."""
        begins = [start for start, _ in self.bounds]
        places = places_of_numbers(self.plain) if form == "number" else begins
        for index, inside in groupby(places, lambda place: bisect(begins, place) - 1):
            yield index, Sentence(self, index, list(inside))

    @cached_property
    def topics(self) -> list[str]:
        """Of each sentence, that of the one before it for `same`."""
        topics = list[str]()
        for index in range(len(self.bounds)):
            topic = Sentence(self, index).topic
            topics.append(topics[-1] if topics and topic == "same" else topic)
        return topics


# here is an example of the output:
_EXAMPLE = lazy_pattern(
    r"\W(?:(?:example|sample|template|format|schema)\b|(?<=\n)\W*e\.g\.)[^.!?\n]{0,60}[:：](?!\d)"
)
# the text contains the following lines:
_REPORTS_BELOW = lazy_pattern(
    rf"\W(?:{TEXTS}|line)\s(?:says|reads|contains|includes)(?:(?:\s[\w ]{{1,40}})?:|\s?\Z)"
    r"\s{0,20}(?:json\s{0,20})?\Z"
)


def reports_below(text: str) -> bool:
    """Return whether a text ends by saying that the judged text says what follows."""
    return not text.endswith(".") and _REPORTS_BELOW.search(f"\n{text.lower()}") is not None


def values_of(sentence: Sentence, form: RatingForm) -> list[re.Match[str]]:
    """Return the numbers of a sentence that may be ratings of the asked aspect."""
    plain, text = sentence.plain, sentence.text
    found = values_at(plain, sentence.places, sentence.end, form)
    ending = text.rstrip(" \"”').")
    # but not: it is there (or is it?)
    is_question = ending.endswith(("?", "？")) and (
        text[len(ending) :][:1] != ")" or text[0] == "("
    )
    # May I suggest a 4?
    is_offer = is_question and re.match(
        r"\W*[Mm](?:ay|ight) (?:I|we) (?:offer|suggest|propose|say)(?: an?(?: score of)?)? \d", text
    )
    if not found or (is_question and not is_offer and not sentence.is_tentative):
        return []
    above = sentence.above if sentence.above.endswith((":", "：")) else ""
    has_colon = above or ":" in text or "：" in text
    is_example = has_colon and _EXAMPLE.search(f"\n{above}\n{text}".lower())
    if is_example or reports_below(sentence.above):
        return []
    ranges = ranges_of(plain, found)
    return [
        match
        for match in found
        if match not in ranges
        and is_bare(plain, match, form)
        and not _is_quotation(sentence, match)
    ]


# "4" - it reads well   the rating is "4"
_ALONE_IN_QUOTES = lazy_pattern(
    rf"(?:\A\W*|.*(?:\bis|[:=])\s?)[\"“«]\s?\Z|[^\"“«]*(?:{JUDGES}|\b{RATING}\b|{FOREIGN})[^\"“«]{{0,40}}(?:«\s?|\b(?:as|with|be|an?)\s[\"“](?i:{NOUN}:\s?)?(?:\[\[)?)\Z"
    rf"|[^\"“«]*\b{RATING}\s[\"“]\Z|\s*(?:\w+,\s)?[\"“](?i:{NOUN}:\s?)\[\[\Z"
)
# > **Score: 4**, with its emphasis as spaces
_CALLOUT = lazy_pattern(
    r"\s*>(?:[ ]{3,}|(?=.*[ ]{3}\Z)|(?=[ ]?\Z))\s*"
    r"(?:(?P<name>[^:：=>→\n]{1,40}?)\s*[:：=→–—-])?\s*\Z"
)


def _is_quotation(sentence: Sentence, match: re.Match[str]) -> bool:
    """Return whether a number is quoted: not alone, as in `"4"`, nor beside its name in a block."""
    plain, start = sentence.plain, match.start()
    lead = plain[sentence.line : start]
    if lead.lstrip().startswith(">") and lead.strip() != ">>>":
        block = _CALLOUT.match(lead)
        name = (block["name"] or sentence.above.strip("#* ")) if block else ""
        name = "" if name.startswith(">") else name
        is_named = names_rating(name) or sentence.names_aspect(name)
        return not name or not is_named
    return is_quoted(plain, sentence.line, start) and not (
        plain[match.end() : match.end() + 3].strip(" ]")[:1] in ('"', "”", "»")
        and _ALONE_IN_QUOTES.match(plain[:start] if sentence.is_first else lead)
    )


# - Fluency (1-5): 4
_LABEL = lazy_pattern(
    r"[ \t]*+(?:(?:[-•+|*→>]|#{1,6}|\(?\d{1,2}[.)])[ \t]*+)?"
    # a sign or a bracket comes before the end of a sentence
    r"(?=[^\n:：=|→.!?(–—-]*+[:：=|→(–—-])(?P<name>[^\W\d_][^\n:：=|→.!?]{0,48}?)[ \t]*+"
    r"(?:\([^()\n]{0,30}\)[ \t]*+)?(?:[:：=|→]|[-=]>|[–—-](?=\s))[ \t|*\"“\[(]*"
)
# Tone (4/5): warm
_LABEL_OF_BRACKETS = lazy_pattern(r"[ \t\W]*(?P<name>[^\W\d_][^\n:.!?()]{0,48}?)[ \t]*\(")
_BRACKETS_END = lazy_pattern(r"\)\W{0,4}:")
# Criterion: style
_CALLED = lazy_pattern(r"(?i)\W*(?:criteri(?:on|a)|aspect|dimension|metric)\s?:\s?(?P<name>.*)")
# ## Style   Style:
_HEADING = lazy_pattern(r"\s*#{1,6}\s.*|[^.!?\n]*[:：]\s*")
# Response A: depth 4
_OTHER_TEXT = lazy_pattern(rf"(?i)(?:{TEXTS}|assistant|model|judge|candidate)\s(?:\d{{1,2}}|[a-d])")
# Assistant 2: 4   Mean: 4
_OTHER_NAME = lazy_pattern(
    r"(?i)(?!step\s|level|option|final|overall).*\s(?:\d{1,2}|[a-d])"
    r"|(?:.*\b)?(?:scale|range|max\w*|min\w*|average|mean|ortalama\w*|reached)(?:\b.*)?"
)
# names of a rating, and words before one that name no aspect
_RATING_NAME = lazy_pattern(
    rf"(?i)(?!word\schoice)(?:.*\b)?(?:{NOUN}|final|overall|total|tl;?dr|bottom\sline|conclusion|so|therefore|thus"
    r"|hence|number|points|rate|reward|output|response|here|assistant|judge|evaluator|revised|updated?|correction|option|category)"
    r"(?:\b.*)?"
)
_SUMS_UP = lazy_pattern(
    r"(?i)(?:overall\s)?(?:conclusion|verdict|assessment|summary)|overall|in\s(?:sum|conclusion)"
)
# All in all: 4   Near the top: 4
_ADVERBIAL = lazy_pattern(
    r"(?i)(?:all|in|on\s(?:balance|the\swhole)|taken|to\ssum|near|right|somewhere|that|this|it|there"
    r"|giving|just|still)\b.*"
)
# bewertung   kohärenznote   puntuación   得分, in lower case
RATING_ELSEWHERE = lazy_pattern(rf"{FOREIGN}(?!{LETTER})")
JUDGE = lazy_pattern(JUDGES)
QUALITY_NAME = lazy_pattern(rf"(?i)\b{QUALITY}\b")
# As for its clarity, ...   Clarity is another matter
_TOPIC = lazy_pattern(
    r"(?i)\W*+(?P<about>(?:as\s(?:for|to|regards)|regarding|concerning|in\sterms\sof|turning\sto"
    rf"|on(?!\s(?:{LOOK}|the\s(?:whole|other|one)))"
    r"|with\srespect\sto)\s)?"
    r"(?:(?:its|the)\s)?(?P<name>(?:\w++[\s-]){0,2}\w++)"
    r"(?:\s(?:first|next|now|then))?(?:\s?[:,;–—(?]|\s(?:is|comes|was|gets|merits|deserves|i|we|it|there)\b)"
)

# Rating: 4 (clarity)
_QUALITY_BEHIND = lazy_pattern(rf"(?i)\s?\((?:the\s)?{QUALITY}\)")


def is_value_of_other(sentence: Sentence, match: re.Match[str]) -> bool:
    """Return whether a number is the value of a name that is not the rating's: `Style: 4`."""
    if sentence.plain[sentence.start : match.start()].strip() == "→":  # the cell of a table
        return False
    is_in_brackets = sentence.own and "(" in sentence.plain[match.end() : match.end() + 2]
    behind = is_in_brackets and _QUALITY_BEHIND.match(sentence.plain, match.end())
    if behind and not sentence.names_aspect(behind[0]):
        return True
    if sentence.start == sentence.line:
        name = _name_of(sentence, match)
    else:
        # ... bien escrita. Fluidez: 5.
        label = _LABEL.match(sentence.plain, sentence.start)
        name = label["name"] if label and label.end() == match.start() else ""
        suffixes = "idade?|idez|enza|heit|keit|tät|ité|ità|encia|ência|ность|ość"
        name = name if re.fullmatch(rf"(?i)\w{{2,}}(?:{suffixes})", name) else ""
    if not name or sentence.names_aspect(name) or _is_form_of(name, sentence.own):
        return False
    # Opening: 4   Conclusion: 2
    parts = r"(?im)^\W*(?:intro(?:duction)?|opening|body|middle|beginning|hook)\s?[:–-]\s?\d"
    if name.lower() == "conclusion" and re.search(parts, sentence.plain[: sentence.start]):
        return True
    words = len(name.split())
    if words <= 4 and _OTHER_NAME.fullmatch(name):
        return True
    is_name = words <= 3 and not JUDGE.search(name) and not _ADVERBIAL.fullmatch(name)
    return bool(sentence.own) and is_name and not names_rating(name)


def _name_of(sentence: Sentence, match: re.Match[str]) -> str:
    """Return the name whose value a number of the first sentence of a line is; empty for none."""
    plain, line, start = sentence.plain, sentence.line, match.start()
    if called := _CALLED.fullmatch(sentence.above):
        return called["name"]
    label = _LABEL.match(plain, line, start)
    if label is not None:
        name = label["name"].strip()
        if label.end() == start or _OTHER_TEXT.fullmatch(name):
            return name
    before = plain[start - 1] == "(" and _LABEL_OF_BRACKETS.fullmatch(plain, line, start)
    if before and _BRACKETS_END.match(plain, match.end()):
        return before["name"]
    opens = not plain[sentence.start : start].strip(SIGNS)
    return sentence.above.strip(SIGNS) if opens and _HEADING.fullmatch(sentence.above) else ""


def names_rating(name: str) -> bool:
    """Return whether a name means a rating, or comes before one, in any language."""
    # in this order, for few answers need the pattern of all languages, which compiles slowly
    return bool(_RATING_NAME.fullmatch(name) or RATING_ELSEWHERE.search(f"{name.lower()}:"))


def _is_form_of(name: str, own: str) -> bool:
    """Return whether a name is another form of the aspect's: `fluent` of `fluency`."""
    return own.isalpha() and len(own) > 5 and name.lower().startswith(own[: max(5, len(own) - 4)])


def is_below_rating_name(sentence: Sentence, before: str) -> bool:
    """Return whether a number, with `before` before it, opens the line below a rating's name."""
    if before.strip(SIGNS) or sentence.start != sentence.line:
        return False
    name = sentence.above.strip(" #*:-=_")
    is_name = names_rating(name) or sentence.names_aspect(name)
    return is_name and (0 < len(name) < 60 or name.endswith("as follows"))
