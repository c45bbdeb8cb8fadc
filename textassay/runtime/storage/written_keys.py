"""Which keys this process has written: a set that never grows and may know a key too many.

Knows keys only; `answers.py` asks it whether a file is worth reading.
"""

from __future__ import annotations

BITS = 25
"""A key sets one of 2^25 bits, 4 MB: of a million keys written, 3 % of the others seem known."""

_MASK = (1 << BITS) - 1


class WrittenKeys:
    """Keys by one bit of their hash, which differs from process to process."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << (BITS - 3))

    def add(self, key: str) -> None:
        """Add a key."""
        place = hash(key) & _MASK
        self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, key: str) -> bool:
        """Return `False` only if the key was never added."""
        place = hash(key) & _MASK
        return self._bits[place >> 3] >> (place & 7) & 1 == 1
