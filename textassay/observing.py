"""Who watches runs, nodes and calls, if anybody.

One place that is asked, so that nothing is paid when off.

Imports nothing of textassay, so that every layer may ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class RunObserver(Protocol):
    """Watches one session of a run."""

    def example(self, example: Any) -> AbstractContextManager[object]:
        """Return a context in which an example is judged."""
        ...

    def scored(self, score: Any, example: Any) -> None:
        """Take note of a score."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Take note that the session is over, and of what ended it early."""
        ...


class Observer(Protocol):
    """Watches everything in this process."""

    def run(self, method: Any) -> RunObserver:
        """Begin to watch a session that judges with `method`."""
        ...

    async def node(
        self, name: str, agent: Callable[..., Awaitable[Any]], arguments: Mapping[str, Any]
    ) -> Any:
        """Call a node's agent and return what it yields."""
        ...

    def model(self, model: Any) -> Any:
        """Return the model, watched."""
        ...


class Watch:
    """Holds the observer, `None` when off."""

    observer: Observer | None = None


WATCH = Watch()
