"""Traces of runs for OpenTelemetry (extra `otel`), and metrics for Prometheus.

    from textassay import telemetry

    telemetry.instrument()          # uses the global tracer and logger providers
    run = await textassay.evaluate(...)

Spans are run > node > call; each score is an event `gen_ai.evaluation.result`. Texts are left out
unless asked for. Metrics are the same counters that the progress line shows.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.telemetry.tracing import instrument, uninstrument

__all__ = ["instrument", "prometheus_text", "uninstrument"]

# OpenTelemetry is an extra
__getattr__, __dir__ = lazy(__name__, {"instrument": "tracing", "uninstrument": "tracing"})

MetricSample = tuple[Mapping[str, str], float]


def prometheus_text(progress: Any, *, run: str = "") -> str:
    """Return the state of a run in Prometheus' text format.

    Write it from a progress callback into the folder of node_exporter's textfile collector, or
    serve it.

    Args:
        progress: A `Progress`, as `evaluate(progress=...)` gives it to a function.
        run: Value of the label `run`; without one there is no such label.
    """
    own = {"run": run} if run else {}
    usage = progress.usage

    def by_model(name: str) -> list[MetricSample]:
        return [
            ({**own, "model": model}, getattr(state, name))
            for model, state in progress.limiters.items()
        ]

    lines = [
        *_metric("examples_done_total", "counter", "Examples finished.", [(own, progress.done)]),
        *_metric("examples", "gauge", "Examples of the run.", _known(own, progress.total)),
        *_metric("scores_total", "counter", "Scores.", _by(own, "outcome", progress.outcomes)),
        *_metric("failed_attempts_total", "counter", "Failed attempts, retried ones included.",
                 _by(own, "type", progress.failures)),
        *_metric("calls_total", "counter", "Calls that a model answered.", [(own, usage.calls)]),
        *_metric("cached_calls_total", "counter", "Calls that were answered from the cache.",
                 [(own, usage.cached_calls)]),
        *_metric("tokens_total", "counter", "Tokens.", [
            ({**own, "kind": "prompt"}, usage.prompt_tokens),
            ({**own, "kind": "completion"}, usage.completion_tokens),
        ]),
        *_metric("token_details_total", "counter", "Tokens that are parts of tokens_total.", [
            ({**own, "kind": kind}, count) for kind, count in (
                ("reasoning", usage.reasoning_tokens),
                ("cached_prompt", usage.cached_prompt_tokens),
                ("cache_write", usage.cache_write_tokens),
            ) if count
        ]),
        *_metric("cost_dollars_total", "counter", "Cost in US dollars.", _known(own, usage.cost)),
        *_metric("calls_in_flight", "gauge", "Calls in flight.", by_model("in_flight")),
        *_metric("calls_limit", "gauge", "Calls that may be in flight.", by_model("limit")),
        *_metric("rejected_calls_total", "counter",
                 "Calls that the server turned away because of load (429, 503, 529).",
                 by_model("rejected")),
        *_metric("call_duration_seconds", "summary", "Time from a call's admission to its answer.",
                 by_model("answer_seconds"), by_model("answered")),
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def _metric(name: str, kind: str, text: str, *series: Iterable[MetricSample]) -> list[str]:
    """Return the lines of a metric; a summary has two series, its sum and its count."""
    ends = ("_sum", "_count") if kind == "summary" else ("",)
    rows = [
        f"textassay_{name}{end}{_labels(labels)} {value}"
        for end, samples in zip(ends, series, strict=True)
        for labels, value in samples
    ]
    # a metric without samples is left out: 0 would say that nothing failed or cost nothing, not
    # that it is unknown
    if not rows:
        return []
    return [f"# HELP textassay_{name} {text}", f"# TYPE textassay_{name} {kind}", *rows]


def _known(labels: Mapping[str, str], value: float | None) -> list[MetricSample]:
    return [] if value is None else [(labels, value)]


def _by(labels: Mapping[str, str], name: str, counts: Mapping[str, int]) -> list[MetricSample]:
    return [({**labels, name: key}, count) for key, count in counts.items()]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
