"""Messages whose fields are described by the docstrings below them.

Help, lists and signatures show these descriptions. pydantic's `use_attribute_docstrings` finds the
same texts by tokenizing the source of each class, which took a tenth of the start of a command.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from textassay.runtime.messages import Message


class DescribedMessage(Message):
    """A message each of whose fields has the docstring below it as its `description`."""

    @classmethod
    def __pydantic_init_subclass__(cls, **keywords: Any) -> None:
        """Take the descriptions from the source, if there is one."""
        super().__pydantic_init_subclass__(**keywords)
        texts = _docstrings(cls.__module__).get(cls.__qualname__, {})
        for name, text in texts.items():
            field = cls.model_fields.get(name)
            if field is not None and field.description is None:
                field.description = text


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of all attributes in a module's classes, by class and attribute."""
    # Finds sources in zip archives, too; a class that was typed into an interpreter has none.
    found = sys.modules.get(module)
    lines = linecache.getlines(getattr(found, "__file__", None) or "", vars(found) if found else {})
    return dict(_classes(ast.parse("".join(lines)), ""))


def _classes(node: ast.AST, within: str) -> Iterator[tuple[str, dict[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield within + child.name, dict(_attributes(child.body))
            yield from _classes(child, f"{within}{child.name}.")


def _attributes(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, after in pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            yield statement.target.id, inspect.cleandoc(after.value.value)
