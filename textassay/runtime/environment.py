"""Secrets that settings name as `${NAME}` and that stand in environment variables."""

from __future__ import annotations

import os
import re

from textassay.runtime.errors import ConfigurationError

VARIABLE = re.compile(r"\$\{(\w+)\}")


def expand(text: str, what: str, secrets: list[str]) -> str:
    """Return `text` with each `${NAME}` replaced by the variable's value.

    Args:
        text: What may name variables.
        what: What the text is, for the error.
        secrets: Gets every value that was put in.

    Raises:
        ConfigurationError: A variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        variable = os.environ.get(match[1])
        if not variable:
            raise ConfigurationError(f"{what} names ${{{match[1]}}}, but that variable is not set")
        secrets.append(variable)
        return variable

    return VARIABLE.sub(value, text)
