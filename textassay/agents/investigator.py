"""Lets a judge search the material before its verdict: a bounded loop of typed messages.

In each step the judge lists, searches or reads a part of the material, or gives its verdict. Every
finding of the verdict cites a passage. `CitationCheck` looks it up in the parts that the judge has
read, without a model.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from textassay.agents.aggregation import EMPTY, common_fields
from textassay.agents.ask import Ask, Parsed, check_not_filtered
from textassay.agents.lookup import OUTPUT, Excerpt, Found, SectionIndex, has_read
from textassay.agents.prompt_template import Prompt, fence_texts
from textassay.agents.quotes import find_quote, plain
from textassay.agents.reading.json_fields import rating_of_field
from textassay.agents.reading.json_in_prose import JsonObject, find_json, normalize_key
from textassay.agents.reading.labels import is_whole, points_of
from textassay.agents.reading.outcomes import DECLINED, MAX_QUOTED
from textassay.runtime.base import NO_USAGE, Json, Message, ScoreError, Usage
from textassay.runtime.calls.sharing import chain_requests
from textassay.runtime.declining import declines
from textassay.runtime.labels import number_of
from textassay.runtime.messages import Aspect, Example, Score
from textassay.runtime.model import Function, Sample, thought_note

CHARS = 6000
"""Most characters of the material that one step shows: some 1,500 tokens, so that twelve steps fit
contexts of 32,768; four times of it would fill them in five steps. Of 2,592 messages of
tau-bench's airline task it shows 96 % whole, and a quarter of it as many, but a whole conversation
(13,218 characters in the median) takes 3 steps in place of 9."""


class Action(Message):
    """Base of the objects that a judge writes; fields with unknown names are ignored."""

    model_config = ConfigDict(extra="ignore")


class Finding(Action):
    """A fact that a verdict rests on."""

    finding: str = Field(min_length=1)
    """The fact in a sentence."""
    where: str = ""
    """Name of the section that shows it, or "find" for a text that a search found nowhere."""
    quote: str = ""
    """The words that show it, quoted; empty if a section lacks something."""


class FinalVerdict(Action):
    """Give your verdict, which ends the task."""

    action: Literal["verdict"] = "verdict"
    findings: tuple[Finding, ...] = ()
    """The facts that it rests on, one each."""
    reason: str = ""
    """Why these facts lead to the score, in a sentence."""
    score: bool | float | str | None = None
    """The score."""


class Inquiry(Message):
    """A judge's inquiry about one aspect, with its verdict or why there is none."""

    aspect: Aspect
    """The aspect that was judged."""
    verdict: FinalVerdict | None = None
    """The verdict, before its citations are looked up."""
    problem: ScoreError = EMPTY
    """Why there is no verdict, if it is missing."""
    excerpts: tuple[Excerpt, ...] = ()
    """Parts of the material that the judge was shown, word for word."""
    absent: tuple[str, ...] = ()
    """Texts that the judge searched for and that the material does not contain."""
    steps: tuple[Json, ...] = ()
    """Steps of the judge, in order: `text` has the action in words, `shown` the places that the
    judge was shown, and `problem` why the step failed."""
    text: str = ""
    """The last answer as it was written."""
    notes: tuple[Json, ...] = ()
    """The model's thoughts before that answer, as evidence."""
    usage: Usage = NO_USAGE
    """Cost of all steps."""


class Checked(NamedTuple):
    """A verdict whose citations were looked up."""

    value: float | None
    """The score on the aspect's scale; `None` if there is a problem with it."""
    citations: tuple[Json, ...]
    """The place of each finding's evidence: `found_in` is the section, `nowhere` for a text that a
    search did not find, `None` for a text that was not read; `characters` are the first one and the
    one after the last, in the section."""
    problem: ScoreError | None
    """Why the verdict does not count."""


def verify(
    verdict: FinalVerdict,
    aspect: Aspect,
    material: SectionIndex,
    excerpts: Iterable[Excerpt],
    absent: Iterable[str],
) -> Checked:
    """Return the score of a verdict and the places of its citations, or why it does not count."""
    spans, missing = _merge(excerpts), {plain(text) for text in absent}
    cited = tuple(_locate(finding, material, spans, missing) for finding in verdict.findings)
    value = _value(verdict.score, aspect)
    if isinstance(value, ScoreError):
        return Checked(None, cited, value)
    if not cited:
        error = ScoreError(type="NoFindings", message="the verdict has no findings")
        return Checked(value, cited, error)
    pairs = zip(verdict.findings, cited, strict=True)
    lacking = [finding for finding, citation in pairs if citation["found_in"] is None]
    problem = _not_read(lacking[0], material) if lacking else None
    return Checked(value, cited, problem)


@dataclass(frozen=True)
class CitationCheck:
    """Makes a score of a verdict; it has no value if the verdict cites a text that was not read."""

    signature: str = ""
    """Signature of the scores."""

    async def __call__(self, example: Example, material: SectionIndex, inquiry: Inquiry) -> Score:
        """Return the score.

        It is `abstained` with `QuoteNotFound` if a citation is not in the parts that the judge
        read; `invalid` if there is no verdict, or one without findings or without a usable score.
        """
        aspect = inquiry.aspect
        about = common_fields(example, aspect, how="text", signature=self.signature)
        about |= {"usage": inquiry.usage, "explanation": inquiry.text or None}
        numbered = enumerate(inquiry.steps, start=1)
        steps = tuple({**step, "text": f"step {n}: {step['text']}"} for n, step in numbered)
        about["evidence"] = (*steps, *inquiry.notes)
        verdict = inquiry.verdict
        if not verdict:
            return Score.unscored(inquiry.problem.type, inquiry.problem.message, **about)
        checked = verify(verdict, aspect, material, inquiry.excerpts, inquiry.absent)
        findings = (
            {"text": finding.finding, "quote": finding.quote, **citation}
            for finding, citation in zip(verdict.findings, checked.citations, strict=True)
        )
        about["explanation"] = verdict.reason or inquiry.text
        about["evidence"] = (*findings, *about["evidence"])
        if error := checked.problem:
            about["outcome"] = "abstained" if error.type == "QuoteNotFound" else "invalid"
            return Score(error=error, **about)
        assert checked.value is not None  # else there is a problem
        if aspect.labels:
            label = list(aspect.labels)[int(checked.value)]
            about["evidence"] = ({"text": label}, *about["evidence"])
        return Score(value=checked.value, **about)


def _value(score: bool | float | str | None, aspect: Aspect) -> float | ScoreError:
    """Return the number of a score or a label, or the error in it."""
    if aspect.labels:
        names = list(aspect.labels)
        if (number := number_of(str(score), names)) is not None:
            return float(number)
        message = f"the score {score!r} is none of the labels {', '.join(names)}"
        return ScoreError(type="NoScoreFound", message=message)
    low, high = aspect.scale
    value = rating_of_field(score, aspect.scale, "number")
    if value is None:
        message = f"the score {score!r} is no number from {low:g} to {high:g}"
        return ScoreError(type="NoScoreFound", message=message)
    if not low <= value <= high:
        message = f"the score {value:g} is off the scale from {low:g} to {high:g}"
        return ScoreError(type="OffScale", message=message)
    return value


def _not_read(finding: Finding, material: SectionIndex) -> ScoreError:
    """Return the error of a finding whose evidence was not read."""
    quote, where = finding.quote.strip(), finding.where.strip()
    if quote:
        message = f"the quoted words are not in what was read: {quote[:MAX_QUOTED]!r}"
    elif material.within(where) and where:
        message = f"{where} was not read whole, so nothing can be said to be missing in it"
    else:
        message = f"the finding {finding.finding[:MAX_QUOTED]!r} cites nothing"
    return ScoreError(type="QuoteNotFound", message=message)


def _locate(
    finding: Finding, material: SectionIndex, spans: Sequence[Excerpt], absent: set[str]
) -> Json:
    """Return the place of a finding's evidence in the excerpts."""
    quote, where = finding.quote.strip(), finding.where.strip()
    if where.casefold() in ("find", "search", "nowhere"):
        return {"found_in": "nowhere" if plain(quote) in absent else None}
    named = material.within(where) if where else []
    if not quote:
        whole = bool(named) and all(has_read(spans, section) for section in named)
        return {"found_in": where if whole else None}
    # the section that the judge names comes first, as several may contain the words
    names = {section.name for section in named}
    ordered = sorted(spans, key=lambda span: span.section not in names)
    place = find_quote(quote, {str(at): span.text for at, span in enumerate(ordered)})
    if not place:
        return {"found_in": None}
    span = ordered[int(place)]
    literal = re.compile(r"\s+".join(map(re.escape, quote.split())), re.IGNORECASE)
    exact = literal.search(span.text)
    first, last = exact.span() if exact else (0, len(span.text))
    return {"found_in": span.section, "characters": [span.start + first, span.start + last]}


def _merge(excerpts: Iterable[Excerpt]) -> list[Excerpt]:
    """Return the excerpts; those that overlap or follow each other are joined."""
    merged = list[Excerpt]()
    for excerpt in sorted(excerpts, key=lambda e: (e.section, e.start)):
        last = merged[-1] if merged else None
        if not last or last.section != excerpt.section or excerpt.start > last.end:
            merged.append(excerpt)
        elif excerpt.end > last.end:
            text = last.text + excerpt.text[last.end - excerpt.start :]
            merged[-1] = last.model_copy(update={"text": text})
    return merged


STEP = "agent_judge_step"
"""Prompt that follows a step of the judge."""
CONTENTS = "Contents of the material"


# judges that call functions read the docstrings of these actions
class ListSections(Action):
    """List the sections of the material, by name and size."""

    action: Literal["list"] = "list"
    within: str = ""
    """Only the sections within this one, such as "turn 4"; empty for all."""
    start: str = ""
    """Name to begin with, where an earlier list ended."""

    @property
    def in_words(self) -> str:
        """The action in a few words."""
        within = f" in {self.within}" if self.within else ""
        return f"list{within}" + (f" from {self.start}" if self.start else "")

    def look(self, material: SectionIndex) -> Found:
        """Return the names of sections."""
        return material.list(self.within, self.start, chars=CHARS)


class FindAction(Action):
    """Show where a text stands in the material, or what is closest to it by its words."""

    action: Literal["find"] = "find"
    text: str
    """Words to look for."""
    within: str = ""
    """Only in the sections within this one, such as "turn 4"; empty for all."""

    @property
    def in_words(self) -> str:
        """The action in a few words."""
        within = f" in {self.within}" if self.within else ""
        return f"find {self.text[:MAX_QUOTED]!r}{within}"

    def look(self, material: SectionIndex) -> Found:
        """Return places of the text."""
        return material.find(self.text, self.within, chars=CHARS)


class ReadAction(Action):
    """Show a section of the material."""

    action: Literal["read"] = "read"
    where: str
    """Name of the section, such as "turn 4, call 2, result"; "turn 4" for all of a turn."""
    start: int = Field(default=0, ge=0)
    """Character to begin with, from 0."""

    @property
    def in_words(self) -> str:
        """The action in a few words."""
        return f"read {self.where}" + (f" from {self.start:,}" if self.start else "")

    def look(self, material: SectionIndex) -> Found:
        return material.read(self.where, self.start, chars=CHARS)


Look = ListSections | FindAction | ReadAction
_ACTIONS: TypeAdapter[Look | FinalVerdict] = TypeAdapter(
    Annotated[Look | FinalVerdict, Field(discriminator="action")]
)
ACTIONS: dict[str, type[Action]] = {
    "list": ListSections, "find": FindAction, "read": ReadAction, "verdict": FinalVerdict,
}  # fmt: skip
"""Actions of a judge in a step."""


class NoAction(Message):
    """An answer that is not an action."""

    problem: str
    """`NoActionFound`, `Declined` or `CutOff`."""
    note: str = (
        "Your answer is none of the actions. Answer with one JSON object alone, such as"
        ' {"action": "read", "where": "output", "start": 0}.'
    )
    """Message to the judge."""
    wrong: str = ""
    """Which field of an action is wrong, and how."""


@dataclass(frozen=True)
class Investigator:
    """Lets a judge look things up until it gives a verdict."""

    ask: Ask
    """Model and prompt, which is given `aspect`, `points`, `whole`, `chars` and `left`."""
    max_steps: int = 12
    """Most requests, including the one for the verdict."""
    retries: int = 1
    """How many consecutive answers without an action are answered with a reminder."""
    functions: bool = False
    """Whether the actions are offered as functions as well, which the model may call."""

    async def __call__(self, material: SectionIndex, aspect: Aspect) -> Inquiry:
        """Return the verdict with everything that was read, or why there is no verdict."""
        if not material.sections or material.sections[0].name != OUTPUT:
            return Inquiry(aspect=aspect)
        loop = _Loop(self, material, aspect)
        prompt, steps_left = loop.opening(), self.max_steps
        with chain_requests() as talk:
            while True:
                steps_left -= 1
                talk.has_next = steps_left > 0
                answer = await self.ask.answer(
                    prompt,
                    read_action,
                    functions=functions_for(aspect) if self.functions else (),
                    dry_run_answer=loop.dry_run_answer(steps_left),
                )
                result = loop.take(answer, steps_left)
                if isinstance(result, Inquiry):
                    return result
                # the chat continues with the answer and its result
                texts = [("reading", excerpt.place, excerpt.text) for excerpt in result.excerpts]
                if result.listing:
                    texts.append(("contents", CONTENTS, result.listing))
                values = {"note": result.note, "material": fence_texts(texts), "left": steps_left}
                prompt = prompt.after_call(answer.samples[0], STEP, **values)


class _Loop:
    """The previous actions of one judge, and the material that it has seen."""

    def __init__(self, judge: Investigator, material: SectionIndex, aspect: Aspect) -> None:
        self._judge, self._material, self._aspect = judge, material, aspect
        self._excerpts: list[Excerpt] = []
        self._absent: list[str] = []
        self._steps: list[Json] = []
        self._usage = NO_USAGE
        self._unread = 0
        """Number of consecutive answers without an action."""

    def opening(self) -> Prompt:
        """Return the prompt: output and source up to the limit, and a list of the rest."""
        ask = self._judge.ask
        for name in ("source", OUTPUT):
            if self._material.within(name):
                self._excerpts += self._material.read(name, chars=CHARS).excerpts
        labels = {"source": ask.task.source_name, OUTPUT: ask.task.output_name}
        texts = [(e.section, labels[e.section], e.text) for e in self._excerpts]
        contents = self._material.list(chars=CHARS)
        listing = f"{contents.listing}\n{contents.note}"
        cut = [excerpt.place for excerpt in self._excerpts if len(excerpt.text) < excerpt.length]
        listing += f"\nShown above: {'; '.join(cut)}." if cut else ""
        texts.append(("contents", CONTENTS, listing))
        aspect = self._aspect
        return ask.render(
            material=fence_texts(texts),
            aspect=aspect,
            points=points_of(aspect.scale, "number"),
            whole=is_whole(aspect.scale),
            chars=CHARS,
            left=self._judge.max_steps,
        )

    def take(
        self, answer: Parsed[Look | FinalVerdict | NoAction], steps_left: int
    ) -> Found | Inquiry:
        """Carry out an answer and return the result for the judge, or the end of the inquiry."""
        self._usage += answer.usage
        action = answer.readings[0]
        if isinstance(action, NoAction):
            return self._refuse(action, answer, steps_left)
        self._unread = 0
        if isinstance(action, FinalVerdict):
            checked = verify(action, self._aspect, self._material, self._excerpts, self._absent)
            if not checked.problem or not steps_left:
                self._steps.append({"text": "verdict"})
                return self._end(answer, verdict=action)
            problem = checked.problem.message
            self._steps.append({"text": "verdict", "problem": problem})
            return Found(f"The verdict does not count yet: {problem}. Mend it.")
        result = action.look(self._material)
        if result.is_absent and isinstance(action, FindAction) and not action.within:
            self._absent.append(action.text)
        self._excerpts += result.excerpts
        places = [excerpt.place for excerpt in result.excerpts]
        self._steps.append({"text": action.in_words} | ({"shown": places} if places else {}))
        if steps_left:
            return result
        steps = self._judge.max_steps
        message = (
            f"the judge gave no verdict in {steps} step{'' if steps == 1 else 's'}"
            f" (max_steps); the last one was: {action.in_words}"
        )
        return self._end(answer, problem=ScoreError(type="NoVerdict", message=message))

    def _refuse(self, action: NoAction, answer: Parsed[Any], steps_left: int) -> Found | Inquiry:
        """Return the note on an answer without an action, or the end of the inquiry."""
        if answer.cut:
            note = f"Your answer was cut after {answer.max_tokens} tokens. Be brief."
            action = NoAction(problem="CutOff", note=note)
        self._unread += 1
        text = answer.text[:MAX_QUOTED]
        self._steps.append({"text": text, "problem": action.problem})
        if steps_left and action.problem != DECLINED and self._unread <= self._judge.retries:
            return Found(action.note)
        wrong = f" ({action.wrong})" if action.wrong else ""
        message = f"{_REASONS[action.problem]}{wrong}; it said: {text!r}"
        return self._end(answer, problem=ScoreError(type=action.problem, message=message))

    def _end(self, answer: Parsed[Any], **update: Any) -> Inquiry:
        return Inquiry(
            aspect=self._aspect,
            excerpts=tuple(self._excerpts),
            absent=tuple(self._absent),
            steps=tuple(self._steps),
            text=answer.text,
            notes=thought_note(answer.samples),
            usage=self._usage,
            **update,
        )

    def dry_run_answer(self, steps_left: int) -> str:
        """Return the most expensive answer: the longest section in each step, then a verdict."""
        if steps_left:
            longest = max(self._material.sections, key=lambda section: len(section.text))
            return json.dumps({"action": "read", "where": longest.name, "start": 0})
        aspect = self._aspect
        score: Any = next(iter(aspect.labels), aspect.scale[0])
        finding = {"finding": "The text is given.", "where": OUTPUT, "quote": ""}
        return json.dumps({"action": "verdict", "findings": [finding], "score": score})


_REASONS = {
    "NoActionFound": "the judge's answer is none of the actions",
    "CutOff": "the judge's answer was cut at max_tokens",
    DECLINED: "the judge declined to judge",
}


def read_action(sample: Sample) -> Look | FinalVerdict | NoAction:
    """Return the action of the first JSON object in an answer that names one."""
    objects = [part.value for part in find_json(sample.text) if isinstance(part.value, JsonObject)]
    for fields in map(_fields_of, objects):
        if fields:
            return _parse_action(fields)
    check_not_filtered(sample)
    return NoAction(problem=DECLINED if declines(sample.text) else "NoActionFound")


def _parse_action(fields: Json) -> Look | FinalVerdict | NoAction:
    try:
        return _ACTIONS.validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        wrong = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        note = f"Your answer cannot be used: {wrong}. Answer with one JSON object."
        return NoAction(problem="NoActionFound", note=note, wrong=wrong)


def _fields_of(value: JsonObject) -> Json:
    """Return the fields of an action, nested or not; empty without an action."""
    parts = [value]
    fields = {normalize_key(key): item for key, item in value.items()}
    if isinstance(inner := fields.get("action"), JsonObject):  # {"action": {"name": "read", ...}}
        parts.append(inner)
        fields = {normalize_key(key): item for key, item in inner.items()}
    names = [fields.get(key) for key in ("action", "tool", "function", "name")]
    name = next((name for name in names if isinstance(name, str)), "")
    arguments = [fields.get(key) for key in ("arguments", "args", "parameters", "input")]
    if objects := [item for item in arguments if isinstance(item, JsonObject)]:
        parts.append(objects[0])
        fields |= objects[0]
    name = normalize_key(name or ("verdict" if "score" in fields else ""))
    if name not in ACTIONS:
        return {}
    if any("score" in part.contradicted for part in parts):
        fields["score"] = None  # a verdict with two different values is unusable
    return {key: item for key, item in fields.items() if item is not None} | {"action": name}


@lru_cache(maxsize=256)
def functions_for(aspect: Aspect) -> tuple[Function, ...]:
    """Return the actions as functions; the score of a verdict is on the aspect's scale."""
    functions = []
    for name, kind in ACTIONS.items():
        schema = kind.model_json_schema()
        properties = schema["properties"]
        del properties["action"], schema["description"]
        if kind is FinalVerdict:
            properties["score"] = _score_schema(aspect)
            schema["required"] = ["findings", "score"]
        about = (inspect.getdoc(kind) or "").strip()
        functions.append(Function(name=name, description=about, parameters=_drop_titles(schema)))
    return tuple(functions)


def _score_schema(aspect: Aspect) -> Json:
    if aspect.labels:
        return {"type": "string", "enum": list(aspect.labels)}
    low, high = aspect.scale
    if is_whole(aspect.scale):
        return {"type": "integer", "minimum": int(low), "maximum": int(high)}
    return {"type": "number", "minimum": low, "maximum": high}


def _drop_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic adds, and without references."""
    definitions = schema.pop("$defs", {})

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return plain(definitions[value["$ref"].rpartition("/")[2]])
        return {name: plain(item) for name, item in value.items() if name != "title"}

    return plain(schema)
