"""Reads a folder of texts: articles as sentences, dialogues as turns."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from textassay.tools.text import RuleSplitter

SEPARATOR = "\n<|endoftext|>\n"
LEFT_OUT = frozenset({"sgd", "wikitext2", "gum"})
"""Share-alike texts: whoever trains on them has to think about the licence of the weights."""

_TURN = re.compile(r"^[AB]: (.+)")
_ABOUT = re.compile(r"^About ([AB]): (.+)")
_split = RuleSplitter().split


@dataclass(frozen=True, slots=True)
class Article:
    """One document.

    Attributes:
        title: Its first line, where that reads like a title.
        sentences: Its sentences in order.
    """

    title: str | None
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One conversation of two.

    Attributes:
        facts: What is known about the one who speaks first, and second; empty where nothing is.
        turns: What they say, in turn.
    """

    facts: tuple[str, str]
    turns: tuple[str, ...]


class CorpusError(Exception):
    """The folder holds no usable text; the message says what was looked for."""


def documents(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield file name and text of each document in a folder's `.txt` and `.txt.gz` files, by name.

    Raises:
        CorpusError: There is no such file.
    """
    files = sorted(
        path for path in folder.glob("*.txt*") if path.name.endswith((".txt", ".txt.gz"))
    )
    wanted = [path for path in files if path.name.partition(".")[0] not in LEFT_OUT]
    if not wanted:
        raise CorpusError(
            f"{folder} holds no .txt or .txt.gz file; training/README.md says which texts are used"
        )
    for path in wanted:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as stream:
            for text in stream.read().split(SEPARATOR):
                if text.strip():
                    yield path.name.partition(".")[0], text.strip()


def read(folder: Path) -> tuple[list[Article], list[Dialogue]]:
    """Return a folder's articles and dialogues.

    Raises:
        CorpusError: It has none of either.
    """
    articles, dialogues = [], []
    for _, text in documents(folder):
        if dialogue := _dialogue(text):
            dialogues.append(dialogue)
        elif (article := _article(text)) is not None:
            articles.append(article)
    if not articles or not dialogues:
        raise CorpusError(
            f"{folder} has {len(articles)} articles and {len(dialogues)} dialogues; both are needed"
        )
    return articles, dialogues


def _dialogue(text: str) -> Dialogue | None:
    lines = text.split("\n")
    turns = [found[1] for line in lines if (found := _TURN.match(line))]
    if len(turns) < 3 or len(turns) < len(lines) - 4:
        return None
    about = {found[1]: found[2] for line in lines if (found := _ABOUT.match(line))}
    return Dialogue(facts=(about.get("A", ""), about.get("B", "")), turns=tuple(turns))


def _article(text: str) -> Article | None:
    first, _, rest = text.partition("\n")
    words = first.split()
    has_title = (
        3 <= len(words) <= 14
        and not first.rstrip().endswith((".", ":", ";", ","))
        and len(rest) > 200
    )
    paragraphs = (rest if has_title else text).split("\n")
    sentences = [
        s for paragraph in paragraphs for s in _split(paragraph) if 4 <= len(s.split()) <= 70
    ]
    if len(sentences) < 4:
        return None
    return Article(title=first.strip() if has_title else None, sentences=tuple(sentences))
