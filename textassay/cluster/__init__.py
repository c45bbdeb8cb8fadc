"""Runs on a cluster: workers on other machines judge, this process records the scores.

run = await textassay.cluster.evaluate("data.jsonl", cluster="ray", method="g-eval",
model="openai/gpt-4.1-mini", out="runs/large")
"""

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.cluster.api import evaluate

__all__ = ["evaluate"]

__getattr__, __dir__ = lazy(__name__, {"evaluate": "api"})
