"""Methods from papers, one file each, and how a method is built by its name.

Importing this package loads nothing: a name is imported when it is first used. The classes of the
built-in methods are in `METHODS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.methods.answering import AnswerMethod, YesNoMethod
    from textassay.methods.by_name import METHODS, build, find, method_names, tools_for
    from textassay.methods.judging import PER_ASPECT, PromptMethod, RatingMethod
    from textassay.methods.library import plans, profiles, tasks, trees
    from textassay.methods.method import (
        Method,
        MethodTraits,
        Models,
        PromptOptions,
        RatingOptions,
        SamplingOptions,
    )

_NAMES_IN = {
    "answering": "AnswerMethod YesNoMethod",
    "by_name": "METHODS build find method_names tools_for",
    "judging": "PER_ASPECT PromptMethod RatingMethod",
    "method": "Method MethodTraits Models PromptOptions RatingOptions SamplingOptions",
}

__all__ = [
    "METHODS", "PER_ASPECT", "AnswerMethod", "Method", "MethodTraits", "Models", "PromptMethod",
    "PromptOptions", "RatingMethod", "RatingOptions", "SamplingOptions", "YesNoMethod", "build",
    "find", "method_names", "plans", "profiles", "tasks", "tools_for", "trees",
]  # fmt: skip

__getattr__, __dir__ = lazy(
    __name__, _NAMES_IN, ("library.plans", "library.profiles", "library.tasks", "library.trees")
)
