"""Formatting: the same words, set differently. `normalized` proves that nothing else changed."""

from __future__ import annotations

import re

from textassay.runtime.messages import Example
from textassay.stress.edit import Edit, Surroundings, sentences, with_output

_CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"})
_LONE_HYPHEN = re.compile(r"(?<!\S)-(?!\S)")


def normalized(text: str) -> str:
    """Return a text without what formatting edits may change.

    White space, bullets, bold, curly quotes.
    """
    plain = text.translate(_CURLY).replace("**", "")
    return " ".join(_LONE_HYPHEN.sub(" ", plain).split())


def blank_lines(example: Example, around: Surroundings) -> Example | None:
    """Set every sentence in a paragraph of its own."""
    parts = sentences(example.output)
    return with_output(example, "\n\n".join(parts)) if len(parts) > 1 else None


def trailing_spaces(example: Example, around: Surroundings) -> Example | None:
    """Add spaces and a line break at both ends."""
    return with_output(example, f"  {example.output}  \n")


def tabs(example: Example, around: Surroundings) -> Example | None:
    """Put a tab between sentences."""
    parts = sentences(example.output)
    return with_output(example, "\t".join(parts)) if len(parts) > 1 else None


def bullets(example: Example, around: Surroundings) -> Example | None:
    """Make a Markdown list of the sentences."""
    parts = sentences(example.output)
    return with_output(example, "\n".join(f"- {one}" for one in parts)) if parts else None


def bold(example: Example, around: Surroundings) -> Example | None:
    """Set the first sentence in bold."""
    parts = sentences(example.output)
    if not parts or "*" in example.output:  # asterisks of its own would join the marks
        return None
    return with_output(example, " ".join([f"**{parts[0]}**", *parts[1:]]))


def curly_quotes(example: Example, around: Surroundings) -> Example | None:
    """Make straight quotes typographic."""
    text = re.sub(r'(?<!\S)"', "\u201c", example.output).replace('"', "\u201d")
    return with_output(example, text.replace("'", "\u2019"))


FAMILY = "format"
EDITS = (
    Edit("blank-lines", FAMILY, blank_lines, "every sentence is a paragraph"),
    Edit("trailing-spaces", FAMILY, trailing_spaces, "spaces and a line break at both ends"),
    Edit("tabs", FAMILY, tabs, "tabs between sentences"),
    Edit("bullets", FAMILY, bullets, "the sentences as a Markdown list"),
    Edit("bold", FAMILY, bold, "the first sentence in bold"),
    Edit("curly-quotes", FAMILY, curly_quotes, "typographic quotation marks"),
)
