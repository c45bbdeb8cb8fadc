"""Traces of runs for OpenTelemetry (extra `otel`), and metrics for Prometheus.

    from textassay import telemetry

    telemetry.instrument()          # uses the global tracer and logger providers
    run = await textassay.evaluate(...)

Spans are run > node > call; each score is an event `gen_ai.evaluation.result`. Texts are left out
unless asked for.
"""

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.telemetry.prometheus import prometheus_text
    from textassay.telemetry.tracing import instrument, uninstrument

_HOME = {"instrument": "tracing", "prometheus_text": "prometheus", "uninstrument": "tracing"}

__all__ = ["instrument", "prometheus_text", "uninstrument"]

__getattr__, __dir__ = lazy(__name__, _HOME)
