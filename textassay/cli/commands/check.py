"""`textassay check`: may this judge be trusted, and for what?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from textassay.cli import syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import print_tables, results
from textassay.cli.exits import GATE_STATUS
from textassay.runtime.errors import UnknownName

if TYPE_CHECKING:
    from textassay.checking.result import Check


@command("check", panel=Heading.FIRST)
def check(
    file: Annotated[
        Path,
        syntax.argument(
            "FILE|RUN", "Table with columns of the judge and of people, a run, or a file of scores."
        ),
    ],
    data: Annotated[
        Path | None, syntax.argument("DATA", "Data with ratings (default: the data of the run).")
    ] = None,
    *,
    judge: Annotated[
        str | None, syntax.option("COL,...", "Columns of the judge (default: found by name).")
    ] = None,
    human: Annotated[
        str | None,
        syntax.option("COL,...", "Columns of people, one for each rater (default: found by name)."),
    ] = None,
    group: Annotated[
        str | None,
        syntax.option("COL", "Column of the source, such as the article or question of a text."),
    ] = None,
    page: Annotated[
        Path | None, syntax.option("FILE", "Also write the result as one HTML page.", "--html")
    ] = None,
    as_json: syntax.AsJson = False,
    require: Annotated[
        str | None,
        syntax.option(
            "USE",
            "Use that must be possible: compare, means, gate or texts. Exit status 0 if it is,"
            " 1 if not, 4 if unknown.",
        ),
    ] = None,
    seed: syntax.Seed = 0,
) -> int:
    """Report whether a judge may compare systems, estimate means, gate texts or rate single ones.

    Finds the columns of the judge and of people by their names, and asks no model.

    Examples:
        textassay check answers.csv
        textassay check answers.csv --judge gpt-4o --human anna,ben --group question
        textassay check runs/first --require gate
    """
    from textassay.checking.api import check as check_judge
    from textassay.checking.verdicts import USES

    if require is not None and require not in USES:
        raise UnknownName("use", require, USES)
    result = check_judge(
        file, data, judge=judge or (), human=human or (), group=group or None, seed=seed
    )
    if page is not None:
        from textassay.report.check import write_check

        write_check(result, page, title=str(file))
    print_check(result, as_json=as_json)
    if require is None:
        return 0
    outcomes = {"yes": "holds", "corrected": "holds", "no": "fails", "unknown": "inconclusive"}
    return GATE_STATUS[outcomes[result.verdict(require)]]


def print_check(result: Check, *, as_json: bool = False) -> None:
    """Print the verdict in words, the next commands, and the table."""
    if as_json:
        import json

        print(json.dumps(result.to_dict(), allow_nan=False), flush=True)  # noqa: T201
        return
    from rich.text import Text

    from textassay.table import printable

    console = results()
    for at, line in enumerate(result.sentences()):
        console.print(Text(printable(line), style="" if at else "bold"))
        console.print()
    if result.next:
        console.print("Next:")
        for line in result.next:
            # not folded, so that it can be copied
            console.print(Text(f"  {printable(line)}"), soft_wrap=True)
        console.print()
    print_tables([result], result.to_dict(), as_json=False)
