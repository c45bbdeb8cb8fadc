"""A model that answers as a dry run does, and remembers how its requests were sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.call import PLAIN, Posting, PostingModel
from textassay.runtime.model import ChoicesRequest, ChoicesResponse, Request, Response


class DryAnswers(PostingModel, ScriptedModel):
    """Answers every request with its `dry_run_answer`, or with a function's result for both."""

    def __init__(
        self, reply: Callable[[Request, str], Any] = lambda request, answer: answer, **fields: Any
    ) -> None:
        super().__init__(lambda request: "", **fields)
        self._reply = reply
        self.postings: list[Posting] = []

    async def generate(self, request: Request, posting: Posting = PLAIN) -> Response:
        self.postings.append(posting)
        self._function = lambda one: self._reply(one, posting.dry_run_answer)
        return await super().generate(request)

    async def choices(self, request: ChoicesRequest, posting: Posting = PLAIN) -> ChoicesResponse:
        return await super().choices(request)
