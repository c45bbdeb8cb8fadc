"""Methods from papers, one file each, and how a method is built by its name.

Importing this package loads nothing: a name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.methods.agent_judge import AgentJudge
    from textassay.methods.by_name import METHODS, build, find, method_names, tools_for
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
    name: module
    for module, names in {
        "agent_judge": "AgentJudge",
        "by_name": "METHODS build find known tools_for",
        "checklist": "Checklist",
        "claims": "ClaimCheck",
        "coascore": "CoAScore",
        "decomp_eval": "DecompEval",
        "fitted.scores": "FittedMethod LearnedTree",
        "fusion_eval": "FusionEval",
        "g_eval": "GEval",
        "gptscore": "GPTScore",
        "hd_eval": "HDEval",
        "judging": "PER_ASPECT PromptMethod RatingMethod",
        "jury": "Jury",
        "llm_score": "LLMScore LLMScoreCoT",
        "method": "Method Models PromptOptions RatingOptions",
        "pairwise": "Pairwise",
        "tool_scores": "ToolScores",
    }.items()
    for name in names.split()
}
_MODULES = ("library.plans", "library.profiles", "library.tasks", "library.trees")

__all__ = [
    "METHODS", "PER_ASPECT", "AgentJudge", "Checklist", "ClaimCheck", "CoAScore", "DecompEval",
    "FittedMethod", "FusionEval", "GEval", "GPTScore", "HDEval", "Jury", "LLMScore", "LLMScoreCoT",
    "LearnedTree", "Method", "Models", "Pairwise", "PromptMethod", "PromptOptions", "RatingMethod",
    "RatingOptions", "ToolScores", "build", "find", "method_names", "plans", "profiles", "tasks",
    "tools_for", "trees",
]  # fmt: skip

__getattr__, __dir__ = lazy(__name__, _HOME, _MODULES)
