"""Decide: every aspect is a typed question, and all of them are one request."""

from __future__ import annotations

from functools import cached_property

from textassay.agents.typed_questions import QuestionScorer
from textassay.methods.judging import ScoringMethod


class Decide(ScoringMethod):
    """One typed question for each aspect, answered by a probability for every option (ours).

    1. An aspect with a scale is a rating question with its levels; one with labels is a choice.
    2. All questions about a text are sent in one request.
    3. A rating's score is the mean over its levels, weighted by their probabilities (the
       expectation of G-Eval, arXiv 2303.16634, section 2.3), a label's the likeliest one.

    A decision model sends the probabilities. The token probabilities of any other model are read,
    question by question. If it sends none, it answers all questions in one JSON object; with
    profile=none it is asked each question separately, and the shares of sampled answers are read.
    """

    name = "decide"
    prompt = "typed_rating"
    labels_prompt = "typed_label"
    typed_profiles = ("auto", "typed")

    @cached_property
    def scorer(self) -> QuestionScorer:
        return QuestionScorer(self.ask(), self.name)
