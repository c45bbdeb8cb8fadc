"""Counts the concepts of the package in FOLDER, by default this checkout: a mirror, not a gate."""

from __future__ import annotations

import ast
import io
import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from tokenize import COMMENT, DEDENT, ENCODING, ENDMARKER, INDENT, NEWLINE, NL, generate_tokens
from typing import Any

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_ALIAS = re.compile(r"_?[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
_NO_CODE = {COMMENT, NL, NEWLINE, INDENT, DEDENT, ENCODING, ENDMARKER}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count(folder: Path) -> dict[str, int]:
    """Return the figures of the package `textassay` in a checkout."""
    texts = {path: path.read_text("utf-8") for path in sorted(folder.glob("textassay/**/*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    modules = [list(ast.walk(tree)) for tree in trees.values()]
    nodes = [node for module in modules for node in module]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    assigned = [name for tree in trees.values() for name in _assigned(tree)]
    fields = {c.name: sum(isinstance(entry, ast.AnnAssign) for entry in c.body) for c in classes}
    compared = [side for n in nodes if isinstance(n, ast.Compare) for side in n.comparators]
    calls = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    app = ast.unparse(trees[folder / "textassay/cli/app.py"])
    commands = ast.literal_eval(re.findall(r"^COMMANDS = (.*)", app, re.M)[0])
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "lines of code": sum(_code_lines(text, trees[path]) for path, text in texts.items()),
        "module constants": sum(bool(_CONSTANT.fullmatch(name)) for name in assigned),
        "tests for None": sum(ast.unparse(side) == "None" for side in compared),
        "names of classes and aliases twice or more": len(repeated_types(modules)),
        "settings": fields["EndpointSettings"] + fields["Settings"],
        "fields of a request": fields["Prompted"] + fields["Request"],
        "options of methods": sum(n for name, n in fields.items() if name.endswith("Options")),
        "commands": len(commands),
        "protocols": sum("Protocol" in ast.unparse(b) for node in classes for b in node.bases),
        "regexes": sum(name in ("re.compile", "lazy_pattern") for name in calls),
        "longest import chain": _longest_chain(folder, trees),
    }


def repeated_types(modules: Collection[Sequence[ast.AST]]) -> list[str]:
    """Return the names of classes and aliases that modules, as lists of nodes, define twice."""
    classes = [n.name for nodes in modules for n in nodes if isinstance(n, ast.ClassDef)]
    aliases = [n for nodes in modules for n in _assigned(nodes[0]) if _ALIAS.fullmatch(n)]
    return sorted(name for name, times in Counter(classes + aliases).items() if times > 1)


def _code_lines(text: str, tree: ast.Module) -> int:
    """Count lines with a token of code; docstrings, also of fields, are not code."""
    lines = {
        line
        for token in generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(tree):
        for entry in node.body if isinstance(node, _DOCUMENTED) else ():
            if isinstance(entry, ast.Expr) and isinstance(entry.value, ast.Constant):
                lines -= set(range(entry.lineno, (entry.end_lineno or entry.lineno) + 1))
    return len(lines)


def _assigned(tree: Any) -> list[str]:
    targets = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    targets += [n.target for n in tree.body if isinstance(n, ast.AnnAssign)]
    return [leaf.id for t in targets for leaf in ast.walk(t) if isinstance(leaf, ast.Name)]


def _longest_chain(folder: Path, trees: dict[Path, ast.Module]) -> int:
    """Count the modules of the longest chain of imports at module level."""
    names = {".".join(path.relative_to(folder).with_suffix("").parts): path for path in trees}

    @cache
    def depth(name: str) -> int:
        imports = [n for n in trees[names[name]].body if isinstance(n, ast.ImportFrom)]
        named = {f"{n.module}.{alias.name}" for n in imports for alias in n.names}
        own = (named | {str(n.module) for n in imports}) & set(names)
        return 1 + max(map(depth, own), default=0)

    return max(map(depth, names))


if __name__ == "__main__":
    root = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1]
    for title, figure in count(root).items():
        print(f"{title:<44}{figure:>8,}")
