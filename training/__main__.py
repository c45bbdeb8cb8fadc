"""Makes the embedded judge: `python -m training TEXTS WORK OUT.gguf`."""

from __future__ import annotations

import argparse
import itertools
import json
import random
from pathlib import Path
from typing import Any

import torch

from textassay.prompts.simplify import simplify
from training import corpus
from training.encoding import Encoder, batches, load_tokenizer, train_tokenizer
from training.export import export
from training.learning import Plan, Texts, held_out, load_network, new_network, save_network, split, train
from training.network import Shape

TOKENIZER_CHARACTERS = 24_000_000


def main() -> None:
    """Train, then export."""
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    parser.add_argument("texts", type=Path, help="folder of .txt or .txt.gz files")
    parser.add_argument("work", type=Path, help="folder for tokenizer, checkpoints and log")
    parser.add_argument("out", type=Path, help="GGUF file to write")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--short", type=float, default=0.45, help="share of the steps with short contexts")
    parser.add_argument("--decay", type=float, default=0.4, help="share of the steps before the learning rates fall")
    parser.add_argument("--begin", type=Path, help="checkpoint to begin with")
    parser.add_argument("--weights", choices=("f32", "f16", "q8_0"), default="f16")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    given.work.mkdir(parents=True, exist_ok=True)

    articles, dialogues = corpus.read(given.texts)
    (articles, held_articles), (dialogues, held_dialogues) = split(articles), split(dialogues)
    tokenizer_file = given.work / "tokenizer.json"
    if not tokenizer_file.exists():
        mixed = [simplify(" ".join(a.sentences)) for a in articles]
        mixed += [simplify("\n".join((*d.facts, *d.turns))) for d in dialogues]
        random.Random(given.seed).shuffle(mixed)
        sizes = itertools.accumulate(map(len, mixed))
        enough = [text for text, size in zip(mixed, sizes, strict=True) if size < TOKENIZER_CHARACTERS]
        train_tokenizer(enough, Shape().vocabulary).save(str(tokenizer_file))
    encoder = Encoder(load_tokenizer(tokenizer_file))

    network = new_network(Shape(), given.seed) if given.begin is None else load_network(given.begin)
    plan = Plan(steps=given.steps, seed=given.seed, short=given.short, decay=given.decay)
    held = Texts(held_articles, held_dialogues, encoder, 1)
    held_blocks = batches(held.block(96, (80, 300)), plan.tokens, random.Random(1))
    with (given.work / "log.jsonl").open("a", encoding="utf-8") as log:

        def say(line: dict[str, Any]) -> None:
            text = json.dumps(line)
            print(text, flush=True)
            log.write(text + "\n")
            log.flush()

        say({"parameters": sum(p.numel() for p in network.parameters()), "plan": vars(plan), "articles": len(articles)})
        train(
            network,
            Texts(articles, dialogues, encoder, given.seed),
            plan,
            given.device,
            say,
            lambda: save_network(network, given.work / "network.pt"),
            lambda: held_out(network, held_blocks, encoder, given.device),
        )
    export(network, tokenizer_file, given.out, given.weights)


if __name__ == "__main__":
    main()
