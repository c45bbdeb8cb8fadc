"""Shows the verdicts of a stress run as a table, from its `stress.json`.

Independent of the tests themselves, since pages also show the verdicts of old runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textassay.table import Alert, Column, Estimate, Note, Table

_WITH_OTHERS = {
    "question-order": "with its questions in another order",
    "alone": "with each question in a request of its own",
}
"""Words for the tests of whether typed questions influence each other."""


def verdict_table(document: Mapping[str, Any]) -> Table:
    """Return the verdicts of a stress run from its JSON values, as in `stress.json`."""
    columns = (
        Column("test", "test"), Column("family", "family"), Column("aspect", "aspect"),
        Column("expects", "expects"), Column("n", "n", "count"),
        Column("sources", "sources", "count"), Column("shift", "shift", "interval"),
        Column("noise", "noise", "number"), Column("moved", "moved", "share"),
        Column("flips", "flips", "share"), Column("verdict", "verdict"),
    )  # fmt: skip
    rows = [
        (row["test"], row["family"], row["aspect"], row["expects"], row["n"], row["groups"],
         Estimate(row["shift"], row["low"], row["high"]), row["noise"], row["moved"],
         row["flip_rate"], Alert("fails") if row["verdict"] == "fails" else row["verdict"])
        for row in document["tests"]
    ]  # fmt: skip
    notes = []
    if untested := document.get("untested"):
        text = "not tested, because the data or the method do not allow it"
        notes.append(Note(f"{text}: {', '.join(untested)}"))
    if unscored := sum(row.get("unscored", 0) for row in document["tests"]):
        text = f"{unscored} pairs are missing a score and are left out of the shifts"
        notes.append(Note(text, warning=True))
    notes += [
        Note(
            f"the questions of a request influence each other: {_WITH_OTHERS[test]}, scores move by"
            f" up to {most:.2g} more on average than when the request is repeated",
            warning=True,
        )
        for test, most in document.get("influence", {}).items()
    ]
    return Table(columns, rows, tuple(notes), title=document.get("summary", "verdicts"))


def find_influence(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return by test how much answers depend on the other questions; empty if they do not.

    The verdicts tolerate changes within the margin, but independent questions change nothing beyond
    the effect of repeating a request. A change on one aspect of several may be chance.
    """
    influence = {}
    for test in _WITH_OTHERS:
        of_test = [row for row in rows if row["test"] == test]
        moved = [row for row in of_test if row["excess_low"] is not None and row["excess_low"] > 0]
        if 2 * len(moved) > len(of_test):
            influence[test] = max(row["excess"] for row in moved)
    return influence
