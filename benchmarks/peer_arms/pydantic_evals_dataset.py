"""pydantic-evals: a task that asks through pydantic-ai's direct API, and an evaluator.

Its fastest settings: `model_request` rather than an agent, no progress bar, no instrumentation,
and OpenAI's client over aiohttp.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from openai import AsyncOpenAI, DefaultAioHttpClient
from pydantic_ai import ModelRequest
from pydantic_ai.direct import model_request
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext

from benchmarks.peer_arms.work import KEY, MODEL, Work, rating, work


@dataclass
class ReadRating(Evaluator[str, str, None]):
    """Scores by the rating in the answer."""

    def evaluate(self, ctx: EvaluatorContext[str, str, None]) -> float:
        """Return the rating."""
        return rating(ctx.output)


async def run(work: Work) -> dict[str, float]:
    """Evaluate a data set with one case per prompt."""
    http = DefaultAioHttpClient()
    client = AsyncOpenAI(base_url=work.api_base, api_key=KEY, max_retries=0, http_client=http)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))

    async def ask(prompt: str) -> str:
        answer = await model_request(
            model,
            [ModelRequest.user_text_prompt(prompt)],
            model_settings={"temperature": 0},
            instrument=False,
        )
        return answer.text or ""

    cases = [Case(name=name, inputs=prompt) for name, prompt in work.prompts.items()]
    dataset = Dataset(name="peers", cases=cases, evaluators=[ReadRating()])
    report = await dataset.evaluate(ask, max_concurrency=work.concurrency, progress=False)
    if report.failures:
        raise RuntimeError(f"{len(report.failures)} cases failed: {report.failures[0]}")
    return {case.name: case.scores["ReadRating"].value for case in report.cases}


if __name__ == "__main__":
    given = work()
    given.write(asyncio.run(run(given)))
