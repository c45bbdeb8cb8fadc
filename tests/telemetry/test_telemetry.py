"""What a run looks like to OpenTelemetry's own in-memory exporters, and in the log."""

from __future__ import annotations

import json

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from textassay import (
    Assignment,
    Failure,
    Graph,
    Node,
    Score,
    ScriptedModel,
    Settings,
    connect,
    evaluate,
    telemetry,
)
from textassay.cli.progress import progress_line
from textassay.runtime.base import Message, Usage
from textassay.runtime.calls.call import Call
from textassay.runtime.errors import RequestRefused
from textassay.runtime.graph import OBSERVERS
from textassay.runtime.model import ChatMessage, Request, Response, Sample

SECRET = "A text that nobody else may read"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROWS = [
    {"id": "a", "output": SECRET, "traceparent": PARENT},
    {"id": "b", "output": "Another text."},
]


class Text(Message):
    text: str


def four_nodes(model):
    """Begin, two judges side by side, end."""

    async def begin(assignment: Assignment) -> Text:
        return Text(text=assignment.example.output)

    async def judge(text: Text) -> Text:
        request = Request(messages=(ChatMessage(role="user", content=text.text),))
        return Text(text=(await model.generate(request)).samples[0].text)

    async def end(assignment: Assignment, a: Text, b: Text) -> list[Score | Failure]:
        return [
            Score(id=assignment.example.id, aspect=a.label, value=4, scale=(1, 5), signature="four")
            for a in assignment.aspects
        ]

    nodes = [
        Node("begin", begin, assignment="input"),
        *(Node(f"judge{i}", judge, text="begin") for i in range(2)),
        Node("end", end, assignment="input", a="judge0", b="judge1"),
    ]
    return Graph("four", input=Assignment, nodes=nodes, output="end")


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


async def judged(reply):
    model = ScriptedModel(reply)
    return await evaluate(ROWS, method="llm-score", aspects=["coherence"], model=model)


async def test_the_tree_of_a_graph(exported):
    """Run > node > call: every node below the run, every call below the node that made it."""
    spans, _ = exported()
    model = ScriptedModel(lambda request: "4", name="scripted/judge")
    async with connect(model) as judge:
        graph = four_nodes(judge)
        await evaluate(ROWS, method=graph, task="summarization", aspects=["coherence"])
    found = {span.context.span_id: span for span in spans.get_finished_spans()}
    (run,) = (span for span in found.values() if span.parent is None)
    nodes = [s for s in found.values() if s.name.startswith("invoke_agent ")]
    calls = [s for s in found.values() if s.name == "chat scripted/judge"]
    assert run.attributes["gen_ai.operation.name"] == "evaluate"
    assert len({node.name for node in nodes}) == 4
    assert all(node.parent.span_id == run.context.span_id for node in nodes)
    assert len(calls) == len(ROWS) * 2
    makers = {found[call.parent.span_id].name for call in calls}
    assert makers == {f"invoke_agent judge{i}" for i in range(2)}
    assert {node.attributes["textassay.example.id"] for node in nodes} == {"a", "b"}
    assert calls[0].attributes["gen_ai.request.model"] == "scripted/judge"
    assert calls[0].attributes["gen_ai.usage.output_tokens"] > 0
    assert len({span.context.trace_id for span in found.values()}) == 1


async def test_scores_are_events_without_texts(exported):
    """With signature and scale; below the span that made the text where the example names it."""
    spans, records = exported()
    run = await judged(lambda request: f"{SECRET}\nRating: 4")
    first, second = (one.log_record for one in records.get_finished_logs())
    assert {first.event_name, second.event_name} == {"gen_ai.evaluation.result"}
    shown = {one.attributes["textassay.example.id"]: one for one in (first, second)}
    attributes = shown["a"].attributes
    assert attributes["gen_ai.evaluation.name"] == "coherence"
    assert attributes["gen_ai.evaluation.score.value"] == 4
    assert attributes["textassay.signature"] == run.scores[0].signature
    assert tuple(attributes["textassay.scale"]) == run.scores[0].scale
    assert format(shown["a"].span_id, "016x") == PARENT.split("-")[2]
    (root,) = (span for span in spans.get_finished_spans() if span.parent is None)
    assert shown["b"].span_id == root.context.span_id
    everything = [str(dict(s.attributes)) for s in spans.get_finished_spans()]
    everything += [str(dict(one.attributes)) for one in (first, second)]
    assert SECRET not in " ".join(everything)


async def test_texts_and_errors(exported):
    """Texts are recorded on request; an error names its type on call, node and event."""
    spans, records = exported(texts=True)

    def refuse(request):
        if SECRET in request.text:
            raise RequestRefused("no")
        return "Rating: 4"

    await judged(refuse)
    failed = [s for s in spans.get_finished_spans() if "error.type" in s.attributes]
    assert [s.attributes["error.type"] for s in failed] == ["RequestRefused"] * 2
    assert any(SECRET in s.attributes.get("gen_ai.input.messages", "") for s in failed)
    events = [one.log_record.attributes for one in records.get_finished_logs()]
    assert {one.get("gen_ai.evaluation.score.label") for one in events} == {"error", None}
    spans.clear()
    records.clear()
    telemetry.uninstrument()
    assert OBSERVERS.current is None
    await judged(refuse)
    assert spans.get_finished_spans() == records.get_finished_logs() == ()


class Watched(tuple):
    """The content of an answer, which must not be read for a span that is dropped."""

    read = 0

    def __iter__(self):
        Watched.read += 1
        return super().__iter__()


async def test_a_dropped_span_does_not_read_the_answer():
    """Not one attribute is made of a response whose span is not recorded."""
    tracers = TracerProvider(sampler=ALWAYS_OFF)
    telemetry.instrument(tracer_provider=tracers, logger_provider=LoggerProvider(), texts=True)
    try:
        traced = OBSERVERS.current.model(ScriptedModel(lambda request: "4"))
        reply = Response(samples=(Sample(text="4"),), usage=Usage(calls=1), model="m")
        object.__setattr__(reply, "samples", Watched(reply.samples))

        async def answer(call):
            return reply

        request = Request(messages=(ChatMessage(role="user", content=SECRET),))
        assert await traced.around(Call(request), answer) is reply
        assert Watched.read == 0
    finally:
        telemetry.uninstrument()


async def test_final_figures_are_those_of_the_run_folder(tmp_path):
    """Outcomes, calls, calls that shared an answer, tokens and cost; labels are escaped."""
    rows = [{"id": f"t{i}", "output": f"Text {i // 2}."} for i in range(12)]

    def answer(request):
        return "no idea" if "Text 3." in request.text else "Rating: 4"

    seen = []
    settings = Settings(price=(1.0, 2.0))
    async with connect(ScriptedModel(answer), settings=settings) as judge:
        await evaluate(
            rows, method="llm-score", aspects=["coherence", "fluency"], model=judge,
            out=tmp_path / "run", progress=seen.append
        )  # fmt: skip
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    logged = json.loads(progress_line(seen[-1]))
    outcomes = {kind: count for kind, count in summary["outcomes"].items() if count}
    assert outcomes == {"scored": 20, "invalid": 4}
    assert logged["outcomes"] == outcomes
    assert min(summary["usage"]["calls"], summary["usage"]["cached_calls"]) > 0
    assert logged["usage"] == summary["usage"]
    limiter = logged["limiters"][judge.name]
    assert limiter["answered"] == summary["usage"]["calls"]
    assert (limiter["rejected"], limiter["answer_seconds"] > 0) == (0, True)
    assert logged["done"] == logged["total"] == len(rows)
