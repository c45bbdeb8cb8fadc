"""Prometheus figures and JSON logs tell what the run folder tells."""

from __future__ import annotations

import json
import re

import pytest

from textassay import ScriptedModel, Settings, connect, evaluate, telemetry
from textassay.cli.console import progress_line

ROWS = [{"id": f"t{i}", "output": f"Text {i // 2}."} for i in range(12)]


def figures(text):
    """Samples by metric and label values, of Prometheus' text format."""
    found = re.findall(r"^textassay_(\w+?)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE)
    return {(name, *re.findall(r'"(.*?)"', labels)): float(value) for name, labels, value in found}


@pytest.mark.asyncio
async def test_final_figures_are_those_of_the_run_folder(tmp_path):
    """Outcomes, calls, calls that shared an answer, tokens and cost, also of repeated questions."""

    def answer(request):
        return "no idea" if "Text 3." in request.text else "Rating: 4"

    seen = []
    settings = Settings(price=(1.0, 2.0))
    async with connect(ScriptedModel(answer), settings=settings) as judge:
        await evaluate(
            ROWS, method="llm-score", aspects=["coherence", "fluency"], model=judge,
            out=tmp_path / "run", progress=seen.append,
        )  # fmt: skip
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    shown = figures(telemetry.prometheus_text(seen[-1]))
    logged = json.loads(progress_line(seen[-1]))
    outcomes = {kind: count for kind, count in summary["outcomes"].items() if count}
    assert outcomes == {"scored": 20, "invalid": 4}
    assert logged["outcomes"] == outcomes
    assert {k[1]: v for k, v in shown.items() if k[0] == "scores_total"} == outcomes
    usage = summary["usage"]
    assert min(usage["calls"], usage["cached_calls"]) > 0
    assert logged["usage"] == usage
    assert shown["calls_total",] == usage["calls"]
    assert shown["cached_calls_total",] == usage["cached_calls"]
    assert shown["tokens_total", "prompt"] == usage["prompt_tokens"]
    assert shown["tokens_total", "completion"] == usage["completion_tokens"]
    assert shown["cost_dollars_total",] == pytest.approx(usage["cost"], rel=1e-5)
    answered = seen[-1].limiters[judge.name]
    assert shown["call_duration_seconds_count", judge.name] == answered.answered == usage["calls"]
    assert shown["call_duration_seconds_sum", judge.name] == pytest.approx(answered.answer_seconds)
    assert shown["rejected_calls_total", judge.name] == 0
    assert shown["examples_done_total",] == shown["examples",] == len(ROWS)
