"""Pairwise comparison: which of two texts is better, asked in both orders."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field

from textassay.agents.ask import Ask
from textassay.agents.comparer import Comparer, OptionOrder, PreferenceScorer
from textassay.methods.judging import PER_ASPECT, PromptMethod
from textassay.methods.method import PromptOptions
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.data.units import OTHER_OUTPUT
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each

ROOM = 512


class PairwiseOptions(PromptOptions):
    """Options of the pairwise comparison."""

    orders: Literal["both", "forth", "back"] = "both"
    """Orders in which the two texts are shown: both, `output` first, or `output_b` first."""
    ties: bool = False
    """Whether the judge may say that neither is better."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature."""
    seed: int | None = None
    """Seed of the sampling."""
    parse_retries: int = Field(default=1, ge=0, le=100)
    """How often an unusable answer is asked for again."""
    max_tokens: int = Field(default=ROOM, ge=1)
    """Longest answer in tokens."""


class Pairwise(PromptMethod):
    """Pairwise comparison in both orders, after Zheng et al. 2023 (arXiv 2306.05685, section 3.4).

    1. The judge sees the task, one aspect with its definition, the source and two texts, A and B.
    2. It gives a reason in one sentence and a letter, at temperature 0.
    3. It is asked again with the two texts in the other order.
    4. The value is 1 if `output` is chosen both times, 0 if `output_b` is, and 0.5 if the choice
       flips with the order or neither is better; flips are counted in the evidence.

    Deviations: the words of the prompt are ours; one aspect is judged at a time.
    """

    name = "pairwise"
    prompt = "pairwise"
    judge = "scorer"
    Options = PairwiseOptions
    options: PairwiseOptions

    def nodes(self) -> list[Node]:
        """Compare in each order, side by side, and settle what they say."""
        orders: tuple[OptionOrder, ...] = (
            ("forth", "back") if self.options.orders == "both" else (self.options.orders,)
        )
        # a node per order: the graph asks both at the same time, and each is cached for itself
        comparers = [Node(order, self._comparer(order), **PER_ASPECT) for order in orders]
        wires = {
            place: each(order) for place, order in zip(("first", "second"), orders, strict=False)
        }
        return [*comparers, Node("scores", PreferenceScorer(self.signature), **PER_ASPECT, **wires)]

    def check_data(self, info: DataInfo) -> None:
        """Refuse data without a second text.

        Raises:
            ConfigurationError: An example has no `output_b`.
        """
        super().check_data(info)
        # before the run: a missing text would otherwise cost the calls of all other examples first
        lacking = info.count - info.compared
        if lacking:
            raise ConfigurationError(
                f"{self.name} compares two texts, and {lacking} of {info.count} examples of "
                f"{info.name} have no {OTHER_OUTPUT!r}; add it, or pair the systems of each group "
                "with pair=system"
            )

    @property
    def how(self) -> Literal["text"]:
        """`text`: the judge writes its choice."""
        return "text"

    @cached_property
    def signature(self) -> str:  # type: ignore[override]  # mypy takes it for read-only
        """Method, model, words, orders, sampling and version."""
        facts = {"orders": self.options.orders, "ties": self.options.ties}
        ask = self._ask
        return ask.signature(self.name, self.prompt_digest, **facts, **ask.sampling)

    @cached_property
    def prompt_digest(self) -> str:  # type: ignore[override]  # mypy takes it for read-only
        """6 hex digits for the words that are sent."""
        return self._ask.digest(self.options.prompt_layout, self.options.ties, self._task.digest)

    @cached_property
    def _ask(self) -> Ask:
        return self.ask(
            temperature=self.options.temperature,
            seed=self.options.seed,
            required=self.options.explicit_sampling,
            max_tokens=self.options.max_tokens,
        )

    def _comparer(self, order: OptionOrder) -> Comparer:
        return Comparer(self._ask, order, self.options.ties, self.options.parse_retries)
