"""Spans run > node > call, and one event per score, through the OpenTelemetry API.

Only here is OpenTelemetry imported. Exporters, sampling and resources are the application's.
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

from textassay.observing import WATCH, RunObserver
from textassay.runtime.messages import Example, Failure, Score
from textassay.runtime.model import A, Model, Prompted, Q, Request, Response, Wrapper
from textassay.telemetry import names
from textassay.version import __version__

_SCOPE = "textassay"
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
    tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
    logger = get_logger(_SCOPE, __version__, logger_provider)
    WATCH.observer = Tracing(tracer, logger, texts=texts)


def uninstrument() -> None:
    """Stop tracing."""
    WATCH.observer = None


class Tracing:
    """Makes the spans of a process."""

    def __init__(self, tracer: Tracer, logger: Logger, *, texts: bool) -> None:
        self.tracer, self.logger, self.texts = tracer, logger, texts

    def run(self, method: Any) -> RunObserver:
        """Open the span of a session; its nodes are its children, also those of other tasks."""
        attributes = {
            names.OPERATION: "evaluate",
            names.METHOD: method.name,
            names.SIGNATURE: method.signature,
        }
        return TracedRun(
            self, self.tracer.start_span(f"evaluate {method.name}", attributes=attributes)
        )

    async def node(
        self, name: str, agent: Callable[..., Awaitable[Any]], arguments: Mapping[str, Any]
    ) -> Any:
        """Call an agent inside of a span."""
        attributes = {names.OPERATION: "invoke_agent", names.AGENT: name}
        if (id_ := _example.get()) is not None:
            attributes[names.EXAMPLE] = id_
        # without a context manager: this is run for every node of every example
        span = self.tracer.start_span(f"invoke_agent {name}", attributes=attributes)
        token = context.attach(trace.set_span_in_context(span))
        try:
            value = await agent(**arguments)
            # an agent returns failures as values, so no exception marks the span
            if isinstance(value, Failure):
                _failed(span, value.type)
            return value
        except BaseException as error:
            _failed(span, type(error).__name__)
            raise
        finally:
            context.detach(token)
            span.end()

    def model(self, model: Model) -> Model:
        """Return a model whose calls are spans."""
        return TracedModel(model, self)

    @contextmanager
    def call(self, name: str, attributes: Mapping[str, Any]) -> Iterator[Span]:
        """Open the span of a call."""
        span = self.tracer.start_span(name, attributes=attributes, kind=SpanKind.CLIENT)
        token = context.attach(trace.set_span_in_context(span))
        try:
            yield span
        except BaseException as error:
            _failed(span, type(error).__name__)
            raise
        finally:
            context.detach(token)
            span.end()


class TracedRun:
    """The span of one session."""

    def __init__(self, tracing: Tracing, span: Span) -> None:
        self._tracing, self._span, self._scores = tracing, span, 0
        self._context = trace.set_span_in_context(span)

    @contextmanager
    def example(self, example: Example) -> Iterator[None]:
        """Make the run's span the current one, in whatever task an example is judged."""
        # the run's span is never the current one by itself: examples are judged in the tasks of
        # several workers, and each of them has a context of its own
        token, known = context.attach(self._context), _example.set(example.id)
        try:
            yield
        finally:
            _example.reset(known)
            context.detach(token)

    def scored(self, score: Score, example: Example) -> None:
        """Emit the event of a score, as a child of the span of its text if the example names it."""
        self._scores += 1
        attributes: dict[str, Any] = {
            names.EVALUATION_NAME: score.aspect,
            names.EXAMPLE: score.id,
            names.SIGNATURE: score.signature,
            names.HOW: score.how,
            names.SCALE: score.scale,
            names.CALIBRATED: score.calibrated,
            names.SCORE_VALUE: score.value,
            names.SCORE_LABEL: None if score.outcome == "scored" else score.outcome,
            names.ERROR_TYPE: None if score.error is None else score.error.type,
            names.EXPLANATION: score.explanation if self._tracing.texts else None,
            names.RESPONSE_ID: example.meta.get("response_id"),
        }
        self._tracing.logger.emit(
            LogRecord(
                event_name=names.EVALUATION_EVENT,
                # beside the trace of the application that wrote the text, if its data carry it:
                # there a reader looks for a score
                context=_judged_in(example) or self._context,
                attributes={name: value for name, value in attributes.items() if value is not None},
            )
        )

    def end(self, error: BaseException | None) -> None:
        """Close the span."""
        self._span.set_attribute(names.SCORES, self._scores)
        if error is not None:
            _failed(self._span, type(error).__name__)
        self._span.end()


class TracedModel(Wrapper):
    """Makes each call a span, those that the cache answers included."""

    def __init__(self, wrapped: Model, tracing: Tracing) -> None:
        super().__init__(wrapped)
        self._tracing = tracing
        self._attributes = {names.REQUEST_MODEL: self.name, names.PROVIDER: self.name.split("/")[0]}

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Forward the request inside of a span."""
        operation = "chat" if request.messages else "text_completion"
        attributes = {names.OPERATION: operation, **self._attributes}
        if isinstance(request, Request):
            attributes |= _request_attributes(request)
        tracing = self._tracing
        with tracing.call(f"{operation} {self.name}", attributes) as span:
            # what a sampler drops is not worth a look at the texts
            recorded = span.is_recording()
            # texts may hold personal data, and traces often leave the machine
            if recorded and tracing.texts:
                span.set_attribute(names.INPUT_MESSAGES, _input(request))
            response = await call(request)
            if recorded:
                _record_response(span, response, texts=tracing.texts)
            return response


def _request_attributes(request: Request) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        names.TEMPERATURE: request.temperature,
        names.TOP_P: request.top_p,
    }
    if request.n > 1:
        attributes[names.CHOICE_COUNT] = request.n
    if request.max_tokens is not None:
        attributes[names.MAX_TOKENS] = request.max_tokens
    if request.seed is not None:
        attributes[names.SEED] = request.seed
    return attributes


def _record_response(span: Span, response: Any, *, texts: bool) -> None:
    usage = response.usage
    attributes = {
        names.INPUT_TOKENS: usage.prompt_tokens,
        names.OUTPUT_TOKENS: usage.completion_tokens,
        names.CACHED: not usage.calls,
    }
    parts = {
        names.REASONING_TOKENS: usage.reasoning_tokens,
        names.CACHE_READ_TOKENS: usage.cached_prompt_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
    }
    attributes |= {name: count for name, count in parts.items() if count}
    if usage.cost is not None:
        attributes[names.COST] = usage.cost
    if isinstance(response, Response):
        attributes[names.FINISH_REASONS] = tuple(
            sample.finish_reason for sample in response.samples
        )
        if response.model is not None:
            attributes[names.RESPONSE_MODEL] = response.model
        if texts:
            attributes[names.OUTPUT_MESSAGES] = _output(response)
    span.set_attributes(attributes)


def _input(request: Prompted) -> str:
    turns = [(turn.role, turn.content) for turn in request.messages]
    turns = turns or [("user", request.prompt or "")]
    return json.dumps(
        [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in turns]
    )


def _output(response: Response) -> str:
    return json.dumps(
        [
            {
                "role": "assistant",
                "parts": [{"type": "text", "content": sample.text}],
                "finish_reason": sample.finish_reason,
            }
            for sample in response.samples
        ]
    )


def _judged_in(example: Example) -> context.Context | None:
    """Return the context of the span that made the text, from `traceparent` of the example."""
    parent = example.meta.get("traceparent")
    if not isinstance(parent, str):
        return None
    parent_context = TraceContextTextMapPropagator().extract({"traceparent": parent})
    return (
        parent_context
        if trace.get_current_span(parent_context).get_span_context().is_valid
        else None
    )


def _failed(span: Span, kind: str) -> None:
    span.set_attribute(names.ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR))
