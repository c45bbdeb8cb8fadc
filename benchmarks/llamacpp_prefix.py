"""Local scoring side by side: a naive loop, textassay, the bare C calls, and llama-cpp-python's own completion path.

    python -m benchmarks.llamacpp_prefix [--quick] [--model PATH.gguf] [--mode throughput] [--gpu-layers N]

16 sources of about 600 tokens x 30 criteria of about 60 tokens, five single-token choices each, on a random model of
about 30 M parameters made on the spot. The slow rows are measured on a few requests, spread over the run and scaled;
the table says on how many. "bare C calls" gets token ids in the best order and does nothing but evaluate them.
Another table shows how late the event loop woke up while the model worked.
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

import numpy as np

from tests.gguf_fixture import Shape, write_model
from textassay.runtime.backends.llamacpp import LlamaCppModel
from textassay.runtime.backends.llamacpp.loading import Loaded, Loader, usable_cores
from textassay.runtime.backends.llamacpp.logprobs import Evaluation
from textassay.runtime.backends.llamacpp.weights import Ids
from textassay.runtime.model import ChoicesRequest

WORDS = ["the", "summary", "is", "good", "and", "source", "not", "very", "fluent", "yes", "no", "text", "with", "model"]
CHOICES = {str(rating): (f" {word}",) for rating, word in enumerate(("bad", "not", "very", "good", "yes"), start=1)}
MID = Shape(
    width=512, layers=8, heads=8, kv_heads=4, hidden=1536, vocabulary=8192, context=8192, dtype="q8_0", bos=True
)


def workload(sources: int, criteria: int) -> list[ChoicesRequest]:
    """Return the requests, mixed as a run would send them: criterion by criterion."""
    rng = np.random.default_rng(1)
    bodies = [" ".join(rng.choice(WORDS, 545)) for _ in range(sources)]
    tails = [" ".join(rng.choice(WORDS, 52)) for _ in range(criteria)]
    return [ChoicesRequest(prompt=f"{body}\n{tail}\n", choices=CHOICES) for tail in tails for body in bodies]


class Bare:
    """The model without tokenizing, queue or event loop."""

    def __init__(self, path: Path, gpu_layers: int, requests: Sequence[ChoicesRequest]) -> None:
        self.loaded: Loaded = Loader(path, 1024, gpu_layers, usable_cores(), "f16", 1, False)()
        prompts = [self.loaded.tokenizer.prompt(request) for request in requests]
        self.ids = [prompt.ids for prompt in prompts]
        ends = prompts[0].followed_by
        self.targets = np.array([ends(forms[0])[-1] for forms in CHOICES.values()], np.int32)

    def seconds(self, sequences: Sequence[Ids], *, reuse: bool) -> float:
        """Evaluate sequences in this order; forget everything before each if not `reuse`."""
        started = time.perf_counter()
        for ids in sequences:
            if not reuse:
                self.loaded.engine.forget()
            self.loaded.engine.score([Evaluation(ids, len(ids) - 1, [self.targets])])
        return time.perf_counter() - started


def completion_seconds(path: Path, gpu_layers: int, requests: Sequence[ChoicesRequest]) -> float:
    """Time what users write with the high-level class: log-probabilities of an echoed prompt."""
    import importlib

    llama = importlib.import_module("llama_cpp").Llama(
        str(path), n_ctx=1024, n_threads=usable_cores(), n_gpu_layers=gpu_layers, logits_all=True, verbose=False
    )
    started = time.perf_counter()
    for request in requests:
        llama.create_completion(request.prompt, max_tokens=1, logprobs=5, echo=True, temperature=0.0)
    seconds = time.perf_counter() - started
    llama.close()
    return seconds


async def ours(
    path: Path, gpu_layers: int, mode: str, requests: Sequence[ChoicesRequest]
) -> tuple[float, list[float], int]:
    """Time all requests asked at once; also return how late (seconds) a ticking task woke up, and tokens evaluated."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + 0.005
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - due)

    options = {"n_ctx": 1024, "n_gpu_layers": gpu_layers, "mode": mode}
    async with LlamaCppModel("llamacpp/benchmark", path, **options) as model:  # type: ignore[arg-type]  # the options vary
        ticking = asyncio.create_task(tick())
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(model.choices(request))
        seconds = time.perf_counter() - started
        ticking.cancel()
        return seconds, late, model.evaluated_tokens


@contextlib.contextmanager
def model_file(given: Path | None) -> Iterator[Path]:
    """Yield the file to measure: the one given, or a random one that is deleted afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        yield write_model(Path(folder) / "random-30M.gguf", MID).path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="4 sources x 10 criteria")
    parser.add_argument("--model", type=Path, help="a GGUF file instead of the random one")
    parser.add_argument("--mode", choices=("exact", "throughput"), default="exact")
    parser.add_argument("--gpu-layers", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ResourceWarning)
    sources, criteria = (4, 10) if arguments.quick else (16, 30)
    requests = workload(sources, criteria)
    with model_file(arguments.model) as path:
        bare = Bare(path, arguments.gpu_layers, requests)
        best_order = sorted(bare.ids, key=lambda ids: ids.astype(">u4").tobytes())
        some = bare.ids[:: max(1, len(requests) // 10)]
        bare.seconds(some[:2], reuse=False)  # warm up
        naive = bare.seconds(some[: len(some) // 2], reuse=False)
        first = bare.seconds(best_order, reuse=True)
        mine, late, evaluated = asyncio.run(ours(path, arguments.gpu_layers, arguments.mode, requests))
        second = bare.seconds(best_order, reuse=True)
        naive += bare.seconds(some[len(some) // 2 :], reuse=False)
        bare.loaded.close()
        few = requests[:: max(1, len(requests) // 4)]
        completion = completion_seconds(path, arguments.gpu_layers, few)
    tokens = sum(map(len, bare.ids))
    raw = min(first, second)
    naive *= len(requests) / len(some)
    rows = [
        ("naive loop, every prompt whole", naive, len(some)),
        ("create_completion(logprobs, echo)", completion * len(requests) / len(few), len(few)),
        ("bare C calls, best order", raw, len(requests)),
        (f"textassay, {arguments.mode}", mine, len(requests)),
    ]
    print(f"{len(requests)} requests, {tokens / len(requests):.0f} tokens each; {evaluated} of {tokens} evaluated")
    print(f"{'':36}{'seconds':>9}{'requests/s':>12}{'tokens/s':>10}{'x naive':>9}   measured on")
    for name, seconds, count in rows:
        print(
            f"{name:36}{seconds:9.1f}{len(requests) / seconds:12.1f}{tokens / seconds:10.0f}{naive / seconds:9.2f}   "
            f"{count} requests"
        )
    print(
        f"textassay / bare C calls: {raw / mine:.3f} of its speed (the C calls took {first:.1f} s and {second:.1f} s)"
    )
    p50, p99 = np.percentile(late, [50, 99]) * 1000
    print(f"event loop late by: median {p50:.1f} ms, p99 {p99:.1f} ms, most {max(late) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
