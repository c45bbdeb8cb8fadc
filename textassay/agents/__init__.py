"""The agents that methods are built from, ready to be wired into your own graph.

    from textassay.agents import Ask, Scorer

    judge = Scorer(Ask(model, "llm_score", task))

Importing this package loads nothing: a name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.agents.answerer import Answerer, AnswersAtOnce, AnswersInOrder
    from textassay.agents.ask import Ask, Parsed
    from textassay.agents.average import Average
    from textassay.agents.citations import CitationCheck, Finding, Inquiry, Verdict
    from textassay.agents.decomposer import Decomposer, Decomposition, grow
    from textassay.agents.individual_scorer import IndividualScorer
    from textassay.agents.investigator import Investigator
    from textassay.agents.joint_scorer import JointScorer, Ratings
    from textassay.agents.label_scorer import LabelScorer
    from textassay.agents.likelihood import LikelihoodReader, LikelihoodScorer
    from textassay.agents.llm_fuser import LLMFuser
    from textassay.agents.lookup import Material, lay_out
    from textassay.agents.passages import PassageWriter
    from textassay.agents.planner import Planner, RefusedPlan
    from textassay.agents.profile import Profile
    from textassay.agents.prompt_template import Prompt, PromptTemplate, chat
    from textassay.agents.qualities import RelatedAspect, RelatedAspects
    from textassay.agents.questions import QuestionSet, SentenceQuestions
    from textassay.agents.reading.rating import NoRating, Rating, parse_rating
    from textassay.agents.scorer import Scorer
    from textassay.agents.scores import from_samples, from_text
    from textassay.agents.shown_material import fenced, material
    from textassay.agents.steps import Steps, StepsWriter, WrittenSteps
    from textassay.agents.task import Task
    from textassay.agents.tool_average import ToolAverage
    from textassay.agents.tool_descriptions import Assistant
    from textassay.agents.yes_no_aggregator import YesNoAggregator

_HOME = {
    "Parsed": "ask",
    "Answerer": "answerer",
    "AnswersAtOnce": "answerer",
    "AnswersInOrder": "answerer",
    "Ask": "ask",
    "Assistant": "tool_descriptions",
    "Average": "average",
    "CitationCheck": "citations",
    "Decomposer": "decomposer",
    "Decomposition": "decomposer",
    "Finding": "citations",
    "IndividualScorer": "individual_scorer",
    "Inquiry": "citations",
    "Investigator": "investigator",
    "JointScorer": "joint_scorer",
    "LLMFuser": "llm_fuser",
    "LabelScorer": "label_scorer",
    "LikelihoodReader": "likelihood",
    "LikelihoodScorer": "likelihood",
    "Material": "lookup",
    "NoRating": "reading.rating",
    "PassageWriter": "passages",
    "Planner": "planner",
    "Profile": "profile",
    "Prompt": "prompt_template",
    "PromptTemplate": "prompt_template",
    "QuestionSet": "questions",
    "Rating": "reading.rating",
    "Ratings": "joint_scorer",
    "RefusedPlan": "planner",
    "RelatedAspect": "qualities",
    "RelatedAspects": "qualities",
    "Scorer": "scorer",
    "SentenceQuestions": "questions",
    "Steps": "steps",
    "StepsWriter": "steps",
    "Task": "task",
    "ToolAverage": "tool_average",
    "Verdict": "citations",
    "WrittenSteps": "steps",
    "YesNoAggregator": "yes_no_aggregator",
    "chat": "prompt_template",
    "fenced": "shown_material",
    "from_samples": "scores",
    "from_text": "scores",
    "grow": "decomposer",
    "lay_out": "lookup",
    "material": "shown_material",
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
