"""LLMScore and LLMScore with chain of thought.

A judge gives one rating, or several samples.
"""

from __future__ import annotations

from textassay.methods.judging import RatingMethod


class LLMScore(RatingMethod):
    """LLMScore, the plain baseline of CoAScore (arXiv 2312.10355, section 4.2 and appendix A.1).

    1. The judge sees the task, one aspect with its definition, the source and the text.
    2. It gives a reason in one sentence and a rating on the aspect's scale, at temperature 0.
    3. With `n` above 1 the mean of that many samples is taken (not in the paper).

    For an aspect with labels in place of a scale, it gives the letter of one of them.

    Deviations: the words of the prompt are ours, since the paper's table 8 is in no public copy we
    know; the prompt also asks for a reason. Models that are known to follow JSON schemas answer in
    JSON.
    """

    name = "llm-score"
    prompt = "llm_score"
    labels_prompt = "llm_score_labels"


class LLMScoreCoT(LLMScore):
    """LLMScore with chain of thought (CoAScore, section 4.2).

    The judge thinks aloud before it rates.

    As `LLMScore`, but the prompt ends in the paper's "Let's think step by step:" and the rating
    comes at the end.
    """

    name = "llm-score-cot"
    prompt = "llm_score_cot"
    labels_prompt = ""
    no_decisions = "it writes no chain of thought; take llm-score or decide"
    max_tokens = 1024
