"""Trains the network on cases made as they are needed, and tells how well it does on others.

Short contexts come first.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import rankdata
from torch import Tensor

from training.corpus import Article, Dialogue
from training.encoding import ANSWER, CANDIDATE, COMPARED, CONTEXT, Encoded, Encoder, batches
from training.items import (
    ABOUT_ELSE,
    Case,
    article_case,
    chat_case,
    questions,
    record_case,
    sentence_questions,
    talk_case,
)
from training.network import Batch, Network, Shape, batch_of, wire

BLOCK = 256
"""Cases that are made at a time."""
HELD_OUT = 0.03
"""Share of articles and dialogues that are never trained on."""
STEEPNESS = 6.0
"""Log-odds that the better of two candidates wins, by nat a token of difference."""
NEARLY_EQUAL = 0.1
"""Difference in worth up to which two candidates are not compared."""


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Attributes:
        steps: Updates, at most.
        words: Length of contexts, from and to.
        decay: Share of the steps after which the rates fall to 0.
        tokens: In a step, branches and contexts together.
        weights: Of the mean losses: text of contexts, faithful candidates given their context,
            answers, candidates by themselves, which of two candidates gains more by the context.
        matrices: Learning rate of matrices (Muon).
        embedding: Learning rate of the embedding (AdamW).
        gains: Learning rate of the norms' gains (AdamW).
        seed: Of everything.
        begin: Share of the learning rates to begin with.
        minutes: When to end if the steps take longer; the rates then fall with time. Without it a
            run does not depend on the machine's speed.
    """

    steps: int
    words: tuple[int, int]
    decay: float
    tokens: int = 4096
    weights: tuple[float, float, float, float, float] = (0.3, 1.0, 0.8, 0.5, 0.0)
    matrices: float = 0.01
    embedding: float = 0.02
    gains: float = 0.003
    seed: int = 0
    begin: float = 1.0
    minutes: float | None = None


class Texts:
    """Articles and dialogues to make cases from, as an endless stream."""

    def __init__(
        self,
        articles: Sequence[Article],
        dialogues: Sequence[Dialogue],
        encoder: Encoder,
        seed: int,
        about_else: float = ABOUT_ELSE,
    ) -> None:
        self._articles, self._dialogues, self._encoder = articles, dialogues, encoder
        self._about_else = about_else
        self._rng = random.Random(seed)
        self._turns = [turn for dialogue in dialogues for turn in dialogue.turns]

    def block(self, size: int, words: tuple[int, int]) -> list[Encoded]:
        """Return cases with contexts of so many words."""
        return [self._encoded(self._case(words)) for _ in range(size)]

    def _encoded(self, case: Case) -> Encoded:
        asked = [questions(case, one, self._rng) for one in case.candidates]
        in_turn = [sentence_questions(case, one, self._rng) for one in case.candidates]
        return self._encoder.encode(case, asked, in_turn)

    def _case(self, words: tuple[int, int]) -> Case:
        rng, kind = self._rng, self._rng.random()
        if kind < 0.08:
            return record_case(rng, 4)
        if kind < 0.22:
            return talk_case(rng.choice(self._dialogues), self._turns, rng, 4)
        sentences, topic, opens = self._excerpt(words)
        if kind < 0.38:
            return chat_case(sentences[:8], self._turns, rng, 4)
        foreign, _, _ = self._excerpt((60, 120))
        title = topic if opens else None
        return article_case(sentences, title, foreign, rng, 4, self._about_else, topic)

    def _excerpt(self, words: tuple[int, int]) -> tuple[list[str], str | None, bool]:
        """Return consecutive sentences of an article, its title, and whether they open it.

        They do one time in three. Long articles count more.
        """
        while True:
            article = self._rng.choice(self._articles)
            if len(article.sentences) < 12 and self._rng.random() < 0.5:
                continue
            start = 0 if self._rng.random() < 0.35 else self._rng.randrange(len(article.sentences))
            wanted, found = self._rng.randint(*words), []
            for sentence in itertools.islice(article.sentences, start, None):
                if wanted <= 0:
                    break
                found.append(sentence)
                wanted -= len(sentence.split())
            if len(found) >= 4:
                return found, article.title, start == 0


def split(texts: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return what is trained on and what is held out, by a hash of each text."""
    kept: tuple[list[Any], list[Any]] = ([], [])
    for text in texts:
        digest = hashlib.sha256(repr(text).encode()).digest()
        kept[int.from_bytes(digest[:4]) / 2**32 < HELD_OUT].append(text)
    return kept


def losses(network: Network, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return negative log-likelihood, reason and scores of all tokens that are to be learned."""
    stream = network(batch)
    wanted = batch.why > 0
    scores = network.scores(stream[wanted]).float()
    return (
        F.cross_entropy(scores, batch.targets[wanted], reduction="none"),
        batch.why[wanted],
        scores,
    )


def together(cases: Sequence[Encoded]) -> Batch:
    """Return cases as a batch."""
    return batch_of([case.context for case in cases], [case.branches for case in cases])


def pairs(cases: Sequence[Encoded], rng: random.Random) -> list[list[int]]:
    """Return the places of two candidates of each case."""
    return [rng.sample(range(case.candidates), 2) for case in cases]


def alone(cases: Sequence[Encoded], picked: Sequence[Sequence[int]]) -> Batch:
    """Return the picked candidates, good and bad, without their contexts."""
    branches = [
        [case.branches[at].candidate() for at in places]
        for case, places in zip(cases, picked, strict=True)
    ]
    return batch_of([case.cue for case in cases], branches, learn_context=False)


def by_branch(batch: Batch, nll: Tensor, why: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of each branch's candidate."""
    rows = torch.zeros_like(batch.ids)
    rows[-len(batch.at_branch) :] = batch.at_branch // batch.branches[1]
    text = (why == CANDIDATE) | (why == COMPARED)
    rows = rows[batch.why > 0][text]
    sums = nll.new_zeros(batch.branches[0]).index_add(0, rows, nll[text])
    counts = nll.new_zeros(batch.branches[0]).index_add(0, rows, torch.ones_like(nll[text]))
    return sums / counts.clamp(min=1)


def ranking_loss(
    cases: Sequence[Encoded], picked: Sequence[Sequence[int]], given: Tensor, by_itself: Tensor
) -> Tensor | None:
    """Return the loss of telling the better of two candidates by what the context adds to them.

    That is how much more likely the context makes each (pointwise mutual information): the score
    of `gptscore` with `pmi`, per token.

    Args:
        cases: The cases of a batch.
        picked: Two candidates of each.
        given: Mean negative log-likelihood of all branches, given their contexts.
        by_itself: The same of the picked ones without.

    Returns:
        The mean over pairs that are not nearly equally good; `None` if there is no such pair.
    """
    first = np.cumsum([0, *(len(case.branches) for case in cases[:-1])])
    at = torch.tensor([[start + i for i in two] for start, two in zip(first, picked, strict=True)])
    gained = by_itself.view(-1, 2) - given[at.to(given.device)]
    better = torch.tensor(
        [c.worth[a] - c.worth[b] for c, (a, b) in zip(cases, picked, strict=True)]
    )
    better = better.to(given.device)
    clear = better.abs() > NEARLY_EQUAL
    if not bool(clear.any()):
        return None
    return F.softplus(-STEEPNESS * better.sign() * (gained[:, 0] - gained[:, 1]))[clear].mean()


def train(
    network: Network,
    texts: Texts,
    plan: Plan,
    device: str,
    say: Callable[[dict[str, Any]], None],
    save: Callable[[], None],
    validate: Callable[[], dict[str, Any]],
    every: int = 250,
) -> None:
    """Train a network in place.

    Args:
        network: Wired.
        texts: What to learn from.
        plan: How long.
        device: Where to compute.
        say: Told how it goes.
        save: Called every so many steps.
        validate: Called then as well.
        every: How many.
    """
    matrices = [
        p for name, p in network.named_parameters() if p.ndim == 2 and "embedding" not in name
    ]
    gains = [p for name, p in network.named_parameters() if p.ndim == 1 and name != "norm"]
    optimisers = [
        torch.optim.Muon(
            matrices, lr=plan.matrices, momentum=0.95, weight_decay=0.01, adjust_lr_fn="original"
        ),
        torch.optim.AdamW(
            [
                {"params": [network.embedding.weight], "lr": plan.embedding},
                {"params": gains, "lr": plan.gains},
                {"params": [network.norm], "lr": plan.gains / 6},
            ],
            betas=(0.9, 0.98),
            weight_decay=0.0,
        ),
    ]
    rng = random.Random(plan.seed)
    names = ("context", "candidate", "answer", "alone", "ranking")
    weights = dict(zip(names, plan.weights, strict=True))
    running: dict[str, float] = {}
    seen, began = 0, time.monotonic()

    def rate(step: int) -> float:
        spent = (time.monotonic() - began) / 60 / plan.minutes if plan.minutes else 0.0
        return _rate(step, max(step / plan.steps, spent), plan)

    schedules = [torch.optim.lr_scheduler.LambdaLR(o, rate) for o in optimisers]
    for step, cases in enumerate(itertools.islice(_stream(texts, plan, rng), plan.steps), 1):
        means, tokens = _mean_losses(network, cases, rng, device)
        torch.stack([weights[name] * value for name, value in means.items()]).sum().backward()
        torch.nn.utils.clip_grad_norm_([network.embedding.weight, *gains, network.norm], 1.0)
        for optimiser, schedule in zip(optimisers, schedules, strict=True):
            optimiser.step()
            schedule.step()
            optimiser.zero_grad(set_to_none=True)
        seen += tokens
        for name, value in means.items():
            running[name] = 0.98 * running.get(name, value.item()) + 0.02 * value.item()
        ends = step == plan.steps or rate(step) == 0.0
        if step % 25 == 0 or ends:
            speed = seen / (time.monotonic() - began)
            say(
                {
                    "step": step,
                    "tokens": seen,
                    "tokens_per_second": round(speed),
                    **_rounded(running),
                }
            )
        if step % every == 0 or ends:
            save()
            say({"step": step, "tokens": seen, "held_out": validate()})
        if ends:
            return


@torch.no_grad()
def average(network: Network, other: Network, share: float) -> None:
    """Keep `share` of a network's weights and take the rest from `other`, in place.

    A network that was trained further gains what it learned and keeps more of what it could
    before (arXiv:2109.01903).
    """
    for own, others in zip(network.parameters(), other.parameters(), strict=True):
        own.lerp_(others.to(own), 1 - share)


def _mean_losses(
    network: Network, cases: Sequence[Encoded], rng: random.Random, device: str
) -> tuple[dict[str, Tensor], int]:
    """Return the mean losses of a batch by name, and how many tokens it had."""
    picked = pairs(cases, rng)
    batch, by_itself = together(cases).to(device), alone(cases, picked).to(device)
    with torch.autocast(device, torch.bfloat16):
        nll, why, _ = losses(network, batch)
        nll_alone, why_alone, _ = losses(network, by_itself)
    means = {
        name: nll[why == reason].mean()
        for name, reason in (("context", CONTEXT), ("candidate", CANDIDATE), ("answer", ANSWER))
        if bool((why == reason).any())
    }
    means["alone"] = nll_alone.mean()
    ranking = ranking_loss(
        cases, picked, by_branch(batch, nll, why), by_branch(by_itself, nll_alone, why_alone)
    )
    if ranking is not None:
        means["ranking"] = ranking
    return means, len(batch.ids) + len(by_itself.ids)


def _rate(step: int, done: float, plan: Plan) -> float:
    """Return the share of the learning rate: a short rise, a plateau, a straight fall.

    Args:
        step: Updates so far.
        done: Share of the run that lies behind.
        plan: Where the fall begins, and from which share.
    """
    rise = min(1.0, (step + 1) / 30)
    left = max(0.0, 1 - done) / max(1 / plan.steps, 1 - plan.decay)
    return plan.begin * rise * min(1.0, left)


def _stream(texts: Texts, plan: Plan, rng: random.Random) -> Iterator[list[Encoded]]:
    while True:
        yield from batches(texts.block(BLOCK, plan.words), plan.tokens, rng)


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def held_out_cases(
    articles: Sequence[Article],
    dialogues: Sequence[Dialogue],
    encoder: Encoder,
    count: int = 96,
    about_else: float = ABOUT_ELSE,
) -> list[list[Encoded]]:
    """Return cases to measure on, in batches, the same at every call.

    Args:
        articles: That are never trained on.
        dialogues: The same.
        encoder: The network's.
        count: Number of cases.
        about_else: Share of summaries that are about something else.
    """
    texts = Texts(articles, dialogues, encoder, 1, about_else)
    return batches(texts.block(count, (80, 300)), Plan.tokens, random.Random(1))


@torch.no_grad()
def held_out(
    network: Network, blocks: Sequence[list[Encoded]], encoder: Encoder, device: str
) -> dict[str, Any]:
    """Return mean losses on held-out cases, and how well answers tell good from bad, by aspect.

    The area under the curve compares P(yes) of candidates whose right answer is yes with that of
    the others.
    """
    totals: dict[int, list[float]] = defaultdict(lambda: [0.0, 0])
    told: dict[str, tuple[list[float], list[bool]]] = defaultdict(lambda: ([], []))
    for cases in blocks:
        batch = together(cases).to(device)
        with torch.autocast(device, torch.bfloat16):
            nll, why, scores = losses(network, batch)
        for reason in (CONTEXT, CANDIDATE, ANSWER):
            totals[reason][0] += nll[why == reason].sum().item()
            totals[reason][1] += int((why == reason).sum())
        answers = scores[why == ANSWER]
        targets = batch.targets[batch.why > 0][why == ANSWER]
        odds = (answers[:, encoder.yes] - answers[:, encoder.no]).tolist()
        kinds = [aspect for case in cases for branch in case.branches for aspect in branch.aspects]
        for aspect, odd, target in zip(kinds, odds, targets.tolist(), strict=True):
            if target in (encoder.yes, encoder.no):
                told[aspect][0].append(odd)
                told[aspect][1].append(target == encoder.yes)
    names = {CONTEXT: "context", CANDIDATE: "candidate", ANSWER: "answer"}
    means = {
        names[reason]: round(total / count, 4) for reason, (total, count) in totals.items() if count
    }
    return means | {"auc": {aspect: round(_auc(*told[aspect]), 3) for aspect in sorted(told)}}


def _auc(values: Sequence[float], good: Sequence[bool]) -> float:
    ranks = rankdata(values)
    n = sum(good)
    if n in (0, len(good)):
        return float("nan")
    return float(
        (sum(r for r, g in zip(ranks, good, strict=True) if g) - n * (n + 1) / 2)
        / (n * (len(good) - n))
    )


def new_network(shape: Shape, seed: int) -> Network:
    """Return a network that copies and has learned nothing."""
    torch.manual_seed(seed)
    network = Network(shape)
    wire(network, seed)
    return network


def save_network(network: Network, path: Path) -> None:
    """Write shape and weights."""
    torch.save({"shape": asdict(network.shape), "weights": network.state_dict()}, path)


def load_network(path: Path) -> Network:
    """Return a saved network."""
    saved = torch.load(path, weights_only=True)
    network = Network(Shape(**saved["shape"]))
    network.load_state_dict(saved["weights"])
    return network
