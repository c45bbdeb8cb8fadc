"""Divides a cost limit among workers, a little at a time."""

from __future__ import annotations

from textassay.runtime.calls.budget import ROUNDING
from textassay.runtime.errors import BudgetReached, parameter

SHARES = 4
"""A grant is at most one of so many parts of what one worker could get of the rest. Grants become
smaller toward the end, where what is granted to one worker is missing to another."""


class SharedBudget:
    """US dollars that all workers of a run may spend together.

    What a worker was granted counts as spent if the worker is lost: nobody knows what it had in
    flight.
    """

    def __init__(self, max_cost: float | None) -> None:
        """Set the limit; `None` for none."""
        self.max_cost = max_cost
        self._left = max_cost or 0.0

    def grant(self, needed: float, workers: int) -> float:
        """Return what a worker may spend further; 0 if `needed` is more than what is left.

        Args:
            needed: What its next request may cost; 0 if it does not wait for money.
            workers: The number of workers.
        """
        if self.max_cost is None or self.is_short_of(needed):
            return 0.0
        # a share rather than all: what is granted to one worker cannot be taken back for another
        granted = max(needed, self._left / (SHARES * max(1, workers)))
        self._left -= granted
        return granted

    def give_back(self, unspent: float) -> None:
        """Take back what a worker was granted and did not spend."""
        if self.max_cost is not None:
            self._left += unspent

    def matters(self, amount: float) -> bool:
        """Return whether an amount is more than the rounding of sums."""
        return amount > ROUNDING * (self.max_cost or 0.0)

    def is_short_of(self, needed: float) -> bool:
        """Return whether a worker wants more than what is left."""
        return self.max_cost is not None and self.matters(needed - self._left)

    def reached(self, spent: float, needed: float) -> BudgetReached:
        """Return the error that says what was spent by all workers together."""
        return BudgetReached(
            f"the cost limit of ${self.max_cost:g} is reached: ${spent:.4f} is spent by all workers"
            f" and the next request may cost ${needed:.4f}; resume with a higher"
            f" {parameter('max_cost')}"
        )
