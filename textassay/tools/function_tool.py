"""A tool made of one function: what users write who have a metric of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from textassay.runtime.messages import Example, Scale
from textassay.tools.tool import Abstention, Measurement, Need, TextTool

Measure = Callable[
    [Example], float | Measurement | Abstention | Awaitable[float | Measurement | Abstention]
]
"""What `tool` makes a tool of; a plain function runs in a worker thread, a coroutine function on
the event loop."""


class FunctionTool(TextTool):
    """A tool made of one function; usually written with the decorator `tool`."""

    def __init__(
        self,
        function: Measure,
        *,
        name: str,
        description: str,
        scale: Scale | None = None,
        higher_is_better: bool = True,
        needs: tuple[Need, ...] = (),
        revision: str = "1",
    ) -> None:
        """Keep the function and what is said about it.

        Args:
            function: Takes an `Example` and returns a number (or a `Measurement`, or an
                `Abstention`).
            name: Name of the tool.
            description: Words for a planner.
            scale: Lowest and highest value; `None` if unbounded.
            higher_is_better: Whether a high value speaks for the text.
            needs: Inputs without which the tool abstains.
            revision: Part of the signature; change it when the function starts to give other
                numbers.
        """
        self.function, self.name, self.description = function, name, description
        self.scale, self.higher_is_better, self.needs, self.revision = (
            scale,
            higher_is_better,
            needs,
            revision,
        )

    def settings(self) -> Mapping[str, object]:
        """The revision that the author gave."""
        return {"function": self.function.__qualname__, "revision": self.revision}

    def renamed(self, name: str) -> FunctionTool:
        """Return the same tool under another name."""
        return FunctionTool(
            self.function,
            name=name,
            description=self.description,
            scale=self.scale,
            higher_is_better=self.higher_is_better,
            needs=self.needs,
            revision=self.revision,
        )

    async def measure(self, example: Example) -> Measurement | Abstention:
        """Call the function."""
        # A plain function may compute for seconds, so it must not run on the event loop.
        if asyncio.iscoroutinefunction(self.function):
            value = await self.function(example)
        else:
            value = await asyncio.to_thread(self.function, example)
        return value if isinstance(value, Measurement | Abstention) else Measurement(value=value)


def tool(
    *,
    description: str,
    name: str | None = None,
    scale: Scale | None = None,
    higher_is_better: bool = True,
    needs: tuple[Need, ...] = (),
    revision: str = "1",
) -> Callable[[Measure], FunctionTool]:
    """Make a tool of a function from an example to a number.

    Args:
        description: Words for a planner: what is measured, its range, what is compared with what.
        name: Name of the tool; the function's own if left out.
        scale: Lowest and highest value; `None` if unbounded.
        higher_is_better: Whether a high value speaks for the text.
        needs: Inputs without which the tool abstains; the function may then rely on them.
        revision: Part of the signature; change it when the function starts to give other numbers.
    """

    def wrap(function: Measure) -> FunctionTool:
        return FunctionTool(
            function,
            name=name or function.__name__,
            description=description,
            scale=scale,
            higher_is_better=higher_is_better,
            needs=needs,
            revision=revision,
        )

    return wrap
