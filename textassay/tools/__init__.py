"""Assistant evaluators.

NLI, BLEURT, ROUGE and similar metrics, each with one method `score`, usable without any agent.

A name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy
from textassay.tools.tool import FunctionTool, tool

if TYPE_CHECKING:
    from textassay.tools.embedding import Embedding
    from textassay.tools.learned_metrics import BartScore, BertScore, Bleurt, LMProb, UniEval
    from textassay.tools.nli import NLI, MiniCheck
    from textassay.tools.overlap import Bleu, Chrf, Meteor, Rouge, Ter
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
    from textassay.tools.surface import Coverage, Length, Novelty, Readability, Repetition
    from textassay.tools.text import RuleSplitter, SentenceSplitter
    from textassay.tools.tool import (
        Abstention,
        Computed,
        Measurement,
        Preparable,
        TextTool,
        Tool,
        ToolScorer,
        premise,
        prepare_tools,
    )

_HOME = {
    "Abstention": "tool",
    "BartScore": "learned_metrics",
    "BertScore": "learned_metrics",
    "Bleu": "overlap",
    "Bleurt": "learned_metrics",
    "Chrf": "overlap",
    "Computed": "tool",
    "Coverage": "surface",
    "Embedding": "embedding",
    "GROUPS": "registry",
    "KINDS": "registry",
    "LMProb": "learned_metrics",
    "Length": "surface",
    "Measurement": "tool",
    "Meteor": "overlap",
    "MiniCheck": "nli",
    "NLI": "nli",
    "Novelty": "surface",
    "Preparable": "tool",
    "Readability": "surface",
    "Repetition": "surface",
    "Rouge": "overlap",
    "RuleSplitter": "text",
    "SentenceSplitter": "text",
    "Ter": "overlap",
    "TextTool": "tool",
    "Tool": "tool",
    "ToolDescription": "registry",
    "ToolScorer": "tool",
    "ToolSpec": "registry",
    "UniEval": "learned_metrics",
    "as_text": "registry",
    "build": "registry",
    "describe_all": "registry",
    "from_table": "registry",
    "parse": "registry",
    "premise": "tool",
    "prepare_tools": "tool",
}

__all__ = [
    "GROUPS",
    "KINDS",
    "NLI",
    "Abstention",
    "BartScore",
    "BertScore",
    "Bleu",
    "Bleurt",
    "Chrf",
    "Computed",
    "Coverage",
    "Embedding",
    "FunctionTool",
    "LMProb",
    "Length",
    "Measurement",
    "Meteor",
    "MiniCheck",
    "Novelty",
    "Preparable",
    "Readability",
    "Repetition",
    "Rouge",
    "RuleSplitter",
    "SentenceSplitter",
    "Ter",
    "TextTool",
    "Tool",
    "ToolDescription",
    "ToolScorer",
    "ToolSpec",
    "UniEval",
    "as_text",
    "build",
    "describe_all",
    "from_table",
    "parse",
    "premise",
    "prepare_tools",
    "tool",
]

# `tool` is not lazy: it would be hidden by the module of that name
__getattr__, __dir__ = lazy(__name__, _HOME)
