"""A model whose answers wait for the test: it counts requests and answers when it is told
to."""

from __future__ import annotations

import asyncio
from typing import Any

from textassay.runtime.base import Usage
from textassay.runtime.model import (
    AnyRequest,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

PAID = Usage(calls=1, prompt_tokens=7, completion_tokens=3, cost=0.25)


class CountingModel:
    """Answers with the number of the call, once `gate` is open."""

    name = "counting"
    capabilities = Capabilities()

    def __init__(self, *, waits: bool = False, **identity: Any) -> None:
        self.identity = {"model": "counting", **identity}
        self.asked: list[AnyRequest] = []
        self.cancelled = 0
        self.error: Exception | None = None
        self.closed = 0
        self.gate = asyncio.Event()
        if not waits:
            self.gate.set()

    async def _answer(self, request: AnyRequest) -> str:
        self.asked.append(request)
        number = len(self.asked)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return f"answer {number}"

    async def generate(self, request: Request) -> Response:
        text = await self._answer(request)
        return Response(samples=(Sample(text=text),) * request.n, usage=PAID, model="counting-1")

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        await self._answer(request)
        return ChoicesResponse(
            logprobs=dict.fromkeys(request.choices, -1.5), usage=PAID, truncated_tokens=2
        )

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        await self._answer(request)
        return ContinuationResponse(
            tokens=(TokenLogprob(token=request.continuation, logprob=-2.5),), usage=PAID
        )

    async def aclose(self) -> None:
        self.closed += 1
