"""The agents that methods are built from, ready to be wired into your own graph.

    from textassay.agents import Ask, Scorer

    judge = Scorer(Ask(model, "llm_score", task))

Agents raise what a model raises (`ModelError`), `PromptError` if a prompt file does not render, and
`ContentRefused` if the provider's filter cuts an answer off.

Importing this package loads nothing: a name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.agents.aggregation import Average, from_samples, from_text
    from textassay.agents.ask import Ask, Parsed
    from textassay.agents.fusion import Assistant, LLMFuser, Planner, RefusedPlan, ToolAverage
    from textassay.agents.investigator import CitationCheck, Finding, Inquiry, Investigator, Verdict
    from textassay.agents.likelihood import LikelihoodReader, LikelihoodScorer, PassageWriter
    from textassay.agents.lookup import Material, lay_out
    from textassay.agents.planning import (
        Decomposer,
        Decomposition,
        RelatedAspect,
        RelatedAspects,
        Steps,
        StepsWriter,
        WrittenSteps,
        grow,
    )
    from textassay.agents.prompt_template import (
        Profile,
        Prompt,
        PromptTemplate,
        Task,
        chat,
        fenced,
        material,
    )
    from textassay.agents.questions import (
        Answerer,
        AnswersAtOnce,
        AnswersInOrder,
        QuestionSet,
        SentenceQuestions,
        YesNoAggregator,
    )
    from textassay.agents.reading.ratings import NoRating, Rating, parse_rating
    from textassay.agents.scorer import IndividualScorer, JointScorer, LabelScorer, Ratings, Scorer

_HOME = {
    "Parsed": "ask",
    "Answerer": "questions",
    "AnswersAtOnce": "questions",
    "AnswersInOrder": "questions",
    "Ask": "ask",
    "Assistant": "fusion",
    "Average": "aggregation",
    "CitationCheck": "investigator",
    "Decomposer": "planning",
    "Decomposition": "planning",
    "Finding": "investigator",
    "IndividualScorer": "scorer",
    "Inquiry": "investigator",
    "Investigator": "investigator",
    "JointScorer": "scorer",
    "LLMFuser": "fusion",
    "LabelScorer": "scorer",
    "LikelihoodReader": "likelihood",
    "LikelihoodScorer": "likelihood",
    "Material": "lookup",
    "NoRating": "reading.ratings",
    "PassageWriter": "likelihood",
    "Planner": "fusion",
    "Profile": "prompt_template",
    "Prompt": "prompt_template",
    "PromptTemplate": "prompt_template",
    "QuestionSet": "questions",
    "Rating": "reading.ratings",
    "Ratings": "scorer",
    "RefusedPlan": "fusion",
    "RelatedAspect": "planning",
    "RelatedAspects": "planning",
    "Scorer": "scorer",
    "SentenceQuestions": "questions",
    "Steps": "planning",
    "StepsWriter": "planning",
    "Task": "prompt_template",
    "ToolAverage": "fusion",
    "Verdict": "investigator",
    "WrittenSteps": "planning",
    "YesNoAggregator": "questions",
    "chat": "prompt_template",
    "fenced": "prompt_template",
    "from_samples": "aggregation",
    "from_text": "aggregation",
    "grow": "planning",
    "lay_out": "lookup",
    "material": "prompt_template",
    "parse_rating": "reading.ratings",
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
