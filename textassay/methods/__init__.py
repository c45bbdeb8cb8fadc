"""Methods from papers, one file each, and how a method is built by its name.

Importing this package loads nothing: a name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.methods.agent_judge import AgentJudge
    from textassay.methods.by_name import METHODS, build, find, known, tools_for
    from textassay.methods.checklist import Checklist
    from textassay.methods.claims import ClaimCheck
    from textassay.methods.coascore import CoAScore
    from textassay.methods.decomp_eval import DecompEval
    from textassay.methods.fitted.scores import FittedMethod, LearnedTree
    from textassay.methods.fusion_eval import FusionEval
    from textassay.methods.g_eval import GEval
    from textassay.methods.gptscore import GPTScore
    from textassay.methods.hd_eval import HDEval
    from textassay.methods.judging import PER_ASPECT, PromptMethod, RatingMethod
    from textassay.methods.jury import Jury
    from textassay.methods.library import plans, profiles, tasks, trees
    from textassay.methods.llm_score import LLMScore, LLMScoreCoT
    from textassay.methods.method import Method, Models, PromptOptions, RatingOptions
    from textassay.methods.pairwise import Pairwise
    from textassay.methods.tool_scores import ToolScores

_HOME = {
    "METHODS": "by_name",
    "AgentJudge": "agent_judge",
    "Checklist": "checklist",
    "ClaimCheck": "claims",
    "CoAScore": "coascore",
    "DecompEval": "decomp_eval",
    "FusionEval": "fusion_eval",
    "GEval": "g_eval",
    "GPTScore": "gptscore",
    "HDEval": "hd_eval",
    "Jury": "jury",
    "LLMScore": "llm_score",
    "LLMScoreCoT": "llm_score",
    "FittedMethod": "fitted.scores",
    "LearnedTree": "fitted.scores",
    "Method": "method",
    "Models": "method",
    "PER_ASPECT": "judging",
    "Pairwise": "pairwise",
    "PromptMethod": "judging",
    "PromptOptions": "method",
    "RatingMethod": "judging",
    "RatingOptions": "method",
    "ToolScores": "tool_scores",
    "build": "by_name",
    "find": "by_name",
    "known": "by_name",
    "tools_for": "by_name",
}
_MODULES = ("library.plans", "library.profiles", "library.tasks", "library.trees")

__all__ = [
    "METHODS",
    "PER_ASPECT",
    "AgentJudge",
    "Checklist",
    "ClaimCheck",
    "CoAScore",
    "DecompEval",
    "FittedMethod",
    "FusionEval",
    "GEval",
    "GPTScore",
    "HDEval",
    "Jury",
    "LLMScore",
    "LLMScoreCoT",
    "LearnedTree",
    "Method",
    "Models",
    "Pairwise",
    "PromptMethod",
    "PromptOptions",
    "RatingMethod",
    "RatingOptions",
    "ToolScores",
    "build",
    "find",
    "known",
    "plans",
    "profiles",
    "tasks",
    "tools_for",
    "trees",
]

__getattr__, __dir__ = lazy(__name__, _HOME, _MODULES)
