"""Asks any provider that litellm knows.

The only file that imports litellm, and only when a model is first used.

litellm's own retries, dropping of parameters, callbacks and cache stay off. The only global of its
that is set is `suppress_debug_info`, which keeps its advice off the terminal. It asks through our
own HTTP client wherever it accepts one: bounded answers, no redirects, one endpoint.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

from textassay.runtime.backends import http_errors, openai_format
from textassay.runtime.backends.decisions import (
    DecisionModel,
    Family,
    WireForm,
    family_of,
    names_decision_model,
)
from textassay.runtime.backends.endpoint import PROVIDERS, Endpoint
from textassay.runtime.backends.http_client import HttpClient
from textassay.runtime.backends.litellm_errors import LiteLLMErrors
from textassay.runtime.backends.litellm_transport import ClientTransport, PlainClient
from textassay.runtime.backends.openai_format import (
    choices_as_request,
    echo_fields,
    read_choices,
    read_continuation,
)
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.base import Json, Price, Usage
from textassay.runtime.calls.call import PLAIN, Posting, PostingModel
from textassay.runtime.errors import (
    AuthenticationFailed,
    CapabilityError,
    ConfigurationError,
    MalformedResponse,
    ModelClosed,
    ModelError,
    RequestRefused,
    TextassayError,
)
from textassay.runtime.model import (
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Request,
    Response,
    with_images,
)
from textassay.runtime.questions import DecisionRequest, DecisionResponse

_OWN_PROMPT_PROVIDERS = ("openai", "text-completion-openai")
_CLIENT_PROVIDERS = {
    "amazon_nova", "anthropic", "cohere", "cohere_chat", "cometapi", "databricks",
    "deepseek", "fireworks_ai", "gemini", "groq", "hosted_vllm", "huggingface", "minimax",
    "mistral", "ollama", "ollama_chat", "openrouter", "together_ai", "vercel_ai_gateway",
    "vertex_ai", "vertex_ai_beta", "watsonx", "xai",
}  # fmt: skip
"""Providers that litellm asks through its own HTTP handler, which ours can replace."""
_DAY = 86_400.0
"""Seconds that litellm waits for an answer. `DeadlineModel` gives up earlier; litellm's own default
would end an attempt after 600 s in spite of `timeout=`."""
# litellm's clients are shared by all models of the process; the last open model closes them.
_open_models: set[int] = set()


@functools.cache
def load_litellm() -> Any:
    """Import litellm, which takes seconds, without letting it fetch anything.

    Call it outside of an event loop.
    """
    # With these set, litellm uses its packaged tables; otherwise its import downloads them.
    for table in ("MODEL_COST_MAP", "ANTHROPIC_BETA_HEADERS", "BLOG_POSTS"):
        os.environ.setdefault(f"LITELLM_LOCAL_{table}", "True")
    # For some providers it would download images at addresses that come from data.
    os.environ.setdefault("MAX_IMAGE_URL_DOWNLOAD_SIZE_MB", "0")
    # Newer versions of pydantic warn whenever one of litellm's types is first validated.
    read_only = r"Items? .* on TypedDict class .* using the `ReadOnly` qualifier"
    warnings.filterwarnings("ignore", message=read_only, category=UserWarning)
    import litellm

    litellm.suppress_debug_info = True
    return litellm


class LiteLLMModel(PostingModel):
    """Asks the model that litellm knows by `name`."""

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        price: Price | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        """Keep the name; litellm is not imported yet."""
        endpoint = endpoint or Endpoint()
        self.name = name
        self._key, self._price, self._endpoint = api_key, price, endpoint
        key = {endpoint.key_header: api_key} if endpoint.key_header and api_key else {}
        self._http = HttpClient(
            api_base or "https://", endpoint, name=name, headers=key, key=api_key, is_bearer=not key
        )
        self._address = api_base
        """As given, with a login."""
        self._api_base = self._http.base if api_base else None
        self._errors = LiteLLMErrors(name, self._api_base, self._http.secrets)
        self._authorizes = bool(key or self._http.has_login)
        """Whether our client sends key or login, in place of the library's `Authorization`."""
        self._handler: Any = None
        self._openai: Any = None
        self._closed = False

    @property
    def identity(self) -> Mapping[str, Any]:
        """Name and, if one was given, address."""
        return {"backend": "litellm", "model": self.name, "api_base": self._api_base}

    @functools.cached_property
    def price(self) -> Price | None:
        """US dollars per million tokens: prompt, completion and, where known, cached ones.

        As given, from litellm's table, or `None`.

        Imports litellm if no price was given.
        """
        if self._price:
            return self._price
        info = self._model_info
        prompt, completion = info.get("input_cost_per_token"), info.get("output_cost_per_token")
        if not prompt and not completion:
            return None
        cached = info.get("cache_read_input_token_cost")
        price = (1e6 * (prompt or 0.0), 1e6 * (completion or 0.0))
        return price if cached is None else (*price, 1e6 * cached)

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        """The abilities of the provider by litellm's table. Imports litellm."""
        litellm = load_litellm()
        model, provider = self._model_and_provider
        names = set(litellm.get_supported_openai_params(model, custom_llm_provider=provider) or ())
        logprobs = {"logprobs", "top_logprobs"} <= names
        schema = None if "response_format" in names else False
        if schema is None and litellm.supports_response_schema(model, provider):
            schema = True
        return Capabilities(
            n="n" in names,
            logprobs=logprobs,
            json_schema=schema,
            seed="seed" in names,
            functions=None if "tools" in names else False,
            choices=logprobs,
            continuation=None if self._takes_prompts else False,
            images=True if self._model_info.get("supports_vision") else None,
            context_length=self._model_info.get("max_input_tokens"),
            decide=self._decides,
            writes=self._model_info.get("mode", "evaluation" if self._decides else "")
            != "evaluation",
            independent_questions=self._decides and self._family.independent,
            question_limits=self._family.limits,
        )

    @property
    def _decides(self) -> bool:
        """Whether the model answers typed questions: by the table, or else by its name."""
        if info := self._model_info:
            endpoints = info.get("supported_endpoints") or ()
            return info.get("mode") == "evaluation" or "/v1/decisions" in endpoints
        if not self._decisions_config or not self._chat_config:  # all its models do, or none does
            return bool(self._decisions_config)
        model = self.name.rpartition("/")[2]
        table = load_litellm().model_cost.items()
        listed = (row for name, row in table if name.endswith(f"/{model}"))
        return names_decision_model(model) or "evaluation" in (row.get("mode") for row in listed)

    @property
    def _family(self) -> Family:
        """How the provider is asked about typed questions.

        The promise that questions are independent is of the model's maker, for its own servers.
        """
        model, provider = self._model_and_provider
        family = family_of(provider, model)
        return family._replace(independent=family.independent and family.name == provider)

    @property
    def provider(self) -> str:
        """Name of the provider, as litellm finds it."""
        return self._model_and_provider[1]

    @functools.cached_property
    def _model_and_provider(self) -> tuple[str, str]:
        litellm = load_litellm()
        try:
            model, provider, key, address = litellm.get_llm_provider(
                self.name, api_base=self._api_base
            )
        except litellm.exceptions.BadRequestError:
            raise ConfigurationError(
                f"litellm knows no provider for the model {self.name!r}; names look like"
                " openai/gpt-4.1-mini, and direct/NAME with api_base= asks any "
                "OpenAI-compatible server"
            ) from None
        self._providers_own = address, key
        return model, provider

    @functools.cached_property
    def _model_info(self) -> Mapping[str, Any]:
        """The model's row in litellm's table; empty if it has none."""
        litellm = load_litellm()
        model, provider = self._model_and_provider
        try:
            return dict(litellm.get_model_info(model, custom_llm_provider=provider))
        except Exception as error:  # a bare one, or a class of litellm's own, by version
            if "mapped" not in str(error):
                raise
            return {}

    @functools.cached_property
    def _is_openai(self) -> bool:
        """Whether the API is in OpenAI's format, as far as litellm knows."""
        config = self._chat_config
        return config is None or isinstance(config, load_litellm().OpenAIGPTConfig)

    @functools.cached_property
    def _chat_config(self) -> Any:
        """How litellm asks the provider to chat; `None` if it does not, or as it asks OpenAI."""
        return self._config_for("chat")

    @functools.cached_property
    def _decisions_config(self) -> Any:
        """How litellm asks the provider typed questions; `None` if it does not."""
        return self._config_for("decisions")

    def _config_for(self, endpoint: str) -> Any:
        litellm, (model, provider) = load_litellm(), self._model_and_provider
        if provider not in litellm.provider_list:
            return None
        find = getattr(litellm.ProviderConfigManager, f"get_provider_{endpoint}_config")
        return find(model=model, provider=litellm.LlmProviders(provider))

    @property
    def _takes_prompts(self) -> bool:
        """Whether plain prompts stay plain: for other providers litellm turns them into chats."""
        completes = load_litellm().openai_text_completion_compatible_providers
        return self.provider in _OWN_PROMPT_PROVIDERS or (
            bool(self._api_base) and self.provider in completes
        )

    async def generate(self, request: Request, posting: Posting = PLAIN) -> Response:
        if request.images:
            request = await with_images(request)
        plain = request.model_copy(update={"extra": {}}) if request.extra else request
        prompt = openai_format.prompt_fields(plain, posting)
        body = prompt | openai_format.sampling_fields(plain, posting)
        # The provider, not a table that may be older, decides on fields that the user has set. To
        # APIs of another form, which refuse unknown fields, litellm's translation is sent alone.
        allowed = [n for n in posting.thinking_fields if n != "reasoning_effort" or self._is_openai]
        if allowed:
            body["allowed_openai_params"] = allowed
        if request.functions:
            # skip litellm's MCP lookup, which imports a missing package
            body["_skip_mcp_handler"] = True
        payload, cost = await self._ask(body, request.extra)
        with self._naming_model(cost):
            response = openai_format.read_response(payload, request, self._price)
        if self._price or cost is None:
            return response
        return response.model_copy(update={"usage": _with_cost(response.usage, cost)})

    async def choices(self, request: ChoicesRequest, posting: Posting = PLAIN) -> ChoicesResponse:
        """Return the probabilities of choices that are among the 20 likeliest first tokens."""
        return read_choices(await self.generate(choices_as_request(request), posting), request)

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the log-probabilities of a given text, from a completion that echoes it."""
        payload, cost = await self._ask(echo_fields(request, self.name), {})
        with self._naming_model(cost):
            tokens = read_continuation(payload, request.prompt or "", request.continuation)
        usage = _with_cost(read_usage(payload, self._price), cost)
        return ContinuationResponse(tokens=tokens, usage=usage, model=payload.get("model"))

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        """Return the probabilities of all options, checked question by question.

        litellm finds address and key, and our own client asks: litellm's own functions take answers
        in OpenAI's form by position, and fill in a level of a rating that is missing with 0.
        """
        await self._load()
        return await self._own_client.decide(request)

    @functools.cached_property
    def _own_client(self) -> DecisionModel:
        model, provider = self._model_and_provider
        address, key = self._providers_own
        config = self._decisions_config
        if not config:
            raise ConfigurationError(
                f"this version of litellm asks {provider} no typed questions; use systemone/{model}"
                " with api_base="
            )
        base = config.resolve_api_base(self._address or address)
        if not base:
            raise ConfigurationError(f"model {self.name!r} needs the server's address: api_base=")
        model = config.canonical_model(model)
        key = None if self._http.has_login else config.resolve_api_key(self._key or key)

        def sign(url: str, body: bytes) -> tuple[Mapping[str, str], bytes]:
            own = config.validate_environment({}, model, key)
            try:
                headers, signed = config.sign_request(own, url, base, orjson.loads(body), key, {})
            except Exception as error:  # of AWS's library, which looks in many places
                why = http_errors.quote(self._errors.scrub(str(error)))
                raise AuthenticationFailed(f"{self.name}: no signature of AWS: {why}") from None
            return headers, signed or body

        # without the version in the address, too, which litellm adds
        address, _, path = config.get_complete_url(base, model).rpartition("/")
        form: WireForm = "openai" if provider in ("azure", "openai") else "systemone"
        return DecisionModel(
            f"{provider}/{config.request_model(model)}",
            api_base=address,
            api_key=key,
            price=self._price,
            endpoint=self._endpoint,
            family=self._family._replace(name=provider, form=form, path=f"/{path}"),
            sign=sign if config.signs_with_aws(base) else None,
        )

    async def aclose(self) -> None:
        """Close the connections; litellm's shared ones are closed with the last open model.

        Safe to call twice.
        """
        self._closed = True
        self._handler = self._openai = None
        await self._http.aclose()
        if "_own_client" in vars(self):
            await self._own_client.aclose()
        if id(self) in _open_models:
            _open_models.discard(id(self))
            if not _open_models:
                litellm = load_litellm()
                await litellm.close_litellm_async_clients()
                # litellm would return the closed clients again.
                litellm.in_memory_llm_clients_cache.flush_cache()

    async def _ask(self, body: Json, extra: Json) -> tuple[Any, float | None]:
        """Return the answer as JSON values, and its cost in US dollars by litellm's table."""

        def fields() -> Json:
            return {
                "timeout": _DAY,
                **body,
                "client": self._client(plain="prompt" in body),
                # as arguments of their own, litellm takes some for itself, such as `metadata`
                **({"extra_body": extra} if extra and self._uses_openai_client else extra),
            }

        return await self._send("atext_completion" if "prompt" in body else "acompletion", fields)

    async def _load(self) -> Any:
        if self._closed:
            raise ModelClosed(f"model {self.name!r} was used after it was closed")
        is_there = "litellm" in sys.modules
        litellm = load_litellm() if is_there else await asyncio.to_thread(load_litellm)
        _open_models.add(id(self))
        return litellm

    async def _send(self, function: str, fields: Callable[[], Json]) -> tuple[Any, float | None]:
        """Call a function of litellm; errors of making its arguments are translated as well."""
        litellm = await self._load()
        fixed: Json = {"model": self.name, "max_retries": 0, "num_retries": 0, "drop_params": False}
        body: Json = {}
        try:
            body = fields()
            address = {"api_base": self._api_base, "api_key": self._key or self._no_key}
            answer = await getattr(litellm, function)(**fixed, **address, **body)
        except TextassayError:
            raise
        # all that a provider's code raises becomes ours here, and nowhere else
        except Exception as error:
            raise self._errors.translate(error, body, litellm.exceptions) from None
        # 0 where the table lists the model without a price
        return answer.model_dump(), answer._hidden_params.get("response_cost") or None

    @property
    def _no_key(self) -> str | None:
        """Return the word for "no key", which OpenAI's client demands for any server."""
        if self._http.has_login:  # in place of any key, also of one in the environment
            return "none" if self._uses_openai_client else None
        own_server = bool(self._api_base) and self.provider in _OWN_PROMPT_PROVIDERS
        return "none" if own_server and not PROVIDERS["openai"].key else None

    def _client(self, *, plain: bool) -> Any:
        """Return our client in the form that the provider's code accepts.

        `None` for providers whose code accepts no client: litellm's own follows redirects.
        """
        if plain and not self._takes_prompts:
            raise CapabilityError(
                f"{self.name} takes chats only; direct/NAME with api_base= takes plain prompts"
            )
        if plain or self._uses_openai_client:
            self._openai = self._openai or self._openai_client()
            return self._openai
        if self.provider in _CLIENT_PROVIDERS:
            if not self._handler:
                from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

                self._handler = AsyncHTTPHandler(
                    transport=self._transport(), follow_redirects=False
                )
            return self._handler
        return None

    @functools.cached_property
    def _uses_openai_client(self) -> bool:
        """Whether litellm asks through the client of OpenAI's library."""
        providers = {"custom_openai", *load_litellm().openai_compatible_providers}
        return self.provider in {*_OWN_PROMPT_PROVIDERS, *(providers - _CLIENT_PROVIDERS)}

    def _openai_client(self) -> Any:
        import openai
        from openai.resources.chat import AsyncChat, AsyncCompletions

        class Completions(AsyncCompletions):
            # The library's own looks through each message by its type for fields to rename, and
            # makes objects of all parts of the answer, which litellm turns into JSON again: more
            # than a tenth of a call's CPU. Here both bodies are unchanged.
            async def create(self, **body: Any) -> Any:
                options: Any = {
                    "timeout": body.pop("timeout"),
                    "headers": body.pop("extra_headers"),
                    "extra_json": body.pop("extra_body", None),
                }
                return await self._client.post(
                    "/chat/completions", body=body, options=options, cast_to=openai.BaseModel
                )

        class Chat(AsyncChat):
            @functools.cached_property
            def completions(self) -> AsyncCompletions:
                return Completions(self._client)

        class AskingOnce(openai.AsyncOpenAI):
            @functools.cached_property
            def chat(self) -> AsyncChat:
                return Chat(self)

            # litellm sets it to 2 even for providers that do not have this parameter
            @property
            def max_retries(self) -> int:
                return 0

            @max_retries.setter
            def max_retries(self, _: int) -> None: ...

        address, key = self._providers_own
        return AskingOnce(
            api_key=self._key or key or self._no_key,
            base_url=self._api_base or address or PROVIDERS["openai"].address,
            timeout=None,
            http_client=PlainClient(self._transport()),
        )

    def _transport(self) -> ClientTransport:
        # a key with its own header, or beside a login, is sent in no other header
        left_out = ("authorization",) if self._authorizes else ()
        return ClientTransport(self._http, where=self.name, price=self._price, left_out=left_out)

    @contextmanager
    def _naming_model(self, cost: float | None) -> Iterator[None]:
        """Put the model's name in front of the error of an answer, and add its cost."""
        try:
            yield
        except (MalformedResponse, CapabilityError, RequestRefused) as error:
            error.args = (f"{self.name}: {self._errors.scrub(str(error))}",)
            if isinstance(error, ModelError) and error.usage and not self._price:
                error.usage = _with_cost(error.usage, cost)
            raise error from None


def _with_cost(usage: Usage, cost: float | None) -> Usage:
    return usage if usage.cost is not None else usage.model_copy(update={"cost": cost})
