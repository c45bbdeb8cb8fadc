"""Roles of columns: the judge's, people's, the source that texts share, the system.

Names decide: words that people use for judges (judge, llm, gpt-4o, score) and for people (human,
expert, gold, user_1, rating), in several languages. The strongest words of a side decide, and a
column without such words fills a missing side. Ambiguous names are never guessed: the error says
which command to type.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from textassay.checking import vocabulary
from textassay.checking.table_reader import CellReader, RawTable, polarity, read_cells
from textassay.runtime.errors import ConfigurationError, UnknownName

_OURS = ("human", "annotators", "metrics")
"""Fields of our own format."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns are whose."""

    pairs: list[tuple[str, list[str]]]
    """A judge's column, and people's columns that it is compared with."""
    group: str | None
    system: str | None
    unused: list[str] = field(default_factory=list)
    """Unused columns that could contain ratings."""


def words_of(name: str) -> list[str]:
    """Return the words of a column's name, in lower case."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+", name)
    return [word.casefold() for word in words]


def find_roles(
    table: RawTable,
    columns: dict[str, CellReader],
    *,
    judge: Sequence[str] = (),
    human: Sequence[str] = (),
    group: str | None = None,
) -> Roles:
    """Find the columns of the judge and of people.

    Args:
        table: The table.
        columns: Its columns, read.
        judge: Names of the judge's columns, if given.
        human: Names of people's columns, if given.
        group: Name of the column of sources, if given.

    Raises:
        UnknownName: There is no column of a given name.
        ConfigurationError: Names do not show which columns are the judge's and which are people's;
            the message says what to type.
    """
    judge = [_known(name, table, "judge") for name in judge]
    human = [_known(name, table, "human") for name in human]
    group = _known(group, table, "group") if group else None
    group = group or _named("group", table, lambda name: _repeats(table.columns[name]))
    ours = {name for name in columns if name.partition(".")[0] in _OURS}
    own_format = {name.partition(".")[0] for name in ours} > {"metrics"}
    system = _named(
        "system", table, lambda name: name != group and _is_name_of_systems(name, columns)
    )
    candidates = [
        name
        for name, cells in columns.items()
        if (name in ours or not own_format)
        and _may_rate(name, cells)
        and name not in (*judge, *human, group, system)
    ]
    judges, people, unused = _sides(table, columns, candidates, judge, human)
    pairs = _paired(table, judges, people, named=bool(judge))
    return Roles(pairs, group, system, unused)


def _known(name: str, table: RawTable, what: str) -> str:
    if name in table.columns:
        return name
    same = [
        one
        for one in table.columns
        if name.casefold() in (one.casefold(), table.shown.get(one, one).casefold())
    ]
    same = same or [
        f"{kind}.{name}" for kind in ("metrics", "human") if f"{kind}.{name}" in table.columns
    ]
    if len(same) == 1:
        return same[0]
    raise UnknownName(f"{what} column", name, list(table.columns))


def _named(what: str, table: RawTable, fits: Callable[[str], bool]) -> str | None:
    """Return the first column that has one of the names of `words.toml` and fits."""
    by_name = {re.sub(r"[\s\-.]+", "_", name.strip().casefold()): name for name in table.columns}
    names = (one for one in vocabulary.names(what) if one in by_name)
    return next((by_name[one] for one in names if fits(by_name[one])), None)


def _repeats(cells: Sequence[object]) -> bool:
    """Return whether several texts share a value, and there is more than one value."""
    known = [str(cell) for cell in cells if cell is not None and str(cell).strip()]
    return 1 < len(set(known)) < len(known)


def _is_name_of_systems(name: str, columns: dict[str, CellReader]) -> bool:
    cells = columns[name]
    known = set(cells.filled)
    # a column of yes and no, or of grades, may be called `bot`; other columns may name the best
    # system
    sharing = [one for one in columns if one != name and known & set(columns[one].filled)]
    if not _are_names(cells) or (sharing and all(side_of(one)[0] != "judge" for one in sharing)):
        return False
    return 2 <= len(known) <= max(2, len(cells.filled) // 2)


def _may_rate(name: str, cells: CellReader) -> bool:
    """Return whether a column may hold scores or ratings."""
    if cells.kind not in ("number", "words"):
        return False
    words = words_of(name)
    # numbers that all differ and rise by one are ids
    if cells.kind == "number":
        values = [float(value) for value in cells.filled]
        if len(values) > 3 and all(b - a == 1 for a, b in pairwise(values)):
            return False
    if name.partition(".")[0] in _OURS:
        return True
    # "judge_confidence" and "user_id" are not ratings
    return name.partition(".")[0] != "meta" and not set(words) & vocabulary.words("other")


def side_of(name: str) -> tuple[str | None, int]:
    """Return the side that a name belongs to, and how surely: 3 is sure, 1 weak, 0 unknown."""
    first, _, _ = name.partition(".")
    if first in ("human", "annotators"):
        return "human", 3
    if first == "metrics":
        return "judge", 3
    words = set(words_of(name)) | {re.sub(r"[\s_\-]+", "", name.casefold())}
    words |= _unspaced_words(name)
    # o1, o3 and o4 are models; the pattern of words separates letters and digits
    if re.search(r"(?<![a-z0-9])(?:o[134]|gpt\d|r1)(?![a-z])", name.casefold()):
        words.add("gpt")
    judge = _strength(words, vocabulary.levels("judge"))
    people = _strength(words, vocabulary.levels("people"))
    if judge == people:
        return None, 0
    return ("judge", judge) if judge > people else ("human", people)


def _unspaced_words(name: str) -> set[str]:
    """Return the known words in a name in a script without blanks, the longest at each place."""
    if name.isascii():
        return set()
    levels = (*vocabulary.levels("judge"), *vocabulary.levels("people"))
    found = {word for level in levels for word in level if word >= "\u3040" and word in name}
    return {word for word in found if not any(word in one for one in found - {word})}


def _strength(words: set[str], levels: Sequence[frozenset[str]]) -> int:
    return next((3 - at for at, level in enumerate(levels) if words & level), 0)


def _sides(
    table: RawTable,
    columns: dict[str, CellReader],
    candidates: list[str],
    judges: list[str],
    people: list[str],
) -> tuple[list[str], list[str], list[str]]:
    """Return the judge's columns, people's columns, and the other ones."""
    sides = {name: side_of(name) for name in candidates}
    given = {"judge": judges, "human": people}
    found = {side: own or _strongest(sides, side) for side, own in given.items()}
    are_ratings = any(columns[one].kind == "number" for one in found["human"])
    if not judges and are_ratings and all(_are_names(columns[one]) for one in found["judge"]):
        # "machine" may be the system that wrote the texts
        found["judge"] = []
        candidates = [one for one in candidates if not _are_names(columns[one])]
    for side, other in (("human", "judge"), ("judge", "human")):
        if not given[side]:
            found[side] = _fitting(columns, sides, side, found[side], found[other])
    left = [name for name in candidates if name not in (*found["judge"], *found["human"])]
    for side, other in (("judge", "human"), ("human", "judge")):
        if not found[side] or found[other]:
            continue
        # weak words alone ("score_1", "score_2") do not mean two judges without people
        if not given[side] and max(sides[one][1] for one in found[side]) == 1:
            found[side], left = [], candidates
        elif not given[other]:
            found[other], left = _alike(columns, left, found[side])
    if not found["judge"] or not found["human"]:
        raise ConfigurationError(_question(table, found["judge"], found["human"], left))
    return found["judge"], found["human"], left


def _strongest(sides: dict[str, tuple[str | None, int]], side: str) -> list[str]:
    best = max((strength for own, strength in sides.values() if own == side), default=0)
    return [name for name, one in sides.items() if best and one == (side, best)]


def _fitting(
    columns: dict[str, CellReader],
    sides: dict[str, tuple[str | None, int]],
    side: str,
    found: list[str],
    others: list[str],
) -> list[str]:
    """Return the columns of a side whose values can be compared with the other side's.

    A column of names, such as `user`, cannot; then weaker words of the same side decide.
    """
    if not found or not others:
        return found
    fits = [one for one in sides if any(_comparable(columns[one], columns[o]) for o in others)]
    if kept := [one for one in found if one in fits]:
        return kept
    return _strongest({one: sides[one] for one in fits if one not in others}, side)


def _comparable(a: CellReader, b: CellReader) -> bool:
    """Return whether two columns are comparable: numbers, or labels that occur in both."""
    if a.kind == b.kind == "number":
        return True
    words = [{str(value) for value in one.filled} for one in (a, b) if one.kind == "words"]
    known = all(map(polarity, words))
    return known or (len(words) == 2 and bool(words[0] & words[1]))


def _alike(
    columns: dict[str, CellReader], left: list[str], known: list[str]
) -> tuple[list[str], list[str]]:
    """Return the columns that may be the other side: several only if they are of one kind."""
    if len(left) <= 1:
        return left, []
    kinds = {_form(columns[name]) for name in known}
    fitting = [name for name in left if _form(columns[name]) in kinds]
    # a column of questions contains words like a column of labels, but other ones
    fitting = [
        name for name in fitting if any(_comparable(columns[name], columns[one]) for one in known)
    ] or fitting
    return fitting, [name for name in left if name not in fitting]


def _are_names(cells: CellReader) -> bool:
    """Return whether a column has words other than yes and no."""
    return cells.kind == "words" and not polarity(map(str, set(cells.filled)))


def _form(cells: CellReader) -> tuple[str, float]:
    """Return the form of the values: words, or numbers up to about a maximum."""
    if cells.kind == "words":
        return "words", 0
    most = max(abs(float(value)) for value in cells.filled)
    return "number", next((top for top in (1, 5, 7, 10, 100) if most <= top), 1e9)


def _question(table: RawTable, judges: list[str], people: list[str], left: list[str]) -> str:
    """Return the error on unknown roles, with the command that names them."""
    name = shlex.quote(table.name)
    # names such as `model_a` and `model_b` are ambiguous: one of them may be people's
    unsure = not left and not people and len(judges) > 1 and max(side_of(j)[1] for j in judges) < 3
    if unsure:
        judges, left = [], judges
    if not left or (len(left) < 2 and not judges and not people):
        found = ", ".join(map(repr, list(table.columns)[:12]))
        side = "people's ratings" if judges else "a judge's scores"
        if len(table.columns) == 1:
            return (
                f"{table.name}: has one column, {found}, and a check needs two: the judge's and"
                " people's; commas, semicolons, tabs or bars separate columns"
            )
        return (
            f"{table.name}: found no column with {side}; there are {found}. A column of each is"
            f" needed, of numbers or labels; name them: textassay check {name} --judge COLUMN"
            " --human COLUMN"
        )
    listed = ", ".join(map(repr, left[:8]))
    if judges:
        what, typed = f"which column is people's: {listed}", f"--human {shlex.quote(left[0])}"
    elif people:
        what, typed = f"which column is the judge's: {listed}", f"--judge {shlex.quote(left[0])}"
    else:
        what = f"which column is the judge's and which is people's: {listed} look alike"
        typed = f"--judge {shlex.quote(left[0])} --human {shlex.quote(left[1])}"
        typed += ", or the other way round"
    return f"{table.name}: cannot say {what}; type: textassay check {name} {typed}"


def _paired(
    table: RawTable, judges: list[str], people: list[str], *, named: bool
) -> list[tuple[str, list[str]]]:
    """Return each judge with the columns of people that rate the same aspect."""
    people = _single_raters(people)
    qualities = vocabulary.words("qualities")
    keys = {name: _rated(name) for name in people}
    matched = [(judge, fitting) for judge in judges if (fitting := _matching(judge, keys))]
    if matched and named and len(set(keys.values())) == 1:
        # a requested measure that names no aspect, such as a number of words
        known = {judge for judge, _ in matched}
        others = (one for one in judges if one not in known and not qualities & set(words_of(one)))
        matched += [(one, people) for one in others]
    if matched:
        return [
            (judge, [name for name in fitting if keys[name] == key])
            for judge, fitting in matched
            for key in dict.fromkeys(keys[name] for name in fitting)
        ]
    rated = {key for key in keys.values() if key & qualities}
    if len(rated) > 1 or _are_aspects(people):
        names = ", ".join(map(repr, people))
        raise ConfigurationError(
            f"{table.name}: people's columns {names} seem to rate different things, and no name"
            f" says which {judges[0]!r} is about; type: textassay check"
            f" {shlex.quote(table.name)} --human {shlex.quote(people[0])}"
        )
    return [(judge, people) for judge in judges]


def _are_aspects(people: Sequence[str]) -> bool:
    """Return whether fields of textassay's format are several aspects, not raters."""
    aspects = {name.split(".")[1] for name in people if name.startswith(("human.", "annotators."))}
    return len(aspects) > 1


def _single_raters(people: list[str]) -> list[str]:
    """Return people's columns without means of other ones."""
    rated_singly = {name.split(".")[1] for name in people if name.startswith("annotators.")}
    people = [
        name
        for name in people
        if not (name.startswith("human.") and name.split(".", 1)[1] in rated_singly)
    ]
    single = [name for name in people if not vocabulary.words("pooled") & set(words_of(name))]
    return single if len(single) > 1 else people


def _rated(name: str) -> frozenset[str]:
    """Return the words of a name that describe the rated aspect."""
    first, _, rest = name.partition(".")
    if first in ("human", "annotators"):
        words = words_of(rest if first == "human" else rest.rpartition(".")[0] or rest)
        return frozenset(words)
    generic = vocabulary.words("generic")
    roles = generic.union(*vocabulary.levels("judge"), *vocabulary.levels("people"))
    return frozenset(
        word for word in words_of(name)
        if word not in roles and not word.isdigit() and len(word) > 1
    )  # fmt: skip


def _matching(judge: str, keys: dict[str, frozenset[str]]) -> list[str]:
    """Return people's columns with the aspect of the judge's name, only the closest ones."""
    words = frozenset(words_of(judge))
    fitting = {name: key for name, key in keys.items() if key and key <= words}
    most = max(map(len, fitting.values()), default=0)
    return [name for name, key in fitting.items() if len(key) == most]


def by_rater(table: RawTable) -> RawTable:
    """Return a table with a column for each rater and judge, if it has one row per rating.

    Such a table names the rater in one column, and an item occurs once for each of its raters.
    """
    for who, side in (("rater", "human"), ("judge_name", "judge")):
        table = _spread(table, who, side)
    return table


def _spread(table: RawTable, named: str, side: str) -> RawTable:
    who = _named(named, table, lambda name: _repeats(table.columns[name]))
    item = _named("item", table, lambda name: _repeats(table.columns[name]))
    if who is None or item is None or who == item:
        return table
    cells = read_cells(who, table.columns[who])
    known = {str(value) for value in cells.filled}
    # more than 100 names belong to texts rather than to raters
    if len(known) > 100:
        return table
    # a column of verdicts may be called `judge` as well
    if not _are_names(cells) and (side == "judge" or cells.kind == "words"):
        return table
    keys = list(zip(map(str, table.columns[item]), map(str, table.columns[who]), strict=True))
    if len(set(keys)) < len(keys):
        return table  # a rater rated an item twice, so these are not single ratings
    return _joined(table, item, who, side)


def _joined(table: RawTable, item: str, who: str, side: str) -> RawTable:
    rows: dict[str, list[int]] = {}
    for at, key in enumerate(table.columns[item]):
        rows.setdefault(str(key), []).append(at)
    names = list(dict.fromkeys(map(str, table.columns[who])))
    joined: dict[str, list[object]] = {}
    rated = []
    for name, cells in table.columns.items():
        if name == who:
            continue
        same = all(len({str(cells[at]) for at in own}) == 1 for own in rows.values())
        if same or read_cells(name, cells).kind not in ("number", "words"):
            joined[name] = [cells[own[0]] for own in rows.values()]
            continue
        rated.append(name)
        by = [{str(table.columns[who][at]): cells[at] for at in own} for own in rows.values()]
        for one in names:
            joined[f"{side} {name} {one}"] = [of_item.get(one) for of_item in by]
    note = f"one row per rating: {len(names)} in {who!r}, of {len(rows)} texts ({item!r})"
    shown = {
        f"{side} {name} {one}": one if len(rated) == 1 else f"{one} {name}"
        for name in rated
        for one in names
    }
    return RawTable(
        table.name, joined, table.decimal, (*table.notes, note), is_own=True,
        shown={**table.shown, **shown},
    )  # fmt: skip
