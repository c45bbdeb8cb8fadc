"""`textassay doctor`: the abilities of a model, tested through the same adaptation as in a run."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from textassay.cli import Status, flags, syntax
from textassay.cli.app import Heading, command
from textassay.cli.console import say
from textassay.cli.exits import run_async, with_flags
from textassay.runtime.base import Json, Message
from textassay.runtime.calls.budget import estimate_tokens
from textassay.runtime.calls.call import deciding
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    ModelError,
    NothingListening,
    PathNotFound,
    RequestRefused,
    UnknownName,
)
from textassay.runtime.model import (
    ChatMessage,
    ContinuationRequest,
    Model,
    Request,
    Sample,
    Scoring,
    TokenLogprob,
    is_distribution,
    scoring,
)
from textassay.runtime.questions import DecisionRequest, NamedText, Question
from textassay.runtime.settings import LOADED, SETTABLE, Settings
from textassay.table import printable

if TYPE_CHECKING:
    from textassay.runtime.calls.adaptation import AdaptingModel
    from textassay.runtime.calls.traits import ModelTraits
    from textassay.runtime.stack import BatchedModel

ProbeResult = Literal["yes", "no", "wrong", "unknown"]
Observed = tuple[ProbeResult, str]
"""Verdict and detail of a finding."""

TOLERANCE = 0.05
"""Largest difference between two measurements of one log-probability (quantized models on servers
that batch).
"""
FORMS = ("chat", "prompt", "decide")
MAX_TOKENS = 64
"""Some servers require at least 16; the adaptation allows more for a longer thought."""
_BEGINNING = "The colors of the rainbow are red, orange, yellow, green,"


class DoctorFinding(Message):
    """The finding on one ability."""

    ability: str
    verdict: ProbeResult
    """`wrong`: the ability is offered but gives wrong results; `unknown`: the answers do not show
    it.
    """
    detail: str


class Examiner:
    """Asks a model five to eight short questions, and records the results.

    If it continues plain prompts, two more show the likelihoods of given texts. If sampled tokens
    cannot be compared with given ones, seven more compare words: only all of them together show
    that the likelihoods belong to the given text. Refused parameters cause further requests.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.findings: list[DoctorFinding] = []
        self.chats = True
        self.first: list[str] = []
        self.again: list[str] = []
        """Samples of the same request as `first`, if it was answered with log-probabilities."""

    def request(self, question: str = "", **fields: Any) -> Request:
        """Return a request in the form that the model accepts."""
        question = question or (
            "A bat and a ball cost 1.10 together. The bat costs 1.00 more than the ball. What does"
            " the ball cost? Answer with the number alone."
        )
        if self.chats:
            return Request(messages=(ChatMessage(role="user", content=question),), **fields)
        return Request(prompt=_BEGINNING, **fields)

    async def note(self, ability: str, probe: Awaitable[Observed]) -> ProbeResult:
        """Add the finding on one ability; raise errors that every request would hit."""
        try:
            verdict, detail = await probe
        except NothingListening:
            raise
        except (FatalModelError, PathNotFound) as error:
            # one form was answered, so key and name are right: the other form's address is missing
            if not _answers(self.findings):
                raise
            verdict, detail = "no", str(error)
        except (CapabilityError, ConfigurationError, RequestRefused) as error:
            verdict, detail = "no", str(error)
        except ModelError as error:
            verdict, detail = "unknown", f"it failed: {type(error).__name__}: {error}"
        self.findings.append(DoctorFinding(ability=ability, verdict=verdict, detail=detail))
        return verdict

    async def find_form(self) -> None:
        """Ask in both forms, chat and plain prompt; raise if both fail for the same reason."""
        refusal: FatalModelError | PathNotFound | None = None
        for ability, ask in (("chat", self.chat), ("prompt", self.prompt)):
            try:
                await self.note(ability, ask())
            # the model may lack one of the two forms, or its address
            except (FatalModelError, PathNotFound) as error:
                refusal = error if ability == "chat" else refusal
                self._add(ability, "no", str(error))
        verdicts = {finding.ability: finding.verdict for finding in self.findings}
        if refusal is not None and verdicts["prompt"] != "yes":
            raise refusal
        self.chats = verdicts["chat"] == "yes" or verdicts["prompt"] != "yes"

    async def chat(self) -> Observed:
        """Ask a question that makes models think, and record the thought."""
        began = time.monotonic()
        response = await self.model.generate(self.request(max_tokens=MAX_TOKENS))
        seconds, sample = time.monotonic() - began, response.samples[0]
        # some APIs neither show a thought nor count it separately, but bill it
        hidden = response.usage.completion_tokens - estimate_tokens(sample.text)
        count = response.usage.reasoning_tokens or (hidden if hidden > MAX_TOKENS else 0)
        thought = f"{count:,} tokens of thought" if count else "a thought, which is not counted,"
        if count or sample.thought:
            self._add("thinks", "yes", f"{thought} before a short answer")
        else:
            self._add("thinks", "no", "no thought is shown or counted")
        return "yes", f"{len(sample.text)} characters in {seconds:.1f} s"

    async def prompt(self) -> Observed:
        """Have a plain prompt continued."""
        text = (await self.model.generate(Request(prompt=_BEGINNING, max_tokens=4))).samples[0].text
        return "yes", f"continues a plain prompt ({len(text)} characters)"

    async def decide(self) -> Observed:
        """Ask a typed question of each kind, with options that are not letters."""
        from textassay.runtime.calls.deciding import describe

        questions = (
            Question.yes_no("Is a color named?"),
            Question.choice("What is it about?", {"rainbow": "colors of light", "bread": ""}),
            Question.rating("How long is it?", {"1": "a word", "2": "a line", "3": "a page"}),
        )
        text = NamedText(name="text", text=_BEGINNING)
        request = DecisionRequest(texts=(text,), questions=questions)
        answers = (await deciding(self.model).decide(request)).answers
        wrong = [
            f"{question.kind}: {answer.problem.message}"
            for question, answer in zip(questions, answers, strict=True)
            if answer.problem
        ]
        if wrong:
            return "wrong", "; ".join(wrong)
        return "yes", describe(self.model)

    async def several(self, n: int, **more: Any) -> tuple[Sample, ...]:
        """Return samples of an answer that varies, at temperature 1; the draw changes the seed."""
        question = "Draw a whole number from 1 to 1000 at random. Answer with the number alone."
        how = {"temperature": 1.0, "seed": 7, "max_tokens": MAX_TOKENS, **more}
        return (await self.model.generate(self.request(question, n=n, **how))).samples

    async def samples(self) -> Observed:
        """Ask for two samples in one answer."""
        self.first = _texts(await self.several(2))
        count = len(self.first)
        return ("yes" if count == 2 else "no"), f"{count} of 2 samples in one answer"

    async def logprobs(self) -> Observed:
        """Sample again with the same seed, and ask for log-probabilities with alternatives."""
        samples = await self.several(len(self.first) or 1, logprobs=5)
        self.again, tokens = _texts(samples), samples[0].logprobs
        if not tokens:
            return "no", "no log-probabilities came with the answer"
        if not is_distribution(tokens):
            return "no", "only the sampled token came back, without alternatives: no distribution"
        total = math.fsum(math.exp(logprob) for _, logprob in tokens[0].top)
        # above 1 in sum: some servers return logits or scaled scores under this name
        if total > 1.01 or tokens[0].logprob > 0.01:
            return "wrong", f"alternatives add up to {total:.3f}"
        return "yes", f"{len(tokens[0].top)} of 5 alternatives, with {total:.3f} of the probability"

    async def seed(self) -> Observed:
        """Compare samples of equal seeds, and with another seed if these are all equal."""
        first = self.first or _texts(await self.several(1))
        again = self.again or _texts(await self.several(len(first)))
        other = () if len({*first, *again}) > 1 else _texts(await self.several(1, draw=1))
        differ = len({*first, *again, *other}) > 1
        detail = "samples differ" if differ else "samples are equal: more than one may be useless"
        thinks = any(f.ability == "thinks" and f.verdict == "yes" for f in self.findings)
        learned = self.learned
        if learned.omits_zero_temperature:
            detail += "; the 0 of methods that ask once is not sent, since its name says it thinks"
        elif thinks and "temperature" not in learned.unsent:
            detail += (
                "; methods that ask once send 0, and makers of some models that think advise"
                " against it: see the model's card, and give --temperature"
            )
        self._add("temperature", "yes" if differ else "unknown", detail)
        if "seed" in learned.unsent:
            return "no", "it is refused"
        if first != again:
            return "no", "equal seeds gave different answers"
        if not differ:
            return "unknown", "different seeds gave equal answers as well"
        return "yes", "equal seeds gave equal answers"

    async def json_schema(self) -> Observed:
        """Ask for JSON; valid JSON is not enough, as many servers ignore the schema."""
        schema: Json = {
            "type": "object",
            "properties": {"rating": {"type": "integer", "enum": [1, 2, 3]}},
            "required": ["rating"],
            "additionalProperties": False,
        }
        request = self.request(max_tokens=MAX_TOKENS, json_schema=schema)
        text = (await self.model.generate(request)).samples[0].text
        try:
            answer = json.loads(text)
        except json.JSONDecodeError:
            return "wrong", f"the answer is not JSON: {text[:40]!r}"
        fits = (
            isinstance(answer, dict)
            and list(answer) == ["rating"]
            and answer["rating"] in (1, 2, 3)
        )
        detail = "satisfies the schema" if fits else f"breaks the schema: {text[:40]!r}"
        if "json_schema" in self.learned.unsent:
            return "no", f"schemas are refused; asked for in words, the answer {detail}"
        return ("yes" if fits else "wrong"), f"the answer {detail}"

    async def continuation(self) -> Observed:
        """Compare log-probabilities of tokens as given and as sampled: an echo may be shifted."""
        scorer = scoring(self.model, "continuation")
        prompt = next(finding for finding in self.findings if finding.ability == "prompt")
        if prompt.verdict != "yes":
            return prompt.verdict, "it needs plain prompts, see prompt"
        sampled = await self._tokens(Request(prompt=_BEGINNING, max_tokens=2, logprobs=1))
        text = "".join(token.token for token in sampled)
        if len(sampled) == 2 and "\ufffd" not in text:
            scored = await scorer.continuation(_continue_with(text))
            # if the text is tokenized differently than it was sampled, nothing can be compared
            if [token.token for token in scored.tokens] == [token.token for token in sampled]:
                pairs = zip(sampled, scored.tokens, strict=True)
                off = max(abs(token.logprob - other.logprob) for token, other in pairs)
                if off <= TOLERANCE:
                    return "yes", f"given tokens are as likely as sampled ones (within {off:.2g})"
                return (
                    "wrong",
                    f"off by {off:.2f} from the values with which the same tokens were sampled",
                )
        return await self._greedy_is_likeliest(scorer)

    async def _greedy_is_likeliest(self, scorer: Scoring) -> Observed:
        """Check that the greedily sampled token is likelier than other words."""
        request = Request(prompt=_BEGINNING, max_tokens=1)
        greedy = (await self.model.generate(request)).samples[0].text
        if not greedy or "\ufffd" in greedy:
            return "unknown", "log-probabilities come back, without a token to compare them with"
        words = list(dict.fromkeys((greedy, " zebra", " seven", " of", " and", " quickly")))
        answers = [await scorer.continuation(_continue_with(word)) for word in words]
        first, *others = (answer.tokens[0].logprob for answer in answers)
        if max(others) > first + TOLERANCE:
            return "wrong", f"another word is likelier than the greedy {greedy!r}"
        return "yes", f"the greedy {greedy!r} is likelier than {len(others)} other words"

    def parameters(self) -> None:
        """Record the parameters that the model does not accept."""
        learned = self.learned
        seen = [f"takes no {name}" for name in learned.unsent]
        seen += [f"takes {name} up to {limit}" for name, limit in learned.most.items()]
        seen += [f"takes {name} from {limit}" for name, limit in learned.least.items()]
        if learned.efforts:
            seen.append(f"takes the efforts {', '.join(learned.efforts)}")
        self._add("parameters", "no" if seen else "yes", "; ".join(seen) or "all are accepted")

    @property
    def learned(self) -> ModelTraits:
        """Learned facts about the model; empty for models that are not remote."""
        from textassay.runtime.calls.adaptation import adaptation_of
        from textassay.runtime.calls.traits import ModelTraits

        adaptation = adaptation_of(self.model)
        return ModelTraits() if adaptation is None else adaptation.learned

    def _add(self, ability: str, verdict: ProbeResult, detail: str) -> None:
        self.findings.append(DoctorFinding(ability=ability, verdict=verdict, detail=detail))

    async def _tokens(self, request: Request) -> tuple[TokenLogprob, ...]:
        return (await self.model.generate(request)).samples[0].logprobs or ()


def _texts(samples: Sequence[Sample]) -> list[str]:
    return [sample.text for sample in samples]


def _continue_with(text: str) -> ContinuationRequest:
    return ContinuationRequest(prompt=_BEGINNING, continuation=text)


async def examine(model: AdaptingModel) -> list[DoctorFinding]:
    """Ask for every ability, one after the other.

    Raises:
        ModelError: Nothing is answered, for a reason that every request would meet.
    """
    examiner = Examiner(model)
    if model.capabilities.decide:
        await examiner.note("decide", examiner.decide())
    if model.capabilities.only_decides:
        return examiner.findings
    await examiner.find_form()
    await examiner.note("n", examiner.samples())
    await examiner.note("logprobs", examiner.logprobs())
    await examiner.note("seed", examiner.seed())
    await examiner.note("json_schema", examiner.json_schema())
    await examiner.note("continuation", examiner.continuation())
    examiner.parameters()
    return examiner.findings


async def examine_batches(model: Model) -> list[DoctorFinding]:
    """Test what batches may lack: first a chat, then the rest in one batch."""
    from textassay.runtime.concurrency import gather

    examiner = Examiner(model)
    examiner.chats = await examiner.note("chat", examiner.chat()) == "yes"
    await gather(
        [
            examiner.note("n", examiner.samples()),
            examiner.note("logprobs", examiner.logprobs()),
            examiner.note("json_schema", examiner.json_schema()),
        ]
    )
    return [
        finding.model_copy(update={"ability": f"batch {finding.ability}"})
        for finding in examiner.findings
        if finding.ability != "thinks"
    ]


def plain_text(heading: str, findings: Sequence[DoctorFinding]) -> str:
    """Return findings as lines for a terminal below a heading, abilities aligned."""
    width = max(len(finding.ability) for finding in findings)
    lines = [f"  {f.ability:{width}}  {f.verdict:7}  {f.detail}" for f in findings]
    return "\n".join([heading, *lines])


@command("doctor", panel=Heading.MAKING)
def doctor(
    model: Annotated[str, syntax.argument("MODEL", "Model to examine.")],
    *,
    as_json: syntax.AsJson = False,
    group: Annotated[
        syntax.Flags,
        flags.pick("set", "temperature", "api_base", "api_key_env", "effort", "extra", "batch"),
    ],
) -> int:
    """Test the abilities of a model: log-probabilities, echo, n, JSON schema, typed questions.

    Examples:
        textassay doctor openai/gpt-4.1-mini
        textassay doctor direct/qwen3 --api-base http://localhost:8000/v1
        textassay doctor openai/gpt-6-luna --effort low
        textassay doctor systemone/jev-latest --api-base https://api.typesafe.ai/v1
        textassay doctor openai/gpt-4.1-mini --batch
    """
    values, unknown, settings = flags.model_settings(group)
    # there is no method here that could take an option
    if unknown:
        raise UnknownName("setting", next(iter(unknown)), [*SETTABLE, *LOADED])
    if "temperature" in values:  # settings of single roles, and a model is examined without one
        updated = {**settings.model_dump(), "temperature": values["temperature"]}
        settings = Settings.model_validate(updated)
    return run_async(_examine(model, settings, as_json=as_json))


async def _examine(name: str, settings: Settings, *, as_json: bool) -> int:
    """Test each ability and print the findings; return 1 if the model answers nothing."""
    from textassay.runtime.api import connect
    from textassay.runtime.stack import BatchedModel

    async with connect(name, settings=settings) as model:
        # adapted as in a run, but without a cache and without splitting draws, which would hide
        # faults
        findings = _with_flags(await examine(model.bare))
        findings.append(_suited_methods(findings, model))
        if not as_json:
            typer.echo(printable(plain_text(f"what {name} can do:", findings)))
        if isinstance(model, BatchedModel):
            # last, because batches may take hours, and the other findings are printed before
            batched = _with_flags(await _in_batches(model))
            if not as_json:
                typer.echo(printable(plain_text(f"what batches of {name} can do:", batched)))
            findings += batched
    if as_json:
        rows = [finding.model_dump(mode="json") for finding in findings]
        typer.echo(json.dumps({"model": name, "rows": rows}))
    return 0 if _answers(findings) else Status.UNSCORED


def _answers(findings: Sequence[DoctorFinding]) -> bool:
    """Return whether a model is usable, as one is without log-probabilities or seeds."""
    return any(finding.verdict == "yes" for finding in findings if finding.ability in FORMS)


def _with_flags(findings: Sequence[DoctorFinding]) -> list[DoctorFinding]:
    """Return findings that name flags instead of parameters of Python."""
    return [f.model_copy(update={"detail": with_flags(f.detail)}) for f in findings]


def _suited_methods(findings: Sequence[DoctorFinding], model: Model) -> DoctorFinding:
    """Return the methods that can judge with the model and that its profile does not refuse."""
    from textassay.methods import METHODS, PromptMethod, build

    verdicts = {finding.ability: finding.verdict for finding in findings}
    if not _answers(findings):
        detail = "none: the model answers nothing"
        return DoctorFinding(ability="methods", verdict="no", detail=detail)

    only_decides = model.capabilities.only_decides

    def fits(name: str) -> bool:
        try:
            method = build(name, model, task="summarization")
        except ConfigurationError:
            return False
        if name == "gptscore":
            return verdicts.get("continuation") == "yes"
        decides = verdicts.get("decide") == "yes" and (only_decides or name == "decide")
        if decides or verdicts.get("chat") == "yes":
            return True
        return isinstance(method, PromptMethod) and method.profile.ask == "plain"

    fit = [name for name in METHODS if fits(name)]
    unfit = [name for name in METHODS if name not in fit]
    if verdicts.get("prompt") == "yes" != verdicts["chat"] and "decomp-eval" in unfit:
        fit.append("decomp-eval with --set ask=plain")
    detail = f"all but {', '.join(unfit)}" if len(unfit) < len(fit) else ", ".join(fit)
    if not unfit:
        detail = "all"
    if only_decides:
        detail += "; the others need a model that writes, some in a role of its own"
    elif verdicts["logprobs"] != "yes":
        detail += "; those that read log-probabilities sample answers (decide: one JSON object)"
    return DoctorFinding(ability="methods", verdict="yes", detail=detail)


async def _in_batches(model: BatchedModel) -> list[DoctorFinding]:
    """Test the provider's batches; their journal and answers are discarded."""
    from textassay.runtime.batches.batch import BatchBook
    from textassay.runtime.storage.answers import DiskStore

    with tempfile.TemporaryDirectory() as folder:
        store, book = DiskStore(Path(folder) / "answers"), BatchBook(Path(folder))
        try:
            say("waiting for two batches of a few requests, each for up to 24 hours...")
            return await examine_batches(model.only_batches(store, book))
        finally:
            await model.close_queues()
            await book.aclose()
            await store.aclose()
