"""The raters' answers: a journal, and the data format that every command reads.

Every answer is on the disk before it is acknowledged. The journal is a file of JSON lines: one
`study` line, one `rater` line per rater, and one `rating` line per answer. A later revision of an
answer replaces the earlier; both stay in the journal.

The data have one line per rated example, with `annotators`. Raters come in a fixed order, `null` if
one did not rate an example. Besides `human` and `annotators` a line has data for later analysis:
time spent, revisions, second ratings of repeated items, and the probability with which the example
was sampled.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import filelock

from textassay.agreement.joined import check_probability
from textassay.agreement.raters import RaterAgreement, rater_agreement
from textassay.annotate.study import Study
from textassay.runtime.concurrency import AsyncResource
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY
from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.labels import majority
from textassay.runtime.messages import Example
from textassay.runtime.storage.files import encode, write_text
from textassay.runtime.storage.journal import Journal, read_rows

FORMAT = 1


class StaleRevision(Exception):
    """Another answer with this revision exists already; the browser shows it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One showing of an item to a rater."""

    rater: str
    """Pseudonym, such as `r1`."""
    key: str
    repeat: int = 0
    """0 for the first showing, 1 for the second, which measures self-agreement."""


@dataclass(frozen=True, slots=True)
class RaterAnswer:
    """A rater's answer on one visit."""

    ratings: Mapping[str, float | None]
    """Rating by aspect; `None` if the rater could not judge it."""
    revision: int
    """Counts from 1 with every change by the rater."""
    seconds: float
    """Time that the item was in view."""
    position: int
    """Place of the visit in the rater's own order, from 0."""
    swapped: bool = False
    """Whether the second text of a comparison was shown first."""
    comment: str = ""
    """The rater's remark; may be empty."""


@dataclass
class Rater:
    """One person with a personal link."""

    name: str
    """Pseudonym; no real name is kept anywhere."""
    token_hash: str
    """SHA-256 of the token in the rater's link."""
    visits: list[Visit] = field(default_factory=list)
    """The rater's answered visits, in order."""


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers at one moment."""

    study: Study
    """The rated texts."""
    raters: tuple[str, ...]
    """Pseudonyms, in the order of the columns of `annotators`."""
    answers: Mapping[Visit, RaterAnswer]
    """The last answer of each visit."""

    def first_ratings(self, key: str) -> dict[str, RaterAnswer]:
        """Return the answers to an item by rater, repeated showings left out."""
        visits = {rater: Visit(rater, key) for rater in self.raters}
        return {who: self.answers[visit] for who, visit in visits.items() if visit in self.answers}

    def repeats(self) -> list[tuple[Visit, RaterAnswer, RaterAnswer]]:
        """Return the second showings, each with the first and the second answer."""
        return [
            (visit, self.answers[first], second)
            for visit, second in self.answers.items()
            if visit.repeat and (first := Visit(visit.rater, visit.key)) in self.answers
        ]


class CollectedRatings(AsyncResource):
    """All answers so far."""

    def __init__(self, study: Study, path: str | Path) -> None:
        self.study, self.path = study, Path(path)
        self.raters: dict[str, Rater] = {}
        self.answers: dict[Visit, RaterAnswer] = {}
        self._lock = filelock.FileLock(
            self.path.with_name(f".{self.path.name}.lock"), thread_local=False
        )
        try:
            self._lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise StorageError(
                f"{self.path} is in use by another process; end that one, or write to another file"
            ) from error
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error}") from error
        try:
            self._fresh = not self.path.exists() or self.path.stat().st_size == 0
            if not self._fresh:
                self._load()
            self._journal = Journal(self.path)
        except BaseException:
            self._lock.release()
            raise

    async def __aenter__(self) -> Self:
        """Write the study's line to a new journal, and return the ratings."""
        if self._fresh:
            await self._write(event="study", format=FORMAT, study=self.study.digest)
            self._fresh = False
        return self

    async def aclose(self) -> None:
        try:
            await self._journal.aclose()
        finally:
            self._lock.release()

    async def add_rater(self) -> tuple[Rater, str]:
        """Add a rater; return it with the token for its personal link, which is kept nowhere."""
        token = secrets.token_urlsafe(16)
        # only the hash is kept, so a reader of the journal cannot rate under another's name
        rater = Rater(f"r{len(self.raters) + 1}", token_hash(token))
        await self._write(event="rater", rater=rater.name, token=rater.token_hash)
        self.raters[rater.name] = rater
        return rater, token

    async def new_token(self, rater: Rater) -> str:
        """Return a new token for a rater whose link was lost; the old link stops working."""
        token = secrets.token_urlsafe(16)
        await self._write(event="rater", rater=rater.name, token=token_hash(token))
        rater.token_hash = token_hash(token)
        return token

    def rater_of(self, token: str) -> Rater | None:
        """Return the rater whose link has the token; `None` if it is unknown."""
        hashed = token_hash(token)
        for rater in self.raters.values():
            # constant time, so that the duration of a refusal reveals nothing about a token
            if secrets.compare_digest(rater.token_hash, hashed):
                return rater
        return None

    async def record(self, visit: Visit, answer: RaterAnswer) -> bool:
        """Keep an answer; return once it is on the disk.

        The same answer may be sent any number of times: a browser repeats it until it hears that it
        is kept.
        """
        earlier = self.answers.get(visit)
        if earlier is not None and answer.revision <= earlier.revision:
            same = earlier.ratings == answer.ratings and earlier.comment == answer.comment
            # a resend after a lost reply is not a conflict
            if same and answer.revision == earlier.revision:
                return False
            raise StaleRevision
        self._keep(visit, answer)  # before the write, so that a second copy in flight is seen
        try:
            showing = {"rater": visit.rater, "item": visit.key, "repeat": visit.repeat}
            await self._write(event="rating", **showing, **asdict(answer))
        # cancellation included: a resend would acknowledge a rating that is not on the disk
        except BaseException:
            if earlier is None:
                del self.answers[visit]
                self.raters[visit.rater].visits.remove(visit)
            else:
                self.answers[visit] = earlier
            raise
        return True

    def snapshot(self) -> Answers:
        """Return a copy of the answers, for a reader on another thread."""
        return Answers(self.study, tuple(self.raters), dict(self.answers))

    def _keep(self, visit: Visit, answer: RaterAnswer) -> None:
        if visit not in self.answers:
            self.raters[visit.rater].visits.append(visit)
        self.answers[visit] = answer

    async def _write(self, **row: Any) -> None:
        self._journal.append(encode(row))
        # at once: a rater's work cannot be asked for again as a model's answer can
        await self._journal.sync()

    def _load(self) -> None:
        for number, row in enumerate(read_rows(self.path), start=1):
            try:
                self._take(row)
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(
                    f"{self.path}:{number}: not a line of a journal of ratings: {error!r}"
                ) from error

    def _take(self, row: dict[str, Any]) -> None:
        event = row["event"]
        if event == "study":
            self._check_study(row)
        elif event == "rater":
            # a second line for a rater is a new link; the last one is valid
            rater = self.raters.setdefault(row["rater"], Rater(row["rater"], row["token"]))
            rater.token_hash = str(row["token"])
        elif event == "rating":
            visit = Visit(row["rater"], row["item"], int(row["repeat"]))
            # the journal may have been edited; a rating off the scale must not reach an estimate
            ratings = self.study.check(row["ratings"])
            answer = RaterAnswer(
                ratings, int(row["revision"]), float(row["seconds"]), int(row["position"]),
                bool(row["swapped"]), str(row["comment"]),
            )  # fmt: skip
            self._keep(visit, answer)
        else:
            raise ValueError(f"unknown event {event!r}")

    def _check_study(self, row: dict[str, Any]) -> None:
        if row["format"] != FORMAT:
            raise DataError(
                f"{self.path} has format {row['format']!r}; this version reads {FORMAT}"
            )
        if row["study"] != self.study.digest:
            raise DataError(
                f"{self.path} contains ratings of another study: the data, the task, the aspects, "
                "the guidelines or the design differ; use the same ones, or write to another file: "
                "commands accept several files of ratings"
            )


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token in hex, which the journal stores in its place."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def rating_rows(ratings: Answers) -> list[dict[str, Any]]:
    """Return one row per example that a person rated, in the order of the data."""
    lines = []
    again: dict[str, dict[str, Any]] = {}
    for visit, _, second in ratings.repeats():
        again.setdefault(visit.key, {})[visit.rater] = dict(second.ratings)
    for key, example in ratings.study.by_key.items():
        answers = ratings.first_ratings(key)
        if answers:
            rated = _merge_answers(ratings, answers)
            if key in again:
                rated["repeated"] = again[key]
            if ratings.study.guidelines is not None:
                rated["guidelines"] = ratings.study.guidelines.as_dict()
            if example.id in ratings.study.probabilities:
                rated[SAMPLING_PROBABILITY] = ratings.study.probabilities[example.id]
            lines.append(to_row(example, rated))
    return lines


def to_row(example: Example, rated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row that is read as the example with other ratings."""
    row = example.model_dump(exclude_defaults=True, exclude={"human", "annotators"})
    if "messages" in row:
        # without a content, some would not be read as messages
        row["messages"] = [{"content": "", **message} for message in row["messages"]]
    # not among the row's own fields, where names such as `policy` have another meaning
    meta = {name: value for name, value in row.pop("meta", {}).items() if name not in rated}
    return {**row, **({"meta": meta} if meta else {}), **rated}


def write_ratings(ratings: Answers, path: Path) -> int:
    """Replace the file of ratings by the present ratings; return the number of rated examples."""
    lines = [encode(row).decode("utf-8") for row in rating_rows(ratings)]
    write_text(path, "".join(f"{line}\n" for line in lines))
    return len(lines)


def agreement(ratings: Answers) -> dict[str, RaterAgreement]:
    """Return agreement among the raters by aspect, over the items that a person rated."""
    raters = list(ratings.raters)
    tables: dict[str, list[list[float | None]]] = {name: [] for name in ratings.study.names}
    for key in ratings.study.keys:
        answers = ratings.first_ratings(key)
        if answers:
            for aspect, table in tables.items():
                table.append(
                    [answers[who].ratings.get(aspect) if who in answers else None for who in raters]
                )
    return {aspect: rater_agreement(table) for aspect, table in tables.items() if table}


def self_agreement(ratings: Answers) -> dict[str, dict[str, Any]]:
    """Return by aspect how often raters gave a repeated item the same rating again."""
    by_aspect = {}
    for aspect in ratings.study.names:
        pairs = [
            (a, b)
            for _, first, second in ratings.repeats()
            if (a := first.ratings[aspect]) is not None
            and (b := second.ratings[aspect]) is not None
        ]
        differences = [abs(a - b) for a, b in pairs]
        by_aspect[aspect] = {
            "n": len(pairs),
            "same": sum(d == 0 for d in differences) / len(pairs) if pairs else None,
            "mean_difference": math.fsum(differences) / len(pairs) if pairs else None,
        }
    return by_aspect


def _merge_answers(ratings: Answers, answers: Mapping[str, RaterAnswer]) -> dict[str, Any]:
    human: dict[str, float | str] = {}
    annotators: dict[str, list[Any]] = {}
    for question in ratings.study.questions:
        # all raters in the same order in every row, with gaps: a column is then one person, which
        # pairwise agreement needs
        singles = [
            question.read_answer(answers[rater].ratings) if rater in answers else None
            for rater in ratings.raters
        ]
        if all(rating is None for rating in singles):
            continue
        annotators[question.aspect] = singles
        for name in question.names:
            values = [answer.ratings.get(name) for answer in answers.values()]
            numbers = [value for value in values if value is not None]
            if question.kind != "labels" or question.ordered:
                human[name] = math.fsum(numbers) / len(numbers)
            elif (most := majority(numbers)) is not None:
                human[name] = question.labels[int(most)][0]
    comments = {name: a.comment for name, a in answers.items() if a.comment}
    return {
        "human": human,
        "annotators": annotators,
        "raters": list(ratings.raters),
        "seconds": {name: round(a.seconds, 1) for name, a in answers.items()},
        "revisions": {name: a.revision for name, a in answers.items()},
        **({"comments": comments} if comments else {}),
    }


def read_sampled(path: str | Path) -> dict[str, float]:
    """Return the sampling probabilities of a label plan, by id, in its order."""
    probabilities: dict[str, float] = {}
    for number, row in enumerate(read_rows(path), start=1):
        name = row.get("id")
        try:
            probability = check_probability(str(name), row.get(SAMPLING_PROBABILITY))
        except DataError as error:
            raise DataError(f"{path}:{number}: {error}") from None
        if probability is None or not isinstance(name, str):
            raise DataError(f"{path}:{number}: needs an id and a {SAMPLING_PROBABILITY}")
        if row.get("rated") is not True:
            probabilities[name] = probability
    if not probabilities:
        raise DataError(f"{path} lists no examples to rate")
    return probabilities
