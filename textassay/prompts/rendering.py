"""Renders prompt files in a sandbox, each compiled once; a missing value is an error.

A file is one user message, or several messages if it has blocks called `system`, `user` and
`assistant`. Every file begins with a comment that names paper and section, or says `ours`. Files
whose name begins with `_` are parts of others, in the same folder or in this package.

Prompts are rendered once with marks in place of the texts, cut at the marks into a frame, and
filled with the texts of each example, which are never rendered. A prompt that changes a text (for
example by a filter) loses its mark and has no frame; it is rendered with the texts themselves.

Evaluated texts are put between delimiters that they cannot forge:

    <source-3fa9c1d2>
    ...
    </source-3fa9c1d2>

The number is a function of the texts alone, so that equal examples have equal prompts (for caches),
and no text can contain its own number.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    UndefinedError,
    meta,
    nodes,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = Path(__file__).parent
ROLES = ("system", "user", "assistant")
# new in each process, so that no text can contain it
_MARK = secrets.token_hex(16)


_TYPOGRAPHY = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201a": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "`": "'",
    }
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015", "-")
    | {"\u2026": "...", "\u00a0": " ", "\u200b": ""}
)
_TREEBANK = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("-lrb-", "("), ("-rrb-", ")"), ("-lsb-", "["), ("-rsb-", "]"),
        (r"``|''", '"'),  # ``quoted''
        (r" (n't|'(?:s|re|ve|ll|d|m))\b", r"\1"),  # "do n't", "it 's" -> "don't", "it's"
        (r"[^\S\n]+", " "),
        (r" +(?=[.,;:!?%)\]])", ""),  # "rain ." -> "rain."
        (r"(?<=[(\[$#]) +", ""),  # "( rain" -> "(rain"   "$ 5" -> "$5"
    )
)  # fmt: skip
"""Penn Treebank spellings of lower-cased text, and their plain forms."""


class PromptFault(Exception):
    """A prompt file is missing or does not render; the message names the file."""


class Turn(NamedTuple):
    """One chat message."""

    role: str
    """`system`, `user` or `assistant`."""
    content: str


@cache
def _environment(folder: Path) -> ImmutableSandboxedEnvironment:
    """Return the sandbox for prompts of a folder, with parts from there or from this package."""
    # prompt files may come from users; with `StrictUndefined` a misspelled name is an error
    return ImmutableSandboxedEnvironment(
        loader=FileSystemLoader([folder, FOLDER]),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def render(name: str, **values: Any) -> tuple[Turn, ...]:
    """Return the messages of a prompt.

    Args:
        name: A prompt of this package, such as `g_eval`, or the path of a file that ends in
            `.jinja`.
        values: Values for the prompt.

    Raises:
        PromptFault: There is no such file, it is not a valid template, or a value is missing.
    """
    template = _template(name)
    try:
        if not template.blocks:
            turns = [Turn("user", template.render(values))]
        else:
            context = template.new_context(values)
            # each block is a message; text between them is comment
            turns = [Turn(role, "".join(block(context))) for role, block in template.blocks.items()]
    except (TemplateError, TypeError, ArithmeticError) as error:
        known = ""
        if isinstance(error, UndefinedError):
            known = f"; its values are {', '.join(sorted(values))}"
            known += ", and _material.jinja shows the texts" if "material" in values else ""
        raise PromptFault(f"prompt {name!r} does not render: {error}{known}") from error
    return tuple(Turn(turn.role, _tidy(turn.content)) for turn in turns if turn.content.strip())


def files(name: str) -> dict[str, str]:
    """Return the text of a prompt's file and of every file that it uses, by name.

    Raises:
        PromptFault: One of them is missing or not a valid template.
    """
    sources = {name: source(name)}
    for part in filter(None, meta.find_referenced_templates(_parse(name))):
        # as in the loader, a part beside the file takes precedence over the package's
        beside = _path(name).with_name(part)
        ours = beside.parent == FOLDER or not beside.is_file()
        sources |= files(part.removesuffix(".jinja") if ours else str(beside))
    return sources


def digest(names: Iterable[str], *variants: object) -> str:
    """Return 6 hex digits that change with the text of any of the prompts' files or with a variant.

    Args:
        names: Prompts, as `render` takes them; their content counts, not their path.
        variants: Further facts that affect the request, such as the layout.
    """
    texts = [text for name in sorted(names) for text in files(name).values()]
    whole = "\x1f".join([*texts, *(repr(variant) for variant in variants)])
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _path(name: str) -> Path:
    return Path(name) if name.endswith(".jinja") else FOLDER / f"{name}.jinja"


@cache
def source(name: str) -> str:
    """Return the text of a prompt's file.

    Raises:
        PromptFault: The file is missing or cannot be read.
    """
    try:
        return _path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("[!_]*.jinja")))
        raise PromptFault(
            f"no prompt {name!r}; known: {known}, or the path of a file that ends in .jinja"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PromptFault(f"prompt {name!r} cannot be read: {error}") from error


@cache
def _parse(name: str) -> nodes.Template:
    """Return a prompt's file as a tree, cached, since parsing takes milliseconds."""
    try:
        return _environment(_path(name).parent).parse(source(name))
    except TemplateError as error:
        raise PromptFault(f"prompt {name!r} is not a valid template: {error}") from error


@cache
def _template(name: str) -> Template:
    try:
        template = _environment(_path(name).parent).from_string(_parse(name))
    except TemplateError as error:
        raise PromptFault(f"prompt {name!r} is not a valid template: {error}") from error
    strange = [block for block in template.blocks if block not in ROLES]
    if strange:
        raise PromptFault(
            f"prompt {name!r} has a block {strange[0]!r}; blocks are called {', '.join(ROLES)}"
        )
    return template


def _tidy(content: str) -> str:
    """Strip the ends: blank lines around blocks and comments are not part of a message."""
    return re.sub(r"\A\s*\n", "", content).rstrip()


class PromptFrame(NamedTuple):
    """The messages of a prompt, cut at its texts."""

    turns: tuple[tuple[str, str, Callable[[Sequence[str]], Any] | None], ...]
    """Role, pattern with `%s` in place of each text, and a function that picks its texts; `None` if
    the turn has no texts, and the pattern is the content itself."""

    def fill(self, texts: Sequence[str]) -> tuple[Turn, ...]:
        """Return the messages with these texts in their places."""
        return tuple(
            [
                Turn(role, content % pick(texts) if pick else content)
                for role, content, pick in self.turns
            ]
        )


def frame(name: str, labels: Sequence[str], **values: Any) -> PromptFrame | None:
    """Return a prompt's frame for texts with these labels.

    `None` if the prompt does not take plain texts.

    Args:
        name: A prompt, as `render` takes it.
        labels: Label of each text, in order, as `material` has them.
        values: Values for the prompt besides `material`.

    Raises:
        PromptFault: The prompt does not render.
    """
    marks = [{"label": label, "text": f"{_MARK}-{at}-"} for at, label in enumerate(labels)]
    turns: list[tuple[str, str, Callable[[Sequence[str]], Any] | None]] = []
    referenced: set[int] = set()
    for turn in render(name, material=marks, **values):
        # every second piece is the number of a text
        pieces = re.split(rf"{_MARK}-(\d+)-", turn.content)
        numbers = [int(number) for number in pieces[1::2]]
        referenced.update(numbers)
        words = pieces[::2]
        # a mark that is left was changed by the template (upper case, a slice), as a text would be
        if any(_MARK in piece for piece in words):
            return None
        pattern = "%s".join([piece.replace("%", "%%") for piece in words])
        turns.append((turn.role, pattern, itemgetter(*numbers)) if numbers else (*turn, None))
    return PromptFrame(tuple(turns)) if referenced == set(range(len(labels))) else None


def nonce(texts: Iterable[str]) -> str:
    """Return 8 hex digits that are computed from the texts and occur in none of them."""
    known = tuple(texts)
    # with their lengths, so that texts cut differently have different numbers
    joined = "\x1f".join([f"{len(text)}:{text}" for text in known])
    # a text contains the number by chance only, once in four billion places
    for attempt in count():
        hashed = f"{attempt}:{joined}".encode("utf-8", "surrogatepass")
        number = hashlib.sha256(hashed).hexdigest()[:8]
        for text in known:
            if number in text:
                break
        else:
            return number
    raise AssertionError("unreachable")


def fence(kind: str, text: str, number: str) -> str:
    """Return `text`, unchanged, between the delimiters of its kind.

    Args:
        kind: Kind of text, such as `source`; lower-case letters and hyphens.
        text: The text.
        number: The `nonce` of all texts of the example.
    """
    return f"<{kind}-{number}>\n{text}\n</{kind}-{number}>"


def simplify(text: str) -> str:
    """Make English text plain for models that are too small for case and typography.

    Lower case, ASCII quotes and dashes, Penn Treebank tokens joined, single spaces; line breaks are
    kept. Benchmarks have lower-cased, tokenized outputs beside sources that are neither, and to
    such a model two spellings of a word are two words. A model may have been trained on text in
    this form.
    """
    plain = text.translate(_TYPOGRAPHY).lower()
    for pattern, replacement in _TREEBANK:
        plain = pattern.sub(replacement, plain)
    return "\n".join(line.strip() for line in plain.split("\n")).strip()
