"""Makes the embedded judge: `python -m training TEXTS WORK OUT.gguf`."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from textassay.prompts import simplify
from training import corpus
from training.corpus import Article, Dialogue
from training.encoding import Encoder, load_tokenizer, train_tokenizer
from training.export import export
from training.learning import (
    Plan,
    Texts,
    average,
    held_out,
    held_out_cases,
    load_network,
    new_network,
    save_network,
    split,
    train,
)
from training.network import Network, Shape
from training.parity import read_back, read_tokenizer

TOKENIZER_CHARACTERS = 24_000_000


def main() -> None:
    """Train, then export."""
    given = _arguments()
    torch.set_num_threads(given.threads)
    given.work.mkdir(parents=True, exist_ok=True)
    articles, dialogues = corpus.read(given.texts)
    (articles, held_articles), (dialogues, held_dialogues) = split(articles), split(dialogues)
    tokenizer_file = _tokenizer(given, articles, dialogues)
    encoder = Encoder(load_tokenizer(tokenizer_file))
    network = new_network(Shape(), given.seed) if given.begin is None else _begun(given.begin)
    network.to(given.device)
    held = held_out_cases(held_articles, held_dialogues, encoder)
    with (given.work / "log.jsonl").open("a", encoding="utf-8") as log:

        def say(line: dict[str, Any]) -> None:
            text = json.dumps(line)
            print(text, flush=True)
            log.write(text + "\n")
            log.flush()

        for number, plan in _stages(given):
            say({"parameters": sum(p.numel() for p in network.parameters()), "plan": vars(plan)})
            train(
                network,
                Texts(articles, dialogues, encoder, plan.seed),
                plan,
                given.device,
                say,
                functools.partial(save_network, network, given.work / f"stage{number}.pt"),
                lambda: held_out(network, held, encoder, given.device),
            )
    if given.average is not None:
        other, share = given.average
        average(network, _begun(Path(other)).to(given.device), float(share))
    export(network, tokenizer_file, given.out, given.weights)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    parser.add_argument("texts", type=Path, help="folder of .txt or .txt.gz files")
    parser.add_argument("work", type=Path, help="folder for tokenizer, checkpoints and log")
    parser.add_argument("out", type=Path, help="GGUF file to write")
    parser.add_argument(
        "--steps", type=int, nargs=2, default=(1000, 1500), help="with short and with long contexts"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--begin",
        type=Path,
        help="network to begin the second stage with: a checkpoint with its tokenizer beside it, or"
        " a GGUF file",
    )
    parser.add_argument(
        "--rate", type=float, default=1.0, help="share of the learning rates, in the second stage"
    )
    parser.add_argument(
        "--ranking",
        type=float,
        default=0.0,
        help="weight of telling the better of two candidates by PMI, in the second stage",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="end the second stage after so long; without it a run is the same again",
    )
    parser.add_argument(
        "--average",
        nargs=2,
        metavar=("NETWORK", "SHARE"),
        help="keep this share of the trained weights and take the rest from another network, a"
        " checkpoint or a GGUF file",
    )
    parser.add_argument("--weights", choices=("f32", "f16", "q8_0"), default="f16")
    return parser.parse_args()


def _tokenizer(
    given: argparse.Namespace, articles: Sequence[Article], dialogues: Sequence[Dialogue]
) -> Path:
    """Return the tokenizer's file in the work folder.

    What is there, else the begun network's, else a new one.
    """
    file: Path = given.work / "tokenizer.json"
    if file.exists():
        return file
    if given.begin is not None and given.begin.suffix == ".gguf":
        read_tokenizer(given.begin).save(str(file))
        return file
    if given.begin is not None:
        shutil.copy(given.begin.with_name(file.name), file)
        return file
    mixed = [simplify(" ".join(a.sentences)) for a in articles]
    mixed += [simplify("\n".join((*d.facts, *d.turns))) for d in dialogues]
    random.Random(given.seed).shuffle(mixed)
    sizes = itertools.accumulate(map(len, mixed))
    enough = [text for text, size in zip(mixed, sizes, strict=True) if size < TOKENIZER_CHARACTERS]
    train_tokenizer(enough, Shape().vocabulary).save(str(file))
    return file


def _begun(file: Path) -> Network:
    """Return the network of a checkpoint or of a GGUF file."""
    return read_back(file) if file.suffix == ".gguf" else load_network(file)


def _stages(given: argparse.Namespace) -> list[tuple[int, Plan]]:
    """Return the stages to run, by number.

    Both, or the second one where a network is begun with.
    """
    short, long = given.steps
    stages = [
        (1, Plan(steps=short, words=(35, 130), decay=1.0, seed=given.seed)),
        (
            2,
            Plan(
                steps=long,
                words=(80, 450),
                decay=0.0,
                seed=given.seed + 1,
                weights=(0.3, 1.0, 1.5, 0.5, given.ranking),
                begin=given.rate,
                minutes=given.minutes,
            ),
        ),
    ]
    return stages if given.begin is None else stages[1:]


if __name__ == "__main__":
    main()
