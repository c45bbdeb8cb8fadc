"""Jury: several models rate the same aspects; their ratings are combined or kept for `fit`."""

from __future__ import annotations

import statistics
from functools import cached_property
from typing import Any, Literal

from textassay.agents.aggregation import Average, as_evidence, score_by_votes
from textassay.agents.scorer import AspectScorer
from textassay.methods.judging import PER_ASPECT, RatingMethod
from textassay.methods.method import RatingOptions
from textassay.runtime.base import Message
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.runtime.labels import nearest_label, slug
from textassay.runtime.messages import Aspect, Example, Failure, How, Score
from textassay.runtime.model import Model


class JurorAspect(Message):
    """One juror's place in the judgment of one aspect."""

    juror: int
    """Number of the juror, from 0."""
    aspect: Aspect
    """The aspect to rate."""


class JuryOptions(RatingOptions):
    """Options of the jury."""

    combine: Literal["mean", "median", "vote"] = "mean"
    """How the jurors' ratings are combined; `vote` is for labels, and their default."""
    output: Literal["aspects", "jurors"] = "aspects"
    """One score for each aspect, or every juror's rating: features for `fit`."""


class Jury(RatingMethod):
    """Jury of models (PoLL, Verga et al. 2024, arXiv 2404.18796).

    1. Every juror rates every aspect separately, with the prompt of `llm-score`.
    2. The score is the mean or the median of the usable ratings, if at least half of the jurors
    gave one.

    Labels are voted on, as in the paper; a tie has no score, so a vote needs three jurors.

    A plain mean agrees better with people than its best juror asked as often where no juror leads
    by 10 points of accuracy or .2 of r; else the leader alone is better, or learned weights.

    Deviations: the paper pools by vote or mean; a median and weights learned from people
    (`output=jurors`, then `fit`) are ours, and so are the words of the prompt.
    """

    name = "jury"
    prompt = "llm_score"
    judge = "juror"
    labels_prompt = "llm_score_labels"
    Options = JuryOptions
    options: JuryOptions

    def prepare(self) -> None:
        """Read the jurors: the models of the roles `juror`, `juror1`, ..., or the only model."""
        self._names = _names_of(self.judges)
        if self.options.output == "aspects":
            self._check_combine()
        self._average = Average(self.signature)

    def _check_combine(self) -> None:
        """Raise if ratings would be voted on, labels without an order averaged, or a vote tied."""
        for aspect in self._task.aspects:
            combine = self._combines_by(aspect)
            if combine == "vote" and not aspect.labels:
                raise ConfigurationError(
                    f"combine=vote is for labels, and aspect {aspect.name!r} has ratings; use"
                    " median"
                )
            if combine != "vote" and aspect.is_nominal:
                raise ConfigurationError(
                    f"the labels of aspect {aspect.name!r} have no order, and so no"
                    f" {combine}; leave out combine= to vote"
                )
            if combine == "vote" and len(self._names) == 2:
                raise ConfigurationError(
                    f"two jurors cannot vote on {aspect.name!r}: there is no majority where"
                    " they differ; add a third juror, use one, or set output=jurors and learn the"
                    " weight of each with textassay fit"
                )

    def _combines_by(self, aspect: Aspect) -> str:
        return "vote" if aspect.labels and "combine" not in self.user_set else self.options.combine

    def nodes(self) -> list[Node]:
        """Let all jurors rate all aspects, then combine the ratings, or keep each juror's."""
        if self.options.output == "jurors":
            return [Node("scores", self._rate_as_juror, **PER_ASPECT)]
        seat = each("panel")
        return [
            Node("panel", self._seat, aspects="input.aspects"),
            Node("ratings", self._rate, example="input.example", seat=seat),
            Node("scores", self._combine, **PER_ASPECT, panel="panel", ratings="ratings"),
        ]

    @cached_property
    def _jurors(self) -> tuple[AspectScorer, ...]:
        return tuple(
            # a scorer per juror: prompts follow each model's own profile and abilities
            self.scorer_for({"scorer": model}, self._task, self.options, variant=self.variant)
            for model in self.judges
        )

    async def _seat(self, aspects: tuple[Aspect, ...]) -> list[JurorAspect]:
        jurors = range(len(self._jurors))
        return [JurorAspect(juror=juror, aspect=aspect) for aspect in aspects for juror in jurors]

    async def _rate(self, example: Example, seat: JurorAspect) -> Score:
        return await self._jurors[seat.juror](example, seat.aspect)

    async def _rate_as_juror(self, example: Example, aspect: Aspect) -> Score:
        """Return one juror's rating under the juror's name."""
        juror = self._names.index(aspect.name)
        # jurors' aspects are children of the judged one, whose words the prompt shows
        judged = next(a for a in self._task.aspects if a.id == aspect.parent)
        score = await self._jurors[juror](example, judged)
        return score.model_copy(update={"aspect": aspect.label, "signature": self.signature})

    async def _combine(
        self,
        example: Example,
        aspect: Aspect,
        panel: list[JurorAspect],
        ratings: list[Score | Failure],
    ) -> Score:
        """Return the combined rating, with each juror's rating as evidence."""
        pairs = zip(panel, ratings, strict=True)
        seats = [(self._names[seat.juror], r) for seat, r in pairs if seat.aspect.id == aspect.id]
        evidence = tuple(as_evidence(rating, text=name) for name, rating in seats)
        parts = [rating for _, rating in seats]
        score = await self._average(example, aspect, parts, evidence=evidence)
        if score.error:
            return score
        values = [r.value for r in parts if isinstance(r, Score) and r.value is not None]
        combine = self._combines_by(aspect)
        if combine == "vote":
            # a juror's mean of several samples may be between two labels
            votes = [vote for value in values if (vote := nearest_label(value)) is not None]
            fields = ("id", "aspect", "scale", "how", "usage", "signature")
            about = {name: getattr(score, name) for name in fields}
            return score_by_votes(votes, tuple(aspect.labels), evidence=evidence, **about)
        # the standard deviation of these jurors, not of a population
        update = {"spread": statistics.pstdev(values)}
        if combine == "median":
            update["value"] = statistics.median(values)
        return score.model_copy(update=update)

    @property
    def scorer(self) -> AspectScorer:
        """Scorer of the first juror; all share its settings."""
        return self._jurors[0]

    @property
    def variant(self) -> str:
        """How ratings are combined, and the number of jurors."""
        rules = dict.fromkeys(self._combines_by(aspect) for aspect in self._task.aspects)
        return f"{'+'.join(rules)}|{self.options.output}"

    @cached_property
    def signature(self) -> str:
        """Signature of the first juror, with the names and prompt digests of all."""
        first = self._jurors[0]
        whole = first.signature_as(self.how)
        models = "+".join(juror.ask.model.name for juror in self._jurors)
        words = "+".join(juror.prompt_digest for juror in self._jurors)
        whole = whole.replace(f"|model:{first.ask.model.name}|", f"|model:{models}|", 1)
        return whole.replace(f"|prompt:{first.prompt_digest}|", f"|prompt:{words}|", 1)

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The chosen aspects, or each juror's rating of them with `output=jurors`."""
        if self.options.output == "aspects":
            return super().aspects
        return tuple(
            Aspect(**{**aspect.model_dump(), "name": name, "parent": aspect.id, "member_of": None})
            for aspect in super().aspects
            for name in self._names
        )

    @property
    def how(self) -> How:
        """`fused`; for single jurors how the first one's ratings are obtained."""
        return "fused" if self.options.output == "aspects" else self._jurors[0].how_now

    def describe(self) -> dict[str, Any]:
        """Return options, task, prompt digest, and the jurors."""
        return super().describe() | {"jurors": list(self._names)}


def _names_of(jurors: tuple[Model, ...]) -> tuple[str, ...]:
    """Return short names of the jurors, or full ones if short ones are the same.

    Raises:
        ConfigurationError: There is no juror, or a model is one twice.
    """
    if not jurors:
        raise ConfigurationError(
            "a jury needs jurors; give model={'juror1': NAME, 'juror2': NAME}, once for each"
        )
    names = tuple(model.name for model in jurors)
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"the model {name!r} is a juror twice; a second vote adds nothing"
            )
    short = tuple(name.rpartition("/")[2] for name in names)
    is_clear = len(set(map(slug, short))) == len(short)
    return short if is_clear else names
