"""The packaged model in llama.cpp is the network that was trained: the same log-probabilities on
the bundled texts."""

import asyncio

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch (make extras)")
pytest.importorskip("llama_cpp", reason="needs the extra llamacpp")

from textassay import connect  # noqa: E402  # only where both are there
from textassay.demo import data_file  # noqa: E402
from textassay.prompts import simplify  # noqa: E402
from textassay.runtime.backends.llamacpp.model import EMBEDDED_FILE, EMBEDDED_FOLDER  # noqa: E402
from textassay.runtime.data.dataset import Examples  # noqa: E402
from textassay.runtime.model import ContinuationRequest, scoring  # noqa: E402
from training.parity import log_probabilities, read_back, read_tokenizer, weights_of  # noqa: E402

WITHIN = {"f16": 0.01, "q8_0": 0.05}
OUTPUTS = 16


async def theirs(prompts: list[tuple[str, str]]) -> list[list[float]]:
    async with connect("embedded") as model:
        asking = scoring(model, "continuation").continuation
        answers = [
            await asking(ContinuationRequest(prompt=given, continuation=scored))
            for given, scored in prompts
        ]
    return [[token.logprob for token in answer.tokens] for answer in answers]


def test_log_probabilities_are_those_of_the_training_framework() -> None:
    texts = [
        example for task in ("summarization", "dialogue") for example in Examples(data_file(task))
    ][:OUTPUTS]
    assert len(texts) == OUTPUTS
    prompts = [
        (
            f"article: {simplify(one.source or '').replace(chr(10), ' ')}\nsummary:",
            f" {simplify(one.output)}",
        )
        for one in texts
    ]
    file = EMBEDDED_FOLDER / EMBEDDED_FILE
    network, tokenizer = read_back(file), read_tokenizer(file)
    ours = [
        log_probabilities(network, [0, *tokenizer.encode(given).ids], tokenizer.encode(scored).ids)
        for given, scored in prompts
    ]
    for one, other in zip(asyncio.run(theirs(prompts)), ours, strict=True):
        assert len(one) == len(other)
        assert np.mean(one) == pytest.approx(np.mean(other), abs=WITHIN[weights_of(file)])
