"""Which tools a run takes if it names none, written down so that no later session takes others.

A method's default may depend on what is installed; a run's tools must not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from textassay.evaluation.request import RunRequest
from textassay.evaluation.spec import recorded_request
from textassay.methods.by_name import default_tools
from textassay.runtime.storage.run_files import read_manifest
from textassay.tools.tool import Tool


class ToolsByDefault(NamedTuple):
    """Tools that a run takes because it names none.

    Attributes:
        specs: What it takes.
        left_out: Extra of the package by the tool that needs it and is left out without it.
    """

    specs: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def notice(self) -> str:
        """What the user should know before anything is asked; names parameters (`parameter`)."""
        missing = "".join(
            f"; pip install 'textassay[{extra}]' adds {spec}"
            for spec, extra in self.left_out.items()
        )
        return f"tools: {', '.join(self.specs)} (the default; tools= names others{missing})"


def with_default_tools(
    request: RunRequest, given: Sequence[str | Tool] | None, earlier: Path | None
) -> tuple[RunRequest, ToolsByDefault | None]:
    """Return the request with the tools that it takes, and those of them that are new defaults.

    Args:
        request: The request.
        given: Tools in place of those that the request names.
        earlier: Folder of the run that is resumed, which keeps the tools it was begun with.

    Raises:
        UnknownName: There is no such method.
        RunFolderError: The folder holds no run.
    """
    if request.tools or given:
        return request, None
    taken, left_out = default_tools(request.method)
    if not taken:
        return request, None
    if earlier is not None:
        before = recorded_request(read_manifest(earlier)).tools
        return request.model_copy(update={"tools": before or taken}), None
    return request.model_copy(update={"tools": taken}), ToolsByDefault(taken, left_out)
