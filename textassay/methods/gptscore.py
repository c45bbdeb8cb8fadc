"""GPTScore: how likely a model finds a text, given what it was made from and a wish for the judged aspect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from textassay.agents.likelihood import LikelihoodReader, LikelihoodScorer, OverReferences, Weights
from textassay.agents.passages import Directed, Directions, PassageWriter, Protocols, Scored
from textassay.agents.qualities import Qualities
from textassay.methods.judging import PER_ASPECT, PromptMethod
from textassay.methods.library import tasks
from textassay.methods.library.toml import read_table, validated
from textassay.methods.method import PromptOptions
from textassay.prompts import TASKS
from textassay.prompts.packaged import table_file
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph.graph import Node, each
from textassay.runtime.messages import Example, How


class GPTScoreOptions(PromptOptions):
    """Options of GPTScore; the paper's VAL is `instruction=false`, IST the default, IDM `demonstrations=FILE`."""

    instruction: bool = True
    """Whether task and aspect are described."""
    demonstrations: str | None = None
    """Data file with demonstrations, which are not judged where they are among the examples. For a
    boolean question a line needs `answers`, such as `{"engagingness": "yes"}`; a line with `aspect`
    is shown for that aspect alone."""
    k: int | None = Field(default=None, ge=1)
    """Number of demonstrations, from the beginning of the file; all where not given."""
    weights: Weights = "mean"
    """Weight of a token: 1/m (`mean`) or 1 (`sum`)."""
    direction: Directions = "default"
    """Which text is scored given which; by default what the table says."""
    over_references: OverReferences = "mean"
    """What becomes of several references."""
    combine: tuple[str, ...] = ()
    """Names or codes of aspects whose definitions are joined to that of each judged one."""
    scored: Scored | None = None
    """Score the text (`output`) or the `Yes` that answers a boolean question (`yes`); by default
    `yes` for dialogue."""
    pmi: bool = False
    """Beyond the paper: take off the text's log-probability without what is given, log p(output |
    source) - log p(output), so that dull texts are not liked for being likely."""

    @field_validator("direction", mode="before")
    @classmethod
    def _with_or_without_arrow(cls, given: Any) -> Any:
        return given.replace("->", "-") if isinstance(given, str) else given

    @field_validator("combine", mode="before")
    @classmethod
    def _separated(cls, given: Any) -> Any:
        return (
            [name.strip() for name in given.split(",") if name.strip()]
            if isinstance(given, str)
            else given
        )


class GPTScore(PromptMethod):
    """GPTScore (Fu et al. 2023, arXiv 2302.04166).

    1. Task and aspect make an instruction, the source (or a reference) its input; demonstrations
    may stand before.
    2. The score is the sum over the output's tokens of w_t log p(h_t | h_<t, T(d, a, S)), with w_t
    = 1/m (or 1).
    3. On dialogue a boolean question is asked instead, and the score is that of the answer `Yes`.

    A value is a signed log-probability without a scale. Deviations: a table
    (`prompts/tables/gptscore.toml`) says which prompts and default directions are the paper's,
    which are ours, and where the paper's own reason argues against its choice. Only `Yes` is
    scored, where the paper prints "Yes."; the conversation of a boolean question stands between
    delimiters. Beyond the paper: hypo-ref and the mean of both directions as in BARTScore, several
    references, and `pmi`.
    """

    name = "gptscore"
    prompt = "gptscore"
    how: How = "loglikelihood"
    Options = GPTScoreOptions
    options: GPTScoreOptions

    def prepare(self) -> None:
        """Read the tables and say what is scored given what."""
        options = self.options
        protocols, qualities, tables = read_protocols()
        words = protocols.of(self._task)
        scored = self._scored(words.asks)
        demonstrations, shown = read_demonstrations(options.demonstrations, options.k)
        prompt = "gptscore" if scored == "output" else "gptscore_question"
        ask = self.ask(options.prompt or prompt)
        self.reader = LikelihoodReader(ask.model)
        self.writer = PassageWriter(
            ask.template,
            words=words,
            qualities=qualities,
            direction=options.direction,
            scored=scored,
            instruct=options.instruction,
            combined=qualities.chosen(options.combine, self._task.aspects),
            demonstrations=demonstrations,
            first_reference=options.over_references == "first",
            alone=options.pmi,
        )
        variants = (options.instruction, options.combine, tables, shown, self._task.digest)
        self.prompt_digest = ask.digest(ask.layout, *variants)
        self.signature = ask.signature(
            self.name,
            self.prompt_digest,
            how=self.how,
            scored=scored,
            weights=options.weights,
            direction=options.direction,
            references=options.over_references,
            k=len(demonstrations),
            pmi=options.pmi,
        )

    def nodes(self) -> list[Node]:
        """Write what the text is conditioned on, ask how likely it is, and weigh its tokens."""
        options = self.options
        scorer = LikelihoodScorer(options.weights, options.over_references, self.signature)
        passages = {"passages": each("passages")}
        return [
            Node("passages", self.writer, **PER_ASPECT),
            Node("likelihoods", self.reader, **passages),
            Node("scores", scorer, **PER_ASPECT, **passages, likelihoods=each("likelihoods")),
        ]

    def _scored(self, asks: bool) -> Scored:
        """Return what is scored.

        Raises:
            ConfigurationError: The options do not go together.
        """
        about_texts = self.options.direction != "default" or self.options.pmi
        if self.options.scored == "yes" and about_texts:
            raise ConfigurationError(
                "direction and pmi are about the text's own probability; use --set scored=output"
            )
        if self.options.scored is not None:
            return self.options.scored
        return "yes" if asks and not about_texts else "output"

    def describe(self) -> dict[str, Any]:
        """Return options, task and prompt digest; the aspects' scale does not count."""
        facts = super().describe()
        return facts | {"aspects": [{**aspect, "scale": None} for aspect in facts["aspects"]]}


def read_protocols() -> tuple[Protocols, Qualities, str]:
    """Return the package's words for tasks and aspects, and hex digits that change with them."""
    words, aspects = table_file("gptscore"), table_file("gptscore_aspects")
    protocols, qualities = read_table(words), read_table(aspects)
    known = frozenset(aspect.definition for task in TASKS for aspect in tasks.load(task).aspects)
    in_words = validated(aspects, qualities.content, Qualities).model_copy(
        update={"definitions": known}
    )
    return (
        validated(words, protocols.content, Protocols),
        in_words,
        protocols.digest + qualities.digest,
    )


def default_directions(task: str) -> Mapping[str, Directed]:
    """Return the default direction of each aspect of a task that the table has, with whose choice it is and why.

    Aspects without an entry take `src-hypo`, as does everything for tasks that the table has not.
    """
    protocols, _, _ = read_protocols()
    known = protocols.tasks.get(task)
    return {} if known is None else known.directions


def read_demonstrations(path: str | None, k: int | None) -> tuple[tuple[Example, ...], str]:
    """Return the first `k` demonstrations of a data file, all where `k` is not given, and a digest of the file.

    Raises:
        DataError: The file cannot be read.
        ConfigurationError: It has fewer than `k`, or `k` is given without a file.
    """
    if path is None:
        if k is not None:
            raise ConfigurationError(
                "k says how many demonstrations are shown; give them with demonstrations=FILE"
            )
        return (), ""
    data = Examples(Path(path))
    info = data.check()
    shown = tuple(data)
    if k is not None and k > len(shown):
        raise ConfigurationError(f"{path} holds {len(shown)} demonstrations, fewer than k={k}")
    return shown[:k], info.digest
