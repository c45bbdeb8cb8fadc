r"""Blanks what stands in an answer without being the judge's own statement.

A judge quotes the text ("Final score: 5"), asks itself (Is it a 5? No.), takes something back
(Rating: 5. Wait, ...) or reports what the text claims. Ratings in there are not the judge's.
Blanking goes character for character, so that places stay valid. Every pattern is bounded.
"""

from __future__ import annotations

import re

from textassay.lazy import lazy_pattern

_QUOTES = (
    # "Final score: 5", with openers after a space and closers before one, so that 5" is no quote
    lazy_pattern(r"(?<![\w\"])\"(?=\S)(?:[^\"\n]|\n(?!\s*\n)){1,600}(?<=\S)\"(?![\w\"])"),
    # “5”, „5“, «5», 「5」
    lazy_pattern(r"“[^“”]{1,600}”|„[^„“”]{1,600}[“”]|«[^«»]{1,600}»|「[^「」]{1,600}」"),
    # 'Rating: 5', but not the apostrophes of "it's the judges' rating"
    lazy_pattern(r"(?<![\w'])'(?=[^\s'])(?:[^'\n]|(?<=\w)'(?=\w)){1,300}(?<=\S)'(?![\w'])"),
    # the same with typographic marks
    lazy_pattern(r"‘(?:[^‘’\n]|(?<=\w)’(?=\w)){1,300}’(?!\w)"),
    # `Rating: 5`, but not the three of a fence
    lazy_pattern(r"(?<!`)`[^`\n]{1,300}`(?!`)"),
)
# > Final score: 5
_QUOTED_LINE = lazy_pattern(r"(?m)^[ \t]{0,3}>[^\n]{0,2000}$")
# ~~5~~   4 -> 3
_STRUCK = lazy_pattern(
    r"~~[^~\n]{1,80}~~|(?<![\w.,/])\d{1,4}(?:[.,]\d{1,2})?\s{0,2}(?:->|=>|→)(?=\s{0,2}\d)"
)
# only quotations with a number or a letter can be read as ratings: "4", "four", "C"
_NUMBER_WORD = lazy_pattern(r"(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|zero)\b")
_LETTER_ALONE = lazy_pattern(r"\b[A-Z]\b")
# "4", "4 / 5", "four out of five", "4 stars", "C": the rating itself, put in quotes
_VALUE_ONLY = lazy_pattern(
    r"(?i)\W{0,4}(?:\d{1,4}(?:[.,]\d{1,3})?|one|two|three|four|five|six|seven|eight|nine|ten|zero"
    r"|[a-z])"
    r"(?:\s{0,3}(?:/|out of|of)\s{0,3}\w{1,5})?(?:[\s-]{0,2}(?:stars?|points?))?\W{0,20}"
)
# the text says "5 stars", the title "7 Days": quoted, however short
_INTRODUCED = lazy_pattern(
    r"(?i)\b(?:says?|said|claims?|states?|contains?|reads?|asks?(?:\sfor)?|words?|phrase|line"
    r"|title[d]?|named?|called)[\s:,]{1,3}\Z"
)
# 5?  5)?  "5"?
_ASKED_NUMBER = lazy_pattern(r"(?<![\w.,/])[+-]?\d{1,4}(?:[.,]\d{1,3})?(?=[\s*_\"')\]]{0,4}\?)")
# Is it a 5 for flow?  Why not a score of 5 here?
_QUESTION = lazy_pattern(
    r"(?i)(?:(?<=\A)|(?<=[.!?:;(–—\n])|(?<=[.!?:;(–—\n]\s))(?:but\s|so\s|or\s|and\s)?"
    r"(?:is|does|do|did|would|should|could|can|will|why|what|how|which|maybe|perhaps)\b"
    r"(?:[^.!?\n]|\.(?=\d)){0,200}(?=\?)"
)
# the summary itself says that its final score is 5 / the author claims: Rating: 5
_REPORTED = lazy_pattern(
    r"(?i)\b(?:text|summary|response|output|author|writer|article|document|passage|source|message"
    r"|instruction)"
    r"(?:\s(?:itself|even|also|then|just|only)){0,2}\s"
    r"(?:says?|said|claims?|claimed|states?|stated|asks?|asked|tells?|told|demands?|demanded"
    r"|instructs?|instructed"
    r"|insists?|insisted|declares?|declared|announces?|ends\swith|ended\swith|contains?|reads?)\b"
    r"(?:(?!\bI\b)[^.!?,;\n]){0,60}?\b(?:scor(?:e|ing)|rat(?:e|ed|ing)|grade|mark)\b(?:[^.!?,;\n]"
    r"|\.(?=\d)){0,40}"
)
# Wait, / Scratch that. / Correction: / On second thought, / Let me revise / I change it to
_WITHDRAWN = lazy_pattern(
    r"(?i)(?:(?<=\A)|(?<=[.!?;:,(–—\n])|(?<=[.!?;:,(–—\n]\s)|(?<=[.!?;:,(–—\n]\s\s)|(?<=\s-\s))"
    r"(?:but\s|no,?\s|hmm,?\s|oh,?\s|sorry,?\s|actually,?\s){0,2}"
    r"(?:wait\b|scratch\sthat\b|strike\sthat\b|correction\b|corrected\b|on\s(?:second\sthoughts?"
    r"|reflection)\b"
    r"|upon\s(?:reflection|reconsideration)\b|after\sreconsider\w{1,4}\b|let\sme\s(?:revise|correct"
    r"|reconsider|change)\b"
    r"|i\s(?:take|took)\s(?:that|it)\sback\b|i\s(?:revise|retract|withdraw|change|correct)\b"
    r"|revised?\b(?=[^\n]{0,30}[:=])"
    r"|no[,.:;]|not\sreally[,.:;]|actually,|now\b(?=\s\d))[\s:,.–—-]{0,4}"
)
# a cheap look before any of the patterns above is tried; most answers hold nothing of the kind
_MARKS = lazy_pattern(r"[\"'“„«「‘`>~?→]")
_TURNS = lazy_pattern(
    r"(?i)\b(?:wait|scratch|strike|correct|on|upon|after|let|i|revise|no|not|actually|now)"
)


def own_words(text: str) -> str:
    """Return text of the same length without quotations, questions and reported claims.

    A quotation that is the whole answer, or holds nothing but a value, is the judge's own.
    """
    # Before quotations, which would tear a reported claim apart.
    if _REPORTED.search(text):
        text = _REPORTED.sub(_blank, text)
    if not _MARKS.search(text):
        return text
    blanked = text
    for pattern in _QUOTES:
        blanked = pattern.sub(_blank_rated, blanked)
    for pattern in (_QUOTED_LINE, _STRUCK):
        blanked = pattern.sub(_blank, blanked)
    # Nothing else was said: the whole answer stands in quotation marks, and is the judge's own.
    if not re.search(r"\w", blanked):
        blanked = text
    return _ASKED_NUMBER.sub(_blank, _QUESTION.sub(_blank, blanked))


def withdrawals(text: str) -> list[int]:
    """Return where the judge takes something back, in characters, the last first, at most eight."""
    if not _TURNS.search(text):
        return []
    # The last first: what stands behind the last withdrawal is what the judge ended with. The bound
    # keeps the time of an answer that is nothing but withdrawals linear.
    return [match.end() for match in _WITHDRAWN.finditer(text)][:-9:-1]


def _blank(match: re.Match[str]) -> str:
    return "".join(char if char == "\n" else " " for char in match[0])


def _blank_rated(match: re.Match[str]) -> str:
    """Blank a quotation that could be read as a rating; others may name aspects and stay."""
    inner = match[0][1:-1]
    if not (_NUMBER_WORD.search(inner) or _LETTER_ALONE.search(inner)):
        return match[0]
    before = match.string[max(0, match.start() - 20) : match.start()]
    # Judges put their own rating in quotation marks, too; after "the text says" it is the text's.
    own = _VALUE_ONLY.fullmatch(inner) and not _INTRODUCED.search(before)
    return match[0] if own else _blank(match)
