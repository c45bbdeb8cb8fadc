r"""The grammar of ratings in prose: where a number is the answer's own rating, and where it is not.

A number is a rating if the clause that leads up to it speaks of nothing but the rating, and what
follows closes it. A clause begins at a line, a sentence, a comma, a dash or a parenthesis, and is
one of a few phrases over small closed sets of words, with the aspect's name among them:

1. a name, with a sign or a verb: `Score: 4`, `The fluency score is 4`, `Rating - a solid 4`;
2. the judge who gives it: `I would therefore rate this summary as a 4`;
3. the text that gets it: `The response deserves a score of 4`, `It is a 4 out of 5`;
4. what follows from a clause before it: `..., earning a score of 4`, `... (4/5)`;
5. a conclusion: `It drags, so 3`, `→ 3`, `That makes it a 3`, `Bottom line: a 3`;
6. the value by itself: the first line, the last line, or the last sentence.

Names and verbs are read in German, French, Spanish, Portuguese, Italian, Dutch, Russian, Chinese,
Japanese and Korean, too, as far as one pattern goes: a name with a sign, `ich gebe ... eine 4`,
`打4分`.

It is closed by an end, a mark, a parenthesis, a conjunction, or by what it is a rating of (`for
fluency`), never by a noun: `Fluency: 4 sentences lack a verb` counts sentences. No other number may
stand by itself in the rest of its sentence, the sentence asks nothing and sets no condition, and
none of it is quoted. An end-of-turn token that a server left in ends a line; a tag or a sign in
brackets, in which trained judges answer (`<score>4</score>`, `[RESULT] 4`), is a name.

Everything is looked for in a window of fixed length around a number, so time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from textassay.agents.reading.assertions import (
    asserts_level,
    is_approved,
    levels_of,
    sets_condition,
)
from textassay.agents.reading.phrases import RatingGrammar, grammar_of
from textassay.agents.reading.values import (
    WINDOW,
    RatingForm,
    Statement,
    bare_numbers,
    is_quoted,
    statement_of,
    value_pattern,
)
from textassay.agents.reading.words import (
    CJK,
    FOREIGN,
    GOES_ON,
    MANNER,
    NOUN,
    OTHERS,
    OTHERWISE,
    SO,
    TEXT,
    TEXTS,
    any_of,
)
from textassay.lazy import lazy_pattern

# Score: 4 Explanation: It reads well.
_EXPLANATION = (
    r"(?:rationale?|reason(?:ing|s)?|explanation|justification|analysis|comments?|feedback|evidence"
    rf"|notes?|(?:(?:final|overall)\s)?{NOUN})\s?[:：]"
)
_CLOSES = lazy_pattern(
    # a next line that goes on in lower case is the same sentence, unless it is `reason: ...`
    r"(?i)(?P<end>[ \t]*(?=\Z|\n(?![ \t]*(?-i:[a-z])(?![\w ]{0,30}[:=(])))"
    r"|[ \t]*(?:[.!;]{1,3}(?=[\s\"”’)\]]|\Z)|[。！；।，]))"
    r"|(?P<mark>,(?=\s)|[ \t]*[:：](?=\s)"
    r"|(?:[ \t]*[–—](?=[ \t]|[A-Za-z])|[ \t]+--?(?=\s)|--?(?=[ \t]))(?!\s{0,3}\d)"
    r"|[ \t]*\||[)\]\"”])"
    rf"|(?P<word>[ \t]+(?={GOES_ON}\b)|(?=です(?!か)|だ(?!とは)|と[评評し思な]))"
    rf"|(?P<label>[ \t]+(?={_EXPLANATION}))"
    r"|[ \t]*[(\[](?P<gloss>[^()\[\]\n]{0,200})[)\]]"
)
_SENTENCE_END = lazy_pattern(r"[.!?;](?=[\s\"”’)\]]|\Z)|[。！？；।\n]")
# the beginning of a clause, last of all, or of a sentence
_BOUNDARY = lazy_pattern(
    r"(?P<hard>[.!?;。！？][\"”’')\]]{0,2}\s+|[。！？।])"
    r"|(?P<soft>,[\"”’']?\s+|[，；]|:\s+(?=(?:my|i)\s)|\sso\s(?=(?:an?\s)?\d)|\sand\s+|\s(?:--|[-–—])\s|—|[(\[]|…\s?)"
)
_BULLET = lazy_pattern(
    r"[ \t]{0,8}(?:(?:[-•+|*→⇒>]|[=-]>|#{1,6}|\d{1,2}[.)]|\([a-z]\)"
    r"|(?i:assistant|judge|evaluator|ai|model|bot|a)\s?(?:\#?\d)?\s?:)[ \t|]{1,4}"
    r"|#{2,6}(?=\w)){0,2}"
)
_ABBREVIATED = lazy_pattern(
    r"(?i)\b(?:no|nr|vol|figs?|secs?|ch|pp?|ca|approx|art|eq|ver|vs?|cf|e\.g|i\.e|pts?|[nptv])\.\s+\Z"
)


class _Clause(NamedTuple):
    """What leads up to a number."""

    text: str
    """In lower case, with single spaces."""
    kind: Literal["line", "sentence", "soft"]
    """What it begins at."""
    before: str
    """The rest of the sentence before it."""


def statements_in(plain: str, form: RatingForm, own: str, low: float) -> Iterator[Statement]:
    """Yield the ratings that a text states, in order; equal to `plain` in length and places.

    Args:
        plain: The answer without markup.
        form: How the ratings were asked for.
        own: Pattern of the aspect's name; empty for none.
        low: The lowest rating, which the letter A stands for.
    """
    text = _Text.of(plain, form, own)
    for match in value_pattern(form).finditer(plain):
        start, end = match.span()
        opened = _opening_before(plain, start)
        closed = _closing_at(plain, end, opened)
        # with the brackets or quotes around it, or without them
        spans = [(start - len(opened), closed), (start, end)] if closed > end else [(start, end)]
        candidates = (_candidate(text, match, *span) for span in spans)
        if any(one is not None and one.is_stated() for one in candidates):
            yield statement_of(match, low)


class _Text(NamedTuple):
    """An answer and how it is read."""

    plain: str
    """Without markup."""
    form: RatingForm
    own: str
    """Pattern of the aspect's name; empty for none."""
    grammar: RatingGrammar
    first: int
    """Where the first line that is not empty begins."""
    last: int
    """Where the last one does."""

    @classmethod
    def of(cls, plain: str, form: RatingForm, own: str) -> _Text:
        start = len(plain) - len(plain.lstrip())
        first = plain.rfind("\n", 0, start) + 1
        return cls(plain, form, own, grammar_of(own), first, plain.rstrip().rfind("\n") + 1)

    def line_above(self, line: int) -> str:
        """Return the last line that is not empty above the line that begins here."""
        above = self.plain[max(0, line - WINDOW) : line].rstrip()
        return above[above.rfind("\n") + 1 :]

    def is_heading(self, line: str) -> bool:
        """Return whether a line is the name of a rating, with its value on the line below."""
        name = _words(_BULLET.sub("", line, count=1))
        return bool(name) and self.grammar.heading.fullmatch(name) is not None


def _opening_before(plain: str, start: int) -> str:
    """Return the brackets or quotes that stand directly before a value."""
    match = _OPENED.search(plain, max(0, start - 3), start)
    return match[0] if match else ""


_OPENED = lazy_pattern(r"[(\[\"“]{1,2}\s?\Z")
_SPACES = lazy_pattern(r"[ \t]{0,60}")
_PAIRS = {"(": ")", "[": "]", '"': '"', "“": "”"}


def _closing_at(plain: str, end: int, opened: str) -> int:
    """Return where the brackets around a value end; `end` if they are not closed behind it."""
    closing = "".join(_PAIRS[sign] for sign in reversed(opened.strip()))
    at = _SPACES.match(plain, end).end() if closing else end  # type: ignore[union-attr]
    return at + len(closing) if closing and plain.startswith(closing, at) else end


def _candidate(text: _Text, match: re.Match[str], begin: int, stop: int) -> _Candidate | None:
    """Return a value as a candidate; `None` if it is quoted, part of an example, or a count.

    Args:
        text: The answer.
        match: The value.
        begin: Where it begins, with the brackets or quotes around it where they belong to it.
        stop: Where it ends, likewise.
    """
    plain = text.plain
    after = _closure_of(plain, stop, text.grammar, statement_of(match, 1.0).value)
    if after is None:
        set_off = (match["top"] or begin < match.start()) and not plain[:begin].strip()
        marked = plain.startswith("[[", begin) and _RATED_SO.match(plain, stop)
        approved = is_approved(plain, stop)
        if not (marked or approved or (set_off and _NEW.match(plain, stop))):
            return None
        after = _After(stop, not approved, dot=False, sign=False, word=approved, about=False)
    break_at = plain.rfind("\n", max(0, begin - WINDOW), begin)
    line = break_at + 1 if break_at >= 0 else max(0, begin - WINDOW)
    above = text.line_above(line)
    if _EXAMPLES.match(plain):
        return None
    if is_quoted(plain, line, begin) or _EXAMPLE.search(f"{above}\n{plain[line:begin]}"):
        return None
    if above.endswith(":") and REPORTS_BELOW.search(above):
        return None
    has_quote_mark = plain[line : line + 8].lstrip().startswith(">")
    if has_quote_mark and (above.lstrip().startswith(">") or not text.is_heading(above)):
        return None
    return _Candidate(text, match, begin, line, _clause_before(plain, line, begin), above, after)


_Lead = Literal["named", "unsigned", "noun", "heading", "nothing"]
"""How a clause leads up to a value: by a name with a sign or a verb, by a name alone or a
conclusion, by a noun (`a score of`), by a name on the line above, or not at all."""


class _Candidate(NamedTuple):
    """A value that may be a rating, with the clause that leads up to it and what follows."""

    text: _Text
    match: re.Match[str]
    begin: int
    """Where the value begins, with the brackets or quotes around it."""
    line: int
    """Where its line begins, or the part of a long line that is read."""
    clause: _Clause
    above: str
    """The last line above that is not empty."""
    after: _After

    def is_stated(self) -> bool:
        """Return whether the text states the value as its rating."""
        after = self.after
        match self._lead():
            case "named":
                stated = True
            case "unsigned":
                # Style (4/5): ...
                in_brackets = self.begin < self.match.start() and bool(self.match["top"])
                stated = after.ends or (in_brackets and after.sign)
            case "noun":
                stated = not after.sign
            case "heading":
                stated = after.ends or after.sign
            case "nothing":
                stated = self._stands_alone()
        return stated and _is_settled(self.text.plain, after.at, self.text.form)

    def _lead(self) -> _Lead:
        """Return how the clause leads up to the value."""
        clause, grammar, lead = self.clause, self.text.grammar, self.clause.text
        if self._is_marked():
            return "named"
        if self._is_level():
            return "named"
        if clause.kind == "soft" and (after_comma := self._lead_after_comma()):
            return after_comma
        if lead and _is_named(grammar, lead):
            return "named"
        if lead and _CONCLUDES.fullmatch(lead):
            # that makes it a 3 rather than
            makes_it = re.search(r"\b(?:makes|puts|places|brings)\s(?:it|this)\b.*\ba\Z", lead)
            return "named" if makes_it or self._is_asserted() else "unsigned"
        # not the last level of `good (4), bad (1)`
        is_graded = self.begin < self.match.start() and _GRADED.fullmatch(lead)
        if is_graded and not _BRACKETED.search(self.text.plain, self.line, self.begin):
            return "unsigned"
        if self._is_share() or self._is_asserted():
            return "named"
        if clause.kind != "soft":
            if lead and grammar.noun.fullmatch(lead):
                return "noun"
            if lead and grammar.unsigned.fullmatch(lead):
                return "unsigned"
            below = not lead and clause.kind == "line" and not self.after.dot
            is_below_name = below and self.text.is_heading(self.above)
            return "heading" if is_below_name else "nothing"
        # a whole sentence with a comma in it: `Therefore, for fluency, I rate it 4`
        whole = _words(f"{clause.before} {lead}")
        return "named" if _is_named(grammar, whole) else "nothing"

    def _is_level(self) -> bool:
        """Return whether a value begins the answer as the only level in it, with its meaning."""
        lead, own = self.clause.text, self.text.own
        if not lead or self.line > self.text.first:
            return False
        plain, end = self.text.plain, self.match.end()
        # slightly biased → 2
        if (
            own.isalpha()
            and self.after.ends
            and re.fullmatch(rf"{_DEGREE}\s{own[:4]}\w*\s?[:→]", lead)
        ):
            return len(re.findall(rf"(?i)\b{own[:4]}\w*\s?[:→=]", plain)) == 1
        if lead not in ("level", "option", "category"):
            return False
        only = len(re.findall(rf"(?i)\b{self.clause.text}\s\d", plain)) == 1
        return only and re.match(r"\s?(?:[–—:-]\s|,\s[\"“])", plain[end : end + 4]) is not None

    def _is_asserted(self) -> bool:
        """Return whether the judge asserts the value in words of their own."""
        before, lead, text = self.clause.before, self.clause.text, self.text
        after = self.after
        ends = after.ends or after.about or bool(self.match["top"])
        ends = ends or (after.sign and _EXPLAINS.match(text.plain, after.at) is not None)
        end = self.match.end()
        return asserts_level(before, lead, text.plain, end, text.own, ends=ends) and levels_of(
            text.plain
        ) <= {statement_of(self.match, 1.0).value}

    def _is_marked(self) -> bool:
        """Return whether a mark such as `[[4]]` ends an answer, or a clause, about a rating."""
        plain, line = self.text.plain, self.line
        if not plain.startswith("[[", self.begin):
            return False
        if _FOREIGN_MARK.fullmatch(self.clause.text):
            return True
        if (
            self.clause.text.endswith(":")
            and plain.count("[[") == 1
            and not plain[self.after.at :].strip(" .\n")
        ):
            lead = f"{self.clause.before} {self.clause.text}"
            return _OF_TEXT.search(lead) is not None and _FORMAT.search(lead) is None
        is_last = line >= self.text.last and not plain[line : self.begin].strip()
        return (
            is_last
            and self.after.ends
            and bool(_OF_RATING.search(plain, max(0, line - WINDOW), line))
        )

    def _lead_after_comma(self) -> _Lead | None:
        """Return how a clause behind a comma or a dash leads up; `None` if more has to be read."""
        plain, grammar, lead = self.text.plain, self.text.grammar, self.clause.text
        before = self.clause.before
        only_so = _ONLY_SO.fullmatch(before)
        if self._is_asserted():
            return "named"
        if _WEIGHED.search(before) or (not only_so and grammar.opening.match(before)):
            return "nothing"
        if only_so:
            return None
        if not self._is_strong() and grammar.weak.fullmatch(lead):
            return "nothing"
        if not lead or not grammar.consequence.fullmatch(lead):
            return None
        goes_on = plain[max(0, self.begin - WINDOW) : self.begin].lower()
        by_and = goes_on.rstrip().endswith(f"and {lead}")
        of_text = any(map(grammar.subject.match, before.split(", ")))
        return "named" if of_text or not by_and else "nothing"

    def _is_strong(self) -> bool:
        """Return whether the value says by itself that it is a rating: `4/5`, `4 stars`."""
        return bool(self.match["top"]) or "stars" in self.match[0].lower() or self.after.about

    def _is_share(self) -> bool:
        """Return whether a value such as `4/5` is a rating without a name, and not a count."""
        plain, match, lead = self.text.plain, self.match, self.clause.text
        in_brackets = plain[match.start() - 1 : match.start()] in ("(", "[")
        if in_brackets and self.after.sign:
            return False  # Tone (4/5): ...
        part = _PART.search(match[0]) and in_brackets
        counted = part or _COUNTED.search(lead)
        if self._is_strong() and not counted and self.text.grammar.share.fullmatch(lead):
            return True
        # it is one step below the best: 4/5
        return bool(
            match["top"]
            and lead.endswith(":")
            and len(lead.split()) >= _SENTENCE
            and (self.text.grammar.subject.match(lead) or _JUDGE.match(lead))
            and not _SHARE_OF.search(lead)
            and not _REPORTS.search(lead)
            and not plain[match.end() :].strip(" .!\n")
        )

    def _stands_alone(self) -> bool:
        """Return whether a value without a name is the first or last line, or last sentence."""
        clause, after = self.clause, self.after
        plain, form = self.text.plain, self.text.form
        if clause.text and not (
            self.text.grammar.alone.fullmatch(clause.text) or _BRIEF.fullmatch(clause.text)
        ):
            return False
        if clause.text.endswith((" a", "the", "is")) and _SPOKEN.match(clause.text):
            return (after.ends or after.word) and not sets_condition(clause.before)
        if _COMPARES.search(plain, end := self.match.end(), end + WINDOW):
            return False
        at_end = not _MINE.sub("", plain[after.at :]).strip()
        if clause.kind == "sentence":
            return at_end and _LONG_ENOUGH.search(plain, self.line, self.begin) is not None
        if clause.kind == "soft" or plain[self.line : self.begin].strip()[:1].isdigit():
            return False
        if self.line <= self.text.first:
            # `1. It is ...` begins a list, and nothing else does
            if after.dot:
                single = "\n" not in plain.strip() and form != "letters"
                item = statement_of(self.match, 1.0).value
                # `1. Fluency: 4` is a list of one
                return single and (item != 1 or not any(bare_numbers(plain[after.at :], form)))
            return True
        # it is the value of the name above, and that is not the name of a rating
        named = self.above.endswith((":", "：")) or self.above.lstrip().startswith("#")
        return self.line >= self.text.last and at_end and not named


def _is_named(grammar: RatingGrammar, lead: str) -> bool:
    if "have" in lead and re.search(r"(?:\bwould|\w['’]d)\shave\b", lead):
        return False
    return not _ANSWER_IS.fullmatch(lead) and any(
        pattern.fullmatch(lead) for pattern in grammar.named
    )


# Here is an example of the output:
_EXAMPLE = lazy_pattern(
    r"(?i)(?:\b(?:example|sample|template|format|schema)\b|(?m:^)\W*e\.g\.)[^.!?\n]{0,60}[:：]"
)
# Example:   of several lines
_EXAMPLES = lazy_pattern(r"(?i)\W{0,8}(?:example|sample)s?(?:\s\w{1,12}){0,2}\W*\n")
# The text contains the following lines:
REPORTS_BELOW = lazy_pattern(
    rf"(?i)\b{TEXTS}\s(?:says|reads|contains|includes)(?:\s[\w ]{{1,40}})?:"
    r"\s{0,20}(?:json\s{0,20})?\Z"
)
# 70/100 The text flows.
_NEW = lazy_pattern(r"[ \t]+[A-Z]")


class _After(NamedTuple):
    """How a rating is closed."""

    at: int
    """Where what follows goes on."""
    ends: bool
    """Whether its line or sentence ends with it."""
    dot: bool
    """Whether it ends with a full stop and its line goes on."""
    sign: bool
    """Whether a colon, a dash or a bar follows."""
    word: bool
    """Whether a word goes on, such as `because`."""
    about: bool
    """Whether it says that it is a rating of the aspect."""


def _closure_of(plain: str, at: int, grammar: RatingGrammar, value: float) -> _After | None:
    """Return how a value that ends here is closed; `None` if it counts something."""
    of_aspect = False
    for _ in range(4):
        if about := grammar.about.match(plain, at):
            at, of_aspect = about.end(), of_aspect or about["own"] is not None
            continue
        closed = _CLOSES.match(plain, at)
        if closed is None:
            return None
        if (gloss := closed["gloss"]) is not None:
            if any(number != value for number in bare_numbers(gloss, "number")):
                return None
            at = closed.end()
            continue
        if closed["mark"] is not None and closed["mark"].strip() in (")", "]", '"', "”"):
            at = closed.end()
            continue
        ends = closed["end"] is not None or closed["label"] is not None
        dot = ends and closed[0].strip() == "." and bool(_REST.match(plain, closed.end()))
        sign = (closed["mark"] or ",").strip() != ","
        return _After(closed.end(), ends, dot, sign, closed["word"] is not None, of_aspect)
    return None


_REST = lazy_pattern(r"[ \t]+\S")


def _clause_before(plain: str, line: int, begin: int) -> _Clause:
    """Return the clause that ends before a value."""
    indent = _BULLET.match(plain, line, begin)
    at: int = indent.end() if indent else line
    kind: Literal["line", "sentence", "soft"] = "line"
    sentence = at
    for boundary in _BOUNDARY.finditer(plain, at, begin):
        hard = boundary["hard"] is not None
        if hard and _ABBREVIATED.search(plain, max(line, boundary.start() - 8), boundary.end()):
            continue
        rest = plain[boundary.end() : begin]
        # a dash or a bracket behind a name belongs to it: `Rating - 4`, `Score (1-5): 4`
        if not hard and not rest.strip() and boundary[0].strip() not in ("(", "[", ","):
            continue
        if not hard and boundary[0].strip() in ("(", "[") and re.search(r"[)\]]", rest):
            continue
        # `therefore, the score is 4` is one clause
        begins = _words(plain[at : boundary.start()])
        if not hard and begins and _ONLY_SO.fullmatch(begins):
            continue
        at, kind = boundary.end(), "sentence" if hard else "soft"
        if hard:
            sentence = at
    return _Clause(_words(plain[at:begin]), kind, _words(plain[sentence:at]))


def _words(text: str) -> str:
    return " ".join(text.split()).lower()


_DEGREE = any_of("partially partly slightly somewhat mostly very highly fully moderately strongly")
_CALLS = (
    r"(?:let['’]?s\s(?:say|call\sit|go\swith)"
    r"|(?:that|this|which)\s(?:makes|puts|places|brings)\s(?:it|this)(?:\s(?:at|to))?)"
)
# this would be a 3: I understood it
_EXPLAINS = lazy_pattern(r"(?i)\s*(?:i|it|its|they|there|some|most|all)\b")
# so 3   → 3   let's say a 3   that makes it a 3
_CONCLUDES = lazy_pattern(
    rf"(?:(?:and\s|but\s)?(?!then\b|(?:and|but)\s?\Z){SO}\s?[,:=–—-]*\s?|→\s?|⇒\s?|[=-]>\s?|tl;?dr\s?:\s?"
    r"|(?:final|total|output|number|yes|full\smarks)\s?[:,]\s?"
    r"|(?:the\s)?bottom\sline\s?(?:is)?[:,]?\s?|i['’]?m\sin\sthe\smiddle\s?[:,]\s?)"
    rf"(?:(?:{_CALLS}|(?:i['’]?d\s)?(?:say|call\sit)|it\s?(?:['’]?s|is)|we\sget)\s?)?(?:{MANNER})?"
    rf"|(?:{_CALLS}|its)(?:\s{MANNER})?"
)
# overall: very good (4)
_GRADED = lazy_pattern(
    rf"(?:\w+(?:\s\w+)?\s?[:：–-]\s?|{TEXT}\s(?:is|seems|appears)\s)?(?:(?:very|mostly|moderately|fairly|highly|partly|somewhat|not|quite)\s)?"
    r"(?:excellent|outstanding|good|great|fair|average|mediocre|acceptable|adequate|decent|poor|bad|weak"
    r"|strong|perfect|terrible|satisfactory|(?:flu|coher|consist)ent|relevant|readable|engaging|helpful"
    r"|low|medium|high|moderate|neutral|(?:strongly\s)?(?:dis)?agree)"
    r"|(?:\w+\s)?(?:rating|score|grade|level)\s?:\s?(?!.*\b(?:none|no|see|missing|unknown|given|school|page|age)\b)[\"“]?[a-z]+(?:\s[a-z]+){0,2}[\"”]?"
)
# 이 답변에 대한 점수는 [[4]]로 평가한다
_FOREIGN_MARK = lazy_pattern(
    rf"(?!{OTHERWISE}|.*(?:최고|최대|평균|만약|다면))(?:[{CJK}]{{1,12}}\s){{0,12}}{FOREIGN}[{CJK}]{{0,2}}"
)
_OF_TEXT = lazy_pattern(rf"\b(?:{TEXTS}|{NOUN}|assistant(?:['’]s)?)\b")
_FORMAT = lazy_pattern(
    r"\b(?:form(?:at)?|like|such|example|e\.g|please|not|never|if|than|of|to|respond|write|range|max\w*"
    rf"|would|could|should|your|score[sd]?\sfrom|{OTHERS})\b"
)
_RATED_SO = lazy_pattern(r"으?로\s(?:평가|매기|부여|판단)\w{0,6}[.\s]*\Z")
# ### Rating: In view of all this:
_OF_RATING = lazy_pattern(r"(?mi)^\W*(?:(?:final|overall)\s)?(?:rating|score)\W*$")
_BRACKETED = lazy_pattern(r"[(\[]\s?\d")
# of a question that the text answers
_ANSWER_IS = lazy_pattern(
    r"(?:.*\s)?(?:the|a)\s(?:\w+ct\s|right\s)?(?:answer|result|value)\s(?:is|was|equals)"
)


# I considered taking off a point, making it a 4, but ...
_WEIGHED = lazy_pattern(
    r"\b(?:considered|tempted|debated|hesitated|torn|inclined|thought\sabout|at\sfirst|initially"
    r"|(?:could|might|would)\shave)\b"
)
_ONLY_SO = lazy_pattern(rf"(?:{SO}\s?,?\s?)*")
_SENTENCE = 5
"""Words before a colon that are more than a name."""
# key people mentioned: yes (2 of 2)
_PART = re.compile(r"\d\sof\s")
# facts of the source that the summary keeps: 4/5
_SHARE_OF = lazy_pattern(
    r"\b(?:facts|points|claims|sentences|questions|items|criteria|details|statements|errors|answers"
    r"|references|requirements|arguments|events|keywords|sources|citations|topics)\b"
)
_JUDGE = re.compile(r"(?:i|we)\b")
# the text calls the hotel great: 4/5
_REPORTS = lazy_pattern(
    r"\b(?:calls?|says|said|states?|stated|describes?|claims?|rates?|rated|gives?|reads|writes|wrote"
    r"|asks?|asked|tells?|told|names?|praises?|quotes?|mentions?|reports?|awards?"
    r"|author|reviewers?|critics?|readers?|users?)\b"
)
# summary 2 out of 5 is one of five summaries
_COUNTED = lazy_pattern(rf"\b{TEXTS}\s?\Z")


# 5 from me   3 it is
_MINE = lazy_pattern(r"(?i)\A\s?(?:from\sme|it\sis)[.!]?(?=\s*\Z)")
# `1`, of two responses
_COMPARES = lazy_pattern(
    rf"(?i)\b({TEXTS}|assistant|model)\s(?:1|a)\b[^\n]{{0,120}}\b\1\s(?:2|b)\b"
)
# ok 4   solid 4
_BRIEF = lazy_pattern(
    r"(?:ok(?:ay)?|sure)?\s?,?\s?(?:solid|strong|clear|easy|firm|decent|weak|generous|prob(?:ably)?(?:\sa)?)?"
)
# it is a 4; I think this is a 4
_SPOKEN = lazy_pattern(r"(?:.*\s)?(?:this|it)\s?(?:is|['’]s)\b|(?:.*\s)?(?:i|we)\b")
_LONG_ENOUGH = lazy_pattern(r"\w{2,}[^.!?\n]*[.!?。][\"”’)\]]{0,2}\s+\W{0,3}\Z|[。]\W{0,3}\Z")
_LABEL = lazy_pattern(rf"(?i){_EXPLANATION}")


def _is_settled(plain: str, at: int, form: RatingForm) -> bool:
    """Return whether the rest of a sentence adds no number, no condition and no question."""
    labeled = _LABEL.match(plain, at)
    ended = (
        labeled
        or plain[at - 1 : at] in (".", "!", ";", "。", "\n")
        or plain[at : at + 1] in ("\n", "")
    )
    if ended:
        return True
    end = _SENTENCE_END.search(plain, at)
    stop = len(plain) if end is None else end.start()
    if end is not None and end[0] == "?":
        return False
    rest = plain[at : min(stop, at + 4 * WINDOW)]
    condition = re.search(r"\b(?:if|unless)\b", rest.lower())
    if condition and not re.search(r"[(–—;]|\s-\s", rest[: condition.start()]):
        return False
    return not any(bare_numbers(rest, form, strict=True))
