"""Which texts are the same, and which have one source.

Scores and ratings belong to a text, and an id may get another one; texts of one source are not
independent, whether or not the data have the field `group`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from textassay.runtime.messages import Example


def text_digest(example: Example) -> str:
    """Return 16 hex digits of what a judge or rater judged; empty for an example without a text.

    That is the output, the second text of a comparison, and the conversation, if there is one.
    Texts that differ only in white space or in the Unicode form of their characters are equal:
    formats write both differently.
    """
    parts = [example.output]
    if isinstance(other := example.meta.get("output_b"), str):
        parts.append(other)
    for message in example.messages:
        parts += [message.content, *(f"{call.name} {call.arguments}" for call in message.calls)]
    # NUL is no white space, so that it stays between the parts
    text = " ".join(" \0 ".join(parts).split())
    if not text.strip("\0 "):
        return ""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return _digest(text)


def may_be_one_text(digest: str, other: str) -> bool:
    """Return whether two digests may be of one text: an unknown text, `""`, may be any.

    This one rule decides everywhere whether a score or a rating belongs to an example with its id.
    """
    return not digest or not other or digest == other


def source_digest(example: Example) -> str | None:
    """Return 16 hex digits of the source text; `None` for an example without one."""
    source = example.source
    return _digest(source) if source and source.strip() else None


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def source_names(groups: Sequence[str | None], sources: Sequence[str | None]) -> list[str | None]:
    """Return the source of each row by which intervals are computed: the sampled unit.

    That is its group, or else its source text if other rows have the same one. A text that all rows
    have, such as one instruction, says nothing of which of them belong together.

    Args:
        groups: `group` of each row.
        sources: `source_digest` of each row.

    Returns:
        A name for each row; `None` for a row that is a source of its own.
    """
    alone = [s for g, s in zip(groups, sources, strict=True) if g is None and s is not None]
    counts = Counter(alone)
    if len(counts) == 1 and len(alone) == len(groups):
        counts.clear()
    return [
        # the prefix keeps a digest apart from any group of the data
        group if group is not None else f"source {source}" if counts[source or ""] > 1 else None
        for group, source in zip(groups, sources, strict=True)
    ]


def sources_by_id(examples: Iterable[Example]) -> dict[str, str | None]:
    """Return what `source_names` does for each example, by id."""
    rows = [(example.id, example.group, source_digest(example)) for example in examples]
    names = source_names([group for _, group, _ in rows], [source for *_, source in rows])
    return {id_: name for (id_, *_), name in zip(rows, names, strict=True)}
