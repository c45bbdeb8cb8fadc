"""How long batches are waited for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """How long what is waited for, in seconds."""

    quiet: float = 2.0
    """Time without a further request after which a batch is cut."""
    poll: float = 60.0
    """Longest time between two looks at a batch."""
    outage: float = 300.0
    """Time that a provider may fail every call."""
    call: float = 120.0
    """Time for one small call; uploads and results get ten times as long."""
    unread: float = 3600.0
    """Time that a provider may take to read an uploaded file."""
    room: float = 1800.0
    """Time that a provider may have no room for a batch while no other of the run is running."""
