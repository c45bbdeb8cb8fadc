"""Spans run > node > call, and one event per score, through the OpenTelemetry API.

Only here is OpenTelemetry imported. Exporters, sampling and resources are the application's.

Attributes have the names of OpenTelemetry's conventions for generative AI, and our own. The
conventions have the status "development": names may change, and this is the only file to follow.

References:
    github.com/open-telemetry/semantic-conventions-genai, model/gen-ai (November 2026).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opentelemetry import context, trace
from opentelemetry._logs import Logger, LoggerProvider, LogRecord, get_logger
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.graph import OBSERVERS, RunObserver
from textassay.runtime.messages import Example, Failure, Score
from textassay.runtime.model import AnyResponse, Model, Prompted, Request, Response
from textassay.runtime.questions import DecisionRequest
from textassay.version import __version__

_example: ContextVar[str | None] = ContextVar("textassay_example", default=None)


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    logger_provider: LoggerProvider | None = None,
    texts: bool = False,
) -> None:
    """Trace all runs of this process from now on; models that are connected already are not traced.

    Args:
        tracer_provider: Where spans go; by default the global provider.
        logger_provider: Where events go; by default the global provider.
        texts: Whether prompts, answers and explanations are recorded; they may hold personal data.
    """
    tracer = trace.get_tracer("textassay", __version__, tracer_provider)
    logger = get_logger("textassay", __version__, logger_provider)
    OBSERVERS.current = Tracing(tracer, logger, texts=texts)


def uninstrument() -> None:
    """Stop tracing."""
    OBSERVERS.current = None


class Tracing:
    """Makes the spans of a process."""

    def __init__(self, tracer: Tracer, logger: Logger, *, texts: bool) -> None:
        self.tracer, self.logger, self.texts = tracer, logger, texts

    def run(self, method: Any) -> RunObserver:
        """Open the span of a session; its nodes are its children, also nodes in other tasks."""
        attributes = {
            "gen_ai.operation.name": "evaluate",
            "textassay.method": method.name,
            "textassay.signature": method.signature,
        }
        span = self.tracer.start_span(f"evaluate {method.name}", attributes=attributes)
        return TracedRun(self, span)

    async def node(
        self, name: str, agent: Callable[..., Awaitable[Any]], arguments: Mapping[str, Any]
    ) -> Any:
        """Call an agent inside of a span."""
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        if (id_ := _example.get()) is not None:
            attributes["textassay.example.id"] = id_
        # without a context manager, for speed: it runs for every node of every example
        span = self.tracer.start_span(f"invoke_agent {name}", attributes=attributes)
        token = context.attach(trace.set_span_in_context(span))
        try:
            value = await agent(**arguments)
            # an agent returns failures as values, so no exception marks the span
            if isinstance(value, Failure):
                _set_error(span, value.type)
            return value
        except BaseException as error:
            _set_error(span, type(error).__name__)
            raise
        finally:
            context.detach(token)
            span.end()

    def model(self, model: Model) -> Model:
        """Return a model whose calls are spans."""
        return TracedModel(model, self)


class TracedRun:
    """The span of one session."""

    def __init__(self, tracing: Tracing, span: Span) -> None:
        self._tracing, self._span, self._scores = tracing, span, 0
        self._context = trace.set_span_in_context(span)

    @contextmanager
    def example(self, example: Example) -> Iterator[None]:
        """Make the run's span the current one, in the task in which an example is judged."""
        # examples are judged in tasks of several workers, each with a context of its own
        token, known = context.attach(self._context), _example.set(example.id)
        try:
            yield
        finally:
            _example.reset(known)
            context.detach(token)

    def record_score(self, score: Score, example: Example) -> None:
        """Emit the event of a score, as a child of the span of its text if the example names it."""
        self._scores += 1
        attributes: dict[str, Any] = {
            "gen_ai.evaluation.name": score.aspect,
            "textassay.example.id": score.id,
            "textassay.signature": score.signature,
            "textassay.how": score.how,
            "textassay.scale": score.scale,
            "textassay.calibrated": score.calibrated,
            "gen_ai.evaluation.score.value": score.value,
            "gen_ai.evaluation.score.label": None if score.outcome == "scored" else score.outcome,
            "error.type": None if score.error is None else score.error.type,
            "gen_ai.evaluation.explanation": score.explanation if self._tracing.texts else None,
            "gen_ai.response.id": example.meta.get("response_id"),
        }
        self._tracing.logger.emit(
            LogRecord(
                event_name="gen_ai.evaluation.result",
                # in the trace of the application that wrote the text, if the data name it:
                # readers look for a score there
                context=_parent_context(example) or self._context,
                attributes=_without_none(attributes),
            )
        )

    def end(self, error: BaseException | None) -> None:
        """Close the span."""
        self._span.set_attribute("textassay.scores", self._scores)
        if error:
            _set_error(self._span, type(error).__name__)
        self._span.end()


class TracedModel(Wrapper):
    """Makes each call a span, also calls that the cache answers."""

    def __init__(self, wrapped: Model, tracing: Tracing) -> None:
        super().__init__(wrapped)
        self._tracing = tracing
        provider = self.name.split("/")[0]
        self._attributes = {"gen_ai.request.model": self.name, "gen_ai.provider.name": provider}

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        request = call.request
        if isinstance(request, DecisionRequest):
            operation = "decide"
        else:
            operation = "chat" if request.messages else "text_completion"
        attributes = {"gen_ai.operation.name": operation, **self._attributes}
        if isinstance(request, Request):
            attributes |= _request_attributes(request)
        tracing, name = self._tracing, f"{operation} {self.name}"
        span = tracing.tracer.start_span(name, attributes=attributes, kind=SpanKind.CLIENT)
        token = context.attach(trace.set_span_in_context(span))
        try:
            # texts are not read for spans that a sampler drops
            recorded = span.is_recording()
            # texts may hold personal data, and traces often leave the machine
            if recorded and tracing.texts:
                span.set_attribute("gen_ai.input.messages", _input(request))
            response = await ask(call)
            if recorded:
                _record_response(span, response, texts=tracing.texts)
            return response
        except BaseException as error:
            _set_error(span, type(error).__name__)
            raise
        finally:
            context.detach(token)
            span.end()


def _request_attributes(request: Request) -> dict[str, Any]:
    attributes = {
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.choice.count": request.n if request.n > 1 else None,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.seed": request.seed,
    }
    return _without_none(attributes)


def _without_none(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _record_response(span: Span, response: Any, *, texts: bool) -> None:
    usage = response.usage
    attributes = {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_prompt_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
        "textassay.cached": not usage.calls,
        "textassay.cost": usage.cost,
    }
    if isinstance(response, Response):
        reasons = tuple(sample.finish_reason for sample in response.samples)
        attributes["gen_ai.response.finish_reasons"] = reasons
        attributes["gen_ai.response.model"] = response.model
        if texts:
            messages = [
                {**_message("assistant", sample.text), "finish_reason": sample.finish_reason}
                for sample in response.samples
            ]
            attributes["gen_ai.output.messages"] = json.dumps(messages)
    span.set_attributes(_without_none(attributes))


def _input(request: Prompted | DecisionRequest) -> str:
    if isinstance(request, DecisionRequest):
        return json.dumps([_message("user", request.text)])
    turns = [(turn.role, turn.content) for turn in request.messages]
    return json.dumps([_message(*turn) for turn in turns or [("user", request.prompt or "")]])


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _parent_context(example: Example) -> context.Context | None:
    """Return the context of the span that made the text, from `traceparent` of the example."""
    parent = example.meta.get("traceparent")
    if not isinstance(parent, str):
        return None
    parents = TraceContextTextMapPropagator().extract({"traceparent": parent})
    return parents if trace.get_current_span(parents).get_span_context().is_valid else None


def _set_error(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
