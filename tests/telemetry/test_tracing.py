"""What a run looks like to OpenTelemetry's own in-memory exporters."""

from __future__ import annotations

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from tests.telemetry.ten_nodes import ten_nodes
from textassay import ScriptedModel, connect, evaluate, telemetry
from textassay.observing import WATCH
from textassay.runtime.errors import RequestRefused
from textassay.runtime.messages import Usage
from textassay.runtime.model import ChatMessage, Request, Response, Sample

SECRET = "A text that nobody else may read"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROWS = [
    {"id": "a", "output": SECRET, "traceparent": PARENT},
    {"id": "b", "output": "Another text."},
]


@pytest.fixture
def exported():
    """Instrument with in-memory exporters; nothing is instrumented afterwards."""
    spans, records = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracers, loggers = TracerProvider(), LoggerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    loggers.add_log_record_processor(SimpleLogRecordProcessor(records))

    def instrument(**more):
        telemetry.instrument(tracer_provider=tracers, logger_provider=loggers, **more)
        return spans, records

    yield instrument
    telemetry.uninstrument()
    loggers.shutdown()


@pytest.mark.asyncio
async def test_the_tree_of_a_ten_node_graph(exported):
    """Run > node > call: every node below the run, every call below the node that made it."""
    spans, _ = exported()
    model = ScriptedModel(lambda request: "4", name="scripted/judge")
    async with connect(model) as judge:
        expected = {"method": ten_nodes(judge), "task": "summarization", "aspects": ["coherence"]}
        await evaluate(ROWS, **expected)
    found = {span.context.span_id: span for span in spans.get_finished_spans()}
    (run,) = (span for span in found.values() if span.parent is None)
    nodes = [s for s in found.values() if s.name.startswith("invoke_agent ")]
    calls = [s for s in found.values() if s.name == "chat scripted/judge"]
    assert run.attributes["gen_ai.operation.name"] == "evaluate"
    assert len({node.name for node in nodes}) == 10
    assert all(node.parent.span_id == run.context.span_id for node in nodes)
    assert len(calls) == len(ROWS) * 5
    makers = {found[call.parent.span_id].name for call in calls}
    assert makers == {f"invoke_agent judge{i}" for i in range(5)}
    assert {node.attributes["textassay.example.id"] for node in nodes} == {"a", "b"}
    assert calls[0].attributes["gen_ai.request.model"] == "scripted/judge"
    assert calls[0].attributes["gen_ai.usage.output_tokens"] > 0
    assert len({span.context.trace_id for span in found.values()}) == 1


@pytest.mark.asyncio
async def test_scores_are_events_without_texts(exported):
    """With signature and scale; below the span that made the text where the example names it."""
    spans, records = exported()
    model = ScriptedModel(lambda request: f"{SECRET}\nRating: 4")
    expected = {"method": "llm-score", "aspects": ["coherence"], "model": model}
    run = await evaluate(ROWS, **expected)
    first, second = (one.log_record for one in records.get_finished_logs())
    assert {first.event_name, second.event_name} == {"gen_ai.evaluation.result"}
    shown = {one.attributes["textassay.example.id"]: one for one in (first, second)}
    assert shown["a"].attributes["gen_ai.evaluation.name"] == "coherence"
    assert shown["a"].attributes["gen_ai.evaluation.score.value"] == 4
    assert shown["a"].attributes["textassay.signature"] == run.scores[0].signature
    assert tuple(shown["a"].attributes["textassay.scale"]) == run.scores[0].scale
    assert format(shown["a"].span_id, "016x") == PARENT.split("-")[2]
    (root,) = (span for span in spans.get_finished_spans() if span.parent is None)
    assert shown["b"].span_id == root.context.span_id
    everything = [str(dict(s.attributes)) for s in spans.get_finished_spans()]
    everything += [str(dict(one.attributes)) for one in (first, second)]
    assert SECRET not in " ".join(everything)


@pytest.mark.asyncio
async def test_texts_and_errors(exported):
    """Texts are recorded on request; an error names its type on call, node and event."""
    spans, records = exported(texts=True)

    def refuse(request):
        if SECRET in request.text:
            raise RequestRefused("no")
        return "Rating: 4"

    expected = {"method": "llm-score", "aspects": ["coherence"], "model": ScriptedModel(refuse)}
    await evaluate(ROWS, **expected)
    failed = [s for s in spans.get_finished_spans() if "error.type" in s.attributes]
    assert [s.attributes["error.type"] for s in failed] == ["RequestRefused"] * 2
    assert any(SECRET in s.attributes.get("gen_ai.input.messages", "") for s in failed)
    labels = {
        one.log_record.attributes.get("gen_ai.evaluation.score.label")
        for one in records.get_finished_logs()
    }
    assert labels == {"error", None}


@pytest.mark.asyncio
async def test_nothing_when_off(exported):
    """After `uninstrument` nothing is exported."""
    spans, records = exported()
    telemetry.uninstrument()
    assert WATCH.observer is None
    model = ScriptedModel(lambda request: "Rating: 4")
    expected = {"method": "llm-score", "aspects": ["coherence"], "model": model}
    await evaluate(ROWS, **expected)
    assert spans.get_finished_spans() == ()
    assert records.get_finished_logs() == ()


class Watched(tuple):
    """What an answer holds, which must not be read for a span that nobody keeps."""

    read = 0

    def __iter__(self):
        Watched.read += 1
        return super().__iter__()


@pytest.mark.asyncio
async def test_what_a_sampler_drops_costs_no_look_at_the_answer():
    """Not one attribute is made of a response whose span is not recorded."""
    tracers = TracerProvider(sampler=ALWAYS_OFF)
    telemetry.instrument(tracer_provider=tracers, logger_provider=LoggerProvider(), texts=True)
    try:
        traced = WATCH.observer.model(ScriptedModel(lambda request: "4"))
        reply = Response(samples=(Sample(text="4"),), usage=Usage(calls=1), model="m")
        object.__setattr__(reply, "samples", Watched(reply.samples))

        async def call(request):
            return reply

        request = Request(messages=(ChatMessage(role="user", content=SECRET),))
        assert await traced.around(request, call) is reply
        assert Watched.read == 0
    finally:
        telemetry.uninstrument()


@pytest.mark.asyncio
async def test_prometheus_figures_are_those_of_the_progress():
    """Counters by outcome and kind, with labels escaped."""
    seen = []
    model = ScriptedModel(lambda request: "Rating: 4" if SECRET in request.text else "no idea")
    expected = {"method": "llm-score", "aspects": ["coherence"], "model": model}
    await evaluate(ROWS, **expected, progress=seen.append)
    text = telemetry.prometheus_text(seen[-1], run='a "b"')
    assert 'textassay_scores_total{run="a \\"b\\"",outcome="scored"} 1\n' in text
    assert 'textassay_scores_total{run="a \\"b\\"",outcome="invalid"} 1\n' in text
    assert 'textassay_examples{run="a \\"b\\""} 2\n' in text
    calls = seen[-1].usage.calls
    assert f'textassay_calls_total{{run="a \\"b\\""}} {calls}\n' in text
