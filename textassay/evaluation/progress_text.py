"""The state of a run in words, for terminals and notebooks."""

from __future__ import annotations

import math

from textassay.evaluation.progress import Progress


def line(now: Progress) -> str:
    """Return the whole state in one line."""
    return " | ".join([*speed(now), *effort(now), *problems(now)])


def speed(now: Progress) -> list[str]:
    """Say how far the run is and how fast it goes."""
    parts = [
        f"{now.done}/{now.total}" if now.total is not None else f"{now.done} done",
        f"{now.rate:.1f}/s",
    ]
    if now.done == now.total:
        parts.append(f"took {clock(now.seconds)}")
    elif now.seconds_left is not None:
        parts.append(f"{clock(now.seconds_left)} left")
    return parts


def effort(now: Progress) -> list[str]:
    """Say what was asked, what it cost, and what is in flight."""
    usage = now.usage
    parts = [
        f"{usage.calls} calls" + (f" + {usage.cached_calls} cached" if usage.cached_calls else "")
    ]
    if usage.cost:
        parts.append(f"${usage.cost:.4f}")
    for name, state in now.limiters.items():
        waits = f", paused {math.ceil(state.paused_for)} s" if state.paused_for > 0 else ""
        parts.append(
            f"{name if len(now.limiters) > 1 else 'in flight'}"
            f" {state.in_flight}/{state.limit}{waits}"
        )
    return parts


def problems(now: Progress) -> list[str]:
    """Say what is unscored, and which attempts failed."""
    unscored = {kind: count for kind, count in now.outcomes.items() if kind != "scored" and count}
    return [
        *(f"{count} {kind}" for kind, count in sorted(unscored.items())),
        *(f"{kind} x{count}" for kind, count in sorted(now.failures.items())),
    ]


def clock(seconds: float) -> str:
    """Return a duration as `1:02:03` or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
