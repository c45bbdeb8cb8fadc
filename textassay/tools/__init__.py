"""Tools: metrics and small models that measure one text (assistant evaluators in Fusion-Eval).

NLI, BLEURT, ROUGE and similar metrics, each with one method `score`, usable without any agent.

A name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy
from textassay.tools.tool import (
    Abstention,
    Computed,
    FunctionTool,
    Measurement,
    Preparable,
    TextTool,
    Tool,
    ToolScorer,
    premise,
    prepare_tools,
    tool,
)

if TYPE_CHECKING:
    from textassay.tools.probability import NLI, BartScore, LMProb, MiniCheck, UniEval
    from textassay.tools.registry import (
        GROUPS,
        KINDS,
        ToolDescription,
        ToolSpec,
        as_text,
        build,
        describe_all,
        from_table,
        parse,
    )
    from textassay.tools.similarity import BertScore, Bleurt, Embedding
    from textassay.tools.surface import (
        Bleu,
        Chrf,
        Coverage,
        Length,
        Meteor,
        Novelty,
        Readability,
        Repetition,
        Rouge,
        Ter,
    )
    from textassay.tools.text import RuleSplitter, SentenceSplitter

_NAMES_IN = {
    "probability": "BartScore LMProb MiniCheck NLI UniEval",
    "registry": "GROUPS KINDS ToolDescription ToolSpec as_text build describe_all from_table parse",
    "similarity": "BertScore Bleurt Embedding",
    "surface": "Bleu Chrf Coverage Length Meteor Novelty Readability Repetition Rouge Ter",
    "text": "RuleSplitter SentenceSplitter",
}

__all__ = [
    "GROUPS", "KINDS", "NLI", "Abstention", "BartScore", "BertScore", "Bleu", "Bleurt", "Chrf",
    "Computed", "Coverage", "Embedding", "FunctionTool", "LMProb", "Length", "Measurement",
    "Meteor", "MiniCheck", "Novelty", "Preparable", "Readability", "Repetition", "Rouge",
    "RuleSplitter", "SentenceSplitter", "Ter", "TextTool", "Tool", "ToolDescription",
    "ToolScorer", "ToolSpec", "UniEval", "as_text", "build", "describe_all", "from_table",
    "parse", "premise", "prepare_tools", "tool",
]  # fmt: skip

__getattr__, __dir__ = lazy(__name__, _NAMES_IN)
