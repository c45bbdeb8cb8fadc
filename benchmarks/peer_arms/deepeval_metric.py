"""DeepEval: a custom metric and a custom model, as its guides describe them.

Its fastest settings: asynchronous, no throttle, no indicator, no printed results, no cache;
telemetry is turned off by its variable. The custom model has one client over aiohttp, because
its `LocalModel` makes a client, and so a connection, for every call. The metric is custom, because
its G-Eval sends other prompts.
"""

from __future__ import annotations

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase
from openai import AsyncOpenAI, DefaultAioHttpClient

from benchmarks.peer_arms.work import KEY, MODEL, Work, rating, work


class SharedClient(DeepEvalBaseLLM):
    """Asks through one client for all calls."""

    def __init__(self, api_base: str) -> None:
        self.client = AsyncOpenAI(
            base_url=api_base, api_key=KEY, max_retries=0, http_client=DefaultAioHttpClient()
        )
        super().__init__(MODEL)

    def load_model(self) -> AsyncOpenAI:
        """Return the client."""
        return self.client

    def get_model_name(self) -> str:
        """Return the model's name."""
        return MODEL

    def generate(self, prompt: str) -> str:
        """Refuse, as nothing here is synchronous."""
        raise NotImplementedError

    async def a_generate(self, prompt: str) -> str:
        """Ask."""
        answer = await self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt}], temperature=0
        )
        return answer.choices[0].message.content or ""


class ReadRating(BaseMetric):
    """Asks the prompt that is the test case's input, and scores by the rating in the answer."""

    def __init__(self, model: SharedClient) -> None:
        self.model, self.evaluation_model = model, model.get_model_name()
        self.threshold, self.async_mode, self.include_reason = 3.0, True, False

    async def a_measure(self, test_case: LLMTestCase, *args: object, **kwargs: object) -> float:
        """Ask and read."""
        self.score = rating(await self.model.a_generate(test_case.input))
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
    model = SharedClient(work.api_base)
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
