"""Measures a model on held-out cases: `python -m training.measure TEXTS MODEL.gguf`.

Prints mean losses and, by aspect, the area under the curve of P(yes): once for cases as they are
trained on, and once without summaries about something else, whose candidates nearly all share
nearly all their words with the source.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from training import corpus
from training.encoding import Encoder
from training.items import ABOUT_ELSE
from training.learning import held_out, held_out_cases, split
from training.parity import read_back, read_tokenizer


def main() -> None:
    """Read the model and measure it."""
    parser = argparse.ArgumentParser(prog="python -m training.measure", description=__doc__)
    parser.add_argument("texts", type=Path, help="the folder that the model was trained on")
    parser.add_argument("model", type=Path, help="GGUF file")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    articles, dialogues = (split(texts)[1] for texts in corpus.read(given.texts))
    network, encoder = read_back(given.model), Encoder(read_tokenizer(given.model))
    for name, share in (("as trained on", ABOUT_ELSE), ("matched overlap", 0.0)):
        cases = held_out_cases(articles, dialogues, encoder, given.cases, share)
        print(json.dumps({name: held_out(network, cases, encoder, "cpu")}))


if __name__ == "__main__":
    main()
