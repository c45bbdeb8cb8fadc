"""Counts the concepts of the package: a mirror for its readers, no gate.

    .venv/bin/python scripts/house.py [FOLDER]

Reads the code without importing it, so that FOLDER may be any checkout.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_ALIAS = re.compile(r"_?[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count(folder: Path) -> dict[str, int]:
    """Return the figures of the package `textassay` in a checkout."""
    texts = {path: path.read_text("utf-8") for path in sorted(folder.glob("textassay/**/*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    assigned = [name for tree in trees.values() for name in _assigned(tree)]
    types = Counter([node.name for node in classes] + [n for n in assigned if _ALIAS.fullmatch(n)])
    fields = {c.name: sum(isinstance(entry, ast.AnnAssign) for entry in c.body) for c in classes}
    options = [c.name for c in classes if c.name.endswith("Options")]
    compared = [
        side for node in nodes if isinstance(node, ast.Compare) for side in node.comparators
    ]
    calls = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    app = ast.unparse(trees[folder / "textassay/cli/app.py"])
    commands = ast.literal_eval(re.findall(r"^COMMANDS = (.*)", app, re.M)[0])
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "lines of code": sum(_code_lines(text, trees[path]) for path, text in texts.items()),
        "module constants": sum(bool(_CONSTANT.fullmatch(name)) for name in assigned),
        "tests for None": sum(ast.unparse(side) == "None" for side in compared),
        "names of classes and aliases twice or more": sum(n > 1 for n in types.values()),
        "settings": fields["EndpointSettings"] + fields["Settings"],
        "fields of a request": fields["Prompted"] + fields["Request"],
        "options of methods": sum(fields[name] for name in options),
        "commands": len(commands),
        "protocols": sum("Protocol" in ast.unparse(b) for node in classes for b in node.bases),
        "regexes": sum(name in ("re.compile", "lazy_pattern") for name in calls),
        "longest import chain": _longest_chain(folder, trees),
    }


def _code_lines(text: str, tree: ast.Module) -> int:
    """Count lines with a token of code; docstrings, also of fields, are not code."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(tree):
        for entry in node.body if isinstance(node, _DOCUMENTED) else ():
            if isinstance(entry, ast.Expr) and isinstance(entry.value, ast.Constant):
                lines -= set(range(entry.lineno, (entry.end_lineno or entry.lineno) + 1))
    return len(lines)


def _assigned(tree: ast.Module) -> list[str]:
    plain = [target for n in tree.body if isinstance(n, ast.Assign) for target in n.targets]
    targets = plain + [n.target for n in tree.body if isinstance(n, ast.AnnAssign)]
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
