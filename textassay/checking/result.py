"""`Check`, the result of `check`: words first, then the table."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from textassay.checking.phrases import interval, percent_interval, upper
from textassay.checking.verdicts import USES, WORDS, Use, UseAnswer, VerdictRow
from textassay.runtime.errors import UnknownName
from textassay.table import Displayed, Note, Table, printable, table_of, to_html

FOR: dict[Use, str] = {
    "compare": "for comparing systems",
    "means": "for means",
    "gate": "as a gate",
    "texts": "for single texts",
}
"""Names of the uses in sentences."""


@dataclass(frozen=True, slots=True)
class Check(Displayed):
    """The verdicts on one or several judges; prints as text.

    Example:
        >>> import textassay
        >>> found = textassay.check([{"judge": n % 2, "human": n % 2} for n in range(100)])
        >>> found.verdict("gate")
        'yes'
    """

    rows: tuple[VerdictRow, ...]
    """One row per judge and rated aspect, the judge closest to people first."""
    next: tuple[str, ...]
    """The next commands."""
    notes: tuple[Note, ...] = ()
    """Notes on how the data were read."""

    def verdict(self, use: str, judge: str | None = None) -> UseAnswer:
        """Return the verdict for one use: `yes`, `corrected`, `no` or `unknown`.

        Args:
            use: `compare`, `means`, `gate` or `texts`.
            judge: Name of the judge; by default the worst verdict of all rows.

        Raises:
            UnknownName: There is no such use or judge.
        """
        if use not in USES:
            raise UnknownName("use", use, USES)
        rows = [row for row in self.rows if judge in (None, row.pair.judge)]
        if not rows:
            raise UnknownName("judge", str(judge), [row.pair.judge for row in self.rows])
        answers = [row.uses[use].answer for row in rows]
        # the gate fails if one judge fails; otherwise it is open if one judge is unknown
        return min(answers, key=list(WORDS).index)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `textassay check --json` prints."""
        return {"format": 1, "rows": [row.as_dict() for row in self.rows], "next": list(self.next)}

    def sentences(self) -> list[str]:
        """Return the verdict, the figures behind it, and the reason for each use, in words."""
        first = self.rows[0]
        lines = [headline(first, several=len(self.rows) > 1), _what(first)]
        return lines + list(_reasons(first))

    def tables(self) -> Sequence[Table]:
        """Return the figures and verdicts as one table."""
        return [table_of(VerdictRow, self.rows, (*self.notes, *_unscored_notes(self.rows)))]

    def __str__(self) -> str:
        paragraphs = [printable(line) for line in self.sentences()]
        commands = ["Next:", *(f"  {line}" for line in self.next)] if self.next else []
        # `super()` does not work in a dataclass with slots, which is a class made anew
        return "\n\n".join([*paragraphs, "\n".join(commands), Displayed.__str__(self)]).strip()

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in self.sentences())
        return paragraphs + "".join(map(to_html, self.tables()))


def headline(row: VerdictRow, *, several: bool) -> str:
    """Return the verdict in one sentence, from the best verdict to the worst."""
    parts: dict[UseAnswer, list[str]] = {}
    for use in USES:
        parts.setdefault(row.uses[use].answer, []).append(FOR[use])
    who = f"{row.pair.judge}: " if several else ""
    words = {}
    for answer in reversed(WORDS):
        if uses := parts.get(answer):
            comma, last = "," * (answer == "corrected"), "or" if answer == "no" else "and"
            words[answer] = f"{upper(WORDS[answer])}{comma} {_list_words(uses, last)}"
    if list(parts) == ["no"]:
        return f"{who}Not yet for any use: not {_list_words(list(FOR.values()), 'nor')}."
    if list(parts) == ["unknown"]:
        return f"{who}Unknown: the data are too few, or too alike, for a verdict."
    first, *others = words.values()
    return f"{who}{'; '.join([first, *(part[:1].lower() + part[1:] for part in others)])}."


def _what(row: VerdictRow) -> str:
    name, figure = row.main_figure
    sources = f" of {row.groups:,} sources" if row.pair.has_groups else ""
    begin = f"On {row.n:,} texts{sources} "
    if figure.value is None:
        return f"{begin}{row.pair.judge} is compared with {row.pair.human}."
    if row.pair.kind == "label" and name == "accuracy":
        kappa = row.agreement["kappa"]
        constant = row.constant
        return (
            f"{begin}{row.pair.judge} agrees with {row.pair.human} in"
            f" {percent_interval(figure, 1)}; always"
            f' saying "{constant["value"]}" agrees in {100 * constant["accuracy"]:.1f} %. Kappa'
            f" {interval(kappa)}."
        )
    error = row.agreement.get("error")
    ending = ""
    if error is not None and error.value is not None:
        ending = (
            f" Its typical error is {error.value:.2f}; always saying {row.constant['value']:.2f}"
            f" errs by {row.constant['error']:.2f}."
        )
    return f"{begin}{row.pair.judge} follows {row.pair.human} with r {interval(figure)}.{ending}"


def _reasons(row: VerdictRow) -> Iterator[str]:
    """Yield the verdict on each use with its reason; a shared reason once."""
    if len({row.uses[use].why for use in USES}) == 1:
        yield row.uses["compare"].why
        return
    for use in USES:
        yield f"{upper(FOR[use])}: {WORDS[row.uses[use].answer]}. {row.uses[use].why}"


def _unscored_notes(rows: Sequence[VerdictRow]) -> Iterator[Note]:
    for row in rows:
        if row.pair.unscored:
            total = row.pair.unscored + row.n
            yield Note(
                f"{row.pair.judge}: {row.pair.unscored} of {total} rated texts have no score "
                "(empty, abstained, invalid or an error) and are left out",
                warning=True,
            )


def sort_rows(rows: Sequence[VerdictRow]) -> tuple[VerdictRow, ...]:
    """Return rows sorted by how many uses are granted, then by agreement with people."""

    def rank(row: VerdictRow) -> tuple[float, float]:
        ranks = map(list(WORDS).index, row.answers)
        agreement = row.main_figure[1].value
        return -sum(ranks), math.inf if agreement is None else -agreement

    return tuple(sorted(rows, key=rank))


def _list_words(parts: Sequence[str], last: str = "and") -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"
