"""`textassay skill`: instructions for coding agents."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from textassay.cli import syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import say


@command("skill", panel=Heading.MAKING)
def skill(
    *,
    install: Annotated[
        Path | None,
        syntax.option("DIR", "Write it to DIR/textassay/SKILL.md, such as to .claude/skills."),
    ] = None,
) -> None:
    """Print a SKILL.md, from which coding agents learn to check and score with textassay.

    Examples:
        textassay skill
        textassay skill --install .claude/skills
    """
    text = read_skill()
    if install is None:
        typer.echo(text, nl=False)
        return
    from textassay.runtime.storage.files import storage_errors

    path = install / "textassay" / "SKILL.md"
    with storage_errors(f"{path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    say(f"wrote {path}")


def read_skill() -> str:
    return (resources.files("textassay") / "assets" / "SKILL.md").read_text(encoding="utf-8")
