"""Inspect: one `generate()` per sample, and a scorer that reads the rating.

Its fastest settings: a fixed number of connections (an explicit `max_connections` turns the
adaptive ones off), as many samples at once, no display, no realtime log, no control channel, no
record of raw API calls, and OpenAI's client over aiohttp. Its log file is written, as it is its
result.
"""

from __future__ import annotations

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState, generate
from openai import DefaultAioHttpClient

from benchmarks.peer_arms.work import KEY, MODEL, Work, rating, work


@scorer(metrics=[mean()])
def read_rating() -> Scorer:
    """Score by the rating in the answer."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=rating(state.output.completion))

    return score


def run(work: Work) -> dict[str, float]:
    """Evaluate one task and read the scores from its log."""
    samples = [Sample(id=name, input=prompt) for name, prompt in work.prompts.items()]
    config = GenerateConfig(temperature=0, max_connections=work.concurrency, max_retries=0)
    model = get_model(
        f"openai-api/bench/{MODEL}",
        base_url=work.api_base,
        api_key=KEY,
        config=config,
        http_client=DefaultAioHttpClient(),
    )
    [log] = evaluate(
        Task(dataset=MemoryDataset(samples), solver=generate(), scorer=read_rating()),
        model=model,
        display="none",
        log_dir=str(work.scores.parent / "inspect-logs"),
        max_samples=work.concurrency,
        max_connections=work.concurrency,
        log_realtime=False,
        log_model_api=False,
        score_display=False,
        ctl_server=False,
    )
    if log.status != "success":
        raise RuntimeError(f"the evaluation ended with {log.status}: {log.error}")
    return {sample.id: sample.scores["read_rating"].value for sample in log.samples}


if __name__ == "__main__":
    given = work()
    given.write(run(given))
