"""Bases of the methods that judge a task's aspects by prompts.

`PromptMethod` is for any graph, `RatingMethod` for ratings; `answering.py` has bases for a single
yes/no question and for answers in any other form.
"""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from textassay.agents.ask import AUTO, Ask
from textassay.agents.prompt_template import Task
from textassay.agents.scorer import AspectScorer, LabelScorer, RatingReading, Scorer
from textassay.agents.typed_questions import QuestionScorer, joint_aspects
from textassay.methods.library import profiles
from textassay.methods.library.profiles import rating_prompt
from textassay.methods.method import (
    Models,
    PromptOptions,
    RatingOptions,
    SamplingOptions,
    TaskMethod,
    judges_of,
    model_for,
)
from textassay.runtime.calls.deciding import answers_in_words, possible_ways, ways_in_words
from textassay.runtime.calls.logprobs_or_samples import LogprobsOrSamples
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import Assignment, How
from textassay.runtime.model import Model
from textassay.tools.tool import Tool

if TYPE_CHECKING:
    from textassay.agents.questions import Answerer

PER_ASPECT: dict[str, Any] = {"example": "input.example", "aspect": each("input.aspects")}
"""Wires of a node that works on one example and one aspect at a time."""
ALL_ASPECTS = {"example": "input.example", "aspects": "input.aspects"}
"""Wires of a node that works on one example and all aspects at once."""

_log = logging.getLogger(__name__)


def ask_to_write(
    models: Models,
    role: str,
    prompt: str,
    task: Task,
    options: PromptOptions,
    *,
    what: str,
    instead: str,
    **fields: Any,
) -> Ask:
    """Return the `Ask` for a model that writes a text for the judge, such as a plan.

    Args:
        models: The models by role.
        role: Role of the writer.
        prompt: Prompt file.
        task: The kind of text.
        options: Options of the method.
        what: Name of the written text, for errors; empty if there will be no request.
        instead: Advice for a model that cannot write.
        fields: Further fields of `Ask`.

    Raises:
        ConfigurationError: The role has no model, or its model cannot write.
    """
    model = model_for(models, role)
    if what:
        if model.capabilities.only_decides:
            raise ConfigurationError(
                f"{model.name!r} is a decision model, which writes no text, so that it cannot write"
                f" {what}: {instead}, or have a chat model write (model={{{role!r}: NAME}})"
            )
        profiles.require_generation(what, instead, options.profile, models, role)
    return Ask(model, prompt, task, required=options.explicit_sampling, **fields)


def check_rubrics(method: str, info: DataInfo, *, are_read: bool) -> None:
    """Refuse rubrics if the method does not read them, and data without rubrics if it does.

    Other methods, such as the user's own graphs, see the whole example.
    """
    if are_read == bool(info.rubrics):
        return
    by_rubric = "method='checklist' options={'checklist': 'rubric'}"
    if info.rubrics:
        raise ConfigurationError(
            f"{info.rubrics:,} of {info.count:,} examples of {info.name} have a rubric, which"
            f" {method} does not read with these options; judge it with {by_rubric}, or leave"
            ' it out: fields={"rubric": "meta"}'
        )
    raise ConfigurationError(
        f"{info.name} has no rubrics; give each row its criteria in the field 'rubric', or leave"
        " out options={'checklist': 'rubric'}"
    )


class PromptMethod(TaskMethod, ABC):
    """A method for the aspects of one task.

    A subclass has a `name`, a `prompt` and `nodes`, the last of them `scores`. The signature
    follows from the requests that `ask` prepares and from the options, unless `sign` is called.
    """

    name: ClassVar[str]
    """Name on the command line."""
    prompt: ClassVar[str]
    """Prompt file, if the options name no other."""
    judge: ClassVar[str] = profiles.JUDGE
    """Role of the model whose profile is used."""
    Options: ClassVar[type[PromptOptions]] = PromptOptions
    """Type of its options."""
    labels_prompt: ClassVar[str] = ""
    """Prompt file for aspects that have labels in place of a scale; may be empty."""
    asks_yes_or_no: ClassVar[bool] = False
    """Whether it asks a yes/no question, so that P(yes) is the second label's probability."""
    typed_profiles: ClassVar[tuple[str, ...]] = (profiles.TYPED,)
    """Profiles with which a chat model gets all questions about a text together."""
    no_decisions: ClassVar[str] = ""
    """Why a decision model cannot be its judge, and what to use instead; empty if it can."""
    shows_references: ClassVar[bool] = True
    """Whether its prompts show references, if the task has a name for them."""
    reads_rubrics: bool = False
    """Whether it judges by the rubrics of the rows."""
    compares_pairs: ClassVar[bool] = False
    """Whether its prompts show the second text of a pair."""
    has_writer: bool = False
    """Whether `seed` and `parse_retries` also apply to what another role writes, such as a tree."""
    answerer: Answerer | None = None
    """Answers its yes/no questions, if it reads their probabilities."""

    options: PromptOptions
    """The options, with the defaults of the judge's profile."""
    user_set: frozenset[str]
    """Names of the options that the user gave, without the profile's defaults."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" not in vars(cls):  # a base of methods
            return
        members = {name: getattr(cls, name, None) for name in dir(cls)}
        lacks = [n for n, value in members.items() if getattr(value, "__isabstractmethod__", False)]
        for base in cls.__mro__:  # class variables that a base declares without a value
            declared = inspect.get_annotations(base).items()
            lacks += [n for n, of in declared if "ClassVar" in str(of) and n not in members]
        if lacks:
            raise TypeError(f"the method {cls.name!r} is incomplete: define {', '.join(lacks)}")

    def __init__(
        self, models: Models, task: Task, options: Any = None, *, tools: Sequence[Tool] = ()
    ) -> None:
        """Complete the options and build the graph.

        Args:
            models: One model, or models by role.
            task: The kind of text.
            options: Options of the type `Options`; the defaults if not given.
            tools: Assistant evaluators, for classes with `default_tools`.

        Raises:
            ConfigurationError: Options, profile, models and task do not fit together.
        """
        options = options or self.Options()
        if options.profile in self.typed_profiles:
            retries = getattr(options, "parse_retries", 1)
            models = profiles.with_typed_judge(models, self.judge, retries)
        self.models, self._task, self.tools = models, task.with_members(), tuple(tools)
        self._asks: list[Ask] = []
        if self.no_decisions and self.decides:
            judge = model_for(models, self.judge)
            why = "asked with profile=typed" if answers_in_words(judge) else "a decision model"
            raise ConfigurationError(f"{judge.name!r} is {why}: {self.no_decisions}")
        # before the profile's defaults are filled in, since only the user's options are refused
        self.user_set = frozenset(options.model_fields_set)
        self.options, self.profile = profiles.apply_profile(
            options, self.name, models, self._task, self.judge
        )
        self._check_labels()
        self._check_references()
        self.prepare()
        self._check_sampling()
        self.graph = Graph(self.name, input=Assignment, nodes=self.nodes(), output="scores")

    def _check_labels(self) -> None:
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
                if not aspect.question:
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

    def _check_references(self) -> None:
        """Raise if the task has references that the method or the profile does not show."""
        if not self._task.reference_name:
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

    def _check_sampling(self) -> None:
        """Refuse options for written answers if all judges get typed questions."""
        judges = self.judges
        if not judges or not all(judge.capabilities.only_decides for judge in judges):
            return
        used = {*PromptOptions.model_fields, *(["seed", "parse_retries"] * self.has_writer)}
        if any(map(answers_in_words, judges)):  # a JSON object, requested again at temperature 0
            used.add("parse_retries")
        self.check_written_unset(*(name for name in RatingOptions.model_fields if name not in used))

    def prepare(self) -> None:
        """Check the options and make the objects that nodes share; by default nothing."""

    def check_data(self, info: DataInfo) -> None:
        """Refuse unread rubrics, and data without required rubrics or references.

        Raises:
            ConfigurationError: An example lacks the references that the task shows, none has a
                rubric to judge by, or some have rubrics that would go unread.
        """
        check_rubrics(self.name, info, are_read=self.reads_rubrics)
        if info.compared and not self.compares_pairs:
            _log.warning(
                "%d of %d examples are pairs, and %s judges the first text alone; pairwise is the"
                " method that compares both",
                info.compared, info.count, self.name,
            )  # fmt: skip
        lacking = info.count - info.present["references"]
        if self._task.reference_name and lacking:
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
    def judges(self) -> tuple[Model, ...]:
        """The models that judge; empty if only tools do."""
        return tuple(judges_of(self.models, self.judge).values())

    @property
    def decides(self) -> bool:
        """Whether the judge gets typed questions, as a decision model, or with profile=typed."""
        return any(judge.capabilities.only_decides for judge in self.judges)

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """Return the nodes of the graph, whose output is the output of the node `scores`."""

    def ask(self, prompt: str = "", **fields: Any) -> Ask:
        """Return the `Ask` for the judge, with its profile and in the layout of the options.

        Args:
            prompt: Built-in prompt, which the profile may replace; by default the method's own,
                which the options may replace.
            fields: Further fields of `Ask`, such as its sampling; layout and seed are the options'
                unless they are given.

        Raises:
            ConfigurationError: There is no model for the role.
        """
        users = "" if prompt else self.options.prompt
        fields = {
            "layout": self.options.prompt_layout,
            "seed": getattr(self.options, "seed", None),
            "required": self.options.explicit_sampling,
            "profile": self.profile,
        } | fields
        words = users or self.profile.prompt(prompt or self.prompt)
        ask = Ask(model_for(self.models, self.judge), words, self._task, **fields)
        self._asks.append(ask)
        return ask

    def ask_yes_or_no(self, prompt: str = "", **fields: Any) -> Ask:
        """Return the `Ask` for yes/no questions, see `ask`; a decision model gets them typed."""
        if self.decides:
            return self.ask("typed_yes_no", layout="shared-prefix")
        return self.ask(prompt, **fields)

    def check_written_unset(self, *names: str) -> None:
        """Refuse options for written answers, for judges that get typed questions."""
        why = f"{self.judges[0].name!r} answers typed questions, and writes no other answers"
        self.check_unset(why, *names)

    def check_unset(self, why: str, *names: str) -> None:
        """Refuse options that the user gave and that have no effect, for this reason.

        A report would show them as settings that were used.
        """
        for name in names:
            if name in self.user_set:
                raise ConfigurationError(
                    f"{name}={getattr(self.options, name)} has no effect: {why}; leave it out"
                )

    def require_writing(self, what: str, instead: str) -> None:
        """Refuse a judge whose profile says that it cannot write, see `require_generation`."""
        profiles.require_generation(what, instead, self.options.profile, self.models, self.judge)

    @property
    def variant(self) -> object:
        """Further facts that distinguish scores, such as the tree of criteria; by default empty."""
        return ""

    @cached_property
    def prompt_digest(self) -> str:
        """Hex digits that change with the words of prompts and task, not with examples."""
        if not self._asks:
            raise TypeError(f"the method {self.name!r} prepares no request by `ask`: call `sign`")
        first, *others = self._asks
        also = tuple(ask.prompt for ask in others)
        return first.digest(first.layout, self._task.digest, self.variant, also=also)

    @cached_property
    def signature(self) -> str:
        """Signature of its scores: method, model, words, options and version."""
        digest, ask = self.prompt_digest, self._asks[0]
        shared = {*PromptOptions.model_fields, *SamplingOptions.model_fields}
        changed = self.options.model_dump(mode="json", exclude=shared, exclude_defaults=True)
        how = "auto" if self.answerer else self.how
        facts = {"how": how, "joint": joint_aspects(ask), **ask.sampling}
        for name, value in changed.items():
            facts[f"option-{name}" if name in facts else name] = str(value)
        return ask.signature(self.name, digest, **facts)

    def sign(
        self, ask: Ask, words: Iterable[object], /, *, also: tuple[str, ...] = (), **facts: object
    ) -> None:
        """Set the digest of the prompts and the signature.

        Args:
            ask: The main request.
            words: Further parts of the digest, besides the prompt, such as the task's digest.
            also: Further prompts.
            facts: Facts in the signature, see `Ask.signature`.
        """
        self.prompt_digest = ask.digest(*words, also=also)
        facts["joint"] = joint_aspects(ask)
        self.signature = ask.signature(self.name, self.prompt_digest, **facts)

    @property
    def how(self) -> How:
        """How scores are obtained, if known."""
        if self.answerer:
            return self.answerer.how
        return possible_ways(self.judges[0])[0].how if self.decides else "text"

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures that scores can carry."""
        if AUTO not in self.signature:
            return (self.signature,)
        model = model_for(self.models, self.judge)
        ways = possible_ways(model) if self.decides else ways_in_words(model)
        return tuple(way.sign(self.signature) for way in ways)

    @property
    def judges_jointly(self) -> bool:
        """Whether its questions may influence each other."""
        deciding = (judge for judge in self.judges if judge.capabilities.only_decides)
        return any(way.joint for judge in deciding for way in possible_ways(judge))

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """The choice between log-probabilities and samples, if the first answer decides it."""
        return self.answerer.probabilities if self.answerer else None

    def describe(self) -> dict[str, Any]:
        """Return options, task, aspects and prompt digest."""
        tools = [{"name": tool.name, "signature": tool.signature} for tool in self.tools]
        return {
            "name": self.name,
            **self.describe_task(),
            **({"tools": tools} if hasattr(self, "default_tools") else {}),
            "options": self.options.model_dump(mode="json"),
            "prompts": self.prompt_digest,
            "profile": self.profile.model_dump(include={"name", "digest"})
            if self.profile.digest
            else None,
        }


class ScoringMethod(PromptMethod):
    """A method whose scores, or their parts, come from one scorer."""

    @property
    @abstractmethod
    def scorer(self) -> AspectScorer:
        """The judge."""

    def nodes(self) -> Sequence[Node]:
        if isinstance(self.scorer, QuestionScorer):  # one request, and one call
            return [Node("scores", self.scorer.score_all, **ALL_ASPECTS)]
        return [Node("scores", self.scorer, **PER_ASPECT)]

    @cached_property
    def prompt_digest(self) -> str:
        return self.scorer.prompt_digest

    @property
    def how(self) -> How:
        return self.scorer.how_now

    @cached_property
    def signature(self) -> str:
        """Signature of the judge, which does not change with the first answer."""
        return self.scorer.signature_as("fused") if self.how == "fused" else self.scorer.signature

    @property
    def signatures(self) -> tuple[str, ...]:
        return (self.signature,) if self.how == "fused" else self.scorer.signatures

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        return self.scorer.probabilities


class RatingMethod(ScoringMethod):
    """A method whose scores, or their parts, are ratings by one `Scorer`."""

    Options: ClassVar[type[PromptOptions]] = RatingOptions
    """Type of its options: `RatingOptions` or a subclass."""
    max_tokens: ClassVar[int] = 512
    """Longest answer in tokens by default."""
    structured: ClassVar[bool] = True
    """Whether answers may be requested as JSON by a schema; see `Scorer`."""
    ends_in_rating: ClassVar[bool] = False
    """Whether its prompt ends right before the rating, so that a profile may read the probabilities
    of labels after it (`ratings = "choices"`)."""

    options: RatingOptions

    @property
    def how_read(self) -> RatingReading:
        """`text`, or `sampled` for `n` above 1; methods with log-probabilities override it."""
        return self.options.how

    @cached_property
    def scorer(self) -> AspectScorer:
        variant = str(self.variant)
        return self.scorer_for(
            self.models, self._task, self.options, how=self.how_read, variant=variant
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
            task: The kind of text.
            options: Options of the judge.
            how: How a value is obtained; by default according to the options.
            variant: Further facts that distinguish scores.
            prompt: Built-in prompt, which the profile may replace; by default the method's own,
                which the options may replace.

        Raises:
            ConfigurationError: There is no model for the role, or the options do not go together.
            CapabilityError: The model lacks what `how` needs.
        """
        model = model_for(models, "scorer")
        if model.capabilities.only_decides:
            ask = Ask(model, options.prompt or "typed_rating", task)
            return QuestionScorer(ask, cls.name, variant=variant)
        profile = profiles.resolve(options.profile, models, "scorer")
        custom = None if prompt else options.prompt
        ends_in_rating = cls.ends_in_rating and not prompt
        # several samples were requested explicitly, and probabilities would make them pointless
        if profile.ratings == "choices" and options.n == 1:
            how = "logprob"
        ask = Ask(
            model,
            custom or rating_prompt(profile, prompt or cls.prompt, ends_in_rating=ends_in_rating),
            task,
            layout=options.prompt_layout,
            n=options.n,
            temperature=options.effective_temperature,
            seed=options.seed,
            required=options.explicit_sampling,
            is_single=len(task.aspects) == 1 and options.n == 1,
            # the method's limit rather than the model's, which may cut long answers off
            max_tokens=options.max_tokens or cls.max_tokens,
            profile=profile,
        )
        kind = LabelScorer if profile.ratings == "choices" else Scorer
        return kind(
            ask,
            method=cls.name,
            how=how or options.how,
            form=options.form,
            parse_retries=options.parse_retries,
            structured=cls.structured,
            labels_prompt="" if custom or prompt else cls.labels_prompt,
            variant=variant,
        )
