"""Verdict: one judge unit over a data set, on threads.

Its fastest settings: the rate limiter off, as many workers as calls at once, no display, and the
rating read from plain text, which needs no structured output and no counting of tokens.
"""

from __future__ import annotations

from verdict import Pipeline
from verdict.common.judge import JudgeUnit
from verdict.extractor import RegexExtractor
from verdict.model import vLLMModel
from verdict.scale import LikertScale
from verdict.schema import Schema
from verdict.util import ratelimit

from benchmarks.peer_arms.work import KEY, MODEL, Work, work


class Rating(RegexExtractor):
    """The first figure of the scale.

    Given as a class, so that each unit makes its own: Verdict 0.2.7 writes the unit's schema into
    an extractor that it was given, and its threads would write into the same one.
    """

    def __init__(self) -> None:
        """Set the pattern."""
        super().__init__({"score": "[1-5]"})


def run(work: Work) -> dict[str, float]:
    """Run the pipeline on one row per prompt."""
    ratelimit.disable()
    model = vLLMModel(name=MODEL, api_base=work.api_base, api_key=KEY)
    judge = (
        JudgeUnit(LikertScale())
        .prompt("{source.prompt}")
        .via(model, retries=1, temperature=0)
        .extract(Rating)
    )
    rows = [Schema.of(name=name, prompt=prompt) for name, prompt in work.prompts.items()]
    table, [column] = (Pipeline() >> judge).run_from_list(rows, max_workers=work.concurrency)
    return {name: float(value) for name, value in zip(table["name"], table[column], strict=True)}


if __name__ == "__main__":
    given = work()
    given.write(run(given))
