"""What methods have in common that judge a task's aspects by prompts: what they tell of themselves, and their judge."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from textassay.agents.ask import Ask
from textassay.agents.label_scorer import scorer_for
from textassay.agents.profile import Profile
from textassay.agents.scorer import Reading, Scorer
from textassay.agents.task import Task
from textassay.methods.library import profiles
from textassay.methods.method import Models, Options, PromptOptions, TaskMethod, model_for
from textassay.runtime.messages import How


class PromptMethod(TaskMethod):
    """A method for the aspects of one task.

    Attributes:
        options: How it was set up.
        profile: How the judge is asked, where it does not follow the papers' prompts.
        prompt_digest: Hex digits that change with the words that are sent apart from the examples'
            own.
    """

    name: ClassVar[str]
    """Name as the command line takes it."""
    prompt: ClassVar[str]
    """Prompt file, where the options name no other."""

    options: PromptOptions
    profile: Profile
    prompt_digest: str

    def describe(self) -> dict[str, Any]:
        """Return options, task, aspects and prompt digest."""
        return {
            "name": self.name,
            **self.described_task(),
            "options": self.options.model_dump(mode="json"),
            "prompts": self.prompt_digest,
            "profile": {"name": self.profile.name, "digest": self.profile.digest}
            if self.profile.digest
            else None,
        }


class RatingMethod(PromptMethod):
    """A method whose scores, or the parts they are made of, are ratings by one `Scorer`.

    Attributes:
        scorer: The judge.
    """

    room: ClassVar[int]
    """Longest answer in tokens, where the options name no other."""
    structured: ClassVar[bool | None] = None
    """Whether to ask for JSON by a schema; see `Scorer`."""

    options: Options
    scorer: Scorer

    @classmethod
    def scorer_for(
        cls,
        models: Models,
        task: Task,
        options: Options,
        *,
        how: Reading | None = None,
        variant: str = "",
    ) -> Scorer:
        """Return the method's judge.

        Args:
            models: It has the role `scorer`.
            task: What kind of text is judged.
            options: How it is asked.
            how: How a value is obtained; by default what the options say.
            variant: What else tells scores apart.

        Raises:
            ConfigurationError: There is no model for the role, or the options do not go together.
            CapabilityError: The model lacks what `how` needs.
        """
        profile = profiles.of(options.profile, models, "scorer")
        if profile.ratings == "choices" and options.n == 1:
            how = "logprob"
        ask = Ask(
            model_for(models, "scorer"),
            options.prompt or profile.prompt(cls.prompt),
            task,
            layout=options.prompt_layout,
            n=options.n,
            temperature=options.effective_temperature,
            seed=options.seed,
            max_tokens=options.max_tokens or cls.room,
            profile=profile,
        )
        return scorer_for(
            ask,
            method=cls.name,
            how=how or options.how,
            form=options.form,
            parse_retries=options.parse_retries,
            structured=cls.structured,
            variant=variant,
        )

    @cached_property
    def prompt_digest(self) -> str:  # type: ignore[override]  # mypy takes it for read-only
        """The judge's."""
        return self.scorer.prompt_digest

    @property
    def how(self) -> How:
        """How the judge's values are obtained: `text`, `logprob`, or `sampled` for `n` above 1."""
        return self.scorer.how

    @property
    def signature(self) -> str:
        """The judge's, with how the scores are obtained."""
        return self.scorer.signature_as(self.how)
