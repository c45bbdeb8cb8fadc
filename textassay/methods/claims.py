"""Claims: what a text states, claim by claim, each verified against the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from textassay.agents.ask import LogprobsOrSamples
from textassay.agents.claims import (
    UNIT,
    Claims,
    ClaimSplitter,
    ProbabilityVerifier,
    QuotedVerifier,
    SentenceClaims,
    SupportedFraction,
    ToolVerifier,
    Windows,
)
from textassay.agents.prompt_template import Task, prompt_digest
from textassay.agents.quoted_answerer import MAX_TOKENS
from textassay.methods.judging import PromptMethod, ask_to_write
from textassay.methods.method import Models, PromptOptions
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Aspect, Example, How, ScoreError
from textassay.tools.tool import Tool, premise
from textassay.version import __version__

SPLIT_PROMPT, P_YES_PROMPT = "claims_split", "decomp_eval"
FACTUAL = ("consistency", "factuality", "groundedness", "faithfulness", "accuracy")
"""Aspects that say how far a text keeps to its source."""
CONSISTENCY = Aspect(
    name="consistency",
    definition="how far the facts that the text states are supported by what it was made from.",
    scale=UNIT,
)
"""What is judged if a task has no such aspect."""
MISSING = ScoreError(
    type="MissingSource",
    message="claims are verified against a source or context, which this example does not have",
)


class ClaimsOptions(PromptOptions):
    """Options of `claims`."""

    split: Literal["model", "sentences"] = "model"
    """`model`: a model (role `splitter`) lists the claims; `sentences`: every sentence is one."""
    per_sentence: int = Field(default=3, ge=1, le=20)
    """Most claims for each sentence of the output that the model lists."""
    verify: Literal["quoted", "p-yes"] = "quoted"
    """`quoted`: the judge answers in words and quotes the passage that decides, which is looked up
    in the source; `p-yes`: P(yes) / (P(yes) + P(no)), by log-probabilities if the model sends
    usable ones, else by the share of yes among written answers. With `tools` the tool verifies
    instead."""
    quotes: Literal["required", "told"] = "required"
    """Whether a claim counts as supported only by a quotation that is found, or anyway."""
    support: Literal["fraction", "probability"] = "fraction"
    """`fraction`: the share of claims that are supported with a probability above 0.5 (FActScore);
    `probability`: the mean of the probabilities."""
    gamma: int = Field(default=0, ge=0)
    """Claims below which a text is penalized for saying little, by exp(1 - gamma / claims);
    FActScore takes 10, and 0 is no penalty."""
    required: float = Field(default=0.5, gt=0, le=1)
    """Share of the claims that must have a verdict; below it there is no score."""
    window: int = Field(default=400, ge=20)
    """Longest window of the source in words that a judge is shown; tools have windows of their
    own."""
    windows: int = Field(default=3, ge=1)
    """Windows that a judge is shown of a source that is longer: those with most words in common
    with the claim."""
    pattern: str = "Is everything that this {output} says supported by the {source}?"
    """What `verify=p-yes` asks; `{output}` and `{source}` are what the task calls its texts."""
    evidence: Literal["all"] | None = None
    """`all`: a question supports claims as well; by default only the context does, and what tools
    answered, where the context consists of passages or the source ends as a question. In dialogue
    the source is the conversation, which always counts."""
    seed: int | None = None
    """Seed of the sampling."""
    parse_retries: int = Field(default=1, ge=0, le=100)
    """How often an unusable answer is asked for again."""


class ClaimCheck(PromptMethod):
    """Claims against the source (FActScore, Min et al. 2023, arXiv 2305.14251).

    1. A model lists the claims of the output, or each sentence is one.
    2. Each claim is verified against the windows of the source that are closest to it: by the judge
    with a quotation that is looked up, by P(yes), or by a tool such as `nli` or `minicheck`
    (MiniCheck, Tang et al. 2024, arXiv 2404.10774).
    3. The score is the share of supported claims, with a penalty for few of them if wanted.

    Deviations: FActScore retrieves from Wikipedia, this reads the example's own source; it splits
    sentence by sentence with demonstrations, this splits the output in one request. All words are
    ours. A claim without a verdict is left out of the share and counted.
    """

    name = "claims"
    shows_references = False
    prompt = "claims"
    shows_source = False  # but the windows of a conversation that are closest
    default_tools: tuple[str, ...] = ()
    """No tool: the judge verifies unless one is named."""
    Options = ClaimsOptions
    options: ClaimsOptions

    def __init__(
        self,
        models: Models,
        task: Task,
        options: ClaimsOptions | None = None,
        *,
        tools: Sequence[Tool] = (),
    ) -> None:
        self.tools = tuple(tools)
        super().__init__(models, task, options)

    def prepare(self) -> None:
        """Choose what is judged, who splits and who verifies."""
        self._task = self._task.model_copy(update={"aspects": _judged(self._task)})
        self._splitter = self._make_splitter()
        self._verifier = self._make_verifier()
        self.prompt_digest = prompt_digest(self._prompts, *self._variants)
        self.signature = "|".join(
            [
                f"method:{self.name}",
                f"model:{self._model_name}",
                f"prompt:{self.prompt_digest}",
                f"layout:{self.options.prompt_layout}",
                f"verify:{self._verifies}",
                *(["how:auto"] if isinstance(self._verifier, ProbabilityVerifier) else []),
                f"support:{self.options.support}",
                f"v:{__version__}",
            ]
        )
        if isinstance(self._verifier, ProbabilityVerifier):
            self._verifier = replace(self._verifier, signature=self.signature)
        self._fraction = SupportedFraction(
            self.signature, self.options.support, self.options.gamma, self.options.required
        )

    def nodes(self) -> list[Node]:
        """Split, verify every claim, and take the share."""
        example = "input.example"
        return [
            Node("claims", self._split, example=example),
            Node("verdicts", self._verifier, example=example, claim=each("claims.items")),
            Node("scores", self._fraction, example=example, aspects="input.aspects",
                 claims="claims", verdicts="verdicts"),
        ]  # fmt: skip

    async def _split(self, example: Example) -> Claims:
        # before anything is paid for: without a source nothing can be verified
        if example.output.strip() and premise(example) is None:
            return Claims(problem=MISSING)
        return await self._splitter(example)

    def _make_splitter(self) -> ClaimSplitter | SentenceClaims:
        options = self.options
        if options.split == "sentences":
            return SentenceClaims()
        ask = ask_to_write(
            self.models, "splitter", SPLIT_PROMPT, self._task, options, seed=options.seed,
            what="claims", instead="take options={'split': 'sentences'}",
        )  # fmt: skip
        return ClaimSplitter(ask, options.per_sentence, options.parse_retries)

    def _make_verifier(self) -> QuotedVerifier | ProbabilityVerifier | ToolVerifier:
        options = self.options
        if self.tools:
            return ToolVerifier(self._only_tool(), self._question_counts)
        windows = Windows(options.window, options.windows, self._question_counts)
        if options.verify == "p-yes":
            names = {"{output}": self._task.output_name, "{source}": self._task.source_name}
            question = options.pattern
            for place, name in names.items():
                question = question.replace(place, name.lower())
            ask = self.ask(P_YES_PROMPT, seed=options.seed, required=options.explicit_sampling)
            return ProbabilityVerifier(ask, windows, question, reading="auto")
        required = options.explicit_sampling
        ask = self.ask(seed=options.seed, required=required, max_tokens=MAX_TOKENS)
        # the claim stands where the output does, and is called what it is
        as_claim = ask.task.model_copy(update={"output_name": "Claim"})
        ask = replace(ask, task=as_claim)
        must_quote = options.quotes == "required"
        return QuotedVerifier(ask, windows, options.parse_retries, must_quote)

    @property
    def _question_counts(self) -> bool:
        return self.options.evidence == "all" or self._task.asks is not None

    def _only_tool(self) -> Tool:
        """Return the tool that verifies."""
        tool, *others = self.tools
        if others:
            names = ", ".join(one.name for one in self.tools)
            raise ConfigurationError(f"one tool verifies the claims, not {names}; name one")
        if tool.scale != UNIT or not tool.higher_is_better:
            raise ConfigurationError(
                f"the tool {tool.name!r} gives no probability of support from 0 to 1; use nli,"
                " minicheck or unieval with tools=nli"
            )
        ineffective = {"verify", "quotes", "window", "windows", "pattern"} & self.given
        if ineffective:
            raise ConfigurationError(
                f"{min(ineffective)} has no effect, since the tool {tool.name!r} verifies the"
                " claims; leave it out"
            )
        return tool

    @property
    def _verifies(self) -> str:
        return self.tools[0].name if self.tools else self.options.verify

    @property
    def _model_name(self) -> str:
        """Names of the models that are asked, the judge's first."""
        judge = None if isinstance(self._verifier, ToolVerifier) else self._verifier.ask.model.name
        splitter = self._splitter
        writer = splitter.ask.model.name if isinstance(splitter, ClaimSplitter) else None
        return "+".join(dict.fromkeys(name for name in (judge, writer) if name)) or "-"

    @property
    def _prompts(self) -> tuple[str, ...]:
        """The prompt files that are sent."""
        judged = () if isinstance(self._verifier, ToolVerifier) else (self._verifier.ask.prompt,)
        return (*judged, SPLIT_PROMPT) if self.options.split == "model" else judged

    @property
    def _variants(self) -> tuple[object, ...]:
        """Whatever else changes the scores."""
        options = self.options
        tools = tuple(tool.signature for tool in self.tools)
        shown = (options.window, options.windows, options.pattern, options.quotes)
        counted: tuple[object, ...] = (
            options.gamma, options.required, options.per_sentence, options.split,
            *([options.evidence] if options.evidence else []),
        )  # fmt: skip
        profile = () if self.tools else self.profile.digest_parts
        return (*counted, *(tools or shown), options.prompt_layout, self._task.digest, *profile)

    @property
    def how(self) -> How:
        """Put together from verdicts."""
        return "fused"

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """What is read, if the model decides on it."""
        if not isinstance(self._verifier, ProbabilityVerifier):
            return None
        return self._verifier.answerer.probabilities

    def describe(self) -> dict[str, Any]:
        """Return options, task, prompt digest and the tool that verifies."""
        tools = [{"name": tool.name, "signature": tool.signature} for tool in self.tools]
        return super().describe() | {"tools": tools}


def _judged(task: Task) -> tuple[Aspect, ...]:
    """Return the aspects that the share of supported claims stands for, on its scale.

    Those of the chosen ones that are about facts, or the only one that was chosen; `consistency`
    if a task has none.
    """
    chosen = tuple(aspect for aspect in task.aspects if aspect.name in FACTUAL)
    if not chosen and len(task.aspects) == 1:
        chosen = task.aspects
    if not chosen and task.aspects == task.family:
        chosen = (CONSISTENCY,)
    if not chosen:
        names = ", ".join(aspect.name for aspect in task.aspects)
        raise ConfigurationError(
            f"claims judges whether a text keeps to its source, and none of {names} is about that;"
            " give aspects=consistency, or one aspect alone"
        )
    return tuple(aspect.model_copy(update={"scale": UNIT}) for aspect in chosen)
