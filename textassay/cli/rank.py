"""`textassay rank`: systems by their strength, as tables or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from textassay.calibration.ranking import Ranking, rank_systems
from textassay.cli.console import results, say
from textassay.cli.decisions import (
    check_confidence,
    interval,
    name,
    number,
    print_json,
    table,
)
from textassay.runtime.messages import Example


def show(
    scores: Path,
    pairs: Iterable[Example],
    *,
    aspects: Sequence[str] | None,
    confidence: float,
    as_json: bool,
) -> None:
    """Print the ranking of each aspect.

    Raises:
        ConfigurationError: A file or name does not fit.
        DataError: The comparisons cannot be ranked.
    """
    check_confidence(confidence)
    rankings = rank_systems(scores, pairs, aspects=aspects, confidence=confidence)
    if as_json:
        rows = [row.as_dict() for one in rankings for row in one.rows]
        differences = [delta.as_dict() for one in rankings for delta in one.differences]
        print_json({"rows": rows, "differences": differences})
        return
    _draw(rankings)
    for one in rankings:
        _print_notes(one)


def _draw(rankings: Sequence[Ranking]) -> None:
    console = results()
    lines = table(
        "aspect", "system", "rank", "strength", "win rate", "compared", "wins", "ties", "losses",
        "flips", left=2,
    )  # fmt: skip
    for row in (row for one in rankings for row in one.rows):
        # a rank that the tests settle is printed once, not as `2-2`
        ranks = "-" if row.rank is None else "-".join(str(r) for r in dict.fromkeys(row.rank))
        lines.add_row(
            name(row.aspect), name(row.system), ranks, interval(row.strength),
            interval(row.win_rate), str(row.n), str(row.wins), str(row.ties), str(row.losses),
            str(row.flips),
        )  # fmt: skip
    console.print(lines)
    pairs = table("aspect", "a", "b", "a - b", "a beats b", "p", "p (Holm)", left=3)
    for delta in (delta for one in rankings for delta in one.differences):
        wins = "-" if delta.wins is None else f"{delta.wins:.0%}"
        pairs.add_row(
            name(delta.aspect), name(delta.a), name(delta.b), interval(delta.difference), wins,
            number(delta.p, 4), number(delta.p_holm, 4),
        )  # fmt: skip
    console.print(pairs)


def _print_notes(one: Ranking) -> None:
    say(
        f"{one.aspect}: {one.flips} of {one.n} choices flipped with the order and count as ties"
        f" ({one.flips / one.n:.0%})"
    )
    if not one.has_strengths:
        say(
            f"{one.aspect}: some systems won every comparison with the others, so strengths have no"
            " finite value; ranks and differences are those of the win rates",
            style="yellow",
        )
    if one.unscored:
        say(
            f"{one.aspect}: {one.unscored} comparisons have no score and are not in it",
            style="yellow",
        )
    if all(row.rank is None for row in one.rows):
        say(
            f"{one.aspect}: all comparisons are of one source, or equal in all of them, so no test "
            "is possible"
        )
