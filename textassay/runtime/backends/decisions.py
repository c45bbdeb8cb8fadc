"""A lean client of decision models: probabilities for the options of many typed questions.

Two wire forms carry nearly everything: OpenAI's (`input`, a list of questions, answers by position)
and System One's (`state`, a map of questions, answers by name). One HTTP request an answer; no
retries, no limits, no cache: wrappers do that, as for `direct.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import orjson
from yarl import URL

from textassay.runtime.backends.endpoint import Endpoint, first_set
from textassay.runtime.backends.http_client import HTTPAnswer, HttpClient, json_headers
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.base import Json, Price
from textassay.runtime.errors import (
    CapabilityError,
    ContextTooLong,
    MalformedResponse,
    ModelError,
    RequestRefused,
)
from textassay.runtime.model import Capabilities, Request, Response, with_images
from textassay.runtime.parameters import ANYTHING
from textassay.runtime.questions import (
    DECIDED,
    DECIDED_JOINTLY,
    DecisionRequest,
    DecisionResponse,
    Question,
    QuestionLimits,
    SentAnswer,
    answer_fields,
    invalid_answer,
    refused_answer,
)

WireForm = Literal["openai", "systemone", "google"]
"""Google's is System One's with other names of fields."""
Sign = Callable[[str, bytes], tuple[Mapping[str, str], bytes]]
"""Returns the headers, and the body, with which a request to an address is accepted."""


class Family(NamedTuple):
    """How one provider is asked; limits of 0 are unknown, and learned from refusals."""

    name: str = ""
    """Prefix under which litellm asks it; empty for Google and servers of open models."""
    address: str = r"(?!)"
    """Pattern of its addresses; if no family's matches, `models` decides."""
    models: str = r"(?!)"
    """Pattern of its models' names."""
    form: WireForm | Literal[""] = ""
    """The form of its requests; empty for the form that belongs to the path."""
    path: str = ""
    """Path of its requests; empty for `/decisions` or `/systemone`, as the model is named."""
    limits: QuestionLimits = QuestionLimits()
    independent: bool = False
    """Whether it promises that questions do not influence each other."""
    key_variables: tuple[str, ...] = ()
    """Environment variables with its key."""
    hosts: tuple[str, ...] = ()
    """Its domains: the key in the environment is sent there, and nowhere else."""
    key_header: str = ""
    """Header with the bare key; empty for `Authorization: Bearer`."""


def _most(questions: int = 0, options: int = 255, levels: int = 10, tokens: int = 0) -> Any:
    return QuestionLimits(questions=questions, options=options, levels=levels, tokens=tokens)


FAMILIES = (
    Family(
        "typesafe", r"\btypesafe\b", r"^jev-|\bjev-\d", limits=_most(tokens=65_536),
        independent=True, key_variables=("TYPESAFE_API_KEY",), hosts=("typesafe.ai",),
    ),
    Family(
        "perplexity", r"\bperplexity\b", r"^pplx-decider", "systemone", "/decisions",
        limits=_most(128, tokens=262_143), key_variables=("PERPLEXITY_API_KEY",),
        hosts=("perplexity.ai",),
    ),
    Family(
        "databricks", r"/serving-endpoints$", path="/{model}/invocations",
        limits=_most(), key_variables=("DATABRICKS_TOKEN", "DATABRICKS_API_KEY"),
        hosts=("databricks.com", "azuredatabricks.net"),
    ),
    Family(
        "cloudflare", r"/ai/run$", path="/{model}", limits=_most(tokens=65_536),
        key_variables=("CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY"), hosts=("cloudflare.com",),
    ),
    Family(
        "openrouter", r"openrouter\.ai|/alpha$", form="systemone", path="/decisions",
        limits=_most(), key_variables=("OPENROUTER_API_KEY",), hosts=("openrouter.ai",),
    ),
    Family(
        "fireworks_ai", r"\bfireworks\b", limits=_most(options=208, tokens=262_144),
        key_variables=("FIREWORKS_API_KEY",), hosts=("fireworks.ai",),
    ),
    Family(
        "parallel", r"\bparallel\b", form="systemone", path="/decisions",
        limits=_most(100, tokens=32_000), key_variables=("PARALLEL_API_KEY",),
        hosts=("parallel.ai",), key_header="x-api-key",
    ),
    Family(
        "", r"\bgoogleapis\.com\b", r"^gemini-decision", "google", "/decisions",
        limits=_most(1000, levels=255, tokens=262_144),
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"), hosts=("googleapis.com",),
        key_header="x-goog-api-key",
    ),
    Family(
        "openai", r"api\.openai\.com", r"^gpt-\d", limits=_most(400, tokens=922_000),
        key_variables=("OPENAI_API_KEY",), hosts=("openai.com",),
    ),
)  # fmt: skip
"""Providers as of November 2026; see docs/decision-models.md for their sources."""


def family_of(api_base: str, model: str) -> Family:
    """Return the provider at an address, or else of a model; an unnamed one if it is unknown."""
    by_address = (f for f in FAMILIES if re.search(f.address, api_base.rstrip("/")))
    by_model = (f for f in FAMILIES if re.search(f.models, model))
    return next(by_address, None) or next(by_model, Family())


def names_decision_model(model: str) -> bool:
    """Return whether a name is of a provider's decision models; OpenAI's all chat as well."""
    return any(re.search(f.models, model) for f in FAMILIES if f.name != "openai")


def key_variables(family: Family, api_base: str) -> tuple[str, ...]:
    """Return the variables with the key of a provider; empty for any host but its own."""
    host = urlsplit(api_base).hostname or ""
    is_own = any(f".{host}".endswith(f".{own}") for own in family.hosts)
    return family.key_variables if is_own else ()


@lru_cache(maxsize=1)
def _price_table() -> Mapping[str, Any]:
    # The file alone: importing litellm takes three seconds.
    found = find_spec("litellm")
    folder = Path(next(iter(found.submodule_search_locations or ()))) if found else Path()
    file = folder / "model_prices_and_context_window_backup.json"
    table: Mapping[str, Any] = orjson.loads(file.read_bytes()) if file.is_file() else {}
    return table


def known_price(family: Family, model: str) -> Price | None:
    """Return litellm's price of a hosted model in US dollars per million tokens, if it has one."""
    if not family.name:
        return None
    table = _price_table()
    row = table.get(f"{family.name}/{model}") or (
        table.get(model, {}) if family.name == "openai" else {}
    )

    def dollars(name: str) -> float:
        per_token = row.get(f"{name}_decisions", row.get(name)) or 0.0
        return round(float(per_token) * 1e6, 9)

    price, cached = dollars("input_cost_per_token"), dollars("cache_read_input_token_cost")
    # the table has 0 for a rate that the provider has not published; output is free
    return (price, 0.0, cached or price) if price else None


class DecisionModel:
    """Asks a server of decision models; writes no text."""

    def __init__(
        self,
        name: str,
        *,
        api_base: str,
        api_key: str | None = None,
        price: Price | None = None,
        endpoint: Endpoint | None = None,
        family: Family | None = None,
        sign: Sign | None = None,
    ) -> None:
        """Keep the address; nothing is connected before the first request.

        The family of the provider is found by address and name if it is not given. `sign` may wait
        for a server of credentials, and is called in a thread.
        """
        prefix, _, self._model = name.partition("/")
        self.name = name
        family = family or family_of(api_base, self._model)
        self._form: WireForm = family.form or ("openai" if prefix == "decisions" else "systemone")
        self._path = (family.path or f"/{prefix}").replace("{model}", self._model)
        endpoint = endpoint or Endpoint()
        key = api_key or first_set(key_variables(family, api_base))
        headers = json_headers(key, endpoint.key_header or family.key_header)
        self._http = _DecisionClient(
            api_base, endpoint, name=name, headers=headers, key=key, sign=sign
        )
        self.identity = {
            "backend": "decisions",
            "model": self._model,
            "api_base": self._http.base,
            "api": prefix,
        }
        self.price = price or known_price(family, self._model)
        """US dollars per million tokens, or `None` if not known."""
        self.capabilities = Capabilities(
            n=False, logprobs=False, json_schema=False, seed=False, choices=False,
            continuation=False, functions=False, thinks=False,
            images=None if self._form == "openai" else False,
            decide=True, writes=False, independent_questions=family.independent,
            question_limits=family.limits,
        )  # fmt: skip

    async def generate(self, request: Request) -> Response:
        """Refuse: a decision model writes nothing."""
        raise CapabilityError(
            f"{self.name!r} is a decision model, which answers typed questions and writes no text;"
            " give a chat model for this role"
        )

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return the probabilities of all options, checked question by question."""
        if request.images:
            if self._form != "openai":
                raise CapabilityError(f"{self.name!r} is asked about texts alone, without images")
            request = await with_images(request)
        body = {"model": self._model, **request_fields(request, self._form)}
        payload = await self._http.post_json(self._path, body)
        independent = self.capabilities.independent_questions
        return read_response(payload, request, self.price, independent=independent)

    async def aclose(self) -> None:
        """Close all connections; safe to call twice."""
        await self._http.aclose()


class _DecisionClient(HttpClient):
    """Signs requests if the server wants that, and reads errors as servers of decisions send them.

    Errors of a Strands Decider have status 200, and TypeSafe's of a long text no message.
    """

    def __init__(
        self, api_base: str, endpoint: Endpoint, *, sign: Sign | None, key: str | None, **named: Any
    ) -> None:
        super().__init__(api_base, endpoint, key=key, **named)
        self._sign = sign
        if sign and not key:
            note = "; the request was signed with credentials of AWS"
            self.server = self.server._replace(key=note)

    def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> Coroutine[Any, Any, HTTPAnswer]:
        """Send one request, signed if the server wants that."""
        if self._sign is None:
            return super().send(method, url, body, headers)
        return self._send_signed(self._sign, method, url, body)

    async def _send_signed(self, sign: Sign, method: str, url: str, body: bytes) -> HTTPAnswer:
        headers, signed = await asyncio.to_thread(sign, url, body)
        # the address is signed as well, and aiohttp would decode parts of it
        return await self.request(method, URL(url, encoded=True), signed, headers)

    def parse(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        request: Mapping[str, Any] = ANYTHING,
    ) -> Any:
        """Return the JSON value of an answer; the code of an error in it becomes its status."""
        payload = super().parse(status, headers, body, request)
        error = payload.get("error") if isinstance(payload, dict) else None
        codes = {"bad_request": 400, "invalid_request": 400, "loading": 503}
        if isinstance(error, dict) and (code := codes.get(str(error.get("code")))):
            error["code"] = code
        return payload

    def status_error(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
        request: Mapping[str, Any] = ANYTHING,
    ) -> ModelError:
        """Return the error that an unsuccessful answer reports, also that a text is too long."""
        error = super().status_error(status, headers, body, request)
        is_long = status == 413 or (status == 400 and b"max_tokens_exceeded" in body)
        if is_long and type(error) is RequestRefused:
            return ContextTooLong(*error.args)
        return error


# ---- requests ----


def request_fields(request: DecisionRequest, form: WireForm) -> Json:
    """Return the fields of a body; questions are named `q1`, `q2`, ... in order."""
    given, questions = material(request), _as_sent(request.questions, form)
    if form == "systemone":
        return {"state": given, "questions": questions, **request.extra}
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    if form == "google":
        return {"input": text, "questions": questions, **request.extra}
    content: Any = text
    if request.images:
        shown = [{"type": "input_image", "image_url": image.place} for image in request.images]
        content = [{"role": "user", "content": [*shown, {"type": "input_text", "text": text}]}]
    return {"input": content, "questions": questions, **request.extra}


@lru_cache(maxsize=64)  # a method asks the same questions about every text
def _as_sent(questions: tuple[Question, ...], form: WireForm) -> Any:
    named = [(f"q{number}", question) for number, question in enumerate(questions, start=1)]
    if form == "openai":
        return [{"name": name, **_as_openai(question)} for name, question in named]
    if form == "google":
        sides = ("true_description", "false_description")
        return {name: _as_systemone(question, sides) for name, question in named}
    return {name: _as_systemone(question) for name, question in named}


def material(request: DecisionRequest) -> str | dict[str, str]:
    """Return a single text unchanged, or several by name, so that none can forge another's end."""
    if len(request.texts) == 1:
        return request.texts[0].text
    return {text.name: text.text for text in request.texts}


def _as_openai(question: Question) -> Json:
    if question.kind == "yes_no":
        meanings = [f"\n{o.name.capitalize()}: {o.meaning}" for o in question.options if o.meaning]
        return {"type": "predicate", "instructions": "".join([question.text, *meanings])}
    kind, field, key = (
        ("choice", "choices", "value")
        if question.kind == "choice"
        else ("score", "levels", "label")
    )
    options = [
        {key: o.name, **({"description": o.meaning} if o.meaning else {})} for o in question.options
    ]
    return {"type": kind, "instructions": question.text, field: options}


def _as_systemone(question: Question, sides: Sequence[str] = ("true", "false")) -> Json:
    if question.kind == "yes_no":
        meant = {
            side: option.meaning
            for side, option in zip(sides, question.options, strict=True)
            if option.meaning
        }
        criteria: Any = {"criteria": meant} if meant else {}
        return {"type": "noul", "instructions": question.text, **criteria}
    if question.kind == "choice":
        criteria = {option.name: option.meaning or None for option in question.options}
        return {"type": "choice", "instructions": question.text, "criteria": criteria}
    levels = [option.meaning or option.name for option in question.options]
    return {"type": "score", "instructions": question.text, "criteria": levels}


# ---- answers ----

_KINDS = {
    "predicate": "yes_no", "noul": "yes_no", "boolean": "yes_no", "choice": "choice",
    "score": "rating",
}  # fmt: skip


def read_response(
    payload: Any, request: DecisionRequest, price: Price | None, *, independent: bool
) -> DecisionResponse:
    """Return the answers in a body of either form, each checked separately.

    `independent` says whether the provider promises that no question influences another.
    """
    inner = payload
    for envelope in ("result", "response"):  # Cloudflare's and Databricks' `ai_decide`
        if isinstance(inner, dict) and isinstance(inner.get(envelope), dict):
            inner = inner[envelope]
    answers = inner.get("answers") if isinstance(inner, dict) else None
    if isinstance(answers, dict):
        read = _read_map(answers, request.questions)
    elif isinstance(answers, list | tuple):
        read = _read_list(answers, request.questions)
    else:
        raise MalformedResponse("the server sent no answers to typed questions")
    usage, model = read_usage(inner, price), inner.get("model")
    # OpenRouter reports the cost of a request in US dollars
    counts = inner.get("usage")
    cost = counts.get("cost") if isinstance(counts, dict) else None
    if isinstance(cost, float) and 0 <= cost < float("inf"):
        usage = usage.model_copy(update={"cost": cost})
    # all answers are validated at once, in half the time of one by one
    return DecisionResponse.model_validate({
        "answers": read,
        "way": DECIDED if independent else DECIDED_JOINTLY,
        "usage": usage,
        "model": model if isinstance(model, str) else None,
    })  # fmt: skip


def _read_map(answers: Json, questions: Sequence[Question]) -> list[Json]:
    names = [f"q{number}" for number in range(1, len(questions) + 1)]
    unasked = len(answers.keys() - set(names))
    pairs = zip(questions, names, strict=True)
    return [_read(question, answers.get(name), unasked) for question, name in pairs]


def _read_list(answers: Sequence[Any], questions: Sequence[Question]) -> list[Json]:
    """Read answers by position; if an answer has a name, it must be its question's."""
    read = list[Json]()
    names = [answer.get("name") if isinstance(answer, dict) else None for answer in answers]
    are_unnamed = names == [None] * len(questions)
    unasked = len(answers[len(questions) :])
    for index, question in enumerate(questions):
        answer = answers[index] if index < len(answers) else None
        name = names[index] if index < len(answers) else None
        # a refusal without a name has no number that could belong to another question
        is_refusal = name is None and isinstance(answer, dict) and answer.get("type") == "refusal"
        is_misplaced = not are_unnamed and name != f"q{index + 1}"
        if answer is not None and is_misplaced and not is_refusal:
            named = f"the answer at place {index + 1} names the question {str(name)[:40]!a}"
            read.append(vars(invalid_answer("OtherAnswer", f"{named}, not q{index + 1}")))
        else:
            read.append(_read(question, answer, unasked))
    return read


def _read(question: Question, answer: Any, unasked: int) -> Json:
    """Return the fields of the answer to a question."""
    if answer is None:
        return vars(invalid_answer("MissingAnswer", "the server sent no answer to this question"))
    if not isinstance(answer, dict):
        return vars(invalid_answer("MalformedProbabilities", f"the answer is {str(answer)[:40]!a}"))
    if answer.get("type") == "refusal":
        return vars(refused_answer("the model refuses to answer this question"))
    fields = answer_fields(question, _read_sent(answer))
    if unasked:
        note = {"text": f"{unasked} answers to questions that were not asked were sent as well"}
        fields["notes"] = (*fields.get("notes", ()), note)
    return fields


def _read_sent(answer: Json) -> SentAnswer:
    get = answer.get
    kind, shares = get("type"), get("probabilities")
    kind = _KINDS.get(str(kind), kind)
    pairs: list[tuple[object, object]] = []
    if kind == "yes_no":
        yes = get("noul", get("probability"))
        no = 1 - yes if isinstance(yes, int | float) and not isinstance(yes, bool) else yes
        pairs = [("yes", yes), ("no", no)]
        if isinstance(shares, dict):  # LocalAI's has "unknown", which takes nothing away if it is 0
            sides = ("yes", "no", "true", "false")
            others = [(o, p) for o, p in shares.items() if str(o).lower() not in sides]
            pairs += [(option, share) for option, share in others if share != 0]
    elif isinstance(shares, dict):
        pairs = list(shares.items())
    elif isinstance(shares, list | tuple):
        pairs = [(one.get("value"), one.get("probability")) for one in shares if type(one) is dict]
    return SentAnswer(
        kind, pairs, get("score"), get("choice"), get("confidence"), get("x_label_mass")
    )
