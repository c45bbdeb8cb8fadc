"""The transformers backend side by side with a plain batched loop of the library itself.

    python -m benchmarks.transformers_backend [--families gpt2 t5 ...] [--requests N] [--model
    FOLDER]

Each of the requests is a prompt of 50 to 300 tokens and a continuation of about 10 whose
log-probabilities are requested. The plain loop tokenizes, sorts by length, pads batches of the same
number of tokens, runs one forward pass a batch and reads the logits; it shares nothing between
prompts and has no requests, events or threads. Both run in turn, so that other load affects both;
the ratio is of the medians.

`distinct` are prompts that have nothing in common, where the backend can save nothing; `shared` are
groups of four questions about one text, as judges ask.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.runtime.backends.tiny_transformers import FAMILIES, TEXT, save
from textassay.runtime.backends.local.transformers import TransformersModel
from textassay.runtime.model import ContinuationRequest

WORDS = " ".join(TEXT[:3]).split()
BATCH_TOKENS = 8192


def requests_of(count: int, *, shared: bool, seed: int = 0) -> list[ContinuationRequest]:
    """Return prompts with continuations: distinct ones, or four questions about each text."""
    draw = random.Random(seed)

    def words(number: int) -> str:
        return " ".join(draw.choice(WORDS) for _ in range(number))

    made: list[ContinuationRequest] = []
    while len(made) < count:
        text = words(draw.randint(25, 150))
        made.extend(
            ContinuationRequest(prompt=f"{text} {words(8)}", continuation=f" {words(5)}")
            for _ in range(4 if shared else 1)
        )
    return made[:count]


class PlainLoop:
    """The loop that one would write by hand: tokenize, sort, pad, one forward pass per batch."""

    def __init__(self, folder: Path, family: str) -> None:
        """Load model and tokenizer."""
        import torch
        import transformers

        self.torch = torch
        self.is_t5 = family == "t5"
        kind = "AutoModelForSeq2SeqLM" if self.is_t5 else "AutoModelForCausalLM"
        self.model = getattr(transformers, kind).from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def run(self, asked: Sequence[ContinuationRequest]) -> list[float]:
        """Return the log-probability of each continuation."""
        rows = [self._ids(one) for one in asked]
        order = sorted(range(len(rows)), key=lambda at: sum(map(len, rows[at])))
        found = [0.0] * len(rows)
        batch: list[int] = []
        with self.torch.inference_mode():
            for at in order:
                longest = max(sum(map(len, rows[one])) for one in [*batch, at])
                if batch and (len(batch) + 1) * longest > BATCH_TOKENS:
                    self._forward(batch, rows, found)
                    batch = []
                batch.append(at)
            self._forward(batch, rows, found)
        return found

    def _ids(self, one: ContinuationRequest) -> tuple[list[int], list[int]]:
        assert one.prompt is not None
        before = self.tokenizer(one.prompt).input_ids
        if self.is_t5:
            return before, self.tokenizer(one.continuation, add_special_tokens=False).input_ids
        whole = self.tokenizer(one.prompt + one.continuation).input_ids
        return before, whole[len(before) :]

    def _forward(self, batch: list[int], rows: Sequence[Any], found: list[float]) -> None:
        torch = self.torch
        given = [rows[at][0] if self.is_t5 else rows[at][0] + rows[at][1] for at in batch]
        ids, mask = self._padded(given)
        if self.is_t5:
            start = self.model.config.decoder_start_token_id
            target, _ = self._padded([[start, *rows[at][1][:-1]] for at in batch])
            logits = self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=target).logits
        else:
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        for row, at in enumerate(batch):
            first = 0 if self.is_t5 else len(rows[at][0]) - 1
            wanted = logits[row, first : first + len(rows[at][1])].float().log_softmax(-1)
            index = torch.tensor(rows[at][1])[:, None]
            found[at] = float(wanted.gather(1, index).sum())

    def _padded(self, rows: Sequence[list[int]]) -> tuple[Any, Any]:
        longest = max(map(len, rows))
        ids = self.torch.zeros((len(rows), longest), dtype=self.torch.long)
        mask = self.torch.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = self.torch.tensor(row)
            mask[number, : len(row)] = 1
        return ids, mask


async def compare(folder: Path, family: str, count: int, rounds: int, *, shared: bool) -> str:
    """Time both on the same requests, in turn; return a line of the table."""
    asked = requests_of(count, shared=shared)
    plain = PlainLoop(folder, family)
    model = await TransformersModel(
        f"transformers/{family}", str(folder), device="cpu", batch_tokens=BATCH_TOKENS
    ).open()
    ours, theirs, worst = [], [], 0.0
    for number in range(rounds + 1):  # the first one warms up
        began = time.perf_counter()
        answers = await asyncio.gather(*(model.continuation(one) for one in asked))
        middle = time.perf_counter()
        expected = plain.run(asked)
        if number:
            ours.append(middle - began)
            theirs.append(time.perf_counter() - middle)
        sums = [sum(token.logprob for token in answer.tokens) for answer in answers]
        worst = max(abs(a - b) for a, b in zip(sums, expected, strict=True))
    await model.aclose()
    a, b = statistics.median(ours), statistics.median(theirs)
    kind = "shared" if shared else "distinct"
    return (
        f"{family:6} {kind:9} {count / a:8.0f}/s {count / b:8.0f}/s   ratio {b / a:.2f}"
        f"   largest difference {worst:.1e}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--families", nargs="+", default=["gpt2", "t5"], choices=FAMILIES)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--model", type=Path, help="a folder; then --families has its family")
    chosen = parser.parse_args()
    print("                     textassay     plain loop")
    for family in chosen.families:
        with tempfile.TemporaryDirectory() as made:
            folder = chosen.model or Path(made)
            if chosen.model is None:
                save(family, folder, width=chosen.width, layers=4, positions=1024)
            for shared in (False, True):
                line = compare(folder, family, chosen.requests, chosen.rounds, shared=shared)
                print(asyncio.run(line), flush=True)


if __name__ == "__main__":
    main()
