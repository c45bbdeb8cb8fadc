"""Judges are shown every passage, turn and call, and evidence names the one that it is from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.methods import judging
from tests.runtime.data.rows import EXPORTS
from textassay.agents.lookup import narrow
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Example, Score
from textassay.tools import tool

RAG = Example(
    id="x",
    source="When was the first Super Bowl held in Los Angeles?",
    context=[
        {"text": "The first Super Bowl was on Jan 15, 1967.", "id": "d7"},
        "It rained all day.",
    ],
    output="It was on Jan 15.",
)
CHAT = [
    {"role": "user", "content": "Is there a train to Bath today?"},
    {"role": "assistant", "tool_calls": [{"id": "c1", "name": "trains", "args": {"to": "Bath"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "The noon train has two seats left."},
    {"role": "assistant", "content": "Yes, at noon."},
]


def judge(quote: str = "word for word", claim: str = "One claim.") -> ScriptedModel:
    """A model that answers each method in its form, always with the same quotation."""

    def reply(request: Any) -> str:
        if "numbered list" in request.text:
            return f"1. {claim}"
        if '"quote"' in request.text:
            return json.dumps({"quote": quote, "answer": "yes"})
        return "Score: 3"

    return ScriptedModel(reply)


async def judged(
    model: ScriptedModel, example: Example, method: str, task: str = "general", **options: Any
) -> list[Score]:
    """Return the scores of one example on consistency."""
    found: list[Score] = await judging.judged(
        method, model, example, task, ["consistency"], **options
    )
    return found


METHODS: dict[str, dict[str, Any]] = {
    "llm-score": {},
    "g-eval": {"task": "summarization", "n": 2},
    "hd-eval": {"task": "summarization"},
    "checklist": {"task": "summarization"},
    "pairwise": {},
    "decomp-eval": {"task": "summarization"},
}


@pytest.mark.parametrize("method", [*METHODS, "claims"])
@pytest.mark.parametrize("export", EXPORTS)
async def test_every_passage_and_turn_is_in_the_prompt(method: str, export: str) -> None:
    row, texts, output = EXPORTS[export]
    (example,) = Examples([{**row, "output_b": "another"} if method == "pairwise" else row])
    model = judge(claim=output)
    await judged(model, example, method, **METHODS.get(method, {}))
    prompts = [r.text for r in model.requests if "numbered list" not in r.text]
    assert prompts
    if method == "claims" and example.context:  # a question supports no claim
        texts = tuple(text for text in texts if text in example.context or "Claim" in text)
    for prompt in prompts:
        assert [text for text in (*texts, output) if text not in prompt] == []


async def test_texts_without_passages_or_messages_are_shown_as_before() -> None:
    """A context that is one text has no number."""
    plain = RAG.model_copy(update={"context": "One text.", "passages": ()})
    model = judge()
    await judged(model, plain, "llm-score")
    assert ">\nOne text.\n<" in model.requests[0].text


QUESTION, PASSAGE = "When was the first Super Bowl held", "The first Super Bowl was on Jan 15"


@pytest.mark.parametrize(
    ("method", "options", "quote", "found"),
    [
        ("claims", {}, PASSAGE, "passage 1"),
        ("claims", {}, QUESTION, None),
        ("claims", {"evidence": "all"}, QUESTION, "source"),
        ("checklist", {"checklist": "model"}, PASSAGE, "passage 1"),
        ("checklist", {"checklist": "model"}, QUESTION, None),
        ("checklist", {"checklist": "model", "evidence": "all"}, QUESTION, "source"),
    ],
)
async def test_a_question_is_not_evidence_unless_asked_for(
    method: str, options: dict[str, Any], quote: str, found: str | None
) -> None:
    model = judge(quote, claim="Dates: Is the date right?")
    (score,) = await judged(model, RAG, method, **options)
    assert score.evidence[0]["found_in"] == found
    assert (score.outcome == "scored") == (found is not None)


@pytest.mark.parametrize("evidence", [None, "all"])
async def test_a_question_is_not_evidence_beside_a_plain_context(evidence: str | None) -> None:
    plain = RAG.model_copy(update={"context": "It was on Jan 15.", "passages": ()})
    model = judge(QUESTION)
    (score,) = await judged(model, plain, "claims", **({"evidence": evidence} if evidence else {}))
    assert QUESTION in model.requests[-1].text
    assert score.evidence[0]["found_in"] == (None if evidence is None else "source")


async def test_a_tool_that_verifies_claims_reads_the_context_only() -> None:
    seen: list[str | None] = []

    @tool(scale=(0, 1), higher_is_better=True, description="Whether it is supported.")
    def support(example: Example) -> float:
        seen.append(example.source)
        return 1.0

    for options in ({}, {"evidence": "all"}):
        await judging.judged(
            "claims", judge(), RAG, "general", ["consistency"], [support], **options
        )
    assert seen == [None, RAG.source]


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("The noon train has two seats", "turn 2, call 1, result"),
        ('trains({"to": "Bath"})', "turn 2, call 1"),
        ("Is there a train to Bath", "turn 1"),
        ("two seats left Yes at noon", None),
    ],
)
@pytest.mark.parametrize("method", ["claims", "checklist"])
async def test_quotations_are_checked_against_a_named_turn_or_call(
    method: str, quote: str, found: str | None
) -> None:
    example = Example(id="x", messages=CHAT)
    options = {"checklist": "model"} if method == "checklist" else {}
    (score,) = await judged(judge(quote, claim="Noon: Is it at noon?"), example, method, **options)
    assert score.evidence[0]["found_in"] == found


def test_windows_of_many_passages_keep_their_numbers() -> None:
    texts = [f"Passage on topic {n}. " + "Filler words stand here. " * 20 for n in range(30)]
    texts[17] = "The zeppelin was flown by Ada Quill. " + texts[17]
    example = Example(output="x", source="Who flew the zeppelin?", context=texts)
    shown = narrow(
        example, "Ada Quill flew the zeppelin.", window=100, most=2, question_counts=False
    )
    assert shown.source is None
    assert shown.context is not None
    assert "[passage 18] The zeppelin was flown" in shown.context
    assert shown.context.count("[passage ") == 2
