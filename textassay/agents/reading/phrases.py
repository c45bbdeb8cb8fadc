r"""The phrases that lead up to a rating, as patterns for an aspect of one name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from textassay.agents.reading.words import (
    BE,
    CHANGE,
    FITS,
    FOREIGN,
    FOREIGN_LEAD,
    GET,
    GIVE,
    KIND,
    LEAD_TO,
    LEADS_TO,
    MANNER,
    MODAL,
    NOUN,
    OF_TEXT,
    OTHERS,
    POSSIBLY,
    SIGN,
    SO,
    TEXT,
    TEXTS,
    any_of,
)
from textassay.lazy import lazy_pattern

_FOREIGN_LEAD = lazy_pattern(FOREIGN_LEAD)


class RatingGrammar(NamedTuple):
    """The phrases that lead up to a rating, for an aspect of one name."""

    named: tuple[re.Pattern[str], ...]
    """A name with a sign or a verb after it, or the judge, or the text: at any boundary.

    The commonest comes first, so that an answer such as `Rating: 4` compiles no other one."""
    unsigned: re.Pattern[str]
    """A name with nothing after it: the value must end the line or the sentence."""
    heading: re.Pattern[str]
    """A name that is a line of its own above the value."""
    noun: re.Pattern[str]
    """`a score of`: no colon may follow, as it does in the description of a scale."""
    weak: re.Pattern[str]
    """`the score is`: behind a comma it may speak of a match."""
    consequence: re.Pattern[str]
    """What goes on from a clause before a comma or a dash."""
    subject: re.Pattern[str]
    """The beginning of a sentence about the text."""
    share: re.Pattern[str]
    """Words that may precede `4 out of 5` without a name."""
    alone: re.Pattern[str]
    """Words that may precede a value which is a sentence of its own."""
    about: re.Pattern[str]
    """What a rating is of, behind it."""
    opening: re.Pattern[str]
    """The beginning of a sentence that sets a condition or speaks of something inside a text."""


@lru_cache(maxsize=256)
def grammar_of(own: str) -> RatingGrammar:
    """Return the phrases for an aspect whose name is the pattern `own`, empty for none."""
    # the score of the text may be told in it: `of` belongs to the aspect alone
    stem = rf"{own[: max(5, len(own) - 4)]}\w{{0,6}}" if own.isalpha() and len(own) > 5 else own
    mine = rf"|{own}(?:\s{NOUN})?(?:\sof\s{TEXT})?|{NOUN}\s(?:of|in)\s{own}" if own else ""
    scale = r"(?:\s?[(\[][^()\[\]\n]{0,40}[)\]])?"
    its_own = rf"|(?:(?:the|its|their)\s)?(?:\w{{4,12}}\s)?{own}(?:{OF_TEXT})?" if own else ""
    text = rf"(?:{TEXT}(?:\s{own or 'quality'})?{its_own})"
    # my overall rating for this summary   the fluency score   evaluation score
    name = (
        rf"(?:{KIND}\s)*(?!grade\slevel)(?:{NOUN}(?:\s{NOUN})?{mine}){scale}"
        rf"(?:\s(?:for|on)\s{text}){{0,2}}{scale}"
    )
    noun = rf"(?:{MANNER}|an?\s[\w-]{{1,20}})?\s?(?:(?:final|overall|total|{own or 'final'})\s)*"
    noun += rf"(?:{NOUN}|maximum)(?:\s(?:for|on)\s{text})?(?:\s?(?:of|at|as|to\sbe|:)){{1,2}}"
    noun += rf"(?:\s{MANNER})?"
    end_of_scale = (
        r"(?:the\s)?(?:highest|lowest|best|worst|top|full|maximum|minimum)(?:\spossible)?\s(?:score|rating|mark)s?"
        rf"(?:\s(?:for|on)\s{text})?(?:\s?(?:,|:|\sof))?(?:\swhich\sis)?"
    )
    number = rf"(?:{noun}|{end_of_scale}|{MANNER}|)"
    so = rf"(?:{SO}\s?[,:]?\s?)*"
    verdict = rf"(?:(?:{KIND}\s)*(?:{NOUN}|{any_of('final overall total output')})\s?[:：]\s?)?"
    # a section of an essay, unless a whole phrase follows
    prefix = rf"(?:{verdict}|(?:summary|conclusion)\s?[:：]\s?)"
    giving = (
        rf"(?:i|we)(?:['’](?:d|ll|m|ve))?(?:\s{MODAL})*"
        rf"\s(?:{GIVE}|go(?:ing)?\swith|settle\s(?:on|for))"
        rf"(?:\s{text}){{0,2}}(?:\s(?:as|at|with|to\sbe|is))?(?:\s{number})?"
        rf"(?:\s(?:to|for)\s{text}(?:\sof)?)?\s?:?"
    )
    changing = (
        rf"(?:(?:(?:i|we)(?:['’](?:m|ve))?|let\sme)(?:\s(?!can\b){MODAL})?(?:\s{SO})?\s)?{CHANGE}"
        rf"\s(?:{text}|{name})\s(?:up\s|down\s)?to(?:\s{MANNER})?"
    )
    think = (
        rf"(?:(?:i|we)(?:['’]d)?(?:\s{MODAL})*\s(?:think|believe|feel|find|say|conclude|consider)"
        r"(?:\sthat)?(?:\s|\Z))?"
    )
    getting = (
        rf"{think}{text}(?:\s(?!will\b|can\b(?!\sbe)|must\b){MODAL})*\s{GET}(?:\s(?:as|at|with))?"
        rf"\s?{number}"
    )
    fitting = (
        rf"{think}{text}(?:\s(?!{POSSIBLY}\b){MODAL})*\s{FITS}\s(?:(?:an?|the)\s)?"
        rf"(?!grade\s?\Z){NOUN}(?:\sof)?"
    )
    which = (
        rf"(?:\s(?:that\s)?(?:i|we)(?:['’](?:d|ll))?(?:\s{MODAL})*\s{GIVE}"
        rf"(?:\s(?:to\s)?{text})?)?"
    )
    being = rf"{think}{name}{which}\s?(?:{MODAL}\s)*{BE}(?:\s{MODAL})*\s?[,:]?\s?{number}"
    signed = rf"{name}\s?{SIGN}{{1,3}}\s?(?:{number}|{giving}|{getting})?"
    concerning = r"(?:for|as\sfor|in\sterms\sof|on|regarding|with\s(?:regards?|respect)\sto)"
    begun = rf"{so}(?:{concerning}\s{text}\s?,\s?{so})?"
    return RatingGrammar(
        (
            lazy_pattern(
                rf"(?:(?:{KIND}|evaluation)\s)*(?!grade\slevel)"
                rf"(?:{NOUN}|{stem or '(?!)'}(?:\s{NOUN})?){scale}"
                r"\s?[:：=]{1,2}\s?"
            ),
            lazy_pattern(
                rf"{begun}the\s(?:(?!{OTHERS}\b)[\w-]{{3,20}}\s){{1,2}}(?:{own or 'overall'}\s)?"
                r"rating\s(?:is|would\sbe)(?:\san?)?\s?"
            ),
            *(
                lazy_pattern(rf"{prefix}{begun}{how}\s?")
                for how in (signed, being, giving, getting, changing, fitting)
            ),
            _FOREIGN_LEAD,
        ),
        lazy_pattern(
            rf"{prefix}{so}{name}\s?|(?:the|this)\s(?!answer|solution|code|title|output|question){TEXTS}\sis\s?"
        ),
        lazy_pattern(
            rf"(?:{begun}{name}|{FOREIGN}|response|output|{NOUN}\s?:\s?{own or '(?!)'})"
            rf"\s?(?:{BE}\s?)?{SIGN}?\s?"
        ),
        lazy_pattern(rf"{begun}{think}(?:(?:this|that|it)\s(?:all\s)?{LEADS_TO}\s)?{noun}\s?"),
        lazy_pattern(rf"(?:and\s)?(?:the|its|a)?\s?{NOUN}\s?{BE}\s?(?:{number})?\s?"),
        lazy_pattern(
            rf"(?:and\s)?{so}(?:(?:which|this|that|it)\s{LEADS_TO}\s)?(?:{LEAD_TO}\s)?"
            rf"(?:{GET}\s|{LEAD_TO}\s)?(?:(?:in|to|at|as)\s)?(?:{text}\s)?{noun}\s?"
            rf"|(?:and\s)?{so}(?:{text}\s)?(?:{GET}|(?:giving|earning|making)\s{text}"
            rf"|landing\sat|which\s{LEADS_TO}(?:\s{text})?)"
            rf"\s(?:{MANNER})?\s?|{NOUN}\s?"
        ),
        lazy_pattern(rf"{begun}{text}\b"),
        lazy_pattern(
            rf"{verdict}{begun}{think}(?:{LEAD_TO}\s)?"
            rf"(?:(?:this|that|which)\s{LEADS_TO}\s(?:{text}\s)?"
            rf"|{text}\s?(?:{MODAL}\s)*(?:is|['’]s)"
            rf"(?:\srated|\sscored)?\s?|(?:rated|scored|scoring|graded)\s?)?(?:{MANNER}\s?)?"
        ),
        lazy_pattern(rf"{begun}{think}(?:(?:this|it)\s?(?:is|['’]s)\s)?(?:{MANNER}\s?)?"),
        lazy_pattern(
            r"[ \t]+(?:for|in|on|of|to|regarding|concerning|with\s(?:respect|regards?)\sto"
            rf"|in\sterms\sof|when\sit\scomes\sto)\s{_ABOUT}(?:{TEXT}"
            + (
                rf"|(?P<own>(?:[\w'’-]{{1,20}}\s){{0,4}}?\w{{0,4}}{own})"
                if own
                else "|(?P<own>(?!))"
            )
            + r")(?!\w)"
        ),
        lazy_pattern(
            r"(?:if(?!\s\d+\s(?:is|means)\s[^,]*\sand\s\d|\s(?:i|we)\s(?:had|have|must)\b)|were|had|when|once|unless|should|until|suppose|without"
            r"|with(?!\sre(?:gard|spect))|as(?!\san?\b|\sfor\b)"
            r"|to|according|at|during|from"
            r"|in(?!\sterms|\s(?:conclusion|summary|total|short|sum|general|my|light|contrast)\b)"
            rf"|for(?!\s(?:{text}|this|these|that|the\sreason)\b)"
            r"|on(?!\s(?:balance|the\swhole|this|reflection|a\b)\b)"
            r"|wenn|falls|si|se|als|если)\b|如果|若|假如|要是|除非|もし"
        ),
    )


_ABOUT = r"(?:(?:the|its|overall|their)\s)?"
