"""What a stress run says in a few lines: invariance and sensitivity side by side.

A judge that always gives the same score passes every test of invariance, so neither count is worth
anything without the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from textassay.display import Displayed
from textassay.stress.verdicts import MIN_SOURCES, StressRow
from textassay.table import Column, Flag, Interval, Note, Table

_MUST_FALL = ("lower", "higher", "lowest")
_COLUMNS = (
    Column("test", "test"), Column("family", "family"), Column("aspect", "aspect"),
    Column("expects", "expects"), Column("n", "n", "count"),
    Column("sources", "sources", "count"), Column("shift", "shift", "interval"),
    Column("noise", "noise", "number"), Column("moved", "moved", "share"),
    Column("flips", "flips", "share"), Column("verdict", "verdict"),
)  # fmt: skip


@dataclass(frozen=True)
class StressResult(Displayed):
    """The verdicts of a stress run.

    Attributes:
        rows: One per test and aspect.
        untested: Tests that were asked for and that the data or the method had nothing for.
        sources: Number of sources of the data.
        paraphrased: Texts that a model put in other words, and those of them whose paraphrase was
            verified; `None` if no model was given for it.
    """

    rows: Sequence[StressRow]
    untested: tuple[str, ...] = ()
    sources: int = 0
    paraphrased: tuple[int, int] | None = None

    @property
    def invariance(self) -> list[StressRow]:
        """Tests in which the score must stay."""
        return [row for row in self.rows if row.expects not in _MUST_FALL]

    @property
    def sensitivity(self) -> list[StressRow]:
        """Tests in which the score must fall."""
        return [row for row in self.rows if row.expects in _MUST_FALL]

    @property
    def summary(self) -> str:
        """One line with both counts."""
        line = f"invariance: {counted(self.invariance)}; sensitivity: {counted(self.sensitivity)}"
        # the trap of this whole suite: a judge that ignores the text is perfectly invariant
        if not self.sensitivity:
            return f"{line} (a judge that always says the same passes invariance: test both)"
        if not any(row.verdict == "holds" for row in self.sensitivity):
            return f"{line} (invariance alone is what a judge shows that always says the same)"
        return line

    def tables(self) -> list[Table]:
        """Return the verdicts."""
        table = verdict_table(self.as_dict())
        if self.sources >= MIN_SOURCES:
            return [table]
        text = f"{self.sources} sources are too few: no test can hold with fewer than {MIN_SOURCES}"
        return [replace(table, notes=(*table.notes, Note(text, warning=True)))]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "tests": [row.as_dict() for row in self.rows],
            "untested": list(self.untested),
            "summary": self.summary,
            **(
                {}
                if self.paraphrased is None
                else {
                    "paraphrases": dict(zip(("asked", "verified"), self.paraphrased, strict=True))
                }
            ),
        }


def verdict_table(document: Mapping[str, Any]) -> Table:
    """Return the verdicts of a stress run from its JSON values, as in `stress.json`."""
    rows = [
        (row["test"], row["family"], row["aspect"], row["expects"], row["n"], row["groups"],
         Interval(row["shift"], row["low"], row["high"]), row["noise"], row["moved"],
         row["flip_rate"], Flag("fails") if row["verdict"] == "fails" else row["verdict"])
        for row in document["tests"]
    ]  # fmt: skip
    notes = []
    if untested := document.get("untested"):
        text = "not tested, because the data or the method do not allow it"
        notes.append(Note(f"{text}: {', '.join(untested)}"))
    if paraphrases := document.get("paraphrases"):
        notes.append(
            Note(
                f"paraphrases: {paraphrases['verified']} of {paraphrases['asked']} verified; the"
                " others were dropped"
            )
        )
    if unscored := sum(row.get("unscored", 0) for row in document["tests"]):
        text = f"{unscored} pairs are missing a score and are left out of the shifts"
        notes.append(Note(text, warning=True))
    return Table(_COLUMNS, rows, tuple(notes), title=document.get("summary", "verdicts"))


def counted(rows: Sequence[StressRow]) -> str:
    """Return how many rows hold, fail and cannot tell."""
    if not rows:
        return "not tested"
    counts = Counter(row.verdict for row in rows)
    parts = [f"{counts['holds']} of {len(rows)} hold"]
    if counts["fails"]:
        parts.append(f"{counts['fails']} fail")
    if counts["inconclusive"]:
        parts.append(f"{counts['inconclusive']} inconclusive")
    return ", ".join(parts)


def sentence(row: StressRow) -> str:
    """Return one verdict as a sentence.

    >>> told(row)  # doctest: +SKIP
    'padded: coherence moves by +0.310 [+0.220, +0.400], noise 0.050: fails'
    """
    shift = row.shift
    if shift.value is None:
        return f"{row.test}: {row.aspect} cannot be determined: {_why(row)}"
    ends = "" if shift.low is None else f" [{shift.low:+.3f}, {shift.high:+.3f}]"
    noise = "" if row.noise is None else f", noise {row.noise:.3f}"
    verb = "is above the worst rating by" if row.expects == "lowest" else "moves by"
    return f"{row.test}: {row.aspect} {verb} {shift.value:+.3f}{ends}{noise}: {row.verdict}"


def _why(row: StressRow) -> str:
    if row.declined:
        return f"the judge refused to rate {row.declined} texts"
    if row.unscored:
        return f"{row.unscored} texts have no score"
    return "no score can move that way, all are at the end of the scale"
