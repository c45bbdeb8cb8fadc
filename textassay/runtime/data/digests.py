"""Identifies equal texts, and texts of one source.

Scores and ratings belong to a text, which may change under an equal id. Texts of one source are not
independent, with or without the field `group`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from textassay.runtime.conversation import source_beside
from textassay.runtime.messages import Example


def text_digest(example: Example) -> str:
    """Return 16 hex digits of the judged text; empty for an example without a text.

    It includes the second text of a comparison, and the conversation, if there is one.
    White space and Unicode forms are normalized, since they differ between file formats.
    """
    parts = [example.output]
    if isinstance(other := example.meta.get("output_b"), str):
        parts.append(other)
    for message in example.messages:
        parts += [message.content, *(f"{call.name} {call.arguments}" for call in message.calls)]
    # NUL is not white space, so it remains between the parts
    return _digest_words(" \0 ".join(parts))


def may_be_one_text(digest: str, other: str) -> bool:
    """Return whether two digests may be of one text; an unknown text, `""`, matches all.

    This one rule decides everywhere whether a score or a rating belongs to an example with its id.
    """
    return not digest or not other or digest == other


def source_digest(example: Example) -> str | None:
    """Return 16 hex digits of the source text and its images, or else of the context.

    `None` for an example without any of them.
    """
    source = " \0 ".join([example.source or "", *(image.key for image in example.images)])
    return _digest_words(source) or _digest_words(example.context or "") or None


def material_digests(example: Example) -> tuple[str, ...]:
    """Return digests of a text's source, passages, images and references; empty without one.

    The conversation is in `text_digest`, whole; the source may have a shortened one.
    White space and Unicode forms are normalized as in `text_digest`.
    """
    source = source_beside(example.source, example.messages)
    images = " ".join(image.key for image in example.images)
    references = " \0 ".join(example.references)
    return tuple(map(_digest_words, (source, example.context or "", images, references)))


def _digest_words(text: str) -> str:
    # half of the time for a text of one paragraph: white space other than a blank is not printable
    is_plain = "  " not in text and text.isprintable()
    text = text.strip(" ") if is_plain else " ".join(text.split())
    if not text.strip("\0 "):
        return ""
    return _digest(text if text.isascii() else unicodedata.normalize("NFC", text))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def source_name(source: str | None) -> str:
    """Return the name of the source with a digest."""
    return f"source {source}"


def source_names(groups: Sequence[str | None], sources: Sequence[str | None]) -> list[str | None]:
    """Return the source of each row, the sampling unit of intervals.

    It is the row's group, or else its source text if other rows share it. A text that all rows
    share, such as an instruction, is not a source.

    Args:
        groups: `group` of each row.
        sources: `source_digest` of each row.

    Returns:
        A name for each row; `None` for a row with a source of its own.
    """
    alone = [s for g, s in zip(groups, sources, strict=True) if g is None and s is not None]
    counts = Counter(alone)
    if len(counts) == 1 and len(alone) == len(groups):
        counts.clear()
    return [
        # the prefix distinguishes a digest from any group of the data
        group if group is not None else source_name(source) if counts[source or ""] > 1 else None
        for group, source in zip(groups, sources, strict=True)
    ]


def sources_by_id(examples: Iterable[Example]) -> dict[str, str | None]:
    """Return the `source_names` of examples by id."""
    rows = [(example.id, example.group, source_digest(example)) for example in examples]
    names = source_names([group for _, group, _ in rows], [source for *_, source in rows])
    return {id_: name for (id_, *_), name in zip(rows, names, strict=True)}
