"""Bases of the methods that judge a task's aspects by prompts.

A method is its options, its prompt and its nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from textassay.agents.ask import AUTO, Ask
from textassay.agents.prompt_template import Task
from textassay.agents.scorer import AspectScorer, RatingReading, scorer_for
from textassay.agents.typed_questions import RATING_PROMPT, QuestionScorer
from textassay.methods.library import profiles
from textassay.methods.library.profiles import rating_prompt
from textassay.methods.method import (
    Models,
    PromptOptions,
    RatingOptions,
    TaskMethod,
    Traits,
    model_for,
    model_or_none,
)
from textassay.runtime.calls.deciding import LogprobsOrSamples, possible_ways, ways_in_words
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import Assignment, How
from textassay.runtime.model import Model

PER_ASPECT: dict[str, Any] = {"example": "input.example", "aspect": each("input.aspects")}
"""Wires of a node that works on one example and one aspect at a time."""


def ask_to_write(
    models: Models,
    role: str,
    prompt: str,
    task: Task,
    options: PromptOptions,
    *,
    what: str | None,
    instead: str,
    **fields: Any,
) -> Ask:
    """Return how the model of a role is asked to write what judging needs, such as a plan.

    `what` it writes is `None` if it will not be asked.

    Raises:
        ConfigurationError: There is no model for it, or it cannot write.
    """
    model = model_for(models, role)
    if what is not None:
        if model.capabilities.only_decides:
            raise ConfigurationError(
                f"{model.name!r} is a decision model, which writes no text, so that it cannot write"
                f" {what}: {instead}, or have a chat model write (model={{{role!r}: NAME}})"
            )
        profiles.require_generation(what, instead, options.profile, models, role)
    return Ask(model, prompt, task, required=options.explicit_sampling, **fields)


def refuse_written(
    model: Model, options: PromptOptions, given: Collection[str], names: Iterable[str]
) -> None:
    """Refuse options of written answers if the judge is a decision model.

    Args:
        model: The judge.
        options: The options, with the defaults of the profile.
        given: Names of those that the user gave.
        names: Options that have no effect on a decision model.
    """
    if not model.capabilities.only_decides:
        return
    for name in names:
        if name in given:
            raise ConfigurationError(
                f"the decision model {model.name!r} sends probabilities and writes no answers;"
                f" leave out {name}={getattr(options, name)}"
            )


def check_rubrics(method: str, info: DataInfo, *, are_read: bool) -> None:
    """Refuse rubrics that a method would not read, and data that lack them if it reads some.

    A method of another kind, such as a graph of the user's own, sees the whole example.
    """
    if are_read == bool(info.rubrics):
        return
    by_rubric = "method='checklist' options={'checklist': 'rubric'}"
    if info.rubrics:
        raise ConfigurationError(
            f"{info.rubrics:,} of {info.count:,} examples of {info.name} have a rubric, which"
            f" {method} does not read as it is set up; judge it with {by_rubric}, or leave"
            ' it out: fields={"rubric": "meta"}'
        )
    raise ConfigurationError(
        f"{info.name} has no rubrics; give each row its criteria in the field 'rubric', or leave"
        " out options={'checklist': 'rubric'}"
    )


class PromptMethod(TaskMethod, ABC):
    """A method for the aspects of one task; a subclass has `nodes`, the last of them `scores`.

    Attributes:
        models: One model, or models by role.
        options: How it was set up, with the defaults of the judge's profile.
        profile: How the judge is asked if it does not follow the papers' prompts.
        graph: From an `Assignment` to its scores.
        prompt_digest: Hex digits that change with the words that are sent apart from the examples'
            own.
    """

    name: ClassVar[str]
    """Name as the command line takes it."""
    prompt: ClassVar[str]
    """Prompt file, if the options name no other."""
    judge: ClassVar[str] = profiles.JUDGE
    """Role of the model whose profile counts."""
    Options: ClassVar[type[PromptOptions]] = PromptOptions
    """Type of its options."""
    shows_source: ClassVar[bool] = True
    """Whether the judge is shown the source; see `Traits`, also for the next."""
    shows_images: ClassVar[bool] = True
    """Whether the judge is shown the images of an example."""
    labels_prompt: ClassVar[str] = ""
    """Prompt file for aspects that have labels in place of a scale; empty if there is none."""
    asks_yes_or_no: ClassVar[bool] = False
    """Whether it asks a yes/no question, whose P(yes) is that of the second of two labels."""

    no_decisions: ClassVar[str] = ""
    """Why a decision model cannot be its judge, and what to take; empty if it can."""
    shows_references: ClassVar[bool] = True
    """Whether its prompts show what the task calls a reference."""
    reads_rubrics: bool = False
    """Whether it judges by the rubrics of the rows."""

    options: PromptOptions
    signature: str
    prompt_digest: str
    given: frozenset[str]
    """Names of the options that the user gave, whatever the profile's defaults are."""

    def __init__(self, models: Models, task: Task, options: Any = None) -> None:
        """Settle the options and put the graph together.

        Args:
            models: One model, or models by role.
            task: What is judged.
            options: Of the type `Options`; the defaults if not given.

        Raises:
            ConfigurationError: Options, profile, models and task do not go together.
        """
        self.models, self._task = models, task.with_members()
        if self.no_decisions and self.decides:
            judge = model_for(models, self.judge).name
            raise ConfigurationError(f"{judge!r} is a decision model: {self.no_decisions}")
        # kept before the profile's defaults are filled in, since only what the user gave may be
        # refused
        self.given = frozenset(() if options is None else options.model_fields_set)
        self.options, self.profile = profiles.apply_profile(
            options or self.Options(), self.name, models, self._task, self.judge
        )
        self._refuse_labels()
        self._refuse_references()
        # before the nodes, which share what it makes
        self.prepare()
        self.graph = Graph(self.name, input=Assignment, nodes=self.nodes(), output="scores")

    def _refuse_labels(self) -> None:
        """Raise if an aspect has labels, and the method or the judge's profile asks for ratings."""
        for aspect in self._task.aspects:
            if not aspect.labels:
                continue
            named = f"aspect {(aspect.member_of or aspect.name)!r} has labels, and"
            if self.asks_yes_or_no:
                if len(aspect.labels) > 2:
                    raise ConfigurationError(
                        f"{named} {self.name} asks yes or no, which fits two of them; use"
                        " llm-score, g-eval, jury or agent-judge"
                    )
                if aspect.question is None:
                    yes = list(aspect.labels)[1]
                    raise ConfigurationError(
                        f"{named} {self.name} asks a yes/no question about it: give the aspect a"
                        f" 'question' to which yes means {yes!r}"
                    )
            elif not self.labels_prompt:
                raise ConfigurationError(
                    f"{named} {self.name} gives ratings; use llm-score, g-eval, jury or agent-judge"
                )
            elif self.profile.digest:
                raise ConfigurationError(
                    f"{named} profile {self.profile.name!r} asks for ratings; use"
                    " options={'profile': 'none'}, or another model"
                )

    def _refuse_references(self) -> None:
        """Raise if the task shows references, and the method or the judge's profile does not."""
        if self._task.reference_name is None:
            return
        if not self.shows_references:
            raise ConfigurationError(
                f"task {self.task!r} shows references, and {self.name} does not show them as such;"
                " use llm-score, g-eval or checklist"
            )
        if self.profile.digest:
            raise ConfigurationError(
                f"task {self.task!r} shows references, and profile {self.profile.name!r} does not;"
                " use options={'profile': 'none'}, or another model"
            )

    def prepare(self) -> None:
        """Check the options and make what the nodes share; by default nothing."""

    def check_data(self, info: DataInfo) -> None:
        """Refuse rubrics that are not read, and data without what is.

        Raises:
            ConfigurationError: An example lacks the references that the task shows, none has a
                rubric to judge by, or some have rubrics that would go unread.
        """
        check_rubrics(self.name, info, are_read=self.reads_rubrics)
        lacking = info.count - info.present["references"]
        if self._task.reference_name is not None and lacking:
            if info.unit != "conversation":
                raise ConfigurationError(
                    f"task {self.task!r} shows references, and references are of a whole"
                    f" conversation: only its last turn has them, and the unit is {info.unit!r};"
                    f" judge conversations (unit='conversation'), or take a task"
                    " that shows no references, such as rag or conversation-turn"
                )
            raise ConfigurationError(
                f"task {self.task!r} shows references, and {lacking:,} of {info.count:,} examples"
                f" of {info.name} have none; give them in the field 'references'"
            )

    @property
    def decides(self) -> bool:
        """Whether the judge is a decision model, which is asked typed questions."""
        model = model_or_none(self.models, self.judge)
        return model is not None and model.capabilities.only_decides

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """Return the nodes of the graph, whose output is that of the node `scores`."""

    def ask(self, prompt: str | None = None, **fields: Any) -> Ask:
        """Return how the judge is asked: with its profile, in the layout of the options.

        Args:
            prompt: Built-in prompt, which the profile may replace; by default the method's own,
                which the options may replace.
            fields: Further fields of `Ask`, such as its sampling; layout and seed are the options'
                unless they are given.

        Raises:
            ConfigurationError: There is no model for the role.
        """
        own = self.options.prompt if prompt is None else None
        return Ask(
            model_for(self.models, self.judge),
            own or self.profile.prompt(prompt or self.prompt),
            self._task,
            **{
                "layout": self.options.prompt_layout,
                "seed": getattr(self.options, "seed", None),
                "required": self.options.explicit_sampling,
                "profile": self.profile,
                **fields,
            },
        )

    @property
    def traits(self) -> Traits:
        """What a run takes into account: the properties below, and `check_data`."""
        return replace(
            super().traits,
            shows_source=self.shows_source,
            shows_images=self.shows_images,
            most_calls=self.most_calls,
            chain=self.chain,
            probabilities=self.probabilities,
            signatures=self.signatures,
            check_data=self.check_data,
        )

    @property
    def most_calls(self) -> int | None:
        """Most requests for one score, if there may be fewer."""
        return None

    @property
    def chain(self) -> str | None:
        """How questions depend on each other's answers; see `Traits`."""
        return None

    @property
    def signatures(self) -> tuple[str, ...]:
        """Those that scores can carry."""
        if AUTO not in self.signature:
            return (self.signature,)
        model = model_for(self.models, self.judge)
        ways = possible_ways(model) if self.decides else ways_in_words(model)
        return tuple(way.sign(self.signature) for way in ways)

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """What is read, if the model decides on it."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return options, task, aspects and prompt digest."""
        return {
            "name": self.name,
            **self.describe_task(),
            "options": self.options.model_dump(mode="json"),
            "prompts": self.prompt_digest,
            "profile": (
                {"name": self.profile.name, "digest": self.profile.digest}
                if self.profile.digest
                else None
            ),
        }


class ScoringMethod(PromptMethod):
    """A method whose scores, or the parts they are made of, come from one scorer."""

    @property
    @abstractmethod
    def scorer(self) -> AspectScorer:
        """The judge."""

    @cached_property
    def prompt_digest(self) -> str:  # type: ignore[override]  # mypy takes it for read-only
        """Prompt digest of the judge."""
        return self.scorer.prompt_digest

    @property
    def how(self) -> How:
        """How the judge's values are obtained, as far as it is known."""
        return self.scorer.how_now

    @property
    def signature(self) -> str:  # type: ignore[override]  # mypy takes it for read-only
        """Signature of the judge, the same whatever is found out of its log-probabilities."""
        return self.scorer.signature_as("fused") if self.how == "fused" else self.scorer.signature

    @property
    def signatures(self) -> tuple[str, ...]:
        """Those that scores can carry."""
        return (self.signature,) if self.how == "fused" else self.scorer.signatures

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """What is read, if the model decides on it."""
        return self.scorer.reading


class RatingMethod(ScoringMethod):
    """A method whose scores, or the parts they are made of, are ratings by one `Scorer`.

    Attributes:
        scorer: The judge.
        how_read: How its values are obtained.
        variant: Anything else that its scores depend on, such as the tree of criteria.
    """

    Options: ClassVar[type[PromptOptions]] = RatingOptions
    """Type of its options: `RatingOptions` or a subclass."""
    max_tokens: ClassVar[int] = 512
    """Longest answer in tokens, if the options name no other."""
    structured: ClassVar[bool] = True
    """Whether to ask for JSON by a schema; see `Scorer`."""
    ends_in_rating: ClassVar[bool] = False
    """Whether its prompt ends right before the rating, so that a profile may read the probabilities
    of labels after it (`ratings = "choices"`)."""

    options: RatingOptions

    @property
    def how_read(self) -> RatingReading:
        """`text`, or `sampled` for `n` above 1; methods that read log-probabilities override it."""
        return self.options.how

    @property
    def variant(self) -> str:
        """Nothing; methods whose prompts depend on more than options and task override this."""
        return ""

    @cached_property
    def scorer(self) -> AspectScorer:
        """The method's judge."""
        return self.scorer_for(
            self.models, self._task, self.options, how=self.how_read, variant=self.variant
        )

    @classmethod
    def scorer_for(
        cls,
        models: Models,
        task: Task,
        options: RatingOptions,
        *,
        how: RatingReading | None = None,
        variant: str = "",
        prompt: str = "",
    ) -> AspectScorer:
        """Return the method's judge, or one with another prompt.

        Args:
            models: The models; the judge has the role `scorer`.
            task: What kind of text is judged.
            options: How it is asked.
            how: How a value is obtained; by default what the options say.
            variant: Anything else that scores depend on.
            prompt: Built-in prompt, which the profile may replace; by default the method's own,
                which the options may replace.

        Raises:
            ConfigurationError: There is no model for the role, or the options do not go together.
            CapabilityError: The model lacks what `how` needs.
        """
        model = model_for(models, "scorer")
        if model.capabilities.only_decides:
            names = ("n", "temperature", "seed", "form", "max_tokens")
            refuse_written(model, options, options.model_fields_set, names)
            ask = Ask(model, options.prompt or RATING_PROMPT, task)
            return QuestionScorer(ask, cls.name, variant=variant)
        profile = profiles.resolve(options.profile, models, "scorer")
        own = None if prompt else options.prompt
        ends_in_rating = cls.ends_in_rating and not prompt
        # several samples are asked for explicitly, and probabilities would make them pointless
        if profile.ratings == "choices" and options.n == 1:
            how = "logprob"
        ask = Ask(
            model,
            own or rating_prompt(profile, prompt or cls.prompt, ends_in_rating=ends_in_rating),
            task,
            layout=options.prompt_layout,
            n=options.n,
            temperature=options.effective_temperature,
            seed=options.seed,
            required=options.explicit_sampling,
            is_single=len(task.aspects) == 1 and options.n == 1,
            # the limit of the method rather than of the model: a judge that rambles is cut off
            # early
            max_tokens=options.max_tokens or cls.max_tokens,
            profile=profile,
        )
        return scorer_for(
            ask,
            method=cls.name,
            how=how or options.how,
            form=options.form,
            parse_retries=options.parse_retries,
            structured=cls.structured,
            labels_prompt="" if own or prompt else cls.labels_prompt,
            variant=variant,
        )
