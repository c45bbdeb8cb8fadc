"""Assistant evaluators.

NLI, BLEURT, ROUGE and their kin, each with one method `score`, usable without any agent.
"""

from textassay.tools.bartscore import BartScore
from textassay.tools.bertscore import BertScore
from textassay.tools.bleurt import Bleurt
from textassay.tools.embedding import Embedding
from textassay.tools.extraction import Coverage, Novelty
from textassay.tools.function_tool import FunctionTool, tool
from textassay.tools.lm_prob import LMProb
from textassay.tools.meteor import Meteor
from textassay.tools.minicheck import MiniCheck
from textassay.tools.nli import NLI
from textassay.tools.overlap import Bleu, Chrf, Rouge, Ter
from textassay.tools.readability import Readability
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
from textassay.tools.scorer import ToolScorer
from textassay.tools.sentences import RuleSplitter, SentenceSplitter
from textassay.tools.surface import Length, Repetition
from textassay.tools.tool import (
    Abstention,
    Measurement,
    Preparable,
    TextTool,
    Tool,
    premise,
    prepare_tools,
)
from textassay.tools.unieval import UniEval

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
