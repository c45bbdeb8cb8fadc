"""Traces of runs for OpenTelemetry (extra `otel`).

    from textassay import telemetry

    telemetry.instrument()          # uses the global tracer and logger providers
    run = await textassay.evaluate(...)

Spans are run > node > call; each score is an event `gen_ai.evaluation.result`. Texts are left out
unless asked for.
"""

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.telemetry.tracing import instrument, uninstrument

__all__ = ["instrument", "uninstrument"]

# OpenTelemetry is an extra: without it the package, and `from textassay import *`, still work
__getattr__, __dir__ = lazy(__name__, {"tracing": "instrument uninstrument"})
