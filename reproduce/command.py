"""The command line.

python -m reproduce                                        every table and its requirements
python -m reproduce TABLE --data FOLDER --recorded         rows that need no model
python -m reproduce TABLE --data FOLDER --model MODEL [--dry-run]
python -m reproduce data                                   where to get the data sets
python -m reproduce convert DATASET FILE... --out FILE.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from reproduce import layout
from reproduce.converters import DATA_SETS, converted, digest_of
from reproduce.datasets import DataSets
from reproduce.reproduction import chosen, estimates, reproduce
from reproduce.scores import Scorer
from reproduce.table import Table, load, names
from textassay.cli.flags import read_pairs, read_price, read_set
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, TextassayError, UnknownName
from textassay.runtime.settings import Settings, split_settings

INCOMPLETE, WRONG, STOPPED = 1, 2, 3
"""Exit statuses as of `textassay`: some rows are missing, bad arguments, stopped early."""


def main(given: Sequence[str]) -> int:
    """Run the command line and return the exit status."""
    options = _parser().parse_args(given)
    try:
        if options.table == "convert":
            return _convert(options)
        if options.table == "data":
            _print(layout.data_sets())
            return 0
        data = DataSets.named(_data(options), limit=options.limit)
        if options.table is None or options.list:
            _print(layout.listing([load(name) for name in names()], data))
            return 0
        return asyncio.run(_table(load(options.table), data, options))
    except ConfigurationError as error:
        _say(error)
        return WRONG
    except TextassayError as error:
        _say(error)
        return STOPPED


async def _table(table: Table, data: DataSets, options: argparse.Namespace) -> int:
    if table.missing is not None:
        print(f"{table.name}: {table.title}\n{table.paper}\nnothing to run: {table.missing}")
        return INCOMPLETE
    if options.repeats is not None and not 1 <= options.repeats <= 100:
        raise ConfigurationError(f"--repeats lies between 1 and 100, not {options.repeats}")
    rows = chosen(table, options.rows, recorded=options.recorded, repeats=options.repeats)
    scorer = _scorer(table, data, options)
    # standard output has only the JSON document
    stream = sys.stderr if options.json else sys.stdout
    print(*layout.heading(table), sep="\n", file=stream)
    # printed before anything is asked: a whole table can cost hundreds of dollars
    costs = await estimates(scorer, rows)
    print(*layout.estimate_lines(costs), "", sep="\n", file=stream, flush=True)
    if options.dry_run:
        return 0
    lines = await reproduce(scorer, rows, bootstrap=options.bootstrap)
    if options.json:
        print(json.dumps(layout.as_json(table, lines), allow_nan=False))
    else:
        _print(layout.lines_of(table, lines))
    return INCOMPLETE if any(line.why_not for line in lines) else 0


def _scorer(table: Table, data: DataSets, options: argparse.Namespace) -> Scorer:
    runtime, method = split_settings(read_set(options.set))
    for name in ("api_base", "api_key_env", "concurrency", "max_cost", "cache"):
        if getattr(options, name) is not None:
            runtime[name] = getattr(options, name)
    if options.price is not None:
        runtime["price"] = read_price(options.price)
    return Scorer(
        table,
        data,
        models=_models(table, options.model),
        tools=read_pairs(options.tools, "--tools")
        and {one.partition("=")[0]: one for one in options.tools},
        options=method,
        settings=Settings(**runtime),
        out=options.out,
    )


def _models(table: Table, given: Sequence[str]) -> dict[str, str]:
    """Read `[ROW=]MODEL` items, where ROW is a row's name or the paper's model of rows."""
    known = {name for row in table.rows for name in (row.name, row.model) if name}
    found: dict[str, str] = {}
    for one in given:
        # names of models may contain `=`, but the names of rows are known
        name = next((name for name in known if one.startswith(f"{name}=")), "")
        if name in found:
            raise ConfigurationError(f"--model: two models for {name or 'every row'}")
        found[name] = one[len(name) + 1 :] if name else one
    return found


def _convert(options: argparse.Namespace) -> int:
    if not options.files or options.out is None:
        raise ConfigurationError("convert takes DATASET FILE... --out FILE.jsonl")
    name, *files = options.files
    if name not in DATA_SETS:
        raise UnknownName("data set", name, list(DATA_SETS))
    data, out = DATA_SETS[name], options.out
    # converted data may have been edited since
    if out.exists():
        raise ConfigurationError(f"{out} is there already; choose another --out, or delete it")
    paths = [Path(file) for file in files]
    for file in paths:
        if not file.is_file():
            raise ConfigurationError(f"there is no file {file}")
    rows = converted(data, paths)
    info = Examples(rows).check()  # before anything is written
    with out.open("x", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    for origin, file in zip(data.files, paths, strict=False):
        _say(f"{file}: {_checked(origin.sha256, digest_of(file))}")
    _say(f"{info.count} rows in {out}; ratings of {', '.join(info.human)}")
    return 0


def _checked(known: str | None, found: str) -> str:
    if known is None:
        return f"sha256 {found}; no checksum of the origin's file is known"
    if known == found:
        return "checksum as known"
    return f"sha256 {found}, not {known}: another version of the file"


def _data(options: argparse.Namespace) -> list[str]:
    found = options.data or [os.environ.get("TEXTASSAY_DATA", "")]
    return [one for one in found if one]


def _print(lines: object) -> None:
    for line in lines:  # type: ignore[attr-defined]
        print(line)


def _say(words: object) -> None:
    print(words, file=sys.stderr)
    for note in getattr(words, "__notes__", ()):
        print(note, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="The tables of the papers, the published figures beside ours.",
    )
    add = parser.add_argument
    add(
        "table", nargs="?", metavar="TABLE", help="a table; or `data`, or `convert`; none lists all"
    )
    add("files", nargs="*", metavar="FILE", help="of convert: the data set and its files")
    add("--list", action="store_true", help="list every table and its requirements")
    add("--data", action="append", default=[], metavar="FOLDER|NAME=FILE",
        help="where the data are, in textassay's format (default: TEXTASSAY_DATA)")  # fmt: skip
    add("--model", "-m", action="append", default=[], metavar="[ROW=]MODEL",
        help="model to ask, for all rows, a name or the paper's model")  # fmt: skip
    add("--tools", action="append", default=[], metavar="NAME=KIND[:MODEL]",
        help="a tool that rows name, such as bertscore=bertscore:FOLDER; may repeat")  # fmt: skip
    add("--recorded", action="store_true", help="only rows that ask no model")
    add("--rows", action="append", default=[], metavar="GLOB", help="only these rows; may repeat")
    add("--limit", type=int, metavar="N", help="only the first N examples of each data set")
    add("--bootstrap", type=int, default=1000, metavar="N",
        help="resamples behind intervals; 0 for no intervals (default: 1000)")  # fmt: skip
    add("--repeats", type=int, metavar="N",
        help="splits over which rows that learn are averaged (default: the table's)")  # fmt: skip
    add("--dry-run", action="store_true", help="print the cost estimate and ask no model")
    add("--out", type=Path, metavar="DIR",
        help="keep the runs here and go on with them; of convert: the file to write")  # fmt: skip
    add("--json", action="store_true", help="print one JSON document")
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="an option of the method, which goes before the table's (KEY= leaves that out), or a"
        " run-time setting")  # fmt: skip
    add("--api-base", metavar="URL", help="base URL of the server")
    add("--api-key-env", metavar="NAME", help="environment variable with the API key")
    add("--concurrency", "-c", type=int, metavar="N", help="most calls at once")
    add("--max-cost", type=float, metavar="USD", help="stop before a run costs more")
    add("--price", metavar="IN,OUT", help="US dollars per million tokens")
    add("--cache", type=Path, metavar="DIR", help="folder of answers")
    return parser
