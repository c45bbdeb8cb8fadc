"""The likelihood of a text under a model (GPTScore): the prompts before the text, and the score.

The words of GPTScore's tables (aspects in sentences; templates, directions and questions by kind of
task) fill the template T(d, a, S) for an example and an aspect. An aspect that is not in the table,
or whose definition differs from the table's, is described by its definition. The score is the sum
over tokens of w_t log p(h_t | h_<t, T) (section 3.2).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, cast

from pydantic import Field, model_validator

from textassay.agents.aggregation import EMPTY, common_fields
from textassay.agents.prompt_template import PromptTemplate, Task, fence_texts, plain_texts
from textassay.runtime.base import NO_USAGE, Json, Message, ScoreError, Usage
from textassay.runtime.calls.wording import join_or
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect, Example, Score
from textassay.runtime.model import ContinuationRequest, ContinuationResponse, Model, scoring
from textassay.tools.tool import premise, references


class Quality(Message):
    """One aspect in the words of prompts."""

    code: str = ""
    """Three letters, as GPTScore's tables have it."""
    name: str = Field(min_length=1)
    """The aspect's name."""
    definition: str
    """The aspect's definition."""
    tasks: tuple[str, ...] = ()
    """Kinds of task for which the paper uses it."""
    adjective: str = ""
    """Words before the noun: `fluent and grammatical`."""
    clause: str = ""
    """Words after `that`, without an adjective: `covers the content of the reference`."""
    question: str = ""
    """The boolean question about a conversation."""
    quoted: bool = False
    """Whether the question is the paper's."""
    ours: bool = False
    """Whether the definition is ours rather than the paper's."""
    also: tuple[str, ...] = ()
    """Other names of the aspect."""
    needs_context: bool = False
    """Whether the question is about the example's `context`."""

    @property
    def names(self) -> set[str]:
        """All names in lower case."""
        return {name.casefold() for name in (self.code, self.name, *self.also) if name}


class Qualities(Message):
    """Aspects in the words of prompts."""

    aspects: tuple[Quality, ...]
    """Qualities with distinct names."""
    definitions: frozenset[str] = frozenset()
    """Further definitions for which these words may be used."""

    def find(self, name: str) -> Quality | None:
        """Return the quality of this name, if there is one."""
        folded = name.casefold()
        return next((quality for quality in self.aspects if folded in quality.names), None)

    def of(self, aspect: Aspect) -> Quality:
        """Return the quality for an aspect; an unknown definition becomes its description."""
        quality = self.find(aspect.name)
        # an aspect of a known name with a definition of its own means something else: published
        # words about that name would not ask for it
        if quality and aspect.definition in {quality.definition, *self.definitions}:
            return quality
        return describe(aspect)

    def select(self, names: Iterable[str], aspects: Sequence[Aspect]) -> tuple[Quality, ...]:
        """Return the qualities with these names, or of the given aspects with these names."""
        by_name = {aspect.name.casefold(): self.of(aspect) for aspect in aspects}
        qualities = []
        for name in names:
            quality = by_name.get(name.casefold()) or self.find(name)
            if not quality:
                names_known = [*by_name, *(quality.name for quality in self.aspects)]
                raise UnknownName("aspect to combine", name, names_known)
            qualities.append(quality)
        return tuple(qualities)


def describe(aspect: Aspect) -> Quality:
    """Return the quality of an aspect that is not in the table, in the direction of its scale."""
    meaning = " ".join(aspect.definition.split()).rstrip(".")
    does = "does well in" if aspect.higher_is_better else "shows much"
    clause = f"{does} {aspect.name} ({meaning})"
    return Quality(name=aspect.name, definition=aspect.definition, clause=clause)


def object_of(noun: str, target: Quality, others: Sequence[Quality] = ()) -> str:
    """Return the object of a question: `an interesting response that is specific`."""
    first = f"{target.adjective} {noun}" if target.adjective else noun
    clauses = [] if target.adjective else [target.clause or f"is good in {target.name}"]
    adjectives = [other.adjective for other in others if other.adjective]
    if adjectives:
        clauses.append(f"is {join_or(adjectives, 'and')}")
    clauses += [other.clause for other in others if not other.adjective and other.clause]
    article = "an" if first[0].lower() in "aeiou" else "a"
    return f"{article} {first}" + (f" that {' and '.join(clauses)}" if clauses else "")


Direction = Literal["src-hypo", "ref-hypo", "hypo-ref"]
"""Which text is scored given which: `src-hypo` is p(hypothesis | source)."""
OverReferences = Literal["mean", "max", "harmonic"]
"""How the values under several references are combined."""


class Wording(Message):
    """The words of prompts in one direction."""

    instruction: str = ""
    """Words before the text, with `{object}`."""
    afterwards: str = ""
    """The words after the text, if they differ."""
    cue: str
    """Words between the given text and the scored one."""
    between: str = "\n\n"
    """Separator of demonstrations, also between the last one and the text."""
    prompts: dict[str, str] = {}
    """Published prompts by aspect, word for word, with `{given}` and `{scored}`; they replace
    `instruction`."""
    printed: dict[str, str] = {}
    """The prompt as printed, if the authors ran another; for the profile `paper`."""

    @model_validator(mode="after")
    def _has_places(self) -> Wording:
        for prompt in (*self.prompts.values(), *self.printed.values()):
            if not prompt.endswith("{scored}") or prompt.count("{given}") != 1:
                raise ValueError(f"{prompt!r} needs {{given}} once and ends in {{scored}}")
        return self

    def split_published(self, aspect: str, printed: bool = False) -> tuple[str, str] | None:
        """Return a published prompt's parts before and after the given text, if there is one."""
        prompt = (self.printed if printed else {}).get(aspect) or self.prompts.get(aspect)
        if not prompt:
            return None
        before, _, cue = prompt.removesuffix("{scored}").partition("{given}")
        return before, cue


class Directed(Message):
    """The default direction of an aspect."""

    direction: Direction
    by: str = ""
    """The source of the choice, and its reason."""
    note: str = ""
    """Arguments against it."""


class TaskWords(Message):
    """The words of prompts for a kind of task."""

    like: str = ""
    """Another task whose words are used."""
    noun: str = "text"
    """Name of the output."""
    own_questions: bool = True
    """Whether the boolean question is an aspect's own, in the task's file, rather than the question
    of GPTScore's table of aspects."""
    over_references: OverReferences = "mean"
    """How several references are combined by default."""
    question: str = ""
    """Words before a boolean question."""
    templates: dict[Direction, Wording] = {}
    """Wordings by direction."""
    directions: dict[str, Directed] = {}
    """Directions by aspect."""

    @model_validator(mode="before")
    @classmethod
    def _both_directions(cls, content: Any) -> Any:
        """Use a template named `ref-both` for both directions between hypothesis and reference."""
        templates = dict(content.get("templates", {})) if isinstance(content, dict) else {}
        both = templates.pop("ref-both", None)
        if not both:
            return content
        return {**content, "templates": {"ref-hypo": both, "hypo-ref": both, **templates}}


class Protocols(Message):
    """GPTScore's words for all tasks."""

    tasks: dict[str, TaskWords] = {}
    default: TaskWords
    """Words for other tasks, and for gaps in a task's own table."""
    conversation: str = ""
    """Words before a boolean question about a conversation."""

    def of(self, task: Task) -> TaskWords:
        """Return the words for a task."""
        words = self.tasks.get(task.name)
        if words and words.like:
            words = self.tasks.get(words.like)
        question = self.conversation if task.asks else self.default.question
        if not words:
            noun = task.output_name.lower()
            return self.default.model_copy(update={"noun": noun, "question": question})
        templates = self.default.templates | words.templates
        update = {"templates": templates, "question": words.question or question}
        return words.model_copy(update=update)


Directions = Literal["default", "src-hypo", "ref-hypo", "hypo-ref", "ref-both", "harmonic"]
"""A direction; the one of the table (`default`); or the mean (`ref-both`, as in BARTScore) or the
harmonic mean of both directions between hypothesis and reference."""
Scored = Literal["output", "yes"]
"""The text itself, or the `Yes` that answers a boolean question about it."""


class ScoredText(Message):
    """A text to score, and the prompt before it."""

    direction: str
    """A direction, or `question`."""
    question: str = ""
    """The instruction or question in the prompt."""
    prompt: str
    """The text before the scored one."""
    scored: str = Field(min_length=1)
    """The scored text, with the space before it."""
    alone: str | None = None
    """The prompt without the given text, if the unconditional probability is subtracted."""
    reference: int | None = None
    """Index of the reference, from 0, among the references that are not blank."""
    source: str | None = None
    """The part of the prompt that may be cut at its end if it does not fit a local model."""


class Passages(Message):
    """All passages behind one score."""

    items: tuple[ScoredText, ...] = ()
    missing: ScoreError | None = None
    """Why there are no passages."""


@dataclass(frozen=True)
class PassageWriter:
    """Fills the template for an example and an aspect."""

    template: PromptTemplate
    """The prompt file."""
    words: TaskWords
    """The words of this task's prompts."""
    qualities: Qualities
    """Aspects in words."""
    direction: Directions = "default"
    """Which text is scored given which."""
    scored: Scored = "output"
    """Whether the text itself is scored or the answer to a question about it."""
    instruct: bool = True
    """Whether the prompt describes task and aspect."""
    combined: tuple[Quality, ...] = ()
    """Aspects whose definitions are added to the judged aspect's."""
    demonstrations: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)
    """Demonstrations in the prompt, by aspect id; they are not judged."""
    alone: bool = False
    """Whether to request the text's unconditional probability as well."""

    @property
    def printed(self) -> bool:
        """Whether prompts are sent byte by byte as a paper prints them."""
        return self.template.profile.printed

    async def __call__(self, example: Example, aspect: Aspect) -> Passages:
        """Return the passages, or the reason why there are none.

        Raises:
            ConfigurationError: A demonstration lacks a text that this aspect needs.
        """
        # the prompt contains its answer, so its likelihood would be meaningless
        if any(_same(example, demonstration) for demonstration in self._demonstrations(aspect)):
            message = "this example is shown as a demonstration, so it is not judged"
            return Passages(missing=ScoreError(type="Demonstration", message=message))
        example = self.template.prepare(example)
        if not example.output.strip():
            return Passages(missing=EMPTY)
        quality = self.qualities.of(aspect)
        if self.scored == "yes":
            return self._question(example, aspect, quality)
        directions = self._directions(aspect)
        pairs = [pair for direction in directions for pair in self._pairs(example, direction)]
        if not pairs:
            return _missing("references" if "src-hypo" not in directions else "source")
        return Passages(items=tuple(self._passage(pair, aspect, quality) for pair in pairs))

    def _directions(self, aspect: Aspect) -> tuple[Direction, ...]:
        if self.direction in ("ref-both", "harmonic"):
            return ("ref-hypo", "hypo-ref")
        if self.direction != "default":
            return (cast(Direction, self.direction),)
        if self.template.takes_plain_texts and not self.printed:
            # the table's directions belong to the paper's words, not to a profile's
            return ("src-hypo",)
        published = self.words.directions.get(self.qualities.of(aspect).name)
        return (published.direction if published else "src-hypo",)

    def _pairs(self, example: Example, direction: Direction) -> list[_Pair]:
        output = example.output.strip()
        if direction == "src-hypo":
            if not (condition := premise(example)):
                return []
            texts = plain_texts(example, ("source", "context"))
            return [_Pair(direction, condition, output, texts=texts)]
        numbered = enumerate(text.strip() for text in references(example))
        if direction == "ref-hypo":
            return [_Pair(direction, text, output, n, {"source": text}) for n, text in numbered]
        return [_Pair(direction, output, text, n, {"source": output}) for n, text in numbered]

    def _passage(self, pair: _Pair, aspect: Aspect, quality: Quality) -> ScoredText:
        wording = self.words.templates[pair.direction]
        instruction, lead, cue = self._wording(wording, quality)
        values: dict[str, Any] = {
            "instruction": instruction,
            "lead": lead,
            "cue": cue.rstrip(" "),
            "separator": cue[len(cue.rstrip(" ")) :] if self.printed else " ",
            "between": wording.between,
            "demonstrations": self._demonstration_pairs(aspect, pair.direction),
        }
        render = self.template.render_text
        bare = self.template.takes_plain_texts and "source" in pair.texts
        source = pair.texts["source"] if bare else pair.condition
        return ScoredText(
            direction=pair.direction,
            question=instruction,
            prompt=render(pair.texts, given=pair.condition, **values),
            scored=f"{values['separator']}{pair.scored}",
            # the same words around an empty text, for the likelihood of the scored text itself
            alone=render({}, given="", **values) if self.alone else None,
            reference=pair.reference,
            source=source if pair.direction == "src-hypo" else None,
        )

    def _wording(self, wording: Wording, quality: Quality) -> tuple[str, str, str]:
        """Return the instruction, the instruction up to the given text, and the cue."""
        others = tuple(other for other in self.combined if other.name != quality.name)
        object_ = object_of(self.words.noun, quality, others)
        # a user's own definition has no published words
        has_words = quality in self.qualities.aspects
        published = wording.split_published(quality.name, self.printed) if has_words else None
        cue = published[1] if published else wording.cue
        if not self.instruct:
            return "", "", cue
        if self.template.layout != "paper":
            return wording.afterwards.replace("{object}", object_), "", cue
        # a published prompt is about one aspect; with others combined, the instruction is new
        if not published or others:
            instruction = wording.instruction.replace("{object}", object_)
            return instruction, f"{instruction} ", cue
        return published[0].strip(), published[0], cue

    def _demonstration_pairs(self, aspect: Aspect, direction: Direction) -> list[dict[str, Any]]:
        pairs_shown: list[dict[str, Any]] = []
        for demonstration in self._demonstrations(aspect):
            pairs = self._pairs(self.template.prepare(demonstration), direction)
            if not pairs:
                need = "source" if direction == "src-hypo" else "reference"
                raise ConfigurationError(
                    f"demonstration {demonstration.id!r} has no {need}, which {direction} needs"
                )
            pair = pairs[0]
            pairs_shown.append({"given": pair.condition, "scored": pair.scored, "bare": pair.texts})
        return pairs_shown

    def _demonstrations(self, aspect: Aspect) -> tuple[Example, ...]:
        return self.demonstrations.get(aspect.id, ())

    def _question(self, example: Example, aspect: Aspect, quality: Quality) -> Passages:
        asks = self.template.task.asks
        # a question about a response needs its conversation
        if asks == "response" and not (example.source or "").strip():
            return _missing("source")
        if quality.needs_context and not (example.context or "").strip():
            return _missing("context")
        own_words = self.template.takes_plain_texts and not self.printed
        question = self._question_text(aspect, quality) if self.instruct or own_words else ""
        demonstrations = []
        for demonstration in self._demonstrations(aspect):
            prepared = self.template.prepare(demonstration)
            text = self._question_prompt(prepared, quality, question, [])
            answer = self.template.profile.prepare_text(
                _demonstration_answer(demonstration, aspect)
            )
            demonstrations.append({"text": text, "scored": f"{answer}."})
        passage = ScoredText(
            direction="question",
            question=question,
            prompt=self._question_prompt(example, quality, question, demonstrations),
            scored=f" {self.template.profile.prepare_text('Yes')}",
            source=(example.source or "").strip() or None,
        )
        return Passages(items=(passage,))

    def _question_text(self, aspect: Aspect, quality: Quality) -> str:
        """Return the paper's boolean question (dialogue), the aspect's own, or a template's."""
        others = tuple(other for other in self.combined if other.name != quality.name)
        asks = self.template.task.asks
        if not others:
            if asks and self.words.own_questions and aspect.question:
                return aspect.question
            if asks and quality.question:
                return quality.question
            if asks and quality.adjective:
                return f"Are the responses of AI {quality.adjective}?"
            if aspect.question:
                return aspect.question
        return f"Is this {object_of(self.words.noun, quality, others)}?"

    def _question_prompt(
        self,
        example: Example,
        quality: Quality,
        question: str,
        demonstrations: list[dict[str, str]],
    ) -> str:
        if self.template.task.asks:
            parts = [("conversation", "Conversation", self._conversation(example))]
            parts += [("context", "Fact", example.context or "")] if quality.needs_context else []
        else:
            task = self.template.task
            by_part = {"source": example.source or "", "context": example.context or ""}
            labels = {"source": task.source_name, "context": task.context_name}
            parts = [(part, labels[part], text) for part, text in by_part.items() if text.strip()]
            parts.append(("output", task.output_name, example.output))
        bare = [{"label": label, "text": text.strip()} for _, label, text in parts]
        return self.template.render_text(
            plain_texts(example),
            instruction=self.words.question if self.instruct else "",
            question=question,
            texts=bare if self.printed else fence_texts(parts),
            demonstrations=demonstrations,
        )

    def _conversation(self, example: Example) -> str:
        """Return the conversation for a question.

        A judged response is its last turn, by the speaker it names, else by `AI`.
        """
        source, output = (example.source or "").strip(), example.output.strip()
        if self.template.task.asks == "conversation":
            return output
        # "User: hello" at the beginning of a line
        speaker = re.compile(r"(?m)^[ \t]*([^\W\d_][\w ]{0,20}):")
        opening = speaker.match(output)
        # a label counts only if a turn of the conversation has it: "Note: ..." may begin an answer
        named = opening and opening[1] in speaker.findall(source)
        return f"{source}\n{output if named else f'AI: {output}'}"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A given text and a scored one."""

    direction: Direction
    condition: str
    scored: str
    reference: int | None = None
    texts: dict[str, str] = field(default_factory=dict)


def _same(example: Example, other: Example) -> bool:
    return example.output == other.output and (
        example.source == other.source or example.id == other.id
    )


def _demonstration_answer(demonstration: Example, aspect: Aspect) -> str:
    answers = demonstration.meta.get("answers")
    answer = str(answers.get(aspect.name, "") if isinstance(answers, Mapping) else "").casefold()
    if answer not in ("yes", "no"):
        raise ConfigurationError(
            f"demonstration {demonstration.id!r} does not say how the question on {aspect.name} is"
            " answered; a line of "
            f'the file needs "answers": {{"{aspect.name}": "yes"}} (or "no")'
        )
    return answer.capitalize()


def _missing(part: str) -> Passages:
    article = "" if part == "references" else "a "
    hint = "; direction=src-hypo scores it given its source" if part == "references" else ""
    message = f"the text is scored given {article}{part}, which this example does not have{hint}"
    return Passages(missing=ScoreError(type=f"Missing{part.capitalize()}", message=message))


TokenWeights = Literal["mean", "sum"]
"""The weight of every token is 1/m, m being their number, or 1."""


class Likelihood(Message):
    """The likelihood of a scored text."""

    passage: ScoredText
    given: ContinuationResponse
    """The tokens of the text with their probabilities after the prompt."""
    alone: ContinuationResponse | None = None
    """The tokens after the prompt without the given text, if requested."""

    @property
    def usage(self) -> Usage:
        """Cost of both answers."""
        return self.given.usage + (self.alone.usage if self.alone else NO_USAGE)

    def value(self, weights: TokenWeights, normalized: bool = False) -> float:
        """Return the weighted sum of log-probabilities, minus the unconditional one if it is known.

        If `normalized`, return the weighted sum of each token's `surprise_reduction` instead.
        """
        if self.alone and normalized:
            return _sum_reduction(self.given, self.alone) / _count(self.given, weights)
        value = self.given.logprob / _count(self.given, weights)
        return value - self.alone.logprob / _count(self.alone, weights) if self.alone else value


def _count(answer: ContinuationResponse, weights: TokenWeights) -> int:
    return len(answer.tokens) if weights == "mean" else 1


@dataclass(frozen=True)
class LikelihoodReader:
    """Requests the likelihoods of passages from a model."""

    model: Model

    def __post_init__(self) -> None:
        scoring(self.model, "continuation")

    async def __call__(self, passages: Passages) -> list[Likelihood]:
        """Return the likelihoods.

        Raises:
            CapabilityError: The model does not return log-probabilities of a given text.
        """
        return await gather(map(self._read, passages.items))

    async def _read(self, passage: ScoredText) -> Likelihood:
        prompts: list[Json] = [{"prompt": passage.prompt, "truncatable": passage.source}]
        if passage.alone is not None:
            prompts.append({"prompt": passage.alone})
        requests = [ContinuationRequest(continuation=passage.scored, **p) for p in prompts]
        model = scoring(self.model, "continuation")
        scored, *others = await gather(map(model.continuation, requests))
        return Likelihood(passage=passage, given=scored, alone=others[0] if others else None)


@dataclass(frozen=True)
class LikelihoodScorer:
    """Makes one score of the likelihoods.

    Directions are averaged under each reference, then references are combined.
    """

    weights: TokenWeights = "mean"
    """Weight of a token."""
    over_references: OverReferences = "mean"
    """How several references are combined."""
    over_directions: Literal["mean", "harmonic"] = "mean"
    """How both directions under one reference are combined."""
    signature: str = ""
    """Signature of the scores."""
    normalized: bool = False
    """Whether a token counts by the removed share of its surprise (`surprise_reduction`), not by
    nats.
    """

    async def __call__(
        self, example: Example, aspect: Aspect, passages: Passages, likelihoods: list[Likelihood]
    ) -> Score:
        """Return the score, a signed log-probability without a scale.

        It has no value without passages.
        """
        about = common_fields(
            example, aspect, how="loglikelihood", signature=self.signature, scale=None
        )
        about["evidence"] = tuple(self._as_evidence(item) for item in likelihoods)
        about["usage"] = sum((item.usage for item in likelihoods), NO_USAGE)
        if passages.missing:
            return Score(outcome="abstained", error=passages.missing, **about)
        return Score(value=self._value(likelihoods), **about)

    def _value(self, items: Sequence[Likelihood]) -> float:
        # directions under each reference first, then references: two kinds of mean do not commute
        by_reference: dict[int | None, list[float]] = {}
        for item in items:
            value = item.value(self.weights, self.normalized)
            by_reference.setdefault(item.passage.reference, []).append(value)
        together = _harmonic if self.over_directions == "harmonic" else fmean
        values = [together(each) for each in by_reference.values()]
        if self.over_references == "max":
            return max(values)
        return (_harmonic if self.over_references == "harmonic" else fmean)(values)

    def _as_evidence(self, item: Likelihood) -> Json:
        passage, scored = item.passage, item.given
        rarest = sorted(scored.tokens, key=lambda token: token.logprob)[:3]
        piece: Json = {
            "text": passage.question or "(no instruction)",
            "direction": passage.direction,
            "value": item.value(self.weights, self.normalized),
            "logprob": scored.logprob,
            "tokens": len(scored.tokens),
            "unlikeliest": [{"token": token.token, "logprob": token.logprob} for token in rarest],
        }
        if passage.reference is not None:
            piece["reference"] = passage.reference
        if item.alone:
            piece["logprob_alone"] = item.alone.logprob
        if scored.truncated_tokens:
            piece["truncated_tokens"] = scored.truncated_tokens
        return piece


def surprise_reduction(given: float, alone: float) -> float:
    """Return the share of a token's surprise that the given text removes, from -1 to 1.

    The pointwise mutual information of token and given text in units of the token's own
    information, which bounds it above (normalized PMI, Bouma 2009). The unit is at least 1 nat,
    since otherwise a small gain on an expected token would be a large share. Unlike with nats, a
    single rare token cannot outweigh all others.
    """
    return max(-1.0, (given - alone) / max(-alone, 1.0))


def _sum_reduction(scored: ContinuationResponse, alone: ContinuationResponse) -> float:
    """Return the sum over tokens; matched from the end, since a prompt may join the first one."""
    pairs = zip(reversed(scored.tokens), reversed(alone.tokens), strict=False)
    return math.fsum(surprise_reduction(token.logprob, other.logprob) for token, other in pairs)


def _harmonic(values: Sequence[float]) -> float:
    """Return the harmonic mean of log-probabilities, which are all 0 or less; 0 if any is 0."""
    # a text of probability 1: the harmonic mean tends to 0 there, and the division would fail
    if 0 in values:
        return 0.0
    return len(values) / math.fsum(1 / value for value in values)
