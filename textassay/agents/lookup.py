"""An example's material as sections and windows that can be listed, searched and read in parts.

Prompts shorten long texts. A judge that searches reads the requested parts word for word; a judge
that checks a claim reads the windows closest to the claim, as FActScore retrieves passages (arXiv
2305.14251, section 4). This module calls no model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from textassay.agents.prompt_template import Task, references_shown
from textassay.agents.quotes import evidence_pieces
from textassay.runtime.base import Message
from textassay.runtime.conversation import answer_piece, conversation_pieces
from textassay.runtime.messages import Example
from textassay.tools.text import DEFAULT_SPLITTER, pack_sentences

GAP = "[...]"
"""Separator of windows that are not adjacent in the text."""


def narrow(
    example: Example, claim: str, *, window: int = 400, most: int = 3, question_counts: bool = True
) -> Example:
    """Return the example with at most `most` windows of its source, the closest to the claim.

    Passages and conversations are shown by their numbers, `most` windows of them in all.

    Args:
        example: The example.
        claim: The claim.
        window: Longest window in words.
        most: Number of windows.
        question_counts: Whether a question is evidence even where there is a context.
    """
    if not (example.passages or example.messages):
        source = example.source or ""
        if len(source.split()) <= window * most:
            return example
        windows = _windows(source, window)
        places = sorted(closest(claim, windows, most))
        shown = f"\n{GAP}\n".join(windows[at] for at in places)
        return example.model_copy(update={"source": shown})
    parts: list[tuple[str, str]] = []
    for piece in evidence_pieces(example, question_counts=question_counts):
        name = "context" if piece.kind == "passage" and not piece.turn else "source"
        parts += [(name, piece._replace(text=text).shown) for text in _windows(piece.text, window)]
    texts = [text for _, text in parts]
    if sum(len(text.split()) for text in texts) > window * most:
        parts = [parts[at] for at in sorted(closest(claim, texts, most))]
    near = {
        name: "\n\n".join(text for place, text in parts if place == name) or None
        for name in ("source", "context")
    }
    return example.model_copy(update=near)


def _windows(text: str, words: int) -> list[str]:
    sentences = DEFAULT_SPLITTER.split(text)
    return pack_sentences(sentences, lambda part: len(part.split()), words, overlap=1)


def closest(claim: str, windows: Sequence[str], most: int) -> list[int]:
    """Return the indices of the windows closest to a claim by BM25, the closest first.

    The parameters are the usual ones (Robertson and Zaragoza 2009, section 3.2).
    """
    k1, b = 1.2, 0.75
    counts = [Counter(_words(text)) for text in windows]
    lengths = [counted.total() for counted in counts]
    mean = (sum(lengths) / len(lengths) if lengths else 0.0) or 1.0
    scores = [0.0] * len(windows)
    for word in set(_words(claim)):
        holding = sum(word in counted for counted in counts)
        # never negative, unlike the plain form, for words in more than half of the windows
        weight = math.log(1 + (len(windows) - holding + 0.5) / (holding + 0.5))
        for at, counted in enumerate(counts):
            often = counted[word]
            room = k1 * (1 - b + b * lengths[at] / mean)
            scores[at] += weight * often * (k1 + 1) / (often + room)
    return sorted(range(len(windows)), key=lambda at: (-scores[at], at))[:most]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


OUTPUT = "output"
"""Name of the section with the text to judge."""
MAX_PLACES = 10
"""Number of places that a search shows; with up to 300 characters each they fill half of a step
(`CHARS` in the investigator). In conversations of tau-bench's airline task, 79 % of the names and
numbers appear in up to 10 places, 42 % in up to 2, and 99 % in up to 40, which would take two
steps."""


class Section(Message):
    """A part of the material that has a name."""

    name: str
    """Name in evidence, such as `turn 4, call 2, result`, `passage 3` or `output`."""
    text: str
    """The whole text."""
    about: str = ""
    """The speaker, or the kind of text."""
    turn: int = 0
    """Number of the turn, from 1; 0 for a place outside of turns."""


class Excerpt(Message):
    """A part of a section that a judge has read."""

    section: str
    """Name of the section."""
    start: int
    """First character, from 0."""
    text: str
    """The characters, unchanged."""
    length: int
    """Length of the whole section in characters."""

    @property
    def end(self) -> int:
        """Character after the last one."""
        return self.start + len(self.text)

    @property
    def place(self) -> str:
        """The section, with the characters if it is not shown whole."""
        if len(self.text) == self.length:
            return self.section
        return f"{self.section}, characters {self.start:,} to {self.end:,} of {self.length:,}"


class Found(NamedTuple):
    """The result of a look into the material."""

    note: str
    """Message to the judge, such as the remaining sections."""
    excerpts: tuple[Excerpt, ...] = ()
    """Parts of sections, word for word."""
    listing: str = ""
    """Names of sections with their beginnings."""
    is_absent: bool = False
    """Whether the text that was looked for was not found."""


class SectionIndex(Message):
    """The sections of one example that a judge may look up."""

    sections: tuple[Section, ...]
    """The output first; then source, conversation and passages in order."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(section.name for section in self.sections)

    def within(self, name: str) -> list[Section]:
        """Return the section of a name and its subsections: `turn 4` includes `turn 4, call 1`.

        An empty name means all sections; `turn` and `passage` mean all turns and passages.
        """
        plain = _plain(name)
        if not plain:
            return list(self.sections)
        begins = (f"{plain},", f"{plain} ") if plain in ("turn", "passage") else (f"{plain},",)
        return [
            s for s in self.sections if _plain(s.name) == plain or _plain(s.name).startswith(begins)
        ]

    def unknown_name(self, name: str) -> Found:
        """Return the message about an unknown name."""
        turns = max((section.turn for section in self.sections), default=0)
        names = [section.name for section in self.sections if not section.turn]
        names += [f"turn 1 to turn {turns} and what list shows of each"] if turns else []
        return Found(f"There is no section {name!r}; there are: {'; '.join(names)}.")

    def list(self, within: str = "", start: str = "", *, chars: int) -> Found:
        """Return the names of sections with their sizes and beginnings.

        If a conversation is too long for this, list its turns, each in one line.

        Args:
            within: Only the sections below this name.
            start: Name to begin with, where an earlier list ended.
            chars: Longest list.
        """
        sections = self.within(within)
        if not sections:
            return self.unknown_name(within)
        lines = [(section.name, _line(section)) for section in sections]
        if not within and sum(len(line) + 1 for _, line in lines) > chars:
            lines = list(_by_turn(sections))
        names = [_plain(name) for name, _ in lines]
        if start and _plain(start) not in names:
            return self.unknown_name(start)
        first = names.index(_plain(start)) if start else 0
        listing, room = list[str](), chars
        for name, line in lines[first:]:
            room -= len(line) + 1
            if room < 0 and listing:
                more = len(lines) - first - len(listing)
                note = f'{more:,} more lines: list with "start": "{name}".'
                return Found(note, listing="\n".join(listing))
            listing.append(line)
        return Found("That is all.", listing="\n".join(listing))

    def read(self, where: str, start: int = 0, *, chars: int) -> Found:
        """Return a section with its subsections, up to the limit.

        Args:
            where: Name of the section.
            start: First character in the section.
            chars: Most characters.
        """
        sections = self.within(where)
        if not sections:
            return self.unknown_name(where)
        size = len(sections[0].text)
        if start and start >= size:
            return Found(f"{sections[0].name} has {size:,} characters; start below that.")
        excerpts, rest = list[Excerpt](), ""
        for section in sections:
            part = _excerpt(section, start, start + chars)
            if chars <= 0 and part.length:
                rest = rest or f'{section.name} is left: read with "where": "{section.name}".'
                continue
            excerpts.append(part)
            chars, start = chars - len(part.text), 0
            if part.end < part.length:
                rest = f'It goes on: read with "where": "{section.name}", "start": {part.end}.'
        return Found(rest or "That is all of it.", tuple(excerpts))

    def find(self, text: str, within: str = "", *, chars: int) -> Found:
        """Return the places of a text, ignoring case, or else the windows closest to its words.

        Args:
            text: The text to look for.
            within: Only in the section of this name and its subsections.
            chars: Most characters.
        """
        words = text.split()
        sections = self.within(within)
        if not sections:
            return self.unknown_name(within)
        if not words:
            return Found('Give the words to look for as "text".')
        pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
        matches = [
            (section, match.span()) for section in sections
            for match in pattern.finditer(section.text)
        ]  # fmt: skip
        if matches:
            around = min(150, max(0, chars // (2 * MAX_PLACES)))  # characters on both sides
            places = list[Excerpt]()
            for where, (first, last) in matches:
                previous = places[-1] if places else None
                if not previous or previous.section != where.name or last > previous.end:
                    places.append(_excerpt(where, first - around, last + around))
            excerpts = _within_room(places[:MAX_PLACES], chars)
            note = f"It stands in {len(matches):,} place{'' if len(matches) == 1 else 's'}"
            rest = "" if len(excerpts) == len(places) else ", the first of which are shown"
            return Found(f"{note}{rest}.", excerpts)
        note = "It stands nowhere word for word."
        if near := _closest(text, sections, chars):
            return Found(f"{note} These have most words in common with it:", near, is_absent=True)
        return Found(note, is_absent=True)


def lay_out(example: Example, task: Task | None = None) -> SectionIndex:
    """Return the sections of an example: output, source, conversation and passages.

    The references as well, if the task has a name for them.
    """
    answer = answer_piece(conversation_pieces(example.messages), example.output)
    place = f"the text to judge, which stands in {answer.name}" if answer else "the text to judge"
    sections = {OUTPUT: Section(name=OUTPUT, text=example.output, about=place)}
    for piece in evidence_pieces(example):
        earlier = sections.get(piece.name)
        text = f"{earlier.text}\n{piece.text}" if earlier else piece.text
        about = piece.speaker or (piece.kind if piece.turn else "")
        sections[piece.name] = Section(name=piece.name, text=text, about=about, turn=piece.turn)
    references = references_shown(task, example) if task else ()
    for number, (kind, label, text) in enumerate(references, start=1):
        name = kind if len(references) == 1 else f"{kind} {number}"
        sections[name] = Section(name=name, text=text, about=label)
    return SectionIndex(sections=tuple(part for part in sections.values() if part.text.strip()))


def has_read(excerpts: Iterable[Excerpt], section: Section) -> bool:
    """Return whether excerpts cover every character of a section."""
    reached = 0
    of_section = (e for e in excerpts if e.section == section.name)
    for excerpt in sorted(of_section, key=lambda e: e.start):
        if excerpt.start > reached:
            return False
        reached = max(reached, excerpt.end)
    return reached >= len(section.text)


def _plain(name: str) -> str:
    return re.sub(r"\s+", " ", name.strip(" []\"'`.:")).casefold()


def _excerpt(section: Section, start: int, end: int) -> Excerpt:
    start = max(0, start)
    return Excerpt(
        section=section.name, start=start, text=section.text[start:end], length=len(section.text)
    )


def _line(section: Section) -> str:
    about = f"{section.about}, " if section.about else ""
    return f"{section.name} ({about}{len(section.text):,} characters): {_begins(section.text)}"


def _begins(text: str) -> str:
    whole = re.sub(r"\s+", " ", text[:120]).strip()
    return whole if len(whole) <= 60 else f"{whole[:60]}..."


def _by_turn(sections: Sequence[Section]) -> Iterable[tuple[str, str]]:
    """Yield name and line of each turn, and of each section outside of turns."""
    for turn, group in groupby(sections, lambda section: section.turn):
        of_turn = list(group)
        if not turn:
            yield from ((section.name, _line(section)) for section in of_turn)
            continue
        size = sum(len(section.text) for section in of_turn)
        spoken = next((part for part in of_turn if part.name == f"turn {turn}"), of_turn[0])
        parts = f", {len(of_turn)} sections" if len(of_turn) > 1 else ""
        about = f"{spoken.about}{parts}, {size:,} characters"
        yield f"turn {turn}", f"turn {turn} ({about}): {_begins(spoken.text)}"


def _within_room(places: Sequence[Excerpt], chars: int) -> tuple[Excerpt, ...]:
    excerpts = list[Excerpt]()
    for place in places:
        chars -= len(place.text)
        if chars < 0 and excerpts:
            break
        excerpts.append(place)
    return tuple(excerpts)


def _closest(text: str, sections: Sequence[Section], chars: int) -> tuple[Excerpt, ...]:
    """Return the windows that share most words with a text; empty if no window shares any."""
    window = 600  # characters
    windows = [
        _excerpt(section, start, start + window)
        for section in sections
        for start in range(0, len(section.text), window)
    ]
    best = closest(text, [excerpt.text for excerpt in windows], MAX_PLACES // 2)
    words = set(_words(text))
    sharing = [windows[at] for at in best if not words.isdisjoint(_words(windows[at].text))]
    return _within_room(sharing, chars)
