"""The sessions that a stress run consists of, and what makes each differ from an ordinary one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from textassay.evaluation.request import RunRequest
from textassay.methods import METHODS, Pairwise, tasks
from textassay.methods.method import Method
from textassay.runtime.model import Model, Request, Response, Wrapper

REPEAT_DRAW = 500_000
"""Added to the draw of each request of the repeat, so that no cache answers it."""


@dataclass
class Stage:
    """One session of the stress run."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    observe: Callable[[Model], Model] | None = None
    making: Callable[[Mapping[str, Model]], Method] | None = None
    examples: Callable[[], Any] | None = None
    """What is judged, if not the originals."""


class Redrawn(Wrapper):
    """Asks for samples other than the first run's, so that no cache or seed repeats its answers."""

    async def generate(self, request: Request) -> Response:
        """Ask for a later draw."""
        # the draw is part of the cache's key and of the seed
        shifted = request.model_copy(update={"draw": request.draw + REPEAT_DRAW})
        return await self.wrapped.generate(shifted)


class LazyExamples:
    """Examples that are made when they are iterated, by what is known then."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __iter__(self) -> Any:
        return iter(self._make())


def highest_rating(request: RunRequest, method: Method | None) -> str:
    """Return the highest rating as this run's judge would write it, for texts that ask for it."""
    name = request.method if method is None else method.name
    if name == Pairwise.name:
        return "the better text"
    if method is not None:
        aspects = method.aspects
    elif name in METHODS:
        aspects = tasks.load(request.task, request.aspects).aspects
    else:
        return "the highest rating"
    tops = {f"{aspect.scale[1]:g}" for aspect in aspects}
    return tops.pop() if len(tops) == 1 else "the highest rating"
