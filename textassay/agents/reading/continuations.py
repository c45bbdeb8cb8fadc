r"""Finds where an answer goes on with a further example of the prompt's template.

A model that only continues texts writes its rating, then the next text and the rating of that one:
`4\n\nArticle: ...\nSummary: ...\nCoherence: 2`. What begins with such material says nothing about
the asked text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from textassay.agents.reading.sentences import names_rating
from textassay.agents.reading.values import WINDOW, lower_of
from textassay.agents.reading.words import MATERIAL, NOUN, NUMBER, REASONS, TEXTS
from textassay.lazy import lazy_alternatives, lazy_pattern

# Article: ...   Summary 2: ...   ### Response:   [Article]   Q12. ...   Turn 7
_LABEL = lazy_pattern(
    r"\n[ \t]*+(?:\(?\d{1,2}[.)][ \t]+)?(?P<mark>#{1,6}[ \t]*+|\[)?"
    r"(?P<name>[^\W\d_]++(?:[ '’-][^\W\d_]++){0,2})"
    r"[ \t]?(?P<number>\d{1,3})?\]?(?:[ \t]?\([^()\n]{1,30}\))?"
    r"[ \t]*+(?:(?P<sign>[:：]|\.(?=[ \t]))(?P<text>[^\n]*)|(?=\n|\Z))"
)
_REASON = lazy_pattern(rf"{REASONS}|(?i:note|.*[^s]s):")
_VALUE = lazy_pattern(rf"(?i)\W*(?:{NUMBER})?\W*")
# under these judges sum up or talk, too
_USED_BY_JUDGES = lazy_pattern(
    r"(?:.*\s)?(?:summary|review|report|answer|response|output|work|statement|sample|example"
    r"|user|human|customer|assistant|bot|speaker)"
)
_RATED_BELOW = lazy_pattern(rf"(?i)\s*(?:{NOUN}\s?[:：]\s*)?{NUMBER}(?![ \t]*\w)")
_LINE_OF_SIGNS = lazy_pattern(r"(?:#{3,}|={3,}|-{3,}|\*{3,})\s*\Z")


# a line with which something else begins, in lower case
_OPENER = lazy_alternatives(
    r"\n[ \t]*",
    # Student 2: ...   Annotator 2   (dialogue 31)   Item 12. ...   [sample_019.wav]
    numbered=rf"(?:[#(\[|]{{1,3}}[ \t]?)?(?:(?<=[(\[])(?={TEXTS})|(?={TEXTS}\s\d\d)"
    r"|(?!(?:step|part|point|paragraph|sentence|line|section|page|version|criterion|aspect|dimension"
    rf"|stage|check|reason|issue|error|option|{NOUN}|{TEXTS})\b))"
    r"[^\W\d_]{3,12}[ _][#(]?(?:\d{1,4}|[b-h])"
    r"(?:[:,)\]]|[ ]\||\.(?:\d+\.)?(?=[ \t]+\S)|[ \t]*\n\s*(?=\S))",
    # 13. It is clear, of a list that does not begin here
    item=r"(?:[2-9]|\d\d)[.)][ \t]+(?=[^\W\d_])",
    # Rate the summary's fluency from 1 to 5.   Thank you. Now, please rate its fluency
    request=r"(?![^\n]*\?)[\"“]?(?:(?:thank\syou|thanks|ok(?:ay)?|good)[.,!]\s)?(?:(?:now|next|then|please),?\s){0,3}"
    r"(?:rate|score|grade|evaluate|assess|translate|classify)\s(?:the|this|how|its|your|into|whether)\b",
    # >>> rate(text)   // a comment   \end{table}   {"article": ...   UPDATE texts SET n = 2
    code=r"(?:>{1,3}[ ]?\w|//|\\[a-z]|\}?,?\{\s*[\"\n]|[a-z]+\s[a-z_]+\s[a-z]+\s[a-z_]+\s=)",
    # Posted by mike on ...   EDIT: ...   Next: ...   Comments (3)
    page=r"(?:posted\b|re:|edit\b[^:\n]{0,4}:|next:|comments?\s\(\d|(?:was|did)\s(?:this|the)\b[^\n]*\?)",
)


def openers(plain: str) -> Iterator[int]:
    """Yield where lines begin that open something else than the judge's answer."""
    for match in _OPENER.finditer(f"\n{lower_of(plain)}"):
        if not match[0].strip()[0].isdigit() or not re.search(r"(?m)^\W*1[.)]\s", plain):
            yield match.start()


class _Label(NamedTuple):
    """The beginning of a line that names what follows it."""

    start: int
    name: str
    number: int
    """Behind its name; 0 for none."""
    kind: Literal["known", "unknown", "rating"]
    """Whether it names material, as such material is often called or by another word, or a
    rating."""


def next_example(plain: str, own: str, is_continuation: bool = False) -> int | None:
    """Return where an answer begins with a further example; `None` if it does not.

    An example has two names of material, one that comes again behind a rating, or a known one. One
    that judges use, too, is alone none unless it is numbered on or below a line of signs.

    Args:
        plain: The answer without markup.
        own: Pattern of the aspect's name; empty for none.
        is_continuation: Whether the answer goes on in the prompt's line, as base models do.
    """
    text = f"\n{plain}"
    heads = list(_LABEL.finditer(text))
    names = [head["name"].lower() for head in heads]
    if len(set(names)) == len(names) and not any(map(_is_material, names)):
        return None
    labels = [label for head in heads if (label := _label_of(text, head, own))]
    known = [label for label in labels if label.kind == "known"]
    again = _labels_again(labels)
    ratings = [label.start for label in labels if label.kind == "rating" and not _is_last(label)]
    is_template = (
        bool(again)
        or (is_continuation and bool(known and ratings) and known[0].start < ratings[-1])
        or len({label.name for label in known}) > 1
        or any(
            label.number > 1
            or not _USED_BY_JUDGES.fullmatch(label.name)
            or _LINE_OF_SIGNS.search(plain, max(0, label.start - WINDOW), label.start)
            for label in known
        )
    )
    return min(label.start for label in known + again) if is_template else None


def without_cut_repetition(plain: str) -> str:
    """Return an answer without its end if that is half of a sentence that it repeats.

    `Rate it from 1 to 5. Rate it from 1 to 5. Rate it from 1`
    """
    begin = max(plain.rfind("\n"), plain.rfind(". ")) + 1
    end = plain[begin:].strip()
    if len(end.split()) < 3 or plain.count(end) < 3:
        return plain
    whole = re.findall(rf"{re.escape(end)}[^\w.\n]*\w", plain[:begin])
    return plain[:begin] if len(whole) > 1 else plain


def _is_last(label: _Label) -> bool:
    return label.name.startswith(("final", "revised", "corrected", "overall"))


@lru_cache(maxsize=1024)
def _is_material(name: str) -> bool:
    return MATERIAL.fullmatch(name) is not None


def _label_of(text: str, head: re.Match[str], own: str) -> _Label | None:
    """Return the label that a line begins with; `None` if it does not label a text."""
    name, number, beside = head["name"].lower(), int(head["number"] or 0), head["text"] or ""
    is_own = bool(own) and re.search(own, name, re.IGNORECASE) is not None
    is_known = not is_own and _is_material(name)
    is_head = head["sign"] or (is_known and (head["mark"] or number))
    # `Text 2:` above `Rating: 4` is rated here
    if not is_head or (not beside.strip() and _RATED_BELOW.match(text, head.end())):
        return None
    has_value = bool(beside) and _VALUE.fullmatch(beside) is not None
    is_unknown = not is_known and (has_value or names_rating(name))
    if is_own or is_unknown or (number and has_value):
        return _Label(head.start(), name, number, "rating")
    if _REASON.fullmatch(f"{name}:"):
        return None
    return _Label(head.start(), name, number, "known" if is_known else "unknown")


def _labels_again(labels: list[_Label]) -> list[_Label]:
    """Return the labels of material that are in a later example, too, with a rating between."""
    first, ratings, again = dict[str, int](), 0, set[str]()
    for label in labels:
        if label.kind == "rating":
            ratings += 1
        elif first.setdefault(label.name, ratings) < ratings:
            again.add(label.name)
    return [label for label in labels if label.name in again and label.kind != "rating"]
