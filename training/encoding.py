"""Turns cases into tokens.

What a token may see, where it stands, and what is to be learned from it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from training.items import CUES, QUESTIONS, SENTENCE_QUESTIONS, SYNONYMS, Asked, Case

END = "<|endoftext|>"
SPECIAL = (END, "<|im_start|>", "<|im_end|>")
CONTEXT, CANDIDATE, ANSWER, COMPARED = 1, 2, 3, 4
"""Why a token's successor is to be learned; 0 where it is not.

`COMPARED` tokens are those of candidates that are not to be imitated: their likelihood only counts
in comparison with that of others.
"""
MAX_CONTEXT = 800


def byte_level(
    vocabulary: dict[str, int] | None = None, merges: Sequence[tuple[str, str]] | None = None
) -> Tokenizer:
    """Return a byte-level BPE tokenizer like GPT-2's, by default one that has learned nothing."""
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Return a byte-level BPE tokenizer in GPT-2's manner, which llama.cpp knows.

    Args:
        texts: Simplified texts.
        vocabulary: Number of tokens.
    """
    tokenizer = byte_level()
    words = [f"\nquestion: {question}\nanswer: yes\nanswer: no" for question in QUESTIONS.values()]
    words += [f"\nsentence: that\nquestion: {question}" for question in SENTENCE_QUESTIONS.values()]
    words += [
        f"\nrate {name}, 1 to 5.\nscore: {n}"
        for names in SYNONYMS.values()
        for name in names
        for n in range(1, 6)
    ]
    words += [f"{cue}\n{kind}: " for kind, cue in CUES.items()] + ["knowledge: "]

    def all_texts() -> Iterable[str]:
        yield from texts
        yield from words * 300

    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(all_texts(), trainer)
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Return a saved tokenizer."""
    return Tokenizer.from_file(str(path))


@dataclass(frozen=True, slots=True)
class Branch:
    """A candidate with its questions; they see the context and what they hang on, never each other.

    Attributes:
        ids: Tokens, the candidate first.
        targets: What follows each.
        why: `CANDIDATE`, `ANSWER`, `COMPARED` or 0, by token.
        question: 0 for the candidate, else the number of the question, by token.
        places: Position behind the context, by token.
    """

    ids: np.ndarray
    targets: np.ndarray
    why: np.ndarray
    question: np.ndarray
    places: np.ndarray
    aspects: tuple[str, ...]
    """Aspect of each answer, in order."""

    def candidate(self) -> Branch:
        """Return the candidate without questions, all of whose tokens are to be learned."""
        keep = self.question == 0
        why = np.where(np.arange(keep.sum()) >= LABEL_TOKENS - 1, CANDIDATE, 0).astype(np.int8)
        why[-1] = 0
        return Branch(
            self.ids[keep], self.targets[keep], why, self.question[keep], self.places[keep], ()
        )


LABEL_TOKENS = 3
"""Tokens of "\\nsummary:", "\\nresponse:" and "\\ntext:"."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A case in tokens.

    Attributes:
        context: Tokens of the context, the end mark first.
        cue: Tokens that stand before a candidate whose context is not given.
        branches: One a candidate, then one for each that is asked about sentence by sentence.
        worth: How good each candidate is as a whole, from 0 to 1.
    """

    context: np.ndarray
    cue: np.ndarray
    branches: tuple[Branch, ...]
    worth: tuple[float, ...]

    @property
    def candidates(self) -> int:
        """Number of candidates."""
        return len(self.worth)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.context) + sum(len(branch.ids) for branch in self.branches)


class Encoder:
    """Encodes cases with one tokenizer.

    Raises:
        ValueError: An answer or a label does not have the number of tokens that the model's use
            relies on.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.end: int = tokenizer.encode(END).ids[0]
        for answer in (" yes", " no", *(f" {n}" for n in range(1, 6))):
            if len(tokenizer.encode(answer).ids) != 1:
                raise ValueError(f"{answer!r} is not one token")
        for kind in CUES:
            if len(tokenizer.encode(f"\n{kind}:").ids) != LABEL_TOKENS:
                raise ValueError(f"'\\n{kind}:' is not {LABEL_TOKENS} tokens")
        self.yes, self.no = (tokenizer.encode(word).ids[0] for word in (" yes", " no"))
        self._cues = {kind: self._ids(cue, True) for kind, cue in CUES.items()}

    def _ids(self, text: str, opens: bool = False) -> np.ndarray:
        ids = self._tokenizer.encode(text).ids
        return np.array([self.end, *ids] if opens else ids, dtype=np.int16)

    def encode(
        self, case: Case, asked: Sequence[Sequence[Asked]], in_turn: Sequence[Asked | None]
    ) -> Encoded:
        """Return a case in tokens; a context that is too long loses its end.

        Args:
            case: Context and candidates.
            asked: Questions by candidate.
            in_turn: Questions about its sentences by candidate.
        """
        texts = [f"\n{case.kind}: {candidate.text}" for candidate in case.candidates]
        branches = [
            self._branch(text, CANDIDATE if candidate.faithful else COMPARED, questions)
            for text, candidate, questions in zip(texts, case.candidates, asked, strict=True)
        ]
        chains = [
            self._branch(text, 0, [one])
            for text, one in zip(texts, in_turn, strict=True)
            if one is not None
        ]
        context = self._ids(case.context, True)[:MAX_CONTEXT]
        worth = tuple(candidate.worth for candidate in case.candidates)
        return Encoded(context, self._cues[case.kind], (*branches, *chains), worth)

    def _branch(self, text: str, reason: int, asked: Sequence[Asked]) -> Branch:
        ids = list(self._tokenizer.encode(text).ids)
        n = len(ids)
        targets, question, places = [*ids[1:], self.end], [0] * n, list(range(n))
        why = [reason if LABEL_TOKENS - 1 <= i < n - 1 else 0 for i in range(n)]
        for number, one in enumerate(asked, 1):
            steps: list[int] = []
            marks: list[int] = []
            for words, answer in one.steps:
                part = self._tokenizer.encode(words).ids
                steps += [*part, *self._tokenizer.encode(answer).ids]
                marks += [0] * (len(part) - 1) + [ANSWER, 0]
            ids += steps[:-1]
            targets += steps[1:]
            why += marks[:-1]
            question += [number] * (len(steps) - 1)
            places += range(n, n + len(steps) - 1)
        return Branch(
            ids=np.array(ids, dtype=np.int16),
            targets=np.array(targets, dtype=np.int16),
            why=np.array(why, dtype=np.int8),
            question=np.array(question, dtype=np.int8),
            places=np.array(places, dtype=np.int16),
            aspects=tuple(one.aspect for one in asked for _ in one.steps),
        )


def batches(cases: Sequence[Encoded], tokens: int, rng: random.Random) -> list[list[Encoded]]:
    """Return batches of similarly long contexts with at most so many tokens, in random order."""
    ordered = sorted(cases, key=lambda case: (len(case.context), len(case.branches)))
    found: list[list[Encoded]] = [[]]
    for case in ordered:
        if found[-1] and (sum(one.size for one in found[-1]) + case.size > tokens):
            found.append([])
        found[-1].append(case)
    rng.shuffle(found)
    return found
