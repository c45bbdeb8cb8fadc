"""Shows a comparison of two runs, or two systems, as rows by aspect and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from textassay.agreement.joined import People
from textassay.estimation.means import MEANS_OVER, MeanUnit
from textassay.runtime.messages import Scale
from textassay.table import Estimate, Note, ResultRow, Table, column, table_of

FEW_SOURCES, DOUBTFUL_P = 40, 0.015
"""Number of sources, and p-value, below which a significant difference is doubtful: with fewer
sources, differences with mean 0 and a long tail (lognormal) give a p-value below .05 too often;
they give a p-value below this one in 4 to 6 % of 1,500 draws with 8 to 30 sources.
"""


def rare_change(sources: int) -> str:
    """Return in words how rare changes that few sources do not show may be; else an empty text.

    A gate on a mean allows for them. A difference may be as large as the scale in either direction,
    so hardly any comparison of few sources would decide anything if it did.
    """
    if sources >= FEW_SOURCES:
        return ""
    share = 1 - 0.05 ** (1 / sources)  # none of them has the change in 5 % of the draws
    return (
        f"a change in {share:.0%} of all sources may show in none of {sources}, and the interval"
        " does not allow for it"
    )


@dataclass(frozen=True, slots=True)
class SideCounts:
    """Number of texts, or sources, of each run without a counterpart in the other."""

    a: int = 0
    """Number in the first run."""
    b: int = 0
    """Number in the second run."""

    @property
    def total(self) -> int:
        """Number in both runs together."""
        return self.a + self.b


class DifferenceRow(ResultRow):
    """Base of rows with a difference; the JSON has the ends of its interval beside it."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for name, value in ResultRow.as_dict(self).items():
            is_estimate = name == "difference"
            document |= {name: value.pop("value"), **value} if is_estimate else {name: value}
        return document


@dataclass(frozen=True, slots=True)
class CompareRow(DifferenceRow):
    """The difference `a - b` of one aspect, with sources as the sampled unit."""

    aspect: str = field(metadata=column("aspect"))
    """Name of the aspect."""
    n: int = field(metadata=column("n", "count"))
    """Number of texts that both runs scored, or of sources with texts of both if paired by source,
    plus `unpaired`.
    """
    groups: int = field(
        metadata=column("sources", "count", name="sources")
        | column(
            "unpaired", "count", name="unpaired", when=any,
            cell=lambda row: row.unpaired.total if row.paired_by else None,
        )
        | column("left out", "count", name="left_out", cell="left_out.total", when=any)
    )  # fmt: skip
    """Sources among them."""
    a: float = field(metadata=column("a", "number"))
    """Mean of the first run, over sources or texts, see `mean_over`."""
    b: float = field(metadata=column("b", "number"))
    """Mean of the second."""
    difference: Estimate = field(metadata=column("a - b", "interval"))
    """Difference of the means, with its interval."""
    p: float | None = field(metadata=column("p", "p"))
    """P-value of the difference, over sources; `None` with fewer than two sources."""
    p_holm: float | None = field(metadata=column("p (Holm)", "p"))
    """The p-value, adjusted over the aspects."""
    wins: int | None = field(metadata=column("wins", "count"))
    """Texts that the first run scores higher; like `ties`, `losses`, `difference` and `p`, `None`
    if the runs score on different scales."""
    ties: int | None = field(metadata=column("ties", "count"))
    """Texts with equal scores."""
    losses: int | None = field(metadata=column("losses", "count"))
    """Texts that the second run scores higher."""
    unscored: int
    """Texts of both runs that at least one run left unscored."""
    signatures: tuple[str, str]
    """Signature of the first and of the second run's scores."""
    scales: tuple[Scale | None, Scale | None]
    """Scale of the first and of the second run's scores; `None` if not recorded."""
    mean_over: MeanUnit = "sources"
    """The unit of the means, `sources` or `texts`."""
    paired_by: Literal["text", "source"] | None = "text"
    """Whether texts were paired by id, or the means of sources, because no id is in both; `None`
    for independent samples, which have no wins, ties and losses."""
    unpaired: SideCounts = SideCounts()
    """Scored texts, or sources, without a counterpart that are compared as independent samples; if
    something is paired, wins, ties and losses do not count them."""
    left_out: SideCounts = SideCounts()
    """Scored texts, or sources, without a counterpart that are not used, since the other run has
    too few to compare with.
    """
    other_texts: int | None = None
    """Pairs with equal ids whose texts differ, such as in two versions of a system; `None` if the
    texts are not recorded.
    """

    @property
    def same_scale(self) -> bool:
        """Whether scores of the two runs can be subtracted; true if a scale is not recorded."""
        return None in self.scales or self.scales[0] == self.scales[1]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without signatures and scales."""
        content = DifferenceRow.as_dict(self)
        del content["signatures"], content["scales"]
        # first the figures of the runs, then their difference, then how it was computed
        last = (
            "difference", "low", "high", "unscored", "mean_over", "paired_by", "unpaired",
            "left_out", "other_texts",
        )  # fmt: skip
        later = {name: content.pop(name) for name in last}
        return content | later


def comparison_table(
    rows: Sequence[CompareRow], people: People | None = None, subsets: Sequence[str] = ()
) -> Table:
    """Return the rows of `compare_runs` as a table.

    Args:
        rows: Rows of `compare_runs`.
        people: The data; `None` if they are not known.
        subsets: The subset of each row, if the data were divided.
    """
    notes = [Note(line) for line in dict.fromkeys(MEANS_OVER[row.mean_over] for row in rows)]
    alone = "every text counts as a source of its own"
    if people is None:
        notes.append(Note(f"{alone}; give DATA to pair by source"))
    elif not people.has_groups:
        notes.append(
            Note(f"{alone}: the data have no field 'group', and no two rows share a source")
        )
    for row, subset in zip(rows, subsets or [""] * len(rows), strict=True):
        prefix = f"{subset}: " if subset else ""
        notes += [note._replace(text=f"{prefix}{note.text}") for note in _notes(row)]
    fewest = min((row.groups for row in rows if row.difference.ends), default=FEW_SOURCES)
    if rare := rare_change(fewest):
        notes.append(Note(rare))
    designs = [
        "independent samples" if row.paired_by is None
        else "paired by source, in part" if row.unpaired.total
        else "paired by source"
        for row in rows
    ]  # fmt: skip
    title = "differences of a and b, " + " or ".join(dict.fromkeys(designs))
    return table_of(CompareRow, rows, notes, title)


def _notes(row: CompareRow) -> Iterator[Note]:
    units = "texts" if row.paired_by == "text" else "sources"
    paired = row.n - row.unpaired.total
    if row.paired_by == "source":
        yield Note(f"{row.aspect}: no id is on both sides, so means of {paired} sources are paired")
    elif row.paired_by is None:
        yield Note(
            f"{row.aspect}: no id and no source has a score on both sides, so these are two "
            "independent samples: their texts may explain a difference",
            warning=True,
        )
    if row.paired_by and row.unpaired.total:
        yield Note(
            f"{row.aspect}: {paired} {units} are on both sides and paired; {row.unpaired.a} of a"
            f" and {row.unpaired.b} of b are on one side alone and compared as independent samples,"
            " and the two differences are combined by their variances",
            warning=True,
        )
    if row.left_out.total:
        yield Note(
            f"{row.aspect}: {row.left_out.a} {units} of a and {row.left_out.b} of b are on one "
            "side alone, with nothing on the other to compare them with, and are not used",
            warning=True,
        )
    if row.other_texts:
        yield Note(
            f"{row.aspect}: {row.other_texts} ids have another text in a than in b, so their"
            " differences are differences of the texts, too"
        )
    if row.unscored:
        text = f"{row.aspect}: {row.unscored} texts that a run left unscored are left out"
        yield Note(text, warning=True)
    if not row.same_scale:
        first, second = (f"{low:g} to {high:g}" for low, high in filter(None, row.scales))
        yield Note(
            f"{row.aspect}: one run scores from {first}, the other from {second}, so a - b is "
            "meaningless; compare their agreement with people (give DATA with ratings), or"
            " their means on the raters' scale (textassay estimate)",
            warning=True,
        )
    elif not row.difference.ends and row.p is not None:
        yield Note(
            f"{row.aspect}: {row.groups} sources that all differ equally do not show how much "
            "others would vary, so there is no interval",
            warning=True,
        )
    elif not row.difference.ends:
        yield Note(f"{row.aspect}: one source alone gives no interval", warning=True)
    elif row.p is not None and DOUBTFUL_P <= row.p < 0.05 and row.groups < FEW_SOURCES:
        yield Note(
            f"{row.aspect}: {row.groups} sources cannot show whether a few others would differ far"
            f" more; then a p-value of {DOUBTFUL_P:g} to .05 is chance in up to a tenth of all"
            f" comparisons without a difference: compare {FEW_SOURCES} sources to be sure",
            warning=True,
        )
    # a note and no warning: comparing two judges is a normal use of a comparison
    if row.signatures[0] != row.signatures[1]:
        yield Note(
            f"{row.aspect}: the runs have different judges or settings, which may explain the "
            "difference"
        )
