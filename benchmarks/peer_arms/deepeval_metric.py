"""DeepEval: a metric of one's own, which asks through its client for OpenAI-compatible servers.

Its fastest settings: asynchronous, no throttle, no indicator, no printed results, no cache;
telemetry is turned off by its variable. A metric of one's own, because its G-Eval sends other
prompts.
"""

from __future__ import annotations

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase

from benchmarks.peer_arms.work import KEY, MODEL, Work, rating, work


class ReadRating(BaseMetric):
    """Asks the prompt that is the test case's input, and scores by the rating in the answer."""

    def __init__(self, model: LocalModel) -> None:
        self.model, self.evaluation_model = model, model.get_model_name()
        self.threshold, self.async_mode, self.include_reason = 3.0, True, False

    async def a_measure(self, test_case: LLMTestCase, *args: object, **kwargs: object) -> float:
        """Ask and read."""
        answer, _ = await self.model.a_generate(test_case.input)
        self.score = rating(answer)
        self.success = self.score >= self.threshold
        return self.score

    def measure(self, test_case: LLMTestCase, *args: object, **kwargs: object) -> float:
        """Refuse, as nothing here is synchronous."""
        raise NotImplementedError

    def is_successful(self) -> bool:
        """Return whether the rating is at least the threshold."""
        return bool(self.success)

    @property
    def __name__(self) -> str:
        return "rating"


def run(work: Work) -> dict[str, float]:
    """Evaluate one test case per prompt."""
    model = LocalModel(model=MODEL, base_url=work.api_base, api_key=KEY, temperature=0)
    result = evaluate(
        [
            LLMTestCase(name=name, input=prompt, actual_output="-")
            for name, prompt in work.prompts.items()
        ],
        [ReadRating(model)],
        async_config=AsyncConfig(max_concurrent=work.concurrency, throttle_value=0),
        display_config=DisplayConfig(
            show_indicator=False, print_results=False, inspect_after_run=False
        ),
        cache_config=CacheConfig(write_cache=False, use_cache=False),
    )
    return {each.name: each.metrics_data[0].score for each in result.test_results}


if __name__ == "__main__":
    given = work()
    given.write(run(given))
