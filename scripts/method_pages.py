"""Adds the registered methods to the pages: names, rows, sections and costs.

    .venv/bin/python -m scripts.method_pages

Existing text is kept, so that a row or a section may be edited by hand; costs are replaced.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from benchmarks.method_costs import all_costs, table_of
from textassay.methods import METHODS, YesNoMethod
from textassay.methods.by_name import TOOLS

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/methods.md", "docs/decision-models.md")
_NAMES = re.compile(r"(?s)(?<=\nMethods: ).*?(?=\s\(\[methods\])")
_COSTS = re.compile(r"(?s)\| method \| calls \|.*?\n(?=\n)")


def read_pages() -> dict[str, str]:
    """Return the text of the pages that name every method."""
    return {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}


def complete(pages: dict[str, str]) -> dict[str, str]:
    """Return the pages with every method that they do not name yet; costs are unchanged."""
    readme, guide, decisions = (pages[page] for page in PAGES)
    names = _NAMES.search(readme)
    assert names, "README.md: a paragraph that begins with 'Methods: '"
    unnamed = [f", `{name}`" for name in (*METHODS, TOOLS) if f"`{name}`" not in names[0]]
    readme = readme.replace(names[0], names[0] + "".join(unnamed))
    for name, method in METHODS.items():
        row = f'| `{name}` | `--method {name}` | `method="{name}"` |'
        guide = _insert_row(guide, "On the command line and in Python", row)
        guide = _insert_section(guide, name, method)
        if f"`{name}`" not in _section(decisions, "Methods"):
            decisions = _insert_row(decisions, "Methods", _decision_row(name, method))
    return dict(zip(PAGES, (_wrap_names(readme), guide, decisions), strict=True))


def _wrap_names(readme: str) -> str:
    """Return the README with its names of methods in lines of 120 characters."""

    def wrap(paragraph: re.Match[str]) -> str:
        return textwrap.fill(" ".join(paragraph[0].split()), 120, break_on_hyphens=False)

    return re.sub(r"(?s)(?<=\n)Methods: .*?\(\[methods\][^)]*\)\)\.", wrap, readme)


def _decision_row(name: str, method: Any) -> str:
    """Return the typed questions of a method, as its class describes them."""
    if getattr(method, "no_decisions", ""):
        return f"| `{name}` | - | - | refused: {method.no_decisions} |"
    is_yes_no = issubclass(method, YesNoMethod)
    question = "yes/no for each aspect" if is_yes_no else "a rating or a choice for each aspect"
    return f"| `{name}` | {question} | 1 | {'-' if is_yes_no else 'no reason in words'} |"


def _section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _insert_row(page: str, title: str, row: str) -> str:
    """Return a page with a row at its place in a table, unless one begins with the same cell."""
    section = _section(page, title)
    rows = {one.split("`")[1]: one for one in re.findall(r"(?m)^\| `.*$", section)}
    name = row.split("`")[1]
    if name in rows:
        return page
    later = [one for one in rows if one > name]
    beside = rows[min(later)] if later else list(rows.values())[-1]
    pair = f"{row}\n{beside}\n" if later else f"{beside}\n{row}\n"
    return page.replace(section, section.replace(f"{beside}\n", pair))


def _insert_section(page: str, name: str, method: Any) -> str:
    """Return the guide with a section on a method, made of its docstring."""
    if f"\n## `{name}`\n" in page:
        return page
    titles = [title for title in re.findall(r"(?m)^## `(.+)`$", page) if title > name]
    following = f"## `{titles[0]}`\n" if titles else "## Your own method\n"
    section = f"## `{name}`\n\n{inspect.getdoc(method)}\n\n"
    return page.replace(f"\n{following}", f"\n{section}{following}")


def main() -> None:
    """Write the pages, and print which have changed."""
    before = read_pages()
    after = complete(before)
    costs = table_of(asyncio.run(all_costs("summarization")))
    after["docs/methods.md"] = _COSTS.sub(lambda _: costs, after["docs/methods.md"])
    for page in PAGES:
        if after[page] != before[page]:
            (ROOT / page).write_text(after[page], encoding="utf-8")
            print(f"changed {page}")


if __name__ == "__main__":
    main()
