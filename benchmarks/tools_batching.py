"""Dynamic batching against single requests: examples per second of an NLI model on the CPU.

The model has the size of BERT-base and random weights, so nothing is fetched. Both ways score the
same examples with the same tool: one by one, each waits for the one before; batched, all are asked
at once. Prints one JSON object; the scores must agree and the ratio should be at least 2.
Texts are short: with pairs of more than about 30 tokens a single request keeps a CPU busy, and
there is less to gain.

    python benchmarks/tools_batching.py [--examples 96] [--words 5] [--threads 1]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from textassay.runtime.messages import Example
from textassay.tools import NLI

WORDS = [
    f"{first}{second}"
    for first in "bcdfghjklmnprst"
    for second in ("ad", "eg", "in", "om", "ut", "ay", "ee")
]


def save_model(folder: Path) -> None:
    """Save a BERT-base-sized classifier with random weights and a word-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate([*special, *WORDS, "."])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    labels = ("contradiction", "entailment", "neutral")
    config = BertConfig(
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        num_labels=3,
    )
    BertForSequenceClassification(config).save_pretrained(folder)


def examples(count: int, words: int) -> list[Example]:
    """Make examples of one source sentence and one output sentence each, of up to `words` words."""
    draw = random.Random(0)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(1, words))) + " ."

    return [Example(id=str(i), output=sentence(), source=sentence()) for i in range(count)]


async def measure(folder: Path, count: int, words: int) -> dict[str, Any]:
    """Score all examples both ways and compare."""
    tool = NLI(model=str(folder), engine="transformers", device="cpu")
    data = examples(count, words)
    await tool.score(data[0])  # loads the model

    start = time.perf_counter()
    alone = [(await tool.score(e)).value for e in data]
    one_by_one = time.perf_counter() - start

    before = tool.runner.batches
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(tool.score(e)) for e in data]
    batched = time.perf_counter() - start
    together = [task.result().value for task in tasks]
    batches = tool.runner.batches[0] - before[0]
    await tool.aclose()

    difference = max(abs((a or 0) - (b or 0)) for a, b in zip(alone, together, strict=True))
    return {
        "examples": count,
        "words": words,
        "one_by_one_per_s": round(count / one_by_one, 2),
        "batched_per_s": round(count / batched, 2),
        "ratio": round(one_by_one / batched, 2),
        "batches": batches,
        "largest_difference": difference,
    }


def main() -> None:
    """Run and print the result as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=96)
    parser.add_argument(
        "--words", type=int, default=5, help="longest sentence; the gain on a CPU falls with length"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=None,
        help="threads of PyTorch; its own default where left out",
    )
    arguments = parser.parse_args()

    import torch

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder))
        found = asyncio.run(measure(Path(folder), arguments.examples, arguments.words))
        print(json.dumps({"threads": torch.get_num_threads(), **found}))


if __name__ == "__main__":
    main()
