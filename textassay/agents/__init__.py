"""The agents that methods are built from, ready to be wired into your own graph.

    from textassay.agents import Ask, Scorer

    judge = Scorer(Ask(model, "llm_score", task))

Agents raise a model's errors (`ModelError`), `PromptError` if a prompt file does not render, and
`ContentRefused` if the provider's filter cuts an answer off.

Importing this package loads nothing: a name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.agents.aggregation import Average, from_samples, from_text
    from textassay.agents.ask import Ask, Parsed
    from textassay.agents.fusion import (
        AssistantDescription,
        LLMFuser,
        Planner,
        RefusedPlan,
        ToolAverage,
    )
    from textassay.agents.investigator import (
        CitationCheck,
        FinalVerdict,
        Finding,
        Inquiry,
        Investigator,
    )
    from textassay.agents.likelihood import LikelihoodReader, LikelihoodScorer, PassageWriter
    from textassay.agents.lookup import SectionIndex, lay_out
    from textassay.agents.planning import (
        Decomposer,
        Decomposition,
        StepsWriter,
        WrittenSteps,
        grow,
        related_aspects,
    )
    from textassay.agents.prompt_template import (
        Profile,
        Prompt,
        PromptTemplate,
        Task,
        chat,
        fence_texts,
        material,
    )
    from textassay.agents.questions import (
        Answerer,
        AnswersInOrder,
        QuestionSet,
        SentenceQuestions,
        YesNoAggregator,
    )
    from textassay.agents.reading.outcomes import NoRating, Rating
    from textassay.agents.reading.ratings import parse_rating
    from textassay.agents.scorer import (
        IndividualScorer,
        JointScorer,
        JointScores,
        LabelScorer,
        Scorer,
    )

_NAMES_IN = {
    "aggregation": "Average from_samples from_text",
    "ask": "Ask Parsed",
    "fusion": "AssistantDescription LLMFuser Planner RefusedPlan ToolAverage",
    "investigator": "CitationCheck FinalVerdict Finding Inquiry Investigator",
    "likelihood": "LikelihoodReader LikelihoodScorer PassageWriter",
    "lookup": "SectionIndex lay_out",
    "planning": "Decomposer Decomposition StepsWriter WrittenSteps grow related_aspects",
    "prompt_template": "Profile Prompt PromptTemplate Task chat fence_texts material",
    "questions": "Answerer AnswersInOrder QuestionSet SentenceQuestions YesNoAggregator",
    "reading.outcomes": "NoRating Rating",
    "reading.ratings": "parse_rating",
    "scorer": "IndividualScorer JointScorer JointScores LabelScorer Scorer",
}

__all__ = [
    "Answerer", "AnswersInOrder", "Ask", "AssistantDescription", "Average", "CitationCheck",
    "Decomposer", "Decomposition", "FinalVerdict", "Finding", "IndividualScorer", "Inquiry",
    "Investigator", "JointScorer", "JointScores", "LLMFuser", "LabelScorer", "LikelihoodReader",
    "LikelihoodScorer", "NoRating", "Parsed", "PassageWriter", "Planner", "Profile", "Prompt",
    "PromptTemplate", "QuestionSet", "Rating", "RefusedPlan", "Scorer", "SectionIndex",
    "SentenceQuestions", "StepsWriter", "Task", "ToolAverage", "WrittenSteps", "YesNoAggregator",
    "chat", "fence_texts", "from_samples", "from_text", "grow", "lay_out", "material",
    "parse_rating", "related_aspects",
]  # fmt: skip

__getattr__, __dir__ = lazy(__name__, _NAMES_IN)
