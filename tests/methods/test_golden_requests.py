"""What is sent, its cache keys and the signatures of scores: equal to what was recorded.

A cache or a run folder is worth nothing once one of these changes by
accident. After a change on purpose (a prompt's words, a new fact in a signature), write them anew:

    python -m tests.methods.test_golden_requests
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.dry_answers import DryAnswers
from tests.methods.judging import CHOICES
from textassay.methods import METHODS, build
from textassay.runtime.calls.call import request_key
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Assignment, Example
from textassay.runtime.model import (
    Capabilities,
    ChoicesRequest,
    ContinuationRequest,
    Request,
    Sample,
    TokenLogprob,
)

GOLDEN = Path(__file__).parent / "golden_requests.json"
EXAMPLE = Example(
    id="x",
    source="A cat sat on a mat. It slept.",
    output="A cat slept.",
    references=("It slept.",),
    meta={"output_b": "A dog slept."},
    rubric=["Says who slept", {"criterion": "Names the dog", "points": -1}],
)
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "agent-judge": [{"max_steps": 3}],
    "checklist": [{}, {"answers": "p-yes"}, {"calls": "joint"}, {"checklist": "rubric"}],
    "claims": [{}, {"split": "sentences", "verify": "p-yes"}],
    "coascore": [{}, {"variant": "inter", "form": "letters"}],
    "decide": [{}],
    "decomp-eval": [{}, {"ask": "plain", "question_first": True}],
    "fusion-eval": [{"n": 2}, {"fusion": "avg", "direct": True, "n": 2}],
    "g-eval": [{}, {"n": 3, "steps": "task", "seed": 1}],
    "gptscore": [{}, {"pmi": True, "prompt_layout": "shared-prefix"}],
    "hd-eval": [{}, {"tree": "model", "children": 2}],
    "jury": [{}, {"combine": "median"}],
    "llm-score": [{}, {"form": "stars", "prompt_layout": "shared-prefix"}],
    "llm-score-cot": [{}],
    "pairwise": [{}, {"orders": "back", "ties": True, "prompt_layout": "shared-prefix"}],
}
TOOLS = {"fusion-eval": ("rougeL", "chrf", "coverage", "repetition")}
"""Named, for the default depends on which extras are installed."""
CASES = [
    *((method, options, "scripted") for method in METHODS for options in OPTIONS.get(method, [{}])),
    *((method, {}, "choices") for method in METHODS),
    ("gptscore", {}, "embedded"),
]


def judge(request: Request, text: str) -> Sample:
    """Answer as a dry run does; the first answer to a longer question is cut off, so that it is
    asked again."""
    cut = len(text) > 40 and (request.max_tokens or 0) in (512, 1024) and request.n == 1
    top = (("1", -0.5), ("2", -1.5), ("3", -2.0))
    return Sample(
        text=text[:20] if cut else text,
        finish_reason="length" if cut else "stop",
        logprobs=tuple(TokenLogprob(token=letter, logprob=-0.5, top=top) for letter in text),
    )


def choices(request: ChoicesRequest) -> dict[str, float]:
    """Find every label equally likely."""
    return dict.fromkeys(request.choices, -2.0)


def continuation(request: ContinuationRequest) -> list[TokenLogprob]:
    """Find every word equally likely."""
    return [TokenLogprob(token=word, logprob=-1.0) for word in request.continuation.split()]


def refused_by_choices() -> list[str]:
    """Return the methods that the example profile refuses: a judge must write, or the call would be
    g-eval's without steps."""
    known = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return [name for name in METHODS if "refused" in known.get(label(name, {}, "choices"), {})]


async def facts_of(method: str, options: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what must not change: signature, prompt digest, number of requests, a digest of their
    keys and the graph's nodes; or that the example profile refuses the method."""
    if name == "choices":
        options = options | {"profile": CHOICES}
    model = DryAnswers(
        judge,
        name=name,
        capabilities=Capabilities(n=True, logprobs=True, choices=True, continuation=True),
        choices=choices,
        continuation=continuation,
    )
    try:
        built = build(
            method, model, task="summarization", options=options, tools=TOOLS.get(method, ())
        )
    except ConfigurationError as error:
        if name == "choices":
            return {"refused": type(error).__name__}
        raise
    await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects))
    keys = sorted(request_key(model.identity, request) for request in model.requests)
    return {
        "signature": built.signature.rpartition("|v:")[0],
        "prompts": built.describe()["prompts"],
        "nodes": [node.name for node in built.graph.nodes],
        "requests": len(keys),
        "keys": hashlib.sha256("".join(keys).encode()).hexdigest()[:16],
    }


def label(method: str, options: dict[str, Any], model: str) -> str:
    """Return the name of a case."""
    return f"{method} {model} {json.dumps(options, sort_keys=True)}"


@pytest.mark.parametrize(("method", "options", "model"), CASES, ids=lambda part: str(part))
async def test_requests_keys_and_signatures_have_not_changed(method, options, model):
    """Caches are still hit, and run folders comparable."""
    known = json.loads(GOLDEN.read_text(encoding="utf-8"))
    name = label(method, options, model)
    assert name in known, f"a new case: write it with python {Path(__file__)}"
    assert await facts_of(method, options, model) == known[name]


async def write() -> None:
    """Write the facts of all cases, and say which are new or have changed."""
    known = json.loads(GOLDEN.read_text(encoding="utf-8"))
    facts = {label(*case): await facts_of(*case) for case in CASES}
    for method, options, model in CASES:
        name = label(method, options, model)
        fact, before = facts[name], known.get(name)
        if fact != before:
            state = "changed" if before else "new"
            outcome = f"refused with a {fact['refused']}" if "refused" in fact else "requests"
            print(f"{state}: {method}, model {model}, options {options}: {outcome}")
    GOLDEN.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write())
