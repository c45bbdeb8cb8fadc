"""Length: more words without more content earn nothing, and a text that is cut off loses."""

from __future__ import annotations

from textassay.runtime.messages import Example
from textassay.stress.edit import Edit, Surroundings, sentences, with_output

NEUTRAL = (
    "These lines add nothing to what is said above.",
    "They are set here so that the text takes up more room on the page.",
    "A reader who has come this far may stop, since no further point is made.",
    (
        "The words are plain, the sentences are short, and none of them names a person, a place or"
        " a date."
    ),
    "Nothing above is changed by what stands here, and nothing in it is explained any better.",
    "The remaining lines are of the same kind as the ones before them.",
    "They can be read or left out, and the meaning of the whole stays the same in either case.",
    "With this the text comes to its end.",
)
"""About 110 words that are well formed and say nothing."""


def padded(example: Example, around: Surroundings) -> Example | None:
    """Append about 110 neutral words."""
    return with_output(example, " ".join([example.output.rstrip(), *NEUTRAL]))


def restated(example: Example, around: Surroundings) -> Example | None:
    """Say everything twice."""
    text = example.output.strip()
    return with_output(example, f"{text} In other words: {text}") if text else None


def truncated(example: Example, around: Surroundings) -> Example | None:
    """Cut off the last third of the sentences."""
    parts = sentences(example.output)
    # a third of two sentences is none
    if len(parts) < 3:
        return None
    return with_output(example, " ".join(parts[: len(parts) - len(parts) // 3]))


FAMILY = "length"
EDITS = (
    Edit("padded", FAMILY, padded, "110 neutral words more", gain_only=True),
    Edit("restated", FAMILY, restated, "everything said twice", gain_only=True),
    Edit(
        "truncated",
        FAMILY,
        truncated,
        "the last third cut off",
        seen_by=frozenset({"content", "overall"}),
        ignored_by=frozenset({"facts"}),
    ),
)
