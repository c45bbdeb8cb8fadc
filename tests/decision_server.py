"""A server of decision models in both wire forms, with the faults that its options name."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.loopback import in_thread, listening

Json = dict[str, Any]

TOKEN = 4
"""Characters of a token."""


@dataclass
class Decisions:
    """Answers each question by a pure function of the material, the question and its options."""

    decimals: int = 17
    """Decimals of probabilities."""
    most_questions: int = 0
    """Most questions of a request; 0 for any number."""
    most_tokens: int = 0
    most_options: int = 0
    """Most options or levels of a question; a request with more is refused with 400."""
    says: str = (
        "Invalid 'questions[{place}].{field}': array too long. Expected an array with maximum"
        " length {most}, but got an array with length {count} instead."
    )
    """Message of this refusal."""
    refuse: frozenset[str] = frozenset()
    """Questions that are not answered."""
    unfit: frozenset[str] = frozenset()
    """Questions that make the whole request fail with 400."""
    unavailable: int = 0
    """Requests that are answered with 529 before any other."""
    leak: bool = False
    """Whether the other questions of a request change an answer."""
    spoil: Callable[[Json], Any] | None = None
    """Changes the body of an answer in place, or returns another one, of bytes."""
    requests: list[Json] = field(default_factory=list)
    """Bodies of the received requests, in order."""
    headers: list[dict[str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def asked(self) -> Counter[str]:
        """How often each question was asked."""
        return Counter(
            question["instructions"] for body in self.requests for question in _questions(body)
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request in the form of its path."""
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        questions = _questions(body)
        if self.unavailable:
            self.unavailable -= 1
            return _refusal(529, "Overloaded.", {"retry-after-ms": "1"})
        if self.most_questions and len(questions) > self.most_questions:
            return _refusal(
                400,
                "Invalid 'questions': array too long. Expected an array with maximum length"
                f" {self.most_questions}, but got an array with length {len(questions)} instead.",
            )
        tokens = len(json.dumps(body)) // TOKEN
        if self.most_tokens and tokens > self.most_tokens:
            return web.json_response({"detail": {"error_type": "max_tokens_exceeded"}}, status=400)
        for place, question in enumerate(questions):
            field = next((f for f in ("choices", "levels", "criteria") if f in question), "")
            count = len(question.get(field, ()))
            if self.most_options and count > self.most_options:
                return _refusal(
                    400,
                    self.says.format(
                        place=place, field=field, most=self.most_options, count=count,
                        name=f"q{place + 1}", kind="levels" if "levels" in question else "options",
                    ),
                )  # fmt: skip
            if question["instructions"] in self.unfit:
                return _refusal(400, f"Invalid 'questions[{place}].choices': not supported.")
        material = body.get("input", body.get("state"))
        others = sorted(question["instructions"] for question in questions) if self.leak else ()
        answers = [
            self._answer(f"{material}{others}", question, "input" in body) for question in questions
        ]
        payload: Json = {"model": body["model"], "usage": _usage(tokens, len(questions))}
        if "input" in body:
            names = [question["name"] for question in questions]
            payload["answers"] = [
                {**one, "name": name} for name, one in zip(names, answers, strict=True)
            ]
        else:
            payload["answers"] = {
                name: one
                for name, one in zip(body["questions"], answers, strict=True)
                if one["type"] != "refusal"
            }
        spoiled = None if self.spoil is None else self.spoil(payload)
        if isinstance(spoiled, bytes):
            return web.Response(body=spoiled, content_type="application/json")
        return web.json_response(text=json.dumps(payload))

    def _answer(self, material: str, question: Json, is_list: bool) -> Json:
        if question["instructions"] in self.refuse:
            return {"type": "refusal"}
        kind = {"predicate": "yes_no", "noul": "yes_no"}.get(question["type"], question["type"])
        options = _options(question)
        shares = [round(p, self.decimals) for p in shares_of(material, question, options)]
        if kind == "yes_no":
            field = "probability" if is_list else "noul"
            return {"type": question["type"], field: shares[0]}
        answer: Json = {"type": kind, "confidence": 0.5}
        if kind == "choice":
            answer["choice"] = options[shares.index(max(shares))]
        else:
            answer["score"] = math.fsum(i * p for i, p in enumerate(shares))
            if not is_list:
                answer["legend"] = {str(i): level for i, level in enumerate(question["criteria"])}
            options = [str(level) for level in range(len(options))]
        if is_list:
            answer["probabilities"] = [
                {"value": o, "probability": p} for o, p in zip(options, shares, strict=True)
            ]
            if kind == "score":
                for place, level in enumerate(answer["probabilities"]):
                    level |= {"value": place, "label": question["levels"][place]["label"]}
        else:
            answer["probabilities"] = dict(zip(options, shares, strict=True))
        return answer


def _questions(body: Json) -> list[Json]:
    questions = body["questions"]
    return list(questions.values()) if isinstance(questions, dict) else questions


def _options(question: Json) -> list[str]:
    """Return the options of a question in either form."""
    if question["type"] in ("predicate", "noul"):
        return ["yes", "no"]
    if "choices" in question:
        return [choice["value"] for choice in question["choices"]]
    if "levels" in question:
        return [str(place) for place in range(len(question["levels"]))]
    criteria = question["criteria"]
    if isinstance(criteria, dict):
        return list(criteria)
    return [str(place) for place in range(len(criteria))]


def shares_of(material: str, question: Json, options: list[str]) -> list[float]:
    """Return the unrounded probabilities of a question's options."""
    weights = []
    for option in options:
        text = f"{material}|{question['instructions']}|{option}"
        weights.append(1 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:2], "big"))
    return [weight / sum(weights) for weight in weights]


def _usage(tokens: int, questions: int) -> Json:
    return {"input_tokens": tokens, "output_tokens": 2 * questions,
            "total_tokens": tokens + 2 * questions,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip


def _refusal(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": None}}
    return web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def serve_decisions(server: Decisions) -> AsyncIterator[str]:
    """Serve; yields the address, which ends in `/v1`."""
    async with listening(server.answer) as address:
        yield f"{address}/v1"


@contextmanager
def deciding_in_thread(server: Decisions) -> Iterator[str]:
    """Serve in a thread of its own, for commands."""
    with in_thread(lambda: serve_decisions(server)) as address:
        yield address
