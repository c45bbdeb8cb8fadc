"""Local scoring side by side.

A naive loop, textassay, the bare C calls, and llama-cpp-python's own completion path.

    python -m benchmarks.llamacpp_prefix [--quick] [--model PATH.gguf] [--mode throughput]
    [--gpu-layers N]

16 sources of about 600 tokens x 30 criteria of about 60 tokens, five single-token choices each, on
a random model of about 30 M parameters made on the spot. The slow rows are measured on a few
requests, spread over the run, and scaled; the table says on how many. "bare C calls" gets token ids
in the best order and does nothing but evaluate them. Another table shows how late the event loop
woke up while the model worked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.local.llamacpp import (
    LlamaCppModel,
    LoadedGGUF,
    Loader,
    usable_cores,
)
from textassay.runtime.backends.local.model import LocalRules
from textassay.runtime.backends.local.scoring import Evaluation
from textassay.runtime.backends.local.tokens import Ids, sort_key
from textassay.runtime.model import ChoicesRequest
from textassay.runtime.settings import LocalSettings

WORDS = [
    "the",
    "summary",
    "is",
    "good",
    "and",
    "source",
    "not",
    "very",
    "fluent",
    "yes",
    "no",
    "text",
    "with",
    "model",
]
CHOICES = {
    str(rating): (f" {word}",)
    for rating, word in enumerate(("bad", "not", "very", "good", "yes"), start=1)
}
MID = Shape(
    width=512,
    layers=8,
    heads=8,
    kv_heads=4,
    hidden=1536,
    vocabulary=8192,
    context=8192,
    dtype="q8_0",
    bos=True,
)


class Spent(NamedTuple):
    """Wall-clock and CPU seconds."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Spent:
        """Return the clocks' readings."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Spent) -> Spent:  # type: ignore[override]  # a sum, not a longer tuple
        return Spent(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.wall - other.wall, self.cpu - other.cpu)

    def __mul__(self, factor: float) -> Spent:  # type: ignore[override]  # likewise
        return Spent(self.wall * factor, self.cpu * factor)


def workload(sources: int, criteria: int) -> list[ChoicesRequest]:
    """Return the requests, mixed as a run would send them: criterion by criterion."""
    rng = np.random.default_rng(1)
    bodies = [" ".join(rng.choice(WORDS, 545)) for _ in range(sources)]
    tails = [" ".join(rng.choice(WORDS, 52)) for _ in range(criteria)]
    return [
        ChoicesRequest(prompt=f"{body}\n{tail}\n", choices=CHOICES)
        for tail in tails
        for body in bodies
    ]


class Bare:
    """The model without tokenizing, queue or event loop."""

    def __init__(
        self, path: Path, arguments: argparse.Namespace, requests: Sequence[ChoicesRequest]
    ) -> None:
        self.loaded: LoadedGGUF = Loader(
            LocalRules("bare", "error"),
            str(path),
            LocalSettings(n_ctx=1024, n_gpu_layers=arguments.gpu_layers, threads=arguments.threads),
        )()
        prompts = [self.loaded.tokenizer.prompt(request) for request in requests]
        self.ids = [prompt.ids for prompt in prompts]
        ends = prompts[0].encode_with
        self.targets = np.array([ends(forms[0])[-1] for forms in CHOICES.values()], np.int32)

    def seconds(self, sequences: Sequence[Ids], *, reuse: bool) -> Spent:
        """Evaluate sequences in this order; forget everything before each if not `reuse`."""
        before = Spent.now()
        for ids in sequences:
            if not reuse:
                self.loaded.engine.forget()
            self.loaded.engine.score([Evaluation(ids, len(ids) - 1, [self.targets])])
        return Spent.now() - before


def completion_seconds(
    path: Path, arguments: argparse.Namespace, requests: Sequence[ChoicesRequest]
) -> Spent:
    """Time the high-level class as users call it: log-probabilities of an echoed prompt."""
    import importlib

    llama = importlib.import_module("llama_cpp").Llama(
        str(path),
        n_ctx=1024,
        n_threads=arguments.threads,
        n_threads_batch=arguments.threads,
        n_gpu_layers=arguments.gpu_layers,
        logits_all=True,
        verbose=False,
    )
    before = Spent.now()
    for request in requests:
        llama.create_completion(
            request.prompt, max_tokens=1, logprobs=5, echo=True, temperature=0.0
        )
    spent = Spent.now() - before
    llama.close()
    return spent


class Ours:
    """textassay with all requests at once."""

    def __init__(self, model: LlamaCppModel) -> None:
        self.model = model
        self.late: list[float] = []

    async def _tick(self) -> None:
        while True:
            due = time.perf_counter() + 0.005
            await asyncio.sleep(0.005)
            self.late.append(time.perf_counter() - due)

    async def seconds(self, requests: Sequence[ChoicesRequest], *, ticking: bool = False) -> Spent:
        """Time all requests from the first asked to the last answered.

        Note, if `ticking`, how late a task wakes up.
        """
        ticker = asyncio.create_task(self._tick()) if ticking else None
        before = Spent.now()
        async with asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(self.model.choices(request))
        spent = Spent.now() - before
        if ticker is not None:
            ticker.cancel()
        return spent


@contextlib.contextmanager
def model_file(given: Path | None) -> Iterator[Path]:
    """Yield the file to measure: the one given, or a random one that is deleted afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        yield write_model(Path(folder) / "random-30M.gguf", MID).path


async def measure(path: Path, arguments: argparse.Namespace) -> None:
    """Measure the rows in turns, source by source, so that load slows all of them alike; print."""
    sources, criteria = (4, 10) if arguments.quick else (16, 30)
    requests = workload(sources, criteria)
    few = requests[:: max(1, len(requests) // 3)]
    bare = Bare(path, arguments, requests)
    bare.seconds(bare.ids[:1], reuse=False)  # warm up
    naive = raw = mine = Spent(0.0, 0.0)
    ratios = []
    options = {
        "n_ctx": 1024,
        "n_gpu_layers": arguments.gpu_layers,
        "mode": arguments.mode,
        "threads": arguments.threads,
    }
    async with LlamaCppModel("llamacpp/benchmark", path, **options) as model:
        ours = Ours(model)
        for source in range(sources):
            naive += bare.seconds([bare.ids[source]], reuse=False)
            block = slice(source, None, sources)
            order = sorted(bare.ids[block], key=sort_key)
            bare.loaded.engine.forget()
            early = bare.seconds(order[: criteria // 2], reuse=True)
            mine += (its := await ours.seconds(requests[block]))
            raw += (his := early + bare.seconds(order[criteria // 2 :], reuse=True))
            ratios.append(his.wall / its.wall)
        mixed = await ours.seconds(requests, ticking=True)
        evaluated = model.evaluated_tokens
    bare.loaded.close()
    completion = completion_seconds(path, arguments, few)
    tokens = sum(map(len, bare.ids))
    naive *= criteria
    rows = [
        ("naive loop, every prompt whole", naive, sources),
        ("create_completion(logprobs, echo)", completion * (len(requests) / len(few)), len(few)),
        ("bare C calls, best order", raw, len(requests)),
        (f"textassay, {arguments.mode}, by source", mine, len(requests)),
        (f"textassay, {arguments.mode}, all at once", mixed, len(requests)),
    ]
    print(
        f"{len(requests)} requests of {tokens / len(requests):.0f} tokens; {arguments.threads}"
        " threads"
    )
    print(f"textassay evaluated {evaluated} tokens for twice {tokens}")
    print(
        f"{'':36}{'seconds':>9}{'CPU s':>9}{'requests/s':>12}{'tokens/s':>10}{'x naive':>9}"
        f"{'x CPU':>7}   measured on"
    )
    for name, spent, count in rows:
        print(
            f"{name:36}{spent.wall:9.1f}{spent.cpu:9.1f}{len(requests) / spent.wall:12.1f}"
            f"{tokens / spent.wall:10.0f}"
            f"{naive.wall / spent.wall:9.2f}{naive.cpu / spent.cpu:7.2f}   {count} requests"
        )
    low, middle, high = np.percentile(ratios, [10, 50, 90])
    print(
        f"speed beside the bare C calls, source by source: median {middle:.3f} (10 % {low:.3f},"
        f" 90 % {high:.3f})"
    )
    print(
        f"the same over all sources: {raw.wall / mine.wall:.3f}, by CPU time"
        f" {raw.cpu / mine.cpu:.3f}"
    )
    p50, p99 = np.percentile(ours.late, [50, 99]) * 1000
    print(
        f"event loop late by: median {p50:.1f} ms, p99 {p99:.1f} ms, most"
        f" {max(ours.late) * 1000:.1f} ms"
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="4 sources x 10 criteria")
    parser.add_argument("--model", type=Path, help="a GGUF file instead of the random one")
    parser.add_argument("--mode", choices=("exact", "throughput"), default="exact")
    parser.add_argument("--gpu-layers", type=int, default=0)
    parser.add_argument(
        "--threads", type=int, default=usable_cores(), help="1 on a machine that others use too"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ResourceWarning)
    with model_file(arguments.model) as path:
        asyncio.run(measure(path, arguments))


if __name__ == "__main__":
    main()
