"""What the model learns from.

A context, candidates for it, and questions about each candidate with their answers.

Each candidate is spoilt in each respect independently, so that one candidate is fluent and wrong,
another one garbled and right: only who reads the question knows the answer.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from textassay.prompts import simplify
from training import alterations, inventions, rewording
from training.corpus import Dialogue

QUESTIONS = {
    ("summary", "coherence"): "is this summary coherent and well organized?",
    ("summary", "consistency"): "is this summary consistent with the article?",
    ("summary", "fluency"): "is this summary fluent and grammatical?",
    ("summary", "relevance"): "does this summary cover the main points of the article?",
    ("response", "naturalness"): "is this response natural and fluent?",
    ("response", "coherence"): "does this response follow from the dialogue?",
    ("response", "engagingness"): "is this response interesting?",
    ("response", "groundedness"): "does this response use the knowledge?",
    ("response", "understandability"): "is this response easy to understand?",
    ("text", "informativeness"): "does this text tell all of the data?",
    ("text", "naturalness"): "is this text natural and fluent?",
    ("text", "consistency"): "is this text consistent with the data?",
    ("text", "quality"): "is this text good?",
}
SENTENCE_QUESTIONS = {
    "coherence": "does this sentence follow from the one before?",
    "consistency": "is this sentence consistent with the article?",
    "fluency": "is this sentence fluent and grammatical?",
    "relevance": "is this sentence about a main point of the article?",
}
SYNONYMS = {
    "coherence": ("coherence", "organization", "structure", "logical flow", "order", "cohesion"),
    "consistency": (
        "consistency",
        "accuracy",
        "faithfulness",
        "correctness",
        "factuality",
        "factual accuracy",
    ),
    "fluency": ("fluency", "grammar", "readability", "language", "clarity", "grammaticality"),
    "relevance": (
        "relevance",
        "coverage",
        "informativeness",
        "importance",
        "completeness",
        "main points",
    ),
    "naturalness": ("naturalness", "fluency", "grammar", "human-likeness"),
    "engagingness": ("engagingness", "interest", "interestingness", "specificity"),
    "groundedness": ("groundedness", "use of knowledge", "knowledge"),
    "understandability": ("understandability", "clarity"),
    "informativeness": ("informativeness", "completeness", "coverage"),
    "quality": ("quality", "overall", "overall quality"),
}
"""Names under which a rating of each respect is asked for; the first one is the name of the
aspect."""
ABOUT_ELSE = 0.2
"""Share of summaries that are about something else."""
MAX_SENTENCES = 3
"""Sentences that are asked about one by one."""
CUES = {"summary": "article:", "response": "dialogue:", "text": "data:"}
"""What stands before a candidate whose context is not given."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answer, or several in a chain.

    Attributes:
        steps: Text that asks and text that answers, in order.
        aspect: What is asked about.
    """

    steps: tuple[tuple[str, str], ...]
    aspect: str


@dataclass(slots=True)
class Candidate:
    """A text to judge.

    Attributes:
        text: As it stands behind its cue.
        faithful: Whether its likelihood given the context is to be learned.
        quality: From 0 to 1 by aspect; what is between the bounds of yes and no is only rated.
        parts: Its sentences with whether each is good, by aspect; empty where that is not known.
    """

    text: str
    faithful: bool
    quality: dict[str, float]
    parts: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)

    @property
    def worth(self) -> float:
        """Return how good the text is as a whole: the mean of what is known.

        A text that is wholly bad in some respect, such as one about something else, is worth
        nothing: how likely its context makes it cannot say that it is fluent.
        """
        known = self.quality.values()
        return math.fsum(known) / len(known) if min(known) > 0 else 0.0


@dataclass(slots=True)
class Case:
    """A context with candidates.

    Attributes:
        context: As it stands before the candidates.
        kind: `summary`, `response` or `text`.
        candidates: The candidates.
    """

    context: str
    kind: str
    candidates: list[Candidate]


def questions(case: Case, candidate: Candidate, rng: random.Random) -> list[Asked]:
    """Return what is asked about a candidate: a question on each aspect and two ratings."""
    asked = []
    known = {
        aspect: quality
        for aspect, quality in candidate.quality.items()
        if (case.kind, aspect) in QUESTIONS
    }
    for aspect, quality in known.items():
        if (answer := _yes_or_no(quality)) is not None:
            asked.append(Asked(((_question(QUESTIONS[case.kind, aspect]), answer),), aspect))
    for aspect in rng.sample(list(known), min(2, len(known))):
        names = SYNONYMS[aspect]
        name = names[0] if rng.random() < 0.5 else rng.choice(names)
        points = str(1 + round(4 * known[aspect]))
        asked.append(Asked(((f"\nrate {name}, 1 to 5.\nscore:", f" {points}"),), aspect))
    return asked


def sentence_questions(case: Case, candidate: Candidate, rng: random.Random) -> Asked | None:
    """Return, now and then, questions on one aspect of the first sentences and of the whole."""
    if not candidate.parts or rng.random() > 0.2:
        return None
    aspect = rng.choice(list(candidate.parts))
    parts, answer = candidate.parts[aspect], _yes_or_no(candidate.quality.get(aspect, 0.5))
    steps = [
        (
            f"\nsentence: {sentence}{_question(SENTENCE_QUESTIONS[aspect])}",
            " yes" if good else " no",
        )
        for sentence, good in parts[:MAX_SENTENCES]
    ]
    if answer is not None and len(parts) <= MAX_SENTENCES:
        steps.append((_question(QUESTIONS[case.kind, aspect]), answer))
    return Asked(tuple(steps), aspect)


def _question(words: str) -> str:
    return f"\nquestion: {words}\nanswer:"


def _yes_or_no(quality: float) -> str | None:
    return " yes" if quality >= 0.8 else " no" if quality <= 0.6 else None


# Articles


def article_case(
    sentences: Sequence[str],
    title: str | None,
    foreign: Sequence[str],
    rng: random.Random,
    n: int,
    about_else: float = ABOUT_ELSE,
    topic: str | None = None,
) -> Case:
    """Return an article with `n` summaries.

    Args:
        sentences: The article's.
        title: Its title where it begins at the beginning.
        foreign: Sentences of another article.
        rng: Source of chance.
        n: Number of candidates.
        about_else: Share of them that are about something else; where it is 0, nearly all share
            nearly all their words with the article.
        topic: The title of the article that the sentences are from, wherever they stand in it: what
            it names is important at any place.
    """
    context = "article: " + simplify(" ".join(sentences))
    salience = _salience(sentences, topic or title)
    own = [name for sentence in sentences for name in alterations.names(sentence)]
    others = [name for sentence in foreign for name in alterations.names(sentence)]
    candidates: list[Candidate] = []
    while len(candidates) < n:
        candidate = _summary(
            sentences,
            title,
            foreign,
            salience,
            own if rng.random() < 0.6 else others,
            rng,
            about_else,
        )
        if candidate is not None and 4 <= len(candidate.text.split()) <= 125:
            candidates.append(candidate)
    return Case(context, "summary", candidates)


def _salience(sentences: Sequence[str], topic: str | None) -> list[float]:
    """Return how much each sentence says of what the whole is about.

    Shared words, how early it stands, and what it shares with the title, which is not shown.
    """
    bags = [set(re.findall(r"[a-z]{4,}", sentence.lower())) for sentence in sentences]
    named = set(re.findall(r"[a-z]{4,}", (topic or "").lower()))
    counts = Counter(word for bag in bags for word in bag)
    central = [sum(counts[w] - 1 for w in bag) / math.sqrt(8 + len(bag)) for bag in bags]
    most = max(central) or 1.0
    early = [1 / (1 + 0.4 * i) for i in range(len(sentences))]
    shares = [len(bag & named) / min(3, len(named)) if named else 0.0 for bag in bags]
    if not any(shares):
        return [0.65 * e + 0.35 * c / most for e, c in zip(early, central, strict=True)]
    return [
        0.45 * e + 0.25 * c / most + 0.3 * min(1.0, s)
        for e, c, s in zip(early, central, shares, strict=True)
    ]


def _chosen(salience: Sequence[float], rng: random.Random) -> tuple[list[int], float]:
    """Return places of sentences in order, and their joint relevance; the best three have 1."""
    n = len(salience)
    size = min(n, rng.choice((1, 2, 2, 3, 3, 3, 4)))
    way = rng.random()
    if way < 0.42:
        places = list(range(size))
    elif way < 0.55:
        start = rng.randrange(n - size + 1)
        places = list(range(start, start + size))
    elif way < 0.7:
        places = sorted(
            sorted(range(n), key=lambda i: -salience[i])[: size + 1], key=lambda _: rng.random()
        )[:size]
    elif way < 0.83:
        places = sorted(
            sorted(range(n), key=lambda i: salience[i])[: size + 2], key=lambda _: rng.random()
        )[:size]
    else:
        places = rng.sample(range(n), size)
    best = sum(sorted(salience)[-3:])
    return sorted(places), min(1.0, 1.1 * sum(salience[i] for i in places) / best)


def _summary(
    sentences: Sequence[str],
    title: str | None,
    foreign: Sequence[str],
    salience: Sequence[float],
    pool: Sequence[str],
    rng: random.Random,
    share_else: float,
) -> Candidate | None:
    places, relevance = _chosen(salience, rng)
    abstract = rng.random()
    said = [_abstracted(sentences[i], abstract, rng) for i in places]
    if abstract > 0.9 and len(said) > 1:
        said[:2] = [rewording.join(said[0], said[1], rng)]
    if title is not None and places[0] == 0 and rng.random() < 0.3:
        said[0], relevance = f"{title}.", max(relevance, 0.75)
    # A text about something else is wrong in all that regards the article, and as fluent and
    # coherent as any other.
    about_else = rng.random() < share_else
    connected = about_else or all(
        after - before <= 2 for before, after in itertools.pairwise(places)
    )
    if about_else:
        start, relevance = rng.randrange(max(1, len(foreign) - 2)), 0.0
        said = [
            _abstracted(sentence, abstract, rng)
            for sentence in foreign[start : start + len(places)]
        ]
    clean = rng.random() < 0.3
    good = {aspect: [True] * len(said) for aspect in ("consistency", "fluency", "coherence")}
    if about_else:
        good["consistency"] = [False] * len(said)
    elif not clean and rng.random() < 0.45:
        ways = _ways_to_lie(sentences, pool, rng)
        if share_else > 0:  # where overlap is to be matched there are none of these
            ways += [alterations.transplant(foreign, pool)] * 2
            rng.shuffle(ways)
        _spoil(said, good["consistency"], ways, rng)
    order_quality = 1.0
    if not clean and rng.random() < 0.45:
        said, good, order_quality = _disorder(said, good, sentences if about_else else foreign, rng)
    share = rng.uniform(0.08, 0.3)
    if not clean and rng.random() < 0.45:
        _spoil(said, good["fluency"], [lambda s, r: alterations.garble(s, r, share)], rng)
    if rng.random() < 0.04 and relevance > 0.5:
        said = [said[0]]
        good = {aspect: marks[:1] for aspect, marks in good.items()}
    simple = [simplify(sentence) for sentence in said]
    quality = {
        "consistency": _share_quality(good["consistency"]),
        "fluency": _share_quality(good["fluency"])
        if share > 0.12
        else max(0.5, _share_quality(good["fluency"])),
        "relevance": relevance,
    }
    if all(good["fluency"]):
        quality["fluency"] = 1.0
    if len(said) > 1:
        quality["coherence"] = order_quality if connected else min(order_quality, 0.7)
    parts = {aspect: list(zip(simple, marks, strict=True)) for aspect, marks in good.items()}
    if len(said) == 1:
        parts.pop("coherence")
    faithful = all(map(all, good.values())) and relevance >= 0.6 and connected
    return Candidate(" ".join(simple), faithful, quality, parts)


def _abstracted(sentence: str, abstract: float, rng: random.Random) -> str:
    if abstract < 0.3:
        return sentence
    short = rewording.shorten(sentence, rng)
    return short if abstract < 0.6 else rewording.reword(short, rng)


def _ways_to_lie(
    sentences: Sequence[str], pool: Sequence[str], rng: random.Random
) -> list[alterations.Alteration]:
    swap = alterations.swap_name(pool)
    fuse = alterations.fuse_with(rng.choice(sentences))
    return rng.sample(
        [
            swap,
            swap,
            swap,
            alterations.swap_roles,
            alterations.negate,
            alterations.oppose,
            fuse,
            fuse,
        ],
        8,
    )


def _spoil(
    said: list[str], good: list[bool], ways: Sequence[alterations.Alteration], rng: random.Random
) -> None:
    """Alter one sentence or more in place and mark them."""
    wanted = min(len(said), rng.choice((1, 1, 1, 2, 2, 3)))
    for at in rng.sample(range(len(said)), len(said)):
        if wanted == 0:
            return
        for way in ways:
            altered = way(said[at], rng)
            if altered is not None and simplify(altered) != simplify(said[at]):
                said[at], good[at] = altered, False
                wanted -= 1
                break


def _disorder(
    said: list[str], good: dict[str, list[bool]], foreign: Sequence[str], rng: random.Random
) -> tuple[list[str], dict[str, list[bool]], float]:
    """Return damaged sentences, the marks, and the quality.

    They are out of order, one is said twice, or a foreign one is among them.
    """
    rows = [
        (sentence, i, {a: marks[i] for a, marks in good.items()}) for i, sentence in enumerate(said)
    ]
    way, quality = rng.random(), 0.25
    if way < 0.45 and len(rows) > 1:
        order = alterations.shuffled([str(i) for i in range(len(rows))], rng) or []
        rows = [rows[int(i)] for i in order]
        quality = 0.5 if len(rows) == 2 else 0.25
    elif way < 0.8:
        at = rng.randrange(len(rows))
        later = rng.randint(at + 1, len(rows))
        again = rows[at][0] if rng.random() < 0.5 else _in_part(rows[at][0], rng)
        rows.insert(later, (again, -1, rows[at][2]))
        if rng.random() < 0.3:
            rows.append((rows[at][0], -1, rows[at][2]))
            quality = 0.0
    else:
        stranger = (
            rng.choice(foreign),
            -1,
            {"consistency": False, "fluency": True, "coherence": False},
        )
        rows.insert(rng.randint(0, len(rows)), stranger)
    follows = [i == 0 or (rows[i][1] > rows[i - 1][1] >= 0) for i in range(len(rows))]
    marks = {aspect: [row[2][aspect] for row in rows] for aspect in ("consistency", "fluency")}
    return [row[0] for row in rows], {**marks, "coherence": follows}, quality


def _in_part(sentence: str, rng: random.Random) -> str:
    """Return half of a sentence or more as a sentence of its own."""
    words = sentence.rstrip(".").split()
    size = rng.randint(len(words) // 2, len(words))
    start = rng.randint(0, len(words) - size)
    return " ".join(words[start : start + size]) + "."


def _share_quality(marks: Sequence[bool]) -> float:
    wrong = marks.count(False)
    return 1.0 if wrong == 0 else max(0.0, 0.6 - 0.6 * (wrong - 1) / max(1, len(marks) - 1))


# Dialogues


def talk_case(dialogue: Dialogue, others: Sequence[str], rng: random.Random, n: int) -> Case:
    """Return a conversation up to some turn with `n` responses, the real one among them."""
    at = rng.randrange(2, len(dialogue.turns))
    history = list(dialogue.turns[max(0, at - rng.randint(2, 7)) : at])
    return _reply_case(dialogue.facts[at % 2], history, dialogue.turns[at], others, rng, n)


def chat_case(sentences: Sequence[str], others: Sequence[str], rng: random.Random, n: int) -> Case:
    """Return a made-up conversation about an article, part of which is the next one's knowledge."""
    own = [
        name
        for sentence in sentences[:6]
        for name in alterations.names(sentence)
        if not name[0].isdigit()
    ]
    topic = rng.choice(own) if own else "that"
    at = rng.randrange(1, len(sentences))
    known = " ".join(sentences[at : at + rng.choice((1, 1, 2))])
    history = inventions.chat_about(sentences[:at], topic, rng.randint(2, 6), rng)
    fact = rewording.shorten(sentences[at], rng)
    reply = inventions.remark(rewording.reword(fact, rng) if rng.random() < 0.4 else fact, rng)
    return _reply_case(known, history, reply, others, rng, n)


def _reply_case(
    known: str, history: Sequence[str], real: str, others: Sequence[str], rng: random.Random, n: int
) -> Case:
    head = f"knowledge: {simplify(known)}\n" if known and rng.random() < 0.9 else ""
    context = f"{head}dialogue:\n" + "\n".join(f"- {simplify(turn)}" for turn in history)
    content = set(re.findall(r"[a-z]{5,}", simplify(known))) if head else None
    foreign = rng.choice(others)
    kinds = ["real", *rng.choices(list(OTHER_REPLIES), list(OTHER_REPLIES.values()), k=n - 1)]
    candidates = [_reply(kind, history, real, foreign, content, rng) for kind in kinds]
    return Case(context, "response", candidates)


OTHER_REPLIES = {
    "real": 3,
    "dull": 2,
    "reaction": 1,
    "foreign": 4,
    "again": 2,
    "looped": 2,
    "fused": 3,
}
"""How often the other responses are of each kind."""
_FITS = {"real": 1.0, "foreign": 0.0, "again": 0.25, "looped": 0.75, "fused": 0.25}
_NATURAL = {"foreign": 0.25, "again": 0.25, "looped": 0.25, "fused": 0.25}
_CLEAR = {"foreign": 0.25, "again": 0.75, "looped": 0.75, "fused": 0.0}
"""Whether a person would say it there, and whether it can be understood after what was said, as
people were asked about real responses (USR, arXiv 2005.00456): good language is not enough."""


def _fused(real: str, foreign: str, rng: random.Random) -> str:
    """Return the first half of one response with the second half of another."""
    head, tail = real.rstrip(".!?").split(), foreign.split()
    return " ".join(head[: max(2, len(head) // 2)] + tail[len(tail) // 2 :])


def _looped(real: str, rng: random.Random) -> str:
    """Return a response that says a part of itself again."""
    words = real.rstrip(".!?").split()
    size = rng.randint(max(1, len(words) // 3), len(words))
    if rng.random() < 0.4:
        return f"{real} {rewording.reword(' '.join(words[:size]), rng)}."
    start = rng.randrange(len(words) - size + 1)
    span = words[start : start + size]
    joint = rng.choice(([], ["and"], ["of"], ["that"], ["but"]))
    return " ".join([*words[: start + size], *joint, *span, *words[start + size :]]) + "."


def _reply(
    kind: str,
    history: Sequence[str],
    real: str,
    foreign: str,
    content: set[str] | None,
    rng: random.Random,
) -> Candidate:
    said = {
        "real": real,
        "dull": rng.choice(inventions.DULL),
        "foreign": foreign,
        "again": rng.choice(history),
        "reaction": rng.choice(inventions.REACTIONS),
        "looped": _looped(real, rng),
        "fused": _fused(real, foreign, rng),
    }[kind]
    quality = {"coherence": _FITS[kind]} if kind in _FITS else {}
    broken = alterations.garble(said, rng, rng.uniform(0.1, 0.4)) if rng.random() < 0.35 else None
    said = said if broken is None else broken
    unbroken = 1.0 if broken is None else rng.choice((0.25, 0.5))
    quality["naturalness"] = min(_NATURAL.get(kind, 1.0), unbroken)
    quality["understandability"] = min(_CLEAR.get(kind, 1.0), 1.0 if broken is None else 0.5)
    words = simplify(said).split()
    long = [word for word in words if len(word) > 4]
    if kind in ("dull", "reaction") or len(words) < 5:
        quality["engagingness"] = 0.0 if kind == "dull" else 0.25
    elif kind in ("again", "looped", "foreign", "fused"):
        # What was said before, or has nothing to do with it, interests nobody there.
        quality["engagingness"] = 0.25
    elif len(long) >= 4 and len(words) >= 10:
        quality["engagingness"] = min(1.0, 0.8 + 0.02 * (len(words) - 10))
    if content is not None:
        shared = len(content & set(re.findall(r"[a-z]{5,}", simplify(said))))
        quality["groundedness"] = 0.0 if shared == 0 else 1.0 if shared >= 2 else 0.7
    return Candidate(simplify(said), kind == "real" and broken is None, quality)


# Records


def record_case(rng: random.Random, n: int) -> Case:
    """Return a record with `n` texts that tell it.

    Some have slots left out, wrong or invented, some are garbled.
    """
    given = inventions.record(rng)
    return Case(
        f"data: {simplify(given.written(rng))}", "text", [_told(given, rng) for _ in range(n)]
    )


def _told(given: inventions.Record, rng: random.Random) -> Candidate:
    slots = list(given.slots)
    rng.shuffle(slots)
    missing = wrong = 0
    if rng.random() < 0.4:
        missing = rng.randint(1, max(1, len(slots) - 1))
        slots = slots[missing:]
    if rng.random() < 0.35 and slots:
        at = rng.randrange(len(slots))
        key, value = slots[at]
        slots[at] = (key, inventions.another_value(key, value, rng))
        wrong = 1
    said = given.told(slots, rng)
    broken = False
    if rng.random() < 0.35:
        at = rng.randrange(len(said))
        garbled = alterations.garble(said[at], rng, rng.uniform(0.1, 0.3))
        if garbled is not None:
            said[at], broken = garbled, True
    quality = {
        "informativeness": 1 - (missing + wrong) / (0.5 + len(given.slots)),
        "consistency": 0.25 if wrong else 1.0,
        "naturalness": 0.4 if broken else 1.0,
        "quality": 1.0 - 0.4 * (wrong + broken + (missing > 0))
        if wrong or broken or missing
        else 1.0,
    }
    quality = {aspect: max(0.0, value) for aspect, value in quality.items()}
    if missing == 1 and not wrong:
        quality["informativeness"] = 0.55
    return Candidate(simplify(" ".join(said)), not (missing or wrong or broken), quality)
