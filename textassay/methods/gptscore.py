"""GPTScore: the likelihood of a text, given its input and an instruction per aspect."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from textassay.agents.likelihood import (
    Directions,
    LikelihoodReader,
    LikelihoodScorer,
    OverReferences,
    PassageWriter,
    Protocols,
    Qualities,
    Scored,
    TokenWeights,
)
from textassay.methods.judging import PER_ASPECT, PromptMethod
from textassay.methods.library import tasks
from textassay.methods.library.toml import read_as
from textassay.methods.method import PromptOptions
from textassay.prompts import READY_TASKS, TASKS, table_file
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Aspect, Example, How


class GPTScoreOptions(PromptOptions):
    """Options of GPTScore.

    The paper's VAL is `instruction=false`, IST the default, IDM `demonstrations=FILE`.
    """

    instruction: bool = True
    """Whether task and aspect are described."""
    demonstrations: str | None = None
    """Data file with demonstrations, which are not judged if they are among the examples. For a
    boolean question a line needs `answers`, such as `{"engagingness": "yes"}`; a line with `aspect`
    is shown for that aspect alone."""
    k: int | None = Field(default=None, ge=1)
    """Number of demonstrations of each aspect, from the beginning of the file; by default all."""
    seed: int | None = None
    """Draw the `k` demonstrations of each aspect at random with this seed instead."""
    weights: TokenWeights = "mean"
    """Weight of a token: 1/m (`mean`) or 1 (`sum`)."""
    direction: Directions = "default"
    """Which text is scored given which: `src-hypo`, `ref-hypo`, `hypo-ref`, the mean of the last
    two (`ref-both`) or their harmonic mean (`harmonic`); by default the table's."""
    over_references: OverReferences | None = None
    """How several references are combined; by default by the maximum for data-to-text, as in the
    authors' code, and else by the mean."""
    combine: tuple[str, ...] = ()
    """Names or codes of aspects whose definitions are added to each judged aspect's."""
    scored: Scored | None = None
    """Score the text (`output`) or the `Yes` that answers a boolean question (`yes`); by default
    `yes` for tasks that say `asks`."""
    pmi: bool | Literal["normalized"] = False
    """Beyond the paper: subtract the unconditional log-probability, log p(output | source) - log
    p(output), so that common phrases do not raise the score. `normalized` uses the share of each
    token's surprise that the source removes, from -1 to 1, instead of nats.
    """

    @field_validator("direction", mode="before")
    @classmethod
    def _with_or_without_arrow(cls, value: Any) -> Any:
        return value.replace("->", "-") if isinstance(value, str) else value

    @field_validator("combine", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return [name.strip() for name in value.split(",") if name.strip()]


class GPTScore(PromptMethod):
    """GPTScore (Fu et al. 2023, arXiv 2302.04166).

    1. Task and aspect make an instruction, the source (or a reference) its input; demonstrations
    may precede it.
    2. The score is the sum over the output's tokens of w_t log p(h_t | h_<t, T(d, a, S)), with w_t
    = 1/m (or 1).
    3. On dialogue a boolean question is asked instead, and the answer `Yes` is scored.

    A value is a signed log-probability without a scale. Prompts are from tables 11 and 12; for
    data-to-text from the authors' repository, which also scores against references, and takes the
    maximum over them, while the paper's section on the scoring dimension prints src-hypo
    (`direction=src-hypo`).

    Deviations: one space precedes every scored text, while the tables print some without, and
    the conversation of a boolean question is between delimiters, unless the profile is `paper`.
    Only `Yes` is scored, while the paper prints "Yes.". On data-to-text the authors' script
    detokenizes texts, appends " ." to one without a full stop, cuts prompts, counts the end token
    of FLAN-T5, and leaves out GPT-2's first token; none of it is done here. A table
    (`prompts/tables/gptscore.toml`) marks the paper's words, and ours for aspects that the paper
    lacks. Beyond the paper: `pmi`.
    """

    name = "gptscore"
    shows_references = False
    prompt = "gptscore"
    how: How = "loglikelihood"
    has_scale = False
    shows_images = False
    no_decisions = "it sends no log-probabilities of given texts; take decide"
    Options = GPTScoreOptions
    options: GPTScoreOptions

    def prepare(self) -> None:
        options, profile = self.options, self.profile
        protocols, qualities, tables = read_protocols()
        words = protocols.of(self._task)
        scored = self._scored_texts()
        demonstrations, file = read_demonstrations(self._task.aspects, qualities, options)
        prompt = "gptscore" if scored == "output" else "gptscore_question"
        # there is no sampling: the option `seed` draws demonstrations
        ask = self.ask(options.prompt or prompt, seed=None, required=())
        # the table's words and choices belong together; a profile with its own words has neither
        own_words = self.prompt in profile.prompts and not profile.printed
        self.over_references: OverReferences = options.over_references or (
            "mean" if own_words else words.over_references
        )
        self.reader = LikelihoodReader(ask.model)
        self.likelihoods_of = ask.model
        self.writer = PassageWriter(
            ask.template,
            words=words,
            qualities=qualities,
            direction=options.direction,
            scored=scored,
            instruct=options.instruction,
            combined=qualities.select(options.combine, self._task.aspects),
            demonstrations=demonstrations,
            alone=bool(options.pmi),
        )
        variants = (options.instruction, options.combine, tables, file, self._task.digest)
        seeds = () if options.seed is None else (options.seed,)
        self.sign(
            ask,
            (ask.layout, *variants, *seeds),
            how=self.how,
            scored=scored,
            weights=options.weights,
            direction=options.direction,
            references=self.over_references,
            k=_counts(self._task.aspects, demonstrations),
            seed=options.seed if seeds else False,
            pmi=options.pmi,
        )

    def nodes(self) -> list[Node]:
        """Write the prompt before the text, request its likelihood, and weigh its tokens."""
        options = self.options
        scorer = LikelihoodScorer(
            options.weights,
            self.over_references,
            "harmonic" if options.direction == "harmonic" else "mean",
            self.signature,
            normalized=options.pmi == "normalized",
        )
        passages = {"passages": each("passages")}
        return [
            Node("passages", self.writer, **PER_ASPECT),
            Node("likelihoods", self.reader, **passages),
            Node("scores", scorer, **PER_ASPECT, **passages, likelihoods=each("likelihoods")),
        ]

    def _scored_texts(self) -> Scored:
        """Return the text that is scored."""
        options = self.options
        # both use the text's likelihood, which a yes/no question does not measure
        about_texts = options.direction != "default" or bool(options.pmi)
        if options.scored == "yes" and about_texts:
            raise ConfigurationError(
                "direction and pmi are about the text's own probability; use "
                "options={'scored': 'output'}"
            )
        if options.pmi and "harmonic" in (options.direction, options.over_references):
            raise ConfigurationError(
                "pmi may be above or below 0, so it has no harmonic mean; use ref-both or mean"
            )
        asks = bool(self._task.asks) and not about_texts
        scored: Scored = options.scored or ("yes" if asks else "output")
        if scored == "yes" and options.over_references:
            raise ConfigurationError(
                "over_references has no effect on a yes/no question; use "
                "options={'scored': 'output'}"
            )
        return scored


def read_protocols() -> tuple[Protocols, Qualities, str]:
    """Return the package's words for tasks and aspects, and hex digits that change with them."""
    protocols, digest = read_as(table_file("gptscore"), Protocols)
    qualities, more = read_as(table_file("gptscore_aspects"), Qualities)
    loaded = [tasks.load(name) for name in TASKS if name not in READY_TASKS]
    # definitions of the built-in tasks: the paper's words apply only if the user kept them
    texts = frozenset(a.definition for task in loaded for a in (*task.aspects, *task.optional))
    return protocols, qualities.model_copy(update={"definitions": texts}), digest + more


def read_demonstrations(
    aspects: Iterable[Aspect], qualities: Qualities, options: GPTScoreOptions
) -> tuple[dict[str, tuple[Example, ...]], str]:
    """Return the demonstrations of each aspect, by its id, and a digest of the file."""
    path, k, seed = options.demonstrations, options.k, options.seed
    if not path:
        if k or seed is not None:
            raise ConfigurationError(
                "k and seed say which demonstrations are shown; give them with demonstrations=FILE"
            )
        return {}, ""
    if seed is not None and not k:
        raise ConfigurationError("seed draws k demonstrations of each aspect; say how many with k")
    data = Examples(Path(path))
    info = data.check()
    examples = tuple(data)
    by_aspect = {}
    for aspect in aspects:
        names = qualities.of(aspect).names | {aspect.name.casefold()}
        # a demonstration without an aspect is for all aspects
        pool = [e for e in examples if _aspect_of(e) in ("", *names)]
        if k and k > len(pool):
            raise ConfigurationError(
                f"{path} contains {len(pool)} demonstrations for {aspect.name}, fewer than k={k}"
            )
        if k and seed is not None:
            # seeded per aspect: adding an aspect does not change the demonstrations of the others
            pool = random.Random(f"{seed}\x1f{aspect.id}").sample(pool, k)
        by_aspect[aspect.id] = tuple(pool[:k])
    return by_aspect, info.digest


def _aspect_of(demonstration: Example) -> str:
    return str(demonstration.meta.get("aspect") or "").casefold()


def _counts(aspects: Iterable[Aspect], demonstrations: Mapping[str, Sequence[Example]]) -> str:
    """Return how many demonstrations are shown, for each aspect if the numbers differ."""
    counts = {aspect.name: len(demonstrations.get(aspect.id, ())) for aspect in aspects}
    if len(different := set(counts.values())) == 1:
        return str(*different)
    return ",".join(f"{name}={count}" for name, count in counts.items())
