"""Rows as other tools write them, each with all texts that a judge has to see."""

from __future__ import annotations

import json
from typing import Any

RAGAS_SINGLE = {
    "user_input": "When was the first Super Bowl?",
    "retrieved_contexts": ["The first Super Bowl was on Jan 15, 1967.", "It was in Los Angeles."],
    "response": "It was held on January 15, 1967.",
    "reference": "January 15, 1967",
    "reference_contexts": ["gold passage"],
}
RAGAS_MULTI = {
    "user_input": [
        {"content": "What is the weather in Paris?", "type": "human"},
        {
            "content": "Let me look that up.",
            "type": "ai",
            "tool_calls": [{"name": "weather", "args": {"city": "Paris"}}],
        },
        {"content": "18 degrees and cloudy", "type": "tool"},
        {"content": "It is 18 degrees in Paris.", "type": "ai", "metadata": {"a": 1}},
    ],
    "reference": "18 degrees",
    "reference_tool_calls": [{"name": "weather", "args": {"city": "Paris"}}],
}
DEEPEVAL = {
    "input": "What if these shoes don't fit?",
    "actual_output": "You have 30 days for a refund.",
    "expected_output": "30 days",
    "retrieval_context": ["Customers get a full refund within 30 days.", "Keep the box."],
    "context": ["All customers are eligible."],
    "name": None,
    "comments": None,
    "source_file": None,
    "tools_called": [
        {"name": "policy", "inputParameters": {"topic": "refund"}, "output": {"days": 30}}
    ],
    "expected_tools": [{"name": "policy"}],
    "additional_metadata": None,
    "custom_column_key_values": None,
}
DEEPEVAL_JOINED = {
    **DEEPEVAL,
    "retrieval_context": "deepeval_source=faq.md,deepeval_context=Full refund.|Keep the box.",
    "context": None,
    "tools_called": None,
}
DEEPEVAL_TURNS = {
    "scenario": "Andy wants to buy a ticket.",
    "turns": [
        {"role": "user", "content": "I need a ticket to Bath.", "retrieval_context": None},
        {
            "role": "assistant",
            "content": "There are two at noon.",
            "user_id": None,
            "retrieval_context": ["The noon train has two seats."],
            "tools_called": [
                {"name": "seats", "input_parameters": {"to": "Bath"}, "output": "2 seats left"}
            ],
            "mcp_tools_called": None,
            "metadata": None,
        },
        {"role": "user", "content": "Buy one, please."},
        {"role": "assistant", "content": "Done: seat 14."},
    ],
    "expected_outcome": "A ticket is bought.",
    "user_description": "Andy is brief.",
    "context": ["Tickets cost 20 pounds."],
    "name": None,
    "comments": None,
}
INSPECT = {
    "id": "sample-1",
    "epoch": 2,
    "input": [{"id": "m1", "content": "Add 17 and 25.", "source": "input", "role": "user"}],
    "target": "42",
    "messages": [
        {"id": "m0", "content": "You may use a calculator.", "role": "system"},
        {"id": "m1", "content": "Add 17 and 25.", "source": "input", "role": "user"},
        {
            "id": "m2",
            "content": [
                {"type": "reasoning", "reasoning": "hidden thought"},
                {"type": "text", "text": "I will add them."},
            ],
            "source": "generate",
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "function": "add", "arguments": {"x": 17, "y": 25}, "type": "function"}
            ],
        },
        {
            "id": "m3",
            "content": "attachment://abc",
            "role": "tool",
            "tool_call_id": "c1",
            "function": "add",
            "error": {"type": "timeout", "message": "it took 3 seconds"},
        },
        {"id": "m4", "content": "The answer is 42.", "source": "generate", "role": "assistant"},
    ],
    "output": {
        "model": "openai/gpt-4o",
        "choices": [{"message": {"content": "The answer is 42.", "role": "assistant"}}],
        "completion": "The answer is 42.",
    },
    "scores": {"match": {"value": "C", "answer": "42"}},
    "metadata": {"level": 1},
    "events": [{"event": "model"}],
    "attachments": {"abc": "the sum is 42"},
}
SPAN = {
    "name": "ChatCompletion",
    "openinference.span.kind": "LLM",
    "input.value": '{"messages": [{"role": "user", "content": "Where is order 7?"}]}',
    "input.mime_type": "application/json",
    "output.value": '{"choices": []}',
    "output.mime_type": "application/json",
    "llm.model_name": "gpt-4o",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "You help with orders.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Where is order 7?",
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c1",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "track",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"order": 7}',
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.content": "in Leeds",
    "llm.input_messages.3.message.tool_call_id": "c1",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Your order is in Leeds.",
    "llm.tools.0.tool.json_schema": json.dumps(
        {"type": "function", "function": {"name": "track", "description": "Finds an order."}}
    ),
    "llm.token_count.prompt": 12,
}
RAG_SPAN = {
    "name": "query",
    "context": {"span_id": "s1", "trace_id": "t1"},
    "attributes": {
        "openinference.span.kind": "CHAIN",
        "input.value": "Who wrote Emma?",
        "output.value": "Jane Austen did.",
        "retrieval.documents": [
            {
                "document.content": "Emma is by Jane Austen.",
                "document.id": 7,
                "document.score": 0.9,
            },
            {"document.content": "It appeared in 1815.", "document.metadata": '{"page": 3}'},
        ],
    },
}
LANGCHAIN = {
    "messages": [
        {"type": "human", "data": {"content": "Say hello in French.", "type": "human"}},
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "AIMessage"],
            "kwargs": {"content": "Bonjour.", "tool_calls": []},
        },
        {"type": "human", "content": "And good night?", "additional_kwargs": {}},
        {"type": "ai", "content": [{"type": "text", "text": "Bonne nuit."}], "tool_calls": []},
    ]
}
ANTHROPIC = {
    "messages": [
        {"role": "user", "content": "Price of tea?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "u1", "name": "price", "input": {"of": "tea"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "2 pounds"}],
        },
        {"role": "assistant", "content": "It costs 2 pounds."},
    ]
}
RESPONSES = {
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Book a table."}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "book", "arguments": "{}", "call_id": "f1"},
        {"type": "function_call_output", "call_id": "f1", "output": "table 4"},
    ],
    "output": [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Table 4 is yours."}],
        }
    ],
}

EXPORTS: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "ragas": (
        RAGAS_SINGLE,
        (RAGAS_SINGLE["user_input"], *RAGAS_SINGLE["retrieved_contexts"], "[passage 2]"),
        "It was held on January 15, 1967.",
    ),
    "ragas-multi-turn": (
        RAGAS_MULTI,
        (
            "What is the weather in Paris?", "Let me look that up.", "18 degrees and cloudy",
            'weather({"city": "Paris"})', "[turn 2, call 1, result]",
        ),
        "It is 18 degrees in Paris.",
    ),
    "deepeval": (
        DEEPEVAL,
        (
            DEEPEVAL["input"], *DEEPEVAL["retrieval_context"], *DEEPEVAL["context"],
            'policy({"topic": "refund"})', '{"days": 30}',
        ),
        "You have 30 days for a refund.",
    ),
    "deepeval-joined": (
        DEEPEVAL_JOINED,
        (DEEPEVAL["input"], "[passage 1] faq.md: Full refund.", "[passage 2] Keep the box."),
        "You have 30 days for a refund.",
    ),
    "deepeval-turns": (
        DEEPEVAL_TURNS,
        (
            "Andy wants to buy a ticket.", "I need a ticket to Bath.", "There are two at noon.",
            "The noon train has two seats.", "2 seats left", "Buy one, please.",
            "Tickets cost 20 pounds.", 'seats({"to": "Bath"})',
        ),
        "Done: seat 14.",
    ),
    "inspect": (
        INSPECT,
        (
            "You may use a calculator.", "Add 17 and 25.", "I will add them.", "the sum is 42",
            'add({"x": 17, "y": 25})', "error: it took 3 seconds",
        ),
        "The answer is 42.",
    ),
    "openinference": (
        SPAN,
        (
            "You help with orders.", "Where is order 7?", 'track({"order": 7})', "in Leeds",
            "Finds an order.",
        ),
        "Your order is in Leeds.",
    ),
    "openinference-nested": (
        RAG_SPAN,
        ("Who wrote Emma?", "[passage 1] 7: Emma is by Jane Austen.", "It appeared in 1815."),
        "Jane Austen did.",
    ),
    "langchain": (
        LANGCHAIN,
        ("Say hello in French.", "Bonjour.", "And good night?"),
        "Bonne nuit.",
    ),
    "anthropic": (
        ANTHROPIC,
        ("Price of tea?", "One moment.", 'price({"of": "tea"})', "2 pounds"),
        "It costs 2 pounds.",
    ),
    "openai-responses": (
        RESPONSES,
        ("Book a table.", "book({})", "table 4"),
        "Table 4 is yours.",
    ),
}  # fmt: skip
"""By tool: a row as it writes it, what a judge must see of it, and what is judged."""
