"""The agents that methods are built from, ready to be wired into your own graph.

    from textassay.agents import Ask, Scorer

    judge = Scorer(Ask(model, "llm_score", task))

Importing this package loads nothing: a name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.agents.aggregation import Average
    from textassay.agents.answerer import Answerer, AnswersAtOnce, AnswersInOrder, YesNoAggregator
    from textassay.agents.ask import Ask, Parsed
    from textassay.agents.citations import CitationCheck, Finding, Inquiry, Verdict
    from textassay.agents.decomposer import (
        Decomposer,
        Decomposition,
        RelatedAspect,
        RelatedAspects,
        grow,
    )
    from textassay.agents.investigator import Investigator
    from textassay.agents.joint_scorer import IndividualScorer, JointScorer, Ratings
    from textassay.agents.likelihood import LikelihoodReader, LikelihoodScorer
    from textassay.agents.llm_fuser import LLMFuser
    from textassay.agents.lookup import Material, lay_out
    from textassay.agents.passages import PassageWriter
    from textassay.agents.planner import Assistant, Planner, RefusedPlan
    from textassay.agents.prompt_template import (
        Profile,
        Prompt,
        PromptTemplate,
        chat,
        fenced,
        material,
    )
    from textassay.agents.questions import QuestionSet, SentenceQuestions
    from textassay.agents.reading.rating import NoRating, Rating, parse_rating
    from textassay.agents.scorer import LabelScorer, Scorer
    from textassay.agents.scores import from_samples, from_text
    from textassay.agents.steps import Steps, StepsWriter, WrittenSteps
    from textassay.agents.task import Task
    from textassay.agents.tool_average import ToolAverage

_HOME = {
    "Parsed": "ask",
    "Answerer": "answerer",
    "AnswersAtOnce": "answerer",
    "AnswersInOrder": "answerer",
    "Ask": "ask",
    "Assistant": "planner",
    "Average": "aggregation",
    "CitationCheck": "citations",
    "Decomposer": "decomposer",
    "Decomposition": "decomposer",
    "Finding": "citations",
    "IndividualScorer": "joint_scorer",
    "Inquiry": "citations",
    "Investigator": "investigator",
    "JointScorer": "joint_scorer",
    "LLMFuser": "llm_fuser",
    "LabelScorer": "scorer",
    "LikelihoodReader": "likelihood",
    "LikelihoodScorer": "likelihood",
    "Material": "lookup",
    "NoRating": "reading.rating",
    "PassageWriter": "passages",
    "Planner": "planner",
    "Profile": "prompt_template",
    "Prompt": "prompt_template",
    "PromptTemplate": "prompt_template",
    "QuestionSet": "questions",
    "Rating": "reading.rating",
    "Ratings": "joint_scorer",
    "RefusedPlan": "planner",
    "RelatedAspect": "decomposer",
    "RelatedAspects": "decomposer",
    "Scorer": "scorer",
    "SentenceQuestions": "questions",
    "Steps": "steps",
    "StepsWriter": "steps",
    "Task": "task",
    "ToolAverage": "tool_average",
    "Verdict": "citations",
    "WrittenSteps": "steps",
    "YesNoAggregator": "answerer",
    "chat": "prompt_template",
    "fenced": "prompt_template",
    "from_samples": "scores",
    "from_text": "scores",
    "grow": "decomposer",
    "lay_out": "lookup",
    "material": "prompt_template",
    "parse_rating": "reading.rating",
}

__all__ = [
    "Answerer",
    "AnswersAtOnce",
    "AnswersInOrder",
    "Ask",
    "Assistant",
    "Average",
    "CitationCheck",
    "Decomposer",
    "Decomposition",
    "Finding",
    "IndividualScorer",
    "Inquiry",
    "Investigator",
    "JointScorer",
    "LLMFuser",
    "LabelScorer",
    "LikelihoodReader",
    "LikelihoodScorer",
    "Material",
    "NoRating",
    "Parsed",
    "PassageWriter",
    "Planner",
    "Profile",
    "Prompt",
    "PromptTemplate",
    "QuestionSet",
    "Rating",
    "Ratings",
    "RefusedPlan",
    "RelatedAspect",
    "RelatedAspects",
    "Scorer",
    "SentenceQuestions",
    "Steps",
    "StepsWriter",
    "Task",
    "ToolAverage",
    "Verdict",
    "WrittenSteps",
    "YesNoAggregator",
    "chat",
    "fenced",
    "from_samples",
    "from_text",
    "grow",
    "lay_out",
    "material",
    "parse_rating",
]

__getattr__, __dir__ = lazy(__name__, _HOME)
